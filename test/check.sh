#!/bin/bash
# Installs what is missing and runs every check. Exits non-zero if one fails.
#
# usage: test/check.sh [PART]...
#
#   gcc       the extension builds without a warning
#   clang     the same with clang
#   unit      unit tests, the quick run
#   sanitize  unit tests under AddressSanitizer and UndefinedBehaviorSanitizer, the quick run
#   frozen    the frozen bytes at -O0 and -O3, with gcc and clang
#   regress   pg_regress, isolation and TAP tests, on a server with the default settings
#   valgrind  some of the regression tests, the server under valgrind
#   fuzz      the seeds are those that make_corpus writes; half a minute of fuzzing (FUZZ_SECONDS)
#   guards    half a minute of guards made by hand, at random (GUARD_FUZZ_SECONDS)
#   largest   filters at their largest size, on a build where that is small
#   torture   the server killed at random, and everything compared (TORTURE_SECONDS)
#   papers    the programs that measure error rates build, and one table comes out
#   install   installing as a user does; dump and restore
#   demo      the demonstration: a short generated stream, and files of each kind
#   docs      links, names of functions, the example of a method and the pictures in the documentation;
#             the version is the same in every file that names it
#   format    every file of C++ is as clang-format writes it
#   thorough  all unit tests with all samples, with and without the sanitizers
#
# Without arguments all of them except thorough. Run thorough before a release, and after
# each change to the core. Everything is built from a copy of the checkout in a temporary
# folder, so that nothing old is tested and nothing is written into the checkout. Parts
# that need only one core run side by side. Each part prints the closing lines of what it
# runs; the whole log only if it failed.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh

# Parts that use all cores run alone, in this order. After them the parts that use one
# core run, as many at a time as there are cores, but at most four; they start in this order.
wide_parts=(gcc clang unit sanitize frozen)
narrow_parts=(regress torture valgrind fuzz guards demo papers largest install docs format)
# Parts that run only if they are named.
extra_parts=(thorough)

cores=$(nproc)
clang=${CLANG_VERSION:-14}

# Parts.
#
# A part is a function that runs in a process group of its own. Its output is
# the part's log; what it writes to descriptor 3 is seen. $tmp is shared, $jobs is how
# many compilers the part may run at a time, and TMPDIR is the part's own folder.

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
	{
		flock 9
		[ -d "$tmp/gcc" ] || build_gcc_once
	} 9> "$tmp/gcc.lock"
}

