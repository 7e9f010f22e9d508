-- Guards that were made or altered by hand. Each of them either works exactly as a guard, or raises error 55000 when
-- a row is written. None reads invalid memory.

\set SHOW_CONTEXT never
\pset format unaligned
SET client_min_messages = warning;
CREATE ROLE regress_by_hand;
CREATE SCHEMA live_by_hand;
GRANT ALL ON SCHEMA live_by_hand TO regress_by_hand;
SET search_path = live_by_hand, public;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset

-- What a statement does: the number of rows, or SQLSTATE and DETAIL.
CREATE FUNCTION outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	d text;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n || ' rows';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || coalesce(nullif(d, ''), SQLERRM);
END $$;

-- The same with some triggers and indexes on table t, all of which go again.
CREATE FUNCTION try(VARIADIC statements text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d text;
	doing text;
BEGIN
	FOREACH doing IN ARRAY statements[1 : cardinality(statements) - 1] LOOP
		EXECUTE doing;
	END LOOP;
	RAISE 'undone' USING ERRCODE = 'UNDO1', DETAIL = outcome(statements[cardinality(statements)]);
EXCEPTION
	WHEN SQLSTATE 'UNDO1' THEN
		GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
		RETURN d;
	WHEN OTHERS THEN
		RETURN 'not made: ' || SQLSTATE;
END $$;

\set write 'CREATE TRIGGER w BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(\'skip\', \'c\')'
\set remove 'CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (\'f\'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger()'
\set index 'CREATE INDEX ON t USING streamdedup_guard (k)'
\set insert 'INSERT INTO t (k) VALUES (1), (1), (2)'

CREATE TYPE pair AS (x int, y text);
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN formless AS json;
CREATE DOMAIN flag AS boolean;
CREATE TABLE t (gone int, k int, v text COLLATE "C", b boolean, g int GENERATED ALWAYS AS (k + 1) STORED,
	j json, p point, r pair, d positive, dj formless, ja json[], df flag, o oid);
ALTER TABLE t DROP COLUMN gone;
INSERT INTO t (k) VALUES (0);

-- ---- a guard by hand ----

-- of the same parts it is a guard, by whatever names

SELECT try(:'write', :'remove', :'index', :'insert');
SELECT try(:'index', replace(replace(:'write', 'TRIGGER w', 'TRIGGER zz'), 'skip', 'reject'), replace(:'remove', 'TRIGGER d', 'TRIGGER a'), :'insert');
SELECT try(:'write', :'remove', :'index', 'UPDATE t SET k = 5');
SELECT try(:'write', :'remove', :'index', 'DELETE FROM t');

-- without one of them it is not

SELECT try(:'remove', :'index', 'INSERT INTO t (k) VALUES (1), (1)');
SELECT try(:'write', :'index', :'insert');
SELECT try(:'write', :'remove', :'insert');
SELECT try(:'write', :'insert');
SELECT try(:'write', :'remove', 'UPDATE t SET v = 1');

-- ---- clauses ----

SELECT clause, try(:'index', format('CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (%s) EXECUTE FUNCTION dedup_guard_trigger()', clause), :'write', :'insert')
FROM unnest(ARRAY[
	'''f''::regclass IS NOT NULL OR OLD IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD IS NULL',
	'''f''::regclass IS NOT NULL OR OLD IS NOT NULL',
	'''f''::regclass IS NOT NULL OR OLD.ctid IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.tableoid IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.xmin IS NULL OR OLD.k IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.gone IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.g IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.k IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.v IS NULL OR OLD.k IS NULL',
	'''f''::regclass IS NOT NULL OR (OLD.r).x IS NULL',
	'''f''::regclass IS NOT NULL OR (OLD.k + 1) IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k::bigint IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.v::varchar IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k::positive IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.d::int IS NULL',
	'''f''::regclass IS NOT NULL OR (OLD.v COLLATE "POSIX") IS NULL',
	'''f''::regclass IS NOT NULL OR (OLD.k IS NULL AND OLD.v IS NULL)',
	'''f''::regclass IS NOT NULL AND OLD.k IS NULL',
	'NOT (''f''::regclass IS NOT NULL OR OLD.k IS NULL)',
	'''f''::regclass IS NOT NULL OR NOT (OLD.k IS NULL)',
	'NOT ''f''::regclass IS NULL OR OLD.k IS NULL',
	'OLD.k IS NULL OR ''f''::regclass IS NOT NULL',
	'''f''::regclass IS NULL OR OLD.k IS NULL',
	'''f''::regclass IS NOT NULL OR ''f''::regclass IS NOT NULL OR OLD.k IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR ''f''::regclass IS NOT NULL',
	'''f''::regclass IS NOT NULL',
	'''f''::regclass IS NOT NULL OR true',
	'''f''::regclass IS NOT NULL OR OLD.b',
	'''f''::regclass IS NOT NULL OR OLD.b IS NOT NULL',
	'''f''::regclass IS NOT NULL OR OLD.b IS TRUE OR OLD.k IS NULL',
	'''f''::regclass IS NOT NULL OR OLD.k = 1',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.b IS NOT NULL',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.v IS NOT NULL',
	'''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.o IS NOT NULL',
	'''f''::regclass IS NOT NULL OR ROW(OLD.k, OLD.v) IS NULL',
	'''f''::regclass IS NOT NULL OR ARRAY[OLD.k] IS NULL',
	'''f''::regclass IS NOT NULL OR NULL::int IS NULL',
	'''f''::regclass IS NOT NULL OR NEW.k IS NULL',
	'true', 'false', 'OLD.b', 'OLD.b IS NULL', 'OLD.k IS NULL', 'OLD.k IS NULL OR OLD.v IS NULL', 'NULL', 'OLD IS NULL OR OLD IS NULL',
	'NULL::regclass IS NOT NULL OR OLD.k IS NULL',
	'0::regclass IS NOT NULL OR OLD.k IS NULL',
	'''0''::regclass IS NOT NULL OR OLD.k IS NULL',
	'''-''::regclass IS NOT NULL OR OLD.k IS NULL',
	'''f''::regclass::oid IS NOT NULL OR OLD.k IS NULL',
	'''f''::regclass::text IS NOT NULL OR OLD.k IS NULL',
	'''int''::regtype IS NOT NULL OR OLD.k IS NULL',
	'''now''::regproc IS NOT NULL OR OLD.k IS NULL',
	'1::oid IS NOT NULL OR OLD.k IS NULL',
	'''f'' IS NOT NULL OR OLD.k IS NULL',
	'ARRAY[''f''::regclass] IS NOT NULL OR OLD.k IS NULL',
	'''{f}''::regclass[] IS NOT NULL OR OLD.k IS NULL',
	'to_regclass(''f'') IS NOT NULL OR OLD.k IS NULL'
]) WITH ORDINALITY AS c (clause, n) ORDER BY n;

-- a parenthesis more is none less

SELECT try(:'write', :'index', replace(:'remove', 'OR OLD.k IS NULL', 'OR (OLD.k IS NULL)'), :'insert');
SELECT try(:'write', :'index', 'CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN ((''f''::regclass IS NOT NULL OR OLD.k IS NULL) OR OLD.v IS NULL) EXECUTE FUNCTION dedup_guard_trigger()', :'insert');

-- expressions, predicates, times and side tables

CREATE FUNCTION changing(int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1; END';
CREATE FUNCTION failing(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RAISE ''failed''; END';
CREATE FUNCTION lenient(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE TABLE a_side (k int);
SELECT clause, try('CREATE INDEX ON t USING streamdedup_guard (k, b, v, r)', format('CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR %s) EXECUTE FUNCTION dedup_guard_trigger()', clause), :'write', :'insert')
FROM unnest(ARRAY[
	'(OLD.k + 0) IS NULL',
	'(OLD.k + 0) IS NULL OR (OLD.k + 0) IS NULL',
	'OLD.k IS NULL OR (OLD.k > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > 1) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.b) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > 0 OR OLD.b) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > 0 IS NOT TRUE) IS NOT TRUE',
	'(OLD.k > 0) IS NOT TRUE OR OLD.k IS NULL',
	'(OLD.k > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > 0) IS NOT TRUE OR (OLD.k > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > 0) IS NOT FALSE',
	'OLD.k IS NULL OR (OLD.k > 0) IS NOT UNKNOWN',
	'OLD.k IS NULL OR (OLD.k > 0) IS TRUE',
	'OLD.k IS NULL OR NOT ((OLD.k > 0) IS NOT TRUE)',
	'OLD.k IS NULL OR true IS NOT TRUE',
	'OLD.k IS NULL OR NULL IS NOT TRUE',
	'OLD.k IS NULL OR (OLD IS NULL) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.ctid IS NULL) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD = OLD) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.g > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k = ANY (ARRAY[1, 2])) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > random()) IS NOT TRUE',
	'OLD.k IS NULL OR (now() IS NULL) IS NOT TRUE',
	'OLD.k IS NULL OR (changing(OLD.k) > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (failing(OLD.k) > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (lenient(OLD.k, failing(1)) > 0) IS NOT TRUE',
	'OLD.k IS NULL OR (1 / (OLD.k - 2) < 1) IS NOT TRUE',
	'OLD.k IS NULL OR (OLD.k > 1 / 0) IS NOT TRUE',
	'OLD.k IS NULL OR (EXISTS (SELECT 1)) IS NOT TRUE',
	'OLD.k IS NULL OR (NEW.k > 0) IS NOT TRUE',
	'changing(OLD.k) IS NULL',
	'failing(OLD.k) IS NULL',
	'random() IS NULL',
	'(OLD.k + random()) IS NULL',
	'generate_series(1, OLD.k) IS NULL',
	'count(OLD.k) IS NULL',
	'rank() OVER () IS NULL',
	'(SELECT OLD.k) IS NULL',
	'$1 IS NULL',
	'(OLD.r).x IS NULL',
	'ROW(OLD.k) IS NULL',
	'ROW(OLD.k, OLD.v)::pair IS NULL',
	'(OLD.k::text::json) IS NULL',
	'point(OLD.k, OLD.k) IS NULL',
	'(OLD.k > 0) IS NULL',
	'1 IS NULL',
	'''x'' IS NULL',
	'OLD.k IS NULL OR 1 IS NULL',
	'OLD.k IS NULL OR now() IS NOT NULL',
	'OLD.k IS NULL OR to_timestamp(OLD.k) IS NOT NULL OR to_timestamp(OLD.k) IS NOT NULL',
	'OLD.k IS NULL OR (OLD.k > 0) IS NOT NULL',
	'OLD.k IS NULL OR OLD.b::boolean IS NOT NULL',
	'OLD.k IS NULL OR (NOT OLD.b) IS NOT NULL',
	'OLD.k IS NULL OR ''a_side''::regclass IS NULL',
	'OLD.k IS NULL OR ''a_side''::regclass IS NULL OR ''a_side''::regclass IS NULL',
	'OLD.k IS NULL OR NULL::regclass IS NULL',
	'OLD.k IS NULL OR 0::regclass IS NULL',
	'(OLD.k + 0) IS NULL OR (OLD.v || ''x'') IS NULL OR (length(OLD.v) > 0 OR OLD.b IS NULL) IS NOT TRUE'
]) WITH ORDINALITY AS c (clause, n) ORDER BY n;

-- the guard index has every column that an expression names, and the mark is none of them

SELECT try(:'index', 'CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.b IS NOT TRUE) EXECUTE FUNCTION dedup_guard_trigger()', :'write', :'insert');
SELECT try('CREATE INDEX ON t USING streamdedup_guard (k, b)', 'CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.b IS NOT NULL OR OLD.b IS NOT TRUE) EXECUTE FUNCTION dedup_guard_trigger()',
	replace(:'write', 'skip', 'mark'), :'insert');
SELECT try('CREATE INDEX ON t USING streamdedup_guard (k, b)', 'CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR OLD.k IS NULL OR OLD.b IS NOT NULL OR (OLD.k > 1) IS NOT TRUE) EXECUTE FUNCTION dedup_guard_trigger()',
	replace(:'write', 'skip', 'mark'), :'insert');

-- a view of guards looks at none of these too closely; rows can be deleted under a guard that is not valid, if what it computes does not fail

CREATE INDEX two ON t USING streamdedup_guard (k, b);
CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR changing(OLD.k) IS NULL OR (changing(OLD.k) > 0 OR OLD.b) IS NOT TRUE) EXECUTE FUNCTION dedup_guard_trigger();
:write;
SELECT columns, "where", problem FROM dedup_guards WHERE "table" = 't'::regclass;
BEGIN;
SELECT outcome('DELETE FROM t');
ROLLBACK;
DROP TRIGGER d ON t;
DROP TRIGGER w ON t;
DROP INDEX two;

-- keys of types that have a hash function, and of those that have not; a NULL in the key is never a duplicate

SELECT c, try(format('CREATE INDEX ON t USING streamdedup_guard (%I)', c), :'write', replace(:'remove', 'OLD.k', format('OLD.%I', c)), :'insert')
FROM unnest('{v,b,j,p,r,d,dj,ja,df,o}'::text[]) WITH ORDINALITY AS u (c, n) ORDER BY n;

-- more columns than a key can have

CREATE TABLE wide (k int);
DO $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		EXECUTE format('ALTER TABLE wide ADD c%s int', i);
	END LOOP;
	EXECUTE (SELECT 'CREATE TRIGGER d BEFORE DELETE ON wide FOR EACH ROW WHEN (''f''::regclass IS NOT NULL '
		|| string_agg(format('OR OLD.c%s IS NULL', i), ' ') || ') EXECUTE FUNCTION dedup_guard_trigger()' FROM generate_series(1, 40) i);
END $$;
CREATE TRIGGER w BEFORE INSERT OR UPDATE ON wide FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'c');
SELECT outcome('INSERT INTO wide VALUES (1)');
DROP TABLE wide;

-- ---- what the clause names ----

CREATE VIEW a_view AS SELECT 1 AS k;
CREATE MATERIALIZED VIEW a_matview AS SELECT 1 AS k;
CREATE SEQUENCE a_sequence;
CREATE INDEX an_index ON t (k);
CREATE INDEX a_guard_index ON t USING streamdedup_guard (k);
CREATE TABLE a_table (k int);
CREATE TABLE a_parted (k int) PARTITION BY LIST (k);
SELECT dedup_create('an_unlogged', dedup_filter(1000), unlogged => true) \gset
CREATE TABLE a_shell (block int, page dedup_page) USING streamdedup;
CREATE FOREIGN DATA WRAPPER regress_by_hand_fdw;
CREATE SERVER regress_by_hand_server FOREIGN DATA WRAPPER regress_by_hand_fdw;
CREATE FOREIGN TABLE a_foreign (k int, v text) SERVER regress_by_hand_server;
SELECT filter, try(:'write', replace(:'remove', '''f''', quote_literal(filter)), :'insert')
FROM unnest('{a_view,a_matview,a_sequence,an_index,a_guard_index,a_table,a_parted,a_foreign,pair,t,pg_class,an_unlogged,a_shell,2147483647}'::text[]) WITH ORDINALITY AS f (filter, n) ORDER BY n;
DROP INDEX a_guard_index;

-- a filter that is gone takes the trigger along

SELECT dedup_create('short_lived', dedup_filter(1000)) \gset
SELECT try(:'write', :'index', replace(:'remove', '''f''', '''short_lived'''), 'DROP TABLE short_lived');
SELECT try(:'write', :'index', replace(:'remove', '''f''', '''short_lived'''), 'DROP TABLE short_lived CASCADE', :'insert');

-- ---- triggers ----

-- arguments: too few, too many, swapped, of no mode

SELECT left(arguments, 30) AS arguments, try(:'index', :'remove', format('CREATE TRIGGER w BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(%s)', arguments), :'insert')
FROM unnest(ARRAY['', '''skip''', '''skip'', ''c'', ''d''', '''c'', ''skip''', '''SKIP'', ''c''', ''''', ''c''', 'skip, c', '1, 2', '''mark'', ''c''', '''mark:b'', ''c''',
	'''skip'', ''''', '''reject'', ''c''', 'skip, ' || quote_literal(repeat('long', 1000))]) WITH ORDINALITY AS a (arguments, n) ORDER BY n;
SELECT try(:'index', :'write', replace(:'remove', 'trigger()', 'trigger(''skip'', ''c'')'), :'insert');
SELECT arguments, try(:'index', :'remove', format('CREATE TRIGGER w BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(''skip'', ''c'', %s)', arguments), 'INSERT INTO t (k) VALUES (1), (1), (NULL), (NULL)')
FROM unnest(ARRAY['nulls_not_distinct', '''nulls_not_distinct'', ''nulls_not_distinct''', '''NULLS_NOT_DISTINCT''', '''''', '''nulls_not_distinct'', ''exact''', '''exact ''']) WITH ORDINALITY AS a (arguments, n) ORDER BY n;

-- modes and columns that mark

\set mark 'CREATE TRIGGER w BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(\'mark\', \'c\')'
SELECT clause, try(:'index', :'mark', replace(:'remove', 'OLD.k IS NULL', clause), :'insert')
FROM unnest(ARRAY['OLD.k IS NULL', 'OLD.k IS NULL OR OLD.b IS NOT NULL', 'OLD.b IS NOT NULL OR OLD.k IS NULL', 'OLD.k IS NULL OR OLD.df IS NOT NULL', 'OLD.k IS NULL OR OLD.k IS NOT NULL',
	'OLD.k IS NULL OR OLD.b IS NULL OR OLD.b IS NOT NULL', 'OLD.k IS NULL OR OLD.b IS NOT NULL OR OLD.b IS NOT NULL', 'OLD.k IS NULL OR OLD.ctid IS NOT NULL', 'OLD.k IS NULL OR OLD IS NOT NULL',
	'OLD.k IS NULL OR OLD.g IS NOT NULL']) WITH ORDINALITY AS c (clause, n) ORDER BY n;

-- other events

SELECT event, try(:'index', :'write', :'remove', format('CREATE TRIGGER o %s EXECUTE FUNCTION dedup_guard_trigger(''skip'', ''c'')', event), statement)
FROM (VALUES
	(1, 'BEFORE INSERT ON t FOR EACH ROW', :'insert'),
	(2, 'BEFORE UPDATE ON t FOR EACH ROW', 'UPDATE t SET k = 3'),
	(3, 'BEFORE DELETE ON t FOR EACH ROW', :'insert'),
	(4, 'BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW', :'insert'),
	(5, 'BEFORE INSERT OR DELETE ON t FOR EACH ROW', :'insert'),
	(6, 'BEFORE INSERT OR UPDATE ON t FOR EACH ROW', :'insert'),
	(7, 'BEFORE INSERT OR UPDATE OF k ON t FOR EACH ROW', :'insert'),
	(8, 'AFTER INSERT OR UPDATE ON t FOR EACH ROW', :'insert'),
	(9, 'BEFORE INSERT OR UPDATE ON t FOR EACH STATEMENT', :'insert'),
	(10, 'AFTER INSERT ON t FOR EACH STATEMENT', :'insert'),
	(11, 'AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT', :'insert'),
	(12, 'BEFORE TRUNCATE ON t FOR EACH STATEMENT', 'TRUNCATE t'),
	(13, 'AFTER DELETE ON t FOR EACH ROW', 'DELETE FROM t'),
	(14, 'AFTER DELETE ON t FOR EACH STATEMENT', 'DELETE FROM t WHERE false'),
	(16, 'INSTEAD OF INSERT ON a_view FOR EACH ROW', 'INSERT INTO a_view VALUES (1)'),
	(17, 'INSTEAD OF INSERT OR UPDATE OR DELETE ON a_view FOR EACH ROW', 'DELETE FROM a_view'),
	(19, 'BEFORE INSERT OR UPDATE ON t FOR EACH ROW WHEN (NEW.k > 0)', :'insert'),
	(20, 'BEFORE DELETE ON t FOR EACH ROW WHEN (OLD.k > 0)', :'insert')
) e (n, event, statement) ORDER BY n;
SELECT try(:'index', :'remove', replace(:'write', 'FOR EACH ROW', 'FOR EACH ROW WHEN (NEW.k > 0)'), :'insert');
SELECT try(:'index', :'remove', replace(:'write', 'UPDATE', 'UPDATE OF k'), :'insert');
SELECT try(:'index', :'write', replace(:'remove', 'DELETE', 'DELETE OR INSERT'), :'insert');
SELECT try(:'index', :'remove', replace(:'write', 'INSERT OR UPDATE', 'INSERT'), :'insert');
SELECT try(:'index', :'write', 'CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger()', :'insert');

-- a constraint trigger is called at the end of the transaction

CREATE CONSTRAINT TRIGGER c AFTER INSERT OR UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'c');
BEGIN;
INSERT INTO t (k) VALUES (7);
COMMIT;
DROP TRIGGER c ON t;

DROP FOREIGN DATA WRAPPER regress_by_hand_fdw CASCADE;

-- a temporary table

CREATE TEMP TABLE tt (k int);
SELECT try(replace(:'index', 'ON t', 'ON tt'), replace(:'write', 'ON t', 'ON tt'), replace(:'remove', 'ON t', 'ON tt'), 'INSERT INTO tt VALUES (1)');
DROP TABLE tt;

-- two guards; one by hand beside one by dedup_guard()

SELECT try(:'index', :'write', :'remove', replace(:'write', 'TRIGGER w', 'TRIGGER w2'), replace(:'remove', 'TRIGGER d', 'TRIGGER d2'), :'insert');
SELECT try('SELECT dedup_guard(''t'', ''f'', ''{v}'')', :'write', :'remove', 'INSERT INTO t (v) VALUES (1)');
SELECT try('SELECT dedup_guard(''t'', ''f'', ''{v}'')', :'write', :'remove', 'SELECT dedup_unguard(''t'')', 'INSERT INTO t (v) VALUES (1), (1)');
SELECT try(:'write', :'remove', 'SELECT dedup_guard(''t'', ''f'', ''{v}'')');

-- ---- indexes ----

SELECT columns, try(:'write', :'remove', format('CREATE INDEX ON t USING streamdedup_guard %s', columns), :'insert')
FROM unnest(ARRAY['((k + 1))', '(k, (v || v))', '((t))', '((t.*))', '((k))', '(k) WHERE k > 0', '(v)', '(v, k)', '(k, k)', '(ctid)', '(k) INCLUDE (v)', '(k DESC)',
	'(k) WITH (fillfactor = 10)', '(v COLLATE "POSIX", k)', '(k public.dedup_guard_ops)']) WITH ORDINALITY AS i (columns, n) ORDER BY n;
CREATE TABLE parted (k int, v text) PARTITION BY LIST (k);
SELECT try('CREATE INDEX ON parted USING streamdedup_guard ((k + 1))', 'CREATE TABLE parted1 PARTITION OF parted FOR VALUES IN (1)');
DROP TABLE parted;

-- ---- copies and partitions ----

-- LIKE copies nothing of a guard

SELECT try(:'write', :'remove', :'index', 'CREATE TABLE t2 (LIKE t INCLUDING ALL)', 'INSERT INTO t2 (k) VALUES (1), (1)');
SELECT try(:'write', :'remove', :'index', 'CREATE TABLE t2 (LIKE t INCLUDING ALL)', replace(:'write', 'ON t', 'ON t2'), 'INSERT INTO t2 (k) VALUES (1), (1)');
SELECT try(:'write', :'remove', :'index', 'CREATE TABLE t2 (LIKE t INCLUDING ALL)', replace(:'write', 'ON t', 'ON t2'), replace(:'remove', 'ON t', 'ON t2'), 'INSERT INTO t2 (k) VALUES (1), (1)');
SELECT try(:'write', :'remove', :'index', 'CREATE TABLE t2 (LIKE t INCLUDING ALL)', replace(:'write', 'ON t', 'ON t2'), replace(:'remove', 'ON t', 'ON t2'), replace(:'index', 'ON t', 'ON t2'), 'INSERT INTO t2 (k) VALUES (1), (1)');

-- a table that inherits gets the guard; one that was guarded by hand keeps its own below a parent without

SELECT try(:'write', :'remove', :'index', 'CREATE TABLE t2 () INHERITS (t)', 'INSERT INTO t2 (k) VALUES (1), (1)');
SELECT try(:'write', :'remove', :'index', 'CREATE TABLE t2 (v text COLLATE "C", k int)', replace(:'index', 'ON t', 'ON t2'), replace(:'write', 'ON t', 'ON t2'), replace(:'remove', 'ON t', 'ON t2'),
	'CREATE TABLE t3 (k int, v text COLLATE "C")', 'ALTER TABLE t2 INHERIT t3', 'INSERT INTO t2 (k) VALUES (1), (1)');

-- a guard by hand on a partitioned table; partitions with other column numbers, and with guards of their own

CREATE TABLE m (part int, k int, v text) PARTITION BY LIST (part);
CREATE TABLE m1 (gone int, v text, k int, part int);
ALTER TABLE m1 DROP COLUMN gone;
ALTER TABLE m ATTACH PARTITION m1 FOR VALUES IN (1);
CREATE TRIGGER w BEFORE INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'c');
CREATE TRIGGER d BEFORE DELETE ON m FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE INDEX ON m USING streamdedup_guard (k);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
SELECT outcome('INSERT INTO m VALUES (1, 101), (2, 101), (2, 102)');
SELECT outcome('UPDATE m SET part = 3 - part');
SELECT tableoid::regclass, k FROM m ORDER BY k;
SELECT try('CREATE TABLE m3 (part int, k int, v text)', replace(:'index', 'ON t', 'ON m3'), replace(replace(:'write', 'ON t', 'ON m3'), 'TRIGGER w', 'TRIGGER w3'),
	replace(replace(:'remove', 'ON t', 'ON m3'), 'TRIGGER d', 'TRIGGER d3'), 'ALTER TABLE m ATTACH PARTITION m3 FOR VALUES IN (3)', 'INSERT INTO m VALUES (3, 103)');
SELECT try('CREATE TABLE m3 (part int, k int, v text)', replace(:'index', 'ON t', 'ON m3'), replace(:'write', 'ON t', 'ON m3'),
	replace(:'remove', 'ON t', 'ON m3'), 'ALTER TABLE m ATTACH PARTITION m3 FOR VALUES IN (3)', 'INSERT INTO m VALUES (3, 103)');
SELECT try('ALTER TABLE m DETACH PARTITION m2', 'INSERT INTO m2 VALUES (2, 101)');
SELECT try('ALTER TABLE m1 DISABLE TRIGGER d', 'INSERT INTO m VALUES (1, 103)');
SELECT try('ALTER TABLE m1 DISABLE TRIGGER w, DISABLE TRIGGER d', 'INSERT INTO m VALUES (1, 103), (2, 103), (2, 103)');
SELECT try('ALTER TRIGGER w ON m RENAME TO a', 'ALTER TRIGGER d ON m RENAME TO "~z"', 'INSERT INTO m VALUES (1, 103), (2, 103), (2, 104)');
SELECT try('DROP TRIGGER d ON m', 'CREATE TRIGGER d BEFORE DELETE ON m FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR OLD IS NULL) EXECUTE FUNCTION dedup_guard_trigger()', 'INSERT INTO m VALUES (1, 103)');
SELECT try('DROP TRIGGER d ON m', 'CREATE TRIGGER d BEFORE DELETE ON m FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR OLD.tableoid IS NULL) EXECUTE FUNCTION dedup_guard_trigger()', 'INSERT INTO m VALUES (2, 103)');

-- the plan that a session has is held against the table as it is by then

SELECT try('ALTER TABLE m ADD first int DEFAULT 1, DROP COLUMN v', 'INSERT INTO m VALUES (1, 103), (2, 103)');
SELECT try('ALTER TABLE m DROP COLUMN k', 'INSERT INTO m VALUES (1)');
SELECT try('ALTER TABLE m DROP COLUMN k CASCADE', 'INSERT INTO m VALUES (1)');
SELECT try('ALTER TABLE m ALTER COLUMN k TYPE bigint', 'INSERT INTO m VALUES (1, 103)');
SELECT try('ALTER TABLE m RENAME COLUMN k TO key', 'INSERT INTO m (part, key) VALUES (1, 103), (2, 103)');
SELECT try('DROP TABLE f CASCADE', 'INSERT INTO m VALUES (1, 103)');
SELECT try('DROP INDEX m_k_idx', 'INSERT INTO m VALUES (1, 103)');
SELECT outcome('INSERT INTO m VALUES (1, 102), (2, 103)');
DROP TABLE m;

-- the columns of a row type that is a key may change

CREATE TABLE typed (r pair);
SELECT dedup_guard('typed', 'f', '{r}') \gset
SELECT outcome('INSERT INTO typed VALUES ((1, ''a'')), ((1, ''a''))');
SELECT try('ALTER TABLE typed DROP COLUMN r', 'SELECT');
SELECT try('ALTER TYPE pair ADD ATTRIBUTE z json', 'INSERT INTO typed VALUES ((1, ''a'', ''{}''))');
SELECT try('ALTER TYPE pair DROP ATTRIBUTE y', 'INSERT INTO typed VALUES (ROW(1)), (ROW(1))');
DROP TABLE typed;

-- ---- one of the two disabled ----

-- without its trigger BEFORE DELETE a plain table is guarded still, since its rows do not move; without the other trigger it is not guarded

SELECT try(:'index', :'write', :'remove', 'ALTER TABLE t DISABLE TRIGGER d', :'insert');
SELECT try(:'index', :'write', :'remove', 'ALTER TABLE t DISABLE TRIGGER w', :'insert');

-- ---- who may ----

-- the table's owner needs the filter's privilege INSERT, by hand as by dedup_guard()

SET ROLE regress_by_hand;
CREATE TABLE his (k int, v text);
CREATE TRIGGER w BEFORE INSERT OR UPDATE ON his FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('skip', 'c');
CREATE TRIGGER d BEFORE DELETE ON his FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR OLD.k IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
CREATE INDEX ON his USING streamdedup_guard (k);
SELECT outcome('INSERT INTO his VALUES (1001)');
RESET ROLE;
SELECT outcome('INSERT INTO his VALUES (1001)');
SELECT dedup_seen('f', 1001);
GRANT INSERT ON f TO regress_by_hand;
SELECT outcome('INSERT INTO his VALUES (1001), (1001)');
SELECT dedup_seen('f', 1001);

-- the server is there yet

SET ROLE regress_by_hand;
SELECT outcome('INSERT INTO his VALUES (1001), (1002)');
RESET ROLE;
DROP SCHEMA live_by_hand CASCADE;
DROP ROLE regress_by_hand;
