/*
 * Scans of live filters: the contents of a dump.
 *
 * A scan returns one row for each page with keys. It holds the keys that are committed for the
 * scan's snapshot; pg_dump writes these rows. A filter that covers its table (cover.cpp) has one
 * more row, the last, which says so. In a filter that does not grow, the pages are its blocks. In a
 * filter that grows, the pages are those that it has when the scan begins, each followed by the
 * pages that have split off it since. So each key is in exactly one row, even if its page splits
 * during the scan.
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
#include "utils/snapmgr.h"
}

using namespace dedup::live;

namespace
{

/*
 * A page that a scan has read or will read, and the level at which it was found, or its level at
 * the start.
 */
struct ScanPage
{
	uint32 number;
	unsigned level;
};

struct LiveScan
{
	TableScanDescData base;
	LiveFilter filter;
	/* the place, among all pages, of the page that was read last; -1 before the first */
	int64 at;
	ItemPointerData first; /* for a scan by a range of places: */
	ItemPointerData last;  /* both are included */
	MemoryContext context; /* of the current row */
	uint32 pages;          /* the number of pages that had rows when the scan began */

	/* If the filter grows: the pages that were read, in order, and the pages that follow them. */
	ScanPage *list;
	int64 count;
	int64 room;
	uint32 next; /* the next page behind the list, unless the scan is parallel */
};

} /* namespace */

/* ---- visibility to a snapshot ------------------------------------------------------- */

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
 * The primary settles keys that its own oldest snapshot sees. A snapshot of a standby can be older,
 * unless the standby holds the primary back.
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
ReadLivePage(const LiveFilter &filter, Snapshot snapshot, uint32 number, DumpedPage *result)
{
	HeldPage main;
	int room = 256;
	DumpedEntry *entries;
	uint8_t *lines;
	bool has_lines = false;

	*result = {};
	result->block = number;
	if (!HoldNumbered(filter, number, BUFFER_LOCK_SHARE, false, &main))
		return false;
	CheckSettledFor(filter, main.bytes, snapshot);
	entries = (DumpedEntry *) palloc(sizeof(DumpedEntry) * room);
	lines = (uint8_t *) palloc(kLines * dedup::kLineBytes);
	result->level = LevelOf(main.bytes);
	result->clock = ClockOf(main.bytes);
	result->early = EarlyOf(main.bytes);
	memcpy(lines, LineAt(main.bytes, 0), kLines * dedup::kLineBytes);
	if (LoaderOf(main.bytes) != kNoXid &&
		!CommittedFor(filter, main.block, snapshot, LoaderOf(main.bytes)))
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
	/* A page without keys still has a row if it says until when its keys have expired. */
	return result->count > 0 || has_lines || result->clock != 0;
}

/* ---- scans -------------------------------------------------------------------------- */

static const TupleTableSlotOps *
LiveSlotCallbacks(Relation)
{
	return &TTSOpsVirtual;
}

/*
 * Returns the number of rows of all pages, and of the row behind them. Returns 0 for a filter that
 * was made by hand.
 */
static uint32
RowsOf(const LiveFilter &filter, uint32 pages)
{
	return pages == 0 ? 0 : pages + 1;
}

static TableScanDesc
LiveScanBegin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *,
			  ParallelTableScanDesc parallel, uint32 flags)
{
	LiveScan *scan = (LiveScan *) palloc0(sizeof(LiveScan));

	if ((flags & SO_TYPE_SAMPLESCAN) != 0)
		RefuseLive(rel, "take a sample of",
				   "Its rows are pages. dedup_stats() says how many keys it holds.");
	RelationIncrementReferenceCount(rel);
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = parallel;
	scan->filter.rel = rel;
	/* A filter that was made by hand, without parameters, holds nothing: a dump must not fail. */
	if (LiveHasParameters(rel))
	{
		scan->filter.parameters = LiveParametersOf(rel);
		scan->pages = Grows(scan->filter) && parallel != NULL
						  ? ((ParallelBlockTableScanDesc) parallel)->phs_nblocks
						  : CountPages(scan->filter);
	}
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
	if (scan->list != NULL)
		pfree(scan->list);
	pfree(scan);
}

static void
LiveScanRescan(TableScanDesc base, ScanKeyData *, bool, bool, bool, bool)
{
	LiveScan *scan = (LiveScan *) base;

	scan->at = -1;
	/* The pages of a parallel scan are distributed again. */
	if (base->rs_parallel != NULL)
		scan->count = 0;
}

