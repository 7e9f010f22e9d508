/*
 * Statements with a WITH clause that deletes rows and a part that inserts rows.
 *
 *   WITH d AS (DELETE FROM t WHERE ...) INSERT INTO t VALUES ...
 *
 * The server runs a clause that nobody reads after the main statement, and one that is read
 * as far as its reader has come. A row that is inserted before its predecessor is deleted would
 * be a duplicate: a guard would leave it out, and the row that it repeats would be deleted next.
 * The order of the parts of such a statement is not specified. So the clauses that delete rows
 * of guarded tables, or update them, run first. All parts see the same snapshot.
 *
 * The planner opens the indexes of tables that a statement deletes from, so the library is
 * loaded by then, in the first statement of a session too.
 */
#include "guard/guard.hpp"
#include "pg/executor_run.hpp"
#include "pg/walker.hpp"

extern "C" {
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/tuplestore.h"
}

static ExecutorRun_hook_type previous_executor_run = NULL;

static bool
MayInsert(CmdType operation)
{
#if PG_VERSION_NUM >= 150000
	return operation == CMD_INSERT || operation == CMD_MERGE;
#else
	return operation == CMD_INSERT;
#endif
}

/* Whether a part of a statement deletes or updates rows, of a guarded table among others. */
static bool
RemovesGuarded(const ModifyTableState *node)
{
#if PG_VERSION_NUM >= 140000
	const int count = node->mt_nrels;
#else
	const int count = node->mt_nplans;
#endif

	if (node->operation == CMD_INSERT)
		return false;
	for (int i = 0; i < count; i++)
		if (OidIsValid(FindGuardFunction(node->resultRelInfo[i].ri_RelationDesc, true)))
			return true;
	return false;
}

/* Whether a statement has a part that may insert rows. */
static bool
StatementInserts(const QueryDesc *query)
{
	ListCell *cell;

	if (MayInsert(query->operation))
		return true;
	foreach(cell, query->estate->es_auxmodifytables)
		if (MayInsert(((const ModifyTableState *) lfirst(cell))->operation))
			return true;
	return false;
}

namespace
{

/* The search for the node that keeps the rows of a WITH clause for all of its readers. */
struct ReaderSearch
{
	const PlanState *clause;
	CteScanState *leader;
};

} /* namespace */

static bool
FindReader(PlanState *state, void *arg)
{
	ReaderSearch *search = (ReaderSearch *) arg;

	if (state == NULL)
		return false;
	if (IsA(state, CteScanState) && ((CteScanState *) state)->cteplanstate == search->clause)
	{
		search->leader = ((CteScanState *) state)->leader;
		return true;
	}
	return planstate_tree_walker(state, AsStateWalker(FindReader), arg);
}

static CteScanState *
ReaderOf(const QueryDesc *query, const PlanState *clause)
{
	ReaderSearch search = {clause, NULL};
	ListCell *cell;

	if (FindReader(query->planstate, &search))
		return search.leader;
	foreach(cell, query->estate->es_subplanstates)
		if (FindReader((PlanState *) lfirst(cell), &search))
			return search.leader;
	return NULL;
}

/* Runs a WITH clause as a whole. Its rows are kept for those who read them. */
static void
RunClause(const QueryDesc *query, ModifyTableState *node)
{
	EState *estate = query->estate;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	CteScanState *reader = ReaderOf(query, &node->ps);

	estate->es_direction = ForwardScanDirection;
	for (;;)
	{
		TupleTableSlot *slot;

		ResetPerTupleExprContext(estate);
		slot = ExecProcNode(&node->ps);
		if (TupIsNull(slot))
			break;
		if (reader != NULL)
			tuplestore_puttupleslot(reader->cte_table, slot);
	}
	if (reader != NULL)
		reader->eof_cte = true;
	MemoryContextSwitchTo(old);
}

static void
RunDeletionsFirst(const QueryDesc *query)
{
	List *clauses = query->estate->es_auxmodifytables;
	ListCell *cell;

	if (!StatementInserts(query))
		return;
	foreach(cell, clauses)
	{
		ModifyTableState *node = lfirst_node(ModifyTableState, cell);

		/* Not if it has begun: the statement goes on, or another clause reads it. */
		if (node->fireBSTriggers && !node->mt_done && RemovesGuarded(node))
			RunClause(query, node);
	}
}

static void
GuardExecutorRun(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	if (unlikely(query->estate->es_auxmodifytables != NIL) && ScanDirectionIsForward(direction))
		RunDeletionsFirst(query);
	if (previous_executor_run != NULL)
		previous_executor_run(query, direction, count ONCE);
	else
		standard_ExecutorRun(query, direction, count ONCE);
}

void
InitGuardWith(void)
{
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = GuardExecutorRun;
}
