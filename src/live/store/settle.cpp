/*
 * Settling: what becomes of entries whose transactions have ended.
 */
#include "live/counters_page.hpp"
#include "live/store/store.hpp"

extern "C" {
#include "storage/freespace.h"
#include "storage/indexfsm.h"
}

using dedup::LoadU64;
using namespace dedup::live;

/* ---- tags ----------------------------------------------------------------------- */

namespace
{

/* What becomes of a tag before its page is settled. */
struct TagFate
{
	enum
	{
		Stays,
		Becomes, /* `tag` */
		Adds,    /* `tag`, and its entries are not forgotten any more */
		Goes     /* with its entries */
	} what;
	Tag tag;
	uint64 settled; /* a base that `tag` does not name any more, or kNoXid */
};

} /* namespace */

/* The fate of a tag of entries that are forgotten, whose keys are not committed for all. */
static TagFate
FateOfForgotten(const LiveFilter &filter, BlockNumber block, const Tag &tag)
{
	const uint64 base = BaseOf(tag);
	const Verdict verdict = JudgeXid(filter, block, base);
	const uint64 heir = HeirOf(tag.xid);
	const uint64 base_heir = HeirOf(base);

	/* The keys were never there, or the same subtransaction has added and forgotten them. */
	if (verdict == Verdict::kAborted || heir == base_heir)
		return {TagFate::Goes, tag, kNoXid};
	if (JudgeXid(filter, block, tag.xid) == Verdict::kAborted)
		return {TagFate::Adds, {base_heir, tag.generation}, kNoXid};
	if (verdict == Verdict::kCommitted)
		return {TagFate::Becomes, {heir, tag.generation}, base};
	if (heir == tag.xid && base_heir == base)
		return {TagFate::Stays, tag, kNoXid};
	return {TagFate::Becomes, {heir, tag.generation, (TransactionId) base_heir}, kNoXid};
}

/* Subtransactions of ours that have ended leave their keys to their heirs. */
static TagFate
FateOf(const LiveFilter &filter, BlockNumber block, const Tag &tag)
{
	uint64 heir;

	if (tag.base != 0)
		return FateOfForgotten(filter, block, tag);
	heir = HeirOf(tag.xid);
	if (heir == tag.xid)
		return {TagFate::Stays, tag, kNoXid};
	return {TagFate::Becomes, {heir, tag.generation}, kNoXid};
}

/* Lets all tags of a page meet their fates. */
static void
ReviseTags(const LiveFilter &filter, uint8_t *main, uint8_t *page)
{
	const AreaShape &area = AreaOf(page);

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		const TagFate fate = FateOf(filter, BlockOf(page), LoadTag(page, tag));

		if (fate.what == TagFate::Goes)
			DropTag(page, tag);
		else if (fate.what != TagFate::Stays)
			Retag(page, tag, fate.tag, fate.what == TagFate::Adds);
		if (fate.settled != kNoXid)
			NoteSettled(main, fate.settled);
	}
}

/* ---- settling ----------------------------------------------------------------- */

/* Entries must name tags and lines that exist, and tags transactions that can. */
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

/* The verdicts on a page's tags. Returns whether there is anything to settle. */
static bool
JudgeTags(const LiveFilter &filter, const uint8_t *page, bool loading, Verdict *verdicts)
{
	const AreaShape &area = AreaOf(page);
	const uint64 before = SeenByAllBefore(filter);
	bool any = false;

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		uint64 xid = LoadTag(page, tag).xid;

		if (xid == kNoXid)
			continue;
		verdicts[tag] = JudgeXid(filter, BlockOf(page), xid, before);
		/* Lines that may yet go away as a whole take nothing in. */
		if (loading && verdicts[tag] == Verdict::kCommitted)
			verdicts[tag] = Verdict::kKeep;
		if (verdicts[tag] != Verdict::kKeep)
			any = true;
	}
	return any;
}

/* Settles one page of a chain in scratch copies of it and of the main page. */
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

/* What became of a COPY that loaded the lines of this page. */
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

