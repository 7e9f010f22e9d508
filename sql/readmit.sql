-- dedup_readmit(): the rows that are brought back.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA readmit;
SET search_path = readmit, public;
SET client_min_messages = error;
CREATE ROLE regress_readmit;
GRANT USAGE, CREATE ON SCHEMA readmit TO regress_readmit;
CREATE FUNCTION try(VARIADIC statements text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE statement text; detail text; hint text; n bigint;
BEGIN
	FOREACH statement IN ARRAY statements LOOP
		EXECUTE statement;
		GET DIAGNOSTICS n = ROW_COUNT;
	END LOOP;
	RAISE EXCEPTION 'undo' USING ERRCODE = 'XX999';
EXCEPTION
	WHEN SQLSTATE 'XX999' THEN RETURN n || ' rows';
	WHEN others THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		RETURN concat_ws(' | ', SQLSTATE || ' ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END $$;
-- who has seen a key, without a row: what a false positive is
CREATE FUNCTION seen(filter regclass, VARIADIC keys int[]) RETURNS bigint LANGUAGE sql AS 'SELECT count(is_new(filter, k)) FROM unnest(keys) k';
RESET client_min_messages;
\set QUIET off

-- false positives come back, duplicates stay
SELECT dedup_create('f', dedup_filter(10000, 1e-9, 42)) \gset
CREATE TABLE t (k int, v text);
SELECT seen('f', 3, 4, 5);
SELECT dedup_guard('t', 'f', '{k}', 'divert');
INSERT INTO t VALUES (1, 'a'), (1, 'b'), (3, 'c'), (4, 'd'), (3, 'e'), (5, 'f');
TABLE t;
SELECT dedup_readmit('t');
TABLE t ORDER BY k;
SELECT k, v FROM t_refused ORDER BY k;
SELECT refused FROM dedup_guards WHERE "table" = 't'::regclass;
INSERT INTO t VALUES (4, 'again');
SELECT dedup_readmit('t');
-- of the same transaction, and rolled back
BEGIN;
DELETE FROM t WHERE k = 1;
SELECT dedup_readmit('t');
SAVEPOINT a;
DELETE FROM t WHERE k IN (3, 4);
SELECT dedup_readmit('t');
ROLLBACK TO a;
SELECT dedup_readmit('t');
TABLE t ORDER BY k;
ROLLBACK;
TABLE t ORDER BY k;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
DELETE FROM t WHERE k = 1;
SELECT dedup_readmit('t');
INSERT INTO t VALUES (1, 'z');
COMMIT;
SELECT k, v FROM t WHERE k = 1;

-- a constraint or trigger of the table: all or nothing
CREATE UNIQUE INDEX one ON t (v);
INSERT INTO t VALUES (6, 'six');
SELECT seen('f', 7, 8);
INSERT INTO t VALUES (7, 'six'), (8, 'eight');
SELECT try($$SELECT dedup_readmit('t')$$);
SELECT count(*) FROM t_refused WHERE k IN (7, 8);
DROP INDEX one;
CREATE FUNCTION no_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER no_row BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.k = 8) EXECUTE FUNCTION no_row();
SELECT try($$SELECT dedup_readmit('t')$$);
DROP TRIGGER no_row ON t;
CREATE TRIGGER no_row BEFORE DELETE ON t_refused FOR EACH ROW WHEN (OLD.k = 8) EXECUTE FUNCTION no_row();
SELECT try($$SELECT dedup_readmit('t')$$);
DROP TRIGGER no_row ON t_refused;
ALTER TABLE t DISABLE TRIGGER "~dedup_guard";
SELECT try($$SELECT dedup_readmit('t')$$);
ALTER TABLE t ENABLE TRIGGER "~dedup_guard";
SELECT try('SET session_replication_role = replica', $$SELECT dedup_readmit('t')$$);
-- triggers of the table write rows of their own: only the one row passes
CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() = 1 THEN
		INSERT INTO readmit.t VALUES (NEW.k, 'by trigger'), (1, 'by trigger');
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER more BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION more();
SELECT dedup_readmit('t');
DROP TRIGGER more ON t;
SELECT * FROM t WHERE k IN (7, 8) ORDER BY k;
SELECT k, v FROM t_refused WHERE v = 'by trigger' ORDER BY k;
-- after an error the next row is as any other
DELETE FROM t WHERE k = 8;
ALTER TABLE t ADD CHECK (k <> 8) NOT VALID;
SELECT try($$SELECT dedup_readmit('t')$$);
ALTER TABLE t DROP CONSTRAINT t_k_check;
INSERT INTO t VALUES (8, 'refused');
SELECT count(*) FROM t WHERE k = 8;

-- who may, and what else is an error
SELECT try($$SELECT dedup_readmit(NULL)$$);
SELECT try($$SELECT dedup_readmit('f')$$);
SELECT try($$SELECT dedup_readmit('t_refused')$$);
SELECT try($$SELECT dedup_readmit('pg_class')$$);
SELECT try($$SELECT dedup_readmit(1)$$);
SELECT try($$SELECT dedup_readmit('t') FROM t$$);
SELECT try('SET ROLE regress_readmit', $$SELECT dedup_readmit('t')$$);
SELECT try('SET TRANSACTION READ ONLY', $$SELECT dedup_readmit('t')$$);
SELECT try($$SELECT dedup_unguard('t')$$, $$SELECT dedup_readmit('t')$$);

-- by the equality of the types, expressions, and rows that do not count
CREATE TABLE e (k numeric, c text, live boolean, at date);
SELECT dedup_create('g', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('e', 'g', ARRAY['k', 'lower(c)'], 'divert', "where" => 'live');
INSERT INTO e VALUES (1.0, 'A', true), (1, 'a', true), (1.00, 'b', true), (1, 'B', true), (1, 'a', false), (3, 'n', true), (3, 'N', true), (2, 'c', true), (2, 'C', true);
SELECT k, c FROM e_refused ORDER BY refused_at;
SELECT dedup_readmit('e');
UPDATE e SET live = false WHERE c = 'A';
DELETE FROM e WHERE c = 'b' OR k = 3;
SELECT dedup_readmit('e');
TABLE e ORDER BY k, c, live;
SELECT k, c FROM e_refused;
-- a row that does not count any more, or has a NULL, has no key: it goes back
SELECT dedup_unguard('e');
SELECT dedup_guard('e', 'g', '{at}', 'divert', load => false);
SELECT dedup_readmit('e');
SELECT count(*) FROM e_refused;
-- a key that is not there
ALTER TABLE e_refused DROP COLUMN at;
INSERT INTO e (k, at) VALUES (7, '2025-01-01'), (8, '2025-01-01');
SELECT k, rest FROM e_refused;
UPDATE e_refused SET rest = rest - 'at';
SELECT try($$SELECT dedup_readmit('e')$$);
UPDATE e_refused SET rest = '{"at": "2025-01-02"}';
SELECT dedup_readmit('e');
SELECT k, at FROM e WHERE at IS NOT NULL ORDER BY k;
DROP TABLE e, e_refused;

-- an exact guard judges them as any rows
CREATE TABLE x (k int, id int, d date) PARTITION BY LIST (k);
CREATE TABLE x1 PARTITION OF x FOR VALUES IN (1);
CREATE TABLE x2 PARTITION OF x DEFAULT;
CREATE INDEX ON x (id);
SELECT dedup_create('h', dedup_filter(10000, 1e-6, 42)) \gset
SELECT dedup_guard('x', 'h', '{id}', 'divert', exact => true);
INSERT INTO x VALUES (1, 1), (2, 1), (2, 2), (1, 2), (1, 2);
SELECT k, id, refused_by, rest FROM x_refused ORDER BY refused_at;
SELECT dedup_readmit('x');
SELECT count(*), (SELECT refused FROM dedup_guards WHERE "table" = 'x'::regclass) FROM x_refused;
DELETE FROM x;
SELECT dedup_readmit('x');
TABLE x ORDER BY id;
SELECT k, id FROM x_refused;
INSERT INTO x VALUES (5, 1);
ALTER TABLE x1 DISABLE TRIGGER "~dedup_guard";
SELECT try($$SELECT dedup_readmit('x')$$);
ALTER TABLE x1 ENABLE TRIGGER "~dedup_guard";
UPDATE x SET id = 2 WHERE id = 1;
UPDATE x SET k = 1 WHERE id = 1;
SELECT tableoid::regclass, * FROM x ORDER BY id;

-- few rows in a large table with an index on the key: they are looked for there
CREATE TABLE l (pad text, part int, k int, gone int, c text) PARTITION BY LIST (part);
CREATE TABLE l1 PARTITION OF l FOR VALUES IN (1);
CREATE TABLE l2 (c text, k int, part int, pad text, gone int);
ALTER TABLE l ATTACH PARTITION l2 FOR VALUES IN (2);
ALTER TABLE l DROP COLUMN gone;
SELECT dedup_create('m', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('l', 'm', '{k,c}', 'divert');
INSERT INTO l SELECT repeat('x', 1000), 1 + i % 2, i, 'c' FROM generate_series(1, 400) i;
INSERT INTO l VALUES ('first', 1, 1, 'c'), ('second', 2, 2, 'c'), ('third', 1, 2, 'c'), ('fourth', 2, 3, 'c'), ('fifth', 1, 4, 'c');
DELETE FROM l WHERE k IN (2, 4);
CREATE FUNCTION reads() RETURNS bigint LANGUAGE sql AS $$SELECT pg_stat_get_xact_numscans('l1'::regclass) + pg_stat_get_xact_numscans('l2'::regclass)$$;
BEGIN;
SELECT reads() AS before \gset
SELECT dedup_readmit('l');
SELECT reads() - :before AS reads;
SELECT pad, k FROM l WHERE length(pad) < 10 ORDER BY k;
ROLLBACK;
CREATE INDEX ON l (c, k);
BEGIN;
SELECT reads() AS before \gset
SELECT dedup_readmit('l');
SELECT reads() - :before AS reads;
SELECT pad, k FROM l WHERE length(pad) < 10 ORDER BY k;
DELETE FROM l WHERE k = 2;
SELECT dedup_readmit('l');
COMMIT;
SELECT pad, k FROM l WHERE length(pad) < 10 ORDER BY k;
SELECT pad, k FROM l_refused ORDER BY k;

-- columns: identity, generated, domains, defaults of columns that are newer than the row
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TABLE c (id int GENERATED ALWAYS AS IDENTITY, k int, s small NOT NULL, g int GENERATED ALWAYS AS (k * 2) STORED, a int[], r text[]);
SELECT dedup_create('i', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('c', 'i', '{k}', 'divert');
INSERT INTO c (k, s, a) VALUES (1, 1, '{1}'), (1, 99, '{2,NULL}');
ALTER TABLE c ADD n int NOT NULL DEFAULT 7;
INSERT INTO c (k, s, n, a) VALUES (2, 1, 8, '{3}'), (2, 98, 9, '{}');
ALTER TABLE c ALTER a TYPE bigint[], ALTER s TYPE bigint;
INSERT INTO c (k, s, n, a) VALUES (3, 1, 8, '{3}'), (3, 200, 9, '{4}');
SELECT k, s, a, rest FROM c_refused ORDER BY k;
DELETE FROM c;
SELECT dedup_readmit('c');
TABLE c ORDER BY k;
ALTER TABLE c DROP COLUMN r, ADD z text DEFAULT 'z';
DELETE FROM c WHERE k = 1;
INSERT INTO c_refused (id, k, s, r, refused_at, refused_by) VALUES (100, 1, 5, '{"lost?"}', now(), 'c');
SELECT try($$SELECT dedup_readmit('c')$$, $$SELECT FROM c WHERE k = 1 AND z = 'z'$$);
-- a column of the same type, which r may have become
ALTER TABLE c ADD y text[];
SELECT try($$SELECT dedup_readmit('c')$$);

-- no guard: rows that name no table, or another
INSERT INTO c_refused (k, s) VALUES (50, 5);
INSERT INTO c_refused (k, s, refused_by) VALUES (51, 5, 't'), (1, NULL, 'c');
SELECT try($$SELECT dedup_readmit('c')$$, 'TABLE c_refused');
ALTER TABLE c_refused DROP COLUMN r;
DELETE FROM c_refused WHERE s IS NULL;
SELECT dedup_readmit('c');
SELECT id, k, s, z, y FROM c WHERE k = 1;
SELECT k, s, refused_by FROM c_refused ORDER BY k;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA readmit CASCADE;
DROP ROLE regress_readmit;
