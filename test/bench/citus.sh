#!/bin/bash
# Measures aggregates and joins over distributed tables of Citus, beside count(DISTINCT) and beside
# Citus with hll: time, and bytes between the nodes.
#
# usage: test/bench/citus.sh SOURCE
#
#   BENCH_ROWS    2000000 clicks, of BENCH_USERS 600000 users
#   BENCH_ROUNDS  5
#   CITUS_BUILD   a folder that keeps the server with Citus, as for test/citus.sh
#
# SOURCE is a folder with the source of Citus, as for test/citus.sh. A coordinator and two
# workers run on this machine and listen on Unix sockets in a temporary folder. Leaves nothing
# behind.
#
# The queries take turns. Times are those of psql, and their medians are printed, with the least
# and the largest. Bytes are measured in a second cluster, in which a proxy stands between the
# nodes and counts every byte of the protocol that passes in either direction
# (test/citus/proxy.pl); what a query moves hardly differs from run to run. In both each query has
# run before, so no connection is made while it is measured. A Unix socket is faster than a network:
# there the bytes count for more of the time. Never fails by what it measures.

set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# != 1 ] || [ ! -f "$1/src/backend/distributed/citus.control" ]; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
source=$1
. test/beside_server.sh
. test/citus/build.sh
. test/citus/cluster.sh
setup_packages citus bench

citus_server "$source"
copy_build build
cp test/citus/cluster.sh test/citus/proxy.pl test/bench/sql/citus.sql test/bench/sql/citus_runs.sh "$tmp/"
chmod -R a+rX "$tmp"
cluster_arguments
printf 'machine: %s, %s processors\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
for measure in times bytes; do
	beside_server "${ARGUMENTS[@]}" --set 'autovacuum = off' --set 'max_wal_size = 8GB' --install "$tmp/build" -- \
		bash "$tmp/citus_runs.sh" "$measure" "${BENCH_ROWS:-2000000}" "${BENCH_USERS:-600000}" "${BENCH_ROUNDS:-5}" < /dev/null
done
