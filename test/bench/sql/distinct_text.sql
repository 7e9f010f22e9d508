-- 52 bytes
CREATE UNLOGGED TABLE t AS SELECT 'https://example.org/' || md5(bench_key(i, :rows)::text) AS k FROM generate_series(1, :rows::bigint) i;
VACUUM ANALYZE t;
