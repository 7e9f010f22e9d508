/*
 * The guard: triggers that keep rows out whose key a live filter has seen.
 *
 * A trigger tests and adds the row's key before the row lands; rows.cpp makes
 * the key count only if it does. plan.cpp reads what the table's guard is. A row
 * that this transaction has deleted may be inserted again: deleted.cpp and
 * truncate.cpp remember it. moves.cpp finds rows that come from a partition
 * without a guard. freed.cpp frees the keys of rows that go. inserted.cpp
 * is the part for rows that are inserted.
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

/* Whether a trigger fires after another one, before a row is written, for such an event. */
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

/* Makes what a trigger keeps for its query, by a plan. */
static GuardSite *
MakeSite(FunctionCallInfo fcinfo, const TriggerData *trigger, const GuardPlan *plan)
{
	GuardSite *site;
	MemoryContext old;

	/* We are called in the per-tuple memory of the query whose trigger state this is. */
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

/* The privilege that counts is that of the guarded table's owner. */
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

/* Whether this transaction has inserted a row. */
static bool
IsOwnRow(HeapTuple row)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data));
}

/* A row of a partition can move: what its BEFORE DELETE trigger knows it by. */
static void
NoteUpdatedPlace(GuardRow *row, const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;

	if (!rel->rd_rel->relispartition)
		return;
	row->updated_in = RelationGetRelid(rel);
	row->updated = trigger->tg_trigtuple->t_self;
}

/* What a site needs to know of the filter where no key is asked for. */
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
 * Enters a row of an exact guard that is updated: it is judged where it lands, unless neither
 * its key changes nor it ceases to be marked.
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
 * An UPDATE that changes the key takes a new one, and the old one is then that of a
 * deleted row. That the new one is a duplicate is an error in every mode: an UPDATE that
 * silently leaves rows as they were helps nobody.
 */
static HeapTuple
GuardUpdatedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	const Oid filter_oid = plan->clause.filter;
	Relation rel = trigger->tg_relation;
	GuardRow *row = FindGuardRow();
	bool entered = false;

	/* ON CONFLICT DO UPDATE: the row that was to be inserted did not land. */
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

			/* A marked row that comes back among those that are guarded has the key of another. */
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

/* A row of an exact guard is on its way to another partition. */
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

/* Whether the row that is deleted has a key in a window of time, which it frees. */
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
 * Remembers the row as one that may be inserted again; and, if BEFORE UPDATE has just fired
 * for it, as one that is on its way to another partition.
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

		/* Rows can be deleted under a guard that is not valid; none can be inserted. */
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

/* Whether the triggers of a guard whose rows free their keys fire so. */
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
