-- TRUNCATE of guarded tables: the same transaction may insert the removed rows again, and no others. The first
-- inserted row pays for this.

\set SHOW_CONTEXT never
\set VERBOSITY terse
\set QUIET on
CREATE SCHEMA live_guard_truncate;
SET search_path = live_guard_truncate, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE t (k int, v text);
SELECT dedup_guard('t', 'f', '{k}') \gset
CREATE TABLE m (k int, part int, v text) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
SELECT dedup_create('g', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('m', 'g', '{k}') \gset
INSERT INTO t SELECT i, 'first' FROM generate_series(1, 1000) i;
INSERT INTO m SELECT i, 1 + i % 2, 'first' FROM generate_series(1, 1000) i;
SET client_min_messages = notice;
\set QUIET off

-- ---- a table ----

-- all rows again, duplicates among them and unknown ones as ever; then the keys are seen

BEGIN;
TRUNCATE t;
INSERT INTO t SELECT i, 'again' FROM generate_series(1, 1000) i;
INSERT INTO t VALUES (1, 'dup'), (1001, 'new'), (1001, 'dup');
COMMIT;
INSERT INTO t VALUES (1, 'dup');
SELECT count(*), count(DISTINCT k), min(v), max(v) FROM t;

-- some of them; the others stay seen, which the warning said

BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (5, 'again'), (5, 'dup'), (2000, 'new');
COMMIT;
INSERT INTO t VALUES (5, 'dup'), (6, 'dup');
SELECT * FROM t ORDER BY k;

-- rolled back, to a savepoint too; the reading of the rows is not undone with the savepoint it was in

BEGIN;
SAVEPOINT s;
TRUNCATE t;
INSERT INTO t VALUES (5, 'undone');
ROLLBACK TO s;
INSERT INTO t VALUES (5, 'dup');
TRUNCATE t;
SAVEPOINT s;
INSERT INTO t VALUES (5, 'undone');
ROLLBACK TO s;
INSERT INTO t VALUES (5, 'again'), (5, 'dup'), (2000, 'again');
SAVEPOINT s;
TRUNCATE t;
INSERT INTO t VALUES (5, 'undone');
ROLLBACK TO s;
INSERT INTO t VALUES (5, 'dup');
RELEASE s;
COMMIT;
SELECT * FROM t ORDER BY k;

-- twice in one transaction, which truncates in place; rows in between; deleted before, or not committed yet

BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (5, 'between'), (2000, 'between'), (2001, 'between');
DELETE FROM t WHERE k = 2000;
TRUNCATE t;
INSERT INTO t VALUES (5, 'again'), (2000, 'again'), (2001, 'again');
INSERT INTO t VALUES (5, 'dup'), (2000, 'dup'), (2001, 'dup');
TRUNCATE t;
TRUNCATE t;
INSERT INTO t VALUES (5, 'third'), (5, 'dup');
COMMIT;
SELECT * FROM t ORDER BY k;

-- a table that the same transaction has made

BEGIN;
CREATE TABLE fresh (k int);
SELECT dedup_guard('fresh', 'f', '{k}') \gset
INSERT INTO fresh VALUES (3000), (3001);
TRUNCATE fresh;
INSERT INTO fresh VALUES (3000), (3000), (5);
COMMIT;
SELECT * FROM fresh;
DROP TABLE fresh;

-- rows that were changed or are of other shapes: columns added since, dropped since, NULLs, long keys

\set QUIET on
CREATE TABLE shapes (gone int, k text, v int);
INSERT INTO shapes VALUES (1, 'a', 1), (1, 'b', 1), (1, NULL, 1);
ALTER TABLE shapes DROP COLUMN gone, ADD COLUMN extra int DEFAULT 7;
SET client_min_messages = error;
SELECT dedup_guard('shapes', 'f', '{k, extra}') \gset
SET client_min_messages = notice;
INSERT INTO shapes VALUES ('c', 1, 8), (repeat('long ', 1000), 1, 8), (NULL, 1, 8);
INSERT INTO shapes SELECT string_agg(md5(i::text), '' ORDER BY i), 1, 8 FROM generate_series(1, 1000) i;
\set QUIET off
BEGIN;
TRUNCATE shapes;
ALTER TABLE shapes ADD COLUMN more int, DROP COLUMN v;
INSERT INTO shapes SELECT 'c', 8 FROM generate_series(1, 2);
INSERT INTO shapes VALUES ('a', 7), ('a', 7), (repeat('long ', 1000), 8), (repeat('long ', 1000), 8), (NULL, 8);
INSERT INTO shapes SELECT string_agg(md5(i::text), '' ORDER BY i), 8 FROM generate_series(1, 1000) i, generate_series(1, 2) j GROUP BY j;
COMMIT;
SELECT left(k, 5), length(k), extra FROM shapes ORDER BY length(k), k;
DROP TABLE shapes;

-- ---- partitions ----

-- one of them: its rows come again, in whatever partition; a key that the other one holds is a duplicate

BEGIN;
TRUNCATE m1;
INSERT INTO m VALUES (2, 1, 'again'), (2, 2, 'dup'), (3, 1, 'dup'), (4, 2, 'again'), (5, 2, 'dup');
COMMIT;
SELECT * FROM m WHERE k <= 5 ORDER BY k;

-- all of them; by the guarded table, one warning

BEGIN;
TRUNCATE m;
INSERT INTO m SELECT i, 1 + i % 2, 'reloaded' FROM generate_series(1, 100) i, generate_series(1, 2) ORDER BY i;
COMMIT;
SELECT count(*), count(DISTINCT k) FROM m;

-- in a session that has not loaded the library: one partition, and the whole table

\set QUIET on \c - \set QUIET off
BEGIN;
TRUNCATE live_guard_truncate.m2;
INSERT INTO live_guard_truncate.m VALUES (1, 2, 'again'), (1, 2, 'dup'), (2, 2, 'dup'), (3, 1, 'again');
COMMIT;
\set QUIET on \c - \set QUIET off
BEGIN;
TRUNCATE live_guard_truncate.m;
SAVEPOINT s;
INSERT INTO live_guard_truncate.m VALUES (1, 1, 'undone');
ROLLBACK TO s;
INSERT INTO live_guard_truncate.m VALUES (1, 1, 'again'), (1, 1, 'dup'), (2, 2, 'again'), (5, 2, 'dup');
COMMIT;
SET search_path = live_guard_truncate, public;
SELECT * FROM m ORDER BY k;

-- with a foreign key and CASCADE

\set QUIET on
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (k int, p int REFERENCES parent);
SELECT dedup_guard('child', 'f', '{p, k}') \gset
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (2, 1);
\set QUIET off
BEGIN;
TRUNCATE parent CASCADE;
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (1, 1);
COMMIT;
BEGIN;
TRUNCATE parent CASCADE;
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (3, 1);
TRUNCATE parent CASCADE;
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (3, 1), (3, 1);
COMMIT;
SELECT * FROM child ORDER BY k;
DROP TABLE child, parent;

-- ---- the filter, too ----

-- with its table: no warning, and an empty start

TRUNCATE t, f;
INSERT INTO t VALUES (5, 'new'), (5, 'dup');
TRUNCATE f, t;
INSERT INTO t VALUES (5, 'new'), (5, 'dup');
BEGIN;
TRUNCATE t;
TRUNCATE f;
INSERT INTO t VALUES (5, 'new'), (5, 'dup');
SAVEPOINT s;
TRUNCATE t;
SAVEPOINT inner_one;
TRUNCATE f;
INSERT INTO t VALUES (5, 'undone');
ROLLBACK TO inner_one;
INSERT INTO t VALUES (5, 'again'), (5, 'dup');
COMMIT;
SELECT * FROM t;

-- locked by this transaction, but not truncated: a warning

BEGIN;
LOCK TABLE f;
TRUNCATE t;
COMMIT;
TRUNCATE f;

-- in a session that has not loaded the library such a lock puts the warning off until the commit

\set QUIET on \c - \set QUIET off
BEGIN;
INSERT INTO live_guard_truncate.t VALUES (6, 'new');
COMMIT;
\set QUIET on \c - \set QUIET off
BEGIN;
LOCK TABLE live_guard_truncate.f;
TRUNCATE live_guard_truncate.t;
COMMIT;
SET search_path = live_guard_truncate, public;
BEGIN;
TRUNCATE f;
TRUNCATE t, f;
COMMIT;

-- what was rewritten before is read once, whatever builds the index anew afterwards; an empty rewrite is no TRUNCATE

\set QUIET on
INSERT INTO t VALUES (1, 'first'), (2, 'first');
\set QUIET off
BEGIN;
ALTER TABLE t ALTER v TYPE varchar(30);
TRUNCATE t;
REINDEX TABLE t;
INSERT INTO t VALUES (1, 'again'), (1, 'dup');
ALTER TABLE t ALTER v TYPE varchar(40);
TRUNCATE t;
REINDEX TABLE t;
INSERT INTO t VALUES (1, 'third'), (1, 'dup'), (2, 'again');
COMMIT;
SELECT * FROM t ORDER BY k;
DELETE FROM t;
VACUUM FULL t;
ALTER TABLE t ALTER v TYPE text;
INSERT INTO t VALUES (1, 'dup');

-- a trigger BEFORE TRUNCATE may change what is read: not twice in one transaction

\set QUIET on
CREATE FUNCTION add_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (99, 'late'); RETURN NULL; END $$;
CREATE TRIGGER add_one BEFORE TRUNCATE ON t EXECUTE FUNCTION add_one();
\set QUIET off
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (99, 'again'), (99, 'dup');
TRUNCATE t;
ROLLBACK;
\set QUIET on
DROP TRIGGER add_one ON t;
\set QUIET off

-- keys out of line of a table that is gone when they are read

\set QUIET on
CREATE TABLE long (k text);
ALTER TABLE long ALTER k SET STORAGE EXTERNAL;
CREATE TABLE short (k text);
SELECT dedup_guard('long', 'f', '{k}') \gset
SELECT dedup_guard('short', 'f', '{k}') \gset
INSERT INTO long SELECT repeat('x', 5000) || i FROM generate_series(1, 3) i;
\set QUIET off
BEGIN;
TRUNCATE long;
DROP TABLE long;
INSERT INTO short SELECT repeat('x', 5000) || i FROM generate_series(1, 4) i, generate_series(1, 2);
COMMIT;
SELECT count(*), count(DISTINCT k) FROM short;
DROP TABLE short;

-- a partition of partitions, and one whose root is only locked

\set QUIET on
CREATE TABLE sub (k int, part int) PARTITION BY LIST (part);
CREATE TABLE sub1 PARTITION OF sub FOR VALUES IN (1) PARTITION BY RANGE (k);
CREATE TABLE sub1a PARTITION OF sub1 FOR VALUES FROM (0) TO (100);
CREATE TABLE sub1b PARTITION OF sub1 FOR VALUES FROM (100) TO (200);
TRUNCATE f;
SELECT dedup_guard('sub', 'f', '{k}') \gset
INSERT INTO sub VALUES (1, 1), (101, 1);
\set QUIET off
BEGIN;
LOCK TABLE sub;
TRUNCATE sub1a;
TRUNCATE sub1;
ROLLBACK;
TRUNCATE sub, f;
DROP TABLE sub;

-- ---- other events that build the guard's index anew: no right, no warning ----

\set QUIET on
INSERT INTO t VALUES (1, 'first'), (2, 'first');
\set QUIET off
BEGIN;
REINDEX TABLE t;
ALTER TABLE t ALTER v TYPE varchar(20);
ALTER TABLE t ADD w int DEFAULT random();
INSERT INTO t VALUES (1, 'dup'), (3, 'new');
DELETE FROM t;
REINDEX TABLE t;
INSERT INTO t VALUES (1, 'again'), (1, 'dup');
COMMIT;
SELECT k, v FROM t ORDER BY k;
DELETE FROM t;
VACUUM t;
REINDEX TABLE t;
BEGIN;
REINDEX TABLE t;
INSERT INTO t VALUES (1, 'dup'), (4, 'new');
COMMIT;
SELECT k, v FROM t ORDER BY k;

-- a guard that is disabled has seen nothing go

ALTER TABLE t DISABLE TRIGGER USER;
BEGIN;
TRUNCATE t;
ALTER TABLE t ENABLE TRIGGER USER;
INSERT INTO t VALUES (4, 'dup');
COMMIT;

-- the other modes

\set QUIET on
SELECT dedup_unguard('t') \gset
TRUNCATE t, f;
SELECT dedup_guard('t', 'f', '{k}', 'reject') \gset
INSERT INTO t VALUES (1, 'first');
\set QUIET off
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (1, 'again');
INSERT INTO t VALUES (1, 'dup');
COMMIT;
\set QUIET on
SELECT dedup_unguard('t') \gset
TRUNCATE t, f;
ALTER TABLE t ADD is_duplicate boolean;
SELECT dedup_guard('t', 'f', '{k}', 'mark') \gset
INSERT INTO t VALUES (1, 'first'), (1, 'second'), (2, 'first');
\set QUIET off
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (1, 'again'), (1, 'marked'), (2, 'again');
COMMIT;
SELECT k, v, is_duplicate FROM t ORDER BY k, v;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA live_guard_truncate CASCADE;
