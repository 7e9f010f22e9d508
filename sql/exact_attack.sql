-- Actions that must not make an exact guard inexact without an error.

SET client_min_messages = warning;

-- A guard that is disabled still uses its filter.
CREATE TABLE one (k int);
CREATE TABLE two (k int);
CREATE INDEX ON one (k);
CREATE INDEX ON two (k);
SELECT dedup_create('seen', dedup_filter(1000));
SELECT dedup_guard('one', 'seen', '{k}', 'reject', exact => true);
INSERT INTO one VALUES (1);
ALTER TABLE one DISABLE TRIGGER ALL;
SELECT dedup_guard('two', 'seen', '{k}', 'reject', exact => true);
SELECT dedup_guard('two', 'seen', '{k}', 'reject');
SELECT dedup_rebuild('seen');
ALTER TABLE one ENABLE TRIGGER ALL;
SET session_replication_role = replica;
SELECT dedup_guard('two', 'seen', '{k}', 'reject', exact => true);
SELECT dedup_guard('two', 'seen', '{k}', 'reject');
SELECT dedup_rebuild('seen');
RESET session_replication_role;
-- A second one can be made by hand; then there is no one table to load.
SELECT replace(pg_get_triggerdef(oid), 'public.one', 'public.two') AS make FROM pg_trigger WHERE tgrelid = 'one'::regclass ORDER BY tgname LIMIT 1 \gset
:make;
SELECT replace(pg_get_triggerdef(oid), 'public.one', 'public.two') AS make FROM pg_trigger WHERE tgrelid = 'one'::regclass ORDER BY tgname OFFSET 1 LIMIT 1 \gset
:make;
SELECT dedup_rebuild('seen');
SELECT dedup_unguard('two');
SELECT dedup_rebuild('seen');
INSERT INTO one VALUES (1);
SELECT dedup_unguard('one');

-- A guard's trigger by another name, and an odd one beside it.
SELECT dedup_guard('one', 'seen', '{k}', 'reject', exact => true);
ALTER TRIGGER "~dedup_guard" ON one RENAME TO renamed;
SELECT pg_get_triggerdef(oid) AS make FROM pg_trigger WHERE tgrelid = 'one'::regclass AND tgname = 'renamed' \gset
DROP TRIGGER renamed ON one;
INSERT INTO one VALUES (1);
:make;
INSERT INTO one VALUES (1);
DELETE FROM one;
SELECT dedup_rebuild('seen');
INSERT INTO one VALUES (1);
CREATE TRIGGER zz BEFORE INSERT OR UPDATE ON one FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'x');
SET session_replication_role = replica;
INSERT INTO one VALUES (2);
RESET session_replication_role;
DROP TRIGGER zz ON one;
INSERT INTO one VALUES (2);
DROP TABLE one, two, seen;

-- A partition of another owner, who may not add keys, has rows all the same.
CREATE ROLE regress_exact_bob;
CREATE ROLE regress_exact_carol;
CREATE SCHEMA exact_carol AUTHORIZATION regress_exact_carol;
GRANT CREATE, USAGE ON SCHEMA exact_carol TO regress_exact_bob;
SET ROLE regress_exact_bob;
CREATE TABLE exact_carol.parts (k int, d int) PARTITION BY LIST (d);
CREATE TABLE exact_carol.parts_1 PARTITION OF exact_carol.parts FOR VALUES IN (1);
CREATE TABLE exact_carol.parts_2 PARTITION OF exact_carol.parts FOR VALUES IN (2);
CREATE INDEX ON exact_carol.parts (k);
SELECT dedup_create('exact_carol.seen', dedup_filter(1000));
SELECT dedup_guard('exact_carol.parts', 'exact_carol.seen', '{k}', 'reject', exact => true);
RESET ROLE;
ALTER TABLE exact_carol.parts_2 OWNER TO regress_exact_carol;
INSERT INTO exact_carol.parts VALUES (1, 2);
BEGIN;
LOCK TABLE exact_carol.parts IN ACCESS EXCLUSIVE MODE;
TRUNCATE exact_carol.seen, exact_carol.parts_1;
COMMIT;
INSERT INTO exact_carol.parts VALUES (1, 1);
DROP TABLE exact_carol.parts, exact_carol.seen;

