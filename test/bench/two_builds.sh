# shellcheck shell=bash disable=SC2154
# What benchmarks share that measure this build beside another one. To be sourced: the folder
# `other` is a built one, or empty; makes the folder $tmp, and ends the servers at the end.

tmp=$(mktemp -d)
declare -A folder=([this]=. [other]=$other) server=() host=()
cleanup() {
	local rc=$?
	trap - EXIT
	[ ${#server[@]} = 0 ] || kill "${server[@]}" 2>/dev/null || true
	wait
	rm -rf "$tmp"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
make -j2 > "$tmp/make.log" 2>&1 || { cat "$tmp/make.log" >&2; exit 1; }

# ask BUILD [PSQL ARGUMENT]...: psql beside the server of this build.
ask() {
	local build=$1
	shift
	env -u PGOPTIONS psql -XAtq -h "${host[$build]}" -p 5432 -U postgres -d postgres -v ON_ERROR_STOP=1 "$@"
}

# serve BUILD [OPTION OF pgtmp.sh]...: starts the server of this build.
serve() {
	local build=$1
	shift
	# shellcheck disable=SC2016  # for the shell inside
	test/pgtmp.sh --install "${folder[$build]}" --set 'autovacuum = off' --set 'max_wal_size = 8GB' "$@" -- \
		bash -c 'echo "$PGHOST"; exec sleep infinity' > "$tmp/$build" &
	server[$build]=$!
	until [ -s "$tmp/$build" ]; do
		kill -0 "${server[$build]}"
		sleep 0.1
	done
	host[$build]=$(cat "$tmp/$build")
}
