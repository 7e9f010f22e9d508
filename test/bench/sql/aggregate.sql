-- How many distinct keys? dedup_agg beside hll, over bigint and text keys, about 63 % of them
-- distinct, in random order. hll comes first: the report's ratios are to its time. The exact ways
-- are in distinct.sh.

CREATE UNLOGGED TABLE bench_bigint AS
	SELECT i AS id, (hashint8extended(i, 1) & 9223372036854775807) % :rows AS k FROM generate_series(1, :rows::bigint) i;
CREATE UNLOGGED TABLE bench_text AS SELECT id, md5(k::text) AS k FROM bench_bigint;
VACUUM ANALYZE bench_bigint, bench_text;

INSERT INTO bench_query (name, what, work_mem, query)
	SELECT type, what, work_mem, format(query, type, :rows)
	FROM (VALUES ('bigint'), ('text')) types (type), (VALUES
		(3, 'dedup_agg(k)', NULL, 'SELECT dedup_count(dedup_agg(k)) FROM bench_%1$s'),
		(1, 'dedup_agg(dedup_filter(rows, 0.01), k)', NULL, 'SELECT dedup_count(dedup_agg(dedup_filter(%2$s, 0.01), k)) FROM bench_%1$s'),
		(2, 'dedup_agg(dedup_window(rows, 0.01), k)', NULL, 'SELECT dedup_count(dedup_agg(dedup_window(%2$s, 0.01), k)) FROM bench_%1$s'),
		(9, 'approx_count_distinct(k)', NULL, 'SELECT approx_count_distinct(k) FROM bench_%1$s'),
		(0, 'hll_add_agg', NULL, 'SELECT (#hll_add_agg(hll_hash_%1$s(k)))::bigint FROM bench_%1$s'),
		(8, 'only reading: count(k)', NULL, 'SELECT count(k) FROM bench_%1$s')
	) queries (n, what, work_mem, query)
	ORDER BY type, n;
CALL bench('bigint', :rounds);
CALL bench('text', :rounds);

\echo :rows 'bigint keys'
SELECT what, work_mem, "min s", "median s", "times the first", answer FROM bench_report WHERE name = 'bigint' ORDER BY n;
\echo :rows 'text keys'
SELECT what, work_mem, "min s", "median s", "times the first", answer FROM bench_report WHERE name = 'text' ORDER BY n;
DROP TABLE bench_bigint, bench_text;
