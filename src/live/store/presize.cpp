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

/* Allocates the main pages from `first` to before `end` of `pages`, which share a map page. */
static void
GiveOut(const LiveFilter &filter, uint32 first, uint32 end, uint32 pages)
{
	LineLayout layout = filter.parameters.geometry.layout;
	const BlockNumber map_block = MapPageFor(filter, first);
	PGAlignedBlock map_scratch, last_scratch;
	uint8_t *copy = (uint8_t *) map_scratch.data;
	uint8_t *fresh = (uint8_t *) last_scratch.data;
	uint32 count = 0;
	uint32 last_number = 0;
	BlockNumber block;
	HeldPage last;
	HeldPage map;

	/* The map is changed only under the server's lock, which this backend holds. */
	HoldPageToChange(filter, map_block, Kind::kMap, &map);
	memcpy(copy, map.bytes, BLCKSZ);
	ReleasePage(map);
	for (uint32 number = first; number < end; number++)
	{
		const BlockNumber mapped = LoadU32(copy + MappedAt(number));

		count += mapped == 0;
		if (mapped != 0 && number != 0)
			Relevel(filter, number, mapped, pages);
	}
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

/* Locks main page 0 if the filter has no other main page, and no key. */
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

/* Makes an empty filter a filter of `pages` pages. Returns false if it is not empty. */
static bool
Presize(const LiveFilter &filter, uint32 pages)
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
		GiveOut(filter, first, Min(pages, first + kPagesAMap), pages);
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
PresizeTo(const LiveFilter &filter, uint32 pages)
{
	bool made;

	LockPage(filter.rel, kRootBlock, ExclusiveLock);
	made = Presize(filter, pages);
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
	if (pages > 1 && !PresizeTo(filter, pages))
		SplitFor(filter, keys);
}

void
PresizePages(const LiveFilter &filter, uint32 pages)
{
	Assert(Grows(filter) && pages <= kMostPages);
	if (pages > CountPages(filter) && !PresizeTo(filter, pages))
		SplitUpTo(filter, pages);
}
