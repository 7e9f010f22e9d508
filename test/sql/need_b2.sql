-- Need B2: unique ids at a price that every insert can pay. Here what is let in and how
-- large the filter is beside an index (what a row costs: test/bench).

\set QUIET on
CREATE SCHEMA need_b2;
SET search_path = need_b2, public;
CREATE TABLE src AS SELECT md5((i % 80000)::text) AS k, i FROM generate_series(1, 100000) i;
CREATE TABLE t (k text, i int);
SELECT dedup_create('t_seen', dedup_filter(80000, 0.01, 42)) \gset
SELECT dedup_guard('t', 't_seen', ARRAY['k']) \gset
-- in ten transactions
SELECT format('INSERT INTO t SELECT k, i FROM src WHERE i > %s AND i <= %s ORDER BY i', b * 10000, (b + 1) * 10000)
FROM generate_series(0, 9) b \gexec
\set QUIET off

-- no key twice, and of the new ones no more is lost than the rate asked for

SELECT count(*) = count(DISTINCT k) AS no_key_twice,
	80000 - count(*) <= 0.01 * 80000 + 4 * sqrt(0.01 * 80000) AS rate_is_kept FROM t;
SELECT "new" + skipped AS sent, "new" = (SELECT count(*) FROM t) AS new_is_stored
FROM dedup_stats('t_seen');

-- the first of each key is the one that is kept

SELECT count(*) AS not_the_first FROM t WHERE i > 80000;

-- a twentieth of the index, at most

CREATE UNIQUE INDEX t_k ON t (k);
SELECT pg_total_relation_size('t_seen') * 20 <= pg_relation_size('t_k') AS a_twentieth;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_b2 CASCADE;