-- Partitions have rows, whatever is locked or truncated before.
CREATE TABLE parts (k int, d int) PARTITION BY LIST (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
CREATE INDEX ON parts (k);
SELECT dedup_create('seen', dedup_filter(1000));
SELECT dedup_guard('parts', 'seen', '{k}', 'reject', exact => true);
INSERT INTO parts VALUES (1, 2);
BEGIN;
LOCK TABLE parts IN ACCESS EXCLUSIVE MODE;
TRUNCATE seen;
COMMIT;
\c -
SET client_min_messages = warning;
BEGIN;
LOCK TABLE parts IN ACCESS EXCLUSIVE MODE;
TRUNCATE seen, parts_1;
COMMIT;
BEGIN;
TRUNCATE parts;
INSERT INTO parts VALUES (2, 2);
TRUNCATE seen;
COMMIT;
INSERT INTO parts VALUES (1, 1);
TRUNCATE parts, seen;
INSERT INTO parts VALUES (1, 1), (2, 2);
INSERT INTO parts VALUES (1, 2);
BEGIN;
TRUNCATE parts;
TRUNCATE seen;
INSERT INTO parts VALUES (1, 1);
COMMIT;
INSERT INTO parts VALUES (1, 2);
DROP TABLE parts, seen;

-- The owner of the schema may drop an index, but not the table's trigger.
SET ROLE regress_exact_bob;
CREATE TABLE exact_carol.plain (k int);
CREATE INDEX ON exact_carol.plain (k);
SELECT dedup_create('exact_carol.seen', dedup_filter(1000));
SELECT dedup_guard('exact_carol.plain', 'exact_carol.seen', '{k}', 'reject', exact => true);
SET ROLE regress_exact_carol;
DROP TRIGGER "~dedup_guard" ON exact_carol.plain;
DROP INDEX CONCURRENTLY exact_carol.plain_dedup_guard;
DROP INDEX exact_carol.plain_dedup_guard;
RESET ROLE;
SET session_replication_role = replica;
INSERT INTO exact_carol.plain VALUES (1);
RESET session_replication_role;
SET ROLE regress_exact_bob;
CREATE INDEX plain_dedup_guard ON exact_carol.plain USING streamdedup_guard (k);
INSERT INTO exact_carol.plain VALUES (1);
RESET ROLE;
DROP SCHEMA exact_carol CASCADE;
DROP ROLE regress_exact_bob, regress_exact_carol;

-- Keys with the same hash are different keys, also before they have landed.
CREATE TYPE weak AS (a int);
CREATE FUNCTION weak_eq(weak, weak) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT ($1).a = ($2).a';
CREATE FUNCTION weak_lt(weak, weak) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT ($1).a < ($2).a';
CREATE FUNCTION weak_le(weak, weak) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT ($1).a <= ($2).a';
CREATE FUNCTION weak_gt(weak, weak) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT ($1).a > ($2).a';
CREATE FUNCTION weak_ge(weak, weak) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT ($1).a >= ($2).a';
CREATE FUNCTION weak_cmp(weak, weak) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp(($1).a, ($2).a)';
CREATE FUNCTION weak_hash(weak) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7';
CREATE OPERATOR = (LEFTARG = weak, RIGHTARG = weak, FUNCTION = weak_eq, HASHES, COMMUTATOR = =);
CREATE OPERATOR < (LEFTARG = weak, RIGHTARG = weak, FUNCTION = weak_lt);
CREATE OPERATOR <= (LEFTARG = weak, RIGHTARG = weak, FUNCTION = weak_le);
CREATE OPERATOR > (LEFTARG = weak, RIGHTARG = weak, FUNCTION = weak_gt);
CREATE OPERATOR >= (LEFTARG = weak, RIGHTARG = weak, FUNCTION = weak_ge);
CREATE OPERATOR CLASS weak_ops DEFAULT FOR TYPE weak USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 weak_cmp(weak, weak);
CREATE OPERATOR CLASS weak_hash_ops DEFAULT FOR TYPE weak USING hash AS OPERATOR 1 =, FUNCTION 1 weak_hash(weak);
CREATE TABLE weak_rows (k weak, note text);
CREATE INDEX ON weak_rows (k);
INSERT INTO weak_rows VALUES (row(1)), (row(2));
SELECT dedup_create('seen', dedup_filter(1000));
SELECT dedup_guard('weak_rows', 'seen', '{k}', exact => true);
INSERT INTO weak_rows VALUES (row(1)), (row(3)), (row(4)), (row(3)) RETURNING *;
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.note = 'outer' THEN
		INSERT INTO weak_rows VALUES (row(101), 'inner'), (row(100), 'refused');
	ELSIF NEW.note = 'changed' THEN
		NEW.k := row(1);
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER "~later" BEFORE INSERT ON weak_rows FOR EACH ROW EXECUTE FUNCTION later();
INSERT INTO weak_rows VALUES (row(100), 'outer');
INSERT INTO weak_rows VALUES (row(50), 'changed');
INSERT INTO weak_rows VALUES (row(60), 'kept');
SELECT * FROM weak_rows ORDER BY k;
DROP TABLE weak_rows, seen;
DROP TYPE weak CASCADE;
DROP FUNCTION later;

-- Rows that land leave nothing in the memory of their query.
CREATE FUNCTION query_memory() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE bytes bigint;
BEGIN
	IF to_regclass('pg_backend_memory_contexts') IS NULL THEN RETURN 0; END IF;
	EXECUTE 'SELECT max(total_bytes) FROM pg_backend_memory_contexts WHERE name = ''ExecutorState''' INTO bytes;
	RETURN bytes;
END $$;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE pairs (k pair, r int4range, memory bigint);
CREATE INDEX ON pairs (k, r);
SELECT dedup_create('seen', dedup_filter(5000, 0.5));
SELECT dedup_guard('pairs', 'seen', '{k, r}', 'reject', exact => true);
INSERT INTO pairs SELECT row(g, 'x')::pair, int4range(g, g + 1), CASE WHEN g = 10000 THEN query_memory() END FROM generate_series(1, 10000) g;
DELETE FROM pairs WHERE memory IS NULL;
INSERT INTO pairs SELECT row(g, 'x')::pair, int4range(g, g + 1), CASE WHEN g = 9999 THEN query_memory() END FROM generate_series(1, 9999) g;
SELECT memory < 5000000 AS little FROM pairs WHERE memory IS NOT NULL;
DROP TABLE pairs, seen;
DROP TYPE pair;
DROP FUNCTION query_memory;
