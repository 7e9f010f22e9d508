/*
 * Splitting the main pages of filters that grow.
 *
 * Whoever settles a page because it needs room counts the page's keys. If they say that the
 * filter has more keys than its pages are for, one page is split, when nothing is locked any
 * more: not that page, but the next in the order of linear hashing (core/linear_hash.hpp). Keys
 * are spread evenly, so any page tells how many keys there are, within a few per cent.
 *
 * A split holds the server's lock of page kRootBlock, for which nobody waits: who does not get it
 * goes on without. It locks the page exclusively, and then
 *   1. settles it, which most often leaves no chain;
 *   2. divides a chain that is left: entries of the new page move to pages at its head, until it
 *      is main page, pages with the new page's entries only, pages with its own entries only;
 *   3. makes the new page in one record with the page, the map page and either the last page of
 *      the new one's chain or the root;
 *   4. settles both, if there are chains, since their lines have room now.
 * All states between two records are those of a filter that anybody can go on with: in 2 the chain
 * is a chain of the page; after 3 only the root can be behind by one, which the next split finds
 * by the page's level. So nothing says that a split is under way, and there is nothing to repair
 * at the end of recovery.
 */
#include <cmath>

#include "core/live_method.hpp"
#include "core/splitting.hpp"
#include "live/counters_page.hpp"
#include "live/store/store.hpp"

extern "C" {
#include "storage/lmgr.h"
}

using dedup::StoreU32;
using namespace dedup::live;

WantedSplit live_wanted_split = {InvalidOid, 0};

/* ---- wanting one ------------------------------------------------------------------------ */

unsigned
CountKeys(const LiveFilter &filter, const HeldPage &main)
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
		return false;
	});
	return count;
}

/* Whether so many keys are too many for so many pages. */
static bool
IsCrowded(const LiveFilter &filter, double keys, uint32 pages)
{
	return keys > (double) KeysAPage(filter.parameters.geometry.layout) * pages;
}

/* Whether a filter has as many pages as it can have at its rate. */
static bool
HasAllPages(const LiveFilter &filter, uint32 pages)
{
	return pages >= MostPages(filter.parameters.geometry.layout, filter.parameters.shape.fpr);
}

void
CountToSplit(const LiveFilter &filter, const HeldPage &main)
{
	double keys;

	if (!Grows(filter))
		return;
	keys = std::ldexp(CountKeys(filter, main), (int) LevelOf(main.bytes));
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

/* Whether an overflow page has upper entries only, or none. */
static Mixture
MixtureAt(const Split &split, BlockNumber block, BlockNumber *next)
{
	HeldPage page;
	Mixture mixture;

	HoldChained(*split.filter, split.main, block, &page);
	mixture = MixtureOf(page.bytes, split.level);
	*next = NextOf(page.bytes);
	ReleasePage(page);
	return mixture;
}

/* Moves upper entries of a held page to the first page of the chain. Returns whether to all. */
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
		/* A chain changes under the main page's lock, on a standby too. */
		ChangeWith(split.main);
		ChangeToScratch(head, to);
		ChangeToScratch(page, from);
		MakeChange(filter);
	}
	ReleasePage(head);
	return all;
}

/* Puts a new page at the head of the chain. */
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

/* Takes an empty page out of the chain. `before` is the page before it, or the main page. */
static void
Unchain(const Split &split, BlockNumber before, BlockNumber block)
{
	const LiveFilter &filter = *split.filter;
	const bool is_first = before == split.main.block;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	HeldPage previous = split.main;
	HeldPage page;

	if (!is_first)
		HoldChained(filter, split.main, before, &previous);
	HoldChained(filter, split.main, block, &page);
	memcpy(copy, page.bytes, BLCKSZ);
	FreePage(copy);
	StartChange();
	ChangeWith(split.main);
	ChangeBytes(previous, kNextAt, page.bytes + kNextAt, kNextBytes);
	ChangeToScratch(page, copy);
	MakeChange(filter);
	ReleasePage(page);
	if (!is_first)
		ReleasePage(previous);
	RecordFreeOverflowPage(filter, block);
}

