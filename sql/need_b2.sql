-- Need B2: unique ids at a cost that every insert can afford. This tests which rows are stored, and compares the size
-- of the filter with that of an index (test/bench measures the cost of a row).

\set QUIET on
CREATE SCHEMA need_b2;
SET search_path = need_b2, public;
CREATE TABLE src AS SELECT md5((i % 200000)::text) AS k, i FROM generate_series(1, 250000) i;
CREATE TABLE t (k text, i int);
SELECT dedup_create('t_seen', dedup_filter(200000, 0.01, 42)) \gset
SELECT dedup_guard('t', 't_seen', ARRAY['k']) \gset
-- in ten transactions
SELECT format('INSERT INTO t SELECT k, i FROM src WHERE i > %s AND i <= %s ORDER BY i', b * 25000, (b + 1) * 25000)
FROM generate_series(0, 9) b \gexec
\set QUIET off

-- no key twice, and of the new ones no more is lost than the rate asked for

SELECT count(*) = count(DISTINCT k) AS no_key_twice,
	200000 - count(*) <= 0.01 * 200000 + 4 * sqrt(0.01 * 200000) AS rate_is_kept FROM t;
SELECT "new" + skipped AS sent, "new" = (SELECT count(*) FROM t) AS new_is_stored
FROM dedup_stats('t_seen');

-- the first of each key is the one that is kept

SELECT count(*) AS not_the_first FROM t WHERE i > 200000;

-- a twentieth of an index that has grown with its table, at most, once VACUUM has given
-- back what the loads in flight took

CREATE TABLE indexed (k text UNIQUE, i int);
INSERT INTO indexed SELECT k, i FROM src ON CONFLICT DO NOTHING;
VACUUM t_seen;
SELECT pg_total_relation_size('t_seen') * 20 <= pg_relation_size('indexed_k_key') AS a_twentieth;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_b2 CASCADE;
