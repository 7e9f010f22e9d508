/* dedup_check: checks live filters. */
#include "live/bulk.hpp"
#include "live/call.hpp"
#include "live/store/store.hpp"
#include "pg/sets.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "funcapi.h"
#include "storage/bufpage.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"
}

using dedup::LoadU32;
using namespace dedup::live;

namespace
{

/* A check in progress. */
struct Check
{
	Tuplestorestate *rows; /* the problems that were found */
	TupleDesc desc;
	LiveFilter filter;
	BlockNumber blocks; /* number of blocks of the file */
	bool *reached;      /* pages that are in a chain or, if the filter grows, in its map */
	bool *unreadable;
};

} /* namespace */

static void
ReportProblem(const Check *check, BlockNumber block, const char *problem)
{
	Datum values[2] = {Int64GetDatum((int64) block), CStringGetTextDatum(problem)};
	bool isnull[2] = {};

	tuplestore_putvalues(check->rows, check->desc, values, isnull);
}

/* Returns the error that the server raises when it reads a page, or null. */
static const char *
ReadingFlaw(Relation rel, BlockNumber block)
{
	return ErrorOf([&] { ReleaseBuffer(ReadBuffer(rel, block)); });
}

/* Returns whether images of the page in the WAL would leave out bytes that are in use. */
static bool
HoleHidesKeys(const LiveFilter &filter, const uint8_t *page, Kind kind)
{
	const LocationIndex lower = ((const PageHeaderData *) page)->pd_lower;

	return lower != BLCKSZ &&
		   (kind != Kind::kMain || lower != kLinesAt || !LinesEmpty(filter, page));
}

/* Checks everything in a page. Returns what is wrong, or null. */
static const char *
FlawOf(const LiveFilter &filter, uint8_t *page, Kind kind, BlockNumber block)
{
	const char *flaw = HeaderFlaw(page, kind, block, filter.parameters.geometry.layout);

	if (flaw == NULL)
		flaw = LivePageFlaw(filter, page, block);
	if (flaw == NULL && HoleHidesKeys(filter, page, kind))
		flaw = "Its header says of bytes that are in use that they are not.";
	if (flaw == NULL && kind == Kind::kCounters)
		flaw = LiveCountersFlaw(page);
	if (flaw == NULL && kind == Kind::kCounters)
		flaw = LiveCoverFlaw(page);
	if (flaw != NULL || (kind != Kind::kMain && kind != Kind::kOverflow && kind != Kind::kFan))
		return flaw;
	if (LoaderOf(page) != kNoXid && !IsPossibleXid(LoaderOf(page)))
		flaw = "It names a transaction that cannot exist.";
	for (unsigned tag = 1; tag <= AreaOf(page).tags; tag++)
	{
		const Tag value = LoadTag(page, tag);

		if ((value.xid != kNoXid && !IsPossibleXid(value.xid)) ||
			(value.base != 0 && !IsPossibleXid(BaseOf(value))))
			flaw = "It names a transaction that cannot exist.";
	}
	return flaw != NULL ? flaw : PageFlaw(page, kind, block, filter.parameters.geometry);
}

/*
 * Returns whether a block that a page names is in the part of the file that is checked. Reports a
 * problem if it is not in the file at all; the file may have grown since the check began.
 */
static bool
IsThere(Check *check, BlockNumber named_in, BlockNumber at, const char *problem)
{
	const LiveFilter &filter = check->filter;

	if (at > LastFixedBlock(filter) && at < check->blocks)
		return true;
	check->blocks = Min(check->blocks, RelationGetNumberOfBlocks(filter.rel));
	if (at <= LastFixedBlock(filter) || at >= RelationGetNumberOfBlocks(filter.rel))
		ReportProblem(check, named_in, problem);
	return false;
}

/*
 * What is wrong with an overflow page, or a fan, in the chain of this main page; null if nothing.
 * `slots`: those of a fan that name it; NULL: none does.
 */
