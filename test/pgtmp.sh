#!/bin/bash
# Runs a command beside a PostgreSQL server of its own and leaves nothing behind.
#
# usage: test/pgtmp.sh [OPTION]... [--] COMMAND [ARG]...
#
#   --install DIR       make install the built tree DIR into the server first
#                       (the variable PGTMP_INSTALL does the same)
#   --in DIR            start COMMAND in a copy of DIR that it may write in,
#                       instead of in an empty folder
#   --set 'NAME=VALUE'  one more setting of the server
#   --default           leave all settings but the server's place as they are on a
#                       server that has just been installed
#   --valgrind          run the server under valgrind; errors fail the run
#
# The server is a private copy of the installed one: PostgreSQL finds its
# files relative to its binaries, so a copy that keeps the layout is an
# installation. Nothing is written into the system's, and parallel runs do not
# meet. It listens on a Unix socket only and lives in a temporary folder; both
# are gone at the end, whatever the end is.
#
# Started by root, COMMAND and the server run as postgres, else as the caller.
# COMMAND finds PGHOST, PGPORT, PGUSER, PGDATABASE, PGBIN, PG_CONFIG, TMPDIR,
# HOME, MANUAL_PAGES if it is set, the server's programs first in PATH, and little
# else. Its exit code is the script's, except that a server that crashed is a
# failure too.
#
# PG_CONFIG chooses the server.

set -euo pipefail

install=${PGTMP_INSTALL:-}
source=
settings=()
default=
valgrind=

usage() {
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

while [ $# != 0 ]; do
	case $1 in
		--install) install=${2:?}; shift 2 ;;
		--in) source=${2:?}; shift 2 ;;
		--set) settings+=("${2:?}"); shift 2 ;;
		--default) default=yes; shift ;;
		--valgrind) valgrind=yes; shift ;;
		--) shift; break ;;
		-*) usage ;;
		*) break ;;
	esac
