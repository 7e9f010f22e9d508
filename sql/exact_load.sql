-- Existing rows: dedup_guard(load => true), dedup_rebuild(), ATTACH PARTITION.

CREATE SCHEMA exact_load;
SET search_path = exact_load, public;

-- how many of the keys 1 to n the filter has, and how many of as many others

CREATE FUNCTION known(filter regclass, n int) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s of %s, %s others', count(*) FILTER (WHERE public.dedup_seen(filter, i)), n,
		count(*) FILTER (WHERE public.dedup_seen(filter, i + 1000000)))
	FROM generate_series(1, n) i
$$;

-- an exact guard has the key of every row; a NULL is no key, and is there more than once

SELECT dedup_create('f', dedup_filter(20000, 1e-6, 1));
CREATE TABLE t (k int, v text);
CREATE INDEX ON t (k);
INSERT INTO t SELECT i FROM generate_series(1, 10000) i;
INSERT INTO t VALUES (NULL), (NULL);
SELECT dedup_guard('t', 'f', '{k}', exact => true);
SELECT known('f', 10000);
SELECT new, count, in_flight, overflow_pages FROM dedup_stats('f');
SELECT * FROM dedup_check('f');

-- a new key lands, and dedup_rebuild() finds that nothing is missing

INSERT INTO t VALUES (10001);
SELECT dedup_rebuild('f');
SELECT new, count FROM dedup_stats('f');

-- rows that landed without the trigger: a new key is loaded, a duplicate is an error

BEGIN;
ALTER TABLE t DISABLE TRIGGER USER;
INSERT INTO t VALUES (10002);
ALTER TABLE t ENABLE TRIGGER USER;
SELECT dedup_rebuild('f');
SELECT dedup_seen('f', 10002);
ROLLBACK;
BEGIN;
ALTER TABLE t DISABLE TRIGGER USER;
INSERT INTO t VALUES (77);
ALTER TABLE t ENABLE TRIGGER USER;
DO $$
DECLARE
	detail text;
	table_name text;
BEGIN
	PERFORM dedup_rebuild('f');
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, table_name = TABLE_NAME;
	RAISE NOTICE '% % [%] [%]', SQLSTATE, SQLERRM, detail, table_name;
END $$;
ROLLBACK;

-- an empty table, and one with NULLs alone; load => false says so if there are keys

SELECT dedup_create('g', dedup_filter(20000, 1e-6, 1));
CREATE TABLE e (k int);
CREATE INDEX ON e (k);
SELECT dedup_guard('e', 'g', '{k}', exact => true);
SELECT dedup_unguard('e');
INSERT INTO e VALUES (NULL), (NULL);
SELECT dedup_guard('e', 'g', '{k}', exact => true, load => false);
SELECT dedup_unguard('e');
INSERT INTO e VALUES (1);
SELECT dedup_guard('e', 'g', '{k}', exact => true, load => false);
DELETE FROM e WHERE k = 1;
SELECT dedup_guard('e', 'g', '{k}', exact => true, load => false);
SELECT known('g', 10);

-- guards that are not exact: a number of duplicates, or an error; load => false says nothing

SELECT dedup_create('h', dedup_filter(20000, 1e-6, 1));
CREATE TABLE a (k int);
INSERT INTO a VALUES (1), (2), (2), (3), (3), (3), (4), (NULL), (NULL);
SELECT dedup_guard('a', 'h', '{k}', load => false);
SELECT known('h', 4);
SELECT dedup_unguard('a');
SELECT dedup_guard('a', 'h', '{k}', 'reject', load => true);
SELECT known('h', 4);
SELECT dedup_guard('a', 'h', '{k}', load => true);
SELECT known('h', 4);
SELECT dedup_unguard('a');
DELETE FROM a WHERE k = 3;
SELECT dedup_guard('a', 'h', '{k}', load => true);
SELECT dedup_unguard('a');
DELETE FROM a WHERE k = 2;
SELECT dedup_guard('a', 'h', '{k}', 'reject', load => true);

-- a row that is marked does not count, neither as one with the key nor as a duplicate

SELECT dedup_create('m', dedup_filter(20000, 1e-6, 1));
CREATE TABLE marked (k int, is_duplicate bool);
CREATE INDEX ON marked (k);
INSERT INTO marked VALUES (1, false), (1, true), (2, NULL), (2, true), (2, true), (3, true);
SELECT dedup_guard('marked', 'm', '{k}', 'mark', exact => true);
SELECT known('m', 3), dedup_seen('m', 3);
SELECT dedup_unguard('marked');
TRUNCATE m;
INSERT INTO marked VALUES (2, false);
SELECT dedup_guard('marked', 'm', '{k}', 'mark', exact => true);
SELECT dedup_create('m2', dedup_filter(20000, 1e-6, 1));
SELECT dedup_guard('marked', 'm2', '{k}', 'mark', load => true);
SELECT known('m2', 3), dedup_seen('m2', 3);

