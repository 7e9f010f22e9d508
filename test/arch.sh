#!/bin/bash
# Builds and tests the extension for other processors. g++ cross-compiles it, and qemu runs the
# tests, each processor in a Debian 12 system of its own. Run it as root, by hand: when the core or
# a stored format has changed, and before each release.
#
# usage: test/arch.sh [arm64|s390x]...
#
# Without arguments both. s390x is big-endian. The extension and the unit tests are compiled without
# a warning. The unit tests run, but not those that measure rates. The tests in SQL run, and
# golden.pl, which reads what x86-64 has written. What is committed is tested.
#
# ARCH_CACHE names a folder that keeps the systems and what was compiled. ARCH_UNITS are the unit
# tests, such as "frozen_test page_test". ARCH_TESTS are words for "make installcheck", such as
# "REGRESS=keys ISOLATION= TAP_TESTS=". The logs are in the folder ARCH_LOGS if it is set.
#
# The kernel starts qemu for a program of the other processor (binfmt_misc). If qemu is not registered,
# it is until the script ends. Only after SIGKILL the registration stays, in
# /proc/sys/fs/binfmt_misc/streamdedup-*: "echo -1" into this file removes it.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/bare_system.sh

[ $# != 0 ] || set -- arm64 s390x
for arch; do
	[[ " arm64 s390x " = *" $arch "* ]] || { echo "arch.sh: no such processor: \"$arch\" (arm64 s390x)" >&2; exit 2; }
done
SYSTEM_CACHE=${ARCH_CACHE:-}
read -r -a tests <<< "${ARCH_TESTS:-ISOLATION= PROVE_TESTS=test/tap/golden.pl}"
[ -z "${ARCH_LOGS:-}" ] || mkdir -p "$ARCH_LOGS"

# The unit tests, without those that measure rates, which take long under qemu.
slow='^(fpr|memory|oracle|pause|random_operations|recent)_test$'
read -r -d '' -a units <<< "${ARCH_UNITS:-$(basename -a -s .cpp test/unit/*_test.cpp | grep -vE "$slow")}" || true

# The name of the processor in gcc's and qemu's names.
machine() {
	case $1 in
		arm64) echo aarch64 ;;
		*) echo "$1" ;;
	esac
}

# Debian's own compilers, shell and perl, and the server, the libraries and GoogleTest of the other
# processor.
make_arch() {
	local arch=$1
	make_system bookworm || return
	in_root dpkg --add-architecture "$arch" || return
	install_there "g++-$(machine "$arch")-linux-gnu" make cmake ccache qemu-user-static perl libipc-run-perl procps mawk \
		"postgresql-15:$arch" "libxxhash-dev:$arch" "libgtest-dev:$arch" || return
	# Not by apt, which would want clang as well. The locales of libc-bin have the byte order of the
	# processor.
	logged unpack in_root sh -c "cd /tmp && apt-get download postgresql-server-dev-15:$arch libc-bin:$arch &&
		dpkg -x postgresql-server-dev-*.deb / &&
		dpkg --fsys-tarfile libc-bin_*.deb | tar -x -C / ./usr/lib/locale && rm ./*.deb"
}

# Lets the kernel run programs of the processor by the qemu of the system, with the numbers that
# Debian's package of qemu has for its own registration. Registered with F, it opens qemu now.
binfmt=/proc/sys/fs/binfmt_misc
registered=
register() {
	local file magic mask interpreter
	file=$root/usr/share/binfmts/qemu-$(machine "$1")
	[ -e "$binfmt/register" ] || mount -t binfmt_misc binfmt_misc "$binfmt" || return
	magic=$(sed -n 's/^magic //p' "$file") mask=$(sed -n 's/^mask //p' "$file")
	interpreter=$root$(sed -n 's/^interpreter //p' "$file")
	registered=$binfmt/streamdedup-$1-$$
	printf '%s' ":${registered##*/}:M:0:$magic:$mask:$interpreter:PF" > "$binfmt/register"
}

# Keeps the exit code, for cleanup().
unregister() {
	local rc=$?
	set +e
	[ -z "$registered" ] || [ ! -e "$registered" ] || echo -1 > "$registered"
	registered=
	return "$rc"
}
trap 'unregister; cleanup' EXIT

# compiled NAME COMMAND...: shows the errors and warnings if the command fails.
compiled() {
	local log=$top/$1.log
	logged "$@" > /dev/null ||
		{ grep -E ': (fatal )?error: |: warning: |\*\*\*|undefined reference' "$log" | head -n 40; return 1; }
}

test_arch() {
	local arch=$1 gxx config=/usr/lib/postgresql/15/bin/pg_config rc=0
	gxx=$(machine "$arch")-linux-gnu-g++
	use_system "$arch" make_arch "$arch" || return
	in_root "$config" --version > /dev/null 2>&1 || register "$arch" || return
	clone_there root/streamdedup || return
	in_root sh -c "$gxx --version | head -n 1; $config --version"
	[ ! -d "$SYSTEM_CACHE/ccache-$arch" ] || cp -a "$SYSTEM_CACHE/ccache-$arch" "$root/root/.cache"
	compiled build in_root make -k -C /root/streamdedup -j"$(nproc)" PG_CONFIG="$config" CC="${gxx%g++}gcc" \
		CXX="ccache $gxx -Werror" || return
	compiled build_units in_root sh -c "cd /root/streamdedup && cmake -S test/unit -B build/unit -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$(machine "$arch") -DCMAKE_CXX_COMPILER=$gxx \
		-DCMAKE_CXX_COMPILER_LAUNCHER=ccache && cmake --build build/unit -j$(nproc) --target ${units[*]}" || return
	if [ -n "$SYSTEM_CACHE" ] && [ -d "$root/root/.cache" ]; then
		rm -rf "$SYSTEM_CACHE/ccache-$arch"
		cp -a "$root/root/.cache" "$SYSTEM_CACHE/ccache-$arch"
	fi
	echo "built without a warning in $((SECONDS - start)) s"

	# Shards of a subject have its name and a number.
	in_root ctest --test-dir /root/streamdedup/build/unit -j"$(nproc)" --output-on-failure \
		-R "^($(IFS='|'; echo "${units[*]}"))(_[0-9]+)?$" > "$top/units.log" 2>&1 || rc=1
	grep -E 'tests passed|\*\*\*|Failure$' "$top/units.log" || true

	installcheck_there "$config" "${tests[@]}" || rc=1
	grep -E 'tests passed|tests failed|FAILED|^not ok|^Result:|crashed' "$top/tests.log" || true
	return "$rc"
}

failed=()
for arch; do
	echo "== $arch"
	start=$SECONDS
	if test_arch "$arch"; then result=passed; else result=FAILED; failed+=("$arch"); fi
	unregister
	set -e
	echo "-- $arch: $result in $((SECONDS - start)) s"
	for log in build build_units units tests; do
		[ -z "${ARCH_LOGS:-}" ] || [ ! -f "$top/$log.log" ] || cp "$top/$log.log" "$ARCH_LOGS/$arch-$log.log"
	done
	delete_system
done
[ ${#failed[@]} = 0 ] || echo "failed: ${failed[*]}"
[ ${#failed[@]} = 0 ]