static const char *
ChainFlaw(const uint8_t *page, const uint8_t *main, const SlotRange *slots)
{
	const char *flaw = NULL;

	if (!IsChainedTo(page, main))
		return "It belongs to another page's chain.";
	if (IsFan(page))
		return NULL;
	if (slots == NULL ? IsLeaf(page)
					  : !IsLeaf(page) || SlotsOfLeaf(page).first != slots->first ||
							SlotsOfLeaf(page).count != slots->count)
		return "It is not the part of the fan that it is named as.";
	ForEachEntry(page, kOverflowArea, [&](unsigned, const Entry &entry) {
		if (IsOfGrowing(main) && !HasBits(NumberOf(main), LevelOf(main), PageBits(entry.rest)))
			flaw = "An entry belongs to another page.";
	});
	return flaw;
}

/*
 * Checks the page at which the chain of a main page goes on, or a leaf of its fan goes on, which
 * has some slots. Returns the next one, or 0 if the chain ends, or is broken. Copies a fan to
 * `fan`.
 */
static BlockNumber
CheckChainPage(Check *check, const uint8_t *main, BlockNumber at, const SlotRange *slots,
			   uint8_t *fan)
{
	const LiveFilter &filter = check->filter;
	BlockNumber next = 0;
	const char *flaw;
	Buffer buffer;
	uint8_t *bytes;

	if (!IsThere(check, BlockOf(main), at, "Its chain of overflow pages leads out of the file."))
		return 0;
	if (check->reached[at])
	{
		ReportProblem(check, at, "It is in more than one chain.");
		return 0;
	}
	check->reached[at] = true;
	if (check->unreadable[at])
	{
		ReportProblem(check, at, "The server refuses to read it.");
		return 0;
	}
	buffer = ReadBuffer(filter.rel, at);
	bytes = (uint8_t *) BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	flaw = PageIsNew((Page) bytes)
			   ? "It is empty, but in a chain."
			   : FlawOf(filter, bytes, slots == NULL && IsFan(bytes) ? Kind::kFan : Kind::kOverflow,
						at);
	if (flaw == NULL)
		flaw = ChainFlaw(bytes, main, slots);
	if (flaw == NULL)
		next = NextOf(bytes);
	if (flaw == NULL && IsFan(bytes))
		memcpy(fan, bytes, BLCKSZ);
	UnlockReleaseBuffer(buffer);
	if (flaw != NULL)
		ReportProblem(check, at, flaw);
	return next;
}

/* Checks the chain of a main page, which is locked. */
static void
CheckChain(Check *check, const uint8_t *main)
{
	PGAlignedBlock scratch;
	uint8_t *fan = (uint8_t *) scratch.data;
	BlockNumber next = NextOf(main);

	memset(fan, 0, BLCKSZ);
	while (next != 0)
		next = CheckChainPage(check, main, next, NULL, fan);
	for (unsigned slot = 0; slot < kFanSlots && IsFan(fan);)
	{
		const SlotRange slots = RunOfSlots(fan, slot);

		next = LoadFanSlot(fan, slot);
		while (next != 0)
			next = CheckChainPage(check, main, next, &slots, NULL);
		slot += slots.count;
	}
}

/*
 * Checks a main page and its chain, or a page of another kind. Copies it to `copy`, unless that is
 * null. Returns false if the page was never written, or is damaged.
 */
static bool
CheckPage(Check *check, BlockNumber block, Kind kind, uint8_t *copy)
{
	const LiveFilter &filter = check->filter;
	const char *flaw = ReadingFlaw(filter.rel, block);
	bool written;
	Buffer buffer;
	uint8_t *page;

	if (flaw != NULL)
	{
		ReportProblem(check, block, flaw);
		return false;
	}
	buffer = ReadBuffer(filter.rel, block);
	page = (uint8_t *) BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	written = !PageIsNew((Page) page);
	if (written)
	{
		flaw = FlawOf(filter, page, kind, block);
		if (copy != NULL)
			memcpy(copy, page, BLCKSZ);
	}
	if (flaw != NULL)
		ReportProblem(check, block, flaw);
	/* The main page's lock holds the chain as it is. */
	if (written && flaw == NULL && kind == Kind::kMain)
		CheckChain(check, page);
	UnlockReleaseBuffer(buffer);
	return written && flaw == NULL;
}

/* ---- pages that no other page names --------------------------------------------------- */

/* Returns whether the map names a main page, or a map page, at a block. */
static bool
IsMapped(const LiveFilter &filter, Kind kind, uint32 number, BlockNumber block)
{
	const uint32 which = kind == Kind::kMap ? number : number / kPagesAMap;

	if (which >= kMostMaps)
		return false;
	return (kind == Kind::kMap ? ReadRoot(filter, which).map : MappedBlock(filter, number)) ==
		   block;
}

