#!/bin/bash
# Measures SELECT DISTINCT through a filter beside HashAggregate and Sort + Unique, and
# approx_count_distinct beside count(DISTINCT) and hll.
#
# usage: test/bench/distinct.sh [distinct|count|parallel]...
#
#   BENCH_ROWS    rows of a table (5000000), 38 % of their keys distinct, in random order
#   BENCH_ROUNDS  how often each query runs (3)
#   BENCH_TYPES   bigint text two (two int4 columns)
#
# The queries of one comparison take turns, forwards and backwards, each in a session of
# its own. Prints the shortest and the median wall and CPU time of each (CPU of its backend;
# workers are not in it), the wall time of a row, how many times the filter's the wall time is,
# and what went to temporary files. Times never fail a run.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh
. test/bench/start.sh

comparisons=(distinct count parallel)
[ $# = 0 ] || comparisons=("$@")
for name in "${comparisons[@]}"; do
	case $name in distinct|count|parallel) ;; *) echo "distinct.sh: no such comparison: \"$name\"" >&2; exit 2 ;; esac
done

setup_packages bench
build_quietly
print_machine

# The tables are read from the operating system's cache; autovacuum would run beside.
test/pgtmp.sh --install . --in test/bench/sql \
	--set 'shared_buffers = 2GB' --set 'autovacuum = off' --set 'max_wal_size = 8GB' \
	--set 'max_parallel_workers = 8' -- \
	bash ./distinct_runs.sh "${BENCH_ROWS:-5000000}" "${BENCH_ROUNDS:-3}" "${BENCH_TYPES:-bigint text two}" "${comparisons[@]}" < /dev/null
