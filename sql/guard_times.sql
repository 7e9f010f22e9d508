-- Guards that are not exact, with the time of a row: at, too_old.
CREATE SCHEMA guard_times;
SET search_path = guard_times, public;
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE TABLE events (k int, at timestamptz, is_duplicate boolean) PARTITION BY RANGE (at);
CREATE TABLE events_old PARTITION OF events FOR VALUES FROM (MINVALUE) TO ('2020-02-01');
CREATE TABLE events_new PARTITION OF events FOR VALUES FROM ('2020-02-01') TO (MAXVALUE);
CREATE TABLE events_rest PARTITION OF events DEFAULT;
SELECT dedup_create('seen', dedup_window(1000, 1e-6, 1), '7 days');
SELECT dedup_guard('events', 'seen', '{k}', at => 'at');
CREATE FUNCTION add(key int, day text, OUT added bigint) LANGUAGE sql AS $$
	WITH i AS (INSERT INTO events VALUES (key, day::timestamptz) RETURNING 1) SELECT count(*) FROM i $$;
-- by the event's time, not the clock's
SELECT add(1, '2020-02-01') AS first, add(1, '2020-02-08 23:59') AS in_window, add(1, '2020-02-09') AS after_it;
-- late, but not older than the window before the newest: then, and from its own time on
SELECT add(2, '2020-02-02') AS first, add(2, '2020-02-09') AS again, add(2, '2020-02-10') AS later;
-- older: let in, and counted
SELECT add(3, '2020-01-30') AS too_old, add(3, '2020-01-30') AS again;
SELECT new, skipped, too_old FROM dedup_stats('seen');
-- ahead of the clock: as of now. So the window does not move ahead
SELECT add(4, '2090-01-01') AS future, add(4, 'infinity') AS again, add(4, now()::text) AS now, add(5, NULL) AS clock, add(5, NULL) AS again, add(4, NULL) AS the_same;
SELECT add(6, '-infinity') AS too_old, add(6, (now() - interval '6 days')::text) AS late;
SELECT new, skipped, too_old FROM dedup_stats('seen');
-- an UPDATE of the key is tested as of the row's time; one of the time is not
UPDATE events SET k = 4 WHERE k = 6 AND at > '2020-01-01';
UPDATE events SET k = 3 WHERE k = 6 AND at > '2020-01-01';
UPDATE events SET k = 4 WHERE k = 3 AND at = '2020-01-30';
UPDATE events SET at = at + interval '3 days' WHERE k = 4 AND at < '2020-02-04';
SELECT k, at FROM events WHERE at < '2021-01-01' ORDER BY at, k;
SELECT new, too_old FROM dedup_stats('seen');

-- too_old => 'skip'
SELECT dedup_unguard('events');
TRUNCATE seen, events;
SELECT dedup_guard('events', 'seen', '{k}', on_duplicate => 'reject', at => 'at', too_old => 'skip');
SELECT add(1, '2020-02-10') AS first, add(2, '2020-02-02') AS left_out, add(2, '2020-02-03') AS late, add(2, '-infinity') AS left_out;
INSERT INTO events VALUES (1, '2020-02-11');
SELECT new, skipped, rejected, too_old FROM dedup_stats('seen');
-- a row that this transaction has deleted may come again
BEGIN;
DELETE FROM events WHERE k = 2;
SELECT add(2, '2020-01-01') AS again, add(2, '2020-01-01') AS left_out;
ROLLBACK;
-- a row that moves is not lost
UPDATE events SET at = '2019-12-31' WHERE k = 2;
UPDATE events SET at = '2020-02-28', k = 7 WHERE k = 2;
UPDATE events SET at = '2019-12-31', k = 8 WHERE k = 7;
SELECT k, at FROM events ORDER BY at;
-- rolled back, so not counted
BEGIN;
SELECT add(9, '2019-01-01');
ROLLBACK;
SELECT too_old FROM dedup_stats('seen');
SELECT too_old FROM dedup_filters WHERE name = 'seen'::regclass;

