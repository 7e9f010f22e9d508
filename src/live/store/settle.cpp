/*
 * Settling: freezes, folds or removes the entries whose transactions have ended.
 */
#include "core/fanning.hpp"
#include "live/counters_page.hpp"
#include "live/store/store.hpp"

extern "C" {
#include "storage/freespace.h"
#include "storage/indexfsm.h"
}

using dedup::LoadU64;
using namespace dedup::live;

/* ---- tags ----------------------------------------------------------------------- */

/* Returns the state of a transaction, as far as it is known. */
static Standing
StandingOf(const LiveFilter &filter, const uint8_t *page, uint64 xid)
{
	return {JudgeXid(filter, BlockOf(page), xid), HeirOf(xid)};
}

/*
 * Returns the fate of a tag. The heir of an ended subtransaction of ours inherits its keys. Both
 * transactions of a tag can end between the two checks. Then the fate is that of a moment before
 * one of them had ended, which is valid, too.
 */
static TagFate
FateOf(const LiveFilter &filter, const uint8_t *page, const Tag &tag)
{
	if (tag.base == 0)
		return FateOfTag(tag, HeirOf(tag.xid));

	const Standing adds = StandingOf(filter, page, BaseOf(tag));

	return FateOfForgotten(tag, adds, StandingOf(filter, page, tag.xid));
}

/* Applies the fates of all tags of a page. */
static void
ReviseTags(const LiveFilter &filter, uint8_t *main, uint8_t *page)
{
	const AreaShape &area = AreaOf(page);

	for (unsigned tag = 1; tag <= area.tags; tag++)
		ApplyFate(main, page, tag, FateOf(filter, page, LoadTag(page, tag)));
}

/* ---- settling ----------------------------------------------------------------- */

/*
 * Raises XX001 if an entry names a tag or a line that does not exist, or if a tag names a
 * transaction that cannot exist.
 */
static void
CheckEntries(const LiveFilter &filter, const HeldPage &page)
{
	const AreaShape &area = AreaOf(page.bytes);
	bool bad = false;

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		const Tag value = LoadTag(page.bytes, tag);

		if (value.xid != kNoXid)
			CheckPageXid(filter, page.block, value.xid);
		if (value.base != 0)
			CheckPageXid(filter, page.block, BaseOf(value));
	}
	ForEachEntry(page.bytes, area, [&](unsigned, const Entry &entry) {
		if (entry.tag > area.tags || entry.line >= kLines ||
			LoadTag(page.bytes, entry.tag).xid == kNoXid ||
			(!entry.forgotten && LoadTag(page.bytes, entry.tag).base != 0))
			bad = true;
	});
	if (bad)
		ReportBadPage(filter.rel, page.block, "An entry has no transaction or line.");
}

/* Stores the verdicts on the tags of a page. Returns whether there is anything to settle. */
static bool
JudgeTags(const LiveFilter &filter, const uint8_t *page, bool loading, Verdict *verdicts)
{
	const AreaShape &area = AreaOf(page);
	const uint64 before = SeenByAllBefore(filter);
	bool any = false;

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		const Tag value = LoadTag(page, tag);

		if (value.xid == kNoXid)
			continue;
		verdicts[tag] =
			VerdictOn(value, JudgeXid(filter, BlockOf(page), value.xid, before), loading);
		if (verdicts[tag] != Verdict::kKeep)
			any = true;
	}
	return any;
}

/*
 * Settles one page, which is the main page or a page of its chain. Works on scratch copies of this
 * page and of the main page.
 */
static void
SettleScratch(const LiveFilter &filter, const HeldPage &page, uint8_t *main_scratch,
			  uint8_t *page_scratch, bool fold, Settled *settled)
{
	Verdict verdicts[kMaxTags + 1];
	bool loading = LoaderOf(main_scratch) != kNoXid;

	CheckEntries(filter, page);
	ReviseTags(filter, main_scratch, page_scratch);
	if (JudgeTags(filter, page_scratch, loading, verdicts))
		Settle(main_scratch, page_scratch, filter.parameters.geometry, verdicts, fold && !loading,
			   settled);
}

/* If a COPY has loaded the lines of a page, keeps or clears them when the COPY has ended. */
static void
SettleLoader(const LiveFilter &filter, uint8_t *main_scratch)
{
	uint64 loader = LoaderOf(main_scratch);

	if (loader == kNoXid)
		return;
	switch (JudgeXid(filter, BlockOf(main_scratch), loader))
	{
		case Verdict::kKeep:
			return;
		case Verdict::kCommitted:
			NoteSettled(main_scratch, loader);
			break;
		case Verdict::kAborted:
			memset(LineAt(main_scratch, 0), 0, kLines * dedup::kLineBytes);
			SetClock(main_scratch, 0);
			break;
	}
	SetLoader(main_scratch, kNoXid);
}

