-- Rows that a transaction removes from the guarded tables with their whole table, and rows that a statement inserts
-- before it deletes the row with their key. None of them is lost.

\set SHOW_CONTEXT never
\set VERBOSITY terse
\set QUIET on
CREATE SCHEMA live_guard_left;
SET search_path = live_guard_left, public;
SET client_min_messages = error;
SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE t (k int, v text);
CREATE TABLE other (k int, v text);
CREATE TABLE m (k int, part int, v text) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2, 3);
SELECT dedup_guard('t', 'f', '{k}') \gset
SELECT dedup_guard('other', 'f', '{k}') \gset
SELECT dedup_guard('m', 'f', '{k}') \gset
INSERT INTO t SELECT i, 'first' FROM generate_series(1, 50) i;
INSERT INTO m SELECT 100 + i, 1 + i % 3, 'first' FROM generate_series(1, 30) i;
\set QUIET off

-- ---- WITH clauses that delete run first ----

-- nobody reads the clause

WITH d AS (DELETE FROM t WHERE k <= 3) INSERT INTO t SELECT i, 'again' FROM generate_series(1, 4) i;
WITH u AS (UPDATE t SET k = k + 1000 WHERE k = 5) INSERT INTO t VALUES (5, 'again'), (5, 'dup'), (1005, 'dup');
SELECT * FROM t WHERE k <= 5 OR k > 1000 ORDER BY k, v;

-- it is read late, twice, or by another clause; its rows stay what they are

WITH d AS (DELETE FROM t WHERE k BETWEEN 6 AND 8 RETURNING k)
INSERT INTO t SELECT i, 'early' FROM generate_series(6, 7) i UNION ALL SELECT k, 'late' FROM d WHERE k = 8 RETURNING *;
WITH d AS (DELETE FROM t WHERE k BETWEEN 9 AND 10 RETURNING *), i AS (INSERT INTO t VALUES (9, 'again'), (11, 'dup') RETURNING k)
SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM d AS e), (SELECT sum(k) FROM i), (SELECT max(v) FROM d);
WITH i AS (INSERT INTO t VALUES (12, 'again')), d AS (DELETE FROM t WHERE k = 12) SELECT 1;
WITH d AS (DELETE FROM m WHERE k = 101 RETURNING *), e AS (DELETE FROM t USING d WHERE t.k = d.k - 88 RETURNING t.k)
INSERT INTO m SELECT k, 1, 'chain' FROM e UNION ALL SELECT 101, 1, 'chain' UNION ALL SELECT 13, 2, 'dup' ORDER BY 1;
SELECT * FROM t WHERE k BETWEEN 9 AND 13 ORDER BY k;
SELECT k, v FROM m WHERE v = 'chain' ORDER BY k;

-- in a session that has not loaded the library; a prepared statement, EXPLAIN

\set QUIET on \c - \set QUIET off
WITH d AS (DELETE FROM live_guard_left.t WHERE k = 14) INSERT INTO live_guard_left.t VALUES (14, 'again'), (14, 'dup');
\set QUIET on \c - \set QUIET off
WITH d AS (DELETE FROM live_guard_left.m WHERE k = 102) INSERT INTO live_guard_left.m VALUES (102, 2, 'again'), (103, 2, 'dup');
SET search_path = live_guard_left, public;
PREPARE p AS WITH d AS (DELETE FROM t WHERE k = $1) INSERT INTO t VALUES ($1, 'prepared');
EXECUTE p(15);
EXECUTE p(15);
DO $$ BEGIN EXECUTE 'EXPLAIN (ANALYZE) WITH d AS (DELETE FROM t WHERE k = 16) INSERT INTO t VALUES (16, ''explained'')'; END $$;
SELECT count(*), count(DISTINCT k) FROM t WHERE k BETWEEN 14 AND 16;

-- the other modes

