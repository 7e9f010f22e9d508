/*
 * The index access method streamdedup_guard: an index that stores nothing.
 *
 * The server inserts into the indexes of a table right after it has inserted the row, and before
 * it fires the BEFORE triggers of the next row. Only at this moment can an extension see that a
 * row was inserted after its BEFORE triggers had returned it. The index is on the key columns, so
 * an UPDATE that changes the key is never a HOT update. A HOT update would not call the index.
 *
 * The server builds the index again when the table is truncated. So the guard also sees TRUNCATE.
 *
 * The index reads and writes no pages. The planner cannot use the index, because it has no scans.
 * The operator class accepts every type, because it compares nothing.
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

	/* A negative count of rows does not change the table's statistics. */
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

/* Never called, because there are no scans to plan. */
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
 * The properties that are not set here are off in every version of the server.
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
