-- dedup_agg and dedup_merge_agg in all places where SQL allows an aggregate. The results are compared with
-- count(DISTINCT ...): these groups are small, and small filters are exact.

\set QUIET on
CREATE TEMP TABLE hits (i int, day int, u int, ad text);
INSERT INTO hits SELECT i, i % 7, CASE WHEN i % 11 > 0 THEN i * 7 % 31 END,
	CASE WHEN i % 13 > 0 THEN 'ad' || i % 5 END FROM generate_series(1, 1000) i;
ANALYZE hits;

-- whether the plan of a query has a node of this name
CREATE FUNCTION pg_temp.plan_has(query text, node text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		IF position(node IN line) > 0 THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
\set QUIET off

-- over no rows the filter is NULL, over NULL keys alone it is empty

SELECT dedup_agg(u) IS NULL AS no_rows, dedup_agg(dedup_filter(10), u) IS NULL AS prototype,
	dedup_merge_agg(dedup_filter(10)) IS NULL AS merge FROM hits WHERE false;
SELECT dedup_count(dedup_agg(u)) = 0 AS only_nulls,
	dedup_agg(dedup_window(10), u)::text = dedup_window(10)::text AS prototype,
	dedup_count(dedup_agg(u, i)) = 0 AS one_column,
	dedup_agg(NULL::int)::text = dedup_filter()::text AS without_prototype FROM hits
	WHERE u IS NULL;
SELECT dedup_merge_agg(NULL::dedup_filter) IS NULL AS merge_of_nulls FROM hits;

-- it holds each key of the rows once, and skips keys with a NULL

SELECT dedup_count(dedup_agg(u)) = count(DISTINCT u) AS one,
	dedup_count(dedup_agg(u, ad)) = count(DISTINCT (u, ad)) FILTER (WHERE u IS NOT NULL
			AND ad IS NOT NULL) AS two,
	dedup_count(dedup_agg(dedup_window(10000), u, ad, day)) = count(DISTINCT (u, ad, day))
	FILTER (WHERE u IS NOT NULL AND ad IS NOT NULL) AS three FROM hits;
SELECT bool_and(dedup_contains(f, u)) AS all_found, count(*) > 0 AS some
FROM hits, (SELECT dedup_agg(u) FROM hits) x(f) WHERE u IS NOT NULL;
SELECT count(*) FILTER (WHERE dedup_contains(f, u)) = 0 AS no_other
FROM generate_series(31, 1000) u, (SELECT dedup_agg(u) FROM hits) x(f);

-- the default is dedup_filter()

SELECT method, keys, fpr, seed FROM (SELECT dedup_agg(u) AS f FROM hits) x, dedup_stats(f);

-- the first row's prototype counts

SELECT keys, fpr, method
FROM (SELECT dedup_agg(CASE WHEN i = 1 THEN dedup_window(77, 0.1) ELSE dedup_filter(5) END, i
			ORDER BY i) AS f FROM hits) x, dedup_stats(f);

-- a prototype must be an empty filter

SELECT dedup_agg(NULL::dedup_filter, i) FROM hits;
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_agg(dedup_add(dedup_filter(10), 1), i) FROM hits;
\echo :LAST_ERROR_SQLSTATE

-- FILTER is WHERE

SELECT dedup_agg(u) FILTER (WHERE day = 3)::text = (SELECT dedup_agg(u) FROM hits WHERE day = 3)::text AS same,
	dedup_agg(u) FILTER (WHERE false) IS NULL AS none FROM hits;

-- groups, grouping sets, rollups and cubes have the counts of count(DISTINCT)

SELECT count(*) AS groups, bool_and(n = oracle) AS "right"
FROM (SELECT day, dedup_count(dedup_agg(u)) AS n, count(DISTINCT u) AS oracle FROM hits GROUP BY day) x;
SELECT count(*) AS groups, bool_and(n = oracle) AS "right"
FROM (SELECT dedup_count(dedup_agg(u)) AS n, count(DISTINCT u) AS oracle FROM hits
	GROUP BY GROUPING SETS ((day), (ad), (day, ad), ())) x;
SELECT count(*) AS groups, bool_and(n = oracle) AS "right"
FROM (SELECT dedup_count(dedup_agg(u)) AS n, count(DISTINCT u) AS oracle FROM hits
	GROUP BY ROLLUP (day, ad)) x;
SELECT count(*) AS groups, bool_and(n = oracle) AS "right"
FROM (SELECT dedup_count(dedup_agg(u)) AS n, count(DISTINCT u) AS oracle FROM hits
	GROUP BY CUBE (day, ad)) x;

-- the same with grouping sets by hashing, where DISTINCT is not in the way

SET enable_sort = off;
SET enable_hashagg = on;
CREATE TEMP TABLE by_sets AS SELECT day, ad, grouping(day, ad) AS sets,
	dedup_agg(dedup_filter(100), u) AS f FROM hits GROUP BY CUBE (day, ad);
RESET enable_sort;
SELECT count(*) AS groups, bool_and(f::text = (SELECT dedup_agg(dedup_filter(100), h.u) FROM hits h
	WHERE (sets & 2 <> 0 OR h.day IS NOT DISTINCT FROM s.day)
		AND (sets & 1 <> 0 OR h.ad IS NOT DISTINCT FROM s.ad))::text) AS "right" FROM by_sets s;

-- HAVING, DISTINCT and ORDER BY within; and a filter that never forgets does not depend
-- on the order

SELECT count(*) = (SELECT count(*)
	FROM (SELECT day FROM hits GROUP BY day HAVING count(DISTINCT u) > 28) y) AS having
FROM (SELECT day FROM hits GROUP BY day HAVING dedup_count(dedup_agg(u)) > 28) x;
SELECT dedup_agg(DISTINCT u)::text = dedup_agg(u)::text AS "distinct",
	dedup_agg(u ORDER BY i DESC)::text = dedup_agg(u ORDER BY md5(i::text))::text AS order_by,
	dedup_agg(dedup_filter(31, 0.1), u ORDER BY i)::text = dedup_agg(dedup_filter(31, 0.1), u
		ORDER BY i DESC)::text AS full_too,
	dedup_agg(dedup_filter(31, 0.00001), u ORDER BY i)::text = dedup_agg(dedup_filter(31, 0.00001),
		u ORDER BY i DESC)::text AS bloom_too FROM hits;

-- a window does: it keeps the last keys

SELECT bool_and(dedup_contains(up, i)) AS last, bool_and(dedup_contains(down, 1001 - i)) AS first,
	count(*) FILTER (WHERE dedup_contains(up, 1001 - i)) < 20
		AND count(*) FILTER (WHERE dedup_contains(down, i)) < 20 AS and_not_the_others
FROM (SELECT dedup_agg(dedup_window(100), i ORDER BY i) AS up,
			dedup_agg(dedup_window(100), i ORDER BY i DESC) AS down FROM hits) x,
	generate_series(981, 1000) i;

-- many in one query, alike and different

SELECT dedup_agg(u)::text = dedup_agg(u)::text AS twice,
	dedup_count(dedup_agg(u)) = count(DISTINCT u) AS u,
	dedup_count(dedup_agg(ad)) = count(DISTINCT ad) AS ad,
	dedup_count(dedup_agg(dedup_filter(1000), u)) = count(DISTINCT u) AS a,
	dedup_count(dedup_agg(dedup_filter(2000), u)) = count(DISTINCT u) AS b,
	dedup_count(dedup_agg(dedup_window(1000), u)) = count(DISTINCT u) AS c,
	dedup_count(dedup_agg(dedup_method('ring', NULL, 'keys=1000'), u)) = count(DISTINCT u) AS d
	FROM hits;
SELECT a.keys = 1000 AND b.keys = 2000 AND a.method = b.method AND c.method = 'recent'
	AND c.keys = 1000 AND d.method = 'ring' AS each_its_own
FROM (SELECT dedup_agg(dedup_filter(1000), u) AS a, dedup_agg(dedup_filter(2000), u) AS b,
		dedup_agg(dedup_window(1000), u) AS c,
		dedup_agg(dedup_method('ring', NULL, 'keys=1000'), u) AS d FROM hits) f,
	dedup_stats(f.a) a, dedup_stats(f.b) b, dedup_stats(f.c) c, dedup_stats(f.d) d;

-- as a window aggregate: over all, running, and over frames whose start moves, it is the
-- plain aggregate of the frame

SELECT bool_and(dedup_count(everything) = (SELECT count(DISTINCT u) FROM hits)) AS everything,
	bool_and(dedup_count(running) = (SELECT count(DISTINCT h.u) FROM hits h WHERE h.i <= x.i))
		AS running,
	bool_and(dedup_count(week) = (SELECT count(DISTINCT h.u) FROM hits h
			WHERE h.i BETWEEN x.i - 6 AND x.i)) AS week,
	bool_and(coalesce(dedup_count(ahead), 0) = (SELECT count(DISTINCT h.u) FROM hits h
			WHERE h.i BETWEEN x.i + 1 AND least(x.i + 3, 300))) AS ahead,
	bool_and(dedup_count(by_day) = (SELECT count(DISTINCT h.u) FROM hits h
			WHERE h.day = x.day AND h.i <= x.i)) AS by_day,
	bool_and(coalesce(dedup_count(others), 0) = (SELECT count(DISTINCT h.u) FROM hits h
			WHERE h.i BETWEEN x.i - 2 AND least(x.i + 2, 300) AND h.i <> x.i)) AS others
FROM (SELECT i, day, dedup_agg(u) OVER () AS everything, dedup_agg(u) OVER (ORDER BY i) AS running,
		dedup_agg(u) OVER (ORDER BY i ROWS 6 PRECEDING) AS week,
	dedup_agg(u) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING) AS ahead,
	dedup_agg(u) OVER (PARTITION BY day ORDER BY i) AS by_day,
	dedup_agg(u) OVER (ORDER BY i ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW)
	AS others FROM hits WHERE i <= 300) x;

