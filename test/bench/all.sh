#!/bin/bash
# Runs every benchmark behind a table of docs/benchmarks.md in one go, on a quiet machine: about
# half an hour on two cores. By hand.
#
# usage: test/bench/all.sh [OPTION]... [PART]...
#
#   --results DIR  where the outputs go, a file for each part (build/benchmarks)
#   --tiny         smallest sizes, to see that every part works. The figures mean nothing
#   --list         prints the names of the parts
#
# Without names all parts run. A part that is named runs alone, and its file replaces that of an
# earlier run. Some parts need something that is not in this checkout, and are skipped without it:
#
#   REDISBLOOM     folder with the source of RedisBloom, as test/bench/redisbloom.sh says
#   DUCKDB         DuckDB's library, as test/bench/duckdb.sh says
#   CITUS          folder with the source of Citus, as test/bench/citus.sh says; CITUS_BUILD keeps
#                  its build, which otherwise takes some minutes more
#
# Then test/bench/tables.py writes the tables of docs/benchmarks.md from the folder.
#
# A file begins with what was measured, and on what: the commit, the processor with its
# instruction sets, memory, kernel, PostgreSQL, the compiler, and how busy the machine was before
# anything ran. It ends with the load after it, the processor time that the host of a virtual
# machine took, and the seconds. A part that fails does not stop the others. Never fails by figures.
#
# To add a part: a function part_NAME below, which calls "bench" once, and NAME in "parts". A table
# of docs/benchmarks.md with the same name between its markers then gets its figures.

set -euo pipefail
cd "$(dirname "$0")/../.."

parts=(core core_plain errors aggregate window groups plpgsql distinct large count parallel shared_set workers duckdb
	insert preloaded copy pgbench rows new_keys new_keys_present redisbloom single_keys growing_live daily partitions deletes citus)
results=build/benchmarks
tiny=
wanted=()
while [ $# != 0 ]; do
	case $1 in
		--results) results=${2:?}; shift 2 ;;
		--tiny) tiny=yes; shift ;;
		--list) printf '%s\n' "${parts[@]}"; exit ;;
		-*) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
		*) wanted+=("$1"); shift ;;
	esac
done
for name in "${wanted[@]}"; do
	[[ " ${parts[*]} " == *" $name "* ]] || { echo "all.sh: no such part: \"$name\"" >&2; exit 2; }
done
[ ${#wanted[@]} != 0 ] || wanted=("${parts[@]}")

. test/setup.sh
setup_packages bench

# size WHOLE TINY: the size to run with.
size() {
	if [ -n "$tiny" ]; then echo "$2"; else echo "$1"; fi
}

# bench [VARIABLE=VALUE]... COMMAND [ARGUMENT]...: notes the command and runs it. What is outside
# of this checkout is noted by its name. A second output is not noted.
bench() {
	local word words=()
	for word; do
		case $word in
			"${REDISBLOOM:--}") word=REDISBLOOM ;;
			"${DUCKDB:--}") word=DUCKDB ;;
			"${CITUS:--}") word=CITUS ;;
			--benchmark_out*) continue ;;
			*=*[' ()|']*) word="${word%%=*}='${word#*=}'" ;;
		esac
		words+=("$word")
	done
	echo "#: command: ${words[*]}"
	env "$@"
}

# needs NAME VALUE...: whether what is outside of this checkout is there. The part is skipped if not.
needs() {
	[ -n "$2" ] || { echo "#: skipped: $1 is not set"; return 1; }
}

# The core's programs, in a folder that stays.
build_core() {
	if ! { cmake -S test/bench -B "build/bench$1" "${@:2}" && cmake --build "build/bench$1" -j2; } > "$log" 2>&1; then
		cat "$log"
		return 1
	fi
}

# ---- The parts. Sizes are such that all take about half an hour together.

# All methods in batches and, at 16 MiB, one key at a time. Some would take minutes at 256 MiB.
part_core() {
	build_core '' || return
	bench build/bench/core_bench --benchmark_format=csv --benchmark_out_format=json --benchmark_out="$results/speed.json" \
		--benchmark_filter="$(size '-(cuckoo|cuckoo_strict|dsqf|rsbf)/256MiB/|/(1|256)MiB/.*/single' '^(blocked_bloom|recent)/(1|16)MiB/')"
}

# The same without AVX-512, where the processor has it.
part_core_plain() {
	build_core -plain -DWITHOUT_AVX512=ON || return
	bench build/bench-plain/core_bench --benchmark_format=csv \
		--benchmark_filter="$(size '^(blocked_bloom|infini)/(16|256)MiB/.*/batch' '^blocked_bloom/16MiB/.*/batch')"
}

