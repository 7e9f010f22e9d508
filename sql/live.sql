-- Live filters: making, looking up, adding, forgetting, emptying; names, privileges, READ ONLY.
SELECT dedup_create('clicks_seen', dedup_filter(100000, 1e-6, 42));
SELECT name, owner = current_user AS mine, kind, keys, fpr, seed, ttl, logged, new, duplicate, count, bytes FROM dedup_filters;

-- the three kinds of name, and the value's function in the same place
SELECT is_new('clicks_seen', 1) AS literal, is_new('clicks_seen'::text, 2) AS of_text, is_new('clicks_seen'::regclass, 3) AS of_regclass,
	is_new(dedup_add(dedup_filter(10), 4), 4) AS of_value;
SELECT is_new('clicks_seen', 1), is_new('clicks_seen'::text, 2), is_new('public.clicks_seen', 3), is_new('"clicks_seen"'::regclass, 4);
SELECT dedup_seen('clicks_seen', i) FROM generate_series(3, 5) i;

-- keys: several columns, literals, NULL, VARIADIC
SELECT is_new('clicks_seen', 7, 'ad'), is_new('clicks_seen', 7, 'ad'), is_new('clicks_seen', VARIADIC ARRAY[7, 8]), is_new('clicks_seen', 7, 8);
SELECT is_new('clicks_seen', NULL::int), is_new('clicks_seen', NULL::int), is_new('clicks_seen', 9, NULL::text), dedup_seen('clicks_seen', NULL::int);
\set VERBOSITY sqlstate
SELECT is_new(NULL::text, 1);
\set VERBOSITY default
SELECT is_new(NULL::text, 1);
SELECT is_new(NULL::regclass, 1);
SELECT dedup_seen(NULL::text, 1);
SELECT dedup_seen(NULL::regclass, 1);
SELECT dedup_forget(NULL::text, 1);
SELECT dedup_forget(NULL::regclass, 1);
SELECT dedup_new_keys(NULL::text, ARRAY[1]);
SELECT dedup_new_keys(NULL::regclass, ARRAY[1]);
SELECT is_new('clicks_seen', '{}'::json);
\set VERBOSITY terse
SELECT is_new('clicks_seen');
\set VERBOSITY default

-- transactions
BEGIN;
SELECT is_new('clicks_seen', 100), is_new('clicks_seen', 100);
SAVEPOINT a;
SELECT is_new('clicks_seen', 101), is_new('clicks_seen', 100);
ROLLBACK TO a;
SELECT is_new('clicks_seen', 101), dedup_seen('clicks_seen', 101);
ROLLBACK;
SELECT dedup_seen('clicks_seen', 100), dedup_seen('clicks_seen', 101);
DO $$
DECLARE n int := 0;
BEGIN
	FOR i IN 1..200 LOOP
		BEGIN
			IF NOT is_new('clicks_seen', 1000 + i) THEN RAISE 'not new'; END IF;
			IF i % 2 = 0 THEN RAISE 'dropped'; END IF;
		EXCEPTION WHEN raise_exception THEN n := n + 1;
		END;
	END LOOP;
	RAISE NOTICE '% dropped', n;
END $$;
SELECT count(*) FILTER (WHERE dedup_seen('clicks_seen', 1000 + i)) AS kept, count(*) FILTER (WHERE dedup_seen('clicks_seen', 1000 + i) AND i % 2 = 0) AS dropped_but_kept FROM generate_series(1, 200) i;
-- nested, all of them running, more than a page has tags for
CREATE FUNCTION nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM is_new('clicks_seen', 2000 + depth);
	IF depth < 40 THEN PERFORM nest(depth + 1); ELSE RAISE 'bottom'; END IF;
EXCEPTION WHEN raise_exception THEN
	IF depth > 20 THEN RAISE 'on'; END IF;
END $$;
SELECT nest(1);
SELECT count(*) FILTER (WHERE dedup_seen('clicks_seen', 2000 + i)) FROM generate_series(1, 40) i;

-- many keys in one transaction, over a filter that is full of nothing else
SELECT count(*) FILTER (WHERE is_new('clicks_seen', 'bulk', i)) FROM generate_series(1, 60000) i;
SELECT count(*) FILTER (WHERE dedup_seen('clicks_seen', 'bulk', i)) AS bulk, count(*) FILTER (WHERE dedup_seen('clicks_seen', 'other', i)) AS other FROM generate_series(1, 60000) i;
SELECT new, duplicate, count, in_flight, overfull, forgotten_early FROM dedup_stats('clicks_seen');
SELECT * FROM dedup_check('clicks_seen');
VACUUM clicks_seen;
SELECT count, overflow_pages FROM dedup_stats('clicks_seen'::regclass);
SELECT count(*) FILTER (WHERE dedup_seen('clicks_seen', 'bulk', i)) AS bulk FROM generate_series(1, 60000) i;

