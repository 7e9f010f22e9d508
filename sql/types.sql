-- Values that SQL calls equal are one key, and values that it calls different are two. This is tested for every
-- built-in type that can be hashed, against its own = operator.

\set QUIET on
CREATE SCHEMA types_test;
SET search_path = types_test, public;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int8, b text);
CREATE TYPE nested AS (p pair, q int8[]);
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE DOMAIN short AS varchar(10) CHECK (VALUE <> 'no');
CREATE DOMAIN shorter AS short;
CREATE DOMAIN days AS date[];

-- Over all pairs of these spellings of values of a type: how many there are, how
-- many are different, and whether a filter with the one finds the other exactly
-- where the type says that they are equal; and the aggregate and the window
-- function must count as DISTINCT does.
CREATE FUNCTION keys_of(type text, spellings text[], OUT spelled bigint, OUT keys bigint,
		OUT pairs_right boolean,
	OUT agg_right boolean, OUT window_right boolean) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*), bool_and(
			dedup_contains(dedup_add(dedup_filter(10), a.v::%1$s), b.v::%1$s) IS NOT DISTINCT FROM
				(a.v::%1$s = b.v::%1$s) AND
			is_new(dedup_add(dedup_window(10), a.v::%1$s), b.v::%1$s) IS NOT DISTINCT FROM NOT
				(a.v::%1$s = b.v::%1$s))
		FROM unnest($1) a(v), unnest($1) b(v)', type) INTO spelled, pairs_right USING spellings;
	EXECUTE format('SELECT count(*) FROM (SELECT DISTINCT v::%s FROM unnest($1) v) x', type) INTO
		keys USING spellings;
	EXECUTE format('SELECT dedup_count(dedup_agg(v::%s)) = $2 FROM unnest($1) v', type) INTO
			agg_right USING spellings, keys;
	EXECUTE format('SELECT count(*) FILTER (WHERE is_new) = $2 FROM (SELECT dedup_is_new(v::%s) OVER () AS is_new FROM unnest($1) v) x',
			type)
		INTO window_right USING spellings, keys;
	spelled := cardinality(spellings);
END $$;
\set QUIET off

-- numbers: 2 = 2.0, -0 = 0, every NaN is one, and so on

SELECT type, k.* FROM (VALUES
	('int2', '{0,1,-1,32767,-32768,01}'::text[]),
	('int4', '{0,1,-1,2147483647,-2147483648,0001}'),
	('int8', '{0,1,-1,4294967296,4294967297,-4294967296,9223372036854775807,-9223372036854775808,0000}'),
	('numeric', '{2,2.0,2.000,20e-1,0,-0,0.0000,NaN,nan,1e100,1e-100,200,0.02,123456789012345678901234567890,123456789012345678901234567890.0}'),
	('numeric(10,2)', '{2,2.00,2.001,2.01,99999999.99}'),
	('float4', '{0,-0,0.0,NaN,nan,1.5,1.50,0.1,Infinity,-Infinity,1e-40,3.4e38}'),
	('float8', '{0,-0,0.0,NaN,nan,1.5,1.50,0.1,Infinity,-Infinity,1e-310,1.7e308}'),
	('oid', '{0,1,4294967295}'),
	('xid', '{0,1,4294967295}'),
	('xid8', '{0,1,4294967296,18446744073709551615}'),
	('cid', '{0,1,4294967295}'),
	('tid', '{"(0,0)","(0,1)","(1,0)","(65536,1)","(4294967295,65535)"}'),
	('pg_lsn', '{0/0,0/1,1/0,FFFFFFFF/FFFFFFFF,ffffffff/ffffffff}'),
	('bool', '{t,true,yes,on,1,f,false,no,off,0}')
) v(type, spellings), keys_of(type, spellings) k;

-- text: bytes, but for the blanks at the end of a char(n)

