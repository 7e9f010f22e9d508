-- The functions over one filter, their results, and their properties in pg_proc.

-- dedup_add gives the filter with one more key, and leaves its argument as it is; a key
-- that is there changes nothing

SELECT dedup_contains(dedup_add(f, 2), 2) AS added, dedup_contains(dedup_add(f, 2), 1) AS kept,
	is_new(f, 2) AS argument_as_it_was, dedup_add(f, 1)::text = f::text AS again
FROM (VALUES (dedup_add(dedup_filter(10), 1))) v(f);
SELECT dedup_add(NULL, 1) IS NULL AS no_filter, dedup_add(f, NULL::int)::text = f::text AS null_key
FROM (VALUES (dedup_add(dedup_filter(10), 1))) v(f);

-- of one value two different ones can be made: neither sees the other's key

SELECT dedup_contains(a, 1) AND NOT dedup_contains(a, 2) AS a,
	dedup_contains(b, 2) AND NOT dedup_contains(b, 1) AS b, dedup_count(f) = 2000 AS f
FROM (SELECT f, dedup_add(f, 1) AS a, dedup_add(f, 2) AS b
	FROM (SELECT dedup_add_all(dedup_filter(100000), ARRAY(SELECT generate_series(1001, 3000)))
			AS f OFFSET 0) x OFFSET 0) y;
SELECT dedup_contains(a, -1) AND dedup_contains(a, 1) AND NOT dedup_contains(a, -2) AS a,
	dedup_contains(b, -2) AND dedup_contains(b, 1) AND NOT dedup_contains(b, -1) AS b,
	dedup_count(x) = 501 AS x
FROM (SELECT x, dedup_add(x, -1) AS a, dedup_add(x, -2) AS b
	FROM (SELECT dedup_add(dedup_add_all(dedup_window(10000),
						ARRAY(SELECT generate_series(1001, 1500))), 1) AS x OFFSET 0) y OFFSET 0) z;

-- dedup_add_all adds the elements of an array, NULLs left out, in their order

SELECT dedup_add_all(f, ARRAY[1, 2, NULL, 3, 2])::text = dedup_add(dedup_add(dedup_add(f, 1), 2), 3)::text AS one_by_one,
	dedup_add_all(f, '{}'::int[])::text = f::text AS none,
	dedup_add_all(f, ARRAY[NULL, NULL]::int[])::text = f::text AS only_nulls,
	dedup_add_all(f, NULL::int[])::text = f::text AS no_array,
	dedup_add_all(NULL, ARRAY[1]) IS NULL AS no_filter,
	dedup_add_all(f, ARRAY[[1, 2], [3, 1]])::text = dedup_add_all(f, ARRAY[1, 2, 3])::text
		AS two_dimensions,
	dedup_add_all(f, '[5:6]={1,2}'::int[])::text = dedup_add_all(f, ARRAY[1, 2])::text AS bounds
FROM (VALUES (dedup_filter(100))) v(f);
SELECT dedup_add_all(dedup_window(10), ARRAY[1, 2, 1])::text = dedup_add(dedup_add(dedup_window(10), 2),
			1)::text AS by_last_sight,
	dedup_add_all(dedup_window(10), ARRAY[1, 2])::text
		<> dedup_add_all(dedup_window(10), ARRAY[2, 1])::text AS order_matters;
SELECT dedup_count(dedup_add_all(dedup_filter(10), ARRAY['a', 'b', NULL, 'a'])) AS text,
	dedup_count(dedup_add_all(dedup_filter(10), ARRAY[1.0, 1.00, 2])) AS numeric,
	dedup_count(dedup_add_all(dedup_filter(10), ARRAY[ROW(1, 'a'), ROW(1, 'a'), ROW(2, 'b')]))
		AS records, dedup_count(dedup_add_all(dedup_filter(10), '1 2 2'::oidvector)) AS oids,
	dedup_contains(dedup_add_all(dedup_filter(10), ARRAY[5::int2]), 5::int8) AS integers;
SELECT dedup_add_all(dedup_filter(20000), a)::text = (SELECT dedup_agg(dedup_filter(20000), i)
		FROM unnest(a) i)::text AS large_array,
	dedup_add_all(dedup_window(2000), a)::text = (SELECT dedup_agg(dedup_window(2000), i ORDER BY i)
		FROM unnest(a) i)::text AS window_too