-- so it is for filters that outgrow their exact form while the window runs

SELECT bool_and(running::text = (SELECT dedup_agg(dedup_filter(20), h.i) FROM hits h
		WHERE h.i <= x.i)::text) AS blocked_bloom,
	bool_and(recent::text = (SELECT dedup_agg(dedup_window(20), h.i ORDER BY h.i) FROM hits h
			WHERE h.i <= x.i)::text) AS recent,
	bool_and(moving::text = (SELECT dedup_agg(dedup_window(5), h.i ORDER BY h.i) FROM hits h
			WHERE h.i BETWEEN x.i - 19 AND x.i)::text) AS moving
FROM (SELECT i, dedup_agg(dedup_filter(20), i) OVER w AS running,
		dedup_agg(dedup_window(20), i) OVER w AS recent,
	dedup_agg(dedup_window(5), i) OVER (ORDER BY i ROWS 19 PRECEDING) AS moving FROM hits
WHERE i <= 24 WINDOW w AS (ORDER BY i)) x;

-- an aggregate of aggregates: daily filters merged as they come are the filter of all days so far

SELECT bool_and(week::text = (SELECT dedup_agg(h.u) FROM hits h
		WHERE h.day BETWEEN x.day - 2 AND x.day)::text) AS three_days,
	bool_and(so_far::text = (SELECT dedup_agg(h.u) FROM hits h WHERE h.day <= x.day)::text) AS so_far
