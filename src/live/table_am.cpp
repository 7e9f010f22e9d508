/*
 * The table access method `streamdedup`: heap's, but that there are no tuples.
 *
 * A scan gives one row a page with keys: what the scan's snapshot sees as committed,
 * which is what pg_dump writes. A filter that covers its table (cover.cpp) has one more row,
 * the last, which says so: that of its page of counters. COPY FROM takes such rows back
 * (restore.cpp). Everything that would write or lock a row is refused. VACUUM has vacuum.cpp.
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

[[noreturn]] static void
Refuse(Relation rel, const char *what, const char *hint)
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
LiveTupleInsert(Relation rel, TupleTableSlot *, CommandId, int, BulkInsertState)
{
	Refuse(rel, "insert into", add_hint);
}

static void
LiveTupleInsertSpeculative(Relation rel, TupleTableSlot *, CommandId, int, BulkInsertState, uint32)
{
	Refuse(rel, "insert into", add_hint);
}

static TM_Result
LiveTupleDelete(Relation rel, ItemPointer, CommandId, Snapshot, Snapshot, bool, TM_FailureData *,
				bool)
{
	Refuse(rel, "delete from", "Forget keys with dedup_forget(), empty the filter with TRUNCATE.");
}

#if PG_VERSION_NUM >= 160000
static TM_Result
LiveTupleUpdate(Relation rel, ItemPointer, TupleTableSlot *, CommandId, Snapshot, Snapshot, bool,
				TM_FailureData *, LockTupleMode *, TU_UpdateIndexes *)
#else
static TM_Result
LiveTupleUpdate(Relation rel, ItemPointer, TupleTableSlot *, CommandId, Snapshot, Snapshot, bool,
				TM_FailureData *, LockTupleMode *, bool *)
#endif
{
	Refuse(rel, "update", "Add keys with is_new(), forget them with dedup_forget().");
}

static TM_Result
LiveTupleLock(Relation rel, ItemPointer, Snapshot, TupleTableSlot *, CommandId, LockTupleMode,
			  LockWaitPolicy, uint8, TM_FailureData *)
{
	Refuse(rel, "lock rows of", "Lock the whole filter with LOCK TABLE.");
}

static double
LiveIndexBuildRangeScan(Relation rel, Relation, IndexInfo *, bool, bool, bool, BlockNumber,
						BlockNumber, IndexBuildCallback, void *, TableScanDesc)
{
	Refuse(rel, "create an index on",
		   "A live filter needs none: is_new() and dedup_seen() look at one page.");
}

static void
LiveIndexValidateScan(Relation rel, Relation, IndexInfo *, Snapshot, ValidateIndexState *)
{
	Refuse(rel, "create an index on",
		   "A live filter needs none: is_new() and dedup_seen() look at one page.");
}

/* ---- scans: what a dump holds ------------------------------------------------------ */

namespace
{

struct LiveScan
{
	TableScanDescData base;
	LiveFilter filter;
	int64 at;              /* block read last, -1 before the first */
	ItemPointerData first; /* of a scan by a range of places, */
	ItemPointerData last;  /* both included */
	MemoryContext context; /* of the row in hand */
};

} /* namespace */

static const TupleTableSlotOps *
LiveSlotCallbacks(Relation)
{
	return &TTSOpsVirtual;
}

static TableScanDesc
LiveScanBegin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *,
			  ParallelTableScanDesc parallel, uint32 flags)
{
	LiveScan *scan = (LiveScan *) palloc0(sizeof(LiveScan));

	if ((flags & SO_TYPE_SAMPLESCAN) != 0)
		Refuse(rel, "take a sample of",
			   "Its rows are pages. dedup_stats() says how many keys it holds.");
	RelationIncrementReferenceCount(rel);
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = parallel;
	scan->filter.rel = rel;
	/* One that was made by hand, without parameters, holds nothing: a dump must go on. */
	if (LiveHasParameters(rel))
		scan->filter.parameters = LiveParametersOf(rel);
	RefuseGrowing(scan->filter, "read the rows of");
	scan->at = -1;
	scan->context = AllocSetContextCreateInternal(CurrentMemoryContext, "live filter scan",
												  ALLOCSET_DEFAULT_SIZES);
	return &scan->base;
}

