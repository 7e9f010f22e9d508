-- After a load, the keys of each line of a filter are in the order of the partitions' bounds, oldest
-- first: as if the rows had come one by one. The lines are read from the dump
-- (src/live/page_type.hpp).

CREATE SCHEMA exact_load_age;
SET search_path = exact_load_age, public;

CREATE FUNCTION u32(b bytea, at int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
	'SELECT get_byte(b, at) + get_byte(b, at + 1) * 256 + get_byte(b, at + 2) * 65536 + get_byte(b, at + 3)::bigint * 16777216';

-- the slots in use, of 4 bytes, 16 a line, 103 lines behind the entries of a page

CREATE FUNCTION slots(filter regclass) RETURNS TABLE (block bigint, line int, slot int, key bigint)
LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		SELECT u32(b, 48), l, s, u32(b, head + 64 * l + 4 * s)
		FROM (SELECT b, 64 + 16 * u32(b, 56)::int AS head
			FROM (SELECT decode(page::text, ''base64'') AS b FROM %s OFFSET 0) decoded
			WHERE get_byte(b, 2) = 1) page,
			generate_series(0, 102) l, generate_series(0, 15) s
		WHERE length(b) > head AND u32(b, head + 64 * l + 4 * s) <> 0', filter);
END $$;

-- how many slots of `older` are not among the first, as many in number, of the same line of `loaded`

CREATE FUNCTION elsewhere(older regclass, loaded regclass) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s of %s', count(*) FILTER (WHERE l.slot IS NULL OR l.slot >= o.keys), count(*))
	FROM (SELECT *, count(*) OVER (PARTITION BY block, line) AS keys FROM slots(older)) o
		LEFT JOIN slots(loaded) l USING (block, line, key)
$$;

-- neither names nor ages of the partitions are in the order of their bounds

CREATE TABLE p (k int, d int) PARTITION BY RANGE (d);
CREATE TABLE p_a PARTITION OF p FOR VALUES FROM (30) TO (40);
CREATE TABLE p_b PARTITION OF p FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (d);
CREATE TABLE p_c PARTITION OF p_b FOR VALUES FROM (20) TO (30);
CREATE TABLE p_d PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p_e PARTITION OF p_b FOR VALUES FROM (10) TO (20);
CREATE INDEX ON p (k);
INSERT INTO p SELECT i, i * 7919 % 40 FROM generate_series(1, 2000) i;
INSERT INTO p VALUES (NULL, 5);

-- filters with the keys of the oldest partitions alone

CREATE TABLE older_10 AS SELECT k FROM p WHERE d < 10;
CREATE TABLE older_20 AS SELECT k FROM p WHERE d < 20;
CREATE TABLE older_30 AS SELECT k FROM p WHERE d < 30;
SELECT count(dedup_create('f_' || n, dedup_filter(2500, 1e-6, 1))) FROM unnest('{10,20,30,all,attached}'::text[]) n;
SELECT dedup_guard('older_10', 'f_10', '{k}', load => true);
SELECT dedup_guard('older_20', 'f_20', '{k}', load => true);
SELECT dedup_guard('older_30', 'f_30', '{k}', load => true);

SELECT dedup_guard('p', 'f_all', '{k}', exact => true);
SELECT elsewhere('f_10', 'f_all'), elsewhere('f_20', 'f_all'), elsewhere('f_30', 'f_all');
SELECT new, count, in_flight, overflow_pages FROM dedup_stats('f_all');
SELECT count(*) FROM p WHERE dedup_seen('f_all', k);
SELECT * FROM dedup_check('f_all');
SELECT dedup_unguard('p');

-- where lines are full, they have the oldest keys: a page has room for 1545

SELECT count(dedup_create('small_' || n, dedup_filter(500, 1e-6, 1))) FROM unnest('{10,all}'::text[]) n;
CREATE TABLE oldest AS TABLE older_10;
SELECT dedup_guard('oldest', 'small_10', '{k}', load => true);
SELECT dedup_guard('p', 'small_all', '{k}', exact => true);
SELECT elsewhere('small_10', 'small_all');
SELECT count(*) > 50 AS full_lines FROM (SELECT FROM slots('small_all') GROUP BY block, line HAVING count(*) = 15) l;
SELECT count(*) FROM p WHERE dedup_seen('small_all', k);
SELECT * FROM dedup_check('small_all');
SELECT dedup_unguard('p');

-- a table with partitions that is attached

CREATE TABLE root (k int, d int) PARTITION BY RANGE (d);
CREATE INDEX ON root (k);
SELECT dedup_guard('root', 'f_attached', '{k}', exact => true);
ALTER TABLE root ATTACH PARTITION p FOR VALUES FROM (0) TO (40);
SELECT elsewhere('f_10', 'f_attached'), elsewhere('f_20', 'f_attached'), elsewhere('f_30', 'f_attached');

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA exact_load_age CASCADE;
