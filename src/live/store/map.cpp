/*
 * The map of a filter that grows: the number of its main pages, and their blocks.
 *
 * A main page has a number (core/linear_hash.hpp). The root is block 1. It stores the number of
 * main pages and the blocks of the map pages. A map page stores the blocks of 2,032 main pages.
 * Main page 0 is always block 2. Any other block can be a main page, an overflow page, a map page,
 * or free.
 *
 * Each backend caches the parts of the map that it has read, beside the relation's parameters
 * (CachedLive). The cache is only a hint: the number of pages may have grown since, and VACUUM may
 * have moved a page. So a backend checks each main page after locking it. It checks the page's
 * number, and it computes from the page's level whether the page has the key. If the page does not
 * have the key, the page has split, and the search continues in the page that the key moved to.
 * That page exists already. Levels only grow, so the search ends. The search holds one page at a
 * time.
 *
 * Locks, in the order in which they are taken:
 *   a reader of the map      the root, then, after it is released, a map page; both shared
 *   making an empty page     the main page, then the root, shared, for the page's level
 *   a split (split.cpp)      the server's lock of page kRootBlock, without waiting; then the main
 *                            page, pages of its chain, the new page, the map page, the root
 *   a presize                the same server's lock; main page 0, new pages, a map page, the root
 * So the root is locked last, and a map page before it. No backend waits for a main page while it
 * holds the root or a map page.
 *
 * After a crash the page count in the root can be too low by one. The next split repairs the count.
 * Every block in a map page is in the file: a backend that allocates blocks beyond the end of the
 * file logs the last of them together with the map page. A page that was allocated in advance and
 * never written is empty. Its level follows from its number and the number of all pages. A page
 * that the root counts, but that has no block in the map, is empty too: after a restore the root
 * has the page count of the dump, which may be wrong.
 */
#include <bit>

#include "core/live_method.hpp"
#include "live/store/pins.hpp"

extern "C" {
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
}

using dedup::LoadU32;
using dedup::StoreU32;
using namespace dedup::live;

/* ---- the cache of this backend ----------------------------------------------------- */

/* Returns the cache of a filter. Makes an empty cache if the server has dropped it. */
static CachedLive *
CacheOf(const LiveFilter &filter)
{
	if (unlikely(filter.rel->rd_amcache == NULL))
		CacheLiveParameters(filter.rel, filter.parameters);
	return (CachedLive *) filter.rel->rd_amcache;
}

void
ForgetMap(const LiveFilter &filter)
{
	CachedLive *cached = (CachedLive *) filter.rel->rd_amcache;

	if (cached == NULL || cached->map == NULL)
		return;
	cached->pages = 0;
	memset(cached->map, 0, cached->map_room * sizeof(BlockNumber));
}

/* Returns the cache, with room for `pages` pages. */
static CachedLive *
CacheWithRoom(const LiveFilter &filter, uint32 pages)
{
	if (CacheOf(filter)->map_room < pages)
		EnlargeLiveCache(filter.rel, pages);
	return CacheOf(filter);
}

void
NotePage(const LiveFilter &filter, uint32 number, BlockNumber block)
{
	CachedLive *cached = CacheWithRoom(filter, number + 1);

	cached->map[number] = block;
	cached->pages = Max(cached->pages, number + 1);
}

/* ---- the root and the map ------------------------------------------------------------- */

RootView
ReadRoot(const LiveFilter &filter, uint32 map)
{
	RootView view = {1, 0};
	HeldPage root;

	Assert(Grows(filter) && map < kMostMaps);
	if (!HoldPage(filter, kRootBlock, Kind::kRoot, BUFFER_LOCK_SHARE, &root))
		return view;
	view.pages = Max(PagesInRoot(root.bytes), 1u);
	view.map = LoadU32(root.bytes + MapAt(map));
	ReleasePage(root);
	if (view.pages > kMostPages)
		ReportBadPage(filter.rel, kRootBlock, "It counts more pages than a filter can have.");
	return view;
}

