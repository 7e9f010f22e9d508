/*
 * Gives free pages back to the operating system: those at the end of the file and, if the filter
 * grows, those in the middle, into which the last pages of the file are moved.
 *
 * No other session uses the filter meanwhile. A later session notices by the number of a main page
 * that the page has moved (store/map.cpp). Pages of a chain name their main page by its number, so
 * they do not change when it moves. Each page moves in one WAL record, which leaves a complete
 * filter. The record names the pages in an order that suits the readers of a standby: a main page
 * comes before those of its chain.
 */
#include "core/fanning.hpp"
#include "live/give_back.hpp"
#include "live/store/store.hpp"

extern "C" {
#include "catalog/storage.h"
#include "storage/bufpage.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
}

using dedup::LoadU32;
using dedup::StoreU32;
using namespace dedup::live;

bool
IsFreePage(const LiveFilter &filter, BlockNumber block)
{
	Buffer buffer = ReadBuffer(filter.rel, block);
	uint8_t *page = (uint8_t *) BufferGetPage(buffer);
	bool is_free;

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	/* A page that the map of a filter that grows has allocated may not be written yet. */
	is_free = PageIsNew((Page) page) ? !Grows(filter) : LiveIsFreePage(filter, page, block);
	UnlockReleaseBuffer(buffer);
	return is_free;
}

/* ---- moving pages ----------------------------------------------------------------------- */

namespace
{

/* The numbers of main pages by their blocks. */
struct BlockNumbers
{
	BlockNumber count;
	uint32 *number; /* PG_UINT32_MAX: the block is not a main page */
};

} /* namespace */

/* Reads the whole map. */
static BlockNumbers
ReadNumbers(const LiveFilter &filter)
{
	BlockNumbers blocks = {RelationGetNumberOfBlocks(filter.rel), NULL};

	blocks.number =
		(uint32 *) palloc_extended(sizeof(uint32) * ((Size) blocks.count + 1), MCXT_ALLOC_HUGE);
	memset(blocks.number, 0xff, sizeof(uint32) * ((Size) blocks.count + 1));
	for (uint32 which = 0; which * kPagesAMap < kMostPages; which++)
	{
		const BlockNumber at = ReadRoot(filter, which).map;
		HeldPage map;

		CHECK_FOR_INTERRUPTS();
		if (at == 0 || !HoldPage(filter, at, Kind::kMap, BUFFER_LOCK_SHARE, &map))
			continue;
		for (uint32 i = 0; i < kPagesAMap; i++)
		{
			const BlockNumber block = LoadU32(map.bytes + MappedAt(i));

			if (block != 0 && block < blocks.count)
				blocks.number[block] = which * kPagesAMap + i;
		}
		ReleasePage(map);
	}
	return blocks;
}

/* Adds to the current change that a page moves from one block to another, which is free. */
static void
ChangePlace(const HeldPage &from, const HeldPage &to, uint8_t *moved, uint8_t *freed)
{
	LineLayout layout = LayoutOfByte(from.bytes[kLayoutAt]);

	memcpy(moved, to.bytes, BLCKSZ);
	memcpy(moved + kMagicAt, from.bytes + kMagicAt, BLCKSZ - kMagicAt);
	StoreU32(moved + kBlockAt, to.block);
	memcpy(freed, from.bytes, BLCKSZ);
	InitPage(freed, Kind::kFree, from.block, layout, 0);
	ChangeToScratch(to, moved);
	LogWhole(to);
}

/* Moves a main page, or a map page. The page `named_in` has its block at an offset. */
static void
MoveNamed(const LiveFilter &filter, const HeldPage &from, BlockNumber to, const HeldPage &named_in,
		  size_t named_at)
{
	PGAlignedBlock moved, freed;
	uint8_t block[4];
	HeldPage target;

	StoreU32(block, to);
	HoldGivenPage(filter, to, &target);
	StartChange();
	ChangePlace(from, target, (uint8_t *) moved.data, (uint8_t *) freed.data);
	ChangeBytes(named_in, named_at, block, sizeof block);
	ChangeToScratch(from, (uint8_t *) freed.data);
	MakeChange(filter);
	ReleasePage(target);
}

