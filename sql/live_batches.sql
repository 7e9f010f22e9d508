-- dedup_new_keys() of a live filter: batches of keys of one page and of many, with overflow chains, in
-- subtransactions that are rolled back, with keys twice in a batch, in windows with a ttl. The results are compared
-- with a table of keys, and with is_new() for the same keys one by one.

\set QUIET on
CREATE SCHEMA live_batches_test;
SET search_path = live_batches_test, public;
SET client_min_messages = error;
CREATE TABLE added (k int PRIMARY KEY);
CREATE TABLE wrong (what text, round int, problem text);

-- The keys of a batch that are not in the table yet, in order, the first of equal ones and every
-- NULL; puts them there.
CREATE FUNCTION expected(keys int[]) RETURNS int[] LANGUAGE sql AS $$
	WITH element AS (SELECT k, min(place) AS place FROM unnest(keys) WITH ORDINALITY e(k, place)
			GROUP BY k, CASE WHEN k IS NULL THEN place END),
		fresh AS (SELECT * FROM element WHERE k IS NULL OR NOT EXISTS (SELECT FROM added WHERE added.k = element.k)),
		stored AS (INSERT INTO added SELECT k FROM fresh WHERE k IS NOT NULL)
	SELECT coalesce(array_agg(k ORDER BY place), '{}') FROM fresh
$$;
CREATE FUNCTION one_by_one(filter text, keys int[]) RETURNS int[] LANGUAGE sql AS $$
	SELECT coalesce(array_agg(k ORDER BY place), '{}') FROM (SELECT k, place, is_new(filter, k) AS new
		FROM unnest(keys) WITH ORDINALITY e(k, place) ORDER BY place OFFSET 0) x WHERE new
$$;

-- Batches of `size` random keys below `range`: 3 of 8 of them in subtransactions, of which some are
-- rolled back; some transactions have one batch, some several. What is not as expected is in the
-- table "wrong". Another filter gets the same keys one by one.
CREATE PROCEDURE batches(prototype dedup_filter, rounds int, size int, range int) LANGUAGE plpgsql AS $$
DECLARE
	keys int[];
	truth int[];
	gone bigint := 0;
BEGIN
	TRUNCATE added;
	DROP TABLE IF EXISTS f, g;
	PERFORM dedup_create('f', prototype);
	PERFORM dedup_create('g', prototype);
	COMMIT;
	FOR round IN 1..rounds LOOP
		keys := ARRAY(SELECT CASE WHEN h & 127 = 0 THEN NULL ELSE abs(h % range) END
			FROM (SELECT hashint4(round * 100000 + i) AS h FROM generate_series(1, 1 + abs(hashint4(round)) % size) i) x);
		BEGIN
			truth := expected(keys);
			IF ARRAY(SELECT dedup_new_keys('f', keys)) <> truth THEN
				INSERT INTO wrong VALUES ('batch', round, 'not as expected');
			END IF;
			IF one_by_one('g', keys) <> truth THEN
				INSERT INTO wrong VALUES ('rows', round, 'not as expected');
			END IF;
			IF round % 8 = 3 THEN
				RAISE division_by_zero;
			END IF;
			IF round % 8 = 5 THEN
				-- in the transaction's own flight
				IF ARRAY(SELECT dedup_new_keys('f', array_remove(keys, NULL))) <> '{}' THEN
					INSERT INTO wrong VALUES ('batch', round, 'new a second time');
				END IF;
			END IF;
		EXCEPTION WHEN division_by_zero THEN
			gone := gone + 1;
		END;
		IF round % 3 = 0 THEN
			COMMIT;
		ELSIF round % 3 = 1 AND round % 5 = 1 THEN
			ROLLBACK;
		END IF;
	END LOOP;
	COMMIT;
	INSERT INTO wrong SELECT 'check', block, c.problem FROM dedup_check('f') c;
	INSERT INTO wrong SELECT 'counted', 0, format('%s of %s', new, (SELECT count(*) FROM added))
	FROM dedup_stats('f') WHERE new <> (SELECT count(*) FROM added);
	IF gone = 0 THEN
		RAISE 'nothing was rolled back';
	END IF;
END
$$;
\set QUIET off

-- one page: small batches, of which each takes one of its tags; then large ones, whose keys
-- overflow it

CALL batches(dedup_filter(100, 1e-6, 1), 200, 12, 2000);
SELECT overflow_pages FROM dedup_stats('f');
CALL batches(dedup_filter(100, 1e-6, 2), 16, 1500, 10000);
SELECT overflow_pages > 0 AS overflows FROM dedup_stats('f');

