-- The format of a live filter's dump (src/live/page_type.hpp), field by field. It is frozen: a later release must
-- write and read the same bytes. The MD5 sums were computed from that description by another program, with libxxhash.
\set QUIET on
CREATE FUNCTION u32(b bytea, at int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT get_byte(b, at) + get_byte(b, at + 1) * 256 + get_byte(b, at + 2) * 65536 + get_byte(b, at + 3)::bigint * 16777216';
CREATE FUNCTION u64(b bytea, at int) RETURNS numeric LANGUAGE sql IMMUTABLE AS
	'SELECT u32(b, at) + u32(b, at + 4) * 4294967296::numeric';
SELECT dedup_create('f', dedup_filter(100000, 1e-6, 42)) \gset
SELECT dedup_create('w', dedup_window(1000, 0.001, 43), ttl => '7 days') \gset
\set QUIET off

-- parameters: 1e-6 takes slots of 4 bytes (15 keys of 2^32; 20 of 2^24 are more), in a
-- window of time 0.001 takes 3 (20 of 2^21; 31 of 2^13 are more); 7 days are 7
-- generations of 86,400,000,000 us
CREATE TEMP VIEW parameters AS
SELECT d.adrelid::regclass AS name, decode(substring(pg_get_expr(d.adbin, d.adrelid) FROM '''(.*)'''), 'base64') AS b
FROM pg_attrdef d WHERE d.adrelid IN ('f'::regclass, 'w'::regclass);
SELECT name, length(b) AS bytes, to_hex(get_byte(b, 0)) AS magic, get_byte(b, 1) AS format, get_byte(b, 2) AS kind,
	get_byte(b, 3) & 127 AS slot_bytes, get_byte(b, 3) / 128 AS timed, u32(b, 4) AS forgets, u32(b, 16) AS pages,
	get_byte(b, 20) AS level, get_byte(b, 21) AS method, u64(b, 24) AS seed, u64(b, 32) AS generation, u64(b, 40) AS ttl, u64(b, 48) AS keys, u64(b, 64) AS asked_keys
FROM parameters ORDER BY name::text;
SELECT name, md5(b) FROM parameters ORDER BY name::text;

-- a page: the first 48 bytes as the parameters have them, but for kind and checksum; then 16
-- bytes, 16 for each key while it is an entry, and 103 lines if any is used
SELECT count(*) FILTER (WHERE is_new('f', i)) FROM generate_series(1, 500) i;
CREATE TEMP TABLE dump (block int, page text);
COPY f TO PROGRAM 'cat > live_format.txt';
COPY dump FROM PROGRAM 'cat live_format.txt';
SELECT count(*) AS pages, sum(u32(d.b, 56)) AS entries,
	bool_and(length(d.b) = 64 + 16 * u32(d.b, 56)) AS sizes,
	bool_and(get_byte(d.b, 2) = 1 AND substr(d.b, 1, 2) = substr(p.b, 1, 2) AND substr(d.b, 4, 5) = substr(p.b, 4, 5)) AS kinds,
	bool_and(substr(d.b, 17, 5) = substr(p.b, 17, 5) AND get_byte(d.b, 21) = 0 AND substr(d.b, 23, 26) = substr(p.b, 23, 26)) AS origins,
	bool_and(u32(d.b, 48) = block) AS places, bool_and(u32(d.b, 52) = 0 AND u32(d.b, 60) = 0) AS no_time
FROM (SELECT block, decode(page, 'base64') AS b FROM dump) d, parameters p WHERE p.name = 'f'::regclass;
SELECT md5(string_agg(page, ',' ORDER BY block)) FROM dump;

-- read back, whole and damaged
TRUNCATE f;
COPY f FROM PROGRAM 'cat live_format.txt';
SELECT count(*) FILTER (WHERE dedup_seen('f', i)) AS there, count(*) FILTER (WHERE dedup_seen('f', -i)) AS others FROM generate_series(1, 500) i;
\set SHOW_CONTEXT never
COPY f FROM PROGRAM 'cat live_format.txt';
COPY w FROM PROGRAM 'cat live_format.txt';
CREATE FUNCTION damaged(at int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE b bytea := (SELECT decode(page, 'base64') FROM dump ORDER BY block LIMIT 1);
BEGIN
	PERFORM replace(encode(set_byte(b, at, 255 - get_byte(b, at)), 'base64'), E'\n', '')::dedup_page;
	RETURN 'accepted';
EXCEPTION WHEN invalid_text_representation THEN RETURN 'refused';
	WHEN feature_not_supported THEN RETURN SQLERRM;
END $$;
SELECT replace(encode(b, 'base64'), E'\n', '')::dedup_page IS NOT NULL AS whole FROM (SELECT decode(page, 'base64') AS b FROM dump ORDER BY block LIMIT 1) x;
SELECT damaged(i), count(*) FROM generate_series(0, (SELECT length(decode(page, 'base64')) - 1 FROM dump ORDER BY block LIMIT 1)) i GROUP BY damaged(i) ORDER BY damaged(i) COLLATE "C";

-- a value of format 1, of which no release was
SELECT replace(encode('\xda01000200000000' || decode(repeat('00', 80), 'hex'), 'base64'), E'\n', '')::dedup_page;

\set QUIET on
DROP VIEW parameters;
DROP TABLE dump, f, w;
DROP FUNCTION u32, u64, damaged;
