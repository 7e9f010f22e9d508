# shellcheck shell=bash
# Two workers beside the coordinator that test/pgtmp.sh has started. Sourced by scripts that run
# as its COMMAND; pgtmp.sh ends the workers, too.

# The settings of all servers. Citus must be the first library. Each database with Citus has a
# background process, and each shard that moves two more.
cluster_settings=("shared_preload_libraries = 'citus, streamdedup'" "wal_level = logical"
	"max_worker_processes = 64" "max_prepared_transactions = 200" "max_connections = 200"
	"max_replication_slots = 50" "max_wal_senders = 50" "citus.max_background_task_executors_per_node = 2")

# cluster_arguments: sets ARGUMENTS to the options of pgtmp.sh that give the coordinator these settings.
cluster_arguments() {
	local setting
	ARGUMENTS=()
	for setting in "${cluster_settings[@]}"; do
		ARGUMENTS+=(--set "$setting")
	done
}

# start_cluster [SETTING]...: starts the workers with these settings and those given. Sets
# COORDINATOR and WORKERS to folders that are the names of the nodes: a name that begins with a
# slash is the folder of a socket to libpq. With COUNT_BYTES=yes the sockets there are those of
# test/citus/proxy.pl, which ends with the script, and bytes_moved prints how many bytes went
# between the nodes so far, those of clients that connect to a worker among them.
start_cluster() {
	local worker setting sockets=() here
	here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
	WORKERS=()
	COORDINATOR=$PGHOST
	for worker in one two; do
		worker=$PGHOST/$worker
		"$PGBIN/initdb" -D "$worker/data" -A trust -N -U postgres -E UTF8 --locale=C.UTF-8 > "$TMPDIR/initdb_workers.log" 2>&1 ||
			{ cat "$TMPDIR/initdb_workers.log" >&2; return 1; }
		cat >> "$worker/data/postgresql.conf" <<-CONF
			listen_addresses = ''
			unix_socket_directories = '$worker${COUNT_BYTES:+/data}'
			citus.local_hostname = '$worker'
			fsync = off
			synchronous_commit = off
			full_page_writes = off
			max_wal_size = 2GB
			shared_buffers = 128MB
		CONF
		for setting in "${cluster_settings[@]}" "$@"; do
			printf '%s\n' "$setting" >> "$worker/data/postgresql.conf"
		done
		if [ -n "${COUNT_BYTES:-}" ]; then
			sockets+=("$worker/.s.PGSQL.$PGPORT" "$worker/data/.s.PGSQL.$PGPORT")
		fi
		"$PGBIN/pg_ctl" -D "$worker/data" -l "$worker/log" -w -t 60 start > /dev/null || { cat "$worker/log" >&2; return 1; }
		WORKERS+=("$worker")
	done
	if [ -n "${COUNT_BYTES:-}" ]; then
		COORDINATOR=$PGHOST/coordinator
		mkdir "$COORDINATOR"
		sockets+=("$COORDINATOR/.s.PGSQL.$PGPORT" "$PGHOST/.s.PGSQL.$PGPORT")
		perl "$here/proxy.pl" "$TMPDIR/bytes" "${sockets[@]}" &
		# shellcheck disable=SC2064  # that process
		trap "kill $!" EXIT
		until [ -S "$COORDINATOR/.s.PGSQL.$PGPORT" ] && [ -s "$TMPDIR/bytes" ]; do sleep 0.1; done
	fi
	# Citus connects to its own node by this name.
	psql -Xq -d postgres -v ON_ERROR_STOP=1 -c "ALTER SYSTEM SET citus.local_hostname = '$COORDINATOR'" -c 'SELECT pg_reload_conf()' > /dev/null
}

bytes_moved() {
	echo $(($(cat "$TMPDIR/bytes")))
}

# join_workers: makes the extensions on all servers, in the database that PGDATABASE names, and
# makes one cluster of them.
join_workers() {
	local worker
	for worker in "${WORKERS[@]}"; do
		PGHOST=$worker psql -Xqc 'CREATE EXTENSION IF NOT EXISTS citus' -d "$PGDATABASE" || return 1
	done
	psql -Xq -v ON_ERROR_STOP=1 -v coordinator="$COORDINATOR" -v one="${WORKERS[0]}" -v two="${WORKERS[1]}" <<-'SQL' > /dev/null
		CREATE EXTENSION IF NOT EXISTS citus;
		SELECT citus_set_coordinator_host(:'coordinator', 5432);
		SELECT citus_add_node(:'one', 5432);
		SELECT citus_add_node(:'two', 5432);
		CREATE EXTENSION IF NOT EXISTS streamdedup;
	SQL
}
