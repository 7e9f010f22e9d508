-- How often a key was seen: count_min and dedup_frequency, compared with GROUP BY and count(*).

\set QUIET on
SET client_min_messages = warning;
-- SQLSTATE, message, detail and hint of the error of a statement
CREATE FUNCTION pg_temp.error(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN NEXT 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN NEXT SQLSTATE || ' ' || SQLERRM;
	RETURN QUERY SELECT x FROM unnest(ARRAY[detail, hint]) x WHERE x <> '';
END $$;
CREATE FUNCTION pg_temp.sketch(options text) RETURNS dedup_filter LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT dedup_method('count_min', NULL, options, 5) $$;
-- 100,003 sights: of key k in proportion to ln(1 + 1/k), which is Zipf's law nearly, up to
-- 6000; and as many of keys that come equally often
CREATE TABLE sights AS SELECT floor(6000 ^ (i * 7919 % 100003 / 100003.0::float8))::int AS skewed, i % 4999 AS even,
	i % 10 AS day, i FROM generate_series(0, 100002) i;
CREATE TABLE truth AS SELECT 'skewed' AS stream, skewed AS key, count(*) AS n FROM sights GROUP BY 2
	UNION ALL SELECT 'even', even, count(*) FROM sights GROUP BY 2;
ANALYZE sights;
\set QUIET off

-- made by what is asked of it, or as wide as the memory allows

SELECT s.method, s.keys, s.fpr, s.seed, s.exact, s.count, s.fill, s.fpr_now, s.overfull, s.bytes,
	s.bytes_full - 64 AS counters, s.parameters
FROM (VALUES (1, NULL, 'epsilon=0.001 delta=0.01'), (2, NULL, 'epsilon=0.01 delta=0.001 conservative=on'),
	(3, NULL, 'epsilon=0.1'), (4, '64kB', 'delta=0.01'), (5, '64kB', ''), (6, '60', ''),
	(7, '1kB', 'delta=0.5 conservative=on hash=sip')) v(place, memory, options),
	dedup_stats(dedup_method('count_min', memory, options)) s ORDER BY place;

-- exact while small: every sight counts, whatever way it comes

SELECT f.name, dedup_frequency(f, 1) AS one, dedup_frequency(f, 2) AS two, dedup_frequency(f, 3) AS three,
	dedup_frequency(f, 4) AS none, dedup_count(f) AS distinct
FROM pg_temp.sketch('epsilon=0.01') e, LATERAL (VALUES
	('dedup_add', dedup_add(dedup_add(dedup_add(dedup_add(dedup_add(dedup_add(e, 3), 2), 3), 1), 3), 2)),
	('dedup_add_all', dedup_add_all(e, ARRAY[3, 2, NULL, 3, 1, 3, 2])),
	('dedup_agg', (SELECT dedup_agg(e, k) FROM unnest(ARRAY[3, 2, NULL, 3, 1, 3, 2]) k)),
	('dedup_merge', dedup_merge(dedup_add_all(e, ARRAY[3, 2, 3]), dedup_add_all(e, ARRAY[1, 3, 2]))),
	('||', dedup_add_all(e, ARRAY[3, 2, 3, 1]) || dedup_add_all(e, ARRAY[3, 2])),
	('dedup_merge_agg', (SELECT dedup_merge_agg(dedup_add(e, k)) FROM unnest(ARRAY[3, 2, 3, 1, 3, 2]) k))
) f(name, f);

-- so small groups are as small as they are, and right

SELECT bool_and(dedup_frequency(f, skewed) = n) AS right, count(DISTINCT i) AS groups,
	max(pg_column_size(f)) <= 64 + 20 * 16 AS small
FROM (SELECT i / 20 AS i, dedup_agg(pg_temp.sketch('epsilon=0.001'), skewed) AS f FROM sights GROUP BY 1) g
JOIN (SELECT i / 20 AS i, skewed, count(*) AS n FROM sights GROUP BY 1, 2) t USING (i);

-- beyond: never too low, and too high by more than epsilon of all sights for a share of
-- delta of the keys at most; with conservative update the error is less

\set QUIET on
CREATE TABLE sketches AS
SELECT o.options, 'skewed' AS stream, (SELECT dedup_agg(pg_temp.sketch(options), skewed ORDER BY i) FROM sights) AS f
FROM (VALUES ('epsilon=0.01 delta=0.05'), ('epsilon=0.01 delta=0.05 conservative=on'),
	('epsilon=0.001 delta=0.01'), ('epsilon=0.001 delta=0.01 conservative=on')) o(options)
UNION ALL
SELECT o.options, 'even', (SELECT dedup_agg(pg_temp.sketch(options), even ORDER BY i) FROM sights)
FROM (VALUES ('epsilon=0.01 delta=0.05'), ('epsilon=0.01 delta=0.05 conservative=on'),
	('epsilon=0.001 delta=0.01'), ('epsilon=0.001 delta=0.01 conservative=on')) o(options);
CREATE TABLE errors AS
SELECT stream, options, substring(options FROM 'epsilon=([0-9.]+)')::float8 AS epsilon,
	substring(options FROM 'delta=([0-9.]+)')::float8 AS delta, options ~ 'conservative' AS conservative,
	key, n, dedup_frequency(f, key) - n AS error
FROM sketches JOIN truth USING (stream);
\set QUIET off
SELECT stream, options, bool_and(error >= 0) AS never_too_low,
	count(*) FILTER (WHERE error > epsilon * 100003) <= delta * count(*) AS promise
FROM errors GROUP BY stream, options, delta ORDER BY stream, options;
SELECT stream, epsilon, bool_and(c.error <= p.error) AS never_worse, sum(c.error) < sum(p.error) AS better
FROM errors c JOIN errors p USING (stream, epsilon, key)
WHERE c.conservative AND NOT p.conservative GROUP BY stream, epsilon ORDER BY stream, epsilon;
SELECT s.stream, s.options, t.exact, t.overfull, t.parameters
FROM sketches s, dedup_stats(f) t ORDER BY stream, options;

-- distinct keys: from the counters in use, as long as there are unused ones

SELECT stream, options, abs(dedup_count(f) - d) <= 0.08 * d AS distinct
FROM sketches JOIN (SELECT stream, count(*) AS d FROM truth GROUP BY 1) t USING (stream)
WHERE options ~ '0.001' ORDER BY stream, options;

-- days merged to the whole: plain sketches are the very one of all sights; conservative ones
-- are no less than the counts, and no more than the plain sketch says

SELECT dedup_merge_agg(f)::text = (SELECT f::text FROM sketches WHERE stream = 'skewed' AND options = 'epsilon=0.01 delta=0.05') AS same
FROM (SELECT dedup_agg(pg_temp.sketch('epsilon=0.01 delta=0.05'), skewed ORDER BY i) AS f FROM sights GROUP BY day) d;
SELECT bool_and(dedup_frequency(m, key) >= n) AS never_too_low,
	bool_and(dedup_frequency(m, key) <= dedup_frequency(p.f, key)) AS within_the_plain_one,
	min(substring(s.parameters FROM 'total=[0-9]+')) AS total
FROM (SELECT dedup_merge_agg(f) AS m FROM
	(SELECT dedup_agg(pg_temp.sketch('epsilon=0.01 delta=0.05 conservative=on'), skewed ORDER BY i) AS f
	FROM sights GROUP BY day) d) x, dedup_stats(m) s, sketches p, truth
WHERE p.stream = 'skewed' AND p.options = 'epsilon=0.01 delta=0.05' AND truth.stream = 'skewed';

-- with itself it counts twice

SELECT bool_and(dedup_frequency(f || f, key) = 2 * dedup_frequency(f, key)) AS twice
FROM sketches JOIN truth USING (stream) WHERE options = 'epsilon=0.01 delta=0.05' AND key < 50;

-- parallel plans: partial states are merged

BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT dedup_agg(pg_temp.sketch('epsilon=0.01 delta=0.05'), skewed) FROM sights;
SELECT dedup_agg(pg_temp.sketch('epsilon=0.01 delta=0.05'), skewed)::text =
	(SELECT f::text FROM sketches WHERE stream = 'skewed' AND options = 'epsilon=0.01 delta=0.05') AS same
FROM sights;
SELECT bool_and(dedup_frequency(f, day) = (SELECT count(*) FROM sights s WHERE s.day = d.day)) AS exact
FROM (SELECT dedup_agg(pg_temp.sketch('epsilon=0.001'), day) AS f FROM sights) x, (SELECT DISTINCT day FROM sights) d;
SELECT bool_and(dedup_frequency(f, key) >= n) AS never_too_low
FROM (SELECT dedup_agg(pg_temp.sketch('epsilon=0.01 delta=0.05 conservative=on'), skewed) AS f FROM sights) x,
	truth WHERE stream = 'skewed';
SELECT count(*) AS asked, bool_and(dedup_frequency((SELECT f FROM sketches WHERE stream = 'skewed' AND
	options = 'epsilon=0.001 delta=0.01'), skewed) >= 1) AS in_workers FROM sights;
COMMIT;

-- keys of several columns and of any type; a key with a NULL column has no answer

SELECT dedup_frequency(f, 1, 'a') AS both, dedup_frequency(f, 'a', 1) AS turned, dedup_frequency(f, 1::int8, 'a'::text) AS same_key,
	dedup_frequency(f, 1, NULL::text) AS null_column, dedup_frequency(NULL, 1, 'a') AS no_filter
FROM (SELECT dedup_agg(pg_temp.sketch('epsilon=0.01'), a, b) AS f
	FROM (VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'a'), (1, NULL)) v(a, b)) x;