done
[ $# != 0 ] || usage

pg_config=${PG_CONFIG:-$(command -v /usr/lib/postgresql/15/bin/pg_config || command -v pg_config)} ||
	{ echo "pgtmp: no pg_config found; set PG_CONFIG" >&2; exit 2; }

# Changes to the unprivileged user. setpriv replaces itself by the command:
# no process stands in between that a signal would reach instead.
become=()
[ "$(id -u)" != 0 ] || become=(setpriv --reuid=postgres --regid=postgres --init-groups)

# A socket's path may have 107 bytes, and the user must get to it.
base=${TMPDIR:-/tmp}
if [ ${#base} -gt 50 ] || ! "${become[@]}" test -x "$base"; then
	base=/tmp
fi
top=$(mktemp -d "$base/pgtmp.XXXXXX")
data=$top/data
command=
server=

# The processes whose program or working folder is in our folder: ours.
leftovers() {
	local dir
	for dir in /proc/[0-9]*; do
		case $(readlink "$dir/exe" 2>/dev/null)\ $(readlink "$dir/cwd" 2>/dev/null)/ in
			"$top"/*|*" $top"/*) [ "${dir#/proc/}" = "$$" ] || echo "${dir#/proc/}" ;;
		esac
	done
}

# Waits until the processes of the group are gone, then stops being patient.
end_group() {
	local group=$1
	kill -TERM -- "-$group" 2>/dev/null || return 0
	for _ in {1..100}; do
		kill -0 -- "-$group" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL -- "-$group" 2>/dev/null || true
}

# Stops the server and any that COMMAND started (a TAP test that was
# interrupted leaves its own).
stop_servers() {
	local mode=$1 pidfile
	# shellcheck disable=SC2044  # our own folder: no blanks in the names
	for pidfile in $(find "$top" -name postmaster.pid 2>/dev/null); do
		as pg_ctl -D "${pidfile%/*}" -m "$mode" -w -t 60 stop >/dev/null 2>&1 ||
			as pg_ctl -D "${pidfile%/*}" -m immediate -w -t 30 stop >/dev/null 2>&1 || true
	done
}

cleanup() {
	local rc=$? pids
	trap - EXIT
	trap '' INT TERM HUP
	[ -z "$command" ] || end_group "$command"
	if declare -F as >/dev/null; then stop_servers immediate; fi
	[ -z "$server" ] || end_group "$server"
	cd /
	pids=$(leftovers)
	if [ -n "$pids" ]; then
		echo "pgtmp: ending processes that were left behind: ${pids//$'\n'/ }" >&2
		# shellcheck disable=SC2086  # one word a process
		kill -KILL $pids 2>/dev/null || true
		[ "$rc" != 0 ] || rc=1
	fi
	rm -rf "$top"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Copies the folders that the server is made of to the same places below
# $top/root. pg_config moves its answers along with itself, the headers'
# included, so those are linked.
copy_server() {
	local dir
	for dir in bindir pkglibdir sharedir; do
		dir=$("$pg_config" "--$dir")
		mkdir -p "$top/root${dir%/*}"
		[ -e "$top/root$dir" ] || cp -a "$dir" "$top/root${dir%/*}/"
	done
	for dir in includedir pkgincludedir includedir-server; do
		dir=$("$pg_config" "--$dir")
		mkdir -p "$top/root${dir%/*}"
		[ -e "$top/root$dir" ] || ln -s "$dir" "$top/root$dir"
	done
	bin=$top/root$("$pg_config" --bindir)
}

copy_server
as() { "${as[@]}" "$@"; }
as=("${become[@]}" env -i "PATH=$bin:/usr/bin:/bin" LANG=C.UTF-8 "HOME=$top" "TMPDIR=$top/tmp"
	"PGHOST=$top" PGPORT=5432 PGUSER=postgres PGDATABASE=postgres "PGBIN=$bin" "PG_CONFIG=$bin/pg_config"
	${MANUAL_PAGES:+"MANUAL_PAGES=$MANUAL_PAGES"})

if [ -n "$install" ]; then
	make -C "$install" "PG_CONFIG=$bin/pg_config" install > "$top/install.log" 2>&1 ||
		{ cat "$top/install.log" >&2; exit 1; }
fi

mkdir "$top/work" "$top/tmp"
if [ -n "$source" ]; then
	tar -C "$source" --exclude=./.git -cf - . | tar -C "$top/work" -xf -
fi
if [ ${#become[@]} != 0 ]; then
	chown -R postgres: "$top/work" "$top/tmp"
	chown postgres: "$top"
fi
cd "$top/work"

as initdb -D "$data" -A trust -N -U postgres -E UTF8 --locale=C.UTF-8 > "$top/tmp/initdb.log" 2>&1 ||
	{ cat "$top/tmp/initdb.log" >&2; exit 1; }
cat >> "$data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$top'
CONF
# A server for tests may forget everything when the machine fails.
[ -n "$default" ] || cat >> "$data/postgresql.conf" <<CONF
fsync = off
synchronous_commit = off
full_page_writes = off
max_wal_size = 2GB
max_prepared_transactions = 10
shared_buffers = 128MB
CONF
# The loader and LLVM are not what valgrind is to look at.
[ -z "$valgrind" ] || settings+=('jit = off')
for setting in "${settings[@]}"; do
	printf '%s\n' "$setting" >> "$data/postgresql.conf"
done

# Under valgrind the server takes its time to start. Stock packages know
# nothing of valgrind, so it sees malloc's blocks and uninitialised memory, not
# palloc's chunks. Suppressed are what the server's own list suppresses (it
# writes structures with their padding, to its log, to a cache file and to other
# sessions) and a memmove that valgrind takes for a memcpy.
start_under_valgrind() {
	mkdir "$top/valgrind"
	cat > "$top/valgrind.supp" <<-'SUPP'
	{
	   relation cache file: padding
	   Memcheck:Param
	   write(buf)
	   ...
	   fun:RelationCacheInitializePhase3
	}
	{
	   log records and pages: padding
	   Memcheck:Param
	   pwrite64(buf)
	   fun:pwrite
	   ...
	   obj:*/bin/postgres
	}
	{
	   invalidation messages: padding
	   Memcheck:Cond
	   ...
	   fun:smgrclosenode
	}
	{
	   invalidation messages: padding
	   Memcheck:Value8
	   ...
	   fun:smgrclosenode
	}
	{
	   regular expressions: memmove
	   Memcheck:Overlap
	   fun:__memcpy_chk
	   fun:RE_compile_and_cache
	}
	SUPP
	[ ${#become[@]} = 0 ] || chown postgres: "$top/valgrind" "$top/valgrind.supp"
	# Looking for origins finds nothing more, and takes as long again.
	# shellcheck disable=SC2086  # options
	setsid "${as[@]}" valgrind --quiet --trace-children=yes --leak-check=no ${VALGRIND_OPTS:-} \
		--num-callers=30 --suppressions="$top/valgrind.supp" \
		--log-file="$top/valgrind/%p.log" "$bin/postgres" -D "$data" > "$top/log" 2>&1 < /dev/null &
	server=$!
	for _ in {1..1200}; do
		if as pg_isready -q; then return 0; fi
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	return 1
}

if [ -n "$valgrind" ]; then
	start_under_valgrind || { cat "$top/log" "$top"/valgrind/*.log >&2; exit 1; }
else
	as pg_ctl -D "$data" -l "$top/log" -w -t 60 start >/dev/null || { cat "$top/log" >&2; exit 1; }
fi

# A process group of its own, so that the whole of it can be ended; in the
# background, so that a signal to this script runs its trap at once.
rc=0
setsid "${as[@]}" "$@" <&0 &
command=$!
wait "$command" || rc=$?
command=

stop_servers fast
if [ -n "$server" ]; then
	wait "$server" || true
	server=
fi

if grep -E 'was terminated by signal|PANIC:|terminating any other active server' "$top/log" >&2; then
	echo "pgtmp: the server crashed; the end of its log:" >&2
	tail -n 40 "$top/log" >&2
	[ "$rc" != 0 ] || rc=1
fi
if [ -n "$valgrind" ] && grep -q . "$top"/valgrind/*.log; then
	echo "pgtmp: valgrind found errors (VALGRIND_OPTS=--track-origins=yes tells more):" >&2
	grep -h . "$top"/valgrind/*.log | head -n 200 >&2
	[ "$rc" != 0 ] || rc=1
fi
exit "$rc"
