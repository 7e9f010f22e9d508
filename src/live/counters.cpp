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
 * The page, in the machine's own byte order, from line 1 on: five counters, the time of
 * the first count, the newest generation committed, whether a warning was given, how many
 * slots are in use, how many keys of a time window gave way early; from line 3 on 142
 * slots. All but the slots' values are words that check themselves (page_sum.hpp); that of
 * a slot checks its values too. A slot that does not pass was lost in a crash, or damaged:
 * it counts nothing.
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

/* The words of the page by what they count; the counters of LiveCounter come first. */
enum Word
{
	SINCE = kLiveCounters,
	CLOCK,
	WARNED,
	PREPARED,
	EARLY,
	WORDS
};

struct CountersPage
{
	pg_atomic_uint64 word[2 * dedup::kLineBytes / 8];
};
static_assert(sizeof(CountersPage) == 2 * dedup::kLineBytes && (int) WORDS <= 16,
			  "the page of counters is stored");

struct PreparedSlot
{
	pg_atomic_uint64 xid;		/* 0: free; 1: being written; else with a check of all */
	int64		value[kLiveCounters];
	uint64		clock;
};
static_assert(sizeof(PreparedSlot) == 56, "the page of counters is stored");
constexpr uint64 SLOT_BUSY = 1;
constexpr int PREPARED_SLOTS = (BLCKSZ - 3 * dedup::kLineBytes) / sizeof(PreparedSlot);

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
	return (PreparedSlot *) (page + 3 * dedup::kLineBytes);
}

/* ---- words that check themselves ---------------------------------------------- */

static uint64
ReadWord(CountersPage *counters, int word)
{
	return FromChecked(pg_atomic_read_u64(&counters->word[word]));
}

/* One that can be negative, after a crash has lost what was counted. */
static int64
ReadCount(CountersPage *counters, int word)
{
	constexpr unsigned unused = 64 - kCheckedBits;

	return (int64) (ReadWord(counters, word) << unused) >> unused;
}

/*
 * Makes a word what `change` makes of it, and returns its new value. A damaged word stays
 * as it is: it is found by CheckCounters() when the page is used next.
 */
template <typename Change>
static uint64
ChangeWord(CountersPage *counters, int word, Change change)
{
	uint64		have = pg_atomic_read_u64(&counters->word[word]);
	uint64		want;

	do
	{
		want = ToChecked(change(FromChecked(have)));
		if (unlikely(!IsChecked(have)))
			return FromChecked(have);
	} while (!pg_atomic_compare_exchange_u64(&counters->word[word], &have, want));
	return FromChecked(want);
}

static uint64
AddToWord(CountersPage *counters, int word, int64 n)
{
	return ChangeWord(counters, word, [n](uint64 value) { return value + (uint64) n; });
}

const char *
LiveCountersFlaw(const uint8_t *page)
{
	CountersPage *counters = CountersOf(const_cast<uint8_t *>(page));

	for (int word = 0; word < WORDS; word++)
		if (unlikely(!IsChecked(pg_atomic_read_u64(&counters->word[word]))))
			return "A counter does not match its check.";
	return NULL;
}

/* Raises XX001 if a word is damaged. */
static void
CheckCounters(const LiveFilter &filter, const uint8_t *page)
{
	const char *flaw = LiveCountersFlaw(page);

	if (unlikely(flaw != NULL))
		ReportBadPage(filter.rel, CountersBlock(filter), flaw);
}

/* What the word of a slot is with these values. */
static uint64
SlotWord(uint64 xid, const int64 *value, uint64 clock)
{
	uint64		sum = TermOf(kLiveCounters, clock);

	for (int i = 0; i < kLiveCounters; i++)
		sum += TermOf((size_t) i, (uint64) value[i]);
	return xid | ToChecked(xid + sum) >> kCheckedBits << kCheckedBits;
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
	CheckCounters(filter, page.bytes);
	LockBuffer(page.buffer, BUFFER_LOCK_UNLOCK);
	return page.buffer;
}

/* Adds to the counters of a page whose lock is held, shared at least. */
static void
AddValues(CountersPage *counters, const int64 *value, uint32 clock)
{
	for (int i = 0; i < kLiveCounters; i++)
		if (value[i] != 0)
			AddToWord(counters, i, value[i]);
	if (ReadWord(counters, SINCE) == 0)
		ChangeWord(counters, SINCE, [](uint64 since) {
			return since != 0 ? since : (uint64) GetCurrentTimestamp();
		});
	if (ReadWord(counters, CLOCK) < clock)
		ChangeWord(counters, CLOCK, [clock](uint64 have) { return Max(have, (uint64) clock); });
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
		pg_atomic_write_u64(&slots[i].xid, SlotWord(xid, value, clock));
		AddToWord(CountersOf(page), PREPARED, 1);
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
		xid < U64FromFullTransactionId(ReadNextFullTransactionId()) &&
		TransactionIdDidCommit((TransactionId) xid);
	LWLockRelease(XactTruncationLock);
	return committed;
}

