-- Exact while small: a filter keeps hashes while they take at most M bytes, the size of its method's body. The key
-- that exceeds that size makes the filter use its method.

\set QUIET on
CREATE TEMP TABLE prototypes (what text, empty dedup_filter, most int);
INSERT INTO prototypes SELECT what, empty, (bytes_full - 64) / 8 FROM (VALUES
	('blocked_bloom', dedup_filter(1000)), ('blocked_bloom of 1', dedup_filter(1)),
	('blocked_bloom at 0.5', dedup_filter(777, 0.5)), ('bloom', dedup_filter(1000, 0.00001)),
	('bloom of 1', dedup_filter(1, 0.00001)),
	('recent', dedup_window(1000)), ('recent of 1', dedup_window(1)),
	('recent at 1e-9', dedup_window(500, 1e-9)),
	('ring', dedup_method('ring', NULL, 'keys=1000')),
	('ring of 16', dedup_method('ring', NULL, 'keys=500 generations=16')),
	('ring with refresh', dedup_method('ring', NULL, 'keys=500 refresh=on')),
	('ring of 1', dedup_method('ring', NULL, 'keys=1')),
	('fifo', dedup_method('fifo', NULL, 'keys=1000'))) v(what, empty), dedup_stats(empty);

-- the ways to fill a filter with the keys 1 .. n, in that order
CREATE FUNCTION pg_temp.by_agg(empty dedup_filter, n int) RETURNS dedup_filter
LANGUAGE sql AS $$
	SELECT coalesce(dedup_agg(empty, i ORDER BY i), empty) FROM generate_series(1, n) i
$$;
CREATE FUNCTION pg_temp.by_add_all(empty dedup_filter, n int) RETURNS dedup_filter
LANGUAGE sql AS $$
	SELECT dedup_add_all(empty, ARRAY(SELECT generate_series(1, n)))
$$;
CREATE FUNCTION pg_temp.by_adds(empty dedup_filter, n int) RETURNS dedup_filter
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP empty := dedup_add(empty, i); END LOOP;
	RETURN empty;
END $$;
CREATE FUNCTION pg_temp.by_stored_adds(empty dedup_filter, n int) RETURNS dedup_filter
LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE IF NOT EXISTS being_filled (f dedup_filter);
	TRUNCATE being_filled;
	INSERT INTO being_filled VALUES (pg_temp.by_agg(empty, n - 3));
	FOR i IN greatest(n - 2, 1) .. n LOOP UPDATE being_filled SET f = dedup_add(f, i); END LOOP;
	RETURN (SELECT f::bytea::dedup_filter FROM being_filled);	-- the next call truncates the table
END $$;
SET client_min_messages = error;
\set QUIET off

-- with M/8 keys it is exact, with one more it is not: that is where the stored form is no
-- smaller any more

SELECT what, (before).exact AS exact, (before).count = most AS counts_all,
	(before).fpr_now < 1e-15 AS no_false_positives,
	(before).bytes <= (before).bytes_full AS no_larger,
	(after).exact AS exact_with_one_more, (after).bytes = (after).bytes_full AS full
FROM (SELECT what, most, dedup_stats(pg_temp.by_agg(empty, most)) AS before,
		dedup_stats(pg_temp.by_agg(empty, most + 1)) AS after FROM prototypes) x
ORDER BY what COLLATE "C";

-- however it is filled it has the same bytes, on either side of that and below

SELECT what, bool_and(agg::text = add_all::text) AS add_all,
	bool_and(agg::text = adds::text) AS adds, bool_and(agg::text = stored::text) AS stored
FROM prototypes, unnest(ARRAY[1, 7, 8, 9, most - 1, most, most + 1, most + 2, most + 50]) n,
	LATERAL (SELECT pg_temp.by_agg(empty, n) AS agg, pg_temp.by_add_all(empty, n) AS add_all,
			pg_temp.by_adds(empty, n) AS adds, pg_temp.by_stored_adds(empty, n) AS stored) x
GROUP BY what ORDER BY what COLLATE "C";

-- the answers for its keys are the same before and after, and after it only few others are found

SELECT what, bool_and(dedup_contains(before, i)) AS before,
	bool_and(dedup_contains(after, i)) AS after,
	bool_and(dedup_contains(after, most + 1)) AS the_one_that_passed_it,
	count(*) FILTER (WHERE dedup_contains(before, -i)) = 0 AS no_other_before
FROM (SELECT what, most, pg_temp.by_agg(empty, most) AS before,
			pg_temp.by_agg(empty, most + 1) AS after FROM prototypes WHERE what NOT LIKE '% of 1') x,
	generate_series(1, most) i
GROUP BY what ORDER BY what COLLATE "C";

-- a key that is there does not make it go over, however often it comes

SELECT what, a.exact AND a.count = most AS agg, b.exact AND b.count = most AS add,
	c.exact AND c.count = most AS merge, d.exact AND d.count = most AS add_all,
	e.exact AND e.count = most AS add_twice, g.exact AND g.count = most AS merge_agg
FROM (SELECT what, most, f,
		(SELECT dedup_agg(empty, i % most ORDER BY i) FROM generate_series(1, 3 * most) i) AS agg
	FROM (SELECT *, pg_temp.by_agg(empty, most) AS f FROM prototypes) x) y,
	dedup_stats(agg) a, dedup_stats(dedup_add(f, most / 2)) b,
	dedup_stats(f || f) c, dedup_stats(dedup_add_all(f, ARRAY(SELECT generate_series(1, most)))) d,
	dedup_stats(dedup_add(dedup_add(f, 1), 2)) e,
	LATERAL (SELECT dedup_merge_agg(x) AS merged
		FROM (SELECT f FROM generate_series(1, 3)) v(x)) m,
	dedup_stats(merged) g ORDER BY what COLLATE "C";

-- nor does the window function's answer change: the key by which it goes over is new

SELECT what, bool_and(new) AS all_new
FROM (SELECT what,
		dedup_is_new(dedup_method(CASE WHEN what LIKE 'blocked%' THEN 'blocked_bloom' ELSE what END,
						NULL, 'keys=1000 fpr=0.00001'), i) OVER (PARTITION BY what ORDER BY i) AS new
	FROM (VALUES ('blocked_bloom'), ('bloom'), ('recent'), ('ring')) v(what),
		generate_series(1, 900) i) x GROUP BY what ORDER BY what COLLATE "C";

-- a window that goes over keeps the order in which its keys were last seen: the first
-- ones, seen again, outlive the others

SELECT count(*) FILTER (WHERE i <= 100 AND dedup_contains(f, i)) > 80 AS seen_again_are_kept,
	count(*) FILTER (WHERE i BETWEEN 101 AND 200 AND dedup_contains(f, i)) < 20 AS others_gave_way
FROM (SELECT dedup_agg(dedup_window(1000), k ORDER BY n) AS f
		FROM (SELECT n, CASE WHEN n <= 250 THEN n WHEN n <= 350 THEN n - 250 ELSE n + 1000 END AS k
			FROM generate_series(1, 1490) n) x) y, generate_series(1, 250) i;

-- merging goes over, too, where the union is too large

SELECT what, (dedup_stats(a || b)).exact AS fits, (dedup_stats(a || c)).exact AS does_not
FROM (SELECT what, pg_temp.by_add_all(empty, most - 1) AS a, dedup_add(empty, most) AS b,
		dedup_add_all(empty, ARRAY[most, most + 1]) AS c FROM prototypes) x
ORDER BY what COLLATE "C";
