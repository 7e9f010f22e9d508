/*
 * The triggers of a guard. They refuse rows whose key a live filter has already seen.
 *
 * A BEFORE trigger tests and adds the key of a row before the row is inserted. rows.cpp takes the
 * key back if the row is not inserted. plan.cpp reads the definition of a table's guard. A
 * transaction may insert a row again that it has deleted; deleted.cpp and truncate.cpp note such
 * rows. moves.cpp finds rows that come from a partition without a guard. freed.cpp frees the keys
 * of deleted rows. inserted.cpp is the part of the triggers for inserted rows.
 */
#include "guard/site.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "replication/logicalworker.h"
}

/* Returns whether a BEFORE ROW trigger for any of these events fires after the trigger `than`. */
static bool
FiresLater(Relation rel, Oid than, int16 events)
{
	const TriggerDesc *triggers = rel->trigdesc;
	bool later = false;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgoid == than)
			later = true;
		else if (later && TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_BEFORE(trigger->tgtype) &&
				 (trigger->tgtype & events) != 0 && trigger->tgenabled != TRIGGER_DISABLED)
			return true;
	}
	return false;
}

/* Makes the site of a trigger for its query. */
static GuardSite *
MakeSite(FunctionCallInfo fcinfo, const TriggerData *trigger, const GuardPlan *plan)
{
	GuardSite *site;
	MemoryContext old;

	/* The current context is the query's per-tuple memory. Its parent is the query's memory. */
	site = (GuardSite *) MemoryContextAllocZero(MemoryContextGetParent(CurrentMemoryContext),
												sizeof(GuardSite));
	site->plan = plan;
	old = MemoryContextSwitchTo(GetMemoryChunkContext(site));
	MakeKeyReader(&site->reader, &plan->clause);
	MemoryContextSwitchTo(old);
	site->exact.reader = site->reader;
	site->exact.plan = plan->options.exact ? plan : NULL;
	site->exact.query = GetMemoryChunkContext(site);
	site->changeable = FiresLater(trigger->tg_relation, trigger->tg_trigger->tgoid,
								  TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE);
	site->removable =
		FiresLater(trigger->tg_relation, trigger->tg_trigger->tgoid, TRIGGER_TYPE_DELETE);
	site->root = RootOfPartition(trigger->tg_relation);
	fcinfo->flinfo->fn_extra = site;
	return site;
}

static GuardSite *
GetSite(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	GuardSite *site = (GuardSite *) fcinfo->flinfo->fn_extra;

	if (likely(site != NULL))
		return site;
	return MakeSite(fcinfo, trigger,
					GetGuardPlan(trigger->tg_relation, trigger->tg_trigger->tgfoid));
}

/* ---- keys ----------------------------------------------------------------- */

LiveFilter
OpenGuardFilter(GuardSite *site)
{
	if (unlikely(!OidIsValid(site->owner)))
	{
		site->owner = OwnerOfTable(site->plan->guarded);
		if (!OidIsValid(site->owner))
			elog(ERROR, "cache lookup failed for relation %u", site->plan->guarded);
	}
	LiveFilter filter =
		OpenLive(site->plan->clause.filter, LiveUse::Add, site->owner, "dedup_guard");

	if (unlikely(!site->filter_checked))
	{
		if (!LiveIsWhole(filter.rel))
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("live filter \"%s\" cannot guard a table", LiveName(filter)),
							errdetail("It was not made by dedup_create(), or its constraint or its "
									  "trigger is missing."),
							errhint("Make another filter with dedup_create().")));
		site->filter_checked = true;
	}
	return filter;
}

uint32
GenerationOfKey(const LiveFilter &filter, const GuardKey &key)
{
	return likely(!key.has_time) ? LiveGenerationNow(filter)
								 : LiveGeneration(filter, Min(key.at, GetCurrentTimestamp()));
}

LiveAnswer
TestAndAddKey(const LiveFilter &filter, uint64 hash, const GuardKey &key)
{
	return LiveTestAndAdd(filter, hash, GenerationOfKey(filter, key),
						  likely(!key.has_time) ? LiveTime::Clock : LiveTime::Event);
}

