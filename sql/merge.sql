-- Merging: ||, dedup_merge and dedup_merge_agg.

\set QUIET on
-- a filter of the keys from .. to, built in one go
CREATE FUNCTION pg_temp.filled(empty dedup_filter, first int, last int) RETURNS dedup_filter
LANGUAGE sql AS $$
	SELECT coalesce(dedup_agg(empty, i ORDER BY i), empty) FROM generate_series(first, last) i
$$;
-- the large ones stay exact here
CREATE TEMP TABLE methods (method text, small dedup_filter, large dedup_filter);
INSERT INTO methods VALUES
	('blocked_bloom', dedup_filter(1000), dedup_filter(100000)),
	('bloom', dedup_filter(1000, 0.00001), dedup_filter(100000, 0.00001)),
	('recent', dedup_window(1000), dedup_window(100000)),
	('ring', dedup_method('ring', NULL, 'keys=1000'), dedup_method('ring', NULL, 'keys=100000')),
	('fifo', dedup_method('fifo', NULL, 'keys=1000'), dedup_method('fifo', NULL, 'keys=100000'));
SET client_min_messages = error;
\set QUIET off

-- the union: all keys of both inputs and no others; exact while both are, and then the
-- same as built in one go

SELECT m.method, s.exact, s.count = 1500 AS count, k.keys
FROM methods m,
	LATERAL (SELECT pg_temp.filled(large, 1, 1000) || pg_temp.filled(large, 501, 1500) AS f) x,
	dedup_stats(f) s,
	LATERAL (SELECT bool_and(dedup_contains(f, i) = (i BETWEEN 1 AND 1500)) AS keys
	FROM generate_series(-500, 2000) i) k ORDER BY m.method COLLATE "C";
SELECT method,
	(pg_temp.filled(large, 1, 1000) || pg_temp.filled(large, 501, 1500))::text
		= pg_temp.filled(large, 1, 1500)::text AS as_built_once FROM methods
WHERE method LIKE '%bloom' ORDER BY method COLLATE "C";

-- full or exact, of whichever side, no key of either is missed; for windows as long as both fit

SELECT method, sides, bool_and(dedup_contains(f, i)) AS all_found
FROM methods, LATERAL (VALUES
	('full || full', pg_temp.filled(small, 1, 500) || pg_temp.filled(small, 501, 1000)),
	('full || exact', pg_temp.filled(small, 1, 990) || pg_temp.filled(small, 991, 1000)),
	('exact || full', pg_temp.filled(small, 1, 10) || pg_temp.filled(small, 11, 1000)),
	('exact || exact', pg_temp.filled(small, 1, 10) || pg_temp.filled(small, 11, 1000)),
	('full || empty', pg_temp.filled(small, 1, 1000) || small),
	('empty || full', small || pg_temp.filled(small, 1, 1000)),
	('many exact', (SELECT dedup_merge_agg(pg_temp.filled(small, n * 10 + 1, n * 10 + 10))
				FROM generate_series(0, 99) n))) v(sides, f), generate_series(1, 1000) i
GROUP BY method, sides ORDER BY method COLLATE "C", sides COLLATE "C";

-- filters that never forget merge byte for byte into what is built in one go, in either
-- order, again and again, and in any grouping

SELECT method, (a || b)::text = pg_temp.filled(small, 1, 900)::text AS as_built_once,
	(a || b)::text = (b || a)::text AS commutes, (a || a)::text = a::text AS twice_is_once,
	((a || b) || c)::text = (a || (b || c))::text AS associates,
	(a || small)::text = a::text AS empty_changes_nothing,
	dedup_merge(a, b)::text = (a || b)::text AS by_name,
	(a || e)::text = pg_temp.filled(small, 1, 510)::text AS exact_too,
	(e || e2)::text = pg_temp.filled(small, 501, 1000)::text AS past_the_exact_form
FROM methods,
	LATERAL (SELECT pg_temp.filled(small, 1, 500) AS a, pg_temp.filled(small, 401, 900) AS b,
			pg_temp.filled(small, 850, 1000) AS c,
	pg_temp.filled(small, 501, 510) AS e,
	(SELECT dedup_merge_agg(pg_temp.filled(small, n, n + 9)) FROM generate_series(511, 1000, 10) n)
		AS e2) x
WHERE method LIKE '%bloom' ORDER BY method COLLATE "C";

-- days into weeks: merging what was stored a day is building it once, byte for byte,
-- whatever the order; a day twice changes nothing

CREATE TEMP TABLE days AS SELECT method, d, dedup_agg(small, d * 60 + i) AS f
FROM methods, generate_series(1, 7) d, generate_series(1, 200) i WHERE method LIKE '%bloom'
GROUP BY method, d;
SELECT method, week::text = pg_temp.filled(small, 61, 620)::text AS as_built_once,
	week::text = backwards::text AS any_order, week::text = twice::text AS a_day_twice,
	dedup_count(week) BETWEEN 540 AND 580 AS counts_560
