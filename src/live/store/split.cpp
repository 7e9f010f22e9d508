/*
 * Splitting the main pages of filters that grow.
 *
 * A backend that settles a page to get room also counts the keys of the page. Keys are spread
 * evenly over the pages, so this count estimates the keys of the filter within a few per cent. If
 * the filter has too many keys for its pages, the backend splits one page after it has released all
 * page locks. It splits the next page in the order of linear hashing (core/linear_hash.hpp), which
 * is usually not the page that was settled.
 *
 * A split holds the server's lock of page kRootBlock. A backend does not wait for this lock: if it
 * is taken, the backend continues without a split. The split locks the old page in exclusive mode
 * and then does these steps:
 *   1. It settles the old page. This usually leaves no chain.
 *   2. If a chain is left, it divides the chain. Entries that belong to the new page move to pages
 *      at the head of the chain. The order in the end is: main page, pages with entries of the new
 *      page only, pages with entries of the old page only, and the fan, if there is one, with
 *      entries of the old page only.
 *   3. It makes the new page. One record contains the new page, the old page, the map page, and
 *      either the last page of the new page's chain or the root.
 *   4. It settles both pages if they have chains, since their lines have room now.
 * The filter is valid and usable after each record. In step 2 the whole chain is still a chain of
 * the old page. After step 3 the page count in the root can be too low by one; the next split sees
 * this in the level of the page. So no flag marks a split in progress, and recovery has nothing to
 * repair.
 */
#include <cmath>

#include "core/live_method.hpp"
#include "core/splitting.hpp"
#include "live/bulk.hpp"
#include "live/counters_page.hpp"
#include "live/store/store.hpp"

extern "C" {
#include "storage/lmgr.h"
}

using dedup::StoreU32;
using namespace dedup::live;

WantedSplit live_wanted_split = {InvalidOid, 0};

/* ---- whether a split is needed ---------------------------------------------------------- */

unsigned
CountKeys(const LiveFilter &filter, const HeldPage &main, unsigned enough)
{
	const LineLayout layout = LinesOf(filter, main.bytes);
	const uint32 now = ClockOf(main.bytes);
	unsigned count = 0;

	for (unsigned line = 0; line < kLines; line++)
		count += AliveInLine(LineAt(main.bytes, line), layout, now, now);
	VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		ForEachEntry(page.bytes, AreaOf(page.bytes), [&](unsigned, const Entry &entry) {
			count += !layout.timed || Alive(LoadTag(page.bytes, entry.tag).generation, now);
		});
		return count >= enough;
	});
	return Min(count, enough);
}

/* Returns whether a filter with this number of pages is too small for this number of keys. */
static bool
IsCrowded(const LiveFilter &filter, double keys, uint32 pages)
{
	return keys > (double) KeysAPage(filter.parameters.geometry.layout) * pages;
}

/* Returns whether a filter has the most pages that its false-positive rate allows. */
static bool
HasAllPages(const LiveFilter &filter, uint32 pages)
{
	return pages >= MostPages(filter.parameters.geometry.layout, filter.parameters.shape.fpr);
}

void
CountToSplit(const LiveFilter &filter, const HeldPage &main)
{
	double most;
	double keys;

	if (!Grows(filter))
		return;
	/* Stop counting at twice the number of keys that needs a split. */
	most = std::ldexp(2.0 * KeysAPage(filter.parameters.geometry.layout) * GuessPages(filter),
					  -(int) LevelOf(main.bytes));
	keys = std::ldexp(CountKeys(filter, main, (unsigned) Min(most + 1, 1e9)),
					  (int) LevelOf(main.bytes));
	if (IsCrowded(filter, keys, GuessPages(filter)))
		live_wanted_split = {RelationGetRelid(filter.rel), keys};
}

/* ---- dividing a chain --------------------------------------------------------------------- */

