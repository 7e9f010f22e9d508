/*
 * What a table's guard is, read from its triggers and indexes (guard.hpp), and the
 * session's cache of it.
 */
#include "live/guard.hpp"
#include "pg/keys.hpp"

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
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace
{

struct GuardPlanEntry
{
	Oid			trigger;
	GuardPlan  *plan;
};

}							/* namespace */

static MemoryContext guard_plan_context = NULL;
static HTAB *guard_plans = NULL;

/* So many plans are kept; more are thrown away together, between transactions. */
constexpr long GUARD_PLANS_KEPT = 256;

static bool
ReadClauseNode(const Node *node, GuardClause *clause)
{
	if (IsA(node, BoolExpr))
	{
		const BoolExpr *expr = (const BoolExpr *) node;
		ListCell   *cell;

		if (expr->boolop != OR_EXPR)
			return false;
		foreach(cell, expr->args)
			if (!ReadClauseNode((const Node *) lfirst(cell), clause))
				return false;
		return true;
	}
	if (IsA(node, NullTest))
	{
		const NullTest *test = (const NullTest *) node;

		if (IsA(test->arg, Const))
		{
			const Const *constant = (const Const *) test->arg;

			if (OidIsValid(clause->filter) || constant->consttype != REGCLASSOID ||
				constant->constisnull || test->nulltesttype != IS_NOT_NULL)
				return false;
			clause->filter = DatumGetObjectId(constant->constvalue);
			return true;
		}
		if (IsA(test->arg, Var))
		{
			const Var  *var = (const Var *) test->arg;

			if (test->nulltesttype == IS_NOT_NULL)
			{
				if (clause->mark != 0 || var->vartype != BOOLOID)
					return false;
				clause->mark = var->varattno;
				return true;
			}
			if (clause->columns == INDEX_MAX_KEYS)
				return false;
			clause->attnums[clause->columns] = var->varattno;
			clause->types[clause->columns] = var->vartype;
			clause->collations[clause->columns] = var->varcollid;
			clause->columns++;
			return true;
		}
	}
	return false;
}

bool
ReadGuardClause(const char *qual, GuardClause *clause)
{
	const Node *node = (const Node *) stringToNode(qual);

	memset(clause, 0, sizeof *clause);
	return node != NULL && ReadClauseNode(node, clause) && OidIsValid(clause->filter) &&
		clause->columns > 0;
}

static bool
IsRowTrigger(const Trigger *trigger)
{
	return TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_BEFORE(trigger->tgtype);
}

GuardTriggers
FindGuardTriggers(Relation rel, Oid function)
{
	GuardTriggers found = {};
	const TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		bool		writes = TRIGGER_FOR_INSERT(trigger->tgtype) &&
			TRIGGER_FOR_UPDATE(trigger->tgtype);
		bool		removes = TRIGGER_FOR_DELETE(trigger->tgtype);
		const Trigger **place = writes ? &found.write : &found.remove;

		if (trigger->tgfoid != function)
			continue;
		if (!IsRowTrigger(trigger) || writes == removes || *place != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("trigger \"%s\" of table \"%s\" is not part of a guard",
							trigger->tgname, RelationGetRelationName(rel)),
					 errhint("Drop it; dedup_guard() makes the triggers of a guard.")));
		*place = trigger;
	}
	return found;
}

/* The table whose trigger this one was cloned from, for a partition. */
static Oid
GuardedTable(Oid trigger)
{
	Relation	pg_trigger = table_open(TriggerRelationId, AccessShareLock);
	Oid			table = InvalidOid;

	while (OidIsValid(trigger))
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	tuple;

		ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(trigger));
		scan = systable_beginscan(pg_trigger, TriggerOidIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "could not find trigger %u", trigger);
		table = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
		trigger = ((Form_pg_trigger) GETSTRUCT(tuple))->tgparentid;
		systable_endscan(scan);
	}
	table_close(pg_trigger, AccessShareLock);
	return table;
}

void
ReportIncompleteGuard(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the guard of table \"%s\" is incomplete", RelationGetRelationName(rel)),
			 errdetail("One of its triggers is missing or was changed."),
			 errhint("Run dedup_unguard() and dedup_guard() again.")));
	pg_unreachable();
}

static GuardMode
ReadMode(const char *text, const GuardClause &clause, bool *valid)
{
	*valid = true;
	if (strcmp(text, "skip") == 0)
		return GuardMode::Skip;
	if (strcmp(text, "reject") == 0)
		return GuardMode::Reject;
	*valid = strcmp(text, "mark") == 0 && clause.mark != 0;
	return GuardMode::Mark;
}

/*
 * The plan of a table's guard, from this session's cache if its triggers are as they
 * were. A plan that was replaced stays, since a query may be using it.
 */
