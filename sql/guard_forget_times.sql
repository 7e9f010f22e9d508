-- on_delete => 'forget' with the rows' own times: keys go by the newest row, as rows are judged, and
-- not by the clock. All times here are years behind the clock. A ttl of 7 days has generations of a
-- day: a row is judged unless it is more than 7 days older than the newest row.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS guard_forget_times CASCADE;
CREATE SCHEMA guard_forget_times;
SET search_path = guard_forget_times, public;
SET timezone = 'UTC';

-- A day of 2020.
CREATE FUNCTION day(n int) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$ SELECT timestamptz '2020-01-01 12:00+00' + n * interval '24 hours' $$;

CREATE TABLE t (k int, at timestamptz, v text);
CREATE TABLE p (k int, at timestamptz, v text) PARTITION BY RANGE (at);
CREATE TABLE p_old PARTITION OF p FOR VALUES FROM (MINVALUE) TO (day(10));
CREATE TABLE p_new PARTITION OF p FOR VALUES FROM (day(10)) TO (day(100));
CREATE TABLE p_rest PARTITION OF p DEFAULT;
SELECT dedup_create('t_seen', dedup_window(100000, 1e-6, 1), ttl => '7 days');
SELECT dedup_create('p_seen', dedup_filter(seed => 1), ttl => '7 days');
SELECT dedup_guard('t', 't_seen', '{k}', at => 'at', on_delete => 'forget');
SELECT dedup_guard('p', 'p_seen', '{k}', at => 'at', on_delete => 'forget');

