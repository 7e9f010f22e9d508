#!/bin/bash
# Torture: sessions work on guarded tables while the server is killed at random; after
# each restart everything is compared with what they were told (torture.pl says how).
# Prints figures; exits non-zero if anything is not as it must be.
#
# usage: test/torture.sh [SECONDS [SESSIONS]]
#
# Thirty seconds and four sessions if nothing is said. Builds a copy of the checkout and
# runs beside a private server, as root or as any user; leaves nothing behind.
# TORTURE_SEED repeats a run's random numbers.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh
setup_packages torture

tmp=$(mktemp -d "${TMPDIR:-/tmp}/torture.XXXXXX")
chmod 755 "$tmp"
running=
cleanup() {
	local rc=$?
	trap - EXIT
	trap '' INT TERM HUP
	if [ -n "$running" ]; then
		kill -TERM "$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
	fi
	rm -rf "$tmp"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

mkdir "$tmp/build"
tar --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' -cf - . | tar -C "$tmp/build" -xf -
make -C "$tmp/build" -j"$(nproc)" with_llvm=no > "$tmp/make.log" 2>&1 || { cat "$tmp/make.log"; exit 1; }

rc=0
MAKEFLAGS=with_llvm=no test/pgtmp.sh --install "$tmp/build" --in "$tmp/build" -- \
	env TORTURE_NO_ATTACH="${TORTURE_NO_ATTACH:-}" TORTURE_SEED="${TORTURE_SEED:-}" perl test/torture.pl "${1:-30}" "${2:-4}" &
running=$!
wait "$running" || rc=$?
running=
exit "$rc"
