-- Filters with renew: a key counts from its last sight. Times come from events: a ttl of 7 days has generations of a
-- day, counted from 1970 in UTC.
CREATE SCHEMA live_renew;
SET search_path = live_renew, public;
SET client_min_messages = error;
SET timezone = 'UTC';

-- only windows of time
SELECT dedup_create('no', dedup_filter(100), renew => true);
SELECT dedup_create('no', dedup_window(100), renew => true);
SELECT dedup_create('none', dedup_window(100, 1e-6, 1), '7 days', renew => NULL);
SELECT renew FROM dedup_stats('none');

SELECT dedup_create('r', dedup_window(1000, 1e-6, 1), '7 days', renew => true);
SELECT ttl, renew, renewed FROM dedup_stats('r');
CREATE FUNCTION pg_temp.day(n int) RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2030-01-01'::timestamptz + n * interval '1 day' $$;

-- seen every 6 days, it never becomes new; 7 days and a generation after the last sight it does
SELECT n, is_new_at('r', pg_temp.day(n), 'k') AS new FROM unnest('{0,6,12,18,25,33,33}'::int[]) n;
-- the same filter without renew: from the first sight
SELECT n, is_new_at('none', pg_temp.day(n), 'k') AS new FROM unnest('{0,6,12,18,25,33,33}'::int[]) n;

-- at most one write a key and generation: a second sight takes no transaction id
BEGIN;
SELECT is_new_at('r', pg_temp.day(33), 'k'), txid_current_if_assigned() IS NULL AS nothing_written;
COMMIT;
BEGIN;
SELECT is_new_at('r', pg_temp.day(34), 'k'), txid_current_if_assigned() IS NULL AS nothing_written;
SELECT count(*) FROM generate_series(1, 100) WHERE NOT is_new_at('r', pg_temp.day(34), 'k');
COMMIT;
SELECT new, duplicate, renewed, count FROM dedup_stats('r');

-- a sight that is late makes no key older
SELECT is_new_at('r', pg_temp.day(28), 'k') AS late, is_new_at('r', pg_temp.day(41), 'k') AS seen_at_34;
-- a rolled back sight renews nothing
BEGIN;
SELECT is_new_at('r', pg_temp.day(47), 'k');
ROLLBACK;
SELECT is_new_at('r', pg_temp.day(49), 'k') AS new;
-- nor one of a savepoint
BEGIN;
SAVEPOINT s;
SELECT is_new_at('r', pg_temp.day(55), 'k');
ROLLBACK TO s;
SELECT is_new_at('r', pg_temp.day(57), 'k') AS new;
SAVEPOINT t;
SELECT is_new_at('r', pg_temp.day(60), 'k');
RELEASE t;
COMMIT;
SELECT is_new_at('r', pg_temp.day(67), 'k') AS new;

-- asking renews nothing
SELECT is_new_at('r', pg_temp.day(73), 'tick'), dedup_seen('r', 'k');
SELECT is_new_at('r', pg_temp.day(75), 'tick'), dedup_seen('r', 'k');

-- functions that go by the clock: the newest that the filter has seen
SELECT is_new('r', 'a'), is_new('r', 'b'), is_new('r', 'c');
SELECT is_new_at('r', pg_temp.day(80), 'tick');
SELECT is_new('r', 'a');
SELECT dedup_new_keys('r', '{b,d}'::text[]);
SELECT is_new_at('r', pg_temp.day(85), 'tick'), dedup_seen('r', 'a') AS a, dedup_seen('r', 'b') AS b, dedup_seen('r', 'c') AS c, dedup_seen('r', 'd') AS d;
-- a batch of many pages, and a key twice in it
TRUNCATE r;
SELECT count(*) FROM dedup_new_keys('r', ARRAY(SELECT i FROM generate_series(1, 1000) i));
SELECT is_new_at('r', now() + interval '5 days', 'tick');
SELECT count(*) FROM dedup_new_keys('r', ARRAY(SELECT i FROM generate_series(1, 500) i) || 7 || 7);
SELECT new, duplicate, renewed FROM dedup_stats('r');
SELECT is_new_at('r', now() + interval '9 days', 'tick');
SELECT count(*), min(k), max(k) FROM generate_series(1, 1000) k WHERE dedup_seen('r', k);
-- loading is a sight, too
SELECT dedup_load('r', (SELECT dedup_agg(dedup_window(1000, 1e-6, 1), i) FROM generate_series(401, 500) i));
SELECT is_new_at('r', now() + interval '14 days', 'tick');
SELECT count(*), min(k), max(k) FROM generate_series(1, 1000) k WHERE dedup_seen('r', k);

