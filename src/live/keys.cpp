/*
 * Test-and-add, ask, forget and take back in live filters; waiting for other
 * transactions.
 */
#include "live/store/store.hpp"

extern "C" {
#include "storage/lmgr.h"
#include "storage/procarray.h"
}

using dedup::fifo::Address;
using namespace dedup::live;

namespace
{

/* What a page and its chain say of a key. */
struct Look
{
	bool		present;
	TransactionId wait_for;		/* has it in flight, or forgets it */
	bool		own_forgotten;	/* an entry that this very subtransaction forgets */
};

enum class Side
{
	Absent,
	Present,
	InFlight					/* added, or forgotten, by another transaction */
};

}							/* namespace */

static Address
AddressIn(const LiveFilter &filter, uint64 hash)
{
	return dedup::fifo::AddressOf(hash, filter.parameters.geometry.pages, kLines);
}

/*
 * Whether what a transaction did counts for this one. The order of the questions is
 * the server's: a transaction leaves the list of running ones after it is in the log of
 * commits.
 */
static Side
SideOf(const LiveFilter &filter, const uint8_t *page, uint64 wide)
{
	TransactionId xid = (TransactionId) wide;

	CheckPageXid(filter, BlockOf(page), wide);
	if (wide == kFrozen || TransactionIdIsCurrentTransactionId(xid))
		return Side::Present;
	if (TransactionIdIsInProgress(xid))
		return Side::InFlight;
	return TransactionIdDidCommit(xid) ? Side::Present : Side::Absent;
}

/* Looks at the entries of one page. */
static void
LookAtEntries(const LiveFilter &filter, const HeldPage &page, unsigned line, uint64 rest,
			  uint32 now, Look *look)
{
	const AreaShape &area = AreaOf(page.bytes);

	VisitKey(page.bytes, area, line, rest, [&](unsigned, const Entry &entry) {
		if (entry.tag > area.tags)
			ReportBadPage(filter.rel, page.block, "An entry has no transaction.");

		const Tag	tag = LoadTag(page.bytes, entry.tag);

		if (filter.parameters.ttl != 0 && !dedup::fifo::Alive(tag.generation, now))
			return false;
		switch (SideOf(filter, page.bytes, tag.xid))
		{
			case Side::InFlight:
				look->wait_for = (TransactionId) tag.xid;
				break;
			case Side::Present:
				if (!entry.forgotten)
					return look->present = true;
				if ((TransactionId) tag.xid == GetCurrentTransactionIdIfAny())
					look->own_forgotten = true;
				break;
			case Side::Absent:
				if (entry.forgotten)
					return look->present = true;
				break;
		}
		return false;
	});
}

/*
 * Looks a key up in a main page that is locked, and its chain. `bytes` is the page or a
 * scratch copy of it.
 */
static Look
LookUp(const LiveFilter &filter, const HeldPage &main, const uint8_t *bytes, unsigned line,
	   uint64 rest, uint32 now)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	Look		look = {};

	if (dedup::fifo::Holds(LineAt(bytes, line), layout, dedup::fifo::FingerprintOf(rest, layout),
						   ClockOf(bytes), now))
	{
		uint64		loader = LoaderOf(bytes);

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

	HeldPage	copy = main;

	copy.bytes = const_cast<uint8_t *>(bytes);
	VisitChain(filter, copy, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
		LookAtEntries(filter, page, line, rest, now, &look);
		return look.present;
	});
	return look;
}

/* Waits, with nothing locked, until a transaction has ended. */
static void
WaitFor(TransactionId xid)
{
	CHECK_FOR_INTERRUPTS();
	XactLockTableWait(xid, NULL, NULL, XLTW_None);
}

/*
 * Moves the clock's generation on to the newest that the filter has seen; says whether an
 * event is older than the window before it.
 */
static bool
IsTooOld(const LiveFilter &filter, uint32 newest, LiveTime time, uint32 *generation)
{
	if (filter.parameters.ttl == 0)
		return false;
	if (time == LiveTime::Event)
		return *generation == 0 || !dedup::fifo::Alive(*generation, newest);
	*generation = Max(*generation, newest);
	return false;
}

static uint32
NewestOf(const LiveFilter &filter)
{
	return filter.parameters.ttl == 0 ? 0 : LiveClock(filter);
}

