/*
 * Reads the definition of a table's guard from its triggers and indexes (guard.hpp), and caches it
 * in the session.
 */
#include "guard/inherit.hpp"
#include "pg/keys.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "nodes/nodes.h"
#include "nodes/primnodes.h"
#include "replication/logicalworker.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace
{

struct GuardPlanEntry
{
	Oid trigger;
	Oid table;
	bool changed; /* the table may have changed: it may have another parent */
	GuardPlan *plan;
};

} /* namespace */

static MemoryContext guard_plan_context = NULL;
static HTAB *guard_plans = NULL;
static long guard_plans_made = 0;

/* The most plans that are kept; if there are more, all are dropped between transactions. */
constexpr long GUARD_PLANS_KEPT = 256;

/*
 * A flaw is the DETAIL of an error: what is wrong with a guard. Every role that owns a table can
 * make triggers and indexes for it by hand, so everything in them is checked.
 */

/* ---- triggers --------------------------------------------------------------- */

static bool
IsKindOfTrigger(const Trigger *trigger, int16 events)
{
	return trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | events);
}

static bool
IsWriteTrigger(const Trigger *trigger)
{
	return IsKindOfTrigger(trigger, TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE);
}

static bool
IsForgetTrigger(const Trigger *trigger)
{
	return trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_DELETE | TRIGGER_TYPE_UPDATE);
}

static bool
IsTruncateTrigger(const Trigger *trigger)
{
	return trigger->tgtype == TRIGGER_TYPE_TRUNCATE;
}

/* Returns why a trigger that fires afterwards is not one of a guard, or NULL if it is. */
static const char *
FlawOfLateTrigger(const Trigger *trigger)
{
	if (trigger->tgnargs != 0)
		return gettext_noop("It fires AFTER the change and has arguments.");
	if (trigger->tgqual != NULL)
		return gettext_noop("It fires AFTER the change and has a WHEN condition.");
	if (trigger->tgnattr != 0)
		return gettext_noop("It fires for an UPDATE of some columns only.");
	if (trigger->tgdeferrable)
		return gettext_noop("It can be deferred.");
	return NULL;
}

/* Returns why a trigger is not one of a guard, or NULL if it is. */
static const char *
FlawOfTrigger(const Trigger *trigger)
{
	GuardMode mode;
	GuardOptions options;

	if (IsWriteTrigger(trigger))
	{
		if (trigger->tgnattr != 0)
			return gettext_noop("It fires for an UPDATE of some columns only.");
		if (trigger->tgqual != NULL)
			return gettext_noop("It is BEFORE INSERT OR UPDATE and has a WHEN condition.");
		if (trigger->tgnargs < 2)
			return gettext_noop("It has less than two arguments: the mode, the constraint name, "
								"and options.");
		if (!ReadGuardMode(trigger->tgargs[0], &mode))
			return gettext_noop("Its first argument is not skip, reject, mark or divert.");
		return ReadGuardOptions(trigger->tgargs + 2, trigger->tgnargs - 2, &options);
	}
	if (IsKindOfTrigger(trigger, TRIGGER_TYPE_DELETE))
	{
		if (trigger->tgnargs != 0)
			return gettext_noop("It is BEFORE DELETE and has arguments.");
		if (trigger->tgqual == NULL)
			return gettext_noop("It is BEFORE DELETE and has no WHEN condition, which names the "
								"filter and the columns.");
		return NULL;
	}
	if (IsForgetTrigger(trigger) || IsTruncateTrigger(trigger))
		return FlawOfLateTrigger(trigger);
	return gettext_noop(
		"A guard has one trigger BEFORE INSERT OR UPDATE and one BEFORE DELETE, "
		"both FOR EACH ROW. One that forgets has one AFTER DELETE OR UPDATE FOR EACH "
		"ROW and one AFTER TRUNCATE, too.");
}

/* Returns the field for a trigger of a guard. */
static const Trigger **
PlaceOfTrigger(GuardTriggers *triggers, const Trigger *trigger)
{
	return IsWriteTrigger(trigger)      ? &triggers->write
		   : IsForgetTrigger(trigger)   ? &triggers->forget
		   : IsTruncateTrigger(trigger) ? &triggers->truncate
										: &triggers->remove;
}

/*
 * Finds the triggers that call `function`. Returns a flaw of one of them, which is then in `odd`,
 * or NULL.
 */