FROM (SELECT array_agg(i ORDER BY i) AS a FROM generate_series(1, 20000) i) x;
SELECT count(*) > 100 AS some,
	bool_and(dedup_count(f) = cardinality(most_common_vals::text::text[])) AS statistics
FROM (SELECT most_common_vals, dedup_add_all(dedup_filter(100000), most_common_vals) AS f
	FROM pg_stats s
	JOIN pg_type t ON t.oid = ANY (ARRAY['name', 'oid', 'bool', 'int2', 'int4']::regtype[])
	JOIN pg_attribute a ON a.atttypid = t.oid
		AND a.attrelid = format('%I.%I', s.schemaname, s.tablename)::regclass
		AND a.attname = s.attname
	WHERE s.schemaname = 'pg_catalog' AND most_common_vals IS NOT NULL) x;

-- is_new is the opposite of dedup_contains, for every method, exact and full

SELECT bool_and(is_new(f, i) = NOT dedup_contains(f, i)) AS opposite,
	count(*) FILTER (WHERE i <= 30 AND is_new(f, i)) = 0 AS none_missed
FROM (VALUES (dedup_add_all(dedup_filter(30), ARRAY(SELECT generate_series(1, 30)))),
		(dedup_add_all(dedup_filter(30, 0.00001), ARRAY(SELECT generate_series(1, 30)))),
		(dedup_add_all(dedup_window(30), ARRAY(SELECT generate_series(1, 30)))),
	(dedup_add_all(dedup_method('ring', NULL, 'keys=30'), ARRAY(SELECT generate_series(1, 30)))),
	(dedup_add_all(dedup_filter(3000), ARRAY(SELECT generate_series(1, 30))))) v(f),
		generate_series(1, 1000) i;

-- with another seed other keys are taken for known, and never one that was added

SELECT count(DISTINCT found::text) = 5 AS all_different
FROM (SELECT seed, array_agg(dedup_contains(f, -i) ORDER BY i) AS found
	FROM generate_series(-2, 2) seed,
		LATERAL (SELECT dedup_agg(dedup_filter(1000, 0.1, seed), i) FROM generate_series(1, 1000) i) x(f),
		generate_series(1, 500) i GROUP BY seed) y;
SELECT seed AS seed_kept FROM dedup_stats(dedup_filter(10, 0.01, -9223372036854775808));

-- false positives stay below the rate at capacity; the data are fixed, so this cannot flake

SELECT method, fpr, count(*) FILTER (WHERE i <= 2000 AND is_new(f, i)) AS missed,
	count(*) FILTER (WHERE dedup_contains(f, -i)) <= 1.05 * fpr * 20000 + 4 * sqrt(fpr * 20000)
		AS rate, fpr_now <= 1.2 * fpr AS rate_now
FROM (SELECT dedup_agg(empty, i) AS f
	FROM (VALUES (1, dedup_filter(2000, 0.1)), (2, dedup_filter(2000, 0.01)),
			(3, dedup_filter(2000, 0.001)), (4, dedup_filter(2000, 0.00005)),
			(5, dedup_window(2000, 0.1)), (6, dedup_window(2000, 0.01)),
	(7, dedup_window(2000, 0.001)), (8, dedup_method('ring', NULL, 'keys=2000 fpr=0.1')),
	(9, dedup_method('ring', NULL, 'keys=2000 fpr=0.01'))) v(n, empty), generate_series(1,
	2000) i GROUP BY n) x, dedup_stats(f), generate_series(1, 20000) i
GROUP BY method, fpr, fpr_now ORDER BY method COLLATE "C", fpr;

-- dedup_count is exact while the filter is, and near the number of keys when it is full;
-- a window counts what it remembers

SELECT dedup_count(dedup_filter(10)) AS empty,
	dedup_count(dedup_add_all(dedup_filter(1000), ARRAY(SELECT generate_series(1, 100)))) AS exact,
	dedup_count(dedup_agg(dedup_filter(5000), i)) BETWEEN 4850 AND 5150 AS blocked_bloom,
	dedup_count(dedup_agg(dedup_filter(5000, 0.00001), i)) BETWEEN 4850 AND 5150 AS bloom,
	dedup_count(dedup_agg(dedup_window(5000), i)) BETWEEN 4850 AND 5150 AS recent,
	dedup_count(dedup_agg(dedup_method('ring', NULL, 'keys=5000'), i)) BETWEEN 4750 AND 5250 AS ring
	FROM generate_series(1, 5000) i;
