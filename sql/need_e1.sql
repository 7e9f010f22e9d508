-- Need E1: a merged filter can be overfull. The merge is made, a warning says that it is overfull, and its current
-- rate is reported.

\set QUIET on
CREATE TEMP TABLE day AS SELECT d, dedup_agg(dedup_filter(10000, 0.01), d * 10000 + i) AS f
FROM generate_series(1, 7) d, generate_series(1, 10000) i GROUP BY d;
\set QUIET off

-- seven days of 10,000 keys without overlap: the warning names the capacity, the keys and the rate

CREATE TEMP TABLE week AS SELECT dedup_merge_agg(f) AS f FROM day;

-- none of the 70,000 keys is missed, and the rate is the one that is measured on 100,000 others

SELECT count(*) FILTER (WHERE is_new(f, i)) AS missed FROM week, generate_series(10001, 80000) i;
SELECT overfull, keys, count BETWEEN 68600 AND 71400 AS about_70000,
	measured > 0.02 AS past_the_rate, fpr_now / measured BETWEEN 1 / 1.5 AND 1.5 AS rate_is_true
FROM (SELECT s.*,
		(SELECT count(*) FILTER (WHERE dedup_contains(f, i)) / 100000.0
			FROM generate_series(1000001, 1100000) i) AS measured FROM week, dedup_stats(f) s) x;

-- a filter made for the week has none of it

SELECT overfull, measured <= 0.01 * 1.05 + 4 * sqrt(0.01 / 100000) AS rate
FROM (SELECT s.*,
		(SELECT count(*) FILTER (WHERE dedup_contains(f, i)) / 100000.0
			FROM generate_series(1000001, 1100000) i) AS measured
	FROM (SELECT dedup_agg(dedup_filter(70000), i) AS f FROM generate_series(10001, 80000) i) x,
		dedup_stats(f) s) y;
