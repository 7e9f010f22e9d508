/*
 * Forgets a key of a live filter, or takes back a key that was added.
 *
 * Both find the key's entry under the exclusive lock of its main page (its chain only changes under
 * that lock, too), decide, and change one to three pages.
 *
 * A key that this transaction forgets is present again if the forgetting subtransaction rolls back.
 * So a key that an enclosing subtransaction has added, or loaded, stays in an entry that names both
 * (core/page.hpp). A key of the same subtransaction is taken back.
 */
#include "live/keys.hpp"

using namespace dedup::live;

namespace
{

/* An entry of a key that is present or in flight, in a main page or its chain. */
struct FoundEntry
{
	BlockNumber block; /* of its page */
	bool in_leaf;      /* of a fan */
	unsigned place;
	uint32 generation;
	EntryView view; /* Present or InFlight */
	Tag tag;        /* the entry's tag after the key is forgotten */
	unsigned mine;  /* the number of that tag in its page, or of a free one, or 0 */
};

/* The ways to forget a key. */
enum class Way
{
	Nothing,  /* it is not there */
	TakeBack, /* an entry that this subtransaction has added */
	Mark,     /* an entry gets the tag of the forgetting transaction */
	Move,     /* the same, in another page, because no tag is free in this one */
	Unfold,   /* a fingerprint is removed from its line */
	Wait,     /* another transaction has the key in flight */
	Settle    /* no tag is free, in a page that was not settled */
};

struct Decision
{
	Way way;
	TransactionId wait_for;
};

/* A key that is to be forgotten by a subtransaction, the current one or an enclosing one. */
struct Forgotten
{
	Address address;
	uint64 own;
	LiveSights sights; /* that are meant, in a window of time */
};

} /* namespace */

/* ---- finding ---------------------------------------------------------------------- */

/* Whether a sight of the key in a generation is one that is to be forgotten. */
static bool
IsMeant(const LiveFilter &filter, const Forgotten &key, uint32 generation)
{
	return filter.parameters.ttl == 0 ||
		   (generation >= key.sights.from && generation <= key.sights.to);
}

/* Whether the subtransaction that has added a key is, by now, the one that forgets it. */
static bool
SameLevel(uint64 since, uint64 own)
{
	return since != kFrozen && HeirOf(since) == HeirOf(own);
}

/* Finds the last entry by which the key is there, or else one that is in flight. */
static bool
FindEntry(const LiveFilter &filter, const HeldPage &main, const Forgotten &key, FoundEntry *found)
{
	const bool timed = filter.parameters.ttl != 0;
	bool any = false;

	VisitPagesOf(filter, main, key.address.rest, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, key.address.line, key.address.rest,
						[&](unsigned place, const Entry &entry) {
							if (entry.tag > area.tags)
								ReportBadPage(filter.rel, page.block,
											  "An entry has no transaction.");

							const Tag tag = LoadTag(page.bytes, entry.tag);
							const EntryView view = ViewEntry(filter, page.bytes, entry, tag);
							const uint64 since = view.since;
							const TransactionId base = since == kFrozen ? 0 : (TransactionId) since;

							if (view.side == Side::Absent || (any && view.side == Side::InFlight) ||
								!IsMeant(filter, key, tag.generation) ||
								(any && found->view.side == Side::Present &&
								 tag.generation <= found->generation))
								return false;
							any = true;
							*found = {page.block, page.block != main.block && IsLeaf(page.bytes),
									  place,      tag.generation,
									  view,       {},
									  0};
							found->tag = {key.own, tag.generation, base};
							found->mine = ChooseTag(page.bytes, area, found->tag).tag;
							return !timed && view.side == Side::Present;
						});
	});
	return any;
}

/* ---- deciding --------------------------------------------------------------------- */

/* Decides how to forget a key with the entry that was found. */
static Decision
DecideOnEntry(const FoundEntry &found, const Forgotten &key, bool settled)
{
	if (found.view.side == Side::InFlight)
		return {Way::Wait, found.view.other};
	if (SameLevel(found.view.since, key.own))
		return {Way::TakeBack, InvalidTransactionId};
	if (found.mine != 0)
		return {Way::Mark, InvalidTransactionId};
	return {settled ? Way::Move : Way::Settle, InvalidTransactionId};
}

/* Whether the line of a key has a sight of it that is to be forgotten, and of which generation. */
static bool
LineHasKey(const LiveFilter &filter, const HeldPage &main, const Forgotten &key, uint32 *last)
{
	const uint8_t *line = LineAt(main.bytes, key.address.line);
	const LineLayout layout = LinesOf(filter, main.bytes);
	const uint32 clock = ClockOf(main.bytes);

	*last = 0;
	if (!layout.timed)
		return LineHolds(line, layout, key.address.rest, clock, clock);
	return LastSightInLine(line, layout, key.address.rest, clock, clock, last) &&
		   IsMeant(filter, key, *last);
}

