-- Rows that a table already has when it is guarded or attached, and tables that look guarded and are not.

CREATE SCHEMA brought;
SET search_path = brought, public;

-- dedup_guard() counts the rows whose keys the filter does not have, and says which statement loads them

SELECT dedup_create('f', dedup_filter(1000, 0.0001, 1));
CREATE TABLE old (k int, v text);
INSERT INTO old VALUES (1), (1), (2), (NULL), (3);
SELECT is_new('f', 3) AS known;
SELECT dedup_guard('old', 'f', '{k}');
SELECT dedup_unguard('old');

-- the statement works as it is, with an empty search_path; afterwards there is nothing to say

CREATE FUNCTION run_hint(hint text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	loaded bigint;
BEGIN
	PERFORM set_config('search_path', '', true);
	EXECUTE hint INTO loaded;
	RETURN format('%s rows were new', loaded);
END $$;
SELECT run_hint($$SELECT count(*) FROM brought.old WHERE public.is_new('brought.f'::pg_catalog.regclass, k);$$);
SELECT dedup_guard('old', 'f', '{k}');
INSERT INTO old VALUES (1), (2), (3), (4);
SELECT count(*), count(DISTINCT k) FROM old;

-- names that need quotes, several columns, one row

SELECT dedup_create('"my ""filter''s"', dedup_window(1000, 0.0001, 1));
CREATE TABLE "Old ""one" ("select" int, "a\b" text);
INSERT INTO "Old ""one" VALUES (1, 'x'), (2, NULL);
SELECT dedup_guard('"Old ""one"', '"my ""filter''s"', '{"a\\b",select}');
SELECT run_hint($$SELECT count(*) FROM brought."Old ""one" WHERE public.is_new('brought."my ""filter''s"'::pg_catalog.regclass, "a\b", "select") AND "a\b" IS NOT NULL;$$);
SELECT dedup_unguard('"Old ""one"');
SELECT dedup_guard('"Old ""one"', '"my ""filter''s"', '{"a\\b",select}', 'reject');

-- a window of time; an empty table; deleted rows; rows of the same transaction

SELECT dedup_create('day', dedup_window(1000, 0.0001, 1), '36 hours');
CREATE TABLE of_day (k int);
SELECT dedup_guard('of_day', 'day', '{k}');
SELECT dedup_unguard('of_day');
INSERT INTO of_day VALUES (1), (2);
DELETE FROM of_day;
SELECT dedup_guard('of_day', 'day', '{k}');
SELECT dedup_unguard('of_day');
BEGIN;
INSERT INTO of_day VALUES (1), (2);
SELECT is_new('day', 1);
SELECT dedup_guard('of_day', 'day', '{k}');
ROLLBACK;

-- a large table is not read as a whole: the number is an estimate of three digits

SELECT dedup_create('lf', dedup_filter(1000000, 0.0001, 1));
CREATE TABLE large (k int, filler char(900) DEFAULT '');
INSERT INTO large SELECT i FROM generate_series(1, 40000) i;
SELECT count(*) > 29900 AS loaded FROM large WHERE k % 4 <> 0 AND is_new('lf', k);
\set VERBOSITY terse
-- 5000 pages of 8 rows, of which some 4096 are read: a quarter of the rows is unknown
SELECT dedup_guard('large', 'lf', '{k}');
\set VERBOSITY default

-- partitions: all are counted together, whatever the order of their columns

SELECT dedup_create('pf', dedup_filter(1000, 0.0001, 1));
CREATE TABLE p (k int, d int) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (dropped int, d int, k int);
ALTER TABLE p2 DROP COLUMN dropped;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
INSERT INTO p VALUES (1, 1), (2, 11), (1, 12);
SELECT dedup_guard('p', 'pf', '{k}');
SELECT run_hint($$SELECT count(*) FROM brought.p WHERE public.is_new('brought.pf'::pg_catalog.regclass, k);$$);
SELECT dedup_unguard('p');
SELECT dedup_guard('p', 'pf', '{k}');

-- ATTACH: the rows that come along; a new partition, and an empty one, say nothing

CREATE TABLE q (d int, k int);
INSERT INTO q VALUES (21, 1), (21, 3), (22, 3);
ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (30) TO (40);
CREATE TABLE p4 (LIKE p);
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (40) TO (50);
CREATE TABLE rest PARTITION OF p DEFAULT;
INSERT INTO p VALUES (50, 1000);
CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (60) TO (70);

-- DETACH: the partition is not guarded any more; attached again it is

ALTER TABLE p DETACH PARTITION q;
INSERT INTO q VALUES (23, 1), (23, 7);
ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30);
SELECT run_hint($$SELECT count(*) FROM brought.q WHERE public.is_new('brought.pf'::pg_catalog.regclass, k);$$);
ALTER TABLE p DETACH PARTITION q;
DROP INDEX q_k_idx;
ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30);
INSERT INTO p VALUES (7, 24);

-- all in one transaction, and a command that fails after the WARNING

BEGIN;
ALTER TABLE p DETACH PARTITION q;
CREATE TABLE r (k int, d int);
INSERT INTO r VALUES (70, 20), (71, 20);
ALTER TABLE p ATTACH PARTITION r FOR VALUES FROM (20) TO (30);
ALTER TABLE p DETACH PARTITION r;
ALTER TABLE p ATTACH PARTITION r FOR VALUES FROM (20) TO (30);
ROLLBACK;

