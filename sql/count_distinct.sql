-- count(DISTINCT x) under streamdedup.approximate_distinct

SET client_min_messages = warning;
CREATE SCHEMA count_distinct_test;
SET search_path = count_distinct_test, public;
CREATE TABLE small (a int, b text, c numeric, d date, g int);
INSERT INTO small SELECT nullif(i % 100, 7), 'b' || i % 70, (i % 30) / 10.0, date '2026-01-01' + i % 50, i % 5
	FROM generate_series(1, 5000) i;
CREATE TABLE big (a bigint, b text);
INSERT INTO big SELECT i % 100000, 'key ' || i % 100000 FROM generate_series(1, 120000) i;
ANALYZE small, big;

-- What runs, by EXPLAIN VERBOSE, and whether the answer is the exact one.
CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	exact boolean := false;
	approximate boolean := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		exact := exact OR line LIKE '%count(DISTINCT %';
		approximate := approximate OR line LIKE '%approx_count_distinct(%';
	END LOOP;
	RETURN CASE WHEN exact AND approximate THEN 'both' WHEN exact THEN 'exact'
		WHEN approximate THEN 'approximate' ELSE 'neither' END;
END $$;
CREATE FUNCTION check_query(query text, OUT plan text, OUT equal boolean) LANGUAGE plpgsql AS $$
DECLARE
	rows_as_text text := 'SELECT array_agg(r ORDER BY r) FROM (SELECT q::text FROM (' || query || ') q) s(r)';
	approximate text[];
	exact text[];
BEGIN
	plan := plan_of(query);
	EXECUTE rows_as_text INTO approximate;
	PERFORM set_config('streamdedup.approximate_distinct', 'off', true);
	EXECUTE rows_as_text INTO exact;
	PERFORM set_config('streamdedup.approximate_distinct', 'on', true);
	equal := approximate = exact;
END $$;

-- the call loads the library if nothing has yet

SELECT plan_of('SELECT count(DISTINCT a) FROM small');
SELECT dedup_approximate_distinct(true);
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT a), count(DISTINCT b) FROM small;

-- whatever stands around it

SELECT * FROM check_query('SELECT count(DISTINCT a) FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT a), count(DISTINCT b), count(DISTINCT c), count(DISTINCT d), count(DISTINCT a % 10), count(*), sum(a) FROM small');
SELECT * FROM check_query('SELECT g, count(DISTINCT a), count(DISTINCT b) FROM small GROUP BY g');
SELECT * FROM check_query('SELECT g, count(DISTINCT a) FILTER (WHERE c > 1) FROM small GROUP BY g');
SELECT * FROM check_query('SELECT c FROM small GROUP BY c HAVING count(DISTINCT a) > 3 AND count(DISTINCT b) < 8');
SELECT * FROM check_query('SELECT d FROM small GROUP BY d ORDER BY count(DISTINCT b), d LIMIT 7');
SELECT * FROM check_query('SELECT g, d, count(DISTINCT a) FROM small GROUP BY ROLLUP (g, d)');
SELECT * FROM check_query('SELECT g, d, c, count(DISTINCT a), count(DISTINCT b), grouping(g) FROM small GROUP BY GROUPING SETS ((g, d), (c), ())');
SELECT * FROM check_query('SELECT count(DISTINCT a) FROM small WHERE false');
SELECT * FROM check_query('SELECT count(DISTINCT NULL::int), count(DISTINCT 1) FROM small');
SELECT * FROM check_query('SELECT g, sum(count(DISTINCT a)) OVER (ORDER BY g) FROM small GROUP BY g');
SELECT * FROM check_query('SELECT generate_series(1, count(DISTINCT g)) FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT x.a) FROM small x JOIN small y ON x.a = y.g');

-- ordered by what it counts, that is, in any way the parser takes

SELECT * FROM check_query('SELECT count(DISTINCT a ORDER BY a) FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT a ORDER BY a DESC NULLS FIRST) FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT b ORDER BY b USING ~>~) FROM small');
SELECT count(DISTINCT a ORDER BY b) FROM small;

