-- Filters that grow: dedup_filter() without a number of keys, as a value, a prototype and a state of aggregates.
-- Filters that are made for a number of keys are tested elsewhere.

\set QUIET on
CREATE SCHEMA growing;
SET search_path = growing, public;
CREATE FUNCTION error(query text) RETURNS TABLE (state text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	state := 'ok';
	RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN NEXT;
END $$;
CREATE FUNCTION plan_has(query text, node text) RETURNS boolean LANGUAGE plpgsql AS $$
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
-- how a filter of the keys 1 to n answers: keys missed, and the share found of other keys
CREATE FUNCTION answers(f dedup_filter, n int, others int DEFAULT 20000, OUT missed bigint, OUT share float8) LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM generate_series(1, n) i WHERE NOT dedup_contains(f, i)),
		(SELECT count(*)::float8 / others FROM generate_series(1, others) i WHERE dedup_contains(f, -i))
$$;
\set QUIET off

-- the arguments: without a number it grows, and every other NULL makes the result NULL; but
-- dedup_filter(NULL) is the server's spelling of a cast, NULL::dedup_filter

SELECT call, (dedup_stats(f)).method, (dedup_stats(f)).keys, (dedup_stats(f)).fpr, (dedup_stats(f)).seed FROM (VALUES
	(1, '()', dedup_filter()), (2, '(NULL)', dedup_filter(NULL)), (3, '(NULL::bigint)', dedup_filter(NULL::bigint)),
	(4, '(fpr)', dedup_filter(fpr => 0.001)), (5, '(seed)', dedup_filter(seed => 7)),
	(6, '(NULL, fpr, seed)', dedup_filter(NULL, 0.1, -7)), (7, '(capacity => NULL)', dedup_filter(capacity => NULL, fpr => 0.5)),
	(8, '(1000, fpr)', dedup_filter(1000, 0.001)), (9, '(capacity)', dedup_filter(capacity => 1000)),
	(10, 'method', dedup_method('infini', NULL, 'fpr=0.001'))) v(n, call, f) ORDER BY n;
SELECT dedup_filter(1000, NULL) IS NULL AS fpr, dedup_filter(1000, 0.01, NULL) IS NULL AS seed, dedup_filter(NULL, NULL) IS NULL AS growing_fpr,
	dedup_filter(NULL, 0.01, NULL) IS NULL AS growing_seed, dedup_window(NULL) IS NULL AS window, dedup_filter(fpr => NULL) IS NULL AS named;
SELECT call, e.* FROM unnest(ARRAY['dedup_filter(0)', 'dedup_filter(-1)', 'dedup_filter(NULL, 0)', 'dedup_filter(fpr => 0.6)', 'dedup_filter(NULL, ''NaN'')',
	'dedup_filter(fpr => 1e-10)', 'dedup_method(''infini'', ''64kB'')', 'dedup_method(''infini'', NULL, ''keys=10'')']) call, error('SELECT ' || call) e;

-- a rate is no number of keys: there is no function of a numeric or a float8

SELECT call, e.state, e.message FROM unnest(ARRAY['dedup_filter(0.001)', 'dedup_filter(0.001::float8)', 'dedup_filter(''0.001'')', 'dedup_filter(1e6)']) call, error('SELECT ' || call) e;

-- parameters without a type, and a call site at which the number is NULL now and then

PREPARE made AS SELECT s.method, s.keys, s.fpr FROM dedup_stats(dedup_filter($1, $2, $3)) s;
EXECUTE made(NULL, 0.001, 1);
EXECUTE made(1000, 0.001, 1);
EXECUTE made(NULL, NULL, 1);
DEALLOCATE made;
SELECT i, s.method, s.keys, s.fpr FROM (SELECT i, dedup_filter(CASE WHEN i % 2 = 0 THEN i END, CASE WHEN i < 5 THEN 0.01 ELSE 0.1 END) AS f
	FROM generate_series(1, 8) i OFFSET 0) x, dedup_stats(f) s ORDER BY i;

-- dedup_stats: no number of keys, so no fill; exact up to 512 keys; bytes_full is that of the largest