namespace
{

/* A page that is being split. */
struct Split
{
	const LiveFilter *filter;
	HeldPage main;
	unsigned level;
	BlockNumber upper_end; /* the last page at the chain's head with upper entries only, or 0 */
};

} /* namespace */

/*
 * Returns the numbers of entries in a page of the chain. For the fan both numbers are 0, and `fan`,
 * unless null, receives a copy of it.
 */
static Mixture
MixtureAt(const Split &split, BlockNumber block, BlockNumber *next, uint8_t *fan)
{
	HeldPage page;
	Mixture mixture = {0, 0};

	HoldInChain(*split.filter, split.main, block, BUFFER_LOCK_SHARE, &page);
	*next = NextOf(page.bytes);
	if (!IsFan(page.bytes))
		mixture = MixtureOf(page.bytes, split.level);
	else if (fan != NULL)
		memcpy(fan, page.bytes, BLCKSZ);
	ReleasePage(page);
	return mixture;
}

/*
 * Moves upper entries of a held page to the first page of the chain. Returns whether all of them
 * have moved.
 */
static bool
MoveToHead(const Split &split, const HeldPage &page)
{
	const LiveFilter &filter = *split.filter;
	PGAlignedBlock from_scratch, to_scratch;
	uint8_t *from = (uint8_t *) from_scratch.data;
	uint8_t *to = (uint8_t *) to_scratch.data;
	HeldPage head;
	bool all;

	HoldChained(filter, split.main, NextOf(split.main.bytes), &head);
	memcpy(from, page.bytes, BLCKSZ);
	memcpy(to, head.bytes, BLCKSZ);
	all = MoveUpper(from, to, split.level);
	if (memcmp(from, page.bytes, BLCKSZ) != 0)
	{
		StartChange();
		/* Replay on a standby must lock the main page too when its chain changes. */
		ChangeWith(split.main);
		ChangeToScratch(head, to);
		ChangeToScratch(page, from);
		MakeChange(filter);
	}
	ReleasePage(head);
	return all;
}

/* Adds a new page at the head of the chain. */
static void
AddHead(Split *split)
{
	const LiveFilter &filter = *split->filter;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	uint8_t link[kNextBytes];
	HeldPage head;

	HoldNewPage(filter, &head);
	memcpy(copy, head.bytes, BLCKSZ);
	InitOverflowPage(copy, head.block, filter.parameters.geometry.layout, split->main.bytes);
	SetNext(copy, NextOf(split->main.bytes));
	StoreU32(link, head.block);
	StartChange();
	ChangeBytes(split->main, kNextAt, link, sizeof link);
	ChangeToScratch(head, copy);
	LogWhole(head);
	MakeChange(filter);
	ReleasePage(head);
	if (split->upper_end == 0)
		split->upper_end = head.block;
}

/* Moves all upper entries of a page to pages at the head of the chain. */
static void
MoveOut(Split *split, BlockNumber block)
{
	for (bool all = false; !all;)
	{
		HeldPage page;

		if (split->upper_end == 0)
			AddHead(split);
		HoldChained(*split->filter, split->main, block, &page);
		all = MoveToHead(*split, page);
		ReleasePage(page);
		if (!all)
			AddHead(split);
	}
}

/*
 * Moves all upper entries of the leaves of a fan to pages at the head of the chain. Leaves that
 * become empty stay until SplitOne() settles the page again.
 */
static void
MoveOutOfLeaves(Split *split, const uint8_t *fan)
{
	for (unsigned slot = 0; slot < kFanSlots; slot += RunOfSlots(fan, slot).count)
	{
		BlockNumber next;

		for (BlockNumber block = LoadFanSlot(fan, slot); block != 0; block = next)
			if (MixtureAt(*split, block, &next, NULL).high > 0)
				MoveOut(split, block);
	}
}

