-- Functions in the key and the predicate of a guard: functions that are dropped, replaced, have other rights, insert
-- rows, fail, or return wrong results.

SET client_min_messages = warning;
\set SHOW_CONTEXT never

CREATE TABLE calls (id int, k text, live boolean);
CREATE INDEX ON calls (k);
SELECT dedup_create('calls_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_create('calls_exact', dedup_filter(1000, 1e-9, 1));
CREATE FUNCTION called(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN upper($1); END';
CREATE INDEX ON calls (called(k));
SELECT dedup_guard('calls', 'calls_seen', ARRAY['called(k)']);
DROP FUNCTION called(text);
ALTER FUNCTION called(text) RENAME TO "Renamed function";
INSERT INTO calls VALUES (1, 'a'), (2, 'A') RETURNING id;
CREATE OR REPLACE FUNCTION "Renamed function"(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF $1 = ''fail'' THEN RAISE ''failed''; END IF; RETURN lower($1); END';
INSERT INTO calls VALUES (3, 'A'), (4, 'a') RETURNING id;
INSERT INTO calls VALUES (5, 'b'), (6, 'fail');
INSERT INTO calls VALUES (5, 'b') RETURNING id;
-- Who inserts needs EXECUTE, as for an index.
CREATE ROLE regress_guard_caller;
GRANT INSERT, SELECT, UPDATE, DELETE ON calls TO regress_guard_caller;
REVOKE EXECUTE ON FUNCTION "Renamed function" FROM public;
SET ROLE regress_guard_caller;
INSERT INTO calls VALUES (7, 'c');
RESET ROLE;
GRANT EXECUTE ON FUNCTION "Renamed function" TO regress_guard_caller;
SET ROLE regress_guard_caller;
INSERT INTO calls VALUES (7, 'c'), (8, 'C') RETURNING id;
RESET ROLE;
REVOKE SELECT ON calls FROM regress_guard_caller;
SELECT dedup_unguard('calls');
SET client_min_messages = error;
SELECT dedup_guard('calls', 'calls_seen', ARRAY['"Renamed function"(k)'], 'reject');
SET client_min_messages = warning;
INSERT INTO calls VALUES (9, 'B');
SET ROLE regress_guard_caller;
INSERT INTO calls VALUES (9, 'B');
RESET ROLE;
-- A function that is not immutable any more, in another session.
CREATE OR REPLACE FUNCTION "Renamed function"(text) RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN lower($1); END';
\c -
SET client_min_messages = warning;
\set SHOW_CONTEXT never
INSERT INTO calls VALUES (10, 'x');
DELETE FROM calls WHERE id = 1;
SELECT dedup_unguard('calls');
-- Results that differ from call to call.
CREATE SEQUENCE lies;
CREATE FUNCTION lie(text) RETURNS text LANGUAGE sql VOLATILE AS 'SELECT $1 || nextval(''public.lies'')';
CREATE FUNCTION lies(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN public.lie($1); END';
CREATE INDEX ON calls (lies(k));
TRUNCATE calls, calls_seen, calls_exact;
SELECT dedup_guard('calls', 'calls_seen', ARRAY['lies(k)']);
INSERT INTO calls VALUES (1, 'a');
SELECT dedup_unguard('calls');
SELECT dedup_guard('calls', 'calls_seen', ARRAY['id'], "where" => 'right(lies(k), 1) IN (''1'', ''3'', ''5'', ''7'', ''9'')');
DROP INDEX calls_lies_idx;
SELECT setval('lies', 10);
INSERT INTO calls VALUES (1, 'a');
SELECT dedup_unguard('calls');
CREATE INDEX ON calls (lies(k));
SELECT dedup_guard('calls', 'calls_exact', ARRAY['lies(k)'], exact => true);
INSERT INTO calls VALUES (1, 'a');
SELECT dedup_unguard('calls');
SELECT dedup_guard('calls', 'calls_exact', ARRAY['lies(k)'], 'reject', exact => true);
INSERT INTO calls VALUES (1, 'a') RETURNING id;
SELECT dedup_unguard('calls');
-- Functions that insert into the same table.
CREATE FUNCTION changes(id int, k text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF id = 100 THEN INSERT INTO calls VALUES (101, k) ON CONFLICT DO NOTHING;
	ELSIF id = 200 THEN INSERT INTO calls VALUES (201, k || '-inner');
	ELSIF id = 300 THEN DELETE FROM calls WHERE calls.id = 201; END IF;
END $$;
CREATE FUNCTION inserts(id int, k text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM changes(id, k); RETURN k; END';
DROP INDEX calls_lies_idx;
TRUNCATE calls, calls_seen, calls_exact;
SELECT dedup_guard('calls', 'calls_seen', ARRAY['inserts(id, k)']);
INSERT INTO calls VALUES (1, 'a'), (100, 'a'), (2, 'b') RETURNING id;
INSERT INTO calls VALUES (100, 'c'), (3, 'd') RETURNING id;
INSERT INTO calls VALUES (200, 'e'), (4, 'e-inner'), (300, 'f'), (5, 'g') RETURNING id;
SELECT * FROM calls ORDER BY k, id;
SELECT k, dedup_seen('calls_seen', k) FROM unnest('{a,b,c,d,e,e-inner,f,g,h}'::text[]) k;
SELECT dedup_unguard('calls');
TRUNCATE calls, calls_seen;
SELECT dedup_guard('calls', 'calls_exact', ARRAY['k'], exact => true, "where" => 'inserts(id, k) <> ''none''');
INSERT INTO calls VALUES (1, 'a'), (100, 'a'), (2, 'b') RETURNING id;
INSERT INTO calls VALUES (100, 'c'), (3, 'd') RETURNING id;
INSERT INTO calls VALUES (200, 'e'), (4, 'e-inner'), (300, 'f'), (5, 'g') RETURNING id;
SELECT k, count(*), min(id) FROM calls GROUP BY k ORDER BY k;
DROP TABLE calls, calls_seen, calls_exact;
DROP FUNCTION lie, lies, inserts, changes, "Renamed function";
DROP SEQUENCE lies;
DROP ROLE regress_guard_caller;

-- What expressions leave behind is freed row by row.
CREATE FUNCTION query_memory() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE bytes bigint;
BEGIN
	IF to_regclass('pg_backend_memory_contexts') IS NULL THEN RETURN 0; END IF;
	EXECUTE 'SELECT max(total_bytes) FROM pg_backend_memory_contexts WHERE name = ''ExecutorState''' INTO bytes;
	RETURN bytes;
END $$;
CREATE TABLE memory (id int, k text, bytes bigint);
SELECT dedup_create('memory_seen', dedup_filter(50000, 1e-9, 1));
SELECT dedup_guard('memory', 'memory_seen', '{lower(k),id}', "where" => 'upper(k) <> ''X''');
INSERT INTO memory SELECT g, repeat('x', 1000), CASE WHEN g = 10000 THEN query_memory() END FROM generate_series(1, 10000) g;
SELECT id, bytes < 3000000 AS little FROM memory WHERE bytes IS NOT NULL ORDER BY id;
UPDATE memory SET k = 'A' || k, bytes = CASE WHEN id = 10000 THEN query_memory() END;
SELECT id, bytes < 3000000 AS little FROM memory WHERE bytes IS NOT NULL ORDER BY id;
INSERT INTO memory SELECT g, 'a' || repeat('X', 1000), query_memory() FROM generate_series(9999, 10001) g RETURNING id;
DROP TABLE memory, memory_seen;
DROP FUNCTION query_memory;

-- Functions of expressions have the rights of the table's owner where somebody else loads or checks keys.
CREATE ROLE regress_guard_owner;
CREATE SCHEMA guard_owner AUTHORIZATION regress_guard_owner;
SET ROLE regress_guard_owner;
CREATE TABLE guard_owner.log (who text);
CREATE FUNCTION guard_owner.note() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO guard_owner.log VALUES (current_user);
	IF current_user <> 'regress_guard_owner' THEN RAISE WARNING 'called by %', current_user; END IF;
	BEGIN EXECUTE 'SET ROLE NONE'; RAISE WARNING 'SET ROLE'; EXCEPTION WHEN OTHERS THEN NULL; END;
END $$;
CREATE FUNCTION guard_owner.spy(int, int DEFAULT 0) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM guard_owner.note(); RETURN $1; END';
CREATE TABLE guard_owner.t (id int, p int) PARTITION BY LIST (p);
CREATE TABLE guard_owner.t1 PARTITION OF guard_owner.t FOR VALUES IN (1);
CREATE TABLE guard_owner.t2 (id int, p int);
INSERT INTO guard_owner.t VALUES (1, 1), (2, 1);
INSERT INTO guard_owner.t2 VALUES (3, 2);
CREATE INDEX ON guard_owner.t (id);
CREATE INDEX ON guard_owner.t2 (id);
SELECT dedup_create('guard_owner.seen', dedup_filter(1000));
SELECT dedup_create('guard_owner.exact', dedup_filter(1000));
RESET ROLE;
SELECT dedup_guard('guard_owner.t', 'guard_owner.exact', ARRAY['id'], exact => true, "where" => 'guard_owner.spy(id, guard_owner.spy(8)) > 0');
SELECT dedup_rebuild('guard_owner.exact');
ALTER TABLE guard_owner.t ATTACH PARTITION guard_owner.t2 FOR VALUES IN (2);
ALTER TABLE guard_owner.t DETACH PARTITION guard_owner.t2;
SELECT columns IS NOT NULL AS shown FROM dedup_guards WHERE "table" = 'guard_owner.t'::regclass;
SELECT dedup_unguard('guard_owner.t');
SET client_min_messages = error;
SELECT dedup_guard('guard_owner.t', 'guard_owner.seen', ARRAY['guard_owner.spy(id, guard_owner.spy(7))'], "where" => 'guard_owner.spy(id, guard_owner.spy(8)) > 0');
ALTER TABLE guard_owner.t ATTACH PARTITION guard_owner.t2 FOR VALUES IN (2);
SELECT dedup_unguard('guard_owner.t');
SELECT dedup_guard('guard_owner.t', 'guard_owner.seen', ARRAY['guard_owner.spy(id, guard_owner.spy(7))'], load => true);
SELECT DISTINCT who FROM guard_owner.log;
DROP SCHEMA guard_owner CASCADE;
DROP ROLE regress_guard_owner;
