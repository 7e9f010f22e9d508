-- Need D2: distinct users over the last 7 rows, which is not implemented for SQL's count(DISTINCT ...) OVER.

\set QUIET on
CREATE SCHEMA need_d2;
SET search_path = need_d2, public;
CREATE TABLE w AS SELECT i AS d, (i * 7) % 11 AS u FROM generate_series(1, 60) i;
\set QUIET off

-- moving, running and over all rows it is what a subquery for each row counts

SELECT count(*) AS rows,
	bool_and(week = (SELECT count(DISTINCT u) FROM w b WHERE b.d BETWEEN a.d - 6 AND a.d)) AS week,
	bool_and(so_far = (SELECT count(DISTINCT u) FROM w b WHERE b.d <= a.d)) AS so_far,
	bool_and("all" = (SELECT count(DISTINCT u) FROM w)) AS "all"
FROM (SELECT d, dedup_count(dedup_agg(u) OVER (ORDER BY d ROWS 6 PRECEDING)) AS week,
		dedup_count(dedup_agg(u) OVER (ORDER BY d)) AS so_far,
		dedup_count(dedup_agg(u) OVER ()) AS "all" FROM w) a;
SELECT d, dedup_count(dedup_agg(u) OVER (ORDER BY d ROWS 6 PRECEDING)) AS n FROM w ORDER BY d
LIMIT 8;

SELECT count(*) AS rows,
	bool_and(week = (SELECT count(DISTINCT u) FROM w b WHERE b.d BETWEEN a.d - 6 AND a.d)) AS week,
	bool_and(so_far = (SELECT count(DISTINCT u) FROM w b WHERE b.d <= a.d)) AS so_far,
	bool_and("all" = (SELECT count(DISTINCT u) FROM w)) AS "all"
FROM (SELECT d, approx_count_distinct(u) OVER (ORDER BY d ROWS 6 PRECEDING) AS week,
		approx_count_distinct(u) OVER (ORDER BY d) AS so_far,
		approx_count_distinct(u) OVER () AS "all" FROM w) a;

-- by days, too, from one filter a day

SELECT bool_and(dedup_count(week) = (SELECT count(DISTINCT u) FROM w b
		WHERE b.d / 5 BETWEEN a.day - 6 AND a.day)) AS days
FROM (SELECT d / 5 AS day,
		dedup_merge_agg(dedup_agg(u)) OVER (ORDER BY d / 5 ROWS 6 PRECEDING) AS week FROM w
	GROUP BY d / 5) a;

-- and the subquery for each row by the setting

CREATE TABLE truth AS SELECT d, (SELECT count(DISTINCT u) FROM w b WHERE b.d BETWEEN a.d - 6 AND a.d) AS n FROM w a;
LOAD 'streamdedup';
SET streamdedup.approximate_distinct = on;
SELECT count(*) AS rows, bool_and(t.n = x.n) AS equal FROM truth t
JOIN (SELECT d, (SELECT count(DISTINCT u) FROM w b WHERE b.d BETWEEN a.d - 6 AND a.d) AS n FROM w a) x USING (d);

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_d2 CASCADE;
