#!/bin/bash
# Fuzz of guards made by hand: a role without privileges makes random tables, triggers, indexes and clauses, and
# writes to the tables (guard_fuzz.pl describes how). Prints figures. Exits non-zero if the server crashes, a session
# hangs, or our code raises an internal error.
#
# usage: test/guard_fuzz.sh [SECONDS]
#
# The default is sixty seconds. Builds a copy of the checkout and runs beside a private server, as root or as any
# user; leaves nothing behind. GUARD_FUZZ_SEED repeats a run's random numbers; with GUARD_FUZZ_VALGRIND the server
# runs under valgrind.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/beside_server.sh
valgrind=()
[ -z "${GUARD_FUZZ_VALGRIND:-}" ] || valgrind=(--valgrind)
if [ ${#valgrind[@]} = 0 ]; then setup_packages torture; else setup_packages torture check; fi

copy_build build
beside_server --install "$tmp/build" --in "$tmp/build" "${valgrind[@]}" -- \
	env GUARD_FUZZ_SEED="${GUARD_FUZZ_SEED:-}" GUARD_FUZZ_VALGRIND="${GUARD_FUZZ_VALGRIND:-}" \
	perl test/guard_fuzz.pl "${1:-60}"
