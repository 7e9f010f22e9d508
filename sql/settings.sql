-- The settings, and the contexts where streamdedup.approximate_distinct applies; count(DISTINCT) shows this.

SET client_min_messages = warning;
CREATE SCHEMA settings_test;
SET search_path = settings_test, public;
CREATE TABLE t (a int);
INSERT INTO t SELECT i % 100000 FROM generate_series(1, 120000) i;
CREATE FUNCTION plan_of(query text DEFAULT 'SELECT count(DISTINCT a) FROM settings_test.t') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line LIKE '%approx_count_distinct(%' THEN
			RETURN 'approximate';
		END IF;
	END LOOP;
	RETURN 'exact';
END $$;

-- defaults, units, ranges

SELECT dedup_approximate_distinct(false);
SHOW streamdedup.approximate_distinct;
SHOW streamdedup.distinct_fpr;
SHOW streamdedup.distinct_memory;
SELECT name, unit, context, vartype, min_val, boot_val FROM pg_settings WHERE name LIKE 'streamdedup.%' ORDER BY name;
SET streamdedup.distinct_memory = '100MB';
SHOW streamdedup.distinct_memory;
SET streamdedup.distinct_memory = '64kB';
SET streamdedup.distinct_memory = '63kB';
SET streamdedup.distinct_memory = 0;
SET streamdedup.distinct_memory = -1;
SET streamdedup.distinct_fpr = 1e-8;
SET streamdedup.distinct_fpr = 0.1;
SET streamdedup.distinct_fpr = 0;
SET streamdedup.distinct_fpr = 0.11;
SET streamdedup.distinct_fpr = 'few';
SHOW streamdedup.distinct_fpr;
SET streamdedup.approximate_distinct = 'perhaps';
RESET streamdedup.distinct_fpr;

-- the function sets it, for the session or the transaction, and refuses NULL

SELECT plan_of();
SELECT dedup_approximate_distinct(true), plan_of();
SELECT plan_of();
BEGIN;
SELECT dedup_approximate_distinct(false, is_local => true);
SELECT plan_of();
COMMIT;
SELECT plan_of();
BEGIN;
SELECT dedup_approximate_distinct(enable => false);
SELECT plan_of();
ROLLBACK;
SELECT plan_of();
-- A pooler in transaction mode hands one server connection from client to client. What the
-- one client sets for the session, the next client finds; is_local ends with the transaction,
-- however that ends, and so does SET LOCAL.
SELECT dedup_approximate_distinct(true) AS first_client;
SELECT plan_of() AS next_client;
SELECT dedup_approximate_distinct(false);
BEGIN;
SELECT dedup_approximate_distinct(true, is_local => true) AS first_client;
SET LOCAL streamdedup.distinct_fpr = 0.01;
SET LOCAL streamdedup.distinct_memory = '1MB';
SELECT plan_of() AS first_client;
COMMIT;
SELECT plan_of() AS next_client, current_setting('streamdedup.approximate_distinct') AS setting,
	current_setting('streamdedup.distinct_fpr') AS fpr, current_setting('streamdedup.distinct_memory') AS memory;
BEGIN;
SELECT dedup_approximate_distinct(true, is_local => true) AS first_client;
SELECT plan_of() AS first_client;
ROLLBACK;
SELECT plan_of() AS next_client;
BEGIN;
SAVEPOINT s;
SELECT dedup_approximate_distinct(true, is_local => true);
SELECT plan_of();
ROLLBACK TO s;
SELECT plan_of();
SAVEPOINT t;
SELECT dedup_approximate_distinct(true, is_local => true);
RELEASE t;
SELECT plan_of();
SELECT 1 / 0 AS fails;
COMMIT;
SELECT plan_of() AS next_client;
-- outside a transaction block it ends with the statement that makes it
SELECT dedup_approximate_distinct(true, is_local => true);
SELECT plan_of() AS next_client;
SELECT dedup_approximate_distinct(NULL);
SELECT dedup_approximate_distinct(true, NULL);
RESET streamdedup.approximate_distinct;
SELECT plan_of();
SET streamdedup.approximate_distinct = on;

-- SECURITY DEFINER: exact, unless its owner asks for it, in its SET clause or its body