SELECT dedup_count(recent) BETWEEN 1000 AND 1300 AS recent,
	dedup_count(ring) BETWEEN 1000 AND 1300 AS ring
FROM (SELECT dedup_agg(dedup_window(1000), i ORDER BY i) AS recent,
		dedup_agg(dedup_method('ring', NULL, 'keys=1000'), i ORDER BY i) AS ring
	FROM generate_series(1, 10000) i) x;

-- dedup_stats: what the filter was made for and what it holds

SELECT method, keys, fpr, seed, exact, count, fill, fpr_now, overfull,
	bytes = pg_column_size(f) AS bytes, bytes_full > bytes AS bytes_full,
	parameters <> '' AS parameters FROM (VALUES (dedup_filter(1000, 0.02, 3))) v(f), dedup_stats(f);
SELECT method, keys, fpr, seed, exact, count, fill, fpr_now < 1e-17 AS fpr_now, overfull,
	bytes = length(f::bytea) + 4 AS bytes, bytes_full > bytes AS bytes_full
FROM (VALUES (dedup_add_all(dedup_window(1000), '{1,2,3,4,5}'::int[]))) v(f), dedup_stats(f);
SELECT method, exact, count BETWEEN 950 AND 1050 AS count, fill BETWEEN 0.95 AND 1.05 AS fill,
	fpr_now BETWEEN 0.005 AND 0.0105 AS fpr_now, overfull, bytes = length(f::bytea) + 4 AS bytes,
	bytes_full = bytes AS bytes_full
FROM (SELECT dedup_agg(dedup_filter(1000), i) FROM generate_series(1, 1000) i) v(f), dedup_stats(f);
SELECT bool_and(s = dedup_stats(f)) AS column_of_a_query
FROM (SELECT f, dedup_stats(f) AS s FROM (VALUES (dedup_filter(1000)), (dedup_window(10))) v(f)) x;
SELECT dedup_stats(NULL) IS NULL AS "null", (dedup_stats(dedup_filter(10))).method AS field;

-- dedup_advise: those that can hold the keys: first those that never forget, then windows
-- (at most 0.1 % missed), then what forgets by chance, then those of papers in the same
-- order; of each kind what dedup_filter() or dedup_window() makes, then by memory; and what
-- it says comes true

SELECT count(*) > 20 AS many, (array_agg(method ORDER BY n))[1:2] AS first,
	bool_and(kind > last_kind OR kind = last_kind AND (bytes >= last OR last_why LIKE 'made by %')) AS least_first,
	bool_and(expected_fpr <= 0.01 * 1.01) AS rates,
	bool_and(bits_per_key > 6.6) AS above_the_bound
FROM (SELECT *, lag(bytes, 1, 0::bigint) OVER (ORDER BY n) AS last,
		lag(kind, 1, 0) OVER (ORDER BY n) AS last_kind, lag(why) OVER (ORDER BY n) AS last_why
	FROM (SELECT *, CASE WHEN why = 'only to compare with its paper' THEN 3 ELSE 0 END + CASE WHEN prototype IN (SELECT prototype FROM dedup_advise(100000, 0.01, false)) THEN 0
				WHEN missed <= 0.001 THEN 1 ELSE 2 END AS kind
		FROM dedup_advise(100000) WITH ORDINALITY a(method, why, promise, bytes, bits_per_key, expected_fpr,
				missed, speed, "cannot", merging, parameters, prototype, n)) y) x;
CREATE FUNCTION pg_temp.made(prototype text) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	made dedup_filter;
BEGIN
	EXECUTE 'SELECT ' || prototype INTO made;
	RETURN made;
END $$;
SELECT forget, count(*) >= CASE WHEN forget THEN 15 ELSE 5 END AS many, (array_agg(method))[1:4] AS first,
	string_agg(method, ' ') FILTER (WHERE forgets IS DISTINCT FROM forget) AS not_so
FROM (SELECT forget, method, EXISTS (SELECT dedup_new_keys(f, ARRAY(SELECT generate_series(1, 1000)))) AS forgets
	FROM unnest('{f,t}'::boolean[]) forget, dedup_advise(1000, 0.01, forget),
		LATERAL (SELECT pg_temp.made(prototype) AS empty OFFSET 0) x,
		LATERAL (SELECT dedup_agg(empty, i ORDER BY i) AS f
			FROM generate_series(1, CASE WHEN forget THEN 10000 ELSE 1000 END) i) z) y