/* Returns whether a page is in the chain of a main page, which is held. Releases the main page. */
static bool
IsInChainOf(const LiveFilter &filter, const HeldPage &main, BlockNumber block)
{
	bool found = false;

	VisitChain(filter, main, BUFFER_LOCK_SHARE,
			   [&](const HeldPage &page) { return found = page.block == block; });
	ReleasePage(main);
	return found;
}

/* Returns whether an overflow page, or a fan, with this owner and level is in a chain. */
static bool
IsInChain(const LiveFilter &filter, uint32 owner, unsigned level, BlockNumber block)
{
	HeldPage main;

	if (!Grows(filter))
		return owner < CountersBlock(filter) &&
			   HoldPage(filter, owner, Kind::kMain, BUFFER_LOCK_SHARE, &main) &&
			   IsInChainOf(filter, main, block);

	const uint32 pages = CountPages(filter);

	for (uint64 number = owner; number < pages; number += (uint64) 1 << level)
	{
		CHECK_FOR_INTERRUPTS();
		if (HoldNumbered(filter, (uint32) number, BUFFER_LOCK_SHARE, false, &main) &&
			IsInChainOf(filter, main, block))
			return true;
	}
	return false;
}

/*
 * Returns what is wrong with a page that was not reached, or null. The page may be newer than the
 * check.
 */
static const char *
LooseFlaw(const LiveFilter &filter, BlockNumber block)
{
	Buffer buffer = ReadBuffer(filter.rel, block);
	uint8_t *page = (uint8_t *) BufferGetPage(buffer);
	const char *flaw = NULL;
	Kind kind = Kind::kFree;
	uint32 number = 0;
	unsigned level = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew((Page) page))
	{
		kind = KindOf(page);
		if (kind != Kind::kOverflow && kind != Kind::kFan &&
			(!Grows(filter) || (kind != Kind::kMain && kind != Kind::kMap)))
			kind = Kind::kFree;
		flaw = HeaderFlaw(page, kind, block, filter.parameters.geometry.layout);
		if (flaw == NULL)
			flaw = LivePageFlaw(filter, page, block);
		number = kind == Kind::kOverflow || kind == Kind::kFan ? OwnerOf(page)
															   : LoadU32(page + kNumberAt);
		level = LevelOf(page);
	}
	UnlockReleaseBuffer(buffer);
	if (flaw != NULL || kind == Kind::kFree)
		return flaw;
	if (kind == Kind::kOverflow || kind == Kind::kFan)
		return IsInChain(filter, number, level, block) ? NULL : "It is in no chain.";
	return IsMapped(filter, kind, number, block) ? NULL : "The map does not name it.";
}

/* Checks the pages that no other page names: they are free, or were never written. */
static void
CheckLoose(Check *check)
{
	const LiveFilter &filter = check->filter;

	for (BlockNumber block = LastFixedBlock(filter) + 1; block < check->blocks; block++)
	{
		const char *flaw = NULL;
		const char *problem;

		CHECK_FOR_INTERRUPTS();
		if (check->reached[block])
			continue;
		/* Errors of other pages were reported with them. */
		problem = ErrorOf([&] { flaw = LooseFlaw(filter, block); });
		if (check->unreadable[block])
			flaw = problem;
		/* Meanwhile the page may have become free, or have been used. */
		if (flaw != NULL && ErrorOf([&] { problem = LooseFlaw(filter, block); }) == NULL &&
			problem == NULL)
			flaw = NULL;
		if (flaw != NULL)
			ReportProblem(check, block, flaw);
	}
}

/* ---- filters that grow ------------------------------------------------------------- */

/* Checks a page that the map, or the root, names at a block. */
static bool
CheckNamed(Check *check, BlockNumber named_in, BlockNumber block, Kind kind, uint32 number,
		   uint8_t *copy)
{
	if (block == kFirstMainBlock && kind == Kind::kMain && number == 0)
		return block < check->blocks && CheckPage(check, block, kind, copy);
	if (!IsThere(check, named_in, block, "It names a page that is not in the file."))
		return false;
	if (check->reached[block])
	{
		ReportProblem(check, block, "It is in more than one place of the map.");
		return false;
	}
	check->reached[block] = true;
	if (!CheckPage(check, block, kind, copy))
		return false;
	if (LoadU32(copy + kNumberAt) == number)
		return true;
	ReportProblem(check, block, "It is not the page that the map names.");
	return false;
}

