/*
 * Adds new entries to a main page or its chain. If there is no room, the page is settled first.
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
	/* The search meets existing entries of the key before the first free place. */
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

/* Stores the words of a tag and their offsets in the page. Returns the number of words. */
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

/* ---- adding an entry to a page or its chain ------------------------------------- */

namespace
{

/* Fewer keys than this do not get a new overflow page while the plain pages have room. */
constexpr int FEW_KEYS = 64;

/* An entry to add to a page or its chain. */
struct NewEntry
{
	Tag tag;
	unsigned line;
	uint64 rest;
	bool forgotten;
};

/*
 * Changes that are logged together with a new entry: changed copies of the main page and of an
 * overflow page. Null means that the page does not change.
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

/* Adds an entry to the page itself. The change consists of a few short fragments. */
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

/* Starts a change that contains the changed copies in `along`. */
static void
StartChangeAlong(const HeldPage &main, const Along &along)
{
	StartChange();
	ChangeToScratch(main, along.main);
	if (along.page != NULL)
		ChangeToScratch(*along.page, along.copy);
}

/*
 * Calls CountToSplit() for one key in 32. If nothing can be settled, keys go to the chain one by
 * one, and counting for each of them would be too slow.
 */
static void
CountSomeToSplit(const LiveFilter &filter, const HeldPage &main, uint64 rest)
{
	if (rest % 32 == 0)
		CountToSplit(filter, main);
}

/* Adds an entry to the main page. Settles the page if it has no room. Returns whether it fits. */
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
	/* Either no tag became free, or the key's lines of the area are still full. */
	SettleNear(filter, main, true, entry.rest);
	return PutDirectly(filter, main, entry);
}

/* Adds an entry to an overflow page. Returns false if the page is full. */
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

/* The pages that a search for room has met. */
struct FullPages
{
	int count;       /* number of overflow pages */
	bool can_settle; /* the filter has fans, and a full page can be settled */
	BlockNumber fan; /* the fan behind the pages, or 0 */
};

} /* namespace */

/*
 * Adds an entry to the first overflow page that has room. Starts at the page `next` and follows
 * the links: through plain pages, or, if `in_fan`, through the pages of a leaf. Skips the page
 * that `along` changes. Returns false if no page has room.
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

/* Adds an entry to its leaf of a fan. */
static void
PutIntoFan(const LiveFilter &filter, const HeldPage &main, const Along &along,
		   const NewEntry &entry, BlockNumber fan)
{
	/* Settling changes the main page. It must not run if `along` has a copy of that page. */
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

/*
 * Adds entries to a new overflow page at the head of the chain. Returns the number of entries that
 * fit, at least one.
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
	/* Settle before there are too many plain pages. */
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

/* Adds keys to a page while it has room. Removes the added keys from the list. */
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
			/* No key fits without a tag. A small area has room for any key until it is full. */
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

/* Adds the first keys of the list to a new overflow page. Returns the number of added keys. */
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

/* Adds keys to their leaves of a fan. */
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
		int here = 0; /* number of keys that belong to this leaf */
		int left = 0; /* number of those keys for which it has no room */
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
		/* Keep the keys without room, and the keys of the other leaves. */
		memmove(keys + left, keys + here, (count - here) * sizeof(Address));
		count -= here - left;
	}
}

/*
 * Adds keys to the plain pages of a chain. The first page is the newest. The pages behind it are
 * searched for room only if few keys are left. Returns true if the filter has fans and a full page
 * can be settled.
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
		/* Settle before there are too many plain pages. */
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
