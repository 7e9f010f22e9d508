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
. test/setup.sh

majors=(13 15 17 18 19)
case ${1:-} in
	-*) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	'') set -- "${majors[@]}" ;;
esac
for major; do
	[[ " ${majors[*]} " = *" $major "* ]] || { echo "majors.sh: no such server: \"$major\" (${majors[*]})" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "majors.sh: only root can make a Debian system" >&2; exit 2; }
setup_packages bare

SYSTEM_CACHE=${MAJORS_CACHE:-}
. test/bare_system.sh
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
		dpkg -x postgresql-server-dev-*.deb / && rm postgresql-server-dev-*.deb"
}

# What failed or was skipped, of the log of "make installcheck". pg_regress of 15 and before has other words.
failures() {
	grep -E 'tests passed|tests failed|^# .* of .* (passed|failed)|FAILED|^not ok|^ok .*# SKIP|skipped: |Failed test|^Result:|^Files=|Dubious|crashed|Error [0-9]' \
		"$1" || true
}

test_major() {
	local major=$1 config=/usr/lib/postgresql/$1/bin/pg_config rc=0 ccache
	if ! kept_system "$major"; then
		make_server "$major" || return
		keep_system "$major"
	fi
	clone_there root/streamdedup || return
	in_root sh -c "g++ --version | head -n 1; $config --version"
	ccache=$(in_root sh -c 'command -v ccache || true')
	[ ! -d "$SYSTEM_CACHE/ccache-$major" ] || cp -a "$SYSTEM_CACHE/ccache-$major" "$root/root/.cache"
	logged build in_root make -k -C /root/streamdedup -j"$(nproc)" PG_CONFIG="$config" CXX="$ccache g++ -Werror" > /dev/null ||
		{ grep -E ': (fatal )?error: |: warning: |\*\*\*' "$top/build.log" | head -n 40; return 1; }
	if [ -n "$SYSTEM_CACHE" ] && [ -d "$root/root/.cache" ]; then
		rm -rf "$SYSTEM_CACHE/ccache-$major"
		cp -a "$root/root/.cache" "$SYSTEM_CACHE/ccache-$major"
	fi
	echo "built without a warning in $((SECONDS - start)) s"
	# Installed here, not by pgtmp.sh: Debian's pg_config of 13 does not tell the folders of a copy.
	logged install in_root make -C /root/streamdedup PG_CONFIG="$config" install || return
	in_root env PG_CONFIG="$config" bash -c '
		cd /root/streamdedup
		test/pgtmp.sh --in . --set "max_prepared_transactions = 10" -- bash -c "
			make installcheck PROVE_FLAGS=-j2 -k \"\$@\" && exit
			for diffs in \$(find . -name regression.diffs); do echo \"== \$diffs\"; cat \$diffs; done
			exit 1" - "$@"' - "${tests[@]}" > "$top/tests.log" 2>&1 || rc=1
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
	delete_system || exit
done
[ ${#failed[@]} = 0 ] || echo "failed: ${failed[*]}"
[ ${#failed[@]} = 0 ]
