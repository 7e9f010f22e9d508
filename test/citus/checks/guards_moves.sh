# Guards on a distributed table while several sessions write through the coordinator and a worker,
# transactions are rolled back, and shards move and are split. At the end all keys that there are
# are inserted once more. Then each must be there once: twice if a filter had lost a key, not at
# all if a filter had a key without a row, such as one that was rolled back.

set -euo pipefail
: "${COORDINATOR:=$PGHOST}" "${ONE:=$PGHOST/one}" "${TWO:=$PGHOST/two}"
work=$(mktemp -d)
trap 'touch "$work/stop"; wait; rm -rf "$work"' EXIT
keys=6000

sql() {
	PGHOST=$COORDINATOR psql -XAtq -v ON_ERROR_STOP=1 "$@"
}

# writer HOST NUMBER DELETES: statements on random keys, until the file stop is there. A key is a
# number and a user, by which the table is distributed.
writer() {
	local round=0
	until [ -e "$work/stop" ]; do
		round=$((round + 1))
		PGHOST=$1 psql -Xq -v VERBOSITY=verbose -v deletes="$3" <<-SQL > /dev/null 2>> "$work/errors.$2"
			SET statement_timeout = '60s';
			SELECT setseed(($2 * 100 + $round % 100) / 1000.0) \gset
			SELECT CASE
				WHEN kind < 0.5 THEN format('INSERT INTO guarded VALUES (%s, %s)', k % 97, k)
				WHEN kind < 0.7 THEN format('INSERT INTO guarded SELECT k %% 97, k FROM unnest(ARRAY[%s, %s, %s, %s]) k', k, l, k + l, m)
				WHEN kind < 0.8 THEN format('BEGIN; INSERT INTO guarded VALUES (%s, %s), (%s, %s); ROLLBACK', k % 97, k, l % 97, l)
				WHEN kind < 0.9 OR NOT :deletes THEN format('BEGIN; INSERT INTO guarded VALUES (%s, %s); SAVEPOINT s; INSERT INTO guarded VALUES (%s, %s); ROLLBACK TO s; COMMIT', k % 97, k, l % 97, l)
				ELSE format('DELETE FROM guarded WHERE u = %s AND k = %s', k % 97, k)
			END
			FROM (SELECT random() AS kind, (random() * $keys / 2)::int AS k, (random() * $keys / 2)::int AS l, (random() * $keys)::int AS m
				FROM generate_series(1, 100)) x \gexec
		SQL
	done
}

# case_of NAME TRANSFER DELETES ARGUMENTS: guards a table, and disturbs it while it is written to.
case_of() {
	local name=$1 transfer=$2 deletes=$3 arguments=$4 writers=() shard from to i
	sql <<-SQL > /dev/null
		SET client_min_messages = warning;
		SET citus.shard_count = 4;
		DROP TABLE IF EXISTS guarded;
		CREATE TABLE guarded (u bigint, k bigint, PRIMARY KEY (u, k, t), t float8 DEFAULT random());
		SELECT create_distributed_table('guarded', 'u', colocate_with => 'none');
		CREATE INDEX ON guarded (u, k);
		SELECT dedup_guard_distributed('guarded', dedup_filter(20000, 1e-9), '{u, k}', $arguments);
	SQL
	rm -f "$work/stop"
	for i in 1 2 3; do
		writer "$COORDINATOR" $((2 * i)) "$deletes" & writers+=($!)
		writer "$ONE" $((2 * i + 1)) "$deletes" & writers+=($!)
	done
	for i in 1 2; do
		sql -F ' ' -c "SELECT shardid, nodename FROM pg_dist_shard JOIN pg_dist_shard_placement USING (shardid)
			WHERE logicalrelid = 'guarded'::regclass ORDER BY shardid" > "$work/shards"
		while read -r shard from; do
			to=$ONE
			[ "$from" != "$ONE" ] || to=$TWO
			sql -c "SELECT citus_move_shard_placement($shard, '$from', 5432, '$to', 5432, '$transfer')" > /dev/null
		done < <(head -2 "$work/shards")
	done
	sql <<-SQL > /dev/null
		SELECT shardid, (shardminvalue::bigint + shardmaxvalue::bigint) / 2 AS middle FROM pg_dist_shard
		WHERE logicalrelid = 'guarded'::regclass ORDER BY shardid LIMIT 1 \gset
		SELECT array_agg(nodeid) AS nodes FROM pg_dist_node WHERE groupid <> 0 \gset
		SELECT citus_split_shard_by_split_points(:shardid, ARRAY[:'middle'], :'nodes', 'block_writes');
	SQL
	touch "$work/stop"
	for i in "${writers[@]}"; do
		wait "$i"
	done
	# Deadlocks are found, and end one of the transactions. Citus may not find a shard that was
	# split after it had planned a statement.
	if grep -h 'ERROR:' "$work"/errors.* | grep -v 'deadlock\|could not find valid entry for shard'; then
		echo "$name: unexpected errors" >&2
		return 1
	fi
	sql -v keys="$keys" -v name="$name" <<-'SQL'
		SELECT count(*) AS before FROM guarded \gset
		SELECT format('INSERT INTO guarded VALUES (%s, %s)', k % 97, k) FROM generate_series(0, :keys) k \gexec
		SELECT count(*) AS rows, count(DISTINCT (u, k)) AS found, :keys + 1 AS expected FROM guarded \gset
		SELECT count(*) FILTER (WHERE NOT whole) AS broken, sum(refused) AS refused FROM dedup_guards_distributed \gset
		SELECT :rows = :expected AND :found = :expected AND :broken = 0 AS ok \gset
		\echo ok - :name: :before rows written, :rows rows of :expected keys at the end, :refused refused
		\if :ok
		\else
			SELECT * FROM dedup_guards_distributed;
			DO $$BEGIN RAISE 'a key is there twice or not at all, or a shard has no guard'; END$$;
		\endif
	SQL
}

case_of 'ledger, shards move with blocked writes' block_writes false "'skip'"
case_of 'ledger, shards move by logical replication' force_logical false "'skip'"
case_of 'forgetting, shards move by logical replication' force_logical true "'skip', on_delete => 'forget'"
case_of 'exact, shards move by logical replication' force_logical true "'skip', exact => true"
sql -c 'DROP TABLE guarded'
