#!/bin/bash
# Runs the two commands of the README in a new, bare Debian 12: test/demo.sh, then
# test/check.sh. Run it as root, before each release.
#
# usage: test/bare.sh [PART]...
#
# The system is made by debootstrap (minbase) in a temporary folder and contains git
# and nothing else that Debian does not require. The checkout is cloned into that
# system, so changes that are not committed are not tested. PARTs are passed to
# test/check.sh. BARE_COMMANDS=demo or BARE_COMMANDS=check runs one command only.
# Everything is unmounted and deleted at the end, also after an error or a signal.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh

case ${1:-} in
	-*) sed -n '2,/^$/s/^# \{0,1\}//p' test/bare.sh >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "bare.sh: only root can make a Debian system" >&2; exit 2; }
setup_packages bare

# The mirror that this system's own apt uses for bookworm. Nothing if there is none:
# debootstrap knows one itself.
mirror() {
	cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
		sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) bookworm .*/\2/p' | sed -n 1p
}

top=$(mktemp -d "${TMPDIR:-/tmp}/bare.XXXXXX")
chmod 755 "$top"
root=$top/root
running=

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
	local _
	kill "-$1" -- "-$running" 2>/dev/null || return 0
	for ((_ = 0; _ < $2; _++)); do
		kill -0 -- "-$running" 2>/dev/null || return 0
		sleep 0.1
	done
}

cleanup() {
	local rc=$? pids mounted
	trap - EXIT
	trap '' INT TERM HUP
	if [ -n "$running" ]; then
		# The scripts inside end what they started when they are told to end.
		end_running TERM 900
		end_running KILL 50
	fi
	pids=$(inside)
	# shellcheck disable=SC2086  # one word a process
	[ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
	for mounted in dev/shm proc; do
		for _ in 1 2 3 4 5; do
			! grep -q " $root/$mounted " /proc/mounts || umount "$root/$mounted" 2>/dev/null || sleep 1
		done
	done
	# Nothing is deleted through a mount that did not go away.
	if grep -q " $root/" /proc/mounts; then
		echo "bare.sh: still mounted, not deleted: $root" >&2
		[ "$rc" != 0 ] || rc=1
	else
		rm -rf "$top"
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

# Only these variables get into the system.
inside_env=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
for name in DEMO_CLICKS TORTURE_SECONDS FUZZ_SECONDS VALGRIND_TESTS http_proxy https_proxy no_proxy; do
	[ -z "${!name:-}" ] || inside_env+=("$name=${!name}")
done
in_root() {
	run chroot "$root" "${inside_env[@]}" "$@"
}

echo "== debootstrap"
# shellcheck disable=SC2046  # one word or none
run debootstrap --variant=minbase --include=git bookworm "$root" $(mirror) > "$top/debootstrap.log" 2>&1 ||
	{ tail -n 30 "$top/debootstrap.log"; exit 1; }

# The network and apt work inside as they do outside. No service is started.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
for file in /etc/apt/apt.conf.d/99*; do
	[ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"
done
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"

git clone -q --no-hardlinks . "$root/root/streamdedup"
echo "commit $(git rev-parse --short HEAD)"

failed=()
case ${BARE_COMMANDS:-both} in
	both|demo)
		echo "== test/demo.sh"
		start=$SECONDS
		if in_root /root/streamdedup/test/demo.sh; then result=passed; else result=FAILED; failed+=(demo.sh); fi
		echo "-- test/demo.sh: $result in $((SECONDS - start)) s"
		;;
esac
case ${BARE_COMMANDS:-both} in
	both|check)
		echo "== test/check.sh $*"
		start=$SECONDS
		if in_root /root/streamdedup/test/check.sh "$@"; then result=passed; else result=FAILED; failed+=(check.sh); fi
		echo "-- test/check.sh $*: $result in $((SECONDS - start)) s"
		;;
esac
[ ${#failed[@]} = 0 ] || echo "failed in a bare system: ${failed[*]}"
[ ${#failed[@]} = 0 ]
