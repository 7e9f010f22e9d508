# shellcheck shell=bash
# A Debian system in a temporary folder, for the scripts that test there. They run as root and
# source this file from the top folder of the checkout. If their first argument begins with "-", it
# prints the comment at their top and ends them.
#
#   make_system SUITE [PACKAGE [EXTRA]]
#                               makes the system $root by debootstrap (minbase): what Debian requires
#                               and the package. apt also knows the suite EXTRA, such as experimental
#   in_root COMMAND...          runs a command there, not in a subshell, which a signal would not end.
#                               Its environment has PATH, HOME and, if they are set, the variables of
#                               the list $inside_names
#   install_there PACKAGE...    installs packages there, without those that are only recommended.
#                               A server's package makes no cluster
#   clone_there FOLDER          clones the checkout there: changes that are not committed are missing
#   installcheck_there CONFIG WORD...
#                               installs the built extension of that clone for the server of the
#                               pg_config there, and runs "make installcheck WORD...". The output is
#                               in $top/tests.log
#   use_system NAME COMMAND...  deletes the system and makes another one by the command. If
#                               SYSTEM_CACHE names a folder, the new system is kept there as NAME,
#                               and the next run unpacks it instead of running the command
#   delete_system               deletes the system before the end
#   logged NAME COMMAND...      runs a command or a function. Its output is in the file $top/NAME.log,
#                               and is shown only if the command fails
#
# A signal ends what runs. At the end everything is deleted, also after an error or a signal. Only
# after SIGKILL the folder stays, but no process and no mount does: each command runs in a PID
# namespace and a mount namespace of its own, which end with the command. test/bare_trap.sh tests
# this.

case ${1:-} in
	-*) sed -n '2,/^$/s/^# \{0,1\}//p' "test/${0##*/}" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "${0##*/}: only root can make a Debian system" >&2; exit 2; }
. test/setup.sh
setup_packages bare

top=$(mktemp -d "${TMPDIR:-/tmp}/bare.XXXXXX")
chmod 755 "$top"
root=$top/root
partial=
inside_names=(http_proxy https_proxy no_proxy)

# end_running SIGNAL TENTHS: signals the group of the command that runs, and waits until it is gone.
end_running() {
	local i running
	running=$(jobs -pr)
	[ -n "$running" ] || return 0
	# Also the process itself, in case it has not made its group yet.
	kill "-$1" -- "-$running" "$running" 2>/dev/null || return 0
	for ((i = 0; i < $2; i++)); do
		kill -0 -- "-$running" 2>/dev/null || return 0
		sleep 0.1
	done
}

# Nothing is mounted there: see run.
delete_system() {
	rm -rf --one-file-system "$root" "$top"/*.log
}

cleanup() {
	local rc=$?
	trap - EXIT
	trap '' INT TERM HUP PIPE
	# The scripts inside end what they started when they are told to end.
	end_running TERM 900
	end_running KILL 50
	rm -rf --one-file-system "$top" ${partial:+"$partial"} || [ "$rc" != 0 ] || rc=1
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
trap 'exit 141' PIPE

# namespaced PROC COMMAND...: runs a command in a process group, a PID namespace and a mount
# namespace of its own. /proc of that namespace is mounted at PROC. The kernel ends all processes
# of the namespace when the command ends, and when this script is killed. A shell waits for the
# command, because the first process of a PID namespace ignores most signals.
namespaced() {
	local proc=$1 rc=0
	shift
	# shellcheck disable=SC2016  # of the inner shell
	setsid setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc="$proc" \
		sh -c '"$@"; exit $?' sh "$@" < /dev/null &
	wait $! || rc=$?
	return "$rc"
}

run() {
	namespaced /proc "$@"
}

logged() {
	local log=$top/$1.log command=()
	shift
	[ "$(type -t "$1")" = function ] || command=(run)
	"${command[@]}" "$@" > "$log" 2>&1 || { tail -n 50 "$log"; return 1; }
}

in_root() {
	local name names=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
	for name in "${inside_names[@]}"; do
		[ -z "${!name:-}" ] || names+=("$name=${!name}")
	done
	# shellcheck disable=SC2016  # of the inner shell
	namespaced "$root/proc" sh -c 'mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" "$@"' \
		"$root" env -i "${names[@]}" "$@"
}

# The mirror that this system's own apt uses. Nothing if there is none: debootstrap
# knows one itself.
mirror() {
	{ cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true; } |
		sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) bookworm .*/\2/p' | sed -n 1p
}

make_system() {
	local suite=$1 package=${2:-} extra=${3:-} mirror file
	mirror=$(mirror)
	# shellcheck disable=SC2086  # one word or none
	logged debootstrap debootstrap --variant=minbase ${package:+--include="$package"} "$suite" "$root" $mirror || return
	# The network and apt work inside as they do outside. No service is started.
	cp /etc/resolv.conf /etc/hosts "$root/etc/"
	for file in /etc/apt/apt.conf.d/99*; do
		[ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"
	done
	[ -z "$extra" ] || echo "deb ${mirror:-http://deb.debian.org/debian} $extra main" > "$root/etc/apt/sources.list.d/extra.list"
	printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
	chmod +x "$root/usr/sbin/policy-rc.d"
}

install_there() {
	mkdir -p "$root/etc/postgresql-common"
	echo 'create_main_cluster = false' > "$root/etc/postgresql-common/createcluster.conf"
	logged apt_update in_root apt-get update || return
	logged apt_install in_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

clone_there() {
	git clone -q --no-hardlinks . "$root/$1"
	echo "commit $(git rev-parse --short HEAD)"
}

use_system() {
	local kept=${SYSTEM_CACHE:+$SYSTEM_CACHE/$1.tar}
	shift
	delete_system
	if [ -n "$kept" ] && [ -f "$kept" ]; then
		mkdir "$root"
		run tar --numeric-owner -C "$root" -xf "$kept"
		return
	fi
	"$@" || return
	[ -n "$kept" ] || return 0
	mkdir -p "$SYSTEM_CACHE"
	partial=$kept.$$
	run tar --numeric-owner -C "$root" --exclude='./var/cache/apt/archives/*.deb' -cf "$partial" . || return
	mv "$partial" "$kept"
	partial=
}

installcheck_there() {
	local config=$1
	shift
	# Installed here, not by pgtmp.sh: Debian's pg_config of 13 does not tell the folders of a copy.
	logged install in_root make -C /root/streamdedup PG_CONFIG="$config" install || return
	# shellcheck disable=SC2016  # of the inner shell
	in_root env PG_CONFIG="$config" bash -c '
		cd /root/streamdedup
		test/pgtmp.sh --in . --set "max_prepared_transactions = 10" -- bash -c "
			make installcheck -k \"\$@\" && exit
			for diffs in \$(find . -name regression.diffs); do echo \"== \$diffs\"; cat \$diffs; done
			exit 1" - "$@"' - "$@" > "$top/tests.log" 2>&1
}
