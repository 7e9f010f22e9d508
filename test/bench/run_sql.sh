#!/bin/bash
# Measures the extension's SQL functions beside what one would do without them.
#
# usage: test/bench/run_sql.sh [aggregate|window|groups|plpgsql|distinct_parallel]...
#
#   BENCH_ROWS    rows of the large tables (10000000)
#   BENCH_GROUPS  groups of ten rows each (200000)
#   BENCH_ADDS    keys added one by one in PL/pgSQL (100000)
#   BENCH_ROUNDS  how often each query runs (3)
#
# The queries of one comparison take turns, so that whatever else the machine
# does meets all of them. Prints the shortest and the median time of each, and
# how many times the first one's shortest time it took. Times never fail a run.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh
. test/bench/start.sh

comparisons=(aggregate window groups plpgsql distinct_parallel)
[ $# = 0 ] || comparisons=("$@")
files=()
for name in "${comparisons[@]}"; do
	[ -f "test/bench/sql/$name.sql" ] || { echo "run_sql.sh: no such comparison: \"$name\"" >&2; exit 2; }
	files+=(-f "$name.sql")
done

setup_packages bench
build_quietly
print_machine

# The tables fit into memory; autovacuum would run beside the queries.
test/pgtmp.sh --install . --in test/bench/sql \
	--set 'shared_buffers = 1GB' --set 'autovacuum = off' --set 'max_wal_size = 8GB' -- \
	psql -Xq -v ON_ERROR_STOP=1 -v rows="${BENCH_ROWS:-10000000}" -v groups="${BENCH_GROUPS:-200000}" \
	-v adds="${BENCH_ADDS:-100000}" -v rounds="${BENCH_ROUNDS:-3}" -f harness.sql "${files[@]}" < /dev/null
