/*
 * Settling: what becomes of entries whose transactions have ended; and putting new ones
 * into a page or its chain, which settles it where there is no room.
 */
#include "live/store/store.hpp"

extern "C" {
#include "access/subtrans.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
}

using dedup::StoreU32;
using namespace dedup::live;

/* ---- transactions ----------------------------------------------------------- */

uint64
WideXid(TransactionId xid)
{
	static TransactionId last = InvalidTransactionId;
	static uint64 last_wide;

	if (xid != last)
	{
		uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
		uint64 wide = (next & ~(uint64) PG_UINT32_MAX) | xid;

		/* It may be the next one itself: the xmin of a snapshot with nobody running. */
		if (wide > next)
			wide -= (uint64) 1 << 32;
		last_wide = wide;
		last = xid;
	}
	return last_wide;
}

/* Whether every snapshot, of dumps too, sees what this committed transaction did. */
static bool
SeenByAll(Relation rel, TransactionId xid)
{
#if PG_VERSION_NUM >= 140000
	return GlobalVisCheckRemovableXid(rel, xid);
#else
	return TransactionIdPrecedes(xid, GetOldestXmin(rel, PROCARRAY_FLAGS_VACUUM));
#endif
}

uint64 live_xids_from;
uint64 live_xids_to;

bool
LookUpPossibleXids(uint64 wide)
{
#if PG_VERSION_NUM >= 170000
	const TransactionId oldest = TransamVariables->oldestClogXid;
#else
	const TransactionId oldest = ShmemVariableCache->oldestClogXid;
#endif

	live_xids_to = U64FromFullTransactionId(ReadNextFullTransactionId());
	live_xids_from = live_xids_to - (uint32) ((TransactionId) live_xids_to - oldest);
	return wide >= live_xids_from && wide < live_xids_to;
}

Verdict
JudgeXid(const LiveFilter &filter, BlockNumber block, uint64 wide)
{
	TransactionId xid = (TransactionId) wide;

	if (wide == kFrozen)
		return Verdict::kCommitted;
	CheckPageXid(filter, block, wide);
	if (TransactionIdIsCurrentTransactionId(xid) || TransactionIdIsInProgress(xid))
		return Verdict::kKeep;
	if (!TransactionIdDidCommit(xid))
		return Verdict::kAborted;
	return SeenByAll(filter.rel, xid) ? Verdict::kCommitted : Verdict::kKeep;
}

/*
 * The nearest ancestor of a subtransaction of ours that is still running: itself, if it
 * is. `current` is the innermost that has an id.
 */
static TransactionId
NearestRunning(TransactionId ended, TransactionId current)
{
	/* Parents have smaller ids than their children, so the two walks up meet there. */
	while (TransactionIdIsValid(ended) && TransactionIdIsValid(current) && ended != current)
	{
		if (TransactionIdFollows(ended, current))
			ended = SubTransGetParent(ended);
		else
			current = SubTransGetParent(current);
	}
	return ended == current ? ended : InvalidTransactionId;
}

uint64
HeirOf(uint64 wide)
{
	const TransactionId xid = (TransactionId) wide;
	const TransactionId current = GetCurrentTransactionIdIfAny();
	TransactionId heir;

	if (wide == kNoXid || wide == kFrozen || !TransactionIdIsValid(current) || xid == current ||
		!TransactionIdIsCurrentTransactionId(xid))
		return wide;
	heir = NearestRunning(xid, current);
	return TransactionIdIsValid(heir) && heir != xid ? WideXid(heir) : wide;
}

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
	bool any = false;

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		uint64 xid = LoadTag(page, tag).xid;

		if (xid == kNoXid)
			continue;
		verdicts[tag] = JudgeXid(filter, BlockOf(page), xid);
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