/* How to forget a key by its line. */
static Decision
DecideOnLine(const LiveFilter &filter, const HeldPage &main, const Forgotten &key)
{
	const uint64 loader = LoaderOf(main.bytes);
	uint32 last;

	if (!LineHasKey(filter, main, key, &last))
		return {Way::Nothing, InvalidTransactionId};
	switch (loader == kNoXid ? Side::Present : SideOf(filter, main.bytes, loader))
	{
		case Side::Present:
			return {Way::Unfold, InvalidTransactionId};
		case Side::InFlight:
			return {Way::Wait, (TransactionId) loader};
		case Side::Absent:
			break;
	}
	return {Way::Nothing, InvalidTransactionId};
}

/* ---- applying --------------------------------------------------------------------- */

/* Gives an entry the tag of the forgetting transaction. */
static void
MarkEntry(const LiveFilter &filter, const HeldPage &page, const FoundEntry &found)
{
	const AreaShape &area = AreaOf(page.bytes);
	Entry entry = LoadEntry(page.bytes, area, found.place);
	uint8_t tag[kTagBytes];
	uint8_t bytes[8];

	PackTag(tag, found.tag);
	entry.tag = found.mine;
	entry.forgotten = true;
	dedup::StoreU64(bytes, PackEntry(entry, page.bytes[kEpochAt]));
	StartChange();
	if (memcmp(page.bytes + TagAt(found.mine), tag, sizeof tag) != 0)
		ChangeBytes(page, TagAt(found.mine), tag, sizeof tag);
	ChangeBytes(page, EntryAt(area, found.place), bytes, sizeof bytes);
	MakeChange(filter);
}

/* Changes an entry: takes it back, or gives it a tag, in its page or in another one. */
static void
ChangeEntry(const LiveFilter &filter, const HeldPage &main, const Forgotten &key,
			const FoundEntry &found, Way way)
{
	const Address &address = key.address;
	const bool in_main = found.block == main.block;
	HeldPage page = main;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;

	if (!in_main && !HoldPage(filter, found.block, Kind::kOverflow, BUFFER_LOCK_EXCLUSIVE, &page))
		ReportBadPage(filter.rel, main.block, "Its chain of overflow pages is broken.");

	const AreaShape &area = AreaOf(page.bytes);

	switch (way)
	{
		case Way::TakeBack:
			StartChange();
			ChangeByte(page, EntryAt(area, found.place), kTakenBack);
			MakeChange(filter);
			break;
		case Way::Mark:
			MarkEntry(filter, page, found);
			break;
		default:
			memcpy(copy, page.bytes, BLCKSZ);
			TakeBack(copy, area, found.place);
			if (in_main)
				PutKey(filter, main, copy, found.tag, address.line, address.rest, true);
			else
				MoveKey(filter, main, page, copy, found.tag, address.line, address.rest, true);
			break;
	}
	if (!in_main)
		ReleasePage(page);
}

/*
 * Removes a fingerprint from its line. An entry represents the key until this transaction commits,
 * unless this subtransaction itself has loaded the line.
 */
static void
UnfoldKey(const LiveFilter &filter, const HeldPage &main, const Forgotten &key)
{
	const LineLayout layout = LinesOf(filter, main.bytes);
	const Address &address = key.address;
	const uint64 loader = LoaderOf(main.bytes);
	const TransactionId base = loader == kNoXid ? 0 : (TransactionId) loader;
	uint32 generation = 0;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;

	memcpy(copy, main.bytes, BLCKSZ);
	(void) TakeFromLine(LineAt(copy, address.line), layout, address.rest, ClockOf(copy),
						&generation);
	if (loader == kNoXid || !SameLevel(loader, key.own))
	{
		PutKey(filter, main, copy, {key.own, generation, base}, address.line, address.rest, true);
		return;
	}
	StartChange();
	ChangeToScratch(main, copy);
	MakeChange(filter);
}

namespace
{

/* The result of an attempt to forget a key. */
struct Attempt
{
	bool found;
	TransactionId wait_for;
};

} /* namespace */