static const char *
FindTriggers(Relation rel, Oid function, GuardTriggers *found, const Trigger **odd)
{
	const TriggerDesc *triggers = rel->trigdesc;

	*found = {};
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		const Trigger **place = PlaceOfTrigger(found, trigger);
		const char *flaw;

		if (trigger->tgfoid != function)
			continue;
		flaw = FlawOfTrigger(trigger);
		if (flaw == NULL && *place != NULL)
			flaw = gettext_noop("The table has another trigger of that kind.");
		if (flaw != NULL)
		{
			*odd = trigger;
			return flaw;
		}
		*place = trigger;
	}
	return NULL;
}

void
ReportNoGuardTrigger(Relation rel, const Trigger *trigger, const char *flaw)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("trigger \"%s\" of table \"%s\" is not part of a guard", trigger->tgname,
						   RelationGetRelationName(rel)),
					errdetail_internal("%s", _(flaw)),
					errhint("Drop it; dedup_guard() makes the triggers of a guard.")));
	pg_unreachable();
}

GuardTriggers
FindGuardTriggers(Relation rel, Oid function)
{
	GuardTriggers found;
	const Trigger *odd = NULL;
	const char *flaw = FindTriggers(rel, function, &found, &odd);

	if (flaw != NULL)
		ReportNoGuardTrigger(rel, odd, flaw);
	return found;
}

Oid
FindGuardFunction(Relation rel, bool fires)
{
	const TriggerDesc *triggers = rel->trigdesc;
	List *functions = NIL;
	ListCell *cell;

	/* A lookup of a function can free the list of triggers. */
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (TRIGGER_FOR_DELETE(triggers->triggers[i].tgtype) &&
			TRIGGER_FOR_BEFORE(triggers->triggers[i].tgtype) &&
			(!fires || GuardTriggerFires(triggers->triggers[i].tgenabled)))
			functions = lappend_oid(functions, triggers->triggers[i].tgfoid);
	foreach(cell, functions)
		if (IsGuardTriggerFunction(lfirst_oid(cell)))
			return lfirst_oid(cell);
	return InvalidOid;
}

Oid
GuardedTable(Oid trigger)
{
	Relation pg_trigger = table_open(TriggerRelationId, AccessShareLock);
	Oid table = InvalidOid;

	while (OidIsValid(trigger))
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple tuple;

		ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(trigger));
		scan = systable_beginscan(pg_trigger, TriggerOidIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		table = InvalidOid;
		trigger = InvalidOid;
		if (HeapTupleIsValid(tuple))
		{
			table = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
			trigger = ((Form_pg_trigger) GETSTRUCT(tuple))->tgparentid;
		}
		systable_endscan(scan);
	}
	table_close(pg_trigger, AccessShareLock);
	return OidIsValid(table) ? UppermostGuarded(table) : InvalidOid;
}

/* ---- the clause ------------------------------------------------------------- */

/*
 * Returns why the live filter that a guard names cannot serve it: a flaw, or NULL. Needs no lock,
 * because the filter cannot be dropped while the trigger that names it exists.
 */
static const char *
FlawOfItsFilter(const GuardOptions &options, const GuardClause &clause)
{
	Relation rel = RelationIdGetRelation(clause.filter);
	const char *flaw =
		gettext_noop("Its live filter has no parameters; dedup_create() makes those that have.");

	if (!RelationIsValid(rel))
		return flaw;
	if (LiveHasParameters(rel))
		flaw = FlawOfFilter(LiveParametersOf(rel), options, clause);
	RelationClose(rel);
	return flaw;
}

static bool
HasUnhashableColumn(const GuardClause &clause)
{
	for (int i = 0; i < clause.columns; i++)
		if (!IsHashableType(clause.types[i]))
			return true;
	return false;
}

bool
IsGuardClauseOf(Relation rel, const GuardClause &clause)
{
	return FlawOfClause(rel, clause) == NULL && FlawOfExpressions(rel, clause) == NULL &&
		   FlawOfItsFilter({}, clause) == NULL && !HasUnhashableColumn(clause);
}

/* ---- plans ------------------------------------------------------------------ */

static const char *const no_write_trigger =
	gettext_noop("Its trigger BEFORE INSERT OR UPDATE is missing.");
static const char *const no_delete_trigger = gettext_noop("Its trigger BEFORE DELETE is missing.");
static const char *const not_enabled_alike =
	gettext_noop("A row that moves to another partition could be lost.");
static const char *const no_forget_trigger =
	gettext_noop("Its trigger AFTER DELETE OR UPDATE is missing.");
static const char *const no_truncate_trigger =
	gettext_noop("Its trigger AFTER TRUNCATE is missing.");
static const char *const not_forgetting_alike =
	gettext_noop("The key of a row that is deleted could stay taken.");
static const char *const not_a_heap_table =
	gettext_noop("A guard works on heap tables only, and on partitions that are.");

