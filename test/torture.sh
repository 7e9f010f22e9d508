#!/bin/bash
# Torture test: sessions work on guarded tables while the server is killed at random. After each restart everything
# is compared with the answers that the sessions got (torture.pl describes how). Prints figures. Exits non-zero if a
# comparison fails.
#
# usage: test/torture.sh [SECONDS [SESSIONS]]
#
# The defaults are thirty seconds and four sessions. Builds a copy of the checkout and runs beside a private server,
# as root or as any user; leaves nothing behind. TORTURE_SEED repeats a run's random numbers.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/beside_server.sh
setup_packages torture

copy_build build
beside_server --install "$tmp/build" --in "$tmp/build" -- \
	env TORTURE_SEED="${TORTURE_SEED:-}" perl test/torture.pl "${1:-30}" "${2:-4}"
