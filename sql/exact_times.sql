-- Exact guards with a window of time: two rows are duplicates if their keys are equal and their times are less than
-- the ttl apart, in whatever order they come.
CREATE SCHEMA exact_times;
SET search_path = exact_times, public;
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE TABLE visits (k int, at timestamptz, note text) PARTITION BY RANGE (at);
CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE visits_3 PARTITION OF visits FOR VALUES FROM ('2024-02-01') TO ('2024-03-01') PARTITION BY RANGE (at, k);
CREATE TABLE visits_3a PARTITION OF visits_3 FOR VALUES FROM ('2024-02-01', 0) TO ('2024-02-15', 5);
CREATE TABLE visits_3b PARTITION OF visits_3 FOR VALUES FROM ('2024-02-15', 5) TO ('2024-03-01', 0);
CREATE TABLE visits_4 PARTITION OF visits DEFAULT;
CREATE INDEX ON visits (k);

-- what is refused
SELECT dedup_create('seen', dedup_window(2000, 1e-6, 1), '10 days'), dedup_create('never', dedup_filter(2000)),
	dedup_create('last', dedup_window(2000)), dedup_create('renewing', dedup_window(2000), '10 days', renew => true);
SELECT dedup_guard('visits', 'seen', '{k}', exact => true);
SELECT dedup_guard('visits', 'never', '{k}', exact => true, at => 'at');
SELECT dedup_guard('visits', 'never', '{k}', at => 'at');
SELECT dedup_guard('visits', 'last', '{k}', exact => true, at => 'at');
SELECT dedup_guard('visits', 'last', '{k}', at => 'at');
SELECT dedup_guard('visits', 'renewing', '{k}', exact => true, at => 'at');
SELECT dedup_guard('visits', 'seen', '{k}', exact => true, at => 'at', too_old => 'skip');
SELECT dedup_guard('visits', 'seen', '{k}', too_old => 'skip');
SELECT dedup_guard('visits', 'seen', '{k}', at => 'note');
SELECT dedup_guard('visits', 'seen', '{k}', exact => true, at => 'at');

-- the distance decides, not the order, nor the clock
CREATE FUNCTION add(key int, day text, OUT added bigint) LANGUAGE sql AS $$
	WITH i AS (INSERT INTO visits VALUES (key, day::timestamptz) RETURNING 1) SELECT count(*) FROM i $$;
SELECT add(1, '2024-02-10') AS first, add(1, '2024-02-19 23:59:59.999999') AS nearly, add(1, '2024-02-20') AS a_ttl_later;
SELECT add(1, '2024-02-01') AS late, add(1, '2024-01-31') AS a_ttl_earlier, add(1, '2024-02-05') AS between;
SELECT add(1, '2020-01-01') AS very_old, add(1, '2020-01-05') AS duplicate, add(1, '2020-01-11') AS apart;
SELECT k, at FROM visits ORDER BY at;
-- all of them again, and all of them a day later
SELECT sum(add(1, at::text)) AS again, sum(add(1, (at + interval '1 day')::text)) AS day_later FROM visits;
-- at the ends
SELECT add(1, '-infinity') AS ever, add(1, '-infinity') AS ever_again, add(1, '1900-01-01') AS gen_0, add(1, '1900-01-10') AS duplicate, add(1, '1900-01-11') AS apart;
SELECT add(1, 'infinity');
SELECT add(1, '2106-12-31');
-- ahead of the clock: the window moves, with a WARNING; what is late then is looked for
SELECT add(2, '2050-01-01') AS future, add(2, '2050-01-05') AS duplicate, add(2, '2024-02-10') AS late, add(2, '2024-02-11') AS duplicate, add(2, '2050-01-11') AS apart;
-- a row without a time is not guarded
SELECT add(1, NULL), add(1, NULL);
SELECT new, skipped, checked_found > 5 AS checked_found, checked_not_found > 5 AS checked_not_found, too_old FROM dedup_stats('seen');

