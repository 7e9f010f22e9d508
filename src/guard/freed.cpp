/*
 * Guards whose rows free their keys when they go: on_delete => 'forget'.
 *
 * The trigger AFTER DELETE OR UPDATE forgets the key of a row that is gone, or has another key
 * or none now. It fires at the end of the statement, when no later trigger can keep the row
 * any more, and when it is known whether the same statement has inserted the row again: then
 * the note that the trigger BEFORE DELETE made (deleted.cpp) is used. A row that another
 * statement of the transaction inserts finds its key free.
 *
 * No DELETE fails or waits for this. What cannot be forgotten, since another transaction has
 * the key in flight, stays noted: this transaction may insert the row again.
 *
 * TRUNCATE fires no triggers for rows. It empties the filter with the table, if that is the
 * whole table and the only one that the filter guards. Partition by partition, as a worker that
 * applies changes truncates a table, it does so before the next row or at the commit.
 */
#include "guard/row_key.hpp"
#include "guard/truncation.hpp"

extern "C" {
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
}

/* ---- rows ------------------------------------------------------------------------ */

namespace
{

/* What is kept of a table's guard for its rows. */
struct FreeingGuard
{
	const GuardPlan *plan;
	KeyReader reader;
	GuardKey old_key;
	GuardKey new_key;
};

} /* namespace */

/*
 * The server makes the state of a trigger anew whenever events of another table come between,
 * as they do for the rows of partitions, and frees it never. So there is one for the
 * transaction, in TopTransactionContext.
 */
static List *freeing = NIL;

void
ForgetFreeing(void)
{
	freeing = NIL;
}

static FreeingGuard *
FreeingGuardOf(const GuardPlan *plan)
{
	FreeingGuard *guard;
	MemoryContext old;
	ListCell *cell;

	foreach(cell, freeing)
		if (((FreeingGuard *) lfirst(cell))->plan == plan)
			return (FreeingGuard *) lfirst(cell);
	old = MemoryContextSwitchTo(TopTransactionContext);
	guard = (FreeingGuard *) palloc0(sizeof(FreeingGuard));
	guard->plan = plan;
	MakeKeyReader(&guard->reader, &plan->clause);
	freeing = lcons(guard, freeing);
	MemoryContextSwitchTo(old);
	return guard;
}

/* The plan of a guard that may forget keys; NULL if it is not valid. */
static const GuardPlan *
ForgettingPlan(const TriggerData *trigger)
{
	const GuardPlan *plan = FindGuardPlan(trigger->tg_relation, trigger->tg_trigger->tgfoid, true);

	return plan != NULL && plan->options.forget && IsLiveRelationId(plan->clause.filter) &&
				   GuardOwnerMayAdd(plan)
			   ? plan
			   : NULL;
}

/* ---- times -------------------------------------------------------------------------- */

/*
 * A row with a time counts from it, or from an earlier one: that of its insertion if its time was
 * ahead of the clock then, or the one before an UPDATE. When it goes it frees the last sight of its
 * key that is not later than itself. So there are never more sights of a key from some generation
 * on than rows, and none without a row by which it can be explained; and later rows with the same
 * key, for which this one was too old to matter, keep theirs. The clock plays no part in that, as
 * it plays none when rows are judged. Nor does the window: what has expired, and is there still,
 * makes late rows duplicates.
 *
 * Where keys count from their last sight, the sights of this row's duplicates and those of a later
 * row cannot be told apart: all go, so that no row is lost.
 */

/* Whether a guard frees keys that count from the times of their rows. */
static bool
FreesByTime(const GuardPlan *plan, const LiveFilter &filter)
{
	return plan->options.forget && plan->clause.at != NULL && filter.parameters.ttl != 0 &&
		   !filter.parameters.renew;
}

/* The last generation that a row can count from; a row without a time can from any. */
static uint32
LastGenerationOf(const LiveFilter &filter, const GuardKey &key)
{
	return key.has_time && key.at < GetCurrentTimestamp() ? LiveGeneration(filter, key.at)
														  : PG_UINT32_MAX;
}

static bool
IsInWindow(const LiveFilter &filter, uint32 generation)
{
	return generation != 0 && generation >= LiveWindowStart(LiveClock(filter));
}

bool
HasKeyInWindow(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key)
{
	return FreesByTime(plan, filter) && IsInWindow(filter, LastGenerationOf(filter, key));
}

bool
ReleaseRowKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key, uint64 hash)
{
	LiveSights sights = kAllSights;

	if (FreesByTime(plan, filter))
		sights.to = LastGenerationOf(filter, key);
	else if (plan->clause.at == NULL && filter.parameters.ttl != 0)
		sights.from = LiveWindowStart(Max(LiveGenerationNow(filter), LiveClock(filter)));
	return LiveRelease(filter, hash, sights);
}

/* Puts the last of those sights of a key under a generation, unless that is out of the window. */
static void
MoveSight(const LiveFilter &filter, uint64 hash, const LiveSights &sights, uint32 generation)
{
	uint32 put_as;

	if (sights.from > sights.to || !LiveRelease(filter, hash, sights) ||
		!IsInWindow(filter, generation))
		return;
	while (LivePutKey(filter, hash, generation, &put_as) == LivePut::Waited)
		CHECK_FOR_INTERRUPTS();
}

void
MoveKeyInTime(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &old_key,
			  const GuardKey &key, uint64 hash)
{
	uint32 to;

	if (!FreesByTime(plan, filter))
		return;
	to = LastGenerationOf(filter, key);
	if (to < PG_UINT32_MAX)
		MoveSight(filter, hash, {to + 1, LastGenerationOf(filter, old_key)}, to);
}