SELECT type, k.* FROM (VALUES
	('text', '{"",a,A,"a ",ab,ä,日本,"a\\b","\\x00"}'::text[]),
	('varchar', '{"",a,A,"a ",ab}'),
	('varchar(3)', '{abc,abcdef,"abc   "}'),
	('char(5)', '{"","  ",a,"a ","a    "," a",ab}'),
	('bpchar', '{"","  ",a,"a ","a    "," a",ab}'),
	('name', '{"",a,A,"a ",x23456789012345678901234567890123456789012345678901234567890123,x234567890123456789012345678901234567890123456789012345678901234567}'),
	('"char"', '{"",a,A," ",0}'),
	('bytea', '{"","\\x","\\x00","\\x0000","\\x61",a,"\\x0061","\\xFF","\\xff"}'),
	('uuid', '{550e8400-e29b-41d4-a716-446655440000,550E8400E29B41D4A716446655440000,"{550e8400-e29b-41d4-a716-446655440000}",550e8400-e29b-41d4-a716-446655440001}')
) v(type, spellings), keys_of(type, spellings) k;

-- times: an instant is one key however it is written, a month is 30 days, a day 24 hours

SELECT type, k.* FROM (VALUES
	('date', '{2024-02-29,"Feb 29 2024",2024-03-01,infinity,-infinity,"4713-01-01 BC"}'::text[]),
	('time', '{00:00,00:00:00.000001,01:11:34.967296,"12:00 AM",24:00,23:59:59.999999}'),
	('timetz', '{00:00+00,01:00+01,00:00+01,"12:00 AM+00",24:00+00}'),
	('timestamp', '{2000-01-01,"2000-01-01 00:00","2000-01-01 00:00:00.000001","2000-01-01 01:11:34.967296",infinity,-infinity,"1999-12-31 24:00"}'),
	('timestamptz', '{"2000-01-01 00:00+00","2000-01-01 01:00+01","2000-01-01 00:00+01",infinity,-infinity,"1999-12-31 16:00 America/Los_Angeles"}'),
	('interval', '{"1 month","30 days","720:00","1 day",24:00,"1440 min","1 mon -29 days","1 mon -30 days",0,"-1 day","-24:00","1 day -48:00","00:00:00.000001","01:11:34.967296","1 year","360 days","365 days","1 day -1 us","23:59:59.999999"}')
) v(type, spellings), keys_of(type, spellings) k;

-- addresses

SELECT type, k.* FROM (VALUES
	('inet', '{10.0.0.1,10.0.0.1/32,10.0.0.1/24,10.0.0.0/24,::1,::1/128,::ffff:10.0.0.1,0:0:0:0:0:0:0:1,::,0.0.0.0}'::text[]),
	('cidr', '{10.0.0.0/24,10.0.0/24,10.0.0.0/25,10,10.0.0.0/8,::/0,::1/128}'),
	('macaddr', '{08:00:2b:01:02:03,08-00-2B-01-02-03,08002b:010203,08:00:2b:01:02:04}'),
	('macaddr8', '{08:00:2b:01:02:03:04:05,08:00:2b:01:02:03,08:00:2b:ff:fe:01:02:03}')
) v(type, spellings), keys_of(type, spellings) k;

-- names of objects are their numbers

SELECT type, k.* FROM (VALUES
	('regclass', '{pg_class,pg_catalog.pg_class,pg_type}'::text[]),
	('regtype', '{int4,integer,int8,"double precision",float8}'),
	('regproc', '{now,pg_catalog.now,pg_backend_pid}'),
	('regprocedure', '{abs(int4),"pg_catalog.abs(integer)",abs(int8)}'),
	('regoper', '{||/,pg_catalog.||/,|/}'),
	('regoperator', '{"+(int4,int4)","+(integer,integer)","+(int8,int8)"}'),
	('regnamespace', '{pg_catalog,pg_toast}'),
	('regcollation', '{"\"C\"","\"POSIX\"","pg_catalog.\"C\""}'),
	('regrole', '{-,pg_monitor,pg_read_all_stats}'),
	('regconfig', '{simple,pg_catalog.simple,english}'),
	('regdictionary', '{simple,pg_catalog.simple,english_stem}')
) v(type, spellings), keys_of(type, spellings) k;

-- types that hold others: element by element, NULLs equal each other, and the shape counts

