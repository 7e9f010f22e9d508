-- The first row of each key. dedup_is_new reads in the order of an index on
-- id. DISTINCT ON must sort by key, or reads an index on key and id.
-- The node of dedup_is_new is planned in sessions that have loaded the library.

LOAD 'streamdedup';

CREATE UNLOGGED TABLE bench_click AS
	SELECT i AS id, (hashint8extended(i, 1) & 9223372036854775807) % :rows AS k FROM generate_series(1, :rows::bigint) i;
CREATE INDEX ON bench_click (id) INCLUDE (k);
CREATE INDEX bench_click_key ON bench_click (k, id);
VACUUM ANALYZE bench_click;

INSERT INTO bench_query (name, what, work_mem, query, setting)
SELECT 'window', what, work_mem, replace(query, 'ROWS', :'rows'), setting FROM (VALUES
	('no question: row_number()', NULL,
		'SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY id) AS n FROM bench_click) s WHERE n IS NOT NULL', NULL),
	('reading in that order', NULL, 'SELECT count(*) FROM (SELECT id, k FROM bench_click ORDER BY id OFFSET 0) s', NULL),
	('dedup_is_new(k)', NULL,
		'SELECT count(*) FROM (SELECT dedup_is_new(k) OVER (ORDER BY id) AS n FROM bench_click) s WHERE n', NULL),
	('dedup_is_new(k), by WindowAgg', NULL,
		'SELECT count(*) FROM (SELECT dedup_is_new(k) OVER (ORDER BY id) AS n FROM bench_click) s WHERE n', 'streamdedup.streaming_window=off'),
	('dedup_is_new(dedup_filter(rows, 0.01), k)', NULL,
		'SELECT count(*) FROM (SELECT dedup_is_new(dedup_filter(ROWS, 0.01), k) OVER (ORDER BY id) AS n FROM bench_click) s WHERE n', NULL),
	('dedup_is_new(dedup_filter(rows, 0.01), k), by WindowAgg', NULL,
		'SELECT count(*) FROM (SELECT dedup_is_new(dedup_filter(ROWS, 0.01), k) OVER (ORDER BY id) AS n FROM bench_click) s WHERE n', 'streamdedup.streaming_window=off'),
	('dedup_is_new(dedup_window(rows / 10, 0.001), k)', NULL,
		'SELECT count(*) FROM (SELECT dedup_is_new(dedup_window(ROWS / 10, 0.001), k) OVER (ORDER BY id) AS n FROM bench_click) s WHERE n', NULL),
	('dedup_is_new(k), all rows', NULL,
		'SELECT count(n) FROM (SELECT id, k, dedup_is_new(k) OVER (ORDER BY id) AS n FROM bench_click) s', NULL),
	('DISTINCT ON, sorting', '4MB',
		'SELECT count(*) FROM (SELECT DISTINCT ON (k + 0) k, id FROM bench_click ORDER BY k + 0, id) s', NULL),
	('DISTINCT ON, sorting', '1GB',
		'SELECT count(*) FROM (SELECT DISTINCT ON (k + 0) k, id FROM bench_click ORDER BY k + 0, id) s', NULL),
	('DISTINCT ON, from an index on (k, id)', NULL,
		'SELECT count(*) FROM (SELECT DISTINCT ON (k) k, id FROM bench_click ORDER BY k, id) s', NULL)) q(what, work_mem, query, setting);
CALL bench('window', :rounds);

\echo 'the first row of each key,' :rows 'rows in the order of an index'
SELECT what, work_mem, "min s", "median s", "times the first", answer FROM bench_report WHERE name = 'window' ORDER BY n;
SELECT pg_relation_size('bench_click_key') AS "bytes of the index on (k, id)",
	pg_column_size(dedup_agg(dedup_filter(:rows, 0.01), k)) AS "bytes of the filter" FROM bench_click;
DROP TABLE bench_click;