/* ---- updated and deleted rows -------------------------------------------------- */

/* Returns whether this transaction has inserted the row. */
static bool
IsOwnRow(HeapTuple row)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data));
}

/*
 * Records the place of an updated row of a partition. If the UPDATE moves the row, its BEFORE
 * DELETE trigger recognizes the row by this place.
 */
static void
NoteUpdatedPlace(GuardRow *row, const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;

	if (!rel->rd_rel->relispartition)
		return;
	row->updated_in = RelationGetRelid(rel);
	row->updated = trigger->tg_trigtuple->t_self;
}

/* Reads the properties of the filter that a site needs when it does not test a key. */
static void
LearnSeed(GuardSite *site, Relation rel)
{
	const Oid filter_oid = site->plan->clause.filter;
	LiveFilter filter;

	if (site->has_seed)
		return;
	if (!IsLiveRelationId(filter_oid))
		ReportIncompleteGuard(rel);
	filter = OpenLiveUnchecked(filter_oid, AccessShareLock);
	site->seed = filter.key_seed();
	site->may_delete = GuardOwnerMayAdd(site->plan);
	site->has_seed = true;
	CloseLive(filter);
}

/*
 * Enters an updated row of an exact guard. The row is judged when its new version is in the table.
 * The row is not judged if its key and its time stay the same and it does not lose its mark.
 */
static void
EnterExactUpdate(GuardSite *site, const TriggerData *trigger, GuardRow *row)
{
	const GuardPlan *plan = site->plan;

	row = EnterGuardRow(row, trigger->tg_relation, plan, &site->reader, {}, false, 0);
	row->exact = &site->exact;
	row->changeable = site->changeable;
	row->judged =
		SameGuardKey(plan, site->old_key, site->key) && SameGuardTime(site->old_key, site->key) &&
		(IsMarkedRow(plan, trigger->tg_newslot) || !IsMarkedRow(plan, trigger->tg_trigslot));
	NoteUpdatedPlace(row, trigger);
	if (unlikely(HaveLeftOut()) && !SameGuardKey(plan, site->old_key, site->key) &&
		!IsMarkedRow(plan, trigger->tg_trigslot))
	{
		uint64 hash;

		LearnSeed(site, trigger->tg_relation);
		if (HashGuardKey(plan, site->old_key, site->seed, &hash))
			CheckLeftOut(trigger->tg_relation, plan->clause.filter, hash, true);
	}
}

/*
 * Handles BEFORE UPDATE. If the UPDATE changes the key, adds the new key, and notes the old key as
 * that of a deleted row. A duplicate raises an error in every mode, because an UPDATE must not skip
 * rows silently.
 */
