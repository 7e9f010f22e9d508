/*
 * Forgetting a key of a live filter, and taking back one that was added.
 *
 * Both find the key's entry under the exclusive lock of its main page, under which alone
 * its chain changes too; decide; and change one or two pages.
 */
#include "live/keys.hpp"

using namespace dedup::live;

namespace
{

/* The first entry by which a key is there, or is in flight, in a main page or its chain. */
struct FoundEntry
{
	BlockNumber block; /* of its page */
	unsigned place;
	Entry entry;
	Tag tag;
	Side side;      /* Present or InFlight */
	TagChoice mine; /* the tag in its page of who forgets, or a free one, or 0 */
};

/* How a key can be forgotten. */
enum class Way
{
	TakeBack, /* an entry that this subtransaction has added */
	Mark,     /* a committed entry: it gets the tag of who forgets it */
	Move,     /* the same, in an overflow page: no tag is free in this one */
	Unfold,   /* no entry: the fingerprint goes, if there is one */
	Wait,     /* another transaction has the key in flight */
	OfParent, /* an enclosing transaction has added or loaded it */
	NoTag     /* no tag is free, in a page that was not settled or overflows */
};

struct Decision
{
	Way way;
	TransactionId wait_for;
};

} /* namespace */

/* ---- finding ---------------------------------------------------------------------- */

static bool
FindEntry(const LiveFilter &filter, const HeldPage &main, const Address &address, uint64 own,
		  FoundEntry *found)
{
	bool any = false;

	VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, address.line, address.rest,
						[&](unsigned place, const Entry &entry) {
							const Tag tag = LoadTag(page.bytes, entry.tag);
							const Side side = SideOf(filter, page.bytes, tag.xid);

							/* Not there: added and rolled back, or forgotten. */
							if (side != Side::InFlight &&
								(side == Side::Present) == entry.forgotten)
								return false;
							*found = {page.block, place,
									  entry,      tag,
									  side,       ChooseTag(page.bytes, area, own, tag.generation)};
							return any = true;
						});
	});
	return any;
}

/* ---- deciding --------------------------------------------------------------------- */

/* How to forget a key by the entry that was found. */
static Decision
DecideOnEntry(const HeldPage &main, const FoundEntry &found, uint64 own, bool settled)
{
	const TransactionId xid = (TransactionId) found.tag.xid;

	if (found.side == Side::InFlight)
		return {Way::Wait, xid};
	if (found.tag.xid == own)
		return {Way::TakeBack, InvalidTransactionId};
	if (TransactionIdIsCurrentTransactionId(xid))
		return {Way::OfParent, InvalidTransactionId};
	if (found.mine.tag != 0)
		return {Way::Mark, InvalidTransactionId};
	return {settled && found.block == main.block ? Way::Move : Way::NoTag, InvalidTransactionId};
}

/* How to forget any key. `found` is null if it has no entry; `settled`: its page was settled. */
static Decision
Decide(const LiveFilter &filter, const HeldPage &main, const FoundEntry *found, uint64 own,
	   bool settled)
{
	const uint64 loader = LoaderOf(main.bytes);
	Decision decision = {Way::Unfold, InvalidTransactionId};

	if (found != NULL)
		decision = DecideOnEntry(main, *found, own, settled);
	if (loader == kNoXid || (decision.way != Way::Unfold && decision.way != Way::OfParent &&
							 decision.way != Way::NoTag))
		return decision;

	/* Lines that a COPY has loaded are its own until it commits. */
	if (TransactionIdIsCurrentTransactionId((TransactionId) loader))
		return {Way::OfParent, InvalidTransactionId};
	if (SideOf(filter, main.bytes, loader) == Side::InFlight)
		return {Way::Wait, (TransactionId) loader};
	return decision;
}

/* ---- applying --------------------------------------------------------------------- */

/* Changes an entry where it is: it is taken back, or gets a tag. */
static void
ChangeEntry(const LiveFilter &filter, const HeldPage &main, const FoundEntry &found, Way way,
			uint64 own)
{
	HeldPage page = main;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;
	Entry entry = found.entry;

	if (found.block != main.block &&
		!HoldPage(filter, found.block, Kind::kOverflow, BUFFER_LOCK_EXCLUSIVE, &page))
		ReportBadPage(filter.rel, main.block, "Its chain of overflow pages is broken.");

	const AreaShape &area = AreaOf(page.bytes);

	memcpy(copy, page.bytes, BLCKSZ);
	if (way == Way::TakeBack)
		TakeBack(copy, area, found.place);
	else
	{
		StoreTag(copy, found.mine.tag, {own, found.tag.generation});
		entry.tag = found.mine.tag;
		entry.forgotten = true;
		StoreEntry(copy, area, found.place, entry);
	}
	StartChange();
	ChangeToScratch(page, copy);
	MakeChange(filter);
	if (found.block != main.block)
		ReleasePage(page);
}

