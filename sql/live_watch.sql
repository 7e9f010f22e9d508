-- The view dedup_filters shows only filters that the user may read, and never fails because of a problem with a
-- relation. Also tests tables of the access method that were made by hand.
\set VERBOSITY sqlstate
SET client_min_messages = error;

SELECT dedup_create('whole', dedup_window(1000, 0.01, 42), '7 days');
SELECT is_new('whole', k) FROM generate_series(1, 3) k;
SELECT name, kind, keys, count, problem FROM dedup_filters ORDER BY name::text;

-- ---- made by hand: without parameters, and with a page where they belong ----
CREATE TABLE by_hand (block int4 NOT NULL, page dedup_page NOT NULL) USING streamdedup;
CREATE TABLE no_default (block int4 NOT NULL, page dedup_page NOT NULL DEFAULT NULL) USING streamdedup;
DO $$ BEGIN
	EXECUTE format('CREATE TABLE forged (block int4 NOT NULL, page dedup_page NOT NULL DEFAULT %L) USING streamdedup',
		(SELECT page FROM whole));
END $$;
SELECT name, kind, keys, count, bytes, problem FROM dedup_filters ORDER BY name::text;
-- 55000: dedup_create() did not make them; XX001: the parameters are none
SELECT is_new('by_hand', 1);
SELECT dedup_seen('no_default', 1);
SELECT dedup_stats('by_hand');
SELECT * FROM dedup_check('by_hand');
SELECT dedup_snapshot('by_hand'::regclass);
SELECT is_new('forged', 1);
SELECT dedup_stats('forged'::regclass);
\set VERBOSITY default
SELECT is_new('by_hand', 1);
\set VERBOSITY sqlstate
COPY by_hand FROM stdin;
0	2gI=
\.
-- they hold nothing, so that VACUUM, ANALYZE and a dump of the database go on
VACUUM by_hand, no_default, forged;
VACUUM FULL by_hand, no_default, forged;
ANALYZE by_hand, no_default, forged;
TRUNCATE by_hand, no_default, forged;
COPY by_hand TO stdout;
COPY forged TO stdout;
SELECT count(*) FROM forged;
DROP TABLE by_hand, no_default, forged;

-- ---- an OID that names no relation, as in a query over pg_class while filters are dropped ----
SELECT dedup_stats(1::regclass) IS NULL AS stats, dedup_snapshot(1::regclass) IS NULL AS snapshot,
	(SELECT count(*) FROM dedup_check(1::regclass)) AS problems;
SELECT (s).kind, (s).problem FROM (SELECT dedup_filter_state(1) AS s UNION ALL SELECT dedup_filter_state('pg_class'::regclass)) s;
SELECT is_new(1::regclass, 1);
SELECT dedup_seen(1::regclass, 1);
SELECT dedup_stats('pg_class'::regclass);
SELECT dedup_check('pg_class'::regclass);

-- ---- privileges: no row for who may not ask, whatever the function is given ----
CREATE ROLE regress_dedup_watcher;
SET ROLE regress_dedup_watcher;
SELECT count(*) FROM dedup_filters;
SELECT (dedup_filter_state('whole'::regclass)).*;
SELECT dedup_stats('whole'::regclass);
RESET ROLE;
GRANT SELECT ON whole TO regress_dedup_watcher;
SET ROLE regress_dedup_watcher;
SELECT name, kind, problem FROM dedup_filters;
RESET ROLE;

-- ---- within transactions: a lock of one's own hides nothing, and none is left behind ----
BEGIN;
TRUNCATE whole;
SELECT name, count, problem FROM dedup_filters;
ROLLBACK;
BEGIN READ ONLY;
SELECT name, count, problem FROM dedup_filters;
SELECT count(*) AS locks FROM pg_locks WHERE relation = 'whole'::regclass;
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT is_new('whole', 4);
SELECT name, count, in_flight, problem FROM dedup_filters;
ROLLBACK TO s;
SELECT name, count, in_flight, problem FROM dedup_filters;
COMMIT;
SET search_path = '';
SELECT name, count, problem FROM public.dedup_filters;
RESET search_path;

DROP OWNED BY regress_dedup_watcher;
DROP ROLE regress_dedup_watcher;
DROP TABLE whole;
SELECT count(*) FROM dedup_filters;
