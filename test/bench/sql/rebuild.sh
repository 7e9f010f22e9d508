#!/bin/bash
# What test/bench/rebuild.sh runs beside its server: see there.
#
# usage: rebuild.sh ROWS ROUNDS

set -euo pipefail
rows=$1
rounds=$2
ask() { psql -XAtq -v ON_ERROR_STOP=1 "$@"; }

ask -v rows="$rows" <<'SQL'
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;
CREATE TABLE t (k bigint, v text);
INSERT INTO t SELECT i, 'the row of key ' || i FROM generate_series(1, :rows) i;
CREATE INDEX ON t (k);
SELECT dedup_create('seen', dedup_filter(:rows, 0.001)) \g /dev/null
SELECT dedup_guard('t', 'seen', '{k}', exact => true) \g /dev/null
SQL
cat > writer.sql <<SQL
\set k random(1000000000, 1000000000000)
\set old random(1, $rows)
INSERT INTO t VALUES (:k, 'a new row');
DELETE FROM t WHERE k = :old;
UPDATE t SET k = -:k WHERE k = :k;
SQL

# measure WHAT WRITERS: one run of dedup_rebuild(). Prints seconds of the whole, of the time for
# which writers were kept out, and the longest statement of a writer.
measure() {
	local what=$1 writers=$2 pid='' begin end longest='' log
	log=$(mktemp -d)
	if [ "$writers" != 0 ]; then
		(cd "$log" && exec pgbench -n -c "$writers" -T 3600 -f "$OLDPWD/writer.sql" -l > /dev/null 2>&1) &
		pid=$!
		sleep 1
	fi
	begin=$(date +%s%N)
	ask -c 'SET client_min_messages = debug1' -c "SELECT dedup_rebuild('seen')" > /dev/null 2> messages
	end=$(date +%s%N)
	if [ -n "$pid" ]; then
		sleep 1 # until the last transaction is logged
		kill "$pid"
		wait "$pid" 2> /dev/null || true
		longest=$(cat "$log"/pgbench_log.* | awk '$3 > most { most = $3 } END { printf "%.2f", most / 1e6 }')
	fi
	awk -v what="$what" -v whole="$(((end - begin) / 1000000))" -v longest="$longest" '
		/kept other sessions out/ { kept = $(NF - 1) }
		/made up for/ { for (i = 1; i < NF; i++) { if ($i == "keys,") keys = $(i - 1); if ($i == "read") pages = $(i + 1) } }
		END { printf "%-40s %8.2f s, writers kept out %6.3f s (%d changes, %d pages read); longest transaction of a writer: %s s\n",
			what, whole / 1000, kept / 1000, keys, pages, longest == "" ? "-" : longest }' messages
	rm -rf "$log"
}

echo "$rows rows, $(ask -c "SELECT pg_size_pretty(pg_relation_size('t'))"); the filter has $(ask -c "SELECT pg_size_pretty(pg_relation_size('seen'))")"
for _ in $(seq "$rounds"); do
	measure 'never vacuumed, nobody writes' 0
done
for _ in $(seq "$rounds"); do
	measure 'never vacuumed, 2 writers' 2
done
for _ in $(seq "$rounds"); do
	ask -c 'VACUUM t'
	measure 'vacuumed before, nobody writes' 0
	measure 'vacuumed before, 2 writers' 2
done