SELECT n, s.method, s.keys, s.fpr, s.exact, s.count = n AS counted, s.fill, s.overfull, s.bytes, s.bytes_full, s.parameters
FROM unnest('{0,1,512}'::int[]) n, LATERAL (SELECT coalesce(dedup_agg(i), dedup_filter()) AS f FROM generate_series(1, n) i) x, dedup_stats(f) s ORDER BY n;
SELECT n, s.keys, s.exact, abs(s.count - n) <= 0.001 * n AS counted, s.fill, s.fpr_now < s.fpr AS below, s.overfull, s.bytes, s.bytes_full, s.parameters
FROM (VALUES (513, 0.01), (721, 0.01), (100000, 0.5), (100000, 0.01), (100000, 0.0001), (100000, 1e-9)) v(n, rate),
	LATERAL (SELECT dedup_agg(dedup_filter(NULL, rate), i) AS f FROM generate_series(1, n) i) x, dedup_stats(f) s;

-- the rate is kept from one key to many, and no key is missed; 20,000 other keys show a rate to
-- within four standard deviations

SELECT rate, n, a.missed, a.share <= rate + 4 * sqrt(rate / 20000) AS kept
FROM unnest('{0.1,0.01,0.001,0.0001}'::float8[]) rate, unnest('{1,512,513,1000,5000,20000}'::int[]) n,
	LATERAL (SELECT dedup_agg(dedup_filter(fpr => rate), i) AS f FROM generate_series(1, n) i) x, answers(f, n) a ORDER BY rate DESC, n;

-- the ways to fill one: the aggregate, key by key, many keys at once, and merges; the bytes
-- depend on the order of the keys, and on merges

