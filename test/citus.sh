#!/bin/bash
# Runs the extension on a cluster of Citus and compares every result with that of one plain table
# that has the same rows. By hand: the checks of the repository need no sources but this checkout's.
#
# usage: test/citus.sh SOURCE [CHECK]...
#
#   CITUS_BUILD  a folder that keeps the server with Citus in it, so that the next run does not
#                build Citus again
#
# SOURCE is a folder with the source of Citus, as its public repository (github.com/citusdata/citus)
# has it at a tag such as v13.2.2, for PostgreSQL 15 to 17. Citus is built from a copy (a
# minute or two) and installed into a copy of the server; this checkout is built from a copy,
# too. A coordinator and two workers listen on Unix sockets in a temporary folder.
#
# CHECK is the name of a file in test/citus/checks without its ending; without one all run, each
# in a database of its own. Prints what was compared in each; for a check that failed, its whole
# output. Exits non-zero if anything is not as it must be. Leaves nothing behind.
#
# How to write a check: test/citus/checks/NAME.sql is run by psql on the coordinator, with
# ON_ERROR_STOP, after test/citus/tables.sql in the same session. The variables coordinator, one
# and two are the names of the nodes: the folders of their sockets. A check raises an error if
# something is not as it must be; the functions of tables.sql do that, and print "ok - " and the
# name of what they compared.
# test/citus/checks/NAME.sh is run by bash with "set -euo pipefail" and with the variables
# COORDINATOR (which is PGHOST), ONE, TWO and PGDATABASE, after tables.sql; the function
# checks FILE... runs psql with the variables above. It exits non-zero if something is not as
# it must be. Nothing else is needed.

set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# = 0 ] || [ ! -f "$1/src/backend/distributed/citus.control" ]; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
source=$1
shift
. test/beside_server.sh
. test/citus/build.sh
. test/citus/cluster.sh
setup_packages citus

citus_server "$source"
copy_build build
cp -r test/citus "$tmp/citus"
cp test/tap/ManualPage.pm "$tmp/citus/"
cp -r docs "$tmp/citus/docs"
chmod -R a+rX "$tmp"
cluster_arguments
beside_server "${ARGUMENTS[@]}" --install "$tmp/build" -- bash "$tmp/citus/run.sh" "$@" < /dev/null
echo "all is as it must be"