CREATE ROLE regress_settings_owner;
CREATE ROLE regress_settings_other;
GRANT ALL ON SCHEMA settings_test TO PUBLIC;
GRANT SELECT ON t TO PUBLIC;
CREATE FUNCTION count_t() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(DISTINCT a) FROM t); END';
CREATE FUNCTION invoker() RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN plan_of(); END';
SET ROLE regress_settings_other;
CREATE FUNCTION other() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN plan_of(); END';
CREATE FUNCTION other_asks() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET streamdedup.approximate_distinct = on
	AS 'BEGIN RETURN plan_of(); END';
SET ROLE regress_settings_owner;
CREATE FUNCTION definer() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN plan_of(); END';
CREATE FUNCTION definer_sql() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(DISTINCT a) FROM t';
CREATE FUNCTION definer_calls() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN count_t(); END';
CREATE FUNCTION definer_other() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN other_asks() || '', '' || plan_of(); END';
CREATE FUNCTION asks() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET streamdedup.approximate_distinct = on
	AS 'BEGIN RETURN plan_of(); END';
CREATE FUNCTION asks_and_calls(called text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET streamdedup.approximate_distinct = on
	AS 'DECLARE answer text; BEGIN EXECUTE ''SELECT '' || called INTO answer; RETURN answer; END';
CREATE FUNCTION asks_inside(is_local boolean) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
	AS 'BEGIN PERFORM set_config(''streamdedup.approximate_distinct'', ''on'', is_local); RETURN plan_of(); END';
CREATE FUNCTION refuses() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET streamdedup.approximate_distinct = off
	AS 'BEGIN RETURN invoker(); END';
RESET ROLE;
SELECT plan_of(), invoker(), definer(), asks(), refuses();
SELECT plan_of(), invoker(), definer(), asks(), refuses();
SELECT definer_sql() = 100000 AS exact;

-- what it calls is under the same rule; another owner's function asks for itself

SELECT asks_and_calls('invoker()'), asks_and_calls('other()'), definer_other();

-- its owner's other functions, too, are under what the owner asked for

SELECT asks_and_calls('definer()'), definer();

-- in its body

BEGIN;
SELECT asks_inside(true);
SELECT plan_of(), other(), definer();
ROLLBACK;
SELECT plan_of(), other(), definer();
SET streamdedup.approximate_distinct = off;
SELECT asks_inside(false);
SELECT plan_of(), other();
SET streamdedup.approximate_distinct = on;
SELECT definer();

-- SET ROLE is no such function, and gives nothing to one

SET ROLE regress_settings_owner;
SELECT plan_of(), definer(), other(), asks();
SET streamdedup.approximate_distinct = off;
SET streamdedup.approximate_distinct = on;
SELECT plan_of(), definer(), other(), asks();
RESET ROLE;

-- cached plans do not carry an answer from one user to another, or into it

SELECT count_t() <> 100000 AS approximate;
SELECT definer_calls() = 100000 AS exact;
SELECT count_t() <> 100000 AS approximate;
SELECT asks_and_calls('count_t()')::bigint <> 100000 AS approximate;
SELECT definer_calls() = 100000 AS exact;
SET streamdedup.approximate_distinct = off;
SELECT count_t() = 100000 AS exact, asks_and_calls('count_t()')::bigint <> 100000 AS approximate;
SELECT count_t() = 100000 AS exact;
SET streamdedup.approximate_distinct = on;
SELECT count_t() <> 100000 AS approximate;

-- nor do maintenance commands follow it

CREATE FUNCTION count_then(int) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'DECLARE n bigint; BEGIN
		EXECUTE ''SELECT count(DISTINCT a) FROM settings_test.t'' INTO n;
		RAISE WARNING ''%'', CASE n WHEN 100000 THEN ''exact'' ELSE ''approximate'' END;
		RETURN $1;
	END';
CREATE TABLE one (a int);
INSERT INTO one VALUES (1);
SELECT count_then(a) FROM one;
CREATE INDEX ON one (count_then(a));

RESET streamdedup.approximate_distinct;
DROP SCHEMA settings_test CASCADE;
DROP ROLE regress_settings_owner, regress_settings_other;
