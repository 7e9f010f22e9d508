#!/bin/bash
# The server's own regression suite, once as it is and then with the library preloaded and
# streamdedup.approximate_distinct on. Every difference in the output has to be one of
# those listed and explained in test/server_regress/MAJOR/TEST.diff: a plan's shape, another
# of several right answers, the context of an error, or an estimated count. Anything else fails,
# as does a listed difference that is gone.
#
# usage: test/server_regress.sh [--write] [--keep DIR] [VARIANT]...
#
#   setting   the extension as it is
#   forced    built so that the filter is taken for every DISTINCT that may have it, however
#             small; the suite's tables are, so this is what looks at many queries
#   batched   the same, rows are read in batches from the first one on, and the filter gets
#             the least memory
#   parallel  as forced, and what may run in a worker does
#
# Without arguments all of them: eleven minutes on two busy cores. --write puts the
# differences found into the lists, keeping the sentences of those that are known: for you
# to read, to explain, or to cure. --keep leaves all results in DIR.
#
# The suite comes from the source package of the installed server, through the machine's
# own apt sources; if these no longer have that very version, another of the same major.
# The outputs are compared with each other, not with the package's. SERVER_SOURCE=DIR is
# an unpacked source tree to be used instead, as with a PG_CONFIG that is not Debian's.
#
# The extension exists in all runs, in a schema that is in no search_path, so that its
# catalog rows are no difference; in the first run its library is not loaded.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/beside_server.sh

write=''
keep=''
while [ $# != 0 ]; do
	case $1 in
		--write) write=--write; shift ;;
		--keep) keep=$(realpath -m "${2:?}"); shift 2 ;;
		-*) sed -n '2,/^$/s/^# \{0,1\}//p' test/server_regress.sh; [[ $1 = -h || $1 = --help ]]; exit ;;
		*) break ;;
	esac
done
variants=("$@")
[ $# != 0 ] || variants=(setting forced batched parallel)
for variant in "${variants[@]}"; do
	case $variant in
		setting|forced|batched|parallel) ;;
		*) echo "server_regress.sh: no such variant: \"$variant\" (setting, forced, batched, parallel)" >&2; exit 2 ;;
	esac
done
setup_packages server_regress

at_end() {
	[ -n "$keep" ] || return 0
	mkdir -p "$keep"
	cp -a "$tmp"/*.results "$tmp"/*.log "$keep/" 2>/dev/null || true
}

# ---- the suite ----------------------------------------------------------------

# apt-get and apt-cache with lists and sources of their own: the machine's sources of
# packages, read as sources of source packages.
private_apt() {
	local tool=$1
	shift
	"$tool" -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$tmp/apt/sources" \
		-o "Dir::State::lists=$tmp/apt/lists" -o "Dir::Cache=$tmp/apt/cache" \
		-o APT::Sandbox::User=root -o Acquire::Retries=3 "$@"
}

# Unpacks the source package of the server's package into $tmp/server.
get_source() {
	local package file name version versions client
	package=$(dpkg-query -S "$("$PG_CONFIG" --bindir)/postgres")
	package=${package%%:*}
	read -r name version < <(dpkg-query -W -f '${source:Package} ${source:Version}\n' "$package")

	mkdir -p "$tmp"/apt/{sources,lists/partial,cache/archives/partial}
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
		[ -f "$file" ] || continue
		case $file in
			*.list) sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$file" ;;
			*.sources) sed 's/^Types:.*/Types: deb-src/' "$file" ;;
		esac > "$tmp/apt/sources/${file##*/}"
	done
	# Some unrelated source may be out of reach.
	private_apt apt-get update || true

	versions=$(private_apt apt-cache madison "$name" | awk '/Sources *$/ { print $3 }' | sort -uVr)
	cd "$tmp/apt"
	for version in "$version" $versions; do
		if private_apt apt-get source --download-only "$name=$version"; then
			dpkg-source --no-copy -x "${name}_${version#*:}.dsc" "$tmp/server"
			echo "$name $version" > "$tmp/server.version"
			# Its psql comes along, for the suite's scripts rely on what psql does
			# after an error, which has changed in a minor version before.
			if [ "$version" != "$(dpkg-query -W -f '${source:Version}' "$package")" ]; then
				client=${package/#postgresql/postgresql-client}
				if apt-get download "$client=$version"; then
					dpkg -x "$client"_*.deb "$tmp/client"
				fi
			fi
			cd - >/dev/null
			return 0
		fi
	done
	cd - >/dev/null
	echo "server_regress.sh: the source package $name is not to be had" >&2
	return 1
}

# The suite's folder with its loadable modules, in $tmp/suite.
build_suite() {
	local psql
	cp -a "$source/src/test/regress" "$tmp/suite"
	cp "$source"/contrib/spi/{autoinc,refint}.c "$tmp/suite/"
	rm -f "$tmp"/suite/*.o "$tmp"/suite/GNUmakefile
	mkdir "$tmp/suite/bin"
	psql=$(find "$tmp/client" -path '*/bin/psql' 2>/dev/null) || true
	cp "${psql:-$("$PG_CONFIG" --bindir)/psql}" "$tmp/suite/bin/"
	cat > "$tmp/suite/Makefile" <<-'MAKE'
	MODULES = regress autoinc refint
	PG_CPPFLAGS = -DREFINT_VERBOSE
	PGXS := $(shell $(PG_CONFIG) --pgxs)
	include $(PGXS)
	MAKE
	make -C "$tmp/suite" PG_CONFIG="$PG_CONFIG" with_llvm=no

	# What runs beside the server, as its user.
	cat > "$tmp/suite/run.sh" <<-'RUN'
	set -e
	psql -Xqc 'CREATE DATABASE regression TEMPLATE template0'
	for setting in lc_messages lc_monetary lc_numeric lc_time; do
		psql -Xqc "ALTER DATABASE regression SET $setting TO 'C'"
	done
	psql -Xqc "ALTER DATABASE regression SET bytea_output TO 'hex'"
	psql -Xqc "ALTER DATABASE regression SET timezone_abbreviations TO 'Default'"
	psql -Xq -d regression -c 'SET client_min_messages = warning' -c 'CREATE SCHEMA streamdedup' \
		-c 'CREATE EXTENSION streamdedup SCHEMA streamdedup'

	# Whether the setting does anything here.
	planned=$(psql -XqAt -d regression -c "EXPLAIN SELECT DISTINCT i FROM generate_series(1, 10000) i")
	case $1$planned in
		stock*Custom*) echo "the filter is taken without the setting" >&2; exit 1 ;;
		stock*|*Custom\ Scan*) ;;
		*) printf '%s\n' "the setting does nothing:" "$planned" >&2; exit 1 ;;
	esac

	"$(dirname "$("$PG_CONFIG" --pgxs)")/../test/regress/pg_regress" --use-existing --dbname=regression \
		--inputdir=. --outputdir=. --bindir=bin --dlpath="$PWD" --max-concurrent-tests=20 \
		--schedule=parallel_schedule >&2 || true
	find results -name '*.out' -exec sed -i "s#$HOME#HOME#g" {} +
	tar -cf - results
	RUN
}