/* Forgets a key that no other transaction has in flight. */
static Attempt
TryToForget(const LiveFilter &filter, const Forgotten &key)
{
	bool settled = false;
	bool room = false;
	HeldPage main;

	Assert(TransactionIdIsCurrentTransactionId((TransactionId) key.own));
	HoldPageOfKey(filter, key.address, &main);
	if (LoaderOf(main.bytes) != kNoXid)
		SettleNear(filter, main, false, key.address.rest);
	for (;;)
	{
		FoundEntry found;
		uint32 last;
		/* Of several sights the last one goes. */
		const bool any = FindEntry(filter, main, key, &found) &&
						 !(found.view.side == Side::Present &&
						   LineHasKey(filter, main, key, &last) && last > found.generation);
		const Decision decision =
			any ? DecideOnEntry(found, key, settled) : DecideOnLine(filter, main, key);

		switch (decision.way)
		{
			case Way::Settle:
				SettleNear(filter, main, true, key.address.rest);
				settled = true;
				continue;
			case Way::Move:
				/* Half of a leaf, or another page of it, has a tag. */
				if (found.in_leaf && !room)
				{
					room = MakeLeafRoom(filter, main, PlainPagesOf(filter, main).fan,
										key.address.rest);
					continue;
				}
				ChangeEntry(filter, main, key, found, decision.way);
				break;
			case Way::TakeBack:
			case Way::Mark:
				ChangeEntry(filter, main, key, found, decision.way);
				break;
			case Way::Unfold:
				UnfoldKey(filter, main, key);
				break;
			case Way::Nothing:
			case Way::Wait:
				break;
		}
		ReleasePage(main);
		return {decision.way != Way::Nothing && decision.way != Way::Wait, decision.wait_for};
	}
}

/* Forgets a key when the forgetting subtransaction commits. Waits if necessary. */
static bool
ForgetKey(const LiveFilter &filter, const Forgotten &key)
{
	for (;;)
	{
		const Attempt attempt = TryToForget(filter, key);

		if (!TransactionIdIsValid(attempt.wait_for))
			return attempt.found;
		LiveWait(attempt.wait_for);
	}
}

bool
LiveForget(const LiveFilter &filter, uint64 hash)
{
	Forgotten key = {AddressIn(filter, hash),
					 WideXid(GetCurrentTransactionId()),
					 {LiveWindowStart(NewestOf(filter)), PG_UINT32_MAX}};
	const bool found = ForgetKey(filter, key);

	/*
	 * A key that was seen again has entries of several generations. One that has expired still
	 * makes a late event a duplicate as long as it is there.
	 */
	key.sights = kAllSights;
	while (filter.parameters.ttl != 0 && ForgetKey(filter, key))
		CHECK_FOR_INTERRUPTS();
	return found;
}

bool
LiveRelease(const LiveFilter &filter, uint64 hash, const LiveSights &sights)
{
	const Forgotten key = {AddressIn(filter, hash), WideXid(GetCurrentTransactionId()), sights};
	const bool found = TryToForget(filter, key).found;

	while (found && filter.parameters.renew && TryToForget(filter, key).found)
		CHECK_FOR_INTERRUPTS();
	return found;
}

/* ---- taking back ------------------------------------------------------------------ */

/*
 * Takes back an entry of a key that a subtransaction has added. The key is present by that entry,
 * or (`forgotten`) the entry was forgotten since. `generation` selects the entry, unless it is 0: a
 * key that was renewed has entries of several generations.
 */
static bool
TakeBackEntry(const LiveFilter &filter, const HeldPage &main, const Forgotten &key,
			  uint32 generation, bool forgotten)
{
	bool found = false;

	VisitPagesOf(filter, main, key.address.rest, BUFFER_LOCK_EXCLUSIVE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, key.address.line, key.address.rest,
						[&](unsigned place, const Entry &entry) {
							const Tag tag = LoadTag(page.bytes, entry.tag);
							const uint64 since = entry.forgotten ? BaseOf(tag) : tag.xid;

							if (entry.forgotten != forgotten || since != key.own ||
								(generation != 0 && tag.generation != generation))
								return false;
							StartChange();
							ChangeByte(page, EntryAt(area, place), kTakenBack);
							MakeChange(filter);
							found = true;
							return !filter.parameters.renew;
						});
	});
	return found;
}

void
LiveTakeBack(const LiveFilter &filter, uint64 hash, TransactionId xid, uint32 generation)
{
	const Forgotten key = {AddressIn(filter, hash), WideXid(xid), kAllSights};
	bool found;
	HeldPage main;

	HoldPageOfKey(filter, key.address, &main);
	found = TakeBackEntry(filter, main, key, generation, false) ||
			TakeBackEntry(filter, main, key, generation, true);
	ReleasePage(main);
	/* The subtransaction that now owns its keys has taken over the current one, too. */
	if (!found && generation == 0)
		(void) ForgetKey(filter, key);
}
