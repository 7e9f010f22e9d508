/*
 * Gives a filter that grows its pages beforehand, for the keys that will be loaded. The pages of a
 * filter that is not empty are split one by one (split.cpp). For an empty filter this is done at
 * once, as follows.
 *
 * The pages are allocated at the end of the file, map page by map page. There is one WAL record for
 * the map page and the last of the new blocks, so that no crash leaves a file that is shorter than
 * the map says. The other blocks stay unwritten until they get keys. All of this has no effect
 * until the last record, which changes the number of pages in the root and the level of main page 0
 * together. A crash before that leaves blocks in the map, which splits or the next presize will
 * use.
 *
 * A restore knows the number of pages from the dump, which need not be true. Then the pages are
 * not given out, and who puts the first key into one does that (map.cpp).
 */
#include "core/live_method.hpp"
#include "live/bulk.hpp"
#include "live/store/store.hpp"

extern "C" {
#include "storage/bufpage.h"
#include "storage/lmgr.h"
}

using dedup::LoadU32;
using dedup::StoreU32;
using namespace dedup::live;

/*
 * Gives a page that is in the map already, but not in use yet, its level among `pages`. An
 * interrupted presize may have written it for another number of pages.
 */
static void
Relevel(const LiveFilter &filter, uint32 number, BlockNumber block, uint32 pages)
{
	const uint8_t level = (uint8_t) LevelOfPage(number, pages);
	HeldPage page;

	CHECK_FOR_INTERRUPTS();
	if (!HoldPage(filter, block, Kind::kMain, BUFFER_LOCK_EXCLUSIVE, &page))
		return;
	if (LevelOf(page.bytes) != level)
	{
		StartChange();
		ChangeBytes(page, kLevelAt, &level, 1);
		MakeChange(filter);
	}
	ReleasePage(page);
}

/*
 * Relevel() for those of the main pages from one to before another that the map has already. They
 * share a map page, of which `map` is a copy. Returns how many it does not have.
 */
static uint32
RelevelMapped(const LiveFilter &filter, const uint8_t *map, uint32 first, uint32 end, uint32 pages)
{
	uint32 count = 0;

	for (uint32 number = first; number < end; number++)
	{
		const BlockNumber mapped = LoadU32(map + MappedAt(number));

		count += mapped == 0;
		if (mapped != 0 && number != 0)
			Relevel(filter, number, mapped, pages);
	}
	return count;
}

/* Copies a map page. Only who holds the server's lock changes the map. */
static void
CopyMap(const LiveFilter &filter, BlockNumber block, uint8_t *copy)
{
	HeldPage map;

	HoldPageToChange(filter, block, Kind::kMap, &map);
	memcpy(copy, map.bytes, BLCKSZ);
	ReleasePage(map);
}

/* Gives out the main pages from one to before another of `pages`, which share a map page. */
static void
GiveOut(const LiveFilter &filter, uint32 first, uint32 end, uint32 pages)
{
	LineLayout layout = filter.parameters.geometry.layout;
	const BlockNumber map_block = MapPageFor(filter, first);
	PGAlignedBlock map_scratch, last_scratch;
	uint8_t *copy = (uint8_t *) map_scratch.data;
	uint8_t *fresh = (uint8_t *) last_scratch.data;
	uint32 last_number = 0;
	uint32 count;
	BlockNumber block;
	HeldPage last;
	HeldPage map;

	CopyMap(filter, map_block, copy);
	count = RelevelMapped(filter, copy, first, end, pages);
	if (count == 0)
		return;
	block = LengthenFile(filter, count);
	for (uint32 number = first; number < end; number++)
	{
		if (LoadU32(copy + MappedAt(number)) != 0)
			continue;
		StoreU32(copy + MappedAt(number), block++);
		last_number = number;
	}

	HoldGivenPage(filter, block - 1, &last);
	memcpy(fresh, last.bytes, BLCKSZ);
	layout.level = LevelOfPage(last_number, pages);
	InitPage(fresh, Kind::kMain, last.block, layout, last_number);
	HoldPageToChange(filter, map_block, Kind::kMap, &map);
	StartChange();
	ChangeToScratch(last, fresh);
	LogWhole(last);
	ChangeToScratch(map, copy);
	MakeChange(filter);
	ReleasePage(map);
	ReleasePage(last);
}

/* Takes care of what the map has of them already, and gives no other ones out. */
static void
LeaveOut(const LiveFilter &filter, uint32 first, uint32 end, uint32 pages)
{
	const BlockNumber map_block = ReadRoot(filter, first / kPagesAMap).map;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;

	if (map_block == 0)
		return;
	CopyMap(filter, map_block, copy);
	(void) RelevelMapped(filter, copy, first, end, pages);
}

/* Locks main page 0 if the filter has no other one, and no key. */
static bool
HoldOnlyPage(const LiveFilter &filter, HeldPage *page)
{
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, page);
	ReleasePage(*page);
	if (ReadRoot(filter, 0).pages > 1)
		return false;
	(void) HoldNumbered(filter, 0, BUFFER_LOCK_EXCLUSIVE, true, page);
	if (LevelOf(page->bytes) == 0)
	{
		SettlePage(filter, *page, false);
		if (IsEmptyPage(filter, page->bytes))
			return true;
	}
	ReleasePage(*page);
	return false;
}

/*
 * Makes an empty filter one with so many pages, which are given out at once, or (`late`) when they
 * get keys. Returns false if it is not empty.
 */
static bool
Presize(const LiveFilter &filter, uint32 pages, bool late)
{
	const uint8_t level = (uint8_t) LevelOfPage(0, pages);
	uint8_t number[4];
	HeldPage page;
	HeldPage root;

	if (!HoldOnlyPage(filter, &page))
		return false;
	ReleasePage(page);
	for (uint32 first = 0; first < pages; first += kPagesAMap)
	{
		CHECK_FOR_INTERRUPTS();
		(late ? LeaveOut : GiveOut)(filter, first, Min(pages, first + kPagesAMap), pages);
	}

	/* Another session may have added keys meanwhile. */
	if (!HoldOnlyPage(filter, &page))
		return false;
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	StoreU32(number, pages);
	StartChange();
	ChangeBytes(page, kLevelAt, &level, 1);
	ChangeBytes(root, kPagesAt, number, sizeof number);
	MakeChange(filter);
	ReleasePage(root);
	ReleasePage(page);
	ForgetMap(filter);
	return true;
}

/* Does the same. The caller must not hold a page. */
static bool
PresizeTo(const LiveFilter &filter, uint32 pages, bool late)
{
	bool made;

	LockPage(filter.rel, kRootBlock, ExclusiveLock);
	made = Presize(filter, pages, late);
	UnlockPage(filter.rel, kRootBlock, ExclusiveLock);
	return made;
}

void
PresizeLive(const LiveFilter &filter, uint64 keys)
{
	uint32 pages;

	if (!Grows(filter))
		return;
	pages = PagesFor(keys, filter.parameters.geometry.layout, filter.parameters.shape.fpr);
	if (pages > 1 && !PresizeTo(filter, pages, false))
		SplitFor(filter, keys);
}

void
PresizePages(const LiveFilter &filter, uint32 pages)
{
	Assert(Grows(filter) && pages <= kMostPages);
	if (pages > CountPages(filter) && !PresizeTo(filter, pages, true))
		SplitUpTo(filter, pages);
}
