-- What distinct_runs.sh notes its runs in.
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;
CREATE EXTENSION hll;
ALTER DATABASE postgres SET session_preload_libraries = 'streamdedup';
CREATE TABLE run (n int GENERATED ALWAYS AS IDENTITY, comparison text, type text, what text, work_mem text,
	wall float8, cpu float8, temp bigint, answer bigint);

-- Seconds that this backend has worked, by the kernel's count of hundredths.
CREATE FUNCTION cpu_seconds() RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[12]::float8 + f[13]::float8) / 100
	FROM regexp_split_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '^.*\) ', ''), ' ') AS f
$$;

-- The keys of all tables: 38 % of them distinct, in random order.
CREATE FUNCTION bench_key(i bigint, rows bigint) RETURNS bigint IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT (hashint8extended(i, 1) & 9223372036854775807) % (rows * 42 / 100)
$$;
