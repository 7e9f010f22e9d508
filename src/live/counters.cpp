/*
 * Counters of live filters. They are kept in the backend, by subtransaction, and
 * added to a page of their own when the transaction has committed. That page is
 * pinned before the commit; then only its lock is taken, shared, and atomics added to,
 * so that nothing is left that could fail. The page is no part of a generic WAL record:
 * like a hint it is logged as a whole once a checkpoint, if at all. After a crash what
 * was counted since it was last written is missing.
 *
 * What a prepared transaction has counted waits in a slot of that page, with its id,
 * until somebody finds that it has ended.
 *
 * The page, in the machine's own byte order, from line 1 on: five 64-bit counters, the
 * time of the first count, the newest generation committed, whether a warning was given,
 * how many slots are in use, how many keys of a time window gave way early; from line 2
 * on 144 slots.
 */
#include "live/store/store.hpp"

extern "C" {
#include "access/relation.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "utils/resowner.h"
}

using namespace dedup::live;

namespace
{

struct CountersPage
{
	pg_atomic_uint64 value[kLiveCounters];
	pg_atomic_uint64 since;
	pg_atomic_uint32 clock;
	pg_atomic_uint32 warned;
	pg_atomic_uint32 prepared;
	pg_atomic_uint32 early;
};
static_assert(sizeof(CountersPage) == 64, "the page of counters is stored");

struct PreparedSlot
{
	pg_atomic_uint64 xid;		/* 0: free; 1: being written */
	int64		value[kLiveCounters];
	uint64		clock;
};
static_assert(sizeof(PreparedSlot) == 56, "the page of counters is stored");
constexpr uint64 SLOT_BUSY = 1;
constexpr int PREPARED_SLOTS = (BLCKSZ - 2 * dedup::kLineBytes) / sizeof(PreparedSlot);

struct Pending
{
	Oid			relid;
	int			level;			/* nesting of the (sub)transaction */
	int64		value[kLiveCounters];
	uint32		clock;
	uint32		early;			/* to warn of */
	Buffer		buffer;			/* pinned, from before the commit on */
};

Pending    *pending;
int			pending_count;
int			pending_room;

}							/* namespace */

static CountersPage *
CountersOf(uint8_t *page)
{
	return (CountersPage *) (page + dedup::kLineBytes);
}

static PreparedSlot *
PreparedOf(uint8_t *page)
{
	return (PreparedSlot *) (page + 2 * dedup::kLineBytes);
}

/* What is pending for a filter in the current (sub)transaction. */
static Pending *
PendingOf(Oid relid)
{
	int			level = GetCurrentTransactionNestLevel();

	for (int i = pending_count - 1; i >= 0 && pending[i].level == level; i--)
		if (pending[i].relid == relid)
			return &pending[i];
	if (pending_count == pending_room)
	{
		int			room = Max(8, 2 * pending_room);

		if (pending == NULL)
			pending = (Pending *) MemoryContextAlloc(TopMemoryContext, room * sizeof(Pending));
		else
			pending = (Pending *) repalloc(pending, room * sizeof(Pending));
		pending_room = room;
	}

	Pending    *fresh = &pending[pending_count++];

	memset(fresh, 0, sizeof *fresh);
	fresh->relid = relid;
	fresh->level = level;
	return fresh;
}

/* Pins the page of counters, which is made if there is none yet. */
static Buffer
PinCounters(const LiveFilter &filter)
{
	HeldPage	page;

	HoldPageToChange(filter, CountersBlock(filter), Kind::kCounters, &page);
	LockBuffer(page.buffer, BUFFER_LOCK_UNLOCK);
	return page.buffer;
}

/* Adds to the counters of a page whose lock is held, shared at least. */
static void
AddValues(CountersPage *counters, const int64 *value, uint32 clock)
{
	uint32		have;
	uint64		never = 0;

	for (int i = 0; i < kLiveCounters; i++)
		if (value[i] != 0)
			pg_atomic_fetch_add_u64(&counters->value[i], value[i]);
	if (pg_atomic_read_u64(&counters->since) == 0)
		(void) pg_atomic_compare_exchange_u64(&counters->since, &never,
											  (uint64) GetCurrentTimestamp());
	have = pg_atomic_read_u32(&counters->clock);
	while (have < clock && !pg_atomic_compare_exchange_u32(&counters->clock, &have, clock))
		;
}

/* Keeps values for a transaction that is being prepared. False: no slot is free. */
static bool
KeepPrepared(uint8_t *page, uint64 xid, const int64 *value, uint32 clock)
{
	PreparedSlot *slots = PreparedOf(page);

	for (int i = 0; i < PREPARED_SLOTS; i++)
	{
		uint64		expected = 0;

		if (!pg_atomic_compare_exchange_u64(&slots[i].xid, &expected, SLOT_BUSY))
			continue;
		memcpy(slots[i].value, value, sizeof slots[i].value);
		slots[i].clock = clock;
		pg_write_barrier();
		pg_atomic_write_u64(&slots[i].xid, xid);
		pg_atomic_fetch_add_u32(&CountersOf(page)->prepared, 1);
		return true;
	}
	return false;
}

