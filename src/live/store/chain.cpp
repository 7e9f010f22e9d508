/*
 * The chain of a main page. It consists of plain overflow pages. A long chain ends with a fan and
 * the leaves of the fan (core/page.hpp, fan.cpp). A reader of the chain holds a lock on the main
 * page, at least a shared one. A writer holds an exclusive lock on it. So no reader sees the chain
 * change.
 */
#include "live/store/store.hpp"

using namespace dedup::live;

/* Each time a walk has visited this many more pages, it compares its steps with the file length. */
constexpr uint32 kStepsToCount = 4096;

[[noreturn]] static void
ReportBroken(const LiveFilter &filter, const HeldPage &main)
{
	ReportBadPage(filter.rel, main.block, "Its chain of overflow pages is broken.");
}

[[noreturn]] static void
ReportStranger(const LiveFilter &filter, const HeldPage &page)
{
	ReportBadPage(filter.rel, page.block, "It belongs to another page's chain.");
}

/* ---- pages of a chain -------------------------------------------------------------------- */

void
HoldInChain(const LiveFilter &filter, const HeldPage &main, BlockNumber block, int lock,
			HeldPage *page)
{
	Assert(IsHeld(main, lock == BUFFER_LOCK_EXCLUSIVE));
	/* The caller holds the lock of the main page already. Requesting it again would deadlock. */
	if (block == main.block || !HoldPageOfChain(filter, block, lock, page))
		ReportBroken(filter, main);
	if (!IsChainedTo(page->bytes, main.bytes))
		ReportStranger(filter, *page);
}

void
HoldChained(const LiveFilter &filter, const HeldPage &main, BlockNumber block, HeldPage *page)
{
	if (block == main.block ||
		!HoldPage(filter, block, Kind::kOverflow, BUFFER_LOCK_EXCLUSIVE, page) ||
		!IsChainedTo(page->bytes, main.bytes))
		ReportBroken(filter, main);
}

void
HoldFan(const LiveFilter &filter, const HeldPage &main, BlockNumber block, int lock, HeldPage *fan)
{
	if (block == main.block || !HoldPage(filter, block, Kind::kFan, lock, fan) ||
		!IsChainedTo(fan->bytes, main.bytes))
		ReportBroken(filter, main);
}

/* ---- walks --------------------------------------------------------------------------------- */

void
HoldStep(const LiveFilter &filter, const HeldPage &main, BlockNumber block, bool in_fan, int lock,
		 uint32 *steps, HeldPage *page)
{
	/* A chain that is longer than the file has a cycle. */
	if (++*steps % kStepsToCount == 0 && *steps > RelationGetNumberOfBlocks(filter.rel))
		ReportBroken(filter, main);
	HoldInChain(filter, main, block, lock, page);
	if (IsFan(page->bytes) ? in_fan
						   : IsLeaf(page->bytes) != in_fan || (in_fan && !IsValidLeaf(page->bytes)))
		ReportStranger(filter, *page);
}

void
HoldStepOfKey(const LiveFilter &filter, const HeldPage &main, BlockNumber block, bool in_fan,
			  uint64 rest, int lock, uint32 *steps, HeldPage *page)
{
	HoldStep(filter, main, block, in_fan, lock, steps, page);
	if (in_fan && !HasSlotOf(SlotsOfLeaf(page->bytes), rest))
		ReportStranger(filter, *page);
}

bool
HoldNextOfKey(const LiveFilter &filter, const HeldPage &main, uint64 rest, int lock, KeyWalk *walk,
			  HeldPage *page)
{
	while (walk->next != 0)
	{
		HoldStepOfKey(filter, main, walk->next, walk->in_fan, rest, lock, &walk->steps, page);
		if (!IsFan(page->bytes))
		{
			walk->next = NextOf(page->bytes);
			return true;
		}
		walk->in_fan = true;
		walk->next = LoadFanSlot(page->bytes, FanSlotOf(rest));
		ReleasePage(*page);
	}
	return false;
}

void
StartChainWalk(const HeldPage &main, ChainWalk *walk)
{
	walk->next = NextOf(main.bytes);
	walk->steps = 0;
	walk->fan = 0;
	walk->slots = {0, 0};
}

/* Moves the walk to the next leaf of the fan. Returns false if there is none. */
static bool
GoToNextLeaf(ChainWalk *walk)
{
	unsigned slot = walk->slots.first + walk->slots.count;
	unsigned end;

	while (slot < kFanSlots && walk->leaves[slot] == 0)
		slot++;
	if (walk->fan == 0 || slot == kFanSlots)
		return false;
	for (end = slot + 1; end < kFanSlots && walk->leaves[end] == walk->leaves[slot];)
		end++;
	walk->slots = {slot, end - slot};
	walk->next = walk->leaves[slot];
	return true;
}

bool
HoldNextInChain(const LiveFilter &filter, const HeldPage &main, int lock, ChainWalk *walk,
				HeldPage *page)
{
	if (walk->next == 0 && (walk->fan == 0 || !GoToNextLeaf(walk)))
		return false;
	HoldStep(filter, main, walk->next, walk->fan != 0, lock, &walk->steps, page);
	walk->next = NextOf(page->bytes);
	if (IsFan(page->bytes))
	{
		walk->fan = page->block;
		for (unsigned slot = 0; slot < kFanSlots; slot++)
			walk->leaves[slot] = LoadFanSlot(page->bytes, slot);
	}
	else if (walk->fan != 0)
	{
		const SlotRange slots = SlotsOfLeaf(page->bytes);

		if (slots.first != walk->slots.first || slots.count != walk->slots.count)
			ReportStranger(filter, *page);
	}
	return true;
}

PlainPages
PlainPagesOf(const LiveFilter &filter, const HeldPage &main)
{
	PlainPages plain = {0, 0, main.block, 0};
	BlockNumber next = NextOf(main.bytes);
	uint32 steps = 0;

	while (next != 0)
	{
		HeldPage page;
		bool is_fan;

		HoldStep(filter, main, next, false, BUFFER_LOCK_SHARE, &steps, &page);
		is_fan = IsFan(page.bytes);
		next = NextOf(page.bytes);
		ReleasePage(page);
		if (is_fan)
		{
			plain.fan = page.block;
			break;
		}
		plain.count++;
		plain.before = plain.last;
		plain.last = page.block;
	}
	return plain;
}

/* ---- removing a page ----------------------------------------------------------------------- */

void
UnchainPage(const LiveFilter &filter, const HeldPage &main, BlockNumber before, BlockNumber block)
{
	const bool is_first = before == main.block;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	HeldPage previous = main;
	HeldPage page;

	if (!is_first)
		HoldChained(filter, main, before, &previous);
	HoldInChain(filter, main, block, BUFFER_LOCK_EXCLUSIVE, &page);
	Assert(NextOf(previous.bytes) == block);
	memcpy(copy, page.bytes, BLCKSZ);
	FreePage(copy);
	StartChange();
	/* Replay on a standby must lock the main page too when its chain changes. */
	ChangeWith(main);
	ChangeBytes(previous, kNextAt, page.bytes + kNextAt, kNextBytes);
	ChangeToScratch(page, copy);
	MakeChange(filter);
	ReleasePage(page);
	if (!is_first)
		ReleasePage(previous);
	RecordFreeOverflowPage(filter, block);
}
