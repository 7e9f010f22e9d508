#!/bin/bash
# Builds the Debian package and its source package in a bare Debian 12, checks them with lintian,
# installs the package in another bare Debian 12, and runs the package's tests there: the first
# statements of README, and the tests in SQL. By hand, as root, before a release.
#
# usage: test/deb.sh [FOLDER]
#
# All packages and the log of the tests are copied to FOLDER, if it is given. Changes that are not
# committed are not built. SYSTEM_CACHE names a folder that keeps the systems, so that the next run is
# quicker.

set -euo pipefail
folder=${1:+$(realpath -- "$1")}
cd "$(dirname "$0")/.."
. test/bare_system.sh
debs=$top/packages
mkdir "$debs"
[ -z "$folder" ] || mkdir -p "$folder"

# debian NAME PACKAGE...: a Debian 12 with these packages, also if the kept one does not have them.
debian() {
	use_system "$1" with_packages "${@:2}"
	install_there "${@:2}"
}
with_packages() { make_system bookworm && install_there "$@"; }

# as USER COMMAND: runs a shell command as a user without rights, in the user's home folder.
as() {
	in_root setpriv --reuid="$1" --regid="$1" --init-groups env "HOME=/home/$1" LANG=C.UTF-8 sh -c "cd && $2"
}

version=$(sed -n '1s/.*(\(.*\)-.*/\1/p' debian/changelog)
commit=$(git rev-parse HEAD)
echo "commit $commit"
# user_with_source USER: a user without rights, with the source in the home folder.
user_with_source() {
	in_root useradd --create-home "$1"
	git archive --prefix="streamdedup-$version/" "$commit" | tar -xf - -C "$root/home/$1"
	in_root chown -R "$1:" "/home/$1"
}

echo '== build'
debian deb-build build-essential debhelper fakeroot libxxhash-dev lintian postgresql-all
user_with_source builder
git archive --prefix="streamdedup-$version/" "$commit" -- . ':!debian' | gzip -9n > "$root/home/builder/streamdedup_$version.orig.tar.gz"
# The tests in SQL run below, in the system that has the package. Here one of them shows that
# debian/rules can run them.
logged build as builder "cd streamdedup-$version &&
	DEB_BUILD_OPTIONS='nocheck parallel=$(nproc)' dpkg-buildpackage -us -uc &&
	MAKEFLAGS=REGRESS=types debian/rules override_dh_pgxs_test"
cp "$root"/home/builder/*_* "$debs/"
[ -z "$folder" ] || cp "$debs"/* "$folder/"
ls "$debs"

echo '== lintian'
# The maintainers have no address, and Debian's list of packages that somebody wants has no bug that
# the upload closes.
as builder 'lintian --display-info --fail-on error,warning \
	--suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs *.changes'

echo '== install'
debian deb-install postgresql-15
mkdir "$root/packages"
cp "$debs"/postgresql-15-streamdedup_*.deb "$root/packages/"
in_root sh -c 'dpkg --info /packages/*.deb | sed -n "/Depends/p"'
logged install in_root sh -c 'apt-get install -y --no-install-recommends /packages/*.deb'

# As autopkgtest does it: in the source, with the packages of debian/tests/control.
user_with_source tester
echo '== test: readme'
logged readme as tester "cd streamdedup-$version && debian/tests/readme"
echo '== test: installcheck'
install_there make postgresql-server-dev-15
rc=0
logged installcheck as tester "cd streamdedup-$version && debian/tests/installcheck" || rc=$?
[ -z "$folder" ] || cp "$top/installcheck.log" "$folder/"
grep -E '^(not ok|test .* FAILED)|tests (passed|failed)' "$top/installcheck.log"
[ "$rc" = 0 ]
