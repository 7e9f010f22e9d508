#!/bin/bash
# Builds the Debian package in a bare Debian 12, installs the package in another one, and runs the
# package's tests and the first statements of README there. By hand, as root, before a release.
#
# usage: test/deb.sh [FOLDER]
#
# The packages are copied to FOLDER, if it is given. Changes that are not committed are not built.
# SYSTEM_CACHE names a folder that keeps the systems, so that the next run is quicker.

set -euo pipefail
cd "$(dirname "$0")/.."
. test/setup.sh
case ${1:-} in
	-*) sed -n '2,/^$/s/^# \{0,1\}//p' test/deb.sh >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "deb.sh: only root can make a Debian system" >&2; exit 2; }
setup_packages bare
. test/bare_system.sh
debs=$top/packages
mkdir "$debs"

# system NAME PACKAGE...: a Debian 12 with these packages, in $root.
system() {
	delete_system
	if kept_system "$1"; then
		install_there "${@:2}"
		return
	fi
	make_system bookworm
	install_there "${@:2}"
	keep_system "$1"
}

echo '== build'
system deb-build git build-essential debhelper fakeroot libxxhash-dev postgresql-all
clone_there root/streamdedup
# A user without rights builds it, as Debian's machines do. The tests in SQL run below, in the system
# that has the package, so they need not run here.
in_root useradd --create-home builder
in_root mv /root/streamdedup /home/builder/
in_root chown -R builder: /home/builder
logged build in_root setpriv --reuid=builder --regid=builder --init-groups env HOME=/home/builder DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" \
	sh -c 'cd /home/builder/streamdedup && dpkg-buildpackage -b -us -uc'
cp "$root"/home/builder/*.deb "$debs/"
[ $# = 0 ] || cp "$debs"/*.deb "$1"
ls "$debs"

echo '== install'
system deb-install postgresql-15
mkdir "$root/packages"
cp "$debs"/postgresql-15-streamdedup_*.deb "$root/packages/"
in_root sh -c 'dpkg --info /packages/*.deb | sed -n "/Depends/p"'
logged install in_root sh -c 'apt-get install -y --no-install-recommends /packages/*.deb'
in_root useradd --create-home tester

# as_tester COMMAND: in a copy of the source, as autopkgtest does it.
git clone -q --no-hardlinks . "$root/home/tester/streamdedup"
in_root chown -R tester: /home/tester
as_tester() {
	in_root setpriv --reuid=tester --regid=tester --init-groups env HOME=/home/tester LANG=C.UTF-8 sh -c "cd ~/streamdedup && $1"
}

echo '== test: readme'
logged readme as_tester debian/tests/readme
echo '== test: installcheck'
install_there make postgresql-server-dev-15
logged installcheck as_tester debian/tests/installcheck
grep -E 'All [0-9]+ tests passed' "$top/installcheck.log"