-- UPDATE of the time, also into another partition, is judged as that of the key
INSERT INTO visits VALUES (3, '2024-02-10'), (3, '2024-02-25'), (4, '2024-02-10');
UPDATE visits SET at = '2024-02-16' WHERE k = 3 AND at = '2024-02-10';
UPDATE visits SET at = '2024-02-15' WHERE k = 3 AND at = '2024-02-10';
UPDATE visits SET at = '2024-01-15' WHERE k = 3 AND at = '2024-02-15';
UPDATE visits SET k = 3 WHERE k = 4;
UPDATE visits SET k = 3 WHERE k = 4 AND at = '2024-02-10';
UPDATE visits SET k = 3, at = '2024-02-20' WHERE k = 3 AND at = '2024-02-10';
UPDATE visits SET note = 'same';
UPDATE visits SET at = at + interval '1 second' WHERE k = 3;
SELECT add(3, '2024-01-20') AS duplicate, add(3, '2024-01-26') AS apart_from_both;
-- a row that is deleted frees its time
DELETE FROM visits WHERE k = 3 AND at < '2024-01-16';
SELECT add(3, '2024-01-16') AS first_again;
BEGIN;
DELETE FROM visits WHERE k = 3 AND at = '2024-01-16';
SELECT add(3, '2024-01-15') AS anew, add(3, '2024-01-14') AS duplicate;
ROLLBACK;
SELECT add(3, '2024-01-14') AS duplicate;
-- a row of ours that is deleted does not hide another one
INSERT INTO visits VALUES (5, '2024-02-01'), (5, '2024-02-11');
BEGIN;
DELETE FROM visits WHERE k = 5 AND at = '2024-02-01';
SELECT add(5, '2024-02-05') AS duplicate_of_the_other, add(5, '2024-02-01') AS again;
COMMIT;
-- one statement with the same key at several times
INSERT INTO visits SELECT 6, '2024-02-01'::timestamptz + i * interval '5 days' FROM generate_series(0, 5) i;
SELECT count(*) AS every_second FROM visits WHERE k = 6;
-- a row in hand: a trigger inserts the same key, near and far
CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.note = 'near' THEN INSERT INTO visits VALUES (NEW.k, NEW.at + interval '1 day'); END IF;
	IF NEW.note IN ('far', 'far and none') THEN INSERT INTO visits VALUES (NEW.k, NEW.at + interval '11 days'); END IF;
	RETURN CASE WHEN NEW.note LIKE '%none' THEN NULL ELSE NEW END;
END $$;
CREATE TRIGGER "~z" BEFORE INSERT ON visits_2 FOR EACH ROW EXECUTE FUNCTION more();
INSERT INTO visits VALUES (7, '2024-01-10', 'near'), (8, '2024-01-10', 'far'), (9, '2024-01-10', 'far and none');
SELECT k, at FROM visits WHERE k IN (7, 8, 9) ORDER BY k, at;
SELECT add(9, '2024-01-10') AS first, add(9, '2024-01-22') AS duplicate, add(8, '2024-01-22') AS duplicate, add(8, '2024-01-12') AS duplicate;
DROP TRIGGER "~z" ON visits_2;
-- a later trigger may not change the time of a row that was judged
CREATE FUNCTION shift() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := NEW.at + interval '1 day'; RETURN NEW; END $$;
CREATE TRIGGER "~z" BEFORE INSERT ON visits_2 FOR EACH ROW EXECUTE FUNCTION shift();
INSERT INTO visits VALUES (10, '2024-01-10');
DROP TRIGGER "~z" ON visits_2;

-- Loading: rows that are older than the window are passed over, and are looked for all the same.
SELECT dedup_unguard('visits');
DELETE FROM visits WHERE at > '2025-01-01' OR at = '-infinity' OR at IS NULL;
SELECT dedup_create('again', dedup_window(2000, 1e-6, 1), '10 days');
INSERT INTO visits VALUES (1, '2020-01-02');
SELECT dedup_guard('visits', 'again', '{k}', exact => true, at => 'at');
DELETE FROM visits WHERE at = '2020-01-02';
SELECT dedup_guard('visits', 'again', '{k}', exact => true, at => 'at');
SELECT count(DISTINCT k) - new AS not_loaded FROM visits, dedup_stats('again') WHERE at > '2024-02-29'::timestamptz - interval '2 weeks' GROUP BY new;
SELECT sum(add(k, (at + interval '1 hour')::text)) AS let_in FROM visits;
-- a partition that is attached, late or not, is held against the others
CREATE TABLE visits_0 (LIKE visits);
CREATE INDEX ON visits_0 (k);
ALTER TABLE visits DETACH PARTITION visits_1;
INSERT INTO visits_0 VALUES (1, '2019-12-31'), (6, '2023-12-31');
INSERT INTO visits VALUES (6, '2024-01-05');
ALTER TABLE visits ATTACH PARTITION visits_0 FOR VALUES FROM ('2010-01-01') TO ('2024-01-01');
DELETE FROM visits_0 WHERE k = 6;
ALTER TABLE visits ATTACH PARTITION visits_0 FOR VALUES FROM ('2010-01-01') TO ('2024-01-01');
SELECT add(1, '2020-01-03') AS duplicate, add(1, '2020-01-10') AS apart, add(6, '2023-12-25') AS duplicate_of_none, add(6, '2024-01-03') AS duplicate;
SELECT dedup_rebuild('again');

SET client_min_messages = error;
DROP SCHEMA exact_times CASCADE;
