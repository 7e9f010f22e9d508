#!/bin/bash
# Installs the Debian packages that are missing for one of the tasks.
#
# usage: test/setup.sh demo|check|bench|torture|timescaledb|citus|redisbloom|server_regress|dist|bare...
#        . test/setup.sh && setup_packages demo
#
# When everything is there it does nothing: it needs neither root nor a
# network then. Written for Debian 12. With PG_CONFIG set to the pg_config of
# another server, that server's packages are taken to be there; CLANG_VERSION
# names another clang.

# The one list of packages: setup_list SET prints those of one set.
setup_list() {
	local pg=15 clang=${CLANG_VERSION:-14}

	# Every program that a script calls is listed here by the package that contains it,
	# also where another package of the list happens to depend on that package. Packages
	# that Debian marks as essential (bash, coreutils, diffutils, findutils, grep, gzip,
	# sed, tar, util-linux) are not listed: every Debian system has them.

	# Compiles and installs the extension. xxHash is used as a header.
	local build="g++ make libxxhash-dev"

	# The server. procps has ps, and mawk has awk.
	local server="postgresql-$pg postgresql-server-dev-$pg mawk procps"

	# The demonstration reads streams that are compressed with gzip (essential) or zstd.
	local demo="zstd"

	# cmake and libgtest-dev build the unit tests. PostgreSQL's modules for TAP tests need
	# IPC::Run. libFuzzer and clang's sanitizers have a package of their own. pg_partman is
	# an extension that two of the TAP tests use. The manual, which a TAP test runs, has blocks
	# in Python for drivers and ORMs. test/format/reader.py hashes with xxhash, and
	# test/pictures.py compares the pictures of the manual. The format of the code is that of
	# clang-format 14.
	local check="cmake libgtest-dev perl libipc-run-perl clang-$clang libclang-rt-$clang-dev valgrind"
	check="$check clang-format-14"
	check="$check python3 python3-psycopg python3-psycopg2 python3-asyncpg python3-sqlalchemy python3-django python3-xxhash"
	local check_server="postgresql-$pg-partman"

	# Google Benchmark, and the sketch that dedup_agg is compared with. plot.py and tables.py are
	# Python. Clients in C++ speak to the server by libpq. all.sh asks git for the commit.
	local bench="cmake git libbenchmark-dev libpq-dev python3 valgrind" bench_server="postgresql-$pg-hll"

	# Citus.
	local citus="gcc libc6-dev libpq-dev libssl-dev liblz4-dev libzstd-dev libkrb5-dev perl"

	# RedisBloom, and the Redis that runs it. redis-tools has the server's program under another
	# name; the package redis-server would start a service.
	local redisbloom="gcc libc6-dev perl redis-tools"

	# Unpacks a source package and compares outputs.
	local source="dpkg-dev bzip2 xz-utils patch perl"

	# dist.sh unpacks the source archive and reads META.json.
	local dist="git unzip python3"

	# bare_system.sh makes a Debian system and copies the checkout into that system with git.
	local bare="debootstrap git"

	# A server that is not Debian's brings its own headers and extensions.
	if [ -n "${PG_CONFIG:-}" ] && [ "$PG_CONFIG" != "/usr/lib/postgresql/$pg/bin/pg_config" ]; then
		server='mawk procps' check_server='' bench_server=''
	fi

	case $1 in
		demo) echo "$build $server $demo" ;;
		check) echo "$build $server $demo $check $check_server" ;;
		bench) echo "$build $server $bench $bench_server" ;;
		torture) echo "$build $server perl" ;;
		timescaledb) echo "$build $server cmake" ;;
		citus) echo "$build $server $citus" ;;
		redisbloom) echo "$build $server $redisbloom" ;;
		server_regress) echo "$build $server $source" ;;
		dist) echo "$build $server $dist" ;;
		bare) echo "$bare" ;;
		*) echo "setup.sh: no such set of packages: \"$1\" (demo, check, bench, torture, timescaledb, citus, redisbloom, server_regress, dist, bare)" >&2; return 2 ;;
	esac
}

# Those of the given packages that are not installed.
setup_missing() {
	local package
	for package; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
	done
}

setup_install() {
	local dropin=/etc/postgresql-common/createcluster.d/no-main-cluster.conf rc=0
	local apt=(apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

	if [ "$(id -u)" != 0 ]; then
		echo "setup.sh: these packages are missing, and only root can install them: $*" >&2
		return 1
	fi

	# The server's package makes a cluster and starts it when it is installed.
	# Everything here has a server of its own, so for the time of this
	# installation it does not.
	mkdir -p "${dropin%/*}"
	echo 'create_main_cluster = false' > "$dropin"

	# Some unrelated source of packages may be out of reach: the installation
	# itself tells whether that matters.
	"${apt[@]}" update || echo "setup.sh: apt-get update failed, trying with the lists at hand" >&2
	DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "$@" || rc=$?
	rm -f "$dropin"
	return "$rc"
}

# setup_packages SET...: makes sure that the packages of the sets are there.
# What apt-get says goes to the standard error output.
setup_packages() {
	local set list packages=() missing
	for set; do
		list=$(setup_list "$set") || return
		read -r -a list <<< "$list"
		packages+=("${list[@]}")
	done
	if ! command -v dpkg-query >/dev/null; then
		echo "setup.sh: not a Debian system; taken to be installed: ${packages[*]}" >&2
	else
		mapfile -t missing < <(setup_missing "${packages[@]}" | sort -u)
		if [ ${#missing[@]} != 0 ]; then
			echo "setup.sh: installing ${missing[*]}" >&2
			setup_install "${missing[@]}" >&2 || return
		fi
	fi

	# pg_config on the path may belong to another version.
	export PG_CONFIG=${PG_CONFIG:-/usr/lib/postgresql/15/bin/pg_config}
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	set -euo pipefail
	[ $# != 0 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
	setup_packages "$@"
fi
