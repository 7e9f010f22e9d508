-- Windows of live filters: by count, by time, by the event's own time.
\set SHOW_CONTEXT never

-- need E3: seen in the last 24 hours. The third click comes 24 h 1 min after the first:
-- at least the ttl has passed and less than 1/7 more, so both answers keep the promise.
SELECT dedup_create('day', dedup_window(10000, 1e-6, 42), '24 hours');
SELECT is_new_at('day', '2024-01-01 00:00Z', 1, 9) AS first, is_new_at('day', '2024-01-01 23:59Z', 1, 9) AS second;
SELECT is_new_at('day', '2024-01-03 12:00Z', 1, 9) AS fourth, is_new_at('day', '2024-01-03 12:00Z', 1, 9) AS again;

-- an event older than the window is new and not remembered, on whatever page its key is
SELECT count(*) FILTER (WHERE is_new_at('day', '2023-06-01', 'old', i)) AS first, count(*) FILTER (WHERE is_new_at('day', '2023-06-01', 'old', i)) AS second FROM generate_series(1, 100) i;
-- a late one inside of it is remembered, and keeps its own time
SELECT is_new_at('day', '2024-01-03 00:00Z', 'late'), is_new_at('day', '2024-01-03 12:00Z', 'late'), is_new_at('day', '2024-01-04 04:00Z', 'late');
-- a rolled-back event of the far future ages nothing out
BEGIN;
SELECT is_new_at('day', '2035-01-01', 'future');
ROLLBACK;
SELECT is_new_at('day', '2024-01-03 13:00Z', 1, 9);
SELECT is_new_at('day', 'infinity', 1), 1;
SELECT is_new_at('day', '1960-01-01', 1), is_new_at('day', '-infinity', 1);
SELECT is_new_at('day', NULL, 1);
SELECT is_new_at('day'::regclass, NULL, 1);
SELECT is_new_at(NULL::text, now(), 1);

-- one that commits moves the window on; the clock's own time then goes on from there
SELECT is_new_at('day', '2090-01-01', 'future');
SELECT is_new_at('day', '2024-01-03 13:00Z', 1, 9) AS too_old, is_new('day', 'clock') AS first, is_new('day', 'clock') AS second, dedup_seen('day', 'clock');

-- an event ahead of the clock by less than the window moves it too, and says so: once, since
-- other events at that time then move nothing, nor does a duplicate or a rolled-back event
SELECT dedup_create('ahead', dedup_window(10000, 1e-6, 42), '7 days');
-- a generation is a day of UTC: three days from now, at its start
SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '3 days' AS event
\gset
SELECT is_new('ahead', 'before'), is_new_at('ahead', now(), 'now'), is_new_at('ahead', now() - interval '1 day', 'past');
SELECT is_new_at('ahead', now() - interval '5 days', 'old'), dedup_seen('ahead', 'old');
SELECT is_new_at('ahead', :'event', 'before');
BEGIN;
SELECT is_new_at('ahead', :'event', 'event');
ROLLBACK;
SELECT is_new_at('ahead', :'event', 'event');
SELECT is_new_at('ahead', :'event', 'same day'), is_new_at('ahead', now(), 'now again');
-- what is_new() adds now is refused as if it had been added at the time of the event: still on
-- the last day of the window that began then, and no longer. Of the keys from before those are
-- alive that are not older than the window before the event.
SELECT is_new('ahead', 'k'), is_new('ahead', 'k') AS again, is_new('ahead', 'before') AS before, dedup_seen('ahead', 'now') AS now, dedup_seen('ahead', 'old') AS old;
BEGIN;
SELECT is_new_at('ahead', :'event'::timestamptz + interval '7 days 23:59:59.999999', 'k') AS last_day;
SELECT is_new_at('ahead', :'event'::timestamptz + interval '8 days', 'k') AS after_it;
ROLLBACK;
-- an event that is further ahead than the window: what was there before is forgotten
SELECT is_new_at('ahead', :'event'::timestamptz + interval '8 days', 'far');
SELECT is_new('ahead', 'before') AS before, dedup_seen('ahead', 'k') AS k;
SELECT count FROM dedup_stats('ahead');
-- loading it says the same, once
SELECT dedup_create('loaded', dedup_window(10000, 1e-6, 42), '7 days');
SELECT dedup_load('loaded', dedup_snapshot('ahead'));
TRUNCATE loaded;
COPY ahead TO PROGRAM 'cat > live_window.txt';
COPY loaded FROM PROGRAM 'cat live_window.txt';
SELECT dedup_seen('loaded', 'far'), is_new_at('loaded', :'event'::timestamptz + interval '8 days', 'far');
DROP TABLE loaded, ahead;

