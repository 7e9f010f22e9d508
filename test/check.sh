#!/bin/bash
# Installs what is missing and runs every check. Exits non-zero if one fails.
#
# usage: test/check.sh [PART]...
#
#   gcc       the extension builds without a warning, bitcode included
#   clang     the same with clang
#   unit      unit tests
#   sanitize  unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   frozen    the frozen bytes at -O0 and -O3, with gcc and clang
#   papers    the programs that measure error rates build, and one table comes out
#   regress   pg_regress, isolation and TAP tests
#   torture   the server killed at random, and everything compared (TORTURE_SECONDS)
#   install   installing as a user does; dump and restore
#   demo      the demonstration: a short generated stream, and files of each kind
#   fuzz      a minute of fuzzing (FUZZ_SECONDS)
#   valgrind  some of the regression tests, the server under valgrind
#
# Without arguments all of them. Everything is built from a copy of the
# checkout in a temporary folder, so that nothing old is tested and nothing is
# written into the checkout. Each part prints the closing lines of what it
# runs; the whole log only if it failed.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh

all_parts=(gcc clang unit sanitize frozen papers regress torture install demo fuzz valgrind)
jobs=$(nproc)
clang=${CLANG_VERSION:-14}

# Parts.
#
# A part is a function that runs in a process group of its own. Its output is
# the part's log; what it writes to descriptor 3 is seen. $tmp is shared.

# Shows the lines of a file that match.
show() {
	grep -E "$@" >&3 || true
}

# The files of the checkout: those that git has or would take.
copy_checkout() {
	local to=$1 file
	mkdir "$to"
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				if [ -e "$file" ]; then printf '%s\0' "$file"; fi
			done | tar --null -T - -cf - | tar -C "$to" -xf -
	else
		tar --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' -cf - . | tar -C "$to" -xf -
	fi
}

# Builds the extension in $tmp/gcc, for the part of that name and for all that
# install it. PGXS takes COPT for C only, so -Werror comes with the compiler.
build_gcc() {
	local pgxs bitcode_clang
	[ ! -d "$tmp/gcc" ] || return 0
	pgxs=$("$PG_CONFIG" --pgxs)
	bitcode_clang=$(sed -n 's/^CLANG[ \t]*=[ \t]*//p' "${pgxs%/makefiles/pgxs.mk}/Makefile.global")
	cp -a "$tmp/source" "$tmp/building"
	make -C "$tmp/building" -j"$jobs" CXX='g++ -Werror' CLANG="$bitcode_clang -Werror"
	mv "$tmp/building" "$tmp/gcc"
}