/* Divides the chain: step 2 in the file header. */
static void
DivideChain(Split *split)
{
	PGAlignedBlock scratch;
	uint8_t *fan = (uint8_t *) scratch.data;
	BlockNumber block = NextOf(split->main.bytes);
	BlockNumber before = split->main.block;
	BlockNumber next;

	fan[kKindAt] = 0;
	/* Skip pages with upper entries only. An interrupted split may have left them. */
	for (; block != 0; before = split->upper_end = block, block = next)
		if (MixtureAt(*split, block, &next, fan).low > 0 || IsFan(fan))
			break;
	for (; block != 0; block = next)
	{
		const Mixture mixture = MixtureAt(*split, block, &next, fan);

		if (IsFan(fan))
		{
			MoveOutOfLeaves(split, fan);
			break;
		}
		if (mixture.high > 0)
		{
			MoveOut(split, block);
			/* If a page with low entries only came earlier, it stays `before`. */
			if (before == split->main.block)
				before = split->upper_end;
		}
		if (mixture.low == 0)
			UnchainPage(*split->filter, split->main, before, block);
		else
			before = block;
	}
}

/* ---- the new page ----------------------------------------------------------------------- */

/* Stores the number of pages in the root. */
static void
StorePages(const LiveFilter &filter, uint32 pages)
{
	HeldPage root;
	uint8_t bytes[4];

	StoreU32(bytes, pages);
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	StartChange();
	ChangeBytes(root, kPagesAt, bytes, sizeof bytes);
	MakeChange(filter);
	ReleasePage(root);
}

/* Folds the frozen entries of a main page's scratch copy into lines that have room now. */
static void
FoldFrozen(const LiveFilter &filter, uint8_t *main)
{
	Verdict verdicts[kMaxTags + 1];
	Settled settled = {};
	bool any = false;

	for (unsigned tag = 1; tag <= kMainArea.tags; tag++)
	{
		const bool frozen = LoadTag(main, tag).xid == kFrozen;

		verdicts[tag] = frozen ? Verdict::kCommitted : Verdict::kKeep;
		any = any || frozen;
	}
	if (any && LoaderOf(main) == kNoXid)
		Settle(main, main, filter.parameters.geometry, verdicts, true, &settled);
}

/* Locks the page that becomes the new main page. If the map has no block for it, takes any page. */
static void
HoldUpper(const LiveFilter &filter, BlockNumber mapped, HeldPage *upper)
{
	if (mapped == 0)
		HoldNewPage(filter, upper);
	else
		HoldGivenPage(filter, mapped, upper);
}

/* Makes the new page: step 3 in the file header. The chain must be divided. */
static void
MakeUpper(const Split &split, uint32 upper_number, BlockNumber map_block, HeldPage *upper)
{
	const LiveFilter &filter = *split.filter;
	PGAlignedBlock low_scratch, high_scratch;
	uint8_t *low = (uint8_t *) low_scratch.data;
	uint8_t *high = (uint8_t *) high_scratch.data;
	uint8_t block[4];
	uint8_t pages[4];
	HeldPage map;
	HeldPage last;

	HoldPageToChange(filter, map_block, Kind::kMap, &map);
	HoldUpper(filter, dedup::LoadU32(map.bytes + MappedAt(upper_number)), upper);
	if (split.upper_end != 0)
		HoldChained(filter, split.main, split.upper_end, &last);
	else
		HoldPageToChange(filter, kRootBlock, Kind::kRoot, &last);
	memcpy(low, split.main.bytes, BLCKSZ);
	memcpy(high, upper->bytes, BLCKSZ);
	SplitMainPage(low, filter.parameters.geometry.layout, upper->block, low, high);
	FoldFrozen(filter, low);
	FoldFrozen(filter, high);
	StoreU32(block, upper->block);
	StoreU32(pages, upper_number + 1);

	if (split.upper_end != 0)
	{
		SetNext(high, NextOf(low));
		SetNext(low, NextOf(last.bytes));
	}
	StartChange();
	ChangeToScratch(split.main, low);
	ChangeToScratch(*upper, high);
	LogWhole(*upper);
	ChangeBytes(map, MappedAt(upper_number), block, sizeof block);
	if (split.upper_end != 0)
	{
		const uint8_t none[kNextBytes] = {};

		ChangeBytes(last, kNextAt, none, sizeof none);
	}
	else
		ChangeBytes(last, kPagesAt, pages, sizeof pages);
	MakeChange(filter);
	ReleasePage(last);
	ReleasePage(map);
	if (split.upper_end != 0)
		StorePages(filter, upper_number + 1);
	NotePage(filter, upper_number, upper->block);
}