static void
LiveScanEnd(TableScanDesc base)
{
	LiveScan *scan = (LiveScan *) base;

	if (base->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(base->rs_snapshot);
	RelationDecrementReferenceCount(base->rs_rd);
	MemoryContextDelete(scan->context);
	pfree(scan);
}

static void
LiveScanRescan(TableScanDesc base, ScanKeyData *, bool, bool, bool, bool)
{
	((LiveScan *) base)->at = -1;
}

bool
CommittedFor(const LiveFilter &filter, BlockNumber block, Snapshot snapshot, uint64 wide)
{
	TransactionId xid = (TransactionId) wide;

	CheckPageXid(filter, block, wide);
	if (wide == kFrozen || TransactionIdIsCurrentTransactionId(xid))
		return true;
	if (snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC
			? XidInMVCCSnapshot(xid, snapshot)
			: TransactionIdIsInProgress(xid))
		return false;
	return TransactionIdDidCommit(xid);
}

/*
 * The primary settles what its own oldest snapshot sees. One of a standby can be older,
 * unless it holds the primary back.
 */
void
CheckSettledFor(const LiveFilter &filter, const uint8_t *page, Snapshot snapshot)
{
	if (RecoveryInProgress() && snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_MVCC &&
		SettledOf(page) >= WideXid(snapshot->xmin))
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("snapshot is too old to read live filter \"%s\"", LiveName(filter)),
						errdetail("The primary has settled keys that the snapshot does not see."),
						errhint("Try again, or set hot_standby_feedback on the standby.")));
}

bool
ReadLivePage(const LiveFilter &filter, Snapshot snapshot, BlockNumber block, DumpedPage *result)
{
	HeldPage main;
	int room = 256;
	DumpedEntry *entries;
	uint8_t *lines;
	bool has_lines = false;

	if (!HoldPage(filter, block, Kind::kMain, BUFFER_LOCK_SHARE, &main))
		return false;
	CheckSettledFor(filter, main.bytes, snapshot);
	entries = (DumpedEntry *) palloc(sizeof(DumpedEntry) * room);
	lines = (uint8_t *) palloc(kLines * dedup::kLineBytes);
	*result = {false, block, ClockOf(main.bytes), EarlyOf(main.bytes), 0, entries, NULL};
	memcpy(lines, LineAt(main.bytes, 0), kLines * dedup::kLineBytes);
	if (LoaderOf(main.bytes) != kNoXid &&
		!CommittedFor(filter, block, snapshot, LoaderOf(main.bytes)))
	{
		memset(lines, 0, kLines * dedup::kLineBytes);
		result->clock = 0;
	}
	for (size_t i = 0; i < kLines * dedup::kLineBytes && !has_lines; i += 8)
		has_lines = dedup::LoadU64(lines + i) != 0;
	VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		ForEachEntry(page.bytes, area, [&](unsigned, const Entry &entry) {
			const Tag tag = LoadTag(page.bytes, entry.tag);

			if (entry.tag > area.tags || entry.line >= kLines)
				ReportBadPage(filter.rel, page.block, "An entry has no transaction or line.");
			const bool committed = CommittedFor(filter, page.block, snapshot, tag.xid);
			const bool was_there =
				tag.base == 0 || CommittedFor(filter, page.block, snapshot, BaseOf(tag));

			if (entry.forgotten ? committed || !was_there : !committed)
				return;
			if ((int) result->count == room)
			{
				room *= 2;
				entries = (DumpedEntry *) repalloc(entries, sizeof(DumpedEntry) * room);
			}
			entries[result->count++] = {entry.line, tag.generation, entry.rest};
		});
		return false;
	});
	ReleasePage(main);
	result->entries = entries;
	result->lines = has_lines ? lines : NULL;
	/* What says until when its keys have expired is more than nothing. */
	return result->count > 0 || has_lines || result->clock != 0;
}

/* How many pages can have a row; none in a filter that was made by hand. */
static BlockNumber
PagesWithRows(const LiveFilter &filter)
{
	return filter.parameters.geometry.pages == 0 ? 0 : CountersBlock(filter) + 1;
}

/* What the row of a page says, in the current memory context; NULL if the page has none. */
static struct varlena *
EncodeRow(const LiveFilter &filter, Snapshot snapshot, BlockNumber block)
{
	DumpedPage page;

	if (block == CountersBlock(filter))
		return LiveCoversFor(filter, snapshot)
				   ? EncodeCovers(filter.parameters, LiveCoversFrom(filter))
				   : NULL;
	return ReadLivePage(filter, snapshot, block, &page) ? EncodePage(filter.parameters, page)
														: NULL;
}

