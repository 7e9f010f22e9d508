-- Need D4: an aggregate that is not parallel makes the whole query serial. These aggregates are parallel, with the
-- same result.

\set QUIET on
CREATE SCHEMA need_d4;
SET search_path = need_d4, public;
CREATE TABLE p AS SELECT i % 50000 AS u, i % 4 AS part FROM generate_series(1, 200000) i;
ANALYZE p;
CREATE TABLE parted (u int, part int) PARTITION BY LIST (part);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0, 1);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (2, 3);
INSERT INTO parted SELECT * FROM p;
ANALYZE parted;
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
CREATE TABLE serial AS SELECT dedup_agg(dedup_filter(1000000), u) AS exact, dedup_agg(dedup_filter(50000), u) AS f,
	count(DISTINCT u) AS n FROM p;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
\set QUIET off

SELECT plan_has('SELECT dedup_agg(u) FROM p', 'Partial Aggregate') AS partial,
	plan_has('SELECT dedup_agg(u) FROM p', 'Finalize Aggregate') AS finalize;
SELECT dedup_agg(dedup_filter(1000000), u)::text = (SELECT exact::text FROM serial) AS exact,
	dedup_agg(dedup_filter(50000), u)::text = (SELECT f::text FROM serial) AS full,
	dedup_count(dedup_agg(dedup_filter(1000000), u)) = (SELECT n FROM serial) AS count,
	dedup_count(dedup_agg(u)) / (SELECT n::float8 FROM serial) BETWEEN 0.99 AND 1.01 AS grown FROM p;

-- with partitionwise aggregation, and where the server is made to use workers for everything

SET enable_partitionwise_aggregate = on;
SELECT dedup_agg(dedup_filter(1000000), u)::text = (SELECT exact::text FROM serial) AS exact,
	dedup_agg(dedup_filter(50000), u)::text = (SELECT f::text FROM serial) AS full,
	dedup_count(dedup_agg(dedup_filter(1000000), u)) = (SELECT n FROM serial) AS count,
	dedup_count(dedup_agg(u)) / (SELECT n::float8 FROM serial) BETWEEN 0.99 AND 1.01 AS grown FROM parted;
\set QUIET on
SELECT set_config(CASE
			WHEN current_setting('server_version_num')::int >= 160000 THEN 'debug_parallel_query'
			ELSE 'force_parallel_mode' END, 'on', false) = 'on' AS forced \gset
\set QUIET off
SELECT dedup_agg(dedup_filter(1000000), u)::text = (SELECT exact::text FROM serial) AS exact,
	dedup_agg(dedup_filter(50000), u)::text = (SELECT f::text FROM serial) AS full,
	dedup_count(dedup_agg(dedup_filter(1000000), u)) = (SELECT n FROM serial) AS count,
	dedup_count(dedup_agg(u)) / (SELECT n::float8 FROM serial) BETWEEN 0.99 AND 1.01 AS grown FROM p;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_d4 CASCADE;