build_gcc_once() {
	cp -a "$tmp/source" "$tmp/building"
	make -C "$tmp/building" -j"$jobs" CXX='g++ -Werror'
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
	make -C "$tmp/clang" -j"$jobs" CC="clang-$clang" \
		CXX="clang++-$clang -Werror -Wno-unknown-warning-option -Wno-ignored-attributes"
	"clang++-$clang" --version | head -n 1 >&3
	(cd "$tmp/clang" && wc -c ./*.so) >&3
}

# unit_tests FOLDER [CMAKE OPTION]...
unit_tests() {
	local build=$1 rc=0 log
	shift
	log=$build/Testing/Temporary/LastTest.log
	cmake -S "$tmp/source/test/unit" -B "$build" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON "$@"
	cmake --build "$build" -j"$jobs"
	echo "built in $SECONDS s" >&3
	ctest --test-dir "$build" -j"$jobs" --no-tests=error --output-on-failure > "$build.ctest" 2>&1 || rc=$?
	cat "$build.ctest"
	echo "$(grep -c '^\[       OK \]' "$log") test cases passed" >&3
	show 'tests passed|tests failed|Total Test time|\*\*\*|No tests' "$build.ctest"
	[ "$rc" = 0 ] || show -A 12 ': Failure$|runtime error:|ERROR: AddressSanitizer' "$build.ctest"
	return "$rc"
}

# Optimised as the extension is, with assertions.
optimised=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2)

sanitizer_options() {
	export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
}

part_unit() {
	unit_tests "$tmp/unit" "${optimised[@]}"
}

# clang compiles sanitized code faster than gcc. The part thorough uses gcc.
part_sanitize() {
	sanitizer_options
	unit_tests "$tmp/sanitize" -DSANITIZE=ON -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-g1 \
		-DCMAKE_CXX_COMPILER="clang++-$clang"
}

part_thorough() {
	unit_tests "$tmp/thorough" -DTHOROUGH=ON "${optimised[@]}"
	sanitizer_options
	unit_tests "$tmp/thorough-sanitize" -DTHOROUGH=ON -DSANITIZE=ON
}

# The same keys must give the same bytes whoever compiles, and however.
part_frozen() {
	local compiler level build
	for compiler in g++ "clang++-$clang"; do
		for level in -O0 -O3; do
			build=$tmp/frozen-$compiler$level
			cmake -S "$tmp/source/test/unit" -B "$build" -DCMAKE_CXX_COMPILER="$compiler" -DTHOROUGH=ON \
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
	build_gcc
	for program in papers curves pauses growing; do
		g++ -std=c++20 -O2 -Wall -Wextra -Werror -I"$tmp/source/src" "$tmp/source/test/bench/$program.cpp" \
			"$tmp"/gcc/src/core/*.o "$tmp"/gcc/src/core/methods/*.o -o "$tmp/$program"
	done
	out=$("$tmp/papers" --table qht1)
	echo "$out" >&3
	[ "$(grep -c ' here ' <<< "$out")" = 5 ]
	[ "$("$tmp/curves" ages | wc -l)" -gt 100 ]
	# Fails if a key is missed. At 0.1 the quotient filter doubles entries without bits.
	"$tmp/growing" rates fpr=0.1 keys=1000000 >&3
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

# As on a server that has just been installed; fsync changes no output. TAP tests wait more
# than they work, so two run at a time. What can do more where transactions can be prepared
# runs there, too.
part_regress() {
	build_gcc
	installcheck "$tmp/regress.out" --default --set 'fsync = off' -- PROVE_FLAGS=-j2
	installcheck "$tmp/prepared.out" --set 'max_prepared_transactions = 10' -- \
		REGRESS='live_guard_rows live_guard_deleted' ISOLATION=prepared TAP_TESTS=
}

# In this build filters stop growing at 32 kB instead of 512 MB.
part_largest() {
	local rc=0
	build_gcc
	cp -a "$tmp/gcc" "$tmp/largest"
	touch "$tmp/largest/src/core/methods/infini.cpp"
	make -C "$tmp/largest" -j"$jobs" CXX='g++ -Werror' PG_CPPFLAGS='-Isrc -DDEDUP_INFINI_TOP_BITS=9'
	test/pgtmp.sh --install "$tmp/largest" --in "$tmp/largest" -- bash -c '
		make installcheck REGRESS=largest REGRESS_OPTS="--load-extension=streamdedup --inputdir=test/largest" \
			ISOLATION= TAP_TESTS= || { cat regression.diffs; exit 1; }
		' > "$tmp/largest.out" 2>&1 || rc=$?
	cat "$tmp/largest.out"
	show 'tests passed|tests failed|FAILED|^not ok|crashed' "$tmp/largest.out"
	return "$rc"
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

# Guards that are made by hand, at random, by a role that may create tables.
part_guards() {
	local rc=0
	build_gcc
	test/pgtmp.sh --install "$tmp/gcc" --in "$tmp/gcc" -- \
		perl test/guard_fuzz.pl "${GUARD_FUZZ_SECONDS:-30}" > "$tmp/guards.out" 2>&1 || rc=$?
	cat "$tmp/guards.out"
	show '^guard_fuzz|^VIOLATION|^  ' "$tmp/guards.out"
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

# Needs nothing of the build.
part_docs() {
	perl "$tmp/source/test/docs.pl" >&3
	python3 "$tmp/source/test/pictures.py" >&3
	"$tmp/source/test/versions.py" >&3
}

# The version is fixed: another one writes other spaces.
part_format() {
	clang-format-14 --version >&3
	cd "$tmp/source"
	find src test -name '*.[ch]pp' -print0 | xargs -0 clang-format-14 --dry-run --Werror
	echo "$(find src test -name '*.[ch]pp' | wc -l) files" >&3
}

# The seeds in the repository are those that make_corpus writes; others may stand beside them.
compare_seeds() {
	local seed stale=0
	build_gcc
	g++ -std=c++20 -Wall -Wextra -Werror -I"$tmp/source/src" "$tmp/source/test/fuzz/make_corpus.cpp" \
		"$tmp"/gcc/src/core/*.o "$tmp"/gcc/src/core/methods/*.o -o "$tmp/make_corpus"
	mkdir "$tmp/seeds"
	"$tmp/make_corpus" "$tmp/seeds"
	for seed in "$tmp"/seeds/*; do
		cmp "$seed" "$tmp/source/test/fuzz/corpus/${seed##*/}" || stale=$((stale + 1))
	done
	[ "$stale" = 0 ] || { echo "$stale seeds are not those that make_corpus writes" >&3; return 1; }
}