SELECT type, k.* FROM (VALUES
	('int4[]', '{"{}","{1}","{1,2}","{2,1}","{1,2,3,4}","{{1,2},{3,4}}","{{1},{2},{3},{4}}","{NULL}","{NULL,NULL}","{1,NULL}","{NULL,1}","[0:0]={1}","[2:3]={1,2}","[1:2]={1,2}"}'::text[]),
	('int8[]', '{"{}","{1}","{4294967296}","{1,1}","{1,1,1}"}'),
	('text[]', '{"{}","{\"\"}","{NULL}","{\"NULL\"}","{ab,c}","{a,bc}","{abc}","{ab , c}"}'),
	('numeric[]', '{"{2}","{2.0}","{2,NULL}","{2.00,NULL}"}'),
	('interval[]', '{"{1 month}","{30 days}","{1 mon,1 day}","{30 days,24:00}"}'),
	('days', '{"{2024-01-01}","{\"Jan 1 2024\"}","{2024-01-02}"}'),
	('mood[]', '{"{sad}","{sad,ok}","{ok,sad}"}'),
	('int2vector', '{"","1","1 2","2 1"}'),
	('oidvector', '{"","1","1 2","2 1"}'),
	('int4range', '{empty,"[1,1)","[1,2)","[1,1]","(0,1]","(,)","(,1)","[1,)","(1,)"}'),
	('int8range', '{empty,"[1,4)","[4294967296,17179869184)","(0,3]"}'),
	('numrange', '{empty,"[1,2)","[1.0,2.00)","(1,2)","[1,2]","(1,2]","(,2)","[,2)"}'),
	('tsrange', '{"[2000-01-01,2000-01-02)","[2000-01-01 00:00,2000-01-01 24:00)","[2000-01-01,2000-01-02]"}'),
	('tstzrange', '{"[2000-01-01 00:00+00,)","[2000-01-01 01:00+01,)","(2000-01-01 00:00+00,)"}'),
	('daterange', '{"[2000-01-01,2000-01-02)","[2000-01-01,2000-01-01]","(1999-12-31,2000-01-02)"}'),
	('textrange', '{"[a,b)","[A,b)","[a,b]"}'),
	('jsonb', '{"{}","1","1.0","\"1\"","[1, 2]","[2, 1]","{\"a\":1,\"b\":2}","{\"b\":2,\"a\":1}","{\"a\":1,\"b\":2.0}","{\"a\":null}","null","true","{\"a\":1,\"a\":2}","{\"a\":2}"}')
) v(type, spellings), keys_of(type, spellings) k;

-- multiranges, and infinite numerics, from PostgreSQL 14 on

SELECT type, CASE WHEN current_setting('server_version_num')::int < 140000 THEN true
	ELSE (SELECT k.keys = v.keys AND k.pairs_right AND k.agg_right AND k.window_right
		FROM keys_of(type, spellings) k) END AS right
FROM (VALUES
	('int4multirange', 5,
			'{"{}","{[1,2)}","{[1,1]}","{[1,2),[5,6)}","{[5,6),[1,2)}","{[1,3)}","{[1,2),[2,3)}","{(,)}"}'::text[]),
	('int8multirange', 2, '{"{[1,4)}","{[4294967296,17179869184)}"}'),
	('nummultirange', 2, '{"{[1,2)}","{[1.0,2.00)}","{[1,2]}"}'),
	('numeric', 4, '{0,NaN,Infinity,-Infinity,inf}')
) v(type, keys, spellings);

-- types of one's own: enums, domains, composite types, and arrays of these

SELECT type, k.* FROM (VALUES
	('mood', '{sad,ok,happy}'::text[]),
	('short', '{a,"a ",ab}'),
	('shorter', '{a,"a ",ab}'),
	('shorter[]', '{"{a}","{a,b}","{b,a}"}'),
	('pair', '{"(1,a)","(1,b)","(2,a)","(,)","(,a)","(1,)","(1,\"\")","(01,a)"}'),
	('pair[]', '{"{\"(1,a)\"}","{\"(1,a)\",\"(1,a)\"}","{NULL}","{\"(,)\"}"}'),
	('nested', '{"(\"(1,a)\",{1})","(\"(1,a)\",{4294967296})","(\"(1,a)\",)","(,)","(\"(,)\",)"}')
) v(type, spellings), keys_of(type, spellings) k;

