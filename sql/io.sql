-- Input and output: each output can be read back, byte for byte, and nothing else can.

\set QUIET on
CREATE TEMP TABLE filters AS SELECT what,
	dedup_add_all(empty, ARRAY(SELECT generate_series(1, keys))) AS filter FROM (VALUES
	('blocked_bloom, empty', dedup_filter(3), 0),
	('blocked_bloom, exact', dedup_filter(3), 3),
	('blocked_bloom, full', dedup_filter(3), 9),
	('bloom, exact', dedup_filter(5, 0.00001), 3),
	('bloom, full', dedup_filter(5, 0.00001), 50),
	('recent, exact', dedup_window(3), 3),
	('recent, full', dedup_window(3), 20),
	('ring, exact', dedup_method('ring', NULL, 'keys=10'), 3),
	('ring, full', dedup_method('ring', NULL, 'keys=10'), 70),
	('fifo, exact', dedup_method('fifo', NULL, 'keys=10'), 3),
	('fifo, full', dedup_method('fifo', NULL, 'keys=10'), 900),
	('ring of 16', dedup_method('ring', NULL, 'keys=10 generations=16 refresh=on fpr=0.1', -7), 90),
	('large, exact', dedup_filter(100000), 5000),
	('large, full', dedup_window(5000), 10000)) v(what, empty, keys);