-- a column that is an expression, a mark, and rows that are loaded
SELECT dedup_unguard('events');
TRUNCATE events, seen;
INSERT INTO events VALUES (1, '2020-02-01'), (1, '2020-02-05'), (2, '2020-02-20'), (3, '2020-02-14'), (4, NULL);
ALTER TABLE events ADD seconds int;
UPDATE events SET seconds = extract(epoch FROM at);
SELECT dedup_guard('events', 'seen', '{k}', on_duplicate => 'mark', load => true, at => $$to_timestamp(seconds::float8)$$);
-- 4 counts as of now, so the others are older than the window
SELECT new FROM dedup_stats('seen');
DELETE FROM events WHERE at IS NULL;
SELECT dedup_unguard('events');
TRUNCATE seen;
SELECT dedup_guard('events', 'seen', '{k}', on_duplicate => 'mark', load => true, at => $$to_timestamp(seconds::float8)$$);
SELECT new FROM dedup_stats('seen');
INSERT INTO events SELECT k, day, NULL, extract(epoch FROM day) FROM (VALUES
	(1, '2020-02-13'::timestamptz), (2, '2020-02-13'), (3, '2020-02-21'), (3, '2020-02-21 23:59'), (3, '2020-02-22'), (1, '2020-02-01')) r (k, day);
SELECT k, at, is_duplicate FROM events ORDER BY at, k;

-- a guard that rejects finds duplicates among the rows that are loaded: with times those that are
-- near, without all
CREATE TABLE pairs (k int, at timestamptz);
INSERT INTO pairs VALUES (1, '2020-01-01'), (1, '2020-01-08'), (2, '2020-01-05'), (3, NULL);
SELECT dedup_create('paired', dedup_window(1000, 1e-6, 1), '7 days');
SELECT dedup_guard('pairs', 'paired', '{k}', 'reject', load => true);
SELECT dedup_guard('pairs', 'paired', '{k}', 'reject', load => true, at => 'at');
SELECT dedup_unguard('pairs');
INSERT INTO pairs VALUES (2, '2020-01-11');
SELECT dedup_guard('pairs', 'paired', '{k}', 'reject', load => true, at => 'at');
DELETE FROM pairs WHERE k = 2;
INSERT INTO pairs VALUES (3, now() - interval '1 day');
SELECT dedup_guard('pairs', 'paired', '{k}', 'reject', load => true, at => 'at');
DROP TABLE pairs, paired;

-- rows that are there: those of the window are told of, and the statement is that of the rows' times
SELECT dedup_unguard('events');
SELECT dedup_guard('events', 'seen', '{k}', at => 'at');
INSERT INTO events VALUES (50, '2020-02-22'), (51, '2020-02-10'), (52, NULL);
SELECT dedup_unguard('events');
TRUNCATE seen;
SELECT dedup_guard('events', 'seen', '{k}', at => 'at');
SELECT count(*) FROM events WHERE public.is_new_at('seen', LEAST(at, now()), k);
SELECT dedup_unguard('events');
SELECT dedup_guard('events', 'seen', '{k}', at => 'at');

-- The model: the generation in which a key was added last, and the newest of all; as of the
-- formula in the manual. Times in order, late and too old; rolled back or not.
SELECT dedup_unguard('events');
TRUNCATE events, seen;
SELECT dedup_guard('events', 'seen', '{k}', at => 'at', too_old => 'skip');
CREATE FUNCTION dice(n int) RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT (random() * n)::int % n $$;
CREATE PROCEDURE run(steps int)
LANGUAGE plpgsql AS $$
DECLARE
	added int[] := array_fill(-100, ARRAY[40]);
	newest int := -100;
	too_old int := 0;
	outer_too_old int;
	outer_added int[];
	outer_newest int;
	inner_added int[];
	inner_newest int;
	inner_too_old int;
	clock int := 0;
	day int;
	key int;
	done bool;
	wrong int := 0;
	kept int := 0;
	refused int := 0;
	counted bigint;
