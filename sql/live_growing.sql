-- Live filters that grow: none of their keys is lost while their pages split, whatever adds them.

-- how many of the keys from one to another a filter has
CREATE FUNCTION pg_temp.seen(filter text, first int, last int) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(first, last) i WHERE dedup_seen(filter, i)
$$;
-- a filter has many pages, and between 10 and 16 bytes a key
CREATE FUNCTION pg_temp.size_is_right(filter regclass, keys int) RETURNS boolean LANGUAGE sql AS $$
	SELECT pg_relation_size(filter) BETWEEN 10 * keys AND 16 * keys
$$;

-- ---- making ----
SELECT dedup_create('grows');
SELECT dedup_create('coarse', fpr => 0.01);
SELECT dedup_create('grown', dedup_filter(NULL, 0.001, 7), unlogged => true);
SELECT name::text, kind, keys, fpr, fill, overfull, bytes FROM dedup_filters ORDER BY 1;
SELECT seed FROM dedup_stats('grown');

-- ---- row by row, in transactions of 500 keys, some of which are rolled back ----
DO $$
DECLARE
	fresh bigint = 0;
	added bigint;
BEGIN
	FOR i IN 0..79 LOOP
		SELECT count(*) INTO added FROM generate_series(i * 500 + 1, i * 500 + 500) k WHERE is_new('grows', k);
		IF i % 8 = 7 THEN
			ROLLBACK;
		ELSE
			COMMIT;
			fresh := fresh + added;
		END IF;
	END LOOP;
	RAISE NOTICE '% new', fresh;
END $$;
SELECT pg_temp.seen('grows', 1, 40000), pg_temp.seen('grows', 3501, 4000) AS rolled_back, pg_temp.seen('grows', 40001, 80000) AS never;
VACUUM grows;
SELECT pg_temp.size_is_right('grows', 35000);
SELECT pg_temp.seen('grows', 1, 40000), pg_temp.seen('grows', 40001, 80000) AS never;
-- a snapshot of another session, such as that of an autovacuum worker, can hold one page back
SELECT new, count, in_flight, overflow_pages <= 1 AS overflow_pages, fpr_now < 1e-7 AS fpr_now FROM dedup_stats('grows');

-- ---- all in one transaction: the keys are in flight while their pages split ----
BEGIN;
SELECT count(*) FROM generate_series(1, 20000) i WHERE is_new('coarse', i);
SAVEPOINT s;
SELECT count(*) FROM generate_series(20001, 25000) i WHERE is_new('coarse', i);
SELECT count(*) FROM generate_series(1, 10000) i WHERE dedup_forget('coarse', i);
SELECT pg_temp.seen('coarse', 1, 10000), pg_temp.seen('coarse', 1, 25000);
ROLLBACK TO s;
SELECT pg_temp.seen('coarse', 1, 25000);
SELECT count(*) FROM generate_series(1, 5000) i WHERE dedup_forget('coarse', i);
COMMIT;
SELECT pg_temp.seen('coarse', 1, 5000), pg_temp.seen('coarse', 5001, 20000), pg_temp.seen('coarse', 20001, 25000) < 50 AS rolled_back;
-- the chains that they needed are free pages now, and used again
VACUUM coarse;
SELECT count(*) BETWEEN 19950 AND 20000 AS most_are_new FROM generate_series(100001, 120000) i WHERE is_new('coarse', i);
VACUUM coarse;
SELECT pg_temp.seen('coarse', 5001, 20000), pg_temp.seen('coarse', 100001, 120000);
SELECT overflow_pages, count BETWEEN 34950 AND 35000 AS count FROM dedup_stats('coarse');

-- ---- in batches, with keys that come twice ----
SELECT count(*) FROM dedup_new_keys('grown', (SELECT array_agg(i % 60000) FROM generate_series(1, 100000) i));
SELECT count(*) FROM dedup_new_keys('grown', (SELECT array_agg(i) FROM generate_series(50000, 79999) i));
SELECT count(*) FROM dedup_new_keys('grown', (SELECT array_agg(i) FROM generate_series(0, 79999) i));
SELECT pg_temp.seen('grown', 0, 79999), pg_temp.seen('grown', 80000, 120000) AS never;
BEGIN;
SELECT count(*) FROM dedup_new_keys('grown', (SELECT array_agg(i) FROM generate_series(1000000, 1019999) i));
ROLLBACK;
SELECT pg_temp.seen('grown', 1000000, 1019999) AS rolled_back, pg_temp.seen('grown', 0, 79999);
-- exact values
SELECT dedup_load('grown', (SELECT dedup_agg(dedup_filter(100000, 0.5, 7), i) FROM generate_series(79901, 80100) i));
SELECT pg_temp.seen('grown', 0, 80100), new, count FROM dedup_stats('grown');

-- ---- emptied: it begins with one page again ----
TRUNCATE grown;
SELECT pg_relation_size('grown'), pg_temp.seen('grown', 0, 1000);
BEGIN;
SELECT count(*) FROM generate_series(1, 5000) i WHERE is_new('grown', i);
TRUNCATE grown;
SELECT count(*) FROM generate_series(1, 3000) i WHERE is_new('grown', i);
TRUNCATE grown;
SELECT pg_temp.seen('grown', 1, 5000);
SELECT count(*) FROM generate_series(4001, 7000) i WHERE is_new('grown', i);
COMMIT;
SELECT pg_temp.seen('grown', 1, 7000);
VACUUM FULL grown;
SELECT pg_temp.seen('grown', 1, 7000), count(*) FROM generate_series(1, 7000) i WHERE is_new('grown', i);