\set QUIET on
SET client_min_messages = error;
SELECT dedup_unguard('other') \gset
ALTER TABLE other ADD is_duplicate boolean;
SELECT dedup_guard('other', 'f', '{k}', 'mark') \gset
INSERT INTO other VALUES (2001, 'first'), (2002, 'first');
\set QUIET off
WITH d AS (DELETE FROM other WHERE k = 2001) INSERT INTO other VALUES (2001, 'again'), (2002, 'dup') RETURNING *;
\set QUIET on
SELECT dedup_unguard('other') \gset
SELECT dedup_guard('other', 'f', '{k}', 'reject') \gset
\set QUIET off
WITH d AS (DELETE FROM other WHERE k = 2001) INSERT INTO other VALUES (2001, 'third') RETURNING *;
\set QUIET on
CREATE TABLE ex (k int PRIMARY KEY DEFERRABLE, v text);
SELECT dedup_create('exf', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('ex', 'exf', '{k}', exact => true) \gset
INSERT INTO ex VALUES (1, 'first'), (2, 'first');
\set QUIET off
WITH d AS (DELETE FROM ex WHERE k = 1) INSERT INTO ex VALUES (1, 'again'), (2, 'dup') RETURNING *;

-- two clauses of a statement that inserts nothing keep the server's order

WITH u AS (UPDATE t SET v = 'clause' WHERE k = 17) UPDATE t SET v = 'main' WHERE k = 17;
SELECT v FROM t WHERE k = 17;

-- ---- a row is left out before its twin is deleted, by the same statement: an error ----

\set QUIET on
SELECT dedup_unguard('other') \gset
TRUNCATE other;
ALTER TABLE other DROP is_duplicate;
SELECT dedup_guard('other', 'f', '{k}') \gset
CREATE FUNCTION archive() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO other VALUES (OLD.k, 'archived'); RETURN OLD; END $$;
CREATE TRIGGER archive BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION archive();
\set QUIET off
DELETE FROM t WHERE k = 18;
\set QUIET on
DROP TRIGGER archive ON t;
CREATE TRIGGER archive AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION archive();
\set QUIET off
DELETE FROM t WHERE k = 18;
\set QUIET on
DROP TRIGGER archive ON t;
CREATE FUNCTION put(k int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (k, 'put'); RETURN true; END $$;
\set QUIET off
DELETE FROM t WHERE k = 19 AND put(k);
SELECT * FROM other;
SELECT k FROM t WHERE k BETWEEN 18 AND 19;
-- the same under an exact guard; a row that the guard of another filter has left out is no twin

DELETE FROM ex WHERE k = 1 AND (SELECT count(*) FROM (SELECT put(k) FROM generate_series(k, k)) x) > 0;
\set QUIET on
CREATE FUNCTION put_exact(k int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ex VALUES (k, 'put'); RETURN true; END $$;
\set QUIET off
DELETE FROM ex WHERE k = 2 AND put_exact(k);
\if :has_merge
\set merge 'MERGE INTO m USING (SELECT * FROM (VALUES (1, 104, 1, false), (2, 104, 2, true)) s (n, k, part, gone) ORDER BY n OFFSET 0) s ON m.k = s.k AND s.gone WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.part, ''merged'')'
SET enable_hashjoin = off;
SET enable_mergejoin = off;
\else
\set merge 'DELETE FROM m WHERE k = 104 AND put(k)'
\endif
\set QUIET on
\set VERBOSITY sqlstate
:merge;
\set VERBOSITY terse
RESET enable_hashjoin;
RESET enable_mergejoin;
\set QUIET off

\set QUIET on
CREATE FUNCTION delete_put(k int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t WHERE t.k = delete_put.k AND put(t.k); RETURN k; END $$;
\set QUIET off
INSERT INTO other SELECT delete_put(23);
COPY (SELECT delete_put(23)) TO '/dev/null';

-- statements one after the other are no such case: a duplicate is left out, and its twin deleted later

BEGIN;
INSERT INTO t VALUES (20, 'dup');
DELETE FROM t WHERE k = 20;
COMMIT;
DO $$ BEGIN INSERT INTO t VALUES (21, 'dup'); DELETE FROM t WHERE k = 21; INSERT INTO t VALUES (21, 'again'); END $$;
DO $$
BEGIN
	BEGIN
		DELETE FROM t WHERE k = 22 AND put(k);
	EXCEPTION WHEN object_not_in_prerequisite_state THEN
		NULL;
	END;
	DELETE FROM t WHERE k = 22;
END $$;
SELECT * FROM t WHERE k BETWEEN 20 AND 22;

-- a row that moves is not lost by a trigger that inserts its key

\set QUIET on
CREATE FUNCTION echo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO other VALUES (OLD.k, 'echo'); RETURN NEW; END $$;
CREATE TRIGGER echo BEFORE UPDATE ON m FOR EACH ROW EXECUTE FUNCTION echo();
\set QUIET off
UPDATE m SET part = 2 WHERE k = 103 RETURNING *;
\set QUIET on
DROP TRIGGER echo ON m;
\set QUIET off

-- ---- a row is left out as the duplicate of one that a later trigger leaves out: an error ----

\set QUIET on
CREATE FUNCTION redirect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO other VALUES (NEW.k, NEW.v); IF NEW.v = 'lands' THEN RETURN NEW; END IF; RETURN NULL; END $$;
CREATE TRIGGER "~~redirect" BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.k > 5000) EXECUTE FUNCTION redirect();
\set QUIET off
INSERT INTO t VALUES (5001, 'redirected');
INSERT INTO t VALUES (5002, 'lands');
SELECT * FROM t WHERE k > 5000 UNION ALL SELECT * FROM other WHERE k > 5000;
\set QUIET on
ALTER TRIGGER "~~redirect" ON t RENAME TO redirect;
\set QUIET off
INSERT INTO t VALUES (5001, 'redirected');
SELECT * FROM other WHERE k > 5000;
\set QUIET on
DROP TRIGGER redirect ON t;
\set QUIET off

-- ---- partitions that are detached or dropped ----

-- the rows of one come again, in whatever partition, once each; those of others are refused

BEGIN;
ALTER TABLE m DETACH PARTITION m2;
CREATE TABLE m2a PARTITION OF m FOR VALUES IN (2);
CREATE TABLE m3a PARTITION OF m FOR VALUES IN (3);
INSERT INTO m SELECT k, part, 'moved' FROM m2, generate_series(1, 2);
INSERT INTO m VALUES (106, 2, 'dup'), (3001, 2, 'new');
DROP TABLE m2;
COMMIT;
SELECT tableoid::regclass AS partition, v, count(*), count(DISTINCT k) FROM m GROUP BY tableoid, v ORDER BY tableoid::regclass::text, v;

-- rows that were deleted or changed afterwards count as they were; savepoints; later the keys are seen

BEGIN;
SAVEPOINT s;
DROP TABLE m3a;
ROLLBACK TO s;
INSERT INTO m VALUES (105, 2, 'dup');
CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM m3a;
ALTER TABLE m DETACH PARTITION m3a;
DELETE FROM m3a;
SAVEPOINT s;
INSERT INTO m SELECT k, 2, 'undone' FROM kept WHERE k < 115;
ROLLBACK TO s;
INSERT INTO m SELECT k, 2, 'kept' FROM kept WHERE k < 115;
COMMIT;
INSERT INTO m VALUES (105, 2, 'dup'), (128, 2, 'dup');
SELECT k FROM m WHERE v IN ('kept', 'dup') ORDER BY k;

-- attached again: its keys are its own

BEGIN;
ALTER TABLE m DETACH PARTITION m1;
ALTER TABLE m ATTACH PARTITION m1 FOR VALUES IN (1, 4);
INSERT INTO m VALUES (106, 1, 'dup');
ALTER TABLE m DETACH PARTITION m1;
ALTER TABLE m ATTACH PARTITION m1 FOR VALUES IN (1, 5);
ALTER TABLE m DETACH PARTITION m1;
INSERT INTO m SELECT k, 2, 'once' FROM m1, generate_series(1, 2) WHERE k = 106;
ROLLBACK;
SELECT count(*) = count(DISTINCT k) AS once_each FROM m;

-- with its schema, keys out of line, in a session that has not loaded the library

\set QUIET on
CREATE SCHEMA live_guard_left_2;
CREATE TABLE long (k text, part int) PARTITION BY LIST (part);
CREATE TABLE live_guard_left_2.long1 PARTITION OF long FOR VALUES IN (1);
ALTER TABLE live_guard_left_2.long1 ALTER k SET STORAGE EXTERNAL;
SELECT dedup_guard('long', 'f', '{k}') \gset
INSERT INTO long SELECT repeat('x', 5000) || i, 1 FROM generate_series(1, 3) i;
\set QUIET off
\set QUIET on \c - \set QUIET off
BEGIN;
\set QUIET on
SET client_min_messages = error;
DROP SCHEMA live_guard_left_2 CASCADE;
SET search_path = live_guard_left, public;
CREATE TABLE long1 PARTITION OF long FOR VALUES IN (1);
\set QUIET off
INSERT INTO long SELECT repeat('x', 5000) || i, 1 FROM generate_series(1, 4) i, generate_series(1, 2);
COMMIT;
SELECT count(*), count(DISTINCT k) FROM long;
\set QUIET on \c - \set QUIET off
BEGIN;
\set QUIET on
SET client_min_messages = error;
ALTER TABLE live_guard_left.long DETACH PARTITION live_guard_left.long1;
SET search_path = live_guard_left, public;
CREATE TABLE long2 PARTITION OF long FOR VALUES IN (1);
\set QUIET off
INSERT INTO long SELECT * FROM long1;
COMMIT;

-- a whole guarded table; a table that inherits; not one whose guard is taken off and that stays

\set QUIET on
CREATE TABLE par (k int, v text);
CREATE TABLE chi () INHERITS (par);
SELECT dedup_guard('par', 'f', '{k}') \gset
INSERT INTO chi VALUES (4001, 'first'), (4002, 'first');
\set QUIET off
BEGIN;
ALTER TABLE chi NO INHERIT par;
INSERT INTO par SELECT k, 'moved' FROM chi, generate_series(1, 2);
DROP TABLE chi;
COMMIT;
SELECT * FROM par ORDER BY k;
\set QUIET on
CREATE TABLE freeing (k int, v text);
CREATE TABLE freeing1 () INHERITS (freeing);
SELECT dedup_create('ff', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('freeing', 'ff', '{k}', on_delete => 'forget') \gset
INSERT INTO freeing1 VALUES (1, 'first'), (2, 'first');
\set QUIET off
BEGIN;
ALTER TABLE freeing1 NO INHERIT freeing;
INSERT INTO freeing SELECT k, 'moved' FROM freeing1, generate_series(1, 2);
DROP TABLE freeing1;
COMMIT;
SELECT * FROM freeing ORDER BY k;
BEGIN;
DROP TABLE par;
INSERT INTO other VALUES (4001, 'again'), (4001, 'dup');
COMMIT;
BEGIN;
SELECT dedup_unguard('other') \gset
INSERT INTO t VALUES (4001, 'dup');
ROLLBACK;
SELECT * FROM other WHERE k > 4000 AND k < 5000;

-- the filter was emptied in between; the other modes

BEGIN;
DROP TABLE long;
TRUNCATE f;
INSERT INTO other VALUES (4001, 'new'), (4001, 'dup');
ROLLBACK;
\set QUIET on
SELECT dedup_unguard('m') \gset
SELECT dedup_guard('m', 'f', '{k}', 'reject') \gset
\set QUIET off
BEGIN;
ALTER TABLE m DETACH PARTITION m1;
INSERT INTO m SELECT k, 2, 'moved' FROM m1;
INSERT INTO m SELECT k, 2, 'dup' FROM m1 LIMIT 1;
ROLLBACK;
BEGIN;
ALTER TABLE m DETACH PARTITION m1;
UPDATE m SET k = 106 WHERE k = 3001 RETURNING *;
UPDATE m SET k = 106 WHERE k = 105;
ROLLBACK;

-- whoever may not add to the filter gets no right by dropping a table of his own

\set QUIET on
CREATE ROLE regress_dedup_left;
GRANT USAGE, CREATE ON SCHEMA live_guard_left TO regress_dedup_left;
GRANT INSERT ON t TO regress_dedup_left;
SET ROLE regress_dedup_left;
CREATE TABLE own (k int);
INSERT INTO own VALUES (30);
CREATE INDEX ON own USING streamdedup_guard (k);
CREATE TRIGGER a BEFORE INSERT OR UPDATE ON own FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'x');
CREATE TRIGGER b BEFORE DELETE ON own FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
\set QUIET off
BEGIN;
DROP TABLE own;
INSERT INTO t VALUES (30, 'dup');
COMMIT;
\set QUIET on
RESET ROLE;
DROP OWNED BY regress_dedup_left;
DROP ROLE regress_dedup_left;
DROP SCHEMA live_guard_left CASCADE;
