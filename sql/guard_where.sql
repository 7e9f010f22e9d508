-- Guards that guard only some rows.

SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- Soft delete, under both kinds of guard.
CREATE TABLE users (id int, email text, deleted_at date);
CREATE TABLE users_exact (id int, email text, deleted_at date);
CREATE INDEX ON users_exact (email) WHERE deleted_at IS NULL;
SELECT dedup_create('users_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_create('users_exact_seen', dedup_filter(1, 0.5, 1));
SELECT dedup_guard('users', 'users_seen', '{email}', "where" => 'deleted_at IS NULL');
SELECT dedup_guard('users_exact', 'users_exact_seen', '{email}', "where" => 'deleted_at IS NULL', exact => true);
INSERT INTO users VALUES (1, 'a', NULL), (2, 'a', '2026-01-01'), (3, 'a', NULL), (4, 'b', '2026-01-01') RETURNING id;
INSERT INTO users_exact VALUES (1, 'a', NULL), (2, 'a', '2026-01-01'), (3, 'a', NULL), (4, 'b', '2026-01-01') RETURNING id;
-- An UPDATE that brings a row in.
UPDATE users SET deleted_at = NULL WHERE id = 2;
UPDATE users_exact SET deleted_at = NULL WHERE id = 2;
UPDATE users SET deleted_at = NULL WHERE id = 4 RETURNING id;
UPDATE users_exact SET deleted_at = NULL WHERE id = 4 RETURNING id;
INSERT INTO users VALUES (5, 'b', NULL) RETURNING id;
INSERT INTO users_exact VALUES (5, 'b', NULL) RETURNING id;
-- One that takes a row out: an exact guard frees its key, an approximate one keeps it.
UPDATE users SET deleted_at = '2026-02-01' WHERE id = 1 RETURNING id;
UPDATE users_exact SET deleted_at = '2026-02-01' WHERE id = 1 RETURNING id;
INSERT INTO users VALUES (6, 'a', NULL) RETURNING id;
INSERT INTO users_exact VALUES (6, 'a', NULL) RETURNING id;
SELECT dedup_forget('users_seen', 'a');
INSERT INTO users VALUES (7, 'a', NULL) RETURNING id;
-- The same transaction may take a row out, and insert its key.
BEGIN;
UPDATE users SET deleted_at = '2026-03-01' WHERE id = 7;
INSERT INTO users VALUES (8, 'a', NULL), (9, 'a', NULL) RETURNING id;
COMMIT;
-- Key and predicate at once.
UPDATE users SET email = 'b', deleted_at = NULL WHERE id = 2;
UPDATE users_exact SET email = 'b', deleted_at = NULL WHERE id = 2;
UPDATE users SET email = 'c', deleted_at = NULL WHERE id = 2 RETURNING id;
UPDATE users_exact SET email = 'c', deleted_at = NULL WHERE id = 2 RETURNING id;
UPDATE users SET email = 'b', deleted_at = '2026-02-01' WHERE id = 2 RETURNING id;
UPDATE users_exact SET email = 'b', deleted_at = '2026-02-01' WHERE id = 2 RETURNING id;
INSERT INTO users_exact VALUES (10, 'c', NULL) RETURNING id;
-- An UPDATE of nothing that the guard goes by.
UPDATE users SET id = id + 100;
UPDATE users_exact SET id = id + 100;
-- Two rows that change places.
UPDATE users_exact SET deleted_at = CASE WHEN deleted_at IS NULL THEN '2026-04-01'::date END WHERE email = 'c';
INSERT INTO users_exact VALUES (11, 'c', '2026-01-01') RETURNING id;
UPDATE users_exact SET deleted_at = NULL WHERE email = 'c' AND id = 11 RETURNING id;
UPDATE users_exact SET deleted_at = NULL WHERE email = 'c';
SELECT email, count(*) FROM users_exact WHERE deleted_at IS NULL GROUP BY email ORDER BY email;
SELECT "table", "where", problem FROM dedup_guards WHERE filter::text ~ '^users' ORDER BY "table"::text;
DROP TABLE users, users_seen, users_exact, users_exact_seen;

-- Predicates of all forms: a row of each value, twice.
CREATE TABLE kinds (k int, a boolean, b int, "Mixed Case" text);
CREATE INDEX ON kinds (k);
CREATE FUNCTION guarded(predicate text, exact boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	landed text;
	expected text;
BEGIN
	TRUNCATE kinds;
	PERFORM dedup_create('kinds_seen', dedup_filter(1000, 1e-9, 1));
	PERFORM dedup_guard('kinds', 'kinds_seen', '{k}', exact => exact, "where" => predicate);
	INSERT INTO kinds SELECT 10 * i + j, (ARRAY[true, false, NULL])[i], (ARRAY[0, 1, NULL])[j], CASE WHEN i > 1 THEN 'x' END
	FROM generate_series(1, 3) i, generate_series(1, 3) j, generate_series(1, 2);
	EXECUTE 'SELECT string_agg(DISTINCT k::text, '','') FROM kinds WHERE ' || predicate || E'\n' INTO expected;
	SELECT string_agg(k::text, ',') FROM (SELECT k FROM kinds GROUP BY k HAVING count(*) = 1 ORDER BY k) s INTO landed;
	PERFORM dedup_unguard('kinds');
	DROP TABLE kinds_seen;
	RETURN CASE WHEN landed IS DISTINCT FROM expected THEN 'WRONG ' || concat(landed, ' instead of ', expected) ELSE landed END;
END $$;
SELECT p, guarded(p, false), guarded(p, true) FROM unnest(ARRAY['a', 'NOT a', 'a IS NULL', 'a IS NOT NULL', 'a IS TRUE', 'a IS NOT TRUE', 'a IS UNKNOWN', 'a OR b = 1',
	'a AND b = 1', 'NOT (a OR b = 1)', 'a IS NULL OR b IS NULL', '(a IS NULL) IS NOT TRUE', 'a IS NOT NULL AND b IS NOT NULL', 'CASE WHEN a THEN b = 1 ELSE b = 0 END', 'b IN (0, 1)',
	'b = ANY (ARRAY[0, NULL])', 'b BETWEEN 0 AND 0', 'b IS DISTINCT FROM 1', 'coalesce(a, b = 1)', '(a, b) = (true, 1)', 'ROW(a, b) IS NULL', 'ROW(a, b) IS NOT NULL', '"Mixed Case" IS NULL', '"Mixed Case" LIKE ''x%''',
	'a -- or', 'b / 1 = 1', 'NULL OR a', 'a AND NULL', 'b <> ALL (''{1}'')', 'pg_catalog.int4eq(b, 1)', 'b OPERATOR(pg_catalog.=) 1', 'kinds.a', 'a::text = ''true'''])
	WITH ORDINALITY AS x (p, n) ORDER BY n;

-- What is no predicate.
CREATE FUNCTION refused(VARIADIC predicates text[]) RETURNS TABLE (predicate text, state text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH predicate IN ARRAY predicates LOOP
		BEGIN
			PERFORM dedup_guard('kinds', 'kinds_seen', '{k}', "where" => predicate);
			RAISE 'taken';
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		END;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT dedup_create('kinds_seen', dedup_filter(1000, 1e-9, 1));
\pset format unaligned
SELECT * FROM refused('', ' ', 'a /* or', 'b', 'true', '1 = 1', 'NULL', 'nothing', 'a; DROP TABLE kinds', 'a) OR (b', 'a), (b = 1', 'a) FROM kinds WHERE (a', 'a) UNION SELECT (a', 'a) AS c, (a', 'a IS', 'SELECT a', '(SELECT a)',
	'EXISTS (SELECT FROM kinds)', 'b IN (SELECT 1)', 'now() > ''2026-01-01''', 'current_user = ''x'' AND a', 'random() < b', 'count(*) > 0', 'bool_and(a)', 'rank() OVER () = b', 'generate_series(1, b) = 1', 'ctid IS NOT NULL',
	'tableoid = 1', 'kinds IS NOT NULL', 'kinds = kinds', 'kinds.* IS NOT NULL', 'other.a', 'OLD.a', 'NEW.a', '$1', '$1 = b', 'b = DEFAULT', 'a WHERE a', 'b := 1', '*', 'a, b', 'b::text::timestamptz IS NULL', 'a COLLATE "C"', '"Mixed case" = ''x''', NULL);
\pset format aligned
DROP TABLE kinds, kinds_seen;
DROP FUNCTION guarded, refused;

-- A row for which the predicate fails is an error, and leaves nothing behind.
CREATE TABLE fails (k int, n int);
CREATE INDEX ON fails (k);
SELECT dedup_create('fails_seen', dedup_filter(1000, 1e-9, 1));
INSERT INTO fails VALUES (1, 0), (1, 5);
-- The row that fails is there already: not guarded, but by a guard that does not look.
SELECT dedup_guard('fails', 'fails_seen', '{k}', exact => true, "where" => '10 / n > 1');
SELECT dedup_guard('fails', 'fails_seen', '{k}', "where" => '10 / n > 1');
UPDATE fails SET n = 20 WHERE n = 0;
-- A version of a row for which it fails is there yet, and is not looked at.
SELECT dedup_guard('fails', 'fails_seen', '{k}', exact => true, "where" => '10 / n > 1');
INSERT INTO fails VALUES (2, 0);
INSERT INTO fails VALUES (2, 5), (2, 5), (2, 20), (1, 4) RETURNING *;
UPDATE fails SET n = 0 WHERE n = 20;
SELECT dedup_unguard('fails');
DELETE FROM fails WHERE k = 2;
SELECT dedup_guard('fails', 'fails_seen', '{k}', load => false, "where" => '10 / n > 1');
INSERT INTO fails VALUES (3, 5);
BEGIN;
INSERT INTO fails VALUES (4, 5);
SAVEPOINT s;
INSERT INTO fails VALUES (5, 5), (6, 0);
ROLLBACK TO s;
INSERT INTO fails VALUES (5, 5), (4, 5);
COMMIT;
SELECT * FROM fails ORDER BY k, n;
DROP TABLE fails, fails_seen;

-- Upserts and MERGE. A server before 15 has no MERGE, and runs other statements that do the same.
SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
\if :has_merge
\set merge_live 'MERGE INTO upsert u USING (VALUES (1), (5)) v (id) ON u.id = v.id WHEN MATCHED THEN UPDATE SET live = true WHEN NOT MATCHED THEN INSERT VALUES (v.id, 3, true)'
\set merge_k 'MERGE INTO upsert u USING (VALUES (1), (5)) v (id) ON u.id = v.id WHEN MATCHED THEN UPDATE SET k = 4, live = true WHEN NOT MATCHED THEN INSERT VALUES (v.id, 3, true)'
\set merge_2 'MERGE INTO upsert u USING (VALUES (2), (5)) v (id) ON u.id = v.id WHEN MATCHED THEN UPDATE SET k = 4, live = true WHEN NOT MATCHED THEN INSERT VALUES (v.id, 3, true)'
\else
\set merge_live 'WITH u AS (UPDATE upsert SET live = true WHERE id = 1) INSERT INTO upsert VALUES (5, 3, true)'
\set merge_k 'WITH u AS (UPDATE upsert SET k = 4, live = true WHERE id = 1) INSERT INTO upsert VALUES (5, 3, true)'
\set merge_2 'WITH u AS (UPDATE upsert SET k = 4, live = true WHERE id = 2) INSERT INTO upsert VALUES (5, 3, true)'
\endif
CREATE TABLE upsert (id int PRIMARY KEY, k int, live boolean);
CREATE INDEX ON upsert (k) WHERE live;
SELECT dedup_create('upsert_seen', dedup_filter(1, 0.5, 1));
SELECT dedup_guard('upsert', 'upsert_seen', '{k}', 'reject', exact => true, "where" => 'live');
INSERT INTO upsert VALUES (1, 1, true), (2, 1, false), (3, 2, false);
INSERT INTO upsert VALUES (2, 1, false) ON CONFLICT (id) DO UPDATE SET live = true;
INSERT INTO upsert VALUES (3, 9, false) ON CONFLICT (id) DO UPDATE SET live = true RETURNING *;
INSERT INTO upsert VALUES (1, 1, true) ON CONFLICT (id) DO UPDATE SET live = false RETURNING *;
INSERT INTO upsert VALUES (2, 1, false) ON CONFLICT (id) DO UPDATE SET live = true RETURNING *;
INSERT INTO upsert VALUES (4, 2, true) ON CONFLICT DO NOTHING;
INSERT INTO upsert VALUES (4, 2, false) ON CONFLICT DO NOTHING RETURNING *;
:merge_live;
:merge_k;
SELECT * FROM upsert ORDER BY id;
SELECT dedup_unguard('upsert');
TRUNCATE upsert, upsert_seen;
SELECT dedup_create('upsert_approximate', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('upsert', 'upsert_approximate', '{k}', 'reject', "where" => 'live');
INSERT INTO upsert VALUES (1, 1, true), (2, 1, false), (3, 2, false);
INSERT INTO upsert VALUES (2, 9, false) ON CONFLICT (id) DO UPDATE SET live = true;
INSERT INTO upsert VALUES (3, 9, false) ON CONFLICT (id) DO UPDATE SET live = true RETURNING *;
INSERT INTO upsert VALUES (4, 2, true);
:merge_2;
SELECT * FROM upsert ORDER BY id;
DROP TABLE upsert, upsert_seen, upsert_approximate;

-- Partitions with other attribute numbers and dropped columns; rows that move, and change the predicate on the way.
CREATE TABLE parts (id int, part int, k text, live boolean, x int) PARTITION BY LIST (part);
CREATE TABLE parts_1 (gone int, live boolean, x int, k text, gone2 text, part int, id int);
ALTER TABLE parts_1 DROP COLUMN gone, DROP COLUMN gone2;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2, 3) PARTITION BY LIST (part);
CREATE TABLE parts_2_2 (x int, gone int, part int, id int, k text, live boolean);
ALTER TABLE parts_2_2 DROP COLUMN gone;
ALTER TABLE parts_2 ATTACH PARTITION parts_2_2 FOR VALUES IN (2);
ALTER TABLE parts DROP COLUMN x;
CREATE INDEX ON parts (k);
SELECT dedup_create('parts_exact', dedup_filter(1, 0.5, 1));
SELECT dedup_create('parts_approximate', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('parts', 'parts_exact', '{k}', exact => true, "where" => 'live OR id > 100');
CREATE TABLE parts_2_3 PARTITION OF parts_2 FOR VALUES IN (3);
CREATE FUNCTION move_rows() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	result text;
BEGIN
	TRUNCATE parts;
	FOREACH statement IN ARRAY ARRAY[
		'INSERT INTO parts VALUES (1, 1, ''a'', true), (2, 2, ''a'', false), (3, 3, ''a'', true), (101, 2, ''b'', false), (102, 1, ''b'', false), (4, 1, ''b'', NULL)',
		'UPDATE parts SET part = 3 WHERE id IN (2, 4)', 'UPDATE parts SET part = 2, live = true WHERE id = 2', 'UPDATE parts SET part = 1, k = ''c'', live = true WHERE id = 2',
		'UPDATE parts SET part = 2, live = false WHERE id = 1', 'UPDATE parts SET part = 1, live = true WHERE id = 1', 'UPDATE parts SET part = 3 WHERE id = 1', 'INSERT INTO parts VALUES (5, 2, ''a'', true)',
		'UPDATE parts SET part = part % 3 + 1', 'UPDATE parts SET id = 104 WHERE id = 4', 'INSERT INTO parts_1 (id, part, k, live) VALUES (6, 1, ''a'', true)', 'INSERT INTO parts_2_3 (id, part, k, live) VALUES (7, 3, ''a'', false)'] LOOP
		BEGIN
			EXECUTE statement;
			GET DIAGNOSTICS result = ROW_COUNT;
		EXCEPTION WHEN OTHERS THEN
			result := SQLSTATE || ' ' || SQLERRM;
		END;
		RAISE WARNING '%: %', statement, result;
	END LOOP;
	RAISE WARNING '%', (SELECT string_agg(format('%s/%s/%s/%s', id, part, k, live), ' ' ORDER BY id) FROM parts);
END $$;
SELECT move_rows();
SELECT dedup_unguard('parts');
TRUNCATE parts;
SELECT dedup_guard('parts', 'parts_approximate', '{k}', "where" => 'live OR id > 100');
SELECT move_rows();
-- Renamed and dropped columns.
ALTER TABLE parts RENAME COLUMN live TO "is live";
ALTER TABLE parts RENAME COLUMN k TO "where";
\c -
SET client_min_messages = warning;
\set SHOW_CONTEXT never
INSERT INTO parts VALUES (8, 2, 'new', true), (9, 1, 'new', true), (10, 3, 'new', false) RETURNING id;
SELECT "table", columns, "where", partitions_guarded, partitions_unguarded, problem FROM dedup_guards WHERE "table" = 'parts'::regclass;
ALTER TABLE parts DROP COLUMN "is live";
\set VERBOSITY terse
ALTER TABLE parts ALTER COLUMN "is live" TYPE text;
ALTER TABLE parts ALTER COLUMN id TYPE bigint;
\set VERBOSITY default
ALTER TABLE parts ADD COLUMN first int;
ALTER TABLE parts DROP COLUMN first;
-- DETACH, ATTACH with rows.
ALTER TABLE parts DETACH PARTITION parts_1;
INSERT INTO parts_1 (id, part, "where", "is live") VALUES (11, 1, 'brought', true), (12, 1, 'brought', true), (13, 1, 'outside', false), (14, 1, 'brought too', true);
\pset format unaligned
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES IN (1);
\pset format aligned
SELECT dedup_unguard('parts');
ALTER TABLE parts DETACH PARTITION parts_1;
DELETE FROM parts;
SELECT dedup_guard('parts', 'parts_exact', '{where}', exact => true, "where" => '"is live" OR id > 100');
INSERT INTO parts VALUES (20, 2, 'brought', true);
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES IN (1);
UPDATE parts_1 SET "is live" = false WHERE id = 11;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES IN (1);
UPDATE parts_1 SET "is live" = false WHERE id = 12;
ALTER TABLE parts ATTACH PARTITION parts_1 FOR VALUES IN (1);
INSERT INTO parts VALUES (21, 2, 'brought too', true), (22, 2, 'outside', true) RETURNING id;
DROP TABLE parts, parts_exact, parts_approximate;
DROP FUNCTION move_rows;

-- Marks.
CREATE TABLE marks (id int, k int, live boolean, is_duplicate boolean);
CREATE INDEX ON marks (k);
SELECT dedup_create('marks_exact', dedup_filter(1, 0.5, 1));
SELECT dedup_create('marks_approximate', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('marks', 'marks_exact', '{k}', 'mark:is_duplicate', "where" => 'is_duplicate');
SELECT dedup_guard('marks', 'marks_exact', '{k}', 'mark:is_duplicate', "where" => 'live AND NOT is_duplicate');
SELECT dedup_guard('marks', 'marks_exact', '{k}', 'mark', exact => true, "where" => 'live');
INSERT INTO marks VALUES (1, 1, true, NULL), (2, 1, true, NULL), (3, 1, false, NULL), (4, 1, false, true) RETURNING id, is_duplicate;
UPDATE marks SET live = false WHERE id IN (1, 2) RETURNING id, is_duplicate;
UPDATE marks SET live = true WHERE id = 2 RETURNING id, is_duplicate;
UPDATE marks SET live = true WHERE id = 3 RETURNING id, is_duplicate;
UPDATE marks SET live = true WHERE id = 1 RETURNING id, is_duplicate;
SELECT dedup_unguard('marks');
TRUNCATE marks;
SELECT dedup_guard('marks', 'marks_approximate', '{k}', 'mark', "where" => 'live');
INSERT INTO marks VALUES (1, 1, true, NULL), (2, 1, true, NULL), (3, 1, false, NULL), (4, 1, false, true) RETURNING id, is_duplicate;
UPDATE marks SET live = false WHERE id IN (1, 2) RETURNING id, is_duplicate;
UPDATE marks SET live = true WHERE id = 2 RETURNING id, is_duplicate;
UPDATE marks SET live = true WHERE id = 3 RETURNING id, is_duplicate;
DROP TABLE marks, marks_exact, marks_approximate;

-- Triggers that fire after the guard's.
CREATE TABLE later (k int, live boolean, note text);
CREATE INDEX ON later (k);
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.note = 'in' THEN NEW.live := true; ELSIF NEW.note = 'out' THEN NEW.live := false; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER "~later" BEFORE INSERT OR UPDATE ON later FOR EACH ROW EXECUTE FUNCTION later();
SELECT dedup_create('later_exact', dedup_filter(1, 0.5, 1));
SELECT dedup_create('later_approximate', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('later', 'later_exact', '{k}', exact => true, "where" => 'live');
INSERT INTO later VALUES (1, false, 'in') RETURNING *;
INSERT INTO later VALUES (1, false, 'in');
INSERT INTO later VALUES (2, true, 'out');
INSERT INTO later VALUES (1, false, 'none') RETURNING *;
UPDATE later SET note = 'in' WHERE note = 'none';
UPDATE later SET note = 'out' WHERE note = 'in' RETURNING *;
UPDATE later SET note = 'in' WHERE note = 'none' RETURNING *;
SELECT dedup_unguard('later');
TRUNCATE later;
SELECT dedup_guard('later', 'later_approximate', '{k}', "where" => 'live');
INSERT INTO later VALUES (1, false, 'in');
INSERT INTO later VALUES (2, true, 'out');
INSERT INTO later VALUES (1, true, 'in'), (2, false, 'out') RETURNING *;
UPDATE later SET note = 'in' WHERE note = 'out';
UPDATE later SET note = 'out' WHERE note = 'in';
DROP TABLE later, later_exact, later_approximate;
DROP FUNCTION later;

-- Rows that were deleted or truncated in the same transaction.
CREATE TABLE again (k int, live boolean);
SELECT dedup_create('again_seen', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('again', 'again_seen', '{k}', "where" => 'live');
INSERT INTO again VALUES (1, true), (2, false), (3, true), (3, false);
BEGIN;
DELETE FROM again;
INSERT INTO again VALUES (1, true), (1, true), (2, true), (3, true), (3, true) RETURNING *;
COMMIT;
SET client_min_messages = error;
BEGIN;
TRUNCATE again;
INSERT INTO again VALUES (1, true), (1, true), (2, true), (3, true), (4, true), (4, false) RETURNING *;
COMMIT;
SET client_min_messages = warning;
INSERT INTO again VALUES (1, true), (2, true), (1, false) RETURNING *;
DROP TABLE again, again_seen;

-- Rows that land without the triggers, COPY, and loading.
CREATE TABLE lands (k int, live boolean);
CREATE INDEX ON lands (k);
SELECT dedup_create('lands_seen', dedup_filter(1, 0.5, 1));
SELECT dedup_guard('lands', 'lands_seen', '{k}', 'reject', exact => true, "where" => 'live');
SET session_replication_role = replica;
INSERT INTO lands VALUES (1, true), (1, false), (1, false);
INSERT INTO lands VALUES (1, true);
UPDATE lands SET live = NOT live;
RESET session_replication_role;
UPDATE lands SET live = false;
COPY lands FROM stdin;
2	t
2	f
3	\N
3	t
\.
COPY lands FROM stdin;
3	t
\.
SELECT * FROM lands ORDER BY k, live;
SELECT dedup_unguard('lands');
UPDATE lands SET live = true;
SELECT dedup_guard('lands', 'lands_seen', '{k}', 'reject', exact => true, "where" => 'live');
SELECT dedup_guard('lands', 'lands_seen', '{k}', 'reject', exact => true, load => false, "where" => 'NOT live');
SELECT dedup_unguard('lands');
UPDATE lands SET live = NULL WHERE ctid NOT IN (SELECT min(ctid) FROM lands GROUP BY k);
SELECT dedup_guard('lands', 'lands_seen', '{k}', 'reject', exact => true, "where" => 'live');
SELECT dedup_unguard('lands');
-- The statement of the WARNING loads those keys, whatever order the server calls functions in.
CREATE FUNCTION slowly(boolean) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 100000 AS 'BEGIN RETURN $1; END';
INSERT INTO lands VALUES (4, false), (5, NULL);
SELECT dedup_create('lands_approximate', dedup_filter(1000, 1e-9, 1));
SELECT dedup_guard('lands', 'lands_approximate', '{k}', "where" => 'slowly(live)');
SELECT count(*) FILTER (WHERE public.is_new('public.lands_approximate'::pg_catalog.regclass, k)) FROM public.lands WHERE slowly(live);
SELECT k, dedup_seen('lands_approximate', k) FROM generate_series(1, 5) k;
DROP TABLE lands, lands_seen, lands_approximate;
DROP FUNCTION slowly;