FROM (SELECT day, dedup_merge_agg(dedup_agg(u)) OVER (ORDER BY day ROWS 2 PRECEDING) AS week,
		dedup_merge_agg(dedup_agg(u)) OVER (ORDER BY day) AS so_far FROM hits GROUP BY day) x;

-- 20,000 groups by hashing, with too little memory for them, are exact, every one

SET enable_sort = off;
SET enable_hashagg = on;
SET work_mem = '64kB';
SELECT pg_temp.plan_has('SELECT g / 2, dedup_agg(g) FROM generate_series(1, 40000) g GROUP BY g / 2',
		'HashAggregate') AS by_hashing;
SELECT count(*) AS groups, sum(n) AS keys, count(*) FILTER (WHERE n <> rows) AS wrong,
	count(*) FILTER (WHERE NOT found) AS missed
FROM (SELECT g / 2, dedup_count(f) AS n, rows, dedup_contains(f, last) AS found
	FROM (SELECT g / 2, count(*) AS rows, max(g) AS last, dedup_agg(g) AS f
		FROM generate_series(1, 40000) g GROUP BY g / 2) y(g, rows, last, f)) x;
SELECT count(*) AS groups, sum(n) AS keys
FROM (SELECT dedup_count(dedup_agg(dedup_window(1000), g, 'x', g::text)) AS n
	FROM generate_series(1, 40000) g GROUP BY g / 2) x;
RESET enable_sort;
RESET work_mem;