/*
 * Returns the blocks of the pages from `first` on, in the order of their links, up to the fan.
 * `fan` receives the block of the fan, or 0. `before`, which is held, points to the first page.
 * Returns null if there are no such pages.
 */
static BlockNumber *
ReadRun(const LiveFilter &filter, const HeldPage &main, const HeldPage &before, BlockNumber first,
		int *length, BlockNumber *fan)
{
	BlockNumber next = first;
	BlockNumber *run = NULL;
	uint32 steps = 0;
	int room = 0;

	*length = 0;
	*fan = 0;
	while (next != 0)
	{
		HeldPage page;

		/* The caller has locked `before` already. Locking it again would deadlock. */
		if (next == before.block)
			ReportBadPage(filter.rel, before.block, "It leads back to itself.");
		HoldStep(filter, main, next, IsFan(before.bytes), BUFFER_LOCK_SHARE, &steps, &page);
		next = NextOf(page.bytes);
		if (IsFan(before.bytes) && !HasJust(before.bytes, SlotsOfLeaf(page.bytes), first))
			ReportBadPage(filter.rel, page.block,
						  "It is not the part of the fan that it is named as.");
		if (IsFan(page.bytes))
			*fan = page.block;
		ReleasePage(page);
		if (*fan != 0)
			break;
		if (*length == room)
		{
			room = Max(16, 2 * room);
			run = (BlockNumber *) (run == NULL ? palloc(room * sizeof(BlockNumber))
											   : repalloc(run, room * sizeof(BlockNumber)));
		}
		run[(*length)++] = page.block;
	}
	return run;
}

/*
 * Moves the frozen entries of an overflow page to the main page while the main page has room. These
 * entries are keys of a set whose lines are full.
 */
static void
MoveFrozen(uint8_t *main, uint8_t *page)
{
	/* The main page is full. */
	if (CountEntries(main, kMainArea) == kMainArea.lines * kEntriesPerLine)
		return;
	ForEachEntry(page, kOverflowArea, [&](unsigned place, const Entry &entry) {
		const Tag tag = LoadTag(page, entry.tag);

		if (tag.xid == kFrozen && !entry.forgotten &&
			PutEntry(main, kMainArea, tag, entry.line, entry.rest, false))
			TakeBack(page, kOverflowArea, place);
	});
}

namespace
{

/* The state of SettlePage(). */
struct Settlement
{
	const LiveFilter *filter;
	HeldPage main;
	uint8_t *scratch; /* a copy of the main page */
	unsigned early;
	bool changes;
};

} /* namespace */

/* ---- windows of time that grow -------------------------------------------------- */

/*
 * Returns the generation to which the clock of a main page moves, so that expired keys make room.
 * Returns 0 if the clock stays. It stays while a COPY has loaded the lines, since its abort clears
 * lines and clock, and in pages with nothing to expire. Windows that do not grow evict their oldest
 * keys instead.
 */
static uint32
NextClock(const LiveFilter &filter, const uint8_t *main)
{
	uint32 newest;

	if (!Grows(filter) || filter.parameters.ttl == 0 || LoaderOf(main) != kNoXid ||
		(ClockOf(main) == 0 && CountEntries(main, kMainArea) == 0))
		return 0;
	newest = CommittedClock(filter);
	return newest > ClockOf(main) ? newest : 0;
}

/* ---- freezing in place -------------------------------------------------------- */

namespace
{

/* The plan of FreezeInPlace() for the tags of a main page. */
struct Freezing
{
	Tag tags[kMainArea.tags + 1];    /* the new tags, numbered from 1 as in LoadTag() */
	unsigned to[kMainArea.tags + 1]; /* the new tag number of the entries of a tag */
	bool used[kMainArea.tags + 1];
	uint64 settled; /* the newest transaction whose entries are frozen, or kNoXid */
};

} /* namespace */

/*
 * Plans the settling of a page whose entries only have to be frozen: each transaction is
 * still running, or its commit is visible to every snapshot, and no entry is removed. Returns false
 * if there is more to do, or nothing to freeze.
 */