static void
TableChanged(Oid table)
{
	HASH_SEQ_STATUS status;
	GuardPlanEntry *entry;

	if (guard_plans == NULL)
		return;
	hash_seq_init(&status, guard_plans);
	while ((entry = (GuardPlanEntry *) hash_seq_search(&status)) != NULL)
		entry->changed = entry->changed || !OidIsValid(table) || entry->table == table;
}

static void
MakeGuardPlanCache(void)
{
	static bool watching = false;
	HASHCTL info = {};

	if (!watching)
		WatchRelations(TableChanged);
	watching = true;

	guard_plan_context = AllocSetContextCreateInternal(TopMemoryContext, "dedup_guard plans",
													   ALLOCSET_DEFAULT_SIZES);
	info.keysize = sizeof(Oid);
	info.entrysize = sizeof(GuardPlanEntry);
	info.hcxt = guard_plan_context;
	guard_plans =
		hash_create("dedup_guard plans", 32, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	guard_plans_made = 0;
}

static bool
HasArguments(const GuardPlan *plan, const Trigger *write)
{
	if (plan->argument_count != write->tgnargs)
		return false;
	for (int i = 0; i < write->tgnargs; i++)
		if (strcmp(plan->arguments[i], write->tgargs[i]) != 0)
			return false;
	return true;
}

/* Returns the plan that was made for a write trigger, if nothing about it has changed since. */
static const GuardPlan *
FindCachedPlan(const GuardTriggers &triggers)
{
	GuardPlanEntry *entry;

	if (guard_plans == NULL)
		return NULL;
	entry = (GuardPlanEntry *) hash_search(guard_plans, &triggers.write->tgoid, HASH_FIND, NULL);
	if (entry == NULL || strcmp(entry->plan->qual, triggers.remove->tgqual) != 0 ||
		!HasArguments(entry->plan, triggers.write) ||
		entry->plan->function != triggers.write->tgfoid)
		return NULL;
	/* The calls below can move the triggers. */
	if (unlikely(entry->changed))
	{
		entry->changed = false;
		if (GuardedTable(entry->trigger) != entry->plan->guarded)
			return NULL;
	}
	return entry->plan;
}

/*
 * Makes a plan and puts it into the cache. Returns a flaw, or NULL. A replaced plan is kept,
 * because a query may be using it. A plan with a flaw, or whose making fails, is freed with the
 * caller's memory.
 */
static const char *
MakeGuardPlan(Relation rel, const GuardTriggers &triggers, const GuardPlan **made)
{
	MemoryContext context;
	MemoryContext old;
	GuardPlanEntry *entry;
	GuardPlan *plan;
	Oid trigger = triggers.write->tgoid;
	const char *flaw;
	bool found;

	context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard plan",
											ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	plan = (GuardPlan *) palloc0(sizeof(GuardPlan));
	plan->qual = pstrdup(triggers.remove->tgqual);
	plan->argument_count = triggers.write->tgnargs;
	plan->arguments = (const char **) palloc(sizeof(char *) * (Size) plan->argument_count);
	for (int i = 0; i < plan->argument_count; i++)
		plan->arguments[i] = pstrdup(triggers.write->tgargs[i]);
	plan->constraint = plan->arguments[1];
	plan->function = triggers.write->tgfoid;

	/* After any lookup, the relation's triggers can be different ones, at another place. */
	flaw = ReadClause(plan->qual, &plan->clause);
	MemoryContextSwitchTo(old);
	if (flaw == NULL)
		flaw = FlawOfClause(rel, plan->clause);
	if (flaw == NULL)
		flaw = FlawOfExpressions(rel, plan->clause);
	if (flaw != NULL)
		return flaw;
	if (HasUnhashableColumn(plan->clause))
		return gettext_noop("The type of a column of its key has no hash function.");
	(void) ReadGuardMode(plan->arguments[0], &plan->mode);
	(void) ReadGuardOptions(plan->arguments + 2, plan->argument_count - 2, &plan->options);
	if (plan->options.exact && plan->options.forget)
		return gettext_noop("It is exact, so it cannot forget.");
	ApplyOptions(plan->options, &plan->clause);
	flaw = FlawOfOptions(plan->options, plan->clause);
	if (flaw == NULL)
		flaw = FlawOfItsFilter(plan->options, plan->clause);
	if (flaw != NULL)
		return flaw;
	if ((plan->mode == GuardMode::Mark) != (plan->clause.mark != 0))
		return gettext_noop("Its triggers do not agree on whether a column marks duplicates.");
	if ((plan->mode == GuardMode::Divert) != OidIsValid(plan->clause.side))
		return gettext_noop("Its triggers do not agree on where refused rows go.");
	plan->guarded = GuardedTable(trigger);
	if (!OidIsValid(plan->guarded))
		return gettext_noop("One of its triggers has just been dropped.");
	/*
	 * This guard could make the filter forget keys, or assume that it has those of its own table.
	 */
	if (IsExactElsewhere(plan->clause.filter, plan->guarded))
		return gettext_noop("Its live filter is that of the exact guard of another table.");

	plan->keys = MakeColumnsKeyPlan(context, plan->clause.columns, plan->clause.types,
									plan->clause.collations);
	KeepLastHash(plan->keys);
	for (int i = 0; i < plan->clause.columns; i++)
		get_typlenbyval(plan->clause.types[i], &plan->typlen[i], &plan->typbyval[i]);

	if (guard_plans == NULL)
		MakeGuardPlanCache();
	entry = (GuardPlanEntry *) hash_search(guard_plans, &trigger, HASH_ENTER, &found);
	entry->table = RelationGetRelid(rel);
	entry->changed = false;
	entry->plan = plan;
	MemoryContextSetParent(context, guard_plan_context);
	guard_plans_made++;
	*made = plan;
	return NULL;
}

/* Returns what is wrong with the triggers by which a guard forgets, or NULL. */
static const char *
FlawOfForgetting(Oid relid, const GuardTriggers &triggers, const GuardPlan *plan, bool deletes)
{
	const Trigger *write = triggers.write;

	if (!plan->options.forget)
		return triggers.forget != NULL || triggers.truncate != NULL
				   ? gettext_noop("It has a trigger of a guard that forgets.")
				   : NULL;
	if (triggers.forget == NULL)
		return no_forget_trigger;
	/*
	 * TRUNCATE fires no triggers for rows. The trigger of the guarded table is for all tables below
	 * it.
	 */
	if (triggers.truncate == NULL && !write->tgisclone && plan->guarded == relid)
		return no_truncate_trigger;
	if (!deletes &&
		(triggers.forget->tgenabled != write->tgenabled ||
		 triggers.remove->tgenabled != write->tgenabled ||
		 (triggers.truncate != NULL && triggers.truncate->tgenabled != write->tgenabled)))
		return not_forgetting_alike;
	return NULL;
}

/*
 * Finds the plan of a table's guard, in this session's cache if its triggers are unchanged, and
 * checks it against the table. Returns a flaw, or NULL. If the flaw is that of one trigger, it is
 * in `odd`. A table without a guard has the flaw that it has no triggers.
 */
static const char *
ReadGuard(Relation rel, Oid function, bool deletes, const GuardPlan **plan, GuardTriggers *triggers,
		  const Trigger **odd)
{
	const char *flaw = FindTriggers(rel, function, triggers, odd);

	if (flaw != NULL)
		return flaw;
	if (triggers->write == NULL)
		return no_write_trigger;
	if (triggers->remove == NULL)
		return no_delete_trigger;
	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		(rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relam != HEAP_TABLE_AM_OID))
		return not_a_heap_table;
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return gettext_noop("The table is temporary.");
	if (!deletes && (rel->rd_rel->relispartition || IsLogicalWorker()) &&
		triggers->write->tgenabled != triggers->remove->tgenabled)
		return not_enabled_alike;

	*plan = FindCachedPlan(*triggers);
	flaw = *plan != NULL ? FlawOfClause(rel, (*plan)->clause) : MakeGuardPlan(rel, *triggers, plan);
	if (flaw != NULL)
		return flaw;
	/* After a lookup, the relation's triggers can be different ones, at another place. */
	flaw = FindTriggers(rel, function, triggers, odd);
	return flaw != NULL ? flaw : FlawOfForgetting(RelationGetRelid(rel), *triggers, *plan, deletes);
}

