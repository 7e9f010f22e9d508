-- A guard accepts only a complete filter: one that dedup_create() made, or a restored one. Only a guard whose owner
-- may add to the filter prevents COPY from restoring it.
\set QUIET on
\set SHOW_CONTEXT never
SELECT dedup_create('a', dedup_filter(1000, 0.0001, 1)) \gset
SELECT count(is_new('a', i)) FROM generate_series(1, 300) i \gset
CREATE TABLE t (k int);
\set QUIET off

-- LIKE takes the parameters and the constraint along, but no trigger
CREATE TABLE a_all (LIKE a INCLUDING ALL) USING streamdedup;
CREATE TABLE a_defaults (LIKE a INCLUDING DEFAULTS) USING streamdedup;
CREATE TABLE a_constraints (LIKE a INCLUDING CONSTRAINTS) USING streamdedup;
CREATE TABLE by_hand (block int NOT NULL, page dedup_page NOT NULL) USING streamdedup;
SELECT dedup_guard('t', 'a_all', '{k}');
SELECT dedup_guard('t', 'a_defaults', '{k}');
SELECT dedup_guard('t', 'a_constraints', '{k}');
SELECT dedup_guard('t', 'by_hand', '{k}');
CREATE TABLE made_as USING streamdedup AS SELECT * FROM a;
CREATE TABLE made_as USING streamdedup AS SELECT * FROM a WITH NO DATA;
SELECT dedup_guard('t', 'made_as', '{k}');
-- the constraint is no other's, and by hand the rest cannot be added
CREATE TABLE by_hand_too (LIKE a INCLUDING DEFAULTS, CONSTRAINT live_filter CHECK (block >= 0)) USING streamdedup;
SELECT dedup_guard('t', 'by_hand_too', '{k}');
CREATE TRIGGER dedup_restore BEFORE INSERT ON a_constraints FOR EACH STATEMENT EXECUTE FUNCTION dedup_restore_trigger();
SELECT dedup_guard('t', 'a_constraints', '{k}');
-- what pg_dump writes makes a whole filter, with its trigger disabled too
CREATE TRIGGER dedup_restore BEFORE INSERT ON a_all FOR EACH STATEMENT EXECUTE FUNCTION dedup_restore_trigger();
SELECT dedup_guard('t', 'a_all', '{k}');
SELECT dedup_unguard('t');
ALTER TABLE a_all DISABLE TRIGGER ALL;
SELECT dedup_guard('t', 'a_all', '{k}');
INSERT INTO t VALUES (1), (1), (2);
SELECT * FROM t;
SELECT dedup_unguard('t');
TRUNCATE t;
-- the cache knows when the trigger goes and comes
DROP TRIGGER dedup_restore ON a_all;
SELECT dedup_guard('t', 'a_all', '{k}');
-- the one that dedup_create() made
SELECT dedup_guard('t', 'a', '{k}');
INSERT INTO t VALUES (300), (301) RETURNING k;
COPY a FROM '/dev/null';

-- a stranger's triggers that name the filter
CREATE ROLE regress_stranger;
CREATE SCHEMA regress_stranger AUTHORIZATION regress_stranger;
SELECT dedup_unguard('t');
SET ROLE regress_stranger;
CREATE TABLE regress_stranger.x (k int, b boolean);
CREATE TRIGGER b BEFORE DELETE ON regress_stranger.x FOR EACH ROW WHEN ('public.a'::regclass IS NOT NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE TABLE regress_stranger.y (k int, b boolean);
CREATE TRIGGER b BEFORE DELETE ON regress_stranger.y FOR EACH ROW WHEN ('public.a'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE TABLE regress_stranger.z (k int);
SELECT dedup_guard('regress_stranger.z', 'a', '{k}');
RESET ROLE;
COPY a FROM '/dev/null';
COPY a TO PROGRAM 'cat > live_whole.txt';
TRUNCATE a;
COPY a FROM PROGRAM 'cat live_whole.txt';
SELECT count(*) FILTER (WHERE dedup_seen('a', i)) FROM generate_series(1, 301) i;
-- a stranger who may add is none
TRUNCATE a;
GRANT INSERT ON a TO regress_stranger;
COPY a FROM PROGRAM 'cat live_whole.txt';
REVOKE INSERT ON a FROM regress_stranger;
COPY a FROM PROGRAM 'cat live_whole.txt';
-- one that may add by membership, and one whose trigger is no guard's
CREATE ROLE regress_writers;
GRANT INSERT ON a TO regress_writers;
GRANT regress_writers TO regress_stranger;
COPY a FROM '/dev/null';
DROP TRIGGER b ON regress_stranger.y;
COPY a FROM '/dev/null';
SET ROLE regress_stranger;
CREATE TRIGGER c AFTER DELETE ON regress_stranger.y FOR EACH ROW WHEN ('public.a'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE TRIGGER d BEFORE UPDATE ON regress_stranger.y FOR EACH ROW WHEN ('public.a'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
RESET ROLE;
COPY a FROM '/dev/null';
REVOKE INSERT ON a FROM regress_writers;

-- what a stranger can do to any table: DROP needs CASCADE, which leaves his table
\set VERBOSITY terse
DROP TABLE a;
SET ROLE regress_stranger;
CREATE VIEW regress_stranger.v AS SELECT 'public.a_all'::regclass AS filter;
RESET ROLE;
DROP TABLE a_all;
SET client_min_messages = warning;
DROP TABLE a, a_all CASCADE;
SELECT count(*) FROM regress_stranger.x;

-- what the constraint calls, called by hand

SELECT dedup_is_live(0), dedup_is_live(1);
SELECT dedup_is_live('pg_class'::regclass);

\set QUIET on
DROP SCHEMA regress_stranger CASCADE;
DROP ROLE regress_stranger, regress_writers;
DROP TABLE t, a_defaults, a_constraints, by_hand;
DROP TABLE IF EXISTS made_as, by_hand_too;
