-- The indexes that an exact guard with expressions, a predicate, or equal NULLs can use.

SET client_min_messages = warning;
\set SHOW_CONTEXT never

CREATE COLLATION exact_where_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE served (a text, b text COLLATE exact_where_ci, c int, d date, e boolean, f boolean NOT NULL);
SELECT dedup_create('served_seen', dedup_filter(1000));
-- Holds what an index serves against the rule: it has all rows that count, and the key first.
CREATE FUNCTION serves(definition text, key text[], predicate text, nulls boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'CREATE INDEX served_idx ON served ' || definition;
	BEGIN
		PERFORM dedup_guard('served', 'served_seen', key, exact => true, "where" => predicate, nulls_not_distinct => nulls);
		PERFORM dedup_unguard('served');
		result := 'serves';
	EXCEPTION WHEN object_not_in_prerequisite_state THEN result := 'does not';
	END;
	DROP INDEX served_idx;
	RETURN result;
END $$;
\pset format unaligned
SELECT definition, key, predicate, nulls, serves(definition, key, predicate, nulls) FROM (VALUES
	(1, '(a)', '{a}'::text[], 'd IS NULL', false), (2, '(a) WHERE d IS NULL', '{a}', 'd IS NULL', false), (3, '(a) WHERE d IS NULL', '{a}', NULL, false), (4, '(a) WHERE d IS NULL', '{a}', 'd IS NULL OR e', false), (5, '(a) WHERE d IS NULL OR e', '{a}', 'd IS NULL', false),
	(6, '(a) WHERE d IS NULL AND e', '{a}', 'd IS NULL', false), (7, '(a) WHERE d IS NULL', '{a}', 'd IS NULL AND e', false), (8, '(a) WHERE e', '{a}', 'd IS NULL AND e', false),
	(11, '(a) WHERE NOT e', '{a}', 'NOT e', false), (12, '(a) WHERE NOT e', '{a}', 'e IS NOT TRUE', false), (13, '(a) WHERE c > 0', '{a}', 'c > 5', false), (14, '(a) WHERE c > 5', '{a}', 'c > 0', false), (15, '(a) WHERE c IS NOT NULL', '{a}', 'c > 0', false),
	(16, '(a) WHERE a IS NOT NULL AND d IS NULL', '{a}', 'd IS NULL', false), (19, 'USING hash (a) WHERE d IS NULL', '{a}', 'd IS NULL', false),
	(21, '(a) WHERE lower(a) = ''x''', '{a}', 'lower(a) = ''x''', false), (22, '(a) WHERE c IN (1, 2, 3)', '{a}', 'c IN (1, 2)', false), (23, '(a) WHERE c IN (1, 2)', '{a}', 'c IN (1, 2, 3)', false),
	(24, '(lower(a))', '{lower(a)}', NULL, false), (25, '(lower(a)) WHERE lower(a) IS NOT NULL', '{lower(a)}', NULL, false), (27, '(lower(a)) WHERE a IS NOT NULL', '{lower(a)}', NULL, false), (28, '(upper(a))', '{lower(a)}', NULL, false), (29, '(a)', '{lower(a)}', NULL, false),
	(30, 'USING hash (lower(a))', '{lower(a)}', NULL, false), (31, '(lower(a) text_pattern_ops)', '{lower(a)}', NULL, false), (32, '(lower(a) COLLATE "C")', '{lower(a)}', NULL, false), (33, '(lower(a) COLLATE exact_where_ci)', '{lower(a)}', NULL, false), (34, '(lower(a COLLATE "C"))', '{lower(a)}', NULL, false),
	(35, '(lower(b))', '{lower(b)}', NULL, false), (36, '(lower(b) COLLATE "C")', '{lower(b)}', NULL, false), (37, '(lower(b) COLLATE "C")', ARRAY['lower(b) COLLATE "C"'], NULL, false), (38, '(lower(b))', ARRAY['lower(b) COLLATE "C"'], NULL, false),
	(39, '(a COLLATE exact_where_ci)', '{a COLLATE exact_where_ci}', NULL, false), (40, '(a)', '{a COLLATE exact_where_ci}', NULL, false), (41, '(a COLLATE exact_where_ci) WHERE a IS NOT NULL', '{a COLLATE exact_where_ci}', NULL, false), (42, 'USING hash (a COLLATE exact_where_ci)', '{a COLLATE exact_where_ci}', NULL, false),
	(43, '(c, lower(a))', '{lower(a),c}', NULL, false), (44, '(lower(a), c) INCLUDE (d)', '{c,lower(a)}', NULL, false), (45, '(lower(a)) INCLUDE (c)', '{c,lower(a)}', NULL, false), (46, '(lower(a), d, c)', '{c,lower(a)}', NULL, false), (47, '(lower(a), lower(a), c)', '{c,lower(a)}', NULL, false),
	(48, '((c + 1), (c + 1))', ARRAY['c + 1', 'c + 2'], NULL, false), (49, '((c + 2), (c + 1), a)', ARRAY['c + 1', 'c + 2'], NULL, false), (50, '((c + 1)) WHERE c IS NOT NULL', ARRAY['c + 1'], NULL, false), (51, '((c + 1)) WHERE (c + 1) IS NOT NULL AND d IS NULL', ARRAY['c + 1'], 'd IS NULL', false),
	(52, '((1 + c))', ARRAY['c + 1'], NULL, false), (53, '((c + (2 - 1)))', ARRAY['c + 1'], NULL, false), (54, '((c::bigint + 1))', ARRAY['c + 1'], NULL, false), (55, '(a, (a COLLATE exact_where_ci))', ARRAY['a COLLATE exact_where_ci', 'a'], NULL, false), (56, '(a, (a COLLATE "C"))', ARRAY['a COLLATE "C"', 'a'], NULL, false), (57, '(a COLLATE "C")', ARRAY['a COLLATE "C"', 'a'], NULL, false),
	(58, '((d IS NULL))', ARRAY['d IS NULL'], NULL, false), (59, '(c) WHERE f', '{c}', 'f', false), (60, '(c) WHERE f = true', '{c}', 'f', false), (61, '(c) WHERE f', '{c}', 'f = true', false), (62, '(c) WHERE NOT f IS FALSE', '{c}', 'f', false), (64, '(c) WHERE false', '{c}', NULL, false),
	(65, '(c) WHERE true', '{c}', NULL, false), (66, '(c) WHERE d IS NULL', '{c}', '(d IS NULL AND e) OR (d IS NULL AND f)', false), (67, 'USING gist (int4range(c, c))', ARRAY['int4range(c, c)'], NULL, false), (68, '(int4range(c, c))', ARRAY['int4range(c, c)'], NULL, false),
	(70, '((c + length(a))) WHERE a IS NOT NULL AND c IS NOT NULL', ARRAY['c + length(a)'], NULL, false), (71, '((coalesce(a, b))) WHERE a IS NOT NULL', ARRAY['coalesce(a, b)'], NULL, false)
) AS x (n, definition, key, predicate, nulls) ORDER BY n;
\pset format aligned
-- The same with equal NULLs, which servers have from 15 on: what is not as it should be.
SELECT * FROM (VALUES
	(17, '(a) WHERE a IS NOT NULL AND d IS NULL', '{a}'::text[], 'd IS NULL', 'does not'),
	(18, '(a) WHERE d IS NULL', '{a}', 'd IS NULL', 'serves'),
	(20, 'USING hash (a)', '{a}', NULL, 'does not'),
	(26, '(lower(a)) WHERE lower(a) IS NOT NULL', '{lower(a)}', NULL, 'does not'),
	(63, '(c, a) WHERE f', '{c}', 'f AND a = ''x''', 'serves'),
	(69, '(lower(a)) WHERE a IS NOT NULL', '{lower(a)}', NULL, 'does not')
) AS x (n, definition, key, predicate, expected)
WHERE CASE WHEN current_setting('server_version_num')::int >= 150000 THEN serves(definition, key, predicate, true) <> expected END ORDER BY n;
-- Where the index proves the predicate, no row is looked at twice; where it does not, each row is.
DROP TABLE served, served_seen;
CREATE TABLE looked (id int, k text, live boolean, note text);
CREATE SEQUENCE looks;
CREATE FUNCTION look(boolean) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM public.looks(); RETURN $1; END $$;
CREATE FUNCTION looks() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.looks'); END $$;
SELECT dedup_create('looked_seen', dedup_filter(1000));
CREATE INDEX looked_all ON looked (k);
SELECT dedup_guard('looked', 'looked_seen', '{k}', exact => true, "where" => 'look(live)');
INSERT INTO looked SELECT g, 'a', false FROM generate_series(1, 10) g;
INSERT INTO looked VALUES (11, 'a', true);
SELECT setval('looks', 1);
INSERT INTO looked VALUES (12, 'a', true), (13, 'a', true) RETURNING id;
-- Two of the trigger, and 11 for each search: the other rows are outside.
SELECT nextval('looks') - 2;
CREATE INDEX looked_live ON looked (k) WHERE look(live);
DROP INDEX looked_all;
SELECT setval('looks', 1);
INSERT INTO looked VALUES (12, 'a', true), (13, 'a', true) RETURNING id;
SELECT nextval('looks') - 2;
-- An index that no longer has all rows that count does not serve the next row.
DROP INDEX looked_live;
CREATE INDEX ON looked (k) WHERE look(live) AND id > 0;
INSERT INTO looked VALUES (12, 'a', true);
INSERT INTO looked VALUES (12, 'b', true) RETURNING id;
CREATE INDEX ON looked USING hash (k);
INSERT INTO looked VALUES (13, 'a', true), (14, 'b', true), (15, 'c', true) RETURNING id;
DROP TABLE looked, looked_seen;
DROP FUNCTION look, looks;
DROP SEQUENCE looks;

-- Rows with the same hash in a hash index, and values that are stored out of line.
CREATE TABLE hashed (id int, k text, live boolean);
ALTER TABLE hashed ALTER k SET STORAGE EXTERNAL;
CREATE INDEX ON hashed USING hash (substr(k, 1, 4000));
SELECT dedup_create('hashed_seen', dedup_filter(1, 0.5, 1));
SELECT dedup_guard('hashed', 'hashed_seen', '{"substr(k, 1, 4000)"}', exact => true, "where" => 'live');
INSERT INTO hashed SELECT g, repeat(chr(64 + g), 5000), g % 2 = 0 FROM generate_series(1, 20) g;
UPDATE hashed SET live = NOT live;
INSERT INTO hashed SELECT 100 + g, repeat(chr(64 + g), 5000) || 'x', true FROM generate_series(1, 20) g;
SELECT count(*), count(*) FILTER (WHERE live), count(DISTINCT left(k, 1)) FILTER (WHERE live) FROM hashed;
DROP TABLE hashed, hashed_seen;

-- Partitions in which different indexes serve.
CREATE TABLE parts (id int, email text, gone boolean, part int) PARTITION BY LIST (part);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (part int, x int, gone boolean, email text, id int);
ALTER TABLE parts_2 DROP COLUMN x;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3);
CREATE TABLE parts_4 PARTITION OF parts FOR VALUES IN (4);
SELECT dedup_create('parts_seen', dedup_filter(1, 0.5, 1));
CREATE INDEX ON parts_1 (lower(email));
CREATE INDEX ON parts_2 (lower(email), id) WHERE gone IS NOT TRUE;
CREATE INDEX ON parts_3 USING hash (lower(email));
CREATE INDEX ON parts_4 (lower(email)) WHERE gone IS NOT TRUE AND id > 0;
SELECT dedup_guard('parts', 'parts_seen', '{lower(email)}', 'reject', exact => true, "where" => 'gone IS NOT TRUE');
CREATE INDEX ON parts_4 (lower(email)) WHERE gone IS NOT TRUE OR id = 1;
SELECT dedup_guard('parts', 'parts_seen', '{lower(email)}', 'reject', exact => true, "where" => 'gone IS NOT TRUE');
INSERT INTO parts SELECT g, chr(96 + g), NULL, 1 + g % 4 FROM generate_series(1, 20) g;
INSERT INTO parts SELECT 100 + g, chr(64 + g), true, 1 + g % 3 FROM generate_series(1, 20) g;
CREATE FUNCTION try_each() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	landed bigint := 0;
BEGIN
	FOR i IN 1 .. 22 LOOP
		BEGIN
			INSERT INTO parts VALUES (200 + i, chr(64 + i), i % 2 = 7, 1 + i % 4);
			landed := landed + 1;
		EXCEPTION WHEN unique_violation THEN NULL; END;
	END LOOP;
	RETURN landed;
END $$;
SELECT try_each();
UPDATE parts SET gone = true WHERE id BETWEEN 6 AND 10;
SELECT try_each();
DROP TABLE parts, parts_seen;
DROP FUNCTION try_each;
DROP FUNCTION serves;
DROP COLLATION exact_where_ci;