static bool
PlanFreezing(const LiveFilter &filter, const uint8_t *page, Freezing *plan)
{
	const uint64 before = SeenByAllBefore(filter);
	unsigned frozen[kMainArea.tags];
	unsigned frozen_count = 0;

	plan->settled = kNoXid;
	for (unsigned tag = 1; tag <= kMainArea.tags; tag++)
	{
		const Tag value = LoadTag(page, tag);
		unsigned kind = 0;

		plan->tags[tag] = value;
		plan->to[tag] = tag;
		plan->used[tag] = false;
		if (value.xid == kNoXid)
			continue;
		if (value.xid != kFrozen)
		{
			if (value.base != 0 || HeirOf(value.xid) != value.xid)
				return false;

			const Verdict verdict = JudgeXid(filter, BlockOf(page), value.xid, before);

			if (verdict == Verdict::kAborted)
				return false;
			if (verdict == Verdict::kKeep)
				continue;
			plan->settled = Max(plan->settled, value.xid);
			plan->tags[tag] = {kFrozen, value.generation};
		}
		/* One frozen tag for each generation. */
		while (kind < frozen_count && plan->tags[frozen[kind]].generation != value.generation)
			kind++;
		if (kind == frozen_count)
			frozen[frozen_count++] = tag;
		else
		{
			plan->to[tag] = frozen[kind];
			plan->tags[tag] = {kNoXid, 0};
		}
	}
	return plan->settled != kNoXid;
}

/*
 * Returns whether another entry of the same key is frozen or will be. The tag of that entry may not
 * have been checked yet.
 */
static bool
IsFrozenTwice(const uint8_t *page, const Freezing &plan, unsigned place, const Entry &entry)
{
	return VisitKey(page, kMainArea, entry.line, entry.rest, [&](unsigned at, const Entry &other) {
		return at != place && other.tag <= kMainArea.tags &&
			   plan.tags[plan.to[other.tag]].xid == kFrozen;
	});
}

/*
 * Settles a main page whose entries only have to be frozen, so that tags become free. This is the
 * most frequent case if each transaction adds a few keys. Changes single bytes and does not copy
 * the page. Returns false, and changes nothing, if there is more to do.
 */
static bool
FreezeInPlace(const LiveFilter &filter, const HeldPage &main)
{
	const uint8_t *page = main.bytes;
	const uint8_t epoch = page[kEpochAt];
	const bool is_set = !filter.parameters.geometry.forgets;
	Freezing plan;
	uint64 rests[16] = {}; /* a bit for each low 10 bits of the rests of frozen entries */
	uint8_t tags[kMainArea.tags * kTagBytes];
	uint8_t settled[kHeaderEnd - kSettledLowAt];

	if (LoaderOf(page) != kNoXid ||
		CountEntries(page, kMainArea) > kMainArea.lines * kEntriesPerLine / 2 ||
		!PlanFreezing(filter, page, &plan))
		return false;
	StartChange();
	for (unsigned place = 0; place < kMainArea.lines * kEntriesPerLine; place++)
	{
		const uint64 packed = LoadU64(page + EntryAt(kMainArea, place));

		if (!Present(packed, epoch))
			continue;

		const Entry entry = UnpackEntry(packed);

		if (entry.forgotten || entry.tag > kMainArea.tags || entry.line >= kLines ||
			LoadTag(page, entry.tag).xid == kNoXid)
			return false;

		const uint8_t to = (uint8_t) plan.to[entry.tag];

		plan.used[to] = true;
		if (is_set && plan.tags[to].xid == kFrozen)
		{
			uint64 *bits = &rests[entry.rest / 64 % lengthof(rests)];
			const uint64 bit = (uint64) 1 << entry.rest % 64;

			if ((*bits & bit) != 0 && IsFrozenTwice(page, plan, place, entry))
				return false;
			*bits |= bit;
		}
		if (to != entry.tag)
			ChangeByte(main, EntryAt(kMainArea, place), to);
	}
	for (unsigned tag = 1; tag <= kMainArea.tags; tag++)
		PackTag(tags + (tag - 1) * kTagBytes, plan.used[tag] ? plan.tags[tag] : Tag{kNoXid, 0});
	ChangeBytes(main, kTagsAt, tags, sizeof tags);
	if (plan.settled > SettledOf(page))
	{
		PackSettled(settled, plan.settled, page[kTurnAt]);
		ChangeBytes(main, kSettledLowAt, settled, sizeof settled);
	}
	MakeChange(filter);
	return true;
}

/* ---- settling a page and its chain -------------------------------------------- */

