#!/bin/bash
# Measures an exact guard beside an approximate guard, a trigger that asks EXISTS, no check
# at all, and a unique index on a table without partitions.
#
# usage: test/bench/guards.sh [daily|partitions]...
#
#   daily       a click table of 30 daily partitions, once for each of BENCH_BUFFERS
#   partitions  guards, EXISTS and no check in as many partitions as BENCH_DAYS says, with the
#               first of BENCH_BUFFERS: an exact guard, and an approximate guard of a table
#               without an index on the key, since that guard searches none
#
#   BENCH_PRESENT 20000000 rows in each table before, BENCH_ROWS 1000000 rows inserted at a
#   time, BENCH_ROUNDS 3, BENCH_BUFFERS '6GB 128MB' (shared_buffers), BENCH_DAYS '30 300 1000'
#
# What is compared takes turns in one run. Prints microseconds of CPU of the backend and
# of wall time for each row, ratios, and how many rows each table stored. Never fails by them.
# Needs 30 GB of disk; with BENCH_PRESENT=2000000 BENCH_ROWS=100000 2 GB and some minutes.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh

comparisons=(daily partitions)
[ $# = 0 ] || comparisons=("$@")
read -ra buffers <<< "${BENCH_BUFFERS:-6GB 128MB}"
setup_packages bench
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make -j2 > "$log" 2>&1 || { cat "$log" >&2; exit 1; }

# compare SHARED_BUFFERS DAYS KIND...: the kinds of tables, on a server of their own.
compare() {
	local shared=$1 days=$2
	shift 2
	echo "== $days partitions, shared_buffers $shared"
	test/pgtmp.sh --install . --in test/bench/sql --set "shared_buffers = $shared" --set 'autovacuum = off' \
		--set 'max_wal_size = 16GB' --set 'checkpoint_timeout = 1h' --set 'full_page_writes = on' -- \
		psql -Xq -v ON_ERROR_STOP=1 -v present="${BENCH_PRESENT:-20000000}" -v rows="${BENCH_ROWS:-1000000}" \
		-v rounds="${BENCH_ROUNDS:-3}" -v days="$days" -v kinds="{$(IFS=,; echo "$*")}" -f guards.sql < /dev/null
}

for comparison in "${comparisons[@]}"; do
	case $comparison in
		daily)
			for shared in "${buffers[@]}"; do
				compare "$shared" 30 exact approximate exists none unique
			done
			;;
		partitions)
			for days in ${BENCH_DAYS:-30 300 1000}; do
				compare "${buffers[0]}" "$days" exact no_index exists none
			done
			;;
		*) echo "guards.sh: no such comparison: \"$comparison\"" >&2; exit 2 ;;
	esac
done
