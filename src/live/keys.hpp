/*
 * The common part of test-and-add (keys.cpp, batch.cpp) and forget (forget.cpp): the place of a
 * key, and for which transactions an entry counts.
 */
#ifndef STREAMDEDUP_LIVE_KEYS_HPP
#define STREAMDEDUP_LIVE_KEYS_HPP

#include "live/store/store.hpp"

extern "C" {
#include "storage/procarray.h"
}

/* How the work of a transaction counts for the current one. */
enum class Side
{
	Absent,
	Present,
	InFlight /* added, or forgotten, by another transaction */
};

/* The group is the page. In a filter that grows, it is the key's page bits. */
static inline dedup::live::Address
AddressIn(const LiveFilter &filter, uint64 hash)
{
	return Grows(filter) ? dedup::live::GrowingAddressOf(hash, dedup::live::kLines)
						 : dedup::live::AddressOf(hash, filter.parameters.geometry.pages,
												  dedup::live::kLines);
}

/* Returns the page of a key among `pages`, which matters only in a filter that grows. */
static inline uint32
PageIn(const LiveFilter &filter, uint32 pages, const dedup::live::Address &address)
{
	return Grows(filter) ? dedup::live::PageOfBits(address.group, pages) : (uint32) address.group;
}

/* Returns whether a main page is that of a key. */
static inline bool
HasKey(const LiveFilter &filter, const uint8_t *main, const dedup::live::Address &address)
{
	return !Grows(filter) || dedup::live::HasBits(dedup::live::NumberOf(main),
												  dedup::live::LevelOf(main), address.group);
}

/*
 * Returns how the work of a transaction counts for the current one. The order of the checks must be
 * that of the server: a transaction leaves the list of running ones after it is in the commit log.
 */
static inline Side
SideOf(const LiveFilter &filter, const uint8_t *page, uint64 wide)
{
	TransactionId xid = (TransactionId) wide;

	CheckPageXid(filter, dedup::live::BlockOf(page), wide);
	if (wide == dedup::live::kFrozen || IsKnownCommitted(wide) ||
		TransactionIdIsCurrentTransactionId(xid))
		return Side::Present;
	if (TransactionIdIsInProgress(xid))
		return Side::InFlight;
	if (!TransactionIdDidCommit(xid))
		return Side::Absent;
	NoteCommitted(wide);
	return Side::Present;
}

/* The meaning of a key's entry for the current transaction. */
struct EntryView
{
	Side side;
	uint64 since;        /* the transaction that has added it; kFrozen: it is visible to all */
	TransactionId other; /* InFlight: the transaction to wait for */
	bool was_there;      /* InFlight: the key is committed, and may be forgotten */
};

static inline EntryView
ViewEntry(const LiveFilter &filter, const uint8_t *page, const dedup::live::Entry &entry,
		  const dedup::live::Tag &tag)
{
	const uint64 base = dedup::live::BaseOf(tag);
	const uint64 since = !entry.forgotten              ? tag.xid
						 : base == dedup::live::kNoXid ? dedup::live::kFrozen
													   : base;
	const Side added = SideOf(filter, page, since);

	if (!entry.forgotten || added != Side::Present)
		return {added, since, (TransactionId) since, false};
	switch (SideOf(filter, page, tag.xid))
	{
		case Side::Present:
			return {Side::Absent, since, InvalidTransactionId, false};
		case Side::Absent:
			return {Side::Present, since, InvalidTransactionId, false};
		default:
			return {Side::InFlight, since, (TransactionId) tag.xid, true};
	}
}

/* The state of a key, as a page, or a main page and its chain, show it. */
struct Look
{
	bool present;
	TransactionId wait_for; /* the transaction that adds it, or forgets it */
};

/* Looks a key up in a locked main page: in its line, and among its entries. */
extern Look LookAtMain(const LiveFilter &filter, const HeldPage &main,
					   const dedup::live::Address &address, uint32 now);

/* Looks a key up among the entries of one page, if it was not found before. */
extern void LookAtEntries(const LiveFilter &filter, const HeldPage &page,
						  const dedup::live::Address &address, uint32 now, Look *look);

/* The state of a key in a held page and its chain. */
enum class KeyState
{
	Absent,
	Present,
	Waits /* for another transaction */
};
extern KeyState StateOfKey(const LiveFilter &filter, const HeldPage &main,
						   const dedup::live::Address &address, uint32 now);

/*
 * Returns the generation of the last sight of a key, if it is present, by this transaction, a
 * committed one, or one that has it in flight.
 */
extern uint32 LastSight(const LiveFilter &filter, const HeldPage &main,
						const dedup::live::Address &address, uint32 now);

/*
 * Returns whether a sight of a key that is present must be stored because it is newer than the last
 * one.
 */
static inline bool
IsNewSight(const LiveFilter &filter, const HeldPage &main, const dedup::live::Address &address,
		   uint32 generation)
{
	return filter.parameters.renew && LastSight(filter, main, address, generation) < generation;
}

/*
 * Advances the clock's generation to the newest that the filter has seen. Returns whether an event
 * is older than the window before that.
 */
static inline bool
IsTooOld(const LiveFilter &filter, uint32 newest, LiveTime time, uint32 *generation)
{
	if (filter.parameters.ttl == 0)
		return false;
	if (time == LiveTime::Event)
		return *generation == 0 || !dedup::live::Alive(*generation, newest);
	*generation = Max(*generation, newest);
	return false;
}

/* Returns the newest generation that the filter has seen; 0 without a ttl. */
static inline uint32
NewestOf(const LiveFilter &filter)
{
	return filter.parameters.ttl == 0 ? 0 : LiveClock(filter);
}

#endif /* STREAMDEDUP_LIVE_KEYS_HPP */
