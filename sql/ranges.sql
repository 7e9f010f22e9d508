-- The ranges and numbers of the manual, each at its edge and just beyond it.

SET client_min_messages = error;
CREATE FUNCTION pg_temp.state(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- rates: 1e-9 to 0.5

SELECT call, pg_temp.state(format(call, '9.99e-10'::float8)) AS below, pg_temp.state(format(call, '1e-9'::float8)) AS least,
	pg_temp.state(format(call, '0.5')) AS most, pg_temp.state(format(call, '0.50000000000000011'::float8)) AS above
FROM (VALUES ('SELECT dedup_filter(10, %s)'), ('SELECT dedup_window(10, %s)'), ('SELECT * FROM dedup_advise(10, %s)'),
	('SELECT dedup_method(''bloom'', NULL, ''keys=10 fpr=%s'')'), ('SELECT dedup_method(''bloom'', ''64kB'', ''fpr=%s'')'),
	('SELECT dedup_method(''fp_lru'', NULL, ''keys=10 q=%s'')')) v(call);
SELECT dedup_filter(10, 0.5000001);
SELECT dedup_window(10, 9.9999999e-10);
SELECT * FROM dedup_advise(10, 0.50000000000000011);
SELECT dedup_method('bloom', NULL, 'keys=10 fpr=0.5000001');

-- numbers of keys: 1 to 2^40, as far as the filter stays within 512 MB

SELECT call, pg_temp.state(format(call, '0')) AS below, pg_temp.state(format(call, '1')) AS least,
	pg_temp.state(format(call, '1099511627776')) AS most, pg_temp.state(format(call, '1099511627777')) AS above
FROM (VALUES ('SELECT dedup_filter(%s)'), ('SELECT dedup_window(%s)'), ('SELECT * FROM dedup_advise(%s)'),
	('SELECT dedup_method(''bloom'', NULL, ''keys=%s'')'), ('SELECT dedup_method(''b_dbf'', ''64kB'', ''window=%s'')')) v(call);
-- the largest that a filter of 512 MB takes, and one key more
CREATE FUNCTION pg_temp.most(call text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	good bigint := 1;
	bad bigint := 1099511627776;
BEGIN
	WHILE bad - good > 1 LOOP
		CASE pg_temp.state(format(call, (good + bad) / 2))
			WHEN 'ok' THEN good := (good + bad) / 2;
			WHEN '54000' THEN bad := (good + bad) / 2;
		END CASE;
	END LOOP;
	RETURN good;
END $$;
SELECT function, s.bytes_full BETWEEN 535000000 AND 512 * 1024 * 1024 + 64 AS is_512_mb FROM (VALUES
	('dedup_filter', dedup_filter(pg_temp.most('SELECT dedup_filter(%s)'))),
	('dedup_window', dedup_window(pg_temp.most('SELECT dedup_window(%s)')))) v(function, f), dedup_stats(f) s;
DO $$
DECLARE
	most bigint := pg_temp.most('SELECT dedup_method(''fifo'', NULL, ''keys=%s'')');
BEGIN
	PERFORM dedup_create('largest', dedup_window(most));
	PERFORM dedup_create('larger', dedup_window(most + 1));
END $$;
DROP TABLE IF EXISTS largest, larger;

-- dedup_filter() makes blocked_bloom, and bloom below 0.0001; a window is recent

SELECT (dedup_stats(dedup_filter(10, 0.0001))).method AS from_here, (dedup_stats(dedup_filter(10, 0.000099999999))).method AS below,
	(dedup_stats(dedup_window(10))).method AS window;

-- memory: any number of bytes with a unit, at most 512 MB, for every method

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
CREATE TEMP TABLE methods AS SELECT method, place FROM pg_temp.methods() WITH ORDINALITY m(method, place);
SELECT b1, mb512, one_more, mb513, gb2, gb4, tb100, count(*) > 20 AS many, (array_agg(method ORDER BY place))[1:3] AS first FROM (
	SELECT method, place, pg_temp.state(format('SELECT dedup_method(%L, ''1B'')', method)) AS b1,
		pg_temp.state(format('SELECT dedup_method(%L, ''512MB'')', method)) AS mb512,
		pg_temp.state(format('SELECT dedup_method(%L, ''536870913'')', method)) AS one_more,
		pg_temp.state(format('SELECT dedup_method(%L, ''513MB'')', method)) AS mb513,
		pg_temp.state(format('SELECT dedup_method(%L, ''2GB'')', method)) AS gb2,
		pg_temp.state(format('SELECT dedup_method(%L, ''4GB'')', method)) AS gb4,
		pg_temp.state(format('SELECT dedup_method(%L, ''100000000TB'')', method)) AS tb100
	FROM methods) x GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7;
SELECT memory, pg_temp.state(format('SELECT dedup_method(''bloom'', %L)', memory)) FROM unnest('{65536,65536B,64kB,0.0625MB,64 kB,0x10000,64KB,64mb,0,-1,-64kB,0.4,nan,inf,1e400,much,""}'::text[]) memory;
SELECT dedup_method('bloom', '2GB');
SELECT dedup_method('exaloglog', '600MB');

-- every filter takes 64 bytes while it is empty; infini is sized by no amount of memory

SELECT count(*) > 20 AS methods, min(pg_column_size(dedup_method(method, CASE WHEN method <> 'infini' THEN '64kB' END))) AS least, max(pg_column_size(dedup_method(method, CASE WHEN method <> 'infini' THEN '64kB' END))) AS most FROM methods;
SELECT pg_column_size(dedup_filter(1)) AS small, pg_column_size(dedup_filter(400000000)) AS large, pg_column_size(dedup_window(200000000)) AS window;

-- seeds: any bigint

SELECT (dedup_stats(dedup_filter(10, 0.01, -9223372036854775808))).seed AS least, (dedup_stats(dedup_filter(10, 0.01, 9223372036854775807))).seed AS most;

-- the options of dedup_method() by the reference

SELECT methods, option, least, most, string_agg(DISTINCT concat_ws(' ', below_state, least_state, most_state, above_state), ', ') AS below_least_most_above FROM (
	SELECT *, pg_temp.state(format('SELECT dedup_method(%L, %L, %L)', method, memory, format('%s=%s %s', option, below, rest))) AS below_state,
		pg_temp.state(format('SELECT dedup_method(%L, %L, %L)', method, memory, format('%s=%s %s', option, least, rest))) AS least_state,
		pg_temp.state(format('SELECT dedup_method(%L, %L, %L)', method, memory, format('%s=%s %s', option, most, rest))) AS most_state,
		pg_temp.state(format('SELECT dedup_method(%L, %L, %L)', method, memory, format('%s=%s %s', option, above, rest))) AS above_state
	FROM (VALUES
		(1, 'blocked_bloom', 'k', '0', '1', '16', '17', '64kB', ''),
		(2, 'bloom counting_bloom', 'k', '0', '1', '32', '33', '64kB', ''),
		(3, 'ring', 'k', '0', '1', '40', '41', '64kB', ''),
		(4, 'ring', 'generations', '7', '8', '16', '17', '64kB', ''),
		(5, 'ring', 'generations', '0', '8', '16', '24', '64kB', ''),
		(6, 'sbf rsbf', 'k', '0', '1', '32', '33', '64kB', ''),
		(7, 'sqf', 'k', '0', '1', '32', '33', '64kB', 'r=40 r_prime=20'),
		(8, 'dsqf', 'k', '0.124', '0.125', '64', '64.1', '64kB', ''),
		(9, 'qht qhtd qqht qqhtd', 'k', '0', '1', '32', '33', '64kB', 'bits=20'),
		(10, 'qht qhtd qqht qqhtd', 'bits', '0', '1', '40', '41', '64kB', 'k=1'),
		(11, 'apbf', 'k', '0', '1', '48', '49', '64kB', 'l=50'),
		(12, 'apbf', 'l', '0', '1', '64', '65', '64kB', 'k=20'),
		(13, 'sbf', 'd', '0', '1', '8', '9', '64kB', ''),
		(14, 'sbf', 'p', '0', '1', '1048576', '1048577', '1MB', 'd=1'),
		(15, 'rsbf', 'p_star', '-1', '0', '1', '1.01', '64kB', ''),
		(16, 'sqf dsqf', 'r', '0', '1', '63', '64', '64kB', 'r_prime=1'),
		(17, 'sqf dsqf', 'r_prime', '0', '1', '48', '49', '64kB', 'r=63'),
		(18, 'cuckoo', 'slots', '0', '1', '8', '9', '64kB', ''),
		(19, 'cuckoo', 'bits', '1', '2', '40', '41', '64kB', ''),
		(20, 'cuckoo', 'kicks', '0', '1', '1000', '1001', '64kB', ''),
		(21, 'quotient', 'r', '0', '1', '54', '55', '64kB', ''),
		(22, 'b_dbf', 'b', '1', '2', '255', '256', '64kB', ''),
		(23, 'count_min', 'epsilon', '9.9e-10', '0.001', '0.9', '0.91', NULL, ''),
		(24, 'count_min', 'epsilon', '0', '1e-9', '0.9', '1', NULL, 'delta=0.9'),
		(24, 'count_min', 'delta', '9.9e-10', '1e-9', '0.9', '0.91', NULL, 'epsilon=0.1'),
		(25, 'exaloglog', 'error', '0.0000499', '0.00005', '0.5', '0.501', NULL, '')
		) v(n, methods, option, below, least, most, above, memory, rest), unnest(string_to_array(methods, ' ')) method) x
GROUP BY n, methods, option, least, most ORDER BY n;
SELECT method, option, value, pg_temp.state(format('SELECT dedup_method(%L, ''64kB'', %L)', method, option || '=' || value)) FROM (VALUES
	('ring', 'refresh', 'on off true false 1 yes'), ('cuckoo', 'strict', 'on off 1'), ('sqf', 'pow2', 'on off 1'), ('dsqf', 'pow2', 'on'),
	('count_min', 'conservative', 'on off 1'), ('rsbf', 'reading', 'published text algorithm paper'), ('bloom', 'hash', 'xxh3 sip sha1')) v(method, option, vals),
	unnest(string_to_array(vals, ' ')) value;

-- exaloglog: p from 4 to 26; 1,792 keys are exact in 16 kB, and in approx_count_distinct()

SELECT substring((dedup_stats(dedup_method('exaloglog', memory))).parameters FROM 'p=\d+') AS p, memory FROM unnest('{1kB,4kB,16kB,64kB,1MB,512MB}'::text[]) memory;
SELECT (dedup_stats(dedup_method('exaloglog', NULL, 'error=0.5'))).parameters ~ 'p=4 ' AS least, (dedup_stats(dedup_method('exaloglog', NULL, 'error=0.00005'))).parameters ~ 'p=26 ' AS most;
SELECT n, (dedup_stats(f)).exact FROM unnest('{1792,1793}'::int[]) n, LATERAL (SELECT dedup_agg(dedup_method('exaloglog', '16kB'), i) AS f FROM generate_series(1, n) i) x;
SELECT approx_count_distinct(i) FROM generate_series(1, 1792) i;

-- count_min: 'epsilon=0.001 delta=0.01' is 54,380 bytes and exact up to 3,398 keys

SELECT n, exact, bytes_full - 64 AS bytes FROM unnest('{3398,3399}'::int[]) n, LATERAL (SELECT dedup_agg(dedup_method('count_min', NULL, 'epsilon=0.001 delta=0.01'), i) AS f FROM generate_series(1, n) i) x, dedup_stats(f);

-- a ttl: 0.7 seconds to 30 years, in which a month has 30 days

SELECT ttl, pg_temp.state(format('SELECT dedup_create(''timed'', dedup_window(10), %L); DROP TABLE timed', ttl)) FROM unnest('{0.699999 s,0.7 s,30 years,30 years 0.000001 s,10800 days,259200 hours,10801 days,31 years,-1 day,0}'::interval[]) ttl;
SELECT dedup_create('timed', dedup_window(10), '31 years');

-- an event time: as far as 32 bits count seconds from 1970, or tenths of one from 2025 where the ttl is below 7 seconds

SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT dedup_create('seven', dedup_window(10), '7 s'), dedup_create('short', dedup_window(10), '0.7 s'), dedup_create('day', dedup_window(10), '1 day');
SELECT name, at, pg_temp.state(format('SELECT is_new_at(%L::regclass, %L, 1)', name, at)) FROM (VALUES
	('seven', timestamptz '2106-02-07 06:27:58.999999+00'), ('seven', '2106-02-07 06:27:59+00'), ('seven', 'infinity'), ('seven', '-infinity'), ('seven', '1900-01-01 00:00+00'),
	('short', '2038-08-12 00:38:47.899999+00'), ('short', '2038-08-12 00:38:47.9+00'), ('short', 'infinity'),
	('day', '2106-02-07 06:27:58.999999+00'), ('day', '2106-02-07 06:27:59+00'), ('day', 'infinity')) v(name, at);
DROP TABLE seven, short, day;

-- a guard's key has at most 32 columns

DO $$
BEGIN
	EXECUTE format('CREATE TABLE wide (%s)', (SELECT string_agg(format('c%s int', i), ', ') FROM generate_series(1, 33) i));
END $$;
SELECT dedup_create('wide_seen', dedup_filter(10));
SELECT n, pg_temp.state(format('SELECT dedup_guard(''wide'', ''wide_seen'', coalesce(%L::text[], ''{}''))', (SELECT array_agg('c' || i) FROM generate_series(1, n) i)::text)) FROM unnest('{0,33,32}'::int[]) n;
DROP TABLE wide, wide_seen;

-- settings: a rate of 1e-8 to 0.1, and -1 or at least 64 kB of memory

SELECT setting, value, pg_temp.state(format('SELECT set_config(%L, %L, true)', 'streamdedup.' || setting, value)) FROM (VALUES
	('distinct_fpr', '9.9e-9 1e-8 0.1 0.1000001'), ('distinct_memory', '-2 -1 0 63kB 64kB 1GB')) v(setting, vals), unnest(string_to_array(vals, ' ')) value;

-- the stored format: the codes in operations.md, of the methods that version 0.1.0 has

SELECT string_agg(get_byte(f::bytea, 2) || ' ' || method, ', ' ORDER BY get_byte(f::bytea, 2)) AS codes FROM methods, dedup_method(method, CASE WHEN method <> 'infini' THEN '64kB' END) f
WHERE get_byte(f::bytea, 2) <= 24;
SELECT DISTINCT length(f::bytea) AS header, get_byte(f::bytea, 0) AS first, get_byte(f::bytea, 1) AS version FROM methods, dedup_method(method, CASE WHEN method <> 'infini' THEN '64kB' END) f;

-- bytes a key of a live filter, down to the rates in live-filters.md; a window of rate 0.001 holds 406,000 keys for each MB

CREATE FUNCTION pg_temp.bytes_a_key(fpr float8, ttl interval) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	size bigint;
BEGIN
	PERFORM dedup_create('sized', dedup_filter(1000000, fpr, 1), ttl);
	PERFORM count(is_new('sized', i)) FROM generate_series(1, 20000) i;
	SELECT bytes INTO size FROM dedup_stats('sized');
	DROP TABLE sized;
	RETURN round(size / 1e6, 1);
END $$;
SELECT fpr, ttl, pg_temp.bytes_a_key(fpr, ttl) FROM (VALUES (0.01, NULL::interval), (0.0005, NULL), (0.0000012, NULL), (0.004, '1 day'), (0.00001, '1 day')) v(fpr, ttl);
SELECT (dedup_stats(dedup_method('recent', '1MB', 'fpr=0.001'))).keys / 1000 AS thousand_keys;
SELECT n, pg_column_size(dedup_agg(f, i)) AS bytes FROM (VALUES (1, dedup_filter(1000000)), (2, dedup_method('count_min', NULL, 'epsilon=0.001 delta=0.01'))) v(n, f), generate_series(1, 10) i GROUP BY n ORDER BY n;
