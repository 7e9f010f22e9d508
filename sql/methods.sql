-- Every method, end to end: aggregate, window function, text and binary form, stats, merge, and dedup_forget if the
-- method supports it. The promise of each method is tested, and nothing more.

\set QUIET on
-- SQLSTATE and message of the error of a statement, in one line; and its hint
CREATE FUNCTION pg_temp.error(statement text, OUT error text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	error := 'no error';
EXCEPTION WHEN OTHERS THEN
	error := SQLSTATE || ' ' || SQLERRM;
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
END $$;
-- The methods that say whether a key was seen, with their usual options, as the server
-- lists them, and with some more. kind: what is promised of keys within capacity. all: none
-- is missed; window: at most 0.1 % of them; chance: nothing, but that it remembers some and
-- forgets some. first_sight: of windows, whether they go by the first sight of a key, or by
-- its last. own_rate: the options leave the rate to fpr no more.
CREATE TEMP TABLE methods AS
WITH advised AS (SELECT DISTINCT ON (method, options) *
	FROM (SELECT *, regexp_replace(prototype, '^.*[ '']fpr=[^ '']* ?([^'']*)''\)$', '\1') AS options
		FROM unnest('{f,t}'::boolean[]) forgets, unnest('{0.3,0.01}'::float8[]) fpr,
			unnest('{f,t,NULL}'::boolean[]) first_sight, dedup_advise(5000, fpr, forgets, first_sight)) x
	ORDER BY method, options, first_sight, fpr)
SELECT method, options || coalesce(more, '') AS options, CASE WHEN NOT forgets THEN 'all'
	WHEN 'promise a window' = ANY (string_to_array("cannot", ', ')) THEN 'chance' ELSE 'window' END AS kind,
	first_sight, promise, speed, string_to_array("cannot", ', ') AS cannot, coalesce(more ~ 'r=2|reading', false) AS own_rate
FROM advised LEFT JOIN LATERAL (VALUES ('rsbf', ''), ('rsbf', 'reading=text'), ('rsbf', 'reading=algorithm'),
	('sqf', ''), ('sqf', 'k=1 r=2 r_prime=1 pow2=on'), ('qhtd', ''), ('qhtd', 'k=4'), ('qqht', ''), ('qqht', 'k=4'),
	('qqhtd', ''), ('qqhtd', 'k=4')) v(m, more) ON m = method;
-- the methods for which something did not hold; {}: it held for all
CREATE FUNCTION pg_temp.add(failed text[], method text, options text, holds boolean) RETURNS text[]
LANGUAGE sql AS $$
	SELECT CASE WHEN holds THEN failed ELSE failed || rtrim(method || ' ' || options) END
$$;
CREATE AGGREGATE pg_temp.failed(method text, options text, holds boolean) (
	SFUNC = pg_temp.add, STYPE = text[], INITCOND = '{}');
CREATE FUNCTION pg_temp.empty(method text, options text, keys int) RETURNS dedup_filter
LANGUAGE sql AS $$ SELECT dedup_method(method, NULL, CASE WHEN method <> 'infini' THEN 'keys=' || keys || ' ' ELSE '' END || options, 11) $$;
-- a filter of the keys from .. to, built in one go
CREATE FUNCTION pg_temp.filled(prototype dedup_filter, first int, last int) RETURNS dedup_filter
LANGUAGE sql AS $$ SELECT dedup_agg(prototype, i ORDER BY i) FROM generate_series(first, last) i $$;
-- share of the keys from .. to that are in the filter
CREATE FUNCTION pg_temp.share(filter dedup_filter, first int, last int) RETURNS float8
LANGUAGE sql AS $$
	SELECT count(*) FILTER (WHERE dedup_contains(filter, i)) / count(*)::float8
	FROM generate_series(first, last) i
$$;
SET client_min_messages = error;
\set QUIET off

-- all that there are: the list is that of the methods with a rate, which advice knows at one
-- rate or another; rsbf's rule makes it 0.0156

SELECT names[1:5] AS first, array_length(names, 1) > 20 AS many,
	ARRAY(SELECT name FROM unnest(names) name, dedup_stats(dedup_method(name, CASE WHEN name <> 'infini' THEN '64kB' END)) WHERE fpr IS NOT NULL
		EXCEPT SELECT method FROM methods) AS without_advice,
	ARRAY(SELECT method FROM methods EXCEPT SELECT unnest(names)) AS without_name
FROM (SELECT string_to_array(substring(hint FROM '^The methods are: (.*)\.$'), ', ') AS names
	FROM pg_temp.error('SELECT dedup_method(''none'', ''1MB'')')) x;
SELECT string_agg(method, ' ') AS without_advice FROM (SELECT DISTINCT method FROM methods EXCEPT
	SELECT method FROM dedup_advise(1000, 0.01)) x;
SELECT kind, count(*) >= least AS many FROM methods JOIN (VALUES ('all', 5), ('window', 9), ('chance', 14)) v(kind, least)
	USING (kind) GROUP BY kind, least ORDER BY kind;

-- made, and told of by dedup_stats

SELECT pg_temp.failed(m.method, m.options, s.method = m.method AND (s.keys = 5000 OR m.method = 'infini') AND (s.fpr = 0.01 OR own_rate) AND s.seed = 11
	AND s.exact AND s.count = 0 AND s.bytes = 64 AND s.bytes_full > 64
	AND s.parameters IS NOT NULL) AS stats
FROM methods m, dedup_stats(pg_temp.empty(m.method, m.options, 5000)) s;

-- by memory it takes no more than was given, or as much on top as it says, and not much less

SELECT pg_temp.failed(m.method, m.options, bytes_full - 64 <= 65536 * CASE WHEN speed ~ 'take twice the memory asked for on top' THEN 3 ELSE 1 END + 64)
		AS within,
	pg_temp.failed(m.method, m.options, bytes_full - 64 > 65536 - 8000) AS used
FROM (SELECT * FROM methods WHERE method <> 'infini') m, dedup_stats(dedup_method(m.method, '64kB', options));

-- full to its capacity: the exact form is over (but where hashes take no more than the
-- method would), what was promised of the keys holds, and keys that never came are found at
-- the rate asked for at most, where the options leave it to fpr

SELECT pg_temp.failed(m.method, m.options, NOT s.exact = (s.keys IS NULL OR bytes_full - 64 < 8 * 5000)) AS full,
	pg_temp.failed(m.method, m.options,
		CASE kind WHEN 'all' THEN held = 1 WHEN 'window' THEN held >= 0.999 ELSE held BETWEEN 0.2 AND 1 END) AS held,
	pg_temp.failed(m.method, m.options, strange <= 1.1 * 0.01 + 4 * sqrt(0.01 / 20000) OR own_rate) AS rate
FROM methods m, LATERAL (SELECT pg_temp.filled(pg_temp.empty(m.method, options, 5000), 1, 5000) AS f
	OFFSET 0) x, dedup_stats(f) s,
	LATERAL (SELECT pg_temp.share(f, 1, 5000) AS held, pg_temp.share(f, 1000001, 1020000) AS strange
	OFFSET 0) y;

-- text and binary forms are read back, byte for byte, and a filter read back goes on alike;
-- full to capacity and, where it never refuses a key, beyond

SELECT pg_temp.failed(method, options, f::text::dedup_filter::text = f::text) AS text,
	pg_temp.failed(method, options, f::bytea::dedup_filter::text = f::text) AS bytea,
	pg_temp.failed(method, options, dedup_add(f::text::dedup_filter, -1)::text = dedup_add(f, -1)::text) AS goes_on
FROM methods, unnest('{3000,4000}'::int[]) keys,
	LATERAL (SELECT pg_temp.filled(pg_temp.empty(method, options, 3000), 1, keys) AS f OFFSET 0) x
WHERE keys = 3000 OR promise !~ 'refuses';

-- key by key, in batches, or by the aggregate: the same bytes; but of infini, whose bytes depend
-- on the order of the keys, and which takes those of a stored filter in the order of their hashes

SELECT pg_temp.failed(method, options, one_by_one::text = a::text OR method = 'infini') AS one_by_one,
	pg_temp.failed(method, options, batch::text = a::text) AS batch
FROM methods, LATERAL (SELECT pg_temp.empty(method, options, 600) AS e OFFSET 0) x,
	LATERAL (SELECT dedup_agg(e, i % 550 ORDER BY i) AS a,
			dedup_add_all(e, array_agg(i % 550 ORDER BY i)) AS batch
		FROM generate_series(1, 1000) i) y,
	LATERAL (SELECT f AS one_by_one FROM (
			WITH RECURSIVE r(i, f) AS (SELECT 0, e UNION ALL
				SELECT i + 1, dedup_add(f, (i + 1) % 550) FROM r WHERE i < 1000)
			SELECT f FROM r WHERE i = 1000) z OFFSET 0) w;

-- as a window function: of 20,000 rows, 4,000 keys that come five times each; what was
-- let through at first sight, and what of the repeats; a key that is called a duplicate by
-- chance and so not kept (fp_lru, as its paper has it) is let through later

SELECT pg_temp.failed(m.method, m.options, first_refused <= 1.1 * 0.01 * 4000 + 4 * sqrt(40) OR own_rate) AS first,
	pg_temp.failed(m.method, m.options, CASE kind WHEN 'all' THEN repeats_passed = 0
		WHEN 'window' THEN repeats_passed <= 16 OR promise ~ 'the share q is called duplicates' AND repeats_passed <= 16 + 1.1 * first_refused
		ELSE repeats_passed < 15000 END) AS repeats
FROM methods m, LATERAL (SELECT count(*) FILTER (WHERE i <= 4000 AND NOT new) AS first_refused,
		count(*) FILTER (WHERE i > 4000 AND new) AS repeats_passed
	FROM (SELECT i, dedup_is_new(pg_temp.empty(m.method, m.options, 5000), i % 4000)
				OVER (ORDER BY i) AS new FROM generate_series(1, 20000) i) y) x;

-- first sight or last sight: a duplicate moves a key on, or does not, as advice says of
-- windows, and papers of what forgets by chance

SELECT pg_temp.failed(method, options, by_first = first_sight AND by_last <> first_sight) FILTER (WHERE kind = 'window') AS windows,
	pg_temp.failed(method, options, by_first OR by_last) AS others,
	string_agg(DISTINCT method, ' ') FILTER (WHERE by_first AND NOT by_last AND method = ANY (papers)) AS by_first_sight,
	string_agg(DISTINCT method, ' ') FILTER (WHERE by_last AND NOT by_first AND method = ANY (papers)) AS by_last_sight
FROM (SELECT *, dedup_add_all(e, ARRAY[1, 2, 1])::text = dedup_add_all(e, ARRAY[1, 2])::text AS by_first,
		dedup_add_all(e, ARRAY[1, 2, 1])::text = dedup_add_all(e, ARRAY[2, 1])::text AS by_last
	FROM methods, LATERAL (SELECT pg_temp.empty(method, options, 100) AS e OFFSET 0) x) y,
	(VALUES ('{sbf,rsbf,sqf,dsqf,qht,qhtd,qqht,qqhtd}'::text[])) papers (papers);

-- merging: what each input holds while both fit together, in every form, of those that can
-- be merged

SELECT sides, count(*) > 25 AS many, pg_temp.failed(method, options,
		CASE kind WHEN 'all' THEN share = 1 WHEN 'window' THEN share >= 0.998 ELSE share BETWEEN 0.2 AND 1 END) AS held
FROM methods, LATERAL (SELECT pg_temp.empty(method, options, 4000) AS e OFFSET 0) x,
	LATERAL (VALUES
	('full || full', pg_temp.filled(e, 1, 2000), pg_temp.filled(e, 2001, 4000)),
	('full || exact', pg_temp.filled(e, 1, 3990), pg_temp.filled(e, 3991, 4000)),
	('exact || full', pg_temp.filled(e, 1, 10), pg_temp.filled(e, 11, 4000)),
	('full || empty', pg_temp.filled(e, 1, 4000), e)) v(sides, a, b),
	LATERAL (SELECT pg_temp.share(a || b, 1, 4000) AS share OFFSET 0) y
WHERE 'merge' <> ALL (cannot) GROUP BY sides ORDER BY sides COLLATE "C";
SELECT count(*) > 0 AS some, pg_temp.failed(method, options,
		(pg_temp.error(format('SELECT f || f FROM (VALUES (dedup_method(%L, ''64kB'', %L))) v(f)', method, options))).error
			= format('0A000 filters of method %s cannot be merged', method)) AS others
FROM methods WHERE 'merge' = ANY (cannot);
SELECT pg_temp.empty('rsbf', '', 1000) || pg_temp.empty('rsbf', '', 1000);
\echo :LAST_ERROR_SQLSTATE
SELECT dedup_merge_agg(f) FROM (VALUES (pg_temp.empty('rsbf', '', 1000)), (pg_temp.empty('rsbf', '', 1000))) v(f);
SELECT dedup_merge_agg(f)::text = min(f::text) AS one_is_no_merge
FROM (VALUES (pg_temp.filled(pg_temp.empty('rsbf', '', 1000), 1, 2000))) v(f);
SELECT dedup_method('sqf', '64kB', 'k=2 r=4') || dedup_method('sqf', '64kB', 'k=4 r=4');

-- forgetting, in exact and in full filters, where a method can: the key is gone, the others
-- stay, and it can come again; a key that is not there changes nothing

SELECT keys = 1000 AS exact, count(*) >= 5 AS some, pg_temp.failed(method, options, NOT dedup_contains(less, 500)) AS gone,
	pg_temp.failed(method, options, pg_temp.share(less, 1, 499) = 1 AND pg_temp.share(less, 501, 1000) = 1) AS others_stay,
	pg_temp.failed(method, options, dedup_contains(dedup_add(less, 500), 500)) AS again,
	pg_temp.failed(method, options, dedup_forget(less, 500)::text = less::text) AS only_once,
	pg_temp.failed(method, options, dedup_forget(f, NULL::int)::text = f::text) AS no_key
FROM methods, (VALUES (1000), (100000)) w(keys),
	LATERAL (SELECT pg_temp.filled(dedup_method(method, NULL, 'fpr=0.000001 keys=' || keys || ' ' || options), 1, 1000)
			AS f OFFSET 0) x,
	LATERAL (SELECT dedup_forget(f, 500) AS less OFFSET 0) y
WHERE 'take a key back' <> ALL (cannot) GROUP BY keys ORDER BY keys;
SELECT dedup_forget(NULL::dedup_filter, 1) IS NULL AS no_filter;
-- where it cannot, the error names all that can
SELECT error, ARRAY(SELECT unnest(string_to_array(substring(hint FROM '^These can: (.*)\.$'), ', ')) EXCEPT
		SELECT method || CASE WHEN options <> '' THEN ' with ' || options ELSE '' END FROM methods WHERE 'take a key back' <> ALL (cannot)) AS cannot,
	ARRAY(SELECT method || CASE WHEN options <> '' THEN ' with ' || options ELSE '' END FROM methods WHERE 'take a key back' <> ALL (cannot)
		EXCEPT SELECT unnest(string_to_array(substring(hint FROM '^These can: (.*)\.$'), ', '))) AS not_named
FROM pg_temp.error('SELECT dedup_forget(dedup_filter(1000), 1)');
SELECT count(*) > 15 AS many, pg_temp.failed(method, options,
		(pg_temp.error(format('SELECT dedup_forget(dedup_method(%L, %L, %L), 1)', method, CASE WHEN method <> 'infini' THEN '64kB' END, options))).error
			= format('0A000 a filter of method %s cannot forget a key', method)) AS error
FROM methods WHERE 'take a key back' = ANY (cannot);
-- all of them forgotten, a full filter is as good as empty
SELECT count(*) >= 4 AS some, pg_temp.failed(method, options, dedup_count(f) = 0 AND pg_temp.share(f, 1, 2000) = 0) AS empty
FROM methods, LATERAL (SELECT f FROM (WITH RECURSIVE r(i, f) AS (
				SELECT 0, pg_temp.filled(dedup_method(method, NULL, 'fpr=0.000001 keys=2000 ' || options), 1, 2000)
				UNION ALL SELECT i + 1, dedup_forget(f, i + 1) FROM r WHERE i < 2000)
			SELECT f FROM r WHERE i = 2000) z OFFSET 0) x
WHERE 'take a key back' <> ALL (cannot);

-- a filter that can be full refuses, with the key that found no room, wherever it comes

\set QUIET on
CREATE FUNCTION pg_temp.keys(n int) RETURNS int[] LANGUAGE sql AS $$ SELECT array_agg(i) FROM generate_series(1, n) i $$;
\set QUIET off
SELECT dedup_agg(dedup_method('quotient', '1kB'), i) FROM generate_series(1, 2000) i;
\echo :LAST_ERROR_SQLSTATE
SELECT what, count(*) > 1 AS some, pg_temp.failed(method, options,
		(pg_temp.error(replace(statement, 'filter', format('%L::dedup_filter', e)))).error = format('54000 the %s filter is full', method)) AS error
FROM methods, LATERAL (SELECT dedup_method(method, '1kB', 'fpr=0.01 ' || options)::text AS e OFFSET 0) x,
	(VALUES ('aggregate', 'SELECT dedup_agg(filter, i) FROM generate_series(1, 3000) i'),
		('array', 'SELECT dedup_add_all(filter, pg_temp.keys(3000))'),
		('window', 'SELECT count(new) FROM (SELECT dedup_is_new(filter, i) OVER () AS new FROM generate_series(1, 3000) i) x'),
		('merge', 'SELECT dedup_add_all(filter, pg_temp.keys(900)) || (SELECT dedup_agg(filter, -i) FROM generate_series(1, 900) i)'),
		('merge_agg', 'SELECT dedup_merge_agg(f) FROM (SELECT dedup_agg(filter, i) AS f FROM generate_series(1, 1800) i GROUP BY i % 2) x'))
		v(what, statement)
WHERE promise ~ 'refuses' GROUP BY what ORDER BY what;
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
SELECT pg_temp.failed(m.method, options, full_at >= keys) AS held_what_it_was_made_for,
	pg_temp.failed(m.method, options, kept) AS kept, pg_temp.failed(m.method, options, seen) AS seen
FROM methods m, LATERAL (SELECT dedup_method(m.method, '1kB', 'fpr=0.01 ' || options) AS e OFFSET 0) x,
	dedup_stats(e), pg_temp.fill_up(e)
WHERE promise ~ 'refuses';

-- a quotient filter grows: with few keys its stored form is shorter than its ceiling

SELECT n, exact, bytes < bytes_full AS short FROM unnest('{100,2000,5000,9000}'::int[]) n,
	dedup_stats(pg_temp.filled(dedup_method('quotient', NULL, 'keys=9000'), 1, n));

-- options that exclude each other, and words

SELECT method, options, (pg_temp.error(format('SELECT dedup_method(%L, ''64kB'', %L)', method, options))).error
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

SELECT count(*) > 20 AS many, pg_temp.failed(method, prototype, bytes > 0 AND abs(bits_per_key / (8 * (bytes - 64) / 100000.0) - 1) < 0.005) AS bytes,
	pg_temp.failed(method, prototype, expected_fpr <= 0.01 * 1.0001) AS rate,
	pg_temp.failed(method, prototype, (missed <= 0.001) = ("cannot" !~ 'promise a window')) AS promised,
	pg_temp.failed(method, prototype, speed <> '') AS speed,
	pg_temp.failed(method, prototype, string_to_array("cannot", ', ') <@ ARRAY['promise a window', 'take a key back', 'merge',
		'merge without loss when full', 'merge when both are nearly full', 'keep its rate through a merge']) AS cannot
FROM dedup_advise(100000);
SELECT method, speed, "cannot" FROM dedup_advise(100000) WHERE method IN ('cuckoo', 'recent', 'lru', 'quotient');
SELECT purpose, string_agg(method || CASE WHEN prototype LIKE '%=on%' THEN '*' ELSE '' END, ' ' ORDER BY place) FILTER (WHERE place <= first) AS best_first FROM (VALUES
	(1, 'set', 3, false, NULL, false, false), (2, 'window', 4, true, NULL, false, false),
	(3, 'by first sight', 2, true, true, false, false), (4, 'by last sight', 2, true, false, false, false),
	(5, 'with deletes', 3, NULL, NULL, true, false), (6, 'set with deletes', 3, false, NULL, true, false),
	(7, 'window to merge', 4, true, NULL, false, true), (8, 'set to merge, with deletes', 3, false, NULL, true, true)) v(n, purpose, first, forget, first_sight, deletes, merges),
	dedup_advise(100000, 0.01, forget, first_sight, deletes, merges) WITH ORDINALITY a(method, why, promise, bytes, bits_per_key, expected_fpr, missed, speed, "cannot", merging, parameters, prototype, place)
GROUP BY n, purpose ORDER BY n;
-- no method is advised for a rate that it does not keep

SELECT n, fpr, count(*) > 15 AS advised, count(*) FILTER (WHERE expected_fpr > 1.01 * fpr) AS above
FROM unnest('{10,100000}'::int[]) n, unnest('{0.5,0.01,0.001,0.000000001}'::float8[]) fpr, dedup_advise(n, fpr)
GROUP BY n, fpr ORDER BY n, fpr DESC;