-- SQLSTATE of reading a text as a filter
CREATE FUNCTION pg_temp.read_text(t text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM t::dedup_filter;
	RETURN 'read';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION pg_temp.read_bytes(b bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM b::dedup_filter;
	RETURN 'read';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
\set QUIET off

-- text, bytea and the binary form read back as what they were, and the filter that is
-- read is the same one

SELECT what, exact, filter::text::dedup_filter::text = filter::text AS text,
	filter::bytea::dedup_filter::text = filter::text AS bytea,
	dedup_filter_send(filter) = filter::bytea AS send,
	encode(filter::bytea, 'base64') = regexp_replace(filter::text, '(.{76})(?=.)', E'\\1\n', 'g')
		AS base64,
	(SELECT bool_and(dedup_contains(filter, i) = dedup_contains(filter::text::dedup_filter, i))
		FROM generate_series(-50, 150) i) AS answers,
	dedup_stats(filter) = dedup_stats(filter::bytea::dedup_filter) AS stats
FROM filters, LATERAL (SELECT exact FROM dedup_stats(filter)) s ORDER BY what COLLATE "C";

-- binary COPY: send and receive

\copy filters TO 'results/io.bin' WITH (FORMAT binary)
CREATE TEMP TABLE back (LIKE filters);
\copy back FROM 'results/io.bin' WITH (FORMAT binary)
SELECT count(*), bool_and(f.filter::text = b.filter::text) AS same FROM filters f
JOIN back b USING (what);

-- text COPY, too

\copy filters TO 'results/io.txt'
TRUNCATE back;
\copy back FROM 'results/io.txt'
SELECT count(*), bool_and(f.filter::text = b.filter::text) AS same FROM filters f
JOIN back b USING (what);

-- the type can do all of it, and is stored uncompressed and out of line

SELECT typsend <> 0 AS send, typreceive <> 0 AS receive, typstorage, typalign FROM pg_type
WHERE typname = 'dedup_filter';

-- a filter made for a billion keys is small while it is empty, and one with ten keys
-- while it has ten

SELECT pg_column_size(dedup_filter(1000000000, 0.2)) < 128 AS never_forgets,
	pg_column_size(dedup_window(200000000)) < 128 AS window,
	pg_column_size(dedup_method('ring', '512MB', 'fpr=0.001')) < 128 AS ring,
	pg_column_size(dedup_agg(dedup_filter(1000000000, 0.2), i)) < 256 AS of_ten
FROM generate_series(1, 10) i;

-- the header: magic, version, method, form, bytes, seed, capacity, and what it holds, all
-- little-endian

SELECT substr(b, 1, 4) AS df_version_method_form, substr(b, 5, 4) AS bytes,
	substr(b, 17, 8) AS seed, substr(b, 25, 8) AS keys,
	substr(b, 33, 8) AS fpr, substr(b, 41, 8) AS detail, substr(b, 49, 8) AS n,
	substr(b, 57, 4) AS state, length(b) AS length
FROM (SELECT dedup_add_all(dedup_filter(1000, 0.01, 513), '{1,2,3}'::int[])::bytea AS b) x;

-- stored bytes are frozen: text made in version 1 is that of today

SELECT 'blocked_bloom' AS method, md5(dedup_agg(dedup_filter(100, 0.01, 7), i)::text) AS frozen
FROM generate_series(1, 100) i
UNION ALL SELECT 'bloom', md5(dedup_agg(dedup_filter(100, 0.00001, 7), i)::text)
FROM generate_series(1, 100) i
UNION ALL SELECT 'recent', md5(dedup_agg(dedup_window(100, 0.01, 7), i ORDER BY i)::text)
FROM generate_series(1, 1000) i
UNION ALL SELECT 'ring',
	md5(dedup_agg(dedup_method('ring', NULL, 'keys=100', 7), i ORDER BY i)::text)
FROM generate_series(1, 1000) i;

-- what is no filter is refused, with the SQLSTATE of its form

SELECT what, pg_temp.read_text(t) AS text, pg_temp.read_bytes(b) AS bytea FROM (VALUES
	('nothing', '', ''::bytea),
	('a word', 'abc', 'abc'),
	('not base64', '!!!', '!!!'),
	('a line break', regexp_replace(dedup_filter(3)::text, '(.{40})', E'\\1\n'),
			dedup_filter(3)::bytea || '\x0a'),
	('zeros', replace(encode(decode(repeat('00', 60), 'hex'), 'base64'), E'\n', ''),
			decode(repeat('00', 60), 'hex')),
	('a header of zeros',
			replace(encode(decode('df01' || repeat('00', 58), 'hex'), 'base64'), E'\n', ''),
			decode('df01' || repeat('00', 58), 'hex')),
	('a header of ones',
			replace(encode(decode('df0101' || repeat('ff', 57), 'hex'), 'base64'), E'\n', ''),
			decode('df0101' || repeat('ff', 57), 'hex'))) v(what, t, b);
SELECT 'abc'::dedup_filter;
SELECT 'AAAA'::dedup_filter;
SELECT '\x00'::bytea::dedup_filter;

-- one of a later version, or of a method that is not known here, says so

SELECT pg_temp.read_text(replace(encode(set_byte(filter::bytea, 1, 2), 'base64'), E'\n', ''))
		AS version, pg_temp.read_bytes(set_byte(filter::bytea, 1, 2)) AS version_too,
	pg_temp.read_text(replace(encode(set_byte(filter::bytea, 2, 200), 'base64'), E'\n', ''))
		AS method, pg_temp.read_bytes(set_byte(filter::bytea, 2, 200)) AS method_too
FROM filters WHERE what = 'blocked_bloom, full';
SELECT set_byte(filter::bytea, 1, 2)::dedup_filter FROM filters WHERE what = 'blocked_bloom, full';
SELECT set_byte(filter::bytea, 2, 200)::dedup_filter FROM filters
WHERE what = 'blocked_bloom, full';

-- an aggregate's unfinished state is none, even where it claims to be empty

SELECT pg_temp.read_bytes(set_byte(overlay(b PLACING '\x0000000000000000' FROM 9), 3, 2)) AS working,
	pg_temp.read_bytes(set_byte(overlay(b PLACING '\x0000000000000000' FROM 9), 3, 3)) AS working_full
FROM (SELECT dedup_filter(3)::bytea AS b) x;

-- a filter cut off anywhere is refused, and so is one with bytes too many

SELECT what, bool_and(pg_temp.read_bytes(substr(b, 1, n)) = '22P03') AS bytes,
	bool_and(pg_temp.read_text(left(t, n)) = '22P02') AS text,
	bool_and(pg_temp.read_bytes(b || substr(b, 1, n + 1)) = '22P03') AS too_long
FROM filters, LATERAL (SELECT filter::bytea AS b, filter::text AS t) x,
	generate_series(0, length(b) - 1) n
WHERE length(b) < 600 AND what <> 'ring, full' GROUP BY what ORDER BY what COLLATE "C";

-- one wrong byte anywhere, or one wrong letter, is found

SELECT what, count(*) FILTER (WHERE pg_temp.read_bytes(set_byte(b, n, get_byte(b, n) # mask)) = 'read') AS accepted
FROM filters, LATERAL (SELECT filter::bytea AS b) x, generate_series(0, length(b) - 1) n,
	unnest(CASE WHEN length(b) < 200 THEN '{1,2,16,128,255}'::int[] ELSE '{1}' END) mask
WHERE length(b) < 600 GROUP BY what ORDER BY what COLLATE "C";
SELECT what, count(*) FILTER (WHERE pg_temp.read_text(overlay(t PLACING CASE substr(t, n, 1)
					WHEN 'A' THEN 'B' ELSE 'A' END FROM n FOR 1)) = 'read') AS accepted
FROM filters, LATERAL (SELECT filter::bytea AS b, filter::text AS t) x,
	generate_series(1, length(t)) n
WHERE length(b) < 200 AND length(b) % 3 = 0 GROUP BY what ORDER BY what COLLATE "C";

-- from PostgreSQL 16 on it can be asked whether a text is a filter

CREATE FUNCTION pg_temp.is_valid(t text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	answer boolean := pg_temp.read_text(t) = 'read';
BEGIN
	IF current_setting('server_version_num')::int >= 160000 THEN
		EXECUTE 'SELECT pg_input_is_valid($1, ''dedup_filter'')' INTO answer USING t;
	END IF;
	RETURN answer;
END $$;
SELECT pg_temp.is_valid(dedup_filter(3)::text) AS filter, pg_temp.is_valid('abc') AS word,
	pg_temp.is_valid('AAAA') AS base64, pg_temp.is_valid('') AS nothing;
