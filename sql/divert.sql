-- on_duplicate => 'divert': refused rows are put into a side table.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA divert;
SET search_path = divert, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(10000, 1e-9, 42)) \gset
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
RESET client_min_messages;
\set QUIET off

-- the table that is made: columns in their order, no constraint, default, identity or generated column
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE t (k int PRIMARY KEY, gone int, v varchar(5) COLLATE "POSIX" NOT NULL DEFAULT 'x', n numeric(6,2),
	g int GENERATED ALWAYS AS (k + 1) STORED, i int GENERATED ALWAYS AS IDENTITY, p pair, d positive, a text[],
	rest text, refused_at int DEFAULT 3, refused_by boolean, "Odd name" date);
ALTER TABLE t DROP COLUMN gone;
SELECT dedup_guard('t', 'f', '{k}', 'divert');
SELECT attnum, attname, format_type(atttypid, atttypmod), attcollation::regcollation, attnotnull, atthasdef, attidentity, attgenerated
FROM pg_attribute WHERE attrelid = 't_refused'::regclass AND attnum > 0 ORDER BY attnum;
SELECT relpersistence, relowner = (SELECT relowner FROM pg_class WHERE oid = 't'::regclass) AS same_owner, relhasindex
FROM pg_class WHERE oid = 't_refused'::regclass;
SELECT on_duplicate, refused, problem FROM dedup_guards WHERE "table" = 't'::regclass;

-- a refused row is there with all of its values
INSERT INTO t (k, v, n, p, d, a, rest, refused_at, refused_by, "Odd name") VALUES (1, 'one', 1.25, (1, 'a'), 5, '{x,NULL}', 'r', 7, true, '2025-01-02'),
	(1, 'two', NULL, NULL, 6, NULL, NULL, NULL, false, NULL),
	(1, 'one', 1.25, (1, 'a'), 5, '{x,NULL}', 'r', 7, true, '2025-01-02') RETURNING k, v;
INSERT INTO t (k) VALUES (2);
SELECT to_jsonb(r) - 'refused_at' AS row, refused_at BETWEEN now() - interval '1 hour' AND now() AS at FROM t_refused r;
SELECT refused FROM dedup_guards WHERE "table" = 't'::regclass;

-- columns that are added, renamed, altered later go into rest; those that are dropped are NULL
ALTER TABLE t ADD x text, ADD y interval, ADD j jsonb, ADD js json, ADD o regclass, ADD f float8, ADD l bigint, ADD ok bool;
ALTER TABLE t RENAME v TO w;
ALTER TABLE t ALTER n TYPE numeric(8,4);
ALTER TABLE t DROP COLUMN a;
SET intervalstyle = sql_standard; SET extra_float_digits = -5; SET datestyle = 'SQL, DMY';
INSERT INTO t (k, w, n, p, d, rest, refused_at, refused_by, "Odd name", x, y, j, js, o, f, l, ok) VALUES (2, 'three', 1.2345, (2, 'b'), 8, 'r', 8, NULL, '02/01/2025', E'q"\\\n', '-1 day 2 hours', '"s"',
	'{"a":  1}', 't', 0.1::float8 + 0.2, 1::bigint << 60, true),
	(2, 'four', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"b": [null]}', NULL, NULL, '-0', NULL, NULL);
RESET intervalstyle; RESET extra_float_digits; RESET datestyle;
SELECT k, v, n, a, p, d, "Odd name", jsonb_pretty(rest) FROM t_refused WHERE k = 2;

-- brought back when no row has the key: the oldest of each key; a column that was renamed is not lost
SELECT dedup_readmit('t');
DELETE FROM t;
SELECT dedup_readmit('t');
ALTER TABLE t_refused RENAME v TO w;
SELECT dedup_readmit('t');
SELECT dedup_readmit('t');
\x on
SELECT * FROM t ORDER BY k;
\x off
SELECT k, w, rest->>'w' AS rest FROM t_refused ORDER BY refused_at;
DROP TABLE t;
DROP TABLE t_refused;

