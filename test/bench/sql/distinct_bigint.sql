-- and a column of a thousand values, which the planner knows
CREATE UNLOGGED TABLE t AS SELECT k, k % 1000 AS few FROM (SELECT bench_key(i, :rows) AS k FROM generate_series(1, :rows::bigint) i) s;
VACUUM ANALYZE t;
