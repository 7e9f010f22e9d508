-- Need E3: old keys must expire, within a documented bound. With ttl a key is a duplicate from its first sight until
-- at least ttl and at most ttl + ttl/7 later.

\set QUIET on
CREATE SCHEMA need_e3;
SET search_path = need_e3, public;
SET timezone = 'UTC';
SELECT dedup_create('day_seen', dedup_window(100000, 1e-6, 42), '24 hours') \gset
\set QUIET off

-- The four clicks. The third comes 24 hours and a minute after the first sight, where
-- either answer is right.

SELECT is_new_at('day_seen', '2024-01-01 00:00Z', 1, 9) AS first;
SELECT is_new_at('day_seen', '2024-01-01 23:59Z', 1, 9) AS second;
SELECT is_new_at('day_seen', '2024-01-02 00:01Z', 1, 9) IS NOT NULL AS third;
SELECT is_new_at('day_seen', '2024-01-03 12:00Z', 1, 9) AS fourth;

-- The bound, for 200 keys with first sights all around the clock. Each is sent four times
-- more within its ttl, which neither prolongs nor shortens it, and once after ttl + ttl/7.

\set QUIET on
CREATE TABLE sent AS
SELECT k, n, timestamptz '2024-02-01Z' + k * interval '37 minutes' + after AS at, expected
FROM generate_series(1, 200) k, (VALUES
	(1, interval '0', true),
	(2, interval '1 second', false),
	(3, interval '12 hours', false),
	(4, interval '23 hours 59 minutes', false),
	(5, interval '23:59:59.999', false),
	(6, interval '24 hours' + interval '24 hours' / 7 + interval '1 second', true)) v(n, after, expected);
\set QUIET off
WITH answers AS MATERIALIZED (
	SELECT n, expected, is_new_at('day_seen', at, 'key', k) AS is_new
	FROM (SELECT * FROM sent ORDER BY at, k OFFSET 0) x)
SELECT n, count(*), count(*) FILTER (WHERE is_new = expected) AS as_expected
FROM answers GROUP BY n ORDER BY n;

-- An event that is late, but within the window, counts from its own time; one that is
-- older than the window is new and not remembered.

SELECT is_new_at('day_seen', '2024-03-02 12:00Z', 'now');
SELECT is_new_at('day_seen', '2024-03-01 18:00Z', 'late') AS late,
	is_new_at('day_seen', '2024-03-02 12:00Z', 'late') AS again;
SELECT is_new_at('day_seen', '2024-02-20Z', 'old') AS old,
	is_new_at('day_seen', '2024-02-20Z', 'old') AS again,
	is_new_at('day_seen', '2024-03-02 12:00Z', 'old') AS and_now,
	is_new_at('day_seen', '2024-03-02 12:00Z', 'old') AS and_now_again;

-- A steady repeat, every ten minutes for ten days, is let through once every window.

WITH answers AS MATERIALIZED (
	SELECT is_new_at('day_seen', at, 'steady') AS is_new
	FROM generate_series(timestamptz '2024-04-01Z', '2024-04-10 23:50Z', '10 minutes') at)
SELECT count(*) AS sent, count(*) FILTER (WHERE is_new) BETWEEN 9 AND 10 AS once_a_window FROM answers;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_e3 CASCADE;