static void
MoveMain(const LiveFilter &filter, uint32 number, BlockNumber to)
{
	HeldPage from;
	HeldPage map;

	(void) HoldNumbered(filter, number, BUFFER_LOCK_EXCLUSIVE, true, &from);
	HoldPageToChange(filter, ReadRoot(filter, number / kPagesAMap).map, Kind::kMap, &map);
	MoveNamed(filter, from, to, map, MappedAt(number));
	ReleasePage(map);
	ReleasePage(from);
	NotePage(filter, number, to);
}

static void
MoveMap(const LiveFilter &filter, const HeldPage &from, BlockNumber to)
{
	const uint32 which = LoadU32(from.bytes + kNumberAt);
	HeldPage root;

	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	if (which >= kMostMaps || LoadU32(root.bytes + MapAt(which)) != from.block)
		ReportBadPage(filter.rel, from.block, "It is another part of the map.");
	MoveNamed(filter, from, to, root, MapAt(which));
	ReleasePage(root);
}

/*
 * Locks the main page in whose chain a block is, which has this owner and level. Returns the page
 * that leads to it: the one before it, or the fan that names it. Returns 0, with nothing held, if
 * it is in none.
 */
static BlockNumber
HoldMainOf(const LiveFilter &filter, uint32 owner, unsigned level, BlockNumber block,
		   HeldPage *main)
{
	const uint32 pages = CountPages(filter);

	for (uint64 number = owner; number < pages; number += (uint64) 1 << level)
	{
		BlockNumber before = 0;
		BlockNumber fan = 0;
		BlockNumber last = 0;
		BlockNumber next = 0; /* behind that */

		CHECK_FOR_INTERRUPTS();
		if (!HoldNumbered(filter, (uint32) number, BUFFER_LOCK_EXCLUSIVE, false, main))
			continue;
		VisitChain(filter, *main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
			if (page.block == block)
				before = next == block ? last : fan;
			if (IsFan(page.bytes))
				fan = page.block;
			last = page.block;
			next = NextOf(page.bytes);
			return before != 0;
		});
		if (before != 0)
			return before;
		ReleasePage(*main);
	}
	return 0;
}

/* Moves a page of a chain. Returns false if it is in no chain. */
static bool
MoveOverflow(const LiveFilter &filter, uint32 owner, unsigned level, BlockNumber block,
			 BlockNumber to)
{
	PGAlignedBlock moved, freed, fan;
	uint8_t link[kNextBytes];
	HeldPage main;
	HeldPage previous;
	HeldPage target;
	HeldPage from;
	const BlockNumber before = HoldMainOf(filter, owner, level, block, &main);

	if (before == 0)
		return false;
	previous = main;
	if (before != main.block)
		HoldInChain(filter, main, before, BUFFER_LOCK_EXCLUSIVE, &previous);
	HoldGivenPage(filter, to, &target);
	HoldInChain(filter, main, block, BUFFER_LOCK_EXCLUSIVE, &from);
	StoreU32(link, to);
	StartChange();
	ChangeWith(main);
	if (IsFan(previous.bytes))
	{
		memcpy(fan.data, previous.bytes, BLCKSZ);
		ReplaceInFan((uint8_t *) fan.data, block, to);
		ChangeToScratch(previous, (uint8_t *) fan.data);
	}
	else
		ChangeBytes(previous, kNextAt, link, sizeof link);
	ChangePlace(from, target, (uint8_t *) moved.data, (uint8_t *) freed.data);
	ChangeToScratch(from, (uint8_t *) freed.data);
	MakeChange(filter);
	ReleasePage(from);
	ReleasePage(target);
	if (before != main.block)
		ReleasePage(previous);
	ReleasePage(main);
	return true;
}

