-- An UPDATE or MERGE that moves a row into a guarded partition keeps the row or raises an error, whatever guards the
-- partition that it comes from, in every session. The same is true for moving rows to a table that inherits.

\set SHOW_CONTEXT never
\set VERBOSITY terse
\set QUIET on
CREATE SCHEMA live_guard_moved;
SET search_path = live_guard_moved, public;
SET client_min_messages = error;
SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_create('g', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE n (k int, part int, v text) PARTITION BY LIST (part);
CREATE TABLE n1 PARTITION OF n FOR VALUES IN (1);
CREATE TABLE n2 PARTITION OF n FOR VALUES IN (2);
CREATE TABLE n3 PARTITION OF n FOR VALUES IN (3) PARTITION BY RANGE (k);
CREATE TABLE n3a PARTITION OF n3 FOR VALUES FROM (0) TO (1000);
SET client_min_messages = notice;
\set QUIET off

-- one partition only: a notice

SELECT dedup_guard('n1', 'f', '{k}');
\set QUIET on
INSERT INTO n SELECT k, part, 'first' FROM generate_series(1, 20) k, generate_series(1, 3) part;
CREATE FUNCTION move(which int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	UPDATE live_guard_moved.n SET part = 1 WHERE k = which AND part = 2;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END $$;
CREATE FUNCTION put(which int) RETURNS int LANGUAGE sql AS $$ INSERT INTO live_guard_moved.n VALUES (which, 1, 'dup') RETURNING k $$;
CREATE PROCEDURE move_all() LANGUAGE plpgsql AS $$
BEGIN
	UPDATE live_guard_moved.n SET part = 1 WHERE k = 1 AND part = 3;
END $$;
\set QUIET off

-- in a session that has not loaded the library: each statement is the first of its session

\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
UPDATE n SET part = 1 WHERE k = 1 AND part = 2;
\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
UPDATE n SET part = 1 WHERE k = 1 AND part = 3 RETURNING *;
\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
WITH u AS (UPDATE n SET part = 1 WHERE k = 2 AND part = 2 RETURNING *) SELECT * FROM u;
\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
WITH l AS (INSERT INTO n VALUES (3, 1, 'dup') RETURNING *) UPDATE n SET part = 1 WHERE k = 3 AND part = 2;
\set QUIET on \c - \set QUIET off
SELECT live_guard_moved.move(4);
\set QUIET on \c - \set QUIET off
CALL live_guard_moved.move_all();
\set QUIET on \c - \set QUIET off
DO $$ BEGIN UPDATE live_guard_moved.n SET part = 1 WHERE k = 1 AND part = 2; END $$;
\set QUIET on \c - \set QUIET off
PREPARE p AS UPDATE live_guard_moved.n SET part = 1 WHERE k = 1 AND part = 2;
EXECUTE p;
\set QUIET on \c - \set QUIET off
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) UPDATE live_guard_moved.n SET part = 1 WHERE k = 1 AND part = 2;
\set QUIET on \c - \set QUIET off
SET track_counts = off;
UPDATE live_guard_moved.n SET part = 1 WHERE k = 1 AND part = 2;
\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
\if :has_merge
\set merge 'MERGE INTO n USING (VALUES (5), (6)) s (k) ON n.k = s.k AND n.part = 2 WHEN MATCHED THEN UPDATE SET part = 1'
\else
\set merge 'UPDATE n SET part = 1 WHERE k IN (5, 6) AND part = 2'
\endif
:merge;
:merge;

-- what is no move is left out, and counted, as ever: the first statement of a session, and any other

\set QUIET on \c - \set QUIET off
INSERT INTO live_guard_moved.n VALUES (1, 1, 'dup');
\set QUIET on \c - \set QUIET off
SELECT live_guard_moved.put(1);
\set QUIET on \c - \set QUIET off
COPY live_guard_moved.n FROM STDIN;
1	1	dup
\.
\set QUIET on \c - \set QUIET off
DO $$ BEGIN INSERT INTO live_guard_moved.n VALUES (1, 1, 'dup'), (2, 1, 'dup'); END $$;
SET search_path = live_guard_moved, public;
INSERT INTO n VALUES (1, 1, 'dup');
UPDATE n SET v = put(1)::text WHERE k = 20 AND part = 2;
SELECT skipped FROM dedup_stats('f');
SELECT count(*) AS is_60 FROM n;

-- a new key moves in, and then is known; a statement that moves some and inserts others

UPDATE n SET part = 1, k = 100 WHERE k = 7 AND part = 2;
INSERT INTO n VALUES (100, 1, 'dup');
\if :has_merge
\set merge 'MERGE INTO n USING (VALUES (8, 108), (108, 0), (9, 109), (109, 0)) s (k, new) ON n.k = s.k AND n.part = 2 WHEN MATCHED THEN UPDATE SET part = 1, k = s.new WHEN NOT MATCHED THEN INSERT VALUES (s.k, 1, ''dup'')'
\else
\set merge 'UPDATE n SET part = 1, k = k + 100 WHERE k IN (8, 9) AND part = 2'
\endif
\set QUIET on
:merge;
\set QUIET off
SELECT count(*), count(DISTINCT k) FROM n1;

-- beside other statements in WITH

WITH d AS (DELETE FROM n WHERE k = 10 AND part = 2 RETURNING *) INSERT INTO n SELECT k, 1, 'dup' FROM d RETURNING *;
WITH u AS (UPDATE n SET part = 1 WHERE k = 11 AND part = 3 RETURNING *) INSERT INTO n2 SELECT k, 2, v FROM u;

-- whatever has changed the counts of deleted rows in between: undone, truncated, another partition's, looked at anew

\set QUIET on
CREATE TABLE n4 PARTITION OF n FOR VALUES IN (4);
SET client_min_messages = error;
SELECT dedup_guard('n4', 'g', '{k}') \gset
SET client_min_messages = notice;
INSERT INTO n SELECT i, 2, 'x' FROM generate_series(200, 206) i;
INSERT INTO n VALUES (300, 4, 'x'), (301, 4, 'x');
INSERT INTO n VALUES (301, 2, 'x');
SELECT count(*) AS before FROM n \gset
\if :has_merge
\set move_200 'MERGE INTO n USING (VALUES (200)) s (k) ON n.k = s.k AND n.part = 2 WHEN MATCHED THEN UPDATE SET part = 1'
\set move_201 'MERGE INTO n USING (VALUES (201)) s (k) ON n.k = s.k AND n.part = 2 WHEN MATCHED THEN UPDATE SET part = 1'
\set move_301 'MERGE INTO n USING (VALUES (301)) s (k) ON n.k = s.k AND n.part = 2 WHEN MATCHED THEN UPDATE SET part = 4'
\set move_12 'MERGE INTO n USING (VALUES (12)) s (k) ON n.k = s.k AND n.part = 2 WHEN MATCHED THEN UPDATE SET part = 1'
\else
\set move_200 'UPDATE n SET part = 1 WHERE k = 200 AND part = 2'
\set move_201 'UPDATE n SET part = 1 WHERE k = 201 AND part = 2'
\set move_301 'UPDATE n SET part = 4 WHERE k = 301 AND part = 2'
\set move_12 'UPDATE n SET part = 1 WHERE k = 12 AND part = 2'
\endif
\set QUIET off
BEGIN;
SAVEPOINT s;
\set QUIET on
:move_200;
\set QUIET off
ROLLBACK TO s;
:move_12;
ROLLBACK;
BEGIN;
\set QUIET on
:move_200;
\set QUIET off
TRUNCATE n2;
INSERT INTO n VALUES (12, 2, 'x');
:move_12;
ROLLBACK;
BEGIN;
DELETE FROM n WHERE k = 300 AND part = 4;
\set QUIET on
:move_201;
\set QUIET off
:move_301;
ROLLBACK;
BEGIN;
DELETE FROM n WHERE k = 11 AND part = 3;
\set QUIET on
:move_200;
\set QUIET off
GRANT SELECT ON n3a TO public;
:move_12;
ROLLBACK;
SELECT count(*) = :before AS all_kept FROM n;

-- a plain INSERT moves nothing, in the first statement of a session after a DELETE either

\set QUIET on \c - \set QUIET off
BEGIN;
DELETE FROM live_guard_moved.n WHERE k = 13 AND part = 2;
INSERT INTO live_guard_moved.n VALUES (14, 1, 'dup');
ROLLBACK;
SET search_path = live_guard_moved, public;
\set QUIET on
DROP TABLE n4;
\set QUIET off

-- the other modes: an error, or a mark

\set QUIET on
SELECT dedup_unguard('n1') \gset
SET client_min_messages = error;
SELECT dedup_guard('n1', 'f', '{k}', 'reject') \gset
\set QUIET off
UPDATE n SET part = 1 WHERE k = 1 AND part = 2;
\set QUIET on
SELECT dedup_unguard('n1') \gset
ALTER TABLE n ADD is_duplicate boolean;
SELECT dedup_guard('n1', 'f', '{k}', 'mark') \gset
SET client_min_messages = notice;
\set QUIET off
UPDATE n SET part = 1 WHERE k = 1 AND part = 2 RETURNING *;
UPDATE n SET part = 2 WHERE k = 1 AND part = 1 AND is_duplicate RETURNING *;

-- all partitions, of which one has its guard disabled, or another filter's

\set QUIET on
SELECT dedup_unguard('n1') \gset
ALTER TABLE n DROP is_duplicate;
TRUNCATE n, f;
SELECT dedup_guard('n', 'f', '{k}') \gset
INSERT INTO n VALUES (1, 2, 'a'), (2, 2, 'b'), (3, 3, 'c');
ALTER TABLE n2 DISABLE TRIGGER USER;
\set QUIET off
UPDATE n SET part = 1 WHERE k = 1;
WITH l AS (SELECT 1) UPDATE n SET part = 1 FROM l WHERE k = 1;
WITH l AS (INSERT INTO n VALUES (10, 1, 'in') RETURNING k) UPDATE n SET part = 1 FROM l WHERE n.k = 1;
\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
UPDATE n SET part = 1 WHERE k = 1;
UPDATE n SET part = 2 WHERE k = 3;
INSERT INTO n VALUES (3, 1, 'dup');
SELECT * FROM n ORDER BY k;
\set QUIET on
SELECT dedup_unguard('n') \gset
SET client_min_messages = error;
SELECT dedup_guard('n1', 'f', '{k}') \gset
SELECT dedup_guard('n2', 'g', '{k}') \gset
SET client_min_messages = notice;
TRUNCATE n, f, g;
INSERT INTO n VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 2, 'c');
\set QUIET off
UPDATE n SET part = 1 WHERE part = 2 AND k = 1;
UPDATE n SET part = 1 WHERE part = 2 AND k = 2;
SELECT * FROM n ORDER BY k, v;

