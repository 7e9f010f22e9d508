-- dedup_create() either follows an option of its prototype or refuses it. This is tried for
-- every method and each of its options.

CREATE FUNCTION pg_temp.created(prototype text, ttl interval DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	made dedup_filter;
	hint text;
	of_filter record;
	of_live record;
BEGIN
	EXECUTE 'SELECT ' || prototype INTO made;
	BEGIN
		PERFORM dedup_create('made', made, ttl);
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		RETURN SQLSTATE || CASE WHEN hint LIKE 'Give a filter of dedup_filter() or dedup_window(), or%' THEN ' and which are taken' ELSE '' END;
	END;
	SELECT * INTO of_filter FROM dedup_stats(made);
	SELECT * INTO of_live FROM dedup_stats('made');
	DROP TABLE made;
	IF (of_live.keys, of_live.fpr, of_live.seed, of_live.kind LIKE '%hash=sip') IS DISTINCT FROM
		(of_filter.keys, of_filter.fpr, of_filter.seed, of_filter.parameters LIKE '%hash=sip') THEN
		RETURN 'another filter';
	END IF;
	RETURN of_live.kind;
END $$;

-- all methods, by keys and by memory, with another hash, and with a ttl; but infini, which is
-- sized by neither

-- all that there are: the hint lists them
CREATE FUNCTION pg_temp.methods() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	PERFORM dedup_method('none', '1MB');
EXCEPTION WHEN invalid_parameter_value THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN QUERY SELECT unnest(string_to_array(substring(hint FROM '^The methods are: (.*)\.$'), ', '));
END $$;
CREATE TEMP TABLE methods AS SELECT method, place FROM pg_temp.methods() WITH ORDINALITY m(method, place)
WHERE method <> 'infini';
SELECT by_keys, by_memory, sip, timed, count(*) > 1 AS some, (array_agg(method ORDER BY place))[1:2] AS first FROM (
	SELECT method, place,
		pg_temp.created(format(CASE WHEN fpr IS NULL THEN 'dedup_method(%L, ''64kB'')' ELSE 'dedup_method(%L, NULL, ''keys=10000 fpr=0.003'', 7)' END,
			method)) AS by_keys,
		pg_temp.created(format('dedup_method(%L, ''100kB'', '''', 7)', method)) AS by_memory,
		pg_temp.created(format('dedup_method(%L, ''64kB'', ''hash=sip'', 7)', method)) AS sip,
		pg_temp.created(format('dedup_method(%L, ''64kB'', '''', 7)', method), '1 hour') AS timed
	FROM methods, LATERAL (SELECT s.fpr FROM dedup_stats(dedup_method(method, '64kB')) s) y) x GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

-- Each option of each method. An option that says what holds without it changes nothing. One
-- that only sets the rate is taken over as that rate.

SELECT method, options, pg_temp.created(format('dedup_method(%L, %L, %L, 7)', method,
		CASE WHEN options ~ 'window' THEN '64kB' END, options || CASE WHEN options ~ 'window' THEN '' ELSE ' keys=10000' END)) AS created
FROM (VALUES
	('blocked_bloom', 'k=3'), ('blocked_bloom', 'k=6'), ('bloom', 'k=3'), ('counting_bloom', 'k=3'),
	('ring', 'generations=16'), ('ring', 'generations=8'), ('ring', 'refresh=on'), ('ring', 'refresh=off'), ('ring', 'k=3'),
	('sbf', 'd=2'), ('sbf', 'd=1'), ('sbf', 'k=5'), ('sbf', 'p=20'),
	('rsbf', 'reading=text'), ('rsbf', 'reading=algorithm'), ('rsbf', 'reading=published'), ('rsbf', 'p_star=0.05'), ('rsbf', 'k=3'),
	('sqf', 'k=2'), ('sqf', 'r=20 r_prime=10'), ('sqf', 'pow2=on'), ('dsqf', 'k=2'), ('dsqf', 'r=20 r_prime=10'),
	('qht', 'k=2'), ('qht', 'bits=20'), ('qhtd', 'k=2'), ('qhtd', 'bits=20'),
	('qqht', 'k=2'), ('qqht', 'bits=20'), ('qqhtd', 'k=2'), ('qqhtd', 'bits=20'),
	('cuckoo', 'slots=2'), ('cuckoo', 'bits=20'), ('cuckoo', 'kicks=7'), ('cuckoo', 'kicks=20'), ('cuckoo', 'strict=on'), ('cuckoo', 'strict=off'),
	('quotient', 'r=20'), ('b_dbf', 'b=9'), ('b_dbf', 'b=7'), ('b_dbf', 'window=2000'),
	('fp_lru', 'q=0.2'), ('fp_lru', 'q=0.01'), ('apbf', 'k=12 l=50')) v(method, options);
SELECT dedup_create('refused', dedup_method('ring', NULL, 'keys=1000 refresh=on'));
SELECT dedup_create('refused', dedup_method('cuckoo', '64kB', 'strict=on'), '1 hour', true);
SELECT to_regclass('refused') IS NULL AS not_made;
-- a prototype that grows makes a live filter that grows
SELECT pg_temp.created('dedup_method(''infini'', NULL, ''fpr=0.003'', 7)') AS set,
	pg_temp.created('dedup_method(''infini'', NULL, ''hash=sip'', 7)', '1 hour') AS timed;

-- a prototype that holds a key is no prototype; the snapshot of a timed filter neither

SELECT dedup_create('refused', dedup_add(dedup_filter(1000), 1));
SELECT dedup_create('timed', dedup_window(1000), '1 hour');
SELECT dedup_create('refused', dedup_snapshot('timed'), '1 hour');
DROP TABLE timed;

-- A prototype can be too large for a live filter. The HINT says what can be larger: a filter that grows.
SELECT dedup_create('refused', dedup_filter(100000000, 0.0001));
SELECT dedup_create('refused', dedup_filter(100000000, 0.0001), '1 day');
SELECT dedup_create('refused', dedup_method('recent', NULL, 'keys=200000000'));
SELECT dedup_create('larger', fpr => 0.0001), dedup_create('larger_window', ttl => '1 day', fpr => 0.0001);
DROP TABLE larger, larger_window;

-- A snapshot of a live filter with a number of keys can be merged with a filter of the prototype that the HINT names.
SELECT dedup_create('sized', dedup_filter(2000, 0.003, 42)), dedup_create('sip', dedup_method('bloom', NULL, 'keys=2000 hash=sip', 42)),
	dedup_create('timed', dedup_filter(2000, 0.003, 42), ttl => '1 day'), dedup_create('grows', dedup_filter(seed => 42)), dedup_create('other', dedup_filter(seed => 43));
SELECT count(is_new(f, i)) FROM unnest('{sized,sip,timed,grows,other}'::regclass[]) f, generate_series(1, 100) i;
CREATE FUNCTION pg_temp.hint(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE query;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN SQLSTATE || ' ' || hint;
END $$;
SELECT f || ' and ' || v AS merged, pg_temp.hint(format('SELECT dedup_merge(%s, %s)', f, v)) AS hint
FROM (VALUES ('dedup_snapshot(''sized'')', 'dedup_agg(1)'), ('dedup_agg(dedup_filter(2000), 1)', 'dedup_snapshot(''sip'')'),
	('dedup_snapshot(''sized'')', 'dedup_snapshot(''sip'')'), ('dedup_snapshot(''timed'')', 'dedup_snapshot(''sized'')'),
	('dedup_snapshot(''grows'')', 'dedup_agg(dedup_filter(seed => 42), 1)'), ('dedup_snapshot(''grows'')', 'dedup_snapshot(''other'')')) q(f, v);
SELECT count(*) FILTER (WHERE dedup_contains(f, i)) AS found FROM generate_series(1, 200) i,
	(SELECT dedup_merge(dedup_snapshot('sized'), dedup_agg(dedup_method('fifo', NULL, 'keys=2000 fpr=0.003', 42), k)) AS f FROM generate_series(101, 200) k) m;
SELECT count(*) FILTER (WHERE dedup_contains(f, i)) AS found FROM generate_series(1, 200) i,
	(SELECT dedup_merge(dedup_snapshot('sip'), dedup_agg(dedup_method('fifo', NULL, 'keys=2000 fpr=0.01 hash=sip', 42), k)) AS f FROM generate_series(101, 200) k) m;
DROP TABLE sized, sip, timed, grows, other;
