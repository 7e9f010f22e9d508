-- The indexes that an exact guard can use.

SET client_min_messages = warning;

CREATE COLLATION exact_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE served (a text, b text COLLATE exact_ci, c int[], d varchar(10));
SELECT dedup_create('served_seen', dedup_filter(1000));
CREATE FUNCTION serves(definition text, key text[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'CREATE INDEX served_idx ON served ' || definition;
	PERFORM dedup_guard('served', 'served_seen', key, exact => true);
	PERFORM dedup_unguard('served');
	DROP INDEX served_idx;
	RETURN 'serves';
EXCEPTION WHEN object_not_in_prerequisite_state THEN RETURN 'does not';
END $$;
SELECT definition, key, serves(definition, key) FROM (VALUES
	(1, '(a)', '{a}'::text[]), (2, '(a DESC NULLS LAST)', '{a}'), (3, '(a, b)', '{b,a}'), (4, '(b, a, c)', '{a,b}'), (5, '(a, c, b)', '{a,b}'),
	(6, '(a) INCLUDE (b)', '{a,b}'), (7, 'USING hash (a)', '{a}'), (8, '(a text_pattern_ops)', '{a}'), (9, '(a COLLATE "C")', '{a}'),
	(10, '(a COLLATE exact_ci)', '{a}'), (11, '(b)', '{b}'), (12, '(b COLLATE "C")', '{b}'), (13, 'USING hash (b)', '{b}'), (14, '(lower(a))', '{a}'), (15, '(a, lower(b))', '{a}'),
	(16, '(a) WHERE a IS NOT NULL', '{a}'), (17, '(a) WHERE a > ''''', '{a}'), (18, '(a) WHERE b IS NOT NULL', '{a,b}'), (19, '(c)', '{c}'), (20, 'USING gin (c)', '{c}'), (21, '(d)', '{d}'),
	(22, '(d varchar_pattern_ops)', '{d}'), (23, 'USING brin (a)', '{a}'), (24, '(a, a)', '{a,b}')) AS x (n, definition, key) ORDER BY n;
SELECT dedup_guard('served', 'served_seen', '{b}', exact => true);
CREATE INDEX ON served (b);
SELECT dedup_guard('served', 'served_seen', '{b}', exact => true);
INSERT INTO served (b) VALUES ('One'), ('ONE'), ('two') RETURNING b;
UPDATE served SET b = 'TWO' WHERE b = 'two' RETURNING b;
UPDATE served SET b = 'two' WHERE b = 'one';
-- An invalid index does not serve.
CREATE TABLE invalid (x int);
INSERT INTO invalid VALUES (1), (1);
CREATE UNIQUE INDEX CONCURRENTLY ON invalid (x);
DELETE FROM invalid;
SELECT dedup_create('invalid_seen', dedup_filter(1000));
SELECT dedup_guard('invalid', 'invalid_seen', '{x}', exact => true);
REINDEX INDEX invalid_x_idx;
SELECT dedup_guard('invalid', 'invalid_seen', '{x}', exact => true);
DROP TABLE served, served_seen, invalid, invalid_seen;
DROP FUNCTION serves;
DROP COLLATION exact_ci;