void
HoldChained(const LiveFilter &filter, const HeldPage &main, BlockNumber block, HeldPage *page)
{
	if (!HoldPage(filter, block, Kind::kOverflow, BUFFER_LOCK_EXCLUSIVE, page) ||
		!IsChainedTo(page->bytes, main.bytes))
		ReportBadPage(filter.rel, main.block, "Its chain of overflow pages is broken.");
}

/* The blocks of a chain, from the main page on; null if there is none. */
static BlockNumber *
ReadChain(const LiveFilter &filter, const HeldPage &main, int *length)
{
	BlockNumber *chain = NULL;
	int room = 0;

	*length = 0;
	VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		if (page.block == main.block)
			return false;
		if (*length == room)
		{
			room = Max(16, 2 * room);
			chain = (BlockNumber *) (chain == NULL ? palloc(room * sizeof(BlockNumber))
												   : repalloc(chain, room * sizeof(BlockNumber)));
		}
		chain[(*length)++] = page.block;
		return false;
	});
	return chain;
}

/*
 * Moves what is left of an overflow page and will stay, the keys of a set whose lines
 * are full, to the main page while that has room.
 */
static void
MoveFrozen(uint8_t *main, uint8_t *page)
{
	ForEachEntry(page, kOverflowArea, [&](unsigned place, const Entry &entry) {
		const Tag tag = LoadTag(page, entry.tag);

		if (tag.xid == kFrozen && !entry.forgotten &&
			PutEntry(main, kMainArea, tag, entry.line, entry.rest, false))
			TakeBack(page, kOverflowArea, place);
	});
}

namespace
{

/* What SettlePage() works on. */
struct Settlement
{
	const LiveFilter *filter;
	HeldPage main;
	uint8_t *scratch; /* a copy of the main page */
	unsigned early;
	bool changes;
	BlockNumber freed[64];
	int freed_count;
};

} /* namespace */

/* ---- windows of time that grow -------------------------------------------------- */

/*
 * The generation that a main page's clock is to move on to, so that what has expired makes room;
 * 0: it is not. Other windows give up their oldest keys instead. Lines that may yet go away as a
 * whole, with their clock, are left alone, and so are pages with nothing to expire.
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

/* What FreezeInPlace() makes of the tags of a main page. */
struct Freezing
{
	Tag tags[kMainArea.tags + 1];    /* from 1 on, as LoadTag() counts */
	unsigned to[kMainArea.tags + 1]; /* the tag that the entries of a tag get */
	bool used[kMainArea.tags + 1];
	uint64 settled; /* the newest transaction whose entries are frozen, or kNoXid */
};

} /* namespace */

/*
 * Plans what Settle() does where it only freezes: transactions are running, or committed for
 * all, and no entry leaves. Returns false if there is more to do.
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

/* Whether another entry of a key, whose tag may be unchecked yet, is or will be frozen. */
static bool
IsFrozenTwice(const uint8_t *page, const Freezing &plan, unsigned place, const Entry &entry)
{
	return VisitKey(page, kMainArea, entry.line, entry.rest, [&](unsigned at, const Entry &other) {
		return at != place && other.tag <= kMainArea.tags &&
			   plan.tags[plan.to[other.tag]].xid == kFrozen;
	});
}

/*
 * Settles a main page that has only to free its tags, which is what happens most where
 * transactions add a few keys each: changes their bytes, and copies nothing. Returns false, and
 * changes nothing, if there is more to do.
 */
