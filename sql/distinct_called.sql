-- Functions whose DISTINCT is approximate when they are called directly. Their result is exact if it is stored,
-- becomes a part of another statement, or decides about rows.
LOAD 'streamdedup';
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET client_min_messages = error;
CREATE SCHEMA distinct_called;
SET search_path = distinct_called, public;
CREATE TABLE big AS SELECT g AS k FROM generate_series(1, 12000) g;
ANALYZE big;
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 0.1;
CREATE VIEW distinct_keys AS SELECT DISTINCT k FROM big;
CREATE FUNCTION counted() RETURNS bigint LANGUAGE plpgsql
	AS 'BEGIN RETURN (SELECT count(*) FROM (SELECT DISTINCT k FROM distinct_called.big) d); END';
CREATE FUNCTION counted_sql() RETURNS bigint LANGUAGE sql
	AS 'SELECT count(*) FROM (SELECT DISTINCT k FROM distinct_called.big) d';
CREATE FUNCTION keys() RETURNS int[] LANGUAGE plpgsql
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM distinct_called.big); END';
CREATE FUNCTION keys_json() RETURNS jsonb LANGUAGE plpgsql
	AS 'BEGIN RETURN (SELECT jsonb_agg(k) FROM (SELECT DISTINCT k FROM distinct_called.big) d); END';
CREATE FUNCTION keys_rows() RETURNS SETOF int LANGUAGE plpgsql
	AS 'BEGIN RETURN QUERY SELECT DISTINCT k FROM distinct_called.big; END';
