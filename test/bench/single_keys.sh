#!/bin/bash
# Measures is_new() of one key, in prepared statements, beside BF.ADD of RedisBloom: one by one and
# 16 in a pipeline, by one client and by four. By hand.
#
# usage: test/bench/single_keys.sh SOURCE
#
#   BENCH_KEYS    new keys of one turn (50000)
#   BENCH_ROUNDS  turns of each (5)
#
# SOURCE is a folder with the source of RedisBloom, as redisbloom.sh says. All filters have their
# defaults, begin empty and grow: RedisBloom's at a rate of 0.01, live filters at 0.0001. Clients
# use Unix sockets in a temporary folder. PostgreSQL is asked by libpq, which makes its messages
# before the clock starts as the client of Redis does, and by pgbench. A statement of PostgreSQL is
# a transaction; a pipeline of 16 is one transaction, too. Redis writes nothing to disk, PostgreSQL
# runs without fsync. What is compared takes turns in one run. Prints keys a second, the servers'
# CPU and bytes a key; never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/beside_server.sh
. test/bench/redis.sh
if [ $# != 1 ] || ! is_redisbloom "$1"; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
setup_packages bench redisbloom

copy_build build
quietly "$tmp/single_keys.log" g++ -std=c++20 -O2 -Wall -Wextra -I"$("$PG_CONFIG" --includedir)" \
	test/bench/single_keys.cpp -o "$tmp/single_keys" -L"$("$PG_CONFIG" --libdir)" -lpq -pthread
build_redisbloom "$1"
print_redis_versions "$1"

cat > "$tmp/single_keys.sql" <<'SQL'
\o /dev/null
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;
SELECT dedup_create(kind || '_' || each, unlogged => kind = 'unlogged')
FROM unnest('{live,unlogged,bench}'::text[]) kind, unnest('{1,16}'::int[]) each;
SQL
# script EACH: what a client of pgbench repeats. Its keys follow each other from :first on.
script() {
	local i
	[ "$1" = 1 ] || echo '\startpipeline'
	for ((i = 0; i < $1; i++)); do
		echo '\set key hash(:first + :n * :step + :client_id)'
		echo '\set n :n + 1'
		echo "SELECT is_new('bench_$1'::regclass, :key::bigint);"
	done
	[ "$1" = 1 ] || echo '\endpipeline'
}
script 1 > "$tmp/single_keys_1.pgbench"
script 16 > "$tmp/single_keys_16.pgbench"
cat > "$tmp/run.sh" <<'RUN'
set -euo pipefail
cd "$(dirname "$0")"
psql -Xq -v ON_ERROR_STOP=1 -f single_keys.sql
. ./start_redis.sh
./single_keys "$@" "$TMPDIR/redis" "$redis"
RUN
chmod -R a+rX "$tmp"
beside_server --install "$tmp/build" --set 'autovacuum = off' --set 'max_wal_size = 8GB' --set 'shared_buffers = 1GB' -- \
	bash "$tmp/run.sh" "${BENCH_KEYS:-50000}" "${BENCH_ROUNDS:-5}" < /dev/null