/* What a prepared transaction has counted. */
namespace
{

struct Kept
{
	PreparedSlot *slot;
	uint64		word;			/* of the slot when it was read */
	int64		value[kLiveCounters];
	uint32		clock;
	bool		committed;
};

}							/* namespace */

/*
 * Runs visit(kept) over the slots whose transactions have ended, or that are not valid.
 * The page's lock is not needed, only its pin.
 */
template <typename Visit>
static void
VisitEnded(uint8_t *page, Visit visit)
{
	PreparedSlot *slots = PreparedOf(page);

	if (likely(ReadWord(CountersOf(page), PREPARED) == 0))
		return;
	for (int i = 0; i < PREPARED_SLOTS; i++)
	{
		Kept		kept = {&slots[i], pg_atomic_read_u64(&slots[i].xid), {}, 0, false};
		const uint64 xid = FromChecked(kept.word);
		uint64		clock;

		if (kept.word == 0 || kept.word == SLOT_BUSY)
			continue;
		pg_read_barrier();
		memcpy(kept.value, slots[i].value, sizeof kept.value);
		clock = slots[i].clock;
		kept.clock = (uint32) clock;
		if (SlotWord(xid, kept.value, clock) == kept.word)
		{
			if (TransactionIdIsCurrentTransactionId((TransactionId) xid) ||
				TransactionIdIsInProgress((TransactionId) xid))
				continue;
			kept.committed = HasCommitted(xid);
		}
		visit(kept);
	}
}

/* Counts what prepared transactions have left that have ended since. */
static void
SettlePrepared(Buffer buffer)
{
	uint8_t    *page = (uint8_t *) BufferGetPage(buffer);

	VisitEnded(page, [&](Kept &kept) {
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		/* Whoever frees the slot counts. */
		if (pg_atomic_compare_exchange_u64(&kept.slot->xid, &kept.word, 0))
		{
			AddToWord(CountersOf(page), PREPARED, -1);
			if (kept.committed)
				AddValues(CountersOf(page), kept.value, kept.clock);
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

LiveCounts
ReadLiveCounts(const LiveFilter &filter)
{
	LiveCounts	counts = {};
	HeldPage	page;
	CountersPage *counters;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return counts;
	counters = CountersOf(page.bytes);
	CheckCounters(filter, page.bytes);
	for (int i = 0; i < kLiveCounters; i++)
		counts.value[i] = ReadCount(counters, i);
	counts.since = (TimestampTz) ReadWord(counters, SINCE);
	counts.clock = (uint32) ReadWord(counters, CLOCK);
	counts.warned = ReadWord(counters, WARNED) != 0;
	VisitEnded(page.bytes, [&](const Kept &kept) {
		for (int i = 0; i < kLiveCounters && kept.committed; i++)
			counts.value[i] += kept.value[i];
		if (kept.committed)
			counts.clock = Max(counts.clock, kept.clock);
	});
	ReleasePage(page);
	return counts;
}

/* The clock of committed transactions. Asked for at every key, so it looks at two words. */
static uint32
CommittedClock(const LiveFilter &filter)
{
	HeldPage	page;
	uint64		clock;
	uint64		prepared;

	if (!HoldPage(filter, CountersBlock(filter), Kind::kCounters, BUFFER_LOCK_SHARE, &page))
		return 0;
	clock = pg_atomic_read_u64(&CountersOf(page.bytes)->word[CLOCK]);
	prepared = pg_atomic_read_u64(&CountersOf(page.bytes)->word[PREPARED]);
	ReleasePage(page);
	if (likely(prepared == 0 && IsChecked(clock)))
		return (uint32) FromChecked(clock);
	return ReadLiveCounts(filter).clock;
}

uint32
LiveClock(const LiveFilter &filter)
{
	uint32		clock = CommittedClock(filter);

	for (int i = 0; i < pending_count; i++)
		if (pending[i].relid == RelationGetRelid(filter.rel))
			clock = Max(clock, pending[i].clock);
	return clock;
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
	bool		first = false;

	if (pin)
		buffer = PinCounters(filter);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	ChangeWord(CountersOf((uint8_t *) BufferGetPage(buffer)), WARNED, [&first](uint64 warned) {
		first = warned == 0;
		return (uint64) 1;
	});
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
		early = (int64) AddToWord(counters, EARLY, early_noted);
		keys = ReadCount(counters, (int) LiveCounter::New);
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
