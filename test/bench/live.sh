#!/bin/bash
# Measures live filters beside a unique index.
#
# usage: test/bench/live.sh [insert|preloaded|copy|pgbench|batch|rows]...
#
#   insert     a million rows by INSERT ... SELECT into empty tables: guarded (read ahead, and
#              not), with a unique index, with no check; and ratios of the first to the others
#   preloaded  the same with BENCH_PRESENT keys there before
#   copy       the same rows by COPY: into a guarded table, and into a staging table
#              followed by INSERT ... ON CONFLICT DO NOTHING
#   pgbench    one insert a transaction, 1 to 8 clients
#   batch      dedup_new_keys() of 100 keys at a time
#   rows       is_new() of 300000 rows beside dedup_new_keys() of all of them, in one transaction
#
#   BENCH_ROWS 1000000, BENCH_PRESENT 20000000, BENCH_ROUNDS 3, BENCH_SECONDS 10 (pgbench)
#
# What is compared takes turns in one run. shared_buffers is 128 MB, the filter's
# pages take 63 MB. Prints seconds of CPU of the backend, and wall; never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh

measures=(insert preloaded copy pgbench batch rows)
[ $# = 0 ] || measures=("$@")
setup_packages bench
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make -j2 > "$log" 2>&1 || { cat "$log" >&2; exit 1; }

server=(test/pgtmp.sh --install . --in test/bench/sql --set 'shared_buffers = 128MB' --set 'autovacuum = off'
	--set 'max_wal_size = 8GB' --set 'full_page_writes = on' --)
psql=(psql -Xq -v ON_ERROR_STOP=1 -v rows="${BENCH_ROWS:-1000000}" -v rounds="${BENCH_ROUNDS:-3}")

for measure in "${measures[@]}"; do
	echo "== $measure"
	case $measure in
		insert) "${server[@]}" "${psql[@]}" -v present=0 -f live.sql < /dev/null ;;
		preloaded) "${server[@]}" "${psql[@]}" -v present="${BENCH_PRESENT:-20000000}" -f live.sql < /dev/null ;;
		copy) "${server[@]}" "${psql[@]}" -f live_copy.sql < /dev/null ;;
		batch) "${server[@]}" "${psql[@]}" -f live_batch.sql < /dev/null ;;
		rows) "${server[@]}" "${psql[@]}" -v keys=300000 -f live_rows.sql < /dev/null ;;
		pgbench) "${server[@]}" bash live_pgbench.sh "${BENCH_SECONDS:-10}" "${BENCH_ROUNDS:-3}" < /dev/null ;;
		*) echo "live.sh: no such measure: \"$measure\"" >&2; exit 2 ;;
	esac
done
