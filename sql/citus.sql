-- Statements over distributed tables, as they are changed before Citus plans them. Citus is not installed here. Our
-- code only checks one of its settings, which any session can make, and the table pg_dist_partition. So the plans are
-- the server's own. test/citus.sh runs Citus.

\set QUIET on
CREATE SCHEMA citus_test;
SET search_path = citus_test, public;
SET client_min_messages = warning;
LOAD 'streamdedup';
CREATE DOMAIN d_bigint AS bigint;
CREATE TYPE dot AS (x int, c regclass);
CREATE TABLE clicks (page bigint, i bigint, d d_bigint, t text, c char(5), b bytea, o regclass, os regclass[], p dot, f dedup_filter);
INSERT INTO clicks SELECT i, i % 300, i % 300, i % 300, i % 300, decode(md5((i % 300)::text), 'hex'), 'pg_class', '{pg_class}', (1, 'pg_class')::dot, dedup_filter(i % 5 + 1)
FROM generate_series(1, 3000) i;
CREATE TABLE here (LIKE clicks);
INSERT INTO here SELECT * FROM clicks;
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line ~ 'Output|Agg' AND line ~ 'agg|count|worker' THEN
			RETURN NEXT regexp_replace(regexp_replace(trim(line), '''3w[^'']*''', '''prototype''', 'g'), '''\d+''::oid', 'oid', 'g');
		END IF;
	END LOOP;
END $$;
-- how often a plan uses an aggregate over hashes
CREATE FUNCTION hashed(query text) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM plan(query) l, regexp_matches(l, '_hashes\(', 'g') $$;

CREATE FUNCTION session_filter() RETURNS dedup_filter LANGUAGE plpgsql STABLE AS 'BEGIN RETURN dedup_filter(10); END';

-- of pg_dist_partition in another schema nobody thinks
CREATE TABLE pg_dist_partition (logicalrelid regclass);
INSERT INTO pg_dist_partition VALUES ('clicks');
SET citus.coordinator_aggregation_strategy = 'row-gather';
\set QUIET off
SELECT plan('SELECT dedup_agg(i) FROM clicks');
\set QUIET on
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (partmethod "char", logicalrelid regclass);
INSERT INTO pg_catalog.pg_dist_partition VALUES ('h', 'clicks');
CREATE TABLE pg_catalog.pg_dist_object (classid oid, objid oid);
\set QUIET off
SELECT plan('SELECT dedup_agg(i) FROM clicks');
\set QUIET on
INSERT INTO pg_catalog.pg_dist_object SELECT 'pg_extension'::regclass, oid FROM pg_extension WHERE extname = 'streamdedup';
RESET allow_system_table_mods;
\set QUIET off

-- each form; a local table is left as it is, but not one beside a distributed table

SELECT plan(query) FROM unnest(ARRAY[
	'SELECT dedup_agg(i) FROM clicks', 'SELECT dedup_agg(i, t) FROM clicks', 'SELECT dedup_agg(VARIADIC ARRAY[i, page]) FROM clicks',
	'SELECT dedup_agg(dedup_filter(100), i) FROM clicks', 'SELECT dedup_agg(dedup_filter(100), i, t) FROM clicks', 'SELECT approx_count_distinct(d) FROM clicks',
	$$SELECT dedup_agg('x'), dedup_agg(NULL), dedup_agg('a', i) FROM clicks$$, 'SELECT dedup_merge_agg(f) FROM clicks',
	'SELECT dedup_agg(i) FROM here', 'SELECT approx_count_distinct(here.i) FROM here, clicks']) query;

-- everywhere in a statement

SELECT query, hashed(query) FROM unnest(ARRAY[
	'SELECT i, approx_count_distinct(page) FROM clicks GROUP BY i HAVING approx_count_distinct(page) > 3 ORDER BY approx_count_distinct(page)',
	'SELECT approx_count_distinct(page) FILTER (WHERE i > 5) FROM clicks',
	'WITH w AS MATERIALIZED (SELECT dedup_agg(i) f FROM clicks) SELECT f FROM w',
	'SELECT * FROM (SELECT approx_count_distinct(i) AS n FROM clicks GROUP BY t OFFSET 0) x',
	'SELECT i FROM here WHERE i < (SELECT approx_count_distinct(i) FROM clicks)',
	'SELECT approx_count_distinct(i) FROM clicks UNION ALL SELECT approx_count_distinct(i) FROM here',
	'INSERT INTO here (i) SELECT approx_count_distinct(i) FROM clicks']) query;

-- not changed: DISTINCT and ORDER BY inside; a key that means something else on another server;
-- a count of filters; prototypes that would be evaluated twice, or depend on the session, or differ; one row that is ordered

SELECT query, hashed(query) FROM unnest(ARRAY[
	'SELECT dedup_agg(DISTINCT i) FROM clicks', 'SELECT dedup_agg(i ORDER BY i) FROM clicks', 'SELECT approx_count_distinct(o) FROM clicks', 'SELECT dedup_agg(i, os) FROM clicks', 'SELECT dedup_agg(p) FROM clicks',
	'SELECT dedup_agg(session_filter(), i) FROM clicks',
	'SELECT approx_count_distinct(f) FROM clicks', 'SELECT dedup_agg(dedup_filter((10 + random())::int), i) FROM clicks', 'SELECT dedup_agg((SELECT dedup_filter(10)), i) FROM clicks', 'SELECT dedup_agg(f, i) FROM clicks',
	'SELECT approx_count_distinct(i) n FROM clicks ORDER BY n LIMIT 1', 'SELECT approx_count_distinct(i) OVER () FROM clicks']) query;

-- the results are the same

SELECT bool_and(a.n = b.n) AS counts, bool_and(a.f::text = b.f::text) AS filters, bool_and(a.g::text = b.g::text) AS growing, bool_and(a.s::text = b.s::text) AS sip
FROM (SELECT t, approx_count_distinct(page) n, dedup_agg(dedup_filter(2000, 0.01, 42), page, t) f, dedup_agg(c) g, dedup_agg(dedup_method('bloom', NULL, 'keys=100 hash=sip', 7), b) s FROM clicks GROUP BY t) a
JOIN (SELECT t, approx_count_distinct(page) n, dedup_agg(dedup_filter(2000, 0.01, 42), page, t) f, dedup_agg(c) g, dedup_agg(dedup_method('bloom', NULL, 'keys=100 hash=sip', 7), b) s FROM here GROUP BY t) b USING (t);
SELECT approx_count_distinct(i, t) = (SELECT approx_count_distinct(i, t) FROM here) AS two, approx_count_distinct(page) = (SELECT approx_count_distinct(page) FROM here) AS large,
	approx_count_distinct(NULLIF(i, 7)) AS null_key, approx_count_distinct(i) FILTER (WHERE page < 0) AS none, dedup_agg(i) FILTER (WHERE page < 0) AS no_filter FROM clicks;
SELECT dedup_agg(f) FROM clicks;
SELECT dedup_agg(NULL::dedup_filter, i) FROM clicks;
PREPARE counts(bigint) AS SELECT approx_count_distinct(i + $1) FROM clicks WHERE page <= $1;
EXECUTE counts(10);
EXECUTE counts(20);

-- count(DISTINCT) under the setting

SET streamdedup.approximate_distinct = on;
SELECT plan('SELECT count(DISTINCT i) FROM clicks');
RESET streamdedup.approximate_distinct;

-- who may not call an aggregate does not get it under another name

\set QUIET on
CREATE ROLE regress_citus;
GRANT USAGE ON SCHEMA citus_test TO regress_citus;
GRANT SELECT ON clicks TO regress_citus;
BEGIN;
REVOKE EXECUTE ON FUNCTION dedup_agg("any") FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION approx_count_distinct_hashes(bigint) FROM PUBLIC;
SET LOCAL ROLE regress_citus;
\set QUIET off
SELECT approx_count_distinct(i) FROM clicks;
SELECT dedup_agg(i) FROM clicks;
ROLLBACK;

-- a worker could take the function of somebody else for dedup_hash()

\set QUIET on
SELECT extnamespace::regnamespace AS schema FROM pg_extension WHERE extname = 'streamdedup' \gset
BEGIN;
CREATE FUNCTION dedup_hash(dedup_filter, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
SELECT hashed('SELECT dedup_agg(i) FROM clicks') AS in_another_schema;
CREATE FUNCTION :schema.dedup_hash(dedup_filter, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
\set QUIET off
SELECT hashed('SELECT dedup_agg(i) FROM clicks'), hashed('SELECT approx_count_distinct(i, t) FROM clicks');
ROLLBACK;

-- On a worker: Citus's aggregate, here one that cannot run, becomes ours, which returns the
-- state as text. It does for our aggregates over hashes only, as Citus calls them.

\set QUIET on
CREATE FUNCTION worker_trans(internal, oid, anyelement) RETURNS internal LANGUAGE internal AS 'array_agg_transfn';
CREATE FUNCTION worker_final(internal) RETURNS cstring LANGUAGE internal AS 'cstring_out';
CREATE AGGREGATE pg_catalog.worker_partial_agg(oid, anyelement) (SFUNC = citus_test.worker_trans, STYPE = internal, FINALFUNC = citus_test.worker_final);
CREATE FUNCTION look_alike(text, oid, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'x' $$;
CREATE AGGREGATE worker_partial_agg(oid, bigint) (SFUNC = look_alike, STYPE = text);
CREATE AGGREGATE other_agg(bigint) (SFUNC = int8pl, STYPE = bigint);
\set QUIET off
SELECT plan(query) FROM unnest(ARRAY[
	$$SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, dedup_hash(NULL, i)) FROM here$$,
	$$SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(dedup_filter,bigint)'::regprocedure, ROW(dedup_filter(100), dedup_hash(dedup_filter(100), i))) FROM here$$,
	$$SELECT pg_catalog.worker_partial_agg('approx_count_distinct_hashes(bigint)'::regprocedure, i) FILTER (WHERE i > 7) FROM here$$,
	$$SELECT pg_catalog.worker_partial_agg('other_agg(bigint)'::regprocedure, i) FROM here$$,
	$$SELECT citus_test.worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, i) FROM here$$,
	$$SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, t) FROM here$$,
	$$SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(dedup_filter,bigint)'::regprocedure, ROW(f, i, i)) FROM here$$,
	$$SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(dedup_filter,bigint)'::regprocedure, ROW(i, f)) FROM here$$]) query;
\set QUIET on
CREATE FUNCTION states(modulus int) RETURNS TABLE (sized dedup_filter, growing dedup_filter, counted dedup_filter) LANGUAGE sql AS $$
	SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(dedup_filter,bigint)'::regprocedure, ROW(dedup_filter(4000), dedup_hash(dedup_filter(4000), page)))::text::dedup_filter,
		pg_catalog.worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, dedup_hash(NULL, page))::text::dedup_filter,
		pg_catalog.worker_partial_agg('approx_count_distinct_hashes(bigint)'::regprocedure, dedup_hash(NULL, page))::text::dedup_filter
	FROM here WHERE page < 2500 GROUP BY page % modulus $$;
CREATE AGGREGATE combine_agg(dedup_filter) (SFUNC = dedup_agg_combine, STYPE = dedup_filter, FINALFUNC = dedup_agg_final);
CREATE AGGREGATE combine_count(dedup_filter) (SFUNC = dedup_agg_combine, STYPE = dedup_filter, FINALFUNC = approx_count_distinct_final);
\set QUIET off
SELECT DISTINCT (dedup_stats(growing)).parameters AS states_have_a_lower_rate, (dedup_stats(sized)).parameters AS sized FROM states(3);
SELECT s.n AS states, s.sized = (SELECT dedup_agg(dedup_filter(4000), page)::text FROM here WHERE page < 2500) AS sized,
	(dedup_stats(s.growing)).parameters AS growing, (SELECT count(*) FROM here WHERE dedup_contains(s.growing, page) AND page < 2500) AS found,
	s.counted = (SELECT approx_count_distinct(page) FROM here WHERE page < 2500) AS counted
FROM (SELECT count(*) AS n, combine_agg(sized)::text AS sized, combine_agg(growing) AS growing, combine_count(counted) AS counted FROM states(3)) s;
SELECT pg_catalog.worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, i) IS NULL AS no_rows FROM here WHERE page < 0;

-- without Citus, its setting or its table, nothing is changed

SELECT hashed('SELECT approx_count_distinct(i) FROM clicks') AS with_citus;
RESET citus.coordinator_aggregation_strategy;
SELECT hashed('SELECT approx_count_distinct(i) FROM clicks') AS without_setting;
SET citus.coordinator_aggregation_strategy = 'disabled';
DROP TABLE pg_catalog.pg_dist_partition, pg_catalog.pg_dist_object;
SELECT hashed('SELECT approx_count_distinct(i) FROM clicks') AS without_table;

\set QUIET on
DROP AGGREGATE pg_catalog.worker_partial_agg(oid, anyelement);
SET client_min_messages = error;
DROP SCHEMA citus_test CASCADE;
DROP ROLE regress_citus;
