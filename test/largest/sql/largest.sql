-- Filters at their largest. This runs on a build in which they stop growing at 32 kB, at 11,520
-- keys instead of 188,743,680 (test/check.sh largest): the messages say 512 MB all the same.

\set QUIET on
SET client_min_messages = warning;
CREATE SCHEMA largest;
SET search_path = largest, public;
CREATE FUNCTION missed(f dedup_filter, n int) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(1, n) i WHERE NOT dedup_contains(f, i)
$$;
-- the share of 100,000 other keys that are found
CREATE FUNCTION share(f dedup_filter) RETURNS float8 LANGUAGE sql AS $$
	SELECT count(*)::float8 / 100000 FROM generate_series(1, 100000) i WHERE dedup_contains(f, -i)
$$;
CREATE FUNCTION partial_aggregates(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	line text;
	many int := 0;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		many := many + (line LIKE '%Partial Aggregate%')::int;
	END LOOP;
	RETURN many;
END $$;
\set QUIET off

-- up to the most keys there is no WARNING; after them there is one, and dedup_stats says the same

SELECT s.overfull, s.fpr_now < s.fpr AS kept, s.bytes, s.bytes_full, missed(f, 11400) FROM (SELECT dedup_agg(i) AS f FROM generate_series(1, 11400) i) x, dedup_stats(f) s;
CREATE TABLE filled AS SELECT dedup_agg(i) AS f FROM generate_series(1, 16000) i;
SELECT s.overfull, s.count, round(s.fpr_now::numeric, 4) AS fpr_now, s.bytes, missed(f, 16000), abs(share(f) - s.fpr_now) < 4 * sqrt(s.fpr_now / 100000) AS measured FROM filled, dedup_stats(f) s;

-- once for all groups of a query

SELECT g, (dedup_stats(dedup_agg(i))).overfull FROM generate_series(1, 3) g, generate_series(1, 12000) i GROUP BY g ORDER BY g;

-- dedup_add: with the key that passes the most, once, one at a time or many at a time; not with
-- keys that are there, and not again for a filter that is past them

CREATE TABLE near AS SELECT dedup_agg(i) AS f FROM generate_series(1, 11500) i;
CREATE FUNCTION added(f dedup_filter, first int, last int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first..last LOOP
		f := dedup_add(f, i);
	END LOOP;
	RETURN f;
END $$;
SELECT s.overfull, s.count, round(s.fpr_now::numeric, 5) AS fpr_now FROM near, dedup_stats(added(f, 1, 11500)) s;
SELECT s.overfull, s.count, round(s.fpr_now::numeric, 5) AS fpr_now, missed(g, 12000) FROM near, LATERAL (SELECT added(f, 11501, 12000) AS g OFFSET 0) x, dedup_stats(g) s;
SELECT s.overfull, s.count, round(s.fpr_now::numeric, 5) AS fpr_now, missed(g, 12000) FROM near, LATERAL (SELECT dedup_add_all(f, ARRAY(SELECT generate_series(11501, 12000))) AS g OFFSET 0) x, dedup_stats(g) s;
SELECT s.overfull FROM near, LATERAL (SELECT dedup_add_all(f, ARRAY(SELECT generate_series(1, 11500))) AS g OFFSET 0) x, dedup_stats(g) s;
SELECT s.overfull FROM filled, dedup_stats(dedup_add(f, 16001)) s;

-- the window function and dedup_rows: once a query, with the rate at that many keys. Of the next
-- new keys most are returned, and no key twice

SELECT count(*) FILTER (WHERE new) BETWEEN 15700 AND 16000 AS new, count(*) FILTER (WHERE new AND i > 16000) AS again
FROM (SELECT i, dedup_is_new(dedup_filter(), i % 16000) OVER (ORDER BY i) AS new FROM generate_series(1, 20000) i) x;
SELECT count(*) FILTER (WHERE new) BETWEEN 23700 AND 24000 AS new FROM (SELECT dedup_is_new(dedup_filter(), i) OVER (PARTITION BY i % 2 ORDER BY i) AS new FROM generate_series(1, 24000) i) x;
SELECT count(*) BETWEEN 15700 AND 16000 AS rows FROM dedup_rows(dedup_filter(), 'SELECT i % 16000 AS i FROM generate_series(1, 20000) i', 'i') r(i int);
SELECT round((dedup_stats(dedup_agg(i))).fpr_now::numeric, 5) AS of_as_many FROM generate_series(1, 11530) i;

-- asking adds nothing

SELECT count(*) BETWEEN 900 AND 1000 AS new FROM filled, dedup_new_keys(f, ARRAY(SELECT generate_series(15001, 17000))) k;
SELECT count(*) FILTER (WHERE is_new(f, i)) AS new FROM filled, generate_series(1, 16000) i;

-- merges

CREATE TABLE halves AS SELECT g, dedup_agg(i) AS f FROM generate_series(0, 1) g, generate_series(8000 * g + 1, 8000 * g + 8000) i GROUP BY g;
SELECT s.overfull, s.count, round(s.fpr_now::numeric, 4) AS fpr_now, missed(m, 16000) FROM (SELECT dedup_merge_agg(f) AS m FROM halves) x, dedup_stats(m) s;
SELECT s.overfull, s.count, round(s.fpr_now::numeric, 4) AS fpr_now, missed(m, 16000) FROM (SELECT l.f || r.f AS m FROM halves l, halves r WHERE l.g = 0 AND r.g = 1 OFFSET 0) x, dedup_stats(m) s;
SELECT s.overfull FROM halves l, dedup_stats(dedup_merge(l.f, l.f)) s WHERE l.g = 0;

-- states of partial aggregates have longer entries, and become plain filters before they are full:
-- the rate is kept up to as many keys, also if one state has nearly all of them

CREATE TABLE hits (u int, part int) PARTITION BY LIST (part);
CREATE TABLE hits_0 PARTITION OF hits FOR VALUES IN (0);
CREATE TABLE hits_1 PARTITION OF hits FOR VALUES IN (1);
CREATE TABLE hits_2 PARTITION OF hits FOR VALUES IN (2);
INSERT INTO hits SELECT i, i % 3 FROM generate_series(1, 16000) i;
SET enable_partitionwise_aggregate = on;
SET max_parallel_workers_per_gather = 0;
SELECT partial_aggregates('SELECT dedup_agg(dedup_filter(fpr => 0.0028), u) FROM hits') AS states;
SELECT n, s.overfull, s.fpr_now < s.fpr AS kept, missed(f, n), share(f) < 0.0028 + 4 * sqrt(0.0028 / 100000) AS measured FROM (SELECT 7000 AS n, dedup_agg(dedup_filter(fpr => 0.0028), u) AS f FROM hits WHERE u <= 7000
	UNION ALL SELECT 9000, dedup_agg(dedup_filter(fpr => 0.0028), u) FROM hits WHERE u <= 9000
	UNION ALL SELECT 11450, dedup_agg(dedup_filter(fpr => 0.0028), u) FROM hits WHERE u <= 11450) x, dedup_stats(f) s ORDER BY n;
UPDATE hits SET part = 0 WHERE u <= 11000;
SELECT n, s.overfull, s.fpr_now < s.fpr AS kept, missed(f, n), share(f) < 0.0028 + 4 * sqrt(0.0028 / 100000) AS measured FROM (SELECT 9000 AS n, dedup_agg(dedup_filter(fpr => 0.0028), u) AS f FROM hits WHERE u <= 9000
	UNION ALL SELECT 11450, dedup_agg(dedup_filter(fpr => 0.0028), u) FROM hits WHERE u <= 11450) x, dedup_stats(f) s ORDER BY n;
-- past them
SELECT s.overfull, missed(f, 16000) FROM (SELECT dedup_agg(dedup_filter(fpr => 0.0028), u) AS f FROM hits) x, dedup_stats(f) s;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA largest CASCADE;