/*
 * Whether a transaction that has ended committed. No, if it is too old to tell: a
 * standby, a backup or a crash can bring back a slot that was freed long ago, since
 * hints are not replicated. What it held was counted then.
 */
static bool
HasCommitted(uint64 xid)
{
#if PG_VERSION_NUM >= 170000
	const TransamVariablesData *variables = TransamVariables;
#else
	const VariableCacheData *variables = ShmemVariableCache;
#endif
	bool		committed;

	/* As pg_xact_status() does. */
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	committed = xid >= WideXid(variables->oldestClogXid) &&
		TransactionIdDidCommit((TransactionId) xid);
	LWLockRelease(XactTruncationLock);
	return committed;
}

/*
 * Runs visit(slot, xid, committed) over the slots whose transactions have ended. The
 * page's lock is not needed, only its pin.
 */
template <typename Visit>
static void
VisitEnded(uint8_t *page, Visit visit)
{
	PreparedSlot *slots = PreparedOf(page);

	if (likely(pg_atomic_read_u32(&CountersOf(page)->prepared) == 0))
		return;
	for (int i = 0; i < PREPARED_SLOTS; i++)
	{
		uint64		xid = pg_atomic_read_u64(&slots[i].xid);

		if (xid > SLOT_BUSY && !TransactionIdIsCurrentTransactionId((TransactionId) xid) &&
			!TransactionIdIsInProgress((TransactionId) xid))
			visit(&slots[i], xid, HasCommitted(xid));
	}
}

