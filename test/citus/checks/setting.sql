-- count(DISTINCT) and SELECT DISTINCT under the setting: what works without it works with it, the
-- estimates are those of a plain table with the same rows, and what has to be exact is exact.

SET client_min_messages = warning;
CREATE EXTENSION citext;
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS bigint CHECK (VALUE > 0);
CREATE DOMAIN label AS text;
CREATE TYPE pair AS (a int, b text);

-- a key of each kind of type; all but few have more values than are counted exactly
CREATE TABLE things (tenant int NOT NULL, id bigint NOT NULL, k_bigint bigint, k_int int, k_smallint smallint, k_text text,
	k_varchar varchar(20), k_citext citext, k_char char(10), k_name name, k_bytea bytea, k_boolean boolean, k_float float8,
	k_real real, k_numeric numeric, k_date date, k_timestamp timestamp, k_timestamptz timestamptz, k_time time,
	k_interval interval, k_uuid uuid, k_inet inet, k_jsonb jsonb, k_array int[], k_texts text[], k_enum mood,
	k_domain positive, k_label label, k_row pair, k_range int4range, k_nocase text COLLATE nocase, k_money money, k_bit bit(4));
CREATE TABLE plain.things (LIKE things);
SELECT create_distributed_table('things', 'tenant', shard_count => 8, colocate_with => 'none') \g /dev/null
INSERT INTO plain.things
SELECT i % 40, i, CASE WHEN i % 97 <> 0 THEN i * 7919 % 9001 END, i * 31 % 8009, i % 5000, 'key ' || i % 7001,
	'vc' || i % 6007, CASE WHEN i % 2 = 0 THEN 'K' ELSE 'k' END || i % 5003, 'c' || i % 3001, 'n' || i % 2003,
	decode(md5((i % 4001)::text), 'hex'), i % 2 = 0, i % 5009 / 8.0, i % 3001 / 4.0, i % 4003 / 100.0, date '2020-01-01' + i % 3001,
	timestamp '2020-01-01' + i % 5003 * interval '1 minute', timestamptz '2020-01-01Z' + i % 6011 * interval '1 minute',
	time '00:00' + i % 2500 * interval '1 second', i % 2999 * interval '1 hour', md5((i % 5501)::text)::uuid,
	('10.0.' || i % 12 || '.' || i % 251)::inet, jsonb_build_object('a', i % 3001), ARRAY[i % 71, i % 67], ARRAY['a' || i % 3001],
	(ARRAY['sad', 'ok', 'happy'])[i % 3 + 1]::mood, i * 13 % 7013 + 1, 'd' || i % 6007, ROW(i % 3001, 'x' || i % 2)::pair,
	int4range(i % 2503, i % 2503 + 5), CASE WHEN i % 2 = 0 THEN 'ND' ELSE 'nd' END || i % 3001, (i % 2003)::money, (i % 16)::bit(4)
FROM generate_series(1, 20000) i;
INSERT INTO things SELECT * FROM plain.things;
-- a table that Citus knows nothing of, and results to insert into
CREATE TABLE here (tenant int, x bigint, y text);
CREATE TABLE plain.here (LIKE here);
INSERT INTO plain.here SELECT i % 40, i, 'y' || i % 2999 FROM generate_series(1, 20000) i;
INSERT INTO here SELECT * FROM plain.here;
CREATE TABLE counted (tenant int, n bigint);
SELECT create_distributed_table('counted', 'tenant', colocate_with => 'things') \g /dev/null
CREATE TABLE plain.counted (LIKE counted);
CREATE VIEW of_tenants AS SELECT tenant, count(DISTINCT k_bigint) AS n FROM things GROUP BY tenant;
CREATE VIEW of_moods AS SELECT k_enum, count(DISTINCT k_text) AS n FROM things GROUP BY k_enum;
SET citus.enable_ddl_propagation = off;
CREATE VIEW plain.of_tenants AS SELECT tenant, count(DISTINCT k_bigint) AS n FROM plain.things GROUP BY tenant;
CREATE VIEW plain.of_moods AS SELECT k_enum, count(DISTINCT k_text) AS n FROM plain.things GROUP BY k_enum;
RESET citus.enable_ddl_propagation;
ANALYZE things, here, plain.things, plain.here;

