/*
 * Statements with a WITH clause that deletes rows and a part that inserts rows.
 *
 *   WITH d AS (DELETE FROM t WHERE ...) INSERT INTO t VALUES ...
 *
 * The server runs a clause that is not read after the main statement, and a clause that is read
 * only as far as its reader has come. A row that is inserted before its predecessor is deleted
 * would be a duplicate: a guard would leave it out, and then its predecessor would be deleted. The
 * order of the parts of such a statement is not specified. So the clauses that delete or update
 * rows of guarded tables are run first. All parts see the same snapshot.
 *
 * The planner opens the indexes of tables from which a statement deletes. So the library is loaded
 * by then, even in the first statement of a session.
 */
#include "guard/guard.hpp"
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
	return operation == CMD_INSERT || IS_MERGE(operation);
}

/* Returns whether a part of a statement deletes or updates rows of a guarded table. */
static bool
RemovesGuarded(const ModifyTableState *node)
{
	const int count = COUNT_TARGETS(node);

	if (node->operation == CMD_INSERT)
		return false;
	for (int i = 0; i < count; i++)
		if (OidIsValid(FindGuardFunction(node->resultRelInfo[i].ri_RelationDesc, true)))
			return true;
	return false;
}

static bool
RemovesAnyGuarded(const QueryDesc *query)
{
	ListCell *cell;

	foreach(cell, query->estate->es_auxmodifytables)
		if (RemovesGuarded((const ModifyTableState *) lfirst(cell)))
			return true;
	return false;
}

/* Returns whether a statement has a part that may insert rows. */
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

/* The search for a node that reads a WITH clause. */
struct ReaderSearch
{
	const PlanState *clause;
	CteScanState *reader;
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
		search->reader = (CteScanState *) state;
		return true;
	}
	return planstate_tree_walker(state, AsStateWalker(FindReader), arg);
}

static CteScanState *
ReaderOf(PlanState *top, const PlanState *clause)
{
	ReaderSearch search = {clause, NULL};
	ListCell *cell;

	if (FindReader(top, &search))
		return search.reader;
	foreach(cell, top->state->es_subplanstates)
		if (FindReader((PlanState *) lfirst(cell), &search))
			return search.reader;
	return NULL;
}

/*
 * Runs a WITH clause as a whole, or the rest of it. Its rows are kept for its readers, wherever
 * these are in the kept rows.
 */
static void
RunClause(EState *estate, ModifyTableState *node, CteScanState *reader)
{
	Tuplestorestate *store = reader != NULL ? reader->leader->cte_table : NULL;
	const int place = store != NULL ? tuplestore_alloc_read_pointer(store, 0) : 0;

	for (;;)
	{
		TupleTableSlot *slot;

		ResetPerTupleExprContext(estate);
		slot = ExecProcNode(&node->ps);
		if (TupIsNull(slot))
			break;
		if (store == NULL)
			continue;
		tuplestore_select_read_pointer(store, place);
		tuplestore_puttupleslot(store, slot);
	}
	if (reader != NULL)
		reader->leader->eof_cte = true;
}

namespace
{

/* A statement whose clauses must still be run. It is in the statement's memory. */
struct Waiting
{
	MemoryContextCallback over;
	PlanState *top;
	ExecProcNodeMtd run_top; /* does what the server does */
	Waiting *below;
};

} /* namespace */

static Waiting *waiting = NULL; /* innermost statement first */

/* The statement's memory is being freed. */
static void
WaitingOver(void *arg)
{
	for (Waiting **link = &waiting; *link != NULL; link = &(*link)->below)
		if (*link == arg)
		{
			*link = (*link)->below;
			break;
		}
}

/* Replaces the plan's uppermost node when its first row is requested. */
static TupleTableSlot *
RunClausesFirst(PlanState *top)
{
	EState *estate = top->state;
	const Waiting *found = waiting;
	ListCell *cell;

	while (found->top != top)
		found = found->below;
	top->ExecProcNodeReal = found->run_top;
	if (top->instrument == NULL)
		top->ExecProcNode = found->run_top;
	foreach(cell, estate->es_auxmodifytables)
	{
		ModifyTableState *node = lfirst_node(ModifyTableState, cell);

		/* The clause may have begun, because another clause reads it. */
		if (!node->mt_done && RemovesGuarded(node))
			RunClause(estate, node, ReaderOf(top, &node->ps));
	}
	ResetPerTupleExprContext(estate);
	return top->ExecProcNodeReal(top);
}

/* This way, everything that measures the statement sees its clauses run as a part of it. */
static void
LetClausesRunFirst(const QueryDesc *query)
{
	PlanState *top = query->planstate;
	Waiting *statement;

	if (!StatementInserts(query) || !RemovesAnyGuarded(query))
		return;
	statement = (Waiting *) MemoryContextAllocZero(query->estate->es_query_cxt, sizeof(Waiting));
	statement->top = top;
	statement->run_top = top->ExecProcNodeReal;
	statement->below = waiting;
	statement->over.func = WaitingOver;
	statement->over.arg = statement;
	MemoryContextRegisterResetCallback(query->estate->es_query_cxt, &statement->over);
	waiting = statement;
	ExecSetExecProcNode(top, RunClausesFirst);
}

static void
GuardExecutorRun(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	if (unlikely(query->estate->es_auxmodifytables != NIL) && !query->already_executed &&
		ScanDirectionIsForward(direction))
		LetClausesRunFirst(query);
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