part_fuzz() {
	local seconds=${FUZZ_SECONDS:-30} rc=0
	compare_seeds
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

# Under valgrind a test takes some forty times as long, and more than a second besides,
# so: the quickest tests, as many as go into one minute, or those that
# VALGRIND_TESTS names.
part_valgrind() {
	local tests=${VALGRIND_TESTS:-}
	build_gcc
	if [ -z "$tests" ]; then
		[ -f "$tmp/regress.out" ] || installcheck "$tmp/regress.out" -- ISOLATION= TAP_TESTS= 3>&1
		tests=$(sed -n 's/^test \([a-z0-9_]*\) .* ok  *\([0-9]*\) ms$/\2 \1/p; s/^ok [0-9]* *- \([a-z0-9_]*\)  *\([0-9]*\) ms$/\2 \1/p' "$tmp/regress.out" |
			sort -n | while read -r ms name; do [ ! -f "sql/$name.sql" ] || echo "$ms $name"; done |
			awk '(sum += 1300 + 40 * $1) <= 60000 { print $2 }')
		tests=${tests//$'\n'/ }
	fi
	echo "tests: $tests" >&3
	installcheck "$tmp/valgrind.out" --valgrind -- REGRESS="$tests" ISOLATION= TAP_TESTS=
}

# The line of pg_regress that ends it.
regress_ended='^(#)? *(All [0-9]+ tests passed|[0-9]+ of [0-9]+ tests (passed|failed))'

# The main process.

usage() {
	sed -n '2,/^$/s/^# \{0,1\}//p' test/check.sh >&2
	exit 2
}

# check.sh --part PART is what the main process starts for each part.
if [ "${1:-}" = --part ]; then
	tmp=${CHECK_TMP:?} jobs=${CHECK_JOBS:?}
	set -x
	"part_$2"
	exit
fi

# has WORD WORD...: whether the first word is among the others.
has() {
	local word=$1
	shift
	case " $* " in
		*" $word "*) ;;
		*) return 1 ;;
	esac
}

