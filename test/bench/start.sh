# shellcheck shell=bash
# How the benchmarks of SQL begin: sourced after test/setup.sh, from the top folder of the checkout.

# build_quietly: builds the extension and prints the compiler's output only if that fails.
build_quietly() {
	local log
	log=$(mktemp)
	make -j2 > "$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; return 1; }
	rm -f "$log"
}

# print_machine: prints the processor, how many there are, and the memory.
print_machine() {
	printf 'machine: %s, %s processors, %s GB\n' \
		"$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
		"$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)"
}