-- a few pages, many, and more keys than pages; and a batch that is sorted by digits

CALL batches(dedup_filter(5000, 1e-6, 3), 40, 300, 20000);
CALL batches(dedup_filter(1000000, 1e-6, 4), 40, 300, 20000);
CALL batches(dedup_filter(20000, 1e-6, 5), 4, 9000, 60000);
SELECT * FROM wrong;

-- keys of one page and more than one change takes, all in one transaction; each twice

SELECT dedup_create('one', dedup_filter(100, 1e-6, 6));
SELECT count(*), count(DISTINCT k), min(k), max(k)
FROM dedup_new_keys('one', ARRAY(SELECT 1 + i % 3000 FROM generate_series(0, 5999) i)) k;
SELECT count(*) FROM dedup_new_keys('one', ARRAY(SELECT i FROM generate_series(1, 3000) i));
SELECT new, duplicate FROM dedup_stats('one');
SELECT * FROM dedup_check('one');
VACUUM one;
SELECT count(*) FROM dedup_new_keys('one', ARRAY(SELECT i FROM generate_series(2901, 3100) i));

-- a batch that is rolled back by its savepoint is new again, beside one that is not

SELECT dedup_create('s', dedup_filter(1000000, 1e-6, 7));
BEGIN;
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(1, 500) i));
SAVEPOINT a;
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(401, 900) i));
ROLLBACK TO a;
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(301, 700) i));
SAVEPOINT b;
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(601, 1000) i));
RELEASE b;
COMMIT;
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(1, 1100) i));
SELECT new, duplicate FROM dedup_stats('s');

-- keys that were forgotten are new, in the transaction that forgets them and after it

BEGIN;
SELECT count(*) FROM generate_series(1, 50) i WHERE dedup_forget('s', i);
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(41, 60) i));
COMMIT;
SELECT count(*) FROM dedup_new_keys('s', ARRAY(SELECT i FROM generate_series(1, 60) i));

-- a window of time that renews: a key that is seen again lives on. A batch renews each key once,
-- in one page and its chain, as is_new() does

SELECT dedup_create('batch', dedup_filter(1000, 1e-6, 8), ttl => '7 days', renew => true);
SELECT dedup_create('rows', dedup_filter(1000, 1e-6, 8), ttl => '7 days', renew => true);
SELECT count(*) FROM dedup_new_keys('batch', ARRAY(SELECT i % 700 FROM generate_series(1, 900) i));
SELECT count(*) FROM generate_series(1, 900) i WHERE is_new('rows', i % 700);
SELECT is_new_at(f, now() + interval '5 days', 'tick') FROM unnest(ARRAY['batch', 'rows']) f;
SELECT count(*) FROM dedup_new_keys('batch', ARRAY(SELECT i % 800 FROM generate_series(500, 1200) i));
SELECT count(*) FROM generate_series(500, 1200) i WHERE is_new('rows', i % 800);
SELECT f, new, duplicate, renewed FROM unnest(ARRAY['batch', 'rows']) f, dedup_stats(f::regclass);
SELECT is_new_at(f, now() + interval '9 days', 'tick') FROM unnest(ARRAY['batch', 'rows']) f;
SELECT count(*) FILTER (WHERE dedup_seen('batch', k)) AS batch, count(*) FILTER (WHERE dedup_seen('rows', k)) AS rows,
	count(*) FILTER (WHERE dedup_seen('batch', k) <> dedup_seen('rows', k)) AS differ
FROM generate_series(0, 799) k;
SELECT * FROM dedup_check('batch');

-- a window by count: what it remembers is what the same keys leave that come one by one

SELECT dedup_create('bw', dedup_window(500, 1e-6, 9)), dedup_create('rw', dedup_window(500, 1e-6, 9));
DO $$
BEGIN
	FOR b IN 0..39 LOOP
		PERFORM dedup_new_keys('bw', ARRAY(SELECT b * 100 + i FROM generate_series(1, 100) i));
		PERFORM is_new('rw', b * 100 + i) FROM generate_series(1, 100) i;
		COMMIT;
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE dedup_seen('bw', k)) >= 500 AS batch, count(*) FILTER (WHERE dedup_seen('rw', k)) >= 500 AS rows
FROM generate_series(3401, 4000) k;
SELECT count(*) FILTER (WHERE dedup_seen('bw', k)) AS batch, count(*) FILTER (WHERE dedup_seen('rw', k)) AS rows
FROM generate_series(1, 500) k;
SELECT * FROM dedup_check('bw');

\set QUIET on
DROP SCHEMA live_batches_test CASCADE;
