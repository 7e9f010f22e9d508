/*
 * Putting new entries into a main page or its chain, which is settled where there is no room.
 */
#include <algorithm>

#include "live/store/store.hpp"

using dedup::LoadU64;
using dedup::StoreU32;
using namespace dedup::live;

/* ---- entries of one page -------------------------------------------------------- */

void
StartEntries(NewEntries *entries, const HeldPage &page, const Tag &tag, bool is_new)
{
	entries->page = page;
	entries->area = &AreaOf(page.bytes);
	entries->tag = tag;
	entries->choice = ChooseTag(page.bytes, *entries->area, tag, is_new);
	entries->turn = page.bytes[kTurnAt];
	entries->count = 0;
	memset(entries->taken, 0, sizeof(uint64) * (entries->area->lines * kEntriesPerLine / 64 + 1));
}

EntryAdded
AddEntry(NewEntries *entries, unsigned line, uint64 rest, bool forgotten)
{
	const uint8_t *page = entries->page.bytes;
	const uint64 key = KeyOf(line, rest);
	bool before = false;
	int place;

	if (entries->choice.tag == 0 || entries->count == kMostNewEntries)
		return EntryAdded::NoRoom;
	/* Entries of the key come before the first free place. */
	place = PlaceWhere(page, *entries->area, line, rest, [&](unsigned at) {
		if ((entries->taken[at / 64] >> at % 64 & 1) == 0)
			return true;
		before = before || KeyOf(entries->packed[at]) == key;
		return before;
	});
	if (before || place < 0)
		return before ? EntryAdded::Before : EntryAdded::NoRoom;
	entries->taken[place / 64] |= (uint64) 1 << place % 64;
	entries->places[entries->count++] = (uint16) place;
	entries->packed[place] =
		PackEntry({entries->choice.tag, entries->turn, line, forgotten, rest}, page[kEpochAt]);
	entries->turn = TurnBehind(entries->turn, *entries->area, rest);
	return EntryAdded::Yes;
}

/* The words of a tag, and where they belong. Returns how many. */
static inline int
TagWords(unsigned place, const Tag &tag, uint16 *offsets, uint64 *words)
{
	uint8_t bytes[kTagBytes];
	int count = 0;

	PackTag(bytes, tag);
	for (size_t at = 0; at < kTagBytes; at += 8)
	{
		offsets[count] = (uint16) (TagAt(place) + at);
		words[count++] = LoadU64(bytes + at);
	}
	return count;
}

void
ChangeEntries(const NewEntries &entries)
{
	const HeldPage &page = entries.page;
	uint16 offsets[kMostNewEntries + kTagBytes / 8];
	uint64 words[kMostNewEntries + kTagBytes / 8];
	int count = 0;

	Assert(entries.count > 0);
	if (!entries.choice.found)
		count = TagWords(entries.choice.tag, entries.tag, offsets, words);
	for (int i = 0; i < entries.count; i++)
	{
		offsets[count] = (uint16) EntryAt(*entries.area, entries.places[i]);
		words[count++] = entries.packed[entries.places[i]];
	}
	ChangeWords(page, offsets, words, count);
	if (entries.turn != page.bytes[kTurnAt])
		ChangeByte(page, kTurnAt, entries.turn);
}

/* ---- an entry into a page or its chain ------------------------------------------ */

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