part_errors() {
	build_core '' || return
	bench build/bench/count_errors "$(size 1000 3)"
}

part_aggregate() { bench BENCH_ROWS="$(size 10000000 50000)" BENCH_ROUNDS="$(size 5 2)" test/bench/run_sql.sh aggregate; }
part_window() { bench BENCH_ROWS="$(size 10000000 50000)" BENCH_ROUNDS="$(size 3 2)" test/bench/run_sql.sh window; }
part_groups() { bench BENCH_GROUPS="$(size 200000 2000)" BENCH_ROUNDS="$(size 3 2)" test/bench/run_sql.sh groups; }
part_plpgsql() { bench BENCH_ADDS="$(size 100000 500)" BENCH_ROUNDS="$(size 3 2)" test/bench/run_sql.sh plpgsql; }

part_distinct() { bench BENCH_ROWS="$(size 5000000 50000)" BENCH_ROUNDS="$(size 3 2)" test/bench/distinct.sh distinct; }
part_large() { bench BENCH_ROWS="$(size 30000000 60000)" BENCH_ROUNDS=1 BENCH_TYPES=bigint test/bench/distinct.sh distinct; }
part_count() { bench BENCH_ROWS="$(size 5000000 50000)" BENCH_ROUNDS="$(size 3 2)" test/bench/distinct.sh count; }
part_parallel() {
	bench BENCH_ROWS="$(size 10000000 50000)" BENCH_ROUNDS="$(size 3 2)" BENCH_TYPES='bigint text' test/bench/distinct.sh parallel
}
part_shared_set() { bench BENCH_ROWS="$(size 10000000 50000)" BENCH_ROUNDS="$(size 3 2)" test/bench/run_sql.sh distinct_parallel; }
part_workers() {
	[ -f test/bench/workers.sh ] || { echo '#: skipped: there is no test/bench/workers.sh'; return; }
	bench BENCH_ROWS="$(size 10000000 50000)" BENCH_ROUNDS="$(size 5 2)" test/bench/workers.sh
}
part_duckdb() {
	needs DUCKDB "${DUCKDB:-}" || return 0
	bench BENCH_ROWS="$(size 5000000 50000)" BENCH_ROUNDS="$(size 5 2)" test/bench/duckdb.sh "$DUCKDB"
}

part_insert() { bench BENCH_ROWS="$(size 1000000 20000)" BENCH_ROUNDS="$(size 3 2)" test/bench/live.sh insert; }
part_preloaded() {
	bench BENCH_PRESENT="$(size 20000000 100000)" BENCH_ROWS="$(size 1000000 20000)" BENCH_ROUNDS="$(size 3 2)" test/bench/live.sh preloaded
}
part_copy() { bench BENCH_ROWS="$(size 1000000 20000)" BENCH_ROUNDS="$(size 3 2)" test/bench/live.sh copy; }
part_pgbench() { bench BENCH_SECONDS="$(size 3 1)" BENCH_ROUNDS="$(size 3 1)" test/bench/live.sh pgbench; }
part_rows() { bench BENCH_ROUNDS="$(size 5 1)" test/bench/live.sh rows; }

part_new_keys() {
	needs REDISBLOOM "${REDISBLOOM:-}" || return 0
	bench BENCH_KEYS="$(size 100000 1000)" BENCH_ROUNDS="$(size 9 2)" test/bench/new_keys.sh "$REDISBLOOM"
}
part_new_keys_present() {
	needs REDISBLOOM "${REDISBLOOM:-}" || return 0
	bench BENCH_KEYS="$(size 100000 1000)" BENCH_ROUNDS="$(size 7 2)" BENCH_PRESENT="$(size 5000000 10000)" \
		test/bench/new_keys.sh "$REDISBLOOM"
}
part_redisbloom() {
	needs REDISBLOOM "${REDISBLOOM:-}" || return 0
	bench BENCH_KEYS="$(size 3000000 20000)" test/bench/redisbloom.sh "$REDISBLOOM"
}

part_single_keys() {
	needs REDISBLOOM "${REDISBLOOM:-}" || return 0
	bench BENCH_KEYS="$(size 50000 640)" BENCH_ROUNDS="$(size 5 1)" test/bench/single_keys.sh "$REDISBLOOM"
}

part_growing_live() {
	bench BENCH_KEYS="$(size '100000 1000000' 10000)" BENCH_SINGLE="$(size '100000 1000000' 1000)" \
		BENCH_FULL="$(size 10000000 10000)" BENCH_ADDED="$(size 1000000 1000)" BENCH_ROUNDS="$(size 2 1)" \
		BENCH_TTL="$(size 10 1)" BENCH_STREAM="$(size 2000 1000)" \
		test/bench/growing_live.sh
}

