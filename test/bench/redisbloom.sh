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
if [ $# != 1 ] || [ ! -f "$1/src/rebloom.c" ] || [ ! -f "$1/deps/RedisModulesSDK/redismodule.h" ]; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
source=$1
. test/beside_server.sh
setup_packages redisbloom

copy_build build

# RedisBloom's makefile wants all submodules, Python and tools that it downloads. So the files
# of its makefile's list are compiled here, with the flags of its release build. What is left
# out is t-digest, a submodule with a type of its own: an empty function stands for its set-up.
mkdir "$tmp/redisbloom"
tar -C "$source" --exclude=./.git -cf - src deps | tar -C "$tmp/redisbloom" -xf -
echo 'int TDigestModule_onLoad(void *ctx, void *argv, int argc) { return 0; }' > "$tmp/redisbloom/no_tdigest.c"
# shellcheck disable=SC2016  # for the shell inside
quietly "$tmp/redisbloom.log" bash -c 'cd "$1" && gcc -shared -fPIC -O3 -flto=auto -std=gnu99 -w -DNDEBUG -D_GNU_SOURCE \
	-DREDIS_MODULE_TARGET -DREDISMODULE_SDK_RLEC -I. -Isrc -Ideps -Ideps/RedisModulesSDK -Ideps/murmur2 -o ../redisbloom.so \
	deps/bloom/bloom.c deps/murmur2/MurmurHash2.c deps/rmutil/util.c src/{rebloom,sb,cf,rm_topk,topk,rm_cms,cms}.c \
	no_tdigest.c -lm' sh "$tmp/redisbloom"

# Debian's redis-server is this program under another name. The package redis-server adds the
# name and a service, which would be started.
ln -s "$(command -v redis-check-rdb)" "$tmp/redis-server"

printf 'machine: %s, %s processors, %s GB\n' \
	"$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
	"$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)"
version() { sed -n "s/^#define REBLOOM_VERSION_$1 *//p" "$source/src/version.h"; }
printf 'RedisBloom %s.%s.%s, %s\n' "$(version MAJOR)" "$(version MINOR)" "$(version PATCH)" \
	"$("$tmp/redis-server" --version | cut -d' ' -f1-3)"

cat > "$tmp/run.sh" <<'RUN'
set -euo pipefail
cd "$(dirname "$0")"
psql -Xq -v ON_ERROR_STOP=1 -v keys="$1" -f redisbloom.sql
./redis-server --port 0 --unixsocket "$TMPDIR/redis" --dir "$TMPDIR" --save '' --appendonly no \
	--loadmodule "$PWD/redisbloom.so" > "$TMPDIR/redis.log" 2>&1 &
redis=$!
trap 'kill "$redis" 2> /dev/null; wait "$redis" || true' EXIT
until [ -S "$TMPDIR/redis" ]; do
	kill -0 "$redis" 2> /dev/null || { cat "$TMPDIR/redis.log" >&2; exit 1; }
	sleep 0.1
done
perl redisbloom.pl "$TMPDIR/redis" "$redis" "$1" "$2"
RUN
cp test/bench/redisbloom.pl test/bench/sql/redisbloom.sql "$tmp/"
chmod -R a+rX "$tmp"
beside_server --install "$tmp/build" --set 'autovacuum = off' --set 'max_wal_size = 8GB' --set 'shared_buffers = 1GB' -- \
	bash "$tmp/run.sh" "${BENCH_KEYS:-10000000}" "${PROTOTYPE:-dedup_filter()}" < /dev/null
