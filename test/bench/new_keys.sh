#!/bin/bash
# Measures dedup_new_keys() of 100 keys a transaction, with one connection and with four, beside
# unnest(), which returns the same rows and knows no filter, and beside BF.MADD of RedisBloom, if
# its source is given.
#
# usage: test/bench/new_keys.sh [SOURCE]
#
#   BENCH_KEYS     new keys of one turn (100000)
#   BENCH_ROUNDS   turns of each (9)
#   BENCH_PRESENT  keys that all filters have before (0)
#
# SOURCE is a folder with the source of RedisBloom, as redisbloom.sh says. Clients speak binary
# arrays by libpq, and Redis's protocol, over Unix sockets in a temporary folder. The live filter
# is made for ten million keys at 0.01; BF.MADD is measured with a filter of its defaults, which
# grows, and with one that is reserved for as many. Redis writes nothing to disk, PostgreSQL runs
# without fsync. What is compared takes turns in one run, with keys of which nobody knows any, and
# again with the same keys. Prints keys a second and the servers' CPU; never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/beside_server.sh
. test/bench/redis.sh
if [ $# -gt 1 ] || { [ $# = 1 ] && ! is_redisbloom "$1"; }; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
setup_packages bench ${1:+redisbloom}

copy_build build
quietly "$tmp/new_keys.log" g++ -std=c++20 -O2 -Wall -Wextra -I"$("$PG_CONFIG" --includedir)" test/bench/new_keys.cpp \
	-o "$tmp/new_keys" -L"$("$PG_CONFIG" --libdir)" -lpq -pthread
cp test/bench/sql/new_keys.sql "$tmp/"
echo 'redis=' > "$tmp/start_redis.sh"
if [ $# = 1 ]; then
	build_redisbloom "$1"
	print_redis_versions "$1"
fi
cat > "$tmp/run.sh" <<'RUN'
set -euo pipefail
cd "$(dirname "$0")"
psql -Xq -v ON_ERROR_STOP=1 -f new_keys.sql
. ./start_redis.sh
./new_keys "$@" ${redis:+"$TMPDIR/redis" "$redis"}
RUN
chmod -R a+rX "$tmp"
beside_server --install "$tmp/build" --set 'autovacuum = off' --set 'max_wal_size = 8GB' --set 'shared_buffers = 1GB' -- \
	bash "$tmp/run.sh" "${BENCH_KEYS:-100000}" "${BENCH_ROUNDS:-9}" "${BENCH_PRESENT:-0}" < /dev/null