SELECT dedup_frequency(pg_temp.sketch('epsilon=0.01'), NULL::int) AS null_key;

-- stored and read back, as text and in binary, exact and not; and it goes on counting

SELECT stream, f::text::dedup_filter::text = f::text AS text, f::bytea::dedup_filter::text = f::text AS bytea,
	dedup_frequency(dedup_add_all(f::text::dedup_filter, ARRAY[-1, -1, 7]), 7) = dedup_frequency(f, 7) + 1 AS goes_on
FROM (SELECT stream, f FROM sketches WHERE options = 'epsilon=0.01 delta=0.05'
	UNION ALL SELECT 'few', dedup_add_all(pg_temp.sketch('epsilon=0.01 conservative=on'), ARRAY[7, 8, 7])) x;
DO $$
DECLARE
	f dedup_filter := dedup_method('count_min', '2kB', 'conservative=on');
BEGIN
	FOR i IN 1 .. 3000 LOOP
		f := dedup_add(f, i % 300);
	END LOOP;
	IF EXISTS (SELECT FROM generate_series(0, 299) i WHERE dedup_frequency(f, i) < 10) THEN
		RAISE EXCEPTION 'too low';
	END IF;
END $$;

-- counters end at 2^32 - 1, and exact counts at 2^63 - 1: the count stays, says so once a
-- query, and other keys are as they were