uint32
CountPages(const LiveFilter &filter)
{
	return Grows(filter) ? ReadRoot(filter, 0).pages : filter.parameters.geometry.pages;
}

/*
 * Reads the map page that has the block of a main page, and the number of pages. Caches both.
 * Returns the number of pages.
 */
static uint32
ReadMap(const LiveFilter &filter, uint32 number)
{
	const uint32 first = number - number % kPagesAMap;
	const RootView root = ReadRoot(filter, number / kPagesAMap);
	BlockNumber blocks[kPagesAMap] = {};
	CachedLive *cached;
	HeldPage map;

	if (root.map != 0 && HoldPage(filter, root.map, Kind::kMap, BUFFER_LOCK_SHARE, &map))
	{
		const bool right = LoadU32(map.bytes + kNumberAt) == number / kPagesAMap;

		for (uint32 i = 0; i < kPagesAMap; i++)
			blocks[i] = LoadU32(map.bytes + MappedAt(i));
		ReleasePage(map);
		if (!right)
			ReportBadPage(filter.rel, root.map, "It is another part of the map.");
	}
	if (first == 0)
		blocks[0] = kFirstMainBlock;
	cached = CacheWithRoom(filter, Max(root.pages, number + 1));
	cached->pages = Max(cached->pages, root.pages);
	memcpy(cached->map + first, blocks,
		   Min(kPagesAMap, cached->map_room - first) * sizeof(BlockNumber));
	return root.pages;
}

/* Returns the block of a main page, or 0 if the page has no keys and was not allocated. */
static BlockNumber
BlockOfPage(const LiveFilter &filter, uint32 number)
{
	const CachedLive *cached = CacheOf(filter);

	if (likely(number < cached->map_room && cached->map[number] != 0))
		return cached->map[number];
	if (ReadMap(filter, number) <= number && CacheOf(filter)->map[number] == 0)
		ReportBadPage(filter.rel, kRootBlock,
					  psprintf("The map has no block of main page %u.", number));
	return CacheOf(filter)->map[number];
}

uint32
GuessPages(const LiveFilter &filter)
{
	if (!Grows(filter))
		return filter.parameters.geometry.pages;
	/* TRUNCATE in the transaction that has created the filter does not reset the cache. */
	if (unlikely(!KnownLong(filter)) && !IsLong(filter, kFirstMainBlock))
		return 1;
	if (unlikely(CacheOf(filter)->pages == 0))
		(void) ReadMap(filter, 0);
	return CacheOf(filter)->pages;
}

BlockNumber
GuessGrownPage(const LiveFilter &filter, const Address &address)
{
	const CachedLive *cached = (const CachedLive *) filter.rel->rd_amcache;
	uint32 number;

	if (cached == NULL || cached->pages == 0)
		return 0;
	number = PageOfBits(address.group, cached->pages);
	return number < cached->map_room ? cached->map[number] : 0;
}

/* ---- locking main pages ------------------------------------------------------------------ */

void
InitGivenPage(const LiveFilter &filter, uint32 number, BlockNumber block, uint8_t *bytes)
{
	LineLayout layout = filter.parameters.geometry.layout;

	layout.level = LevelOfPage(number, Max(ReadRoot(filter, 0).pages, number + 1));
	InitPage(bytes, Kind::kMain, block, layout, number);
}

/* Makes a page that was never written an empty main page. The caller has locked it exclusively. */
static void
MakeMainPage(const LiveFilter &filter, uint32 number, const HeldPage &held)
{
	PGAlignedBlock scratch;

	InitGivenPage(filter, number, held.block, (uint8_t *) scratch.data);
	MakeNewPage(filter, held, (const uint8_t *) scratch.data);
}

BlockNumber
MappedBlock(const LiveFilter &filter, uint32 number)
{
	const BlockNumber at = ReadRoot(filter, number / kPagesAMap).map;
	BlockNumber block;
	HeldPage map;

	if (at == 0 || !HoldPage(filter, at, Kind::kMap, BUFFER_LOCK_SHARE, &map))
		return number == 0 ? kFirstMainBlock : 0;
	block = LoadU32(map.bytes + MappedAt(number));
	ReleasePage(map);
	return block;
}