part_gcc() {
	build_gcc
	g++ --version | head -n 1 >&3
	(cd "$tmp/gcc" && wc -c ./*.so) >&3
}

# clang does not know all that the server's flags and headers ask of gcc.
part_clang() {
	cp -a "$tmp/source" "$tmp/clang"
	make -C "$tmp/clang" -j"$jobs" with_llvm=no CC="clang-$clang" \
		CXX="clang++-$clang -Werror -Wno-unknown-warning-option -Wno-ignored-attributes"
	"clang++-$clang" --version | head -n 1 >&3
	(cd "$tmp/clang" && wc -c ./*.so) >&3
}

# unit_tests FOLDER [CMAKE OPTION]...
unit_tests() {
	local build=$1 rc=0
	shift
	cmake -S "$tmp/source/test/unit" -B "$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON "$@"
	cmake --build "$build" -j"$jobs"
	ctest --test-dir "$build" -j"$jobs" --no-tests=error --output-on-failure > "$build.ctest" 2>&1 || rc=$?
	cat "$build.ctest"
	show 'tests passed|tests failed|Total Test time|\*\*\*|No tests' "$build.ctest"
	[ "$rc" = 0 ] || show -A 12 ': Failure$|runtime error:|ERROR: AddressSanitizer' "$build.ctest"
	return "$rc"
}

# Optimised as the extension is, with assertions.
part_unit() {
	unit_tests "$tmp/unit" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2
}

part_sanitize() {
	export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
	unit_tests "$tmp/sanitize" -DSANITIZE=ON
}

# The same keys must give the same bytes whoever compiles, and however.
part_frozen() {
	local compiler level build
	for compiler in g++ "clang++-$clang"; do
		for level in -O0 -O3; do
			build=$tmp/frozen-$compiler$level
			cmake -S "$tmp/source/test/unit" -B "$build" -DCMAKE_CXX_COMPILER="$compiler" \
				-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$level"
			cmake --build "$build" -j"$jobs" --target frozen_test
			"$build/frozen_test" > "$build.out" 2>&1 ||
				{ cat "$build.out"; echo "$compiler $level differs" >&3; return 1; }
			echo "$compiler $level: $(grep 'PASSED' "$build.out")" >&3
		done
	done
}

# Their figures are for reading; here they have only to come.
part_papers() {
	local program out
	for program in papers curves; do
		g++ -std=c++20 -O2 -Wall -Wextra -Werror -I"$tmp/source/src" "$tmp/source/test/bench/$program.cpp" -o "$tmp/$program"
	done
	out=$("$tmp/papers" --table qht1)
	echo "$out" >&3
	[ "$(grep -c ' here ' <<< "$out")" = 5 ]
	[ "$("$tmp/curves" ages | wc -l)" -gt 100 ]
}

# installcheck OUT [PGTMP OPTION]... [-- MAKE ARGUMENT]...: make installcheck
# in a copy of the built tree, its output to the file OUT.
installcheck() {
	local out=$1 options=() rc=0
	shift
	while [ $# != 0 ] && [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	[ $# = 0 ] || shift
	# shellcheck disable=SC2016  # for the shell inside
	test/pgtmp.sh --install "$tmp/gcc" --in "$tmp/gcc" "${options[@]}" -- bash -c '
		make installcheck "$@" || {
			rc=$?
			cat regression.diffs output_iso/regression.diffs 2>/dev/null
			for log in $(grep -lE "not ok|^# Looks like|Tests were run but" tmp_check/log/regress_log_* 2>/dev/null); do
				echo "== $log"; tail -n 60 "$log"
			done
			exit $rc
		}
		' bash "$@" > "$out" 2>&1 || rc=$?
	cat "$out"
	show 'tests passed|tests failed|FAILED|^not ok|Failed test|^Files=|^Result:|crashed|valgrind found' "$out"
	return "$rc"
}

part_regress() {
	build_gcc
	installcheck "$tmp/regress.out"
}

# Half a minute of it.
part_torture() {
	local rc=0
	build_gcc
	test/pgtmp.sh --install "$tmp/gcc" --in "$tmp/gcc" -- \
		perl test/torture.pl "${TORTURE_SECONDS:-30}" > "$tmp/torture.out" 2>&1 || rc=$?
	cat "$tmp/torture.out"
	show '^torture|^VIOLATION|^  ' "$tmp/torture.out"
	return "$rc"
}

# What a user does with an installed extension and the regression tests do
# not; and that make uninstall takes away all that make install brought.
part_install() {
	local rc=0
	build_gcc
	test/pgtmp.sh --install "$tmp/gcc" --in "$tmp/gcc" -- bash test/install_check.sh > "$tmp/install.out" 2>&1 || rc=$?
	cat "$tmp/install.out"
	show -i '^ok|^not ok|error|crashed' "$tmp/install.out"
	[ "$rc" = 0 ] || return "$rc"

	make -C "$tmp/gcc" DESTDIR="$tmp/root" install
	echo "installs $(find "$tmp/root" -type f | wc -l) files" >&3
	make -C "$tmp/gcc" DESTDIR="$tmp/root" uninstall
	find "$tmp/root" -type f > "$tmp/stayed"
	cat "$tmp/stayed"
	[ ! -s "$tmp/stayed" ] || { echo "make uninstall leaves files" >&3; return 1; }
}

# Small streams with repeats, in every form that the demonstration takes.
part_demo() {
	local streams=$tmp/streams file
	build_gcc
	mkdir "$streams"
	awk 'BEGIN {
		OFS = "\t"
		print "epoch", "ip", "url", "agent"
		for (i = 0; i < 20000; i++)
			print 1400000000 + i * 15, "10.0." i % 7 "." i * i % 251, "/page/" i * i * i % 997 "\\\\", "browser"
	}' | gzip > "$streams/clicks.tsv.gz"
	gzip -dc "$streams/clicks.tsv.gz" | sed '1s/ip\turl/first name\tsecond/' | zstd -q > "$streams/unknown.tsv.zst"
	awk 'BEGIN { for (i = 0; i < 20000; i++) print i * i % 4999 - 2000 }' | zstd -q > "$streams/numbers.txt.zst"
	awk 'BEGIN { for (i = 0; i < 20000; i++) print "a \\ \"line\",\twith " i * i % 4999 }' > "$streams/lines.txt"

	(cd "$tmp/gcc" && DEMO_CLICKS=100000 test/demo.sh) > "$tmp/demo.out" || { cat "$tmp/demo.out"; return 1; }
	cat "$tmp/demo.out" >&3
	for file in "$streams"/*; do
		"$tmp/gcc/test/demo.sh" "$file" > "$tmp/demo.out" || { cat "$tmp/demo.out"; return 1; }
		cat "$tmp/demo.out"
		echo "${file##*/}: $(tail -n 1 "$tmp/demo.out")" >&3
	done
}