-- Inserts a row into both tables. Says where it lands.
CREATE FUNCTION land(k int, n int, v text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	landed text = '';
	rows int;
BEGIN
	INSERT INTO t VALUES (k, day(n), v);
	GET DIAGNOSTICS rows = ROW_COUNT;
	landed = landed || repeat('t', rows);
	INSERT INTO p VALUES (k, day(n), v);
	GET DIAGNOSTICS rows = ROW_COUNT;
	RETURN landed || repeat('p', rows);
END $$;

-- DELETE, in this transaction and in others
SELECT land(1, 0), land(1, 7) AS duplicate;
DELETE FROM t;
DELETE FROM p;
SELECT land(1, 0), land(1, 1) AS duplicate;
BEGIN;
DELETE FROM t;
DELETE FROM p;
SELECT land(1, 1);
DELETE FROM t;
DELETE FROM p;
COMMIT;
SELECT land(1, 0), land(1, 3) AS duplicate;
-- ... after VACUUM, when the key is a fingerprint
VACUUM t_seen, p_seen;
DELETE FROM t;
DELETE FROM p;
SELECT land(1, 0), land(1, 3) AS duplicate;
-- ... undone
BEGIN;
SAVEPOINT a;
DELETE FROM t;
DELETE FROM p;
SELECT land(1, 1);
ROLLBACK TO a;
SELECT land(1, 2) AS duplicate;
DELETE FROM t;
DELETE FROM p;
ROLLBACK;
SELECT land(1, 2) AS duplicate;
DELETE FROM t;
DELETE FROM p;
SELECT land(1, 3);

-- UPDATE of the key
UPDATE t SET k = 2 WHERE k = 1;
UPDATE p SET k = 2 WHERE k = 1;
SELECT land(1, 3), land(2, 3) AS duplicate;

-- the newest row moves on between INSERT and DELETE: what is older than the window may be in the filter
-- yet, where it makes late rows duplicates
SELECT land(10, 11), land(11, 11);
VACUUM t_seen, p_seen;
SELECT land(120, 20);
DELETE FROM t WHERE k IN (10, 11);
DELETE FROM p WHERE k IN (10, 11);
SELECT land(10, 14), land(11, 15);

-- ... but the key in the window is that of a row in the window
SELECT land(20, 12), land(20, 20);
DELETE FROM t WHERE k = 20 AND at = day(12);
DELETE FROM p WHERE k = 20 AND at = day(12);
SELECT land(20, 20) AS duplicate;
-- ... and so it is when a row goes that was too old to be judged
SELECT land(21, 13), land(21, 12) AS too_old;
DELETE FROM t WHERE k = 21 AND at = day(12);
DELETE FROM p WHERE k = 21 AND at = day(12);
SELECT land(21, 13) AS duplicate;
DELETE FROM t WHERE k = 21;
DELETE FROM p WHERE k = 21;
SELECT land(21, 13);

-- UPDATE of the time: out of the window
SELECT land(30, 18);
UPDATE t SET at = day(1) WHERE k = 30;
UPDATE p SET at = day(1) WHERE k = 30;
SELECT land(30, 18), land(30, 19) AS duplicate;
-- ... in the window, back: the key does not outlive the row, and does not leave before it
SELECT land(31, 20), land(32, 20);
UPDATE t SET at = day(14) WHERE k IN (31, 32);
UPDATE p SET at = day(14) WHERE k IN (31, 32);
SELECT land(31, 20) AS duplicate;
SELECT land(124, 24);
DELETE FROM t WHERE k = 31;
DELETE FROM p WHERE k = 31;
SELECT land(31, 24), land(32, 22);
-- ... undone
BEGIN;
SELECT land(34, 24);
SAVEPOINT a;
UPDATE t SET at = day(17) WHERE k = 34;
UPDATE p SET at = day(17) WHERE k = 34;
SELECT land(34, 24) AS duplicate;
ROLLBACK TO a;
COMMIT;
SELECT land(34, 24) AS duplicate;
-- ... on
SELECT land(35, 20);
UPDATE t SET at = day(30) WHERE k = 35;
UPDATE p SET at = day(30) WHERE k = 35;
SELECT land(133, 33);
DELETE FROM t WHERE k = 35;
DELETE FROM p WHERE k = 35;
SELECT land(35, 26), land(35, 33) AS duplicate;

-- a row that moves to another partition, or is inserted again by one statement, with another time
SELECT land(40, 33), land(41, 33), land(42, 33);
UPDATE t SET at = day(1) WHERE k = 40;
UPDATE p SET at = day(1) WHERE k = 40;
SELECT land(40, 33), land(40, 34) AS duplicate;
WITH d AS (DELETE FROM t WHERE k IN (41, 42) RETURNING *) INSERT INTO t SELECT k, day(CASE k WHEN 41 THEN 0 ELSE 27 END) FROM d;
WITH d AS (DELETE FROM p WHERE k IN (41, 42) RETURNING *) INSERT INTO p SELECT k, day(CASE k WHEN 41 THEN 0 ELSE 27 END) FROM d;
SELECT land(41, 33), land(41, 34) AS duplicate, land(42, 34) AS duplicate;
SELECT land(140, 40);
DELETE FROM t WHERE k = 42;
DELETE FROM p WHERE k = 42;
SELECT land(42, 40);
-- ... an old row, whose key is another row's by now
SELECT land(43, 26), land(43, 40);
WITH d AS (DELETE FROM t WHERE k = 43 AND at = day(26) RETURNING *) INSERT INTO t SELECT k, at - interval '1 hour' FROM d;
UPDATE p SET at = day(2) WHERE k = 43 AND at = day(26);
SELECT land(43, 40) AS duplicate;
-- ... keys that change hands in one statement
SELECT land(44, 40), land(45, 34);
WITH d AS (DELETE FROM t WHERE k IN (44, 45) RETURNING *) INSERT INTO t SELECT 89 - k, at FROM d;
WITH d AS (DELETE FROM p WHERE k IN (44, 45) RETURNING *) INSERT INTO p SELECT 89 - k, at FROM d;
SELECT land(44, 40) AS duplicate, land(45, 40) AS duplicate;
SELECT land(144, 44);
DELETE FROM t WHERE k IN (44, 45);
DELETE FROM p WHERE k IN (44, 45);
SELECT land(44, 44), land(45, 44);

-- COPY, and rows without a time, which count as of now
COPY t FROM stdin;
50	2020-02-14 12:00+00	\N
50	2020-02-14 12:00+00	duplicate
51	\N	\N
\.
SELECT count(*) FROM t WHERE k = 50;
DELETE FROM t WHERE k IN (50, 51);
INSERT INTO t VALUES (51, NULL), (51, now());
SELECT count(*) FROM t WHERE k = 51;
TRUNCATE t, p;
SELECT land(50, 44), land(50, 44) AS duplicate;

-- a row ahead of the clock counts as of the moment when it was inserted
INSERT INTO t VALUES (60, now() + interval '30 days'), (60, now() + interval '40 days');
SELECT count(*) FROM t WHERE k = 60;
DELETE FROM t WHERE k = 60;
INSERT INTO t VALUES (60, now());
SELECT count(*) FROM t WHERE k = 60;

-- keys that count from their last sight: a row frees all that its duplicates have renewed
CREATE TABLE r (k int, at timestamptz);
SELECT dedup_create('r_seen', dedup_window(1000, 1e-6, 1), ttl => '7 days', renew => true);
SELECT dedup_guard('r', 'r_seen', '{k}', at => 'at', on_delete => 'forget');
INSERT INTO r VALUES (1, day(0)), (1, day(5)), (1, day(10)), (1, day(15));
SELECT k, at = day(0) AS first FROM r;
DELETE FROM r;
INSERT INTO r VALUES (1, day(15));
SELECT k, at = day(15) AS first FROM r;

-- the function: the present is the time of the newest key
SELECT dedup_create('f_seen', dedup_window(1000, 1e-6, 1), ttl => '7 days');
SELECT is_new_at('f_seen', day(0), 1) AS new, is_new_at('f_seen', day(0), 2) AS new, is_new_at('f_seen', day(0), 1) AS new;
SELECT dedup_forget('f_seen', 1) AS forgotten, dedup_forget('f_seen', 1) AS again;
SELECT is_new_at('f_seen', day(0), 1) AS new, is_new_at('f_seen', day(8), 3) AS new;
-- ... one that has expired
SELECT dedup_forget('f_seen', 2) AS forgotten, is_new_at('f_seen', day(5), 2) AS new;
-- By chance: no row is left out unless the table has a row with its key that is not too old for it, nor
-- is one let in if such a row is in the window. Keys that 3 divides keep their times.
CREATE PROCEDURE play(tab regclass, steps int) LANGUAGE plpgsql AS $$
DECLARE
	gen CONSTANT text = '(at::date - date ''2020-01-01'')';
	newest int = 1000;
	before int;
	gone int[] = '{}'; -- keys of rows that this transaction has deleted, which may come again
	one record;
	key int;
	g int;
	found boolean;
	taken boolean;
	rows int;
	op float8;
BEGIN
	FOR step IN 1 .. steps LOOP
		before = newest;
		key = 1 + floor(random() * 6);
		g = newest - 9 + floor(random() * CASE WHEN random() < 0.1 THEN 24 ELSE 11 END);
		op = random();
		BEGIN
			EXECUTE format('SELECT ctid, tableoid, *, %s AS gen FROM %s ORDER BY random() LIMIT 1', gen, tab) INTO one;
			IF one IS NULL OR op < 0.45 THEN
				EXECUTE format('SELECT coalesce(bool_or(%s >= $2 - 7), false), coalesce(bool_or(%1$s >= greatest($2, $3) - 7) AND bool_and(v IS NOT NULL OR %1$s < $3 - 7), false) FROM %s WHERE k = $1', gen, tab)
					INTO found, taken USING key, g, newest;
				EXECUTE format('INSERT INTO %s SELECT $1, day($2), CASE WHEN $2 >= $3 - 7 AND NOT EXISTS (SELECT FROM %1$s WHERE k = $1 AND %s >= $3 - 7) THEN ''clean'' END', tab, gen) USING key, g, newest;
				GET DIAGNOSTICS rows = ROW_COUNT;
				IF rows = 0 AND NOT found OR rows = 1 AND taken AND key % 3 = 0 AND g >= newest - 7 AND key <> ALL(gone) THEN
					RAISE 'step %: key % of day % in %, newest day %: % rows', step, key, g, tab, newest, rows;
				END IF;
				IF rows = 1 THEN newest = greatest(newest, g); END IF;
			ELSIF op < 0.7 THEN
				gone = gone || one.k;
				EXECUTE format('DELETE FROM %s WHERE ctid = $1 AND tableoid = $2', tab) USING one.ctid, one.tableoid;
			ELSIF op < 0.85 AND one.k % 3 <> 0 THEN
				EXECUTE format('UPDATE %s SET at = day($3) WHERE ctid = $1 AND tableoid = $2', tab) USING one.ctid, one.tableoid, g;
			ELSIF op < 0.93 THEN
				EXECUTE format('WITH d AS (DELETE FROM %s WHERE ctid = $1 AND tableoid = $2 RETURNING *) INSERT INTO %1$s SELECT k, CASE k %% 3 WHEN 0 THEN at ELSE day($3) END, v FROM d', tab)
					USING one.ctid, one.tableoid, g;
				GET DIAGNOSTICS rows = ROW_COUNT;
				IF rows <> 1 THEN
					RAISE 'step %: lost a row of key % that was inserted again', step, one.k;
				END IF;
				IF one.k % 3 <> 0 THEN newest = greatest(newest, g); END IF;
			ELSE
				gone = gone || one.k;
				EXECUTE format('SELECT coalesce(bool_or(%s >= $2 - 7), false) FROM %s WHERE k = $1', gen, tab) INTO found USING key, one.gen;
				EXECUTE format('UPDATE %s SET k = $3, v = CASE WHEN $4 >= $5 - 7 THEN v END WHERE ctid = $1 AND tableoid = $2', tab) USING one.ctid, one.tableoid, key, one.gen, newest;
				newest = greatest(newest, one.gen);
			END IF;
			IF key = ANY(gone) THEN
				EXECUTE format('UPDATE %s SET v = NULL WHERE k = $1', tab) USING key;
			END IF;
			IF random() < 0.2 THEN
				RAISE SQLSTATE 'XX999';
			END IF;
		EXCEPTION
			WHEN SQLSTATE 'XX999' THEN
				newest = before;
			WHEN unique_violation THEN
				IF NOT found THEN
					RAISE 'step %: key % is no duplicate', step, key;
				END IF;
		END;
		IF random() < 0.3 THEN
			COMMIT;
			gone = '{}';
		END IF;
	END LOOP;
END $$;
SELECT setseed(0.5);
TRUNCATE t, p;
CALL play('t', 500);
CALL play('p', 500);
SELECT block FROM dedup_check('t_seen') UNION ALL SELECT block FROM dedup_check('p_seen') UNION ALL SELECT block FROM dedup_check('r_seen') UNION ALL SELECT block FROM dedup_check('f_seen');
RESET timezone;
DROP SCHEMA guard_forget_times CASCADE;