-- forgetting is transactional too
SELECT dedup_forget('clicks_seen', 1), dedup_forget('clicks_seen', 1), dedup_seen('clicks_seen', 1);
SELECT is_new('clicks_seen', 1), is_new('clicks_seen', 1);
BEGIN;
SELECT dedup_forget('clicks_seen', 'bulk', 5), dedup_seen('clicks_seen', 'bulk', 5), is_new('clicks_seen', 'bulk', 5), dedup_seen('clicks_seen', 'bulk', 5);
ROLLBACK;
SELECT dedup_seen('clicks_seen', 'bulk', 5);
BEGIN;
SELECT dedup_forget('clicks_seen', 'bulk', 5);
ROLLBACK;
SELECT dedup_seen('clicks_seen', 'bulk', 5);
BEGIN;
SELECT dedup_forget('clicks_seen', 'bulk', 5);
SAVEPOINT a;
SELECT is_new('clicks_seen', 'bulk', 5);
ROLLBACK TO a;
SELECT dedup_seen('clicks_seen', 'bulk', 5);
COMMIT;
SELECT dedup_seen('clicks_seen', 'bulk', 5), is_new('clicks_seen', 'bulk', 5);
SELECT dedup_forget('clicks_seen', 'never there');

-- batches
SELECT dedup_new_keys('clicks_seen', ARRAY[50001, 50002, 50001, NULL, 1]);
SELECT * FROM dedup_new_keys('clicks_seen'::regclass, ARRAY[50001, 50003]);

SELECT count(*) FROM dedup_new_keys('clicks_seen', ARRAY(SELECT i FROM generate_series(60000, 70000) i));
CREATE TYPE pair AS (a int, b text);
SELECT * FROM dedup_new_keys('clicks_seen', ARRAY[ROW(1, 'a')::pair, NULL, ROW(2, 'b')::pair, ROW(1, 'a')::pair]);
SELECT dedup_new_keys('clicks_seen', ARRAY[ROW(2, 'b')::pair, ROW(3, 'c')::pair, ROW(4, 'd')::pair]) AS pair LIMIT 1;
SELECT dedup_seen('clicks_seen', ROW(4, 'd')::pair) AS added_beyond_the_limit,
	(SELECT array_agg(k) FROM generate_series(1, 2) i, LATERAL dedup_new_keys('clicks_seen', ARRAY[70001, 70001 + i]) k) AS by_rows;
-- array_agg() over no rows is NULL: no keys
SELECT dedup_new_keys('clicks_seen', NULL::int[]);
SELECT dedup_new_keys('clicks_seen', '{}'::text[]);

-- as a value, and back
SELECT dedup_contains(s, 50001) AS there, dedup_contains(s, 50004) AS absent, abs(dedup_count(s) - c.count) < 10 AS all_there
FROM dedup_snapshot('clicks_seen') s, dedup_stats('clicks_seen') c;
SELECT dedup_create('copy_seen', dedup_filter(100000, 1e-6, 42), unlogged => true);
BEGIN;
SELECT dedup_load('copy_seen', dedup_snapshot('clicks_seen')) > 60000 AS loaded, dedup_seen('copy_seen', 50001);
ROLLBACK;
SELECT dedup_seen('copy_seen', 50001);
SELECT dedup_load('copy_seen', dedup_snapshot('clicks_seen')) > 60000 AS loaded;
SELECT dedup_seen('copy_seen', 50001), dedup_seen('copy_seen', 50004);
SELECT dedup_load('copy_seen', dedup_snapshot('clicks_seen'));
SELECT dedup_load('copy_seen', dedup_add(dedup_filter(10, 0.01, 42), 50004)), dedup_seen('copy_seen', 50004);
SELECT dedup_load('copy_seen', dedup_add(dedup_filter(10, 0.01, 43), 50004));
SELECT logged FROM dedup_stats('copy_seen');
SELECT * FROM dedup_check('copy_seen');
DROP TABLE copy_seen;
DROP TYPE pair;

