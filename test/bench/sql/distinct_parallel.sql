-- SELECT DISTINCT through a filter with two workers beside none: wall time, and the processor time
-- of the leader and of all processes. On a busy machine the second says more: half of it is what two
-- idle processors take, if the work is shared evenly.
--
-- 38 % of the keys k are distinct, in random order; few has 1,000 values. "rows" hands each row to
-- the leader, which the planner avoids by its costs, so they are set to 0.

CREATE UNLOGGED TABLE bench_bigint AS
	SELECT (hashint8extended(i, 1) & 9223372036854775807) % (:rows * 42 / 100) AS k,
		(hashint8extended(i, 3) & 9223372036854775807) % 1000 AS few FROM generate_series(1, :rows::bigint) i;
CREATE UNLOGGED TABLE bench_text AS SELECT md5(k::text) AS k, md5(few::text) AS few FROM bench_bigint;
VACUUM ANALYZE bench_bigint, bench_text;

-- Seconds of this backend, and of the server's processes that have ended. The second counts in
-- hundredths, and workers have ended when their query has.
CREATE FUNCTION bench_own_cpu() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9
$$;
CREATE FUNCTION bench_ended_cpu() RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[14]::float8 + f[15]::float8) / 100
	FROM regexp_split_to_array(regexp_replace(pg_read_file('/proc/' || split_part(pg_read_file('postmaster.pid'), E'\n', 1) || '/stat'),
		'^.*\) ', ''), ' ') AS f
$$;
CREATE TABLE bench_pair (n int GENERATED ALWAYS AS IDENTITY, type text, what text, tuple_cost text, query text);
CREATE TABLE bench_process (n int, workers int, wall float8, leader float8, cpu float8, answer bigint);

CREATE PROCEDURE bench_pairs(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	p record;
	count int;
	began timestamptz;
	own float8;
	ended float8;
	result bigint;
BEGIN
	FOR round IN 1..rounds LOOP
		FOR p IN SELECT * FROM bench_pair ORDER BY n LOOP
			-- Every other round the workers come first.
			FOREACH count IN ARRAY CASE WHEN round % 2 = 1 THEN '{0, 2}' ELSE '{2, 0}' END::int[] LOOP
				PERFORM set_config('max_parallel_workers_per_gather', count::text, false),
					set_config('parallel_tuple_cost', p.tuple_cost, false);
				ended := bench_ended_cpu();
				own := bench_own_cpu();
				began := clock_timestamp();
				EXECUTE p.query INTO result;
				INSERT INTO bench_process VALUES (p.n, count, extract(epoch FROM clock_timestamp() - began),
					bench_own_cpu() - own, bench_own_cpu() - own + bench_ended_cpu() - ended, result);
				COMMIT;
			END LOOP;
		END LOOP;
	END LOOP;
	SET max_parallel_workers_per_gather = 0;
END $$;

INSERT INTO bench_pair (type, what, tuple_cost, query)
	SELECT type, what, tuple_cost, format(query, type)
	FROM (VALUES ('bigint'), ('text')) types (type), (VALUES
		(1, 'DISTINCT k, count(*)', '0.1', 'SELECT count(*) FROM (SELECT DISTINCT k FROM bench_%1$s) s'),
		(2, 'DISTINCT k, rows', '0', 'SELECT count(*) FROM (SELECT DISTINCT k FROM bench_%1$s OFFSET 0) s'),
		(3, 'DISTINCT few', '0.1', 'SELECT count(*) FROM (SELECT DISTINCT few FROM bench_%1$s) s'),
		(4, 'only reading: count(k)', '0.1', 'SELECT count(k) FROM bench_%1$s')
	) queries (n, what, tuple_cost, query)
	ORDER BY type, n;
LOAD 'streamdedup';
SET streamdedup.approximate_distinct = on;
SELECT pg_read_file('/proc/loadavg') AS "load before";
CALL bench_pairs(:rounds);
SELECT pg_read_file('/proc/loadavg') AS "load after";
RESET streamdedup.approximate_distinct;

\echo :rows 'rows, two workers'
SELECT type, what, workers, round(min(wall)::numeric, 3) AS "wall s",
	round(percentile_cont(0.5) WITHIN GROUP (ORDER BY wall)::numeric, 3) AS "median wall s",
	round(min(cpu)::numeric, 3) AS "CPU s",
	round(percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu)::numeric, 3) AS "median CPU s",
	round(percentile_cont(0.5) WITHIN GROUP (ORDER BY leader)::numeric, 3) AS "median leader CPU s",
	max(answer) AS answer
FROM bench_pair JOIN bench_process USING (n) GROUP BY n, type, what, workers ORDER BY n, workers;
DROP TABLE bench_bigint, bench_text;