/* All participants of a scan use the same number of pages. */
static Size
LiveParallelScanInitialize(Relation rel, ParallelTableScanDesc parallel)
{
	const Size size = table_block_parallelscan_initialize(rel, parallel);

	if (LiveHasParameters(rel))
	{
		const LiveFilter filter = {rel, LiveParametersOf(rel)};

		((ParallelBlockTableScanDesc) parallel)->phs_nblocks = CountPages(filter);
	}
	return size;
}

/* Makes the value of the row behind those of the pages, or NULL if there is no such row. */
static struct varlena *
EncodeLastRow(const LiveFilter &filter, Snapshot snapshot, uint32 pages)
{
	return LiveCoversFor(filter, snapshot)
			   ? EncodeCovers(filter.parameters, pages, LiveCoversFrom(filter))
			   : NULL;
}

/*
 * Stores the row of a page, or the last row, in the current memory context. Returns false if there
 * is no row. `level` receives the level of the page. `pages` is the number of pages when the scan
 * began.
 */
static bool
StoreRow(const LiveFilter &filter, Snapshot snapshot, uint32 pages, uint32 number, unsigned *level,
		 TupleTableSlot *slot)
{
	struct varlena *value = NULL;
	DumpedPage page = {};

	if (number == CoversRow(filter.parameters))
		value = EncodeLastRow(filter, snapshot, pages);
	else if (ReadLivePage(filter, snapshot, number, &page))
	{
		page.pages = pages;
		value = EncodePage(filter.parameters, page);
	}
	*level = page.level;
	if (value == NULL)
		return false;
	slot->tts_values[kLiveBlockColumn - 1] = Int32GetDatum((int32) number);
	slot->tts_values[kLivePageColumn - 1] = PointerGetDatum(value);
	memset(slot->tts_isnull, false, kLiveColumns * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(filter.rel);
	ItemPointerSet(&slot->tts_tid, number, FirstOffsetNumber);
	return true;
}

/*
 * Takes the next page that no other participant of a parallel scan has taken. Returns false if
 * there is none.
 */
static bool
TakeShared(const LiveScan *scan, uint32 *number)
{
	ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) scan->base.rs_parallel;
	const uint64 taken = pg_atomic_fetch_add_u64(&shared->phs_nallocated, 1);

	if (taken >= RowsOf(scan->filter, scan->pages))
		return false;
	*number = (uint32) taken;
	return true;
}

/* Moves on to the next place of a filter that does not grow. */
static bool
NextBlock(LiveScan *scan, bool back, uint32 *number)
{
	const int64 rows = RowsOf(scan->filter, scan->pages);

	if (scan->base.rs_parallel != NULL)
		return TakeShared(scan, number);
	scan->at = back ? Max(scan->at - 1, -1) : Min(scan->at + 1, rows);
	*number = (uint32) scan->at;
	return scan->at >= 0 && scan->at < rows;
}

/* Puts pages into the list behind a place. */
static void
Enlist(LiveScan *scan, int64 behind, const ScanPage *pages, int count)
{
	if (scan->count + count > scan->room)
	{
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(scan));

		scan->room = 2 * scan->room + 64;
		if (scan->list == NULL)
			scan->list = (ScanPage *) palloc(sizeof(ScanPage) * scan->room);
		else
			scan->list = (ScanPage *) repalloc_huge(scan->list, sizeof(ScanPage) * scan->room);
		MemoryContextSwitchTo(old);
	}
	memmove(scan->list + behind + 1 + count, scan->list + behind + 1,
			sizeof(ScanPage) * (scan->count - behind - 1));
	memcpy(scan->list + behind + 1, pages, sizeof(ScanPage) * count);
	scan->count += count;
}

/*
 * Moves on to the next page of a filter that grows: from the list, or a page that is added to it.
 */
static bool
NextGrown(LiveScan *scan, bool back)
{
	uint32 number = scan->next;
	ScanPage page;

	if (back)
	{
		scan->at = Max(scan->at - 1, -1);
		return scan->at >= 0;
	}
	if (scan->at + 1 >= scan->count)
	{
		if (scan->base.rs_parallel != NULL ? !TakeShared(scan, &number)
										   : number >= RowsOf(scan->filter, scan->pages))
		{
			scan->at = scan->count;
			return false;
		}
		scan->next = number + 1;
		page = {CoversRow(scan->filter.parameters), 0};
		if (number < scan->pages)
			page = {number, LevelOfPage(number, scan->pages)};
		Enlist(scan, scan->count - 1, &page, 1);
	}
	scan->at++;
	return true;
}

/*
 * The current page was found at a level. Puts the pages that have split off it since behind it.
 * Returns how many there are.
 */
