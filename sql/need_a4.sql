-- Need A4: duplicates must not use up the numbers of a sequence. ON CONFLICT DO NOTHING and a BEFORE trigger come too
-- late, because the default was computed before; a filter in the SELECT does not.

\set QUIET on
CREATE SCHEMA need_a4;
SET search_path = need_a4, public;
CREATE TABLE src AS SELECT i, i % 10 AS k FROM generate_series(1, 1000) i;
CREATE TABLE s1 (id serial, k int UNIQUE);
CREATE TABLE s3 (id serial, k int);
\set QUIET off

-- 1,000 rows, 10 of them with a key that is new: 10 rows, and 10 numbers

INSERT INTO s1 (k) SELECT k FROM src ON CONFLICT DO NOTHING;
INSERT INTO s3 (k) SELECT k
FROM (SELECT i, k, dedup_is_new(k) OVER (ORDER BY i) AS is_new FROM src) x WHERE is_new ORDER BY i;
SELECT (SELECT count(*) FROM s1) AS rows_of_on_conflict,
	(SELECT last_value FROM s1_id_seq) AS numbers_of_on_conflict, (SELECT count(*) FROM s3) AS rows,
	(SELECT last_value FROM s3_id_seq) AS numbers;

-- nor do those that are known from before: a stored filter names them

CREATE TABLE known AS SELECT dedup_agg(k) AS keys FROM s3;
INSERT INTO s3 (k) SELECT k
FROM (SELECT i, k, dedup_is_new(k) OVER (ORDER BY i) AS is_new
		FROM (SELECT i, i % 15 AS k FROM generate_series(1, 1000) i) more) x, known
WHERE x.is_new AND is_new(known.keys, k);
SELECT (SELECT count(*) FROM s3) AS rows, (SELECT count(DISTINCT k) FROM s3) AS keys,
	(SELECT last_value FROM s3_id_seq) AS numbers;

-- the rows of a query whose key is new, in its order

CREATE TABLE s4 (id serial, k int);
INSERT INTO s4 (k) SELECT k FROM dedup_rows('TABLE src ORDER BY i', 'k') AS s(i int, k int);
SELECT count(*) AS rows, min(k) FILTER (WHERE id = 1) AS first,
	(SELECT last_value FROM s4_id_seq) AS numbers FROM s4;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_a4 CASCADE;