static bool
FreezeInPlace(const LiveFilter &filter, const HeldPage &main)
{
	const uint8_t *page = main.bytes;
	const uint8_t epoch = page[kEpochAt];
	const bool is_set = !filter.parameters.geometry.forgets;
	Freezing plan;
	uint64 rests[16] = {}; /* bits of entries that are or will be frozen, by some of their rest */
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
 * Settles a page of the chain, which is held, as is `before`, the page that points to it. A
 * page that becomes empty leaves the chain: the page before it then points past it.
 */
static void
SettleChained(Settlement *s, const HeldPage &before, const HeldPage &page)
{
	const LiveFilter &filter = *s->filter;
	const bool is_first = before.block == s->main.block;
	PGAlignedBlock page_scratch;
	uint8_t *copy = (uint8_t *) page_scratch.data;
	Settled settled = {};
	bool empty;

	Assert(NextOf(before.bytes) == page.block && IsChainedTo(page.bytes, s->main.bytes));
	memcpy(s->scratch, s->main.bytes, BLCKSZ);
	memcpy(copy, page.bytes, BLCKSZ);
	SettleScratch(filter, page, s->scratch, copy, true, &settled);
	MoveFrozen(s->scratch, copy);
	empty = CountEntries(copy, kOverflowArea) == 0 && s->freed_count < (int) lengthof(s->freed);
	SetEarly(s->scratch, EarlyOf(s->scratch) + settled.early);
	s->early += settled.early;

	StartChange();
	if (empty)
	{
		FreePage(copy);
		if (is_first)
			SetNext(s->scratch, NextOf(page.bytes));
		/* A chain changes under the main page's lock, on a standby too. */
		ChangeWith(s->main);
	}
	if (memcmp(s->scratch, s->main.bytes, BLCKSZ) != 0)
		ChangeToScratch(s->main, s->scratch);
	if (empty && !is_first)
		ChangeBytes(before, kNextAt, page.bytes + kNextAt, kNextBytes);
	if (memcmp(copy, page.bytes, BLCKSZ) != 0)
	{
		ChangeToScratch(page, copy);
		MakeChange(filter);
		s->changes = true;
	}
	if (empty)
		s->freed[s->freed_count++] = page.block;
}

void
RecordFreeOverflowPage(const LiveFilter &filter, BlockNumber block)
{
	RecordFreeIndexPage(filter.rel, block);
	/* So that a search finds it at once. */
	FreeSpaceMapVacuumRange(filter.rel, block, block + 1);
}

bool
SettlePage(const LiveFilter &filter, const HeldPage &main, bool fold)
{
	PGAlignedBlock scratch;
	Settlement s;
	BlockNumber *chain;
	int length;

	Assert(KindOf(main.bytes) == Kind::kMain && IsHeld(main, true));
	s.filter = &filter;
	s.main = main;
	s.scratch = (uint8_t *) scratch.data;
	s.early = 0;
	s.changes = false;
	s.freed_count = 0;
	if (!fold && NextClock(filter, main.bytes) == 0 && FreezeInPlace(filter, main))
		s.changes = true;
	else
		SettleMain(&s, fold);

	/* The chain, from its tail on, where the oldest entries are. */
	chain = ReadChain(filter, main, &length);
	for (int i = length - 1; i >= 0; i--)
	{
		HeldPage before = main;
		HeldPage page;

		if (i > 0)
			HoldChained(filter, main, chain[i - 1], &before);
		HoldChained(filter, main, chain[i], &page);
		SettleChained(&s, before, page);
		ReleasePage(page);
		if (i > 0)
			ReleasePage(before);
	}
	if (chain != NULL)
		pfree(chain);
	for (int i = 0; i < s.freed_count; i++)
		RecordFreeOverflowPage(filter, s.freed[i]);
	if (s.early > 0)
		NoteLiveEarly(filter, s.early);
	return s.changes;
}

bool
CanSettlePage(const LiveFilter &filter, const uint8_t *page)
{
	const AreaShape &area = AreaOf(page);
	const uint64 before = SeenByAllBefore(filter);

	if (NextClock(filter, page) != 0)
		return true;
	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		const Tag value = LoadTag(page, tag);
		const uint64 xid = value.xid;

		if (xid == kNoXid)
			continue;
		if (JudgeXid(filter, BlockOf(page), xid, before) != Verdict::kKeep &&
			(xid != kFrozen || filter.parameters.geometry.forgets))
			return true;
		if (FateOf(filter, BlockOf(page), value).what != TagFate::Stays)
			return true;
	}
	return false;
}
