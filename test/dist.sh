#!/bin/bash
# Checks the source archive of "make dist": two runs make the same bytes, and the extension builds,
# installs and answers from what the archive contains. By hand, before a release.
#
# usage: test/dist.sh
#
# The archive has what is committed. The versions of all files that name one must agree.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh
setup_packages dist
test/versions.py

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" streamdedup.control)
git clone -q --no-hardlinks . "$tmp/clone"
make -s -C "$tmp/clone" dist
mv "$tmp/clone/streamdedup-$version.zip" "$tmp/first.zip"
# Another time zone, language and time must not change a byte.
sleep 2
TZ=Asia/Tokyo LC_ALL=C make -s -C "$tmp/clone" dist
cmp "$tmp/first.zip" "$tmp/clone/streamdedup-$version.zip"
echo "ok: two archives of one commit are the same, $(wc -c < "$tmp/first.zip") bytes"

(cd "$tmp" && unzip -q first.zip)
source=$tmp/streamdedup-$version
[ -f "$source/META.json" ]
[ ! -e "$source/.ci" ]
echo "ok: the archive has one folder, with META.json at its top"
chmod -R a+rX "$tmp"
make -s -C "$source" -j2 CXX='g++ -Werror'
test/pgtmp.sh --install "$source" -- psql -XAtq -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION streamdedup' \
	-c "SELECT 1 / (dedup_count(dedup_agg(i)) = 100)::int FROM generate_series(1, 100) i" > "$tmp/answer"
[ "$(cat "$tmp/answer")" = 1 ]
# Packages are built out of tree. There make must find the script, too.
mkdir "$tmp/apart"
script=$(make -n -C "$tmp/apart" -f "$source/Makefile" VPATH="$source" install | sed -n 's/.* \([^ ]*--[0-9.]*\.sql\) .*/\1/p')
[ -f "$script" ]
echo "ok: the extension builds without a warning from the archive, installs and answers"