\set QUIET on
CREATE TABLE doubled AS
WITH RECURSIVE d(times, small, large) AS (
	SELECT 0, dedup_add_all(dedup_method('count_min', '64kB'), ARRAY[1, 1, 2]),
		dedup_add_all(dedup_method('count_min', '1kB', 'delta=0.5'), ARRAY(SELECT generate_series(1, 100)))
	UNION ALL
	SELECT times + 1, small || small, large || large FROM d WHERE times < 63)
SELECT times, small, dedup_add(large, 0) AS large FROM d WHERE times IN (30, 33, 61, 62, 63);
\set QUIET off
SELECT times, dedup_frequency(small, 1) AS small_1, dedup_frequency(small, 2) AS small_2 FROM doubled
WHERE times < 62 ORDER BY times;  -- 2 * 2^times and 2^times
SELECT times, dedup_frequency(small, 1) AS small_1, dedup_frequency(small, 2) AS small_2 FROM doubled
WHERE times >= 62 ORDER BY times;
SELECT times, substring(parameters FROM 'total=.*') AS parameters FROM doubled, dedup_stats(large) ORDER BY times;
SELECT times, substring(parameters FROM 'total=.*') AS parameters FROM doubled, dedup_stats(small)
WHERE times BETWEEN 60 AND 62 ORDER BY times;
SELECT times, bool_and(dedup_frequency(large, i) = 4294967295) AS at_the_end
FROM doubled, generate_series(1, 100) i WHERE times >= 33 GROUP BY times ORDER BY times;
SELECT times, bool_and(dedup_frequency(large, i) >= 1073741824) AS not_too_low
FROM doubled, generate_series(1, 100) i WHERE times = 30 GROUP BY times;

-- what it does not answer, and who does

SELECT pg_temp.error($$ SELECT dedup_contains(pg_temp.sketch('epsilon=0.1'), 1) $$);
SELECT pg_temp.error($$ SELECT is_new(pg_temp.sketch('epsilon=0.1'), 1) $$);
SELECT pg_temp.error($$ SELECT dedup_frequency(dedup_filter(10), 1) $$);
SELECT pg_temp.error($$ SELECT dedup_is_new(pg_temp.sketch('epsilon=0.1'), i) OVER (ORDER BY i) FROM sights $$);
SELECT pg_temp.error($$ SELECT dedup_create('seen', pg_temp.sketch('epsilon=0.1')) $$);
SELECT split_part(e, ':', 1) AS error FROM pg_temp.error($$ SELECT dedup_forget(pg_temp.sketch('epsilon=0.1'), 1) $$) e;
SELECT count(*) AS advised FROM dedup_advise(1000, 0.01) WHERE method = 'count_min';

-- sizes and options that cannot be

SELECT options, e FROM (VALUES (1, 'NULL', ''), (2, 'NULL', 'delta=0.1'), (3, '''64kB''', 'epsilon=0.1'),
	(4, '''59''', ''), (5, 'NULL', 'epsilon=0.000000001'), (6, 'NULL', 'epsilon=0'), (7, 'NULL', 'epsilon=1'),
	(8, 'NULL', 'epsilon=0.1 delta=1'), (9, 'NULL', 'keys=10'), (10, 'NULL', 'epsilon=0.1 fpr=0.1'),
	(11, 'NULL', 'epsilon=0.1 conservative=maybe')) v(place, memory, options),
	LATERAL pg_temp.error(format('SELECT dedup_method(''count_min'', %s, %L)', memory, options)) WITH ORDINALITY x(e, line)
ORDER BY place, line;
SELECT pg_temp.error($$ SELECT pg_temp.sketch('epsilon=0.1') || pg_temp.sketch('epsilon=0.1 conservative=on') $$);
SELECT pg_temp.error($$ SELECT dedup_agg(dedup_add(pg_temp.sketch('epsilon=0.1'), 1), 2) $$);

\set QUIET on
DROP TABLE sights, truth, sketches, errors, doubled;
\set QUIET off
