#!/bin/bash
# Measures growing filters beside RedisBloom: memory, false-positive rate, keys a second. By
# hand: the other benchmarks need no sources but this checkout's.
#
# usage: test/bench/redisbloom.sh SOURCE
#
#   BENCH_KEYS  keys that the filters grow to (10000000)
#   PROTOTYPE   the filter of dedup_agg: dedup_filter(). Another one for comparison:
#               PROTOTYPE='dedup_filter(10000000, 0.01)'
#
# SOURCE is a folder with the source of RedisBloom, as its public repository
# (github.com/RedisBloom/RedisBloom) has it at a tag such as v2.6.28, with the submodule
# deps/RedisModulesSDK (git submodule update --init deps/RedisModulesSDK). The other submodules
# are not needed. The server is that of Debian's package redis-tools, which starts no service.
# Both servers listen on Unix sockets in a temporary folder. Leaves nothing behind.
#
# RedisBloom runs with its defaults: 0.01, 100 keys at first, each further filter of the chain
# for twice as many. Redis writes nothing to disk. PostgreSQL runs without fsync. All filters
# start empty and take turns, at most 100,000 keys each. Clients make their messages before the
# clock starts. Prints tables; times never fail a run.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/beside_server.sh
. test/bench/redis.sh
. test/bench/start.sh
if [ $# != 1 ] || ! is_redisbloom "$1"; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
setup_packages redisbloom

copy_build build
build_redisbloom "$1"

print_machine
print_redis_versions "$1"

cat > "$tmp/run.sh" <<'RUN'
set -euo pipefail
cd "$(dirname "$0")"
psql -Xq -v ON_ERROR_STOP=1 -v keys="$1" -f redisbloom.sql
. ./start_redis.sh
perl redisbloom.pl "$TMPDIR/redis" "$redis" "$1" "$2"
RUN
cp test/bench/redisbloom.pl test/bench/sql/redisbloom.sql "$tmp/"
chmod -R a+rX "$tmp"
beside_server --install "$tmp/build" --set 'autovacuum = off' --set 'max_wal_size = 8GB' --set 'shared_buffers = 1GB' -- \
	bash "$tmp/run.sh" "${BENCH_KEYS:-10000000}" "${PROTOTYPE:-dedup_filter()}" < /dev/null