parts=("$@")
[ $# != 0 ] || parts=("${wide_parts[@]}" "${narrow_parts[@]}")
for part in "${parts[@]}"; do
	has "$part" "${wide_parts[@]}" "${narrow_parts[@]}" "${extra_parts[@]}" || usage
done

setup_packages check

tmp=$(mktemp -d "${TMPDIR:-/tmp}/check.XXXXXX")
chmod 711 "$tmp"

# The running parts: process group of each part, and part of each process group.
declare -A group_of=() part_of=()
declare -A started=() took=()

# leftovers FOLDER: processes that still live in a folder of ours.
leftovers() {
	local dir
	for dir in /proc/[0-9]*; do
		case $(readlink "$dir/exe" 2>/dev/null)\ $(readlink "$dir/cwd" 2>/dev/null)/ in
			"$1"/*|*" $1"/*) echo "${dir#/proc/}" ;;
		esac
	done
}

# What a process runs. A minimal system has no ps.
describe_process() {
	tr '\0' ' ' 2>/dev/null < "/proc/$1/cmdline" || true
}

# end_leftovers FOLDER: kills and names what lives there. Fails if something did.
end_leftovers() {
	local pid pids
	pids=$(leftovers "$1")
	[ -n "$pids" ] || return 0
	for pid in $pids; do
		echo "left behind: $pid $(describe_process "$pid")"
		kill -KILL "$pid" 2>/dev/null || true
	done
	return 1
}

cleanup() {
	local rc=$? pid
	trap - EXIT
	trap '' INT TERM HUP
	# The parts' own scripts clean up when they are told to end.
	for pid in "${group_of[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
	for pid in "${group_of[@]}"; do
		wait "$pid" 2>/dev/null || true
		for _ in {1..300}; do
			kill -0 -- "-$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL -- "-$pid" 2>/dev/null || true
	done
	rm -rf "$tmp"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# start PART JOBS: starts a part. Descriptor 3 takes what the part shows.
start() {
	local part=$1
	mkdir "$tmp/in.$part"
	chmod 711 "$tmp/in.$part"
	started[$part]=$SECONDS
	CHECK_TMP=$tmp CHECK_JOBS=$2 TMPDIR=$tmp/in.$part setsid bash test/check.sh --part "$part" \
		> "$tmp/$part.log" 2>&1 < /dev/null &
	group_of[$part]=$!
	part_of[$!]=$part
}

# finish PART STATUS: reports a part that has ended.
finish() {
	local part=$1 rc=$2 pid=${group_of[$1]} result=passed
	unset "group_of[$part]" "part_of[$pid]"
	took[$part]=$((SECONDS - started[$part]))
	if ! end_leftovers "$tmp/in.$part"; then rc=1; fi
	for _ in {1..20}; do
		kill -0 -- "-$pid" 2>/dev/null || break
		sleep 0.1
	done
	if kill -KILL -- "-$pid" 2>/dev/null; then
		echo "left behind: processes of the part's group"
		rc=1
	fi
	if [ "$rc" = 0 ]; then
		passed=$((passed + 1))
	else
		failed+=("$part")
		result=FAILED
		echo "-- the end of its log"
		tail -n 150 "$tmp/$part.log"
	fi
	rm -rf "$tmp/in.$part"
	echo "-- $part: $result in ${took[$part]} s"
}

# Whether a part may start: valgrind chooses its tests by how long they took in regress, where
# pg_regress comes first.
ready() {
	[ "$1" != valgrind ] || [ -n "${VALGRIND_TESTS:-}" ] || grep -qsE "$regress_ended" "$tmp/regress.out" ||
		{ ! has regress "${waiting[@]}" && [ -z "${group_of[regress]:-}" ]; }
}

# Starts the first waiting part that may start. Fails if there is none.
start_next() {
	local i
	for i in "${!waiting[@]}"; do
		if ready "${waiting[i]}"; then
			start "${waiting[i]}" "$narrow_jobs" 3> "$tmp/${waiting[i]}.seen"
			unset "waiting[i]"
			return 0
		fi
	done
	return 1
}

copy_checkout "$tmp/source"
passed=0 failed=() waiting=()

# A part that runs alone shows its lines at once.
for part in "${parts[@]}"; do
	if has "$part" "${narrow_parts[@]}"; then
		has "$part" "${waiting[@]}" || waiting+=("$part")
		continue
	fi
	[ -z "${took[$part]:-}" ] || continue
	echo "== $part"
	rc=0
	start "$part" "$cores" 3>&1
	wait "${group_of[$part]}" || rc=$?
	finish "$part" "$rc"
done

# The lines of parts that run side by side are shown part by part, when each has ended.
lanes=$((cores < 4 ? cores : 4))
narrow_jobs=$((cores / lanes))
while [ ${#waiting[@]} != 0 ] || [ ${#group_of[@]} != 0 ]; do
	while [ ${#group_of[@]} -lt "$lanes" ] && start_next; do :; done
	# With a lane to spare, look again in a while whether the next part may start.
	tick=()
	if [ ${#waiting[@]} != 0 ] && [ ${#group_of[@]} -lt "$lanes" ]; then
		sleep 2 &
		tick=("$!")
	fi
	rc=0
	wait -n -p pid "${group_of[@]}" "${tick[@]}" || rc=$?
	part=${part_of[$pid]:-}
	[ -n "$part" ] || continue
	echo "== $part"
	cat "$tmp/$part.seen"
	finish "$part" "$rc"
done
if ! end_leftovers "$tmp"; then failed+=(leftovers); fi

echo
for part in "${wide_parts[@]}" "${narrow_parts[@]}" "${extra_parts[@]}"; do
	[ -z "${took[$part]:-}" ] || printf '%-9s %5d s\n' "$part" "${took[$part]}"
done
printf '%-9s %5d s\n' all "$SECONDS"
[ ${#failed[@]} = 0 ] || echo "failed: ${failed[*]}"
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ]
