#!/bin/bash
# Measures live filters that grow beside those that are made for their number of keys.
#
# usage: test/bench/growing_live.sh
#
#   BENCH_KEYS    numbers of keys at which space is measured, in bulk (100000 1000000)
#   BENCH_SINGLE  the same for keys that come one transaction each (100000 1000000)
#   BENCH_FULL    keys that are there before CPU time and WAL are measured (1000000)
#   BENCH_ADDED   keys that are added then (100000)
#   BENCH_BATCHES by so many in one transaction (100000 1000 1)
#   BENCH_ROUNDS  rounds of that, with page images and without (3)
#   BENCH_TTL     seconds of the window (10), and
#   BENCH_STREAM  keys a second of the steady stream into it (2000), for ten windows
#
# Prints bytes a key after VACUUM, mean over a doubling in eight steps; CPU time of the backend and
# bytes of WAL, by filters of both kinds in turn in one server; and the size of a window's file
# for each live key at the end of the stream. Never fails by them.

set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup.sh

full=${BENCH_FULL:-1000000}
added=${BENCH_ADDED:-100000}
ttl=${BENCH_TTL:-10}
stream=${BENCH_STREAM:-2000}
setup_packages bench
other=
. test/bench/two_builds.sh
serve this --set 'shared_buffers = 1GB' --set 'synchronous_commit = off' --set 'checkpoint_timeout = 1h'
ask this -f test/bench/sql/growing_live.sql > /dev/null

# sized KEYS: a filter for so many keys; grows: one that grows. Both at one rate.
sized() { echo "dedup_filter($1, 0.0001, 42)"; }
grows() { echo "dedup_filter(fpr => 0.0001, seed => 42)"; }

# space HOW BATCH KEYS...: mean bytes a key of both kinds from so many keys to twice as many.
space() {
	local how=$1 batch=$2 keys step from to
	shift 2
	for keys in "$@"; do
		ask this -o /dev/null -c "SELECT dedup_create('g', $(grows)), dedup_create('s', $(sized $((2 * keys))))"
		from=1
		: > "$tmp/space"
		for step in 8 9 10 11 12 13 14 15 16; do
			to=$((keys * step / 8))
			for filter in g s; do
				# in bulk all at once, into a filter that is empty
				[ "$batch" != 0 ] || ask this -c "TRUNCATE $filter"
				ask this -c "CALL add_keys('$filter', $([ "$batch" = 0 ] && echo 1 || echo "$from"), $to, $([ "$batch" = 0 ] && echo "$to" || echo "$batch"))" \
					-c "VACUUM $filter"
				ask this -c "SELECT '$filter', pg_relation_size('$filter') / $to.0" >> "$tmp/space"
			done
			from=$((to + 1))
		done
		# eight steps of the doubling; its end is the beginning of the next
		head -n 16 "$tmp/space" | awk -F'|' -v how="$how" -v keys="$keys" '
			{ sum[$1] += $2; n[$1]++; if ($2 > most[$1]) most[$1] = $2 }
			$1 == "s" { last = $2 }
			END { printf "%s, %d to %d keys: %.2f bytes a key (at most %.2f); made for %d: %.2f when full\n",
				how, keys, 2 * keys, sum["g"] / n["g"], most["g"], 2 * keys, last * 15 / 16 }'
		ask this -c 'DROP TABLE g, s'
	done
}

# shellcheck disable=SC2086  # lists of numbers
{
	space 'one batch' 0 ${BENCH_KEYS-100000 1000000}
	space 'batches of 1000' 1000 ${BENCH_KEYS-100000 1000000}
	space 'one transaction each' 1 ${BENCH_SINGLE-100000 1000000}
}

# images on|off: whether WAL has page images. Takes effect with the next checkpoint.
images() {
	ask this -c "ALTER SYSTEM SET full_page_writes = $1" -c 'SELECT pg_reload_conf()' > /dev/null
	sleep 0.5
	ask this -c CHECKPOINT
}

for batch in ${BENCH_BATCHES:-100000 1000 1}; do
	for round in $(seq "${BENCH_ROUNDS:-3}"); do
		for on in off on; do
			ask this -o /dev/null -c "SELECT dedup_create('grows', $(grows)), dedup_create('sized', $(sized $((full + added))))"
			for filter in grows sized; do
				ask this -c "CALL add_keys('$filter', 1, $full, 10000)" -c "VACUUM $filter"
			done
			images "$on"
			# the one that comes first takes turns
			for filter in $([ $((round % 2)) = 0 ] && echo grows sized || echo sized grows); do
				ask this -c "CALL measure('$filter', '$filter', $((full + 1)), $((full + added)), $batch, $round)"
			done
			ask this -c 'DROP TABLE grows, sized'
		done
	done
done
echo "$added keys into $full: medians"
ask this -P format=aligned -P tuples_only=off -P footer=off <<SQL
WITH m AS (
	SELECT batch, images, filter, percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) AS cpu,
		percentile_cont(0.5) WITHIN GROUP (ORDER BY wal::float8) AS wal
	FROM added GROUP BY 1, 2, 3)
SELECT CASE batch WHEN 1 THEN 'one transaction each' ELSE 'batches of ' || batch END AS keys, images,
	round(s.cpu::numeric, 3) AS "sized cpu s", round(g.cpu::numeric, 3) AS "grows cpu s", round((g.cpu / nullif(s.cpu, 0))::numeric, 2) AS times,
	round((s.wal / $added)::numeric, 1) AS "sized wal a key", round((g.wal / $added)::numeric, 1) AS "grows wal a key",
	round((g.wal / s.wal)::numeric, 2) AS "wal times"
FROM m g JOIN m s USING (batch, images) WHERE g.filter = 'grows' AND s.filter = 'sized' ORDER BY batch DESC, images;
SQL

# The stream: its keys come by their own clock, so that ten windows take no longer than their keys.
keys=$((stream * ttl))
ask this -o /dev/null -c "SELECT dedup_create('window_grows', $(grows), '$ttl seconds'),
	dedup_create('window_sized', dedup_window($keys, 0.0001, 42), '$ttl seconds')"
ask this -v ttl="$ttl" -v stream="$stream" <<'SQL'
CREATE PROCEDURE stream(seconds int, rate bigint) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
	sent bigint := 0;
	due bigint;
BEGIN
	WHILE clock_timestamp() < began + seconds * interval '1 second' LOOP
		due := rate * extract(epoch FROM clock_timestamp() - began);
		IF due - sent >= 200 THEN
			PERFORM count(*) FROM dedup_new_keys('window_grows'::regclass, keys_of(sent + 1, due));
			PERFORM count(*) FROM dedup_new_keys('window_sized'::regclass, keys_of(sent + 1, due));
			COMMIT;
			sent := due;
		ELSE
			PERFORM pg_sleep(0.02);
		END IF;
	END LOOP;
END $$;
CALL stream(10 * :ttl, :stream);
SQL
echo "a stream of $stream keys a second into a window of $ttl s, after ten windows:"
report() {
	ask this -F ' ' -c "SELECT format('  %s %s: %s bytes, %s a live key', '$1', filter, bytes, round(bytes / $keys.0, 2))
		FROM (SELECT f.filter, pg_relation_size(f.filter::text) AS bytes FROM (VALUES ('window_grows'), ('window_sized')) f(filter)) s" \
		-c "SELECT format('  %s, grows/sized: %s', '$1', round(pg_relation_size('window_grows')::numeric / pg_relation_size('window_sized'), 2))"
}
report 'as it is'
ask this -c 'VACUUM window_grows' -c 'VACUUM window_sized'
report 'after VACUUM'
