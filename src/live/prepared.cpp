/*
 * The counts of prepared transactions. They wait in slots of the page of counters
 * (counters_page.hpp), with the transactions' ids, until a session finds that the transactions have
 * ended.
 */
#include "live/counters_page.hpp"
#include "pg/compat_storage.hpp"

extern "C" {
#include "storage/lwlock.h"
#include "storage/procarray.h"
}

using namespace dedup::live;

namespace
{

struct PreparedSlot
{
	pg_atomic_uint64 xid; /* 0: free; 1: being written; else the id, with a check of all values */
	int64 value[kLiveCounters];
	uint64 clock;
};
static_assert(sizeof(PreparedSlot) == 88, "the page of counters is stored");
constexpr uint64 SLOT_BUSY = 1;
constexpr int PREPARED_SLOTS = (BLCKSZ - kPreparedSlotsAt) / sizeof(PreparedSlot);

/* The counts of a prepared transaction. */
struct Kept
{
	PreparedSlot *slot;
	uint64 word; /* the slot's word when it was read */
	LiveTally tally;
	bool committed;
};

} /* namespace */

static PreparedSlot *
PreparedOf(uint8_t *page)
{
	return (PreparedSlot *) (page + kPreparedSlotsAt);
}

/* Returns the word of a slot with these values. */
static uint64
SlotWord(uint64 xid, const int64 *value, uint64 clock)
{
	uint64 sum = TermOf(kLiveCounters, clock);

	for (int i = 0; i < kLiveCounters; i++)
		sum += TermOf((size_t) i, (uint64) value[i]);
	return xid | ToChecked(xid + sum) >> kCheckedBits << kCheckedBits;
}

bool
KeepPrepared(uint8_t *page, uint64 xid, const LiveTally &tally)
{
	PreparedSlot *slots = PreparedOf(page);

	Assert(xid != kNoXid && xid != SLOT_BUSY && FromChecked(xid) == xid);
	for (int i = 0; i < PREPARED_SLOTS; i++)
	{
		uint64 expected = 0;

		if (!pg_atomic_compare_exchange_u64(&slots[i].xid, &expected, SLOT_BUSY))
			continue;
		memcpy(slots[i].value, tally.value, sizeof slots[i].value);
		slots[i].clock = tally.clock;
		pg_write_barrier();
		pg_atomic_write_u64(&slots[i].xid, SlotWord(xid, tally.value, tally.clock));
		AddToWord(CountersOf(page), Word::Prepared, 1);
		return true;
	}
	return false;
}

/*
 * Returns whether an ended transaction committed. Returns false if its commit status has been
 * truncated: a standby, a backup or a crash can bring back a slot that was freed long ago, because
 * hints are not replicated. Its values were counted at that time.
 */
static bool
HasCommitted(uint64 xid)
{
	bool committed;

	/* The check is the same as in pg_xact_status(). */
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	committed = xid >= WideXid(OLDEST_CLOG_XID) &&
				xid < U64FromFullTransactionId(ReadNextFullTransactionId()) &&
				TransactionIdDidCommit((TransactionId) xid);
	LWLockRelease(XactTruncationLock);
	return committed;
}

/*
 * Runs visit(kept) over the slots whose transactions have ended, or that are not valid. The page
 * must be pinned, but need not be locked.
 */
template <typename Visit>
static void
VisitEnded(uint8_t *page, Visit visit)
{
	PreparedSlot *slots = PreparedOf(page);

	if (likely(ReadWord(CountersOf(page), Word::Prepared) == 0))
		return;
	for (int i = 0; i < PREPARED_SLOTS; i++)
	{
		Kept kept = {&slots[i], pg_atomic_read_u64(&slots[i].xid), {}, false};
		const uint64 xid = FromChecked(kept.word);
		uint64 clock;

		if (kept.word == 0 || kept.word == SLOT_BUSY)
			continue;
		pg_read_barrier();
		memcpy(kept.tally.value, slots[i].value, sizeof kept.tally.value);
		clock = slots[i].clock;
		kept.tally.clock = (uint32) clock;
		if (SlotWord(xid, kept.tally.value, clock) == kept.word)
		{
			if (TransactionIdIsCurrentTransactionId((TransactionId) xid) ||
				TransactionIdIsInProgress((TransactionId) xid))
				continue;
			kept.committed = HasCommitted(xid);
		}
		visit(kept);
	}
}

void
SettlePrepared(Buffer buffer)
{
	uint8_t *page = (uint8_t *) BufferGetPage(buffer);

	VisitEnded(page, [&](Kept &kept) {
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		/* The session that frees the slot counts its values. */
		if (pg_atomic_compare_exchange_u64(&kept.slot->xid, &kept.word, 0))
		{
			AddToWord(CountersOf(page), Word::Prepared, -1);
			if (kept.committed)
				AddTally(CountersOf(page), kept.tally);
			MarkBufferDirtyHint(buffer, true);
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	});
}

void
AddPrepared(uint8_t *page, LiveCounts *counts)
{
	VisitEnded(page, [&](const Kept &kept) {
		if (!kept.committed)
			return;
		for (int i = 0; i < kLiveCounters; i++)
			counts->value[i] += kept.tally.value[i];
		counts->clock = Max(counts->clock, kept.tally.clock);
	});
}
