-- Tables that inherit from a guarded table: their guard is a clone of its guard.

\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA guard_inherit;
SET search_path = guard_inherit, public;
-- What a guard consists of, without what differs from table to table.
CREATE FUNCTION parts(of regclass) RETURNS TABLE (part text) LANGUAGE sql AS $$
	SELECT regexp_replace(pg_get_triggerdef(oid), ' ON \S+', '') FROM pg_trigger WHERE tgrelid = of AND NOT tgisinternal
	UNION ALL
	SELECT regexp_replace(pg_get_indexdef(indexrelid), 'INDEX .* USING', 'INDEX USING') FROM pg_index JOIN pg_class i ON i.oid = indexrelid
		JOIN pg_am a ON a.oid = relam WHERE indrelid = of AND amname = 'streamdedup_guard'
	ORDER BY 1
$$;
CREATE FUNCTION same_parts(one regclass, other regclass) RETURNS boolean LANGUAGE sql AS $$
	SELECT array(SELECT part FROM parts(one)) = array(SELECT part FROM parts(other)) AND EXISTS (SELECT FROM parts(one))
$$;
-- Tables, where they are, and how many guards there are.
CREATE VIEW guards AS SELECT "table", filter, columns, partitions_guarded AS guarded, partitions_unguarded AS unguarded, problem FROM dedup_guards ORDER BY "table"::text;

-- ---- children that are there, and children that come ----