/* Makes a key that this subtransaction forgot a committed one again. */
static void
Unforget(const LiveFilter &filter, const HeldPage &main, unsigned line, uint64 rest, uint64 own)
{
	VisitChain(filter, main, BUFFER_LOCK_EXCLUSIVE, [&](const HeldPage &page) {
		PGAlignedBlock scratch;
		uint8_t    *copy = (uint8_t *) scratch.data;
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, line, rest, [&](unsigned place, Entry entry) {
			const Tag	tag = LoadTag(page.bytes, entry.tag);

			if (!entry.forgotten || tag.xid != own)
				return false;
			memcpy(copy, page.bytes, BLCKSZ);

			const TagChoice frozen = ChooseTag(copy, area, kFrozen, tag.generation);

			if (frozen.tag == 0 && page.block == main.block)
			{
				copy[EntryAt(area, place)] = 0;
				PutKey(filter, main, copy, {kFrozen, tag.generation}, line, rest, false);
				return true;
			}
			if (frozen.tag == 0)
				ereport(ERROR,
						(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						 errmsg("too many transactions have keys in flight on one page of live filter \"%s\"",
								LiveName(filter)),
						 errhint("Try again when some of them have ended.")));
			StoreTag(copy, frozen.tag, {kFrozen, tag.generation});
			entry.tag = frozen.tag;
			entry.forgotten = false;
			dedup::StoreU64(copy + EntryAt(area, place), PackEntry(entry, copy[kEpochAt]));
			StartChange();
			ChangeToScratch(page, copy);
			MakeChange(filter);
			return true;
		});
	});
}

LiveAnswer
LiveTestAndAdd(const LiveFilter &filter, uint64 hash, uint32 generation, LiveTime time)
{
	const Address address = AddressIn(filter, hash);

	if (IsTooOld(filter, NewestOf(filter), time, &generation))
		return LiveAnswer::TooOld;
	for (;;)
	{
		TransactionId own = GetCurrentTransactionIdIfAny();
		HeldPage	main;
		Look		look;

		HoldPageOfKey(filter, address, &main);
		if (IsTooOld(filter, ClockOf(main.bytes), time, &generation))
		{
			ReleasePage(main);
			return LiveAnswer::TooOld;
		}
		look = LookUp(filter, main, main.bytes, address.line, address.rest, generation);
		if (look.present)
		{
			ReleasePage(main);
			return LiveAnswer::Duplicate;
		}
		if (TransactionIdIsValid(look.wait_for))
		{
			ReleasePage(main);
			WaitFor(look.wait_for);
			continue;
		}
		if (!TransactionIdIsValid(own))
		{
			/* Duplicates use up no transaction id, so it is only now that one is needed. */
			ReleasePage(main);
			(void) GetCurrentTransactionId();
			continue;
		}
		if (look.own_forgotten)
			Unforget(filter, main, address.line, address.rest, WideXid(own));
		else
			PutKey(filter, main, NULL, {WideXid(own), generation}, address.line, address.rest, false);
		ReleasePage(main);
		NoteLiveGeneration(filter, generation);
		WarnLiveEarly(filter);
		return LiveAnswer::New;
	}
}

bool
LiveSeen(const LiveFilter &filter, uint64 hash, uint32 generation)
{
	const Address address = AddressIn(filter, hash);
	HeldPage	main;
	Look		look;

	(void) IsTooOld(filter, NewestOf(filter), LiveTime::Clock, &generation);
	if (!HoldPage(filter, (BlockNumber) address.group, Kind::kMain, BUFFER_LOCK_SHARE, &main))
		return false;
	(void) IsTooOld(filter, ClockOf(main.bytes), LiveTime::Clock, &generation);
	look = LookUp(filter, main, main.bytes, address.line, address.rest, generation);
	/* A committed key that another transaction is about to forget is still there. */
	if (!look.present && TransactionIdIsValid(look.wait_for))
		VisitChain(filter, main, BUFFER_LOCK_SHARE, [&](const HeldPage &page) {
			return look.present =
				VisitKey(page.bytes, AreaOf(page.bytes), address.line, address.rest,
						 [&](unsigned, const Entry &entry) {
							 return entry.forgotten &&
								 SideOf(filter, page.bytes, LoadTag(page.bytes, entry.tag).xid) == Side::InFlight;
						 });
		});
	ReleasePage(main);
	return look.present;
}

/* ---- taking back and forgetting ------------------------------------------------ */

static bool ForgetFor(const LiveFilter &filter, uint64 hash, uint32 generation, uint64 own);