static int
FollowSplits(LiveScan *scan, unsigned level)
{
	ScanPage *page = &scan->list[scan->at];
	const uint32 number = page->number;
	ScanPage off[kMostLevels];
	int count = 0;

	while (page->level < level)
	{
		off[count++] = {UpperOf(number, page->level), page->level + 1};
		page->level++;
	}
	if (count > 0)
		Enlist(scan, scan->at, off, count);
	return count;
}

static bool
LiveScanGetNextSlot(TableScanDesc base, ScanDirection direction, TupleTableSlot *slot)
{
	LiveScan *scan = (LiveScan *) base;
	const bool grows = Grows(scan->filter);
	const bool back = ScanDirectionIsBackward(direction);

	ExecClearTuple(slot);
	for (;;)
	{
		MemoryContext old;
		uint32 number;
		unsigned level;
		bool some;

		CHECK_FOR_INTERRUPTS();
		if (!(grows ? NextGrown(scan, back) : NextBlock(scan, back, &number)))
			return false;
		if (grows)
			number = scan->list[scan->at].number;
		MemoryContextReset(scan->context);
		old = MemoryContextSwitchTo(scan->context);
		some = StoreRow(scan->filter, base->rs_snapshot, scan->pages, number, &level, slot);
		MemoryContextSwitchTo(old);
		if (grows)
		{
			const int more = FollowSplits(scan, level);

			/* In a backward scan, the pages that have split off come before it. */
			if (back && more > 0)
			{
				ExecClearTuple(slot);
				scan->at += more + 1;
				continue;
			}
		}
		if (some)
			return true;
	}
}

/* ---- rows by their place: a page's row is (block, 1) ---------------------------- */

/* Returns whether a row can be at a block. */
static bool
CanHaveRow(const LiveFilter &filter, BlockNumber block, uint32 pages)
{
	return block < pages || (pages > 0 && block == CoversRow(filter.parameters));
}

/*
 * EvalPlanQual fetches any version of the row (SnapshotAny) when a statement that locks rows of
 * another relation finds a row that has changed meanwhile. It then checks the conditions again with
 * the same row of the filter. But that row does not exist any more, because a row represents the
 * contents of a page when it was read.
 */
static bool
LiveTupleFetchRowVersion(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	LiveFilter filter = {rel, LiveParametersOf(rel)};
	MemoryContext context;
	MemoryContext old;
	uint32 pages;
	unsigned level;
	bool found;

	if (snapshot == NULL || snapshot->snapshot_type == SNAPSHOT_ANY)
		RefuseLive(
			rel, "check a condition again with a row of",
			"The statement has met a row that another transaction has changed meanwhile. Read "
			"the filter in a WITH query that is MATERIALIZED, or repeat the statement.");
	ExecClearTuple(slot);
	pages = CountPages(filter);
	if (ItemPointerGetOffsetNumberNoCheck(tid) != FirstOffsetNumber ||
		!CanHaveRow(filter, ItemPointerGetBlockNumberNoCheck(tid), pages))
		return false;
	context = AllocSetContextCreateInternal(CurrentMemoryContext, "live filter row",
											ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	found = StoreRow(filter, snapshot, pages, ItemPointerGetBlockNumberNoCheck(tid), &level, slot);
	MemoryContextSwitchTo(old);
	if (found)
		ExecMaterializeSlot(slot);
	MemoryContextDelete(context);
	return found;
}

static bool
LiveTupleTidValid(TableScanDesc base, ItemPointer tid)
{
	const LiveScan *scan = (const LiveScan *) base;

	return ItemPointerIsValid(tid) && CanHaveRow(scan->filter, ItemPointerGetBlockNumber(tid),
												 scan->pages == 0 ? 0 : CountPages(scan->filter));
}

/* A row has only one version. */
static void
LiveTupleGetLatestTid(TableScanDesc, ItemPointer)
{
}

#if HAS_TID_RANGE_SCANS
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

void
FillLiveScans(TableAmRoutine *am)
{
	am->slot_callbacks = LiveSlotCallbacks;
	am->scan_begin = LiveScanBegin;
	am->scan_end = LiveScanEnd;
	am->scan_rescan = LiveScanRescan;
	am->scan_getnextslot = LiveScanGetNextSlot;
	am->parallelscan_initialize = LiveParallelScanInitialize;
#if HAS_TID_RANGE_SCANS
	am->scan_set_tidrange = LiveScanSetTidRange;
	am->scan_getnextslot_tidrange = LiveScanGetNextSlotTidRange;
#endif
	am->tuple_fetch_row_version = LiveTupleFetchRowVersion;
	am->tuple_tid_valid = LiveTupleTidValid;
	am->tuple_get_latest_tid = LiveTupleGetLatestTid;
}