[[noreturn]] static void
ReportUnguardable(Relation rel)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("table \"%s\" cannot be guarded", RelationGetRelationName(rel)),
					errdetail_internal("%s", _(not_a_heap_table)),
					errhint("Drop its guard triggers, or the relation.")));
	pg_unreachable();
}

void
ReportIncompleteGuard(Relation rel, const char *flaw)
{
	bool incomplete = flaw == NULL || flaw == no_write_trigger || flaw == no_delete_trigger ||
					  flaw == no_forget_trigger || flaw == no_truncate_trigger;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 incomplete
				 ? errmsg("the guard of table \"%s\" is incomplete", RelationGetRelationName(rel))
				 : errmsg("the guard of table \"%s\" is not valid", RelationGetRelationName(rel)),
			 flaw != NULL ? errdetail_internal("%s", _(flaw))
						  : errdetail("One of its triggers is missing or was changed."),
			 errhint("Run dedup_unguard() and dedup_guard() again.")));
	pg_unreachable();
}

const GuardPlan *
GetGuardPlan(Relation rel, Oid function)
{
	const GuardPlan *plan = NULL;
	GuardTriggers triggers;
	const Trigger *odd = NULL;
	const char *flaw = ReadGuard(rel, function, false, &plan, &triggers, &odd);

	if (flaw == NULL)
		return plan;
	if (odd != NULL)
		ReportNoGuardTrigger(rel, odd, flaw);
	if (flaw == not_enabled_alike)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the triggers of the guard of table \"%s\" are not enabled in the same way",
					RelationGetRelationName(rel)),
			 errdetail_internal("%s", _(flaw)),
			 errhint("Enable both triggers, \"%s\" and \"%s\", in the same way, by ALTER TABLE.",
					 triggers.write->tgname, triggers.remove->tgname)));
	if (flaw == not_forgetting_alike)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the triggers of the guard of table \"%s\" are not enabled in the same way",
					RelationGetRelationName(rel)),
			 errdetail_internal("%s", _(flaw)),
			 errhint("Enable each of the triggers \"%s\", \"%s\", \"%s\" and \"%s\" in the same "
					 "way, by ALTER TABLE.",
					 GUARD_TRIGGER, GUARD_DELETE_TRIGGER, GUARD_FORGET_TRIGGER,
					 GUARD_TRUNCATE_TRIGGER)));
	if (flaw == not_a_heap_table)
		ReportUnguardable(rel);
	ReportIncompleteGuard(rel, flaw);
}

