-- Guards of live filters: a key counts only if its row was inserted, an UPDATE never loses a row, and rows sent =
-- rows stored + rows refused.

\set SHOW_CONTEXT never
\set QUIET on
CREATE SCHEMA live_guard_rows;
SET search_path = live_guard_rows, public;
SET client_min_messages = error;
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
CREATE FUNCTION seen(VARIADIC k int[]) RETURNS boolean[] LANGUAGE sql AS
	$$ SELECT array_agg(dedup_seen('f', x)) FROM unnest(k) x $$;
CREATE FUNCTION skip_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
SET client_min_messages = notice;
\set QUIET off

-- ---- ON CONFLICT ----

\set QUIET on
CREATE TABLE a (k int, u int UNIQUE, w text);
SET client_min_messages = error;
SELECT dedup_guard('a', 'f', '{k}') \gset
SET client_min_messages = notice;
\set QUIET off
INSERT INTO a VALUES (100, 100, 'first');

-- a row that DO NOTHING skips leaves no key; of one key in one statement the first that lands gets in

INSERT INTO a VALUES (1, 100, 'lost') ON CONFLICT DO NOTHING;
SELECT seen(1);
INSERT INTO a VALUES (1, 100, 'lost'), (1, 101, 'in'), (1, 102, 'dup'), (NULL, 100, 'lost'), (NULL, 103, 'in') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO a VALUES (2, 102, 'in'), (3, 102, 'lost'), (3, 100, 'lost'), (3, 104, 'in') ON CONFLICT (u) DO NOTHING RETURNING *;

-- DO UPDATE: the row that was to be inserted did not land either; what the update sets counts

INSERT INTO a VALUES (4, 100, 'lost') ON CONFLICT (u) DO UPDATE SET w = 'updated' RETURNING *;
INSERT INTO a VALUES (4, 100, 'lost') ON CONFLICT (u) DO UPDATE SET w = 'updated' WHERE false RETURNING *;
SELECT seen(4, 100);
INSERT INTO a VALUES (5, 100, 'lost') ON CONFLICT (u) DO UPDATE SET k = excluded.k RETURNING *;
SELECT seen(5, 100);
INSERT INTO a VALUES (6, 100, 'lost') ON CONFLICT (u) DO UPDATE SET k = 1;
SELECT seen(6, 1);
INSERT INTO a VALUES (6, 100, 'lost'), (6, 101, 'lost'), (6, 105, 'in'), (6, 106, 'dup') ON CONFLICT (u) DO UPDATE SET w = 'twice' RETURNING *;

-- a duplicate is left out before ON CONFLICT is asked: nothing is updated (the warning of dedup_guard)

INSERT INTO a VALUES (5, 100, 'dup') ON CONFLICT (u) DO UPDATE SET w = 'not updated' RETURNING *;
SELECT * FROM a WHERE u = 100;

-- the key is free at once in the same transaction, and when it ends in whatever way

BEGIN;
INSERT INTO a VALUES (10, 100, 'lost') ON CONFLICT DO NOTHING;
SELECT is_new('f', 10);
INSERT INTO a VALUES (10, 110, 'dup');
COMMIT;
BEGIN;
INSERT INTO a VALUES (11, 100, 'lost') ON CONFLICT DO NOTHING;
COMMIT;
BEGIN;
SAVEPOINT s;
INSERT INTO a VALUES (12, 100, 'lost') ON CONFLICT DO NOTHING;
RELEASE s;
INSERT INTO a VALUES (13, 100, 'lost') ON CONFLICT DO NOTHING;
SAVEPOINT s;
SELECT seen(13);
INSERT INTO a VALUES (13, 113, 'undone');
ROLLBACK TO s;
SELECT seen(12, 13);
COMMIT;
BEGIN;
INSERT INTO a VALUES (14, 100, 'lost'), (15, 115, 'in') ON CONFLICT DO NOTHING;
\set QUIET on
SELECT current_setting('max_prepared_transactions')::int > 0 AS can_prepare \gset
\if :can_prepare
PREPARE TRANSACTION 'live_guard_rows';
SELECT seen(14) AS prepared \gset
COMMIT PREPARED 'live_guard_rows';
\else
COMMIT;
SELECT seen(14) AS prepared \gset
\endif
\echo :prepared
\set QUIET off
BEGIN;
INSERT INTO a VALUES (16, 100, 'lost') ON CONFLICT DO NOTHING;
SET TRANSACTION READ ONLY;
COMMIT;
SELECT seen(11, 12, 13, 14, 15, 16);

-- a key whose row landed stays, whatever the transaction does to the row next

