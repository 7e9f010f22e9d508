-- Aggregates with parallel workers and without (workers.sh).

\pset footer off
SET client_min_messages = warning;
SET jit = off;
-- Two workers at any size of the table, and the plan with workers even where it is not cheaper.
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;

CREATE EXTENSION streamdedup;

CREATE UNLOGGED TABLE bench_keys AS
	SELECT hash % (:rows * 6 / 5) AS most, hash % 1000000 AS million, hash % 1000 AS few
	FROM (SELECT hashint8extended(i, 1) & 9223372036854775807 AS hash FROM generate_series(1, :rows::bigint) i) h;
VACUUM ANALYZE bench_keys;

CREATE TABLE bench_query (n int GENERATED ALWAYS AS IDENTITY, what text);
INSERT INTO bench_query (what) VALUES
	('dedup_count(dedup_agg(most))'), ('dedup_count(dedup_agg(million))'), ('dedup_count(dedup_agg(few))'),
	('dedup_count(dedup_agg(dedup_filter(1000000), million))'),
	('approx_count_distinct(most)'), ('approx_count_distinct(few)'), ('count(most)');
CREATE TABLE bench_way (w int, way text, workers int, leader text);
INSERT INTO bench_way VALUES (1, 'none', 0, 'off'), (2, 'two workers', 2, 'off'), (3, 'two and leader', 2, 'on');
CREATE TABLE bench_run (n int, w int, wall float8, leader float8, workers float8, answer bigint);

-- Seconds that this backend has worked.
CREATE FUNCTION leader_seconds() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9
$$;
-- Seconds that all ended children of the postmaster have worked: workers among them.
CREATE FUNCTION ended_seconds() RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[14]::float8 + f[15]::float8) / 100
	FROM regexp_split_to_array(regexp_replace(pg_read_file('/proc/' || split_part(pg_read_file('postmaster.pid'),
		E'\n', 1) || '/stat'), '^.*\) ', ''), ' ') AS f
$$;

-- Every other round goes backwards, so that nothing always follows the same one.
CREATE PROCEDURE bench(rounds int) LANGUAGE plpgsql AS $$
DECLARE
	q record;
	began timestamptz;
	ended float8;
	led float8;
	result bigint;
BEGIN
	FOR round IN 1..rounds LOOP
		FOR q IN SELECT * FROM bench_query, bench_way
			ORDER BY n, CASE WHEN round % 2 = 1 THEN w ELSE -w END
		LOOP
			PERFORM set_config('max_parallel_workers_per_gather', q.workers::text, false),
				set_config('parallel_leader_participation', q.leader, false);
			ended := ended_seconds();
			led := leader_seconds();
			began := clock_timestamp();
			EXECUTE format('SELECT %s FROM bench_keys', q.what) INTO result;
			INSERT INTO bench_run VALUES (q.n, q.w, extract(epoch FROM clock_timestamp() - began),
				leader_seconds() - led, ended_seconds() - ended, result);
			COMMIT;
		END LOOP;
	END LOOP;
END
$$;
CALL bench(:rounds);

WITH runs AS (
	SELECT n, w, min(wall) AS best, percentile_cont(0.5) WITHIN GROUP (ORDER BY wall) AS median,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY leader) AS leader,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY workers) AS workers,
		min(leader + workers / 2) AS way, percentile_cont(0.5) WITHIN GROUP (ORDER BY leader + workers / 2) AS median_way,
		min(answer) AS least, max(answer) AS most
	FROM bench_run GROUP BY n, w
)
SELECT what, way.way, round(r.best::numeric, 3) AS "best s", round(r.median::numeric, 3) AS "median s",
	round((none.best / r.best)::numeric, 2) AS "times none", round((none.median / r.median)::numeric, 2) AS "median",
	round(r.leader::numeric, 3) AS "CPU leader", round(r.workers::numeric, 2) AS "CPU workers",
	CASE WHEN r.w < 3 THEN round((none.way / nullif(r.way, 0))::numeric, 2) END AS "times none by CPU",
	CASE WHEN r.w < 3 THEN round((none.median_way / nullif(r.median_way, 0))::numeric, 2) END AS "median", r.least, r.most
FROM runs r JOIN runs none ON none.n = r.n AND none.w = 1
	JOIN bench_query q ON q.n = r.n JOIN bench_way way ON way.w = r.w
ORDER BY r.n, r.w;