CREATE FUNCTION looped(f dedup_filter, n int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		f := dedup_add(f, i);
	END LOOP;
	RETURN f;
END $$;
CREATE FUNCTION looped_many(f dedup_filter, n int, many int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 0..n / many - 1 LOOP
		f := dedup_add_all(f, ARRAY(SELECT generate_series(i * many + 1, (i + 1) * many)));
	END LOOP;
	RETURN f;
END $$;
CREATE TABLE filled AS SELECT 'agg' AS how, dedup_agg(i) AS f FROM generate_series(1, 6000) i
UNION ALL SELECT 'prototype', dedup_agg(dedup_filter(), i) FROM generate_series(1, 6000) i
UNION ALL SELECT 'loop', looped(dedup_filter(), 6000)
UNION ALL SELECT 'add_all', dedup_add_all(dedup_filter(), ARRAY(SELECT generate_series(1, 6000)))
UNION ALL SELECT 'many add_all', looped_many(dedup_filter(), 6000, 60)
UNION ALL SELECT 'window', (SELECT f FROM (SELECT dedup_agg(i) OVER (ORDER BY i) AS f, i FROM generate_series(1, 6000) i) x WHERE i = 6000)
UNION ALL SELECT '||', (SELECT dedup_agg(i) FROM generate_series(1, 3500) i) || (SELECT dedup_agg(i) FROM generate_series(2500, 6000) i)
UNION ALL SELECT 'merge_agg', (SELECT dedup_merge_agg(f) FROM (SELECT dedup_agg(i) AS f FROM generate_series(1, 6000) i GROUP BY i % 30) x);
SELECT how, a.missed, a.share < 0.01 AS kept, s.exact, abs(s.count - 6000) < 30 AS counted, s.fpr_now < 0.01 AS below,
	s.bytes, f = (SELECT f FROM filled WHERE how = 'agg') AS as_agg
FROM filled, answers(f, 6000) a, dedup_stats(f) s;

-- also if the filter is stored between two keys, at every rate, and with keys that crowd in a few
-- lines: those whose hash has five bits of 0 at the top

CREATE FUNCTION stored_between(f dedup_filter, keys int[], many int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 0..(cardinality(keys) - 1) / many LOOP
		f := dedup_add_all(f, keys[i * many + 1:(i + 1) * many])::bytea::dedup_filter;
	END LOOP;
	RETURN f;
END $$;
CREATE FUNCTION added_each(f dedup_filter, keys int[]) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	key int;
BEGIN
	FOREACH key IN ARRAY keys LOOP
		f := dedup_add(f, key)::bytea::dedup_filter;
	END LOOP;
	RETURN f;
END $$;
CREATE TABLE key_lists AS SELECT 'spread' AS name, array_agg(i % 1100 ORDER BY i) AS list FROM generate_series(1, 1500) i
UNION ALL SELECT 'crowded', array_agg(i ORDER BY i) FROM generate_series(1, 40000) i WHERE get_byte(dedup_add(dedup_filter(1000), i)::bytea, 67) < 8;
SELECT name, rate, cardinality(list) > 1000 AS many, s.exact, stored_between(empty, list, 1000) = f AS thousands, stored_between(empty, list, 7) = f AS sevens, added_each(empty, list) = f AS each,
	(SELECT dedup_agg(empty, key ORDER BY place) FROM unnest(list) WITH ORDINALITY u(key, place)) = f AS agg
FROM key_lists, unnest('{0.01,0.001,1e-6,1e-9}'::float8[]) rate, LATERAL (SELECT dedup_filter(fpr => rate) AS empty OFFSET 0) e,
	LATERAL (SELECT dedup_add_all(empty, list) AS f OFFSET 0) x, dedup_stats(f) s ORDER BY name, rate DESC;

-- keys that are there already make no filter grow that has as many as its size takes: 512 while
-- exact, and 720 in the first table

SELECT n, s.count = n AS at_the_limit, s.exact, dedup_add_all(f, known) = f AS stored, dedup_add_all(unfinished, known) = f AS unfinished, dedup_add_all(unfinished, known || known) = f AS many,
	dedup_add(unfinished, 1) = f AS one, dedup_add_all(f, ARRAY[-1]) <> f AS but_others
FROM (VALUES (512), (720)) v(n), LATERAL (SELECT dedup_add_all(dedup_filter(), ARRAY(SELECT generate_series(1, n))) AS unfinished OFFSET 0) u,
	LATERAL (SELECT unfinished::bytea::dedup_filter AS f, ARRAY(SELECT i % n + 1 FROM generate_series(1, 600) i) AS known OFFSET 0) x, dedup_stats(f) s;
SELECT (dedup_stats(dedup_add_all(f, ARRAY(SELECT i % 160 + 1 FROM generate_series(1, 2000) i)))).exact FROM (SELECT dedup_add_all(dedup_filter(1000), ARRAY(SELECT generate_series(1, 160))) AS f OFFSET 0) x;

-- merges of exact filters: the same bytes whether they are stored or not

SELECT rate, merged || c = dedup_merge(merged, c::bytea::dedup_filter) AS of_a_table, a || b = merged AS both, a::bytea::dedup_filter || b = merged AS right, a || b::bytea::dedup_filter = merged AS left
FROM unnest('{0.01,0.001,1e-6,1e-9}'::float8[]) rate, LATERAL (SELECT dedup_add_all(dedup_filter(fpr => rate), ARRAY(SELECT generate_series(1, 400))) AS a,
		dedup_add_all(dedup_filter(fpr => rate), ARRAY(SELECT generate_series(300, 800))) AS b, dedup_add_all(dedup_filter(fpr => rate), ARRAY(SELECT generate_series(-300, 100))) AS c OFFSET 0) x,
	LATERAL (SELECT a::bytea::dedup_filter || b::bytea::dedup_filter AS merged OFFSET 0) y ORDER BY rate DESC;

-- many keys into a value that is not yet in its stored form, which changes in place: those for
-- which it has to grow are there as well, also if the last one was there before

SELECT n, m, a.missed FROM unnest('{1,500,513,600,700}'::int[]) n, unnest('{1,2,30,300,1024,1025}'::int[]) m,
	LATERAL (SELECT dedup_add_all(dedup_add_all(dedup_filter(), ARRAY(SELECT generate_series(1, n))), ARRAY(SELECT generate_series(n + 1, n + m)) || 1) AS f OFFSET 0) x,
	answers(f, n + m, 1) a WHERE a.missed > 0;
SELECT count(*) AS missed FROM (SELECT dedup_add(dedup_add(dedup_add_all(dedup_filter(), ARRAY(SELECT generate_series(1, 719))), 720), 721) AS f OFFSET 0) x,
	generate_series(1, 721) i WHERE NOT dedup_contains(f, i);

-- merges of every form with every other one, also values that PL/pgSQL or dedup_add_all() made,
-- which are not yet in their stored form

SELECT f1.n AS left, f1.how, f2.n AS right, f2.how, bool_and(a.missed = 0) AS all_found, bool_and(a.share < 0.01) AS kept,
	bool_and(abs(dedup_count(m) - (f1.n + f2.n)) <= 0.02 * (f1.n + f2.n)) AS counted
FROM (SELECT n, how FROM unnest('{0,300,2000}'::int[]) n, unnest('{stored,unfinished}'::text[]) how) f1,
	(SELECT n, how FROM unnest('{0,300,2000}'::int[]) n, unnest('{stored,unfinished}'::text[]) how) f2,
	LATERAL (SELECT dedup_merge(CASE f1.how WHEN 'stored' THEN (SELECT coalesce(dedup_agg(i), dedup_filter()) FROM generate_series(1, f1.n) i)
				ELSE dedup_add_all(dedup_filter(), ARRAY(SELECT generate_series(1, f1.n))) END,
			CASE f2.how WHEN 'stored' THEN (SELECT coalesce(dedup_agg(i), dedup_filter()) FROM generate_series(f1.n + 1, f1.n + f2.n) i)
				ELSE dedup_add_all(dedup_filter(), ARRAY(SELECT generate_series(f1.n + 1, f1.n + f2.n))) END) AS m OFFSET 0) x,
	answers(m, f1.n + f2.n) a GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

-- the rate of a merge is at most the sum of both, and dedup_stats says which

SELECT s.fpr_now <= x.sum AS at_most_the_sum, s.fpr_now > 0.005 AS and_more_than_one, a.missed, abs(a.share - s.fpr_now) < 4 * sqrt(s.fpr_now / 20000) AS measured
FROM (SELECT dedup_merge_agg(f) AS f, sum((dedup_stats(f)).fpr_now) AS sum FROM (SELECT dedup_agg(i) AS f FROM generate_series(1, 20000) i GROUP BY i % 4) x) x,
	dedup_stats(f) s, answers(f, 20000) a;

-- others are refused, each in its own words

SELECT e.* FROM (VALUES (1, 'dedup_filter(fpr => 0.001)'), (2, 'dedup_filter(seed => 2)'), (3, 'dedup_method(''infini'', NULL, ''hash=sip'')'),
	(4, 'dedup_filter(1000)'), (5, 'dedup_window(1000)'), (6, 'dedup_method(''exaloglog'', ''16kB'')')) v(n, other), error('SELECT dedup_filter() || ' || other) e ORDER BY n;
SELECT e.* FROM error('SELECT dedup_forget(dedup_add(dedup_filter(), 1), 1)') e;

-- a prototype of all that takes one

SELECT count(*) FILTER (WHERE new) BETWEEN 19850 AND 20000 AS new, count(*) FILTER (WHERE new AND i > 20000) AS again
FROM (SELECT i, dedup_is_new(dedup_filter(), i % 20000) OVER (ORDER BY i) AS new FROM generate_series(1, 30000) i) x;
SELECT p, count(*) FILTER (WHERE new) AS new FROM (SELECT i % 100 AS p, dedup_is_new(dedup_filter(), i % 300) OVER (PARTITION BY i % 100 ORDER BY i) AS new FROM generate_series(1, 3000) i) x
WHERE p < 3 GROUP BY p ORDER BY p;
SELECT count(*) BETWEEN 9900 AND 10000 AS rows FROM dedup_rows(dedup_filter(), 'SELECT i % 10000 AS i FROM generate_series(1, 30000) i', 'i') r(i int);
SELECT count(*) BETWEEN 995 AND 1000 AS new, min(k) AS least FROM filled, dedup_new_keys(f, ARRAY(SELECT generate_series(5001, 7000))) k WHERE how = 'agg';
SELECT count(*) FILTER (WHERE is_new(f, i)) = 0 AS none_new FROM filled, generate_series(1, 6000) i WHERE how = 'loop';
SELECT count(*) FILTER (WHERE dedup_contains(f, i)) = 6000 AS asked_in_a_join FROM generate_series(1, 6000) i JOIN filled ON how = '||' AND dedup_contains(f, i);
SELECT dedup_count(dedup_agg(dedup_filter(), i, i % 7)) BETWEEN 1990 AND 2010 AS columns FROM generate_series(1, 2000) i;

-- output and input, as text, as bytea, and through COPY; and as key of an index and of groups

SELECT how, f::text::dedup_filter = f AS text, f::bytea::dedup_filter = f AS bytea FROM filled;
CREATE TABLE copied (how text, f dedup_filter);
\copy filled TO 'results/growing.copy'
\copy copied FROM 'results/growing.copy'
\copy filled TO 'results/growing.copy' (FORMAT binary)
\copy copied FROM 'results/growing.copy' (FORMAT binary)
SELECT count(*) AS rows, bool_and(c.f = f.f) AS same FROM copied c JOIN filled f USING (how);
CREATE UNIQUE INDEX ON filled (how, dedup_filter_hash_extended(f, 0));
CREATE INDEX ON filled USING hash (f);
SELECT count(DISTINCT f) AS filters, count(*) AS rows FROM (SELECT f FROM filled UNION ALL SELECT f FROM copied) x;
SELECT count(*) FROM (SELECT f FROM copied GROUP BY f) x;
SELECT count(*) AS found FROM copied c JOIN filled f ON c.f = f.f AND f.how = 'agg' AND c.how = 'agg';

-- equal while both are exact, whatever the order; then only with the same history

SELECT (SELECT dedup_agg(i ORDER BY i) FROM generate_series(1, 512) i) = (SELECT dedup_agg(i ORDER BY -i) FROM generate_series(1, 512) i) AS exact,
	(SELECT dedup_agg(i ORDER BY i) FROM generate_series(1, 5000) i) = (SELECT dedup_agg(i ORDER BY i) FROM generate_series(1, 5000) i) AS same_order,
	(SELECT dedup_agg(i ORDER BY i) FROM generate_series(1, 5000) i) = (SELECT dedup_agg(i ORDER BY -i) FROM generate_series(1, 5000) i) AS other_order;

-- live filters grow if their prototype does

SELECT dedup_create('live', dedup_filter(1000, seed => 7)) IS NOT NULL AS made;
CREATE TABLE guarded (k int);
INSERT INTO guarded SELECT generate_series(1, 100);
CREATE INDEX ON guarded (k);
SELECT dedup_guard('guarded', 'live', '{k}', exact => true, load => true) IS NOT NULL AS guarded;
SELECT dedup_create('other', dedup_filter()), dedup_create('another', dedup_filter(fpr => 0.001), '1 hour');
SELECT name::text, kind, keys, fpr FROM dedup_filters ORDER BY 1;
DROP TABLE other, another;
-- exact hashes are those of any filter
SELECT dedup_load('live', (SELECT dedup_agg(dedup_filter(seed => 7), i) FROM generate_series(201, 300) i)) AS loaded;
SELECT e.* FROM error('SELECT dedup_load(''live'', (SELECT dedup_agg(dedup_filter(seed => 7), i) FROM generate_series(1, 600) i))') e;

-- a state of few keys is as small as another filter's: 200,000 groups

SELECT count(*) AS groups, bool_and((dedup_stats(f)).bytes = 72 AND dedup_contains(f, g)) AS small FROM (SELECT i AS g, dedup_agg(i) AS f FROM generate_series(1, 200000) i GROUP BY i) x;
CREATE AGGREGATE unfinished(VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter);
CREATE AGGREGATE unfinished(dedup_filter, VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter);
SELECT n, pg_column_size(unfinished(i)) AS growing, pg_column_size(unfinished(dedup_filter(1000000), i)) AS sized FROM unnest('{1,7,8,20,512}'::int[]) n, generate_series(1, n) i GROUP BY n ORDER BY n;

-- parallel plans: the same keys are found at no more than the rate asked for; the bytes are
-- other ones, but of exact filters. States have a lower rate, of which the filter shows nothing

CREATE TABLE hits AS SELECT i % 30000 + 1 AS u, i % 5 AS part FROM generate_series(1, 60000) i;
ALTER TABLE hits SET (parallel_workers = 4);
CREATE TABLE parted (u int, part int) PARTITION BY LIST (part);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0, 1);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (2, 3, 4);
INSERT INTO parted SELECT * FROM hits;
ANALYZE hits, parted;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE serial AS SELECT dedup_agg(u) AS f, dedup_agg(u) FILTER (WHERE u <= 512) AS exact FROM hits;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
SELECT plan_has('SELECT dedup_agg(u) FROM hits', 'Partial Aggregate') AS partial, plan_has('SELECT dedup_agg(dedup_filter(), u) FROM hits', 'Partial Aggregate') AS prototype,
	plan_has('SELECT dedup_merge_agg(f) FROM filled', 'Aggregate') AS merge;
SELECT rate, s.method, s.fpr, s.parameters, s.fpr_now <= s.fpr AS below, abs(s.count - 30000) < 150 AS counted, a.missed, a.share <= rate + 4 * sqrt(rate / 100000) AS kept
FROM unnest('{0.1,0.01,0.001,0.0001}'::float8[]) rate, LATERAL (SELECT dedup_agg(dedup_filter(fpr => rate), u) AS f FROM hits) x, dedup_stats(f) s, answers(f, 30000, 100000) a ORDER BY rate DESC;
SELECT dedup_agg(u) FILTER (WHERE u <= 512) = (SELECT exact FROM serial) AS exact FROM hits;
SELECT s.fpr_now <= s.fpr AS below, a.missed, a.share <= 0.011 AS kept, s.bytes = (SELECT (dedup_stats(f)).bytes FROM serial) AS same_size FROM (SELECT dedup_agg(u) AS f FROM hits) x, dedup_stats(f) s, answers(f, 30000, 100000) a;
SELECT part, dedup_count(dedup_agg(u)) BETWEEN 5970 AND 6030 AS counted FROM hits GROUP BY part ORDER BY part;
SELECT a.missed, s.fpr_now <= s.fpr AS below FROM (SELECT dedup_merge_agg(dedup_add(dedup_filter(), u)) AS f FROM hits) x, answers(f, 30000, 100000) a, dedup_stats(f) s;
SET enable_partitionwise_aggregate = on;
SELECT s.parameters, s.fpr_now <= s.fpr AS below, a.missed, a.share <= 0.011 AS kept FROM (SELECT dedup_agg(u) AS f FROM parted) x, dedup_stats(f) s, answers(f, 30000, 100000) a;
SET max_parallel_workers_per_gather = 0;
SELECT plan_has('SELECT dedup_agg(u) FROM parted', 'Partial Aggregate') AS partial_without_parallel;
SELECT s.parameters, s.fpr_now <= s.fpr AS below, a.missed, a.share <= 0.011 AS kept FROM (SELECT dedup_agg(u) AS f FROM parted) x, dedup_stats(f) s, answers(f, 30000, 100000) a;
RESET enable_partitionwise_aggregate;

-- a state that is taken for a value, and merged with one: of a partial aggregate it has longer
-- entries, which become those of the value

CREATE AGGREGATE merged(dedup_filter) (SFUNC = dedup_merge_agg_trans, STYPE = dedup_filter, COMBINEFUNC = dedup_agg_combine, PARALLEL = SAFE);
CREATE AGGREGATE kept(VARIADIC "any") (SFUNC = dedup_agg_trans, STYPE = dedup_filter, COMBINEFUNC = dedup_agg_combine, PARALLEL = SAFE);
SET enable_partitionwise_aggregate = on;
CREATE TABLE states AS SELECT kept(u)::bytea::dedup_filter AS f FROM parted;
INSERT INTO states SELECT kept(u)::bytea::dedup_filter FROM parted WHERE u <= 300;
RESET enable_partitionwise_aggregate;
SELECT s.exact, s.parameters, a.missed, a.share < 0.01 AS kept FROM states, dedup_stats(f) s, answers(f, 300) a ORDER BY 1;
SELECT m.how, s.parameters, a.missed, a.share <= 0.02 AS kept FROM states t, serial, LATERAL (VALUES
	(1, 'state || value', t.f || serial.f), (2, 'value || state', serial.f || t.f), (3, 'state || state', t.f || t.f), (4, 'state || exact', t.f || serial.exact),
	(5, 'exact || state', serial.exact || t.f), (6, 'state || empty', t.f || dedup_filter()), (7, 'finished', (SELECT dedup_merge_agg(g) FROM (VALUES (t.f)) v(g))),
	(8, 'merged', (SELECT dedup_merge_agg(g) FROM (VALUES (t.f), (serial.f)) v(g))), (9, 'merged', (SELECT dedup_merge_agg(g) FROM (VALUES (serial.f), (t.f)) v(g)))) m(n, how, f),
	dedup_stats(m.f) s, answers(m.f, 300) a ORDER BY (dedup_stats(t.f)).exact, n;

-- dedup_advise() without a number of keys has one method for it

SELECT method, why, promise, bytes, bits_per_key, expected_fpr, missed, cannot, parameters, prototype FROM dedup_advise() \gx
SELECT dedup_advise() = dedup_advise(NULL) AS without, dedup_advise(fpr => 0.01) = dedup_advise(NULL, 0.01, merges => true) AS merges, dedup_advise() = dedup_advise(NULL, 0.01, false) AS set;
SELECT rate, a.bits_per_key, a.expected_fpr <= rate AS kept, count(*) OVER () / 8 AS rows
FROM unnest('{0.5,0.1,0.01,0.001,0.0001,0.00001,1e-7,1e-9}'::float8[]) rate, dedup_advise(NULL, rate) a ORDER BY rate DESC;
CREATE FUNCTION made(prototype text) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	f dedup_filter;
BEGIN
	EXECUTE 'SELECT ' || prototype INTO f;
	RETURN f;
END $$;
SELECT bool_and(made(prototype) = dedup_filter(fpr => rate)) AS as_made FROM unnest('{0.5,0.012345,1e-9}'::float8[]) rate, dedup_advise(NULL, rate);
SELECT e.* FROM unnest(ARRAY['deletes => true', 'forget => true', 'first_sight => true', 'first_sight => false', 'deletes => true, merges => true', 'fpr => NULL', 'fpr => 2', 'keys => 0']) WITH ORDINALITY w(wish, n),
	error('SELECT dedup_advise(' || wish || ')') e ORDER BY n;
-- with a number it is listed as well, with its bytes for so many keys, up to the most
SELECT keys, a.bytes, a.bits_per_key, a.why, a.cannot, a.bytes > min(b.bytes) AS not_the_smallest FROM unnest('{2,512,513,1000000,188743680}'::bigint[]) keys, dedup_advise(keys) a, dedup_advise(keys) b
WHERE a.method = 'infini' AND b.method <> 'infini' GROUP BY 1, 2, 3, 4, 5 ORDER BY keys;
SELECT a.bytes = s.bytes AS bytes FROM dedup_advise(20000) a, (SELECT dedup_agg(i) AS f FROM generate_series(1, 20000) i) x, dedup_stats(f) s WHERE a.method = 'infini';
SELECT count(*) AS past_the_most FROM dedup_advise(188743681) WHERE method = 'infini';
SELECT count(*) AS that_forget FROM dedup_advise(1000, 0.01, true) WHERE method = 'infini';

-- states of partial aggregates with some of the same keys, in the order in which they happen to arrive
CREATE AGGREGATE combined(dedup_filter) (SFUNC = dedup_agg_combine, STYPE = dedup_filter, FINALFUNC = dedup_agg_final);
CREATE TABLE parts AS SELECT n, part, textin(dedup_agg_hashes_partial(dedup_hash(NULL, i))) AS state
FROM unnest('{600,1000,2000,6000}'::int[]) n, generate_series(0, 15) part, generate_series(1, n) i WHERE (i * 7 + part) % 16 IN (0, 3, 5) GROUP BY n, part;
SELECT n, bool_and(abs(dedup_count(f) - n) <= n * 0.002) AS counted, bool_and((dedup_stats(f)).fpr_now < 0.002) AS rate, bool_and((answers(f, n, 1)).missed = 0) AS all_keys
FROM (SELECT n, combined(state::dedup_filter ORDER BY md5(part || ' ' || r)) AS f FROM parts, generate_series(1, 30) r GROUP BY n, r) x GROUP BY n ORDER BY n;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA growing CASCADE;
