/*
 * Rows that move to a guarded partition from one that is not guarded, or to a table from a table
 * that it inherits from.
 *
 * An UPDATE or MERGE that moves a row to another partition deletes it there and inserts it here. If
 * the guard's triggers fire for both, the row is known by them (triggers.cpp). If the partition
 * that it leaves has no guard of that filter, or its triggers do not fire, a BEFORE INSERT trigger
 * cannot distinguish it from a new row, and leaving that row out would lose it. So such a row
 * raises an error if its key was seen.
 *
 * Two things distinguish it from a new row: the kind of the query, and the server's own count of
 * the rows that this transaction has deleted from each table, which is incremented just before a
 * moved row is inserted. Queries are known from the executor's hook. But a query that was running
 * when the library was loaded is not known, nor is a worker that applies changes.
 */
#include "guard/inherit.hpp"
#include "pg/compat_storage.hpp"

extern "C" {
#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "nodes/plannodes.h"
#include "pgstat.h"
#include "replication/logicalworker.h"
#include "storage/bufmgr.h"
#include "tcop/pquery.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/portal.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
}

/* ---- queries --------------------------------------------------------------- */

namespace
{

/*
 * A query that is known: those that move rows, and all queries of the statement that loaded the
 * library.
 */
struct GuardQuery
{
	MemoryContextCallback over;
	GuardQuery *below;
	MemoryContext context; /* of the query; this struct is also in it */
	bool may_move;
	bool only_moves;
};

} /* namespace */

static GuardQuery *guard_queries = NULL; /* innermost first */
static TimestampTz loading_statement;
static ExecutorStart_hook_type previous_executor_start = NULL;

static void
GuardQueryOver(void *arg)
{
	for (GuardQuery **link = &guard_queries; *link != NULL; link = &(*link)->below)
		if (*link == arg)
		{
			*link = (*link)->below;
			break;
		}
}

/* Returns whether a plan changes rows of a partitioned table in place. */
static bool
MovesRows(const Plan *plan)
{
	const ModifyTable *modify = (const ModifyTable *) plan;

	if (plan == NULL || !IsA(plan, ModifyTable) || modify->rootRelation == 0)
		return false;
	return modify->operation == CMD_UPDATE || IS_MERGE(modify->operation);
}

/*
 * Does the same for a whole statement, and sets whether every row that it inserts is one that
 * moves.
 */
static bool
MovesInside(const PlannedStmt *statement, bool *only_moves)
{
	bool may_move;
	ListCell *cell;

	*only_moves = false;
	if (statement->commandType == CMD_UTILITY)
		return false;
	may_move = MovesRows(statement->planTree);
	*only_moves = may_move && statement->commandType == CMD_UPDATE && !statement->hasModifyingCTE;

	/* The UPDATE of a WITH clause is a separate plan. */
	if (statement->hasModifyingCTE)
		foreach(cell, statement->subplans)
			may_move = may_move || MovesRows((const Plan *) lfirst(cell));
	return may_move;
}

static void
GuardExecutorStart(QueryDesc *query, int eflags)
{
	bool only_moves;
	bool may_move = MovesInside(query->plannedstmt, &only_moves);

	if (previous_executor_start != NULL)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);

	if (may_move || loading_statement == GetCurrentStatementStartTimestamp())
	{
		MemoryContext context = query->estate->es_query_cxt;
		GuardQuery *known = (GuardQuery *) MemoryContextAlloc(context, sizeof(GuardQuery));

		known->context = context;
		known->may_move = may_move;
		known->only_moves = only_moves;
		known->below = guard_queries;
		known->over.func = GuardQueryOver;
		known->over.arg = known;
		MemoryContextRegisterResetCallback(context, &known->over);
		guard_queries = known;
	}
}

/*
 * Returns whether a query that runs in this context may move rows, and sets whether it only moves
 * rows.
 */
static bool
MayMove(MemoryContext context, bool *only_moves)
{
	*only_moves = false;
	for (GuardQuery *query = guard_queries; query != NULL; query = query->below)
		if (query->context == context)
		{
			*only_moves = query->only_moves;
			return query->may_move;
		}
	if (IsLogicalWorker())
		return true;
	if (loading_statement != GetCurrentStatementStartTimestamp())
		return false;

	/* For the statement itself, not for one inside it, the portal has the plan. */
	if (ActivePortal != NULL && MemoryContextGetParent(context) == ActivePortal->portalContext)
	{
		ListCell *cell;

		foreach(cell, ActivePortal->stmts)
		{
			const PlannedStmt *statement = (const PlannedStmt *) lfirst(cell);
			bool only;

			/* A utility statement, such as EXPLAIN, can run any query. */
			if (statement->commandType == CMD_UTILITY || MovesInside(statement, &only))
				return true;
		}
		return false;
	}
	return true;
}