void
LiveTakeBack(const LiveFilter &filter, uint64 hash, TransactionId xid)
{
	const Address address = AddressIn(filter, hash);
	const uint64 own = WideXid(xid);
	bool		found = false;
	HeldPage	main;

	HoldPageToChange(filter, (BlockNumber) address.group, Kind::kMain, &main);
	VisitChain(filter, main, BUFFER_LOCK_EXCLUSIVE, [&](const HeldPage &page) {
		const AreaShape &area = AreaOf(page.bytes);

		return VisitKey(page.bytes, area, address.line, address.rest,
						[&](unsigned place, const Entry &entry) {
			uint8_t		taken_back = 0;

			if (entry.forgotten || LoadTag(page.bytes, entry.tag).xid != own)
				return false;
			StartChange();
			ChangeBytes(page, EntryAt(area, place), &taken_back, 1);
			MakeChange(filter);
			return found = true;
		});
	});
	ReleasePage(main);
	/* It had been forgotten by that subtransaction before: it is so again. */
	if (!found)
		(void) ForgetFor(filter, hash, 0, own);
}

bool
LiveForget(const LiveFilter &filter, uint64 hash, uint32 generation)
{
	return ForgetFor(filter, hash, generation, WideXid(GetCurrentTransactionId()));
}

/* Forgets a key when the subtransaction `own`, which is this one or around it, commits. */
static bool
ForgetFor(const LiveFilter &filter, uint64 hash, uint32 generation, uint64 own)
{
	const Address address = AddressIn(filter, hash);
	const LineLayout &layout = filter.parameters.geometry.layout;
	const bool	timed = filter.parameters.ttl != 0;
	bool		settled = false;

	for (;;)
	{
		HeldPage	main;
		TransactionId wait_for = InvalidTransactionId;
		bool		done = false;
		bool		of_parent = false;
		bool		unsettled = false;

		HoldPageToChange(filter, (BlockNumber) address.group, Kind::kMain, &main);
		if (LoaderOf(main.bytes) != kNoXid)
			SettlePage(filter, main, false);
		VisitChain(filter, main, BUFFER_LOCK_EXCLUSIVE, [&](const HeldPage &page) {
			const AreaShape &area = AreaOf(page.bytes);

			return VisitKey(page.bytes, area, address.line, address.rest,
							[&](unsigned place, Entry entry) {
				const Tag	tag = LoadTag(page.bytes, entry.tag);
				const Side	side = SideOf(filter, page.bytes, tag.xid);
				PGAlignedBlock scratch;
				uint8_t    *copy = (uint8_t *) scratch.data;

				if (side == Side::InFlight)
				{
					wait_for = (TransactionId) tag.xid;
					return true;
				}
				/* Not there: added and rolled back, or forgotten. */
				if ((side == Side::Present) == entry.forgotten)
					return false;
				memcpy(copy, page.bytes, BLCKSZ);
				if (tag.xid == own)
					entry.tag = 0;
				else if (TransactionIdIsCurrentTransactionId((TransactionId) tag.xid))
				{
					of_parent = true;
					return true;
				}
				else
				{
					const TagChoice mine = ChooseTag(copy, area, own, tag.generation);

					if (mine.tag == 0 && settled && page.block == main.block)
					{
						/* Every tag is in use: it goes to an overflow page. */
						copy[EntryAt(area, place)] = 0;
						PutKey(filter, main, copy, {own, tag.generation}, address.line,
							   address.rest, true);
						return done = true;
					}
					if (mine.tag == 0)
					{
						unsettled = true;
						return true;
					}
					StoreTag(copy, mine.tag, {own, tag.generation});
					entry.tag = mine.tag;
					entry.forgotten = true;
				}
				dedup::StoreU64(copy + EntryAt(area, place), PackEntry(entry, copy[kEpochAt]));
				StartChange();
				ChangeToScratch(page, copy);
				MakeChange(filter);
				return done = true;
			});
		});
		/* Lines that a COPY has loaded are its own until it commits. */
		const uint64 loader = LoaderOf(main.bytes);

		if (loader != kNoXid && !done && !TransactionIdIsValid(wait_for))
		{
			if (TransactionIdIsCurrentTransactionId((TransactionId) loader))
				of_parent = true;
			else if (SideOf(filter, main.bytes, loader) == Side::InFlight)
				wait_for = (TransactionId) loader;
		}
		if (!done && !of_parent && !unsettled && !TransactionIdIsValid(wait_for))
		{
			/* Folded: its fingerprint goes, and an entry stands for it until we commit. */
			const uint64 fingerprint = dedup::fifo::FingerprintOf(address.rest, layout);
			PGAlignedBlock scratch;
			uint8_t    *copy = (uint8_t *) scratch.data;
			uint32		seen = generation;

			memcpy(copy, main.bytes, BLCKSZ);
			if (timed)
			{
				uint64_t	slots = dedup::fifo::SlotsEqual(LineAt(copy, address.line), layout,
															fingerprint << dedup::fifo::kGenerationBits,
															dedup::LowMask(dedup::fifo::kGenerationBits));

				if (slots != 0)
					seen = dedup::fifo::GenerationOf(
						dedup::fifo::LoadSlot(LineAt(copy, address.line),
											  (unsigned) std::countr_zero(slots), layout.slot_bytes),
						ClockOf(copy));
			}
			if (dedup::fifo::Remove(LineAt(copy, address.line), layout, fingerprint))
			{
				PutKey(filter, main, copy, {own, timed ? seen : 0}, address.line, address.rest, true);
				done = true;
			}
		}
		/* A key of a subtransaction that has ended is ours when the page is settled. */
		if ((unsettled || of_parent) && !settled)
			SettlePage(filter, main, true);
		ReleasePage(main);
		if (TransactionIdIsValid(wait_for))
		{
			WaitFor(wait_for);
			continue;
		}
		if ((unsettled || of_parent) && !settled)
		{
			settled = true;
			continue;
		}
		if (of_parent)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot forget a key in live filter \"%s\" that an enclosing transaction has added or loaded",
							LiveName(filter)),
					 errhint("Forget it outside of the savepoint or EXCEPTION block, or when the transaction has committed.")));
		if (unsettled)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("too many transactions have keys in flight on one page of live filter \"%s\"",
							LiveName(filter)),
					 errhint("Try again when some of them have ended.")));
		return done;
	}
}