/* Checks the main pages that a map page names. `map` is a copy of that page. */
static void
CheckMapped(Check *check, const uint8_t *map, uint32 first, uint32 pages)
{
	PGAlignedBlock main;
	uint8_t *copy = (uint8_t *) main.data;

	for (uint32 number = first; number < first + kPagesAMap && number < kMostPages; number++)
	{
		const BlockNumber block = LoadU32(map + MappedAt(number));
		unsigned level;
		uint32 now;

		CHECK_FOR_INTERRUPTS();
		/*
		 * A page without keys need not have a block, and blocks that are given out beforehand may
		 * be behind the last page.
		 */
		if (block == 0 || !CheckNamed(check, BlockOf(map), block, Kind::kMain, number, copy))
			continue;
		level = LevelOf(copy);
		/* The root can be behind by one page. Both can have grown since it was read. */
		now = Min(CountPages(check->filter) + 1, kMostPages);
		if ((number < pages && level < LevelOfPage(number, pages)) ||
			(number < now && level > LevelOfPage(number, now)))
			ReportProblem(check, block, "Its level is not that of its number.");
	}
}

/* Checks a filter that grows, except for its page of counters. */
static void
CheckGrown(Check *check)
{
	PGAlignedBlock root_copy, map_copy;
	uint8_t *root = (uint8_t *) root_copy.data;
	uint8_t *map = (uint8_t *) map_copy.data;
	uint32 pages;

	memset(root, 0, BLCKSZ);
	if (check->blocks <= kRootBlock || !CheckPage(check, kRootBlock, Kind::kRoot, root))
	{
		if (!PageIsNew((Page) root))
			return; /* the root is damaged, so the places of the pages are not known */
	}
	pages = Max(PagesInRoot(root), 1u);
	if (pages > kMostPages)
	{
		ReportProblem(check, kRootBlock, "It counts more pages than a filter can have.");
		return;
	}
	for (uint32 which = 0; which < kMostMaps; which++)
	{
		const uint32 first = which * kPagesAMap;
		const BlockNumber block = LoadU32(root + MapAt(which));

		if (block != 0 && CheckNamed(check, kRootBlock, block, Kind::kMap, which, map))
			CheckMapped(check, map, first, pages);
		else if (block == 0 && which == 0)
			(void) CheckNamed(check, kRootBlock, kFirstMainBlock, Kind::kMain, 0, map);
	}
	CheckLoose(check);
}

/*
 * dedup_check(name) returns setof record (block bigint, problem text)
 *
 * Checks every byte of every page and reports the problems. Returns no rows if there are none.
 */
DEDUP_FUNCTION(dedup_live_check)
{
	ReturnSetInfo *result = RequireSet(fcinfo, SFRM_Materialize);
	Check check = {};
	BlockNumber end;

	if (get_call_result_type(fcinfo, NULL, &check.desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check.desc = BlessTupleDesc(check.desc);
	check.rows = ReturnRows(result, check.desc);
	if (!OpenNamed(fcinfo, "dedup_check()", &check.filter))
		return (Datum) 0;
	check.blocks = RelationGetNumberOfBlocks(check.filter.rel);
	check.reached = (bool *) palloc_extended(check.blocks + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	check.unreadable =
		(bool *) palloc_extended(check.blocks + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	end = LastFixedBlock(check.filter) + 1;
	/*
	 * This is done beforehand, because catching an error would release the lock of a chain's main
	 * page.
	 */
	for (BlockNumber block = end; block < check.blocks; block++)
		check.unreadable[block] = ReadingFlaw(check.filter.rel, block) != NULL;
	for (BlockNumber block = 0; block < Min(check.blocks, end); block++)
	{
		CHECK_FOR_INTERRUPTS();
		if (block == CountersBlock(check.filter))
			(void) CheckPage(&check, block, Kind::kCounters, NULL);
		else if (!Grows(check.filter))
			(void) CheckPage(&check, block, Kind::kMain, NULL);
	}
	if (Grows(check.filter))
		CheckGrown(&check);
	else
		CheckLoose(&check);
	CloseLive(check.filter);
	return (Datum) 0;
}