-- other aggregates

SELECT plan_of('SELECT count(a), sum(DISTINCT a), avg(DISTINCT c), array_agg(DISTINCT b) FROM small');
SELECT count(DISTINCT a) OVER () FROM small;

-- sub-selects in FROM, WITH, the list; arrays; of outer levels

SELECT * FROM check_query('SELECT n + 1 FROM (SELECT count(DISTINCT a) FROM small) s(n)');
SELECT * FROM check_query('WITH c(n) AS (SELECT count(DISTINCT b) FROM small) SELECT n FROM c, c d(m)');
SELECT * FROM check_query('WITH c(n) AS MATERIALIZED (SELECT count(DISTINCT b) FROM small) SELECT n FROM c');
SELECT * FROM check_query('SELECT g, (SELECT count(DISTINCT b) FROM small y WHERE y.g = x.g) FROM (VALUES (1), (2)) x(g)');
SELECT * FROM check_query('SELECT ARRAY(SELECT count(DISTINCT b) FROM small GROUP BY g ORDER BY 1)');
SELECT * FROM check_query('SELECT (SELECT count(DISTINCT x.b)) FROM small x');
SELECT * FROM check_query('SELECT (SELECT m FROM (SELECT count(DISTINCT x.b)) s(m)) FROM small x');
SELECT * FROM check_query('SELECT g, (SELECT max(n) FROM (VALUES (1)) v(n) HAVING count(DISTINCT x.a) > 3) FROM small x GROUP BY g');
SELECT * FROM check_query('SELECT n FROM (VALUES ((SELECT count(DISTINCT a) FROM small))) v(n)');
SELECT * FROM check_query('SELECT * FROM generate_series(1, (SELECT count(DISTINCT g) FROM small))');
SELECT * FROM check_query('SELECT x.g, s.n FROM (VALUES (1), (2)) x(g), LATERAL (SELECT count(DISTINCT y.b) FROM small y WHERE y.g = x.g) s(n)');
SELECT * FROM check_query('SELECT count(DISTINCT a) FROM small UNION ALL SELECT count(DISTINCT b) FROM small');
SELECT * FROM check_query('SELECT g FROM small GROUP BY g, (SELECT count(DISTINCT b) FROM small)');

-- exact where the answer decides: EXISTS, IN, ANY, ALL; the left side of IN is a list's

SELECT plan_of('SELECT 1 FROM small WHERE a IN (SELECT count(DISTINCT a) FROM small)');
SELECT plan_of('SELECT 1 FROM small WHERE a NOT IN (SELECT count(DISTINCT a) FROM small)');
SELECT plan_of('SELECT 1 FROM small WHERE a > ALL (SELECT count(DISTINCT a) FROM small GROUP BY g)');
SELECT plan_of('SELECT 1 FROM small x WHERE EXISTS (SELECT 1 FROM small y WHERE y.g = x.g GROUP BY y.d HAVING count(DISTINCT y.a) > 3)');
SELECT count(DISTINCT a) NOT IN (SELECT 100000::bigint) AS approximate FROM big;
-- a WITH query that such a sub-select reads, itself or through another, is exact, too
SELECT plan_of('WITH c(n) AS MATERIALIZED (SELECT count(DISTINCT a) FROM small) SELECT 1 FROM small WHERE a IN (SELECT n FROM c)');
SELECT plan_of('WITH c(n) AS MATERIALIZED (SELECT count(DISTINCT a) FROM small), d(m) AS MATERIALIZED (SELECT n + 1 FROM c) SELECT 1 FROM small WHERE a IN (SELECT m FROM d)');
SELECT plan_of('WITH c(n) AS MATERIALIZED (SELECT count(DISTINCT a) FROM small), d(m) AS MATERIALIZED (SELECT 1) SELECT n FROM c WHERE n IN (SELECT m FROM d)');

-- views: their text stays; security_barrier views and policies of row security decide