BEGIN;
INSERT INTO a VALUES (20, 120, 'in') ON CONFLICT DO NOTHING;
DELETE FROM a WHERE k = 20;
INSERT INTO a VALUES (21, 121, 'in') ON CONFLICT DO NOTHING;
UPDATE a SET u = 122 WHERE k = 21;
COMMIT;
BEGIN;
INSERT INTO a VALUES (22, 222, 'in') ON CONFLICT DO NOTHING;
TRUNCATE a;
COMMIT;
INSERT INTO a VALUES (101, 101, 'first');
BEGIN;
INSERT INTO a VALUES (23, 101, 'lost'), (24, 124, 'in') ON CONFLICT DO NOTHING;
DROP TABLE a;
COMMIT;
SELECT seen(20, 21, 22, 23, 24);

-- stored were 100, 1, 2, 3, 5 (by update), 6, 15, 20, 21, 22, 101, 24; new besides is 10; skipped 1, 6, 5, 10

SELECT new, duplicate, skipped, rejected, marked, in_flight, count FROM dedup_stats('f');
TRUNCATE f;

-- exclusion and deferred constraints; a failure at COMMIT takes the keys along

\set QUIET on
CREATE TABLE a (k int, r int4range, u int UNIQUE DEFERRABLE INITIALLY DEFERRED, EXCLUDE USING gist (r WITH &&));
SET client_min_messages = error;
SELECT dedup_guard('a', 'f', '{k}') \gset
SET client_min_messages = notice;
\set QUIET off
INSERT INTO a VALUES (1, '[1,5)', 1), (2, '[2,3)', 2), (2, '[7,8)', 2) ON CONFLICT ON CONSTRAINT a_r_excl DO NOTHING RETURNING *;
INSERT INTO a VALUES (3, NULL, 3), (4, NULL, 3);
SELECT seen(1, 2, 3, 4);
DROP TABLE a;

-- a row that is in the table, and in the guard index, before it conflicts, and is killed there:
-- the expression of its unique index puts in a rival after the search for conflicts

