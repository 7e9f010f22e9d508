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

-- a method that cannot be merged says how to do without; partitionwise, since there the
-- partial states are two for certain

\set QUIET on
CREATE TABLE parted (key int) PARTITION BY HASH (key);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parted SELECT key FROM hits;
ANALYZE parted;
SET max_parallel_workers_per_gather = 0;
SET enable_partitionwise_aggregate = on;
\set QUIET off
SELECT dedup_agg(dedup_method('rsbf', '64kB'), key) FROM parted;
\echo :LAST_ERROR_SQLSTATE
\set QUIET on
RESET enable_partitionwise_aggregate;
\set QUIET off
SELECT dedup_count(dedup_agg(dedup_method('rsbf', '64kB'), key)) BETWEEN 3000 AND 7000 AS serial FROM parted;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA parallel_methods CASCADE;