-- integers of every width are one key, and so are both floats and all names of a text

SELECT bool_and(dedup_contains(f, 5::int2)) AND bool_and(dedup_contains(f, 5::int4))
	AND bool_and(dedup_contains(f, 5::int8)) AS one_integer
FROM (VALUES (dedup_add(dedup_filter(10), 5::int2)), (dedup_add(dedup_filter(10), 5::int4)),
		(dedup_add(dedup_filter(10), 5::int8))) v(f);
SELECT dedup_contains(dedup_add(dedup_filter(10), 1.5::float4), 1.5::float8) AS one_float,
	dedup_contains(dedup_add(dedup_filter(10), 0.1::float4), 0.1::float8)
		= (0.1::float4 = 0.1::float8) AS as_equality_says;
SELECT bool_and(dedup_contains(dedup_add(dedup_filter(10), 'ab'), 'ab'::text)) AND
	bool_and(dedup_contains(f, 'ab')) AND bool_and(dedup_contains(f, 'ab'::text))
		AND bool_and(dedup_contains(f, 'ab'::varchar)) AND
	bool_and(dedup_contains(f, 'ab'::char(9))) AND bool_and(dedup_contains(f, 'ab'::name))
		AND bool_and(dedup_contains(f, 'ab'::shorter)) AS one_text
FROM (VALUES (dedup_add(dedup_filter(10), 'ab')), (dedup_add(dedup_filter(10), 'ab'::varchar(3))),
		(dedup_add(dedup_filter(10), 'ab'::char(9))),
	(dedup_add(dedup_filter(10), 'ab'::name)), (dedup_add(dedup_filter(10), 'ab'::shorter))) v(f);
SELECT dedup_contains(dedup_add(dedup_filter(10), '10.0.0.0/8'::cidr), '10.0.0.0/8'::inet)
	= ('10.0.0.0/8'::cidr = '10.0.0.0/8'::inet) AS as_equality_says;

-- all 64 bits count: these pairs collide in the server's own hash functions, with any
-- seed, and are two keys here

SELECT hashint8extended(1, 7) = hashint8extended(4294967296, 7) AND
	timestamp_hash_extended('2000-01-01 00:00:00.000001', 7)
		= timestamp_hash_extended('2000-01-01 01:11:34.967296', 7) AND
	time_hash_extended('00:00:00.000001', 7) = time_hash_extended('01:11:34.967296', 7) AND
	interval_hash_extended('00:00:00.000001', 7) = interval_hash_extended('01:11:34.967296', 7) AND
	pg_lsn_hash_extended('0/1', 7) = pg_lsn_hash_extended('1/0', 7) AND
	hash_array_extended('{1}'::int8[], 7) = hash_array_extended('{4294967296}'::int8[], 7) AND
	hash_range_extended('[1,4)'::int8range, 7) = hash_range_extended('[4294967296,17179869184)'::int8range,
			7) AS collide_in_the_server;
SELECT (keys_of(type, spellings)).keys = 2 AND (keys_of(type, spellings)).pairs_right AS two_keys,
	type FROM (VALUES
	('int8', '{1,4294967296}'::text[]),
	('timestamp', '{"2000-01-01 00:00:00.000001","2000-01-01 01:11:34.967296"}'),
	('timestamptz', '{"2000-01-01 00:00:00.000001+00","2000-01-01 01:11:34.967296+00"}'),
	('time', '{"00:00:00.000001","01:11:34.967296"}'),
	('timetz', '{"00:00:00.000001+00","01:11:34.967296+00"}'),
	('interval', '{"00:00:00.000001","01:11:34.967296"}'),
	('pg_lsn', '{0/1,1/0}'),
	('xid8', '{1,4294967296}'),
	('int8[]', '{"{1}","{4294967296}"}'),
	('timestamp[]', '{"{2000-01-01 00:00:00.000001}","{2000-01-01 01:11:34.967296}"}'),
	('int8range', '{"[1,4)","[4294967296,17179869184)"}'),
	('pair', '{"(1,a)","(4294967296,a)"}'),
	('pair[]', '{"{\"(1,a)\"}","{\"(4294967296,a)\"}"}')) v(type, spellings);
