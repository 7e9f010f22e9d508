-- Exact guards with a window of time, compared with the table itself: the expected result of each change is known
-- beforehand. Keys and times are random: in order, late, much too old, ahead; inserts, updates of key and time,
-- deletes; in subtransactions and transactions that are rolled back.
CREATE SCHEMA exact_times_model;
SET search_path = exact_times_model, public;
SET timezone = 'UTC';
SET client_min_messages = error;
CREATE FUNCTION dice(n int) RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT (random() * n)::int % n $$;
CREATE FUNCTION taken(key int, moment timestamptz, but int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	RETURN EXISTS (SELECT FROM model m WHERE m.k = key AND m.id IS DISTINCT FROM but AND m.at > moment - interval '7 days' AND m.at < moment + interval '7 days');
END $$;
CREATE PROCEDURE run(steps int, keys int)
LANGUAGE plpgsql AS $$
DECLARE
	clock timestamptz := '2024-01-01';
	moment timestamptz;
	key int;
	-- the ids of rows that an earlier call has left are not used again
	row_id int := coalesce((SELECT max(id) FROM model), 0);
	old record;
	expected bool;
	done bool;
	wrong int;
	kept int;
	refused int;
BEGIN
	wrong := 0; kept := 0; refused := 0;
	FOR step IN 1..steps LOOP
		FOR block IN 0..dice(3) LOOP
			BEGIN
				FOR i IN 0..dice(6) LOOP
					IF dice(6) = 0 THEN clock := clock + dice(4) * interval '1 day'; END IF;
					key := dice(keys);
					moment := clock + dice(24) * interval '1 hour' - CASE dice(4)
						WHEN 0 THEN dice(10) * interval '1 day'
						WHEN 1 THEN dice(60) * interval '1 day'
						ELSE '0' END;
					IF dice(200) = 0 THEN moment := clock + interval '10 days'; END IF;
					row_id := row_id + 1;
					IF dice(10) < 7 THEN
						expected := taken(key, moment, NULL);
						INSERT INTO stream VALUES (row_id, key, moment);
						done := FOUND;
						IF done THEN INSERT INTO model VALUES (row_id, key, moment); END IF;
					ELSE
						SELECT * INTO old FROM model ORDER BY id DESC OFFSET dice(20) LIMIT 1;
						CONTINUE WHEN NOT FOUND;
						IF dice(3) = 0 THEN
							DELETE FROM stream WHERE id = old.id;
							DELETE FROM model WHERE id = old.id;
							CONTINUE;
						END IF;
						IF dice(2) = 0 THEN key := old.k; END IF;
						expected := taken(key, moment, old.id);
						done := true;
						BEGIN
							UPDATE stream SET k = key, at = moment WHERE id = old.id;
							UPDATE model SET k = key, at = moment WHERE id = old.id;
						EXCEPTION WHEN unique_violation THEN
							done := false;
						END;
					END IF;
					kept := kept + done::int;
					refused := refused + (NOT done)::int;
					IF done = expected THEN
						wrong := wrong + 1;
						RAISE INFO 'step %: key % at %: expected %, done %', step, key, moment, expected, done;
					END IF;
				END LOOP;
				IF dice(4) = 0 THEN RAISE SQLSTATE 'XX999'; END IF;
			EXCEPTION WHEN SQLSTATE 'XX999' THEN
				NULL;
			END;
		END LOOP;
		IF dice(5) = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
	-- what is there is what should be there, and no two rows are too near
	IF EXISTS (TABLE stream EXCEPT TABLE model) OR EXISTS (TABLE model EXCEPT TABLE stream) OR
		EXISTS (SELECT FROM model a JOIN model b ON a.k = b.k AND a.id < b.id AND abs(extract(epoch FROM a.at - b.at)) < 7 * 86400) THEN
		wrong := wrong + 1000;
	END IF;
	RAISE INFO '%', format('wrong: %s; enough kept: %s; enough refused: %s', wrong, kept > steps, refused > steps / 10);
END $$;

-- many partitions, most of which are never near
CREATE TABLE model (id int, k int, at timestamptz);
CREATE INDEX ON model (k, at);
CREATE INDEX ON model (id);
CREATE TABLE stream (id int, k int, at timestamptz) PARTITION BY RANGE (at);
CREATE TABLE stream_old PARTITION OF stream FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
DO $$ BEGIN
	FOR i IN 0..15 LOOP
		EXECUTE format('CREATE TABLE stream_%s PARTITION OF stream FOR VALUES FROM (%L) TO (%L)', i, '2024-01-01'::timestamptz + i * interval '4 months', '2024-01-01'::timestamptz + (i + 1) * interval '4 months');
	END LOOP;
END $$;
CREATE INDEX ON stream (k);
CREATE INDEX ON stream (id);
SELECT dedup_create('seen', dedup_window(200, 1e-6, 1), '7 days');
SELECT dedup_guard('stream', 'seen', '{k}', exact => true, at => 'at');
SELECT setseed(0.1);
CALL run(400, 10);
SELECT new > 300 AS new, skipped > 300 AS skipped, checked_found > 300 AS found, checked_not_found > 100 AS not_found FROM dedup_stats('seen');

TRUNCATE stream, model, seen;
SELECT dedup_unguard('stream');
DROP TABLE seen;
-- ten times more keys than the filter is made for, loaded or inserted: its lines lose some
INSERT INTO model SELECT -i, i, '2023-12-27'::timestamptz + dice(5 * 24) * interval '1 hour' FROM generate_series(0, 5999) i;
INSERT INTO stream TABLE model;
SELECT dedup_create('seen', dedup_window(600, 0.01, 1), '7 days');
SELECT dedup_guard('stream', 'seen', '{k}', exact => true, at => 'at');
SELECT forgotten_early > 100 AS forgotten_early FROM dedup_stats('seen');
CALL run(150, 6000);
TRUNCATE stream, model, seen;
INSERT INTO model SELECT -i, i, '2023-12-27'::timestamptz + dice(5 * 24) * interval '1 hour' FROM generate_series(0, 5999) i;
INSERT INTO stream TABLE model;
CALL run(150, 6000);
SELECT forgotten_early > 100 AS forgotten_early FROM dedup_stats('seen');

-- loaded in the middle, and again
TRUNCATE stream, model, seen;
SELECT setseed(0.3);
CALL run(150, 10);
SELECT dedup_unguard('stream');
TRUNCATE seen;
SELECT dedup_guard('stream', 'seen', '{k}', exact => true, at => 'at');
CALL run(150, 10);
SELECT dedup_rebuild('seen');
CALL run(150, 10);

SET client_min_messages = error;
DROP SCHEMA exact_times_model CASCADE;
