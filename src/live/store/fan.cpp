/*
 * The fan of a long chain. A fan is a page that maps 10 bits of a key to an overflow page, which is
 * called a leaf. So a search reads the pages of one leaf, however many leaves there are.
 *
 * The functions here require an exclusive lock on the main page. Each WAL record leaves a valid
 * chain with the same entries, so searches, recovery and readers on a standby work after each of
 * them. docs/architecture.md, "How a long chain is divided", lists the records. A record names its
 * pages in this order: the main page, the previous page or the fan, the changed page, the new page.
 */
#include "core/fanning.hpp"
#include "live/store/store.hpp"

using dedup::StoreU32;
using namespace dedup::live;

/* Raises XX001 if a held overflow page is damaged, so that its entries cannot be moved. */
static void
RequireSound(const LiveFilter &filter, const HeldPage &page)
{
	const char *flaw =
		PageFlaw(page.bytes, Kind::kOverflow, page.block, filter.parameters.geometry);

	if (flaw != NULL)
		ReportBadPage(filter.rel, page.block, flaw);
}

BlockNumber
LeafOf(const LiveFilter &filter, const HeldPage &main, BlockNumber fan, uint64 rest)
{
	HeldPage held;
	BlockNumber leaf;

	HoldFan(filter, main, fan, BUFFER_LOCK_SHARE, &held);
	leaf = LoadFanSlot(held.bytes, FanSlotOf(rest));
	ReleasePage(held);
	return leaf;
}

/* ---- leaves ------------------------------------------------------------------------------- */

/*
 * Adds an empty leaf to a held fan, for the given slots. The new leaf points to the page `next`,
 * which may be 0. `fan_copy` is a copy of the fan.
 */
static void
AddLeaf(const LiveFilter &filter, const HeldPage &main, const HeldPage &fan, uint8_t *fan_copy,
		const SlotRange &slots, BlockNumber next)
{
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	HeldPage fresh;

	HoldNewPage(filter, &fresh);
	memcpy(copy, fresh.bytes, BLCKSZ);
	InitOverflowPage(copy, fresh.block, filter.parameters.geometry.layout, main.bytes);
	SetSlotsOfLeaf(copy, slots);
	SetNext(copy, next);
	StoreFanSlots(fan_copy, slots, fresh.block);
	StartChange();
	ChangeWith(main);
	ChangeToScratch(fan, fan_copy);
	ChangeToScratch(fresh, copy);
	LogWhole(fresh);
	MakeChange(filter);
	ReleasePage(fresh);
}

/* Divides a leaf. The caller holds the leaf and its fan. `fan_copy` is a copy of the fan. */
static void
DivideLeaf(const LiveFilter &filter, const HeldPage &main, const HeldPage &fan, uint8_t *fan_copy,
		   const HeldPage &leaf)
{
	const LeafHalves halves = HalvesOf(SlotsOfLeaf(leaf.bytes));
	PGAlignedBlock low_scratch, high_scratch;
	uint8_t *low = (uint8_t *) low_scratch.data;
	uint8_t *high = (uint8_t *) high_scratch.data;
	HeldPage fresh;
	unsigned low_count;
	unsigned high_count;

	RequireSound(filter, leaf);
	if (NextOf(leaf.bytes) != 0)
		ReportBadPage(filter.rel, leaf.block, "A page follows a leaf that can be divided.");
	memcpy(low, leaf.bytes, BLCKSZ);
	memcpy(high, leaf.bytes, BLCKSZ);
	low_count = KeepHalf(low, halves.low);
	high_count = KeepHalf(high, halves.high);
	if (low_count == 0 || high_count == 0)
	{
		const bool is_low = high_count == 0;

		StoreFanSlots(fan_copy, is_low ? halves.high : halves.low, 0);
		StartChange();
		ChangeWith(main);
		ChangeToScratch(fan, fan_copy);
		ChangeToScratch(leaf, is_low ? low : high);
		MakeChange(filter);
		return;
	}
	HoldNewPage(filter, &fresh);
	memcpy(high, fresh.bytes, kMagicAt);
	StoreU32(high + kBlockAt, fresh.block);
	StoreFanSlots(fan_copy, halves.high, fresh.block);
	StartChange();
	ChangeWith(main);
	ChangeToScratch(fan, fan_copy);
	ChangeToScratch(leaf, low);
	ChangeToScratch(fresh, high);
	LogWhole(fresh);
	MakeChange(filter);
	ReleasePage(fresh);
}

bool
MakeLeafRoom(const LiveFilter &filter, const HeldPage &main, BlockNumber fan, uint64 rest)
{
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	SlotRange slots;
	BlockNumber first;
	bool divided = false;
	HeldPage held;

	HoldFan(filter, main, fan, BUFFER_LOCK_EXCLUSIVE, &held);
	memcpy(copy, held.bytes, BLCKSZ);
	first = LoadFanSlot(copy, FanSlotOf(rest));
	slots = EmptySlotsAround(copy, FanSlotOf(rest));
	if (first == fan)
		ReportBadPage(filter.rel, fan, "It leads back to itself.");
	if (first != 0)
	{
		HeldPage leaf;

		HoldChained(filter, main, first, &leaf);
		if (!IsLeaf(leaf.bytes) || !IsValidLeaf(leaf.bytes) ||
			!HasSlotOf(SlotsOfLeaf(leaf.bytes), rest) ||
			!HasJust(copy, SlotsOfLeaf(leaf.bytes), first))
			ReportBadPage(filter.rel, first, "It belongs to another page's chain.");
		slots = SlotsOfLeaf(leaf.bytes);
		divided = slots.count > 1;
		if (divided)
			DivideLeaf(filter, main, held, copy, leaf);
		ReleasePage(leaf);
	}
	if (!divided)
		AddLeaf(filter, main, held, copy, slots, first);
	ReleasePage(held);
	return !divided;
}

