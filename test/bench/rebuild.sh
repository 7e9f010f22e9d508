#!/bin/bash
# Measures dedup_rebuild() of the filter of an exact guard: the whole, and for how long it keeps
# writers out. With and without VACUUM of the table before it, and with and without writers.
#
# usage: test/bench/rebuild.sh
#
#   BENCH_ROWS    rows of the table (10000000)
#   BENCH_ROUNDS  rounds (3)
#
# shared_buffers is 128 MB. Prints seconds of wall time; never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh
. test/bench/start.sh

setup_packages bench
build_quietly
test/pgtmp.sh --install . --in test/bench/sql --set 'shared_buffers = 128MB' --set 'autovacuum = off' \
	--set 'max_wal_size = 8GB' -- bash rebuild.sh "${BENCH_ROWS:-10000000}" "${BENCH_ROUNDS:-3}" < /dev/null