FROM (SELECT method, dedup_merge_agg(f) AS week, dedup_merge_agg(f ORDER BY d DESC) AS backwards
	FROM days GROUP BY method) w JOIN methods USING (method)
	JOIN (SELECT method, dedup_merge_agg(f) AS twice
	FROM (TABLE days UNION ALL SELECT * FROM days WHERE d = 3) x GROUP BY method) t USING (method)
ORDER BY method COLLATE "C";

-- exact windows merge by age: of two the younger keys are the younger in the merge, which
-- is what it then forgets last

SELECT method,
	substr((a || b)::bytea, 61)::text <> substr((b || a)::bytea, 61)::text AS order_matters,
	dedup_count(a || b) = 6 AS union,
	dedup_count(a || a) = 4 AND (a || a)::text = a::text AS twice_is_once
FROM methods, LATERAL (SELECT pg_temp.filled(large, 1, 4) AS a, pg_temp.filled(large, 3, 6) AS b) x
WHERE method NOT LIKE '%bloom' ORDER BY method COLLATE "C";

-- two full recent filters keep the younger half of the window of each

SELECT count(*) FILTER (WHERE is_new(m, i) AND i BETWEEN 502 AND 1000) <= 5 AS "left",
	count(*) FILTER (WHERE is_new(m, i) AND i BETWEEN 1502 AND 2000) <= 5 AS "right"
FROM (SELECT pg_temp.filled(dedup_window(1000), -2000, 1000)
		|| dedup_add_all(pg_temp.filled(dedup_window(1000), -6000, -3001),
			ARRAY(SELECT generate_series(1001, 2000)))) x(m), generate_series(1, 2000) i;

-- two ring filters lose no key of either window

SELECT count(*) FILTER (WHERE is_new(m, i)) AS missed
FROM (SELECT pg_temp.filled(dedup_method('ring', NULL, 'keys=1000 fpr=0.0001'), -2500, 1000)
			|| pg_temp.filled(dedup_method('ring', NULL, 'keys=1000 fpr=0.0001'), 1001, 2000)) x(m),
	generate_series(1, 2000) i;

-- what a merge of windows holds it goes on forgetting

SELECT method, count(*) FILTER (WHERE dedup_contains(f, i) AND i <= 2000) < 400 AS old_are_gone,
	count(*) FILTER (WHERE is_new(f, i) AND i > 6000) <= 20 AS new_are_there
FROM (SELECT method,
		dedup_add_all(pg_temp.filled(small, 1, 1000) || pg_temp.filled(small, 1001, 2000),
				ARRAY(SELECT generate_series(2001, 7000))) AS f FROM methods
	WHERE method NOT LIKE '%bloom') x,
	generate_series(1, 7000) i GROUP BY method ORDER BY method COLLATE "C";

SET client_min_messages = warning;
-- past its capacity a merge is allowed, warns, and says what rate holds now, within half
-- of what is measured

CREATE TEMP TABLE overfull AS SELECT pg_temp.filled(dedup_filter(1000), 1, 1000)
	|| pg_temp.filled(dedup_filter(1000), 1001, 2000)
	|| pg_temp.filled(dedup_filter(1000), 2001, 2500) AS f;
SELECT s.overfull, s.count BETWEEN 2375 AND 2625 AS count, s.fill BETWEEN 2.375 AND 2.625 AS fill,
	s.fpr_now > 2 * s.fpr AS rate_is_up,
	measured / s.fpr_now BETWEEN 1 / 1.5 AND 1.5 AS rate_is_true, missed = 0 AS none_missed
FROM overfull, dedup_stats(f) s,
	LATERAL (SELECT count(*) FILTER (WHERE dedup_contains(f, -i)) / 20000.0 AS measured,
			count(*) FILTER (WHERE i <= 2500 AND is_new(f, i)) AS missed
		FROM generate_series(1, 20000) i) m;
SELECT dedup_merge_agg(f) IS NOT NULL AS warns_too
FROM (VALUES (pg_temp.filled(dedup_filter(1000), 1, 1000)),
		(pg_temp.filled(dedup_filter(1000), 1001, 2000))) v(f);

-- filters of different shapes do not merge, and the error says what both are

SELECT dedup_filter(1000, 0.01) || dedup_filter(2000, 0.001);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_filter(1000) || dedup_window(1000);
SELECT dedup_merge(dedup_filter(1000), dedup_filter(1000, 0.01, 5));
SELECT dedup_method('ring', NULL, 'keys=1000')
	|| dedup_method('ring', NULL, 'keys=1000 refresh=on');
SELECT dedup_merge_agg(f) FROM (VALUES (dedup_filter(1000)), (dedup_filter(3000))) v(f);
\echo :LAST_ERROR_SQLSTATE

-- nor when they are full, or merged with what is merged

\set VERBOSITY terse
SELECT pg_temp.filled(dedup_filter(1000), 1, 1000) || pg_temp.filled(dedup_filter(1001), 1, 1000);
SELECT dedup_merge_agg(f)
FROM (SELECT pg_temp.filled(dedup_filter(1000 + i / 5), 1, 500) FROM generate_series(1, 9) i) v(f);

-- NULL with anything is NULL

SELECT dedup_filter(10) || NULL::dedup_filter IS NULL AS "right",
	dedup_merge(NULL, dedup_filter(10)) IS NULL AS "left";
