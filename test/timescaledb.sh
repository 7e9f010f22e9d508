#!/bin/bash
# Guards of TimescaleDB's hypertables. By hand: the checks of the repository make do with
# tables that inherit, which is what chunks are.
#
# usage: test/timescaledb.sh SOURCE
#
# SOURCE is a folder with the source of TimescaleDB, as its public repository
# (github.com/timescale/timescaledb) has it at a tag such as 2.28.3; it needs PostgreSQL 15 or
# later. The Apache-licensed part is built from a copy (a few minutes), beside a copy of this
# checkout, and both are installed into a private server. Prints each check, then
# what two kinds of guard let in under load; exits non-zero if anything is not as it must be.
# Leaves nothing behind.

set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# != 1 ] || [ ! -f "$1/version.config" ]; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
source=$1
. test/beside_server.sh
setup_packages timescaledb

copy_build build
mkdir "$tmp/timescaledb" "$tmp/both"
tar -C "$source" --exclude=./.git --exclude=./build -cf - . | tar -C "$tmp/timescaledb" -xf -
version=$(sed -n 's/^version *= *//p' "$source/version.config")
echo "building TimescaleDB $version"
quietly "$tmp/cmake.log" cmake -S "$tmp/timescaledb" -B "$tmp/timescaledb/build" -DAPACHE_ONLY=1 -DREGRESS_CHECKS=OFF \
	-DTAP_CHECKS=OFF -DWARNINGS_AS_ERRORS=OFF -DUSE_OPENSSL=0 -DSEND_TELEMETRY_DEFAULT=NO -DCMAKE_BUILD_TYPE=Release \
	${PG_CONFIG:+-DPG_CONFIG="$PG_CONFIG"}
quietly "$tmp/timescaledb.log" make -C "$tmp/timescaledb/build" -j"$(nproc)"

# pgtmp.sh runs "make install" in one folder.
cat > "$tmp/both/Makefile" <<MAKE
install:
	\$(MAKE) -C "$tmp/build" install PG_CONFIG=\$(PG_CONFIG)
	cp "$tmp"/timescaledb/build/src/*.so "$tmp"/timescaledb/build/src/loader/*.so "\$\$(\$(PG_CONFIG) --pkglibdir)/"
	cp "$tmp"/timescaledb/build/timescaledb.control "$tmp/timescaledb/build/sql/timescaledb--$version.sql" \\
		"\$\$(\$(PG_CONFIG) --sharedir)/extension/"
MAKE
cat > "$tmp/load.sql" <<'SQL'
\set k random(1, 3000)
\set day random(0, 200)
INSERT INTO load_exact VALUES (:k, timestamptz '2025-01-01Z' + :day * interval '1 day');
INSERT INTO load_quick VALUES (:k, timestamptz '2025-01-01Z' + :day * interval '1 day');
SQL
cat > "$tmp/run.sh" <<'RUN'
set -e
cd "$(dirname "$0")"
checks() { psql -XAtq -F $'\n' -v ON_ERROR_STOP=1 -d "$1" -f "$2"; }
checks postgres timescaledb.sql
echo "load: eight sessions, 3000 keys, 201 chunks"
pgbench -n -c 8 -j 2 -t 2000 -f load.sql postgres > "$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; exit 1; }
checks postgres timescaledb_load.sql
createdb copy
pg_dump -Fc -f "$TMPDIR/dump" postgres 2> /dev/null
psql -XAtq -d copy -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION timescaledb' -c 'SELECT timescaledb_pre_restore()' > /dev/null 2>&1
pg_restore -e -d copy "$TMPDIR/dump"
psql -XAtq -d copy -v ON_ERROR_STOP=1 -c 'SELECT timescaledb_post_restore()' > /dev/null
checks copy timescaledb_restored.sql
RUN
cp test/timescaledb/*.sql "$tmp/"
chmod -R a+rX "$tmp"
beside_server --set "shared_preload_libraries = 'timescaledb'" --set "timescaledb.telemetry_level = off" \
	--set 'max_locks_per_transaction = 512' --install "$tmp/both" -- bash "$tmp/run.sh"
echo "all is as it must be"