SELECT dedup_create('f', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE p (k int, v text);
CREATE TABLE c1 (x int) INHERITS (p);
CREATE TABLE g1 () INHERITS (c1);
SELECT dedup_guard('p', 'f', '{k}') \gset
CREATE TABLE c2 (z int, gone int, v text, k int);
ALTER TABLE c2 DROP COLUMN gone;
ALTER TABLE c2 INHERIT p;
SET client_min_messages = notice;
CREATE TABLE c3 (LIKE p INCLUDING ALL) INHERITS (p);
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS g3 () INHERITS (c3);
DO $$ BEGIN CREATE TABLE c4 () INHERITS (p); END $$;
CREATE SCHEMA guard_inherit_other CREATE TABLE c5 () INHERITS (guard_inherit.p) CREATE TABLE apart (k int);
CREATE TABLE c6 (x int) INHERITS (c1, c2);
SELECT * FROM parts('p');
SELECT relid, same_parts(relid, 'p') FROM unnest('{c1,g1,c2,c3,g3,c4,guard_inherit_other.c5,c6}'::regclass[]) relid;
SELECT count(*) FROM parts('guard_inherit_other.apart');
SELECT * FROM guards;
INSERT INTO c1 (k) VALUES (1), (2), (2);
INSERT INTO c2 (k) VALUES (2), (3);
INSERT INTO p VALUES (1), (3);
INSERT INTO g3 (k) VALUES (1), (2), (3), (4);
INSERT INTO c6 (k) VALUES (5);
UPDATE c2 SET k = 1 WHERE k = 3;
UPDATE p SET k = 6 WHERE k = 5;
SELECT tableoid::regclass, k FROM p ORDER BY k;

-- rows of the parent are moved by one statement, not by copies

WITH moved AS (DELETE FROM ONLY p RETURNING *) INSERT INTO c4 SELECT * FROM moved;
INSERT INTO p VALUES (7);
WITH moved AS (DELETE FROM ONLY p RETURNING *) INSERT INTO c4 SELECT * FROM moved;
INSERT INTO p VALUES (8);
INSERT INTO c4 SELECT * FROM ONLY p;
DELETE FROM ONLY p;
SELECT tableoid::regclass, k FROM p ORDER BY k;

-- ---- it is one guard ----

SELECT dedup_unguard('c1');
SELECT dedup_guard('g1', 'f', '{k}');
SELECT table_name, dedup_unguard(table_name::regclass) FROM (VALUES ('guard_inherit_other.apart')) t (table_name);
ALTER TABLE c2 RENAME TO c2_renamed;
ALTER TABLE p RENAME COLUMN k TO key;
ALTER TABLE g1 SET SCHEMA guard_inherit_other;
ALTER TABLE p RENAME TO parent;
ALTER TABLE f RENAME TO seen;
SELECT * FROM guards;
INSERT INTO guard_inherit_other.g1 (key) VALUES (1), (9);
INSERT INTO c2_renamed (key) VALUES (9);
SELECT tableoid::regclass, key FROM parent WHERE key IN (1, 9) ORDER BY key;
\set VERBOSITY terse
ALTER TABLE parent DROP COLUMN key;
ALTER TABLE parent ALTER COLUMN key TYPE text;
\set VERBOSITY default
ALTER TABLE c4 DISABLE TRIGGER "~dedup_guard";
SELECT * FROM guards;
ALTER TABLE c4 ENABLE TRIGGER "~dedup_guard";
DROP TABLE c6;
SELECT dedup_guard_inherited();
CREATE TABLE IF NOT EXISTS c4 () INHERITS (parent);

-- ---- NO INHERIT ----

CREATE TABLE d () INHERITS (c3, c4);
CREATE TABLE dd () INHERITS (d);
ALTER TABLE d NO INHERIT c3;
SELECT relid, same_parts(relid, 'parent') FROM unnest('{d,dd}'::regclass[]) relid;
SET client_min_messages = notice;
ALTER TABLE d NO INHERIT c4;
SELECT count(*) FROM parts('d');
SELECT count(*) FROM parts('dd');
INSERT INTO d VALUES (1), (1);
ALTER TABLE d INHERIT c3;
SELECT relid, same_parts(relid, 'parent') FROM unnest('{d,dd}'::regclass[]) relid;
BEGIN;
ALTER TABLE d NO INHERIT c3, INHERIT c4;
SELECT relid, same_parts(relid, 'parent') FROM unnest('{d,dd}'::regclass[]) relid;
ROLLBACK;
ALTER TABLE dd NO INHERIT d;
ALTER TABLE d NO INHERIT c3;
SELECT dedup_guard('d', 'seen', '{key}', load => false);
DROP TABLE d, dd;
SET client_min_messages = warning;

-- ---- what cannot be a child ----

CREATE TEMP TABLE t () INHERITS (parent);
-- ... nor below a child, for a session or a transaction, nor where triggers do not fire
CREATE TABLE below () INHERITS (parent);
CREATE TEMP TABLE t () INHERITS (below) ON COMMIT DELETE ROWS;
BEGIN;
CREATE TEMP TABLE t () INHERITS (parent) ON COMMIT DROP;
ROLLBACK;
SET session_replication_role = replica;
CREATE TEMP TABLE t () INHERITS (parent);
RESET session_replication_role;
DROP TABLE below;
CREATE TABLE below (LIKE parent);
CREATE TEMP TABLE t () INHERITS (below);
ALTER TABLE below INHERIT parent;
DROP TABLE t, below;
CREATE FOREIGN DATA WRAPPER guard_inherit_wrapper;
CREATE SERVER guard_inherit_server FOREIGN DATA WRAPPER guard_inherit_wrapper;
CREATE FOREIGN TABLE t () INHERITS (parent) SERVER guard_inherit_server;
CREATE FOREIGN TABLE t (key int, v text) SERVER guard_inherit_server;
ALTER FOREIGN TABLE t INHERIT parent;
DROP FOREIGN TABLE t;
SELECT dedup_create('other', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE own (key int, v text);
SELECT dedup_guard('own', 'seen', '{key}') \gset
ALTER TABLE own INHERIT parent;
CREATE TABLE both_of () INHERITS (parent, own);
CREATE TABLE t (key int, v text);
ALTER TABLE t INHERIT own;
ALTER TABLE t INHERIT parent;
DROP TABLE t;
SELECT dedup_unguard('own') \gset
ALTER TABLE own INHERIT parent;
SELECT same_parts('own', 'parent');

-- nor of a table that is to be guarded

CREATE TABLE q (k int);
CREATE TEMP TABLE q_temporary () INHERITS (q);
SELECT dedup_guard('q', 'other', '{k}');
DROP TABLE q_temporary;
CREATE FOREIGN TABLE q_foreign () INHERITS (q) SERVER guard_inherit_server;
SELECT dedup_guard('q', 'other', '{k}');
DROP FOREIGN TABLE q_foreign;
CREATE TABLE q_own () INHERITS (q);
SELECT dedup_guard('q_own', 'seen', '{k}') \gset
SELECT dedup_guard('q', 'other', '{k}');
DROP TABLE q CASCADE;

-- ---- dropping ----

SELECT dedup_unguard('parent') \gset
SELECT count(*) FROM pg_trigger WHERE tgname ~ '~dedup_guard' AND tgrelid::regclass::text !~ 'own';
SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'streamdedup_guard' AND relnamespace::regnamespace::text ~ 'guard_inherit';
SELECT dedup_guard('parent', 'seen', '{key}', load => false) \gset
SELECT * FROM guards;
\set VERBOSITY terse
DROP TABLE parent;
\set VERBOSITY default
DROP TABLE parent CASCADE;
SELECT * FROM guards;
DROP TABLE seen;

-- ---- roles: the guard of a parent is made on tables of others ----

CREATE ROLE regress_inherit_parent;
CREATE ROLE regress_inherit_child;
GRANT regress_inherit_child TO regress_inherit_parent;
GRANT ALL ON SCHEMA guard_inherit TO regress_inherit_parent, regress_inherit_child;
SET ROLE regress_inherit_parent;
SELECT dedup_create('f', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE p (k int);
CREATE TABLE c (k int);
ALTER TABLE c OWNER TO regress_inherit_child;
ALTER TABLE c INHERIT p;
RESET ROLE;
REVOKE CREATE ON SCHEMA guard_inherit FROM regress_inherit_child;
REVOKE TRIGGER ON c FROM regress_inherit_child;
REVOKE regress_inherit_child FROM regress_inherit_parent;
SET ROLE regress_inherit_parent;
SELECT dedup_guard('p', 'f', '{k}');
RESET ROLE;
GRANT TRIGGER ON c TO regress_inherit_child;
SET ROLE regress_inherit_parent;
SELECT dedup_guard('p', 'f', '{k}');
SELECT same_parts('c', 'p');
-- with an empty search_path
SET search_path = '';
CREATE TABLE guard_inherit.c2 () INHERITS (guard_inherit.p);
SET search_path = guard_inherit, public;
SELECT same_parts('c2', 'p');
-- a stranger can make no child, and his IF NOT EXISTS guards nothing
RESET ROLE;
GRANT ALL ON SCHEMA guard_inherit TO regress_inherit_child;
SET ROLE regress_inherit_child;
CREATE TABLE c3 () INHERITS (p);
INSERT INTO c VALUES (1), (1);
SELECT * FROM c;
RESET ROLE;
SET ROLE regress_inherit_parent;
SELECT dedup_unguard('p');
RESET ROLE;
SELECT count(*) FROM parts('c');
DROP TABLE p CASCADE;
DROP TABLE f;
REVOKE ALL ON SCHEMA guard_inherit FROM regress_inherit_parent, regress_inherit_child;
DROP ROLE regress_inherit_parent, regress_inherit_child;

-- ---- clones that another extension has made ----

-- As TimescaleDB makes a chunk: no event trigger, and what the server prints of the parent's triggers.
CREATE FUNCTION make_chunk(hypertable text, chunk text, body text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	command text;
BEGIN
	ALTER EVENT TRIGGER streamdedup_guard_inherited DISABLE;
	EXECUTE format('CREATE TABLE %s (%s) INHERITS (%s)', chunk, body, hypertable);
	FOR command IN SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = hypertable::regclass AND NOT tgisinternal
		UNION ALL SELECT regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \S+', 'INDEX') FROM pg_index WHERE indrelid = hypertable::regclass
	LOOP
		EXECUTE regexp_replace(command, ' ON \S+', ' ON ' || chunk);
	END LOOP;
	ALTER EVENT TRIGGER streamdedup_guard_inherited ENABLE ALWAYS;
END $$;
SELECT dedup_create('f', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE h (k int, "At" timestamptz NOT NULL, v text);
SELECT dedup_guard('h', 'f', ARRAY['lower(v)', $$(("At" AT TIME ZONE 'UTC')::date)$$], "where" => 'k > 0 OR v IN (''a'', ''b'')') \gset
SELECT make_chunk('h', 'h1', 'CHECK ("At" >= ''2026-01-01 00:00Z'' AND "At" < ''2026-01-02 00:00Z'')');
CREATE TABLE h2 (v text, k int, "At" timestamptz NOT NULL);
ALTER TABLE h2 INHERIT h;
SELECT make_chunk('h2', 'h3', '');
-- servers before 14 show AT TIME ZONE as a function
SELECT replace(part, 'timezone(''UTC''::text, old."At")', '(old."At" AT TIME ZONE ''UTC''::text)') AS part FROM parts('h3');
SELECT relid, same_parts(relid, 'h') FROM unnest('{h1,h2,h3}'::regclass[]) relid;
SELECT "table", filter, replace(columns::text, 'timezone(''UTC''::text, \"At\")', '(\"At\" AT TIME ZONE ''UTC''::text)')::text[] AS columns, guarded, unguarded, problem FROM guards;
INSERT INTO h1 VALUES (1, '2026-01-01 10:00Z', 'a'), (1, '2026-01-01 11:00Z', 'A'), (0, '2026-01-01 11:00Z', 'c'), (0, '2026-01-01 12:00Z', 'c');
INSERT INTO h3 (k, "At", v) VALUES (2, '2026-01-02 10:00Z', 'a'), (0, '2026-01-02 11:00Z', 'a'), (0, '2026-01-02 11:00Z', 'A');
INSERT INTO h2 (k, "At", v) VALUES (1, '2026-01-01 10:00Z', 'A'), (1, '2026-01-02 10:00Z', 'A'), (1, '2026-01-03 10:00Z', 'A');
SELECT tableoid::regclass, k, ("At" AT TIME ZONE 'UTC')::date, v FROM h ORDER BY tableoid::regclass::text, 2, 3, 4;
SELECT dedup_unguard('h1');
SELECT dedup_unguard('h3');
-- a guard that differs in anything is the table's own
DO $$
DECLARE
	change text;
	shown text;
BEGIN
	FOREACH change IN ARRAY ARRAY[
		'CREATE TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON h1 FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(''skip'', ''h_dedup_guard'')',
		'CREATE TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON h1 FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(''reject'', ''h_dedup_guard'')',
		'CREATE TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON h1 FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(''skip'', ''h1'')',
		'CREATE TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON h1 FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(''skip'', ''h_dedup_guard'', ''nulls_not_distinct'')',
		'CREATE TRIGGER "~dedup_guard_delete" BEFORE DELETE ON h1 FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR lower(OLD.v) IS NULL) EXECUTE FUNCTION dedup_guard_trigger()',
		'CREATE TRIGGER "~dedup_guard_delete" BEFORE DELETE ON h1 FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR lower(OLD.v) IS NULL OR (OLD."At" AT TIME ZONE ''UTC'')::date IS NULL OR (OLD.k > 1 OR OLD.v IN (''a'', ''b'')) IS NOT TRUE) EXECUTE FUNCTION dedup_guard_trigger()',
		'CREATE TRIGGER "~dedup_guard_delete" BEFORE DELETE ON h1 FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR lower(OLD.v) IS NULL OR (OLD."At" AT TIME ZONE ''UTC'')::date IS NULL OR (OLD.k > 0 OR OLD.v IN (''a'', ''b'')) IS NOT TRUE) EXECUTE FUNCTION dedup_guard_trigger()']
	LOOP
		BEGIN
			EXECUTE 'DROP TRIGGER "~dedup_guard' || CASE WHEN change ~ '_delete' THEN '_delete' ELSE '' END || '" ON h1';
			EXECUTE change;
			SELECT string_agg("table"::text, ' ' ORDER BY "table"::text) INTO shown FROM guards;
			RAISE EXCEPTION 'undo';
		EXCEPTION WHEN raise_exception THEN
			RAISE WARNING '%: %', regexp_replace(change, '^.* (WHEN|FUNCTION) ', ''), shown;
		END;
	END LOOP;
END $$;
SELECT dedup_unguard('h');
SELECT count(*) FROM parts('h1');
SELECT count(*) FROM parts('h3');
DROP TABLE h CASCADE;
DROP TABLE f;

-- ---- exact guards ----

SELECT dedup_create('e', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE p (k int, v text);
CREATE INDEX ON p (k);
INSERT INTO p VALUES (1, 'p');
CREATE TABLE c1 () INHERITS (p);
INSERT INTO c1 VALUES (2, 'c1'), (2, 'c1');
SELECT dedup_guard('p', 'e', '{k}', exact => true);
CREATE INDEX ON c1 (k);
SELECT dedup_guard('p', 'e', '{k}', exact => true);
DELETE FROM c1 WHERE ctid = '(0,2)';
SELECT dedup_guard('p', 'e', '{k}', exact => true);
SELECT * FROM guards;
-- a table that is made gets an index like the parent's
CREATE TABLE c2 (x int) INHERITS (c1);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'c2'::regclass ORDER BY 1;
INSERT INTO p VALUES (1, 'p'), (2, 'p'), (3, 'p');
INSERT INTO c2 VALUES (6, 'c2'), (6, 'c2');
INSERT INTO c1 VALUES (6, 'c1'), (2, 'c1'), (4, 'c1'), (5, 'c1');
INSERT INTO p VALUES (4, 'p'), (5, 'p');
SELECT tableoid::regclass, k, v FROM p ORDER BY k;
-- a row that a parent has: it could be moved here by hand
INSERT INTO c2 VALUES (3, 'c2');
INSERT INTO c2 VALUES (5, 'c2');
WITH moved AS (DELETE FROM ONLY p RETURNING *) INSERT INTO c2 SELECT * FROM moved;
INSERT INTO c2 VALUES (3, 'c2');
UPDATE c2 SET k = 5 WHERE k = 4;
UPDATE p SET k = k + 10;
DELETE FROM c2 WHERE k = 11;
INSERT INTO c1 VALUES (1, 'c1'), (11, 'c1'), (12, 'c1');
SELECT tableoid::regclass, k, v FROM p ORDER BY k;
-- tables with rows are loaded and held against the rest
CREATE TABLE c3 (v text, k int);
CREATE TABLE c4 () INHERITS (c3);
INSERT INTO c3 (k) VALUES (20);
INSERT INTO c4 (k) VALUES (21), (12);
ALTER TABLE c3 INHERIT p;
CREATE INDEX ON c3 (k);
ALTER TABLE c3 INHERIT p;
CREATE INDEX ON c4 USING hash (k);
ALTER TABLE c3 INHERIT p;
UPDATE c4 SET k = 22 WHERE k = 12;
ALTER TABLE c3 INHERIT p;
INSERT INTO p VALUES (20, 'p'), (21, 'p'), (22, 'p'), (23, 'p');
SELECT tableoid::regclass, k, v FROM p WHERE k >= 20 ORDER BY k;
-- those that leave are not searched any more
ALTER TABLE c3 NO INHERIT p;
INSERT INTO c2 VALUES (20, 'c2');
INSERT INTO c3 (k) VALUES (20);
ALTER TABLE c3 INHERIT p;
SELECT dedup_rebuild('e');
DROP TABLE c3 CASCADE;
INSERT INTO c2 VALUES (21, 'c2');
-- a table comes, gets rows and goes in one transaction
BEGIN;
CREATE TABLE c5 () INHERITS (p);
INSERT INTO c5 VALUES (30, 'c5'), (30, 'c5'), (21, 'c5');
INSERT INTO p VALUES (30, 'p');
SAVEPOINT s;
ALTER TABLE c5 NO INHERIT p;
INSERT INTO c1 VALUES (30, 'c1');
ROLLBACK TO s;
INSERT INTO c1 VALUES (30, 'c1');
COMMIT;
SELECT tableoid::regclass, k, v FROM p WHERE k >= 20 ORDER BY k;
-- TRUNCATE
TRUNCATE ONLY p, e;
TRUNCATE c1, e;
TRUNCATE ONLY p;
INSERT INTO c2 VALUES (23, 'c2'), (30, 'c2');
TRUNCATE p, e;
INSERT INTO c5 VALUES (30, 'c5');
INSERT INTO p VALUES (30, 'p'), (31, 'p');
SELECT tableoid::regclass, k, v FROM p ORDER BY k;
ALTER TABLE p SET UNLOGGED;
ALTER TABLE e SET UNLOGGED;
CREATE TABLE c6 () INHERITS (p);
SELECT * FROM guards;
-- a parent that was not the parent when the session saw the guard first
SELECT dedup_create('e2', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE late (k int, v text);
CREATE INDEX ON late (k);
DO $$
DECLARE
	command text;
BEGIN
	ALTER EVENT TRIGGER streamdedup_guard_inherited DISABLE;
	FOR command IN SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'p'::regclass LOOP
		EXECUTE replace(command, 'guard_inherit.p ', 'guard_inherit.late ');
	END LOOP;
	CREATE INDEX ON late USING streamdedup_guard (k);
	BEGIN
		INSERT INTO late VALUES (30, 'late'), (30, 'late');
	EXCEPTION WHEN object_not_in_prerequisite_state THEN
		RAISE INFO '%', SQLERRM;
	END;
	ALTER TABLE late INHERIT p;
	INSERT INTO late VALUES (30, 'late'), (32, 'late');
	ALTER EVENT TRIGGER streamdedup_guard_inherited ENABLE ALWAYS;
END $$;
SELECT tableoid::regclass, k, v FROM p ORDER BY k;
-- a table with rows that another extension attaches: its keys are loaded before the next row lands
DO $$
DECLARE
	command text;
BEGIN
	CREATE TABLE unseen (k int, v text);
	INSERT INTO unseen VALUES (40, 'unseen'), (41, 'unseen');
	ALTER EVENT TRIGGER streamdedup_guard_inherited DISABLE;
	ALTER TABLE unseen INHERIT p;
	FOR command IN SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'p'::regclass LOOP
		EXECUTE replace(command, 'guard_inherit.p ', 'guard_inherit.unseen ');
	END LOOP;
	CREATE INDEX ON unseen USING streamdedup_guard (k);
	CREATE INDEX ON unseen (k);
	ALTER EVENT TRIGGER streamdedup_guard_inherited ENABLE ALWAYS;
END $$;
INSERT INTO p VALUES (40, 'p');
SELECT dedup_rebuild('e');
INSERT INTO p VALUES (40, 'p'), (41, 'p'), (42, 'p');
REINDEX TABLE unseen;
VACUUM FULL unseen;
SELECT tableoid::regclass, k, v FROM p WHERE k >= 40 ORDER BY k;
SELECT * FROM guards;
DROP TABLE p CASCADE;
DROP TABLE e, e2;

-- ---- marked copies ----

SELECT dedup_create('f', dedup_filter(1000, 0.0001, 1)) \gset
CREATE TABLE m (k int, is_duplicate boolean);
CREATE TABLE m1 () INHERITS (m);
CREATE INDEX ON m (k);
CREATE INDEX ON m1 (k);
SELECT dedup_guard('m', 'f', '{k}', 'mark') \gset
INSERT INTO m VALUES (1), (2);
BEGIN;
INSERT INTO m1 SELECT k FROM ONLY m;
SAVEPOINT s;
TRUNCATE ONLY m;
ROLLBACK TO s;
TRUNCATE m1;
COMMIT;
BEGIN;
SAVEPOINT s;
INSERT INTO m1 SELECT k FROM ONLY m;
ROLLBACK TO s;
TRUNCATE ONLY m;
ROLLBACK;
SELECT dedup_unguard('m') \gset
SELECT dedup_create('e', dedup_filter(1000, 0.0001, 1)) \gset
SELECT dedup_guard('m', 'e', '{k}', 'mark', exact => true) \gset
BEGIN;
INSERT INTO m1 SELECT k FROM ONLY m;
SELECT tableoid::regclass, * FROM m ORDER BY 2, tableoid::regclass::text;
TRUNCATE ONLY m;
ROLLBACK;
BEGIN;
WITH moved AS (DELETE FROM ONLY m RETURNING *) INSERT INTO m1 SELECT * FROM moved;
TRUNCATE ONLY m;
SELECT tableoid::regclass, * FROM m ORDER BY 2, tableoid::regclass::text;
COMMIT;

SET client_min_messages = error;
DROP SCHEMA guard_inherit, guard_inherit_other CASCADE;
DROP FOREIGN DATA WRAPPER guard_inherit_wrapper CASCADE;
