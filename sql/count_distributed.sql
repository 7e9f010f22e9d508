-- count(DISTINCT x) in distributed queries: whether it is replaced, and what decides that. Citus is not installed
-- here (test/citus.sh runs it). Its catalogs are tables here.

SET client_min_messages = warning;
CREATE SCHEMA count_distributed_test;
SET search_path = count_distributed_test, public;
-- as if Citus were loaded
SET citus.coordinator_aggregation_strategy = 'row-gather';
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN positive AS bigint CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE keys (i int, k bigint, t text, n numeric, f float8, u uuid, b bytea, d date, z timestamptz, c char(9), m mood,
	p positive, a int[], r pair, j jsonb);
INSERT INTO keys
SELECT i, nullif(i % 5000, 7), 'key ' || i % 5000, (i % 5000) / 10.0, i % 3000 / 8.0, md5((i % 4000)::text)::uuid,
	decode(md5((i % 4000)::text), 'hex'), date '2020-01-01' + i % 3000, timestamptz '2020-01-01Z' + i % 5000 * interval '1 hour',
	'c' || i % 3000, CASE WHEN i % 2 = 0 THEN 'sad' ELSE 'happy' END::mood, i % 5000 + 1, ARRAY[i % 71, i % 67],
	CASE WHEN i % 11 > 0 THEN ROW(i % 3000, 'r')::pair END, jsonb_build_object('k', i % 3000)
FROM generate_series(1, 12000) i;
ANALYZE keys;

-- a hash of equal keys is equal; NULL columns make no key

SELECT dedup_hash(NULL, 5) = dedup_hash(NULL, 5::bigint) AS integers, dedup_hash(NULL, 2.0) = dedup_hash(NULL, 2.00) AS numerics,
	dedup_hash(NULL, 'x'::char(5)) = dedup_hash(NULL, 'x'::char(9)) AS blanks, dedup_hash(NULL, 5) <> dedup_hash(NULL, 6) AS others,
	dedup_hash(NULL, 1, 'a') <> dedup_hash(NULL, 1, 'b') AS columns, dedup_hash(NULL, VARIADIC ARRAY[1, 2]) = dedup_hash(NULL, 1, 2) AS variadic;
SELECT dedup_hash(NULL, NULL::int) IS NULL AS one, dedup_hash(NULL, 1, NULL::text) IS NULL AS of_two,
	dedup_hash(NULL, ROW(NULL, NULL)::pair) IS NOT NULL AS row_of_nulls;
SELECT dedup_hash(NULL, '(1,1)'::point);

-- the counts are those of approx_count_distinct, exact and estimated, grouped, of nothing, in parallel

