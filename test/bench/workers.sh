#!/bin/bash
# Measures aggregates with two parallel workers beside one process.
#
# usage: test/bench/workers.sh
#
#   BENCH_ROWS    rows of the table (10000000)
#   BENCH_ROUNDS  how often each query runs (7)
#
# How it is counted: of one process that reads the table (max_parallel_workers_per_gather = 0)
# against two that do. The two are workers, and the leader does not read
# (parallel_leader_participation = off), since on a machine of two processors it would be a third.
# So the ratio has all in it that two workers cost: to start them, to hand over their states, to
# combine these. It is given twice: of elapsed time, and of processor time on the longest way, that
# is the leader's and half of the workers', which other work on the machine changes less. Beside it
# the server's default, where the leader reads too while it waits.
#
# All run in turns, forwards and backwards, in one session without JIT. The workers' processor time
# is what the postmaster counts of its ended children (in hundredths of a second).
#
# The keys, in random order: "most", two thirds of which are distinct, "million" and "few", of
# which there are a million and 1,000. count() is the limit that the machine sets. Prints best and
# median; "least" and "most" are the least and the largest answer. Times never fail a run.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh
. test/bench/start.sh

setup_packages bench
build_quietly
print_machine

# The table fits into memory; autovacuum would run beside the queries.
test/pgtmp.sh --install . --in test/bench/sql \
	--set 'shared_buffers = 2GB' --set 'autovacuum = off' --set 'max_wal_size = 8GB' -- \
	psql -Xq -v ON_ERROR_STOP=1 -v rows="${BENCH_ROWS:-10000000}" -v rounds="${BENCH_ROUNDS:-7}" \
	-f workers.sql < /dev/null
