-- Bad parameters: each a clear error, with the SQLSTATE and a hint that helps.

\set QUIET on
-- SQLSTATE and message of the error of a statement, in one line
CREATE FUNCTION pg_temp.error(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
\set QUIET off

-- number of keys

SELECT dedup_filter(0);
SELECT dedup_filter(2000000000000);
SELECT keys, pg_temp.error(format('SELECT dedup_filter(%s)', keys)) AS dedup_filter,
	pg_temp.error(format('SELECT dedup_window(%L)', keys)) AS dedup_window,
	pg_temp.error(format('SELECT * FROM dedup_advise(%L)', keys)) AS dedup_advise
FROM unnest('{-9223372036854775808,-1,0,1099511627777,9223372036854775807}'::int8[]) keys;
SELECT pg_temp.error('SELECT dedup_filter(1)') AS one,
	pg_temp.error('SELECT dedup_window(1)') AS one_too;

-- false-positive rate

SELECT dedup_filter(1000, 0);
SELECT fpr, pg_temp.error(format('SELECT dedup_filter(1000, %L)', fpr)) AS dedup_filter,
	pg_temp.error(format('SELECT dedup_window(1000, %L)', fpr))
		= pg_temp.error(format('SELECT dedup_filter(1000, %L)', fpr)) AS dedup_window_too,
	pg_temp.error(format('SELECT * FROM dedup_advise(1000, %L)', fpr))
		= pg_temp.error(format('SELECT dedup_filter(1000, %L)', fpr)) AS dedup_advise_too
FROM unnest('{-0.01,0,9e-10,1e-9,0.5,0.500001,0.6,1,2,NaN,Infinity,-Infinity,1e-300}'::float8[]) fpr;

-- too large: a filter takes at most 512 MB

SELECT dedup_filter(1000000000, 0.001);
\echo :LAST_ERROR_SQLSTATE
SELECT call, pg_temp.error('SELECT ' || call) AS error FROM (VALUES
	('dedup_filter(54000000000)'), ('dedup_filter(1099511627776, 0.5)'),
	('dedup_filter(1000000000, 0.00001)'), ('dedup_window(1000000000)'),
	('dedup_window(1099511627776, 0.5)'),
	('dedup_method(''ring'', NULL, ''keys=1000000000'')'), ('dedup_method(''bloom'', ''513MB'')'),
	('dedup_method(''blocked_bloom'', ''1GB'')'), ('dedup_method(''recent'', ''2047MB'')'),
	('dedup_method(''ring'', ''537919488'')')) v(call);
SELECT count(*) AS no_advice FROM dedup_advise(1099511627776, 0.5);
SELECT bytes_full = 512 * 1024 * 1024 + 64 AS as_large_as_can_be
FROM dedup_stats(dedup_method('blocked_bloom', '512MB'));

-- method

\set VERBOSITY terse
SELECT dedup_method('bloomier', '1MB');
\set VERBOSITY default
SELECT name, pg_temp.error(format('SELECT dedup_method(%L, ''1MB'')', name)) AS error
FROM unnest('{"",bloo,blooms,Bloom," bloom","blocked bloom"}'::text[]) name;

-- memory

SELECT dedup_method('bloom', 'abc');
SELECT memory, pg_temp.error(format('SELECT dedup_method(''bloom'', %L)', memory)) AS error
FROM unnest('{"",0,-1,-1MB,abc,1TB,1PB,2GB,0.2B,NaN,Infinity,63,"64 kilobytes","1 MB ;","1e400"}'::text[]) memory;
SELECT memory, bytes_full - 64 AS bytes
FROM unnest('{64,64B,1kB,"1 kB"," 1kB ",1.5kB,0x100,1e3,1MB,0.5MB}'::text[]) memory,
	dedup_stats(dedup_method('bloom', memory));
SELECT method, pg_temp.error(format('SELECT dedup_method(%L, %L)', method, memory)) AS too_small
FROM (VALUES ('blocked_bloom', '63'), ('bloom', '63'), ('recent', '63'), ('ring', '511'),
		('ring', '16'), ('fifo', '6591')) v(method, memory);
SELECT dedup_method('bloom', '64', 'fpr=1e-9 k=1');

-- memory or keys, one of the two

SELECT dedup_method('bloom', '1MB', 'keys=10');
SELECT dedup_method('bloom', NULL);
SELECT dedup_method('bloom', NULL, 'fpr=0.1');

-- options: unknown ones are errors that list those there are, and so on

SELECT dedup_method('bloom', '1MB', 'depth=3');
SELECT dedup_method('bloom', '1MB', 'generations=8');
SELECT dedup_method('ring', '1MB', 'generations=9');
SELECT dedup_method('bloom', '1MB', 'k=3 k=3');
SELECT dedup_method('recent', '1MB', 'k=3');
SELECT dedup_method('bloom', '1MB', 'k');
SELECT method, options,
	pg_temp.error(format('SELECT dedup_method(%L, %L, %L)', method, memory, options)) AS error
FROM (VALUES
	('bloom', '1MB', '='), ('bloom', '1MB', '=3'), ('bloom', '1MB', 'k='), ('bloom', '1MB', 'k=0'),
	('bloom', '1MB', 'k=33'), ('bloom', '1MB', 'k=-1'), ('bloom', '1MB', 'k=2.5'),
	('bloom', '1MB', 'k=1e1'),
	('bloom', '1MB', 'k=3x'), ('bloom', '1MB', 'K=3'), ('bloom', '1MB', 'k==3'),
	('bloom', '1MB', 'k = 3'), ('bloom', '1MB', 'k=99999999999999999999'),
	('bloom', '1MB', 'k=1111111111111111111111111111111111'),
	('bloom', '1MB', 'fpr=0'), ('bloom', '1MB', 'fpr=0.6'), ('bloom', '1MB', 'fpr=nan'),
	('bloom', '1MB', 'fpr=inf'), ('bloom', '1MB', 'fpr=1e-999'), ('bloom', '1MB', 'fpr=1e-'),
	('bloom', '1MB', 'fpr=.'), ('bloom', '1MB', 'fpr=0.01.1'),
	('bloom', NULL, 'keys=0'), ('bloom', NULL, 'keys=-5'), ('bloom', NULL, 'keys=1.5'),
	('bloom', NULL, 'keys=1099511627777'),
	('ring', '1MB', 'refresh=maybe'), ('ring', '1MB', 'refresh=1'), ('ring', '1MB', 'refresh='),
	('ring', '1MB', 'generations=0'), ('ring', '1MB', 'generations=24'),
	('ring', '1MB', 'generations=8.5'),
	('blocked_bloom', '1MB', 'k=17'), ('ring', '1MB', 'k=41'), ('bloom', '1MB', 'fpr=0.01;drop=1'),
	('bloom', '1MB', 'ключ=1')) v(method, memory, options);

-- these are right

SELECT options, method, keys, fpr, parameters LIKE wanted AS parameters FROM (VALUES
	('bloom', 'keys=1000', '%'), ('bloom', ' keys=1000,fpr=1e-3 ', '%'),
	('bloom', E'\tkeys=1000\n fpr=.05', '%'), ('bloom', 'fpr=5.e-2 keys=0001000', '%'),
	('blocked_bloom', 'keys=1000 k=16 fpr=1E-2', 'k=16 %'),
	('ring', 'keys=1000 refresh=on generations=16', '% generations=16 refresh=on %'),
	('ring', 'refresh=false,keys=1000,generations=8,k=5', 'k=5 generations=8 refresh=off %'),
	('recent', 'keys=1000 fpr=5e-1', '%')) v(name, options, wanted),
	dedup_stats(dedup_method(name, NULL, options));

-- NULL parameters give NULL, but for advice there must be a number

SELECT dedup_filter(NULL) IS NULL AND dedup_filter(10, NULL) IS NULL
	AND dedup_filter(10, 0.1, NULL) IS NULL AS dedup_filter,
	dedup_window(NULL) IS NULL AND dedup_window(10, NULL) IS NULL
		AND dedup_window(10, 0.1, NULL) IS NULL AS dedup_window,
	dedup_method(NULL, '1MB') IS NULL AND dedup_method('bloom', '1MB', NULL) IS NULL
		AND dedup_method('bloom', '1MB', '', NULL) IS NULL AS dedup_method;
SELECT * FROM dedup_advise(NULL, deletes => true);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM dedup_advise(1000, NULL);