-- keys are equal as SQL has it: numbers of any scale, text by its collation's bytes, padding

SELECT dedup_create('n', dedup_filter(20000, 1e-6, 1));
CREATE TABLE equal (n numeric, "a b" text, c char(5));
CREATE INDEX ON equal (n, "a b", c);
INSERT INTO equal VALUES (1.0, 'x', 'c'), (1.0, 'X', 'c'), (1.0, 'x', NULL), (1.0, 'x', NULL),
	(2, 'x', 'c'), (1, 'x', 'd');
BEGIN;
SELECT dedup_guard('equal', 'n', '{n,"a b",c}', exact => true);
ROLLBACK;
INSERT INTO equal VALUES (1.00, 'x', 'c   ');
SELECT dedup_guard('equal', 'n', '{"a b",c,n}', exact => true);

-- partitions with the columns in another order; a duplicate in another partition

SELECT dedup_create('pf', dedup_filter(20000, 1e-6, 1));
CREATE TABLE p (k int, d int) PARTITION BY RANGE (d);
CREATE INDEX ON p (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (dropped int, d int, k int);
ALTER TABLE p2 DROP COLUMN dropped;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
INSERT INTO p SELECT i, i % 20 FROM generate_series(1, 5000) i;
INSERT INTO p VALUES (4711, 10);
SELECT dedup_guard('p', 'pf', '{k}', exact => true);
SELECT known('pf', 5000);
DELETE FROM p WHERE k = 4711 AND d = 10;
SELECT dedup_guard('p', 'pf', '{k}', exact => true);
SELECT known('pf', 5000);

-- ATTACH loads the keys of the rows that come along

CREATE TABLE p3 (d int, k int);
INSERT INTO p3 SELECT 25, i FROM generate_series(5001, 6000) i;
INSERT INTO p3 VALUES (25, NULL), (25, NULL);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
SELECT known('pf', 6000);

-- rows that repeat a key, of their own or of another partition, are an error

CREATE TABLE p4 (k int, d int);
INSERT INTO p4 VALUES (7000, 31), (7000, 32), (7001, 33);
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40);
SELECT known('pf', 7000);
DELETE FROM p4 WHERE d = 32;
INSERT INTO p4 VALUES (5001, 34);
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40);
SELECT dedup_seen('pf', 7001);

-- a key whose row is gone is no duplicate, though the filter has it yet

DELETE FROM p3 WHERE k = 5001;
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40);
SELECT dedup_seen('pf', 7001);

-- a partition that was detached took rows that nobody checked. Its guard index is there yet

ALTER TABLE p DETACH PARTITION p4;
INSERT INTO p4 VALUES (4711, 35), (8000, 36);
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40);
DELETE FROM p4 WHERE k = 4711;
INSERT INTO p4 VALUES (8000, 36);
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40);
DELETE FROM p4 WHERE k = 8000;
INSERT INTO p4 VALUES (8000, 36);
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40);
SELECT known('pf', 8000) AS first, dedup_seen('pf', 8000);

-- all rows of a partition are known to the filter, and none of them is in another one

ALTER TABLE p DETACH PARTITION p2;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);

-- a partition with partitions, one empty, and one that has no rows

CREATE TABLE s (d int, k int) PARTITION BY RANGE (d);
CREATE TABLE s1 PARTITION OF s FOR VALUES FROM (40) TO (45);
CREATE TABLE s2 PARTITION OF s FOR VALUES FROM (45) TO (50);
INSERT INTO s VALUES (41, 9000), (46, 9000);
ALTER TABLE p ATTACH PARTITION s FOR VALUES FROM (40) TO (50);
UPDATE s SET k = 9001 WHERE d = 46;
ALTER TABLE p ATTACH PARTITION s FOR VALUES FROM (40) TO (50);
SELECT dedup_seen('pf', 9000), dedup_seen('pf', 9001);
CREATE TABLE s3 (k int, d int);
INSERT INTO s3 VALUES (1, 100);
ALTER TABLE s ATTACH PARTITION s3 DEFAULT;
UPDATE s3 SET (k, d) = (9100, 49);
BEGIN;
ALTER TABLE s DETACH PARTITION s2;
ALTER TABLE s ATTACH PARTITION s3 FOR VALUES FROM (47) TO (50);
SELECT dedup_seen('pf', 9100);
ROLLBACK;
SELECT dedup_seen('pf', 9100);
CREATE TABLE p5 (LIKE p);
ALTER TABLE p ATTACH PARTITION p5 FOR VALUES FROM (50) TO (60);
CREATE TABLE p6 PARTITION OF p FOR VALUES FROM (60) TO (70);

