/*
 * VACUUM of live filters. It settles every page, keeps relfrozenxid at or before the oldest
 * transaction that a page still names, finds free pages that the free space map has lost, and gives
 * pages back (give_back.cpp). VACUUM FULL copies the file.
 */
#include "live/give_back.hpp"
#include "live/store/store.hpp"
#include "live/table_am.hpp"

extern "C" {
#include "access/multixact.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "pgstat.h"
#include "storage/bufpage.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
}

using namespace dedup::live;

/* Returns the oldest transaction in a page's tags, or kNoXid. */
static uint64
OldestTag(const LiveFilter &filter, const HeldPage &main)
{
	uint64 oldest = LoaderOf(main.bytes);

	VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		for (unsigned tag = 1; tag <= AreaOf(page.bytes).tags; tag++)
		{
			const Tag value = LoadTag(page.bytes, tag);
			const uint64 xids[] = {value.xid, BaseOf(value)};

			for (const uint64 xid : xids)
				if (xid != kNoXid && xid != kFrozen && (oldest == kNoXid || xid < oldest))
					oldest = xid;
		}
		return false;
	});
	return oldest;
}

/* Settles every page. Returns the oldest transaction that is still named, or kNoXid. */
static uint64
SettleAll(const LiveFilter &filter)
{
	uint64 oldest = SettleLiveCovers(filter);
	uint64 keys = 0;
	PageWalk walk;
	HeldPage main;

	StartPageWalk(filter, &walk);
	while (HoldNextPage(&walk, BUFFER_LOCK_EXCLUSIVE, &main))
	{
		SettlePage(filter, main, false);
		SpreadLongChain(filter, main);
		if (Grows(filter))
			keys += CountKeys(filter, main);

		const uint64 here = OldestTag(filter, main);
		if (here != kNoXid && (oldest == kNoXid || here < oldest))
			oldest = here;
		ReleasePage(main);
		WarnLiveEarly(filter);
		VACUUM_DELAY_POINT();
	}
	/*
	 * One page gives the number of keys within a few per cent. VACUUM has read all pages and knows
	 * it exactly.
	 */
	if (Grows(filter))
		SplitForAll(filter, (double) keys);
	return oldest;
}

/*
 * Finds free pages, including those that the map has lost in a crash. Sets `*used` to the start of
 * the free pages at the end of the file.
 */
static FreeBlocks
FindFree(const LiveFilter &filter, BlockNumber blocks, BlockNumber *used)
{
	FreeBlocks found = {NULL, 0};

	found.block =
		(BlockNumber *) palloc_extended(sizeof(BlockNumber) * ((Size) blocks + 1), MCXT_ALLOC_HUGE);
	*used = Min(blocks, LastFixedBlock(filter) + 1);
	for (BlockNumber block = *used; block < blocks; block++)
		if (IsFreePage(filter, block))
		{
			RecordFreeIndexPage(filter.rel, block);
			found.block[found.count++] = block;
		}
		else
			*used = block + 1;
	return found;
}

/* Free pages in the middle of the file are given back if they are at least one in this many. */
static constexpr BlockNumber kFreeShare = 64;

void
LiveVacuum(Relation rel, VacuumParameters *, BufferAccessStrategy)
{
	LiveFilter filter = {rel, {}};
	TransactionId cutoff = OLDEST_RUNNING(rel);
	MultiXactId multi = GetOldestMultiXactId();
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	TimestampTz start = GetCurrentTimestamp();
	uint64 oldest = kNoXid;
	FreeBlocks free_blocks;
	BlockNumber used;

	/* A filter that was made by hand, without parameters, holds nothing. */
	if (LiveHasParameters(rel))
	{
		filter.parameters = LiveParametersOf(rel);
		oldest = SettleAll(filter);
		SettleLiveCounters(filter);
	}
	if (oldest != kNoXid && TransactionIdPrecedes((TransactionId) oldest, cutoff))
		cutoff = (TransactionId) oldest;

	free_blocks = FindFree(filter, blocks, &used);
	if (used < blocks || (Grows(filter) && free_blocks.count > blocks / kFreeShare))
		blocks = GiveBackFree(filter, free_blocks);
	pfree(free_blocks.block);
	IndexFreeSpaceMapVacuum(rel);
	UPDATE_RELSTATS(rel, blocks, cutoff, multi);
	/* Else the rows of a restore would call for autovacuum for ever. */
	REPORT_VACUUM(rel, start);
}

/* Does VACUUM FULL: copies the blocks unchanged; in a filter that grows, without the free ones. */
void
LiveCopyForCluster(Relation from, Relation to, Relation, bool, TransactionId,
				   REPACK_SNAPSHOT TransactionId *xid_cutoff, MultiXactId *, double *tuples,
				   double *vacuumed, double *recently_dead)
{
	LiveFilter filter = {from, {}};
	uint64 oldest = kNoXid;

	if (LiveHasParameters(from))
	{
		filter.parameters = LiveParametersOf(from);
		oldest = SettleAll(filter);
		SettleLiveCounters(filter);
	}
	if (oldest != kNoXid && TransactionIdPrecedes((TransactionId) oldest, *xid_cutoff))
		*xid_cutoff = (TransactionId) oldest;
	if (Grows(filter))
	{
		BlockNumber used;

		(void) GiveBackFree(filter, FindFree(filter, RelationGetNumberOfBlocks(from), &used));
	}
	FlushRelationBuffers(from);
	RelationCopyStorage(RelationGetSmgr(from), RelationGetSmgr(to), MAIN_FORKNUM,
						from->rd_rel->relpersistence);
	*tuples = *vacuumed = *recently_dead = 0;
}