/* Stores the row of a page, in the current memory context. Returns false if it has none. */
static bool
StoreRow(const LiveFilter &filter, Snapshot snapshot, BlockNumber block, TupleTableSlot *slot)
{
	struct varlena *value = EncodeRow(filter, snapshot, block);

	if (value == NULL)
		return false;
	slot->tts_values[kLiveBlockColumn - 1] = Int32GetDatum((int32) block);
	slot->tts_values[kLivePageColumn - 1] = PointerGetDatum(value);
	memset(slot->tts_isnull, false, kLiveColumns * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(filter.rel);
	ItemPointerSet(&slot->tts_tid, block, FirstOffsetNumber);
	return true;
}

static bool
LiveScanGetNextSlot(TableScanDesc base, ScanDirection direction, TupleTableSlot *slot)
{
	LiveScan *scan = (LiveScan *) base;
	const BlockNumber pages = PagesWithRows(scan->filter);

	ExecClearTuple(slot);
	for (;;)
	{
		MemoryContext old;
		BlockNumber block;
		bool some;

		CHECK_FOR_INTERRUPTS();
		if (base->rs_parallel != NULL)
		{
			ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) base->rs_parallel;
			uint64 taken = pg_atomic_fetch_add_u64(&shared->phs_nallocated, 1);

			if (taken >= pages)
				return false;
			block = (BlockNumber) taken;
		}
		else
		{
			if (ScanDirectionIsBackward(direction))
				scan->at = Max(scan->at - 1, -1);
			else
				scan->at = Min(scan->at + 1, (int64) pages);
			if (scan->at < 0 || scan->at >= (int64) pages)
				return false;
			block = (BlockNumber) scan->at;
		}
		MemoryContextReset(scan->context);
		old = MemoryContextSwitchTo(scan->context);
		some = StoreRow(scan->filter, base->rs_snapshot, block, slot);
		MemoryContextSwitchTo(old);
		if (some)
			return true;
	}
}

/* ---- rows by their place: a page's row is (block, 1) ---------------------------- */

/*
 * EvalPlanQual asks for any version of the row (SnapshotAny) when a statement that locks
 * rows of another relation meets one that has changed meanwhile, and checks its conditions
 * again with the same row of the filter. That is not there any more, since a row stands
 * for what a page held when it was read.
 */
