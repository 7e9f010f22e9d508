#!/bin/bash
# Measures SELECT DISTINCT and approx_count_distinct() in PostgreSQL with this extension beside
# DuckDB, on the same rows.
#
# usage: test/bench/duckdb.sh LIBRARY
#
#   BENCH_ROWS    rows of a table (5000000), 38 % of their keys distinct, in random order
#   BENCH_ROUNDS  how often each query runs (5)
#   BENCH_TYPES   bigint text
#
# LIBRARY is DuckDB's libduckdb.so: of a release, or of its package for Node.js
# (npm install @duckdb/node-bindings-linux-x64, which is one folder with that file).
#
# The tables are those of distinct.sh. COPY writes each to a file, and DuckDB reads it into a table
# in its memory before anything is timed. Both run with one thread, and take turns in one run.
# PostgreSQL's work_mem is 4 MB, DuckDB's memory is not limited. DuckDB's answers are exact, but for
# approx_count_distinct. Prints wall and CPU time and ratios; never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# != 1 ] || [ ! -f "$1" ]; then
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
. test/beside_server.sh
setup_packages bench

quietly "$tmp/make.log" make -j2
cp "$1" "$tmp/libduckdb.so"
# shellcheck disable=SC2016  # for the linker
quietly "$tmp/duckdb.log" g++ -std=c++20 -O2 -Wall -Wextra -I"$("$PG_CONFIG" --includedir)" test/bench/duckdb.cpp \
	-o "$tmp/duckdb" -L"$("$PG_CONFIG" --libdir)" -lpq "$tmp/libduckdb.so" -Wl,-rpath,'$ORIGIN'
cp test/bench/sql/distinct_{setup,bigint,text}.sql "$tmp/"
cat > "$tmp/run.sh" <<'RUN'
set -euo pipefail
rows=$1 rounds=$2 types=$3 here=$(dirname "$0")
query() { psql -Xq -v ON_ERROR_STOP=1 -v rows="$rows" "$@"; }
query -f "$here/distinct_setup.sql"
for type in $types; do
	query -f "$here/distinct_$type.sql"
	query -c "\\copy t TO '$TMPDIR/rows.csv' (FORMAT csv)"
	"$here/duckdb" "$type" "${type/text/varchar}" "$TMPDIR/rows.csv" "$rounds"
	query -c 'DROP TABLE t'
done
RUN
chmod -R a+rX "$tmp"
beside_server --install . --set 'shared_buffers = 2GB' --set 'autovacuum = off' --set 'max_wal_size = 8GB' -- \
	bash "$tmp/run.sh" "${BENCH_ROWS:-5000000}" "${BENCH_ROUNDS:-5}" "${BENCH_TYPES:-bigint text}" < /dev/null
