-- The aggregates in parallel: Partial Aggregate in every process, combined by Finalize Aggregate. The results are
-- compared with those of the serial plan. The number of workers that a server grants can differ, so every check must
-- pass for any number.

\set QUIET on
CREATE SCHEMA parallel_test;
SET search_path = parallel_test, public;
CREATE TABLE hits AS SELECT i, i % 4000 AS u, 'user ' || i % 3000 AS name, i % 5 AS day
FROM generate_series(1, 20000) i;
ALTER TABLE hits SET (parallel_workers = 4);
CREATE TABLE few AS SELECT i, i % 100 AS u FROM generate_series(1, 20000) i;
ALTER TABLE few SET (parallel_workers = 4);
CREATE TABLE once AS SELECT i AS u FROM generate_series(1, 3000) i;
ALTER TABLE once SET (parallel_workers = 4);
ANALYZE hits, few, once;
CREATE FUNCTION plan_has(query text, node text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		IF position(node IN line) > 0 THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;

SET max_parallel_workers_per_gather = 0;
CREATE TABLE serial AS SELECT dedup_agg(dedup_filter(1000000), u) AS exact,
	dedup_agg(dedup_filter(4000), u) AS blocked_bloom,
	dedup_agg(dedup_filter(4000, 0.00001), u) AS bloom,
	dedup_agg(dedup_filter(3000), name, day) AS overfull_pairs,
	dedup_agg(dedup_method('ring', NULL, 'keys=1000'), u) AS ring FROM hits;
CREATE TABLE serial_days AS SELECT day, dedup_agg(dedup_filter(1000), u) AS f FROM hits
GROUP BY day;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
\set QUIET off

-- the planner does put Partial Aggregates below a Gather

SELECT plan_has('SELECT dedup_agg(u) FROM hits', 'Partial Aggregate') AS partial,
	plan_has('SELECT dedup_agg(u) FROM hits', 'Finalize Aggregate') AS finalize,
	plan_has('SELECT dedup_agg(dedup_filter(10), u, name) FROM hits', 'Partial Aggregate')
		AS prototype,
	plan_has('SELECT dedup_merge_agg(dedup_add(dedup_filter(10), u)) FROM hits', 'Partial Aggregate') AS merge,
	plan_has('SELECT day, dedup_agg(u) FROM hits GROUP BY day', 'Partial') AS groups;

-- with 1, 2 and 4 workers filters that never forget and are made for a number of keys have
-- the serial bytes: exact, full, and overfull (growing.sql has those that grow)

SET client_min_messages = error;
SET max_parallel_workers_per_gather = 1;
SELECT dedup_agg(dedup_filter(1000000), h.u)::text = (SELECT exact::text FROM serial) AS exact,
	dedup_agg(dedup_filter(4000), h.u)::text = (SELECT blocked_bloom::text FROM serial)
		AS blocked_bloom,
	dedup_agg(dedup_filter(4000, 0.00001), h.u)::text = (SELECT bloom::text FROM serial) AS bloom,
	dedup_agg(dedup_filter(3000), name, day)::text = (SELECT overfull_pairs::text FROM serial)
		AS pairs FROM hits h;
SET max_parallel_workers_per_gather = 2;
SELECT dedup_agg(dedup_filter(1000000), h.u)::text = (SELECT exact::text FROM serial) AS exact,
	dedup_agg(dedup_filter(4000), h.u)::text = (SELECT blocked_bloom::text FROM serial)
		AS blocked_bloom,
	dedup_agg(dedup_filter(4000, 0.00001), h.u)::text = (SELECT bloom::text FROM serial) AS bloom,
	dedup_agg(dedup_filter(3000), name, day)::text = (SELECT overfull_pairs::text FROM serial)
		AS pairs FROM hits h;
SET max_parallel_workers_per_gather = 4;
SELECT dedup_agg(dedup_filter(1000000), h.u)::text = (SELECT exact::text FROM serial) AS exact,
	dedup_agg(dedup_filter(4000), h.u)::text = (SELECT blocked_bloom::text FROM serial)
		AS blocked_bloom,
	dedup_agg(dedup_filter(4000, 0.00001), h.u)::text = (SELECT bloom::text FROM serial) AS bloom,
	dedup_agg(dedup_filter(3000), name, day)::text = (SELECT overfull_pairs::text FROM serial)
		AS pairs FROM hits h;

-- in groups, too, hashed and sorted

SELECT bool_and(p.f::text = s.f::text) AS hashed, count(*) AS days
FROM (SELECT day, dedup_agg(dedup_filter(1000), u) AS f FROM hits GROUP BY day) p
JOIN serial_days s USING (day);
SET enable_hashagg = off;
SELECT bool_and(p.f::text = s.f::text) AS sorted, count(*) AS days
FROM (SELECT day, dedup_agg(dedup_filter(1000), u) AS f FROM hits GROUP BY day) p
JOIN serial_days s USING (day);
RESET enable_hashagg;

-- FILTER, and a group that a worker has no row of

SELECT count(*) AS groups, bool_and(coalesce(dedup_count(f), 0) = oracle) AS "right"
FROM (SELECT i / 100, dedup_agg(dedup_filter(1000), u) FILTER (WHERE i % 3 = 0),
		count(DISTINCT CASE WHEN i % 3 = 0 THEN u END) FROM hits GROUP BY i / 100) x(g, f, oracle);
SELECT dedup_agg(u) IS NULL AS no_rows FROM hits WHERE i < 0;
SELECT dedup_count(dedup_agg(u)) = 1 AS one_row FROM hits WHERE i = 77;
SELECT dedup_count(dedup_agg(NULLIF(u, u))) = 0 AS only_nulls FROM hits;

-- a window holds the same keys as the serial one while all fit

SELECT bool_and(dedup_contains(recent, i) = (i < 100)) AS recent,
	bool_and(dedup_contains(ring, i) = (i < 100)) AS ring,
	bool_and(dedup_count(recent) = 100 AND dedup_count(ring) = 100) AS count
FROM (SELECT dedup_agg(dedup_window(1000), u) AS recent,
			dedup_agg(dedup_method('ring', NULL, 'keys=1000'), u) AS ring FROM few) x,
	generate_series(0, 999) i;

-- and so it does when it is past its exact form

SELECT NOT exact AS full, bool_and(dedup_contains(f, i)) AS all_kept, count(*) AS keys
FROM (SELECT dedup_agg(dedup_window(6000), u) AS f FROM once) x, dedup_stats(f),
	generate_series(1, 3000) i GROUP BY exact;
SELECT NOT exact AS full, bool_and(dedup_contains(f, i)) AS all_kept, count(*) AS keys
FROM (SELECT dedup_agg(dedup_method('ring', NULL, 'keys=6000'), u) AS f FROM once) x,
	dedup_stats(f), generate_series(1, 3000) i GROUP BY exact;

-- beyond that it still holds about a window of keys, and its rate is the one asked for

SELECT fpr_now <= 1.1 * fpr AS rate,
	count(*) FILTER (WHERE dedup_contains(f, -i)) <= 1.1 * fpr * 20000 + 4 * sqrt(fpr * 20000)
		AS measured
FROM (SELECT dedup_agg(dedup_window(1000, 0.01), u) AS f FROM hits) x, dedup_stats(f),
	generate_series(1, 20000) i GROUP BY fpr, fpr_now;

-- two processes that take turns, as two groups do here, lose no more than one key in a
-- thousand of the window to it

SELECT (missed - serial_missed) / 10000.0 <= 0.001 AS as_the_serial_one,
	serial_missed / 10000.0 <= 0.001 AS serial FROM (
	SELECT count(*) FILTER (WHERE is_new(merged, i)) AS missed,
		count(*) FILTER (WHERE is_new(serial, i)) AS serial_missed
	FROM (SELECT dedup_merge_agg(f) AS merged
		FROM (SELECT dedup_agg(dedup_window(10000), i ORDER BY i) AS f
			FROM generate_series(1, 40000) i GROUP BY i % 2) x) m,
		(SELECT dedup_agg(dedup_window(10000), i ORDER BY i) AS serial
			FROM generate_series(1, 40000) i) s, generate_series(30001, 40000) i) x;

-- dedup_merge_agg in parallel has the serial bytes

SELECT dedup_merge_agg(dedup_add(dedup_filter(4000), h.u))::text = (SELECT blocked_bloom::text
	FROM serial) AS merged FROM hits h;

-- partitionwise, whole groups and parts of them

CREATE TABLE parted (day int, u int) PARTITION BY LIST (day);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0, 1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES IN (3, 4);
INSERT INTO parted SELECT day, u FROM hits;
ANALYZE parted;
SET enable_partitionwise_aggregate = on;
SELECT bool_and(p.f::text = s.f::text) AS groups, count(*) AS days
FROM (SELECT day, dedup_agg(dedup_filter(1000), u) AS f FROM parted GROUP BY day) p
JOIN serial_days s USING (day);
SET max_parallel_workers_per_gather = 0;
SELECT plan_has('SELECT dedup_agg(u) FROM parted', 'Partial Aggregate') AS partial_without_parallel;
SELECT dedup_agg(dedup_filter(1000000), u)::text = (SELECT exact::text FROM serial) AS parts,
	dedup_agg(dedup_filter(4000, 0.00001), u)::text = (SELECT bloom::text FROM serial) AS bloom,
	dedup_count(dedup_agg(dedup_window(100000), u)) = 4000 AS recent,
	dedup_count(dedup_agg(dedup_method('ring', NULL, 'keys=100000'), u)) = 4000 AS ring FROM parted;
SET max_parallel_workers_per_gather = 4;
SELECT dedup_agg(dedup_filter(1000000), u)::text = (SELECT exact::text FROM serial) AS parts,
	dedup_agg(dedup_filter(4000, 0.00001), u)::text = (SELECT bloom::text FROM serial) AS bloom
FROM parted;
RESET enable_partitionwise_aggregate;

-- a query that the server is made to run in a worker gives the same answers: all
-- functions are PARALLEL SAFE

\set QUIET on
SELECT set_config(CASE
			WHEN current_setting('server_version_num')::int >= 160000 THEN 'debug_parallel_query'
			ELSE 'force_parallel_mode' END, 'on', false) = 'on' AS forced \gset
\set QUIET off
SELECT dedup_agg(dedup_filter(1000000), h.u)::text = (SELECT exact::text FROM serial) AS agg FROM hits h;
SELECT count(*) FILTER (WHERE is_new(blocked_bloom, i)) = 0 AS none_missed,
	count(*) FILTER (WHERE dedup_contains(blocked_bloom, -i)) < 60 AS few_found
FROM serial, generate_series(1, 3999) i;
SELECT count(*) FILTER (WHERE is_new(blocked_bloom, u)) = 0 AS none_missed,
	count(*) FILTER (WHERE dedup_contains(blocked_bloom, -1 - i)) < 300 AS few_found
FROM serial, hits;
SELECT count(*) FILTER (WHERE first) = 4000 AS first_rows
FROM (SELECT dedup_is_new(u) OVER (ORDER BY i) AS first FROM hits) x;

\set QUIET on
DROP SCHEMA parallel_test CASCADE;
