-- Every method, end to end: aggregate, window function, text and binary form, stats,
-- merge, and forgetting where it can. What each promises is asked of it, and no more.

\set QUIET on
-- kind: what is promised of keys within capacity. all: none is missed; window: at most
-- 0.1 % of them; chance: nothing, but that it remembers some and forgets some.
CREATE TEMP TABLE methods (place serial, method text, options text, kind text);
INSERT INTO methods (method, options, kind) VALUES
	('blocked_bloom', '', 'all'), ('bloom', '', 'all'), ('counting_bloom', '', 'all'),
	('cuckoo', 'strict=on', 'all'), ('quotient', '', 'all'), ('recent', '', 'window'),
	('ring', '', 'window'), ('ring', 'refresh=on', 'window'), ('fifo', '', 'window'),
	('a2', '', 'window'), ('b_dbf', '', 'window'), ('apbf', '', 'window'), ('lru', '', 'window'),
	('fp_lru', '', 'window'), ('sbf', '', 'chance'), ('rsbf', '', 'chance'),
	('rsbf', 'reading=text', 'chance'), ('rsbf', 'reading=algorithm', 'chance'),
	('sqf', '', 'chance'), ('sqf', 'k=1 r=2 r_prime=1 pow2=on', 'chance'), ('dsqf', '', 'chance'),
	('qht', '', 'chance'), ('qhtd', 'k=4', 'chance'), ('qqht', 'k=4', 'chance'),
	('qqhtd', 'k=4', 'chance'), ('cuckoo', '', 'chance');
CREATE FUNCTION pg_temp.empty(method text, options text, keys int) RETURNS dedup_filter
LANGUAGE sql AS $$ SELECT dedup_method(method, NULL, 'keys=' || keys || ' ' || options, 11) $$;
-- a filter of the keys from .. to, built in one go
CREATE FUNCTION pg_temp.filled(prototype dedup_filter, first int, last int) RETURNS dedup_filter
LANGUAGE sql AS $$ SELECT dedup_agg(prototype, i ORDER BY i) FROM generate_series(first, last) i $$;
-- share of the keys from .. to that are in the filter
CREATE FUNCTION pg_temp.share(filter dedup_filter, first int, last int) RETURNS float8
LANGUAGE sql AS $$
	SELECT count(*) FILTER (WHERE dedup_contains(filter, i)) / count(*)::float8
	FROM generate_series(first, last) i
