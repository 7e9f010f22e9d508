# Stored filters through citus_rebalance_start, and through pg_dump of a distributed table.

sql() { psql -XAtq -v ON_ERROR_STOP=1 "$@"; }
sums='SELECT tenant, day, md5(users::bytea) FROM daily ORDER BY 1, 2'

sql <<'SQL' > /dev/null
CREATE TABLE daily (tenant int, day date, users dedup_filter NOT NULL, PRIMARY KEY (tenant, day));
SET citus.shard_count = 8;
SELECT create_distributed_table('daily', 'tenant', colocate_with => 'none');
INSERT INTO daily SELECT tenant, day, dedup_agg(dedup_filter(400), user_id) FROM plain.clicks GROUP BY 1, 2;
SQL
sql -c "$sums" > "$TMPDIR/before"
[ "$(wc -l < "$TMPDIR/before")" = 70 ] || { echo "there must be 70 filters"; exit 1; }

# all shards to one worker, then back by the rebalancer, which runs in the background
sql -c "SELECT citus_move_shard_placement(shardid, nodename, nodeport, '$ONE', 5432, 'block_writes') FROM citus_shards WHERE table_name = 'daily'::regclass AND nodename = '$TWO'" > /dev/null
[ "$(sql -c "SELECT count(DISTINCT nodename) FROM citus_shards WHERE table_name = 'daily'::regclass")" = 1 ] || { echo "all shards must be on one worker"; exit 1; }
sql -c "SELECT citus_rebalance_start(shard_transfer_mode => 'force_logical')" -c 'SELECT citus_rebalance_wait()' > /dev/null
[ "$(sql -c "SELECT count(DISTINCT nodename) FROM citus_shards WHERE table_name = 'daily'::regclass")" = 2 ] || { echo "the shards must be on two workers after a rebalance"; exit 1; }
sql -c "$sums" | diff "$TMPDIR/before" - || { echo "the filters after citus_rebalance_start differ"; exit 1; }
echo "ok - citus_rebalance_start keeps the filters"

# into a database without Citus, and into a distributed table
pg_dump -t daily -f "$TMPDIR/daily.sql"
createdb --maintenance-db=postgres stored_copy
sql -d stored_copy -c 'CREATE EXTENSION streamdedup' -f "$TMPDIR/daily.sql" > /dev/null
sql -d stored_copy -c "$sums" | diff "$TMPDIR/before" - || { echo "the filters of the dump differ"; exit 1; }
[ "$(sql -d stored_copy -c "SELECT count(*) FROM pg_class WHERE relname = 'daily'")" = 1 ] || exit 1
echo "ok - pg_dump brings the filters into one table"
pg_dump -a -t daily -f "$TMPDIR/data.sql"
sql -c 'TRUNCATE daily'
sql -f "$TMPDIR/data.sql" > /dev/null
sql -c "$sums" | diff "$TMPDIR/before" - || { echo "the filters that were restored differ"; exit 1; }
echo "ok - a dump is restored into a distributed table"