/*
 * Does step 3 without allocating the new page, if no key goes to the new page. The backend that
 * adds the first key to the new page allocates it (map.cpp). Returns false, and changes nothing, if
 * some key goes to the new page or if the new page is already allocated.
 */
static bool
LeaveUpperOut(const Split &split, uint32 upper_number)
{
	const LiveFilter &filter = *split.filter;
	PGAlignedBlock low_scratch, high_scratch;
	uint8_t *low = (uint8_t *) low_scratch.data;
	uint8_t *high = (uint8_t *) high_scratch.data;
	uint8_t pages[4];
	HeldPage root;

	if (split.upper_end != 0 || MappedBlock(filter, upper_number) != 0)
		return false;
	memcpy(low, split.main.bytes, BLCKSZ);
	memcpy(high, split.main.bytes, BLCKSZ);
	SplitMainPage(low, filter.parameters.geometry.layout, 0, low, high);
	if (!LinesEmpty(filter, high) || CountEntries(high, kMainArea) > 0)
		return false;
	FoldFrozen(filter, low);
	StoreU32(pages, upper_number + 1);
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	StartChange();
	ChangeToScratch(split.main, low);
	ChangeBytes(root, kPagesAt, pages, sizeof pages);
	MakeChange(filter);
	ReleasePage(root);
	return true;
}

/*
 * Splits the next page of a filter with this number of pages. If `late`, a new page without keys is
 * not allocated.
 */
static void
SplitOne(const LiveFilter &filter, uint32 pages, bool late)
{
	const uint32 number = NextToSplit(pages);
	const unsigned level = LevelOfPages(pages);
	const uint32 upper_number = UpperOf(number, level);
	Split split = {&filter, {}, level, 0};
	HeldPage upper;
	BlockNumber map;

	Assert(upper_number == pages);
	map = MapPageFor(filter, upper_number);
	(void) HoldNumbered(filter, number, BUFFER_LOCK_EXCLUSIVE, true, &split.main);
	if (LevelOf(split.main.bytes) > level)
	{
		/* A crash has interrupted the last split before the root was written. */
		StorePages(filter, pages + 1);
		ReleasePage(split.main);
		return;
	}
	SettlePage(filter, split.main, true);
	DivideChain(&split);
	if (late && LeaveUpperOut(split, upper_number))
	{
		ReleasePage(split.main);
		return;
	}
	MakeUpper(split, upper_number, map, &upper);
	if (NextOf(split.main.bytes) != 0)
		SettlePage(filter, split.main, true);
	if (NextOf(upper.bytes) != 0)
		SettlePage(filter, upper, true);
	SpreadLongChain(filter, split.main);
	SpreadLongChain(filter, upper);
	ReleasePage(upper);
	ReleasePage(split.main);
}

/* Splits the next page if the filter still has too few pages for this number of keys. */
static void
SplitNext(const LiveFilter &filter, double keys)
{
	const uint32 pages = ReadRoot(filter, 0).pages;

	if (IsCrowded(filter, keys, pages) && !HasAllPages(filter, pages))
		SplitOne(filter, pages, false);
}

/*
 * If the next pages to split are not allocated, and neither are their new pages, only increases the
 * page count in the root. Returns whether there were such pages.
 */