/* Settles the main page itself. */
static void
SettleMain(Settlement *s, bool fold)
{
	const LiveFilter &filter = *s->filter;
	Settled settled = {};

	memcpy(s->scratch, s->main.bytes, BLCKSZ);
	SettleLoader(filter, s->scratch);
	MoveClock(s->scratch, filter.parameters.geometry.layout, NextClock(filter, s->scratch));
	if (!fold)
		fold = CountEntries(s->scratch, kMainArea) > kMainArea.lines * kEntriesPerLine / 2;
	SettleScratch(filter, s->main, s->scratch, s->scratch, fold, &settled);
	SetEarly(s->scratch, EarlyOf(s->scratch) + settled.early);
	s->early += settled.early;
	if (memcmp(s->scratch, s->main.bytes, BLCKSZ) != 0)
	{
		StartChange();
		ChangeToScratch(s->main, s->scratch);
		MakeChange(filter);
		s->changes = true;
	}
}

/*
 * Settles a page of the chain. The page is held, and so is `before`: the page that points to it, or
 * the fan that names it. If the page becomes empty, it is removed from the chain, and `before` then
 * names the page behind it. Returns whether the page was removed.
 */
static bool
SettleChained(Settlement *s, const HeldPage &before, const HeldPage &page)
{
	const LiveFilter &filter = *s->filter;
	PGAlignedBlock page_scratch, fan_scratch;
	uint8_t *copy = (uint8_t *) page_scratch.data;
	uint8_t *fan = (uint8_t *) fan_scratch.data;
	Settled settled = {};
	bool empty;

	Assert(IsChainedTo(page.bytes, s->main.bytes));
	memcpy(s->scratch, s->main.bytes, BLCKSZ);
	memcpy(copy, page.bytes, BLCKSZ);
	SettleScratch(filter, page, s->scratch, copy, true, &settled);
	MoveFrozen(s->scratch, copy);
	empty = CountEntries(copy, kOverflowArea) == 0;
	SetEarly(s->scratch, EarlyOf(s->scratch) + settled.early);
	s->early += settled.early;

	StartChange();
	if (empty)
	{
		FreePage(copy);
		if (before.block == s->main.block)
			SetNext(s->scratch, NextOf(page.bytes));
		/* Replay on a standby must lock the main page too when its chain changes. */
		ChangeWith(s->main);
	}
	if (memcmp(s->scratch, s->main.bytes, BLCKSZ) != 0)
		ChangeToScratch(s->main, s->scratch);
	if (empty && IsFan(before.bytes))
	{
		memcpy(fan, before.bytes, BLCKSZ);
		ReplaceInFan(fan, page.block, NextOf(page.bytes));
		ChangeToScratch(before, fan);
	}
	else if (empty && before.block != s->main.block)
		ChangeBytes(before, kNextAt, page.bytes + kNextAt, kNextBytes);
	if (memcmp(copy, page.bytes, BLCKSZ) != 0)
	{
		ChangeToScratch(page, copy);
		MakeChange(filter);
		s->changes = true;
	}
	return empty;
}

void
RecordFreeOverflowPage(const LiveFilter &filter, BlockNumber block)
{
	RecordFreeIndexPage(filter.rel, block);
	/* Make the page visible to searches of the free space map at once. */
	FreeSpaceMapVacuumRange(filter.rel, block, block + 1);
}

/*
 * Settles the pages from `first` on, up to the fan. Starts at the last page, which has the oldest
 * entries. `before`, which is held, points to the first page: it is the main page or the fan.
 * Returns the block of the fan behind the pages, or 0.
 */
static BlockNumber
SettleRun(Settlement *s, const HeldPage &before, BlockNumber first)
{
	const LiveFilter &filter = *s->filter;
	BlockNumber fan;
	int length;
	BlockNumber *run = ReadRun(filter, s->main, before, first, &length, &fan);

	for (int i = length - 1; i >= 0; i--)
	{
		HeldPage previous = before;
		HeldPage page;
		bool left;

		if (i > 0)
			HoldChained(filter, s->main, run[i - 1], &previous);
		HoldChained(filter, s->main, run[i], &page);
		left = SettleChained(s, previous, page);
		ReleasePage(page);
		if (i > 0)
			ReleasePage(previous);
		if (left)
			RecordFreeOverflowPage(filter, run[i]);
	}
	if (run != NULL)
		pfree(run);
	return fan;
}

