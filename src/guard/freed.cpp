/*
 * Guards with on_delete => 'forget': rows free their keys when they are deleted.
 *
 * The AFTER DELETE OR UPDATE trigger forgets the key of a row that was deleted, or that an UPDATE
 * has left with another key or without a key. The trigger fires at the end of the statement, when
 * no other trigger can prevent the deletion any more. If the same statement has inserted the row
 * again, it has used the note of the BEFORE DELETE trigger (deleted.cpp), and the key is kept. For
 * later statements of the transaction the key is free.
 *
 * A DELETE never fails and never waits because of the filter. If another transaction has the key
 * in flight, the key cannot be forgotten. Then the note is kept, so this transaction may insert
 * the row again.
 *
 * TRUNCATE fires no row triggers. The AFTER TRUNCATE trigger empties the filter if the whole table
 * was truncated and no other table uses the filter. A logical replication worker truncates a table
 * partition by partition. Then the filter is emptied before the next row or at the commit.
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

/* The data that is kept for the guard of a table. */
struct FreeingGuard
{
	const GuardPlan *plan;
	KeyReader reader;
	GuardKey old_key;
	GuardKey new_key;
};

} /* namespace */

/*
 * All FreeingGuards of the transaction, in TopTransactionContext. They are not in the state of the
 * trigger, because the server makes a new state whenever the events change from one table to
 * another, as with rows of several partitions, and does not free the old state.
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

/* Returns the plan of a guard that may forget keys, or NULL if the guard is not valid. */
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
 * The key of a row with a time counts from this time, or from an earlier time. There are two cases
 * with an earlier time. A row whose time was in the future counts from its insertion. A row whose
 * time was updated to a later time counts from its old time.
 *
 * A deleted row frees the last sight of its key that is not later than the row. So from any
 * generation on, a key never has more sights than rows, and each sight belongs to a row. Later rows
 * with the same key, for which the deleted row was too old to matter, keep their sights. The clock
 * does not matter for this, as it does not matter when a row is tested. The window does not matter
 * either: a sight that has expired, but is still stored, makes late rows duplicates.
 *
 * If the window renews keys, the sights of a row's duplicates look the same as the sights of a
 * later row. All of them are removed, so that no row is lost.
 */

/* Returns whether a guard frees keys that count from the times of their rows. */
static bool
FreesByTime(const GuardPlan *plan, const LiveFilter &filter)
{
	return plan->options.forget && plan->clause.at != NULL && filter.parameters.ttl != 0 &&
		   !filter.parameters.renew;
}

/*
 * Returns the last generation from which a row can count. A row without a time can count from any
 * generation.
 */
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

/*
 * Removes the last of the given sights of a key. Then puts the key under `generation`, unless this
 * generation is outside the window.
 */
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
	/* The sight of the deleted row is too old to make the new row a duplicate. */
	if (added)
		(void) LiveRelease(filter, hash, {0, LiveWindowStart(Min(to, LiveClock(filter)))});
	else if (to < PG_UINT32_MAX)
	{
		const uint32 start = LiveWindowStart(LiveClock(filter));
		const LiveSights later = {to + 1, PG_UINT32_MAX};

		/* The note has no time; it only has `in_window`. */
		MoveSight(filter, hash,
				  use.in_window ? LiveSights{Max(later.from, start), later.to}
								: LiveSights{later.from, Max(start, 1u) - 1},
				  to);
	}
}

/* ---- the trigger --------------------------------------------------------------------- */

/* Frees the key of a deleted or updated row, unless the row was inserted again. */
static void
FreeKey(const GuardPlan *plan, const LiveFilter &filter, const GuardKey &key, uint64 hash)
{
	const Oid oid = RelationGetRelid(filter.rel);

	if (!AskDeletedRow(oid, hash) && ReleaseRowKey(plan, filter, key, hash))
		DropDeletedRow(oid, hash);
}

/* Returns the guard of the table whose trigger is called, or NULL. */
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
	/* If the UPDATE has marked the row, the row has lost its own key. */
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

/*
 * Calls test(table) for the tables that hold the rows of a guarded table. Returns whether it is
 * true for all of them.
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

/*
 * Empties a filter as TRUNCATE does. Checks no privileges: the table's owner needs no TRUNCATE
 * privilege on the filter.
 */
static void
EmptyFilter(Oid filter)
{
	Relation rel;

	/* If TRUNCATE names both the table and the filter, the filter may be empty already. */
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

	/*
	 * Another trigger may have inserted rows already. Then the filter was emptied before the first
	 * of these rows, and this call does nothing.
	 */
	if (plan != NULL && plan->guarded == RelationGetRelid(trigger->tg_relation))
		(void) EmptyFilterOf(plan);
}
