# usage: live_pgbench.sh SECONDS ROUNDS; run by ../live.sh beside a server
# One insert a transaction: a guarded table beside one with a unique index.
set -euo pipefail
seconds=$1 rounds=$2
psql -Xq -v ON_ERROR_STOP=1 <<'SQL' > /dev/null
SET client_min_messages = warning;
CREATE EXTENSION streamdedup;
SELECT dedup_create('seen', dedup_window(19500000, 0.01, 42));
CREATE TABLE guarded (k bigint, v int);
SELECT dedup_guard('guarded', 'seen', '{k, v}');
CREATE TABLE indexed (k bigint, v int, UNIQUE (k, v));
-- Both have seen some keys, so that pages exist.
INSERT INTO guarded SELECT hashint8extended(-i, 7), 0 FROM generate_series(1, 2000000) i;
INSERT INTO indexed SELECT hashint8extended(-i, 7), 0 FROM generate_series(1, 2000000) i;
VACUUM ANALYZE guarded, indexed, seen;
SQL
for table in guarded indexed; do
	conflict=''
	[ $table = guarded ] || conflict=' ON CONFLICT DO NOTHING'
	cat > $table.sql <<SQL
\set k random(1, 9000000000000000)
INSERT INTO $table VALUES (:k, 0)$conflict;
SQL
done
for clients in 1 2 4 8; do
	for round in $(seq "$rounds"); do
		for table in guarded indexed; do
			tps=$(pgbench -n -M prepared -c "$clients" -j 2 -T "$seconds" -f $table.sql 2>/dev/null | sed -n 's/^tps = \([0-9]*\).*/\1/p' | head -n 1)
			echo "$clients clients, round $round, $table: $tps transactions a second"
		done
	done
done