static HeapTuple
GuardUpdatedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	const Oid filter_oid = plan->clause.filter;
	Relation rel = trigger->tg_relation;
	GuardRow *row = FindGuardRow();
	bool entered = false;

	/* ON CONFLICT DO UPDATE: the row of the INSERT was not inserted. */
	if (row != NULL)
	{
		row->moving = row->freed.exists = row->changeable = false;
		SettleGuardRow(row);
	}

	ReadGuardKey(site->reader, trigger->tg_trigslot, &site->old_key);
	ReadGuardKey(site->reader, trigger->tg_newslot, &site->key);
	if (plan->options.exact)
	{
		EnterExactUpdate(site, trigger, row);
		return trigger->tg_newtuple;
	}
	const bool keyless = HasNoKeyOfItsOwn(plan, trigger->tg_newslot);
	const bool was_keyless = HasNoKeyOfItsOwn(plan, trigger->tg_trigslot);

	if (!SameGuardKey(plan, site->old_key, site->key) || keyless != was_keyless || site->changeable)
	{
		LiveFilter filter = OpenGuardFilter(site);
		const dedup::KeySeed seed = filter.key_seed();
		uint64 hash = 0;
		uint64 old_hash = 0;
		const bool has_key = HashGuardKey(plan, site->key, seed, &hash);
		const bool had_key = HashGuardKey(plan, site->old_key, seed, &old_hash) && !was_keyless;
		const bool takes_key = has_key && !keyless;

		if (takes_key != had_key || (takes_key && hash != old_hash))
		{
			DeletedRowUse use;
			bool uses = false;
			LiveAnswer answer = LiveAnswer::TooOld;

			if (had_key && !IsMarkedRow(plan, trigger->tg_trigslot))
				CheckLeftOut(rel, filter_oid, old_hash, true);

			/* If the old row did not count and the new one is marked, another row has the key. */
			if (takes_key && (site->old_key.counts || !IsMarkedRow(plan, trigger->tg_newslot)))
			{
				ReadTruncatedRows(filter);
				ReadLeftRowsFirst(filter);
				uses = UseDeletedRow(filter_oid, hash, &use);
				answer = TestAndAddKey(filter, hash, site->key);
				if (answer == LiveAnswer::TooOld)
					CountLive(filter, LiveCounter::TooOld, 1);
				if (answer == LiveAnswer::Duplicate && !uses && ReadLeftRows(filter))
					uses = UseDeletedRow(filter_oid, hash, &use);
				if (answer == LiveAnswer::Duplicate && !uses)
					RejectRow(rel, plan, filter, site->key.columns);
				if (uses)
					ReplaceDeletedKey(plan, filter, site->key, hash, answer == LiveAnswer::New,
									  use);
			}
			row = EnterGuardRow(row, rel, plan, &site->reader, seed, has_key, hash);
			if (answer == LiveAnswer::New || uses)
				NoteGuardRow(row, filter,
							 {answer == LiveAnswer::New, LiveCounter::New, uses ? &use : NULL, 0},
							 hash, false);
			row->freed = {had_key && !IsMarkedRow(plan, trigger->tg_trigslot), filter_oid, old_hash,
						  IsOwnRow(trigger->tg_trigtuple),
						  HasKeyInWindow(plan, filter, site->old_key)};
			entered = true;
		}
		else if (site->changeable)
		{
			row = EnterGuardRow(row, rel, plan, &site->reader, seed, has_key, hash);
			entered = true;
		}
		if (entered)
			row->changeable = site->changeable;
		CloseLive(filter);
	}
	if (!entered && (HaveGuardRows() || rel->rd_rel->relispartition))
		row = EnterGuardRow(row, rel, plan, &site->reader, {}, false, 0);
	NoteUpdatedPlace(row, trigger);
	return trigger->tg_newtuple;
}

/* Records that a row of an exact guard is moving to another partition. */
static void
EnterExactMove(GuardSite *site, const TriggerData *trigger, GuardRow *row)
{
	if (row == NULL)
		row = EnterGuardRow(NULL, trigger->tg_relation, site->plan, &site->reader, {}, false, 0);
	row->moving = true;
	row->marked = IsMarkedRow(site->plan, trigger->tg_trigslot);
	row->root = site->root;
	row->freed.exists = row->moved.exists = false;
}

/* Returns whether the deleted row frees a key that is in a window of time. */
static bool
IsDeletedInWindow(const GuardSite *site)
{
	LiveFilter filter;
	bool in_window;

	if (!site->plan->options.forget || site->plan->clause.at == NULL)
		return false;
	filter = OpenLiveUnchecked(site->plan->clause.filter, AccessShareLock);
	in_window = HasKeyInWindow(site->plan, filter, site->key);
	CloseLive(filter);
	return in_window;
}

/*
 * Handles BEFORE DELETE. Notes the row as a deleted row, which may be inserted again. If BEFORE
 * UPDATE has just fired for the row, also records that the row is moving to another partition. In a
 * logical replication worker any deleted row may be moving, so the move is always recorded.
 */
