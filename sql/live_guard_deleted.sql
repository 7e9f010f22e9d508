-- Rows that a transaction deletes from a guarded table may be inserted again by it, once
-- for each deleted row, in whatever way they were deleted.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA live_guard_deleted;
SET search_path = live_guard_deleted, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE t (k int, v text);
CREATE TABLE other (k int, v text);
SELECT dedup_guard('t', 'f', '{k}') \gset
SELECT dedup_guard('other', 'f', '{k}') \gset
SET client_min_messages = notice;
INSERT INTO t SELECT i, 'first' FROM generate_series(1, 100) i;
\set QUIET off

-- ---- once for each deleted row ----

-- in the next transaction the key is seen

DELETE FROM t WHERE k = 1;
INSERT INTO t VALUES (1, 'dup');

-- one row for one, by several statements, and the duplicates refused and counted

BEGIN;
DELETE FROM t WHERE k BETWEEN 2 AND 4;
INSERT INTO t VALUES (2, 'again'), (2, 'dup'), (3, 'again'), (5, 'dup');
INSERT INTO t VALUES (3, 'dup');
INSERT INTO t VALUES (4, 'again'), (4, 'dup');
COMMIT;
SELECT * FROM t WHERE k <= 5 ORDER BY k, v;
SELECT new, skipped, rejected FROM dedup_stats('f');

-- what was not inserted again stays seen; so it does when that was undone

BEGIN;
DELETE FROM t WHERE k IN (2, 3);
INSERT INTO t VALUES (2, 'kept');
COMMIT;
INSERT INTO t VALUES (2, 'dup'), (3, 'dup');
BEGIN;
DELETE FROM t WHERE k = 2;
INSERT INTO t VALUES (2, 'undone');
ROLLBACK;
INSERT INTO t VALUES (2, 'dup');
SELECT * FROM t WHERE k <= 5 ORDER BY k, v;

-- a row that was inserted by the same transaction, too

BEGIN;
INSERT INTO t VALUES (200, 'first');
DELETE FROM t WHERE k = 200;
INSERT INTO t VALUES (200, 'again'), (200, 'dup');
DELETE FROM t WHERE k = 200;
DELETE FROM t WHERE k = 200;
INSERT INTO t VALUES (200, 'third'), (200, 'dup');
COMMIT;
SELECT * FROM t WHERE k = 200;

-- two rows of one key that were there before the guard: two for two

\set QUIET on
ALTER TABLE t DISABLE TRIGGER USER;
INSERT INTO t VALUES (201, 'a'), (201, 'b');
ALTER TABLE t ENABLE TRIGGER USER;
\set QUIET off
BEGIN;
DELETE FROM t WHERE k = 201;
INSERT INTO t VALUES (201, 'c'), (201, 'd'), (201, 'dup');
COMMIT;
SELECT * FROM t WHERE k = 201 ORDER BY v;

-- a key that is new to the filter uses its deleted row up, too: forgotten, and one that no guard had seen

BEGIN;
DELETE FROM t WHERE k = 6;
SELECT dedup_forget('f', 6);
INSERT INTO t VALUES (6, 'again'), (6, 'dup');
COMMIT;
\set QUIET on
ALTER TABLE t DISABLE TRIGGER USER;
INSERT INTO t VALUES (202, 'unknown');
ALTER TABLE t ENABLE TRIGGER USER;
\set QUIET off
BEGIN;
DELETE FROM t WHERE k = 202;
INSERT INTO t VALUES (202, 'again'), (202, 'dup');
COMMIT;
SELECT * FROM t WHERE k IN (6, 202) ORDER BY k;

-- functions ask the filter: they neither take such a row nor give one

BEGIN;
DELETE FROM t WHERE k = 7;
SELECT is_new('f', 7), dedup_seen('f', 7);
INSERT INTO t VALUES (7, 'again');
COMMIT;
SELECT * FROM t WHERE k = 7;

-- a row that does not land uses none up: ON CONFLICT, a later trigger, an error that is caught