CREATE VIEW v AS SELECT g, count(DISTINCT a) AS n FROM small GROUP BY g;
SELECT pg_get_viewdef('v') LIKE '%count(DISTINCT %' AND pg_get_viewdef('v') NOT LIKE '%approx%' AS unchanged;
SELECT * FROM check_query('SELECT * FROM v');
SELECT * FROM check_query('SELECT sum(n) FROM v WHERE g > 1');
CREATE VIEW barrier WITH (security_barrier) AS SELECT g, count(DISTINCT a) AS n FROM small GROUP BY g;
SELECT * FROM check_query('SELECT * FROM barrier');
SELECT * FROM check_query('SELECT (SELECT max(n) FROM barrier), count(DISTINCT a) FROM small');
CREATE ROLE regress_count_distinct;
GRANT USAGE ON SCHEMA count_distinct_test TO regress_count_distinct;
CREATE TABLE secured (a int);
INSERT INTO secured VALUES (1), (2);
CREATE TABLE votes (who int);
INSERT INTO votes VALUES (1), (2), (2);
GRANT SELECT ON secured, votes, small, big TO regress_count_distinct;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON secured USING ((SELECT count(DISTINCT who) FROM votes) >= 2);
SET ROLE regress_count_distinct;
SELECT * FROM check_query('SELECT a FROM secured');
SELECT * FROM check_query('SELECT count(DISTINCT a) FROM secured');
RESET ROLE;

-- statements: what reads and what inserts, not what updates, deletes or merges

CREATE TABLE target (k int PRIMARY KEY, n bigint);
SELECT plan_of('INSERT INTO target SELECT g, count(DISTINCT a) FROM small GROUP BY g');
SELECT plan_of('INSERT INTO target VALUES (1, (SELECT count(DISTINCT a) FROM small))');
SELECT plan_of('INSERT INTO target SELECT 1 ON CONFLICT (k) DO UPDATE SET n = (SELECT count(DISTINCT a) FROM small)');
SELECT plan_of('CREATE TABLE other AS SELECT count(DISTINCT a) FROM small');
SELECT plan_of('DECLARE c CURSOR FOR SELECT count(DISTINCT a) FROM small');
SELECT plan_of('WITH w AS (INSERT INTO target SELECT g, count(DISTINCT a) FROM small GROUP BY g RETURNING n) SELECT sum(n) FROM w');
SELECT plan_of('WITH w AS (DELETE FROM target WHERE n < (SELECT count(DISTINCT a) FROM small) RETURNING n) SELECT sum(n) FROM w');
SELECT plan_of('WITH w AS (DELETE FROM target RETURNING n) SELECT sum(n), (SELECT count(DISTINCT a) FROM small) FROM w');
SELECT plan_of('UPDATE target SET n = (SELECT count(DISTINCT a) FROM small)');
SELECT plan_of('DELETE FROM target WHERE n < (SELECT count(DISTINCT a) FROM small)');
SELECT plan_of(CASE WHEN current_setting('server_version_num')::int >= 150000
	THEN 'MERGE INTO target USING (SELECT g, count(DISTINCT a) AS n FROM small GROUP BY g) s ON k = g WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (g, s.n)'
	ELSE 'DELETE FROM target WHERE n < (SELECT count(DISTINCT a) FROM small)' END);
COPY (SELECT count(DISTINCT a) <> 100000 AS approximate, count(DISTINCT a) BETWEEN 97000 AND 103000 FROM big) TO STDOUT;
BEGIN;
DECLARE c CURSOR FOR SELECT count(DISTINCT a) <> 100000 AS approximate FROM big;
FETCH c;
COMMIT;
CREATE TABLE made AS SELECT count(DISTINCT a) AS n FROM big;
SELECT n <> 100000 AS approximate, n BETWEEN 97000 AND 103000 AS near FROM made;

-- materialized views are exact, with what they call, and leave nothing behind