-- times that have no generation: before 1970 (2025 for short windows) older than every window,
-- in an empty filter too; after 2106 (2038) out of range
SELECT dedup_create('long', dedup_window(1000, 0.01, 42), '7 days');
SELECT dedup_create('short', dedup_window(1000, 0.01, 42), '6 seconds');
SELECT i, is_new_at('long', t, 'k') AS first, is_new_at('long', t, 'k') AS again
FROM unnest('{-infinity,4713-01-01 00:00:00+00 BC,1969-12-31 23:59:59.999999+00}'::timestamptz[]) WITH ORDINALITY u (t, i);
SELECT is_new_at('long', '1970-01-01 00:00Z', 'k') AS first, is_new_at('long', '1970-01-01 00:00Z', 'k') AS again;
SELECT is_new_at('short', '2024-12-31 23:59:59.999999Z', 'k') AS first, is_new_at('short', '2024-12-31 23:59:59.999999Z', 'k') AS again;
SELECT is_new_at('short', '2025-01-01 00:00Z', 'k') AS first, is_new_at('short', '2025-01-01 00:00Z', 'k') AS again;
BEGIN;
SET LOCAL client_min_messages = error;
SELECT is_new_at('long', '2106-02-07 06:27:58.999999Z', 'k') AS first, is_new_at('long', '2106-02-07 06:27:58.999999Z', 'k') AS again;
SELECT is_new_at('short', '2038-08-12 00:38:47.899999Z', 'k') AS first, is_new_at('short', '2038-08-12 00:38:47.899999Z', 'k') AS again;
ROLLBACK;
SELECT is_new_at('long', '2106-02-07 06:27:59Z', 'k');
SELECT is_new_at('short', '2038-08-12 00:38:47.9Z', 'k');
SELECT is_new_at('long', '294276-12-31 23:59:59.999999Z', 'k');
SELECT is_new_at('long', 'infinity', 'k');
DROP TABLE long, short;

-- every phase of a key within its generation: a duplicate for 24 h, new again after 27 h 26 min
SELECT dedup_create('phases', dedup_window(10000, 1e-6, 42), '24 hours');
SELECT count(*) FILTER (WHERE is_new_at('phases', '2024-03-30'::timestamptz + i * interval '1 minute', i)) AS new FROM generate_series(0, 600) i;
SELECT count(*) FILTER (WHERE is_new_at('phases', '2024-03-31'::timestamptz + i * interval '1 minute', i)) AS new_after_24_h FROM generate_series(0, 600) i;
SELECT count(*) FILTER (WHERE is_new_at('phases', '2024-03-31 03:26'::timestamptz + i * interval '1 minute', i)) AS new_after_27_h_26 FROM generate_series(0, 600) i;
DROP TABLE phases;

-- a steady repeat is let through once every window: each hour for 30 days
SELECT dedup_create('steady', dedup_window(10000, 1e-6, 42), '24 hours');
SELECT count(*) BETWEEN floor(720 / 28.0) AND ceil(720 / 24.0) + 1 AS as_promised
FROM generate_series(0, 720) i WHERE is_new_at('steady', '2024-01-01'::timestamptz + i * interval '1 hour', 'steady');
DROP TABLE steady;