static bool
SkipEmpty(const LiveFilter &filter, uint32 have, uint32 pages)
{
	uint32 now = have;

	while (now < pages && MappedBlock(filter, NextToSplit(now)) == 0 &&
		   MappedBlock(filter, now) == 0)
	{
		CHECK_FOR_INTERRUPTS();
		now++;
	}
	if (now > have)
		StorePages(filter, now);
	return now > have;
}

void
SplitUpTo(const LiveFilter &filter, uint32 pages)
{
	HeldPage root;

	Assert(pages <= kMostPages);
	/* Extend the file over the fixed pages, so that no new page gets one of their blocks. */
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	ReleasePage(root);
	for (bool more = true; more;)
	{
		CHECK_FOR_INTERRUPTS();
		LockPage(filter.rel, kRootBlock, ExclusiveLock);

		const uint32 have = ReadRoot(filter, 0).pages;

		more = have < pages;
		if (more && !SkipEmpty(filter, have, pages))
			SplitOne(filter, have, true);
		UnlockPage(filter.rel, kRootBlock, ExclusiveLock);
	}
}

/* Estimates the number of keys of the filter from the keys of page 0. */
static double
GuessKeys(const LiveFilter &filter)
{
	HeldPage page;
	double keys = 0;

	if (!HoldNumbered(filter, 0, BUFFER_LOCK_EXCLUSIVE, false, &page))
		return 0;
	SettlePage(filter, page, false);
	keys = std::ldexp(CountKeys(filter, page), (int) LevelOf(page.bytes));
	ReleasePage(page);
	return keys;
}

void
SplitFor(const LiveFilter &filter, uint64 keys)
{
	SplitForAll(filter, GuessKeys(filter) + (double) keys);
}

void
SplitForAll(const LiveFilter &filter, double wanted)
{
	for (uint32 pages = CountPages(filter);
		 IsCrowded(filter, wanted, pages) && !HasAllPages(filter, pages);
		 pages = CountPages(filter))
	{
		CHECK_FOR_INTERRUPTS();
		LockPage(filter.rel, kRootBlock, ExclusiveLock);
		SplitNext(filter, wanted);
		UnlockPage(filter.rel, kRootBlock, ExclusiveLock);
	}
}

/* Warns that the filter cannot grow any more. Does so once in the life of the filter. */
static void
WarnOfPages(const LiveFilter &filter)
{
	/* The file that this session has checked last. One check for each file is enough. */
	static Oid looked = InvalidOid;
	Buffer buffer;

	if (looked == filter.rel->rd_rel->relfilenode)
		return;
	looked = filter.rel->rd_rel->relfilenode;
	buffer = PinCounters(filter);
	if (MayWarn(buffer))
		ereport(
			WARNING,
			(errmsg("live filter \"%s\" holds more keys than it can grow for", LiveName(filter)),
			 errdetail("It keeps its rate of %g, but its %u pages do not become more: a new key "
					   "takes more bytes, and a look-up reads more pages.",
					   filter.parameters.prototype_fpr, GuessPages(filter)),
			 errhint("Make one with a higher rate, or one for each part of the keys. This is said "
					 "once.")));
	ReleaseBuffer(buffer);
}

void
SplitWanted(const LiveFilter &filter)
{
	const WantedSplit wanted = live_wanted_split;

	/* No buffer may be locked. A buffer lock would hold off interrupts. */
	Assert(InterruptHoldoffCount == 0);
	live_wanted_split.relid = InvalidOid;
	if (wanted.relid == RelationGetRelid(filter.rel) && HasAllPages(filter, GuessPages(filter)))
	{
		WarnOfPages(filter);
		return;
	}
	if (wanted.relid != RelationGetRelid(filter.rel) ||
		!ConditionalLockPage(filter.rel, kRootBlock, ExclusiveLock))
		return;
	SplitNext(filter, wanted.keys);
	UnlockPage(filter.rel, kRootBlock, ExclusiveLock);
}