-- An approximate DISTINCT would lose a row in ten.
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 0.1;

-- The rows of a query over the tables of a schema with the setting on or off, or its error.
CREATE FUNCTION under(setting text, statement text, path text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('streamdedup.approximate_distinct', setting, false);
	result := rows_of(statement, path);
	PERFORM set_config('streamdedup.approximate_distinct', 'off', false);
	RETURN result;
END $$;
-- With the setting a query gives what it gives over plain tables; that is an estimate or is not.
CREATE FUNCTION as_plain(statement text, estimate boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	wanted text := under('on', statement, 'plain, public');
	got text := under('on', statement, 'public');
BEGIN
	IF wanted = '' OR wanted ~ '^[0-9A-Z]{5} ' THEN
		RAISE EXCEPTION '% has no rows over plain tables: %', statement, wanted;
	END IF;
	IF (got = under('off', statement, 'public')) = estimate THEN
		RAISE EXCEPTION '% must % be an estimate: %', statement, CASE WHEN estimate THEN '' ELSE 'not' END, left(got, 2000);
	END IF;
	RETURN judge(statement, got, wanted);
END $$;
-- With the setting a query gives what it gives without it, be that an error.
CREATE FUNCTION as_without(statement text) RETURNS text LANGUAGE sql AS $$
	SELECT judge(statement, under('on', statement, 'public'), under('off', statement, 'public'))
$$;

-- every type; sketches travel, not rows

SELECT as_plain(format('SELECT count(DISTINCT %I) FROM things', attname), attname NOT IN ('k_boolean', 'k_enum', 'k_money', 'k_bit'))
FROM pg_attribute WHERE attrelid = 'things'::regclass AND attname LIKE 'k\_%' AND attname <> 'k_money' ORDER BY attnum;
SELECT as_without('SELECT count(DISTINCT k_money) FROM things');
SET streamdedup.approximate_distinct = on;
SELECT plan_has('states of ' || attname, format('SELECT count(DISTINCT %I) FROM things', attname),
	'worker_partial_agg\(''public.approx_count_(distinct|hashes)')
FROM pg_attribute WHERE attrelid = 'things'::regclass AND attname LIKE 'k\_%' AND attname NOT IN ('k_money', 'k_bit') ORDER BY attnum;
SELECT plan_has('what has another number on each node', 'SELECT count(DISTINCT CASE WHEN tenant = 1 THEN ''things''::regclass END) FROM things', 'worker_partial_agg', false);
SELECT plan_has('whole groups are counted on the workers', 'SELECT tenant, count(DISTINCT k_text) FROM things GROUP BY tenant', 'worker_partial_agg', false);
SET streamdedup.approximate_distinct = off;

-- expressions

SELECT as_plain('SELECT count(DISTINCT k_text COLLATE nocase), count(DISTINCT k_text COLLATE "C"), count(DISTINCT k_nocase COLLATE "C") FROM things');
SELECT as_plain('SELECT count(DISTINCT lower(k_citext)), count(DISTINCT k_bigint + 1), count(DISTINCT k_bigint::numeric) FROM things');
SELECT as_plain('SELECT count(DISTINCT k_bigint::text), count(DISTINCT (k_row).a), count(DISTINCT k_jsonb->>''a'') FROM things');
SELECT as_plain('SELECT count(DISTINCT CASE WHEN k_int > 10 THEN k_bigint END), count(DISTINCT k_bigint ORDER BY k_bigint DESC) FROM things');
SELECT as_plain('SELECT count(DISTINCT 1), count(DISTINCT NULL::int), count(DISTINCT ''x''::text) FROM things', false);
SELECT as_plain('SELECT count(DISTINCT k_text) FROM things WHERE false', false);
SELECT as_without('SELECT count(DISTINCT (k_bigint, k_text)) FROM things');
SELECT as_without('SELECT count(DISTINCT k_bigint) OVER () FROM things');

-- grouped, filtered, ordered, beside other aggregates

SELECT as_plain('SELECT count(DISTINCT k_bigint), count(DISTINCT k_int), count(DISTINCT k_text), count(*), sum(k_bigint) FROM things');
SELECT as_plain('SELECT tenant, count(DISTINCT k_text), count(DISTINCT k_bigint) FROM things GROUP BY tenant', false);
SELECT as_plain('SELECT k_enum, count(DISTINCT k_text), count(DISTINCT k_bigint) FROM things GROUP BY k_enum');
SELECT as_plain('SELECT tenant, k_enum, count(DISTINCT k_text) FROM things GROUP BY tenant, k_enum', false);
SELECT as_plain('SELECT count(DISTINCT k_bigint) FROM things WHERE tenant = 3', false);
SELECT as_plain('SELECT count(DISTINCT k_bigint) FILTER (WHERE k_int > 4000), count(DISTINCT k_text) FILTER (WHERE k_int < 4000) FROM things');
SELECT as_plain('SELECT k_enum, count(DISTINCT k_bigint) FILTER (WHERE k_int > 4000) FROM things GROUP BY k_enum');
SELECT as_plain('SELECT k_enum, count(DISTINCT k_bigint) FROM things GROUP BY k_enum HAVING count(DISTINCT k_text) > 10 ORDER BY count(DISTINCT k_text) DESC, k_enum LIMIT 2');
SELECT as_plain('SELECT tenant FROM things GROUP BY tenant HAVING count(DISTINCT k_bigint) > 10', false);
SELECT as_plain('SELECT round(count(DISTINCT k_bigint) * 100.0 / count(*), 5) FROM things');
SELECT as_plain('SELECT count(DISTINCT k_bigint), percentile_cont(0.5) WITHIN GROUP (ORDER BY k_int) FROM things');
SELECT as_plain('SELECT count(DISTINCT k_text), string_agg(DISTINCT k_enum::text, '','') FROM things');
SELECT as_plain('SELECT count(DISTINCT k_text), array_agg(DISTINCT k_enum), avg(k_float)::int, sum(DISTINCT k_smallint) FROM things');
SELECT as_plain('SELECT k_enum, count(DISTINCT k_bigint), sum(count(DISTINCT k_bigint)) OVER (ORDER BY k_enum) FROM things GROUP BY k_enum');
SELECT as_plain('SELECT tenant, count(DISTINCT k_bigint), rank() OVER (ORDER BY count(DISTINCT k_bigint)) FROM things GROUP BY tenant', false);
SELECT as_plain('SELECT count(DISTINCT k_bigint), count(DISTINCT k_money) FROM things');
SELECT as_without('SELECT tenant, k_enum, count(DISTINCT k_bigint) FROM things GROUP BY ROLLUP (tenant, k_enum)');
-- one row that is sorted: the workers must not sort states
SELECT as_plain('SELECT count(DISTINCT k_bigint) FROM things ORDER BY 1 LIMIT 1');
SELECT as_plain('SELECT DISTINCT count(DISTINCT k_bigint), max(id) FROM things ORDER BY 2, 1 LIMIT 1');
SELECT as_plain('SELECT DISTINCT ON (count(DISTINCT k_bigint)) count(DISTINCT k_bigint), count(*) FROM things ORDER BY 1');
SELECT as_plain('SELECT n FROM (SELECT count(DISTINCT k_bigint) AS n FROM things ORDER BY 1 LIMIT 1) s');
SELECT as_without('SELECT generate_series(1, 2), count(DISTINCT k_bigint) FROM things ORDER BY 2, 1 LIMIT 1');
SET citus.limit_clause_row_fetch_count = 2;
SELECT as_plain('SELECT k_enum, count(DISTINCT k_bigint) FROM things GROUP BY k_enum ORDER BY count(DISTINCT k_text), 1 LIMIT 1');
RESET citus.limit_clause_row_fetch_count;

-- joins with tables of all kinds, sub-selects, WITH, set operations, views

SELECT as_plain('SELECT count(DISTINCT c.user_id), count(DISTINCT v.user_id) FROM clicks c JOIN visits v USING (page) WHERE c.click_id < 9000');
SELECT as_plain('SELECT count(DISTINCT c.agent), count(DISTINCT p.title) FROM clicks c JOIN pages p USING (page)');
SELECT as_plain('SELECT p.page % 2, count(DISTINCT c.number) FROM clicks c JOIN pages p USING (page) GROUP BY 1');
SELECT as_plain('SELECT count(DISTINCT t.k_text), count(DISTINCT l.y) FROM things t JOIN here l USING (tenant) WHERE t.id < 3000');
SELECT as_plain('SELECT count(DISTINCT c.user_id) FROM clicks c LEFT JOIN visits v ON v.page = c.page AND v.user_id < 10');
SELECT as_without('SELECT count(DISTINCT c.user_id) FROM clicks c JOIN orders o ON o.user_id = c.user_id');
SELECT as_plain('SELECT count(DISTINCT x) FROM here');
SELECT as_plain('SELECT count(DISTINCT title) FROM pages', false);
SELECT as_plain('SELECT count(DISTINCT k_text) FROM (SELECT k_text FROM things OFFSET 0) s');
SELECT as_plain('SELECT count(DISTINCT k_text) FROM (SELECT k_text FROM things LIMIT 100000) s');
SELECT as_plain('SELECT max(n), sum(n) FROM (SELECT k_enum, count(DISTINCT k_text) AS n FROM things GROUP BY k_enum) s');
SELECT as_plain('SELECT sum(n) FROM (SELECT tenant, count(DISTINCT k_text) AS n FROM things GROUP BY tenant) s', false);
SELECT as_plain('SELECT a.n, b.n FROM (SELECT count(DISTINCT k_bigint) AS n FROM things) a, (SELECT count(DISTINCT k_text) AS n FROM things) b');
SELECT as_plain('SELECT (SELECT count(DISTINCT k_bigint) FROM things), (SELECT count(DISTINCT x) FROM here)');
SELECT as_plain('WITH c AS (SELECT count(DISTINCT k_bigint) AS n FROM things) SELECT n FROM c');
SELECT as_plain('WITH c AS MATERIALIZED (SELECT count(DISTINCT k_bigint) AS n FROM things) SELECT n FROM c');
SELECT as_plain('WITH c AS MATERIALIZED (SELECT k_bigint, k_text FROM things) SELECT count(DISTINCT k_bigint), count(DISTINCT k_text) FROM c');
SELECT as_plain('WITH c AS NOT MATERIALIZED (SELECT k_bigint, k_text FROM things) SELECT count(DISTINCT k_bigint), count(DISTINCT k_text) FROM c');
SELECT as_plain('WITH c AS MATERIALIZED (SELECT count(DISTINCT x) AS n FROM here) SELECT count(DISTINCT k_bigint), max(c.n) FROM things, c');
SELECT as_plain('SELECT count(DISTINCT k_bigint) FROM things UNION ALL SELECT count(DISTINCT k_text) FROM things');
SELECT as_plain('SELECT count(DISTINCT u) FROM (SELECT page, user_id FROM clicks UNION ALL SELECT page, user_id FROM visits) s(page, u)');
SELECT as_plain('SELECT count(DISTINCT u) FROM (SELECT user_id FROM clicks UNION SELECT user_id FROM orders) s(u)');
SELECT as_plain('SELECT sum(n) FROM of_tenants', false);
SELECT as_plain('SELECT * FROM of_moods');
SELECT as_plain('SELECT m.n, t.n FROM of_moods m, of_tenants t WHERE t.tenant = 3');

-- exact where an answer decides, as docs/distinct.md says

SELECT as_without('SELECT count(*) FROM things WHERE k_bigint < (SELECT count(DISTINCT k_text) FROM things)');
SELECT as_without('SELECT count(*) FROM things WHERE k_bigint IN (SELECT count(DISTINCT k_text) FROM things)');
SELECT as_without('SELECT count(*) FROM things WHERE id NOT IN (SELECT DISTINCT click_id FROM clicks WHERE click_id > 100)');
SELECT as_without('SELECT count(*) FROM things WHERE id NOT IN (SELECT DISTINCT x FROM here)');
SELECT as_without('WITH c AS MATERIALIZED (SELECT id FROM things) SELECT count(*) FROM things WHERE id NOT IN (SELECT DISTINCT id FROM c WHERE id > 5)');
SELECT as_without('SELECT tenant FROM things WHERE tenant IN (SELECT page FROM clicks GROUP BY page HAVING count(DISTINCT user_id) > 5)');
SELECT as_without('SELECT count(DISTINCT k_bigint) FROM things EXCEPT SELECT count(DISTINCT k_text) FROM things');
SELECT as_without('SELECT count(DISTINCT k_bigint) FROM things INTERSECT SELECT count(DISTINCT k_bigint) FROM things');
SELECT as_without('SELECT count(*) FROM here b LEFT JOIN (SELECT DISTINCT id FROM things) a ON a.id = b.x WHERE a.id IS NULL');

-- SELECT DISTINCT of distributed tables is exact

SELECT as_without('SELECT DISTINCT id FROM things');
SELECT as_without('SELECT DISTINCT tenant, k_text FROM things');
SELECT as_without('SELECT count(*) FROM (SELECT DISTINCT id FROM things) s');
SELECT as_without('SELECT DISTINCT ON (id) id FROM things');
SELECT as_without('SELECT DISTINCT k_bigint FROM things WHERE tenant = 3');
SELECT as_without('SELECT DISTINCT t.id FROM things t JOIN pages p ON p.page = t.tenant');
SELECT as_without('SELECT DISTINCT l.x FROM things t JOIN here l ON l.x = t.id');
SELECT as_without('SELECT a.id FROM (SELECT DISTINCT id FROM things) a JOIN (SELECT DISTINCT x FROM here) b ON a.id = b.x');
SELECT as_without('WITH c AS MATERIALIZED (SELECT id FROM things) SELECT DISTINCT id FROM c');
-- one of a table that Citus does not know is not
SELECT expect('a plain table loses rows', $$SELECT under('on', 'SELECT DISTINCT x FROM here', 'public') <> under('off', 'SELECT DISTINCT x FROM here', 'public')$$, '(t)');

-- what Citus runs on this node, of shards and of intermediate results, is as exact

SELECT citus_set_node_property(:'coordinator', 5432, 'shouldhaveshards', true) \g /dev/null
CREATE TABLE spread (k int NOT NULL, u bigint NOT NULL);
SELECT create_distributed_table('spread', 'k', shard_count => 3, colocate_with => 'none') \g /dev/null
SELECT citus_set_node_property(:'coordinator', 5432, 'shouldhaveshards', false) \g /dev/null
CREATE TABLE plain.spread (LIKE spread);
INSERT INTO plain.spread SELECT i % 50, i * 7919 % 20011 FROM generate_series(1, 20000) i;
INSERT INTO spread SELECT * FROM plain.spread;
SELECT expect('a shard on the coordinator', format('SELECT count(*) > 0 FROM citus_shards WHERE table_name = ''spread''::regclass AND nodename = %L', :'coordinator'), '(t)');
SELECT as_without('SELECT DISTINCT k, u FROM spread');
SELECT as_without('SELECT count(*) FROM spread WHERE u NOT IN (SELECT DISTINCT u FROM spread WHERE u > 5)');
SELECT as_without('WITH c AS MATERIALIZED (SELECT u FROM spread) SELECT count(*) FROM spread WHERE u NOT IN (SELECT DISTINCT u FROM c WHERE u > 5)');
SELECT as_without('WITH c AS MATERIALIZED (SELECT u FROM spread) SELECT DISTINCT u FROM c');
SELECT as_plain('SELECT count(DISTINCT u) FROM spread');
SELECT as_plain('SELECT k % 3, count(DISTINCT u) FROM spread GROUP BY 1');

-- statements, beside the estimate of the plain table and the exact number

SELECT count(DISTINCT k_bigint) AS exact FROM plain.things \gset
SET streamdedup.approximate_distinct = on;
SELECT count(DISTINCT k_bigint) AS estimate FROM plain.things \gset
SELECT judge('the estimate is one', (:estimate <> :exact)::text, 'true');
INSERT INTO counted SELECT 1, count(DISTINCT k_bigint) FROM things;
SELECT expect('INSERT by the coordinator', 'SELECT * FROM counted', format('(1,%s)', :'estimate'));
TRUNCATE counted;
INSERT INTO counted SELECT tenant, count(DISTINCT k_bigint) FROM things GROUP BY tenant;
SELECT same('INSERT by the workers', 'SELECT * FROM (SELECT tenant, count(DISTINCT k_bigint) FROM plain.things GROUP BY tenant) s');
SELECT expect('the same', 'SELECT * FROM counted EXCEPT SELECT tenant, count(DISTINCT k_bigint) FROM things GROUP BY tenant', '');
UPDATE counted SET n = (SELECT count(DISTINCT k_bigint) FROM things) WHERE tenant = 1;
SELECT expect('UPDATE is exact', 'SELECT n FROM counted WHERE tenant = 1', format('(%s)', :'exact'));
CREATE TABLE made AS SELECT count(DISTINCT k_bigint) AS n FROM things;
SELECT expect('CREATE TABLE AS', 'SELECT n FROM made', format('(%s)', :'estimate'));
CREATE MATERIALIZED VIEW kept AS SELECT count(DISTINCT k_bigint) AS n FROM things;
SELECT expect('materialized views are exact', 'SELECT n FROM kept', format('(%s)', :'exact'));
COPY (SELECT count(DISTINCT k_bigint) FROM things) TO '/dev/null';
BEGIN;
DECLARE c CURSOR FOR SELECT count(DISTINCT k_bigint) AS n FROM things;
FETCH c \gset
SELECT judge('a cursor', :'n', :'estimate');
INSERT INTO things (tenant, id, k_bigint) SELECT 1, 1, 100000 + i FROM generate_series(1, 5000) i;
SAVEPOINT s;
SELECT count(DISTINCT k_bigint) BETWEEN 13700 AND 14200 AS n FROM things \gset
SELECT judge('rows of this transaction count', :'n', 't');
ROLLBACK TO s;
ROLLBACK;
PREPARE many (int) AS SELECT count(DISTINCT k_bigint) AS n FROM things WHERE k_int >= $1;
EXECUTE many (0) \g /dev/null
EXECUTE many (0) \g /dev/null
EXECUTE many (0) \g /dev/null
EXECUTE many (0) \g /dev/null
EXECUTE many (0) \g /dev/null
EXECUTE many (0) \gset
SELECT judge('a prepared statement, the sixth time', :'n', :'estimate');
PREPARE one_shard (int) AS SELECT count(DISTINCT k_bigint) AS n FROM things WHERE tenant = $1;
PREPARE bare AS SELECT count(DISTINCT k_bigint) AS n FROM things;
SET plan_cache_mode = force_generic_plan;
EXECUTE one_shard (3) \gset
SELECT judge('a generic plan', :'n', (SELECT count(DISTINCT k_bigint)::text FROM plain.things WHERE tenant = 3));
EXECUTE bare \gset
SELECT judge('a generic plan of all shards', :'n', :'estimate');
SET streamdedup.approximate_distinct = off;
EXECUTE bare \gset
SELECT judge('a generic plan follows the setting', :'n', :'exact');
SET streamdedup.approximate_distinct = on;
EXECUTE bare \gset
SELECT judge('and back', :'n', :'estimate');
RESET plan_cache_mode;

-- Citus cannot have plans with states of aggregates analyzed on the workers

EXPLAIN (ANALYZE, COSTS off) SELECT count(DISTINCT k_text) FROM things \g /dev/null
EXPLAIN (ANALYZE, COSTS off) SELECT tenant, count(DISTINCT k_text) FROM things GROUP BY tenant \g /dev/null
EXPLAIN (ANALYZE, COSTS off) WITH c AS MATERIALIZED (SELECT count(DISTINCT k_text) AS n FROM things) SELECT n FROM c, pages WHERE page < n \g /dev/null
EXPLAIN (ANALYZE, COSTS off) EXECUTE bare \g /dev/null
EXPLAIN (ANALYZE, COSTS off) INSERT INTO counted SELECT tenant, count(DISTINCT k_text) FROM things GROUP BY tenant \g /dev/null
SELECT expect('INSERT was run once', 'SELECT count(*) FROM counted', '(80)');
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_nested_statements = on;
SELECT count(DISTINCT k_bigint) AS n FROM things \gset
SELECT judge('auto_explain', :'n', :'estimate');
WITH c AS MATERIALIZED (SELECT count(DISTINCT k_bigint) AS n FROM things) SELECT max(n) AS n FROM c, pages WHERE page < n \gset
SELECT judge('auto_explain of a part', :'n', :'estimate');
SET auto_explain.log_min_duration = -1;

-- what Citus does not plan with the estimates is planned as it was: the hash of a constant cannot be computed here

BEGIN;
UPDATE pg_proc SET probin = '/nowhere' WHERE oid = 'dedup_hash(dedup_filter,"any")'::regprocedure;
SELECT expect('a plan that fails', 'SELECT count(DISTINCT ''x''::text) FROM things', '(1)');
ROLLBACK;
-- nor without the extension on the workers, or without the right to use it
BEGIN;
DELETE FROM pg_dist_object WHERE classid = 'pg_extension'::regclass AND objid = (SELECT oid FROM pg_extension WHERE extname = 'streamdedup');
SELECT expect('an extension that is here only', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'exact'));
ROLLBACK;
SELECT expect('an extension that is everywhere', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'estimate'));