-- with the guard disabled the keys are loaded all the same

CREATE TABLE p7 (k int, d int);
INSERT INTO p7 VALUES (9200, 71);
ALTER TABLE p DISABLE TRIGGER USER;
ALTER TABLE p ATTACH PARTITION p7 FOR VALUES FROM (70) TO (80);
ALTER TABLE p ENABLE TRIGGER USER;
SELECT dedup_seen('pf', 9200);

-- what is rolled back leaves the filter as it was, whether it was empty or not

SELECT dedup_create('r', dedup_filter(20000, 1e-6, 1));
CREATE TABLE back (k int);
CREATE INDEX ON back (k);
INSERT INTO back SELECT i FROM generate_series(1, 3000) i;
BEGIN;
SELECT dedup_guard('back', 'r', '{k}', exact => true);
SELECT known('r', 3000);
ROLLBACK;
SELECT known('r', 3000);
BEGIN;
SAVEPOINT before;
SELECT dedup_guard('back', 'r', '{k}', exact => true);
SELECT known('r', 3000);
ROLLBACK TO before;
SELECT known('r', 3000);
SELECT dedup_guard('back', 'r', '{k}', exact => true);
SELECT known('r', 3000);
SAVEPOINT again;
SELECT dedup_rebuild('r');
ROLLBACK TO again;
COMMIT;
SELECT known('r', 3000);
SELECT * FROM dedup_check('r');
SELECT new FROM dedup_stats('r');

-- a filter that has keys: these stay, and are not added twice

SELECT dedup_create('had', dedup_filter(20000, 1e-6, 1));
SELECT count(*) AS new FROM generate_series(1500, 2500) i WHERE is_new('had', i);
SELECT dedup_unguard('back');
BEGIN;
SELECT dedup_guard('back', 'had', '{k}', exact => true);
SELECT known('had', 3000);
ROLLBACK;
SELECT known('had', 3000);
SELECT dedup_guard('back', 'had', '{k}', exact => true);
SELECT known('had', 3000);
SELECT new FROM dedup_stats('had');

-- more keys than a set was made for overflow, and none is lost; a window keeps what it can

SELECT dedup_create('small', dedup_filter(500, 0.01, 1));
CREATE TABLE big (k int);
INSERT INTO big SELECT i FROM generate_series(1, 20000) i;
SELECT dedup_guard('big', 'small', '{k}', load => true);
SELECT count(*) AS known FROM big WHERE dedup_seen('small', k);
SELECT overflow_pages > 0 AS overflows, new > 15000 AS new FROM dedup_stats('small');
SELECT * FROM dedup_check('small');
SELECT dedup_unguard('big');
SELECT dedup_create('last', dedup_window(1000, 0.0001, 1));
SELECT dedup_guard('big', 'last', '{k}', load => true);
SELECT count(*) BETWEEN 1000 AND 8000 AS known FROM big WHERE dedup_seen('last', k);
SELECT overflow_pages FROM dedup_stats('last');
SELECT dedup_unguard('big');
SELECT dedup_create('day', dedup_window(50000, 0.0001, 1), '1 day');
SELECT dedup_guard('big', 'day', '{k}', load => true);
SELECT count(*) AS known FROM big WHERE dedup_seen('day', k);
SELECT forgotten_early FROM dedup_stats('day');
SELECT * FROM dedup_check('day');

-- with an empty search_path

SELECT dedup_create('path', dedup_filter(20000, 1e-6, 1));
CREATE TABLE "Empty path" ("Key" text COLLATE "C");
CREATE INDEX ON "Empty path" ("Key");
INSERT INTO "Empty path" VALUES ('one'), ('two'), ('two');
SET search_path = '';
SELECT public.dedup_guard('exact_load."Empty path"', 'exact_load.path', '{Key}', exact => true);
DELETE FROM exact_load."Empty path" WHERE "Key" = 'two';
SELECT public.dedup_guard('exact_load."Empty path"', 'exact_load.path', '{Key}', exact => true);
SELECT public.dedup_rebuild('exact_load.path');
SELECT public.dedup_seen('exact_load.path', 'one'::text);
SET search_path = exact_load, public;

-- what dedup_rebuild() refuses