/* ---- partitions ------------------------------------------------------------- */

bool
GuardTriggerFires(char enabled)
{
	if (enabled == TRIGGER_FIRES_ALWAYS)
		return true;
	return enabled == (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA
						   ? TRIGGER_FIRES_ON_REPLICA
						   : TRIGGER_FIRES_ON_ORIGIN);
}

Oid
RootOfPartition(Relation rel)
{
	Oid root = RelationGetRelid(rel);

	if (rel->rd_rel->relispartition)
	{
		List *ancestors = get_partition_ancestors(root);

		if (ancestors != NIL)
			root = llast_oid(ancestors);
		list_free(ancestors);
	}
	return root;
}

/* Returns whether the guard of a filter sees rows that leave this partition. */
static bool
IsGuardedBy(Relation rel, Oid filter, Oid function)
{
	const GuardPlan *plan = FindGuardPlan(rel, function);
	GuardTriggers triggers;

	if (plan == NULL || plan->clause.filter != filter)
		return false;
	triggers = FindGuardTriggers(rel, function);
	return GuardTriggerFires(triggers.write->tgenabled) &&
		   GuardTriggerFires(triggers.remove->tgenabled);
}

/* The last result: for a query, a tree of partitions and a filter. */
static MemoryContext found_in = NULL;
static Oid found_root;
static Oid found_filter;
static UnguardedPartitions *found_last;

static void
FoundPartitionsOver(void *arg)
{
	if (found_last == arg)
		found_in = NULL;
}

/*
 * The target is one of the partitions that are checked: it is guarded, or its guard's trigger would
 * not call this. All targets of a query share the result.
 */
UnguardedPartitions *
FindUnguardedPartitions(MemoryContext context, Relation rel, const GuardPlan *plan, Oid function)
{
	const Oid root = RootOfPartition(rel);
	UnguardedPartitions *found;
	MemoryContext old;

	if (found_in == context && found_root == root && found_filter == plan->clause.filter)
		return found_last;
	old = MemoryContextSwitchTo(context);
	found = (UnguardedPartitions *) palloc0(sizeof(UnguardedPartitions));
	found->may_move = MayMove(MemoryContextGetParent(old), &found->only_moves);
	if (found->may_move && !found->only_moves)
	{
		List *tables = find_all_inheritors(root, NoLock, NULL);
		ListCell *cell;

		foreach(cell, tables)
		{
			/* The table is only read for its triggers, so it needs no lock. */
			Relation table = RelationIdGetRelation(lfirst_oid(cell));

			if (!RelationIsValid(table))
				continue;
			if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
				!IsGuardedBy(table, plan->clause.filter, function))
				found->partitions = lappend_oid(found->partitions, lfirst_oid(cell));
			RelationClose(table);
		}
		list_free(tables);
		found->deleted = (int64 *) palloc0(sizeof(int64) * (list_length(found->partitions) + 1));
	}
	found_in = context;
	found_root = root;
	found_filter = plan->clause.filter;
	found_last = found;
	found->over.func = FoundPartitionsOver;
	found->over.arg = found;
	MemoryContextRegisterResetCallback(context, &found->over);
	MemoryContextSwitchTo(old);
	return found;
}

/* ---- deleted rows, by the server's own count ---------------------------------- */

/*
 * Returns how many rows this session has ever deleted from a table, committed or not. The count
 * never decreases before the table's statistics are sent, at the end of the transaction. -1:
 * nothing is counted.
 */
static int64
CountDeleted(Oid table)
{
	Relation rel = RelationIdGetRelation(table);
	int64 deleted = 0;

	if (!RelationIsValid(rel))
		return 0;
	if (rel->pgstat_info != NULL)
	{
		deleted = COUNTED_DELETED(rel);
		for (const PgStat_TableXactStatus *level = rel->pgstat_info->trans; level != NULL;
			 level = level->upper)
			deleted += level->tuples_deleted + DELETED_BEFORE_TRUNCATE(level);
	}
	else if (!pgstat_track_counts)
		deleted = -1;
	RelationClose(rel);
	return deleted;
}

/*
 * The partition that a moved row comes from is open in the query. So its count exists and has
 * changed since the last check, whatever has happened to others.
 */