CREATE FUNCTION differences(by text, parallel boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name name;
	different boolean;
	result text;
BEGIN
	IF parallel THEN
		PERFORM set_config('parallel_setup_cost', '0', true), set_config('parallel_tuple_cost', '0', true),
			set_config('min_parallel_table_scan_size', '0', true);
	END IF;
	FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'keys'::regclass AND attnum > 0 ORDER BY attnum LOOP
		EXECUTE format('SELECT bool_or(x <> y) FROM (SELECT approx_count_distinct(%1$I), approx_count_distinct_hashes(dedup_hash(NULL, %1$I)) FROM keys GROUP BY %2$s) s(x, y)', name, by) INTO different;
		IF different IS NOT FALSE THEN
			result := concat_ws(' ', result, name);
		END IF;
	END LOOP;
	RETURN coalesce(result, 'none');
END $$;
SELECT differences('()'), differences('i % 2'), differences('i % 1000'), differences('()', parallel => true);
SELECT approx_count_distinct_hashes(i), approx_count_distinct_hashes(NULL) FROM keys WHERE false;
SELECT approx_count_distinct_hashes(dedup_hash(NULL, k)) <> 4999 AS estimated, approx_count_distinct_hashes(dedup_hash(NULL, k)) FILTER (WHERE k < 1000) = 999 AS exact FROM keys;
SELECT approx_count_distinct_hashes_trans(NULL, 1);

-- states that are made apart and carried as text give the same count

CREATE AGGREGATE states(bigint) (SFUNC = approx_count_distinct_hashes_trans, STYPE = dedup_filter);
CREATE AGGREGATE count_of_states(dedup_filter) (SFUNC = dedup_agg_combine, STYPE = dedup_filter, FINALFUNC = approx_count_distinct_final);
SELECT count_of_states(s::text::dedup_filter) = (SELECT approx_count_distinct(t) FROM keys) AS estimated
FROM (SELECT states(dedup_hash(NULL, t)) FROM keys GROUP BY i % 7) x(s);
SELECT count_of_states(s::text::dedup_filter) = 500 AS exact
FROM (SELECT states(dedup_hash(NULL, t)) FROM keys WHERE i < 501 GROUP BY i % 7) x(s);

-- what a statement over distributed tables becomes

CREATE FUNCTION counts(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		RETURN QUERY SELECT m[1] FROM regexp_matches(line, '(?:approx_)?count\w*\((?:[^()]|\([^()]*\)|\((?:[^()]|\([^()]*\))*\))*\)|ApproximateDistinct', 'g') m;
	END LOOP;
END $$;
SELECT dedup_approximate_distinct(true);
SELECT counts('SELECT count(DISTINCT t), count(DISTINCT a) FROM keys');
SELECT counts('SELECT DISTINCT t FROM keys');

BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char");
CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint);
CREATE TABLE pg_catalog.pg_dist_object (classid oid, objid oid, objsubid int);
CREATE TABLE elsewhere AS SELECT * FROM keys;
CREATE TABLE elsewhere_102008 AS SELECT * FROM keys;
CREATE TABLE elsewhere_7 AS SELECT * FROM keys;
ANALYZE elsewhere, elsewhere_102008, elsewhere_7;
INSERT INTO pg_dist_partition VALUES ('elsewhere', 'h');
INSERT INTO pg_dist_shard VALUES ('elsewhere', 102008);
-- the extension is not known to be on the other nodes
SELECT counts('SELECT count(DISTINCT t) FROM elsewhere');
INSERT INTO pg_dist_object SELECT 'pg_extension'::regclass, oid, 0 FROM pg_extension WHERE extname = 'streamdedup';
SELECT counts('SELECT count(DISTINCT t), count(DISTINCT a) FILTER (WHERE i > 0) FROM elsewhere');
SELECT counts('SELECT count(DISTINCT t COLLATE "C" ORDER BY t COLLATE "C") FROM elsewhere');
-- numbers of objects, which are others on each node: rows are fetched
SELECT counts('SELECT count(DISTINCT t::regclass), count(DISTINCT ARRAY[t::regtype]), count(DISTINCT i::oid) FROM elsewhere');
-- one row is not sorted
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT t) FROM elsewhere ORDER BY 1 LIMIT 1;
-- wherever the table is named
SELECT counts('SELECT count(DISTINCT t) FROM keys WHERE i IN (SELECT i FROM elsewhere)');
SELECT counts('WITH c AS MATERIALIZED (SELECT t FROM elsewhere) SELECT count(DISTINCT t) FROM c');
SELECT counts('SELECT (SELECT count(DISTINCT t) FROM elsewhere)');
SELECT counts('INSERT INTO elsewhere (i) SELECT count(DISTINCT t) FROM keys');
-- other tables stay as they were
SELECT counts('SELECT count(DISTINCT t) FROM keys');
SELECT counts('SELECT count(DISTINCT t) FROM elsewhere_7');
-- the answers are the same
SELECT (SELECT count(DISTINCT t) FROM elsewhere) = (SELECT count(DISTINCT t) FROM keys) AS same, count(DISTINCT t) <> 5000 AS estimated FROM elsewhere;
-- exact: where it decides; DISTINCT of distributed tables; shards, which are parts of a statement
SELECT counts('SELECT 1 FROM keys WHERE i < (SELECT count(DISTINCT t) FROM elsewhere)');
SELECT counts('SELECT DISTINCT t FROM elsewhere');
SELECT counts('SELECT DISTINCT keys.t FROM keys JOIN elsewhere USING (i)');
SELECT counts('SELECT count(DISTINCT t) FROM elsewhere_102008');
SELECT counts('SELECT DISTINCT t FROM elsewhere_102008');
-- without the right to use what counts
REVOKE EXECUTE ON FUNCTION dedup_hash(dedup_filter, "any") FROM public;
CREATE ROLE regress_count_distributed;
GRANT USAGE ON SCHEMA count_distributed_test TO regress_count_distributed;
GRANT SELECT ON keys, elsewhere TO regress_count_distributed;
SET LOCAL ROLE regress_count_distributed;
SELECT counts('SELECT count(DISTINCT t) FROM elsewhere');
SELECT counts('SELECT count(DISTINCT t) FROM keys');
ROLLBACK;
SELECT counts('SELECT count(DISTINCT t) FROM keys');

-- a plan that fails is made again without: the hash of a constant cannot be computed

BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char");
CREATE TABLE pg_catalog.pg_dist_object (classid oid, objid oid, objsubid int);
CREATE TABLE elsewhere AS SELECT * FROM keys;
INSERT INTO pg_dist_partition VALUES ('elsewhere', 'h');
INSERT INTO pg_dist_object SELECT 'pg_extension'::regclass, oid, 0 FROM pg_extension WHERE extname = 'streamdedup';
SELECT counts('SELECT count(DISTINCT ''x''::text) FROM elsewhere');
UPDATE pg_proc SET probin = '/nowhere' WHERE oid = 'dedup_hash(dedup_filter,"any")'::regprocedure;
SELECT counts('SELECT count(DISTINCT ''x''::text) FROM elsewhere');
SELECT count(DISTINCT 'x'::text) FROM elsewhere;
ROLLBACK;

-- sessions that Citus opens ignore the setting, also in plans that are kept

PREPARE kept AS SELECT count(DISTINCT k) <> 4999 AS estimated FROM keys;
EXECUTE kept;
SET application_name = 'citus_internal gpid=10000000123';
EXECUTE kept;
SELECT counts('SELECT count(DISTINCT t) FROM keys');
SELECT counts('SELECT DISTINCT t FROM keys');
SELECT dedup_approximate_distinct(true);
SELECT counts('SELECT count(DISTINCT t) FROM keys');
SET application_name = 'citus_rebalancer gpid=10000000123';
SELECT counts('SELECT count(DISTINCT t) FROM keys');
SET application_name = 'citus_run_command gpid=10000000123';
SELECT counts('SELECT count(DISTINCT t) FROM keys');
-- others do not
SET application_name = 'citus';
EXECUTE kept;
SET application_name = 'my citus_internal';
SELECT counts('SELECT count(DISTINCT t) FROM keys');
SELECT counts('SELECT DISTINCT t FROM keys');
RESET application_name;
-- nor does the name help that is set later
\set session 'dbname=' :DBNAME ' application_name=''citus_internal gpid=10000000123'''
\c :session
SET client_min_messages = warning;
SET search_path = count_distributed_test, public;
-- as if Citus were loaded
SET citus.coordinator_aggregation_strategy = 'row-gather';
SELECT dedup_approximate_distinct(true);
SET application_name = 'mine';
SELECT counts('SELECT count(DISTINCT t) FROM keys');
SELECT counts('SELECT DISTINCT t FROM keys');
DROP SCHEMA count_distributed_test CASCADE;