/*
 * Copies into a page that is allocated late what its split would have copied: the clock of the
 * lower page, and the newest transaction settled there. Both may be newer now than at the split.
 */
static void
InheritFromLower(const LiveFilter &filter, uint32 number, uint8_t *bytes)
{
	while (number != 0)
	{
		BlockNumber block;
		HeldPage lower;

		number &= (uint32) dedup::LowMask((unsigned) std::bit_width(number) - 1);
		block = MappedBlock(filter, number);
		if (block == 0 || !HoldPage(filter, block, Kind::kMain, BUFFER_LOCK_SHARE, &lower))
			continue;
		SetClock(bytes, ClockOf(lower.bytes));
		NoteSettled(bytes, SettledOf(lower.bytes));
		ReleasePage(lower);
		return;
	}
}

/* Allocates a main page that was not allocated before because it had no keys. No page is locked. */
static void
GiveOutPage(const LiveFilter &filter, uint32 number)
{
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	BlockNumber map_block;
	BlockNumber block;

	/* No buffer may be locked. A buffer lock would hold off interrupts. */
	Assert(InterruptHoldoffCount == 0);
	LockPage(filter.rel, kRootBlock, ExclusiveLock);
	map_block = MapPageFor(filter, number);
	block = MappedBlock(filter, number);
	if (block == 0)
	{
		uint8_t bytes[4];
		HeldPage fresh;
		HeldPage map;

		InitGivenPage(filter, number, 0, copy);
		InheritFromLower(filter, number, copy);
		HoldNewPage(filter, &fresh);
		HoldPageToChange(filter, map_block, Kind::kMap, &map);
		block = fresh.block;
		memcpy(copy, fresh.bytes, kMagicAt);
		StoreU32(copy + kBlockAt, block);
		StoreU32(bytes, block);
		StartChange();
		ChangeToScratch(fresh, copy);
		LogWhole(fresh);
		ChangeBytes(map, MappedAt(number), bytes, sizeof bytes);
		MakeChange(filter);
		ReleasePage(map);
		ReleasePage(fresh);
	}
	UnlockPage(filter.rel, kRootBlock, ExclusiveLock);
	NotePage(filter, number, block);
}

/* Returns whether the header of a locked page says that it is main page `number`. */
static inline bool
IsMainPage(const uint8_t *bytes, uint32 number)
{
	return KindOf(bytes) == Kind::kMain && NumberOf(bytes) == number;
}

/* Returns whether a block is in the file. During recovery the file may be replaced unnoticed. */
static inline bool
IsInFile(const LiveFilter &filter, BlockNumber block)
{
	return !RecoveryInProgress() || block < RelationGetNumberOfBlocks(filter.rel);
}

namespace
{

/* The action for a page that was never written. */
enum class IfNew
{
	Release,
	Make, /* make it an empty main page */
	Hold  /* hold it unchanged */
};

} /* namespace */

/* Does HoldNumbered() for a filter that grows. Prefetches for a key if `address` is not null. */
static inline bool
HoldMainPage(const LiveFilter &filter, uint32 number, const Address *address, int lock, IfNew make,
			 HeldPage *held)
{
	BlockNumber tried = 0;

	for (;;)
	{
		const BlockNumber block = BlockOfPage(filter, number);
		bool read = false;

		if (unlikely(block == 0))
		{
			if (make == IfNew::Release)
				return false;
			GiveOutPage(filter, number);
			continue;
		}
		if (likely(IsInFile(filter, block)))
		{
			read = PinPage(filter, block, held);
			if (address != NULL)
				PrefetchKey(held->bytes, *address);
			LockBuffer(held->buffer, (BufferLock) lock);
			if (unlikely(PageIsNew((Page) held->bytes)))
			{
				if (make == IfNew::Make)
					MakeMainPage(filter, number, *held);
				else if (make == IfNew::Release)
					ReleasePage(*held);
				return make != IfNew::Release;
			}
			if (likely(IsMainPage(held->bytes, number)) || tried == block)
			{
				CheckHeld(filter, *held, Kind::kMain, read);
				if (!IsMainPage(held->bytes, number))
					ReportBadPage(filter.rel, block, "It is not the page that the map names.");
				return true;
			}
			ReleasePage(*held);
		}
		else if (tried == block)
			ReportBadPage(filter.rel, kRootBlock, "The map leads out of the file.");
		/* The page has moved or is damaged. The next round finds out which. */
		tried = block;
		ForgetMap(filter);
	}
}

