#!/bin/bash
# Shows the main job from nothing: installs what is missing, builds, starts a
# throwaway server, finds the duplicates of a click stream there, and loads it
# into a table that refuses them.
#
# usage: test/demo.sh [FILE]
#
# Without FILE it generates a million clicks (DEMO_CLICKS is another number),
# 5 % of them retries. FILE is a stream of records, one a line, plain or ending
# in .gz or .zst: with tabs between columns, the columns' names in the first
# line and PostgreSQL's COPY escapes if its name has .tsv, else without columns
# or names. Exits non-zero if an answer breaks its promise.

set -euo pipefail
cd_from=$PWD
cd "$(dirname "$0")/.."
. test/setup.sh

case ${1:-} in
	-h|--help) sed -n '2,/^$/s/^# \{0,1\}//p' "test/demo.sh"; exit ;;
esac
file=${1:-}
case $file in
	''|/*) ;;
	*) file=$cd_from/$file ;;
esac

unpack() {
	case $file in
		*.gz) gzip -dc -- "$file" ;;
		*.zst) zstd -dcq -- "$file" ;;
		*) cat -- "$file" ;;
	esac
}

# The first line. head leaves early, which the unpacker takes for an error.
first_line() {
	{ unpack 2>/dev/null || true; } | head -n 1
}

# Whether the file has all these columns.
has() {
	local column
	for column; do
		case " ${names[*]} " in
			*" $column "*) ;;
			*) return 1 ;;
		esac
	done
}

# Chooses, by the columns that there are, the key whose repeats are
# duplicates, and whom to recognise from one day to the next:
# sets columns, key, who, time.
choose_columns() {
	local header name names=()
	time=''
	case ${file##*/} in
		*.tsv*)
			header=$(first_line)
			IFS=$'\t' read -r -a names <<< "${header%$'\r'}"
			columns=''
			for name in "${names[@]}"; do
				case $name in
					epoch) time=to_timestamp\(epoch\) columns+=", $name float8" ;;
					*) columns+=", \"$name\" text" ;;
				esac
			done
			columns=${columns#, }
			if has ip url; then
				key="ip, url" who=ip
			elif has host url; then
				key="host, url" who=host
			elif has orig_ip orig_port resp_ip resp_port; then
				key="orig_ip, orig_port, resp_ip, resp_port" who=orig_ip
			else
				# Unknown columns: the whole line.
				key=$(printf ', "%s"' "${names[@]}")
				key=${key#, } who=$key
			fi
			;;
		*)
			# One value a line: a number, or any text.
			key=key who=key columns="key text"
			[[ ! $(first_line) =~ ^-?[0-9]{1,18}$ ]] || columns="key bigint"
			;;
	esac
}

# The records as the server reads them: without the line of names.
records() {
	case ${file##*/} in
		*.tsv*) unpack | tail -n +2 ;;
		*) unpack ;;
	esac
}

# Runs the given command in silence; prints its output only if it fails.
quietly() {
	local log rc=0
	log=$(mktemp)
	"$@" > "$log" 2>&1 || rc=$?
	[ "$rc" = 0 ] || cat "$log" >&2
	rm -f "$log"
	return "$rc"
}

if [ -n "$file" ] && ! [ -r "$file" ]; then
	echo "demo.sh: cannot read \"$file\"" >&2
	exit 2
fi

setup_packages demo
start=$SECONDS
quietly make -j2
echo "built in $((SECONDS - start)) s; starting a server of its own in a temporary folder"

demo=(test/pgtmp.sh --install . --in test/demo -- psql -Xq -v ON_ERROR_STOP=1)
if [ -z "$file" ]; then
	"${demo[@]}" -v clicks="${DEMO_CLICKS:-1000000}" -f generated.sql < /dev/null
else
	choose_columns
	records | "${demo[@]}" -v name="${file##*/}" -v columns="$columns" -v key="$key" -v who="$who" \
		-v time="$time" -v tabbed="$([[ ${file##*/} = *.tsv* ]] && echo 1 || echo 0)" -f file.sql
fi
