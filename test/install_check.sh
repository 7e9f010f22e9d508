#!/bin/bash
# Tests what the owner of a database does with the extension, from installing it to moving the database. The
# regression tests, which run as a superuser in one database, do not test that.
#
# usage: test/pgtmp.sh --install TREE --in TREE -- bash test/install_check.sh
#
# The owner is not a superuser, the extension is in a schema of its own, and only pg_catalog is in the search path.

set -euo pipefail

owner() { psql -XAtq -v ON_ERROR_STOP=1 -U keeper "$@"; }
superuser() { psql -XAtq -v ON_ERROR_STOP=1 "$@"; }

claim() {
	if [ "$2" = "$3" ]; then
		echo "ok: $1"
	else
		printf 'NOT OK: %s\n  expected: %s\n  got:      %s\n' "$1" "$3" "$2"
		exit 1
	fi
}

superuser -c "CREATE ROLE keeper LOGIN" -c "CREATE DATABASE home OWNER keeper" -c "CREATE DATABASE moved OWNER keeper"

# A trusted extension is created by the owner; any other by a superuser, and
# the owner is refused.
if grep -q '^trusted *= *true' streamdedup.control; then
	owner -d home -c "CREATE SCHEMA dedup" -c "SET search_path = ''" -c "CREATE EXTENSION streamdedup SCHEMA dedup"
else
	code=$(owner -d home -c '\set VERBOSITY sqlstate' -c "CREATE EXTENSION streamdedup" 2>&1 || true)
	claim "who is no superuser is refused" "${code##* }" 42501
	owner -d home -c "CREATE SCHEMA dedup"
	superuser -d home -c "SET search_path = ''" -c "CREATE EXTENSION streamdedup SCHEMA dedup"
	superuser -d home -c "GRANT USAGE ON SCHEMA dedup TO keeper"
fi

claim "the version is the control file's" \
	"$(owner -d home -c "SELECT extversion FROM pg_extension WHERE extname = 'streamdedup'")" \
	"$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" streamdedup.control)"

# A filter of each kind, exact and past it, in a column, a default, a check
# constraint, a view and a materialized view.
owner -d home <<'SQL'
SET search_path = '';
CREATE TABLE public.seen (
	day int PRIMARY KEY,
	keys dedup.dedup_filter DEFAULT dedup.dedup_filter(10000),
	CHECK (NOT dedup.dedup_contains(keys, 'never'::text)));
INSERT INTO public.seen VALUES (1);
INSERT INTO public.seen
	SELECT 2, dedup.dedup_agg(dedup.dedup_filter(10000), i::text) FROM pg_catalog.generate_series(1, 100) i
	UNION ALL
	SELECT 3, dedup.dedup_agg(dedup.dedup_filter(10000), i::text) FROM pg_catalog.generate_series(1, 10000) i
	UNION ALL
	SELECT 4, dedup.dedup_agg(dedup.dedup_filter(10000, 0.00001), i::text) FROM pg_catalog.generate_series(1, 10000) i
	UNION ALL
	SELECT 5, dedup.dedup_agg(dedup.dedup_window(1000, 0.001), i::text) FROM pg_catalog.generate_series(1, 5000) i
	UNION ALL
	SELECT 6, dedup.dedup_agg(dedup.dedup_method('ring', '16kB', '', 7), i::text) FROM pg_catalog.generate_series(1, 20000) i
	UNION ALL
	SELECT 7, NULL;
CREATE VIEW public.answer AS
	SELECT day, k, dedup.is_new(keys, k::text) FROM public.seen, pg_catalog.generate_series(1, 30000, 7) k;
CREATE MATERIALIZED VIEW public.everything AS
	SELECT dedup.dedup_merge_agg(keys) AS keys FROM public.seen WHERE day IN (1, 2, 3);
CREATE TABLE public.first_seen AS
	SELECT i, dedup.dedup_is_new(i % 100) OVER (ORDER BY i) AS is_new FROM pg_catalog.generate_series(1, 1000) i;
SQL
claim "the owner can use it" \
	"$(owner -d home -c "SELECT count(*) FILTER (WHERE is_new), count(*) FROM first_seen")" "100|1000"
claim "stored filters answer" \
	"$(owner -d home -c "SELECT count(*) FROM answer WHERE NOT is_new AND day = 3 AND k <= 10000")" \
	"$(owner -d home -c "SELECT count(*) FROM generate_series(1, 10000, 7)")"

# Another user may use the functions, as those of any extension.
superuser -d home -c "CREATE ROLE guest LOGIN" -c "GRANT USAGE ON SCHEMA dedup TO guest"
claim "any user can use it" \
	"$(psql -XAtq -U guest -d home -c "SELECT dedup.is_new(dedup.dedup_add(dedup.dedup_filter(10), 1), 2)")" t

# Dump and restore, as text and as an archive.
contents="SELECT md5(string_agg(day || coalesce(keys::text, ''), ',' ORDER BY day)) FROM seen
	UNION ALL SELECT md5(keys::text) FROM everything
	UNION ALL SELECT md5(string_agg(day || ' ' || k || ' ' || coalesce(is_new::text, ''), ',' ORDER BY day, k)) FROM answer"
mover=owner
grep -q '^trusted *= *true' streamdedup.control || mover=superuser
before=$(owner -d home -c "$contents")
if [ "$mover" = owner ]; then pg_dump -U keeper home > home.sql; else pg_dump home > home.sql; fi
"$mover" -d moved -f home.sql > /dev/null
claim "pg_dump | psql keeps every byte and answer" "$(owner -d moved -c "$contents")" "$before"
claim "nothing of the extension itself is dumped" "$(grep -c 'CREATE FUNCTION\|CREATE TYPE\|CREATE AGGREGATE' home.sql || true)" 0

superuser -c "CREATE DATABASE archive OWNER keeper"
pg_dump -Fc home > home.dump
pg_restore -e -d archive home.dump
claim "pg_dump -Fc | pg_restore keeps every byte and answer" "$(owner -d archive -c "$contents")" "$before"

# Binary COPY goes through send and receive.
owner -d home -c "\copy seen TO 'seen.bin' WITH (FORMAT binary)"
owner -d moved -c "TRUNCATE seen" -c "\copy seen FROM 'seen.bin' WITH (FORMAT binary)"
claim "binary COPY keeps every byte and answer" "$(owner -d moved -c "$contents")" "$before"

# A schema can be renamed under it, and it can be moved if it says so.
superuser -d home -c "ALTER SCHEMA dedup RENAME TO other"
claim "its schema can be renamed" "$(owner -d home -c "$contents")" "$before"
if grep -q '^relocatable *= *true' streamdedup.control; then
	superuser -d home -c "CREATE SCHEMA third" -c "GRANT USAGE ON SCHEMA third TO keeper" \
		-c "ALTER EXTENSION streamdedup SET SCHEMA third"
	claim "it can be moved" "$(owner -d home -c "$contents")" "$before"
fi

# DROP EXTENSION fails while other objects depend on it. After they are dropped, it succeeds and leaves nothing.
code=$(superuser -d home -c '\set VERBOSITY sqlstate' -c "DROP EXTENSION streamdedup" 2>&1 || true)
claim "it cannot be dropped from under a column" "${code##* }" 2BP01
superuser -d home -c "SET client_min_messages = warning" -c "DROP EXTENSION streamdedup CASCADE"
claim "dropped, nothing of it stays" \
	"$(superuser -d home -c "SELECT count(*) FROM pg_proc WHERE probin LIKE '%streamdedup%'")" 0
superuser -d home -c "CREATE EXTENSION streamdedup"
