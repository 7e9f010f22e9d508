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
. test/beside_server.sh
setup_packages torture

copy_build build
beside_server --install "$tmp/build" --in "$tmp/build" -- \
	env TORTURE_SEED="${TORTURE_SEED:-}" perl test/torture.pl "${1:-30}" "${2:-4}"
