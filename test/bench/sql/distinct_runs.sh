#!/bin/bash
# What distinct.sh runs beside its server.
#
# usage: distinct_runs.sh ROWS ROUNDS TYPES COMPARISON...

set -euo pipefail
rows=$1 rounds=$2 types=$3
shift 3

query() {
	psql -XqAt -v ON_ERROR_STOP=1 "$@"
}

query -v rows="$rows" -f distinct_setup.sql

# measure COMPARISON TYPE WHAT WORK_MEM SETTINGS QUERY
measure() {
	query -v comparison="$1" -v type="$2" -v what="$3" -v work_mem="$4" -v rows="$rows" <<-SQL
		SET work_mem = '$4';
		SET max_parallel_workers_per_gather = 0;
		SET jit = off;
		$5
		SELECT cpu_seconds() AS cpu, clock_timestamp() AS began, temp_bytes AS temp FROM pg_stat_database WHERE datname = current_database() \gset
		$6 \gset
		SELECT cpu_seconds() - :cpu AS cpu, extract(epoch FROM clock_timestamp() - :'began') AS wall \gset
		SELECT pg_stat_force_next_flush() \g /dev/null
		INSERT INTO run (comparison, type, what, work_mem, wall, cpu, temp, answer) SELECT :'comparison', :'type', :'what', :'work_mem', :wall, :cpu, temp_bytes - :temp, :answer
		FROM pg_stat_database WHERE datname = current_database();
	SQL
}

# Runs the lines "what|work_mem|settings|query" of a comparison in turns.
turns() {
	local comparison=$1 type=$2 round line lines what work_mem settings sql
	mapfile -t lines
	for ((round = 1; round <= rounds; round++)); do
		for line in "${lines[@]}"; do
			IFS='|' read -r what work_mem settings sql <<< "$line"
			measure "$comparison" "$type" "$what" "$work_mem" "$settings" "$sql"
		done
		mapfile -t lines < <(printf '%s\n' "${lines[@]}" | tac)
	done
	query -A -t -P footer=off -v comparison="$comparison" -v type="$type" -v rows="$rows" -f distinct_report.sql
}

for type in $types; do
	query -v rows="$rows" -f "distinct_$type.sql"
	columns=k
	[ "$type" != two ] || columns='a, b'
	distinct="SELECT count(*) AS answer FROM (SELECT DISTINCT $columns FROM t) s"
	for comparison in "$@"; do
		case $comparison in
			distinct)
				turns distinct "$type" <<-LINES
					filter|4MB|SET streamdedup.approximate_distinct = on;|$distinct
					HashAggregate|4MB|SET enable_sort = off;|$distinct
					Sort + Unique|4MB|SET enable_hashagg = off;|$distinct
					filter|1GB|SET streamdedup.approximate_distinct = on;|$distinct
					HashAggregate|1GB|SET enable_sort = off;|$distinct
					Sort + Unique|1GB|SET enable_hashagg = off;|$distinct
					only reading|4MB||SELECT count(*) AS answer FROM (SELECT $columns FROM t OFFSET 0) s
				LINES
				;;
			parallel)
				[ "$type" != two ] || continue
				few="SELECT count(*) AS answer FROM (SELECT DISTINCT few FROM t) s"
				turns parallel "$type" <<-LINES
					filter, few keys|4MB|SET streamdedup.approximate_distinct = on;|$few
					filter, few keys, two workers|4MB|SET streamdedup.approximate_distinct = on; SET max_parallel_workers_per_gather = 2;|$few
					HashAggregate, few keys, two workers|4MB|SET max_parallel_workers_per_gather = 2;|$few
					filter|4MB|SET streamdedup.approximate_distinct = on;|$distinct
					filter, two workers|4MB|SET streamdedup.approximate_distinct = on; SET max_parallel_workers_per_gather = 2; SET parallel_tuple_cost = 0;|$distinct
					approx_count_distinct(k)|4MB||SELECT approx_count_distinct(k) AS answer FROM t
					approx_count_distinct(k), two workers|4MB|SET max_parallel_workers_per_gather = 2;|SELECT approx_count_distinct(k) AS answer FROM t
				LINES
				;;
			count)
				[ "$type" != two ] || continue
				turns count "$type" <<-LINES
					approx_count_distinct(k)|4MB||SELECT approx_count_distinct(k) AS answer FROM t
					hll_add_agg|4MB||SELECT (#hll_add_agg(hll_hash_$type(k), 14))::bigint AS answer FROM t
					count(DISTINCT k)|4MB||SELECT count(DISTINCT k) AS answer FROM t
					count(DISTINCT k)|1GB||SELECT count(DISTINCT k) AS answer FROM t
					only reading|4MB||SELECT count(k) AS answer FROM t
				LINES
				;;
		esac
	done
	query -c 'DROP TABLE t'
done