GROUP BY forget ORDER BY forget;
SELECT (SELECT bytes FROM dedup_advise(100000, 0.00001, false) WHERE method = 'bloom')
		< (SELECT bytes FROM dedup_advise(100000, 0.00001, false) WHERE method = 'blocked_bloom')
		AS bloom_is_smaller_at_low_rates,
	(SELECT array_agg(method) FROM dedup_advise(100000, 0.01, NULL))
		= (SELECT array_agg(method) FROM dedup_advise(100000)) AS null_is_either;
SELECT count(*) > 15 AS many, bool_and(a.bytes = s.bytes_full) FILTER (WHERE s.keys IS NOT NULL) AS bytes, bool_and(a.parameters = s.parameters) AS parameters,
	min(s.keys) AS least_keys, max(s.keys) AS most_keys, min(s.fpr) AS least_fpr, max(s.fpr) AS most_fpr
FROM dedup_advise(1234, 0.003) a, dedup_stats(pg_temp.made(a.prototype)) s;

-- the marks of all functions

SELECT proname, provolatile AS v, proparallel AS p, proisstrict AS strict, procost AS cost,
	prokind AS kind, pronargs AS args, provariadic::regtype AS variadic
FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE extname = 'streamdedup'
ORDER BY proname COLLATE "C", pronargs, provariadic, provolatile;
-- by its name or by its regclass, a live filter meets the same function
SELECT count(*) >= 9 AS many, bool_and(functions = 1) AS the_same FROM (
	SELECT count(*), count(DISTINCT prosrc) AS functions
	FROM (SELECT proname, array_replace(proargtypes::oid[], 'regclass'::regtype::oid, 'text'::regtype::oid) AS types, prosrc
		FROM pg_proc WHERE probin LIKE '%streamdedup' AND proargnames[1] = 'name') x
	GROUP BY proname, types HAVING count(*) = 2) y;
SELECT proname, pronargs AS args, aggtranstype::regtype AS state, aggcombinefn <> 0 AS combines,
	aggserialfn <> 0 AND aggdeserialfn <> 0 AS serialised, aggfinalmodify AS final, aggtransspace > 0 AS space_told
FROM pg_aggregate JOIN pg_proc p ON p.oid = aggfnoid
WHERE aggtransfn IN (SELECT oid FROM pg_proc WHERE probin LIKE '%streamdedup') ORDER BY proname COLLATE "C", pronargs;

-- nothing of it depends on the search path, and it works in another schema

CREATE SCHEMA elsewhere;
ALTER EXTENSION streamdedup SET SCHEMA elsewhere;
SET search_path = '';
SELECT elsewhere.dedup_contains(elsewhere.dedup_agg(i, 'x'), 3, 'x') AS agg,
	elsewhere.dedup_count(elsewhere.dedup_add_all(elsewhere.dedup_window(10), '{1,2,2}'::int4[]))
		AS add_all,
	elsewhere.dedup_count(elsewhere.dedup_merge_agg(elsewhere.dedup_add(elsewhere.dedup_filter(10),
				i)) OPERATOR(elsewhere.||) elsewhere.dedup_filter(10)) AS merge
FROM pg_catalog.generate_series(1, 5) i;
SELECT pg_catalog.count(*) FILTER (WHERE new) AS window
FROM (SELECT elsewhere.dedup_is_new(i % 3) OVER (ORDER BY i) AS new
	FROM pg_catalog.generate_series(1, 9) i) x;
SELECT f::pg_catalog.text::elsewhere.dedup_filter::pg_catalog.bytea::elsewhere.dedup_filter::pg_catalog.text
	OPERATOR(pg_catalog.=) f::pg_catalog.text AS casts FROM elsewhere.dedup_filter(10) f;
SELECT method, parameters IS NOT NULL AS parameters FROM elsewhere.dedup_advise(1000) LIMIT 1;
SELECT (elsewhere.dedup_stats(elsewhere.dedup_method('bloom', '1MB'))).keys > 0 AS stats;
RESET search_path;
ALTER EXTENSION streamdedup SET SCHEMA public;
DROP SCHEMA elsewhere;
SELECT dedup_count(dedup_filter(10)) AS back;