void
ReplaceDeletedKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key, uint64 hash,
				  bool added, const DeletedRowUse &use)
{
	uint32 to;

	if (!FreesByTime(plan, filter))
		return;
	to = LastGenerationOf(filter, key);
	/* What the deleted row had is too old for the new one. */
	if (added)
		(void) LiveRelease(filter, hash, {0, LiveWindowStart(Min(to, LiveClock(filter)))});
	else if (to < PG_UINT32_MAX)
	{
		const uint32 start = LiveWindowStart(LiveClock(filter));
		const LiveSights later = {to + 1, PG_UINT32_MAX};

		/* The time of the deleted row is not known any more. */
		MoveSight(filter, hash,
				  use.in_window ? LiveSights{Max(later.from, start), later.to}
								: LiveSights{later.from, Max(start, 1u) - 1},
				  to);
	}
}

/* ---- the trigger --------------------------------------------------------------------- */

/* Frees the key of a row that is gone, unless the row was inserted again. */
static void
FreeKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key, uint64 hash)
{
	const Oid oid = RelationGetRelid(filter.rel);

	if (!AskDeletedRow(oid, hash) && ReleaseRowKey(plan, filter, key, hash))
		DropDeletedRow(oid, hash);
}

/* The guard of the table whose trigger is called, or NULL. */
static FreeingGuard *
CalledGuard(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	if (unlikely(fcinfo->flinfo->fn_extra == NULL))
	{
		const GuardPlan *plan = ForgettingPlan(trigger);

		if (plan != NULL)
			fcinfo->flinfo->fn_extra = FreeingGuardOf(plan);
	}
	return (FreeingGuard *) fcinfo->flinfo->fn_extra;
}

void
GuardFreesRow(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	FreeingGuard *guard = CalledGuard(fcinfo, trigger);
	const GuardPlan *plan;
	LiveFilter filter;
	uint64 hash;
	uint64 new_hash;
	bool stays;

	if (guard == NULL || IsMarkedRow(guard->plan, trigger->tg_trigslot))
		return;
	plan = guard->plan;
	ReadGuardKey(guard->reader, trigger->tg_trigslot, &guard->old_key);
	/* A row that is marked now has no key of its own any more. */
	stays = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) && !IsMarkedRow(plan, trigger->tg_newslot);
	if (stays)
	{
		ReadGuardKey(guard->reader, trigger->tg_newslot, &guard->new_key);
		if (SameGuardKey(plan, guard->old_key, guard->new_key) &&
			SameGuardTime(guard->old_key, guard->new_key))
			return;
	}
	filter = OpenLiveUnchecked(plan->clause.filter, RowExclusiveLock);
	if (HashGuardKey(plan, guard->old_key, filter.key_seed(), &hash))
	{
		stays = stays && HashGuardKey(plan, guard->new_key, filter.key_seed(), &new_hash) &&
				new_hash == hash;
		if (!stays)
			FreeKey(plan, filter, guard->old_key, hash);
		else
			MoveKeyInTime(plan, filter, guard->old_key, guard->new_key, hash);
	}
	CloseLive(filter);
}

/* ---- whole tables ------------------------------------------------------------------ */

void
NoticeKeptKeys(Oid table, Oid filter)
{
	ereport(NOTICE,
			(errmsg("live filter \"%s\" still has the keys of the rows of table \"%s\"",
					get_rel_name(filter), get_rel_name(table)),
			 errdetail("The rows were not deleted one by one, so they have not freed their keys. "
					   "New rows with these keys are duplicates."),
			 errhint("To fill the filter anew, run: SELECT dedup_rebuild(%s).",
					 quote_literal_cstr(QualifiedGuardName(filter)))));
}

/* Runs test(table) over the tables that hold the rows of a guarded one. Returns whether all pass.
 */
template <typename Test>
static bool
ForAllLeaves(Oid guarded, Test test)
{
	List *tables = find_all_inheritors(guarded, NoLock, NULL);
	bool all = true;
	ListCell *cell;

	foreach(cell, tables)
		if (all && get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE)
			all = test(lfirst_oid(cell));
	list_free(tables);
	return all;
}

bool
TruncateEmptiesFilter(const GuardPlan *plan)
{
	return !IsSharedFilter(plan->clause.filter, plan->guarded) &&
		   ForAllLeaves(plan->guarded, [](Oid table) {
			   return HoldsExclusively(table) && (IsTruncated(table) || HasNoBlocks(table));
		   });
}

/* Empties a filter as TRUNCATE does, which the table's owner need not be allowed. */
static void
EmptyFilter(Oid filter)
{
	Relation rel;

	/* The statement may have emptied it already: TRUNCATE of both. */
	LockRelationOid(filter, AccessExclusiveLock);
	if (HasNoBlocks(filter))
		return;
	rel = table_open(filter, NoLock);
	ReplaceFile(rel);
	table_close(rel, NoLock);
}

bool
EmptyFilterOf(const GuardPlan *plan)
{
	if (!plan->options.forget || IsSharedFilter(plan->clause.filter, plan->guarded) ||
		!ForAllLeaves(plan->guarded,
					  [](Oid table) { return HoldsExclusively(table) && HasNoBlocks(table); }))
		return false;
	EmptyFilter(plan->clause.filter);
	return true;
}

void
GuardTruncated(const TriggerData *trigger)
{
	const GuardPlan *plan = ForgettingPlan(trigger);

	/* Another trigger may have inserted rows already; it has emptied the filter then. */
	if (plan != NULL && plan->guarded == RelationGetRelid(trigger->tg_relation))
		(void) EmptyFilterOf(plan);
}
