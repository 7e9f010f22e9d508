#!/bin/bash
# Fuzz of guards made by hand: a role without privileges makes random tables, triggers,
# indexes and clauses, and writes to the tables (guard_fuzz.pl says how). Prints figures;
# exits non-zero if the server crashes, a session hangs, or our code raises an internal
# error.
#
# usage: test/guard_fuzz.sh [SECONDS]
#
# Sixty seconds if nothing is said. Builds a copy of the checkout and runs beside a
# private server, as root or as any user; leaves nothing behind. GUARD_FUZZ_SEED repeats
# a run's random numbers; with GUARD_FUZZ_VALGRIND the server runs under valgrind.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh
valgrind=()
[ -z "${GUARD_FUZZ_VALGRIND:-}" ] || valgrind=(--valgrind)
if [ ${#valgrind[@]} = 0 ]; then setup_packages torture; else setup_packages torture check; fi

tmp=$(mktemp -d "${TMPDIR:-/tmp}/guard_fuzz.XXXXXX")
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
MAKEFLAGS=with_llvm=no test/pgtmp.sh --install "$tmp/build" --in "$tmp/build" "${valgrind[@]}" -- \
	env GUARD_FUZZ_SEED="${GUARD_FUZZ_SEED:-}" GUARD_FUZZ_VALGRIND="${GUARD_FUZZ_VALGRIND:-}" \
	perl test/guard_fuzz.pl "${1:-60}" &
running=$!
wait "$running" || rc=$?
running=
exit "$rc"
