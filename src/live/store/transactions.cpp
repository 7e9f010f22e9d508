/*
 * The state of transactions that pages name: whether they can exist, how they have ended, and which
 * subtransaction owns the keys of an ended one.
 */
#include "live/store/store.hpp"
#include "pg/compat_storage.hpp"

extern "C" {
#include "access/subtrans.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
}

using namespace dedup::live;

uint64
WideXid(TransactionId xid)
{
	static TransactionId last = InvalidTransactionId;
	static uint64 last_wide;

	if (xid != last)
	{
		uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
		uint64 wide = (next & ~(uint64) PG_UINT32_MAX) | xid;

		/* It may be the next id itself: the xmin of a snapshot when no transaction is running. */
		if (wide > next)
			wide -= (uint64) 1 << 32;
		last_wide = wide;
		last = xid;
	}
	return last_wide;
}

#if HAS_VISIBILITY_BOUNDS

namespace
{

/* The server's answers for filters of one kind. Its answer "visible to all" never changes. */
struct SeenByAllOf
{
	const GlobalVisState *kind;
	uint64 before;
};

SeenByAllOf seen_by_all;

} /* namespace */

uint64
SeenByAllBefore(const LiveFilter &filter)
{
	const GlobalVisState *kind = GlobalVisTestFor(filter.rel);

	if (seen_by_all.kind != kind)
		seen_by_all = {kind, 0};
	return seen_by_all.before;
}

/*
 * Returns whether every snapshot, including those of dumps, sees the work of this committed
 * transaction.
 */
static bool
SeenByAll(const LiveFilter &filter, uint64 wide)
{
	if (wide < SeenByAllBefore(filter))
		return true;
	if (!GlobalVisCheckRemovableXid(filter.rel, (TransactionId) wide))
		return false;
	seen_by_all.before = wide + 1;
	return true;
}

#else

uint64
SeenByAllBefore(const LiveFilter &)
{
	return 0;
}

static bool
SeenByAll(const LiveFilter &filter, uint64 wide)
{
	return TransactionIdPrecedes((TransactionId) wide, OLDEST_RUNNING(filter.rel));
}

#endif

uint64 live_xids_from;
uint64 live_xids_to;
KnownCommitted live_committed[kKnownCommitted];

bool
LookUpPossibleXids(uint64 wide)
{
	const TransactionId oldest = OLDEST_CLOG_XID;

	live_xids_to = U64FromFullTransactionId(ReadNextFullTransactionId());
	live_xids_from = live_xids_to - (uint32) ((TransactionId) live_xids_to - oldest);
	return wide >= live_xids_from && wide < live_xids_to;
}

Verdict
JudgeXid(const LiveFilter &filter, BlockNumber block, uint64 wide)
{
	TransactionId xid = (TransactionId) wide;

	if (wide == kFrozen)
		return Verdict::kCommitted;
	CheckPageXid(filter, block, wide);
	if (!IsKnownCommitted(wide))
	{
		if (TransactionIdIsCurrentTransactionId(xid) || TransactionIdIsInProgress(xid))
			return Verdict::kKeep;
		if (!TransactionIdDidCommit(xid))
			return Verdict::kAborted;
		NoteCommitted(wide);
	}
	return SeenByAll(filter, wide) ? Verdict::kCommitted : Verdict::kKeep;
}

/*
 * Returns the nearest ancestor of one of our subtransactions that is still running: itself, if it
 * is. `current` is the innermost subtransaction with an id.
 */
static TransactionId
NearestRunning(TransactionId ended, TransactionId current)
{
	/* Parents have smaller ids than their children, so the two walks up meet there. */
	while (TransactionIdIsValid(ended) && TransactionIdIsValid(current) && ended != current)
	{
		if (TransactionIdFollows(ended, current))
			ended = SubTransGetParent(ended);
		else
			current = SubTransGetParent(current);
	}
	return ended == current ? ended : InvalidTransactionId;
}

uint64
HeirOf(uint64 wide)
{
	const TransactionId xid = (TransactionId) wide;
	const TransactionId current = GetCurrentTransactionIdIfAny();
	TransactionId heir;

	/* A transaction that is known to have committed is not one of our subtransactions any more. */
	if (wide == kNoXid || wide == kFrozen || IsKnownCommitted(wide) ||
		!TransactionIdIsValid(current) || xid == current ||
		!TransactionIdIsCurrentTransactionId(xid))
		return wide;
	heir = NearestRunning(xid, current);
	return TransactionIdIsValid(heir) && heir != xid ? WideXid(heir) : wide;
}
