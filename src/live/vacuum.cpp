/*
 * VACUUM of live filters. It settles every page, keeps relfrozenxid behind the oldest
 * transaction that a page still names, finds free pages that the map of them has lost, and
 * gives pages back (give_back.cpp). VACUUM FULL copies the file.
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

/* The oldest transaction that a page's tags name, or kNoXid. */
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
	/* One page tells about all within a few per cent. Who has read all of them knows. */
	if (Grows(filter))
		SplitForAll(filter, (double) keys);
	return oldest;
}

/*
 * Looks for free pages: what the map of them has lost in a crash. Sets `*used` to where those at
 * the end of the file begin.
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

/* Of so many pages, as many free ones between others are worth to be given back. */
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

	/* One that was made by hand, without parameters, holds nothing. */
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

/* VACUUM FULL: the blocks are copied as they are, in a filter that grows without free ones. */
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