CREATE FUNCTION count_big() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(DISTINCT a) FROM count_distinct_test.big); END';
SELECT count_big() <> 100000 AS approximate;
SELECT plan_of('CREATE MATERIALIZED VIEW m AS SELECT count(DISTINCT a) FROM big');
CREATE MATERIALIZED VIEW m AS SELECT count(DISTINCT a) AS n, count_big() AS called FROM big;
SELECT * FROM m;
SELECT count_big() <> 100000 AS approximate;
REFRESH MATERIALIZED VIEW m;
SELECT * FROM m;
SELECT count_big() <> 100000 AS approximate;
CREATE MATERIALIZED VIEW fails AS SELECT count(DISTINCT a) / 0 FROM big;
SELECT count_big() <> 100000 AS approximate;

-- types: what is hashable, by its default equality; records are not

CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (x int, y text);
CREATE TYPE price AS (x int, y money);
SELECT * FROM check_query('SELECT count(DISTINCT v) FROM (VALUES (1::positive), (2), (2)) s(v)');
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('sad'::mood), ('ok'), ('ok')) s(v)$$);
SELECT * FROM check_query('SELECT count(DISTINCT v) FROM (VALUES (1.0), (1.00), (2)) s(v)');
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('a '::char(3)), ('a'), ('b')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('a'::varchar(3)), ('a'), ('b')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('{1,2}'::int[]), ('{1,2}'), ('{}')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('[1,2]'::int4range), ('[1,3)'), ('[1,4)')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('{"a": 1}'::jsonb), ('{"a": 1.0}'), ('{}')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('-0'::float8), ('0'), ('NaN')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('1/2'::pg_lsn), ('2/1'), ('2/1')) s(v)$$);
SELECT * FROM check_query('SELECT count(DISTINCT (a, g)) FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT ARRAY[(a, g)]) FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT v) FROM (VALUES (1::money), (2::money)) s(v)');
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES (B'1'), (B'10'), (B'10')) s(v)$$);
SELECT * FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ('a'::tsvector), ('b'), ('b')) s(v)$$);
SELECT * FROM check_query('SELECT count(DISTINCT v) FROM (VALUES ((1, 2)::price), ((1, 2)::price)) s(v)');
SELECT * FROM check_query('SELECT count(DISTINCT v) FROM (VALUES (ARRAY[(1, 2)::price])) s(v)');
SELECT * FROM check_query('SELECT count(DISTINCT v) FROM (VALUES (ARRAY[1::money])) s(v)');
SELECT plan = CASE WHEN current_setting('server_version_num')::int >= 140000 THEN 'approximate' ELSE 'exact' END AS by_version, equal
	FROM check_query($$SELECT count(DISTINCT v) FROM (VALUES ((1, 'a')::pair), ((1, 'a')::pair), ((1, 'b')::pair)) s(v)$$);
SELECT count(DISTINCT json '1') FROM small;

-- a type whose values the DISTINCT compares by another equality than the default one