CREATE FUNCTION counts_itself(int) RETURNS bigint LANGUAGE plpgsql SET application_name = 'mine' AS
	'BEGIN RETURN (SELECT count(DISTINCT i) FROM generate_series(1, 9000) i); END';
SELECT create_distributed_function('counts_itself(int)') \g /dev/null
SELECT judge('the function would show it', (counts_itself(1) <> 9000)::text, 'true');

-- ALTER DATABASE reaches the workers' sessions, which do not follow it: the coordinator's session decides

SET streamdedup.approximate_distinct = off;
ALTER DATABASE :"DBNAME" SET streamdedup.approximate_distinct = on;
ALTER DATABASE :"DBNAME" SET streamdedup.distinct_memory = '64kB';
ALTER DATABASE :"DBNAME" SET streamdedup.distinct_fpr = 0.1;
\c
SET client_min_messages = warning;
SELECT expect('the workers have it', 'SELECT result FROM run_command_on_workers(''SHOW streamdedup.approximate_distinct'')', E'(on)\n(on)');
SELECT expect('on everywhere', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'estimate'));
SELECT as_without('SELECT DISTINCT id FROM things');
SET streamdedup.approximate_distinct = off;
SELECT expect('off here', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'exact'));
SELECT expect('off here, rows', 'SELECT count(*) FROM (SELECT DISTINCT id FROM things) s', '(20000)');
SELECT expect('off here, rows of groups on the workers', 'SELECT count(*) FROM (SELECT DISTINCT tenant, id FROM things) s', '(20000)');
SELECT expect('off here, what workers call', 'SELECT DISTINCT counts_itself(tenant) FROM things', '(9000)');
SELECT expect('commands on the workers', 'SELECT result FROM run_command_on_workers(''SELECT count(DISTINCT i) FROM generate_series(1, 9000) i'')', E'(9000)\n(9000)');
-- Citus sends the workers what SET LOCAL sets, if it is told to
SET citus.propagate_set_commands = 'local';
BEGIN;
SET LOCAL streamdedup.approximate_distinct = on;
SELECT as_without('SELECT DISTINCT tenant, id FROM things');
SET LOCAL streamdedup.approximate_distinct = on;
SELECT expect('SET LOCAL', 'SELECT DISTINCT counts_itself(tenant) FROM things', '(9000)');
ROLLBACK;
RESET citus.propagate_set_commands;
ALTER DATABASE :"DBNAME" RESET ALL;