# ---- the runs --------------------------------------------------------------------

# Builds the extension in $tmp/NAME from the first build, with definitions for the two
# files that know of them.
build_variant() {
	cp -a "$tmp/setting" "$tmp/$1"
	make -C "$tmp/$1" -j"$(nproc)" CXX="g++ $2" \
		-W src/query/distinct/plan.cpp -W src/query/distinct/exec.cpp
}

# run NAME TREE [SETTING]...: the suite; results in $tmp/NAME.results.
run() {
	local name=$1 tree=$2 rc=0 setting settings=()
	shift 2
	# Which plan is taken must not depend on when a table is analyzed.
	for setting in 'autovacuum = off' "$@"; do
		settings+=(--set "$setting")
	done
	beside_server --install "$tree" --in "$tmp/suite" "${settings[@]}" -- \
		bash run.sh "$name" > "$tmp/results.tar" 2> "$tmp/$name.log" || rc=$?
	if [ "$rc" != 0 ]; then
		tail -n 60 "$tmp/$name.log" >&2
		echo "server_regress.sh: the run \"$name\" failed" >&2
		return 1
	fi
	mkdir "$tmp/$name.results"
	tar -C "$tmp/$name.results" --strip-components=1 -xf "$tmp/results.tar"
}

major=$("$PG_CONFIG" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
source=${SERVER_SOURCE:-}
if [ -z "$source" ]; then
	quietly "$tmp/source.log" get_source
	source=$tmp/server
	echo "suite of $(cat "$tmp/server.version") on $("$PG_CONFIG" --version)"
fi
quietly "$tmp/suite.log" build_suite

copy_build setting

run stock "$tmp/setting"
grep -E 'tests (passed|failed)' "$tmp/stock.log" | sed 's/^ */without the setting: /'

rc=0
for variant in "${variants[@]}"; do
	tree=forced
	definitions=-DDEDUP_LEAST_ROWS=0
	settings=('session_preload_libraries = streamdedup' 'streamdedup.approximate_distinct = on')
	case $variant in
		setting)
			tree=setting
			;;
		batched)
			tree=batched
			definitions="-DDEDUP_LEAST_ROWS=0 -DDEDUP_BATCH_FROM_SLOTS=0"
			settings+=('streamdedup.distinct_memory = 64kB' 'streamdedup.distinct_fpr = 0.00000001')
			;;
		parallel)
			if [ "$major" -ge 16 ]; then
				settings+=('debug_parallel_query = regress')
			else
				settings+=('force_parallel_mode = regress')
			fi
			;;
	esac
	[ -d "$tmp/$tree" ] || quietly "$tmp/make.log" build_variant "$tree" "$definitions"
	run "$variant" "$tmp/$tree" "${settings[@]}"
	perl test/server_regress.pl $write "$variant" "$tmp/stock.results" "$tmp/$variant.results" \
		"$tmp/suite/parallel_schedule" "test/server_regress/$major" || rc=1
done
exit "$rc"
