/*
 * Counting in live filters. What a transaction counts is kept in the backend, by subtransaction,
 * and added to the page of counters (counters_page.hpp) when the transaction has committed. That
 * page is pinned before the commit. After the commit, only its lock is taken, shared, and atomic
 * counters are increased, so that nothing can fail.
 */
#include "live/counters_page.hpp"

extern "C" {
#include "access/relation.h"
#include "miscadmin.h"
#include "utils/resowner.h"
}

using namespace dedup::live;

namespace
{

struct Pending
{
	Oid relid;
	int level; /* nesting level of the (sub)transaction */
	LiveTally tally;
	Buffer buffer; /* pinned, from before the commit on */
};

Pending *pending;
int pending_count;
int pending_room;

} /* namespace */

/* Returns the pending counts for a filter in the current (sub)transaction. */
static Pending *
PendingOf(Oid relid)
{
	int level = GetCurrentTransactionNestLevel();

	for (int i = pending_count - 1; i >= 0 && pending[i].level == level; i--)
		if (pending[i].relid == relid)
			return &pending[i];
	if (pending_count == pending_room)
	{
		int room = Max(8, 2 * pending_room);

		if (pending == NULL)
			pending = (Pending *) MemoryContextAlloc(TopMemoryContext, room * sizeof(Pending));
		else
			pending = (Pending *) repalloc(pending, room * sizeof(Pending));
		pending_room = room;
	}

	Pending *fresh = &pending[pending_count++];

	memset(fresh, 0, sizeof *fresh);
	fresh->relid = relid;
	fresh->level = level;
	return fresh;
}

/*
 * Adds the pending counts to the pinned page, and unpins it. For a transaction that is being
 * prepared, keeps them in that page. Cannot fail.
 */
static void
AddCounters(Pending *from, uint64 preparing)
{
	uint8_t *page;

	LockBuffer(from->buffer, BUFFER_LOCK_SHARE);
	page = (uint8_t *) BufferGetPage(from->buffer);
	if (preparing == kNoXid || !KeepPrepared(page, preparing, from->tally))
		AddTally(CountersOf(page), from->tally);
	MarkBufferDirtyHint(from->buffer, true);
	UnlockReleaseBuffer(from->buffer);
	from->buffer = InvalidBuffer;
}

void
CountLiveNow(const LiveFilter &filter, LiveCounter counter, int64 n)
{
	Pending now = {};

	now.tally.value[(int) counter] = n;
	now.buffer = PinCounters(filter);
	AddCounters(&now, kNoXid);
}

void
CountLive(const LiveFilter &filter, LiveCounter counter, int64 n)
{
	if (counter == LiveCounter::Rejected)
		CountLiveNow(filter, counter, n);
	else
		PendingOf(RelationGetRelid(filter.rel))->tally.value[(int) counter] += n;
}

void
NoteLiveGeneration(const LiveFilter &filter, uint32 generation)
{
	Pending *mine;

	if (filter.parameters.ttl == 0)
		return;
	mine = PendingOf(RelationGetRelid(filter.rel));
	mine->tally.clock = Max(mine->tally.clock, generation);
}

uint32
LiveClock(const LiveFilter &filter)
{
	uint32 clock = CommittedClock(filter);

	for (int i = 0; i < pending_count; i++)
		if (pending[i].relid == RelationGetRelid(filter.rel))
			clock = Max(clock, pending[i].tally.clock);
	return clock;
}

/* ---- filters that are replaced -------------------------------------------------- */

/* Writes counts into the page of a filter that no other session uses. They are WAL-logged. */
static void
StoreCounts(const LiveFilter &filter, const LiveCounts &counts)
{
	PGAlignedBlock scratch;
	HeldPage page;
	LiveTally tally = {};

	for (int i = 0; i < kLiveCounters; i++)
		if (i != (int) LiveCounter::New)
			tally.value[i] = counts.value[i];
	tally.clock = counts.clock;
	HoldPageToChange(filter, CountersBlock(filter), Kind::kCounters, &page);
	memcpy(scratch.data, page.bytes, BLCKSZ);
	ChangeWord(CountersOf((uint8_t *) scratch.data), Word::Since,
			   [&](uint64) { return (uint64) counts.since; });
	if (counts.since != 0)
		AddTally(CountersOf((uint8_t *) scratch.data), tally);
	StartChange();
	ChangeToScratch(page, (const uint8_t *) scratch.data);
	LogWhole(page);
	MakeChange(filter);
	ReleasePage(page);
}