bool
HoldNumbered(const LiveFilter &filter, uint32 number, int lock, bool make, HeldPage *held)
{
	if (!Grows(filter))
	{
		if (!make)
			return HoldPage(filter, number, Kind::kMain, lock, held);
		HoldPageToChange(filter, number, Kind::kMain, held);
		return true;
	}
	if (make)
		MakeLong(filter);
	else if (!IsLong(filter, kFirstMainBlock))
		return false;
	return HoldMainPage(filter, number, NULL, lock, make ? IfNew::Make : IfNew::Release, held);
}

/* Returns whether a held page has a key. If not, caches the number of pages that there must be. */
static inline bool
HasKey(const LiveFilter &filter, const HeldPage &held, uint32 number, const Address &address)
{
	const unsigned level = LevelOf(held.bytes);

	if (likely(HasBits(number, level, address.group)))
		return true;

	/* The last split of page `number`, or the split that made it, has divided page `lower`. */
	const uint32 lower = number & (uint32) dedup::LowMask(level - 1);
	CachedLive *cached = CacheWithRoom(filter, UpperOf(lower, level - 1) + 1);

	cached->pages = Max(cached->pages, UpperOf(lower, level - 1) + 1);
	return false;
}

bool
HoldGrownPage(const LiveFilter &filter, const Address &address, int lock, bool make, HeldPage *held)
{
	uint32 number;
	bool asked = false;

	if (make)
		MakeLong(filter);
	else if (!IsLong(filter, kFirstMainBlock))
		return false;
	number = PageOfBits(address.group, GuessPages(filter));
	for (;;)
	{
		if (!HoldMainPage(filter, number, &address, lock, make ? IfNew::Make : IfNew::Release,
						  held))
		{
			/* An unwritten page has no level. Its number may come from an old page count. */
			const uint32 now = PageOfBits(address.group, ReadRoot(filter, 0).pages);

			if (asked || now == number)
				return false;
			asked = true;
			number = now;
			continue;
		}
		if (likely(HasKey(filter, *held, number, address)))
			return true;
		number = AfterSplit(number, LevelOf(held->bytes), address.group);
		ReleasePage(*held);
	}
}

bool
HoldGrownPageToFill(const LiveFilter &filter, const Address &address, HeldPage *held,
					uint32 *number)
{
	MakeLong(filter);
	*number = PageOfBits(address.group, GuessPages(filter));
	for (;;)
	{
		(void) HoldMainPage(filter, *number, NULL, BUFFER_LOCK_EXCLUSIVE, IfNew::Hold, held);
		if (PageIsNew((Page) held->bytes))
		{
			const uint32 pages = ReadRoot(filter, 0).pages;

			if (PageOfBits(address.group, pages) == *number)
				return true;
			*number = PageOfBits(address.group, pages);
		}
		else if (HasKey(filter, *held, *number, address))
			return false;
		else
			*number = AfterSplit(*number, LevelOf(held->bytes), address.group);
		ReleasePage(*held);
	}
}

