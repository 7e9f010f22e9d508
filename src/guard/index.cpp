/*
 * The index access method streamdedup_guard: an index that holds nothing.
 *
 * The server inserts into a table's indexes right after the row itself, before the
 * next row's BEFORE triggers: the one moment at which an extension learns that a row
 * that a BEFORE trigger let pass did land. The index is on the key columns, so that
 * an UPDATE that changes the key is never a HOT update, which would go without it.
 *
 * It is built anew when its table is truncated, which tells the guard of that, too.
 *
 * No page is written or read. The planner cannot use it: it has no scans. Its operator
 * class takes every type, since it compares nothing.
 */
#include "guard/guard.hpp"

extern "C" {
#include "access/amapi.h"
#include "access/genam.h"
#include "catalog/index.h"
#include "commands/vacuum.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
}

static IndexBuildResult *
GuardBuild(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result;

	if (info->ii_Predicate != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("an index of access method %s cannot be partial", GUARD_ACCESS_METHOD),
				 errdetail("It must be told of every row.")));
	if (info->ii_Expressions != NIL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("an index of access method %s cannot have expressions",
							   GUARD_ACCESS_METHOD),
						errdetail("A guard's key consists of plain columns.")));

	CheckMarkedCopies(heap);
	ExactGuardIndexBuilt(heap, index);
	GuardIndexBuilt(heap);

	/* A negative count of rows leaves the table's statistics as they are. */
	result = (IndexBuildResult *) palloc(sizeof(IndexBuildResult));
	result->heap_tuples = -1;
	result->index_tuples = 0;
	return result;
}

static void
GuardBuildEmpty(Relation index)
{
}

static bool
GuardInsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			IndexUniqueCheck check_unique, INDEX_UNCHANGED_PARAMETER IndexInfo *info)
{
	GuardRowLanded(heap, index, values, isnull, tid, info);
	return false;
}

static IndexBulkDeleteResult *
GuardBulkDelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
				IndexBulkDeleteCallback callback, void *state)
{
	return NULL;
}

static IndexBulkDeleteResult *
GuardVacuumCleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	return NULL;
}

/* Never asked, since there are no scans to plan. */
static void
GuardCostEstimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup, Cost *total,
				  Selectivity *selectivity, double *correlation, double *pages)
{
	*startup = *total = 1.0e10;
	*selectivity = 1.0;
	*correlation = 0.0;
	*pages = 0.0;
}

static bytea *
GuardOptions(Datum options, bool validate)
{
	return NULL;
}

static bool
GuardValidate(Oid opclass)
{
	return true;
}

static void
NoScans(void)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("an index of access method %s cannot be scanned", GUARD_ACCESS_METHOD)));
}

static IndexScanDesc
GuardBeginScan(Relation index, int keys, int orderbys)
{
	NoScans();
	return NULL;
}

static void
GuardRescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	NoScans();
}

static void
GuardEndScan(IndexScanDesc scan)
{
	NoScans();
}

/*
 * dedup_guard_handler(internal) returns index_am_handler
 *
 * What is not named here is off, in every version of the server.
 */
DEDUP_FUNCTION(dedup_guard_handler)
{
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	routine->amcanmulticol = true;
	routine->amoptionalkey = true;
	routine->amkeytype = InvalidOid;
	routine->amparallelvacuumoptions = VACUUM_OPTION_NO_PARALLEL;

	routine->ambuild = GuardBuild;
	routine->ambuildempty = GuardBuildEmpty;
	routine->aminsert = GuardInsert;
	routine->ambulkdelete = GuardBulkDelete;
	routine->amvacuumcleanup = GuardVacuumCleanup;
	routine->amcostestimate = GuardCostEstimate;
	routine->amoptions = GuardOptions;
	routine->amvalidate = GuardValidate;
	routine->ambeginscan = GuardBeginScan;
	routine->amrescan = GuardRescan;
	routine->amendscan = GuardEndScan;
	PG_RETURN_POINTER(routine);
}
