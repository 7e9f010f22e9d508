-- The tables into which refused rows can be put, and whose rights are checked.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA divert_side;
CREATE SCHEMA "Other place";
SET search_path = divert_side, public;
SET client_min_messages = error;
CREATE ROLE regress_divert_owner;
CREATE ROLE regress_divert_writer;
CREATE ROLE regress_divert_other;
GRANT CREATE, USAGE ON SCHEMA divert_side, "Other place" TO regress_divert_owner, regress_divert_other;
GRANT USAGE ON SCHEMA divert_side TO regress_divert_writer;
SELECT dedup_create('f', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_create('g', dedup_filter(10000, 1e-9, 42)) \gset
GRANT INSERT ON f, g TO regress_divert_owner, regress_divert_other;
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
CREATE TABLE t (k int, v text);
CREATE TABLE part (k int, v text) PARTITION BY LIST (k);
CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part2 PARTITION OF part FOR VALUES IN (2);
CREATE TABLE guarded (k int, refused_at timestamptz, refused_by regclass, rest jsonb);
SELECT dedup_guard('guarded', 'g', '{k}') \gset
\set ok 'k int, v text, refused_at timestamptz, refused_by regclass, rest jsonb'
CREATE TABLE good (:ok);
CREATE TABLE base (:ok);
CREATE VIEW a_view AS SELECT * FROM base;
CREATE TEMP TABLE a_temp (:ok);
CREATE UNLOGGED TABLE unlogged (:ok);
CREATE TABLE no_at (k int, v text, refused_at timestamp, refused_by regclass);
CREATE TABLE no_by (k int, v text, refused_at timestamptz, refused_by oid);
CREATE TABLE odd_rest (k int, v text, refused_at timestamptz, refused_by regclass, rest json);
CREATE TABLE no_rest (k int, v text, refused_at timestamptz, refused_by regclass);
CREATE TABLE child (refused_at timestamptz, refused_by regclass, rest jsonb) INHERITS (t);
CREATE SEQUENCE a_sequence;
CREATE MATERIALIZED VIEW matview AS SELECT * FROM base;
CREATE FOREIGN DATA WRAPPER regress_divert;
CREATE SERVER regress_divert FOREIGN DATA WRAPPER regress_divert;
CREATE FOREIGN TABLE a_foreign (:ok) SERVER regress_divert;
RESET client_min_messages;
\set QUIET off

-- what cannot be a side table, when the guard is made
SELECT name, try(format('SELECT dedup_guard(''t'', ''f'', ''{k}'', %L)', 'divert:' || name))
FROM unnest('{good,no_rest,t,a_view,pg_temp.a_temp,unlogged,no_at,no_by,odd_rest,child,a_sequence,matview,a_foreign,f,guarded,pg_catalog.pg_class,information_schema.sql_parts,"part","","a.b.c.d",nowhere.x}'::text[]) WITH ORDINALITY n (name, o) ORDER BY o;
SELECT name, try(format('SELECT dedup_guard(''part1'', ''f'', ''{k}'', %L)', 'divert:' || name)) FROM unnest('{part,part2,part1,good}'::text[]) name;
SELECT try($$SELECT dedup_guard('t', 'f', '{k}', 'diverts')$$);

-- and when rows are written: triggers by hand, and what became of the table since
CREATE INDEX ON t USING streamdedup_guard (k);
CREATE TRIGGER w BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger('divert', 'c');
SELECT name, try(format('CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR OLD.k IS NULL OR %L::regclass IS NULL) EXECUTE FUNCTION dedup_guard_trigger()', name),
	'INSERT INTO t VALUES (1, 2)', 'INSERT INTO t VALUES (1, 2)')
FROM unnest('{good,no_rest,t,a_view,pg_temp.a_temp,unlogged,no_at,no_by,odd_rest,child,a_sequence,matview,a_foreign,f,guarded,pg_catalog.pg_class}'::text[]) WITH ORDINALITY n (name, o) ORDER BY o;
SELECT clause, try(format('CREATE TRIGGER d BEFORE DELETE ON t FOR EACH ROW WHEN (''f''::regclass IS NOT NULL OR %s) EXECUTE FUNCTION dedup_guard_trigger()', clause),
	'INSERT INTO t VALUES (1, 2)', 'INSERT INTO t VALUES (1, 2)')
FROM unnest(ARRAY['OLD.k IS NULL', $$OLD.k IS NULL OR 'good'::regclass IS NULL OR 'no_rest'::regclass IS NULL$$, $$OLD.k IS NULL OR 'good'::regclass IS NOT NULL$$,
	$$'good'::regclass IS NULL OR OLD.k IS NULL$$, $$OLD.k IS NULL OR '1'::regclass IS NULL$$]) clause;
DROP TRIGGER w ON t;
DROP INDEX t_k_idx;
SELECT dedup_guard('t', 'f', '{k}', 'divert:good');
INSERT INTO t VALUES (1, 'a'), (1, 'b');
SELECT try(s, $$INSERT INTO t VALUES (1, 'c')$$) FROM unnest(ARRAY['ALTER TABLE good SET UNLOGGED', 'ALTER TABLE good DROP refused_by', 'ALTER TABLE good ALTER refused_at TYPE timestamp',
	'ALTER TABLE good DROP rest, DROP v', 'ALTER TABLE good INHERIT t', 'ALTER TABLE good RENAME v TO w', 'ALTER TABLE good RENAME TO bad; ALTER TABLE bad SET SCHEMA "Other place"',
	'CREATE TRIGGER d BEFORE DELETE ON good FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger()']) s;
BEGIN;
ALTER TABLE good DROP refused_by;
SELECT problem FROM dedup_guards WHERE "table" = 't'::regclass;
ROLLBACK;

-- a side table is not guarded; it cannot go while the guard is there
SELECT dedup_guard('good', 'g', '{k}');
CREATE TABLE above (:ok) PARTITION BY LIST (k);
ALTER TABLE above ATTACH PARTITION good DEFAULT;
SELECT dedup_guard('above', 'g', '{k}');
SELECT try($$INSERT INTO t VALUES (1, 'c')$$, $$SELECT FROM good WHERE v = 'c'$$);
ALTER TABLE above DETACH PARTITION good;
SELECT try($$SELECT dedup_unguard('guarded')$$, $$SELECT dedup_guard('above', 'g', '{k}')$$, $$ALTER TABLE above ATTACH PARTITION good DEFAULT$$, $$INSERT INTO t VALUES (1, 'c')$$);
DROP TABLE good;
SELECT try('DROP TABLE good CASCADE', $$INSERT INTO t VALUES (5)$$);
-- somebody who names it in a guard of his own is nobody
SELECT dedup_unguard('t');
SET ROLE regress_divert_other;
CREATE TABLE hers (k int);
CREATE TRIGGER d BEFORE DELETE ON hers FOR EACH ROW WHEN ('f'::regclass IS NOT NULL OR OLD.k IS NULL OR 'good'::regclass IS NULL) EXECUTE FUNCTION dedup_guard_trigger();
RESET ROLE;
BEGIN; SELECT dedup_guard('good', 'f', '{k}'); ROLLBACK;
DROP TABLE hers;

-- names: quoted, with schemas, of this length, in another path; two guards with one side table
CREATE TABLE "Odd ""table" (k int);
SELECT dedup_create('h', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('"Odd ""table"', 'f', '{k}', 'divert:"Other place"."The ""bin"');
SELECT dedup_guard('t', 'h', '{k}', 'divert:"Other place"."The ""bin"');
INSERT INTO "Odd ""table" VALUES (2), (2);
INSERT INTO t VALUES (2, 'v'), (2, 'w');
SELECT k, refused_by, rest FROM "Other place"."The ""bin";
SELECT "table", on_duplicate FROM dedup_guards WHERE filter IN ('f'::regclass, 'h'::regclass) ORDER BY 1;
DELETE FROM t; DELETE FROM "Odd ""table";
SELECT dedup_readmit('t'), dedup_readmit('"Odd ""table"');
TABLE t;
SELECT dedup_unguard('t'), dedup_unguard('"Odd ""table"');
SET search_path = '';
CREATE TABLE divert_side.a_table_whose_name_is_as_long_as_a_name_can_be_so_it_is_cut_off (k int);
SELECT public.dedup_guard('divert_side.a_table_whose_name_is_as_long_as_a_name_can_be_so_it_is_cut_off', 'divert_side.h', '{k}', 'divert');
SELECT on_duplicate FROM public.dedup_guards WHERE filter = 'divert_side.h'::regclass;
SELECT public.dedup_unguard('divert_side.a_table_whose_name_is_as_long_as_a_name_can_be_so_it_is_cut_off');
SELECT public.dedup_guard('divert_side.t', 'divert_side.h', '{k}', 'divert:mine');
INSERT INTO divert_side.t VALUES (2, 'x');
SELECT k, v, refused_by, rest FROM divert_side.mine;
SELECT public.dedup_unguard('divert_side.t');
SET search_path = divert_side, public;
SET client_min_messages = error;
-- a table of the search path comes first; one that is made is beside the table
CREATE TABLE "Other place".bin (:ok);
SET search_path = "Other place", public;
SELECT dedup_guard('divert_side.t', 'divert_side.h', '{k}', 'divert:bin');
SELECT on_duplicate FROM dedup_guards WHERE "table" = 'divert_side.t'::regclass;
SELECT dedup_unguard('divert_side.t');
RESET client_min_messages;
SET search_path = divert_side, public;
CREATE UNLOGGED TABLE quick (k int);
BEGIN;
SELECT dedup_create('u', dedup_filter(1000, 1e-6, 42)); SELECT dedup_guard('quick', 'f', '{k}', 'divert');
SELECT relpersistence FROM pg_class WHERE relname = 'quick_refused';
ROLLBACK;
SELECT to_regclass('quick_refused');

-- what its partitions are
SET client_min_messages = error;
CREATE TABLE parts (:ok) PARTITION BY LIST (k);
CREATE TABLE parts1 PARTITION OF parts DEFAULT;
CREATE TABLE logged (k int);
SELECT dedup_create('u', dedup_filter(1000, 1e-6, 42));
SELECT s, try(s, $$SELECT dedup_guard('logged', 'u', '{k}', 'divert:parts')$$) FROM unnest(ARRAY['SELECT', 'ALTER TABLE parts1 SET UNLOGGED', 'CREATE FOREIGN TABLE parts2 PARTITION OF parts FOR VALUES IN (5) SERVER regress_divert',
	$$SELECT dedup_guard('parts1', 'g', '{k}')$$]) s;
SELECT dedup_guard('logged', 'u', '{k}', 'divert:parts');
SELECT try($$SELECT dedup_guard('parts1', 'g', '{k}')$$);
SELECT s, try(s, 'INSERT INTO logged VALUES (1), (1)') FROM unnest(ARRAY['SELECT', 'ALTER TABLE parts1 SET UNLOGGED', 'CREATE FOREIGN TABLE parts2 PARTITION OF parts FOR VALUES IN (5) SERVER regress_divert',
	'CREATE TRIGGER d BEFORE DELETE ON parts1 FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger()']) s;
SELECT try('CREATE TABLE more (k int) PARTITION BY LIST (k)', 'SELECT dedup_unguard(''logged'')', 'ALTER TABLE more ATTACH PARTITION logged DEFAULT', $$SELECT dedup_guard('more', 'u', '{k}', 'divert')$$,
	$$SELECT FROM pg_class WHERE oid = 'more_refused'::regclass AND relpersistence = 'p'$$);
SELECT dedup_unguard('logged');
RESET client_min_messages;

-- rights: those of the table's owner
CREATE TABLE owned (k int, v text);
ALTER TABLE owned OWNER TO regress_divert_owner;
GRANT INSERT, SELECT ON owned TO regress_divert_writer;
SELECT dedup_guard('owned', 'h', '{k}', 'divert');
GRANT INSERT ON h TO regress_divert_owner;
SELECT dedup_guard('owned', 'h', '{k}', 'divert');
SELECT relowner::regrole FROM pg_class WHERE oid = 'owned_refused'::regclass;
SET ROLE regress_divert_writer;
INSERT INTO owned VALUES (11, 'a'), (11, 'b');
SELECT try('TABLE owned_refused');
SELECT try($$SELECT dedup_readmit('owned')$$);
RESET ROLE;
-- triggers of the side table run as the owner, who cannot become somebody else
CREATE FUNCTION who() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.rest = to_jsonb(current_user || ' ' || session_user); RETURN NEW; END $$;
CREATE TRIGGER who BEFORE INSERT ON owned_refused FOR EACH ROW EXECUTE FUNCTION who();
SET ROLE regress_divert_writer;
INSERT INTO owned VALUES (11, 'c');
SELECT current_user;
RESET ROLE;
SELECT k, v, rest->>0 = 'regress_divert_owner ' || session_user AS as_owner FROM owned_refused ORDER BY v;
DROP TRIGGER who ON owned_refused;
CREATE FUNCTION become() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN NEW; END $$;
CREATE TRIGGER become BEFORE INSERT ON owned_refused FOR EACH ROW EXECUTE FUNCTION become();
SELECT left(try('SET ROLE regress_divert_writer', $$INSERT INTO owned VALUES (11, 'd')$$), 60);
DROP TRIGGER become ON owned_refused;
-- row-level security
ALTER TABLE owned_refused ENABLE ROW LEVEL SECURITY;
SELECT try('SET ROLE regress_divert_writer', $$INSERT INTO owned VALUES (11, 'd')$$);
ALTER TABLE owned_refused FORCE ROW LEVEL SECURITY;
SELECT try('SET ROLE regress_divert_writer', $$INSERT INTO owned VALUES (11, 'd')$$);
SELECT try($$SELECT dedup_readmit('owned')$$);
ALTER TABLE owned_refused NO FORCE ROW LEVEL SECURITY;
-- a side table of somebody else
ALTER TABLE owned_refused OWNER TO regress_divert_other;
SELECT try('SET ROLE regress_divert_writer', $$INSERT INTO owned VALUES (11, 'd')$$);
SELECT problem FROM dedup_guards WHERE "table" = 'owned'::regclass;
SELECT try($$SELECT dedup_readmit('owned')$$);
SELECT try('SET ROLE regress_divert_owner', $$SELECT dedup_readmit('owned')$$);
ALTER TABLE owned_refused DISABLE ROW LEVEL SECURITY;
GRANT INSERT ON owned_refused TO regress_divert_owner;
SELECT try('SET ROLE regress_divert_writer', $$INSERT INTO owned VALUES (11, 'd')$$, 'RESET ROLE', $$SELECT FROM owned_refused WHERE v = 'd'$$);
SELECT try('SET ROLE regress_divert_owner', $$SELECT dedup_unguard('owned')$$, $$SELECT dedup_guard('owned', 'h', '{k}', 'divert')$$);
REVOKE INSERT ON owned_refused FROM regress_divert_owner;
SELECT try('SET ROLE regress_divert_owner', $$SELECT dedup_unguard('owned')$$, $$SELECT dedup_guard('owned', 'h', '{k}', 'divert')$$);
-- the owner makes it himself, in a schema where he may
SELECT try('SET ROLE regress_divert_owner', $$SELECT dedup_unguard('owned')$$, $$SELECT dedup_guard('owned', 'h', '{k}', 'divert:"Other place".own')$$, $$INSERT INTO owned VALUES (11)$$, 'TABLE "Other place".own');
SELECT try('SET ROLE regress_divert_owner', $$SELECT dedup_unguard('owned')$$, $$SELECT dedup_guard('owned', 'h', '{k}', 'divert:pg_catalog.own')$$);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA divert_side, "Other place" CASCADE;
DROP FOREIGN DATA WRAPPER regress_divert CASCADE;
DROP ROLE regress_divert_owner, regress_divert_writer, regress_divert_other;
