/* Test-and-add, and lookups, in live filters; waiting for other transactions. */
#include "live/keys.hpp"

extern "C" {
#include "storage/lmgr.h"
}

using namespace dedup::live;

void
LookAtEntries(const LiveFilter &filter, const HeldPage &page, const Address &address, uint32 now,
			  Look *look)
{
	const AreaShape &area = AreaOf(page.bytes);

	VisitKey(page.bytes, area, address.line, address.rest, [&](unsigned, const Entry &entry) {
		if (entry.tag > area.tags)
			ReportBadPage(filter.rel, page.block, "An entry has no transaction.");

		const Tag tag = LoadTag(page.bytes, entry.tag);

		if (filter.parameters.ttl != 0 && !Alive(tag.generation, now))
			return false;
		const EntryView view = ViewEntry(filter, page.bytes, entry, tag);

		if (view.side == Side::Present)
			return look->present = true;
		if (view.side == Side::InFlight)
			look->wait_for = view.other;
		return false;
	});
}

Look
LookAtMain(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 now)
{
	const uint8_t *bytes = main.bytes;
	Look look = {};

	if (MayHaveLines(bytes) && LineHolds(LineAt(bytes, address.line), LinesOf(filter, bytes),
										 address.rest, ClockOf(bytes), now))
	{
		uint64 loader = LoaderOf(bytes);

		switch (loader == kNoXid ? Side::Present : SideOf(filter, bytes, loader))
		{
			case Side::Present:
				look.present = true;
				return look;
			case Side::InFlight:
				look.wait_for = (TransactionId) loader;
				break;
			case Side::Absent:
				break;
		}
	}
	LookAtEntries(filter, main, address, now, &look);
	return look;
}

/* Looks a key up in a locked main page and its chain. */
static Look
LookUp(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 now)
{
	Look look = LookAtMain(filter, main, address, now);

	if (likely(NextOf(main.bytes) == 0) || look.present)
		return look;
	VisitPagesOf(filter, main, address.rest, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		if (page.block != main.block)
			LookAtEntries(filter, page, address, now, &look);
		return look.present;
	});
	return look;
}

uint32
LastSight(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 now)
{
	const uint8_t *bytes = main.bytes;
	const uint64 loader = LoaderOf(bytes);
	uint32 last = 0;

	if (!LastSightInLine(LineAt(bytes, address.line), LinesOf(filter, bytes), address.rest,
						 ClockOf(bytes), now, &last) ||
		(loader != kNoXid && SideOf(filter, bytes, loader) == Side::Absent))
		last = 0;
	VisitPagesOf(filter, main, address.rest, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		VisitKey(page.bytes, AreaOf(page.bytes), address.line, address.rest,
				 [&](unsigned, const Entry &entry) {
					 const Tag tag = LoadTag(page.bytes, entry.tag);

					 if (ViewEntry(filter, page.bytes, entry, tag).side != Side::Absent)
						 last = Max(last, tag.generation);
					 return false;
				 });
		return false;
	});
	return last;
}

KeyState
StateOfKey(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 now)
{
	const Look look = LookUp(filter, main, address, now);

	if (look.present)
		return KeyState::Present;
	return TransactionIdIsValid(look.wait_for) ? KeyState::Waits : KeyState::Absent;
}

void
LiveWait(TransactionId xid)
{
	/* A locked buffer would hold off interrupts. */
	Assert(InterruptHoldoffCount == 0);
	CHECK_FOR_INTERRUPTS();
	XactLockTableWait(xid, NULL, NULL, XLTW_None);
}

LiveHint
HintOfKey(const LiveFilter &filter, uint64 hash)
{
	return HintOfPage(filter, AddressIn(filter, hash));
}

