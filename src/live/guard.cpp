/*
 * The guard: triggers that keep rows out whose key a live filter has seen.
 *
 * A trigger tests and adds the row's key before the row lands; guard_rows.cpp makes
 * the key count only if it does. guard_plan.cpp reads what the table's guard is, and
 * guard_moves.cpp tells rows that move to another partition from new ones.
 */
#include "live/guard.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "replication/logicalworker.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/syscache.h"
}

namespace
{

/* What a trigger keeps for its query. */
struct GuardSite
{
	const GuardPlan *plan;
	bool		checked;		/* the guard index is there */
	bool		may_kill;		/* ON CONFLICT can kill a row that is in the guard index */
	Oid			owner;			/* of the guarded table */
	bool		has_seed;
	dedup::KeySeed seed;
	NullableDatum columns[INDEX_MAX_KEYS];
	NullableDatum old_columns[INDEX_MAX_KEYS];
};

}							/* namespace */

/* Bytes of a column that an error shows. */
constexpr int DESCRIBED_BYTES = 256;

static GuardSite *
GetSite(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	GuardSite  *site = (GuardSite *) fcinfo->flinfo->fn_extra;

	if (likely(site != NULL))
		return site;

	/* We are called in the per-tuple memory of the query whose trigger state this is. */
	site = (GuardSite *) MemoryContextAllocZero(MemoryContextGetParent(CurrentMemoryContext),
												sizeof(GuardSite));
	site->plan = GetGuardPlan(trigger->tg_relation, trigger->tg_trigger->tgfoid);
	fcinfo->flinfo->fn_extra = site;
	return site;
}

/* ---- keys ----------------------------------------------------------------- */

/* The privilege that counts is that of the guarded table's owner. */
static LiveFilter
OpenGuardFilter(GuardSite *site)
{
	if (unlikely(!OidIsValid(site->owner)))
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(site->plan->guarded));

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for relation %u", site->plan->guarded);
		site->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return OpenLive(site->plan->clause.filter, LiveUse::Add, site->owner, "dedup_guard");
}

static void
LoadColumns(const GuardPlan *plan, TupleTableSlot *slot, NullableDatum *columns)
{
	for (int i = 0; i < plan->clause.columns; i++)
		columns[i].value = slot_getattr(slot, plan->clause.attnums[i], &columns[i].isnull);
}

/* False if a column is NULL: then there is no key, as in a UNIQUE constraint. */
static bool
HashGuardKey(const GuardPlan *plan, const NullableDatum *columns, dedup::KeySeed seed,
			 uint64 *hash)
{
	return HashColumns(plan->keys, columns, NullKeys::Skip, seed, hash);
}

/* Whether two keys are the same to the last bit. */
static bool
SameColumns(const GuardPlan *plan, const NullableDatum *a, const NullableDatum *b)
{
	for (int i = 0; i < plan->clause.columns; i++)
	{
		if (a[i].isnull != b[i].isnull)
			return false;
		if (!a[i].isnull &&
			!datum_image_eq(a[i].value, b[i].value, plan->typbyval[i], plan->typlen[i]))
			return false;
	}
	return true;
}

static LiveAnswer
TestAndAdd(const LiveFilter &filter, uint64 hash)
{
	uint32		generation = 0;

	if (filter.parameters.ttl != 0)
		generation = LiveGeneration(filter, GetCurrentTimestamp());
	return LiveTestAndAdd(filter, hash, generation);
}

/*
 * "(a, b)=(1, x)", or NULL if the user may not see that, by the rules of unique
 * indexes.
 */
static char *
DescribeKey(Relation rel, const GuardPlan *plan, const NullableDatum *columns)
{
	const GuardClause &clause = plan->clause;
	Oid			relid = RelationGetRelid(rel);
	StringInfoData text;

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return NULL;
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		for (int i = 0; i < clause.columns; i++)
			if (pg_attribute_aclcheck(relid, clause.attnums[i], GetUserId(),
									  ACL_SELECT) != ACLCHECK_OK)
				return NULL;

	initStringInfo(&text);
	for (int i = 0; i < clause.columns; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), clause.attnums[i] - 1);

		appendStringInfo(&text, "%s%s", i == 0 ? "(" : ", ",
						 quote_identifier(NameStr(column->attname)));
	}
	for (int i = 0; i < clause.columns; i++)
	{
		Oid			output;
		bool		varlena;
		char	   *value;
		int			length;

		getTypeOutputInfo(clause.types[i], &output, &varlena);
		value = OidOutputFunctionCall(output, columns[i].value);
		length = (int) strlen(value);
		appendStringInfoString(&text, i == 0 ? ")=(" : ", ");
		if (length <= DESCRIBED_BYTES)
			appendStringInfoString(&text, value);
		else
			appendStringInfo(&text, "%.*s...", pg_mbcliplen(value, length, DESCRIBED_BYTES),
							 value);
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

[[noreturn]] static void
RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
		  const NullableDatum *columns)
{
	char	   *key = DescribeKey(rel, plan, columns);

	CountLive(filter, LiveCounter::Rejected, 1);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates live filter \"%s\"",
					RelationGetRelationName(filter.rel)),
			 key != NULL ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(rel, plan->constraint)));
	pg_unreachable();
}