-- in a session whose role for replication keeps some triggers quiet

\set QUIET on
SELECT dedup_unguard('n1') \gset
SELECT dedup_unguard('n2') \gset
TRUNCATE n, f;
SELECT dedup_guard('n', 'f', '{k}') \gset
ALTER TABLE n1 ENABLE ALWAYS TRIGGER "~dedup_guard";
ALTER TABLE n1 ENABLE ALWAYS TRIGGER "~dedup_guard_delete";
INSERT INTO n VALUES (1, 2, 'a'), (2, 1, 'b');
SET session_replication_role = replica;
\set QUIET off
UPDATE n SET part = 1 WHERE k = 1;
BEGIN;
DELETE FROM n WHERE k = 2;
INSERT INTO n VALUES (2, 1, 'again'), (2, 1, 'dup');
COMMIT;
SELECT * FROM n ORDER BY k, v;
\set QUIET on
RESET session_replication_role;
DROP TABLE n;

-- ---- tables that inherit ----

-- copied from the parent to a child, which would then be truncated: refused, in both steps' order

TRUNCATE f;
CREATE TABLE p (k int, at int);
CREATE TABLE c (CHECK (at > 0)) INHERITS (p);
CREATE TABLE cc () INHERITS (c);
SELECT dedup_guard('p', 'f', '{k}') \gset
INSERT INTO p SELECT i, i FROM generate_series(1, 10) i;
\set QUIET off
INSERT INTO c SELECT * FROM ONLY p;
INSERT INTO cc SELECT * FROM ONLY p;
\set QUIET on \c - \set QUIET off
SET search_path = live_guard_moved, public;
COPY c FROM STDIN;
1	1
\.
SELECT tableoid::regclass, count(*) FROM p GROUP BY 1;

-- nor if the parent's guard is incomplete

BEGIN;
DROP TRIGGER "~dedup_guard" ON p;
INSERT INTO c SELECT * FROM ONLY p;
ROLLBACK;

-- a new key is no duplicate; a parent without rows of its own is no reason

INSERT INTO c VALUES (11, 11);
WITH moved AS (DELETE FROM ONLY p RETURNING *) INSERT INTO c SELECT * FROM moved;
INSERT INTO c VALUES (1, 1), (12, 12);
INSERT INTO cc VALUES (1, 1), (13, 13);
SELECT tableoid::regclass, count(*), count(DISTINCT k) FROM p GROUP BY tableoid ORDER BY tableoid::regclass::text;

-- nor is one that is not guarded

\set QUIET on
INSERT INTO p VALUES (20, 20);
SELECT dedup_unguard('p') \gset
SELECT dedup_guard('c', 'f', '{k}', load => false) \gset
\set QUIET off
INSERT INTO c VALUES (1, 1), (20, 20);
SELECT skipped FROM dedup_stats('f');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA live_guard_moved CASCADE;
