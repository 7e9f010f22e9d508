# shellcheck shell=bash
# A Debian system in a temporary folder, for the scripts that test there. They run as root and
# source this file from the top folder of the checkout, after test/setup.sh and
# "setup_packages bare".
#
#   make_system SUITE [PACKAGE [EXTRA]]
#                               makes the system $root by debootstrap (minbase): what Debian requires
#                               and the package. apt also knows the suite EXTRA, such as experimental
#   in_root COMMAND...          runs a command there. Its environment has PATH, HOME and, if they are
#                               set, the variables of the list $inside_names
#   install_there PACKAGE...    installs packages there, without those that are only recommended.
#                               A server's package makes no cluster
#   delete_system               deletes the system before the end
#   clone_there FOLDER          clones the checkout there: changes that are not committed are missing
#
# With SYSTEM_CACHE, a folder, systems are kept there: keep_system NAME packs $root, and
# kept_system NAME unpacks it, or returns false if there is none.
#
# A signal ends what runs. At the end everything is unmounted and deleted, also after an error.

top=$(mktemp -d "${TMPDIR:-/tmp}/bare.XXXXXX")
chmod 755 "$top"
root=$top/root
running=
inside_names=(http_proxy https_proxy no_proxy)

# The mirror that this system's own apt uses. Nothing if there is none: debootstrap
# knows one itself.
mirror() {
	{ cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true; } |
		sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) bookworm .*/\2/p' | sed -n 1p
}

# Processes whose root folder is in our folder.
inside() {
	local dir
	for dir in /proc/[0-9]*; do
		case $(readlink "$dir/root" 2>/dev/null)/ in
			"$top"/*) echo "${dir#/proc/}" ;;
		esac
	done
}

# end_running SIGNAL TENTHS: signals the group and waits until it is gone.
end_running() {
	local i
	kill "-$1" -- "-$running" 2>/dev/null || return 0
	# Not with $_ as the counter, which each command changes.
	for ((i = 0; i < $2; i++)); do
		kill -0 -- "-$running" 2>/dev/null || return 0
		sleep 0.1
	done
}

# Ends what runs in the system, and unmounts what is mounted there.
leave_system() {
	local pids mounted
	pids=$(inside)
	# shellcheck disable=SC2086  # one word a process
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
	for mounted in dev/shm proc; do
		for _ in 1 2 3 4 5; do
			! grep -q " $root/$mounted " /proc/mounts || umount "$root/$mounted" 2>/dev/null || sleep 1
		done
	done
}

# Deletes the system, so that another can be made. Nothing is deleted through a mount that did
# not go away.
delete_system() {
	leave_system
	if grep -q " $root/" /proc/mounts; then
		echo "${0##*/}: still mounted, not deleted: $root" >&2
		return 1
	fi
	rm -rf "$root" "$top"/*.log
}

cleanup() {
	local rc=$?
	trap - EXIT
	trap '' INT TERM HUP
	if [ -n "$running" ]; then
		# The scripts inside end what they started when they are told to end.
		end_running TERM 900
		end_running KILL 50
	fi
	if delete_system; then
		rm -rf "$top"
	else
		[ "$rc" != 0 ] || rc=1
	fi
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Runs a command in a process group of its own. A signal to this script ends the group.
run() {
	local rc=0
	setsid "$@" < /dev/null &
	running=$!
	wait "$running" || rc=$?
	running=
	return "$rc"
}

# logged NAME COMMAND...: runs a command, or in_root. Its output is shown only if it fails.
logged() {
	local log=$top/$1.log command=(run)
	shift
	[ "$1" != in_root ] || command=()
	"${command[@]}" "$@" > "$log" 2>&1 || { tail -n 50 "$log"; return 1; }
}

in_root() {
	local name names=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
	for name in "${inside_names[@]}"; do
		[ -z "${!name:-}" ] || names+=("$name=${!name}")
	done
	run chroot "$root" "${names[@]}" "$@"
}

mount_system() {
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/dev/shm"
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
	mount_system
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

kept_system() {
	local kept=${SYSTEM_CACHE:-}/$1.tar
	if [ -z "${SYSTEM_CACHE:-}" ] || [ ! -f "$kept" ]; then return 1; fi
	mkdir "$root"
	tar --numeric-owner -C "$root" -xf "$kept"
	mount_system
}

keep_system() {
	[ -n "${SYSTEM_CACHE:-}" ] || return 0
	mkdir -p "$SYSTEM_CACHE"
	leave_system
	tar --numeric-owner -C "$root" --exclude='./var/cache/apt/archives/*.deb' -cf "$SYSTEM_CACHE/$1.new" .
	mv "$SYSTEM_CACHE/$1.new" "$SYSTEM_CACHE/$1.tar"
	mount_system
}