/* As PutInto(), on a page itself: a change of one or two short fragments. */
static bool
PutDirectly(const LiveFilter &filter, const HeldPage &page, const NewEntry &put)
{
	const AreaShape &area = AreaOf(page.bytes);
	const TagChoice choice = ChooseTag(page.bytes, area, put.tag);
	const int place = PlaceFor(page.bytes, area, put.line, put.rest);
	const uint8_t turn = page.bytes[kTurnAt];
	const uint8_t turn_behind = TurnBehind(turn, area, put.rest);
	uint16 offsets[1 + kTagBytes / 8];
	uint64 words[1 + kTagBytes / 8];
	int count = 0;

	if (choice.tag == 0 || place < 0)
		return false;
	if (!choice.found)
		count = TagWords(choice.tag, put.tag, offsets, words);
	offsets[count] = (uint16) EntryAt(area, (unsigned) place);
	words[count++] =
		PackEntry({choice.tag, turn, put.line, put.forgotten, put.rest}, page.bytes[kEpochAt]);
	StartChange();
	ChangeWords(page, offsets, words, count);
	if (turn_behind != turn)
		ChangeByte(page, kTurnAt, turn_behind);
	MakeChange(filter);
	return true;
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

/*
 * Where nothing can be settled, the keys go to the chain one by one: it is enough to count them
 * now and then.
 */
static void
CountSomeToSplit(const LiveFilter &filter, const HeldPage &main, uint64 rest)
{
	if (rest % 32 == 0)
		CountToSplit(filter, main);
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
	if (!CanSettlePage(filter, main.bytes))
	{
		CountSomeToSplit(filter, main, entry.rest);
		return false;
	}
	SettleNear(filter, main, false, entry.rest);
	CountToSplit(filter, main);
	if (PutDirectly(filter, main, entry))
		return true;
	/* Freeing tags was not enough, or the key's lines of the area are full. */
	SettleNear(filter, main, true, entry.rest);
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

namespace
{

/* What there was where an entry found no room. */
struct FullPages
{
	int count;       /* of overflow pages */
	bool can_settle; /* some of them, in a filter that has fans */
	BlockNumber fan; /* behind them, or 0 */
};

} /* namespace */

/*
 * Puts an entry into the first overflow page with room that does not change along: of those that
 * follow each other from one on, plain pages or (`in_fan`) those of a leaf.
 */
static bool
PutIntoRun(const LiveFilter &filter, const HeldPage &main, const Along &along,
		   const NewEntry &entry, BlockNumber next, bool in_fan, FullPages *full)
{
	uint32 steps = 0;
	bool done = false;

	*full = {0, false, 0};
	while (next != 0 && !done && full->fan == 0)
	{
		HeldPage page;

		if (along.page != NULL && next == along.page->block)
		{
			next = NextOf(along.page->bytes);
			full->count++;
			continue;
		}
		HoldStepOfKey(filter, main, next, in_fan, entry.rest, BUFFER_LOCK_EXCLUSIVE, &steps, &page);
		next = NextOf(page.bytes);
		if (IsFan(page.bytes))
			full->fan = page.block;
		else
		{
			done = PutIntoOverflow(filter, main, along, page, entry);
			full->count++;
			if (!done && HasFans(filter) && CanSettleChained(filter, main.bytes, page.bytes))
				full->can_settle = true;
		}
		ReleasePage(page);
	}
	return done;
}

/* Puts an entry into its leaf of a fan. */
static void
PutIntoFan(const LiveFilter &filter, const HeldPage &main, const Along &along,
		   const NewEntry &entry, BlockNumber fan)
{
	/* What is settled changes the main page, of which there may be a changed copy already. */
	bool settled = along.main != NULL;
	FullPages full;

	while (
		!PutIntoRun(filter, main, along, entry, LeafOf(filter, main, fan, entry.rest), true, &full))
	{
		if (!settled && full.can_settle)
			(void) SettleLeaf(filter, main, fan, entry.rest);
		else
			(void) MakeLeafRoom(filter, main, fan, entry.rest);
		settled = true;
	}
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

	HoldNewPage(filter, &overflow);
	memcpy(copy, overflow.bytes, BLCKSZ);
	InitOverflowPage(copy, overflow.block, filter.parameters.geometry.layout, main.bytes);
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

	FullPages full;
	BlockNumber fan;

	if (PutIntoMain(filter, main, along, entry) ||
		PutIntoRun(filter, main, along, entry, NextOf(main.bytes), false, &full))
		return;
	/* Before the plain pages become too many. */
	if (along.main == NULL && full.can_settle && (full.fan != 0 || full.count >= kMostPlain))
	{
		SettleNear(filter, main, true, entry.rest);
		if (PutDirectly(filter, main, entry) ||
			PutIntoRun(filter, main, along, entry, NextOf(main.bytes), false, &full))
			return;
	}
	fan = full.fan;
	if (along.main == NULL && full.count > 0)
		fan = FanForMore(filter, main);
	if (fan != 0)
		PutIntoFan(filter, main, along, entry, fan);
	else
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

/* Puts those of the keys into a page that it has room for, and takes them off the list. */
static void
PutSome(const LiveFilter &filter, const HeldPage &page, const Tag &tag, Address *keys, int *count)
{
	int done = 0;
	int left = 0;

	while (done < *count)
	{
		NewEntries entries;

		StartEntries(&entries, page, tag);
		for (; done < *count && entries.count < kMostNewEntries; done++)
		{
			if (AddEntry(&entries, keys[done].line, keys[done].rest, false) != EntryAdded::NoRoom)
				continue;
			keys[left++] = keys[done];
			/* Any place of a small area would do. It is full, or has no tag. */
			if (entries.choice.tag == 0 || entries.area->lines <= kProbeLines)
				while (++done < *count)
					keys[left++] = keys[done];
		}
		if (entries.count > 0)
		{
			StartChange();
			ChangeEntries(entries);
			MakeChange(filter);
		}
	}
	*count = left;
}

/* Puts keys into a new overflow page. Returns how many of the first ones. */
static int
PutFirst(const LiveFilter &filter, const HeldPage &main, const Tag &tag, const Address *keys,
		 int count)
{
	NewEntry entries[kMaxEntries];
	const int some = Min(count, (int) lengthof(entries));

	for (int i = 0; i < some; i++)
		entries[i] = {tag, keys[i].line, keys[i].rest, false};
	return PutIntoNewPage(filter, main, {}, entries, some);
}

/* Puts keys into their leaves of a fan. */
static void
PutIntoLeaves(const LiveFilter &filter, const HeldPage &main, const Tag &tag, Address *keys,
			  int count, BlockNumber fan)
{
	bool settled = false;

	std::sort(keys, keys + count, [](const Address &left, const Address &right) {
		return FanSlotOf(left.rest) < FanSlotOf(right.rest);
	});
	while (count > 0)
	{
		const uint64 rest = keys[0].rest;
		KeyWalk walk = {LeafOf(filter, main, fan, rest), true, 0};
		int here = 0; /* keys of this leaf */
		int left = 0; /* without room in it */
		bool can_settle = false;
		HeldPage page;

		while (HoldNextOfKey(filter, main, rest, BUFFER_LOCK_EXCLUSIVE, &walk, &page))
		{
			if (here == 0)
			{
				while (here < count && HasSlotOf(SlotsOfLeaf(page.bytes), keys[here].rest))
					here++;
				left = here;
			}
			PutSome(filter, page, tag, keys, &left);
			can_settle = can_settle || CanSettleChained(filter, main.bytes, page.bytes);
			ReleasePage(page);
			if (left == 0)
				break;
		}
		if (here == 0 || left > 0)
		{
			if (!settled && can_settle)
				(void) SettleLeaf(filter, main, fan, rest);
			else
				(void) MakeLeafRoom(filter, main, fan, rest);
		}
		settled = left > 0;
		/* Those that are left, and the others. */
		memmove(keys + left, keys + here, (count - here) * sizeof(Address));
		count -= here - left;
	}
}

/*
 * Puts keys into the plain pages of a chain. The newest page is the first. Only a few keys are
 * worth a search for room behind it. Returns whether a page that is full can be settled, in a
 * filter that has fans.
 */
static bool
PutIntoPlain(const LiveFilter &filter, const HeldPage &main, const Tag &tag, Address *keys,
			 int *count)
{
	BlockNumber next = NextOf(main.bytes);
	bool can_settle = false;

	for (bool first = true; next != 0 && *count > 0 && (first || *count < FEW_KEYS); first = false)
	{
		HeldPage page;

		HoldInChain(filter, main, next, BUFFER_LOCK_EXCLUSIVE, &page);
		next = NextOf(page.bytes);
		if (!IsFan(page.bytes))
		{
			PutSome(filter, page, tag, keys, count);
			if (*count > 0 && HasFans(filter) && CanSettleChained(filter, main.bytes, page.bytes))
				can_settle = true;
		}
		ReleasePage(page);
	}
	return can_settle;
}

void
PutKeys(const LiveFilter &filter, const HeldPage &main, const Tag &tag, Address *keys, int count)
{
	BlockNumber fan;

	PutSome(filter, main, tag, keys, &count);
	if (count > 0 && CanSettlePage(filter, main.bytes))
	{
		SettleNear(filter, main, false, keys[0].rest);
		CountToSplit(filter, main);
		PutSome(filter, main, tag, keys, &count);
		if (count > 0)
		{
			SettleNear(filter, main, true, keys[0].rest);
			PutSome(filter, main, tag, keys, &count);
		}
	}
	if (PutIntoPlain(filter, main, tag, keys, &count) && count > 0 &&
		PlainPagesOf(filter, main).count >= kMostPlain)
	{
		/* Before the plain pages become too many. */
		SettleNear(filter, main, true, keys[0].rest);
		PutSome(filter, main, tag, keys, &count);
		(void) PutIntoPlain(filter, main, tag, keys, &count);
	}
	if (count == 0)
		return;
	CountToSplit(filter, main);
	fan = FanForMore(filter, main);
	if (fan != 0)
	{
		PutIntoLeaves(filter, main, tag, keys, count, fan);
		return;
	}
	while (count > 0)
	{
		const int put = PutFirst(filter, main, tag, keys, count);

		keys += put;
		count -= put;
	}
}
