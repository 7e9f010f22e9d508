/*
 * The table access method `streamdedup`. It works as heap does, except that there are no tuples.
 *
 * A scan returns the rows that pg_dump writes (scan.cpp), and COPY FROM reads them back
 * (restore.cpp). Everything that would write or lock a row is refused. VACUUM is in vacuum.cpp.
 */
#include "live/page_type.hpp"
#include "live/store/store.hpp"
#include "live/table_am.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/xlog.h"
#include "executor/tuptable.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
}

using dedup::LoadU32;
using namespace dedup::live;

static TableAmRoutine live_am;

extern "C" Datum dedup_page_in(PG_FUNCTION_ARGS);

/* ---- refusing ------------------------------------------------------------------- */

void
RefuseLive(Relation rel, const char *what, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot %s live filter \"%s\"", what, RelationGetRelationName(rel)),
					errhint("%s", hint)));
	pg_unreachable();
}

static const char *const add_hint =
	"Add keys with is_new() or dedup_new_keys(), load a filter with dedup_load(); pg_dump restores "
	"a live filter by COPY, not by --inserts.";

static void
LiveTupleInsert(Relation rel, TupleTableSlot *, CommandId, INSERT_OPTIONS, BulkInsertState)
{
	/* CREATE TABLE AS makes a table without parameters. */
	RefuseLive(rel, "insert into",
			   LiveHasParameters(rel) ? add_hint : "Make live filters with dedup_create().");
}

static void
LiveTupleInsertSpeculative(Relation rel, TupleTableSlot *, CommandId, INSERT_OPTIONS,
						   BulkInsertState, uint32)
{
	RefuseLive(rel, "insert into", add_hint);
}

static TM_Result
LiveTupleDelete(Relation rel, ItemPointer, CommandId, DELETE_OPTIONS Snapshot, Snapshot, bool,
				TM_FailureData *IS_MOVED_PARAMETER)
{
	RefuseLive(rel, "delete from",
			   "Forget keys with dedup_forget(), empty the filter with TRUNCATE.");
}

static TM_Result
LiveTupleUpdate(Relation rel, ItemPointer, TupleTableSlot *, CommandId, DELETE_OPTIONS Snapshot,
				Snapshot, bool, TM_FailureData *, LockTupleMode *, UPDATED_INDEXES *)
{
	RefuseLive(rel, "update", "Add keys with is_new(), forget them with dedup_forget().");
}

static TM_Result
LiveTupleLock(Relation rel, ItemPointer, Snapshot, TupleTableSlot *, CommandId, LockTupleMode,
			  LockWaitPolicy, uint8, TM_FailureData *)
{
	RefuseLive(rel, "lock rows of", "Lock the whole filter with LOCK TABLE.");
}

static double
LiveIndexBuildRangeScan(Relation rel, Relation, IndexInfo *, bool, bool, bool, BlockNumber,
						BlockNumber, IndexBuildCallback, void *, TableScanDesc)
{
	RefuseLive(rel, "create an index on",
			   "A live filter needs none: is_new() and dedup_seen() find a key by its hash.");
}

static void
LiveIndexValidateScan(Relation rel, Relation, IndexInfo *, Snapshot, ValidateIndexState *)
{
	RefuseLive(rel, "create an index on",
			   "A live filter needs none: is_new() and dedup_seen() find a key by its hash.");
}

static bool
LiveScanAnalyzeNextBlock(TableScanDesc, ANALYZE_BLOCK_PARAMETERS)
{
	return false;
}

static bool
LiveScanAnalyzeNextTuple(TableScanDesc, OLDEST_XMIN_PARAMETER double *, double *, TupleTableSlot *)
{
	return false;
}

static bool
LiveScanSampleNextBlock(TableScanDesc, SampleScanState *)
{
	return false; /* such a scan is refused at its start */
}

static bool
LiveScanSampleNextTuple(TableScanDesc, SampleScanState *, TupleTableSlot *)
{
	return false;
}

/* ---- files ------------------------------------------------------------------------------- */