LiveAnswer
LiveTestAndAdd(const LiveFilter &filter, uint64 hash, uint32 generation, LiveTime time)
{
	const Address address = AddressIn(filter, hash);

	Assert(!RecoveryInProgress() && (filter.parameters.ttl != 0 || generation == 0));
	if (IsTooOld(filter, NewestOf(filter), time, &generation))
		return LiveAnswer::TooOld;
	for (;;)
	{
		TransactionId own = GetCurrentTransactionIdIfAny();
		HeldPage main;
		Look look;

		HoldPageOfKey(filter, address, &main);
		if (IsTooOld(filter, ClockOf(main.bytes), time, &generation))
		{
			ReleasePage(main);
			return LiveAnswer::TooOld;
		}
		look = LookUp(filter, main, address, generation);
		if (look.present && !IsNewSight(filter, main, address, generation))
		{
			ReleasePage(main);
			return LiveAnswer::Duplicate;
		}
		if (!look.present && TransactionIdIsValid(look.wait_for))
		{
			ReleasePage(main);
			LiveWait(look.wait_for);
			continue;
		}
		if (!TransactionIdIsValid(own))
		{
			/* Duplicates need no transaction id, so it is assigned only now. */
			ReleasePage(main);
			(void) GetCurrentTransactionId();
			continue;
		}
		PutKey(filter, main, NULL, {WideXid(own), generation}, address.line, address.rest, false);
		ReleasePage(main);
		SplitIfWanted(filter);
		NoteLiveGeneration(filter, generation);
		WarnLiveEarly(filter);
		if (!look.present)
			return LiveAnswer::New;
		CountLive(filter, LiveCounter::Renewed, 1);
		return LiveAnswer::Duplicate;
	}
}

/*
 * Returns whether a missing key is proved to be in no row of the window of a generation, by the
 * page and by what the filter covers of its table. See live.hpp.
 */
static bool
ProvesNew(const HeldPage &main, const Address &address, const LineLayout &layout, uint32 generation,
		  uint32 from)
{
	return generation >= ClockOf(main.bytes) &&
		   (from == 0 || generation >= from + kWindowGenerations) &&
		   (EarlyOf(main.bytes) == 0 || !MayHaveLost(LineAt(main.bytes, address.line), layout,
													 ClockOf(main.bytes), generation));
}

bool
LiveAddIfNew(const LiveFilter &filter, uint64 hash, uint32 generation)
{
	const Address address = AddressIn(filter, hash);
	const LineLayout &layout = filter.parameters.geometry.layout;
	uint32 from;

	if (filter.parameters.ttl == 0)
		return LiveTestAndAdd(filter, hash, 0) == LiveAnswer::New;
	Assert(!RecoveryInProgress() && !filter.parameters.renew);
	/* All times before the first generation share one. */
	if (generation == 0)
		return false;
	from = LiveCoversFrom(filter);
	for (;;)
	{
		TransactionId own = GetCurrentTransactionIdIfAny();
		HeldPage main;
		Look look = {};

		HoldPageOfKey(filter, address, &main);
		if (ProvesNew(main, address, layout, generation, from))
			look = LookUp(filter, main, address, generation);
		else
			look.present = true;
		if (look.present)
		{
			ReleasePage(main);
			return false;
		}
		if (TransactionIdIsValid(look.wait_for) || !TransactionIdIsValid(own))
		{
			ReleasePage(main);
			if (TransactionIdIsValid(look.wait_for))
				LiveWait(look.wait_for);
			else
				(void) GetCurrentTransactionId();
			continue;
		}
		PutKey(filter, main, NULL, {WideXid(own), generation}, address.line, address.rest, false);
		ReleasePage(main);
		SplitIfWanted(filter);
		NoteLiveGeneration(filter, generation);
		WarnLiveEarly(filter);
		return true;
	}
}

/* Returns the transaction that has a key in flight, in a locked main page or its chain. */
static TransactionId
InFlightIn(const LiveFilter &filter, const HeldPage &main, const Address &address, bool *own)
{
	TransactionId other = InvalidTransactionId;
	const uint64 loader = LoaderOf(main.bytes);

	if (loader != kNoXid && SideOf(filter, main.bytes, loader) == Side::InFlight)
		other = (TransactionId) loader;
	VisitPagesOf(filter, main, address.rest, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, address.line, address.rest,
						[&](unsigned, const Entry &entry) {
							if (entry.tag > area.tags)
								ReportBadPage(filter.rel, page.block,
											  "An entry has no transaction.");

							const EntryView view = ViewEntry(filter, page.bytes, entry,
															 LoadTag(page.bytes, entry.tag));

							if (view.side == Side::InFlight)
								other = view.other;
							else if (view.side == Side::Present && filter.parameters.ttl == 0 &&
									 view.since != kFrozen &&
									 TransactionIdIsCurrentTransactionId(
										 (TransactionId) view.since))
								*own = true;
							return *own;
						});
	});
	return other;
}

