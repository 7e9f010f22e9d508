#!/bin/bash
# Counts the instructions that this build's guards take for each row, beside those of another
# build: has a change made anything slower? Other work on the machine does not change the figures.
#
# usage: test/bench/instructions.sh OTHER
#
#   OTHER       a built folder
#   BENCH_ROWS  rows a statement (5000)
#
# Each build runs the same statements in a single-user server under callgrind, after others
# that have met all pages and filled all caches. Prints instructions a row, the server's included,
# and how many times the other build's that is. Never fails by them.

set -euo pipefail
. "$(dirname "$0")/other_build.sh"
chmod 755 "$tmp"
rows=${BENCH_ROWS:-5000}

# A statement to each line. Counted are those behind a "#" and what they are.
{
	cat <<-'SQL'
		CREATE EXTENSION streamdedup
		CREATE TABLE a (id bigint, v text)
		SELECT dedup_guard('a', dedup_create('a_seen', dedup_filter(10000000, 0.001)), '{id}')
		CREATE TABLE r (id bigint, v text)
		SELECT dedup_guard('r', dedup_create('r_seen', dedup_filter(10000000, 0.001)), '{id}', 'reject')
		CREATE TABLE m (id bigint, v text, is_duplicate boolean)
		SELECT dedup_guard('m', dedup_create('m_seen', dedup_filter(10000000, 0.001)), '{id, v}', 'mark')
		CREATE TABLE e (id bigint, v text)
		CREATE INDEX ON e (id)
		SELECT dedup_guard('e', dedup_create('e_seen', dedup_filter(10000000, 0.001)), '{id}', 'reject', exact => true)
		CREATE TABLE s (id bigint, v text)
		CREATE INDEX ON s (id)
		SELECT dedup_guard('s', dedup_create('s_seen', dedup_filter(100, 0.5)), '{id}', exact => true)
		CREATE TABLE p (id bigint, part int) PARTITION BY LIST (part)
		CREATE TABLE p0 PARTITION OF p FOR VALUES IN (0)
		CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)
		CREATE INDEX ON p (id)
		SELECT dedup_guard('p', dedup_create('p_seen', dedup_filter(10000000, 0.001)), '{id}', exact => true)
	SQL
	# Twice with other keys: the first time pages are met and caches filled.
	for from in 0 "$rows"; do
		sed -e "s/ROWS/generate_series($from + 1, $from + $rows) i/" -e "s/FROM_KEY/$from/g" -e "s/TO_KEY/$from + $rows/g" \
			-e "$([ "$from" != 0 ] || echo 's/^#[^:]*: //')" <<-'SQL'
			#approximate, new rows: INSERT INTO a SELECT i, 'x' FROM ROWS
			#approximate, duplicates: INSERT INTO a SELECT i, 'x' FROM ROWS
			#approximate, one row a statement: DO 'BEGIN FOR i IN FROM_KEY + 1 .. TO_KEY LOOP INSERT INTO r VALUES (i, NULL); END LOOP; END'
			#approximate, mark, two columns, new rows: INSERT INTO m SELECT i, 'x' FROM ROWS
			#approximate, mark, two columns, duplicates: INSERT INTO m SELECT i, 'x' FROM ROWS
			#approximate, UPDATE of the key: UPDATE r SET id = id + 100000000 WHERE id BETWEEN FROM_KEY + 1 AND TO_KEY
			#approximate, UPDATE of something else: UPDATE a SET v = 'y' WHERE id BETWEEN FROM_KEY + 1 AND TO_KEY
			#approximate, deleted and inserted again: WITH d AS (DELETE FROM a WHERE id BETWEEN FROM_KEY + 1 AND TO_KEY RETURNING *) INSERT INTO a SELECT * FROM d
			#exact, new rows: INSERT INTO e SELECT i, 'x' FROM ROWS
			#exact, UPDATE of the key: UPDATE e SET id = id + 100000000 WHERE id BETWEEN FROM_KEY + 1 AND TO_KEY
			#exact, UPDATE of something else: UPDATE e SET v = 'y' WHERE id > 100000000
			#exact, DELETE: DELETE FROM e WHERE id > 100000000
			#exact, new rows that are searched: INSERT INTO s SELECT i, 'x' FROM ROWS
			#exact, duplicates: INSERT INTO s SELECT i, 'x' FROM ROWS
			#exact, partitions, new rows: INSERT INTO p SELECT i, i % 2 FROM ROWS
			#exact, partitions, rows that move: UPDATE p SET part = 1 - part WHERE id BETWEEN FROM_KEY + 1 AND TO_KEY
			#exact, partitions, duplicates: INSERT INTO p SELECT i, i % 2 FROM ROWS
		SQL
	done
	echo 'SELECT 1'
} > "$tmp/lines"
sed 's/^#[^:]*: //' "$tmp/lines" > "$tmp/sql"

# count BUILD: instructions of each statement, in the order of the lines.
count() {
	# shellcheck disable=SC2016  # for the shell inside
	test/pgtmp.sh --install "$1" -- bash -c '
		set -euo pipefail
		"$PGBIN/initdb" -D data -A trust -N -U postgres -E UTF8 --locale=C.UTF-8 > /dev/null
		valgrind -q --tool=callgrind --callgrind-out-file=counts --dump-before=BeginCommand \
			"$PGBIN/postgres" --single -D data -c shared_buffers=256MB -c max_wal_size=8GB -c fsync=off -c jit=off \
			-c checkpoint_timeout=1h postgres < "$0" > log 2>&1
		# What was an error would cost nothing.
		if grep -E "ERROR|FATAL|PANIC" log >&2; then exit 1; fi
		# The first part is that before the first statement.
		for part in $(ls counts.* | sort -t . -k 2 -n | tail -n +2); do
			sed -n "s/^totals: //p" "$part" | tail -n 1
		done' "$tmp/sql"
}

for build in this other; do
	count "${folder[$build]}" > "$tmp/$build"
done
printf '%-45s %12s %12s %7s\n' 'instructions a row' this other ratio
paste -d : "$tmp/this" "$tmp/other" "$tmp/lines" | awk -F : -v rows="$rows" '
	$3 ~ /^#/ { printf "%-45s %12.0f %12.0f %7.3f\n", substr($3, 2), $1 / rows, $2 / rows, $1 / $2 }'