/* ---- a fan instead of plain pages --------------------------------------------------------- */

/* Makes the last plain page of a chain the only leaf of a new fan. Returns the fan's block. */
static BlockNumber
AddFan(const LiveFilter &filter, const HeldPage &main, const PlainPages &plain)
{
	PGAlignedBlock fan_scratch, leaf_scratch;
	uint8_t *fan_copy = (uint8_t *) fan_scratch.data;
	uint8_t *leaf_copy = (uint8_t *) leaf_scratch.data;
	const bool is_first = plain.before == main.block;
	uint8_t link[kNextBytes];
	HeldPage before = main;
	HeldPage leaf;
	HeldPage fan;

	if (!is_first)
		HoldChained(filter, main, plain.before, &before);
	HoldChained(filter, main, plain.last, &leaf);
	RequireSound(filter, leaf);
	HoldNewPage(filter, &fan);
	memcpy(leaf_copy, leaf.bytes, BLCKSZ);
	SetSlotsOfLeaf(leaf_copy, kAllSlots);
	memcpy(fan_copy, fan.bytes, BLCKSZ);
	InitChainPage(fan_copy, Kind::kFan, fan.block, filter.parameters.geometry.layout, main.bytes);
	StoreFanSlots(fan_copy, kAllSlots, leaf.block);
	StoreU32(link, fan.block);
	StartChange();
	ChangeWith(main);
	ChangeBytes(before, kNextAt, link, sizeof link);
	ChangeToScratch(fan, fan_copy);
	LogWhole(fan);
	ChangeToScratch(leaf, leaf_copy);
	MakeChange(filter);
	ReleasePage(fan);
	ReleasePage(leaf);
	if (!is_first)
		ReleasePage(before);
	return fan.block;
}

/* Stores the rest of some entry of an overflow page. Returns false if the page has no entry. */
static bool
SomeRest(const uint8_t *page, uint64 *rest)
{
	bool any = false;

	ForEachEntry(page, kOverflowArea, [&](unsigned, const Entry &entry) {
		*rest = entry.rest;
		any = true;
	});
	return any;
}

/*
 * Moves entries of a held plain page to the leaf of the key `rest`, while the leaf has room.
 * Returns false if no entry has moved.
 */
static bool
MoveSome(const LiveFilter &filter, const HeldPage &main, const HeldPage &plain, BlockNumber fan,
		 uint64 rest)
{
	const BlockNumber block = LeafOf(filter, main, fan, rest);
	PGAlignedBlock from_scratch, to_scratch;
	uint8_t *from = (uint8_t *) from_scratch.data;
	uint8_t *to = (uint8_t *) to_scratch.data;
	HeldPage leaf;
	bool any;

	if (block == 0)
		return false;
	HoldChained(filter, main, block, &leaf);
	RequireSound(filter, leaf);
	memcpy(from, plain.bytes, BLCKSZ);
	memcpy(to, leaf.bytes, BLCKSZ);
	any = IsLeaf(leaf.bytes) && MoveToLeaf(from, to).count > 0;
	if (any)
	{
		StartChange();
		ChangeWith(main);
		ChangeToScratch(plain, from);
		ChangeToScratch(leaf, to);
		MakeChange(filter);
	}
	ReleasePage(leaf);
	return any;
}

/* Moves all entries of the first page of a chain to the fan. Removes the page from the chain. */
static void
EmptyFirst(const LiveFilter &filter, const HeldPage &main, BlockNumber fan)
{
	const BlockNumber block = NextOf(main.bytes);

	for (;;)
	{
		HeldPage plain;
		uint64 rest = 0;
		bool moved;
		bool any;

		HoldChained(filter, main, block, &plain);
		RequireSound(filter, plain);
		any = SomeRest(plain.bytes, &rest);
		moved = any && MoveSome(filter, main, plain, fan, rest);
		ReleasePage(plain);
		if (!any)
			break;
		if (!moved)
			(void) MakeLeafRoom(filter, main, fan, rest);
	}
	UnchainPage(filter, main, main.block, block);
}

/* Moves all entries of a chain to its fan. Makes the fan if there is none. Returns its block. */
static BlockNumber
SpreadChain(const LiveFilter &filter, const HeldPage &main, const PlainPages &plain)
{
	const BlockNumber fan = plain.fan != 0 ? plain.fan : AddFan(filter, main, plain);

	Assert(IsHeld(main, true) && HasFans(filter));
	while (NextOf(main.bytes) != fan)
		EmptyFirst(filter, main, fan);
	return fan;
}

BlockNumber
FanForMore(const LiveFilter &filter, const HeldPage &main)
{
	PlainPages plain;

	if (!HasFans(filter) || NextOf(main.bytes) == 0)
		return 0;
	plain = PlainPagesOf(filter, main);
	if (plain.fan == 0 && plain.count < kMostPlain)
		return 0;
	return SpreadChain(filter, main, plain);
}

void
SpreadLongChain(const LiveFilter &filter, const HeldPage &main)
{
	PlainPages plain;

	if (!HasFans(filter) || NextOf(main.bytes) == 0)
		return;
	plain = PlainPagesOf(filter, main);
	if (plain.fan != 0 ? plain.count > 0 : plain.count > kMostPlain)
		(void) SpreadChain(filter, main, plain);
}
