#!/bin/bash
# usage: run.sh [CHECK]...
#
# Starts two workers beside the coordinator and runs the checks; test/citus.sh starts this.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cluster.sh"

# checks FILE...: psql on the coordinator, or on the node that PGHOST names.
checks() {
	local file files=()
	for file; do
		files+=(-f "$file")
	done
	psql -XAtq -F $'\n' -v ON_ERROR_STOP=1 -v coordinator="$COORDINATOR" -v one="$ONE" -v two="$TWO" "${files[@]}"
}

# run CHECK: in a database of its own.
run() {
	local node
	export PGDATABASE=$1
	for node in "$COORDINATOR" "$ONE" "$TWO"; do
		createdb -h "$node" --maintenance-db=postgres "$1"
	done
	join_workers
	if [ -f "$here/checks/$1.sql" ]; then
		checks "$here/tables.sql" "$here/checks/$1.sql"
	else
		checks "$here/tables.sql"
		# shellcheck source=/dev/null
		. "$here/checks/$1.sh"
	fi
}

export COUNT_BYTES=yes
start_cluster
export COORDINATOR ONE=${WORKERS[0]} TWO=${WORKERS[1]}
names=("$@")
if [ $# = 0 ]; then
	for file in "$here"/checks/*.{sql,sh}; do
		[ ! -e "$file" ] || { file=${file##*/}; names+=("${file%.*}"); }
	done
fi
failed=()
for name in "${names[@]}"; do
	log=$TMPDIR/$name.log
	# A subshell that is part of a condition would not stop at errors.
	set +e
	( set -e; run "$name" ) > "$log" 2>&1
	rc=$?
	set -e
	if [ "$rc" = 0 ]; then
		echo "$name: $(grep -c '^ok - ' "$log" || true) comparisons"
	else
		sed "s/^/$name: /" "$log"
		echo "$name: FAILED"
		failed+=("$name")
	fi
done
if [ ${#failed[@]} != 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
