#!/bin/bash
# Writes the golden files of a version: filters, a dump and pages that all later versions must
# read. test/tap/golden.pl compares what they answer.
#
# usage: test/golden/make.sh VERSION
#
# Runs once for each version, with the tree of that version built, before its release. The folder
# test/golden/VERSION has the statements that make the objects (types.sql, fill_*.sql) and the queries (ask_*.sql).
# Take those of the version before, and add what is new. Written are, by a server 15:
#
#   values.tsv, values.out      filters that are values, and their answers
#   dump.sql, objects.out       live filters and guards, as pg_dump writes them, and their answers
#   pages.tar.gz, pages.out     the files of the live filters that are logged, and what only they say
#   pages.txt                   where in the WAL they end, and the transactions that they name
#
# Read every line of the .out files, then commit. From the release on the files never change.

set -euo pipefail
cd "$(dirname "$0")/../.."

# beside FOLDER: what runs beside the server, as its user, in a copy of the tree. The files go to the
# standard output, in an archive.
beside() {
	local folder=$1 first
	ask() { PGOPTIONS='-c client_min_messages=error' psql -XAtq -v ON_ERROR_STOP=1 "$@"; }

	ask -c 'CREATE DATABASE "values"' -c 'CREATE DATABASE objects'
	ask -d values -c 'CREATE EXTENSION streamdedup' -f "$folder/types.sql" -f "$folder/fill_values.sql" > /dev/null
	ask -d values -f "$folder/ask_values.sql" > values.out
	ask -d values -c 'COPY (SELECT * FROM value ORDER BY name COLLATE "C") TO STDOUT' > values.tsv

	# The transactions that pages name must be in the future of every server that gets the pages.
	ask -d objects -c 'CREATE EXTENSION streamdedup' -c 'DO $$
		BEGIN WHILE pg_current_xact_id()::text::int < 5000 LOOP COMMIT; END LOOP; END $$'
	first=$(ask -d objects -c 'SELECT pg_current_xact_id()')
	ask -d objects -f "$folder/fill_objects.sql" > /dev/null
	ask -d objects -c 'CHECKPOINT'
	ask -d objects -f "$folder/ask_pages.sql" > pages.out

	# From here on the pages must not change: the queries are asked of the files and of the dump by the
	# test. A page's file is whole after the checkpoint.
	{
		ask -d objects -c "SELECT 'wal ' || pg_current_wal_insert_lsn()"
		ask -d objects -c "SELECT pg_xact_status(x::text::xid8) || ' ' || x FROM generate_series($first, pg_current_xact_id()::text::bigint - 1) x"
	} > pages.txt
	mkdir pages
	ask -d objects -F ' ' -c "SELECT c.relname, current_setting('data_directory') || '/' || pg_relation_filepath(c.oid)
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam AND a.amname = 'streamdedup'
		WHERE c.relkind = 'r' AND c.relpersistence = 'p'" |
		while read -r name path; do cp "$path" "pages/$name"; done
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - pages | gzip -9n > pages.tar.gz

	# Without what differs between versions of pg_dump, and between runs.
	pg_dump --no-owner -d objects | grep -vE '^(--.*)?$|^\\(un)?restrict ' > dump.sql
	ask -d objects -f "$folder/ask_objects.sql" > objects.out
	tar -cf - values.tsv values.out dump.sql objects.out pages.tar.gz pages.txt pages.out
}

case ${1:-} in
	--beside) beside "$2"; exit ;;
	''|-*) sed -n '2,/^$/s/^# \{0,1\}//p' test/golden/make.sh >&2; exit 2 ;;
esac
folder=test/golden/$1
[ -d "$folder" ] || { echo "make.sh: there is no folder $folder" >&2; exit 2; }
[ ! -e "$folder/dump.sql" ] || { echo "make.sh: $folder has its files: those of a released version never change" >&2; exit 2; }
. test/setup.sh
setup_packages demo
test/pgtmp.sh --install . --in . --set 'autovacuum = off' --set 'max_prepared_transactions = 0' -- \
	bash test/golden/make.sh --beside "$folder" > "$folder/new.tar"
tar -C "$folder" --no-same-owner -xf "$folder/new.tar"
rm "$folder/new.tar"
wc -c "$folder"/*
