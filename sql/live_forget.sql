-- Forgetting keys that an enclosing transaction has added or loaded.

SET search_path = public;
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS streamdedup;
RESET client_min_messages;
SELECT dedup_create('forget_seen', dedup_filter(1000, 1e-6, 42));

-- a savepoint that is rolled back, and one that is not
BEGIN;
SELECT is_new('forget_seen', 1) AS added;
SAVEPOINT a;
SELECT dedup_forget('forget_seen', 1) AS forgotten, dedup_seen('forget_seen', 1) AS there, dedup_forget('forget_seen', 1) AS twice;
SELECT is_new('forget_seen', 1) AS anew, is_new('forget_seen', 1) AS twice;
ROLLBACK TO a;
SELECT dedup_seen('forget_seen', 1) AS there;
SELECT dedup_forget('forget_seen', 1) AS forgotten;
RELEASE a;
SELECT dedup_seen('forget_seen', 1) AS there, is_new('forget_seen', 1) AS anew;
SAVEPOINT b;
SELECT dedup_forget('forget_seen', 1) AS forgotten;
SAVEPOINT c;
SELECT is_new('forget_seen', 1) AS anew;
SAVEPOINT d;
SELECT dedup_forget('forget_seen', 1) AS forgotten;
ROLLBACK TO d;
SELECT dedup_seen('forget_seen', 1) AS there;
ROLLBACK TO c;
SELECT dedup_seen('forget_seen', 1) AS there;
COMMIT;
SELECT dedup_seen('forget_seen', 1) AS there, is_new('forget_seen', 1) AS anew;

-- EXCEPTION blocks, as often as there are no tags for in a page; nothing is left behind
DO $$
BEGIN
	PERFORM is_new('forget_seen', 2);
	FOR i IN 1 .. 1000 LOOP
		BEGIN
			IF NOT dedup_forget('forget_seen', 2) OR dedup_seen('forget_seen', 2) OR NOT is_new('forget_seen', 2) THEN
				RAISE 'wrong in block %', i;
			END IF;
			IF i % 3 = 0 THEN
				RAISE EXCEPTION SQLSTATE 'XX999';
			END IF;
			IF i % 5 = 0 THEN
				PERFORM dedup_forget('forget_seen', 2);
				RAISE EXCEPTION SQLSTATE 'XX999';
			END IF;
		EXCEPTION WHEN SQLSTATE 'XX999' THEN
			IF NOT dedup_seen('forget_seen', 2) THEN
				RAISE 'lost in block %', i;
			END IF;
		END;
	END LOOP;
END $$;
SELECT dedup_seen('forget_seen', 2) AS there;
VACUUM forget_seen;
SELECT count, in_flight, overflow_pages FROM dedup_stats('forget_seen');

-- what a COPY or dedup_load() of the same transaction has brought
CREATE TEMP TABLE kept AS SELECT dedup_snapshot('forget_seen') AS snapshot;
BEGIN;
TRUNCATE forget_seen;
SELECT dedup_load('forget_seen', snapshot) AS loaded FROM kept;
SELECT dedup_forget('forget_seen', 1) AS forgotten;
SAVEPOINT a;
SELECT dedup_forget('forget_seen', 2) AS forgotten, dedup_forget('forget_seen', 1) AS twice;
ROLLBACK TO a;
SELECT dedup_seen('forget_seen', 1) AS "1", dedup_seen('forget_seen', 2) AS "2";
SAVEPOINT b;
SELECT dedup_forget('forget_seen', 2) AS forgotten, is_new('forget_seen', 2) AS anew, dedup_forget('forget_seen', 2) AS again;
COMMIT;
SELECT dedup_seen('forget_seen', 1) AS "1", dedup_seen('forget_seen', 2) AS "2";
-- loaded by a subtransaction that is rolled back, or not
TRUNCATE forget_seen;
BEGIN;
SAVEPOINT a;
SELECT dedup_load('forget_seen', snapshot) AS loaded FROM kept;
SELECT dedup_forget('forget_seen', 1) AS forgotten;
ROLLBACK TO a;
SELECT dedup_forget('forget_seen', 2) AS forgotten, is_new('forget_seen', 2) AS added;
COMMIT;
SELECT dedup_seen('forget_seen', 1) AS "1", dedup_seen('forget_seen', 2) AS "2";
TRUNCATE forget_seen;
BEGIN;
SAVEPOINT a;
SELECT dedup_load('forget_seen', snapshot) AS loaded FROM kept;
RELEASE a;
SAVEPOINT b;
SELECT dedup_forget('forget_seen', 1) AS forgotten;
RELEASE b;
SELECT dedup_forget('forget_seen', 2) AS forgotten;
SAVEPOINT c;
SELECT is_new('forget_seen', 2) AS added;
ROLLBACK TO c;
COMMIT;
SELECT dedup_seen('forget_seen', 1) AS "1", dedup_seen('forget_seen', 2) AS "2";
VACUUM forget_seen;
SELECT count, in_flight FROM dedup_stats('forget_seen');

-- a window of time: what has expired is not there, and nothing else is forgotten for it
SELECT dedup_create('forget_hour', dedup_window(1000, 1e-6, 42), ttl => '1 hour');
SELECT is_new_at('forget_hour', now(), 2) AS newest, is_new_at('forget_hour', now() - interval '1 day', 1) AS too_old_is_not_remembered;
SELECT dedup_forget('forget_hour', 1) AS forgotten;
BEGIN;
SELECT is_new_at('forget_hour', now() - interval '30 minutes', 1) AS added;
SAVEPOINT a;
SELECT dedup_forget('forget_hour', 1) AS forgotten, is_new_at('forget_hour', now(), 1) AS anew;
SAVEPOINT b;
SELECT dedup_forget('forget_hour', 1) AS forgotten;
ROLLBACK TO b;
SELECT dedup_seen('forget_hour', 1) AS there;
ROLLBACK TO a;
SELECT dedup_seen('forget_hour', 1) AS there;
COMMIT;
SELECT dedup_seen('forget_hour', 1) AS there, dedup_forget('forget_hour', 1) AS forgotten, dedup_seen('forget_hour', 1) AS still;
SELECT block FROM dedup_check('forget_seen') UNION ALL SELECT block FROM dedup_check('forget_hour');
DROP TABLE forget_seen, forget_hour;
