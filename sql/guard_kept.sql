-- What a guard keeps from one row to the next: the hash of the last key, and the filter that it has
-- open. Both may be used as long as they are the ones that a look-up would give, and no longer.

\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE SCHEMA guard_kept;
SET search_path = guard_kept, public;
-- NULL where NULLs can be equal, or another value on a server before 15.
CREATE FUNCTION null_or(other int) RETURNS int LANGUAGE sql AS $$ SELECT CASE WHEN current_setting('server_version_num')::int < 150000 THEN other END $$;
CREATE TABLE source (i int, a bigint, b int);
INSERT INTO source SELECT i, CASE WHEN i % 9 = 0 THEN null_or(-1) ELSE i / 2 * 3000000000 END, CASE WHEN i % 13 = 0 THEN null_or(500) ELSE i % 2 * 1000 + i / 8 END
FROM generate_series(1, 400) i;
ANALYZE source;

-- ---- the hash of the last key ----

-- Rows of two tables with filters of different seeds, in turn, and some of them with the same keys; a
-- trigger inserts each row into the other table, before and after its own has been judged.

CREATE TABLE one (i int, a bigint, b int);
CREATE TABLE two (i int, a bigint, b int);
SELECT dedup_create('one_seen', dedup_filter(10000, 1e-6, 1)), dedup_create('two_seen', dedup_filter(10000, 1e-6, 2)) \gset
SELECT dedup_guard('one', 'one_seen', '{a, b}', nulls_not_distinct => null_or(0) IS NULL), dedup_guard('two', 'two_seen', '{a, b}', nulls_not_distinct => null_or(0) IS NULL) \gset
CREATE FUNCTION copy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO two VALUES (NEW.i, NEW.a, NEW.b), (NEW.i, NEW.a, 1000 - NEW.b), (NEW.i, NEW.a, NEW.b);
	RETURN NEW;
END
$$;
CREATE TRIGGER copy BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION copy();
CREATE TRIGGER "~z" BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION copy();
CREATE TRIGGER "copy after" AFTER INSERT ON one FOR EACH ROW EXECUTE FUNCTION copy();
INSERT INTO one SELECT i, a, b FROM source;
SELECT count(*), count(DISTINCT (a, b)), (SELECT count(DISTINCT (a, b)) FROM source) AS expected FROM one;
SELECT count(*), count(DISTINCT (a, b)), (SELECT count(DISTINCT (a, b)) FROM (SELECT a, b FROM source UNION SELECT a, 1000 - b FROM source) s) AS expected FROM two;
SELECT (SELECT count(DISTINCT (a, b)) FROM source s WHERE a IS NOT NULL AND b IS NOT NULL AND NOT dedup_seen('one_seen', a, b)),
	(SELECT count(*) FROM two WHERE a IS NOT NULL AND b IS NOT NULL AND NOT dedup_seen('two_seen', a, b)) AS none;
DROP TRIGGER copy ON one;
DROP TRIGGER "~z" ON one;
DROP TRIGGER "copy after" ON one;

-- A trigger changes one column of the key, to what the row before had, to NULL, or not at all.

CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.i % 3 = 0 THEN
		NEW.b = NEW.i / 4;
	ELSIF NEW.i % 5 = 0 THEN
		NEW.a = null_or(-1);
	END IF;
	RETURN NEW;
END
$$;
TRUNCATE one, one_seen;
CREATE TRIGGER change BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION change();
INSERT INTO one SELECT i, i / 7, i / 4 FROM source;
SELECT count(*), count(DISTINCT (a, b)), (SELECT count(DISTINCT (CASE WHEN i % 3 <> 0 AND i % 5 = 0 THEN NULL ELSE i / 7 END, i / 4)) FROM source) AS expected FROM one;
DROP TRIGGER change ON one;

-- one that fires after the guard's: an error, and a row that is not left out

