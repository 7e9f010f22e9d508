#!/bin/bash
# Runs the steps of Dockerfile without Docker, and the demonstration of compose.yaml in what they
# make. By hand, as root, where there is no Docker.
#
# usage: test/image.sh
#
# Debian 12 with its own server 15 stands for the image postgres:15-bookworm, which has the server of
# PGDG. What is committed is copied there. Not tested: the words of Dockerfile and of compose.yaml
# that are no commands, and the entrypoint of that image.
# SYSTEM_CACHE names a folder that keeps the system.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/bare_system.sh
inside_names+=(PG_MAJOR)
export PG_MAJOR=15

base_image() { make_system bookworm && install_there "postgresql-$PG_MAJOR"; }

# The checkout without what .dockerignore names.
context() {
	local excluded
	mapfile -t excluded < <(sed -n 's/^[^#].*/:!&/p' .dockerignore)
	git archive HEAD -- . "${excluded[@]}" | tar -xf - -C "$1"
}

# One line an instruction.
while read -r word rest; do
	case "$word $rest" in
		ARG\ PG_MAJOR=*) ;;
		"FROM postgres:\${PG_MAJOR}-bookworm"*)
			[ ! -d "$root" ] || mv "$root" "$top/build"
			use_system image base_image
			;;
		RUN\ *) logged build in_root sh -c "$rest" ;;
		'COPY . '*)
			mkdir -p "$root/${rest#. }"
			context "$root/${rest#. }"
			;;
		'COPY --from=build '*)
			read -r _ from to <<< "$rest"
			(cd "$top/build$from" && find . -type f) | sort
			cp -a "$top/build$from/." "$root$to"
			;;
		*) echo "image.sh: unknown instruction of Dockerfile: $word $rest" >&2; exit 1 ;;
	esac
	echo "-- $word $rest" | cut -c 1-100
done < <(sed -e '/^#/d; /^$/d; :more' -e '/\\$/{ N; s/\\\n[ \t]*/ /; b more' -e '}' Dockerfile)

# As the service demo of compose.yaml does it.
cp test/demo/compose.sql "$root/demo.sql"
demonstration=$(sed -n 's/^ *command: \["\(.*\)"\]$/\1/p' compose.yaml | sed 's/", "/ /g; s/-h db //')
logged demo in_root setpriv --reuid=postgres --regid=postgres --init-groups env LANG=C.UTF-8 "PATH=/usr/lib/postgresql/$PG_MAJOR/bin:/usr/bin:/bin" sh -c "
	set -e
	mkdir /tmp/server && cd /tmp/server
	initdb -D data -A trust > log && pg_ctl -D data -w -l log start > /dev/null
	$demonstration
	pg_ctl -D data -w stop > /dev/null"
cat "$top/demo.log"
# The guard skips the second row of the event, and the query finds the duplicates.
[ "$(grep -cx ' evt_1' "$top/demo.log")" = 1 ]
grep -qx ' 1000000 | t' "$top/demo.log"
echo 'ok: the commands of Dockerfile make an image whose demonstration finds the duplicates'
