CREATE UNLOGGED TABLE t AS SELECT (k >> 11)::int AS a, (k & 2047)::int AS b FROM (SELECT bench_key(i, :rows) AS k FROM generate_series(1, :rows::bigint) i) s;
VACUUM ANALYZE t;
