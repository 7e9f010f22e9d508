#!/bin/bash
# Checks that a database of the first released version works on after ALTER EXTENSION … UPDATE.
#
# usage: test/upgrade.sh
#
# Creates the extension in the first version of src/install, makes objects of every kind with it,
# updates it to the newest version, and compares:
#   - the objects still answer as they did before
#   - the extension has exactly the objects that a new CREATE EXTENSION makes
#   - the tests in SQL pass in a database that was updated
# While there is one version only, a copy of the tree gets a next one with the same script and an
# empty upgrade script, so that the check is known to work before it is needed.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh
setup_packages check

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/tree"
git ls-files -z | tar --null -T - -cf - | tar -C "$tmp/tree" -xf -
cd "$tmp/tree"

newest=$(sed -n "s/^default_version = '\(.*\)'/\1/p" streamdedup.control)
oldest=$(printf '%s\n' src/install/streamdedup--*.sql | sed -n 's/.*streamdedup--\([0-9.]*\)\.sql/\1/p' | sort -V | head -n 1)
if [ "$oldest" = "$newest" ]; then
	newest=$newest.1
	echo "there is one version, $oldest: $newest is made up, with an empty upgrade script"
	cp "src/install/streamdedup--$oldest.sql" "src/install/streamdedup--$newest.sql"
	printf '%s\n' '\echo Use "ALTER EXTENSION streamdedup UPDATE" to load this file. \quit' > "src/install/streamdedup--$oldest--$newest.sql"
	sed -i "s/^default_version = .*/default_version = '$newest'/" streamdedup.control
fi
# Without a script of its own the newest version would be made from the oldest one and compared with
# itself.
[ -f "src/install/streamdedup--$newest.sql" ]
make -s -j2
chmod -R a+rX "$tmp"
test/pgtmp.sh --install "$tmp/tree" --in "$tmp/tree" -- bash test/upgrade/run.sh "$oldest" "$newest"
