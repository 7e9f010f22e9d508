#!/bin/bash
# Builds and tests the extension with other servers, each in a Debian system of its own. Run it
# as root, by hand: when what differs between servers has changed, and before each release.
#
# usage: test/majors.sh [MAJOR]...
#
#   13  Debian 11 (bullseye)
#   15  Debian 12 (bookworm)
#   17  Debian 13 (trixie)
#   18  sid
#   19  sid with the server of experimental
#
# Without arguments all of them. Each builds with the g++ of its suite without a warning, and
# runs the SQL, isolation and TAP tests that this server can run (see Makefile). What is
# committed is tested. Each prints what failed; the logs of all are in the folder MAJORS_LOGS if
# it is set.
#
# MAJORS_CACHE names a folder that keeps the systems and what was compiled. MAJORS_TESTS are
# words for "make installcheck", such as "REGRESS=keys ISOLATION= TAP_TESTS=".

set -euo pipefail
cd "$(dirname "$0")/.."
. test/bare_system.sh

[ $# != 0 ] || set -- 13 15 17 18 19
for major; do
	[[ " 13 15 17 18 19 " = *" $major "* ]] || { echo "majors.sh: no such server: \"$major\" (13 15 17 18 19)" >&2; exit 2; }
done
SYSTEM_CACHE=${MAJORS_CACHE:-}
read -r -a tests <<< "${MAJORS_TESTS:-}"
[ -z "${MAJORS_LOGS:-}" ] || mkdir -p "$MAJORS_LOGS"

# The server's headers come without clang and LLVM, which make half of the system: bitcode is
# never built.
make_server() {
	local major=$1
	case $major in
		13) make_system bullseye || return ;;
		15) make_system bookworm || return ;;
		17) make_system trixie || return ;;
		18) make_system sid || return ;;
		19)
			make_system sid '' experimental || return
			printf 'Package: src:postgresql-19\nPin: release a=experimental\nPin-Priority: 500\n' \
				> "$root/etc/apt/preferences.d/extra"
			;;
	esac
	install_there "postgresql-$major" g++ make libxxhash-dev perl libipc-run-perl procps mawk ccache || return
	logged server_dev in_root sh -c "cd /tmp && apt-get download postgresql-server-dev-$major &&
		dpkg -x postgresql-server-dev-*.deb / && rm postgresql-server-dev-*.deb" || return
	[ "$major" != 13 ] || make_isolation_tester
}

# Debian's package of 13 has no isolation tester: it is made from the same release's source.
make_isolation_tester() {
	sed 's/^deb /deb-src /' "$root/etc/apt/sources.list" > "$root/etc/apt/sources.list.d/source.list"
	install_there bzip2 || return
	logged isolation_tester in_root sh -ec 'mkdir /tmp/source && cd /tmp/source
		apt-get source --download-only postgresql-13
		tar -xf postgresql-13_*.orig.tar.bz2 && cd postgresql-13.*
		./configure --without-readline --without-zlib
		make -s -j2 -C src/test/isolation
		install -D -t /usr/lib/postgresql/13/lib/pgxs/src/test/isolation src/test/isolation/isolationtester src/test/isolation/pg_isolation_regress
		rm -r /tmp/source'
}

# What failed or was skipped, of the log of "make installcheck". pg_regress of 15 and before has other words.
failures() {
	grep -E 'tests passed|tests failed|^# .* of .* (passed|failed)|FAILED|^not ok|^ok .*# SKIP|skipped: |Failed test|^Result:|^Files=|Dubious|crashed|Error [0-9]' \
		"$1" || true
}

test_major() {
	local major=$1 config=/usr/lib/postgresql/$1/bin/pg_config rc=0 ccache=''
	use_system "$major" make_server "$major" || return
	clone_there root/streamdedup || return
	in_root sh -c "g++ --version | head -n 1; $config --version"
	[ ! -x "$root/usr/bin/ccache" ] || ccache=/usr/bin/ccache
	[ ! -d "$SYSTEM_CACHE/ccache-$major" ] || cp -a "$SYSTEM_CACHE/ccache-$major" "$root/root/.cache"
	logged build in_root make -k -C /root/streamdedup -j"$(nproc)" PG_CONFIG="$config" CXX="$ccache g++ -Werror" > /dev/null ||
		{ grep -E ': (fatal )?error: |: warning: |\*\*\*' "$top/build.log" | head -n 40; return 1; }
	if [ -n "$SYSTEM_CACHE" ] && [ -d "$root/root/.cache" ]; then
		rm -rf "$SYSTEM_CACHE/ccache-$major"
		cp -a "$root/root/.cache" "$SYSTEM_CACHE/ccache-$major"
	fi
	echo "built without a warning in $((SECONDS - start)) s"
	installcheck_there "$config" PROVE_FLAGS=-j2 "${tests[@]}" || rc=1
	failures "$top/tests.log"
	return "$rc"
}

failed=()
for major; do
	echo "== PostgreSQL $major"
	start=$SECONDS
	if test_major "$major"; then result=passed; else result=FAILED; failed+=("$major"); fi
	echo "-- PostgreSQL $major: $result in $((SECONDS - start)) s"
	for log in build tests; do
		[ -z "${MAJORS_LOGS:-}" ] || [ ! -f "$top/$log.log" ] || cp "$top/$log.log" "$MAJORS_LOGS/$major-$log.log"
	done
	delete_system
done
[ ${#failed[@]} = 0 ] || echo "failed: ${failed[*]}"
[ ${#failed[@]} = 0 ]