-- need A3: constant size, the last 3 days seen (four deliveries, each at midnight), those of 5 and
-- more days ago forgotten
SELECT dedup_create('hooks', dedup_window(20000, 0.001, 42), '3 days');
CREATE TABLE delivery AS SELECT d AS day, md5(d::text || ':' || i) AS id FROM generate_series(0, 29) d, generate_series(1, 5000) i;
CREATE TABLE fed (day int, new bigint);
CREATE PROCEDURE feed(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
	FOR d IN first..last LOOP
		INSERT INTO fed SELECT d, count(*) FILTER (WHERE is_new_at('hooks', '2024-01-01'::timestamptz + day * interval '1 day', id)) FROM delivery WHERE day = d;
		COMMIT;
	END LOOP;
END $$;
CALL feed(0, 5);
VACUUM hooks;
SELECT bytes AS day5_bytes FROM dedup_stats('hooks')
\gset
CALL feed(6, 29);
VACUUM hooks;
SELECT count(*) AS days, count(*) FILTER (WHERE new >= 4985) AS as_promised FROM fed;
SELECT bytes = :day5_bytes AS constant_size, forgotten_early <= 0.001 * 150000 AS few_early, overfull, ttl FROM dedup_stats('hooks');
SELECT count(*) FILTER (WHERE day >= 27 AND new) AS missed, count(*) FILTER (WHERE day < 25 AND NOT new) <= 0.003 * 125000 AS forgotten
FROM (SELECT day, is_new_at('hooks', '2024-01-30 00:00:01', id) AS new FROM delivery ORDER BY day DESC) d;
SELECT * FROM dedup_check('hooks');
DROP TABLE hooks, delivery, fed;
DROP PROCEDURE feed;

-- more keys than the window was made for: said once, when the first transaction that adds them commits; the oldest go early
SELECT dedup_create('small', dedup_window(1000, 0.01, 42), '1 day');
SELECT count(*) FROM dedup_new_keys('small', ARRAY(SELECT i FROM generate_series(1, 3000) i));
SELECT count(*) >= 2950 AS new FROM dedup_new_keys('small', ARRAY(SELECT i FROM generate_series(3001, 6000) i));
VACUUM small;
SELECT count(*) >= 2950 AS new FROM dedup_new_keys('small', ARRAY(SELECT i FROM generate_series(6001, 9000) i));
VACUUM small;
SELECT forgotten_early > 1000 AS forgotten_early, overfull FROM dedup_stats('small');
DROP TABLE small;

-- the keys count that the window holds: those of this transaction and of earlier ones
SELECT dedup_create('small', dedup_window(1000, 0.01, 42), '1 day');
SELECT count(*) FILTER (WHERE is_new('small', i)) > 690 AS new FROM generate_series(1, 700) i;
SELECT count(*) FILTER (WHERE is_new('small', i)) > 690 AS new FROM generate_series(1001, 1700) i;
DROP TABLE small;
-- not those that were rolled back
SELECT dedup_create('small', dedup_window(1000, 0.01, 42), '1 day');
BEGIN;
SAVEPOINT a;
SELECT count(*) FILTER (WHERE is_new('small', i)) > 2900 AS new FROM generate_series(1, 3000) i;
ROLLBACK TO a;
SELECT count(*) FILTER (WHERE is_new('small', i)) > 950 AS new FROM generate_series(1, 1000) i;
COMMIT;
SELECT forgotten_early, overfull FROM dedup_stats('small');
DROP TABLE small;
-- nor those that have expired: ten days of events, 720 a day
SELECT dedup_create('small', dedup_window(1000, 0.01, 42), '1 day');
SELECT count(*) FILTER (WHERE is_new_at('small', timestamptz '2025-03-01 00:00+00' + n / 30 * interval '1 hour', n)) > 7100 AS new FROM generate_series(0, 7199) n;
SELECT count < 1000 AS held, overfull FROM dedup_stats('small');
DROP TABLE small;
-- a key that this transaction renews counts once, whether its last sight is in a line or an entry: 951 keys
SELECT dedup_create('small', dedup_window(1000, 0.01, 42), '1 day', renew => true);
SELECT count(*) FILTER (WHERE is_new_at('small', '2025-03-01 00:00+00', i)) > 440 AS new FROM generate_series(1, 450) i;
SELECT count(*) FILTER (WHERE is_new_at('small', '2025-03-01 08:00+00', i)) AS new FROM generate_series(1, 450) i;
SELECT count(*) FILTER (WHERE is_new_at('small', '2025-03-01 16:00+00', i)) > 495 AS new FROM generate_series(1, 951) i;
SELECT count <= 951 AS held, overfull FROM dedup_stats('small');
DROP TABLE small;

-- a set past its capacity: said once, nothing forgotten, and it grows
SELECT dedup_create('set', dedup_filter(1000, 1e-6, 42));
SELECT count(*) FROM dedup_new_keys('set', ARRAY(SELECT i FROM generate_series(1, 1000) i));
SELECT count(*) FROM dedup_new_keys('set', ARRAY(SELECT i FROM generate_series(1001, 9000) i));
VACUUM set;
SELECT count(*) FROM dedup_new_keys('set', ARRAY(SELECT i FROM generate_series(9001, 10000) i));
VACUUM set;
SELECT count(*) FILTER (WHERE dedup_seen('set', i)) FROM generate_series(1, 10000) i;
SELECT count, overfull, overflow_pages > 0 AS grown FROM dedup_stats('set');
SELECT * FROM dedup_check('set');
DROP TABLE set;

-- by count: at age n at most 0.1 % are missed, at several times n most are gone
SELECT dedup_create('last', dedup_window(20000, 1e-6, 42));
DO $$
BEGIN
	FOR b IN 0..99 LOOP
		PERFORM dedup_new_keys('last', ARRAY(SELECT b * 1000 + i FROM generate_series(1, 1000) i));
		COMMIT;
	END LOOP;
END $$;
SELECT new FROM dedup_stats('last');
VACUUM last;
SELECT count(*) FILTER (WHERE NOT dedup_seen('last', i)) <= 20 AS youngest_20000 FROM generate_series(80001, 100000) i;
SELECT count(*) FILTER (WHERE dedup_seen('last', i)) < 0.1 * count(*) AS oldest_gone FROM generate_series(1, 40000) i;
-- a rolled-back load of as many again ages nothing out
BEGIN;
SELECT count(*) FROM dedup_new_keys('last', ARRAY(SELECT i FROM generate_series(200001, 240000) i));
ROLLBACK;
VACUUM last;
SELECT count(*) FILTER (WHERE NOT dedup_seen('last', i)) <= 20 AS youngest_20000, count(*) FILTER (WHERE dedup_seen('last', 120000 + i)) AS rolled_back FROM generate_series(80001, 100000) i;
SELECT overflow_pages, in_flight FROM dedup_stats('last');
DROP TABLE last, day;
