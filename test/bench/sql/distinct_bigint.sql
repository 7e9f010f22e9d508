CREATE UNLOGGED TABLE t AS SELECT bench_key(i, :rows) AS k FROM generate_series(1, :rows::bigint) i;
VACUUM ANALYZE t;