/* Divides the chain: see the top. */
static void
DivideChain(Split *split)
{
	BlockNumber block = NextOf(split->main.bytes);
	BlockNumber before = split->main.block;
	BlockNumber next;

	/* Pages that need no change: a split that was broken off may have left them. */
	for (; block != 0; before = split->upper_end = block, block = next)
		if (MixtureAt(*split, block, &next).low > 0)
			break;
	for (; block != 0; block = next)
	{
		const Mixture mixture = MixtureAt(*split, block, &next);
		HeldPage page;
		bool all = false;

		while (!all && mixture.high > 0)
		{
			if (split->upper_end == 0)
			{
				AddHead(split);
				/* Pages with low entries only may have come before: one of them stays `before`. */
				if (before == split->main.block)
					before = split->upper_end;
			}
			HoldChained(*split->filter, split->main, block, &page);
			all = MoveToHead(*split, page);
			ReleasePage(page);
			if (!all)
				AddHead(split);
		}
		if (mixture.low == 0)
			Unchain(*split, before, block);
		else
			before = block;
	}
}

/* ---- the new page ----------------------------------------------------------------------- */

/* Writes the number of pages into the root. */
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

/* Folds the frozen entries of a main page, in a scratch copy, into lines that have room now. */
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

/* Locks the page that becomes the new main page: one that the map has already, or any. */
static void
HoldUpper(const LiveFilter &filter, BlockNumber mapped, HeldPage *upper)
{
	if (mapped == 0)
		HoldNewPage(filter, upper);
	else
		HoldGivenPage(filter, mapped, upper);
}

/* Step 3. The chain is divided. */
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

/* Splits the next page of a filter that has so many. */
static void
SplitOne(const LiveFilter &filter, uint32 pages)
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
		/* A crash came before the root was written. */
		StorePages(filter, pages + 1);
		ReleasePage(split.main);
		return;
	}
	SettlePage(filter, split.main, true);
	DivideChain(&split);
	MakeUpper(split, upper_number, map, &upper);
	if (NextOf(split.main.bytes) != 0)
		SettlePage(filter, split.main, true);
	if (NextOf(upper.bytes) != 0)
		SettlePage(filter, upper, true);
	ReleasePage(upper);
	ReleasePage(split.main);
}

/* The same, if there are still too few. */
static void
SplitNext(const LiveFilter &filter, double keys)
{
	const uint32 pages = ReadRoot(filter, 0).pages;

	if (IsCrowded(filter, keys, pages) && !HasAllPages(filter, pages))
		SplitOne(filter, pages);
}

void
SplitUpTo(const LiveFilter &filter, uint32 pages)
{
	HeldPage root;

	Assert(pages <= kMostPages);
	/* So that no new page gets the place of one of the fixed ones. */
	HoldPageToChange(filter, kRootBlock, Kind::kRoot, &root);
	ReleasePage(root);
	for (bool more = true; more;)
	{
		CHECK_FOR_INTERRUPTS();
		LockPage(filter.rel, kRootBlock, ExclusiveLock);

		const uint32 have = ReadRoot(filter, 0).pages;

		more = have < pages;
		if (more)
			SplitOne(filter, have);
		UnlockPage(filter.rel, kRootBlock, ExclusiveLock);
	}
}

/* About as many keys as the filter has, by those of one page. */
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

/* Warns once in the life of a filter that cannot grow any more. */
static void
WarnOfPages(const LiveFilter &filter)
{
	/* The file for which this session has looked last: it is enough to do so once. */
	static Oid looked = InvalidOid;
	Buffer buffer;

	if (looked == filter.rel->rd_rel->relfilenode)
		return;
	looked = filter.rel->rd_rel->relfilenode;
	buffer = PinCounters(filter);
	if (MayWarn(buffer))
		ereport(WARNING, (errmsg("live filter \"%s\" holds more keys than it can grow for",
								 LiveName(filter)),
						  errdetail("It keeps its rate of %g, but cannot have more than %u pages. "
									"So it must search several pages for a key.",
									filter.parameters.prototype_fpr, GuessPages(filter)),
						  errhint("Make one with a higher rate, or one for each part of the keys. "
								  "This warning is given once.")));
	ReleaseBuffer(buffer);
}

void
SplitWanted(const LiveFilter &filter)
{
	const WantedSplit wanted = live_wanted_split;

	/* No buffer is locked: a lock would hold off interrupts. */
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
