-- Every method that can be merged, below its capacity, aggregated with 1, 2 and 4 workers and without. There are at
-- most 1.1 times as many false positives as in the serial plan, and the share of missed keys is at most 0.1 points
-- higher, within the limits of chance.

\set QUIET on
CREATE SCHEMA parallel_methods;
SET search_path = parallel_methods, public;
-- 6,000 keys ten times, in an order of no plan's making
CREATE TABLE hits AS SELECT (i::bigint * 7919 % 60000 * 31) % 6000 AS key FROM generate_series(1, 60000) i;
ALTER TABLE hits SET (parallel_workers = 4);
ANALYZE hits;
-- as the server lists them
CREATE TABLE methods AS
SELECT DISTINCT method, regexp_replace(prototype, '^.*[ '']fpr=[^ '']* ?([^'']*)''\)$', '\1') AS options
FROM unnest('{0.3,0.01}'::float8[]) fpr, dedup_advise(5000, fpr, NULL, NULL, false, true)
UNION VALUES ('qhtd', 'k=4'), ('qqht', 'k=4'), ('qqhtd', 'k=4');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE FUNCTION built(prototype dedup_filter, workers int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter;
BEGIN
	PERFORM set_config('max_parallel_workers_per_gather', workers::text, true);
	EXECUTE format('SELECT dedup_agg(%L::dedup_filter, key) FROM hits', prototype) INTO f;
	RETURN f;
END $$;
-- partial: what a plan of so many workers makes of it
CREATE FUNCTION partial(prototype dedup_filter, workers int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('max_parallel_workers_per_gather', workers::text, true);
	FOR line IN EXECUTE format('EXPLAIN SELECT dedup_agg(%L::dedup_filter, key) FROM hits', prototype) LOOP
		IF line LIKE '%Partial Aggregate%' THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
CREATE TABLE measured AS
SELECT method, options, workers, partial,
	1 - (SELECT count(*) FROM dedup_new_keys(f, strange)) / 20000.0 AS fpr,
	(SELECT count(*) FROM dedup_new_keys(f, added)) / 6000.0 AS fnr
FROM methods, unnest('{0,1,2,4}'::int[]) workers,
	(SELECT ARRAY(SELECT generate_series(-20000, -1)) AS strange, ARRAY(SELECT generate_series(0, 5999)) AS added OFFSET 0) w,
	LATERAL (SELECT dedup_method(method, NULL, CASE WHEN method <> 'infini' THEN 'keys=8000 ' ELSE '' END || options, 5) AS e OFFSET 0) x,
	LATERAL (SELECT built(e, workers) AS f, partial(e, workers) AS partial OFFSET 0) y;
\set QUIET off

-- each is NULL if it holds for all methods, else it says for which not
SELECT count(*) > 20 AS many,
	string_agg(method || ' ' || options, ', ') FILTER (WHERE planned IS NOT TRUE) AS not_planned,
	string_agg(method || ' ' || options, ', ') FILTER (WHERE fpr IS NOT TRUE) AS fpr_too_high,
	string_agg(method || ' ' || options, ', ') FILTER (WHERE fnr IS NOT TRUE) AS fnr_too_high
FROM (SELECT method, options, bool_and(p.partial AND NOT s.partial) AS planned,
		bool_and(p.fpr <= 1.1 * s.fpr + 3 * sqrt(2 * s.fpr / 20000)) AS fpr,
		bool_and(p.fnr <= s.fnr + 0.001 + 3 * sqrt(2 * s.fnr / 6000)) AS fnr
	FROM measured s JOIN measured p USING (method, options)
	WHERE s.workers = 0 AND p.workers > 0 GROUP BY method, options) x;

-- A method that cannot be merged gives the same filter whatever the plan: if the planner knows the prototype, it makes
-- no partial aggregates (from PostgreSQL 14 on; before, they raise an error). Both plans read the rows in the same order.

\set QUIET on
CREATE TABLE parted (key int) PARTITION BY RANGE (key);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES FROM (0) TO (3000);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (3000) TO (6000);
INSERT INTO parted SELECT key FROM hits;
ANALYZE parted;
CREATE TABLE stored (at int, f dedup_filter) PARTITION BY RANGE (at);
CREATE TABLE stored_0 PARTITION OF stored FOR VALUES FROM (0) TO (1);
CREATE TABLE stored_1 PARTITION OF stored FOR VALUES FROM (1) TO (2);
INSERT INTO stored SELECT i, dedup_add(dedup_method('rsbf', '1kB'), i) FROM generate_series(0, 1) i;
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	whole text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		whole := whole || line || E'\n';
	END LOOP;
	RETURN whole;
END $$;
-- result: the result of a query, or the SQLSTATE and the HINT of its error
CREATE FUNCTION result(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE query INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS result = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || result;
END $$;
\set known 'SELECT md5(dedup_agg(dedup_method(''rsbf'', ''64kB''), key)::text) FROM parted'
SELECT result(:'known') AS serial \gset
SET enable_partitionwise_aggregate = on;
SELECT plan(:'known') AS plan, result(:'known') AS result, current_setting('server_version_num')::int < 140000 AS old \gset
\set QUIET off
SELECT :'old' OR :'plan' NOT LIKE '%Partial%' AS whole, CASE WHEN :'old' THEN :'result' LIKE '0A000%' ELSE :'result' = :'serial' END AS same;
-- the same beside an aggregate that can be merged
\set both 'SELECT count(*), dedup_agg(dedup_method(''rsbf'', ''64kB''), key) FROM parted'
SELECT plan('SELECT count(*) FROM parted') LIKE '%Partial%' AS partial_alone,
	:'old' OR plan(:'both') NOT LIKE '%Partial%' AS whole_together;
-- and below a join, where PostgreSQL 19 aggregates first if that leaves few rows
\set QUIET on
CREATE TABLE facts AS SELECT key, key % 10 AS kind FROM hits;
CREATE TABLE kinds AS SELECT i AS kind, i % 3 AS third FROM generate_series(0, 9) i;
ANALYZE facts, kinds;
\set QUIET off
\set joined 'SELECT third, dedup_agg(dedup_method(''rsbf'', ''64kB''), key) FROM facts JOIN kinds USING (kind) GROUP BY third'
SELECT plan(:'joined') NOT LIKE '%Partial%' AS whole, result(:'joined') NOT LIKE '0A000%' AS no_error;

-- If the planner does not know the prototype, a plan with partial aggregates raises an error, also where all rows are
-- in one partition, so that there is nothing to merge.

\set unknown 'SELECT dedup_agg(dedup_method(''rsbf'', current_setting(''block_size'')), key) FROM parted WHERE key % 5999 = 1'
SELECT plan(:'unknown') LIKE '%Partial%' AS partial, (SELECT min(key) = max(key) FROM parted WHERE key % 5999 = 1) AS one_partition;
SELECT dedup_agg(dedup_method('rsbf', current_setting('block_size')), key) FROM parted WHERE key % 5999 = 1;
\echo :LAST_ERROR_SQLSTATE
\set QUIET on
RESET enable_partitionwise_aggregate;
\set QUIET off
SELECT dedup_count(dedup_agg(dedup_method('rsbf', current_setting('block_size')), key)) AS serial FROM parted WHERE key % 5999 = 1;

-- A merge of such filters raises the same error in every plan, and one filter is returned in every plan.

SELECT p.setting AS partitionwise, plan(q) LIKE '%Partial%' AS partial, result(q)
FROM (VALUES ('off'), ('on')) p (setting),
	(VALUES ('SELECT dedup_count(dedup_merge_agg(f)) FROM stored'),
		('SELECT dedup_count(dedup_merge_agg(f) FILTER (WHERE at = 1)) FROM stored')) v (q),
	LATERAL (SELECT set_config('enable_partitionwise_aggregate', p.setting, false) OFFSET 0) s;
RESET enable_partitionwise_aggregate;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA parallel_methods CASCADE;
