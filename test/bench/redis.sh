#!/bin/bash
# The common functions of the benchmarks beside RedisBloom. They source it after test/beside_server.sh, whose folder
# $tmp it uses.
# shellcheck disable=SC2154

# is_redisbloom SOURCE: whether the folder has what redisbloom.sh says.
is_redisbloom() {
	[ -f "$1/src/rebloom.c" ] && [ -f "$1/deps/RedisModulesSDK/redismodule.h" ]
}

# build_redisbloom SOURCE: makes redisbloom.so, redis-server and start_redis.sh in $tmp.
build_redisbloom() {
	# RedisBloom's makefile wants all submodules, Python and tools that it downloads. So the files
	# of its makefile's list are compiled here, with the flags of its release build. What is left
	# out is t-digest, a submodule with a type of its own: an empty function stands for its set-up.
	mkdir "$tmp/redisbloom"
	tar -C "$1" --exclude=./.git -cf - src deps | tar -C "$tmp/redisbloom" -xf -
	echo 'int TDigestModule_onLoad(void *ctx, void *argv, int argc) { return 0; }' > "$tmp/redisbloom/no_tdigest.c"
	# shellcheck disable=SC2016  # for the shell inside
	quietly "$tmp/redisbloom.log" bash -c 'cd "$1" && gcc -shared -fPIC -O3 -flto=auto -std=gnu99 -w -DNDEBUG -D_GNU_SOURCE \
		-DREDIS_MODULE_TARGET -DREDISMODULE_SDK_RLEC -I. -Isrc -Ideps -Ideps/RedisModulesSDK -Ideps/murmur2 -o ../redisbloom.so \
		deps/bloom/bloom.c deps/murmur2/MurmurHash2.c deps/rmutil/util.c src/{rebloom,sb,cf,rm_topk,topk,rm_cms,cms}.c \
		no_tdigest.c -lm' sh "$tmp/redisbloom"

	# Debian's redis-server is this program under another name. The package redis-server adds the
	# name and a service, which would be started.
	ln -s "$(command -v redis-check-rdb)" "$tmp/redis-server"

	# Sourced beside the server of PostgreSQL: $redis is the process. It ends with who started it.
	cat > "$tmp/start_redis.sh" <<'START'
./redis-server --port 0 --unixsocket "$TMPDIR/redis" --dir "$TMPDIR" --save '' --appendonly no \
	--loadmodule "$PWD/redisbloom.so" > "$TMPDIR/redis.log" 2>&1 &
redis=$!
trap 'kill "$redis" 2> /dev/null; wait "$redis" || true' EXIT
until [ -S "$TMPDIR/redis" ]; do
	kill -0 "$redis" 2> /dev/null || { cat "$TMPDIR/redis.log" >&2; exit 1; }
	sleep 0.1
done
START
}

print_redis_versions() {
	version() { sed -n "s/^#define REBLOOM_VERSION_$1 *//p" "$source/src/version.h"; }
	local source=$1
	printf 'RedisBloom %s.%s.%s, %s\n' "$(version MAJOR)" "$(version MINOR)" "$(version PATCH)" \
		"$("$tmp/redis-server" --version | cut -d' ' -f1-3)"
}