BEGIN
	FOR step IN 1..steps LOOP
		outer_added := added; outer_newest := newest; outer_too_old := too_old;
		FOR block IN 0..dice(3) LOOP
			inner_added := added; inner_newest := newest; inner_too_old := too_old;
			BEGIN
				FOR i IN 0..dice(6) LOOP
					IF dice(8) = 0 THEN clock := clock + dice(4); END IF;
					day := clock - CASE WHEN dice(3) = 0 THEN dice(12) ELSE 0 END;
					key := 1 + dice(40);
					INSERT INTO events VALUES (key, '2010-01-01'::timestamptz + day * interval '1 day' + dice(24) * interval '1 hour');
					done := FOUND;
					IF day < newest - 7 THEN
						too_old := too_old + 1;
						wrong := wrong + done::int;
						CONTINUE;
					END IF;
					-- what has expired may still be there for a late row
					IF (added[key] >= newest - 7 OR added[key] < day - 7) AND done <> (added[key] < day - 7) THEN
						wrong := wrong + 1;
						RAISE INFO 'key % added on day %, now %, newest %: %', key, added[key], day, newest, done;
					END IF;
					IF done THEN
						added[key] := day;
						newest := greatest(newest, day);
					END IF;
					kept := kept + done::int;
					refused := refused + (NOT done)::int;
				END LOOP;
				IF dice(4) = 0 THEN RAISE SQLSTATE 'XX999'; END IF;
			EXCEPTION WHEN SQLSTATE 'XX999' THEN
				added := inner_added; newest := inner_newest; too_old := inner_too_old;
			END;
		END LOOP;
		IF dice(5) = 0 THEN
			ROLLBACK;
			added := outer_added; newest := outer_newest; too_old := outer_too_old;
		ELSE
			COMMIT;
		END IF;
		clock := greatest(newest, clock - 3);
	END LOOP;
	SELECT s.too_old INTO counted FROM dedup_stats('seen') s;
	RAISE INFO '%', format('wrong: %s; counted right: %s; enough too old: %s; enough kept: %s; enough refused: %s', wrong, counted = too_old, too_old > steps / 20, kept > steps, refused > steps);
END $$;
SELECT setseed(0.5);
CALL run(800);

-- Guards that somebody made by hand
SELECT dedup_unguard('events');
CREATE TABLE hand (k int, at timestamptz);
CREATE INDEX hand_k ON hand (k);
SELECT dedup_create('set', dedup_filter(1000)), dedup_create('keys', dedup_window(1000)), dedup_create('renewing', dedup_window(1000), '7 days', renew => true);
CREATE INDEX hand_dedup_guard ON hand USING streamdedup_guard (k, at);
CREATE FUNCTION try(filter text, timed bool, VARIADIC options text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE state text; detail text;
BEGIN
	EXECUTE format('CREATE TRIGGER "~dedup_guard" BEFORE INSERT OR UPDATE ON hand FOR EACH ROW EXECUTE FUNCTION dedup_guard_trigger(%s)',
		(SELECT string_agg(quote_literal(o), ', ') FROM unnest(ARRAY['skip', 'hand_dedup_guard'] || options) o WHERE o <> ''));
	EXECUTE format('CREATE TRIGGER "~dedup_guard_delete" BEFORE DELETE ON hand FOR EACH ROW WHEN (%L::regclass IS NOT NULL OR OLD.k IS NULL%s) EXECUTE FUNCTION dedup_guard_trigger()',
		filter, CASE WHEN timed THEN ' OR (OLD.at) IS NOT NULL' ELSE '' END);
	INSERT INTO hand VALUES (1, '2020-01-01');
	RAISE EXCEPTION 'inserted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
	RETURN CASE WHEN SQLERRM = 'inserted' THEN SQLERRM ELSE state || ': ' || detail END;
END $$;
SELECT f, t, o, try(f, t, o) FROM unnest('{set,keys,seen,renewing}'::text[]) f, unnest('{f,t}'::bool[]) t, unnest(ARRAY['', 'exact', 'skip_too_old']) o ORDER BY 1, 2, 3;
SELECT try('seen', true, 'exact', 'skip_too_old');

SET client_min_messages = error;
DROP SCHEMA guard_times CASCADE;