CREATE FUNCTION same_parity(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 % 2 = $2 % 2';
CREATE FUNCTION parity_lt(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 % 2 < $2 % 2';
CREATE FUNCTION parity_le(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 % 2 <= $2 % 2';
CREATE FUNCTION parity_gt(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 % 2 > $2 % 2';
CREATE FUNCTION parity_ge(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 % 2 >= $2 % 2';
CREATE FUNCTION parity_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 % 2 - $2 % 2';
CREATE OPERATOR =%= (LEFTARG = int, RIGHTARG = int, FUNCTION = same_parity);
CREATE OPERATOR <% (LEFTARG = int, RIGHTARG = int, FUNCTION = parity_lt);
CREATE OPERATOR <=% (LEFTARG = int, RIGHTARG = int, FUNCTION = parity_le);
CREATE OPERATOR >% (LEFTARG = int, RIGHTARG = int, FUNCTION = parity_gt);
CREATE OPERATOR >=% (LEFTARG = int, RIGHTARG = int, FUNCTION = parity_ge);
CREATE OPERATOR CLASS parity_ops FOR TYPE int USING btree AS
	OPERATOR 1 <%, OPERATOR 2 <=%, OPERATOR 3 =%=, OPERATOR 4 >=%, OPERATOR 5 >%, FUNCTION 1 parity_cmp(int, int);
SELECT * FROM check_query('SELECT count(DISTINCT a ORDER BY a USING <%) FROM small WHERE a > 0');
SELECT count(DISTINCT a ORDER BY a USING <%) FROM small WHERE a > 0;

-- collations: the expression's

SELECT * FROM check_query('SELECT count(DISTINCT b COLLATE "C") FROM small');
SELECT * FROM check_query('SELECT count(DISTINCT n COLLATE "C") FROM (VALUES (''a''::name), (''b'')) s(n)');

-- a nondeterministic one, where the server has ICU: the answer is checked either way

CREATE FUNCTION without_case() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	CREATE COLLATION without_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	RETURN (SELECT plan = 'approximate' AND equal FROM
		check_query($q$SELECT count(DISTINCT v COLLATE without_case) FROM (VALUES ('a'), ('A'), ('b')) s(v)$q$));
EXCEPTION WHEN feature_not_supported OR undefined_object OR invalid_parameter_value THEN
	RETURN true;
END $$;
SELECT without_case();

-- prepared statements follow the setting, generic plans too

PREPARE p(int) AS SELECT count(DISTINCT a) <> 100000 AS approximate FROM big WHERE a >= $1;
EXECUTE p(0);
SET streamdedup.approximate_distinct = off;
EXECUTE p(0);
SET plan_cache_mode = force_generic_plan;
EXECUTE p(0);
SET streamdedup.approximate_distinct = on;
EXECUTE p(0);
BEGIN;
SET LOCAL streamdedup.approximate_distinct = off;
EXECUTE p(0);
ROLLBACK;
EXECUTE p(0);
RESET plan_cache_mode;

-- functions: with a SET clause, inlined, folded while something is planned

CREATE FUNCTION count_exactly() RETURNS bigint LANGUAGE plpgsql SET streamdedup.approximate_distinct = off
	AS 'BEGIN RETURN (SELECT count(DISTINCT a) FROM count_distinct_test.big); END';
CREATE FUNCTION count_roughly() RETURNS bigint LANGUAGE plpgsql SET streamdedup.approximate_distinct = on
	AS 'BEGIN RETURN (SELECT count(DISTINCT a) FROM count_distinct_test.big); END';
SELECT count_exactly() = 100000 AS exact, count_big() <> 100000 AS approximate, count_roughly() <> 100000 AS approximate;
SET streamdedup.approximate_distinct = off;
SELECT count_exactly() = 100000 AS exact, count_big() = 100000 AS exact, count_roughly() <> 100000 AS approximate;
SELECT count_roughly() <> 100000 AS approximate, count_big() = 100000 AS exact FROM generate_series(1, 2);
SET streamdedup.approximate_distinct = on;
CREATE FUNCTION folded() RETURNS bigint LANGUAGE plpgsql IMMUTABLE SET streamdedup.approximate_distinct = off
	AS 'BEGIN RETURN (SELECT count(DISTINCT a) FROM count_distinct_test.big); END';
SELECT folded() = 100000 AS exact, count(DISTINCT a) <> 100000 AS approximate FROM big;
SELECT plan_of('SELECT count(DISTINCT a) FROM small WHERE a < folded()');
CREATE FUNCTION inlined() RETURNS SETOF bigint LANGUAGE sql STABLE AS 'SELECT count(DISTINCT a) FROM count_distinct_test.small';
SELECT plan_of('SELECT * FROM inlined()');

-- parallel plans

BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL max_parallel_workers_per_gather = 2;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT b) FROM big;
SELECT abs(count(DISTINCT b) - 100000) < 3000 AS near FROM big;
SELECT * FROM check_query('SELECT g, count(DISTINCT a), count(DISTINCT b) FILTER (WHERE c > 1) FROM small GROUP BY g');
ROLLBACK;

-- thousands of groups of few keys stay in memory

CREATE FUNCTION batches_of(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan::jsonb, '$.**."HashAgg Batches"');
END $$;
BEGIN;
SET LOCAL enable_sort = off;
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL work_mem = '8MB';
SET LOCAL hash_mem_multiplier = 1;
SELECT batches_of('SELECT a / 20, count(DISTINCT b) FROM big GROUP BY 1');
SELECT * FROM check_query('SELECT a / 20, count(DISTINCT b) FROM big GROUP BY 1');
ROLLBACK;

-- over foreign tables alone the other server counts

SELECT count(*) = 1 AS has_fdw FROM pg_available_extensions WHERE name = 'postgres_fdw' \gset
\if :has_fdw
CREATE EXTENSION postgres_fdw;
\else
CREATE FOREIGN DATA WRAPPER postgres_fdw;
\endif
CREATE SERVER count_distinct_far FOREIGN DATA WRAPPER postgres_fdw;
CREATE USER MAPPING FOR CURRENT_USER SERVER count_distinct_far;
CREATE FOREIGN TABLE far (a int, b text) SERVER count_distinct_far;
SELECT :'has_fdw' = 'f' OR plan_of('SELECT count(DISTINCT a) FROM far') = 'exact' AS exact;
SELECT :'has_fdw' = 'f' OR plan_of('SELECT count(DISTINCT f.a) FROM (SELECT a FROM far) f') = 'exact' AS exact;
SELECT :'has_fdw' = 'f' OR plan_of('SELECT count(DISTINCT far.a) FROM far JOIN small USING (a)') = 'approximate' AS approximate;
DROP SERVER count_distinct_far CASCADE;
\if :has_fdw
DROP EXTENSION postgres_fdw;
\else
DROP FOREIGN DATA WRAPPER postgres_fdw;
\endif

-- by the extension's own aggregate, wherever it is, whatever else has its name

CREATE SCHEMA fake;
CREATE AGGREGATE fake.approx_count_distinct("any") (SFUNC = int8inc_any, STYPE = int8, INITCOND = '0');
BEGIN;
SET LOCAL search_path = fake, count_distinct_test, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT a) FROM small;
ROLLBACK;
PREPARE moved AS SELECT count(DISTINCT a) FROM small;
SET plan_cache_mode = force_generic_plan;
EXECUTE moved;
SELECT plan_of('EXECUTE moved');
BEGIN;
CREATE SCHEMA elsewhere;
ALTER EXTENSION streamdedup SET SCHEMA elsewhere;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE moved;
EXECUTE moved;
ROLLBACK;
SELECT plan_of('EXECUTE moved');

-- without the extension, or its aggregate, or the right to call it: exact

BEGIN;
SET LOCAL client_min_messages = error;
ALTER EXTENSION streamdedup DROP AGGREGATE approx_count_distinct("any");
DROP AGGREGATE approx_count_distinct("any");
SELECT plan_of('EXECUTE moved');
EXECUTE moved;
ROLLBACK;
SELECT plan_of('EXECUTE moved');
BEGIN;
SET LOCAL client_min_messages = error;
DROP EXTENSION streamdedup CASCADE;
SELECT plan_of('EXECUTE moved'), plan_of('SELECT count(DISTINCT a) FROM small');
EXECUTE moved;
ROLLBACK;
SELECT plan_of('EXECUTE moved');
BEGIN;
REVOKE EXECUTE ON FUNCTION approx_count_distinct("any") FROM PUBLIC;
SELECT plan_of('EXECUTE moved');
SET LOCAL ROLE regress_count_distinct;
SELECT plan_of('EXECUTE moved'), plan_of('SELECT count(DISTINCT a) FROM small');
EXECUTE moved;
ROLLBACK;
SELECT plan_of('EXECUTE moved');
RESET plan_cache_mode;

RESET streamdedup.approximate_distinct;
SELECT plan_of('SELECT count(DISTINCT a) FROM small'), plan_of('EXECUTE moved');
DROP SCHEMA count_distinct_test, fake CASCADE;
DROP ROLE regress_count_distinct;
