#!/bin/bash
# Measures this build beside another one, for example of an older version: has a change made
# anything slower?
#
# usage: test/bench/builds.sh OTHER
#
#   OTHER         a built folder
#   BENCH_ROUNDS  rounds (7)
#
# Each build has a server of its own; they take turns query by query in one run. Each session
# meets all pages of the filters first: later builds verify a page when they meet it. Prints the
# seconds of CPU of the backend, shortest and median, and how many times the other build's the
# shortest took, and the median of the ratios of the rounds. Never fails by them.

set -euo pipefail
. "$(dirname "$0")/other_build.sh"

for build in this other; do
	serve "$build" --set 'shared_buffers = 1GB' --set 'checkpoint_timeout = 1h' --set 'jit = off' \
		--set 'max_parallel_workers_per_gather = 0' --set 'work_mem = 64MB'
	ask "$build" > /dev/null 2>&1 <<-'SQL'
		CREATE EXTENSION streamdedup;
		CREATE FUNCTION cpu() RETURNS float8 LANGUAGE sql
		AS $$ SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9 $$;
		CREATE TABLE k AS SELECT hashint8extended(g, 7)::bigint AS a, g % 200000 AS g FROM generate_series(1, 3000000) g;
		CREATE TABLE d AS SELECT hashint8extended(g % 700000, 7)::bigint AS a FROM generate_series(1, 2000000) g;
		CREATE TABLE f AS SELECT dedup_agg(dedup_filter(1000000), a) AS f FROM (SELECT a FROM d LIMIT 300000) x;
		CREATE TABLE t (id bigint, v text);
		SELECT dedup_guard('t', dedup_create('t_seen', dedup_filter(20000000, 0.001)), '{id}');
		CREATE TABLE u (id bigint, v text);
		SELECT dedup_guard('u', dedup_create('u_seen', dedup_filter(20000000, 0.001)), '{id}', 'reject');
		CREATE TABLE e (id bigint, v text);
		CREATE INDEX ON e (id);
		SELECT dedup_guard('e', dedup_create('e_seen', dedup_filter(20000000, 0.001)), '{id}', exact => true);
		VACUUM ANALYZE;
	SQL
done

# measure WHAT ROUND SQL: by each build in turn, a line of results each.
measure() {
	local what=$1 round=$2 sql=$3 build builds=(this other)
	[ $((round % 2)) = 0 ] || builds=(other this)
	for build in "${builds[@]}"; do
		ask "$build" 2> /dev/null <<-SQL | tail -n 1 | sed "s/^/$what,$build,$round,/" >> "$tmp/results"
			LOAD 'streamdedup';
			SET streamdedup.approximate_distinct = on;
			SELECT count(*) FILTER (WHERE dedup_seen('t_seen', g)), count(*) FILTER (WHERE dedup_seen('u_seen', g)),
				count(*) FILTER (WHERE dedup_seen('e_seen', g))
			FROM generate_series(1, 200000::bigint) g;
			SELECT cpu() AS before \\gset
			$sql;
			SELECT cpu() - :before;
		SQL
	done
}

for round in $(seq 1 "${BENCH_ROUNDS:-7}"); do
	measure 'dedup_agg of 3 million keys' "$round" 'SELECT length(dedup_agg(dedup_filter(3000000), a)::text) FROM k'
	measure 'dedup_agg of 200000 groups' "$round" 'SELECT count(*) FROM (SELECT dedup_agg(a) FROM k GROUP BY g) x'
	measure 'dedup_is_new OVER 2 million rows' "$round" \
		'SELECT count(*) FROM (SELECT dedup_is_new(dedup_window(200000, 0.001), a) OVER () AS n FROM d) x WHERE n'
	measure 'SELECT DISTINCT of 2 million rows' "$round" 'SELECT count(*) FROM (SELECT DISTINCT a FROM d) x'
	measure 'dedup_contains of 2 million rows' "$round" 'SELECT count(*) FROM d, f WHERE dedup_contains(f, a)'
	measure 'guarded INSERT of 300000 new rows' "$round" \
		"INSERT INTO t SELECT $round * 300000 + g, 'x' FROM generate_series(1, 300000) g"
	measure 'guarded INSERT of 300000 duplicates' "$round" \
		"INSERT INTO t SELECT $round * 300000 + g, 'x' FROM generate_series(1, 300000) g"
	measure 'exact: INSERT of 300000 new rows' "$round" \
		"INSERT INTO e SELECT $round * 300000 + g, 'x' FROM generate_series(1, 300000) g"
	measure 'exact: INSERT of 300000 duplicates' "$round" \
		"INSERT INTO e SELECT $round * 300000 + g, 'x' FROM generate_series(1, 300000) g"
	measure '20000 guarded INSERTs of one row' "$round" \
		"DO 'BEGIN FOR i IN 1..20000 LOOP EXECUTE format(\$\$INSERT INTO u VALUES (%s, NULL)\$\$, i + $round * 20000); END LOOP; END'"
done

ask this -c 'CREATE TABLE result (what text, build text, round int, cpu float8)' \
	-c "\\copy result FROM '$tmp/results' (FORMAT csv)" -P format=aligned -P tuples_only=off -P footer=off -c "
	SELECT a.what, round(min(a.cpu)::numeric, 3) AS \"shortest\", round((percentile_cont(0.5) WITHIN GROUP (ORDER BY a.cpu))::numeric, 3) AS median,
		round((min(a.cpu) / min(b.cpu))::numeric, 3) AS \"shortest/other\",
		round((percentile_cont(0.5) WITHIN GROUP (ORDER BY a.cpu / b.cpu))::numeric, 3) AS \"median ratio\"
	FROM result a JOIN result b USING (what, round) WHERE a.build = 'this' AND b.build = 'other' GROUP BY a.what ORDER BY a.what"