/* Locks a page of a main page's chain. */
static void
HoldChained(const LiveFilter &filter, const HeldPage &main, BlockNumber block, HeldPage *page)
{
	if (!HoldPage(filter, block, Kind::kOverflow, BUFFER_LOCK_EXCLUSIVE, page) ||
		OwnerOf(page->bytes) != main.block)
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

/* Settles the main page itself. */
static void
SettleMain(Settlement *s, bool fold)
{
	const LiveFilter &filter = *s->filter;
	Settled settled = {};

	memcpy(s->scratch, s->main.bytes, BLCKSZ);
	SettleLoader(filter, s->scratch);
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

	Assert(NextOf(before.bytes) == page.block && OwnerOf(page.bytes) == s->main.block);
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

/* ---- putting an entry ----------------------------------------------------------- */

namespace
{

/* Fewer keys than these do not get an overflow page of their own. */
constexpr int FEW_KEYS = 64;

/* An entry that is to be put into a page or its chain. */
struct NewEntry
{
	Tag tag;
	unsigned line;
	uint64 rest;
	bool forgotten;
};

/*
 * What is logged together with putting an entry: changed copies of the main page and of an
 * overflow page. Null: they do not change.
 */
struct Along
{
	uint8_t *main;
	const HeldPage *page;
	const uint8_t *copy;
};

} /* namespace */

static inline bool
PutInto(uint8_t *page, const AreaShape &area, const NewEntry &entry)
{
	return PutEntry(page, area, entry.tag, entry.line, entry.rest, entry.forgotten);
}

/* As PutEntry(), on a page itself: a change of one or two short fragments. */
static bool
PutDirectly(const LiveFilter &filter, const HeldPage &page, const NewEntry &put)
{
	const Tag &tag = put.tag;
	const AreaShape &area = AreaOf(page.bytes);
	const TagChoice choice = ChooseTag(page.bytes, area, tag);
	const int place = choice.tag == 0 ? -1 : PlaceFor(page.bytes, area, put.line, put.rest);
	uint8_t entry[8];
	uint8_t turn;

	if (place < 0)
		return false;
	StartChange();
	if (!choice.found)
	{
		uint8_t bytes[kTagBytes];

		PackTag(bytes, tag);
		ChangeBytes(page, TagAt(choice.tag), bytes, sizeof bytes);
	}
	dedup::StoreU64(entry,
					PackEntry({choice.tag, page.bytes[kTurnAt], put.line, put.forgotten, put.rest},
							  page.bytes[kEpochAt]));
	ChangeBytes(page, EntryAt(area, (unsigned) place), entry, sizeof entry);
	turn = TurnBehind(page.bytes, area, put.rest);
	if (turn != page.bytes[kTurnAt])
		ChangeBytes(page, kTurnAt, &turn, 1);
	MakeChange(filter);
	return true;
}

/* Whether some tag of the page can be settled, by one look at each. */
static bool
CanSettle(const LiveFilter &filter, const uint8_t *page)
{
	const AreaShape &area = AreaOf(page);

	for (unsigned tag = 1; tag <= area.tags; tag++)
	{
		const Tag value = LoadTag(page, tag);
		const uint64 xid = value.xid;

		if (xid == kNoXid)
			continue;
		if (JudgeXid(filter, BlockOf(page), xid) != Verdict::kKeep &&
			(xid != kFrozen || filter.parameters.geometry.forgets))
			return true;
		if (FateOf(filter, BlockOf(page), value).what != TagFate::Stays)
			return true;
	}
	return false;
}

/* Starts a change with those of the pages that change along. */
static void
StartChangeAlong(const HeldPage &main, const Along &along)
{
	StartChange();
	ChangeToScratch(main, along.main);
	if (along.page != NULL)
		ChangeToScratch(*along.page, along.copy);
}

/* Puts an entry into the main page, which is settled if it has no room. */
static bool
PutIntoMain(const LiveFilter &filter, const HeldPage &main, const Along &along,
			const NewEntry &entry)
{
	if (along.main != NULL)
	{
		if (!PutInto(along.main, kMainArea, entry))
			return false;
		StartChangeAlong(main, along);
		MakeChange(filter);
		return true;
	}
	if (PutDirectly(filter, main, entry))
		return true;
	if (!CanSettle(filter, main.bytes))
		return false;
	SettlePage(filter, main, false);
	if (PutDirectly(filter, main, entry))
		return true;
	/* Freeing tags was not enough, or the key's lines of the area are full. */
	SettlePage(filter, main, true);
	return PutDirectly(filter, main, entry);
}

/* Puts an entry into an overflow page. */
static bool
PutIntoOverflow(const LiveFilter &filter, const HeldPage &main, const Along &along,
				const HeldPage &overflow, const NewEntry &entry)
{
	PGAlignedBlock block;
	uint8_t *copy = (uint8_t *) block.data;

	if (along.main == NULL)
		return PutDirectly(filter, overflow, entry);
	memcpy(copy, overflow.bytes, BLCKSZ);
	if (!PutInto(copy, kOverflowArea, entry))
		return false;
	StartChangeAlong(main, along);
	ChangeToScratch(overflow, copy);
	MakeChange(filter);
	return true;
}

/* Puts an entry into the first overflow page with room that does not change along. */
static bool
PutIntoChain(const LiveFilter &filter, const HeldPage &main, const Along &along,
			 const NewEntry &entry)
{
	BlockNumber next = NextOf(main.bytes);

	while (next != 0)
	{
		HeldPage overflow;
		bool done;

		if (along.page != NULL && next == along.page->block)
		{
			next = NextOf(along.page->bytes);
			continue;
		}
		HoldChained(filter, main, next, &overflow);
		next = NextOf(overflow.bytes);
		done = PutIntoOverflow(filter, main, along, overflow, entry);
		ReleasePage(overflow);
		if (done)
			return true;
	}
	return false;
}

/* Puts entries into a new overflow page, at the chain's head. Returns how many fit: one at least.
 */
static int
PutIntoNewPage(const LiveFilter &filter, const HeldPage &main, const Along &along,
			   const NewEntry *entries, int count)
{
	HeldPage overflow;
	PGAlignedBlock fresh;
	uint8_t *copy = (uint8_t *) fresh.data;
	int put = 0;

	HoldNewOverflowPage(filter, &overflow);
	memcpy(copy, overflow.bytes, BLCKSZ);
	InitPage(copy, Kind::kOverflow, overflow.block, filter.parameters.geometry.layout, main.block);
	SetNext(copy, NextOf(main.bytes));
	while (put < count && PutInto(copy, kOverflowArea, entries[put]))
		put++;
	if (put == 0)
		elog(ERROR, "no room in an empty overflow page");
	if (along.main != NULL)
	{
		SetNext(along.main, overflow.block);
		StartChangeAlong(main, along);
	}
	else
	{
		uint8_t link[kNextBytes];

		StartChange();
		StoreU32(link, overflow.block);
		ChangeBytes(main, kNextAt, link, sizeof link);
	}
	ChangeToScratch(overflow, copy);
	LogWhole(overflow);
	MakeChange(filter);
	ReleasePage(overflow);
	return put;
}

static void
PutAnywhere(const LiveFilter &filter, const HeldPage &main, const Along &along,
			const NewEntry &entry)
{
	Assert(KindOf(main.bytes) == Kind::kMain && IsHeld(main, true));
	Assert(entry.tag.xid != kNoXid && entry.line < kLines && entry.rest >> kRestBits == 0);
	Assert(filter.parameters.geometry.layout.timed || entry.tag.generation == 0);
	Assert(entry.forgotten || entry.tag.base == 0);
	if (!PutIntoMain(filter, main, along, entry) && !PutIntoChain(filter, main, along, entry))
		(void) PutIntoNewPage(filter, main, along, &entry, 1);
}

void
PutKey(const LiveFilter &filter, const HeldPage &main, uint8_t *scratch, const Tag &tag,
	   unsigned line, uint64 rest, bool forgotten)
{
	PutAnywhere(filter, main, {scratch, NULL, NULL}, {tag, line, rest, forgotten});
}

void
MoveKey(const LiveFilter &filter, const HeldPage &main, const HeldPage &from, const uint8_t *copy,
		const Tag &tag, unsigned line, uint64 rest, bool forgotten)
{
	PGAlignedBlock block;
	uint8_t *scratch = (uint8_t *) block.data;

	Assert(from.block != main.block && IsHeld(from, true));
	memcpy(scratch, main.bytes, BLCKSZ);
	PutAnywhere(filter, main, {scratch, &from, copy}, {tag, line, rest, forgotten});
}

void
PutKeys(const LiveFilter &filter, const HeldPage &main, const Tag &tag, const Address *keys,
		int count)
{
	PGAlignedBlock block;
	uint8_t *scratch = (uint8_t *) block.data;
	NewEntry entries[kMaxEntries];
	int put = 0;

	if (CountEntries(main.bytes, kMainArea) + (unsigned) count > kMainArea.lines * kEntriesPerLine)
		SettlePage(filter, main, true);
	memcpy(scratch, main.bytes, BLCKSZ);
	while (put < count && PutEntry(scratch, kMainArea, tag, keys[put].line, keys[put].rest, false))
		put++;
	if (put > 0)
	{
		StartChange();
		ChangeToScratch(main, scratch);
		MakeChange(filter);
	}
	while (put < count)
	{
		const int some = Min(count - put, (int) lengthof(entries));

		for (int i = 0; i < some; i++)
			entries[i] = {tag, keys[put + i].line, keys[put + i].rest, false};
		/* A few may find room in the chain. */
		if (some < FEW_KEYS)
		{
			PutKey(filter, main, NULL, tag, keys[put].line, keys[put].rest, false);
			put++;
		}
		else
			put += PutIntoNewPage(filter, main, {}, entries, some);
	}
}