/* Moves a page to a free block. Returns false for a page that no other page names. */
static bool
MovePage(const LiveFilter &filter, BlockNumbers *blocks, BlockNumber block, BlockNumber to)
{
	uint32 number = blocks->number[block];
	unsigned level;
	HeldPage from;

	if (number != PG_UINT32_MAX)
	{
		MoveMain(filter, number, to);
		blocks->number[to] = number;
		blocks->number[block] = PG_UINT32_MAX;
		return true;
	}
	HoldGivenPage(filter, block, &from);
	if (KindOf(from.bytes) == Kind::kMap &&
		HeaderFlaw(from.bytes, Kind::kMap, block, filter.parameters.geometry.layout) == NULL)
	{
		MoveMap(filter, from, to);
		ReleasePage(from);
		return true;
	}
	if (HeaderFlaw(from.bytes, IsFan(from.bytes) ? Kind::kFan : Kind::kOverflow, block,
				   filter.parameters.geometry.layout) != NULL)
	{
		ReleasePage(from);
		return false;
	}
	number = OwnerOf(from.bytes);
	level = LevelOf(from.bytes);
	ReleasePage(from);
	return MoveOverflow(filter, number, level, block, to);
}

/*
 * Returns whether a page was never written and the map has not allocated it. A crash leaves such
 * pages.
 */
static bool
IsLost(const LiveFilter &filter, const BlockNumbers &blocks, BlockNumber block)
{
	Buffer buffer;
	bool is_new;

	if (blocks.number == NULL || blocks.number[block] != PG_UINT32_MAX)
		return false;
	buffer = ReadBuffer(filter.rel, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	is_new = PageIsNew(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return is_new;
}

/*
 * Moves the last pages of the file to free blocks, which are in order. Returns the file's length
 * without the free pages at its end.
 */
static BlockNumber
MoveLastPages(const LiveFilter &filter, const FreeBlocks &free_blocks, BlockNumbers *blocks,
			  BlockNumber used)
{
	BlockNumber next = 0;

	while (used > LastFixedBlock(filter) + 1)
	{
		const BlockNumber last = used - 1;

		CHECK_FOR_INTERRUPTS();
		if (IsLost(filter, *blocks, last) || IsFreePage(filter, last))
		{
			used = last;
			continue;
		}
		while (next < free_blocks.count && !IsFreePage(filter, free_blocks.block[next]))
			next++;
		if (next == free_blocks.count || free_blocks.block[next] >= last ||
			LockHasWaitersRelation(filter.rel, AccessExclusiveLock) ||
			!MovePage(filter, blocks, last, free_blocks.block[next]))
			break;
		RecordUsedIndexPage(filter.rel, free_blocks.block[next++]);
		used = last;
	}
	return used;
}

BlockNumber
GiveBackFree(const LiveFilter &filter, const FreeBlocks &free_blocks)
{
	Relation rel = filter.rel;
	BlockNumbers numbers = {0, NULL};
	BlockNumber blocks;
	BlockNumber used;

	if (!ConditionalLockRelation(rel, AccessExclusiveLock))
		return RelationGetNumberOfBlocks(rel);
	blocks = used = RelationGetNumberOfBlocks(rel);
	if (Grows(filter))
	{
		numbers = ReadNumbers(filter);
		used = MoveLastPages(filter, free_blocks, &numbers, used);
	}
	else
		while (used > LastFixedBlock(filter) + 1 && IsFreePage(filter, used - 1))
			used--;
	/* The server resets the flag of KnowLong() in store/pages.cpp, in every session. */
	Assert(used > LastFixedBlock(filter) || used == blocks);
	if (used < blocks)
		RelationTruncate(rel, used);
	if (numbers.number != NULL)
		pfree(numbers.number);
	UnlockRelation(rel, AccessExclusiveLock);
	return used;
}
