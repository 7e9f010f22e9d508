#!/bin/bash
# What upgrade.sh runs beside the server, as its user.
#
# usage: run.sh OLDEST NEWEST [TEST]...
#
# Runs all tests in SQL, or those that are named.

set -euo pipefail
oldest=$1 newest=$2
shift 2
ask() { PGOPTIONS='-c client_min_messages=warning' psql -XAtq -v ON_ERROR_STOP=1 "$@"; }

# The extension's objects and how each is defined, without OIDs, which differ between databases.
objects() {
	ask -d "$1" <<'SQL'
SELECT pg_describe_object(x.classid, x.objid, 0), d.description,
	(SELECT (p.prokind, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prolang, p.procost, p.prorows, p.prosupport,
			p.prosecdef, p.proisstrict, p.provolatile, p.proparallel, p.prosrc, p.probin, p.proconfig, p.proacl)
		FROM pg_proc p WHERE x.classid = 'pg_proc'::regclass AND p.oid = x.objid),
	(SELECT (a.aggkind, a.aggnumdirectargs, a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn,
			a.aggfinalextra, a.aggfinalmodify, a.aggtranstype::regtype, a.aggtransspace, a.agginitval)
		FROM pg_aggregate a WHERE x.classid = 'pg_proc'::regclass AND a.aggfnoid = x.objid),
	(SELECT (t.typlen, t.typbyval, t.typcategory, t.typispreferred, t.typinput, t.typoutput, t.typreceive, t.typsend, t.typalign, t.typstorage)
		FROM pg_type t WHERE x.classid = 'pg_type'::regclass AND t.oid = x.objid),
	(SELECT (c.relkind, c.relacl, pg_get_viewdef(c.oid)) FROM pg_class c WHERE x.classid = 'pg_class'::regclass AND c.oid = x.objid),
	(SELECT (o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprrest, o.oprjoin, o.oprcanmerge, o.oprcanhash)
		FROM pg_operator o WHERE x.classid = 'pg_operator'::regclass AND o.oid = x.objid),
	(SELECT (c.castcontext, c.castmethod, c.castfunc::regproc) FROM pg_cast c WHERE x.classid = 'pg_cast'::regclass AND c.oid = x.objid),
	(SELECT (o.opcdefault, o.opckeytype::regtype) FROM pg_opclass o WHERE x.classid = 'pg_opclass'::regclass AND o.oid = x.objid),
	(SELECT string_agg(m.member, ', ' ORDER BY m.member)
		FROM (SELECT amopfamily AS family, (amopstrategy, amopopr::regoperator, amoppurpose)::text AS member FROM pg_amop
			UNION ALL SELECT amprocfamily, (amprocnum, amproc::regprocedure)::text FROM pg_amproc) m
		WHERE x.classid = 'pg_opfamily'::regclass AND m.family = x.objid),
	(SELECT (e.evtevent, e.evtfoid::regproc, e.evtenabled, e.evttags)
		FROM pg_event_trigger e WHERE x.classid = 'pg_event_trigger'::regclass AND e.oid = x.objid),
	(SELECT (m.amhandler, m.amtype) FROM pg_am m WHERE x.classid = 'pg_am'::regclass AND m.oid = x.objid)
FROM pg_depend x
	LEFT JOIN pg_description d ON d.classoid = x.classid AND d.objoid = x.objid AND d.objsubid = 0
WHERE x.deptype = 'e' AND x.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'streamdedup')
ORDER BY 1;
SQL
}

ask -c 'CREATE DATABASE old' -c 'CREATE DATABASE new'
ask -d old -c "CREATE EXTENSION streamdedup VERSION '$oldest'" -f test/upgrade/fill.sql > /dev/null
ask -d old -f test/upgrade/answers.sql > before
ask -d old -c 'ALTER EXTENSION streamdedup UPDATE'
[ "$(ask -d old -c "SELECT extversion FROM pg_extension WHERE extname = 'streamdedup'")" = "$newest" ]
ask -d old -f test/upgrade/answers.sql > after
[ -s before ]
diff before after
echo "ok: $(wc -l < before) answers are the same after the update"
ask -d old -f test/upgrade/goes_on.sql > /dev/null
echo 'ok: the objects go on working'

ask -d new -c 'CREATE EXTENSION streamdedup'
objects old > objects_old
objects new > objects_new
[ "$(wc -l < objects_new)" -gt 100 ]
diff objects_old objects_new
echo "ok: an updated extension has the objects of a new one"

# The tests in SQL, in a database that was updated, which has the name and the settings that
# pg_regress gives to one.
ask -c 'CREATE DATABASE contrib_regression'
ask -d contrib_regression -c "CREATE EXTENSION streamdedup VERSION '$oldest'" -c 'ALTER EXTENSION streamdedup UPDATE'
for setting in "lc_messages = 'C'" "lc_monetary = 'C'" "lc_numeric = 'C'" "lc_time = 'C'" "bytea_output = 'hex'" \
	"timezone_abbreviations = 'Default'"; do
	ask -c "ALTER DATABASE contrib_regression SET $setting"
done
make installcheck ISOLATION= TAP_TESTS= ${1:+"REGRESS=$*"} \
	REGRESS_OPTS='--use-existing --dbname=contrib_regression' > tests.log 2>&1 ||
	{ cat tests.log; cat regression.diffs 2>/dev/null; exit 1; }
grep -E 'All [0-9]+ tests passed' tests.log
