-- Need C5: COPY has no ON CONFLICT, and ON_ERROR ignore does not cover duplicates. With
-- a guard it leaves them out; in mode reject the error names the line.

\set QUIET on
CREATE SCHEMA need_c5;
SET search_path = need_c5, public;
CREATE TABLE c (k int);
SELECT dedup_create('c_seen', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('c', 'c_seen', ARRAY['k']) \gset
CREATE TABLE strict (k int);
SELECT dedup_create('strict_seen', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_guard('strict', 'strict_seen', ARRAY['k'], 'reject') \gset
CREATE FUNCTION copy_strict() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	context text;
BEGIN
	COPY strict FROM PROGRAM 'printf "1\n2\n2\n3\n3\n"';
	RETURN 'no error';
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
	RETURN SQLSTATE || ' ' || substring(context FROM 'COPY \w+, line \d+');
END $$;
\set QUIET off

COPY c FROM STDIN;
1
2
2
3
3
\.
SELECT k FROM c ORDER BY k;

-- the same file once more, and then one that holds more

COPY c FROM STDIN;
1
2
3
\.
COPY c FROM STDIN;
3
4
\.
SELECT count(*), count(DISTINCT k) FROM c;

-- a file that breaks off leaves no key behind, so it can be loaded again

COPY c FROM STDIN;
5
6
seven
\.
COPY c FROM STDIN;
5
6
7
\.

-- the error of mode reject names the line, and all of the file is out

SELECT copy_strict();
SELECT count(*) FROM strict;

-- without a guard: into a staging table, and from there what is new, in file order

CREATE TABLE staging (line serial, k int);
CREATE TABLE landed (k int UNIQUE);
COPY staging (k) FROM STDIN;
3
1
3
2
1
\.
INSERT INTO landed SELECT k
FROM dedup_rows('SELECT line, k FROM staging ORDER BY line', 'k') AS s(line int, k int);
TABLE landed;

\set QUIET on
SET client_min_messages = error;
DROP SCHEMA need_c5 CASCADE;