SELECT count(DISTINCT hashint8extended(i, 7)) < 10000 AS few_in_the_server,
	dedup_count(dedup_agg(dedup_filter(1000000), i)) = 10000 AS all_here
FROM (SELECT i * 4294967297 AS i FROM generate_series(1, 10000) i) x;

-- an enum is its label: filters are the same when its type is made anew, with other numbers

CREATE TEMP TABLE by_label AS SELECT dedup_agg(m) AS filter FROM unnest(enum_range(NULL::mood)) m;
ALTER TYPE mood RENAME TO old_mood;
CREATE TYPE mood AS ENUM ('bored', 'happy', 'sad', 'ok');
SELECT dedup_contains(filter, 'happy'::mood) AS found,
	dedup_contains(filter, 'bored'::mood) AS not_found,
	dedup_contains(filter, 'ok') AS found_by_literal,
	(SELECT dedup_agg(m) FROM unnest(enum_range(NULL::mood)) m WHERE m <> 'bored')::text
	= filter::text AS same_bytes FROM by_label;
ALTER TYPE mood RENAME VALUE 'happy' TO 'glad';
SELECT dedup_contains(filter, 'glad'::mood) AS renamed_is_another FROM by_label;

-- a type of one's own is a key as soon as it has a hash function

\set QUIET on
SET client_min_messages = warning;
CREATE TYPE code;
CREATE FUNCTION code_in(cstring) RETURNS code LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION code_out(code) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE code (INPUT = code_in, OUTPUT = code_out, LIKE = text);
CREATE FUNCTION code_eq(code, code) RETURNS boolean LANGUAGE sql IMMUTABLE
	AS $$ SELECT upper($1::text) = upper($2::text) $$;
CREATE OPERATOR = (LEFTARG = code, RIGHTARG = code, FUNCTION = code_eq, HASHES);
CREATE FUNCTION code_hash(code) RETURNS int LANGUAGE sql IMMUTABLE
	AS $$ SELECT hashtext(upper($1::text)) $$;
\set VERBOSITY terse
\set QUIET off
SELECT dedup_add(dedup_filter(10), 'a'::code);
CREATE OPERATOR CLASS code_ops DEFAULT FOR TYPE code USING hash AS OPERATOR 1 =,
	FUNCTION 1 code_hash(code);
SELECT dedup_contains(dedup_add(dedup_filter(10), 'ab'::code), 'AB'::code) AS equal,
	is_new(dedup_add(dedup_filter(10), 'ab'::code), 'ac'::code) AS another,
	dedup_count(dedup_agg(v::code)) AS two,
	dedup_contains(dedup_add(dedup_filter(10), ARRAY['ab'::code]), ARRAY['Ab'::code]) AS in_an_array
	FROM unnest('{ab,AB,c}'::text[]) v;
RESET client_min_messages;
\set VERBOSITY default

-- a type without a hash function is named

\set VERBOSITY terse
SELECT dedup_add(dedup_filter(10), point '(1,1)');
SELECT dedup_contains(dedup_filter(10), '{}'::json);
SELECT is_new(dedup_filter(10), box '(1,1),(2,2)');
SELECT dedup_agg(money '1');
SELECT dedup_is_new(xml '<a/>') OVER ();
SELECT dedup_add(dedup_filter(10), 1, ARRAY[point '(1,1)']);
SELECT dedup_add(dedup_filter(10), ROW(1, ROW(2, json '{}')));
SELECT dedup_add_all(dedup_filter(10), ARRAY[json '{}']);
SELECT dedup_add(dedup_filter(10), cash_out(money '1'));
\set VERBOSITY default
SELECT dedup_add(dedup_filter(10), tsvector 'a');
\echo :LAST_ERROR_SQLSTATE

\set QUIET on
SET client_min_messages = warning;
DROP SCHEMA types_test CASCADE;