\set QUIET on
CREATE TABLE u (k int, u int UNIQUE, v text CHECK (v <> 'bad'));
SET client_min_messages = error;
SELECT dedup_guard('u', 'f', '{k}') \gset
SET client_min_messages = notice;
CREATE FUNCTION skip_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER "~~skip" BEFORE INSERT ON u FOR EACH ROW WHEN (NEW.v = 'skip') EXECUTE FUNCTION skip_row();
INSERT INTO u VALUES (301, 1), (302, 2), (303, 3), (304, 4);
\set QUIET off
BEGIN;
DELETE FROM u WHERE k > 301;
INSERT INTO u VALUES (302, 1, 'lost') ON CONFLICT DO NOTHING;
INSERT INTO u VALUES (302, 1, 'lost') ON CONFLICT (u) DO UPDATE SET v = 'updated';
INSERT INTO u VALUES (303, 30, 'skip');
DO $$ BEGIN INSERT INTO u VALUES (304, 40, 'bad'); EXCEPTION WHEN check_violation THEN RAISE NOTICE 'caught'; END $$;
INSERT INTO u VALUES (302, 20, 'again'), (303, 30, 'again'), (304, 40, 'again');
INSERT INTO u VALUES (302, 21, 'dup'), (303, 31, 'dup'), (304, 41, 'dup');
COMMIT;
SELECT * FROM u ORDER BY k;
DROP TABLE u;

-- ---- ways to delete ----

-- one statement, with more rows than were deleted

WITH d AS (DELETE FROM t WHERE k BETWEEN 10 AND 12 RETURNING k), twice AS (SELECT k, i FROM d, generate_series(1, 2) i)
INSERT INTO t SELECT k, 'moved ' || i FROM twice ORDER BY i, k;
SELECT * FROM t WHERE k BETWEEN 10 AND 12 ORDER BY k;

-- through a temporary table

BEGIN;
CREATE TEMP TABLE aside ON COMMIT DROP AS SELECT * FROM t WHERE k BETWEEN 10 AND 12;
DELETE FROM t USING aside WHERE t.k = aside.k;
INSERT INTO t SELECT k, 'back' FROM aside;
COMMIT;
SELECT * FROM t WHERE k BETWEEN 10 AND 12 ORDER BY k;

-- an UPDATE of the key gives the old one back: swapped by a third one, shifted, changed and back

BEGIN;
UPDATE t SET k = 1010 WHERE k = 10;
UPDATE t SET k = 10 WHERE k = 11;
UPDATE t SET k = 11 WHERE k = 1010;
COMMIT;
SELECT k, v FROM t WHERE k IN (10, 11, 1010) ORDER BY k;
BEGIN;
UPDATE t SET k = NULL WHERE k = 12;
INSERT INTO t VALUES (12, 'again'), (12, 'dup');
UPDATE t SET k = 1012 WHERE k IS NULL;
COMMIT;
BEGIN;
UPDATE t SET k = 12 WHERE k = 1012;
ROLLBACK;
SELECT * FROM t WHERE k IN (12, 1012) ORDER BY k;

-- an UPDATE that does not come about gives nothing

\set QUIET on
CREATE TRIGGER "~~skip" BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.v = 'skip') EXECUTE FUNCTION skip_row();
\set QUIET off
BEGIN;
UPDATE t SET k = 1013, v = 'skip' WHERE k = 13;
INSERT INTO t VALUES (13, 'dup'), (1013, 'new');
COMMIT;
SELECT * FROM t WHERE k IN (13, 1013) ORDER BY k;
\set QUIET on
DROP TRIGGER "~~skip" ON t;
\set QUIET off

-- nor does a DELETE that a later trigger prevents, in whatever order it is found out

\set QUIET on
CREATE TRIGGER "~~stay" BEFORE DELETE ON t FOR EACH ROW WHEN (OLD.k % 2 = 0) EXECUTE FUNCTION skip_row();
\set QUIET off
BEGIN;
DELETE FROM t WHERE k BETWEEN 14 AND 17 RETURNING k;
INSERT INTO t SELECT i, 'again' FROM generate_series(14, 17) i RETURNING k;
COMMIT;
WITH d AS (DELETE FROM t WHERE k BETWEEN 18 AND 21 RETURNING k) INSERT INTO t SELECT k, 'again' FROM d RETURNING k;
BEGIN;
SAVEPOINT s;
DELETE FROM t WHERE k = 22;
RELEASE s;
INSERT INTO t VALUES (22, 'dup');
COMMIT;
SELECT k, count(*) FROM t WHERE k BETWEEN 14 AND 22 GROUP BY k ORDER BY k;
\set QUIET on
DROP TRIGGER "~~stay" ON t;
\set QUIET off

