# usage: citus_runs.sh times|bytes ROWS USERS ROUNDS
#
# Runs the queries beside the coordinator; test/bench/citus.sh starts this.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cluster.sh"
measure=$1 rows=$2 users=$3 rounds=$4
[ "$measure" = times ] || export COUNT_BYTES=yes
start_cluster 'autovacuum = off' 'max_wal_size = 8GB'
join_workers
psql -Xq -v ON_ERROR_STOP=1 -v rows="$rows" -v users="$users" -f "$here/citus.sql"

# NAME|SETTING|QUERY
cat > "$TMPDIR/queries" <<QUERIES
count(DISTINCT)||SELECT count(DISTINCT user_id) FROM clicks
hll at 0.005|citus.count_distinct_error_rate = 0.005|SELECT count(DISTINCT user_id) FROM clicks
approx_count_distinct||SELECT approx_count_distinct(user_id) FROM clicks
count(DISTINCT), setting on|streamdedup.approximate_distinct = on|SELECT count(DISTINCT user_id) FROM clicks
dedup_agg||SELECT dedup_count(dedup_agg(dedup_filter($users), user_id)) FROM clicks
dedup_agg, growing||SELECT dedup_count(dedup_agg(user_id)) FROM clicks
dedup_merge_agg(dedup_add)||SELECT dedup_count(dedup_merge_agg(dedup_add(dedup_filter($users), user_id))) FROM clicks
dedup_agg of pulled rows||SELECT dedup_count(dedup_agg(dedup_filter($users), user_id)) FROM (SELECT user_id FROM clicks OFFSET 0) c
by page: count(DISTINCT)||SELECT count(*), sum(n) FROM (SELECT page, count(DISTINCT user_id) AS n FROM clicks GROUP BY page) c
by page: approx_count_distinct||SELECT count(*), sum(n) FROM (SELECT page, approx_count_distinct(user_id) AS n FROM clicks GROUP BY page) c
join, both pulled||SELECT count(*), sum(length(referrer)) FROM (SELECT user_id, referrer FROM clicks OFFSET 0) c JOIN (SELECT user_id FROM buyers WHERE vip OFFSET 0) b USING (user_id)
join, both pulled, filter||SELECT count(*), sum(length(referrer)) FROM (SELECT user_id, referrer FROM clicks WHERE dedup_contains((SELECT dedup_agg(dedup_filter($((users / 50 + 1))), user_id) FROM buyers WHERE vip), user_id) OFFSET 0) c JOIN (SELECT user_id FROM buyers WHERE vip OFFSET 0) b USING (user_id)
join, small side sent||SELECT count(*), sum(length(referrer)) FROM clicks c JOIN (SELECT user_id FROM buyers WHERE vip OFFSET 0) b USING (user_id)
join, big side sent, filter||SELECT count(*), sum(length(referrer)) FROM (SELECT user_id, referrer FROM clicks WHERE dedup_contains((SELECT dedup_agg(dedup_filter($((users / 50 + 1))), user_id) FROM buyers WHERE vip), user_id) OFFSET 0) c JOIN buyers b USING (user_id) WHERE b.vip
join, repartitioned|citus.enable_repartition_joins = on|SELECT count(*), sum(length(referrer)) FROM clicks c JOIN buyers b USING (user_id) WHERE b.vip
QUERIES

# Each query of a round, between lines with its name and what there is to read off.
round() {
	local name setting query
	while IFS='|' read -r name setting query; do
		[ -z "$setting" ] || echo "SET $setting;"
		printf '\\echo == %s\n' "$name"
		[ "$measure" = times ] || echo "\\! cat $TMPDIR/bytes"
		echo "$query;"
		[ "$measure" = times ] || printf '%s\n' '\! sleep 0.1' "\\! cat $TMPDIR/bytes"
		[ -z "$setting" ] || echo "RESET ${setting%% =*};"
	done < "$TMPDIR/queries"
}
{
	echo '\pset footer off'
	[ "$measure" = bytes ] || echo '\timing on'
	round
	echo '\echo == MEASURE'
	if [ "$measure" = times ]; then
		for ((i = 0; i < rounds; i++)); do round; done
	else
		round
	fi
} > "$TMPDIR/script"
psql -XAtq -f "$TMPDIR/script" > "$TMPDIR/out" 2> "$TMPDIR/errors"
grep -h ERROR "$TMPDIR/errors" | sort -u || true

if [ "$measure" = times ]; then
	printf '\n%-30s %10s  %s\n' "milliseconds" median 'least to largest'
	awk '/^== MEASURE/ { on = 1; next } /^== / { name = substr($0, 4); next }
		on && /^Time: / { if (!(name in n)) { order[++names] = name } t[name, ++n[name]] = $2 }
		END { for (k = 1; k <= names; k++) { name = order[k]; c = n[name]
			# SET and RESET are timed, too: the query is the longest of its turn
			m = 0; for (i = 1; i <= c; i++) v[i] = t[name, i]
			per = c / ROUNDS; for (r = 0; r < ROUNDS; r++) { best = 0
				for (i = 1; i <= per; i++) if (v[r * per + i] > best) best = v[r * per + i]
				s[r + 1] = best }
			for (i = 2; i <= ROUNDS; i++) { x = s[i]; for (j = i - 1; j > 0 && s[j] > x; j--) s[j + 1] = s[j]; s[j + 1] = x }
			printf "%-30s %10.0f  %.0f to %.0f\n", name, s[int((ROUNDS + 1) / 2)], s[1], s[ROUNDS] } }' ROUNDS="$rounds" "$TMPDIR/out"
else
	printf '\n%-30s %10s  %s\n' "kilobytes between the nodes" '' result
	awk '/^== MEASURE/ { on = 1; next } /^== / { name = substr($0, 4); i = 0; next }
		on && ++i == 1 { before = $1; next } on && /^ *[0-9]+$/ && i > 2 { printf "%-30s %10.0f  %s\n", name, ($1 - before) / 1000, result; next }
		on { result = $0 }' "$TMPDIR/out"
fi