part_fuzz() {
	local seconds=${FUZZ_SECONDS:-60} rc=0
	cmake -S "$tmp/source/test/fuzz" -B "$tmp/fuzz" -DCMAKE_CXX_COMPILER="clang++-$clang"
	cmake --build "$tmp/fuzz" -j"$jobs" --target fuzz_filter
	mkdir -p "$tmp/corpus"
	[ ! -d test/fuzz/corpus ] || cp -r test/fuzz/corpus/. "$tmp/corpus/"
	export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
	"$tmp/fuzz/fuzz_filter" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
		-artifact_prefix="$tmp/" "$tmp/corpus" > "$tmp/fuzz.out" 2>&1 || rc=$?
	tail -n 200 "$tmp/fuzz.out"
	show '^Done|number_of_executed_units|new_units_added|peak_rss|ERROR|SUMMARY|^Base64' "$tmp/fuzz.out"
	return "$rc"
}

# Under valgrind a test takes some sixty times as long, and two seconds more,
# so: the quickest tests, as many as go into three minutes, or those that
# VALGRIND_TESTS names.
part_valgrind() {
	local tests=${VALGRIND_TESTS:-}
	build_gcc
	if [ -z "$tests" ]; then
		[ -f "$tmp/regress.out" ] || installcheck "$tmp/regress.out" -- ISOLATION= TAP_TESTS= 3>&1
		tests=$(sed -n 's/^test \([a-z0-9_]*\) .* ok  *\([0-9]*\) ms$/\2 \1/p; s/^ok [0-9]* *- \([a-z0-9_]*\)  *\([0-9]*\) ms$/\2 \1/p' "$tmp/regress.out" |
			sort -n | while read -r ms name; do [ ! -f "test/sql/$name.sql" ] || echo "$ms $name"; done |
			awk '(sum += 2000 + 60 * $1) <= 180000 { print $2 }')
		tests=${tests//$'\n'/ }
	fi
	echo "tests: $tests" >&3
	installcheck "$tmp/valgrind.out" --valgrind -- REGRESS="$tests" ISOLATION= TAP_TESTS=
}

# The main process.

usage() {
	sed -n '2,/^$/s/^# \{0,1\}//p' test/check.sh >&2
	exit 2
}

# check.sh --part PART is what the main process starts for each part.
if [ "${1:-}" = --part ]; then
	tmp=${CHECK_TMP:?}
	set -x
	"part_$2"
	exit
fi

parts=("$@")
[ $# != 0 ] || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
	case " ${all_parts[*]} " in
		*" $part "*) ;;
		*) usage ;;
	esac
done

setup_packages check

tmp=$(mktemp -d "${TMPDIR:-/tmp}/check.XXXXXX")
chmod 711 "$tmp"
running=

# Processes that still live in our folder.
leftovers() {
	local dir
	for dir in /proc/[0-9]*; do
		case $(readlink "$dir/exe" 2>/dev/null)\ $(readlink "$dir/cwd" 2>/dev/null)/ in
			"$tmp"/*|*" $tmp"/*) echo "${dir#/proc/}" ;;
		esac
	done
}

cleanup() {
	local rc=$?
	trap - EXIT
	trap '' INT TERM HUP
	if [ -n "$running" ]; then
		# The part's own scripts clean up when they are told to end.
		kill -TERM -- "-$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
		for _ in {1..300}; do
			kill -0 -- "-$running" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL -- "-$running" 2>/dev/null || true
	fi
	rm -rf "$tmp"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

copy_checkout "$tmp/source"
passed=0 failed=() times=()
for part in "${parts[@]}"; do
	echo "== $part"
	start=$SECONDS rc=0
	CHECK_TMP=$tmp TMPDIR=$tmp setsid bash test/check.sh --part "$part" 3>&1 > "$tmp/$part.log" 2>&1 < /dev/null &
	running=$!
	wait "$running" || rc=$?
	running=
	pids=$(leftovers)
	if [ -n "$pids" ]; then
		echo "left behind: $(ps -o pid=,args= -p "${pids//$'\n'/,}" 2>/dev/null || echo "$pids")"
		# shellcheck disable=SC2086  # one word a process
		kill -KILL $pids 2>/dev/null || true
		[ "$rc" != 0 ] || rc=1
	fi
	if [ "$rc" = 0 ]; then
		passed=$((passed + 1))
	else
		failed+=("$part")
		echo "-- the end of its log"
		tail -n 150 "$tmp/$part.log"
	fi
	times+=("$part $((SECONDS - start)) s")
	echo "-- $part: $([ "$rc" = 0 ] && echo passed || echo FAILED) in $((SECONDS - start)) s"
done

echo
printf '%s\n' "${times[@]}"
echo "all $SECONDS s"
[ ${#failed[@]} = 0 ] || echo "failed: ${failed[*]}"
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ]