const GuardPlan *
FindGuardPlan(Relation rel, Oid function, bool deletes)
{
	const GuardPlan *plan = NULL;
	GuardTriggers triggers;
	const Trigger *odd = NULL;

	return ReadGuard(rel, function, deletes, &plan, &triggers, &odd) == NULL ? plan : NULL;
}

void
TrimGuardPlans(void)
{
	if (guard_plans_made > GUARD_PLANS_KEPT)
	{
		guard_plans = NULL;
		guard_plans_made = 0;
		MemoryContextDelete(guard_plan_context);
		guard_plan_context = NULL;
	}
}

/* ---- indexes ---------------------------------------------------------------- */

static bool
HasColumn(Form_pg_index index, AttrNumber attnum)
{
	for (int i = 0; i < index->indnatts; i++)
		if (index->indkey.values[i] == attnum)
			return true;
	return false;
}

bool
IsUsableGuardIndex(Oid index, Oid access_method, const GuardClause &clause,
				   const GuardOptions &options)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool usable;

	if (!HeapTupleIsValid(tuple))
		return false;
	usable = ((Form_pg_class) GETSTRUCT(tuple))->relam == access_method;
	ReleaseSysCache(tuple);
	if (!usable)
		return false;

	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	usable = form->indisvalid && form->indisready && form->indislive &&
			 heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			 heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
	for (int i = 0; usable && i < clause.used_count; i++)
		usable = HasColumn(form, clause.used[i]);
	if (FollowsMarks(options) && clause.mark != 0)
		usable = usable && HasColumn(form, clause.mark);
	ReleaseSysCache(tuple);
	return usable;
}

void
CheckGuardedTable(Relation rel, const GuardPlan *plan, bool *may_kill)
{
	Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List *indexes;
	ListCell *cell;
	bool usable = false;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ReportUnguardable(rel);

	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index form;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_index) GETSTRUCT(tuple);
		if (form->indisunique || form->indisexclusion)
			*may_kill = true;
		ReleaseSysCache(tuple);
		if (!usable)
			usable =
				IsUsableGuardIndex(lfirst_oid(cell), access_method, plan->clause, plan->options);
	}
	list_free(indexes);
	if (!usable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no valid guard index", RelationGetRelationName(rel)),
				 errdetail("Without it, a key would count even if its row was not inserted."),
				 errhint("Run REINDEX if the index is invalid; otherwise run dedup_unguard() and "
						 "dedup_guard() again.")));
}

Oid
OwnerOfTable(Oid table)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

bool
TableOwnerMayAdd(Oid table, Oid filter)
{
	const Oid owner = OwnerOfTable(table);

	return OidIsValid(owner) && pg_class_aclcheck(filter, owner, ACL_INSERT) == ACLCHECK_OK;
}

bool
GuardOwnerMayAdd(const GuardPlan *plan)
{
	return TableOwnerMayAdd(plan->guarded, plan->clause.filter);
}