$$;
-- SQLSTATE and message of the error of a statement, in one line
CREATE FUNCTION pg_temp.error(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SET client_min_messages = error;
\set QUIET off

-- all that there are, and advice knows those that keep the rate; rsbf's rule makes it 0.0156

SELECT dedup_method('none', '1MB');
SELECT string_agg(method, ' ') AS without_advice FROM (SELECT DISTINCT method FROM methods EXCEPT
	SELECT method FROM dedup_advise(1000, 0.01)) x;

-- made, and told of by dedup_stats

SELECT m.method, m.options, s.method = m.method AND s.keys = 5000 AND (s.fpr = 0.01 OR options ~ 'r=2') AND s.seed = 11
	AND s.exact AND s.count = 0 AND s.bytes = 64 AND s.bytes_full > 64
	AND s.parameters IS NOT NULL AS stats
FROM methods m, dedup_stats(pg_temp.empty(m.method, m.options, 5000)) s ORDER BY place;

-- by memory it takes no more than was given (lru counts entries alone), and not much less

SELECT m.method, options, bytes_full - 64 <= 65536 AS within, bytes_full - 64 > 65536 - 8000 AS used
FROM methods m, dedup_stats(dedup_method(m.method, '64kB', options)) WHERE m.method NOT LIKE '%lru'
ORDER BY place;

-- full to its capacity: the exact form is over (but in lru, which is as good as exact), what was promised of the keys holds, and keys that never came are
-- found at the rate asked for at most, where the options leave it to fpr

SELECT m.method, options, NOT s.exact AS full,
	CASE kind WHEN 'all' THEN held = 1 WHEN 'window' THEN held >= 0.999 ELSE held BETWEEN 0.2 AND 1 END
		AS held,
	strange <= 1.1 * 0.01 + 4 * sqrt(0.01 / 20000) OR options ~ 'r=2|reading' AS rate
FROM methods m, LATERAL (SELECT pg_temp.filled(pg_temp.empty(m.method, options, 5000), 1, 5000) AS f
	OFFSET 0) x, dedup_stats(f) s,
	LATERAL (SELECT pg_temp.share(f, 1, 5000) AS held, pg_temp.share(f, 1000001, 1020000) AS strange
	OFFSET 0) y ORDER BY place;

-- text and binary forms are read back, byte for byte, and a filter read back goes on alike

SELECT method, options, f::text::dedup_filter::text = f::text AS text,
	f::bytea::dedup_filter::text = f::text AS bytea,
	dedup_add(f::text::dedup_filter, -1)::text = dedup_add(f, -1)::text AS goes_on
FROM methods, LATERAL (SELECT pg_temp.filled(pg_temp.empty(method, options, 3000), 1, 4000) AS f
	WHERE method NOT IN ('quotient', 'cuckoo') OR options = '' AND method = 'cuckoo'
	UNION ALL SELECT pg_temp.filled(pg_temp.empty(method, options, 3000), 1, 3000)
	OFFSET 0) x ORDER BY place;

-- key by key, in batches, or by the aggregate: the same bytes

SELECT method, options, one_by_one::text = a::text AS one_by_one, batch::text = a::text AS batch
FROM methods, LATERAL (SELECT pg_temp.empty(method, options, 600) AS e OFFSET 0) x,
	LATERAL (SELECT dedup_agg(e, i % 550 ORDER BY i) AS a,
			dedup_add_all(e, array_agg(i % 550 ORDER BY i)) AS batch
		FROM generate_series(1, 1000) i) y,
	LATERAL (SELECT f AS one_by_one FROM (
			WITH RECURSIVE r(i, f) AS (SELECT 0, e UNION ALL
				SELECT i + 1, dedup_add(f, (i + 1) % 550) FROM r WHERE i < 1000)
			SELECT f FROM r WHERE i = 1000) z OFFSET 0) w ORDER BY place;

-- as a window function: of 20,000 rows, 4,000 keys that come five times each; what was
-- let through at first sight, and what of the repeats

SELECT m.method, m.options, first_refused <= 1.1 * 0.01 * 4000 + 4 * sqrt(40) OR options ~ 'r=2' AS first,
	CASE kind WHEN 'all' THEN repeats_passed = 0 WHEN 'window' THEN repeats_passed <= 16
	ELSE repeats_passed < 15000 END AS repeats
FROM methods m, LATERAL (SELECT count(*) FILTER (WHERE i <= 4000 AND NOT new) AS first_refused,
		count(*) FILTER (WHERE i > 4000 AND new) AS repeats_passed
	FROM (SELECT i, dedup_is_new(pg_temp.empty(m.method, m.options, 5000), i % 4000)
				OVER (ORDER BY i) AS new FROM generate_series(1, 20000) i) y) x
WHERE m.method <> 'fp_lru' ORDER BY place;
-- but fp_lru refuses by chance, as its paper has it, and so lets fewer pass

-- first sight or last sight: a duplicate moves a key on, or does not

SELECT method, options, dedup_add_all(e, ARRAY[1, 2, 1])::text = dedup_add_all(e, ARRAY[1, 2])::text
		AS by_first_sight,
	dedup_add_all(e, ARRAY[1, 2, 1])::text = dedup_add_all(e, ARRAY[2, 1])::text AS by_last_sight
FROM methods, LATERAL (SELECT pg_temp.empty(method, options, 100) AS e OFFSET 0) x ORDER BY place;

-- merging: what each input holds while both fit together, in every form; rsbf cannot

SELECT method, options, sides,
	CASE kind WHEN 'all' THEN share = 1 WHEN 'window' THEN share >= 0.998 ELSE share BETWEEN 0.2 AND 1
	END AS held
FROM methods, LATERAL (SELECT pg_temp.empty(method, options, 4000) AS e OFFSET 0) x,
	LATERAL (VALUES
	('full || full', pg_temp.filled(e, 1, 2000), pg_temp.filled(e, 2001, 4000)),
	('full || exact', pg_temp.filled(e, 1, 3990), pg_temp.filled(e, 3991, 4000)),
	('exact || full', pg_temp.filled(e, 1, 10), pg_temp.filled(e, 11, 4000)),
	('full || empty', pg_temp.filled(e, 1, 4000), e)) v(sides, a, b),
	LATERAL (SELECT pg_temp.share(a || b, 1, 4000) AS share OFFSET 0) y
WHERE method <> 'rsbf' ORDER BY place, sides COLLATE "C";
SELECT pg_temp.empty('rsbf', '', 1000) || pg_temp.empty('rsbf', '', 1000);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_merge_agg(f) FROM (VALUES (pg_temp.empty('rsbf', '', 1000)), (pg_temp.empty('rsbf', '', 1000))) v(f);
SELECT dedup_merge_agg(f)::text = min(f::text) AS one_is_no_merge
FROM (VALUES (pg_temp.filled(pg_temp.empty('rsbf', '', 1000), 1, 2000))) v(f);
SELECT dedup_method('sqf', '64kB', 'k=2 r=4') || dedup_method('sqf', '64kB', 'k=4 r=4');

-- forgetting, in exact and in full filters: the key is gone, the others stay, and it can
-- come again; a key that is not there changes nothing

SELECT method, options, keys = 1000 AS exact, NOT dedup_contains(less, 500) AS gone,
	pg_temp.share(less, 1, 499) = 1 AND pg_temp.share(less, 501, 1000) = 1 AS others_stay,
	dedup_contains(dedup_add(less, 500), 500) AS again,
	dedup_forget(less, 500)::text = less::text AS only_once,
	dedup_forget(f, NULL::int)::text = f::text AS no_key
FROM (VALUES ('counting_bloom', ''), ('cuckoo', 'strict=on'), ('quotient', ''), ('lru', ''), ('fp_lru', ''))
		v(method, options), (VALUES (1000), (100000)) w(keys),
	LATERAL (SELECT pg_temp.filled(dedup_method(method, NULL, 'fpr=0.000001 keys=' || keys || ' ' || options), 1, 1000)
			AS f OFFSET 0) x,
	LATERAL (SELECT dedup_forget(f, 500) AS less OFFSET 0) y ORDER BY method COLLATE "C", keys;
SELECT dedup_forget(NULL::dedup_filter, 1) IS NULL AS no_filter;
SELECT dedup_forget(dedup_filter(1000), 1);
\echo :LAST_ERROR_SQLSTATE
SELECT method, options, pg_temp.error(format('SELECT dedup_forget(dedup_method(%L, ''64kB'', %L), 1)', method, options)) AS error
FROM methods WHERE method NOT IN ('counting_bloom', 'quotient', 'lru', 'fp_lru') AND options <> 'strict=on' ORDER BY place;
-- all of them forgotten, a full filter is as good as empty
SELECT method, dedup_count(f) = 0 AND pg_temp.share(f, 1, 2000) = 0 AS empty FROM (VALUES ('counting_bloom', ''), ('cuckoo', 'strict=on'), ('quotient', ''), ('lru', '')) v(method, options),
	LATERAL (SELECT f FROM (WITH RECURSIVE r(i, f) AS (
				SELECT 0, pg_temp.filled(dedup_method(method, NULL, 'fpr=0.000001 keys=2000 ' || options), 1, 2000)
				UNION ALL SELECT i + 1, dedup_forget(f, i + 1) FROM r WHERE i < 2000)
			SELECT f FROM r WHERE i = 2000) z OFFSET 0) x;

-- a filter that can be full refuses, with the key that found no room, wherever it comes

\set QUIET on
CREATE FUNCTION pg_temp.keys(n int) RETURNS int[] LANGUAGE sql AS $$ SELECT array_agg(i) FROM generate_series(1, n) i $$;
\set QUIET off
SELECT dedup_agg(dedup_method('quotient', '1kB'), i) FROM generate_series(1, 2000) i;
\echo :LAST_ERROR_SQLSTATE
SELECT method, options, pg_temp.error(format('SELECT dedup_agg(%L::dedup_filter, i) FROM generate_series(1, 3000) i', e)) AS aggregate,
	pg_temp.error(format('SELECT dedup_add_all(%L::dedup_filter, pg_temp.keys(3000))', e)) AS array,
	pg_temp.error(format('SELECT count(new) FROM (SELECT dedup_is_new(%L::dedup_filter, i) OVER () AS new FROM generate_series(1, 3000) i) x', e)) AS "window",
	pg_temp.error(format('SELECT dedup_add_all(%L::dedup_filter, pg_temp.keys(900)) || (SELECT dedup_agg(%L::dedup_filter, -i) FROM generate_series(1, 900) i)', e, e)) AS merge,
	pg_temp.error(format('SELECT dedup_merge_agg(f) FROM (SELECT dedup_agg(%L::dedup_filter, i) AS f FROM generate_series(1, 1800) i GROUP BY i %% 2) x', e)) AS merge_agg
FROM (VALUES ('quotient', ''), ('cuckoo', 'strict=on')) v(method, options),
	LATERAL (SELECT dedup_method(method, '1kB', 'fpr=0.01 ' || options)::text AS e OFFSET 0) x;
-- and is as it was: no key that was taken is lost, and one that is there is still seen
\set QUIET on
CREATE FUNCTION pg_temp.fill_up(filter dedup_filter, OUT full_at int, OUT kept boolean, OUT seen boolean)
LANGUAGE plpgsql AS $$
DECLARE
	before text;
BEGIN
	full_at := 0;
	LOOP
		before := filter::text;
		BEGIN
			filter := dedup_add(filter, full_at + 1);
		EXCEPTION WHEN program_limit_exceeded THEN
			EXIT;
		END;
		full_at := full_at + 1;
	END LOOP;
	kept := filter::text = before AND pg_temp.share(filter, 1, full_at) = 1;
	seen := dedup_add(filter, 1)::text = before;
END $$;
\set QUIET off
SELECT v.method, full_at >= keys AS held_what_it_was_made_for, kept, seen
FROM (VALUES ('quotient', ''), ('cuckoo', 'strict=on')) v(method, options),
	LATERAL (SELECT dedup_method(v.method, '1kB', 'fpr=0.01 ' || v.options) AS e OFFSET 0) x,
	dedup_stats(e), pg_temp.fill_up(e);

-- a quotient filter grows: with few keys its stored form is shorter than its ceiling

SELECT n, exact, bytes < bytes_full AS short FROM unnest('{100,2000,5000,9000}'::int[]) n,
	dedup_stats(pg_temp.filled(dedup_method('quotient', NULL, 'keys=9000'), 1, n));

-- options that exclude each other, and words

SELECT method, options, pg_temp.error(format('SELECT dedup_method(%L, ''64kB'', %L)', method, options)) AS error
FROM (VALUES ('sqf', 'r=2 r_prime=3'), ('dsqf', 'r=2 r_prime=3'), ('rsbf', 'reading=other'), ('rsbf', 'reading='), ('rsbf', 'p_star=2'),
	('sbf', 'd=0'), ('sbf', 'd=9'), ('qht', 'bits=0'), ('cuckoo', 'kicks=-1'), ('b_dbf', 'b=1'), ('apbf', 'k=0'), ('quotient', 'r=0'),
	('lru', 'q=0.1')) v(method, options);
SELECT dedup_method('rsbf', '64kB', 'reading=other');
-- what excludes what is told in a sentence
SELECT dedup_method('qhtd', '64kB', 'k=16 bits=1');
SELECT dedup_method('sqf', '64kB', 'r=2 r_prime=3');
SELECT dedup_method('sbf', NULL, 'keys=10 fpr=0.000000001 d=8 k=1');
SELECT dedup_method('apbf', '64kB', 'k=1');
SELECT dedup_method('a2', NULL, 'keys=1000000000');

-- one call site, whose arguments change and come again, and fail between

SELECT n, method = m AND s.keys = wanted AND s.seed = n % 2 AS made
FROM (VALUES (1, 'bloom', NULL, 'keys=5', 5), (3, 'bloom', NULL, 'keys=5', 5), (4, 'bloom', NULL, 'keys=5', 5),
	(5, 'bloom', NULL, 'keys=6', 6), (6, 'qht', NULL, 'keys=6', 6), (8, 'lru', '8kB', '', 1024), (10, 'lru', '8kB', '', 1024))
		v(n, m, memory, options, wanted), dedup_stats(dedup_method(m, memory, options, n % 2)) s ORDER BY n;
DO $$
BEGIN
	FOR i IN 1..4 LOOP
		BEGIN
			RAISE INFO '% %', i, (dedup_stats(dedup_method(CASE WHEN i % 2 = 0 THEN 'bloom' ELSE 'none' END, '1kB'))).method;
		EXCEPTION WHEN invalid_parameter_value THEN
			RAISE INFO '% %', i, SQLERRM;
		END;
	END LOOP;
END $$;

-- a warning of an overfull filter promises no more than the method does

SET client_min_messages = warning;
SELECT dedup_count(dedup_agg(dedup_method('rsbf', '1kB'), i)) BETWEEN 800 AND 1100 AS held FROM generate_series(1, 20000) i;
SET client_min_messages = error;

-- advice by purpose

SELECT a.method, bytes > 0 AND abs(bits_per_key / (8 * (bytes - 64) / 100000.0) - 1) < 0.005 AS bytes,
	expected_fpr <= 0.01 * 1.0001 AS rate, missed <= 0.001 AS promised, speed, "cannot"
FROM dedup_advise(100000) WITH ORDINALITY a(method, why, promise, bytes, bits_per_key, expected_fpr, missed, speed, "cannot") ORDER BY ordinality;
SELECT purpose, string_agg(method || CASE WHEN prototype LIKE '%=on%' THEN '*' ELSE '' END, ' ' ORDER BY place) AS best_first FROM (VALUES
	(1, 'set', false, NULL, false, false), (2, 'window', true, NULL, false, false),
	(3, 'by first sight', true, true, false, false), (4, 'by last sight', true, false, false, false),
	(5, 'with deletes', NULL, NULL, true, false), (6, 'set with deletes', false, NULL, true, false),
	(7, 'window to merge', true, NULL, false, true), (8, 'set to merge, with deletes', false, NULL, true, true)) v(n, purpose, forget, first_sight, deletes, merges),
	dedup_advise(100000, 0.01, forget, first_sight, deletes, merges) WITH ORDINALITY a(method, why, promise, bytes, bits_per_key, expected_fpr, missed, speed, "cannot", merging, parameters, prototype, place)
GROUP BY n, purpose ORDER BY n;
-- no method is advised for a rate that it does not keep

SELECT n, fpr, count(*) > 15 AS advised, count(*) FILTER (WHERE expected_fpr > 1.01 * fpr) AS above
FROM unnest('{10,100000}'::int[]) n, unnest('{0.5,0.01,0.001,0.000000001}'::float8[]) fpr, dedup_advise(n, fpr)
GROUP BY n, fpr ORDER BY n, fpr DESC;
