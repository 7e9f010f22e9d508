/*
 * What pages ask about transactions: whether they can exist, how they have ended, and who has
 * the keys of subtransactions.
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

		/* It may be the next one itself: the xmin of a snapshot with nobody running. */
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

/* What the server said of filters of a kind. Its answer "seen by all" never changes. */
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

/* Whether every snapshot, of dumps too, sees what this committed transaction did. */
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
 * The nearest ancestor of a subtransaction of ours that is still running: itself, if it
 * is. `current` is the innermost that has an id.
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

	/* What is known to have committed is no subtransaction of ours any more. */
	if (wide == kNoXid || wide == kFrozen || IsKnownCommitted(wide) ||
		!TransactionIdIsValid(current) || xid == current ||
		!TransactionIdIsCurrentTransactionId(xid))
		return wide;
	heir = NearestRunning(xid, current);
	return TransactionIdIsValid(heir) && heir != xid ? WideXid(heir) : wide;
}