bool
MayComeFromUnguarded(UnguardedPartitions *unguarded)
{
	bool changed = false;
	ListCell *cell;
	int i = 0;

	if (!unguarded->may_move || unguarded->only_moves)
		return unguarded->only_moves;
	foreach(cell, unguarded->partitions)
	{
		int64 now = CountDeleted(lfirst_oid(cell));

		changed = changed || now < 0 || now != unguarded->deleted[i];
		unguarded->deleted[i++] = now;
	}
	return changed;
}

/* ---- tables that inherit ---------------------------------------------------- */

/* Returns whether a table itself holds a row that is visible to us. */
static bool
HasRows(Relation rel)
{
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = TABLE_BEGINSCAN(rel, snapshot);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	bool found = table_scan_getnextslot(scan, ForwardScanDirection, slot);

	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/*
 * Returns whether a table has a trigger that calls a function: that of a guard which may be
 * incomplete.
 */
static bool
HasTriggerOf(Relation rel, Oid function)
{
	const TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgfoid == function)
			return true;
	return false;
}

void
RefuseWhileParentHasRows(Relation rel, Oid parent)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot leave a duplicate out of table \"%s\" while its parent \"%s\" has rows",
					RelationGetRelationName(rel), get_rel_name(parent)),
			 errdetail("If the rows of the parent are being moved here, they would be lost."),
			 errhint("To move them, delete and insert them in one transaction, for example by one "
					 "statement WITH moved AS (DELETE FROM ONLY ... RETURNING *) INSERT ..., or "
					 "remove the guard with dedup_unguard() first.")));
	pg_unreachable();
}

/*
 * Rows are moved from a table to one that inherits from it by copying them and truncating the
 * parent afterwards. The copies are duplicates while the parent has the rows, and leaving them out
 * would lose them. So while a parent with the same filter has rows of its own, a duplicate raises
 * an error.
 */
Oid
GuardedParentWithRows(Relation rel, Oid filter, Oid function)
{
	List *tables = ParentsOf(RelationGetRelid(rel));

	while (tables != NIL)
	{
		Oid relid = linitial_oid(tables);
		Relation parent = try_relation_open(relid, AccessShareLock);
		const GuardPlan *plan;
		bool found;

		tables = list_delete_first(tables);
		if (parent == NULL)
			continue;
		plan = FindGuardPlan(parent, function);
		found = (plan != NULL ? plan->clause.filter == filter : HasTriggerOf(parent, function)) &&
				HasRows(parent);
		relation_close(parent, AccessShareLock);
		if (found)
			return relid;
		tables = list_concat_unique_oid(tables, ParentsOf(relid));
	}
	return InvalidOid;
}

Oid
FoundInParent(Relation rel, Oid found)
{
	return OidIsValid(found) && found != RelationGetRelid(rel) && !rel->rd_rel->relispartition &&
				   InheritsFrom(RelationGetRelid(rel), found)
			   ? found
			   : InvalidOid;
}

namespace
{

/* A parent whose rows may have been copied to a table that inherits from it, and marked there. */
struct MarkedCopy
{
	Oid parent;
	SubTransactionId subid;
};

} /* namespace */

/* In TopTransactionContext. */
static List *marked_copies = NIL;

void
NoteMarkedCopy(Oid parent)
{
	MemoryContext old;
	MarkedCopy *copy;
	ListCell *cell;

	foreach(cell, marked_copies)
		if (((const MarkedCopy *) lfirst(cell))->parent == parent)
			return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	copy = (MarkedCopy *) palloc(sizeof(MarkedCopy));
	*copy = {parent, GetCurrentSubTransactionId()};
	marked_copies = lappend(marked_copies, copy);
	MemoryContextSwitchTo(old);
}

void
CheckMarkedCopies(Relation heap)
{
	ListCell *cell;

	if (likely(marked_copies == NIL) || RelationGetNumberOfBlocks(heap) != 0)
		return;
	foreach(cell, marked_copies)
		if (((const MarkedCopy *) lfirst(cell))->parent == RelationGetRelid(heap))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot truncate table \"%s\" after duplicates of its rows were marked "
							"in a table that inherits from it",
							RelationGetRelationName(heap)),
					 errdetail("If its rows were moved there, they are no duplicates."),
					 errhint("Remove the guard with dedup_unguard() first.")));
}

void
ForgetMarkedCopies(SubTransactionId id)
{
	ListCell *cell;

	if (id == TopSubTransactionId)
		marked_copies = NIL;
	foreach(cell, marked_copies)
		if (((const MarkedCopy *) lfirst(cell))->subid >= id)
			marked_copies = foreach_delete_current(marked_copies, cell);
}

void
InitGuardMoves(void)
{
	loading_statement = GetCurrentStatementStartTimestamp();
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = GuardExecutorStart;
}
