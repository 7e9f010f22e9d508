-- Filters that grow: splits of pages with chains, and the map that sessions have cached.
\set QUIET on
SELECT dedup_create('g', dedup_filter(fpr => 0.0001, seed => 42)) \gset
SELECT dedup_create('even', dedup_filter(fpr => 0.0001, seed => 42)) \gset
\set QUIET off

-- the keys of pages with even numbers, which page 0 keeps at its first split, and the others
SELECT count(*) FILTER (WHERE is_new('g', k)) FROM generate_series(1, 2400) k;
COPY g TO PROGRAM 'grep "^[0-9]*[02468]	" > live_growing_split.txt';
COPY even FROM PROGRAM 'cat live_growing_split.txt';
CREATE TABLE keys AS SELECT k, dedup_seen('even', k) AS low FROM generate_series(1, 2400) k;
SELECT count(*) FILTER (WHERE low) BETWEEN 1050 AND 1350 AS half FROM keys;
TRUNCATE g;

-- Each transaction takes a tag of a page: 16 in the main page, then 124 in its first overflow page, which
-- gets keys of the new page only; the next one, at the head of the chain, gets those that stay.
CREATE FUNCTION nest(high int[], low int[], n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF n <= 140 THEN
		PERFORM is_new('g', high[n]);
		PERFORM nest(high, low, n + 1);
	ELSE
		FOR i IN 1 .. 700 LOOP
			PERFORM is_new('g', low[i]);
		END LOOP;
	END IF;
EXCEPTION WHEN division_by_zero THEN RAISE;
END $$;
SELECT nest(array_agg(k) FILTER (WHERE NOT low), array_agg(k) FILTER (WHERE low), 1) FROM keys;
SELECT splits FROM dedup_stats('g');
SELECT low, count(*) FILTER (WHERE dedup_seen('g', k)) FROM keys GROUP BY low ORDER BY low;
VACUUM g;
SELECT low, count(*) FILTER (WHERE dedup_seen('g', k)) FROM keys GROUP BY low ORDER BY low;
SELECT count FROM dedup_stats('g');
SELECT * FROM dedup_check('g');

-- TRUNCATE by the transaction that made the filter keeps the relation and what is cached with it
BEGIN;
SELECT dedup_create('h', dedup_filter(fpr => 0.0001, seed => 42)) \gset
SELECT count(*) FROM dedup_new_keys('h', ARRAY(SELECT generate_series(1, 20000)));
TRUNCATE h;
SELECT count(*) FROM dedup_new_keys('h', ARRAY(SELECT generate_series(1, 20000)));
TRUNCATE h;
SELECT count(*) FROM generate_series(1, 20000) k WHERE dedup_seen('h', k);
COMMIT;

-- VACUUM counts all keys: one page with more than the mean does not make it split another one
CREATE TABLE guarded AS SELECT k FROM generate_series(1, 50000) k;
CREATE INDEX ON guarded (k);
SELECT dedup_guard('guarded', 'h', '{k}', exact => true) \gset
SELECT splits, count, bytes_per_key BETWEEN 10 AND 14 AS bytes_per_key FROM dedup_stats('h');
VACUUM h;
VACUUM h;
SELECT splits, count FROM dedup_stats('h');
DROP TABLE guarded, g, even, h, keys;
DROP FUNCTION nest;
