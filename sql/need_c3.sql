-- Need C3: how many duplicates were there? The counters are exact to the row, and the rate at which new keys are
-- refused shows the share of wrong answers.

\set QUIET on
CREATE SCHEMA need_c3;
SET search_path = need_c3, public;
CREATE TABLE m AS SELECT i, i % 70 AS k FROM generate_series(1, 100) i;
CREATE TABLE t (k int);
SELECT dedup_create('asked', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_create('sent', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('t', 'sent', ARRAY['k']) \gset
\set QUIET off

-- asked 100, 70 new and 30 duplicates, by function and by guard

SELECT count(*) AS asked, count(*) FILTER (WHERE is_new('asked'::regclass, k)) AS new FROM m;
INSERT INTO t SELECT k FROM m;

-- what is rolled back is not counted

BEGIN;
SELECT count(*) FILTER (WHERE is_new('asked'::regclass, k)) AS new FROM m;
SELECT count(*) FILTER (WHERE is_new('asked'::regclass, k + 1000)) AS new FROM m;
INSERT INTO t SELECT k FROM m;
ROLLBACK;

-- nor is asking only

SELECT count(*) FILTER (WHERE dedup_seen('asked'::regclass, k)) AS seen FROM m;

-- and all of it when the session that wrote has ended

\set QUIET on
\c -
SET search_path = need_c3, public;
\set QUIET off
SELECT "new", duplicate, skipped, rejected, marked, "new" + duplicate AS asked
FROM dedup_stats('asked');
SELECT "new", duplicate, skipped, rejected, marked, "new" + skipped AS sent,
	"new" = (SELECT count(*) FROM t) AS new_is_stored FROM dedup_stats('sent');
SELECT keys, fpr, fpr_now BETWEEN 0 AND 1e-6 AS rate_is_kept, count BETWEEN 69 AND 71 AS about_70
FROM dedup_stats('asked');

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_c3 CASCADE;