-- a few groups of many keys beside many of few

SELECT count(*) AS groups,
	bool_and(CASE WHEN g = 0 THEN n BETWEEN 17900 AND 18100 ELSE n = 1 END) AS "right"
FROM (SELECT g, dedup_count(dedup_agg(dedup_filter(18000), i)) AS n
	FROM (SELECT i, CASE WHEN i % 10 > 0 THEN 0 ELSE i END AS g FROM generate_series(1, 20000) i) x
	GROUP BY g) y;

-- subqueries, common table expressions, LATERAL, correlation

SELECT bool_and(dedup_count((SELECT dedup_agg(h.u) FROM hits h WHERE h.day = d)) = (SELECT count(DISTINCT h.u)
		FROM hits h WHERE h.day = d)) AS correlated FROM generate_series(0, 6) d;
WITH days AS MATERIALIZED (SELECT day, dedup_agg(u) AS f FROM hits GROUP BY day)
SELECT count(*) FILTER (WHERE is_new(a.f, h.u)) = count(*) FILTER (WHERE NOT EXISTS (SELECT
		FROM hits o WHERE o.day = 1 AND o.u = h.u)) AS cte
FROM days a, hits h WHERE a.day = 1 AND h.day = 2 AND h.u IS NOT NULL;
SELECT bool_and(dedup_count(f) = 3 * d) AS lateral
FROM generate_series(1, 5) d, LATERAL (SELECT dedup_agg(i) AS f FROM generate_series(1, 3 * d) i) x;
WITH RECURSIVE grow(n, f) AS (SELECT 1, dedup_filter(10) UNION ALL SELECT n + 1, dedup_add(f, n)
	FROM grow WHERE n <= 5)
SELECT bool_and(dedup_count(f) = n - 1) AS recursive FROM grow;

-- dedup_merge_agg skips NULLs, and leaves a single filter as it is

SELECT dedup_merge_agg(f)::text = min(f::text) AS as_it_is
FROM (VALUES (NULL::dedup_filter), (dedup_add(dedup_window(100), 1)), (NULL)) v(f);
SELECT dedup_merge_agg(f)::text = min(f::text) AS full_too
FROM (SELECT dedup_agg(dedup_window(10), i) FROM generate_series(1, 100) i UNION ALL SELECT NULL)
	v(f);

-- an aggregate of one's own over the functions of a filter is as good

CREATE AGGREGATE pg_temp.merge_all(dedup_filter) (SFUNC = dedup_merge, STYPE = dedup_filter);
CREATE FUNCTION pg_temp.add_to_default(f dedup_filter, k int) RETURNS dedup_filter
LANGUAGE sql AS $$
	SELECT dedup_add(coalesce(f, dedup_filter(1000)), k)
$$;
CREATE AGGREGATE pg_temp.add_each(int) (SFUNC = pg_temp.add_to_default, STYPE = dedup_filter);
SELECT pg_temp.merge_all(dedup_add(dedup_filter(1000), i))::text
		= dedup_agg(dedup_filter(1000), i)::text AS merge,
	pg_temp.add_each(i)::text = dedup_agg(dedup_filter(1000), i)::text AS add FROM hits;
SELECT bool_and(f::text = (SELECT dedup_agg(dedup_filter(1000), i) FROM hits h WHERE h.i <= x.i)::text) AS running
FROM (SELECT i, pg_temp.add_each(i) OVER (ORDER BY i) AS f FROM hits WHERE i <= 200) x;

-- an overfull filter is a warning, one a query

SELECT count(*) AS groups, count(DISTINCT f::text) AS filters
FROM (SELECT dedup_agg(dedup_filter(1), i) AS f FROM hits, generate_series(1, 7) g
	WHERE i <= 140 GROUP BY g) x;

-- the functions behind the aggregates change their state, so nobody else may call them

SELECT dedup_agg_trans(dedup_filter(10), 1);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_agg_trans(dedup_filter(10), dedup_filter(10), 1);
SELECT dedup_agg_combine(dedup_filter(10), dedup_filter(10));
SELECT dedup_agg_hashes_trans(dedup_filter(10), 1);
SELECT dedup_agg_hashes_trans(dedup_filter(10), dedup_filter(10), 1);
SELECT approx_count_distinct_hashes_trans(dedup_filter(10), 1);
-- NULL is no internal either; servers have other errors for it
DO $$
DECLARE
	call text;