/* ---- the triggers --------------------------------------------------------- */

/* The row, with its mark set. */
static HeapTuple
MarkRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			column = plan->clause.mark;
	Datum		value;
	bool		isnull;

	if (plan->mode != GuardMode::Mark)
		return tuple;
	value = heap_getattr(tuple, column, desc, &isnull);
	if (!isnull && DatumGetBool(value) == duplicate)
		return tuple;
	value = BoolGetDatum(duplicate);
	isnull = false;
	return heap_modify_tuple_by_cols(tuple, desc, 1, &column, &value, &isnull);
}

static HeapTuple
GuardInsertedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	Relation	rel = trigger->tg_relation;
	HeapTuple	tuple = trigger->tg_trigtuple;
	GuardRow   *row = FindGuardRow();
	bool		moving = row != NULL && row->moving && row->guarded == plan->guarded;
	LiveFilter	filter;
	LiveAnswer	answer;
	uint64		hash = 0;
	bool		has_key;

	LoadColumns(plan, trigger->tg_trigslot, site->columns);
	filter = OpenGuardFilter(site);
	has_key = HashGuardKey(plan, site->columns, filter.key_seed(), &hash);

	if (moving)
	{
		/*
		 * The row was there before, so its key needs no asking; or BEFORE UPDATE has
		 * added the new key, and noted it.
		 */
		row->moving = false;
		EnterGuardRow(row, rel);
		if (has_key && MoveGuardNote(row, plan->clause.filter, hash))
		{
			CloseLive(filter);
			return tuple;
		}
		SettleGuardRow(row);
		if (has_key && row->had_key && row->filter == plan->clause.filter && row->hash == hash)
		{
			CloseLive(filter);
			return tuple;
		}
	}
	else
	{
		if (row != NULL)
			row->moving = false;
		SettleGuardRow(row);
	}

	if (!has_key)
	{
		/* No note; so that none of an outer query's is taken for this row's. */
		if (HaveGuardNotes())
			EnterGuardRow(row, rel);
		CloseLive(filter);
		return MarkRow(rel, plan, tuple, false);
	}

	if (TakeMovedKey(plan->clause.filter, hash))
	{
		if (HaveGuardNotes())
			EnterGuardRow(row, rel);
		CloseLive(filter);
		return tuple;
	}

	answer = TestAndAdd(filter, hash);
	if (answer == LiveAnswer::Duplicate)
	{
		/* A row that moves has been deleted already: to leave it out would lose it. */
		if (plan->mode == GuardMode::Reject || moving)
			RejectRow(rel, plan, filter, site->columns);
		if (plan->mode == GuardMode::Skip && IsGuardFiredByUpdate())
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot move a row to partition \"%s\" from one whose guard is not enabled",
							RelationGetRelationName(rel)),
					 errdetail("Its key has been seen, so the row would be lost."),
					 errhint("ALTER TABLE ... ENABLE TRIGGER both \"%s\" and \"%s\" of the other partition.",
							 GUARD_TRIGGER, GUARD_DELETE_TRIGGER)));
		if (plan->mode == GuardMode::Skip)
		{
			CountLive(filter, LiveCounter::Skipped, 1);
			CloseLive(filter);
			return NULL;
		}
		NoteGuardRow(EnterGuardRow(row, rel), filter, LiveCounter::Marked, hash, site->may_kill);
	}
	if (answer == LiveAnswer::New)
		NoteGuardRow(EnterGuardRow(row, rel), filter, LiveCounter::New, hash, site->may_kill);
	else if (answer != LiveAnswer::Duplicate && HaveGuardNotes())
		EnterGuardRow(row, rel);
	CloseLive(filter);
	return MarkRow(rel, plan, tuple, answer == LiveAnswer::Duplicate);
}

/*
 * An UPDATE that changes the key takes a new one; the old one stays seen. That the
 * new one is a duplicate is an error in every mode: an UPDATE that silently leaves
 * rows as they were helps nobody.
 */