SELECT dedup_rebuild(NULL);
SELECT dedup_rebuild('back');
SELECT dedup_rebuild('day');
SELECT dedup_rebuild('h');
SELECT dedup_rebuild(0);
BEGIN;
DECLARE reading CURSOR FOR SELECT k FROM back;
FETCH reading;
SELECT dedup_rebuild('had');
ROLLBACK;
CREATE ROLE regress_exact_load;
GRANT USAGE ON SCHEMA exact_load TO regress_exact_load;
GRANT ALL ON TABLE had, back TO regress_exact_load;
SET ROLE regress_exact_load;
SELECT dedup_rebuild('had');
RESET ROLE;
BEGIN READ ONLY;
SELECT dedup_rebuild('had');
ROLLBACK;

-- a type's functions run as the owner of the table, and can do less than he: equal hashes are
-- not equal keys, which the type's equality decides

CREATE TABLE who (name name);
GRANT INSERT ON who TO regress_exact_load;
CREATE TYPE word AS (w text);
GRANT CREATE ON SCHEMA exact_load TO regress_exact_load;
SET ROLE regress_exact_load;
CREATE FUNCTION word_hash(word) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION word_hash(word, bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION word_eq(word, word) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN lower(($1).w) = lower(($2).w); END $$;
RESET ROLE;
CREATE OPERATOR = (LEFTARG = word, RIGHTARG = word, FUNCTION = word_eq, HASHES);
CREATE OPERATOR CLASS word_ops DEFAULT FOR TYPE word USING hash AS OPERATOR 1 =,
	FUNCTION 1 word_hash(word), FUNCTION 2 word_hash(word, bigint);
CREATE TABLE words (w word);
CREATE INDEX ON words USING hash (w);
INSERT INTO words SELECT ROW('word' || i)::word FROM generate_series(1, 100) i;
SELECT dedup_create('wf', dedup_filter(20000, 1e-6, 1));
BEGIN;
SELECT dedup_guard('words', 'wf', '{w}', exact => true);
ROLLBACK;
GRANT INSERT ON wf TO regress_exact_load;
ALTER TABLE words OWNER TO regress_exact_load;
SET ROLE regress_exact_load;
CREATE OR REPLACE FUNCTION word_hash(word, bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO exact_load.who VALUES ('hash: ' || current_user);
	PERFORM set_config('application_name', 'stolen', false);
	RETURN 1;
END $$;
CREATE OR REPLACE FUNCTION word_eq(word, word) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO exact_load.who VALUES ('equality: ' || current_user);
	RETURN lower(($1).w) = lower(($2).w);
END $$;
RESET ROLE;
SELECT dedup_guard('words', 'wf', '{w}', exact => true);
SELECT DISTINCT name FROM who ORDER BY 1;
SELECT current_setting('application_name') <> 'stolen' AS kept, current_user = session_user AS same;
SET ROLE regress_exact_load;
CREATE OR REPLACE FUNCTION word_hash(word, bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RESET ROLE;
	RETURN 1;
END $$;
RESET ROLE;
\set VERBOSITY terse
SELECT dedup_rebuild('wf');
\set VERBOSITY default
CREATE OR REPLACE FUNCTION word_hash(word, bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 1; END $$;
ALTER TABLE words DISABLE TRIGGER USER;
INSERT INTO words VALUES (ROW('WORD7')::word);
ALTER TABLE words ENABLE TRIGGER USER;
SELECT dedup_rebuild('wf');

-- row-level security hides a key from the error

SELECT dedup_create('hidden', dedup_filter(20000, 1e-6, 1));
CREATE TABLE rls (k int);
CREATE INDEX ON rls (k);
INSERT INTO rls VALUES (1), (1);
ALTER TABLE rls OWNER TO regress_exact_load;
GRANT INSERT ON hidden TO regress_exact_load;
ALTER TABLE rls ENABLE ROW LEVEL SECURITY;
ALTER TABLE rls FORCE ROW LEVEL SECURITY;
SET ROLE regress_exact_load;
SELECT dedup_guard('rls', 'hidden', '{k}', exact => true);
RESET ROLE;

-- a large table says how far it is

SELECT dedup_create('lf', dedup_filter(20000, 1e-6, 1));
CREATE TABLE large (k int, filler text);
ALTER TABLE large ALTER filler SET STORAGE plain;
INSERT INTO large SELECT i, repeat('x', 8000) FROM generate_series(1, 8200) i;
SELECT dedup_guard('large', 'lf', '{k}', load => true);
SELECT count(*) AS known FROM large WHERE dedup_seen('lf', k);

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA exact_load CASCADE;
DROP ROLE regress_exact_load;