-- a partition that has partitions: one WARNING, one NOTICE

CREATE TABLE s (k int, d int) PARTITION BY RANGE (d);
CREATE TABLE s1 PARTITION OF s FOR VALUES FROM (70) TO (75);
CREATE TABLE s2 PARTITION OF s FOR VALUES FROM (75) TO (80);
INSERT INTO s VALUES (80, 71), (81, 76), (81, 77), (1, 78);
ALTER TABLE p ATTACH PARTITION s FOR VALUES FROM (70) TO (80);
ALTER TABLE s DETACH PARTITION s2;
ALTER TABLE p DETACH PARTITION s;

-- of partitions without a guard nothing is said, nor if the guard is disabled

CREATE TABLE u (k int, d int) PARTITION BY RANGE (d);
CREATE TABLE u1 (k int, d int);
INSERT INTO u1 VALUES (1, 1);
ALTER TABLE u ATTACH PARTITION u1 DEFAULT;
ALTER TABLE u DETACH PARTITION u1;
DROP TABLE u, u1;
ALTER TABLE p DETACH PARTITION q;
ALTER TABLE p DISABLE TRIGGER USER;
INSERT INTO q VALUES (25, 25);
ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (20) TO (30);
ALTER TABLE p ENABLE TRIGGER USER;

-- LIKE: the copy has no index that would look like a guard

CREATE TABLE c (LIKE old INCLUDING ALL);
CREATE TABLE c2 (LIKE p1 INCLUDING INDEXES);
\d c
SELECT relname FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'streamdedup_guard' AND relname LIKE 'c%';
SELECT dedup_guard('c', 'f', '{k}');
INSERT INTO c VALUES (1), (100);
SELECT k FROM c;

-- an index that was made by hand is no copy

CREATE TABLE by_hand (k int);
CREATE INDEX ON by_hand USING streamdedup_guard (k);
CREATE SCHEMA within CREATE TABLE t (k int) CREATE INDEX t_index ON t USING streamdedup_guard (k);
SELECT count(*) FROM pg_class JOIN pg_am a ON a.oid = relam WHERE amname = 'streamdedup_guard' AND relname IN ('by_hand_k_idx', 't_index');
DROP SCHEMA within CASCADE;

-- inheritance: the rows of all tables are counted

SELECT dedup_create('hf', dedup_filter(1000, 0.0001, 1));
CREATE TABLE par (k int);
INSERT INTO par VALUES (1);
CREATE TABLE chi () INHERITS (par);
CREATE TABLE "Chi 2" () INHERITS (par);
CREATE TABLE grand () INHERITS (chi);
INSERT INTO chi VALUES (2);
INSERT INTO grand VALUES (2), (3);
SELECT dedup_guard('chi', 'hf', '{k}');
SELECT dedup_guard('par', 'hf', '{k}');
SELECT dedup_unguard('chi');
SELECT dedup_guard('par', 'hf', '{k}');
SELECT count(*) FROM brought.par WHERE public.is_new('brought.hf'::pg_catalog.regclass, k);

-- and of children that are attached

CREATE TABLE chi3 (k int);
INSERT INTO chi3 VALUES (1), (7);
ALTER TABLE chi3 INHERIT par;
ALTER TABLE chi3 NO INHERIT par;
CREATE TABLE chi4 () INHERITS (chi3);
INSERT INTO chi4 VALUES (8), (8);
DO $$ BEGIN ALTER TABLE chi3 INHERIT par; END $$;
BEGIN;
ALTER TABLE chi3 NO INHERIT par;
SAVEPOINT s;
ALTER TABLE chi3 INHERIT par;
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM brought.chi3 WHERE public.is_new('brought.hf'::pg_catalog.regclass, k);
ALTER TABLE chi3 INHERIT par;

-- row security does not hide rows from the count

CREATE ROLE regress_brought;
GRANT CREATE, USAGE ON SCHEMA brought TO regress_brought;
SET ROLE regress_brought;
SELECT dedup_create('own', dedup_filter(1000, 0.0001, 1));
CREATE TABLE hidden (k int);
INSERT INTO hidden VALUES (1), (2);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT count(*) FROM hidden;
SELECT dedup_guard('hidden', 'own', '{k}');
RESET ROLE;

-- a stranger's guard tells nothing of a filter that is not his

SELECT dedup_create('secret', dedup_filter(1000, 0.0001, 1));
SELECT is_new('secret', 4711);
SET ROLE regress_brought;
CREATE TABLE stranger (k int, d int) PARTITION BY RANGE (d);
DO $$
BEGIN
	EXECUTE format('CREATE TRIGGER a BEFORE INSERT OR UPDATE ON stranger FOR EACH ROW EXECUTE FUNCTION public.dedup_guard_trigger(''skip'', ''x'')');
	EXECUTE format('CREATE TRIGGER b BEFORE DELETE ON stranger FOR EACH ROW WHEN (%L::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION public.dedup_guard_trigger()', 'brought.secret'::regclass);
END $$;
CREATE TABLE bait (k int, d int);
INSERT INTO bait VALUES (4711, 1), (4712, 1);
ALTER TABLE stranger ATTACH PARTITION bait DEFAULT;
RESET ROLE;
DROP OWNED BY regress_brought CASCADE;
DROP ROLE regress_brought;

SET client_min_messages = warning;
DROP SCHEMA brought CASCADE;