/*
 * The generation of keys that are only in flight. They have expired when the transaction has ended.
 */
constexpr uint32 kLongAgo = 1;

LivePut
LivePutKey(const LiveFilter &filter, uint64 hash, uint32 generation, uint32 *put)
{
	const Address address = AddressIn(filter, hash);
	const TransactionId xid = GetCurrentTransactionId();
	TransactionId other;
	HeldPage main;
	bool own = false;

	Assert(!RecoveryInProgress() &&
		   (filter.parameters.ttl != 0 || (!filter.parameters.forgets && generation == 0)));
	HoldPageOfKey(filter, address, &main);
	other = InFlightIn(filter, main, address, &own);
	/* A backfill has rows of many generations, and a page has few tags. */
	*put = filter.parameters.ttl == 0                                  ? 0
		   : generation != 0 && Alive(generation, ClockOf(main.bytes)) ? generation
																	   : kLongAgo;
	if (!own && !TransactionIdIsValid(other))
		PutKey(filter, main, NULL, {WideXid(xid), *put}, address.line, address.rest, false);
	ReleasePage(main);
	SplitIfWanted(filter);
	if (own)
		return LivePut::Own;
	if (!TransactionIdIsValid(other))
	{
		NoteLiveGeneration(filter, *put);
		WarnLiveEarly(filter);
		return LivePut::Added;
	}
	LiveWait(other);
	return LivePut::Waited;
}

double
LiveAgeOf(const LiveFilter &filter, uint64 hash)
{
	const Address address = AddressIn(filter, hash);
	HeldPage main;
	double age;

	if (!HoldPageToRead(filter, address, &main))
		return 1;
	age = AgeInLine(LineAt(main.bytes, address.line), LinesOf(filter, main.bytes), address.rest);
	ReleasePage(main);
	/* Keys that are not in a line yet came last. */
	return age < 0 ? 1 : age;
}

/*
 * Returns whether some entry of a key says that the key is committed, or was until another
 * transaction has forgotten it, which may still abort.
 */
static bool
IsCommittedEntry(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 now)
{
	bool found = false;

	VisitPagesOf(filter, main, address.rest, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		return found = VisitKey(page.bytes, AreaOf(page.bytes), address.line, address.rest,
								[&](unsigned, const Entry &entry) {
									const Tag tag = LoadTag(page.bytes, entry.tag);

									if (filter.parameters.ttl != 0 && !Alive(tag.generation, now))
										return false;
									const EntryView view =
										ViewEntry(filter, page.bytes, entry, tag);

									return view.side == Side::Present || view.was_there;
								});
	});
	return found;
}

/*
 * Returns whether a key is in a locked main page and its chain, for a session that does not wait. A
 * committed key that another transaction is about to forget is still present.
 *
 * That transaction may end at any time. If it ends between the looks at two entries of the key,
 * they do not match: an entry that it has added does not count yet, and an entry that it has
 * forgotten does not count any more. So the entries are looked at again.
 */
static bool
IsThereFor(const LiveFilter &filter, const HeldPage &main, const Address &address, uint32 now)
{
	for (;;)
	{
		const Look look = LookUp(filter, main, address, now);

		if (look.present || !TransactionIdIsValid(look.wait_for))
			return look.present;
		if (IsCommittedEntry(filter, main, address, now))
			return true;
		if (SideOf(filter, main.bytes, WideXid(look.wait_for)) == Side::InFlight)
			return false;
	}
}

bool
LiveSeen(const LiveFilter &filter, uint64 hash, uint32 generation)
{
	const Address address = AddressIn(filter, hash);
	HeldPage main;
	bool seen;

	(void) IsTooOld(filter, NewestOf(filter), LiveTime::Clock, &generation);
	if (!HoldPageToRead(filter, address, &main))
		return false;
	(void) IsTooOld(filter, ClockOf(main.bytes), LiveTime::Clock, &generation);
	seen = IsThereFor(filter, main, address, generation);
	ReleasePage(main);
	return seen;
}