const GuardPlan *
GetGuardPlan(Relation rel, Oid function)
{
	GuardTriggers triggers = FindGuardTriggers(rel, function);
	const char *qual;
	char	  **args;
	GuardPlanEntry *entry;
	GuardPlan  *plan;
	MemoryContext old;
	Oid			trigger;
	bool		found;
	bool		valid;

	if (triggers.write == NULL || triggers.remove == NULL || triggers.write->tgnargs != 2 ||
		triggers.remove->tgqual == NULL)
		ReportIncompleteGuard(rel);
	if ((rel->rd_rel->relispartition || IsLogicalWorker()) &&
		triggers.write->tgenabled != triggers.remove->tgenabled)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the triggers of the guard of table \"%s\" are not enabled alike",
						RelationGetRelationName(rel)),
				 errdetail("A row that moves to another partition could be lost."),
				 errhint("ALTER TABLE ... ENABLE TRIGGER both \"%s\" and \"%s\" in the same way.",
						 triggers.write->tgname, triggers.remove->tgname)));
	qual = triggers.remove->tgqual;
	args = triggers.write->tgargs;
	trigger = triggers.write->tgoid;

	if (guard_plans == NULL)
	{
		HASHCTL		info = {};

		guard_plan_context = AllocSetContextCreateInternal(TopMemoryContext, "dedup_guard plans",
														   ALLOCSET_DEFAULT_SIZES);
		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(GuardPlanEntry);
		info.hcxt = guard_plan_context;
		guard_plans = hash_create("dedup_guard plans", 32, &info,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = (GuardPlanEntry *) hash_search(guard_plans, &trigger, HASH_FIND, NULL);
	if (entry != NULL && strcmp(entry->plan->qual, qual) == 0 &&
		strcmp(entry->plan->mode_text, args[0]) == 0 &&
		strcmp(entry->plan->constraint, args[1]) == 0)
		return entry->plan;

	old = MemoryContextSwitchTo(guard_plan_context);
	plan = (GuardPlan *) palloc0(sizeof(GuardPlan));
	plan->qual = pstrdup(qual);
	plan->mode_text = pstrdup(args[0]);
	plan->constraint = pstrdup(args[1]);
	MemoryContextSwitchTo(old);

	if (!ReadGuardClause(qual, &plan->clause))
		ReportIncompleteGuard(rel);
	plan->mode = ReadMode(args[0], plan->clause, &valid);
	if (!valid)
		ReportIncompleteGuard(rel);

	/* From here on the relation's cache, and so its triggers, can go at any lock. */
	plan->guarded = GuardedTable(trigger);
	plan->keys = MakeColumnsKeyPlan(guard_plan_context, plan->clause.columns, plan->clause.types,
									plan->clause.collations);
	for (int i = 0; i < plan->clause.columns; i++)
		get_typlenbyval(plan->clause.types[i], &plan->typlen[i], &plan->typbyval[i]);

	entry = (GuardPlanEntry *) hash_search(guard_plans, &trigger, HASH_ENTER, &found);
	entry->plan = plan;
	return plan;
}

void
TrimGuardPlans(void)
{
	if (guard_plans != NULL && hash_get_num_entries(guard_plans) > GUARD_PLANS_KEPT)
	{
		guard_plans = NULL;
		MemoryContextDelete(guard_plan_context);
		guard_plan_context = NULL;
	}
}

bool
IsUsableGuardIndex(Oid index, Oid access_method, int columns, const AttrNumber *attnums)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	Form_pg_index form;
	bool		usable;

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
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
	for (int i = 0; usable && i < columns; i++)
	{
		usable = false;
		for (int j = 0; j < form->indnatts; j++)
			usable = usable || form->indkey.values[j] == attnums[i];
	}
	ReleaseSysCache(tuple);
	return usable;
}

void
CheckGuardedTable(Relation rel, const GuardClause &clause, bool *may_kill)
{
	Oid			access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List	   *indexes;
	ListCell   *cell;
	bool		usable = false;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" cannot be guarded", RelationGetRelationName(rel)),
				 errdetail("A guard works on heap tables only, and on partitions that are.")));

	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index form;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_index) GETSTRUCT(tuple);
		if (form->indisunique || form->indisexclusion)
			*may_kill = true;
		ReleaseSysCache(tuple);
		if (!usable)
			usable = IsUsableGuardIndex(lfirst_oid(cell), access_method, clause.columns,
										clause.attnums);
	}
	list_free(indexes);
	if (!usable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no valid guard index", RelationGetRelationName(rel)),
				 errdetail("Without it a key would count even if its row did not land."),
				 errhint("REINDEX an invalid one; else run dedup_unguard() and dedup_guard() again.")));
}
