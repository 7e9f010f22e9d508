-- Filters that grow, as rows of a dump and as values. The expected results are computed from the keys.
\set QUIET on
CREATE FUNCTION u32(b bytea, at int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT get_byte(b, at) + get_byte(b, at + 1) * 256 + get_byte(b, at + 2) * 65536 + get_byte(b, at + 3)::bigint * 16777216';
CREATE FUNCTION page(p dedup_page) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(p::text, 'base64') $$;
CREATE FUNCTION known(f regclass, n int) RETURNS text LANGUAGE sql AS
	$$ SELECT format('%s of %s, %s others', count(*) FILTER (WHERE dedup_seen(f, k)), n, count(*) FILTER (WHERE dedup_seen(f, -k))) FROM generate_series(1, n) k $$;
SELECT dedup_create('g', dedup_filter(fpr => 0.0001, seed => 42)) \gset
SELECT dedup_create('same', dedup_filter(fpr => 0.0001, seed => 42)) \gset
SELECT dedup_create('other', dedup_filter(fpr => 0.0001, seed => 43)) \gset
SELECT dedup_create('wide', dedup_filter(fpr => 0.01, seed => 42)) \gset
SELECT dedup_create('w', dedup_filter(fpr => 0.0001, seed => 42), '1 day') \gset
SELECT dedup_create('w_same', dedup_filter(fpr => 0.0001, seed => 42), '1 day') \gset
\set QUIET off
\set SHOW_CONTEXT never

-- the format is frozen: a later release must write and read the same bytes
SELECT count(*) FILTER (WHERE is_new('g', k)) FROM generate_series(1, 3) k;
SELECT block, page FROM g;
SELECT to_hex(get_byte(b, 0)) AS magic, get_byte(b, 1) AS format, get_byte(b, 2) AS kind, get_byte(b, 3) & 63 AS slot_bytes, get_byte(b, 3) & 64 AS grows,
	u32(b, 16) AS pages, get_byte(b, 20) AS level, u32(b, 24) AS seed, u32(b, 48) AS number, u32(b, 52) AS clock, u32(b, 56) AS entries, u32(b, 60) AS early, length(b)
FROM g, page(page) b;
CREATE FUNCTION damaged(at int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE b bytea := (SELECT page(page) FROM g);
BEGIN
	PERFORM replace(encode(set_byte(b, at, 255 - get_byte(b, at)), 'base64'), E'\n', '')::dedup_page;
	RETURN 'accepted';
EXCEPTION WHEN invalid_text_representation THEN RETURN 'refused';
	WHEN feature_not_supported THEN RETURN SQLERRM;
END $$;
SELECT damaged(i), count(*) FROM generate_series(0, 111) i GROUP BY damaged(i) ORDER BY damaged(i) COLLATE "C";

-- a row a page, each with the number of pages that there are
SELECT count(*) FILTER (WHERE is_new('g', k)) FROM generate_series(1, 6000) k;
SELECT (SELECT count(*) FROM g) = splits + 1 AS rows, (SELECT max(block) FROM g) = splits AS numbers, splits > 5 AS many,
	(SELECT bool_and(u32(page(page), 16) = splits + 1) FROM g) AS pages,
	(SELECT bool_and(u32(page(page), 48) = block AND get_byte(page(page), 20) BETWEEN level AND level + 1) FROM g) AS levels,
	count, bytes_per_key * 6000 = bytes AS bytes_per_key
FROM dedup_stats('g');
SELECT kind, level, splits FROM dedup_stats('same');
COPY g TO PROGRAM 'cat > live_growing.txt';
COPY same FROM PROGRAM 'sort -r live_growing.txt';
SELECT known('same', 6000);
SELECT count FROM dedup_stats('same');
SELECT * FROM dedup_check('same');

-- what it says no to
COPY same FROM PROGRAM 'cat live_growing.txt';      -- not empty
TRUNCATE same;
COPY same FROM PROGRAM 'cat live_growing.txt live_growing.txt';    -- twice
SELECT known('same', 6000);
COPY other FROM PROGRAM 'cat live_growing.txt';     -- another seed
COPY w FROM PROGRAM 'cat live_growing.txt';         -- a window
COPY same FROM PROGRAM 'sed s/^0/1/ live_growing.txt';             -- rows with other numbers

-- into one with more pages already, and with fewer
BEGIN;
SELECT count(is_new('same', k)) FROM generate_series(10001, 40000) k;
ROLLBACK;
SELECT s.splits > g.splits AS more FROM dedup_stats('same') s, dedup_stats('g') g;
COPY same FROM PROGRAM 'cat live_growing.txt';
SELECT known('same', 6000);
SELECT count FROM dedup_stats('same');
SELECT * FROM dedup_check('same');

-- rows by place, scans backwards, parallel scans
SELECT block FROM g WHERE ctid IN ('(3,1)', '(3,2)', '(100000,1)');
SELECT block FROM g WHERE ctid BETWEEN '(1,1)' AND '(2,1)' ORDER BY block;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT block FROM g;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE ALL IN c \gset
FETCH BACKWARD ALL FROM c \g /dev/null
FETCH 2 FROM c;
COMMIT;
-- pages that split while a scan is under way: those that were read do not come again
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT block, u32(page(page), 56) FROM g;
FETCH 2 FROM c \g /dev/null
SELECT count(is_new('g', k)) FROM generate_series(6001, 30000) k;
CREATE TEMP TABLE fetched (block int);
DO $$
DECLARE c refcursor := 'c'; r record; BEGIN
	LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; INSERT INTO fetched VALUES (r.block); END LOOP; END $$;
SELECT count(*) = count(DISTINCT block) AS once, min(block) >= 2 AS no_earlier, count(*) > 20 AS followed FROM fetched;
ROLLBACK;
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SELECT count(*) = count(DISTINCT block) AND count(*) >= max(splits) + 1 FROM g, dedup_stats('g');
COMMIT;

-- values: what the filter knows of its keys, no more and no less
CREATE TEMP TABLE v AS SELECT dedup_snapshot('g') AS g;
SELECT method, exact, count, fpr, parameters FROM v, dedup_stats(g);
SELECT count(*) FILTER (WHERE dedup_contains(g, k)) AS kept, count(*) FILTER (WHERE dedup_contains(g, -k)) AS others FROM v, generate_series(1, 6000) k;
SELECT dedup_count(g::text::dedup_filter) AS text, dedup_count(dedup_add(g, 6001)) AS added, dedup_count(dedup_merge(g, g)) AS merged FROM v;
TRUNCATE same;
SELECT dedup_load('same', g) FROM v;
SELECT known('same', 6000);
SELECT * FROM dedup_check('same');
SELECT dedup_snapshot('same') IS NOT NULL AS again, dedup_count(dedup_snapshot('same'));
SELECT dedup_load('same', g) FROM v;        -- not empty
SELECT dedup_load('wide', g) FROM v;        -- shorter fingerprints: a part of what the value has
SELECT known('wide', 6000);
SELECT * FROM dedup_check('wide');
SELECT dedup_load('g', dedup_snapshot('wide'));        -- not empty
TRUNCATE same;
SELECT dedup_load('same', dedup_snapshot('wide'));     -- too short
SELECT dedup_load('other', g) FROM v;       -- another seed
SELECT dedup_load('same', dedup_agg(dedup_filter(fpr => 0.0001, seed => 42), k)) FROM generate_series(1, 100) k; -- exact
SELECT known('same', 100);
TRUNCATE same, wide;
SELECT dedup_load('same', dedup_agg(dedup_filter(fpr => 0.0001, seed => 42), k)) FROM generate_series(1, 3000) k; -- too short
-- longer ones: a key stands for one fingerprint of the live filter, or two neighbours
SELECT n BETWEEN 3000 AND 6000 AS loaded FROM (SELECT dedup_load('same', dedup_agg(dedup_filter(fpr => 1e-9, seed => 42), k)) AS n FROM generate_series(1, 3000) k OFFSET 0) x;
SELECT known('same', 3000);
SELECT n BETWEEN 3000 AND 3200 AS loaded FROM (SELECT dedup_load('wide', dedup_agg(dedup_filter(fpr => 1e-9, seed => 42), k)) AS n FROM generate_series(1, 3000) k OFFSET 0) x;
SELECT known('wide', 3000);
SELECT dedup_merge(g, dedup_agg(dedup_filter(fpr => 0.0001, seed => 42), 1)) FROM v GROUP BY g;    -- hashes in another order
SELECT dedup_create('refused', g) FROM v;
TRUNCATE g, same;
SELECT dedup_count(dedup_snapshot('g')), dedup_contains(dedup_snapshot('g'), 1), dedup_load('same', dedup_snapshot('g'));
SELECT dedup_count(dedup_agg(dedup_snapshot('g'), k)) FROM generate_series(1, 2000) k;

-- windows of time: the keys of the window, which count from now on where they are loaded
SELECT count(*) FILTER (WHERE is_new('w', k)) FROM generate_series(1, 5000) k;
SELECT dedup_count(dedup_snapshot('w')), dedup_load('w_same', dedup_snapshot('w'));
SELECT known('w_same', 5000);
SELECT * FROM dedup_check('w_same');

\set QUIET on
DROP TABLE g, same, other, wide, w, w_same;
DROP FUNCTION u32, page, known, damaged;
