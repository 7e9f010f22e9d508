#!/bin/bash
# Installs a server from PGDG's repository of Debian packages, and what its tests need, on Debian or
# Ubuntu. For continuous integration: it adds that repository to apt.
#
# usage: test/pgdg.sh MAJOR [beta]
#
# With "beta" the major is a beta version or a release candidate, which has a component of its own.

set -euo pipefail
major=${1:?usage: test/pgdg.sh MAJOR [beta]}
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo

$sudo apt-get update
$sudo apt-get install -y --no-install-recommends postgresql-common
echo 'create_main_cluster = false' | $sudo tee /etc/postgresql-common/createcluster.conf > /dev/null
$sudo /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y ${2:+-c "$major"}
$sudo apt-get install -y --no-install-recommends "postgresql-$major" "postgresql-server-dev-$major" g++ clang make \
	libxxhash-dev libipc-run-perl perl python3 python3-psycopg python3-psycopg2 python3-asyncpg \
	python3-sqlalchemy python3-django python3-xxhash
