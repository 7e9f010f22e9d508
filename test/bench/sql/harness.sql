-- Runs the queries of a comparison in turns and prints their times.
--
-- A comparison is the rows of bench_query under one name; its first query is
-- what the others are compared with. Every query answers with one number,
-- which is printed too: a fast wrong answer would show. A query may have a setting,
-- "name=value".

\pset footer off
SET client_min_messages = warning;
-- One process, and no time spent on compiling: the same for all.
SET max_parallel_workers_per_gather = 0;
SET jit = off;

CREATE EXTENSION streamdedup;
CREATE EXTENSION hll;

SELECT version();

CREATE TABLE bench_query (name text, n int GENERATED ALWAYS AS IDENTITY, what text, work_mem text, query text,
	setting text);
CREATE TABLE bench_run (n int, round int, seconds float8, answer bigint);

-- Every other round goes backwards, so that no query always follows the same one.
CREATE PROCEDURE bench(name text, rounds int) LANGUAGE plpgsql AS $$
DECLARE
	q record;
	began timestamptz;
	result bigint;
BEGIN
	FOR round IN 1..rounds LOOP
		FOR q IN SELECT * FROM bench_query b WHERE b.name = bench.name
			ORDER BY CASE WHEN round % 2 = 1 THEN n ELSE -n END
		LOOP
			PERFORM set_config('work_mem', coalesce(q.work_mem, '4MB'), false),
				set_config(split_part(s, '=', 1), split_part(s, '=', 2), false)
			FROM coalesce(q.setting, 'streamdedup.streaming_window=on') s;
			began := clock_timestamp();
			EXECUTE q.query INTO result;
			INSERT INTO bench_run VALUES (q.n, round, extract(epoch FROM clock_timestamp() - began), result);
			COMMIT;
		END LOOP;
	END LOOP;
	RESET work_mem;
END
$$;

CREATE VIEW bench_report AS
	SELECT q.name, q.n, q.what, coalesce(q.work_mem, '4MB') AS work_mem,
		round(min(r.seconds)::numeric, 3) AS "min s",
		round(percentile_cont(0.5) WITHIN GROUP (ORDER BY r.seconds)::numeric, 3) AS "median s",
		round((min(r.seconds) / first_value(min(r.seconds)) OVER (PARTITION BY q.name ORDER BY q.n))::numeric, 2) AS "times the first",
		max(r.answer) AS answer
	FROM bench_query q JOIN bench_run r USING (n) GROUP BY q.name, q.n, q.what, q.work_mem;