/* Settles the leaf in a slot of a held fan. Returns whether the slot is empty afterwards. */
static bool
SettleSlot(Settlement *s, const HeldPage &fan, unsigned slot)
{
	const BlockNumber leaf = LoadFanSlot(fan.bytes, slot);

	if (leaf != 0)
		(void) SettleRun(s, fan, leaf);
	return LoadFanSlot(fan.bytes, slot) == 0;
}

/*
 * Settles the leaves of a fan. If `rest` is not null, starts at the leaf of this key, and stops at
 * the first leaf that does not become empty. So the many empty leaves of a large transaction are
 * removed. Returns whether the fan is empty.
 */
static bool
SettleFan(Settlement *s, BlockNumber block, const uint64 *rest)
{
	const unsigned from = rest == NULL ? 0 : FanSlotOf(*rest);
	bool goes_on = true;
	bool empty;
	HeldPage fan;

	HoldFan(*s->filter, s->main, block, BUFFER_LOCK_EXCLUSIVE, &fan);
	for (unsigned done = 0; done < kFanSlots && goes_on;)
	{
		const unsigned slot = (from + done) % kFanSlots;

		done += RunOfSlots(fan.bytes, slot).count;
		goes_on = SettleSlot(s, fan, slot) || rest == NULL;
	}
	empty = IsEmptyFan(fan.bytes);
	ReleasePage(fan);
	return empty;
}

static Settlement
StartSettlement(const LiveFilter &filter, const HeldPage &main, uint8_t *scratch)
{
	Assert(KindOf(main.bytes) == Kind::kMain && IsHeld(main, true));
	return {&filter, main, scratch, 0, false};
}

static bool
EndSettlement(const Settlement &s)
{
	if (s.early > 0)
		NoteLiveEarly(*s.filter, s.early);
	return s.changes;
}

/* Settles a main page and its chain. If `rest` is not null, settles the fan only near this key. */
static bool
SettleAround(const LiveFilter &filter, const HeldPage &main, bool fold, const uint64 *rest)
{
	PGAlignedBlock scratch;
	Settlement s = StartSettlement(filter, main, (uint8_t *) scratch.data);
	BlockNumber fan = 0;

	if (!fold && NextClock(filter, main.bytes) == 0 && FreezeInPlace(filter, main))
		s.changes = true;
	else
		SettleMain(&s, fold);
	if (NextOf(main.bytes) != 0)
		fan = SettleRun(&s, main, NextOf(main.bytes));
	if (fan != 0 && SettleFan(&s, fan, rest))
	{
		UnchainPage(filter, main, PlainPagesOf(filter, main).last, fan);
		s.changes = true;
	}
	return EndSettlement(s);
}

bool
SettlePage(const LiveFilter &filter, const HeldPage &main, bool fold)
{
	return SettleAround(filter, main, fold, NULL);
}

bool
SettleNear(const LiveFilter &filter, const HeldPage &main, bool fold, uint64 rest)
{
	return SettleAround(filter, main, fold, &rest);
}

bool
SettleLeaf(const LiveFilter &filter, const HeldPage &main, BlockNumber fan, uint64 rest)
{
	PGAlignedBlock scratch;
	Settlement s = StartSettlement(filter, main, (uint8_t *) scratch.data);

	(void) SettleFan(&s, fan, &rest);
	return EndSettlement(s);
}

/* Returns whether some tag of a page can be settled. */
static bool
CanSettleTags(const LiveFilter &filter, const uint8_t *page)
{
	const AreaShape &area = AreaOf(page);
	const uint64 before = SeenByAllBefore(filter);

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		const Tag value = LoadTag(page, tag);
		const uint64 xid = value.xid;

		if (xid == kNoXid)
			continue;
		if (JudgeXid(filter, BlockOf(page), xid, before) != Verdict::kKeep &&
			(xid != kFrozen || filter.parameters.geometry.forgets))
			return true;
		if (FateOf(filter, page, value).what != TagFate::What::kStays)
			return true;
	}
	return false;
}

bool
CanSettlePage(const LiveFilter &filter, const uint8_t *page)
{
	return NextClock(filter, page) != 0 || CanSettleTags(filter, page);
}

bool
CanSettleChained(const LiveFilter &filter, const uint8_t *main, const uint8_t *page)
{
	if (CanSettleTags(filter, page))
		return true;
	/* Settling removes expired entries. */
	for (unsigned tag = 1; tag <= AreaOf(page).tags && filter.parameters.ttl != 0; tag++)
	{
		const Tag value = LoadTag(page, tag);

		if (value.xid == kFrozen && !Alive(value.generation, ClockOf(main)))
			return true;
	}
	return false;
}