/* ---- batches ------------------------------------------------------------------- */

namespace
{

/* A key of a batch, by page. */
struct BatchKey
{
	Address		address;
	size_t		index;
};

}							/* namespace */

static int
CompareBatchKeys(const void *left, const void *right)
{
	const BatchKey *a = (const BatchKey *) left;
	const BatchKey *b = (const BatchKey *) right;

	/* Millions of keys are sorted for seconds, which is all done here. */
	CHECK_FOR_INTERRUPTS();
	if (a->address.group != b->address.group)
		return a->address.group < b->address.group ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

void
LiveTestAndAddBatch(const LiveFilter &filter, const uint64 *hashes, size_t n, uint32 generation,
					LiveAnswer *answers)
{
	BatchKey   *keys = (BatchKey *) MemoryContextAllocHuge(CurrentMemoryContext,
														   sizeof(BatchKey) * (n + 1));

	(void) IsTooOld(filter, NewestOf(filter), LiveTime::Clock, &generation);
	dedup::ForUnits(n, 8 * sizeof(BatchKey), [&](uint64_t from, uint64_t to) {
		for (size_t i = from; i < to; i++)
			keys[i] = {AddressIn(filter, hashes[i]), i};
	});
	qsort(keys, n, sizeof(BatchKey), CompareBatchKeys);
	for (size_t i = 0; i < n;)
	{
		const uint64 group = keys[i].address.group;
		PGAlignedBlock block;
		uint8_t    *scratch = (uint8_t *) block.data;
		TransactionId own = GetCurrentTransactionIdIfAny();
		TransactionId wait_for = InvalidTransactionId;
		HeldPage	main;
		bool		stop = false;
		bool		single = false;

		CHECK_FOR_INTERRUPTS();
		HoldPageToChange(filter, (BlockNumber) group, Kind::kMain, &main);
		memcpy(scratch, main.bytes, BLCKSZ);
		for (; i < n && keys[i].address.group == group && !stop; i++)
		{
			const Address &address = keys[i].address;
			Look		look;

			(void) IsTooOld(filter, ClockOf(scratch), LiveTime::Clock, &generation);
			look = LookUp(filter, main, scratch, address.line, address.rest, generation);
			if (look.present)
				answers[keys[i].index] = LiveAnswer::Duplicate;
			else if (TransactionIdIsValid(look.wait_for))
			{
				wait_for = look.wait_for;
				break;
			}
			else if (!TransactionIdIsValid(own))
			{
				stop = true;
				break;
			}
			else if (!look.own_forgotten &&
					 PutEntry(scratch, kMainArea, {WideXid(own), generation}, address.line,
							  address.rest, false))
				answers[keys[i].index] = LiveAnswer::New;
			else
			{
				single = true;
				break;
			}
		}
		if (memcmp(scratch, main.bytes, BLCKSZ) != 0)
		{
			StartChange();
			ChangeToScratch(main, scratch);
			MakeChange(filter);
			NoteLiveGeneration(filter, generation);
		}
		ReleasePage(main);
		if (TransactionIdIsValid(wait_for))
			WaitFor(wait_for);
		if (stop)
			(void) GetCurrentTransactionId();
		if (single)
		{
			/* The page has to be settled first, or overflows. */
			answers[keys[i].index] = LiveTestAndAdd(filter, hashes[keys[i].index], generation);
			i++;
		}
	}
	WarnLiveEarly(filter);
	pfree(keys);
}