void
CarryLiveCounts(const LiveFilter &from, const LiveCounts &counts, const LiveFilter &to)
{
	LiveTally added = {};
	int64 before = 0;
	Pending *mine;

	StoreCounts(to, counts);

	/*
	 * The keys that this transaction has counted as new were in the old file, or are counted again.
	 */
	for (int i = 0; i < pending_count; i++)
	{
		LiveTally &tally = pending[i].tally;

		if (pending[i].relid == RelationGetRelid(from.rel))
			before += tally.value[(int) LiveCounter::New];
		if (pending[i].relid != RelationGetRelid(to.rel))
			continue;
		added.value[(int) LiveCounter::New] += tally.value[(int) LiveCounter::New];
		added.clock = Max(added.clock, tally.clock);
		tally = {};
	}
	mine = PendingOf(RelationGetRelid(from.rel));
	mine->tally.value[(int) LiveCounter::New] += added.value[(int) LiveCounter::New] - before;
	mine->tally.clock = Max(mine->tally.clock, added.clock);
}

/* ---- warnings ------------------------------------------------------------------ */

static uint32 early_noted;
static Oid early_filter;

void
NoteLiveEarly(const LiveFilter &filter, unsigned early)
{
	early_filter = RelationGetRelid(filter.rel);
	early_noted += early;
}

/*
 * Some keys are dropped early even in a filter that is not overfull: lines do not fill evenly, and
 * are sized so that one key in a thousand is dropped.
 */
bool
LiveIsOverfull(const LiveFilter &filter, int64 early, int64 keys)
{
	return (double) early > 0.002 * (double) keys + 20;
}

static void
WarnOfWindow(const LiveFilter &filter)
{
	ereport(
		WARNING,
		(errmsg("live filter \"%s\" receives more keys in its window of time than it was made for",
				LiveName(filter)),
		 errdetail("It was made for " UINT64_FORMAT
				   " keys; the oldest are forgotten before their time.",
				   filter.parameters.prototype_keys),
		 errhint("Make a larger one, or one without a number of keys, which grows. "
				 "dedup_stats() counts the keys that were forgotten early. This warning is "
				 "given once.")));
}

bool
LiveWindowIsOverfull(const LiveFilter &filter, int64 keys)
{
	const double most = (double) filter.parameters.prototype_keys;

	return filter.parameters.ttl != 0 && !filter.parameters.geometry.layout.grows &&
		   (double) keys > most + most / kWindowGenerations;
}

void
WarnLiveEarly(const LiveFilter &filter)
{
	Buffer buffer;
	int64 early;
	int64 keys;

	if (likely(early_noted == 0))
		return;
	/* No buffer is locked: a lock would hold off interrupts. */
	Assert(InterruptHoldoffCount == 0);
	if (early_filter == RelationGetRelid(filter.rel))
	{
		buffer = PinCounters(filter);
		early = AddEarlyKeys(buffer, early_noted, &keys);
		for (int i = 0; i < pending_count; i++)
			if (pending[i].relid == early_filter)
				keys += pending[i].tally.value[(int) LiveCounter::New];
		if (LiveIsOverfull(filter, early, keys) && MayWarn(buffer))
			WarnOfWindow(filter);
		ReleaseBuffer(buffer);
	}
	early_noted = 0;
}

/* ---- transactions ------------------------------------------------------------- */

/*
 * Returns whether the server will write and sync the whole file at the commit, instead of logging
 * changes: with wal_level = minimal, if this transaction has made the file.
 */
static bool
IsSyncedAtCommit(Relation rel)
{
	return rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT && !RelationNeedsWAL(rel);
}

/*
 * Returns whether a window of time will hold more keys than it was made for. A window forgets keys
 * early when they are settled, which is after the commit. So a transaction that adds many keys
 * counts them. It reads every page, so it must have added keys to most of them.
 */
static bool
WindowIsTooSmall(const LiveFilter &filter, const LiveCounts &counts, const LiveTally &added)
{
	const uint64 most = filter.parameters.prototype_keys;

	return (uint64) added.value[(int) LiveCounter::New] > most / 2 &&
		   LiveWindowIsOverfull(filter, LiveKeysWithOwn(filter, Max(counts.clock, added.clock)));
}

/*
 * Warns if a set or a window of time holds more keys than it was made for. It warns once in the
 * filter's life. Windows of keys forget the oldest, as they should.
 */
