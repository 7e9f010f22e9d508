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
# SYSTEM_CACHE names a folder that keeps the bare system. The system in the temporary
# folder is deleted at the end, also after an error or a signal.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/bare_system.sh
inside_names+=(DEMO_CLICKS TORTURE_SECONDS FUZZ_SECONDS VALGRIND_TESTS)
case ${BARE_COMMANDS:=both} in
	both|demo|check) ;;
	*) echo "bare.sh: BARE_COMMANDS is neither demo nor check" >&2; exit 2 ;;
esac

echo "== debootstrap"
use_system bare make_system bookworm git
clone_there root/streamdedup

failed=()
# try COMMAND...: runs a command of the folder test.
try() {
	local start=$SECONDS result=passed
	echo "== test/$*"
	in_root "/root/streamdedup/test/$1" "${@:2}" || { result=FAILED; failed+=("$1"); }
	echo "-- test/$*: $result in $((SECONDS - start)) s"
}

[ "$BARE_COMMANDS" = check ] || try demo.sh
[ "$BARE_COMMANDS" = demo ] || try check.sh "$@"
[ ${#failed[@]} = 0 ] || echo "failed in a bare system: ${failed[*]}"
[ ${#failed[@]} = 0 ]