BEGIN
	FOREACH call IN ARRAY '{"dedup_agg_internal_trans(NULL, 1)","dedup_agg_deserial(dedup_filter(10)::bytea, NULL)"}'::text[] LOOP
		BEGIN
			EXECUTE 'SELECT ' || call;
			RAISE INFO '%: no error', call;
		EXCEPTION WHEN undefined_function OR feature_not_supported THEN RAISE INFO '%: an error', call;
		END;
	END LOOP;
END $$;

-- aggregates over hashes are those over the keys; dedup_hash() is the hash for a filter's seed
-- and hash function, NULL if a column is

SELECT n, dedup_agg_hashes(h0)::text = dedup_agg(i, g)::text AS growing, dedup_agg_hashes(p, h1)::text = dedup_agg(p, i, g)::text AS sized,
	approx_count_distinct_hashes(h0) = approx_count_distinct(i, g) AS counts
FROM (SELECT i, g, p, n, dedup_hash(NULL, i, g) AS h0, dedup_hash(p, i, g) AS h1
	FROM hits, generate_series(1, 3) g, (VALUES (1, dedup_filter(500, 0.01, 42)), (2, dedup_method('bloom', NULL, 'keys=100 hash=sip', 7)), (3, dedup_filter(5000))) v(n, p)) x
GROUP BY n, p ORDER BY n;
SELECT dedup_hash(NULL, 1) = dedup_hash(dedup_filter(10), 1::bigint) AS plain, dedup_hash(NULL, 1) = dedup_hash(dedup_filter(10, 0.01, 1), 1) AS seeded,
	dedup_hash(NULL, 1) = dedup_hash(dedup_method('bloom', '1kB', 'hash=sip'), 1) AS sip, dedup_hash(NULL, 1, NULL) AS null_column, dedup_hash(NULL, VARIADIC ARRAY[1, 2]) = dedup_hash(NULL, 1, 2) AS variadic,
	substr(dedup_agg('x')::bytea, 61) = (SELECT string_agg(substr(int8send(dedup_hash(NULL, 'x')), 9 - n, 1), NULL ORDER BY n) FROM generate_series(1, 8) n) AS stored;
SELECT dedup_hash(NULL, dedup_filter(10));
SELECT dedup_hash(NULL, 1::money);
SELECT dedup_agg_hashes(NULL) AS no_key, approx_count_distinct_hashes(NULL) AS none, dedup_agg_hashes(dedup_filter(10), NULL)::text = dedup_filter(10)::text AS empty;

-- the short way for a key whose state is the last row's is the long way, which aggregates with a
-- dedup_filter as state take: in groups that alternate or come one after the other, and after a
-- final function settled the state

CREATE AGGREGATE pg_temp.long_way(VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter,
	FINALFUNC = dedup_agg_final);
CREATE AGGREGATE pg_temp.long_way(dedup_filter, VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter,
	FINALFUNC = dedup_agg_final);
CREATE TEMP TABLE many AS SELECT i::bigint, CASE WHEN i % 100 > 0 THEN 'key ' || i END AS s FROM generate_series(1, 300000) i;
SELECT i % 2 AS g, dedup_agg(i)::text = pg_temp.long_way(i)::text AS bigint, dedup_agg(s)::text = pg_temp.long_way(s)::text AS text,
	dedup_agg(dedup_filter(300000), i)::text = pg_temp.long_way(dedup_filter(300000), i)::text AS prototype
FROM many GROUP BY 1 ORDER BY 1;
SET enable_hashagg = off;
SELECT i / 150001 AS g, dedup_agg(i)::text = pg_temp.long_way(i)::text AS bigint, dedup_agg(s)::text = pg_temp.long_way(s)::text AS text,
	dedup_agg(dedup_filter(300000), i)::text = pg_temp.long_way(dedup_filter(300000), i)::text AS prototype
FROM many GROUP BY 1 ORDER BY 1;
RESET enable_hashagg;
SELECT i, short::text = long::text AS same FROM (SELECT i, dedup_agg(i) OVER peers AS short, pg_temp.long_way(i) OVER peers AS long
	FROM many WINDOW peers AS (ORDER BY i / 100001)) x
WHERE i IN (1, 100001, 200002);
DROP TABLE many;