static HeapTuple
GuardUpdatedRow(GuardSite *site, const TriggerData *trigger)
{
	const GuardPlan *plan = site->plan;
	Relation	rel = trigger->tg_relation;
	GuardRow   *row = FindGuardRow();
	bool		added = false;

	/* ON CONFLICT DO UPDATE: the row that was to be inserted did not land. */
	if (row != NULL)
	{
		row->moving = false;
		SettleGuardRow(row);
	}

	LoadColumns(plan, trigger->tg_trigslot, site->old_columns);
	LoadColumns(plan, trigger->tg_newslot, site->columns);
	if (!SameColumns(plan, site->old_columns, site->columns))
	{
		LiveFilter	filter = OpenGuardFilter(site);
		const dedup::KeySeed seed = filter.key_seed();
		uint64		hash;
		uint64		old_hash;

		if (HashGuardKey(plan, site->columns, seed, &hash) &&
			!(HashGuardKey(plan, site->old_columns, seed, &old_hash) && hash == old_hash))
		{
			LiveAnswer	answer = TestAndAdd(filter, hash);

			if (answer == LiveAnswer::Duplicate)
				RejectRow(rel, plan, filter, site->columns);
			if (answer == LiveAnswer::New)
			{
				NoteGuardRow(EnterGuardRow(row, rel), filter, LiveCounter::New, hash, false);
				added = true;
			}
		}
		CloseLive(filter);
	}
	if (!added && (HaveGuardNotes() || rel->rd_rel->relispartition))
		EnterGuardRow(row, rel);
	if (rel->rd_rel->relispartition)
	{
		row = FindGuardRow();
		row->updated_in = RelationGetRelid(rel);
		row->updated = trigger->tg_trigtuple->t_self;
	}
	return trigger->tg_newtuple;
}

/*
 * Remembers the key of a row that is on its way to another partition: that BEFORE UPDATE
 * has just fired for. What a DELETE in a WITH clause takes out, for an INSERT of the same
 * query to put in, is not that row but its key's second one, whatever the plan.
 */
static HeapTuple
GuardDeletedRow(FunctionCallInfo fcinfo, const TriggerData *trigger)
{
	Relation	rel = trigger->tg_relation;
	GuardSite  *site;
	GuardRow   *row;

	row = FindGuardRow();
	if (!IsLogicalWorker() &&
		!(row != NULL && row->updated_in == RelationGetRelid(rel) &&
		  ItemPointerEquals(&row->updated, &trigger->tg_trigtuple->t_self)))
		return trigger->tg_trigtuple;

	site = GetSite(fcinfo, trigger);
	if (!site->has_seed)
	{
		LiveFilter	filter;

		if (!IsLiveRelationId(site->plan->clause.filter))
			ReportIncompleteGuard(rel);
		filter = OpenLiveUnchecked(site->plan->clause.filter, AccessShareLock);
		site->seed = filter.key_seed();
		site->has_seed = true;
		CloseLive(filter);
	}
	LoadColumns(site->plan, trigger->tg_trigslot, site->columns);
	row = EnterGuardRow(row, rel);
	row->moving = true;
	row->guarded = site->plan->guarded;
	row->filter = site->plan->clause.filter;
	row->had_key = HashGuardKey(site->plan, site->columns, site->seed, &row->hash);
	if (row->had_key && IsLogicalWorker())
		RememberMovedKey(row->filter, row->hash);
	return trigger->tg_trigtuple;
}

/*
 * dedup_guard_trigger() returns trigger
 */
DEDUP_FUNCTION(dedup_guard_trigger)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	GuardSite  *site;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function %s must be called as a trigger", GUARD_FUNCTION)));
	if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ReportNoGuardTrigger(trigger->tg_relation, trigger->tg_trigger,
							 gettext_noop("It is not fired BEFORE each row."));

	SettleLandedRows();
	if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		PG_RETURN_POINTER(GuardDeletedRow(fcinfo, trigger));

	site = GetSite(fcinfo, trigger);
	if (unlikely(!site->checked))
	{
		CheckGuardedTable(trigger->tg_relation, site->plan->clause, &site->may_kill);
		site->checked = true;
	}
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		PG_RETURN_POINTER(GuardInsertedRow(site, trigger));
	PG_RETURN_POINTER(GuardUpdatedRow(site, trigger));
}

/* ---- ends of transactions -------------------------------------------------- */

static void
GuardTransactionCallback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			SettleGuardLevel(1);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			ForgetGuardLevel(1);
			ForgetMovedKeys();
			TrimGuardPlans();
			break;
		default:
			break;
	}
}

static void
GuardSubtransactionCallback(SubXactEvent event, SubTransactionId id, SubTransactionId parent,
							void *arg)
{
	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB)
		SettleGuardLevel(GetCurrentTransactionNestLevel());
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		ForgetGuardLevel(GetCurrentTransactionNestLevel());
}

/*
 * The server calls the callback that was registered last first, and taking keys back
 * changes the counters: so this comes after InitLiveCounters().
 */
void
InitLiveGuard(void)
{
	InitGuardMoves();
	RegisterXactCallback(GuardTransactionCallback, NULL);
	RegisterSubXactCallback(GuardSubtransactionCallback, NULL);
}

/* ---- questions of others -------------------------------------------------- */

bool
IsGuardTriggerFunction(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	FmgrInfo	info;
	Datum		source;
	bool		isnull;
	bool		named;

	if (!HeapTupleIsValid(tuple))
		return false;
	source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	named = !isnull && ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId &&
		strcmp(TextDatumGetCString(source), GUARD_FUNCTION) == 0;
	ReleaseSysCache(tuple);
	if (!named)
		return false;

	/* Some other library may have a function of that name. */
	fmgr_info(function, &info);
	return info.fn_addr == dedup_guard_trigger;
}
