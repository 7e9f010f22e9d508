#!/bin/bash
# Runs the two commands of the README in a new, bare Debian 12: test/demo.sh, then
# test/check.sh. Run it as root, before each release.
#
# usage: test/bare.sh [PART]...
#
# The system is made by debootstrap (minbase) in a temporary folder and contains git
# and nothing else that Debian does not require. The checkout is cloned into that
# system, so changes that are not committed are not tested. PARTs are passed to
# test/check.sh. BARE_COMMANDS=demo or BARE_COMMANDS=check runs one command only.
# Everything is unmounted and deleted at the end, also after an error or a signal.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh

case ${1:-} in
	-*) sed -n '2,/^$/s/^# \{0,1\}//p' test/bare.sh >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "bare.sh: only root can make a Debian system" >&2; exit 2; }
setup_packages bare

. test/bare_system.sh
inside_names+=(DEMO_CLICKS TORTURE_SECONDS FUZZ_SECONDS VALGRIND_TESTS)

echo "== debootstrap"
make_system bookworm git
clone_there root/streamdedup

failed=()
case ${BARE_COMMANDS:-both} in
	both|demo)
		echo "== test/demo.sh"
		start=$SECONDS
		if in_root /root/streamdedup/test/demo.sh; then result=passed; else result=FAILED; failed+=(demo.sh); fi
		echo "-- test/demo.sh: $result in $((SECONDS - start)) s"
		;;
esac
case ${BARE_COMMANDS:-both} in
	both|check)
		echo "== test/check.sh $*"
		start=$SECONDS
		if in_root /root/streamdedup/test/check.sh "$@"; then result=passed; else result=FAILED; failed+=(check.sh); fi
		echo "-- test/check.sh $*: $result in $((SECONDS - start)) s"
		;;
esac
[ ${#failed[@]} = 0 ] || echo "failed in a bare system: ${failed[*]}"
[ ${#failed[@]} = 0 ]
