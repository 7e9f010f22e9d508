/* SQL functions on the keys of live filters: look up, add, forget. */
#include "live/call.hpp"

extern "C" {
#include "access/xlog.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
}

/* Returns the call site with a plan for the key columns from argument `first` on. */
static LiveCall *
GetKeyLiveCall(FunctionCallInfo fcinfo, int first)
{
	LiveCall *call = GetLiveCall(fcinfo);

	if (call->keys == NULL)
		call->keys = MakeKeyPlan(fcinfo, first);
	return call;
}

static LiveCounter
CounterOf(LiveAnswer answer)
{
	return answer == LiveAnswer::New         ? LiveCounter::New
		   : answer == LiveAnswer::Duplicate ? LiveCounter::Duplicate
											 : LiveCounter::TooOld;
}

/* Tests and adds the key from argument `first` on. */
static Datum
IsNew(FunctionCallInfo fcinfo, bool timed)
{
	const char *function = timed ? "is_new_at()" : "is_new()";
	const int first = timed ? 2 : 1;
	LiveCall *call;
	LiveFilter filter;
	uint64 hash;
	LiveAnswer answer = LiveAnswer::New;
	bool has_key;

	RequireArgument(fcinfo, 0, "name", function);
	if (timed)
		RequireArgument(fcinfo, 1, "event time", function);
	call = GetKeyLiveCall(fcinfo, first);
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call), LiveUse::Add, GetUserId(), function);
	if (timed && filter.parameters.ttl == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("live filter \"%s\" has no window of time", LiveName(filter)),
						errhint("Give dedup_create() a ttl, or call is_new().")));
	has_key = HashKey(call->keys, fcinfo, NullKeys::Skip, filter.key_seed(), &hash);
	if (has_key)
	{
		if (timed)
		{
			const uint32 generation = LiveGeneration(filter, PG_GETARG_TIMESTAMPTZ(1));
			const bool ahead = LiveIsAhead(filter, generation);

			answer = LiveTestAndAdd(filter, hash, generation, LiveTime::Event);
			/* A duplicate that is a sight of its key moves the window, too. */
			if (ahead && (answer == LiveAnswer::New || filter.parameters.renew))
				WarnLiveAhead(filter, "event time is");
		}
		else
			answer = LiveTestAndAdd(filter, hash, LiveGenerationNow(filter));
		CountLive(filter, CounterOf(answer), 1);
	}
	CloseLive(filter);
	PG_RETURN_BOOL(answer != LiveAnswer::Duplicate);
}

/*
 * is_new(name, VARIADIC key "any") returns boolean
 *
 * Returns whether the key is new to a live filter. The filter remembers it if this transaction
 * commits. Waits for another transaction that has the same key in flight. A key with a NULL column
 * is always new, and not remembered. A NULL name raises 22004.
 */
DEDUP_FUNCTION(dedup_live_is_new)
{
	return IsNew(fcinfo, false);
}

/*
 * is_new_at(name, at timestamptz, VARIADIC key "any") returns boolean
 *
 * Does the same in a filter with a ttl, by the event's own time. An event that is older than the
 * window before the newest event is new, and not remembered. A NULL time raises 22004.
 */
DEDUP_FUNCTION(dedup_live_is_new_at)
{
	return IsNew(fcinfo, true);
}

/*
 * dedup_seen(name, VARIADIC key "any") returns boolean
 *
 * Returns whether a live filter has the key: committed, or added by this transaction. Never waits,
 * and changes nothing.
 */
DEDUP_FUNCTION(dedup_live_seen)
{
	LiveCall *call;
	LiveFilter filter;
	uint64 hash;
	bool seen = false;

	RequireArgument(fcinfo, 0, "name", "dedup_seen()");
	call = GetKeyLiveCall(fcinfo, 1);
	if (!RecoveryInProgress() && !IsInParallelMode())
		SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call), LiveUse::Ask, GetUserId(), "dedup_seen()");
	if (HashKey(call->keys, fcinfo, NullKeys::Skip, filter.key_seed(), &hash))
		seen = LiveSeen(filter, hash, LiveGenerationNow(filter));
	CloseLive(filter);
	PG_RETURN_BOOL(seen);
}

/*
 * Called before a key is removed from a filter that covers its table. Raises 55000 if an enabled
 * exact guard needs the key; else the filter covers nothing from now on. This needs a stronger
 * lock. The weaker lock is released first, so that two sessions do not wait for each other.
 */
static void
GiveUpCover(LiveFilter *filter)
{
	const Oid relid = RelationGetRelid(filter->rel);
	Oid table = LiveExactlyGuardedTable(relid);

	if (!OidIsValid(table))
	{
		CloseLive(*filter);
		UnlockRelationOid(relid, RowExclusiveLock);
		LockRelationOid(relid, ShareRowExclusiveLock);
		*filter = OpenLive(relid, LiveUse::Add, GetUserId(), "dedup_forget()");
		table = LiveExactlyGuardedTable(relid);
	}
	if (OidIsValid(table))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot forget a key in live filter \"%s\", which guards table \"%s\" exactly",
					LiveName(*filter), get_rel_name(table)),
			 errdetail("The guard needs the keys of all rows."),
			 errhint("Delete the row that has the key: an exact guard takes the key again then.")));
	SetLiveCovers(*filter, false);
}

/*
 * dedup_forget(name, VARIADIC key "any") returns boolean
 *
 * Forgets a key when this transaction commits; says whether it was there. Only for keys
 * whose add was answered new: forgetting one that was never added may forget another
 * with the same fingerprint, at the filter's rate. In a window of time the present is that of the
 * newest key, as for is_new_at().
 */
DEDUP_FUNCTION(dedup_live_forget)
{
	LiveCall *call;
	LiveFilter filter;
	uint64 hash;
	bool found = false;

	RequireArgument(fcinfo, 0, "name", "dedup_forget()");
	call = GetKeyLiveCall(fcinfo, 1);
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call), LiveUse::Add, GetUserId(), "dedup_forget()");
	if (HashKey(call->keys, fcinfo, NullKeys::Skip, filter.key_seed(), &hash))
	{
		if (unlikely(LiveCovers(filter)))
			GiveUpCover(&filter);
		NoteForgottenKey();
		found = LiveForget(filter, hash);
	}
	CloseLive(filter);
	PG_RETURN_BOOL(found);
}
