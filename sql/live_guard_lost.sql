-- Rows that a statement leaves out before it deletes their twin: this raises an error, in every way that a statement
-- can do so. Rows that are detached with their table, which then loses its file or its key.

\set SHOW_CONTEXT never
\set VERBOSITY terse
\set QUIET on
CREATE SCHEMA live_guard_lost;
SET search_path = live_guard_lost, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(1000000, 1e-6, 42)) \gset
CREATE TABLE t (k int, v text);
CREATE TABLE m (k int, part int, v text) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
SELECT dedup_guard('t', 'f', '{k}') \gset
SELECT dedup_guard('m', 'f', '{k}') \gset
INSERT INTO t SELECT i, 'first' FROM generate_series(1, 50) i;
INSERT INTO m SELECT 100 + i, 1 + i % 2, 'first' FROM generate_series(1, 20) i;
CREATE FUNCTION put(k int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (k, 'put'); RETURN true; END $$;
CREATE FUNCTION put_back(k int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		INSERT INTO t VALUES (k, 'put');
		RAISE 'undone';
	EXCEPTION WHEN raise_exception THEN
		RETURN true;
	END;
END $$;
\set QUIET off

-- ---- an aborted subtransaction takes back what it has left out, and nothing else ----

DELETE FROM t WHERE k = 1 AND put(k) AND put_back(k);
DELETE FROM t WHERE k = 2 AND put_back(k) AND put(k);
DELETE FROM t WHERE k = 3 AND put_back(k) AND put_back(k);
SELECT k FROM t WHERE k <= 3;

-- ---- more rows than the memory is for: those of earlier statements do not matter ----

\set QUIET on
SET work_mem = '64kB';
CREATE TABLE log (k int, v text);
SELECT dedup_create('log_seen', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('log', 'log_seen', '{k}') \gset
INSERT INTO log VALUES (1, 'first'), (2, 'first');
CREATE FUNCTION put_many(k int, n int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t VALUES (k, 'put');
	INSERT INTO t SELECT 10000 + i / 2, 'many' FROM generate_series(1, n) i;
	RETURN true;
END $$;
\set QUIET off
DELETE FROM t WHERE k = 4 AND put_many(k, 100);
DELETE FROM t WHERE k = 4 AND put_many(k, 40000);
DELETE FROM log WHERE k = 1 AND put_many(5, 40000);
DO $$ BEGIN PERFORM put_many(5, 40000); DELETE FROM t WHERE k = 5; END $$;
SELECT k FROM t WHERE k BETWEEN 4 AND 5;
\set QUIET on
RESET work_mem;
\set QUIET off

-- ---- the key of the twin is changed ----

UPDATE t SET k = k + 1000 WHERE k = 6 AND put(k);
UPDATE t SET v = 'kept' WHERE k = 6 AND put(k);
SELECT * FROM t WHERE k IN (6, 1006);
\set QUIET on
CREATE TABLE up (id int PRIMARY KEY, k int);
SELECT dedup_create('up_seen', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('up', 'up_seen', '{k}') \gset
INSERT INTO up VALUES (1, 1);
CREATE TABLE ex (k int PRIMARY KEY DEFERRABLE, v text);
SELECT dedup_create('ex_seen', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('ex', 'ex_seen', '{k}', exact => true) \gset
INSERT INTO ex VALUES (1, 'first'), (2, 'first');
CREATE FUNCTION put_exact(k int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ex VALUES (k, 'put'); RETURN true; END $$;
\set QUIET off
INSERT INTO up VALUES (2, 1), (1, 2) ON CONFLICT (id) DO UPDATE SET k = excluded.k;
INSERT INTO up VALUES (1, 2), (2, 1) ON CONFLICT (id) DO UPDATE SET k = excluded.k;
SELECT * FROM up ORDER BY id;
UPDATE ex SET k = 3 WHERE k = 2 AND put_exact(k);
UPDATE ex SET v = 'kept' WHERE k = 2 AND put_exact(k);
SELECT * FROM ex ORDER BY k;

-- ---- ON DELETE CASCADE and ON UPDATE CASCADE are a part of the statement ----

\set QUIET on
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (k int, id int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE k (k int REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE);
SELECT dedup_create('c_seen', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_create('k_seen', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('c', 'c_seen', '{k}') \gset
SELECT dedup_guard('k', 'k_seen', '{k}') \gset
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO c VALUES (1, 1), (2, 2);
INSERT INTO k VALUES (3);
\set QUIET off
WITH d AS (DELETE FROM p WHERE id = 1) INSERT INTO c VALUES (1, 2);
WITH i AS (INSERT INTO c VALUES (1, 2)) DELETE FROM p WHERE id = 1;
WITH d AS (DELETE FROM p WHERE id = 3) INSERT INTO k VALUES (3);
WITH u AS (UPDATE p SET id = 4 WHERE id = 3) INSERT INTO k VALUES (3);
-- not in statements that follow each other, nor if another row is left out
DO $$ BEGIN INSERT INTO c VALUES (1, 2); DELETE FROM p WHERE id = 1; INSERT INTO c VALUES (1, 2); END $$;
WITH p AS (INSERT INTO p VALUES (5) RETURNING id) INSERT INTO c SELECT 3, id FROM p;
WITH d AS (DELETE FROM p WHERE id = 5) INSERT INTO c VALUES (2, NULL);
SELECT * FROM c ORDER BY k;

-- ---- WITH clauses: one that is read in part by another one; by a cursor, an SQL function ----

WITH d AS (DELETE FROM t WHERE k BETWEEN 11 AND 13 RETURNING k), e AS (DELETE FROM t WHERE k = (SELECT k + 3 FROM d LIMIT 1) RETURNING k)
INSERT INTO t SELECT i, 'again' FROM generate_series(11, 14) i UNION ALL SELECT k + 1000, 'd' FROM d UNION ALL SELECT k + 2000, 'd2' FROM d AS d2
UNION ALL SELECT k + 3000, 'e' FROM e;
SELECT v, count(*), min(k), max(k) FROM t WHERE k BETWEEN 11 AND 14 OR k BETWEEN 1000 AND 5000 GROUP BY v ORDER BY v;
\set QUIET on
CREATE FUNCTION again(a int, b int) RETURNS SETOF int LANGUAGE sql AS
	'WITH d AS (DELETE FROM t WHERE k BETWEEN a AND b) INSERT INTO t SELECT i, ''again'' FROM generate_series(a, b) i RETURNING k';
\set QUIET off
SELECT again(15, 17) LIMIT 1;
DO $$
DECLARE
	c refcursor;
	k int;
BEGIN
	OPEN c FOR WITH d AS (DELETE FROM t WHERE t.k BETWEEN 18 AND 20) INSERT INTO t SELECT i, 'again' FROM generate_series(18, 20) i RETURNING t.k;
	FETCH c INTO k;
	CLOSE c;
END $$;
DO $$
BEGIN
	BEGIN
		WITH d AS (DELETE FROM t WHERE k = 21 RETURNING k), e AS (DELETE FROM t WHERE k = 22 AND 1 / (k - 22) > 0) INSERT INTO t SELECT k, 'lost' FROM d;
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
	WITH d AS (DELETE FROM t WHERE k = 21 RETURNING k) INSERT INTO t SELECT k, 'again' FROM d;
END $$;
SELECT count(*), count(DISTINCT k), min(v), max(v) FROM t WHERE k BETWEEN 15 AND 21;

-- ---- a detached partition that is truncated in place ----

BEGIN;
TRUNCATE m2;
INSERT INTO m VALUES (201, 2, 'first'), (202, 2, 'first');
CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM m2;
ALTER TABLE m DETACH PARTITION m2;
TRUNCATE m2;
CREATE TABLE m2a PARTITION OF m FOR VALUES IN (2);
INSERT INTO m SELECT k, part, 'again' FROM kept, generate_series(1, 2);
SELECT * FROM m2a ORDER BY k;
ROLLBACK;

-- ---- the key of a row that leaves is forgotten: no second row comes in ----

BEGIN;
ALTER TABLE m DETACH PARTITION m1;
SELECT count(*) FROM m1 WHERE k <= 104 AND dedup_forget('f', k);
CREATE TABLE m1a PARTITION OF m FOR VALUES IN (1);
INSERT INTO m SELECT k, part, 'again' FROM m1, generate_series(1, 2);
SELECT count(*), count(DISTINCT k) FROM m1a;
ROLLBACK;
BEGIN;
SELECT count(*) FROM m1 WHERE k <= 104 AND dedup_forget('f', k);
ALTER TABLE m DETACH PARTITION m1;
CREATE TABLE m1a PARTITION OF m FOR VALUES IN (1);
INSERT INTO m SELECT k, part, 'again' FROM m1, generate_series(1, 2);
SELECT count(*), count(DISTINCT k) FROM m1a;
ROLLBACK;

-- ---- tables that are noted and stay: they are asked for again when a table changes ----

BEGIN;
SELECT dedup_unguard('m') AS unguarded \gset
SELECT dedup_guard('m', 'f', '{k}') AS guarded \gset
INSERT INTO m VALUES (102, 1, 'dup'), (102, 1, 'dup');
ALTER TABLE m DETACH PARTITION m1;
CREATE TABLE m1a PARTITION OF m FOR VALUES IN (1);
INSERT INTO m VALUES (102, 1, 'again'), (102, 1, 'dup');
SELECT * FROM m1a;
ROLLBACK;
\set QUIET on
DROP SCHEMA live_guard_lost CASCADE;
