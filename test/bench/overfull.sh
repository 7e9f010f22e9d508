#!/bin/bash
# Measures sets that hold many times the keys that they are made for.
#
# usage: test/bench/overfull.sh [OTHER]
#
# OTHER is the folder of another built checkout, which is measured, too.
#
#   BENCH_KEYS    the number of keys that the set is made for (20000)
#   BENCH_TIMES   how many times as many it holds when it is measured (1 2 10 50)
#   BENCH_ASKED   look-ups of keys that are not there, each time (5000)
#   BENCH_ADDED   keys that are added then, one transaction each (2000)
#
# Prints for each of them the CPU time of the backend and the buffers that a look-up reads; CPU time
# and bytes of WAL that a new key costs; and bytes a key. Never fails by them.

set -euo pipefail
other=
if [ $# -gt 1 ] || { [ $# = 1 ] && [ ! -d "$1" ]; }; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
[ $# = 0 ] || other=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
. test/setup.sh
. test/bench/start.sh

keys=${BENCH_KEYS:-20000}
asked=${BENCH_ASKED:-5000}
added=${BENCH_ADDED:-2000}
setup_packages bench
. test/bench/two_builds.sh
print_machine

for build in this ${other:+other}; do
	serve "$build" --set 'shared_buffers = 512MB' --set 'synchronous_commit = off' --set 'checkpoint_timeout = 1h'
	ask "$build" -f test/bench/sql/growing_live.sql > /dev/null
	ask "$build" -o /dev/null -c "SELECT dedup_create('f', dedup_filter($keys, 0.0001, 42))"
	have=0
	for times in ${BENCH_TIMES:-1 2 10 50}; do
		ask "$build" -c 'SET client_min_messages = error' -c "CALL add_keys('f', $((have + 1)), $((times * keys)), 10000)"
		have=$((times * keys))
		ask "$build" -v have="$have" -v asked="$asked" -v added="$added" -v times="$times" -v build="$build" <<'SQL'
SET client_min_messages = error;
SELECT dedup_seen('f', 0) \g /dev/null
BEGIN;
SELECT cpu() AS cpu, pg_stat_get_xact_blocks_fetched('f'::regclass) AS blocks \gset
SELECT count(*) FILTER (WHERE dedup_seen('f', hashint8extended(-k, 7))) FROM generate_series(1, :asked) k \g /dev/null
SELECT round((1e6 * (cpu() - :cpu) / :asked)::numeric, 1) AS ask_cpu,
	round((pg_stat_get_xact_blocks_fetched('f'::regclass) - :blocks) / :asked.0, 2) AS ask_blocks \gset
COMMIT;
SELECT cpu() AS cpu, pg_current_wal_insert_lsn() AS wal \gset
CALL add_keys('f', :have + 1, :have + :added, 1);
SELECT format('%s, %s times its keys: a look-up %s us, %s buffers; a new key %s us, %s bytes of WAL; %s bytes a key', :'build', :'times', :'ask_cpu',
	:'ask_blocks', round((1e6 * (cpu() - :cpu) / :added)::numeric, 1), round((pg_current_wal_insert_lsn() - :'wal'::pg_lsn) / :added.0, 1),
	round(pg_relation_size('f')::numeric / (:have + :added), 2));
SQL
		have=$((have + added))
	done
done
