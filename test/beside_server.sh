#!/bin/bash
# The common functions of the scripts that build the extension and run something beside a private server. They source
# it from the top of the checkout, with "set -euo pipefail". $tmp is a folder that is deleted when the script ends.
# If the script defines at_end, that is called before.

. test/setup.sh

running=
at_end() { :; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/$(basename "$0" .sh).XXXXXX")
chmod 755 "$tmp"
end() {
	local rc=$?
	trap - EXIT
	trap '' INT TERM HUP
	if [ -n "$running" ]; then
		kill -TERM "$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
	fi
	at_end
	rm -rf "$tmp"
	exit "$rc"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# copy_build NAME: a copy of the checkout, built in $tmp/NAME.
copy_build() {
	mkdir "$tmp/$1"
	tar --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' -cf - . | tar -C "$tmp/$1" -xf -
	quietly "$tmp/make.log" make -C "$tmp/$1" -j"$(nproc)"
}

# beside_server ARGUMENT...: test/pgtmp.sh with these arguments; in the background, so that a
# signal to the script runs its trap at once, which ends the server, too.
beside_server() {
	local rc=0
	test/pgtmp.sh "$@" &
	running=$!
	wait "$running" || rc=$?
	running=
	return "$rc"
}

# quietly LOG COMMAND...: runs the command; prints its output only if it fails.
quietly() {
	local log=$1
	shift
	"$@" > "$log" 2>&1 || { cat "$log" >&2; return 1; }
}