-- forgetting forgets all sights: that in a line, and that in flight
TRUNCATE r;
SELECT is_new_at('r', pg_temp.day(0), 'k');
VACUUM r;
SELECT is_new_at('r', pg_temp.day(3), 'k');
SELECT is_new_at('r', pg_temp.day(5), 'k');
SELECT dedup_forget('r', 'k'), dedup_seen('r', 'k');
SELECT is_new_at('r', pg_temp.day(5), 'k');

-- a key counts once
SELECT is_new_at('r', pg_temp.day(6), 'k'), is_new_at('r', pg_temp.day(6), 'other');
SELECT count FROM dedup_stats('r');
SELECT * FROM dedup_check('r');
-- many keys that are renewed fill no page: one slot a key
TRUNCATE r;
DO $$ BEGIN
	FOR day IN 0..40 LOOP
		PERFORM is_new_at('r', pg_temp.day(day), k) FROM generate_series(1, 1000) k;
		COMMIT;
	END LOOP;
END $$;
SELECT new, duplicate, renewed, forgotten_early FROM dedup_stats('r');
VACUUM r;
SELECT count, overflow_pages, overfull FROM dedup_stats('r');

-- A guard that leaves a duplicate out has seen its key. One that raises an error has not: the
-- error takes that back, too.
TRUNCATE r;
CREATE TABLE beats (k text, at timestamptz);
SELECT dedup_guard('beats', 'r', '{k}', at => 'at');
CREATE FUNCTION pg_temp.beat(n int) RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2010-01-01'::timestamptz + n * interval '1 day' $$;
INSERT INTO beats SELECT 'k', pg_temp.beat(n) FROM unnest('{0,5,10,15,20,28}'::int[]) n;
INSERT INTO beats SELECT 'late', pg_temp.beat(n) FROM unnest('{25,21,32,40}'::int[]) n;
SELECT k, at FROM beats ORDER BY at;
-- deleted and inserted again by one transaction: it stays, and is a sight
BEGIN;
DELETE FROM beats WHERE at = pg_temp.beat(28);
INSERT INTO beats VALUES ('k', pg_temp.beat(35));
COMMIT;
INSERT INTO beats VALUES ('k', pg_temp.beat(41));
SELECT k, at FROM beats WHERE k = 'k' ORDER BY at;
SELECT dedup_unguard('beats');
SELECT dedup_guard('beats', 'r', '{k}', 'reject', at => 'at', load => false);
INSERT INTO beats VALUES ('k', pg_temp.beat(47));
INSERT INTO beats VALUES ('k', pg_temp.beat(49));
-- a row that a later trigger leaves out has seen nothing
CREATE FUNCTION pg_temp.leave_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER "~z" BEFORE INSERT ON beats FOR EACH ROW EXECUTE FUNCTION pg_temp.leave_out();
INSERT INTO beats VALUES ('left out', pg_temp.beat(49));
SELECT dedup_seen('r', 'left out');
-- rows that are loaded have been seen at their times
TRUNCATE r;
SELECT dedup_unguard('beats');
DROP TABLE beats;
CREATE TABLE beats (k text, at timestamptz);
INSERT INTO beats VALUES ('a', pg_temp.beat(0)), ('a', pg_temp.beat(9)), ('b', pg_temp.beat(3)), ('c', pg_temp.beat(1));
SELECT dedup_guard('beats', 'r', '{k}', at => 'at', load => true);
INSERT INTO beats VALUES ('a', pg_temp.beat(10)), ('b', pg_temp.beat(10)), ('c', pg_temp.beat(10)), ('a', pg_temp.beat(17)), ('b', pg_temp.beat(17));
SELECT k, at FROM beats ORDER BY at, k;
DROP TABLE beats;