static HeapTuple
GuardDeletedRow(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;
	GuardRow *row = FindGuardRow();
	bool moves =
		IsLogicalWorker() || (row != NULL && row->updated_in == RelationGetRelid(rel) &&
							  ItemPointerEquals(&row->updated, &trigger->tg_trigtuple->t_self));
	GuardSite *site;
	Oid filter_oid;
	uint64 hash = 0;
	bool has_key;
	bool marked;

	site = (GuardSite *) fcinfo->flinfo->fn_extra;
	if (unlikely(site == NULL) && moves)
		site = GetSite(fcinfo, trigger);
	else if (unlikely(site == NULL))
	{
		const GuardPlan *plan = FindGuardPlan(rel, trigger->tg_trigger->tgfoid, true);

		/* A guard that is not valid refuses INSERT, but not DELETE. */
		if (plan == NULL)
			return trigger->tg_trigtuple;
		site = MakeSite(fcinfo, trigger, plan);
	}
	if (site->plan->options.exact && moves)
		EnterExactMove(site, trigger, row);
	if (site->plan->options.exact && (moves || likely(!HaveLeftOut())))
		return trigger->tg_trigtuple;
	filter_oid = site->plan->clause.filter;
	LearnSeed(site, rel);
	ReadGuardKey(site->reader, trigger->tg_trigslot, &site->key);
	has_key = HashGuardKey(site->plan, site->key, site->seed, &hash);
	marked = IsMarkedRow(site->plan, trigger->tg_trigslot);
	if (moves)
	{
		if (row == NULL)
			row = EnterGuardRow(NULL, rel, site->plan, &site->reader, site->seed, has_key, hash);
		row->moving = true;
		row->marked = marked;
		row->freed.exists = false;
		row->root = site->root;
		row->moved = {has_key, filter_oid, hash};
	}
	if (has_key && !marked && !moves)
		CheckLeftOut(rel, filter_oid, hash, false);
	if (site->plan->options.exact)
		return trigger->tg_trigtuple;
	if (has_key && !marked && site->may_delete &&
		!(site->removable && IsDeletionPending(rel, &trigger->tg_trigtuple->t_self)))
	{
		NoteDeletedRow(filter_oid, hash, GetCurrentSubTransactionId(), site->plan->options.forget,
					   IsOwnRow(trigger->tg_trigtuple), IsDeletedInWindow(site));
		if (site->removable)
		{
			if (row == NULL)
				row =
					EnterGuardRow(NULL, rel, site->plan, &site->reader, site->seed, has_key, hash);
			CheckDeletionLater(row, rel, &trigger->tg_trigtuple->t_self, filter_oid, hash);
		}
	}
	return trigger->tg_trigtuple;
}

/* Returns whether the call is that of an AFTER trigger of a guard whose rows free their keys. */
static bool
FiresAfterwards(const TriggerData *trigger)
{
	return TRIGGER_FIRED_AFTER(trigger->tg_event) &&
		   (TRIGGER_FIRED_FOR_ROW(trigger->tg_event)
				? !TRIGGER_FIRED_BY_INSERT(trigger->tg_event)
				: TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event));
}

/*
 * dedup_guard_trigger() returns trigger
 */
DEDUP_FUNCTION(dedup_guard_trigger)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	GuardSite *site;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function %s must be called as a trigger", GUARD_FUNCTION)));
	if (FiresAfterwards(trigger))
	{
		SettleGuardRows();
		if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
			GuardFreesRow(fcinfo, trigger);
		else
			GuardTruncated(trigger);
		PG_RETURN_POINTER(NULL);
	}
	if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ReportNoGuardTrigger(trigger->tg_relation, trigger->tg_trigger,
							 gettext_noop("It is not fired BEFORE each row."));

	SettleGuardRows();
	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		PG_RETURN_POINTER(GuardDeletedRow(fcinfo, trigger));

	site = GetSite(fcinfo, trigger);
	if (unlikely(!site->checked))
	{
		CheckGuardedTable(trigger->tg_relation, site->plan, &site->may_kill);
		site->exact.may_kill = site->may_kill;
		site->checked = true;
	}
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		PG_RETURN_POINTER(GuardInsertedRow(site, trigger));
	PG_RETURN_POINTER(GuardUpdatedRow(site, trigger));
}

bool
IsGuardTriggerFunction(Oid function)
{
	return IsOurFunction(function, dedup_guard_trigger, GUARD_FUNCTION);
}