part_daily() {
	bench BENCH_PRESENT="$(size 3000000 100000)" BENCH_ROWS="$(size 200000 5000)" BENCH_ROUNDS="$(size 3 1)" \
		BENCH_BUFFERS="$(size '2GB 32MB' '256MB 32MB')" test/bench/guards.sh daily
}
part_partitions() {
	bench BENCH_PRESENT="$(size 3000000 100000)" BENCH_ROWS="$(size 60000 5000)" BENCH_ROUNDS="$(size 3 1)" \
		BENCH_BUFFERS="$(size 2GB 256MB)" BENCH_DAYS="$(size '30 300 1000' '30 60')" test/bench/guards.sh partitions
}
part_deletes() { bench BENCH_ROWS="$(size 1000000 20000)" BENCH_ROUNDS="$(size 3 1)" test/bench/deletes.sh; }

part_citus() {
	needs CITUS "${CITUS:-}" || return 0
	bench BENCH_ROWS="$(size 2000000 20000)" BENCH_USERS="$(size 600000 6000)" BENCH_ROUNDS="$(size 3 1)" test/bench/citus.sh "$CITUS"
}

# ---- What stands around each part's output

of_cpu() { sed -n "s/^$1[^:]*: *//p" /proc/cpuinfo | head -n 1; }

# Jiffies that all processors have worked for us, waited, and been taken from us.
jiffies() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $5 + $6, $9 }' /proc/stat; }

# share BEFORE AFTER FIELD: of the time between two such lines, in percent.
share() {
	awk -v field="$3" '{ for (i = 1; i <= 3; i++) d[i] = $(i + 3) - $i; all = d[1] + d[2] + d[3]
		printf "%.1f %%", all ? 100 * d[field] / all : 0 }' <<< "$1 $2"
}

sets() {
	local flag found=()
	for flag in sse4_2 avx avx2 avx512f avx512bw avx512vl sve sve2 asimd; do
		[[ " $(of_cpu flags) $(of_cpu Features) " != *" $flag "* ]] || found+=("${flag^^}")
	done
	echo "${found[*]:-unknown}"
}

describe() {
	local before after changed=
	git diff --quiet HEAD -- src test/bench Makefile 2>/dev/null || changed=' with changes'
	echo "#: part: $1"
	echo "#: sizes: $(size whole tiny)"
	echo "#: date: $(date -u '+%F %H:%M UTC')"
	echo "#: commit: $(git rev-parse --short HEAD 2>/dev/null || echo unknown)$changed"
	echo "#: processor: $(of_cpu 'model name'), family $(of_cpu 'cpu family') model $(of_cpu model), $(nproc) processors, L2 and L3 $(
		lscpu 2>/dev/null | sed -n 's/^L[23] cache: *//p' | paste -sd / || echo unknown)"
	echo "#: instruction sets: $(sets)"
	echo "#: memory: $(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo) GiB"
	echo "#: kernel: $(uname -sr)"
	echo "#: server: $("$PG_CONFIG" --version)"
	echo "#: compiler: $("${CXX:-g++}" --version | head -n 1)"
	before=$(jiffies)
	sleep 1
	after=$(jiffies)
	echo "#: busy before: $(share "$before" "$after" 1)"
	echo "#: load before: $(cut -d' ' -f1-3 /proc/loadavg)"
}

run_part() {
	local name=$1 file=$results/$1.txt rc=0 began=$SECONDS before
	printf '%-17s ' "$name"
	{
		describe "$name"
		before=$(jiffies)
		"part_$name" < /dev/null || rc=$?
		echo
		echo "#: load after: $(cut -d' ' -f1-3 /proc/loadavg)"
		echo "#: taken by the host: $(share "$before" "$(jiffies)" 3)"
		echo "#: seconds: $((SECONDS - began))"
		echo "#: exit: $rc"
	} > "$file" 2>&1
	if [ "$rc" != 0 ]; then
		echo "FAILED, see $file"
	else
		sed -n 's/^#: skipped: /skipped: /p; s/^#: seconds: \(.*\)/\1 s/p' "$file" | head -n 1
	fi
	return "$rc"
}

mkdir -p "$results"
results=$(cd "$results" && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make -j2 > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
describe all | sed -n '/commit\|processor\|sets\|memory\|kernel\|server\|compiler\|before/s/^#: //p'
failed=()
for name in "${wanted[@]}"; do
	run_part "$name" || failed+=("$name")
done
echo "$SECONDS s in all; results in $results"
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
