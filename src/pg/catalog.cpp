/* Rows of the server's catalogs, and this extension's functions in them. */
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

HeapTuple
ReadCatalog(Oid catalog, Oid index, AttrNumber oid_column, Oid object)
{
	Relation rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	rel = table_open(catalog, AccessShareLock);
	ScanKeyInit(&key, oid_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(rel, index, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return tuple;
}

bool
IsOurFunction(Oid function, PGFunction address, const char *symbol)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool candidate = false;
	FmgrInfo info;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool isnull;
		Datum source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);

		candidate = !isnull && strcmp(TextDatumGetCString(source), symbol) == 0;
	}
	ReleaseSysCache(tuple);
	if (!candidate)
		return false;

	/* Another library may have a function of that name. */
	fmgr_info(function, &info);
	return info.fn_addr == address;
}

/* ---- changes of relations -------------------------------------------------------------- */

/* There must be one for each place that calls WatchRelations(). */
static constexpr int MAX_WATCHERS = 12;
static void (*watchers[MAX_WATCHERS])(Oid relation);
static int watcher_count = 0;

static void
RelationChanged(Datum, Oid relation)
{
	for (int i = 0; i < watcher_count; i++)
		watchers[i](relation);
}

void
WatchRelations(void (*changed)(Oid relation))
{
	if (watcher_count == MAX_WATCHERS)
		elog(ERROR, "too many functions watch relations");
	if (watcher_count == 0)
		CacheRegisterRelcacheCallback(RelationChanged, (Datum) 0);
	watchers[watcher_count++] = changed;
}

/* ---- permissions ----------------------------------------------------------------------- */

bool
MayCall(Oid function)
{
	return MAY_EXECUTE(function, GetUserId()) == ACLCHECK_OK;
}