\set QUIET on
CREATE TABLE a (k int, u int);
CREATE SEQUENCE asked;
CREATE FUNCTION rival() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('asked') = 2 THEN INSERT INTO a VALUES (2, 5); END IF;
END $$;
CREATE FUNCTION same(u int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM rival(); RETURN u; END $$;
CREATE UNIQUE INDEX ON a (same(u));
SET client_min_messages = error;
SELECT dedup_guard('a', 'f', '{k}') \gset
SET client_min_messages = notice;
TRUNCATE f;
\set QUIET off
INSERT INTO a VALUES (1, 5) ON CONFLICT DO NOTHING RETURNING *;
SELECT * FROM a;
SELECT seen(1, 2);
ALTER SEQUENCE asked RESTART;
BEGIN;
DELETE FROM a;
SELECT dedup_forget('f', 2);
INSERT INTO a VALUES (1, 5), (1, 6), (1, 7) ON CONFLICT DO NOTHING RETURNING *;
COMMIT;
SELECT * FROM a ORDER BY u;
SELECT new, skipped, in_flight, count FROM dedup_stats('f');
\set QUIET on
DROP TABLE a;
DROP FUNCTION same, rival;
DROP SEQUENCE asked;
TRUNCATE f;
\set QUIET off

-- ---- later triggers, constraints ----

\set QUIET on
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE a (k int, w text NOT NULL CHECK (w <> 'bad'), p int REFERENCES parent DEFERRABLE);
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.w = 'out' THEN RETURN NULL; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER "~later" BEFORE INSERT OR UPDATE ON a FOR EACH ROW EXECUTE FUNCTION later();
SELECT dedup_guard('a', 'f', '{k}') \gset
\set QUIET off

-- a later BEFORE trigger leaves the row out

INSERT INTO a VALUES (1, 'out'), (1, 'in'), (1, 'dup'), (2, 'out') RETURNING k, w;
SELECT seen(1, 2);
BEGIN;
INSERT INTO a VALUES (3, 'out');
INSERT INTO a SELECT 3, 'in ' || i FROM generate_series(1, 3) i RETURNING k, w;
COMMIT;
COPY a (k, w) FROM STDIN;
4	out
4	in
4	dup
5	out
\.
SELECT seen(4, 5);

-- a constraint fails, in a savepoint or an exception block; then the key is new

BEGIN;
INSERT INTO a VALUES (6, 'in');
SAVEPOINT s;
INSERT INTO a VALUES (7, 'in'), (8, 'bad');
ROLLBACK TO s;
INSERT INTO a VALUES (7, NULL);
ROLLBACK TO s;
INSERT INTO a VALUES (7, 'in', 1);
ROLLBACK TO s;
SELECT seen(6, 7, 8);
INSERT INTO a VALUES (8, 'retry'), (7, 'retry');
COMMIT;
DO $$
BEGIN
	FOR i IN 1..6 LOOP
		BEGIN
			INSERT INTO a VALUES (10 + i / 2, CASE WHEN i % 2 = 0 THEN 'bad' ELSE 'in ' || i END);
		EXCEPTION WHEN check_violation THEN
			RAISE NOTICE '% failed, key % is %', i, 10 + i / 2, CASE WHEN dedup_seen('f', 10 + i / 2) THEN 'seen' ELSE 'new' END;
		END;
	END LOOP;
END $$;
SELECT k, w FROM a WHERE k >= 6 ORDER BY k;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO a VALUES (20, 'in', 1);
COMMIT;
SELECT seen(20);
SELECT k, w FROM a WHERE k = 20;

-- through a view that checks

CREATE VIEW v AS SELECT * FROM a WHERE w <> 'hidden' WITH CHECK OPTION;
INSERT INTO v VALUES (21, 'in'), (21, 'dup') RETURNING k, w;
INSERT INTO v VALUES (22, 'hidden');
SELECT seen(21, 22);

-- stored: 1, 3, 4, 6, 8, 7, 10, 11, 12, 21

SELECT new, duplicate, skipped, rejected, marked, in_flight, count FROM dedup_stats('f');
\set QUIET on
DROP VIEW v;
DROP TABLE a, parent;
TRUNCATE f;
\set QUIET off

-- ---- nested statements ----

-- Between the guard and the table a later trigger, then a constraint, write to the same
-- table themselves. The outer row's key is its own affair.

\set QUIET on
CREATE TABLE n (k int, who text, u int UNIQUE);
CREATE FUNCTION inner_rows(k int, who text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF who IN ('outer', 'lost') THEN
		INSERT INTO n VALUES (k + 100, 'inner'), (k + 100, 'inner dup'), (NULL, 'inner null');
		UPDATE n SET k = NULL, who = 'inner updated' WHERE n.k = inner_rows.k + 100;
		PERFORM is_new('f', k + 200);
		INSERT INTO n VALUES (k + 300, 'inner lost', 0) ON CONFLICT DO NOTHING;
		BEGIN
			INSERT INTO n VALUES (k + 400, 'inner undone');
			RAISE 'undo';
		EXCEPTION WHEN raise_exception THEN
		END;
	END IF;
	RETURN true;
END $$;
CREATE FUNCTION later_with_inner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM inner_rows(NEW.k, NEW.who);
	IF NEW.who = 'lost' THEN RETURN NULL; END IF;
	RETURN NEW;
END $$;
SET client_min_messages = error;
SELECT dedup_guard('n', 'f', '{k}') \gset
SET client_min_messages = notice;
INSERT INTO n VALUES (0, 'zero', 0);
CREATE TRIGGER "~later" BEFORE INSERT ON n FOR EACH ROW EXECUTE FUNCTION later_with_inner();
\set QUIET off

INSERT INTO n VALUES (1, 'outer'), (1, 'outer'), (2, 'lost'), (2, 'outer'), (3, 'lost');
SELECT * FROM n ORDER BY k, who;
SELECT i, seen(i, 100 + i, 200 + i, 300 + i, 400 + i) FROM generate_series(1, 3) i;

-- sent: 1 + 5 outer and 4 times 4 inner rows that were not rolled back, without 2 outer and 4 inner ones that were lost

SELECT 1 + 5 + 4 * 4 - 2 - 4 AS sent, (SELECT count(*) FROM n) AS stored, skipped AS refused, in_flight FROM dedup_stats('f');

-- in a constraint, where the outer row's fate is open still, with ON CONFLICT

\set QUIET on
DROP TRIGGER "~later" ON n;
TRUNCATE n, f;
INSERT INTO n VALUES (0, 'zero', 0);
ALTER TABLE n ADD CHECK (inner_rows(k, who));
\set QUIET off
INSERT INTO n VALUES (1, 'outer', 0), (1, 'outer', 1), (2, 'outer', 1), (3, 'outer', 3) ON CONFLICT DO NOTHING;
SELECT * FROM n ORDER BY k, who;
SELECT i, seen(i, 100 + i, 200 + i, 300 + i, 400 + i) FROM generate_series(1, 3) i;
SELECT new, skipped, in_flight FROM dedup_stats('f');
\set QUIET on
DROP TABLE n;
DROP FUNCTION later_with_inner, inner_rows;
TRUNCATE f;

-- functions in the query that feeds the INSERT, and in RETURNING, which sees the row landed

CREATE TABLE n (k int, who text);
SELECT dedup_guard('n', 'f', '{k}') \gset
CREATE FUNCTION add(k int, who text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO n VALUES (k, who); RETURN k; END $$;
\set QUIET off
INSERT INTO n SELECT add(i / 2, 'inner') + 100, 'outer' FROM generate_series(2, 5) i RETURNING k, add(k, 'returning'), add(k + 100, 'returning');
SELECT * FROM n ORDER BY k;
\set QUIET on
DROP TABLE n;
DROP FUNCTION add;
TRUNCATE f;
\set QUIET off

-- ---- two tables with one filter, in one statement ----

-- of 1 to 4 the first table takes 1 and 2; 3 and 4 are by then in the second

\set QUIET on
CREATE TABLE c1 (k int);
CREATE TABLE c2 (k int, u int UNIQUE);
SET client_min_messages = error;
SELECT dedup_guard('c1', 'f', '{k}') \gset
SELECT dedup_guard('c2', 'f', '{k}') \gset
SET client_min_messages = notice;
\set QUIET off
WITH x AS (INSERT INTO c1 SELECT i FROM generate_series(1, 4) i RETURNING k)
INSERT INTO c2 SELECT k + 2, k + 2 FROM x RETURNING k;
SELECT k FROM c1 ORDER BY k;
WITH x AS (INSERT INTO c1 VALUES (11), (12), (11) RETURNING k), y AS (INSERT INTO c2 SELECT k + 10, 1 FROM x ON CONFLICT DO NOTHING RETURNING k)
SELECT (SELECT array_agg(k) FROM x) AS x, (SELECT array_agg(k) FROM y) AS y;
SELECT seen(11, 12, 21, 22);
SELECT (SELECT count(*) FROM c1) + (SELECT count(*) FROM c2) AS stored, new, skipped, in_flight FROM dedup_stats('f');
\set QUIET on
DROP TABLE c1, c2;
TRUNCATE f;
\set QUIET off

-- ---- COPY, prepared statements, cursors, procedures that commit ----

\set QUIET on
CREATE TABLE a (k int PRIMARY KEY, w text DEFAULT 'default');
SET client_min_messages = error;
SELECT dedup_guard('a', 'f', '{k}') \gset
SET client_min_messages = notice;
\set QUIET off
COPY a FROM STDIN;
1	copied
2	copied
1	dup
\.
COPY a (k) FROM STDIN WITH (FORMAT csv);
2
3
4
four
\.
SELECT seen(3, 4);
COPY a (k) FROM STDIN WITH (FORMAT csv);
2
3
4
\.
PREPARE add(int, text) AS INSERT INTO a VALUES ($1, $2) RETURNING *;
EXECUTE add(5, 'p');
EXECUTE add(5, 'dup');
EXECUTE add(6, 'p');
EXECUTE add(7, 'p');
EXECUTE add(8, 'p');
EXECUTE add(9, 'p');
EXECUTE add(9, 'dup');
EXECUTE add(10, 'p');
DEALLOCATE add;
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM a ORDER BY k;
FETCH 1 FROM c;
INSERT INTO a VALUES (10, 'dup'), (11, 'in');
MOVE ALL IN c;
COMMIT;
CREATE PROCEDURE each(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first..last LOOP
		INSERT INTO a VALUES (i / 2, 'procedure') ON CONFLICT DO NOTHING;
		IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CALL each(40, 49);
SELECT array_agg(k ORDER BY k) FROM a WHERE w = 'procedure';
SELECT (SELECT count(*) FROM a) AS stored, new, skipped, in_flight FROM dedup_stats('f');
\set QUIET on
DROP PROCEDURE each;
DROP TABLE a;
TRUNCATE f;
\set QUIET off

-- ---- updates that change the key ----

\set QUIET on
CREATE TABLE a (k int, n int);
SELECT dedup_guard('a', 'f', '{k}') \gset
INSERT INTO a VALUES (1, 0), (2, 0), (3, 0);
\set QUIET off

-- a new key counts and the old one stays seen; that the key is seen is an error, never a skip

UPDATE a SET n = 1;
UPDATE a SET k = k, n = 2;
UPDATE a SET k = 4 WHERE k = 3 RETURNING *;
UPDATE a SET k = 5 WHERE k = 4 RETURNING *;
UPDATE a SET k = 1 WHERE k = 5;
UPDATE a SET k = 3 WHERE k = 5;
UPDATE a SET k = 6;
SELECT * FROM a ORDER BY k;
SELECT seen(3, 4, 5, 6);

-- to NULL and back; many at once, each onto a new key

UPDATE a SET k = NULL WHERE k = 5;
UPDATE a SET k = 7 WHERE k IS NULL;
UPDATE a SET k = k + 100;
SELECT * FROM a ORDER BY k;

-- an update that does not come about leaves no key

\set QUIET on
CREATE TRIGGER "~skip" BEFORE UPDATE ON a FOR EACH ROW WHEN (NEW.n = 99) EXECUTE FUNCTION skip_row();
ALTER TABLE a ADD CHECK (n <> 98);
\set QUIET off
UPDATE a SET k = 8, n = 99 WHERE k = 101;
UPDATE a SET k = 8, n = 98 WHERE k = 101;
SELECT seen(8);
UPDATE a SET k = 8 WHERE k = 101 RETURNING *;
BEGIN;
UPDATE a SET k = 9 WHERE k = 8;
ROLLBACK;
SELECT seen(9);

-- three errors; and keys that were new: 1 to 5, 7, 101, 102, 107, 8

SELECT new, skipped, rejected, marked, in_flight FROM dedup_stats('f');
\set QUIET on
DROP TABLE a;
TRUNCATE f;
\set QUIET off

-- ---- updates that move a row to another partition: never lost ----

\set QUIET on
CREATE TABLE m (k int, part int, who text) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
CREATE TABLE m3 (who text, k int, part int);
ALTER TABLE m ATTACH PARTITION m3 FOR VALUES IN (3);
SELECT dedup_guard('m', 'f', '{k}') \gset
CREATE FUNCTION rows_of_m() RETURNS TABLE (partition regclass, k int, who text) LANGUAGE sql AS
	$$ SELECT tableoid::regclass, k, who FROM m ORDER BY k, tableoid::regclass::text $$;
INSERT INTO m VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (NULL, 1, 'null');
\set QUIET off

-- the key unchanged: no question asked, and still a duplicate for others

UPDATE m SET part = part % 3 + 1;
SELECT * FROM rows_of_m();
INSERT INTO m VALUES (1, 1, 'dup'), (2, 2, 'dup'), (3, 3, 'dup');
UPDATE m SET part = 1;
UPDATE m SET part = part + (k > 1)::int WHERE k IS NOT NULL;
SELECT * FROM rows_of_m();

-- the key changed: a new one counts, a seen one is 23505 and the row stays

UPDATE m SET part = 3, k = 4 WHERE k = 1 RETURNING *;
UPDATE m SET part = 1, k = 2 WHERE k = 4;
UPDATE m SET part = 1, k = 1 WHERE k = 4;
UPDATE m SET part = 3 - part, k = 5 WHERE part < 3;
SELECT * FROM rows_of_m();
SELECT seen(1, 4, 5);
UPDATE m SET part = 2, k = NULL WHERE k = 4;
UPDATE m SET part = 3, k = 5 WHERE k IS NULL AND who = 'a';
SELECT * FROM rows_of_m();

-- no partition fits: for the row that comes, and for the one that moves

INSERT INTO m VALUES (6, 6, 'x');
UPDATE m SET part = 6, k = 6 WHERE k = 5;
INSERT INTO m VALUES (7, 1, 'x'), (6, 6, 'x');
SELECT seen(6, 7);

-- moved there and back in one transaction, and undone

BEGIN;
UPDATE m SET part = 1 WHERE k = 5;
SAVEPOINT s;
UPDATE m SET part = 2, k = 8 WHERE k = 5;
ROLLBACK TO s;
UPDATE m SET part = 3 WHERE k = 5;
UPDATE m SET part = 2, k = 9 WHERE k = 5;
ROLLBACK;
SELECT * FROM rows_of_m();
SELECT seen(8, 9);

-- a trigger of the destination changes the key

\set QUIET on
CREATE FUNCTION add_100() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.k = NEW.k + 100; RETURN NEW; END $$;
CREATE TRIGGER add_100 BEFORE INSERT ON m1 FOR EACH ROW EXECUTE FUNCTION add_100();
\set QUIET off
UPDATE m SET part = 1 WHERE k = 5 RETURNING *;
INSERT INTO m VALUES (11, 3, 'd'), (111, 3, 'e');
UPDATE m SET part = 1 WHERE k = 11;
UPDATE m SET part = 1, k = 10 WHERE k = 11 RETURNING *;
SELECT seen(10, 105, 110);
\set QUIET on
DROP TRIGGER add_100 ON m1;
\set QUIET off

-- a trigger keeps the row where it is: no new key

\set QUIET on
CREATE TRIGGER stay BEFORE DELETE ON m3 FOR EACH ROW EXECUTE FUNCTION skip_row();
\set QUIET off
UPDATE m SET part = 1, k = 12 WHERE k = 111;
SELECT seen(12);
\set QUIET on
DROP TRIGGER stay ON m3;
\set QUIET off

-- a trigger of the destination other than the guard's leaves the row out: that is lost, as without a guard, and its new key is free

\set QUIET on
CREATE TRIGGER "~skip" BEFORE INSERT ON m2 FOR EACH ROW EXECUTE FUNCTION skip_row();
\set QUIET off
UPDATE m SET part = 2, k = 12 WHERE k = 111;
SELECT seen(12, 111);
\set QUIET on
DROP TRIGGER "~skip" ON m2;
\set QUIET off
SELECT * FROM rows_of_m();

-- a key that was deleted by an earlier transaction stays seen; the query that deletes a row may insert it again, once

DELETE FROM m WHERE k = 2;
INSERT INTO m VALUES (2, 2, 'dup');
WITH d AS (DELETE FROM m WHERE k = 3 RETURNING k) INSERT INTO m SELECT k, i, 'moved ' || i FROM d, generate_series(1, 3) i RETURNING *;

-- a unique index of its own, by partition, and ON CONFLICT

\set QUIET on
CREATE UNIQUE INDEX ON m (who, part);
\set QUIET off
INSERT INTO m VALUES (20, 1, 'null') ON CONFLICT DO NOTHING;
INSERT INTO m VALUES (20, 1, 'null') ON CONFLICT (who, part) DO UPDATE SET part = m.part;
SELECT seen(20);
INSERT INTO m VALUES (20, 1, 'null') ON CONFLICT (who, part) DO UPDATE SET k = excluded.k RETURNING *;
INSERT INTO m VALUES (21, 2, 'null');
UPDATE m SET part = 1, k = 22 WHERE k = 21;
SELECT seen(22);
SELECT * FROM rows_of_m();

-- the same in the other modes: only the INSERT differs

\set QUIET on
TRUNCATE m, f;
SELECT dedup_unguard('m') \gset
SELECT dedup_guard('m', 'f', '{k}', 'reject') \gset
INSERT INTO m VALUES (1, 1, 'a'), (2, 2, 'b');
\set QUIET off
INSERT INTO m VALUES (1, 2, 'c');
UPDATE m SET part = 3 - part;
UPDATE m SET part = 3, k = 2 WHERE k = 1;
UPDATE m SET part = 3, k = 3 WHERE k = 1;
SELECT * FROM rows_of_m();
\set QUIET on
SELECT dedup_unguard('m') \gset
ALTER TABLE m ADD is_duplicate boolean;
SELECT dedup_guard('m', 'f', '{k}', 'mark') \gset
\set QUIET off
INSERT INTO m VALUES (4, 1, 'd'), (4, 2, 'e'), (3, 2, 'f') RETURNING *;
UPDATE m SET part = 3 - part WHERE part < 3;
UPDATE m SET part = 1, k = 5 WHERE who = 'f';
UPDATE m SET part = 3, k = 2 WHERE who = 'f';
SELECT tableoid::regclass AS partition, k, who, is_duplicate FROM m ORDER BY who;
COPY m (k, part, who) FROM STDIN;
5	1	g
6	2	h
6	3	i
\.
SELECT k, who, is_duplicate FROM m WHERE who > 'f' ORDER BY who;
SELECT new, skipped, rejected, marked, in_flight FROM dedup_stats('f');
\set QUIET on
SELECT dedup_unguard('m') \gset
TRUNCATE m, f;
ALTER TABLE m DROP is_duplicate;
DROP INDEX m_who_part_idx;
SELECT dedup_guard('m', 'f', '{k}') \gset
INSERT INTO m VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 1, 'd'), (5, 2, 'e');

-- ---- MERGE; before PostgreSQL 15 what it comes to, by other statements ----

-- new rows in, duplicates left out, a row moved, a row deleted and inserted again

SELECT current_setting('server_version_num')::int >= 150000 AS has_merge \gset
\if :has_merge
MERGE INTO m USING (VALUES (1, 3), (6, 1), (6, 1), (2, 2), (5, 2), (5, 3)) s (k, part) ON m.k = s.k AND m.part = s.part
	WHEN MATCHED AND m.k = 5 THEN DELETE
	WHEN MATCHED THEN UPDATE SET part = 3, who = 'moved'
	WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.part, 'merged');
\else
BEGIN;
UPDATE m SET part = 3, who = 'moved' WHERE k = 2;
DELETE FROM m WHERE k = 5;
INSERT INTO m VALUES (1, 3, 'merged'), (6, 1, 'merged'), (6, 1, 'merged'), (5, 3, 'merged');
COMMIT;
\endif
SELECT * FROM rows_of_m();
SELECT new, skipped, in_flight FROM dedup_stats('f');

-- a key that is changed to a seen one is an error; to a new one it counts

\if :has_merge
\set to_seen 'MERGE INTO m USING (VALUES (1), (6)) s (k) ON m.k = s.k WHEN MATCHED THEN UPDATE SET k = 4, part = 2'
\set to_new 'MERGE INTO m USING (VALUES (1), (6)) s (k) ON m.k = s.k WHEN MATCHED THEN UPDATE SET k = m.k + 10, part = 2'
\else
\set to_seen 'UPDATE m SET k = 4, part = 2 WHERE k IN (1, 6)'
\set to_new 'UPDATE m SET k = k + 10, part = 2 WHERE k IN (1, 6)'
\endif
:to_seen;
:to_new;
SELECT * FROM rows_of_m();

-- ---- the other modes and ON CONFLICT ----

-- reject: only a row that would land can be a duplicate; mark: DO UPDATE updates

DROP TABLE m;
TRUNCATE f;
CREATE TABLE a (k int, u int UNIQUE, w text, is_duplicate boolean);
SELECT dedup_guard('a', 'f', '{k}', 'reject') \gset
INSERT INTO a VALUES (1, 1, 'in'), (2, 2, 'in');
\set QUIET off
INSERT INTO a VALUES (3, 1, 'lost'), (3, 2, 'lost') ON CONFLICT DO NOTHING;
INSERT INTO a VALUES (3, 1, 'lost'), (3, 3, 'in') ON CONFLICT DO NOTHING;
INSERT INTO a VALUES (4, 4, 'undone'), (3, 5, 'dup') ON CONFLICT DO NOTHING;
SELECT seen(3, 4);
\set QUIET on
SELECT dedup_unguard('a') \gset
SELECT dedup_guard('a', 'f', '{k}', 'mark') \gset
\set QUIET off
INSERT INTO a VALUES (1, 1, 'in') ON CONFLICT (u) DO UPDATE SET w = 'updated' RETURNING *;
INSERT INTO a VALUES (5, 1, 'in') ON CONFLICT (u) DO UPDATE SET w = 'updated again' RETURNING *;
INSERT INTO a VALUES (5, 5, 'in'), (5, 6, 'in') ON CONFLICT (u) DO UPDATE SET w = 'updated' RETURNING *;
SELECT * FROM a ORDER BY u;
\set QUIET on
DROP TABLE a;
TRUNCATE f;

-- ---- rows whose fate is known late, subtransactions that are undone ----

-- the table is rewritten before the transaction ends: the row that landed is in another place

CREATE TABLE a (k int, u int UNIQUE, w text);
CREATE TABLE b (k int);
SET client_min_messages = error;
SELECT dedup_create('other', dedup_filter(1000, 1e-6, 42)) \gset
SELECT dedup_guard('a', 'f', '{k}') \gset
SELECT dedup_guard('b', 'other', '{k}') \gset
SET client_min_messages = notice;
INSERT INTO a SELECT i, i FROM generate_series(1, 100) i;
DELETE FROM a WHERE k <= 90;
BEGIN;
INSERT INTO a VALUES (200, 200) ON CONFLICT DO NOTHING;
ALTER TABLE a ALTER w TYPE varchar(10);
COMMIT;
\set QUIET off
INSERT INTO a VALUES (200, 201) ON CONFLICT DO NOTHING RETURNING *;

-- the filter is truncated, or dropped, by a subtransaction that is undone, or not, before a lost row's key is taken back

BEGIN;
INSERT INTO a VALUES (301, 100) ON CONFLICT DO NOTHING;
SAVEPOINT s;
TRUNCATE f;
INSERT INTO b VALUES (1);
ROLLBACK TO s;
COMMIT;
BEGIN;
INSERT INTO a VALUES (302, 100) ON CONFLICT DO NOTHING;
SAVEPOINT s;
\set QUIET on
DROP TABLE f CASCADE;
\set QUIET off
INSERT INTO b VALUES (2);
ROLLBACK TO s;
COMMIT;
SELECT seen(301, 302, 200);
BEGIN;
INSERT INTO a VALUES (303, 100) ON CONFLICT DO NOTHING;
SAVEPOINT s;
TRUNCATE f;
INSERT INTO b VALUES (3);
INSERT INTO a VALUES (303, 303) RETURNING *;
RELEASE s;
COMMIT;
SELECT seen(303, 200), new, skipped, in_flight FROM dedup_stats('f');
\set QUIET on
DROP TABLE a, b, other;
TRUNCATE f;

-- an SQL function whose INSERT fails, called by an expression of PL/pgSQL, leaves its query's memory behind

CREATE TABLE a (k int, w text);
CREATE FUNCTION add_bad(k int) RETURNS int LANGUAGE sql AS $$ INSERT INTO a VALUES (k + 1000, 'bad') RETURNING k $$;
CREATE FUNCTION is_good(k int, w text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	x int;
BEGIN
	IF w = 'bad' THEN RETURN false; END IF;
	BEGIN
		x := add_bad(k);
	EXCEPTION WHEN check_violation THEN
	END;
	RETURN true;
END $$;
ALTER TABLE a ADD CHECK (is_good(k, w));
SELECT dedup_guard('a', 'f', '{k}') \gset
INSERT INTO a VALUES (1, 'in');
\set QUIET off
INSERT INTO a VALUES (1, 'dup'), (2, 'in');
SELECT seen(1, 2, 1001), a.* FROM a ORDER BY k;
\set QUIET on
DROP TABLE a;
TRUNCATE f;

-- ---- rows that only seem to move, or seem not to ----

-- what a query deletes it may insert again, once and under the same key; what it moves it has not deleted

CREATE TABLE m (k int, part int) PARTITION BY LIST (part);
CREATE TABLE m1 PARTITION OF m FOR VALUES IN (1);
CREATE TABLE m2 PARTITION OF m FOR VALUES IN (2);
SELECT dedup_guard('m', 'f', '{k}') \gset
INSERT INTO m VALUES (1, 1), (2, 1), (3, 2), (4, 2);
\set QUIET off
WITH d AS (DELETE FROM m WHERE k = 1 RETURNING k) INSERT INTO m SELECT k + 1, 2 FROM d RETURNING *;
WITH d AS (DELETE FROM m WHERE k = 2 RETURNING k) INSERT INTO m SELECT k, 2 FROM d RETURNING *;
WITH u AS (UPDATE m SET part = 1 WHERE k = 3 RETURNING k) INSERT INTO m SELECT k, 2 FROM u RETURNING *;

-- a row of a partition whose guard is disabled is not lost when it moves

ALTER TABLE m2 DISABLE TRIGGER USER;
UPDATE m SET part = 1 WHERE k = 4;
SELECT * FROM m ORDER BY k;
ALTER TABLE m2 ENABLE TRIGGER USER;
UPDATE m SET part = 1 WHERE k = 4 RETURNING *;
\set QUIET on
DROP TABLE m;
TRUNCATE f;

-- ---- rows sent = rows stored + rows refused ----

-- 2000 rows with 653 keys, every tenth undone, every tenth moved: 1800 are sent; in mode reject also
-- those that are refused before they could be undone, which are all after the first 653

CREATE TABLE c (k int, part int, is_duplicate boolean) PARTITION BY LIST (part);
CREATE TABLE c1 PARTITION OF c FOR VALUES IN (1);
CREATE TABLE c2 PARTITION OF c FOR VALUES IN (2);
CREATE TABLE c3 PARTITION OF c FOR VALUES IN (3);
CREATE FUNCTION send() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	sent int := 0;
BEGIN
	FOR i IN 1..2000 LOOP
		BEGIN
			INSERT INTO c VALUES (i * 7 % 653, 1 + i % 3);
			IF i % 10 = 0 THEN RAISE 'undo'; END IF;
			IF i % 10 = 1 THEN UPDATE c SET part = 1 + part % 3 WHERE k = i * 7 % 653; END IF;
			sent := sent + 1;
		EXCEPTION
			WHEN unique_violation THEN sent := sent + 1;
			WHEN raise_exception THEN
		END;
	END LOOP;
	RETURN sent;
END $$;
SELECT dedup_guard('c', 'f', '{k}', 'skip') \gset
SELECT send() AS sent \gset
\set QUIET off
SELECT :sent AS sent, count(*) AS stored, count(DISTINCT k) AS keys, skipped AS refused, :sent = count(*) + skipped AS equal FROM c, dedup_stats('f') GROUP BY skipped;
\set QUIET on
TRUNCATE c, f;
SELECT dedup_unguard('c') \gset
SELECT dedup_guard('c', 'f', '{k}', 'reject') \gset
SELECT send() AS sent \gset
\set QUIET off
SELECT :sent AS sent, count(*) AS stored, count(DISTINCT k) AS keys, rejected AS refused, :sent = count(*) + rejected AS equal FROM c, dedup_stats('f') GROUP BY rejected;
\set QUIET on
TRUNCATE c, f;
SELECT dedup_unguard('c') \gset
SELECT dedup_guard('c', 'f', '{k}', 'mark') \gset
SELECT send() AS sent \gset
\set QUIET off
SELECT :sent AS sent, count(*) AS stored, count(DISTINCT k) AS keys, marked, count(*) FILTER (WHERE is_duplicate) = marked AS equal, count(*) FILTER (WHERE NOT is_duplicate) = new AS new_equal FROM c, dedup_stats('f') GROUP BY marked, new;
SELECT in_flight FROM dedup_stats('f');
SELECT * FROM dedup_check('f');

-- rows that are marked count only if they land: of (1, 1), (1, 2), (2, 1) the second does
\set QUIET on
TRUNCATE f;
CREATE TABLE marked (k int, u int UNIQUE, is_duplicate boolean);
SELECT dedup_guard('marked', 'f', '{k}', 'mark') \gset
INSERT INTO marked VALUES (1, 1);
\set QUIET off
INSERT INTO marked VALUES (1, 1), (1, 2), (2, 1) ON CONFLICT DO NOTHING RETURNING *;
SELECT new, marked FROM dedup_stats('f');

-- a query that deletes from one guarded table and inserts into another moves no row: the
-- other's filter decides, by its mode
\set QUIET on
SELECT dedup_create('g', dedup_filter(100000, 1e-6, 42)) \gset
CREATE TABLE hot (k int, part int) PARTITION BY LIST (part);
CREATE TABLE hot1 PARTITION OF hot FOR VALUES IN (1);
SELECT dedup_guard('hot', 'f', '{k}') \gset
CREATE TABLE archive (k int, part int);
SELECT dedup_guard('archive', 'g', '{k}') \gset
INSERT INTO hot VALUES (11, 1), (12, 1), (13, 1);
INSERT INTO archive VALUES (12, 1);
\set QUIET off
WITH d AS (DELETE FROM hot RETURNING *) INSERT INTO archive SELECT * FROM d RETURNING *;
SELECT new, skipped FROM dedup_stats('g');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA live_guard_rows CASCADE;
