-- Guards whose key has expressions.

SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- What an element of a key may be.
CREATE COLLATION guard_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE guard_pair AS (x int, y text);
CREATE DOMAIN guard_word AS text CHECK (value <> '');
CREATE SCHEMA guard_elsewhere;
CREATE FUNCTION guard_elsewhere.half(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 2';
CREATE FUNCTION guard_elsewhere."Odd name"(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN lower($1); END';
CREATE FUNCTION guard_elsewhere.both(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE OPERATOR guard_elsewhere.|+| (LEFTARG = int, RIGHTARG = int, FUNCTION = guard_elsewhere.both);
CREATE TABLE exprs (id int, email text, v varchar(20), c char(5), j jsonb, at timestamptz, p guard_pair, w guard_word, a int[], n numeric, ci text COLLATE guard_ci, "Mixed Case" text, "lower(email)" text,
	b boolean, g text GENERATED ALWAYS AS (lower(email)) STORED, o oid, r int4range, pc text COLLATE "POSIX");
SELECT dedup_create('exprs_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_create('exprs_exact', dedup_filter(1, 0.5, 1));
-- Returns how many of two rows land under an approximate guard, and under an exact one with the index of the error's HINT; an element as the view shows it.
CREATE FUNCTION lands(columns text[], rows text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	hint text;
	shown text;
BEGIN
	TRUNCATE exprs, exprs_seen;
	PERFORM dedup_guard('exprs', 'exprs_seen', columns);
	EXECUTE 'INSERT INTO exprs ' || rows;
	SELECT count(*) INTO result FROM exprs;
	SELECT result || CASE WHEN problem IS NULL THEN '' ELSE ' ' || problem END, g.columns INTO result, shown FROM dedup_guards g WHERE "table" = 'exprs'::regclass;
	PERFORM dedup_unguard('exprs');
	TRUNCATE exprs;
	BEGIN
		PERFORM dedup_guard('exprs', 'exprs_exact', columns, exact => true);
		hint := 'NO ERROR WITHOUT INDEX';
	EXCEPTION WHEN object_not_in_prerequisite_state THEN
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		EXECUTE substring(hint, 'Run: (.*)');
		PERFORM dedup_guard('exprs', 'exprs_exact', columns, exact => true);
	END;
	EXECUTE 'INSERT INTO exprs ' || rows;
	SELECT concat_ws(' ', result, count(*), shown, substring(hint, 'ON public.exprs (.*);')) INTO result FROM exprs;
	PERFORM dedup_unguard('exprs');
	EXECUTE (SELECT string_agg(format('DROP INDEX %s', indexrelid::regclass), ';') FROM pg_index WHERE indrelid = 'exprs'::regclass);
	TRUNCATE exprs_exact;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT, shown = PG_EXCEPTION_DETAIL;
	IF SQLERRM ~ '^(function|operator) .*does not exist' THEN
		RETURN SQLSTATE || ' ' || SQLERRM; -- what follows differs between servers
	END IF;
	RETURN concat_ws(' | ', SQLSTATE || ' ' || SQLERRM, nullif(shown, ''), nullif(hint, ''));
END $$;
\pset format unaligned
\pset tuples_only on
SELECT lands(ARRAY[e], r) FROM (VALUES
	(1, 'lower(email::text)', '(email) VALUES (''A''), (''a'')'), (2, 'lower(email)', '("lower(email)", email) VALUES (''A'', ''x''), (''a'', ''x'')'), (3, ' lower(email)', '("lower(email)", email) VALUES (''A'', ''x''), (''a'', ''X'')'),
	(4, 'upper(v)', '(v) VALUES (''A''), (''a'')'), (5, 'upper(c)', '(c) VALUES (''A''), (''a '')'), (6, 'j->>''id''', '(j) VALUES (''{"id": 1, "x": 2}''), (''{"id": "1"}'')'), (7, 'j->''id''', '(j) VALUES (''{"id": 1.0}''), (''{"id": 1}'')'),
	(8, 'j #>> ''{a,b}''', '(j) VALUES (''{"a": {"b": 1}}''), (''{"a": {"b": "1"}}'')'),
	(11, '(p).x', '(p) VALUES (ROW(1, ''a'')), (ROW(1, ''b''))'), (12, 'p', '(p) VALUES (ROW(1, ''a'')), (ROW(1, ''a''))'), (13, 'w', '(w) VALUES (''a''), (''a'')'), (14, 'w || ''x''', '(w) VALUES (''a''), (''a'')'), (15, 'email::guard_word', '(email) VALUES (''a''), (''a'')'),
	(16, 'a[1]', '(a) VALUES (''{1,2}''), (''{1,3}'')'), (17, 'a || 5', '(a) VALUES (''{1,2}''), (''{1,2}'')'), (18, 'ARRAY[id, 1]', '(id) VALUES (1), (1)'), (19, 'round(n)', '(n) VALUES (1.1), (1.20)'), (20, 'n', '(n) VALUES (1), (1.0)'), (21, 'n * 1.00', '(n) VALUES (1), (1.0)'),
	(22, 'ci', '(ci) VALUES (''A''), (''a'')'), (23, 'ci || ''x''', '(ci) VALUES (''A''), (''a'')'), (24, 'ci COLLATE "C"', '(ci) VALUES (''A''), (''a'')'), (25, 'email COLLATE guard_ci', '(email) VALUES (''A''), (''a'')'), (26, 'email COLLATE "C"', '(email) VALUES (''a''), (''a'')'),
	(27, '(email || ''x'') COLLATE guard_ci', '(email) VALUES (''A''), (''a'')'), (28, 'lower(email COLLATE "C") COLLATE guard_ci', '(email) VALUES (''A''), (''a'')'), (29, '"Mixed Case"', '("Mixed Case") VALUES (''a''), (''a'')'), (30, 'Mixed Case', '("Mixed Case") VALUES (''a''), (''a'')'),
	(31, 'lower("Mixed Case")', '("Mixed Case") VALUES (''a''), (''A'')'), (32, 'guard_elsewhere.half(id)', '(id) VALUES (2), (3)'), (33, 'guard_elsewhere."Odd name"(email)', '(email) VALUES (''A''), (''a'')'), (34, 'id OPERATOR(guard_elsewhere.|+|) 1', '(id) VALUES (1), (1)'),
	(35, 'id + 1', '(id) VALUES (1), (1)'), (36, '-id', '(id) VALUES (1), (1)'), (37, 'id::bigint', '(id) VALUES (1), (1)'), (38, 'id::text', '(id) VALUES (1), (1)'), (39, 'CAST(id AS varchar(1))', '(id) VALUES (11), (12)'), (40, 'coalesce(email, v)', '(email, v) VALUES (''a'', NULL), (NULL, ''a'')'),
	(41, 'CASE WHEN b THEN id END', '(b, id) VALUES (true, 1), (true, 1)'), (42, 'greatest(id, 5)', '(id) VALUES (1), (2)'), (43, 'nullif(id, 0)', '(id) VALUES (1), (1)'), (44, 'b', '(b) VALUES (true), (true)'), (45, 'NOT b', '(b) VALUES (true), (true)'), (46, 'id > 5', '(id) VALUES (1), (2)'),
	(47, 'email IS NULL', '(id) VALUES (1), (2)'), (48, 'b IS NOT TRUE', '(b) VALUES (false), (NULL)'), (49, 'id = 1 OR b', '(id) VALUES (1), (1)'), (50, 'id = 1 OR b IS NULL', '(id) VALUES (1), (1)'),
	(54, 'email LIKE ''a%''', '(email) VALUES (''a''), (''ab'')'), (55, 'md5(email)', '(email) VALUES (''a''), (''a'')'), (56, 'email ~ ''^a''', '(email) VALUES (''a''), (''ab'')'),
	(57, 'r * ''[1,5)''', '(r) VALUES (''[1,9)''), (''[1,7)'')'), (58, 'o::regclass', '(o) VALUES (1259), (1259)'), (59, 'num_nulls(VARIADIC a)', '(a) VALUES (''{1,NULL}''), (''{NULL,2}'')'), (60, '(id)', '(id) VALUES (1), (1)'), (61, 'exprs.id', '(id) VALUES (1), (1)'), (62, 'public.exprs.id', '(id) VALUES (1), (1)'),
	(63, 'int4range(id, id + 1)', '(id) VALUES (1), (1)'), (64, '(ROW(id, email)::guard_pair)', '(id, email) VALUES (1, ''a''), (1, ''a'')'), (66, 'id -- comment', '(id) VALUES (1), (1)'),
	(67, 'mod(id, 10)', '(id) VALUES (1), (11)'), (68, 'id IN (1, 2)', '(id) VALUES (1), (2)'), (69, '((j->''a'')->>''b'')::int', '(j) VALUES (''{"a": {"b": 1}}''), (''{"a": {"b": "01"}}'')'), (70, 'p IS NULL', '(p) VALUES (NULL), (ROW(NULL, NULL))'), (71, '(p).y COLLATE "C"', '(p) VALUES (ROW(1, ''a'')), (ROW(2, ''a''))')
) AS x (i, e, r) ORDER BY i;
-- What servers show in their own ways, or lack: what is shown can be given again.
SELECT i, left(landed, 4), lands(substring(landed, '({.*}) \(')::text[], r) = landed AS again FROM (SELECT *, lands(ARRAY[e], r) AS landed FROM (VALUES
	(9, CASE WHEN current_setting('server_version_num')::int >= 140000 THEN 'j[''a'']' ELSE 'j->''a''' END, '(j) VALUES (''{"a": 1}''), (''{"a": 1}'')'), (10, 'date_trunc(''day'', at AT TIME ZONE ''UTC'')', '(at) VALUES (''2026-01-01 01:00+00''), (''2026-01-01 23:00+00'')'), (51, 'extract(year FROM at AT TIME ZONE ''UTC'')', '(at) VALUES (''2026-01-01''), (''2026-05-01'')'),
	(52, 'substring(email FROM 1 FOR 2)', '(email) VALUES (''abc''), (''abd'')'), (53, 'trim(email)', '(email) VALUES ('' a''), (''a '')'), (65, 'at AT TIME ZONE ''Europe/Berlin''', '(at) VALUES (''2026-01-01''), (''2026-01-01'')')
) AS x (i, e, r) OFFSET 0) AS x ORDER BY i;
-- What it may not be.
SELECT lands(ARRAY[e], '') FROM unnest(ARRAY['', ' ', 'Email', 'MIXED CASE', 'nothing', 'g', 'upper(g)', '1', '''a''', 'NULL', 'true', 'current_date', 'id, email', '(id, email)', 'ROW(id)', 'exprs', 'exprs.*', '*', 'ctid', 'xmin::text', 'tableoid::regclass', 'now()', 'at::date', 'at::text', 'to_char(at, ''YYYY'')',
	'random() + id', 'nextval(''x'') + id', 'current_setting(''x'') || id', 'count(id)', 'generate_series(1, id)', 'unnest(a)', '(SELECT id)', 'rank() OVER (ORDER BY id)', 'id +', 'id id', 'id AS x', 'id) , (email', 'nofunction(id)', 'id || j::json', 'j::json', 'point(id, id)', 'ci || pc', 'ci = pc', 'lower(ci || pc)', 'guard_elsewhere.nothing',
	'pg_typeof(id)', 'id = ANY (SELECT 1)', '$1', 'lower(id)', 'id + email', 'E''\\', 'id;', 'CASE WHEN b THEN ''<a/>''::xml END']) WITH ORDINALITY AS x (e, i) ORDER BY i;
SELECT lands('{lower(v),lower(v)}', ''), lands('{id,(id)}', ''), lands('{id,exprs.id}', ''), lands(ARRAY[NULL], '');
\pset tuples_only off
\pset format aligned

-- Several, in an index of another order, in several collations.
CREATE INDEX ON exprs (upper(email), id, (n + 1), email, (email COLLATE guard_ci));
SELECT dedup_guard('exprs', 'exprs_exact', ARRAY['n + 1', 'email COLLATE guard_ci', 'id', 'email COLLATE "C"', 'upper(email)'], 'reject', exact => true);
INSERT INTO exprs (id, email, n) VALUES (1, 'a', 1), (1, 'A', 1), (2, 'a', 1), (1, 'a', 1.5);
INSERT INTO exprs (id, email, n) VALUES (1, 'a', 1.0);
SELECT dedup_unguard('exprs');
DROP TABLE exprs, exprs_seen, exprs_exact;
DROP FUNCTION lands;

-- An UPDATE of a column that only an expression names reaches the guard: it is not HOT.
CREATE TABLE hot (id int, email text, note text) WITH (fillfactor = 50);
SELECT dedup_create('hot_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('hot', 'hot_seen', '{lower(email)}');
INSERT INTO hot VALUES (1, 'a'), (2, 'b');
UPDATE hot SET email = 'C' WHERE id = 1;
BEGIN;
UPDATE hot SET email = 'D' WHERE id = 1;
SAVEPOINT s;
UPDATE hot SET email = 'E' WHERE id = 1;
ROLLBACK TO s;
INSERT INTO hot VALUES (3, 'e'), (4, 'd'), (5, 'c') RETURNING id;
COMMIT;
UPDATE hot SET email = 'B' WHERE id = 1;
UPDATE hot SET email = 'B' WHERE id = 2;
UPDATE hot SET email = 'x' WHERE id = 2 AND email = 'none';
SELECT lower(email), dedup_seen('hot_seen', lower(email)) FROM hot ORDER BY id;
DROP TABLE hot, hot_seen;

-- Values that are stored out of line, in rows that TRUNCATE removes.
CREATE TABLE toasted (id int, body text, live text);
ALTER TABLE toasted ALTER body SET STORAGE EXTERNAL, ALTER live SET STORAGE EXTERNAL;
SELECT dedup_create('toasted_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('toasted', 'toasted_seen', ARRAY['md5(body)', 'id'], "where" => 'length(live) > 3');
INSERT INTO toasted SELECT g, repeat(g::text, 5000), repeat('x', CASE WHEN g = 3 THEN 3 ELSE 5000 END) FROM generate_series(1, 4) g;
INSERT INTO toasted SELECT * FROM toasted RETURNING id;
UPDATE toasted SET live = 'none' WHERE id = 4;
UPDATE toasted SET id = id WHERE id = 4;
BEGIN;
DELETE FROM toasted WHERE id = 1;
INSERT INTO toasted SELECT g, repeat(g::text, 5000), 'live' FROM generate_series(1, 4) g RETURNING id;
ROLLBACK;
SET client_min_messages = error;
BEGIN;
TRUNCATE toasted;
INSERT INTO toasted SELECT g, repeat(g::text, 5000), 'live' FROM generate_series(1, 4) g, generate_series(1, 2) RETURNING id;
COMMIT;
SET client_min_messages = warning;
DROP TABLE toasted, toasted_seen;

DROP SCHEMA guard_elsewhere CASCADE;
DROP TYPE guard_pair, guard_word;
DROP COLLATION guard_ci;