-- ---- a guard: the keys of a table come in the order of pages ----
CREATE TABLE rows_there AS SELECT i AS k FROM generate_series(1, 30000) i;
CREATE INDEX ON rows_there (k);
SELECT dedup_create('guarding', dedup_filter(NULL, 0.001, 7));
SELECT dedup_guard('rows_there', 'guarding', '{k}', exact => true) \gset
SELECT pg_temp.seen('guarding', 1, 30000), pg_temp.seen('guarding', 30001, 60000) AS never;
SELECT new, count, in_flight FROM dedup_stats('guarding');
SELECT pg_temp.size_is_right('guarding', 30000);
INSERT INTO rows_there SELECT i FROM generate_series(30001, 35000) i;
INSERT INTO rows_there VALUES (12345);
SELECT count(*), pg_temp.seen('guarding', 1, 35000) FROM rows_there;
DROP TABLE rows_there;
-- into a filter that has keys already
TRUNCATE guarding;
SELECT count(*) FROM generate_series(1, 2000) i WHERE is_new('guarding', i);
CREATE TABLE rows_there AS SELECT i AS k FROM generate_series(1001, 15000) i;
CREATE INDEX ON rows_there (k);
SELECT dedup_guard('rows_there', 'guarding', '{k}', exact => true) \gset
SELECT pg_temp.seen('guarding', 1, 15000), pg_temp.seen('guarding', 15001, 30000) AS never, new, count FROM dedup_stats('guarding');
DROP TABLE rows_there;

-- ---- a rate so low that pages soon stop to split: it is kept, and no key is lost ----
SELECT dedup_create('fine', fpr => 1e-9);
SELECT count(*) FROM generate_series(1, 12000) i WHERE is_new('fine', i);
VACUUM fine;
SELECT count(*) FROM generate_series(12001, 20000) i WHERE is_new('fine', i);
SELECT pg_temp.seen('fine', 1, 20000), pg_temp.seen('fine', 20001, 60000) AS never, count, fpr_now <= 1e-9 AS fpr_now FROM dedup_stats('fine');
DROP TABLE fine;

-- ---- filled anew, in another size, and a filter with a size becomes one that grows ----
CREATE TABLE rows_there AS SELECT i AS k FROM generate_series(1, 10000) i;
CREATE INDEX ON rows_there (k);
SELECT dedup_create('sized', dedup_filter(1000, 0.001, 7));
SELECT dedup_guard('rows_there', 'sized', '{k}', exact => true) \gset
SELECT dedup_rebuild('sized', dedup_filter(NULL, 0.001));
SELECT keys, fpr, seed, count, pg_temp.seen('sized', 1, 12000) FROM dedup_stats('sized');
INSERT INTO rows_there SELECT i FROM generate_series(10001, 12000) i;
DELETE FROM rows_there WHERE k <= 2000;
SELECT dedup_rebuild('sized');
SELECT keys, fpr, seed, count, pg_temp.seen('sized', 1, 2000) < 10 AS gone, pg_temp.seen('sized', 2001, 12000) FROM dedup_stats('sized');
SELECT dedup_rebuild('sized', dedup_filter(20000, 0.001));
SELECT keys, fpr, seed, count, pg_temp.seen('sized', 2001, 12000) FROM dedup_stats('sized');
DROP TABLE rows_there, sized;

-- ---- windows of time: what expires makes room ----
SELECT dedup_create('span', dedup_filter(NULL, 0.0001, 7), '7 hours');
CREATE FUNCTION pg_temp.hour(hour int) RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT now() - (34 - hour) * interval '1 hour' $$;
DO $$
DECLARE
	fresh bigint;
	first_size bigint;
BEGIN
	FOR i IN 0..34 LOOP
		SELECT count(*) INTO fresh FROM generate_series(i * 1000 + 1, i * 1000 + 1000) k WHERE is_new_at('span', pg_temp.hour(i), k);
		COMMIT;
		IF fresh <> 1000 THEN
			RAISE NOTICE '% new in hour %', fresh, i;
		END IF;
		IF i = 14 THEN
			first_size := pg_relation_size('span');
		END IF;
	END LOOP;
	RAISE NOTICE 'steady: %', pg_relation_size('span') <= 1.2 * first_size;
END $$;
-- the keys of the last seven hours are in the window, and those of an hour before that can be
SELECT pg_temp.seen('span', 28001, 35000), pg_temp.seen('span', 1, 26000) AS expired;
SELECT count BETWEEN 7000 AND 9000 AS count, forgotten_early, overfull FROM dedup_stats('span');
VACUUM span;
SELECT pg_temp.seen('span', 28001, 35000), pg_temp.seen('span', 1, 26000) AS expired;
-- with far too many keys at once nothing is forgotten before its time either
SELECT count(*) FROM generate_series(100001, 130000) k WHERE is_new_at('span', pg_temp.hour(34), k);
SELECT pg_temp.seen('span', 100001, 130000), pg_temp.seen('span', 28001, 35000), forgotten_early FROM dedup_stats('span');
-- all of it expires
SET client_min_messages = error;
SELECT is_new_at('span', pg_temp.hour(60), 0);
RESET client_min_messages;
VACUUM span;
SELECT count, in_flight, overflow_pages, pg_temp.seen('span', 1, 35000) FROM dedup_stats('span');
DROP TABLE span;
-- from the last sight
SELECT dedup_create('span', NULL, '7 hours', renew => true);
SELECT count(*) FROM generate_series(15, 34) h, generate_series(1, 3000) k WHERE is_new_at('span', pg_temp.hour(h), k);
SELECT pg_temp.seen('span', 1, 3000), new, renewed FROM dedup_stats('span');
VACUUM span;
SELECT pg_temp.seen('span', 1, 3000), count FROM dedup_stats('span');
DROP TABLE span, grows, grown, coarse, guarding;