-- emptied, also in a transaction that is rolled back
BEGIN;
TRUNCATE clicks_seen;
SELECT dedup_seen('clicks_seen', 50001), is_new('clicks_seen', 50001);
ROLLBACK;
SELECT dedup_seen('clicks_seen', 50001);
TRUNCATE clicks_seen;
SELECT dedup_seen('clicks_seen', 50001), is_new('clicks_seen', 50001), count FROM dedup_stats('clicks_seen');

-- renamed and moved, the meaning of a name follows
SELECT is_new('clicks_seen', 'before');
ALTER TABLE clicks_seen RENAME TO other_seen;
SELECT is_new('clicks_seen', 'before');
SELECT is_new('other_seen', 'before');
CREATE SCHEMA aside;
ALTER TABLE other_seen SET SCHEMA aside;
SELECT is_new('other_seen', 'before');
DO $$
BEGIN
	SET LOCAL search_path = aside, public;
	RAISE NOTICE '%', is_new('other_seen', 'before');
END $$;
ALTER TABLE aside.other_seen SET SCHEMA public;
VACUUM FULL other_seen;
VACUUM (FREEZE) other_seen;
SELECT dedup_seen('other_seen', 'before'), dedup_seen('other_seen', 'after');
SELECT pg_total_relation_size('other_seen') > 1000000 AS has_size;

-- privileges: SELECT asks, INSERT adds
CREATE ROLE regress_dedup_reader;
CREATE ROLE regress_dedup_writer;
GRANT SELECT ON other_seen TO regress_dedup_reader;
GRANT INSERT ON other_seen TO regress_dedup_writer;
SET ROLE regress_dedup_reader;
SELECT dedup_seen('other_seen', 'before');
SELECT is_new('other_seen', 'x');
SELECT count(*) FROM dedup_filters;
SELECT dedup_snapshot('other_seen') IS NOT NULL;
RESET ROLE;
SET ROLE regress_dedup_writer;
SELECT is_new('other_seen', 'x');
SELECT dedup_seen('other_seen', 'x');
SELECT dedup_new_keys('other_seen', ARRAY['y']);
SELECT count(*) FROM dedup_filters;
RESET ROLE;
REVOKE INSERT ON other_seen FROM regress_dedup_writer;
SET ROLE regress_dedup_writer;
SELECT is_new('other_seen', 'z');
RESET ROLE;
REVOKE ALL ON other_seen FROM regress_dedup_reader;
DROP ROLE regress_dedup_reader, regress_dedup_writer;

-- READ ONLY
BEGIN READ ONLY;
SELECT dedup_seen('other_seen', 'before');
SELECT is_new('other_seen', 'before');
ROLLBACK;
BEGIN READ ONLY;
SELECT dedup_new_keys('other_seen', ARRAY['before']);
ROLLBACK;
BEGIN READ ONLY;
SELECT dedup_forget('other_seen', 'before');
ROLLBACK;

-- wrong arguments
SELECT is_new('pg_class', 1);
SELECT is_new('no_such_filter', 1);
SELECT is_new(0::regclass, 1);
SELECT is_new_at('other_seen', now(), 1);
\set SHOW_CONTEXT never
SELECT dedup_create('other_seen', dedup_filter(10));
SELECT dedup_create(NULL, dedup_filter(10));
SELECT dedup_create('f', fpr => NULL);
SELECT dedup_create('f', fpr => 0.9);
SELECT dedup_create('f', fpr => 'NaN');
SELECT dedup_create('f', dedup_filter(10), fpr => 0.01);
SELECT dedup_create('f', dedup_add(dedup_filter(10), 1));
SELECT dedup_create('f', dedup_filter(10), '0.1 seconds');
SELECT dedup_create('f', dedup_filter(10), '1000 years');
SELECT dedup_create('no_such_schema.f', dedup_filter(10));
SELECT 'x'::dedup_page;
SELECT ''::dedup_page;

-- adding never runs in a parallel worker; asking may
SELECT proname, provolatile, proparallel, proleakproof FROM pg_proc WHERE proname IN ('is_new', 'is_new_at', 'dedup_seen', 'dedup_forget', 'dedup_new_keys') AND provolatile = 'v' ORDER BY 1, oid;

-- functions keep up with what happens to the filter, and a random seed is random
SELECT dedup_create('random_1', dedup_filter(10)), dedup_create('random_2', dedup_filter(10));
SELECT a.seed <> b.seed AND a.seed <> 0 AS different FROM dedup_stats('random_1') a, dedup_stats('random_2') b;
DROP TABLE random_1, random_2, other_seen;
DROP FUNCTION nest;
DROP SCHEMA aside;