-- modes of writing: COPY, INSERT ... SELECT, ON CONFLICT, MERGE, RETURNING, UPDATE
CREATE TABLE t (k int, v text);
CREATE UNIQUE INDEX ON t (v);
SELECT dedup_create('g', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('t', 'g', '{k}', 'divert');
COPY t FROM stdin;
1	a
1	b
\.
INSERT INTO t SELECT i / 2, 's' || i FROM generate_series(1, 6) i;
INSERT INTO t VALUES (1, 'a') ON CONFLICT (v) DO UPDATE SET k = 100;
INSERT INTO t VALUES (9, 'a') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (9, 'nine');
WITH i AS (INSERT INTO t VALUES (9, 'with'), (10, 'ten') RETURNING *) SELECT * FROM i;
-- a server before 15 has no MERGE
\set merge 'INSERT INTO t VALUES (9, ''merge'')'
SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
\if :has_merge
\set merge 'MERGE INTO t USING (VALUES (9, ''merge'')) AS m (k, v) ON false WHEN NOT MATCHED THEN INSERT VALUES (m.k, m.v)'
\endif
SELECT try(:'merge');
\set QUIET on
:merge;
\set QUIET off
UPDATE t SET k = 10 WHERE k = 9;
TABLE t ORDER BY k;
SELECT k, v, refused_by, rest FROM t_refused ORDER BY k, v;

-- rollbacks: a refusal is undone with its row
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (1, 'gone');
ROLLBACK TO a;
INSERT INTO t VALUES (1, 'kept');
COMMIT;
BEGIN; INSERT INTO t VALUES (1, 'gone'); ROLLBACK;
INSERT INTO t VALUES (1, 'a row'), (77, 'nine');
SELECT v FROM t_refused WHERE v IN ('gone', 'kept', 'a row');
SELECT refused FROM dedup_guards WHERE "table" = 't'::regclass;

-- what the side table gets by hand: defaults, constraints, triggers, indexes
ALTER TABLE t_refused ADD id int GENERATED ALWAYS AS IDENTITY, ADD note text DEFAULT 'new', ADD CHECK (v <> 'bad');
CREATE UNIQUE INDEX ON t_refused (v);
INSERT INTO t VALUES (1, 'c1'), (1, 'c2');
SELECT k, v, id, note FROM t_refused WHERE v ~ '^c';
SELECT left(try($$INSERT INTO t VALUES (1, 'bad')$$), 5);
SELECT try($$INSERT INTO t VALUES (1, 'c1')$$);
CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER no BEFORE INSERT ON t_refused FOR EACH ROW WHEN (NEW.v = 'lost') EXECUTE FUNCTION drop_row();
SELECT try($$INSERT INTO t VALUES (1, 'lost')$$);
SELECT try($$INSERT INTO t VALUES (1, 'not lost')$$, $$SELECT FROM t_refused WHERE v = 'not lost'$$);
DROP TRIGGER no ON t_refused;
CREATE RULE no AS ON INSERT TO t_refused DO INSTEAD NOTHING;
SELECT try($$INSERT INTO t VALUES (1, 'lost')$$);
DROP RULE no ON t_refused;
-- a change between two rows of one statement
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.v = 'e2' THEN EXECUTE 'ALTER TABLE divert.u_refused ADD note text DEFAULT 5'; EXECUTE 'CREATE INDEX i ON divert.u_refused (v)'; END IF;
	RETURN NEW;
END $$;
CREATE TABLE u (k int, v text);
SELECT dedup_create('h', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('u', 'h', '{k}', 'divert');
CREATE TRIGGER change BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION change();
INSERT INTO u VALUES (1, 'e0'), (1, 'e1'), (1, 'e2'), (1, 'e3');
SELECT k, v, note FROM u_refused ORDER BY v;
SET enable_seqscan = off;
SELECT k, v, note FROM u_refused WHERE v = 'e3';
RESET enable_seqscan;
DROP TRIGGER change ON u;

-- a trigger of the side table that writes to the guarded table
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO divert.u VALUES (NEW.k + 1, NEW.v); RETURN NEW; END $$;
CREATE TRIGGER again BEFORE INSERT ON u_refused FOR EACH ROW WHEN (NEW.k < 4) EXECUTE FUNCTION again();
INSERT INTO u VALUES (1, 'again'), (1, 'more'), (3, 'third');
TABLE u ORDER BY k;
SELECT k, v FROM u_refused WHERE v IN ('again', 'more', 'third') ORDER BY v, k;
-- for ever
DROP TRIGGER again ON u_refused;
CREATE OR REPLACE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO divert.u VALUES (NEW.k, NEW.v); RETURN NEW; END $$;
CREATE TRIGGER again BEFORE INSERT ON u_refused FOR EACH ROW EXECUTE FUNCTION again();
SELECT left(try($$INSERT INTO u VALUES (1, 'for ever')$$), 5);
DROP TABLE u, u_refused;

-- large values
CREATE TABLE big (k int, v text, w text);
ALTER TABLE big ALTER v SET STORAGE EXTERNAL;
CREATE TABLE source (k int, v text, w text);
ALTER TABLE source ALTER v SET STORAGE EXTERNAL;
INSERT INTO source SELECT 1, string_agg(md5(i::text), ''), repeat('x', 100000) FROM generate_series(1, 3000) i;
SELECT dedup_create('i', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('big', 'i', '{v}', 'divert');
INSERT INTO big SELECT * FROM source;
INSERT INTO big SELECT * FROM source;
ALTER TABLE big_refused DROP COLUMN w;
INSERT INTO big SELECT * FROM source;
DELETE FROM source;
SELECT count(*), bool_and(r.v = b.v AND coalesce(r.rest->>'w', b.w) = b.w) FROM big_refused r, big b;
DELETE FROM big;
SELECT dedup_readmit('big');
SELECT length(v), length(w) FROM big;
DROP TABLE big, source, big_refused;

-- partitions with other columns; a side table with partitions
CREATE TABLE p (k int, day int, v text) PARTITION BY LIST (day);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 (gone int, v text, extra int, day int, k int);
ALTER TABLE p2 DROP COLUMN gone, DROP COLUMN extra;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
CREATE TABLE bin (v text, refused_by regclass, refused_at timestamptz, k int, day int, rest jsonb) PARTITION BY LIST (day);
CREATE TABLE bin1 PARTITION OF bin FOR VALUES IN (1);
CREATE TABLE bin2 (day int, refused_at timestamptz, rest jsonb, k int, v text, refused_by regclass);
ALTER TABLE bin ATTACH PARTITION bin2 FOR VALUES IN (2);
SELECT dedup_create('j', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('p', 'j', '{k}', 'divert:bin');
INSERT INTO p VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 2, 'c'), (2, 1, 'd'), (2, 2, 'e');
INSERT INTO p2 (k, day, v) VALUES (1, 2, 'straight');
SELECT tableoid::regclass, k, day, v, refused_by, rest FROM bin ORDER BY v;
ALTER TABLE p ADD x int;
SELECT try($$INSERT INTO p VALUES (1, 1, 'f', 5)$$, $$SELECT FROM bin WHERE rest = '{"x": 5}'$$);
ALTER TABLE bin DROP COLUMN rest;
SELECT try($$INSERT INTO p VALUES (1, 1, 'f', 5)$$);
ALTER TABLE bin ADD rest jsonb;
UPDATE p SET day = 2 WHERE k = 1;
DELETE FROM p WHERE k = 1;
SELECT dedup_readmit('p1');
SELECT dedup_readmit('p');
SELECT dedup_readmit('p');
SELECT tableoid::regclass, * FROM p ORDER BY v;
SELECT k, v FROM bin ORDER BY v;
SELECT try($$SELECT dedup_readmit('p') FROM p1 LIMIT 1$$), try($$INSERT INTO p2 (k, day, v) SELECT dedup_readmit('p'), 2, 'x'$$);
SELECT try($$INSERT INTO p VALUES (1, 1, 'f', 5)$$, $$ALTER TABLE p DROP COLUMN v$$, $$DELETE FROM p$$, $$SELECT dedup_readmit('p')$$, $$TABLE bin$$);

-- one partition alone: a row that moves there is kept, or it is an error
SET client_min_messages = error;
CREATE TABLE q (k int, day int) PARTITION BY LIST (day);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1);
CREATE TABLE q2 PARTITION OF q FOR VALUES IN (2);
SELECT dedup_create('l', dedup_filter(10000, 1e-9, 42)) \gset
SELECT dedup_guard('q2', 'l', '{k}', 'divert') \gset
RESET client_min_messages;
INSERT INTO q VALUES (1, 1), (1, 2), (2, 2), (2, 2), (3, 1);
UPDATE q SET day = 2 WHERE k = 3;
UPDATE q SET day = 2 WHERE k = 1;
SELECT tableoid::regclass, k, day FROM q ORDER BY k, day;
SELECT k, day, refused_by FROM q2_refused;

-- errors of the side table within blocks, and then a row that is kept
DELETE FROM q2_refused;
ALTER TABLE q2_refused ADD CHECK (day <> 2 OR k <> 2);
DO $$ BEGIN
	FOR i IN 1..3 LOOP
		BEGIN
			INSERT INTO divert.q2 VALUES (i, 2);
		EXCEPTION WHEN check_violation THEN RAISE NOTICE '%: %', i, SQLERRM;
		END;
	END LOOP;
END $$;
SELECT k, day FROM q2_refused ORDER BY k;
DELETE FROM q2_refused;
ALTER TABLE q2_refused DROP CONSTRAINT q2_refused_check;
PREPARE i AS INSERT INTO q2 VALUES ($1, 2);
EXECUTE i (1); EXECUTE i (2); EXECUTE i (1);
ALTER TABLE q2_refused ADD extra int DEFAULT 6;
EXECUTE i (3);
SELECT k, day, extra FROM q2_refused ORDER BY refused_at;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA divert CASCADE;
