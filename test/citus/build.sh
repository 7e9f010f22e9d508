# shellcheck shell=bash disable=SC2154
# A server with Citus, for scripts that have sourced test/beside_server.sh.

# citus_server SOURCE: builds Citus from a copy of the folder and installs it into a copy of the
# server. Sets PG_CONFIG to the copy's. With CITUS_BUILD that copy is in the folder named, and
# is used again if it fits; otherwise it is in $tmp.
citus_server() {
	local source=$1 to=${CITUS_BUILD:-$tmp/citus_server} dir built version config
	version=$(sed -n "s/^PACKAGE_STRING='\(.*\)'/\1/p" "$source/configure")
	built="$version for $("$PG_CONFIG" --version), $("$PG_CONFIG" --bindir)"
	config=$to/root$("$PG_CONFIG" --bindir)/pg_config
	if [ "$(cat "$to/built" 2>/dev/null)" = "$built" ]; then
		export PG_CONFIG=$config
		return
	fi
	if [ -e "$to" ] && [ ! -e "$to/built" ] && [ -n "$(ls -A "$to")" ]; then
		echo "$to is not empty, and not a build of Citus" >&2
		return 1
	fi
	rm -rf "$to/root" "$to/source" "$to/built"
	mkdir -p "$to"

	# "make install" writes into the include folders, so these are copied, not linked.
	for dir in bindir pkglibdir sharedir includedir pkgincludedir includedir-server; do
		dir=$("$PG_CONFIG" "--$dir")
		[ -e "$to/root$dir" ] || { mkdir -p "$to/root${dir%/*}" && cp -a "$dir" "$to/root${dir%/*}/"; } || return 1
	done

	mkdir "$to/source"
	tar -C "$source" --exclude=./.git -cf - . | tar -C "$to/source" -xf -
	# Debian's PostgreSQL 15 has the function have_createdb_privilege of PostgreSQL 16.
	case $("$PG_CONFIG" --version) in
		"PostgreSQL "1[0-5].*)
			grep -rlZ have_createdb_privilege "$to/source/src" |
				xargs -0 sed -i 's/\bhave_createdb_privilege\b/citus_have_createdb_privilege/g'
			;;
	esac
	echo "building $version"
	# A configure that looks older than what it is made from would be made again, by autoconf.
	touch "$to/source/configure"
	# shellcheck disable=SC2016  # for the shell inside
	quietly "$tmp/citus.log" bash -c 'cd "$1" && ./configure --without-libcurl PG_CONFIG="$2" && make -j"$(nproc)" with_llvm=no && make with_llvm=no install-extension' \
		sh "$to/source" "$config" || return 1
	rm -rf "$to/source"
	chmod -R a+rX "$to"
	echo "$built" > "$to/built"
	export PG_CONFIG=$config
}
