-- hash=sip: filters whose keys are hashed with SipHash-2-4, for keys that an attacker may choose
-- (docs/operations.md).
\set QUIET on
CREATE SCHEMA hash_option;
SET search_path = hash_option, public;

-- the hash of a key: an exact filter holds it behind its 60 bytes of header
CREATE FUNCTION hash_of(key text, method text DEFAULT 'blocked_bloom', hash text DEFAULT 'sip') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found text;
BEGIN
	EXECUTE format('SELECT encode(substring(dedup_add(dedup_method(%L, %L, %L, 12345), %s)::bytea FROM 61), ''hex'')',
		method, CASE WHEN method <> 'infini' THEN '16kB' END, 'hash=' || hash, key) INTO found;
	RETURN found;
END $$;
\set QUIET off

-- SipHash-2-4 of the canonical bytes, by another implementation: integers are 8 bytes,
-- the rest is folded together 16 bytes at a time, and a NULL with the seed's complement

SELECT name, hash_of(key) = hash AS as_it_should, hash_of(key) FROM (VALUES
	('int2', '42::int2', '79a35b2caf500e39'),
	('int4', '42', '79a35b2caf500e39'),
	('int8', '42::int8', '79a35b2caf500e39'),
	('negative', '-42', '55d790d7629c164b'),
	('text', '''a''::text', '58f8f8a5242400bc'),
	('varchar', '''a''::varchar', '58f8f8a5242400bc'),
	('char(n)', '''a''::char(5)', '58f8f8a5242400bc'),
	('name', '''a''::name', '58f8f8a5242400bc'),
	('longer text', '''The quick brown fox jumps over the lazy dog''::text', '9b45b7e34029a17a'),
	('empty text', '''''::text', '54fb011565c3362b'),
	('uuid', '''00112233-4455-6677-8899-aabbccddeeff''::uuid', 'e6e5e65a07f30013'),
	('numeric', '1.50', '607de0d89c69dbbc'),
	('bytea', '''\x0001ff''::bytea', '23ab3d1893d36c49'),
	('array', 'ARRAY[1, 2]', '64beab1b2f4d6c9d'),
	('array of int8', 'ARRAY[1, 2]::int8[]', '64beab1b2f4d6c9d'),
	('array with null', 'ARRAY[''x'', NULL]::text[]', '1e512fb176fec283'),
	('record', 'ROW(1, ''a''::text)', '4837020eb62a7a47'),
	('record with null', 'ROW(1, NULL::int)', 'd4fe122754f005e4'),
	('two columns', '1, ''a''::text', '5c0cefde8566edc5'),
	('variadic', 'VARIADIC ARRAY[1, 2]', 'bd6ab964d23a4ddc')
) AS known(name, key, hash);

-- compressed and external text is the same key

CREATE TABLE wide (plain text, stored text);
ALTER TABLE wide ALTER stored SET STORAGE EXTERNAL;
INSERT INTO wide SELECT repeat('abc', 10000), repeat('abc', 10000);
SELECT dedup_contains(dedup_add(dedup_method('bloom', '1kB', 'hash=sip'), plain), stored) AS found,
	dedup_contains(dedup_add(dedup_method('bloom', '1kB', 'hash=sip'), plain), repeat('abc', 10000)) AS found_again FROM wide;

-- the same in every method; XXH3 is what there is without the option, and is another

SELECT bool_and(hash_of('42', method) = hash_of('42')) AS same,
	bool_and(hash_of('42', method, 'xxh3') = hash_of('42', 'bloom', 'xxh3')) AS same_xxh3,
	bool_or(hash_of('42', method, 'xxh3') = hash_of('42', method)) AS mixed_up
FROM dedup_advise(1000, 0.01);
SELECT dedup_method('recent', '64kB', 'hash=xxh3')::bytea = dedup_method('recent', '64kB')::bytea AS default_is_xxh3,
	dedup_method('recent', '64kB', 'hash=sip')::bytea = dedup_method('recent', '64kB')::bytea AS and_sip_is_not;

-- what is told of it, and what is no hash

SELECT parameters FROM dedup_stats(dedup_method('blocked_bloom', '64kB', 'hash=sip'));
SELECT parameters FROM dedup_stats(dedup_method('blocked_bloom', '64kB', 'hash=xxh3'));
SELECT dedup_method('blocked_bloom', '64kB', 'hash=md5');
SELECT dedup_method('blocked_bloom', '64kB', 'hash=sip hash=sip');
SELECT dedup_method('blocked_bloom', '64kB', 'hsh=sip');

-- filling, asking, full filters

CREATE TABLE filled AS SELECT dedup_agg(dedup_method('recent', NULL, 'keys=3000 hash=sip'), i) AS f FROM generate_series(1, 3000) i;
SELECT exact, parameters ~ 'hash=sip$' AS sip FROM filled, dedup_stats(f);
SELECT count(*) FILTER (WHERE dedup_contains(f, i)) > 2990 AS found,
	count(*) FILTER (WHERE dedup_contains(f, -i)) < 60 AS few_others FROM filled, generate_series(1, 3000) i;
SELECT dedup_agg(dedup_method('bloom', '2kB', 'hash=sip', 7), i)::text
	= dedup_add_all(dedup_method('bloom', '2kB', 'hash=sip', 7), array_agg(i))::text AS same_bytes FROM generate_series(1, 1000) i;
SELECT count(*) FILTER (WHERE new) FROM (SELECT dedup_is_new(dedup_method('recent', '64kB', 'hash=sip'), i % 100) OVER (ORDER BY i) AS new FROM generate_series(1, 1000) i) x;

-- out as text and in again, the binary too; a hash of a later release is no damage

CREATE TABLE kept (f dedup_filter, bytes text);
INSERT INTO kept SELECT f, f::text FROM (SELECT dedup_agg(dedup_method('blocked_bloom', '4kB', 'hash=sip', 99), i) AS f
	FROM (VALUES (10), (2000)) AS size(n), generate_series(1, n) i GROUP BY n) x;
SELECT bytes::dedup_filter::text = bytes AS whole, f::bytea::dedup_filter::text = bytes AS binary,
	to_hex(get_byte(f::bytea, 3)) AS form, (dedup_stats(bytes::dedup_filter)).parameters FROM kept ORDER BY dedup_count(f);
SELECT set_byte(f::bytea, 3, 47)::dedup_filter FROM kept LIMIT 1;
SELECT set_byte(f::bytea, 3, 32)::dedup_filter FROM kept LIMIT 1;
SELECT set_byte(f::bytea, 3, 0)::dedup_filter FROM kept WHERE dedup_count(f) = 10;

-- merges: like with like only

SELECT dedup_count(dedup_merge(dedup_add(p, 1), dedup_add(p, 2))) FROM (SELECT dedup_method('bloom', '1kB', 'hash=sip') AS p) x;
SELECT dedup_merge(dedup_method('bloom', '1kB', 'hash=sip'), dedup_method('bloom', '1kB'));
SELECT dedup_merge_agg(dedup_method('bloom', '1kB', o)) FROM unnest(ARRAY['hash=sip', 'hash=xxh3']) o;

-- live filters

SELECT dedup_create('live_sip', dedup_method('blocked_bloom', NULL, 'keys=10000 fpr=0.001 hash=sip', 12345));
SELECT dedup_create('live_xxh3', dedup_method('blocked_bloom', NULL, 'keys=10000 fpr=0.001', 12345));
SELECT dedup_create('live_day', dedup_method('recent', NULL, 'keys=10000 fpr=0.001 hash=sip', 12345), '1 day');
SELECT dedup_create('live_fifo', dedup_method('fifo', NULL, 'keys=10000 hash=sip', 12345));
SELECT count(*) FILTER (WHERE is_new('live_sip', i)) AS first, count(*) FILTER (WHERE is_new('live_sip', i)) AS second,
	count(*) FILTER (WHERE is_new('live_day', i)) AS day, count(*) FILTER (WHERE is_new('live_fifo', i)) AS fifo,
	count(*) FILTER (WHERE is_new('live_xxh3', i)) AS xxh3 FROM generate_series(1, 500) i;
SELECT count(*) FILTER (WHERE dedup_seen('live_sip', i)) AS there, count(*) FILTER (WHERE dedup_seen('live_sip', -i)) AS others FROM generate_series(1, 500) i;
SELECT dedup_forget('live_sip', 500), dedup_seen('live_sip', 500);
SELECT n, kind FROM unnest(ARRAY['live_sip', 'live_xxh3', 'live_day', 'live_fifo']) n, dedup_stats(n);
SELECT name, kind FROM dedup_filters WHERE name::text ~ 'live_(sip|xxh3)$' ORDER BY name::text;

-- a snapshot has the hash, and values of another are not loaded

SELECT (dedup_stats(s)).parameters ~ 'hash=sip$' AS sip, count(*) FILTER (WHERE dedup_contains(s, i)) AS there
FROM (SELECT dedup_snapshot('live_sip') AS s OFFSET 0) x, generate_series(1, 500) i GROUP BY 1;
SELECT dedup_load('live_xxh3', dedup_add(dedup_method('bloom', '1kB', 'hash=sip', 12345), 1));
SELECT dedup_load('live_sip', dedup_snapshot('live_xxh3'));
SELECT dedup_load('live_sip', dedup_add_all(dedup_method('bloom', '1kB', 'hash=sip', 12345), ARRAY[1, 1001])), is_new('live_sip', 1001);

-- out with COPY and in again, into a table that is made with the DEFAULT of a dump

COPY live_sip TO PROGRAM 'cat > hash_option.txt';
TRUNCATE live_sip;
COPY live_sip FROM PROGRAM 'cat hash_option.txt';
SELECT count(*) FILTER (WHERE dedup_seen('live_sip', i)) AS there, dedup_seen('live_sip', 1001) FROM generate_series(1, 499) i;
SELECT get_byte(p, 4) AS sip FROM (SELECT decode(substring(pg_get_expr(adbin, adrelid) FROM '''(.*)'''), 'base64') AS p
	FROM pg_attrdef WHERE adrelid = 'live_sip'::regclass) x;

-- a guard hashes with it

CREATE TABLE guarded (id int, word text);
SELECT dedup_guard('guarded', 'live_day', ARRAY['id', 'word']);
INSERT INTO guarded VALUES (1, 'a'), (1, 'a'), (1, 'b');
SELECT count(*) AS rows, dedup_seen('live_day', 1, 'b') AS seen, dedup_seen('live_day', 1, 'c') AS not_seen FROM guarded;
UPDATE guarded SET word = 'c' WHERE word = 'b';
SELECT dedup_seen('live_day', 1, 'c') AS seen;

\set QUIET on
DROP SCHEMA hash_option CASCADE;
