-- A statement that is planned while another one is being planned is exact, because its result becomes a constant of
-- the other plan, or a part of it.
LOAD 'streamdedup';
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET client_min_messages = error;
CREATE SCHEMA distinct_nested;
SET search_path = distinct_nested, public;
CREATE TABLE big AS SELECT g AS k FROM generate_series(1, 12000) g;
CREATE TABLE few AS SELECT k FROM big WHERE k > 11500;
ANALYZE big, few;
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_fpr = 0.1;

-- Functions that are wrongly labelled IMMUTABLE, as people do: the planner calls them and
-- puts their results into its plan. Each reads the keys in another way.
CREATE FUNCTION by_return() RETURNS int[] IMMUTABLE LANGUAGE plpgsql
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM big); END';
CREATE FUNCTION by_sql() RETURNS int[] IMMUTABLE LANGUAGE sql
	AS 'SELECT array_agg(k) FROM (SELECT DISTINCT k FROM distinct_nested.big) d';
CREATE FUNCTION by_loop() RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE keys int[] := '{}'; row_ record;
BEGIN
	FOR row_ IN SELECT DISTINCT k FROM big LOOP keys := keys || row_.k; END LOOP;
	RETURN keys;
END $$;
CREATE FUNCTION by_cursor() RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE keys int[] := '{}'; c CURSOR FOR SELECT DISTINCT k FROM big; one int;
BEGIN
	OPEN c;
	LOOP
		FETCH c INTO one;
		EXIT WHEN NOT FOUND;
		keys := keys || one;
	END LOOP;
	CLOSE c;
	RETURN keys;
END $$;
CREATE FUNCTION by_execute() RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE keys int[];
BEGIN
	EXECUTE 'SELECT array_agg(k) FROM (SELECT DISTINCT k FROM big) d' INTO keys;
	RETURN keys;
END $$;
CREATE FUNCTION keys() RETURNS int[] LANGUAGE plpgsql AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM big); END';
CREATE FUNCTION by_call() RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN keys(); END';
CREATE FUNCTION keys_here() RETURNS int[] LANGUAGE plpgsql SET search_path = distinct_nested
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM big); END';
CREATE FUNCTION by_call_here() RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN keys_here(); END';
CREATE FUNCTION by_asking() RETURNS int[] IMMUTABLE LANGUAGE plpgsql SET streamdedup.approximate_distinct = on
	AS 'BEGIN RETURN ARRAY(SELECT DISTINCT k FROM big); END';
CREATE FUNCTION counted() RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(DISTINCT k) FROM distinct_nested.big); END';

-- Every statement below would answer otherwise if it came through this filter.
PREPARE all_keys AS SELECT array_agg(k) FROM (SELECT DISTINCT k FROM big) d;
SET streamdedup.approximate_distinct = on;
CREATE TABLE primed AS SELECT keys() AS a, keys_here() AS b;
CREATE TABLE prepared AS EXECUTE all_keys;
SELECT cardinality(a) < 12000 AS approximate, cardinality(b) < 12000 AS approximate,
	cardinality(array_agg) < 12000 AS approximate FROM primed, prepared;

-- folded, whether the result decides or is shown
SELECT f, n FROM (VALUES
	('by_return', (SELECT cardinality(by_return()))), ('by_sql', cardinality(by_sql())), ('by_loop', cardinality(by_loop())),
	('by_cursor', cardinality(by_cursor())), ('by_execute', cardinality(by_execute())),
	('by_call', cardinality(by_call())),
	('by_call_here', cardinality(by_call_here())), ('by_asking', cardinality(by_asking())), ('counted', counted())) v(f, n);
SELECT count(*) FROM few WHERE k <> ALL (by_return());
SELECT count(*) FROM few WHERE k <> ALL (by_call());
CREATE TABLE folded AS SELECT by_call() AS a;
SELECT cardinality(a) FROM folded;
-- what was planned then is not kept
CREATE TABLE again AS SELECT keys() AS a, keys_here() AS b;
CREATE TABLE prepared_again AS EXECUTE all_keys;
SELECT cardinality(a) < 12000 AS approximate, cardinality(b) < 12000 AS approximate,
	cardinality(array_agg) < 12000 AS approximate FROM again, prepared_again;

-- Estimates call stable functions; partial indexes and constraints are folded when a table is read.
CREATE FUNCTION stable_keys() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d); END';
SELECT count(*) FROM few WHERE k <= stable_keys();
CREATE INDEX part ON few (k) WHERE counted() = 12000;
SELECT count(*) FROM few WHERE k > 0 AND counted() = 12000;

-- prepared statements, generic plans, EXPLAIN EXECUTE, plans that are made again
SET plan_cache_mode = force_generic_plan;
PREPARE missing AS SELECT count(*) FROM few WHERE k <> ALL (by_call());
EXECUTE missing;
CREATE TABLE primed_again AS SELECT keys() AS a;
CREATE INDEX ON few (k);
EXECUTE missing;
EXPLAIN (COSTS OFF) EXECUTE all_keys;
RESET plan_cache_mode;
-- a cursor whose functions are called after others have kept approximate plans
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM few WHERE k > 11998 AND k <> ALL (keys());
CREATE TEMP TABLE primed_inside ON COMMIT DROP AS SELECT keys() AS a;
FETCH c;
COMMIT;

-- an error while planning, caught or not, leaves nothing behind
\set SHOW_CONTEXT never
CREATE FUNCTION fails() RETURNS int IMMUTABLE LANGUAGE plpgsql
	AS 'BEGIN PERFORM count(*) FROM (SELECT DISTINCT k FROM big) d; RETURN 1 / 0; END';
SELECT fails();
SELECT count(*) < 12000 AS approximate FROM (SELECT DISTINCT k FROM big) d;
CREATE FUNCTION catches() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		EXECUTE 'SELECT fails()';
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	RETURN (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d);
END $$;
SELECT catches();
SELECT count(*) < 12000 AS approximate FROM (SELECT DISTINCT k FROM big) d;
BEGIN;
SAVEPOINT s;
UPDATE few SET k = fails() + k * 0;
ROLLBACK TO s;
SELECT count(*) < 12000 AS approximate FROM (SELECT DISTINCT k FROM big) d;
COMMIT;

-- Functions that statements call, not while planning, follow the setting, as long as their
-- result is only shown.
CREATE TABLE called AS SELECT keys() AS a;
SELECT cardinality(a) < 12000 AS approximate FROM called;
SELECT count(*) FROM (SELECT unnest(a) FROM called) s(k) RIGHT JOIN few USING (k) WHERE k <> ALL (keys());
-- a function that asks for itself
SET streamdedup.approximate_distinct = off;
CREATE FUNCTION asks() RETURNS bigint LANGUAGE plpgsql SET streamdedup.approximate_distinct = on
	AS 'BEGIN RETURN (SELECT count(*) FROM (SELECT DISTINCT k FROM big) d); END';
SELECT asks() < 12000 AS approximate;
SELECT cardinality(by_asking());
DROP SCHEMA distinct_nested CASCADE;