CREATE FUNCTION complete(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
	AS 'DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM (SELECT DISTINCT k FROM distinct_called.big) d; RETURN n = 12000; END';
SET streamdedup.approximate_distinct = on;
-- five keys that the filter loses, and five others
CREATE TABLE kept AS SELECT DISTINCT k FROM big;
CREATE TABLE few AS (SELECT k FROM big EXCEPT TABLE kept ORDER BY k LIMIT 5) UNION ALL SELECT k FROM kept WHERE k <= 5;
ANALYZE few;
SELECT count(*) FROM few;
SELECT counted() < 12000 AS approximate, counted_sql() < 12000 AS approximate;

-- Commands that define something. The function's approximate plan is from before.
SELECT complete(k) AS exact FROM few LIMIT 1;
CREATE TABLE listed (k bigint) PARTITION BY LIST (k);
CREATE TABLE listed_1 PARTITION OF listed FOR VALUES IN (counted());
SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'listed_1'::regclass;
SELECT complete(k) AS exact FROM few LIMIT 1;
CREATE INDEX complete ON few (k) WHERE complete(k);
SELECT complete(k) AS exact FROM few LIMIT 1;
REINDEX INDEX complete;
SET enable_seqscan = off;
SELECT count(*) FROM few WHERE complete(k);
RESET enable_seqscan;
CREATE DOMAIN checked AS int;
CREATE TABLE checked_keys (k checked);
INSERT INTO checked_keys VALUES (1);
SELECT complete(k) AS exact FROM few LIMIT 1;
ALTER DOMAIN checked ADD CHECK (distinct_called.complete(VALUE));
SELECT complete(k) AS exact FROM few LIMIT 1;
SELECT 5::text::checked, count(k::checked) FROM few;

-- arguments of EXECUTE
PREPARE missing(int[]) AS SELECT count(*) FROM few WHERE k <> ALL ($1);
PREPARE change(bigint) AS UPDATE checked_keys SET k = $1 RETURNING k;
PREPARE distinct_above(int) AS SELECT count(*) < 12000 AS approximate FROM (SELECT DISTINCT k FROM big WHERE k > $1) d;
SELECT counted() < 12000 AS approximate;
EXECUTE missing(keys());
EXECUTE change(counted());
EXECUTE distinct_above(0);
EXECUTE distinct_above(abs(0));
CREATE TABLE missing_made AS EXECUTE missing(keys());
SELECT * FROM missing_made;
EXPLAIN (COSTS OFF) EXECUTE distinct_above(counted()::int - 12000);
EXECUTE distinct_above(0);
CREATE PROCEDURE missing_in(a int[], above int) LANGUAGE plpgsql
	AS $$ BEGIN RAISE INFO 'missing: %', (SELECT count(*) FROM few WHERE k <> ALL (a)); COMMIT; RAISE INFO 'approximate: %', counted() < 12000; END $$;
CALL missing_in(keys(), abs(0));
CALL missing_in('{}', abs(0));
CALL missing_in(above => abs(0), a => keys());
CALL missing_in(above => abs(-(1)), a => '{}');

-- Functions with the rights of their owner, who is the caller here, and plans from before. What
-- was planned in them is not kept.
CREATE FUNCTION definer() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN counted(); END';
CREATE FUNCTION definer_executes() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
	AS 'DECLARE found boolean; BEGIN EXECUTE ''EXECUTE distinct_above(0)'' INTO found; RETURN found; END';
SELECT counted() < 12000 AS approximate;
SELECT definer();
SELECT counted() < 12000 AS approximate;
EXECUTE distinct_above(0);
SELECT definer_executes() AS approximate;
EXECUTE distinct_above(0);

-- a trigger that is called when its transaction ends
CREATE TABLE noted (k int, n bigint);
CREATE TABLE notes (n bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql
	AS 'DECLARE n bigint; BEGIN n := counted(); INSERT INTO notes VALUES (n); n := counted_sql(); INSERT INTO notes VALUES (n); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER note AFTER INSERT ON noted DEFERRABLE INITIALLY IMMEDIATE FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
INSERT INTO noted VALUES (1);
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO noted VALUES (2);
SELECT counted() < 12000 AS approximate, counted_sql() < 12000 AS approximate;
COMMIT;
SELECT n, count(*) FROM notes GROUP BY n;

-- actions of rules
CREATE TABLE ruled (k int);
INSERT INTO ruled VALUES (1);
CREATE RULE ruled_update AS ON UPDATE TO ruled DO ALSO INSERT INTO notes SELECT count(*) FROM (SELECT DISTINCT k FROM big) d;
CREATE RULE ruled_delete AS ON DELETE TO ruled DO INSTEAD SELECT count(*), count(DISTINCT k) FROM (SELECT DISTINCT k FROM big) d;
UPDATE ruled SET k = 1;
DELETE FROM ruled;
SELECT n, count(*) FROM notes GROUP BY n;

-- Within a transaction PL/pgSQL keeps its expressions, and they keep the plans of functions in SQL.
CREATE FUNCTION calls_sql() RETURNS bigint LANGUAGE plpgsql AS 'DECLARE n bigint; BEGIN n := counted_sql(); RETURN n; END';
BEGIN;
SELECT calls_sql() < 12000 AS approximate;
UPDATE noted SET n = calls_sql();
SELECT calls_sql() < 12000 AS approximate;
DELETE FROM noted WHERE k = 1 AND calls_sql() < 12000;
COMMIT;
SELECT n FROM noted;

-- Values that hold others, aggregates of a function's rows, and conditions of PL/pgSQL.
CREATE TABLE asked AS SELECT k <> ALL (keys()) AS missing FROM few;
CREATE TABLE asked_json AS SELECT NOT keys_json() @> to_jsonb(k) AS missing FROM few;
CREATE FUNCTION is_missing(key int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN IF key <> ALL (keys()) THEN RETURN true; END IF; RETURN NOT key = ANY (keys()); END';
CREATE FUNCTION missing_in_rows(key int, OUT missing boolean) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT NOT bool_or(r = %s) FROM distinct_called.keys_rows() r', key) INTO missing;
END $$;
CREATE TABLE asked_one AS SELECT is_missing(k) FROM few;
CREATE TABLE asked_rows AS SELECT missing_in_rows(k) FROM few;
SELECT count(*) FROM asked WHERE missing;
SELECT count(*) FROM asked_json WHERE missing;
SELECT count(*) FROM asked_one WHERE is_missing;
SELECT count(*) FROM asked_rows WHERE missing_in_rows;
CREATE TABLE shown AS SELECT keys() AS a, keys_json() AS b;
SELECT cardinality(a) < 12000 AS approximate, jsonb_array_length(b) < 12000 AS approximate FROM shown;
DO $$ DECLARE a int[]; BEGIN a := keys(); RAISE INFO 'approximate: %', cardinality(a) < 12000; END $$;

-- FILTER
CREATE FUNCTION is_there(key int) RETURNS boolean LANGUAGE plpgsql AS 'DECLARE a int[]; BEGIN a := ARRAY(SELECT DISTINCT k FROM distinct_called.big); RETURN key = ANY (a); END';
SELECT count(*) FILTER (WHERE is_there(k)), count(*) AS all FROM few;
SELECT count(*) FILTER (WHERE is_there(k)) OVER () FROM few LIMIT 1;
SELECT count(*) FILTER (WHERE k <= (SELECT count(DISTINCT k) - 12000 + 5 FROM big)) FROM few;

-- where sets of rows are filled up
SELECT count(b) - count(a) AS rows_from FROM ROWS FROM (keys_rows(), generate_series(1, 12000)) r(a, b);
SELECT count(b) - count(a) AS select_list FROM (SELECT keys_rows() AS a, generate_series(1, 12000) AS b) s;
SELECT count(*) < 12000 AS approximate FROM ROWS FROM (keys_rows()) WITH ORDINALITY r(a, n);
SELECT count(a) < 12000 AS approximate FROM (SELECT keys_rows() AS a, 1) s;

-- the server's own functions that run queries
SELECT count(*) FROM few LEFT JOIN ts_stat('SELECT to_tsvector(''simple'', k::text) FROM (SELECT DISTINCT k FROM distinct_called.big) d') s
	ON word = k::text WHERE word IS NULL;
SELECT count(*) AS xml FROM (SELECT 1 WHERE length(query_to_xml('SELECT DISTINCT k FROM distinct_called.big', false, true, '')::text)
	<> length(query_to_xml('SELECT k FROM distinct_called.big', false, true, '')::text)) s;
SELECT count(*) AS view_xml FROM (SELECT 1 WHERE length(table_to_xml('distinct_keys', false, false, '')::text)
	< length(table_to_xml('big', false, false, '')::text)) s;

-- functions that set it by themselves, in a session that does not
SET streamdedup.approximate_distinct = off;
CREATE FUNCTION asks() RETURNS int[] LANGUAGE plpgsql SET streamdedup.approximate_distinct = on
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM distinct_called.big); END';
CREATE TABLE asks_shown AS SELECT asks() AS a;
SELECT cardinality(a) < 12000 AS approximate FROM asks_shown;
SELECT count(*) FROM few WHERE cardinality(asks()) < 12000;
DROP SCHEMA distinct_called CASCADE;