static void
WarnOfKeys(const LiveFilter &filter, const Pending &added)
{
	const LiveParameters &parameters = filter.parameters;
	const int64 fresh = added.tally.value[(int) LiveCounter::New];
	LiveCounts counts;

	if (parameters.geometry.layout.grows || fresh <= 0 ||
		(parameters.forgets && parameters.ttl == 0))
		return;
	counts = ReadLiveCounts(filter);
	if (counts.warned)
		return;
	if (parameters.ttl != 0)
	{
		if (WindowIsTooSmall(filter, counts, added.tally) && MayWarn(added.buffer))
			WarnOfWindow(filter);
		return;
	}
	if ((uint64) (counts.value[(int) LiveCounter::New] + fresh) <= parameters.prototype_keys ||
		!MayWarn(added.buffer))
		return;
	ereport(WARNING,
			(errmsg("live filter \"%s\" holds more keys than it was made for", LiveName(filter)),
			 errdetail("It was made for " UINT64_FORMAT
					   " keys; it forgets none of them, and grows.",
					   parameters.prototype_keys),
			 errhint("Make a larger one, or one without a number of keys. This warning is given "
					 "once.")));
}

/* Pins the pages that will be written at the commit. */
static void
PrepareCounters(void)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = TopTransactionResourceOwner;
	for (int i = 0; i < pending_count; i++)
	{
		Relation rel = try_relation_open(pending[i].relid, AccessShareLock);

		if (rel == NULL)
			continue; /* it was dropped in this transaction */
		if (IsLiveRelation(rel))
		{
			LiveFilter filter = {rel, LiveParametersOf(rel)};

			pending[i].buffer = PinCounters(filter);
			SettlePrepared(pending[i].buffer);
			WarnOfKeys(filter, pending[i]);

			/*
			 * When the server syncs the file, it must not find its buffers pinned by us. An abort
			 * removes the file, so its counters are final now.
			 */
			if (IsSyncedAtCommit(rel))
				AddCounters(&pending[i], kNoXid);
		}
		relation_close(rel, AccessShareLock);
	}
	CurrentResourceOwner = owner;
}

static void
FinishCounters(uint64 preparing)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = TopTransactionResourceOwner;
	/* Filters without a buffer were dropped, or were counted by PrepareCounters(). */
	for (int i = 0; i < pending_count; i++)
		if (BufferIsValid(pending[i].buffer))
			AddCounters(&pending[i], preparing);
	CurrentResourceOwner = owner;
	pending_count = 0;
	early_noted = 0;
}

static void
AtTransaction(XactEvent event, void *)
{
	static uint64 preparing;

	if (pending_count == 0)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			PrepareCounters();
			break;
		case XACT_EVENT_PRE_PREPARE:
			preparing = WideXid(GetTopTransactionId());
			PrepareCounters();
			break;
		case XACT_EVENT_COMMIT:
			FinishCounters(kNoXid);
			break;
		case XACT_EVENT_PREPARE:
			FinishCounters(preparing);
			break;
		case XACT_EVENT_ABORT:
			/* The buffers were unpinned with the transaction's resources. */
			pending_count = 0;
			early_noted = 0;
			break;
		default:
			break;
	}
}

static void
AtSubTransaction(SubXactEvent event, SubTransactionId, SubTransactionId, void *)
{
	int level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
		while (pending_count > 0 && pending[pending_count - 1].level >= level)
			pending_count--;
	if (event != SUBXACT_EVENT_COMMIT_SUB)
		return;

	/* Pending counts are ordered by level: those of the subtransaction are the last. */
	for (int i = 1; i < pending_count; i++)
		Assert(pending[i - 1].level <= pending[i].level);

	int first = pending_count;
	int kept;

	while (first > 0 && pending[first - 1].level >= level)
		first--;
	kept = first;
	for (int i = first; i < pending_count; i++)
	{
		int parent = kept - 1;

		while (parent >= 0 &&
			   (pending[parent].level != level - 1 || pending[parent].relid != pending[i].relid))
			parent--;
		if (parent < 0)
		{
			pending[kept] = pending[i];
			pending[kept++].level = level - 1;
			continue;
		}
		for (int c = 0; c < kLiveCounters; c++)
			pending[parent].tally.value[c] += pending[i].tally.value[c];
		pending[parent].tally.clock = Max(pending[parent].tally.clock, pending[i].tally.clock);
	}
	pending_count = kept;
}

void
InitLiveCounters(void)
{
	RegisterXactCallback(AtTransaction, NULL);
	RegisterSubXactCallback(AtSubTransaction, NULL);
}