/* Live filters have two columns: block int4, page dedup_page. */
static void
CheckColumns(Relation rel)
{
	TupleDesc desc = RelationGetDescr(rel);
	bool good = desc->natts == kLiveColumns;

	if (good)
	{
		Form_pg_attribute block = TupleDescAttr(desc, kLiveBlockColumn - 1);
		Form_pg_attribute page = TupleDescAttr(desc, kLivePageColumn - 1);
		Oid input;
		Oid argument;
		FmgrInfo function;

		good = !block->attisdropped && !page->attisdropped &&
			   strcmp(NameStr(block->attname), "block") == 0 && block->atttypid == INT4OID &&
			   strcmp(NameStr(page->attname), "page") == 0;
		if (good)
		{
			getTypeInputInfo(page->atttypid, &input, &argument);
			fmgr_info(input, &function);
			good = function.fn_addr == dedup_page_in;
		}
	}
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s\" cannot be a live filter", RelationGetRelationName(rel)),
				 errdetail("Tables of access method streamdedup have the columns block int4 and "
						   "page dedup_page."),
				 errhint("Make live filters with dedup_create().")));
}

static void
LiveSetNewFile(Relation rel, const FileLocator *file, char persistence, TransactionId *freeze,
			   MultiXactId *minmulti)
{
	/* For the new file, the server resets the flag of KnowLong() in store/pages.cpp. */
	CheckColumns(rel);
	const bool replaces = FileNumberOf(rel) != FileNumber(*file);

	if (replaces)
		NoteLiveEmptied(rel); /* this is TRUNCATE; every other new file belongs to a new relation */
	if (persistence == RELPERSISTENCE_TEMP)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("a live filter cannot be temporary"),
						errhint("Make an unlogged one, with dedup_create(..., unlogged => true); "
								"or use a window function or a filter in a variable.")));
	GetHeapamTableAmRoutine()->relation_set_new_file(rel, file, persistence, freeze, minmulti);
}

/* Does TRUNCATE in the subtransaction that has created or truncated the filter. */
static void
LiveTruncateInPlace(Relation rel)
{
	NoteLiveEmptied(rel);
	GetHeapamTableAmRoutine()->relation_nontransactional_truncate(rel);
}

/* ALTER TABLE ... SET TABLESPACE: another file with the same keys. */
static void
LiveCopyData(Relation rel, const FileLocator *file)
{
	NoteLiveFileCopied(rel, FileNumber(*file));
	GetHeapamTableAmRoutine()->relation_copy_data(rel, file);
}

static void
LiveEstimateSize(Relation rel, int32 *, BlockNumber *pages, double *tuples, double *allvisible)
{
	*pages = RelationGetNumberOfBlocks(rel);
	*tuples = *pages;
	*allvisible = 0;
}

static bool
LiveNeedsToastTable(Relation)
{
	return false;
}

const TableAmRoutine *
LiveTableAm(void)
{
	if (unlikely(live_am.type == 0))
	{
		memcpy(&live_am, GetHeapamTableAmRoutine(), sizeof live_am);
		FillLiveScans(&live_am);
		live_am.tuple_insert = LiveTupleInsert;
		live_am.tuple_insert_speculative = LiveTupleInsertSpeculative;
		live_am.multi_insert = LiveMultiInsert;
		live_am.tuple_delete = LiveTupleDelete;
		live_am.tuple_update = LiveTupleUpdate;
		live_am.tuple_lock = LiveTupleLock;
		live_am.relation_set_new_file = LiveSetNewFile;
		live_am.relation_nontransactional_truncate = LiveTruncateInPlace;
		live_am.relation_copy_data = LiveCopyData;
		live_am.relation_copy_for_cluster = LiveCopyForCluster;
		live_am.relation_vacuum = LiveVacuum;
		live_am.scan_analyze_next_block = LiveScanAnalyzeNextBlock;
		live_am.scan_analyze_next_tuple = LiveScanAnalyzeNextTuple;
		live_am.index_build_range_scan = LiveIndexBuildRangeScan;
		live_am.index_validate_scan = LiveIndexValidateScan;
		live_am.relation_needs_toast_table = LiveNeedsToastTable;
		live_am.relation_estimate_size = LiveEstimateSize;
		live_am.scan_sample_next_block = LiveScanSampleNextBlock;
		live_am.scan_sample_next_tuple = LiveScanSampleNextTuple;
	}
	return &live_am;
}

/*
 * dedup_am_handler(internal) returns table_am_handler
 */
DEDUP_FUNCTION(dedup_am_handler)
{
	PG_RETURN_POINTER(LiveTableAm());
}
