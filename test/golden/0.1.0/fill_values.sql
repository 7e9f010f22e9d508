-- Filters that are values: every method in every form, every option, and keys of every type whose
-- bytes are canonical. Written by make.sh into values.tsv, which later versions must read.
-- The column "prototype" is the expression that the filter was made from.
SET client_min_messages = error;

CREATE TABLE value (name text PRIMARY KEY, prototype text, filter dedup_filter);

CREATE FUNCTION made(prototype text, first int, last int) RETURNS dedup_filter LANGUAGE plpgsql AS $$
DECLARE
	made dedup_filter;
BEGIN
	-- In the order of the keys: what windows remember depends on it.
	EXECUTE format('SELECT coalesce(dedup_agg(%1$s, k ORDER BY k), %1$s) FROM generate_series(%2$s, %3$s) k', prototype, first, last)
		INTO made;
	RETURN made;
END $$;

CREATE TABLE prototype (name text, prototype text, keys int DEFAULT 600);
INSERT INTO prototype (name, prototype)
SELECT method, format('dedup_method(%L, ''1kB'', '''', 7)', method)
FROM unnest('{blocked_bloom,bloom,counting_bloom,cuckoo,quotient,recent,ring,a2,b_dbf,apbf,lru,fp_lru,sbf,rsbf,sqf,dsqf,qht,qhtd,qqht,qqhtd,exaloglog,count_min}'::text[]) method;
INSERT INTO prototype VALUES ('infini', 'dedup_filter(seed => 7)', 600), ('fifo', 'dedup_method(''fifo'', ''8kB'', '''', 7)', 1800);
-- A quotient filter raises an error when it is full.
UPDATE prototype SET keys = 200 WHERE name = 'quotient';

INSERT INTO value SELECT name || ': empty', prototype, made(prototype, 1, 0) FROM prototype;
INSERT INTO value SELECT name || ': exact', prototype, made(prototype, 1, 20) FROM prototype;
INSERT INTO value SELECT name || ': full', prototype, made(prototype, 1, keys) FROM prototype;
INSERT INTO value
SELECT name || ': merged', prototype, dedup_merge(made(prototype, 1, keys * 2 / 3), made(prototype, keys / 2, keys))
FROM prototype WHERE name <> 'rsbf';	-- which cannot be merged

-- Options that change the bytes.
INSERT INTO prototype (name, prototype)
SELECT method || ' ' || options, format('dedup_method(%L, ''1kB'', %L, 7)', method, options)
FROM (VALUES ('blocked_bloom', 'hash=sip'), ('recent', 'hash=sip'), ('exaloglog', 'hash=sip'), ('count_min', 'hash=sip'),
	('blocked_bloom', 'k=3'), ('bloom', 'k=3'), ('counting_bloom', 'k=3'), ('bloom', 'fpr=0.3'),
	('ring', 'generations=16'), ('ring', 'refresh=on'), ('apbf', 'k=12 l=10'), ('sbf', 'd=3 p=5'),
	('rsbf', 'reading=text'), ('rsbf', 'reading=algorithm'), ('sqf', 'r=3 r_prime=2'), ('dsqf', 'r=3 r_prime=2 k=2'),
	('qht', 'bits=9 k=2'), ('qhtd', 'bits=9 k=2'), ('qqht', 'bits=9 k=2'), ('qqhtd', 'bits=9 k=2'),
	('cuckoo', 'bits=11 slots=2'), ('cuckoo', 'strict=on'), ('quotient', 'r=9'), ('fp_lru', 'q=0.1'), ('count_min', 'conservative=on')) o(method, options);
UPDATE prototype SET keys = 200 WHERE name = 'quotient r=9';
INSERT INTO prototype VALUES ('infini fpr=0.2', 'dedup_filter(NULL, 0.2, 7)'), ('infini fpr=1e-7', 'dedup_filter(NULL, 1e-7, 7)'),
	('dedup_filter 300', 'dedup_filter(300, 0.001, 7)'), ('dedup_filter 1e-6', 'dedup_filter(300, 1e-6, 7)'),
	('dedup_window 200', 'dedup_window(200, 0.001, 7)');
INSERT INTO value
SELECT name || ': full', prototype, made(prototype, 1, keys) FROM prototype WHERE name || ': full' NOT IN (SELECT name FROM value);
INSERT INTO value VALUES ('infini: full, several steps', 'dedup_filter(seed => 7)', made('dedup_filter(seed => 7)', 1, 3000));

-- Live filters as values, in lines and of one with entries; and the state of a partial aggregate.
SELECT dedup_create('snapped', dedup_filter(1000, 0.01, 7)),
	dedup_create('snapped_day', dedup_window(1000, 0.001, 7), ttl => '1 day'),
	dedup_create('snapped_grows', dedup_filter(NULL, 0.0001, 7));
SELECT count(is_new('snapped', k)), count(is_new_at('snapped_day', '2025-01-01 00:00+00'::timestamptz + k * interval '1 minute', k)),
	count(is_new('snapped_grows', k))
FROM generate_series(1, 600) k;
INSERT INTO value VALUES ('snapshot of a set: full', NULL, dedup_snapshot('snapped')),
	('snapshot of a window of time: full', NULL, dedup_snapshot('snapped_day')),
	('snapshot of one that grows: full', NULL, dedup_snapshot('snapped_grows'));
INSERT INTO value SELECT 'partial state: full', NULL, dedup_agg_hashes_partial(dedup_filter(seed => 7), dedup_hash(dedup_filter(seed => 7), k))::text::dedup_filter
FROM generate_series(1, 600) k;

-- Keys of every type, in filters that are exact: a key is found only if its 64-bit hash is the same.
INSERT INTO value VALUES ('types, xxh3: exact', 'dedup_filter(1000, 0.01, 7)', dedup_filter(1000, 0.01, 7)),
	('types, sip: exact', 'dedup_method(''bloom'', NULL, ''keys=1000 hash=sip'', 7)', dedup_method('bloom', NULL, 'keys=1000 hash=sip', 7));
DO $$
DECLARE
	t typed;
BEGIN
	FOR t IN SELECT * FROM typed ORDER BY id LOOP
		EXECUTE format('UPDATE value SET filter = dedup_add(filter, %s) WHERE name LIKE ''types%%''', t.key);
	END LOOP;
END $$;