-- one that it prevents by updating the row, or by deleting it itself: one row, one right

\set QUIET on
CREATE TABLE soft (k int, v text, gone boolean DEFAULT false);
SELECT dedup_guard('soft', 'f', '{k}') \gset
CREATE FUNCTION soft() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.v = 'update' THEN UPDATE soft SET gone = true WHERE k = OLD.k; RETURN NULL; END IF;
	IF pg_trigger_depth() = 1 THEN DELETE FROM soft WHERE k = OLD.k; RETURN NULL; END IF;
	RETURN OLD;
END $$;
CREATE TRIGGER "~~soft" BEFORE DELETE ON soft FOR EACH ROW EXECUTE FUNCTION soft();
INSERT INTO soft VALUES (401, 'update'), (402, 'delete');
\set QUIET off
BEGIN;
DELETE FROM soft WHERE k = 401;
INSERT INTO soft VALUES (401, 'dup');
DELETE FROM soft WHERE k = 402;
INSERT INTO soft VALUES (402, 'again'), (402, 'dup');
COMMIT;
SELECT * FROM soft ORDER BY k;
DROP TABLE soft;

-- cascades; and a trigger that puts the row elsewhere under the same filter after it is gone

\set QUIET on
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (k int, p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
SELECT dedup_guard('child', 'f', '{p, k}') \gset
INSERT INTO parent VALUES (1), (2);
INSERT INTO child VALUES (1, 1), (2, 1), (1, 2);
CREATE FUNCTION archive() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO other VALUES (OLD.k, 'archived'); RETURN NULL; END $$;
CREATE TRIGGER archive AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION archive();
\set QUIET off
BEGIN;
DELETE FROM parent WHERE id = 1;
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (2, 1), (2, 1), (1, 2);
COMMIT;
SELECT * FROM child ORDER BY p, k;
BEGIN;
UPDATE parent SET id = 3 WHERE id = 1;
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (1, 3);
COMMIT;
SELECT * FROM child ORDER BY p, k;
DELETE FROM t WHERE k IN (30, 31);
SELECT * FROM other;
\set QUIET on
DROP TRIGGER archive ON t;
DROP TABLE child, parent;
\set QUIET off

-- from one table to another under one filter, and back; the rows that stay are refused

WITH d AS (DELETE FROM t WHERE k BETWEEN 32 AND 33 RETURNING *) INSERT INTO other SELECT * FROM d;
INSERT INTO other VALUES (34, 'dup');
BEGIN;
INSERT INTO other SELECT * FROM t WHERE k = 34;
DELETE FROM other WHERE k = 32;
INSERT INTO t VALUES (32, 'back');
INSERT INTO other VALUES (32, 'dup');
COMMIT;
SELECT tableoid::regclass, k, v FROM t WHERE k BETWEEN 32 AND 34 UNION ALL SELECT tableoid::regclass, k, v FROM other WHERE k BETWEEN 32 AND 34 ORDER BY 2;

-- functions, procedures with several transactions, triggers that delete

\set QUIET on
CREATE FUNCTION reload(lo int, hi int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	r record; n bigint := 0; m bigint;
BEGIN
	FOR r IN SELECT * FROM t WHERE k BETWEEN lo AND hi LOOP
		DELETE FROM t WHERE k = r.k;
		INSERT INTO t VALUES (r.k, 'reloaded');
		GET DIAGNOSTICS m = ROW_COUNT;
		n := n + m;
	END LOOP;
	RETURN n;
END $$;
CREATE PROCEDURE in_two(k int) LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM t WHERE t.k = in_two.k;
	COMMIT;
	INSERT INTO t VALUES (in_two.k, 'dup');
	DELETE FROM t WHERE t.k = in_two.k + 1;
	INSERT INTO t VALUES (in_two.k + 1, 'again');
	COMMIT;
END $$;
CREATE FUNCTION replace_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE k = NEW.k; RETURN NEW; END $$;
CREATE TRIGGER a_replace BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.v = 'replace') EXECUTE FUNCTION replace_row();
\set QUIET off
SELECT reload(35, 40);
CALL in_two(41);
SELECT * FROM t WHERE k IN (41, 42);
INSERT INTO t VALUES (43, 'replace'), (43, 'replace'), (43, 'dup');
SELECT * FROM t WHERE k = 43;
\set QUIET on
DROP TRIGGER a_replace ON t;
\set QUIET off

-- ---- savepoints ----

BEGIN;
DELETE FROM t WHERE k = 50;
SAVEPOINT a;
INSERT INTO t VALUES (50, 'undone');
ROLLBACK TO a;
INSERT INTO t VALUES (50, 'again'), (50, 'dup');
SAVEPOINT b;
DELETE FROM t WHERE k IN (50, 51);
INSERT INTO t VALUES (51, 'undone');
ROLLBACK TO b;
INSERT INTO t VALUES (50, 'dup'), (51, 'dup');
SAVEPOINT c;
DELETE FROM t WHERE k = 52;
RELEASE c;
SAVEPOINT d;
INSERT INTO t VALUES (52, 'undone');
SAVEPOINT e;
DELETE FROM t WHERE k = 52;
INSERT INTO t VALUES (52, 'undone, too');
RELEASE e;
INSERT INTO t VALUES (52, 'dup');
ROLLBACK TO d;
INSERT INTO t VALUES (52, 'again'), (52, 'dup');
COMMIT;
SELECT * FROM t WHERE k BETWEEN 50 AND 52 ORDER BY k;
DO $$
BEGIN
	FOR i IN 53..60 LOOP
		BEGIN
			DELETE FROM t WHERE k = i;
			IF i % 2 = 0 THEN RAISE 'undo'; END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
	FOR i IN 53..60 LOOP
		BEGIN
			INSERT INTO t VALUES (i, 'again');
			IF i % 3 = 0 THEN RAISE 'undo'; END IF;
		EXCEPTION WHEN raise_exception THEN
		END;
	END LOOP;
END $$;
SELECT * FROM t WHERE k BETWEEN 53 AND 60 ORDER BY k;

-- what was undone in between says nothing of what TRUNCATE removed in a savepoint of its own

\set QUIET on
CREATE TABLE truncated (k int);
SELECT dedup_guard('truncated', 'f', '{k}') \gset
INSERT INTO truncated SELECT i FROM generate_series(501, 510) i;
SET client_min_messages = error;
\set QUIET off
BEGIN;
DELETE FROM t WHERE k = 62;
SAVEPOINT a; DELETE FROM t WHERE k = 63; ROLLBACK TO a; RELEASE a;
SAVEPOINT b; TRUNCATE truncated; RELEASE b;
SAVEPOINT c; DELETE FROM t WHERE k = 64; ROLLBACK TO c; RELEASE c;
INSERT INTO truncated SELECT i FROM generate_series(501, 510) i, generate_series(1, 2);
INSERT INTO t VALUES (62, 'again'), (63, 'dup'), (64, 'dup');
COMMIT;
SELECT count(*), count(DISTINCT k) FROM truncated;
RESET client_min_messages;
DROP TABLE truncated;

-- many rows of one key

\set QUIET on
CREATE TABLE many (k int, i int);
INSERT INTO many SELECT 600, i FROM generate_series(1, 20000) i;
SELECT dedup_guard('many', 'f', '{k}') \gset
SET work_mem = '64kB';
\set QUIET off
BEGIN;
DELETE FROM many;
INSERT INTO many SELECT 600, i FROM generate_series(1, 5000) i;
SAVEPOINT s;
INSERT INTO many SELECT 600, i FROM generate_series(1, 5000) i;
ROLLBACK TO s;
INSERT INTO many SELECT 600, i FROM generate_series(1, 20000) i;
COMMIT;
SELECT count(*) FROM many;
\set QUIET on
RESET work_mem;
DROP TABLE many;
\set QUIET off

-- a prepared transaction has none; nor has who comes after it

\set QUIET on
SELECT current_setting('max_prepared_transactions')::int > 0 AS can_prepare \gset
\if :can_prepare
BEGIN;
DELETE FROM t WHERE k = 61;
PREPARE TRANSACTION 'live_guard_deleted';
COMMIT PREPARED 'live_guard_deleted';
\else
DELETE FROM t WHERE k = 61;
\endif
\set QUIET off
INSERT INTO t VALUES (61, 'dup');

-- ---- modes ----

-- reject

\set QUIET on
SELECT dedup_unguard('t') \gset
SELECT dedup_guard('t', 'f', '{k}', 'reject') \gset
\set QUIET off
BEGIN;
DELETE FROM t WHERE k = 70;
INSERT INTO t VALUES (70, 'again');
SAVEPOINT s;
INSERT INTO t VALUES (70, 'dup');
ROLLBACK TO s;
COMMIT;
SELECT * FROM t WHERE k = 70;

-- mark: a row that was marked gives no right, and stays marked; one that moves is not marked for it

\set QUIET on
SELECT dedup_unguard('t') \gset
CREATE TABLE m (k int, part int, is_duplicate boolean, v text) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
TRUNCATE f;
SELECT dedup_guard('m', 'f', '{k}', 'mark') \gset
INSERT INTO m VALUES (1, 1), (1, 2), (2, 1), (2, 1), (3, 1);
\set QUIET off
UPDATE m SET part = 3 - part;
SELECT k, part, is_duplicate FROM m ORDER BY 1, 3;
BEGIN;
DELETE FROM m WHERE k = 1 AND is_duplicate;
INSERT INTO m VALUES (1, 1);
DELETE FROM m WHERE k = 2;
INSERT INTO m VALUES (2, 1, NULL, 'first back'), (2, 1, NULL, 'second back');
UPDATE m SET k = 4 WHERE k = 3;
INSERT INTO m VALUES (3, 2, NULL, 'in place'), (4, 2, NULL, 'marked');
COMMIT;
SELECT * FROM m ORDER BY 1, 3;
SELECT new, marked FROM dedup_stats('f');
\set QUIET on
DROP TABLE m;

-- ---- partitions: between them, below one another, and rows that move with another key ----

TRUNCATE f;
CREATE TABLE m (k int, part int, v text) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 (v text, part int, k int);
ALTER TABLE m ATTACH PARTITION m2 FOR VALUES IN (2);
CREATE TABLE m3 PARTITION OF m FOR VALUES IN (3) PARTITION BY RANGE (k);
CREATE TABLE m3a PARTITION OF m3 FOR VALUES FROM (0) TO (1000);
SELECT dedup_guard('m', 'f', '{k}') \gset
INSERT INTO m SELECT i, 1 + i % 3, 'first' FROM generate_series(1, 12) i;
\set QUIET off
WITH d AS (DELETE FROM m WHERE k <= 3 RETURNING *) INSERT INTO m SELECT k, 1 + part % 3, 'moved' FROM d;
BEGIN;
ALTER TABLE m1 DISABLE TRIGGER "~dedup_guard";
DELETE FROM m1 WHERE k = 9;
ALTER TABLE m1 ENABLE TRIGGER "~dedup_guard";
INSERT INTO m VALUES (9, 1, 'again'), (9, 1, 'dup');
COMMIT;
BEGIN;
UPDATE m SET part = 1 + part % 3, k = k + 100 WHERE k IN (4, 5, 6);
INSERT INTO m VALUES (4, 1, 'again'), (5, 2, 'again'), (6, 3, 'again'), (4, 2, 'dup'), (104, 1, 'dup');
COMMIT;
BEGIN;
UPDATE m SET part = 1 + part % 3 WHERE k = 7;
INSERT INTO m VALUES (7, 1, 'dup');
COMMIT;
SELECT tableoid::regclass AS partition, k, v FROM m ORDER BY k;

-- ---- whoever may not add to the filter gets no right by deleting rows of a table of his own ----

\set QUIET on
CREATE ROLE regress_dedup_stranger;
GRANT USAGE, CREATE ON SCHEMA live_guard_deleted TO regress_dedup_stranger;
DROP TABLE m;
TRUNCATE t, f;
SELECT dedup_guard('t', 'f', '{k}') \gset
INSERT INTO t VALUES (1), (2);
GRANT INSERT ON t TO regress_dedup_stranger;
SET ROLE regress_dedup_stranger;
CREATE TABLE own (k int);
INSERT INTO own VALUES (1), (1), (2);
CREATE INDEX ON own USING streamdedup_guard (k);
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON own FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'x');
CREATE TRIGGER b BEFORE DELETE ON own FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
\set QUIET off
BEGIN;
DELETE FROM own WHERE k = 2;
TRUNCATE own;
INSERT INTO t VALUES (1), (1), (2);
COMMIT;
\set QUIET on
RESET ROLE;
DROP OWNED BY regress_dedup_stranger;
DROP ROLE regress_dedup_stranger;

SET client_min_messages = error;
DROP SCHEMA live_guard_deleted CASCADE;
