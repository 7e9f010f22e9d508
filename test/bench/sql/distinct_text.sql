-- 52 bytes; and a column of a thousand values, which the planner knows
CREATE UNLOGGED TABLE t AS SELECT 'https://example.org/' || md5(k::text) AS k, 'https://example.org/' || md5((k % 1000)::text) AS few
FROM (SELECT bench_key(i, :rows) AS k FROM generate_series(1, :rows::bigint) i) s;
VACUUM ANALYZE t;
