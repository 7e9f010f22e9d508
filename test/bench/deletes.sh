#!/bin/bash
# Measures DELETE of all rows of a guarded table beside an unguarded one, and DELETE
# followed by INSERT of the same rows in one transaction.
#
# usage: test/bench/deletes.sh
#
#   BENCH_ROWS    rows of each table (10000000)
#   BENCH_ROUNDS  rounds (3)
#   BENCH_OTHER   a second built folder, for example of an older version. It is measured
#                 in alternation with this one, on a server of its own.
#
# Tables and builds take turns in one run. shared_buffers is 128 MB, work_mem has its
# default of 4 MB. Prints seconds of wall time and of CPU of the backend, and with
# BENCH_OTHER how many times as long as with the other build. Never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh

rows=${BENCH_ROWS:-10000000}
builds=(this)
[ -z "${BENCH_OTHER:-}" ] || builds+=(other)
setup_packages bench
other=${BENCH_OTHER:-}
. test/bench/two_builds.sh

for build in "${builds[@]}"; do
	serve "$build" --set 'shared_buffers = 128MB'
	ask "$build" -v rows="$rows" -f test/bench/sql/deletes.sql > /dev/null
done

# measure WHAT TABLE AGAIN: by each build in turn, a line of results each.
measure() {
	local what=$1 table=$2 again=$3 build
	for build in "${builds[@]}"; do
		ask "$build" -c CHECKPOINT -c "CALL measure('$table', $rows, $again, NULL)" |
			tr -d '()' | sed "s/^/$build,$what,/" >> "$tmp/results"
	done
}

for _ in $(seq "${BENCH_ROUNDS:-3}"); do
	for build in "${builds[@]}"; do
		ask "$build" -c 'TRUNCATE guarded, plain, seen' -c "CALL fill('plain', $rows)" -c "CALL fill('guarded', $rows)" \
			-c 'VACUUM ANALYZE guarded, plain, seen'
	done
	measure 'DELETE from the unguarded table' plain false
	measure 'DELETE from the guarded table' guarded false
	measure 'DELETE and INSERT: unguarded table' plain true
	measure 'DELETE and INSERT: guarded table' guarded true
done

echo "$rows rows in each table"
ask this -P format=aligned -P tuples_only=off -P footer=off -v compares="$((${#builds[@]} - 1))" <<SQL
CREATE TEMPORARY TABLE result (build text, what text, wall float8, cpu float8, deleted bigint, inserted bigint);
\copy result FROM '$tmp/results' (FORMAT csv)
SELECT what, build, round(min(wall)::numeric, 2) AS "min s", round(percentile_cont(0.5) WITHIN GROUP (ORDER BY wall)::numeric, 2) AS "median s",
	round(percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu)::numeric, 2) AS "median cpu s",
	max(deleted) AS deleted, max(inserted) AS landed
FROM result GROUP BY 1, 2 ORDER BY 1, 2 DESC;
\if :compares
SELECT what, round((x[1] / x[2])::numeric, 2) AS "times the other build, min",
	round((x[3] / x[4])::numeric, 2) AS "median", round((x[5] / x[6])::numeric, 2) AS "median cpu"
FROM (SELECT what, ARRAY[min(wall) FILTER (WHERE this), min(wall) FILTER (WHERE NOT this),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY wall) FILTER (WHERE this),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY wall) FILTER (WHERE NOT this),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) FILTER (WHERE this),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) FILTER (WHERE NOT this)] AS x
	FROM (SELECT *, build = 'this' AS this FROM result) r GROUP BY what) s
ORDER BY what;
\endif
SQL
