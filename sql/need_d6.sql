-- Need D6: one filter a day, merged into weeks and months without the rows.

\set QUIET on
CREATE SCHEMA need_d6;
SET search_path = need_d6, public;
CREATE TABLE v AS SELECT d, u
FROM generate_series(1, 7) d, generate_series(1, 10000) i, LATERAL (SELECT (d * 3000 + i) AS u) x;
CREATE TABLE daily AS SELECT d, dedup_agg(dedup_filter(30000, 0.01), u) AS f FROM v GROUP BY d;
\set QUIET off

-- merging the days is building the week once, byte for byte, in any order; a day twice
-- changes nothing

SELECT dedup_merge_agg(f)::text = (SELECT dedup_agg(dedup_filter(30000, 0.01), u) FROM v)::text
		AS as_built_once,
	dedup_merge_agg(f ORDER BY d)::text = dedup_merge_agg(f ORDER BY d DESC)::text AS any_order,
	(dedup_merge_agg(f) || min(f::text) FILTER (WHERE d = 3)::dedup_filter)::text
	= dedup_merge_agg(f)::text AS a_day_twice FROM daily;

-- its users are 28,000, not the 70,000 that the days add up to

SELECT (SELECT count(DISTINCT u) FROM v) AS truth,
	dedup_count(dedup_merge_agg(f)) BETWEEN 0.98 * 28000 AND 1.02 * 28000 AS week,
	sum(dedup_count(f)) BETWEEN 0.98 * 70000 AND 1.02 * 70000 AS sum_of_days FROM daily;

-- any range of days

SELECT bool_and(abs(dedup_count(f) - oracle) <= 0.02 * oracle) AS all_ranges, count(*) AS ranges
FROM (SELECT a, b, (SELECT dedup_merge_agg(f) FROM daily WHERE d BETWEEN a AND b) AS f,
		10000 + 3000 * (b - a) AS oracle FROM generate_series(1, 7) a, generate_series(1, 7) b
	WHERE a <= b) x;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_d6 CASCADE;