/* Counts what prepared transactions have left that have ended since. */
static void
SettlePrepared(Buffer buffer)
{
	uint8_t    *page = (uint8_t *) BufferGetPage(buffer);

	VisitEnded(page, [&](PreparedSlot *slot, uint64 xid, bool committed) {
		int64		value[kLiveCounters];
		uint32		clock = (uint32) slot->clock;

		pg_read_barrier();
		memcpy(value, slot->value, sizeof value);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		/* Whoever frees the slot counts. */
		if (pg_atomic_compare_exchange_u64(&slot->xid, &xid, 0))
		{
			pg_atomic_fetch_sub_u32(&CountersOf(page)->prepared, 1);
			if (committed)
				AddValues(CountersOf(page), value, clock);
			MarkBufferDirtyHint(buffer, true);
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	});
}

/*
 * Adds what is pending to the pinned page, and unpins it; for a transaction that is
 * being prepared, keeps it there. Cannot fail.
 */
static void
AddCounters(Pending *from, uint64 preparing)
{
	uint8_t    *page;

	LockBuffer(from->buffer, BUFFER_LOCK_SHARE);
	page = (uint8_t *) BufferGetPage(from->buffer);
	if (preparing == kNoXid || !KeepPrepared(page, preparing, from->value, from->clock))
		AddValues(CountersOf(page), from->value, from->clock);
	MarkBufferDirtyHint(from->buffer, true);
	UnlockReleaseBuffer(from->buffer);
	from->buffer = InvalidBuffer;
}

void
CountLive(const LiveFilter &filter, LiveCounter counter, int64 n)
{
	if (counter == LiveCounter::Rejected)
	{
		Pending		now = {};

		now.value[(int) counter] = n;
		now.buffer = PinCounters(filter);
		AddCounters(&now, kNoXid);
		return;
	}
	PendingOf(RelationGetRelid(filter.rel))->value[(int) counter] += n;
}

void
NoteLiveGeneration(const LiveFilter &filter, uint32 generation)
{
	Pending    *mine;

	if (filter.parameters.ttl == 0)
		return;
	mine = PendingOf(RelationGetRelid(filter.rel));
	mine->clock = Max(mine->clock, generation);
}

uint32
LiveClock(const LiveFilter &filter)
{
	uint32		clock = ReadLiveCounts(filter).clock;

	for (int i = 0; i < pending_count; i++)
		if (pending[i].relid == RelationGetRelid(filter.rel))
			clock = Max(clock, pending[i].clock);
	return clock;
}

LiveCounts
ReadLiveCounts(const LiveFilter &filter)
{
	LiveCounts	counts = {};
	HeldPage	page;
	CountersPage *counters;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return counts;
	counters = CountersOf(page.bytes);
	for (int i = 0; i < kLiveCounters; i++)
		counts.value[i] = (int64) pg_atomic_read_u64(&counters->value[i]);
	counts.since = (TimestampTz) pg_atomic_read_u64(&counters->since);
	counts.clock = pg_atomic_read_u32(&counters->clock);
	counts.warned = pg_atomic_read_u32(&counters->warned) != 0;
	VisitEnded(page.bytes, [&](PreparedSlot *slot, uint64, bool committed) {
		for (int i = 0; i < kLiveCounters && committed; i++)
			counts.value[i] += slot->value[i];
		if (committed)
			counts.clock = Max(counts.clock, (uint32) slot->clock);
	});
	ReleasePage(page);
	return counts;
}

void
SettleLiveCounters(const LiveFilter &filter)
{
	HeldPage	page;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return;
	LockBuffer(page.buffer, BUFFER_LOCK_UNLOCK);
	SettlePrepared(page.buffer);
	ReleaseBuffer(page.buffer);
}

/* Whether this is the first who warns in this filter's life. */
static bool
MayWarn(const LiveFilter &filter, Buffer buffer)
{
	bool		pin = !BufferIsValid(buffer);
	CountersPage *counters;
	uint32		expected = 0;
	bool		first;

	if (pin)
		buffer = PinCounters(filter);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	counters = CountersOf((uint8_t *) BufferGetPage(buffer));
	first = pg_atomic_compare_exchange_u32(&counters->warned, &expected, 1);
	if (first)
		MarkBufferDirtyHint(buffer, true);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (pin)
		ReleaseBuffer(buffer);
	return first;
}

static uint32 early_noted;
static Oid	early_filter;

void
NoteLiveEarly(const LiveFilter &filter, unsigned early)
{
	early_filter = RelationGetRelid(filter.rel);
	early_noted += early;
}

/*
 * Some keys give way early in a filter that is not overfull too: lines do not fill
 * evenly, and are sized for one in a thousand.
 */
bool
LiveIsOverfull(const LiveFilter &filter, int64 early, int64 keys)
{
	return (double) early > 0.002 * (double) keys + 20;
}

void
WarnLiveEarly(const LiveFilter &filter)
{
	Buffer		buffer;
	CountersPage *counters;
	int64		early;
	int64		keys = 0;

	if (likely(early_noted == 0))
		return;
	if (early_filter == RelationGetRelid(filter.rel))
	{
		buffer = PinCounters(filter);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		counters = CountersOf((uint8_t *) BufferGetPage(buffer));
		early = pg_atomic_add_fetch_u32(&counters->early, early_noted);
		keys = (int64) pg_atomic_read_u64(&counters->value[(int) LiveCounter::New]);
		MarkBufferDirtyHint(buffer, true);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		for (int i = 0; i < pending_count; i++)
			if (pending[i].relid == early_filter)
				keys += pending[i].value[(int) LiveCounter::New];
		if (LiveIsOverfull(filter, early, keys) && MayWarn(filter, buffer))
			ereport(WARNING,
					(errmsg("live filter \"%s\" receives more keys in its window of time than it was made for",
							LiveName(filter)),
					 errdetail("It was made for " UINT64_FORMAT " keys; the oldest are forgotten before their time.",
							   filter.parameters.prototype_keys),
					 errhint("Make a larger one; dedup_stats() counts the keys that were forgotten early. This is said once.")));
		ReleaseBuffer(buffer);
	}
	early_noted = 0;
}

/* ---- transactions ------------------------------------------------------------- */

/* Pins what will be written at the commit. */
static void
PrepareCounters(void)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = TopTransactionResourceOwner;
	for (int i = 0; i < pending_count; i++)
	{
		Relation	rel = try_relation_open(pending[i].relid, AccessShareLock);

		if (rel == NULL)
			continue;			/* dropped in this transaction */
		if (IsLiveRelation(rel))
		{
			LiveFilter	filter = {rel, LiveParametersOf(rel)};
			LiveCounts	counts;

			pending[i].buffer = PinCounters(filter);
			SettlePrepared(pending[i].buffer);
			if (!filter.parameters.forgets && pending[i].value[(int) LiveCounter::New] > 0)
			{
				counts = ReadLiveCounts(filter);
				if (!counts.warned &&
					(uint64) (counts.value[(int) LiveCounter::New] +
							  pending[i].value[(int) LiveCounter::New]) >
					filter.parameters.prototype_keys && MayWarn(filter, pending[i].buffer))
					ereport(WARNING,
							(errmsg("live filter \"%s\" holds more keys than it was made for",
									LiveName(filter)),
							 errdetail("It was made for " UINT64_FORMAT " keys; it forgets none of them, and grows.",
									   filter.parameters.prototype_keys),
							 errhint("Make a larger one, or a window. This is said once.")));
			}
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
			/* The buffers' pins went with the transaction's resources. */
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
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_ABORT_SUB)
		while (pending_count > 0 && pending[pending_count - 1].level >= level)
			pending_count--;
	if (event != SUBXACT_EVENT_COMMIT_SUB)
		return;

	/* What is pending is ordered by level: those of the subtransaction are the last. */
	int			first = pending_count;
	int			kept;

	while (first > 0 && pending[first - 1].level >= level)
		first--;
	kept = first;
	for (int i = first; i < pending_count; i++)
	{
		int			parent = kept - 1;

		while (parent >= 0 && (pending[parent].level != level - 1 ||
							   pending[parent].relid != pending[i].relid))
			parent--;
		if (parent < 0)
		{
			pending[kept] = pending[i];
			pending[kept++].level = level - 1;
			continue;
		}
		for (int c = 0; c < kLiveCounters; c++)
			pending[parent].value[c] += pending[i].value[c];
		pending[parent].clock = Max(pending[parent].clock, pending[i].clock);
	}
	pending_count = kept;
}

void
InitLiveCounters(void)
{
	RegisterXactCallback(AtTransaction, NULL);
	RegisterSubXactCallback(AtSubTransaction, NULL);
}