/* Takes an entry out of a main page whose tags are all in use, and puts it into its chain. */
static void
MoveEntry(const LiveFilter &filter, const HeldPage &main, const Address &address,
		  const FoundEntry &found, uint64 own)
{
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;

	Assert(found.block == main.block);
	memcpy(copy, main.bytes, BLCKSZ);
	TakeBack(copy, kMainArea, found.place);
	PutKey(filter, main, copy, {own, found.tag.generation}, address.line, address.rest, true);
}

/*
 * Takes a fingerprint out of its line; an entry stands for it until this transaction
 * commits. Returns false if there is none. In a filter without ttl `generation` is 0.
 */
static bool
UnfoldKey(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 generation,
		  uint64 own)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	PGAlignedBlock scratch;
	uint8_t *copy = (uint8_t *) scratch.data;

	memcpy(copy, main.bytes, BLCKSZ);
	if (!TakeFromLine(LineAt(copy, address.line), layout, address.rest, ClockOf(copy), &generation))
		return false;
	PutKey(filter, main, copy, {own, layout.timed ? generation : 0}, address.line, address.rest,
		   true);
	return true;
}

/* Applies a decision that changes something. Returns whether the key was there. */
static bool
Apply(const LiveFilter &filter, const HeldPage &main, const Address &address,
	  const FoundEntry &found, Way way, uint32 generation, uint64 own)
{
	switch (way)
	{
		case Way::TakeBack:
		case Way::Mark:
			ChangeEntry(filter, main, found, way, own);
			return true;
		case Way::Move:
			MoveEntry(filter, main, address, found, own);
			return true;
		case Way::Unfold:
			return UnfoldKey(filter, main, address, generation, own);
		case Way::Wait:
		case Way::OfParent:
		case Way::NoTag:
			break;
	}
	pg_unreachable();
}

[[noreturn]] static void
ReportOfParent(const LiveFilter &filter)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot forget a key in live filter \"%s\" that an enclosing "
						   "transaction has added or loaded",
						   LiveName(filter)),
					errhint("Forget it outside of the savepoint or EXCEPTION block, or when the "
							"transaction has committed.")));
	pg_unreachable();
}

/* Forgets a key when the subtransaction `own`, which is this one or around it, commits. */
static bool
ForgetFor(const LiveFilter &filter, uint64 hash, uint32 generation, uint64 own)
{
	const Address address = AddressIn(filter, hash);
	bool settled = false;

	Assert(TransactionIdIsCurrentTransactionId((TransactionId) own));
	for (;;)
	{
		HeldPage main;
		FoundEntry found;

		HoldPageToChange(filter, (BlockNumber) address.group, Kind::kMain, &main);
		if (LoaderOf(main.bytes) != kNoXid)
			SettlePage(filter, main, false);

		const bool any = FindEntry(filter, main, address, own, &found);
		const Decision decision = Decide(filter, main, any ? &found : NULL, own, settled);
		const bool stuck = decision.way == Way::OfParent || decision.way == Way::NoTag;

		if (decision.way == Way::Wait)
		{
			ReleasePage(main);
			LiveWait(decision.wait_for);
		}
		else if (stuck && settled)
		{
			ReleasePage(main);
			if (decision.way == Way::OfParent)
				ReportOfParent(filter);
			ReportNoTag(filter);
		}
		else if (stuck)
		{
			/* A key of a subtransaction that has ended is ours when the page is settled. */
			SettlePage(filter, main, true);
			ReleasePage(main);
			settled = true;
		}
		else
		{
			const bool was_there =
				Apply(filter, main, address, found, decision.way, generation, own);

			ReleasePage(main);
			return was_there;
		}
	}
}

bool
LiveForget(const LiveFilter &filter, uint64 hash, uint32 generation)
{
	const uint64 own = WideXid(GetCurrentTransactionId());
	const bool found = ForgetFor(filter, hash, generation, own);

	/* A key that was renewed has entries of several generations. */
	while (found && filter.parameters.renew && ForgetFor(filter, hash, generation, own))
		CHECK_FOR_INTERRUPTS();
	return found;
}

/* ---- taking back ------------------------------------------------------------------ */

void
LiveTakeBack(const LiveFilter &filter, uint64 hash, TransactionId xid, uint32 generation)
{
	const Address address = AddressIn(filter, hash);
	const uint64 own = WideXid(xid);
	bool found = false;
	HeldPage main;

	HoldPageToChange(filter, (BlockNumber) address.group, Kind::kMain, &main);
	VisitChain(filter, main, BUFFER_LOCK_EXCLUSIVE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, address.line, address.rest,
						[&](unsigned place, const Entry &entry) {
							const Tag tag = LoadTag(page.bytes, entry.tag);

							if (entry.forgotten || tag.xid != own ||
								(generation != 0 && tag.generation != generation))
								return false;
							StartChange();
							ChangeBytes(page, EntryAt(area, place), &kTakenBack, sizeof kTakenBack);
							MakeChange(filter);
							found = true;
							return !filter.parameters.renew;
						});
	});
	ReleasePage(main);
	/* It had been forgotten by that subtransaction before: it is so again. */
	if (!found && generation == 0)
		(void) ForgetFor(filter, hash, 0, own);
}