-- the same of a role

CREATE ROLE regress_setting LOGIN SUPERUSER;
ALTER ROLE regress_setting IN DATABASE :"DBNAME" SET streamdedup.approximate_distinct = on;
\c - regress_setting
SET client_min_messages = warning;
SELECT expect('a role with the setting', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'estimate'));
SET streamdedup.approximate_distinct = off;
SELECT expect('a role without', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'exact'));
\c - postgres
SET client_min_messages = warning;
DROP ROLE regress_setting;

-- off everywhere but here

SELECT expect('the workers do not have it', 'SELECT result FROM run_command_on_workers(''SHOW streamdedup.approximate_distinct'')', E'(off)\n(off)');
SELECT expect('off by default', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'exact'));
SET streamdedup.approximate_distinct = on;
SELECT expect('on here', 'SELECT count(DISTINCT k_bigint) FROM things', format('(%s)', :'estimate'));

-- a worker that clients connect to is a coordinator for them

\c - - :one
SET streamdedup.approximate_distinct = on;
SELECT count(DISTINCT k_bigint) AS n FROM things \gset
SET streamdedup.approximate_distinct = off;
SELECT count(DISTINCT k_bigint) AS m FROM things \gset
\c - - :coordinator
SELECT judge('on, from a worker', :'n', :'estimate');
SELECT judge('off, from a worker', :'m', :'exact');