bool
HoldGrownPages(const LiveFilter &filter, const uint32 *numbers, int count, HeldPage *held,
			   int *order)
{
	bool read[kMostChanged];
	bool known = true;

	Assert(Grows(filter) && count <= kMostChanged);
	MakeLong(filter);
	for (int i = 0; i < count; i++)
		if (unlikely(BlockOfPage(filter, numbers[i]) == 0))
			GiveOutPage(filter, numbers[i]);
	for (int i = 0; i < count; i++)
	{
		int at = i;

		read[i] = PinPage(filter, BlockOfPage(filter, numbers[i]), &held[i]);
		for (; at > 0 && held[order[at - 1]].block > held[i].block; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	/* If two pages have the same block, one has moved. Locking a block twice would deadlock. */
	for (int i = 1; i < count; i++)
		if (unlikely(held[order[i - 1]].block == held[order[i]].block))
		{
			for (int j = 0; j < count; j++)
				ReleaseBuffer(held[j].buffer);
			ForgetMap(filter);
			return false;
		}
	for (int i = 0; i < count; i++)
	{
		HeldPage &page = held[order[i]];
		const uint32 number = numbers[order[i]];

		LockBuffer(page.buffer, BUFFER_LOCK_EXCLUSIVE);
		if (unlikely(PageIsNew((Page) page.bytes)))
			MakeMainPage(filter, number, page);
		else if (likely(IsMainPage(page.bytes, number)))
			CheckHeld(filter, page, Kind::kMain, read[order[i]]);
		else
			known = false;
	}
	if (likely(known))
		return true;
	for (int i = 0; i < count; i++)
		ReleasePage(held[i]);
	ForgetMap(filter);
	return false;
}

/* ---- allocating pages ------------------------------------------------------------------- */

void
HoldGivenPage(const LiveFilter &filter, BlockNumber block, HeldPage *held)
{
	(void) PinPage(filter, block, held);
	LockBuffer(held->buffer, BUFFER_LOCK_EXCLUSIVE);
	if (PageIsNew((Page) held->bytes))
		InitHeader(held->bytes);
}

BlockNumber
MapPageFor(const LiveFilter &filter, uint32 number)
{
	const uint32 which = number / kPagesAMap;
	BlockNumber block = ReadRoot(filter, which).map;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	uint8_t bytes[4];
	HeldPage map;
	HeldPage root;

	if (block != 0)
		return block;
	MakeLong(filter);
	HoldNewPage(filter, &map);
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	block = map.block;
	memcpy(copy, map.bytes, BLCKSZ);
	InitPage(copy, Kind::kMap, block, filter.parameters.geometry.layout, which);
	if (which == 0)
		StoreU32(copy + MappedAt(0), kFirstMainBlock);
	StoreU32(bytes, block);
	StartChange();
	ChangeToScratch(map, copy);
	LogWhole(map);
	ChangeBytes(root, MapAt(which), bytes, sizeof bytes);
	MakeChange(filter);
	ReleasePage(root);
	ReleasePage(map);
	return block;
}

/* ---- walks -------------------------------------------------------------------------------- */

void
StartPageWalk(const LiveFilter &filter, PageWalk *walk)
{
	walk->filter = &filter;
	walk->pages = CountPages(filter);
	walk->next = 0;
	walk->waiting = 0;
}

bool
HoldNextPage(PageWalk *walk, int lock, HeldPage *held)
{
	const LiveFilter &filter = *walk->filter;

	for (;;)
	{
		uint32 number;
		unsigned level = 0;

		CHECK_FOR_INTERRUPTS();
		if (walk->waiting > 0)
		{
			walk->waiting--;
			number = walk->split[walk->waiting].number;
			level = walk->split[walk->waiting].level;
		}
		else if (walk->next < walk->pages)
		{
			number = walk->next++;
			level = Grows(filter) ? LevelOfPage(number, walk->pages) : 0;
		}
		else
			return false;
		if (!HoldNumbered(filter, number, lock, false, held))
			continue;
		/* The levels in `split` strictly increase, so the array has room for all waiting pages. */
		for (; level < LevelOf(held->bytes); level++)
			walk->split[walk->waiting++] = {UpperOf(number, level), level + 1};
		return true;
	}
}
