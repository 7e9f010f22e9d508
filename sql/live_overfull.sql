-- Sets that hold many times the keys that they are made for, and what becomes of their long chains.
SET client_min_messages = error;
CREATE FUNCTION pg_temp.seen(filter regclass, first int, last int) RETURNS bigint LANGUAGE sql AS
  'SELECT count(*) FROM generate_series(first, last) k WHERE dedup_seen(filter, k)';
CREATE FUNCTION pg_temp.added(filter regclass, first int, last int) RETURNS bigint LANGUAGE sql AS
  'SELECT count(*) FROM generate_series(first, last) k WHERE is_new(filter, k)';
-- The most buffers that one of some look-ups reads.
CREATE FUNCTION pg_temp.most(filter regclass, first int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  before bigint;
  most bigint := 0;
BEGIN
  PERFORM dedup_seen(filter, first);
  FOR k IN first .. first + 50 LOOP
    before := pg_stat_get_xact_blocks_fetched(filter);
    PERFORM dedup_seen(filter, k);
    most := greatest(most, pg_stat_get_xact_blocks_fetched(filter) - before);
  END LOOP;
  RETURN most;
END $$;

-- one page, and up to 30 times its keys: a look-up reads that page, a fan and a leaf, however many
-- there are; single keys, and an array
SELECT dedup_create('set', dedup_filter(900, 0.0001, 42)), dedup_create('batch', dedup_filter(900, 0.0001, 42));
SELECT pg_temp.added('set', 1, 30000), (SELECT count(*) FROM dedup_new_keys('batch', (SELECT array_agg(k) FROM generate_series(1, 30000) k)));
SELECT pg_temp.seen(f, 1, 30000), pg_temp.seen(f, 30001, 60000) < 20 AS rate, pg_temp.added(f, 1, 30000) FROM unnest('{set,batch}'::regclass[]) f;
SELECT pg_temp.most(f, 100000) FROM unnest('{set,batch}'::regclass[]) f;
SELECT (dedup_check(f)).* FROM unnest('{set,batch}'::regclass[]) f;
VACUUM set, batch;
SELECT pg_temp.seen(f, 1, 30000), pg_temp.added(f, 1, 30000) FROM unnest('{set,batch}'::regclass[]) f;
SELECT name, overflow_pages BETWEEN 35 AND 90 AS pages, bytes / 8192 - overflow_pages - 2 BETWEEN 0 AND 3 AS all_counted, count BETWEEN 29950 AND 30000 AS count
FROM (VALUES ('set'), ('batch')) f(name), dedup_stats(name::regclass);
SELECT (dedup_check(f)).* FROM unnest('{set,batch}'::regclass[]) f;
-- and takes more keys
SELECT pg_temp.added('set', 100001, 101000) > 995 AS added, pg_temp.seen('set', 100001, 101000);

-- what is rolled back goes, and the pages with it: later keys settle them, or VACUUM does
SELECT dedup_create('back', dedup_filter(900, 0.0001, 42));
BEGIN;
SELECT pg_temp.added('back', 1, 10000) > 9990 AS added;
SELECT overflow_pages > 10 AS fan FROM dedup_stats('back');
ROLLBACK;
SELECT pg_temp.seen('back', 1, 10000);
SELECT is_new('back', 1);
SELECT overflow_pages, in_flight FROM dedup_stats('back');
SELECT * FROM dedup_check('back');
SELECT pg_temp.added('back', 1, 300), pg_temp.seen('back', 1, 300);

-- savepoints inside a fan: keys of those that are rolled back are not there
BEGIN;
SELECT pg_temp.added('back', 1001, 4000) > 2990 AS added;
SAVEPOINT a;
SELECT pg_temp.added('back', 4001, 7000) > 2990 AS added;
ROLLBACK TO a;
SELECT pg_temp.seen('back', 1001, 4000), pg_temp.seen('back', 4001, 7000) < 10 AS gone;
SAVEPOINT b;
SELECT pg_temp.added('back', 4001, 5000) > 990 AS added;
RELEASE b;
COMMIT;
SELECT pg_temp.seen('back', 1001, 5000), pg_temp.seen('back', 5001, 7000) < 10 AS gone;

-- forgetting keys of leaves, in a transaction that is rolled back, and in more transactions than a
-- page has tags for
SELECT dedup_create('forget', dedup_filter(900, 0.0001, 42));
SELECT pg_temp.added('forget', 1, 10000) > 9990 AS added;
BEGIN;
SELECT count(*) FROM generate_series(1, 10000, 2) k WHERE dedup_forget('forget', k);
SELECT pg_temp.seen('forget', 1, 10000) < 5020 AS forgotten;
ROLLBACK;
SELECT pg_temp.seen('forget', 1, 10000);
CREATE PROCEDURE forget_all(filter regclass, first int, last int) LANGUAGE plpgsql AS $$
BEGIN
  FOR k IN first .. last LOOP
    PERFORM dedup_forget(filter, k);
    COMMIT;
  END LOOP;
END $$;
CALL forget_all('forget', 1, 1500);
SELECT pg_temp.seen('forget', 1, 1500) < 10 AS forgotten, pg_temp.seen('forget', 1501, 10000);
SELECT * FROM dedup_check('forget');
SELECT count(*) FROM generate_series(1501, 10000) k WHERE dedup_forget('forget', k);
VACUUM forget;
SELECT overflow_pages, pg_temp.seen('forget', 1, 10000) < 10 AS forgotten FROM dedup_stats('forget');
SELECT pg_temp.added('forget', 1, 10000) > 9990 AS again;
SELECT * FROM dedup_check('forget');

-- a dump, and what is restored of it; a rebuild has no chains
COPY forget TO PROGRAM 'cat > live_overfull.txt';
TRUNCATE forget;
SELECT pg_temp.seen('forget', 1, 10000), overflow_pages FROM dedup_stats('forget');
COPY forget FROM PROGRAM 'cat live_overfull.txt';
SELECT pg_temp.seen('forget', 1, 10000), pg_temp.seen('forget', 10001, 20000) < 10 AS rate, overflow_pages > 10 AS fan FROM dedup_stats('forget');
SELECT * FROM dedup_check('forget');

-- a filter that grows, with all the pages that it can have: keys in leaves, which VACUUM moves
SELECT dedup_create('grows', dedup_filter(fpr => 1e-9, seed => 42)), dedup_create('timed', dedup_filter(fpr => 1e-9, seed => 42), ttl => '1 day', renew => true);
SELECT pg_temp.added('grows', 1, 40000), pg_temp.added('timed', 1, 40000);
SELECT pg_temp.added('grows', 40001, 60000), pg_temp.added('timed', 40001, 60000);
SELECT pg_temp.seen(f, 1, 60000), pg_temp.seen(f, 60001, 80000), pg_temp.most(f, 200000) FROM unnest('{grows,timed}'::regclass[]) f;
SELECT (dedup_check(f)).* FROM unnest('{grows,timed}'::regclass[]) f;
SELECT count(*) FROM generate_series(1, 50000) k WHERE dedup_forget('grows', k) AND dedup_forget('timed', k);
VACUUM grows, timed;
SELECT pg_temp.seen(f, 1, 50000), pg_temp.seen(f, 50001, 60000), pg_temp.added(f, 1, 1000) FROM unnest('{grows,timed}'::regclass[]) f;
SELECT (dedup_check(f)).* FROM unnest('{grows,timed}'::regclass[]) f;
DROP TABLE set, batch, back, forget, grows, timed;
DROP PROCEDURE forget_all;