CREATE TRIGGER "~z" BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION change();
TRUNCATE one, one_seen;
INSERT INTO one SELECT i, i, i FROM source;
INSERT INTO one SELECT i, i, i FROM source WHERE i % 3 <> 0 AND i % 5 <> 0;
SELECT count(*), (SELECT count(*) FROM source WHERE i % 3 <> 0 AND i % 5 <> 0) AS expected FROM one;
DROP TRIGGER "~z" ON one;

-- Types whose hash depends on more than the value's bits: the label of an enum, the bytes of a text
-- that is elsewhere. And -0, which is 0.

CREATE TYPE label AS ENUM ('x', 'y');
CREATE TABLE labels (k label);
SELECT dedup_create('labels_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('labels', 'labels_seen', '{k}') \gset
BEGIN;
INSERT INTO labels VALUES ('x'), ('x');
ALTER TYPE label RENAME VALUE 'x' TO 'z';
INSERT INTO labels VALUES ('z'), ('z');
COMMIT;
SELECT * FROM labels;
CREATE TABLE texts (k text);
SELECT dedup_create('texts_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('texts', 'texts_seen', '{k}') \gset
CREATE TABLE long (k text);
ALTER TABLE long ALTER k SET STORAGE EXTERNAL;
INSERT INTO long SELECT CASE i % 3 WHEN 0 THEN repeat('x', 3000 + i / 9) WHEN 1 THEN 'short' || i / 9 END FROM generate_series(1, 300) i;
ANALYZE long;
INSERT INTO texts SELECT k FROM long;
SELECT count(k), count(DISTINCT k), (SELECT count(DISTINCT k) FROM long) AS expected FROM texts;
CREATE TABLE floats (k float8, l float4, m "char");
SELECT dedup_create('floats_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('floats', 'floats_seen', '{k, l, m}') \gset
INSERT INTO floats SELECT f, f, 'a' FROM unnest('{0,-0,0,NaN,NaN,1,1,-1}'::float8[]) WITH ORDINALITY u (f, n), generate_series(1, 20) ORDER BY n;
SELECT * FROM floats;

-- more columns than are kept

CREATE TABLE many (a int, b int, c int, d int, e int);
SELECT dedup_create('many_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('many', 'many_seen', '{a, b, c, d, e}') \gset
INSERT INTO many SELECT 1, 1, 1, 1, i / 2 FROM source;
SELECT count(*), count(DISTINCT e) FROM many;

-- ---- the filter that is open ----

-- Returns the locks that this session has of the filter.
CREATE FUNCTION locks() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(mode, ' ' ORDER BY mode) FROM pg_locks
	WHERE relation = 'guard_kept.one_seen'::regclass AND pid = pg_backend_pid() AND locktype = 'relation'
$$;

-- Locked by a subtransaction that is undone: locked anew, also for a row that adds no key.

TRUNCATE one, one_seen;
INSERT INTO one VALUES (1, 1, 1);
BEGIN;
SAVEPOINT a;
INSERT INTO one VALUES (2, 2, 2);
SELECT locks();
ROLLBACK TO a;
SELECT locks();
INSERT INTO one VALUES (1, 1, 1);
SELECT locks();
SAVEPOINT b;
INSERT INTO one VALUES (1, 1, 1);
ROLLBACK TO b;
INSERT INTO one VALUES (2, 2, 2), (3, 3, 3);
SELECT locks();
COMMIT;
SELECT locks();
INSERT INTO one SELECT i % 5, i % 5, i % 5 FROM generate_series(0, 99) i;
SELECT count(*), count(DISTINCT a) FROM one;

-- in the middle of a statement, by a block of PL/pgSQL

CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		INSERT INTO guard_kept.two VALUES (NEW.i, NEW.a, NEW.b);
		IF NEW.i % 2 = 0 THEN
			RAISE 'undone';
		END IF;
	EXCEPTION WHEN raise_exception THEN
		NULL;
	END;
	RETURN NEW;
END
$$;
CREATE TRIGGER undo BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION undo();
TRUNCATE one, one_seen, two, two_seen;
INSERT INTO one SELECT i, i, i FROM generate_series(1, 100) i;
SELECT (SELECT count(*) FROM one) AS one, (SELECT count(*) FROM two) AS two;
SELECT count(*) FILTER (WHERE dedup_seen('one_seen', i::bigint, i)) AS one, count(*) FILTER (WHERE dedup_seen('two_seen', i::bigint, i)) AS two FROM generate_series(1, 100) i;
DROP TRIGGER undo ON one;

-- Made, used and dropped in the same transaction, and in subtransactions that are undone.

BEGIN;
CREATE TABLE brief (k int);
SELECT dedup_create('brief_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('brief', 'brief_seen', '{k}') \gset
INSERT INTO brief SELECT i / 2 FROM generate_series(2, 101) i;
SELECT count(*) FROM brief;
SELECT dedup_unguard('brief') \gset
DROP TABLE brief_seen;
INSERT INTO brief SELECT i / 2 FROM generate_series(2, 101) i;
SELECT count(*) FROM brief;
SELECT dedup_create('brief_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('brief', 'brief_seen', '{k}') \gset
INSERT INTO brief SELECT i / 2 FROM generate_series(2, 101) i;
SELECT count(*) FROM brief;
SAVEPOINT a;
CREATE TABLE briefer (k int);
SELECT dedup_create('briefer_seen', dedup_filter(1000, 1e-6, 1)) \gset
SELECT dedup_guard('briefer', 'briefer_seen', '{k}') \gset
INSERT INTO briefer SELECT i / 2 FROM generate_series(2, 101) i;
ROLLBACK TO a;
INSERT INTO brief SELECT i / 2 FROM generate_series(2, 103) i;
SELECT count(*) FROM brief;
ROLLBACK;

-- Changed between two rows of a statement by a trigger: emptied, renamed, its right taken away.

CREATE FUNCTION run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.i = 60 THEN
		EXECUTE TG_ARGV[0];
	END IF;
	RETURN NEW;
END
$$;
TRUNCATE one, one_seen;
CREATE TRIGGER run BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION run('TRUNCATE guard_kept.one_seen');
INSERT INTO one SELECT i, i % 50, 0 FROM generate_series(1, 100) i;
SELECT count(*), min(i), max(i) FILTER (WHERE i < 60) AS before, min(i) FILTER (WHERE i > 50) AS again FROM one;
DROP TRIGGER run ON one;
TRUNCATE one, one_seen;
CREATE TRIGGER run BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION run('ALTER TABLE guard_kept.one_seen RENAME TO renamed');
INSERT INTO one SELECT i, i % 80, 0 FROM generate_series(1, 100) i;
SELECT count(*) FROM one;
SELECT skipped FROM dedup_stats('renamed');
ALTER TABLE renamed RENAME TO one_seen;
DROP TRIGGER run ON one;
CREATE ROLE regress_kept;
GRANT USAGE, CREATE ON SCHEMA guard_kept TO regress_kept;
ALTER TABLE one OWNER TO regress_kept;
GRANT INSERT, SELECT ON one_seen TO regress_kept;
TRUNCATE one, one_seen;
CREATE TRIGGER run BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION run('REVOKE INSERT ON guard_kept.one_seen FROM regress_kept');
\set VERBOSITY terse
INSERT INTO one SELECT i, i, 0 FROM generate_series(1, 100) i;
SELECT count(*) FROM one;
SELECT count(*) FROM generate_series(1, 100) i WHERE dedup_seen('one_seen', i::bigint, 0);
INSERT INTO one SELECT i, i, 0 FROM generate_series(1, 59) i;
SELECT count(*) FROM one;
DROP TRIGGER run ON one;
REASSIGN OWNED BY regress_kept TO CURRENT_USER;
DROP OWNED BY regress_kept;
DROP ROLE regress_kept;

DROP SCHEMA guard_kept CASCADE;