-- The model: of each key the generation of its last sight that was not rolled back. Sights in
-- random order of keys, in the order of time or late, within subtransactions and transactions
-- that are rolled back or not. A late event can ask for a key that was seen less than a ttl
-- before it, but has expired by now: then both answers are right.
CREATE FUNCTION pg_temp.dice(n int) RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT (random() * n)::int % n $$;
CREATE PROCEDURE pg_temp.model(steps int)
LANGUAGE plpgsql AS $$
DECLARE
	sights int[] := array_fill(-100, ARRAY[60]);
	newest int := 0;
	day int := 0;
	outer_sights int[];
	outer_newest int;
	inner_sights int[];
	inner_newest int;
	at int;
	k int;
	last int;
	answer bool;
	wrong int := 0;
	duplicates int := 0;
	late int := 0;
BEGIN
	FOR step IN 1..steps LOOP
		outer_sights := sights;
		outer_newest := newest;
		FOR block IN 0..pg_temp.dice(3) LOOP
			inner_sights := sights;
			inner_newest := newest;
			BEGIN
				FOR i IN 0..pg_temp.dice(6) LOOP
					IF pg_temp.dice(10) = 0 THEN day := day + 1 + pg_temp.dice(3); END IF;
					at := day - CASE WHEN pg_temp.dice(3) = 0 THEN pg_temp.dice(12) ELSE 0 END;
					k := 1 + pg_temp.dice(60);
					answer := is_new_at('r', pg_temp.day(at), k);
					last := sights[k];
					IF at < newest - 7 THEN
						late := late + 1;
						IF NOT answer THEN wrong := wrong + 1; END IF;
						CONTINUE;
					END IF;
					IF (last >= newest - 7 OR last < at - 7) AND answer <> (last < at - 7) THEN
						wrong := wrong + 1;
						RAISE INFO 'key % last seen on day %, now %, newest %: %', k, last, at, newest, answer;
					END IF;
					duplicates := duplicates + (NOT answer)::int;
					sights[k] := greatest(last, at);
					newest := greatest(newest, at);
				END LOOP;
				IF pg_temp.dice(4) = 0 THEN RAISE SQLSTATE 'XX999'; END IF;
			EXCEPTION WHEN SQLSTATE 'XX999' THEN
				sights := inner_sights;
				newest := inner_newest;
			END;
		END LOOP;
		IF pg_temp.dice(5) = 0 THEN
			ROLLBACK;
			sights := outer_sights;
			newest := outer_newest;
		ELSE
			COMMIT;
		END IF;
		day := greatest(newest, day - pg_temp.dice(2));
	END LOOP;
	RAISE INFO 'wrong answers: %; duplicates: %; too old: %', wrong, duplicates > steps, late > steps / 20;
END $$;
TRUNCATE r;
SELECT setseed(0.15);
CALL pg_temp.model(1500);
SELECT forgotten_early, renewed > 1000 AS renewed, too_old > 50 AS too_old FROM dedup_stats('r');
SELECT * FROM dedup_check('r');
-- one page that is always full of entries
SELECT dedup_create('narrow', dedup_window(10, 1e-6, 1), '7 days', renew => true);
DROP TABLE r;
ALTER TABLE narrow RENAME TO r;
SELECT setseed(0.16);
CALL pg_temp.model(1500);

SET client_min_messages = error;
DROP SCHEMA live_renew CASCADE;
