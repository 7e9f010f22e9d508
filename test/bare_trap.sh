#!/bin/bash
# Tests that test/bare_system.sh leaves no process, no mount and no folder behind when a signal ends
# a script that uses it. Run it as root, by hand, when test/bare_system.sh has changed. It takes some
# seconds: its debootstrap copies three programs of this system.
#
# usage: test/bare_trap.sh

set -euo pipefail
cd "$(dirname "$0")/.."
. test/bare_system.sh

tmp=$top/trap
mkdir "$tmp" "$tmp/bin" "$tmp/cache"
ready_file=$tmp/ready

# Mounts /proc, as debootstrap does. It waits if the victim is to be ended at that point.
cat > "$tmp/bin/debootstrap" <<'SH'
#!/bin/bash
set -eu
for target; do [[ $target != */root ]] || break; done
mkdir -p "$target"/{bin,proc,dev/shm,etc/apt/apt.conf.d,usr/sbin}
mount -t proc proc "$target/proc"
[ "$STAGE" != debootstrap ] || { touch "$READY"; sleep 1000; }
umount "$target/proc"
: > "$target/dev/null"
for program in sh env sleep; do
	cp "$(command -v "$program")" "$target/bin/"
	for library in $(ldd "$(command -v "$program")" | grep -o '/[^ ]*'); do
		cp -L --parents "$library" "$target"
	done
done
SH
cat > "$tmp/bin/tar" <<'SH'
#!/bin/bash
touch "${*: -2:1}" "$READY"
sleep 1000
SH
chmod +x "$tmp/bin/debootstrap"

cat > "$tmp/victim.sh" <<'SH'
set -euo pipefail
. test/bare_system.sh
[ "$STAGE" != keep ] || SYSTEM_CACHE=$CACHE
use_system victim make_system bookworm
case $STAGE in
	command) in_root sh -c 'sleep 1000 & echo > /ready; sleep 1000' ;;
	handler) in_root sh -c 'trap "echo ended; exit 7" TERM; sleep 1000 & echo > /ready; wait' ;;
	itself) touch "$READY"; for ((;;)); do sleep 0.1; done ;;
esac
SH

# Processes of the victim: their root or working folder is in its folder, or their environment has
# its mark.
remain() {
	find /proc -mindepth 2 -maxdepth 2 \( -name root -o -name cwd \) -lname "*$tmp/systems*" -printf '%P ' 2>/dev/null || true
	grep -lsz "^READY=$ready_file\$" /proc/[0-9]*/environ || true
}

# Mounts in the victim's folder, in the namespace of any process.
mounts() {
	grep -hs " $tmp/systems/" /proc/[0-9]*/mountinfo || true
}

failed=0
# try STAGE SIGNAL STATUS [group]: ends a victim at that stage by that signal.
try() {
	local stage=$1 signal=$2 status=$3 to=${4:-script} victim rc=0 wrong='' ready=''
	rm -rf "$tmp/systems" "$ready_file"
	mkdir "$tmp/systems"
	# A command in the background ignores SIGINT.
	READY=$ready_file STAGE=$stage CACHE=$tmp/cache TMPDIR=$tmp/systems PATH=$tmp/bin:$PATH \
		setsid env --default-signal bash "$tmp/victim.sh" > "$tmp/log" 2>&1 < /dev/null &
	victim=$!
	for _ in {1..200}; do
		ready=$(ls "$ready_file" "$tmp"/systems/*/root/ready 2>/dev/null || true)
		[ -z "$ready" ] || break
		sleep 0.1
	done
	[ -n "$ready" ] || wrong+="did not start: $(cat "$tmp/log"); "
	[ "$to" != group ] || victim=-$victim
	kill "-$signal" -- "$victim" 2>/dev/null || wrong+="ended too early: $(cat "$tmp/log"); "
	wait "${victim#-}" 2>/dev/null || rc=$?
	[ "$rc" = "$status" ] || wrong+="exit status $rc, not $status; "
	# Nobody waits for what SIGKILL leaves to the kernel.
	if [ "$signal" = KILL ]; then
		for _ in {1..10}; do
			[ -n "$(remain)" ] || break
			sleep 0.5
		done
	elif [ -n "$(ls -A "$tmp/systems")" ]; then
		wrong+="the folder is there; "
	fi
	[ "$stage" != handler ] || [ "$signal" = KILL ] || grep -qx ended "$tmp/log" || wrong+="not told to end; "
	[ -z "$(remain)" ] || wrong+="processes: $(remain | xargs); "
	[ -z "$(mounts)" ] || wrong+="mounts: $(mounts); "
	[ "$signal" = KILL ] || [ -z "$(ls -A "$tmp/cache")" ] || wrong+="in the cache: $(ls "$tmp/cache"); "
	rm -f "$tmp/cache"/*
	if [ -z "$wrong" ]; then
		echo "ok: $signal to the $to, stage $stage"
	else
		echo "NOT OK: $signal to the $to, stage $stage: $wrong"
		failed=1
	fi
}

for stage in debootstrap command handler itself keep; do
	if [ "$stage" = keep ]; then chmod +x "$tmp/bin/tar"; fi
	try "$stage" TERM 143
	try "$stage" TERM 143 group
	try "$stage" INT 130 group
	try "$stage" KILL 137
done
try command HUP 129
exit "$failed"
