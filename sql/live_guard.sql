-- Guards of live filters: set-up, the three modes, errors, privileges, and DDL on guarded
-- tables. Which rows count is in live_guard_rows.

\set SHOW_CONTEXT never
CREATE SCHEMA live_guard;
SET search_path = live_guard, public;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
-- What a guard is made of, as far as it belongs to the table itself.
CREATE FUNCTION guard_of("table" regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = $1
	UNION ALL
	SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_am a ON a.oid = relam
	WHERE indrelid = $1 AND amname = 'streamdedup_guard'
	ORDER BY 1
$$;

-- ---- set-up ----

-- two triggers, that sort last, and an index on the key's columns; then none of them

CREATE TABLE clicks (id int, k int, b text COLLATE "C");
SELECT dedup_guard('clicks', 'f', '{k, b}');
SELECT guard_of('clicks') \g (format=unaligned tuples_only=on)
SELECT dedup_guard('clicks', 'f', '{k}');
SELECT dedup_unguard('clicks');
SELECT guard_of('clicks') \g (format=unaligned tuples_only=on)
SELECT dedup_unguard('clicks');

-- rows that are there already are not asked, and not remembered; a WARNING says so

INSERT INTO clicks VALUES (1, 1, 'a'), (2, 1, 'a');
SELECT dedup_guard('clicks', 'f', columns => ARRAY['k', 'b'], on_duplicate => 'skip') \gset
INSERT INTO clicks VALUES (3, 1, 'a'), (4, 1, 'a') RETURNING id;

-- a key is all of its columns, a NULL in it is never a duplicate

INSERT INTO clicks VALUES (5, 1, 'b'), (6, 2, 'a'), (7, 2, 'a'), (8, NULL, 'a'), (9, NULL, 'a'), (10, 1, NULL), (11, 1, NULL) RETURNING id;

-- what a guard has seen outlives it, and another table can share the filter

SELECT dedup_unguard('clicks') \gset
CREATE TABLE others (b text COLLATE "C", k bigint);
SELECT dedup_guard('others', 'f', '{k, b}') \gset
INSERT INTO others VALUES ('a', 1), ('a', 2), ('a', 3) RETURNING *;
DROP TABLE others;
TRUNCATE f;

-- ---- modes ----

-- skip leaves the row out; TRUNCATE of the table does not empty the filter, that of the filter does

CREATE TABLE skip (k int, id int);
SELECT dedup_guard('skip', 'f', '{k}') \gset
INSERT INTO skip VALUES (1, 1), (2, 2), (1, 3) RETURNING *;
TRUNCATE skip;
INSERT INTO skip VALUES (1, 4), (3, 5) RETURNING *;
SELECT new, skipped FROM dedup_stats('f');
TRUNCATE f;
INSERT INTO skip VALUES (1, 6) RETURNING *;

-- reject is an error as of a unique index: SQLSTATE, schema, table and constraint name, key

CREATE TABLE reject (k int, b text);
SELECT dedup_guard('reject', 'f', '{k, b}', 'reject') \gset
INSERT INTO reject VALUES (1, 'x, y'), (2, 'y'), (1, 'x, y');
INSERT INTO reject VALUES (1, 'x, y'), (2, 'y');
INSERT INTO reject VALUES (3, 'z'), (1, 'x, y');
SELECT * FROM reject;
DO $$
DECLARE
	c text; t text; s text; d text;
BEGIN
	INSERT INTO reject VALUES (2, 'y');
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = CONSTRAINT_NAME, d = PG_EXCEPTION_DETAIL;
	RAISE NOTICE '% %.% % "%"', SQLSTATE, s, t, c, d;
END $$;
INSERT INTO reject VALUES (4, repeat('long ', 10000));
DO $$
DECLARE
	d text;
BEGIN
	INSERT INTO reject VALUES (4, repeat('long ', 10000));
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
	RAISE NOTICE '%: %', right(d, 23), length(d) BETWEEN 250 AND 350;
END $$;

-- mark keeps the row and says in a column, whatever the statement gives it

CREATE TABLE mark (id int, k int, other boolean, is_duplicate boolean DEFAULT true);
SELECT dedup_guard('mark', 'f', '{k}', 'mark') \gset
SELECT guard_of('mark') \g (format=unaligned tuples_only=on)
INSERT INTO mark VALUES (1, 101, NULL, NULL), (2, 101, NULL, NULL), (3, 102, NULL, true), (4, 102, NULL, false), (5, NULL, NULL, true) RETURNING *;
INSERT INTO mark VALUES (6, 101), (7, 103) RETURNING *;
UPDATE mark SET other = true WHERE k = 101 RETURNING id, is_duplicate;
SELECT dedup_unguard('mark') \gset
ALTER TABLE mark DROP COLUMN is_duplicate;
SELECT dedup_guard('mark', 'f', '{k}', 'mark') \gset
INSERT INTO mark VALUES (8, 103), (9, 104) RETURNING *;
SELECT dedup_unguard('mark') \gset
ALTER TABLE mark ADD COLUMN "Odd "" one" boolean;
SELECT dedup_guard('mark', 'f', '{k}', 'mark');
SELECT dedup_guard('mark', 'f', '{k, other}', 'mark') \gset
INSERT INTO mark VALUES (10, 105, true), (11, 105, true), (12, 105, false) RETURNING *;
SELECT dedup_unguard('mark') \gset
SELECT dedup_guard('mark', 'f', '{k, id}', 'mark:Odd " one') \gset
INSERT INTO mark VALUES (10, 105, true), (10, 105, NULL) RETURNING *;

-- every refusal is counted, a rejected one too: 4 errors, and 6 rows marked above

SELECT skipped, rejected, marked, in_flight FROM dedup_stats('f');
DROP TABLE skip, reject, mark, clicks;
TRUNCATE f;

-- ---- what cannot be guarded, and how a guard cannot be asked for ----

CREATE TABLE a (k int, w text, g int GENERATED ALWAYS AS (k + 1) STORED, p point, j json);
SELECT dedup_guard(NULL, 'f', '{k}');
SELECT dedup_guard('a', NULL, '{k}');
SELECT dedup_guard('a', 'f', NULL);
SELECT dedup_guard('a', 'f', '{k}', NULL);
SELECT dedup_guard('nowhere', 'f', '{k}');
SELECT dedup_guard('a', 'a', '{k}');
SELECT dedup_guard('a', 'pg_class', '{k}');
SELECT dedup_guard('a', 'f', '{}');
SELECT dedup_guard('a', 'f', '{{k},{w}}');
SELECT dedup_guard('a', 'f', '{k,NULL}');
SELECT dedup_guard('a', 'f', '{k,w,k}');
SELECT dedup_guard('a', 'f', '{K}');
SELECT dedup_guard('a', 'f', '{ctid}');
SELECT dedup_guard('a', 'f', '{g}');
SELECT dedup_guard('a', 'f', '{p}');
SELECT dedup_guard('a', 'f', '{k,j}');
SELECT dedup_guard('a', 'f', array_agg('k' || i)) FROM generate_series(1, 33) i;
SELECT dedup_guard('a', 'f', '{k}', 'ignore');
SELECT dedup_guard('a', 'f', '{k}', 'mark');
SELECT dedup_guard('a', 'f', '{k}', 'mark:w');
SELECT dedup_guard('a', 'f', '{k}', 'mark:nowhere');
ALTER TABLE a ADD is_duplicate boolean;
SELECT dedup_guard('a', 'f', '{k,is_duplicate}', 'mark:is_duplicate');
SELECT dedup_guard('a', 'f', '{k,is_duplicate}', 'mark');
SELECT dedup_guard('f', 'f', '{block}');
SELECT dedup_guard('pg_class', 'f', '{relname}');
CREATE TEMP TABLE t (k int);
SELECT dedup_guard('t', 'f', '{k}');
CREATE VIEW v AS SELECT k FROM a;
SELECT dedup_guard('v', 'f', '{k}');
CREATE MATERIALIZED VIEW mv AS SELECT k FROM a;
SELECT dedup_guard('mv', 'f', '{k}');
CREATE SEQUENCE s;
SELECT dedup_guard('s', 'f', '{last_value}');
CREATE FOREIGN DATA WRAPPER regress_dedup_fdw;
CREATE SERVER regress_dedup_server FOREIGN DATA WRAPPER regress_dedup_fdw;
CREATE FOREIGN TABLE ft (k int) SERVER regress_dedup_server;
SELECT dedup_guard('ft', 'f', '{k}');
CREATE TABLE parted (k int, part int) PARTITION BY LIST (part);
CREATE TABLE parted1 PARTITION OF parted FOR VALUES IN (1);
CREATE FOREIGN TABLE parted2 PARTITION OF parted FOR VALUES IN (2) SERVER regress_dedup_server;
SELECT dedup_guard('parted', 'f', '{k}');
SELECT count(*) AS left_behind FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'live_guard'::regnamespace AND tgname LIKE '~%';
SELECT dedup_unguard('v');
SELECT dedup_unguard(NULL);
DROP FOREIGN DATA WRAPPER regress_dedup_fdw CASCADE;

-- parted lost its foreign partition: it can be guarded now, though not twice, from above or below

SELECT dedup_guard('parted', 'f', '{k}') \gset
SELECT dedup_guard('parted1', 'f', '{k}');
SELECT dedup_unguard('parted1');
SELECT dedup_unguard('parted') \gset
SELECT dedup_guard('parted1', 'f', '{k}') \gset
SELECT dedup_guard('parted', 'f', '{k}');
SELECT dedup_unguard('parted1') \gset

-- nor do rows get into a foreign partition that came later (where postgres_fdw is there to try)

SELECT dedup_guard('parted', 'f', '{k}') \gset
SELECT count(*) = 1 AS has_fdw FROM pg_available_extensions WHERE name = 'postgres_fdw' \gset
\if :has_fdw
\set try 'add_foreign_partition()'
\else
\set try '''table "parted2" cannot be guarded'''
\endif
CREATE FUNCTION add_foreign_partition() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	CREATE EXTENSION postgres_fdw;
	EXECUTE format('CREATE SERVER regress_dedup_server FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
		split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
	CREATE USER MAPPING FOR CURRENT_USER SERVER regress_dedup_server;
	CREATE FOREIGN TABLE parted2 PARTITION OF parted FOR VALUES IN (2) SERVER regress_dedup_server OPTIONS (schema_name 'live_guard', table_name 'parted1');
	INSERT INTO parted VALUES (1, 2);
	RAISE 'it was inserted';
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RETURN SQLERRM;
END $$;
SELECT :try AS error;
DROP FUNCTION add_foreign_partition;
INSERT INTO parted VALUES (1, 1), (1, 1) RETURNING *;
DROP TABLE parted;
DROP VIEW v;
DROP MATERIALIZED VIEW mv;
DROP SEQUENCE s;
DROP TABLE a, t;

-- a unique index besides: ON CONFLICT DO UPDATE will not see duplicates, so there is a warning in mode skip; it updates in
-- mode mark, and raises an error in mode reject

CREATE TABLE u (k int, id int UNIQUE, is_duplicate boolean);
SELECT dedup_guard('u', 'f', '{k}');
INSERT INTO u VALUES (700, 1, false);
INSERT INTO u VALUES (700, 1, true) ON CONFLICT (id) DO UPDATE SET is_duplicate = NULL RETURNING *;
SELECT dedup_unguard('u') \gset
SELECT dedup_guard('u', 'f', '{k}', 'reject');
INSERT INTO u VALUES (700, 1, true) ON CONFLICT (id) DO UPDATE SET is_duplicate = NULL RETURNING *;
SELECT dedup_unguard('u') \gset
SELECT dedup_guard('u', 'f', '{k}', 'mark');
INSERT INTO u VALUES (700, 1, true) ON CONFLICT (id) DO UPDATE SET is_duplicate = NULL RETURNING *;
DROP TABLE u;

-- a table that a crash empties, and a filter that stays: a warning

CREATE UNLOGGED TABLE u (k int);
SELECT dedup_guard('u', 'f', '{k}');
SELECT dedup_create('f_unlogged', dedup_filter(1000, 1e-6, 42), unlogged => true) \gset
SELECT dedup_unguard('u') \gset
SELECT dedup_guard('u', 'f_unlogged', '{k}');
DROP TABLE u, f_unlogged;

-- the trigger function and the index access method by themselves

CREATE TABLE a (k int);
SELECT dedup_guard_trigger();
CREATE TRIGGER by_hand BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger();
INSERT INTO a VALUES (1);
SELECT dedup_guard('a', 'f', '{k}');
DROP TRIGGER by_hand ON a;
CREATE TRIGGER by_hand AFTER INSERT OR UPDATE ON a FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'a');
INSERT INTO a VALUES (1);
DROP TRIGGER by_hand ON a;
CREATE INDEX ON a USING streamdedup_guard (k) WHERE k > 1;
CREATE UNIQUE INDEX ON a USING streamdedup_guard (k);
ALTER TABLE a ADD EXCLUDE USING streamdedup_guard (k WITH =);
CREATE INDEX a_k ON a USING streamdedup_guard (k);
INSERT INTO a VALUES (1), (1);
SET enable_seqscan = off;
SELECT count(*) FROM a WHERE k = 1;
SELECT count(*) FROM a WHERE k IS NULL;
SELECT k FROM a ORDER BY k;
RESET enable_seqscan;
CLUSTER a USING a_k;
DROP TABLE a;

-- ---- privileges: to guard, ownership of the table and INSERT on the filter for its owner; to insert, none on the filter ----

TRUNCATE f;
CREATE ROLE regress_dedup_owner;
CREATE ROLE regress_dedup_clerk;
GRANT USAGE, CREATE ON SCHEMA live_guard TO regress_dedup_owner;
GRANT USAGE ON SCHEMA live_guard TO regress_dedup_clerk;
SET ROLE regress_dedup_owner;
CREATE TABLE p (k int, v text);
GRANT INSERT, UPDATE (k), SELECT (v) ON p TO regress_dedup_clerk;
SELECT dedup_guard('p', 'f', '{k}', 'reject');
RESET ROLE;
SELECT dedup_guard('p', 'f', '{k}', 'reject');
GRANT INSERT ON f TO regress_dedup_owner;
SET ROLE regress_dedup_clerk;
SELECT dedup_guard('p', 'f', '{k}', 'reject');
SELECT dedup_unguard('p');
SET ROLE regress_dedup_owner;
SELECT dedup_guard('p', 'f', '{k}', 'reject') \gset

-- the error shows the key only to whom a unique index would

SET ROLE regress_dedup_clerk;
INSERT INTO p VALUES (1, 'a');
INSERT INTO p VALUES (1, 'b');
SELECT is_new('f', 2);
SET ROLE regress_dedup_owner;
GRANT SELECT (k) ON p TO regress_dedup_clerk;
SET ROLE regress_dedup_clerk;
INSERT INTO p VALUES (1, 'b');
SET ROLE regress_dedup_owner;
ALTER TABLE p ENABLE ROW LEVEL SECURITY;
CREATE POLICY everything ON p USING (true);
SET ROLE regress_dedup_clerk;
INSERT INTO p VALUES (1, 'b');
INSERT INTO p VALUES (3, 'c');

-- the owner's privilege counts at every statement, the inserter's never

RESET ROLE;
REVOKE INSERT ON f FROM regress_dedup_owner;
GRANT INSERT ON f TO regress_dedup_clerk;
SET ROLE regress_dedup_clerk;
INSERT INTO p VALUES (4, 'd');
RESET ROLE;
INSERT INTO p VALUES (4, 'd');
GRANT INSERT ON f TO regress_dedup_owner;
SET ROLE regress_dedup_clerk;
INSERT INTO p VALUES (4, 'd');
RESET ROLE;
SELECT * FROM p ORDER BY k;
DROP OWNED BY regress_dedup_owner, regress_dedup_clerk;
DROP ROLE regress_dedup_owner, regress_dedup_clerk;
TRUNCATE f;

-- ---- DDL on guarded tables ----

-- partitions: there before, made later, attached later, below one another, of another order of columns

CREATE TABLE m (gone int, k int, part int, who text) PARTITION BY LIST (part);
ALTER TABLE m DROP COLUMN gone;
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 (gone int, who text, part int, gone_too int, k int);
ALTER TABLE m2 DROP COLUMN gone, DROP COLUMN gone_too;
ALTER TABLE m ATTACH PARTITION m2 FOR VALUES IN (2);
SELECT dedup_guard('m', 'f', '{k}') \gset
CREATE TABLE m3 PARTITION OF m FOR VALUES IN (3) PARTITION BY RANGE (k);
CREATE TABLE m3a PARTITION OF m3 FOR VALUES FROM (0) TO (100);
CREATE TABLE m3b (who text, k int, part int);
ALTER TABLE m3 ATTACH PARTITION m3b FOR VALUES FROM (100) TO (200);
CREATE TABLE m4 (k int, part int, who text);
INSERT INTO m4 VALUES (1, 4, 'before');
ALTER TABLE m ATTACH PARTITION m4 FOR VALUES IN (4);
SELECT guard_of('m3b') \g (format=unaligned tuples_only=on)
INSERT INTO m VALUES (1, 1, 'in'), (1, 2, 'dup'), (2, 2, 'in'), (3, 3, 'in'), (103, 3, 'in'), (3, 4, 'dup'), (4, 4, 'in');
INSERT INTO m1 VALUES (2, 1, 'dup'), (5, 1, 'direct');
INSERT INTO m2 (k, part, who) VALUES (5, 2, 'dup'), (6, 2, 'direct');
INSERT INTO m3 VALUES (6, 3, 'dup'), (7, 3, 'direct'), (103, 3, 'dup');
INSERT INTO m3b (k, part, who) VALUES (103, 3, 'dup'), (107, 3, 'direct');
INSERT INTO m4 VALUES (107, 4, 'dup'), (8, 4, 'direct');
SELECT tableoid::regclass, k, who FROM m ORDER BY tableoid::regclass::text, k, who;

-- a detached partition is an ordinary table; a guarded table can be attached when its own guard is off

ALTER TABLE m DETACH PARTITION m4;
INSERT INTO m4 VALUES (8, 4, 'free');
SELECT dedup_guard('m4', 'f', '{k}') \gset
INSERT INTO m4 VALUES (8, 4, 'dup'), (9, 4, 'its own guard');
ALTER TABLE m ATTACH PARTITION m4 FOR VALUES IN (4);
SELECT dedup_unguard('m4') \gset
ALTER TABLE m ATTACH PARTITION m4 FOR VALUES IN (4);
INSERT INTO m VALUES (9, 4, 'dup'), (10, 4, 'in');
SELECT k, who FROM m4 ORDER BY k, who;

-- the guard follows names, and its filter cannot be dropped under it

ALTER TABLE f RENAME TO g;
ALTER TABLE m RENAME COLUMN k TO key;
ALTER TABLE m RENAME TO mm;
ALTER INDEX m_dedup_guard RENAME TO some_index;
CREATE SCHEMA live_guard_2;
ALTER TABLE g SET SCHEMA live_guard_2;
ALTER TABLE mm SET SCHEMA live_guard_2;
SET search_path = live_guard_2, live_guard, public;
INSERT INTO mm VALUES (10, 1, 'dup'), (11, 1, 'renamed') RETURNING *;
SELECT guard_of('mm') \g (format=unaligned tuples_only=on)
ALTER TABLE mm SET SCHEMA live_guard;
ALTER TABLE g SET SCHEMA live_guard;
DROP SCHEMA live_guard_2;
SET search_path = live_guard, public;
ALTER TABLE g RENAME TO f;
ALTER TABLE mm RENAME TO m;
ALTER TABLE m RENAME COLUMN key TO k;
DROP TABLE f;
ALTER TABLE m ADD more int DEFAULT 5, DROP COLUMN who;
INSERT INTO m VALUES (11, 1), (12, 1), (12, 2) RETURNING *;
DROP TABLE m;

-- maintenance of the table leaves the guard alone: it refuses the same keys after each

CREATE TABLE a (b text COLLATE "C", k int, c int);
SELECT dedup_guard('a', 'f', '{k, b}') \gset
INSERT INTO a VALUES ('x', 1, 1);
REINDEX TABLE a;
REINDEX TABLE CONCURRENTLY a;
CREATE INDEX CONCURRENTLY a_c ON a (c);
VACUUM a;
VACUUM (FULL, FREEZE) a;
ANALYZE a;
CLUSTER a USING a_c;
ALTER TABLE a ALTER COLUMN c TYPE bigint;
ALTER TABLE a SET UNLOGGED;
ALTER TABLE a SET LOGGED;
INSERT INTO a VALUES ('x', 1, 2), ('x', 2, 3) RETURNING *;
DELETE FROM a;
VACUUM a;
INSERT INTO a VALUES ('x', 1, 4), ('x', 2, 5), ('x', 3, 6) RETURNING *;
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'a'::regclass ORDER BY indexrelid::regclass::text;

-- what the guard needs cannot be dropped or changed

ALTER TABLE a DROP COLUMN k;
\set VERBOSITY terse
ALTER TABLE a ALTER COLUMN k TYPE bigint;
\set VERBOSITY default
CREATE TABLE marked (k int, d boolean);
SELECT dedup_guard('marked', 'f', '{k}', 'mark:d') \gset
ALTER TABLE marked DROP COLUMN d;
DROP TABLE marked;

-- a copy made by LIKE has nothing of the guard, so that it does not look guarded

CREATE TABLE copy (LIKE a INCLUDING ALL);
INSERT INTO copy VALUES ('x', 1, 1), ('x', 1, 1);
SELECT dedup_guard('copy', 'f', '{k}') \gset
SELECT guard_of('copy') \g (format=unaligned tuples_only=on)
INSERT INTO copy VALUES ('y', 101, 1), ('y', 101, 1) RETURNING *;
SELECT dedup_unguard('copy') \gset
SELECT guard_of('copy');
DROP TABLE copy;

-- a guard index that is invalid or gone, a trigger that is gone: an error, never a key that counts though its row did not land

UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'a_dedup_guard'::regclass;
INSERT INTO a VALUES ('x', 4, 7);
REINDEX INDEX a_dedup_guard;
INSERT INTO a VALUES ('x', 4, 7) RETURNING *;
DROP INDEX a_dedup_guard;
INSERT INTO a VALUES ('x', 5, 8);
UPDATE a SET c = 9;
CREATE INDEX ON a USING streamdedup_guard (b);
INSERT INTO a VALUES ('x', 5, 8);
DELETE FROM a WHERE k = 4;
SELECT dedup_unguard('a') \gset
SELECT dedup_guard('a', 'f', '{k, b}') \gset
DROP TRIGGER "~dedup_guard_delete" ON a;
INSERT INTO a VALUES ('x', 5, 8);
SELECT dedup_guard('a', 'f', '{k}');
SELECT dedup_unguard('a') \gset
SELECT dedup_guard('a', 'f', '{k, b}') \gset
INSERT INTO a VALUES ('x', 4, 9), ('x', 5, 8), ('x', 5, 9) RETURNING *;

-- disabled triggers do not fire, nor in a replication role

ALTER TABLE a DISABLE TRIGGER ALL;
INSERT INTO a VALUES ('x', 5, 10), ('x', 6, 10) RETURNING *;
ALTER TABLE a ENABLE TRIGGER ALL;
SET session_replication_role = replica;
INSERT INTO a VALUES ('x', 5, 11), ('x', 6, 11) RETURNING *;
ALTER TABLE a ENABLE ALWAYS TRIGGER "~dedup_guard", ENABLE ALWAYS TRIGGER "~dedup_guard_delete";
INSERT INTO a VALUES ('x', 5, 12), ('x', 6, 12) RETURNING *;
RESET session_replication_role;

-- of a partition both must be enabled alike, or a row that moves could be lost

CREATE TABLE m (k int, part int) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
SELECT dedup_guard('m', 'f', '{k}') \gset
INSERT INTO m VALUES (201, 1);
ALTER TABLE m1 DISABLE TRIGGER "~dedup_guard_delete";
UPDATE m SET part = 2;
INSERT INTO m1 VALUES (202, 1);
ALTER TABLE m1 ENABLE TRIGGER "~dedup_guard_delete";
UPDATE m SET part = 2 RETURNING *;

-- dropping takes the guard along; DROP TABLE of the filter CASCADE takes a trigger, and the table says so

DROP TABLE m;
DROP TABLE f CASCADE;
INSERT INTO a VALUES ('x', 7, 13);
SELECT dedup_unguard('a') \gset
INSERT INTO a VALUES ('x', 7, 13);

-- ---- keys of any type: what SQL calls equal is one key ----

SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TYPE pair AS (x int, y numeric);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TYPE letter AS ENUM ('a', 'b');
CREATE TABLE ty (a numeric, b char(5), c pair, d positive, e int[], f letter, g jsonb, h int8range, i uuid, j name, k timestamptz, l interval, m float8, n bytea, o inet, p boolean);
SELECT dedup_guard('ty', 'f', '{a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p}', 'reject') \gset
SET timezone = 'UTC';
INSERT INTO ty VALUES (2.0, 'ab', (1, 2.0), 5, '{1,2}', 'a', '{"a": 1, "b": 2}', '[1,3)', '0b0e8e3f-0000-0000-0000-000000000000', 'n', '2020-01-01 00:00Z', '1 day', '-0', '\x00', '10.0.0.1', true);
INSERT INTO ty VALUES (2.000, 'ab   ', (1, 2.00), 5, '{1,2}', 'a', '{"b": 2, "a": 1.0}', '[1,2]', '0b0e8e3f000000000000000000000000', 'n', '2020-01-01 01:00+01', '24 hours', '0', '\x00', '10.0.0.1/32', 'yes');
UPDATE ty SET a = 2.00, l = '24:00', m = 0 RETURNING a, l, m;
INSERT INTO ty SELECT 2.1, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p FROM ty RETURNING a;

-- long keys, stored out of line

CREATE TABLE long (n int, k text);
SELECT dedup_guard('long', 'f', '{k}') \gset
INSERT INTO long SELECT 1, string_agg(md5(i::text), '') FROM generate_series(1, 3000) i;
INSERT INTO long SELECT 2, k FROM long UNION ALL SELECT 3, left(k, -1) FROM long;
UPDATE long SET n = n + 10;
UPDATE long SET k = k || 'x' WHERE n = 13;
SELECT n, length(k) FROM long ORDER BY n;
SELECT dedup_seen('f', k) FROM long ORDER BY n;

SET client_min_messages = warning;
DROP SCHEMA live_guard CASCADE;