static bool
LiveTupleFetchRowVersion(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	LiveFilter filter = {rel, LiveParametersOf(rel)};
	MemoryContext context;
	MemoryContext old;
	bool found;

	if (snapshot == NULL || snapshot->snapshot_type == SNAPSHOT_ANY)
		Refuse(rel, "check a condition again with a row of",
			   "The statement has met a row that another transaction has changed meanwhile. Read "
			   "the filter in a WITH query that is MATERIALIZED, or repeat the statement.");
	RefuseGrowing(filter, "read the rows of");
	ExecClearTuple(slot);
	if (ItemPointerGetOffsetNumberNoCheck(tid) != FirstOffsetNumber ||
		ItemPointerGetBlockNumberNoCheck(tid) >= PagesWithRows(filter))
		return false;
	context = AllocSetContextCreateInternal(CurrentMemoryContext, "live filter row",
											ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	found = StoreRow(filter, snapshot, ItemPointerGetBlockNumberNoCheck(tid), slot);
	MemoryContextSwitchTo(old);
	if (found)
		ExecMaterializeSlot(slot);
	MemoryContextDelete(context);
	return found;
}

static bool
LiveTupleTidValid(TableScanDesc scan, ItemPointer tid)
{
	return ItemPointerIsValid(tid) &&
		   ItemPointerGetBlockNumber(tid) < PagesWithRows(((LiveScan *) scan)->filter);
}

/* A row has one version. */
static void
LiveTupleGetLatestTid(TableScanDesc, ItemPointer)
{
}

#if PG_VERSION_NUM >= 140000
static void
LiveScanSetTidRange(TableScanDesc base, ItemPointer first, ItemPointer last)
{
	LiveScan *scan = (LiveScan *) base;

	ItemPointerCopy(first, &scan->first);
	ItemPointerCopy(last, &scan->last);
	scan->at = -1;
}

static bool
LiveScanGetNextSlotTidRange(TableScanDesc base, ScanDirection direction, TupleTableSlot *slot)
{
	LiveScan *scan = (LiveScan *) base;

	while (LiveScanGetNextSlot(base, direction, slot))
		if (ItemPointerCompare(&slot->tts_tid, &scan->first) >= 0 &&
			ItemPointerCompare(&slot->tts_tid, &scan->last) <= 0)
			return true;
	ExecClearTuple(slot);
	return false;
}
#endif

#if PG_VERSION_NUM >= 170000
static bool
LiveScanAnalyzeNextBlock(TableScanDesc, ReadStream *)
#else
static bool
LiveScanAnalyzeNextBlock(TableScanDesc, BlockNumber, BufferAccessStrategy)
#endif
{
	return false;
}

static bool
LiveScanAnalyzeNextTuple(TableScanDesc, TransactionId, double *, double *, TupleTableSlot *)
{
	return false;
}

static bool
LiveScanSampleNextBlock(TableScanDesc, SampleScanState *)
{
	return false; /* such a scan does not begin */
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

#if PG_VERSION_NUM >= 160000
static void
LiveSetNewFile(Relation rel, const RelFileLocator *file, char persistence, TransactionId *freeze,
			   MultiXactId *minmulti)
#else
static void
LiveSetNewFile(Relation rel, const RelFileNode *file, char persistence, TransactionId *freeze,
			   MultiXactId *minmulti)
#endif
{
	/* The server forgets for the new file what KnowLong() in store/pages.cpp noted. */
	CheckColumns(rel);
#if PG_VERSION_NUM >= 160000
	const bool replaces = rel->rd_locator.relNumber != file->relNumber;
#else
	const bool replaces = rel->rd_node.relNode != file->relNode;
#endif

	if (replaces)
		NoteLiveEmptied(rel); /* TRUNCATE; any other new file is that of a new relation */
	if (persistence == RELPERSISTENCE_TEMP)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("a live filter cannot be temporary"),
						errhint("Make an unlogged one, with dedup_create(..., unlogged => true); "
								"or use a window function or a filter in a variable.")));
#if PG_VERSION_NUM >= 160000
	GetHeapamTableAmRoutine()->relation_set_new_filelocator(rel, file, persistence, freeze,
															minmulti);
#else
	GetHeapamTableAmRoutine()->relation_set_new_filenode(rel, file, persistence, freeze, minmulti);
#endif
}

/* TRUNCATE by the subtransaction that has created or truncated the filter. */
static void
LiveTruncateInPlace(Relation rel)
{
	NoteLiveEmptied(rel);
	GetHeapamTableAmRoutine()->relation_nontransactional_truncate(rel);
}

/* ALTER TABLE ... SET TABLESPACE: another file with the same keys. */
#if PG_VERSION_NUM >= 160000
static void
LiveCopyData(Relation rel, const RelFileLocator *file)
{
	NoteLiveFileCopied(rel, file->relNumber);
	GetHeapamTableAmRoutine()->relation_copy_data(rel, file);
}
#else
static void
LiveCopyData(Relation rel, const RelFileNode *file)
{
	NoteLiveFileCopied(rel, file->relNode);
	GetHeapamTableAmRoutine()->relation_copy_data(rel, file);
}
#endif

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
		live_am.slot_callbacks = LiveSlotCallbacks;
		live_am.scan_begin = LiveScanBegin;
		live_am.scan_end = LiveScanEnd;
		live_am.scan_rescan = LiveScanRescan;
		live_am.scan_getnextslot = LiveScanGetNextSlot;
#if PG_VERSION_NUM >= 140000
		live_am.scan_set_tidrange = LiveScanSetTidRange;
		live_am.scan_getnextslot_tidrange = LiveScanGetNextSlotTidRange;
#endif
		live_am.tuple_fetch_row_version = LiveTupleFetchRowVersion;
		live_am.tuple_tid_valid = LiveTupleTidValid;
		live_am.tuple_get_latest_tid = LiveTupleGetLatestTid;
		live_am.tuple_insert = LiveTupleInsert;
		live_am.tuple_insert_speculative = LiveTupleInsertSpeculative;
		live_am.multi_insert = LiveMultiInsert;
		live_am.tuple_delete = LiveTupleDelete;
		live_am.tuple_update = LiveTupleUpdate;
		live_am.tuple_lock = LiveTupleLock;
#if PG_VERSION_NUM >= 160000
		live_am.relation_set_new_filelocator = LiveSetNewFile;
#else
		live_am.relation_set_new_filenode = LiveSetNewFile;
#endif
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
