/*
 * Keeps two things apart: the times at which statements are planned exactly, and the plans that
 * sessions keep.
 *
 * A mark is an invalidation item that no catalog has. The plan cache drops the plans that carry a
 * mark when it is told that the item has changed. Approximate plans are dropped when the first
 * function is looked up at an exact time, because its own plans, and those of functions that it
 * calls, may be older. Plans that were held back are dropped when the exact time is over. Nothing
 * is dropped if no such plan was made.
 *
 * Before version 18, a function in SQL keeps its plans outside of the plan cache, as long as the
 * expression that calls it is kept. PL/pgSQL keeps its expressions until the transaction ends, or
 * until their plans are dropped. So expressions that call functions are dropped, too.
 */
#include "query/distinct/exactly.hpp"
#include "pg/settings.hpp"
#include "query/distinct/distributed.hpp"

extern "C" {
#include "access/parallel.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

static needs_fmgr_hook_type previous_needs_fmgr = NULL;
static fmgr_hook_type previous_fmgr = NULL;
static ExecutorStart_hook_type previous_start = NULL;
static ExecutorRun_hook_type previous_run = NULL;
static ExecutorFinish_hook_type previous_finish = NULL;

static bool exactly = false;

/* True if plans with the mark were made since they were last dropped. */
static bool approximate_plans = false;
static bool held_back_plans = false;

/* ---- marks ------------------------------------------------------------------------ */

/*
 * The hash values of the marks. A function whose name has one of these hash values causes a new
 * plan, but no error.
 */
constexpr uint32 FIRST_MARK = 0x64656470;

static uint32
HashOfMark(PlanMark mark)
{
	return FIRST_MARK + (uint32) mark;
}

bool
IsPlanMark(uint32 hash)
{
	return hash >= HashOfMark(PlanMark::Approximate) && hash <= HashOfMark(PlanMark::Calling);
}

void
MarkPlan(PlannedStmt *statement, PlanMark mark)
{
	PlanInvalItem *item = makeNode(PlanInvalItem);

	item->cacheId = PROCOID;
	item->hashValue = HashOfMark(mark);
	statement->invalItems = lappend(statement->invalItems, item);
	approximate_plans |= mark == PlanMark::Approximate;
	held_back_plans |= mark == PlanMark::HeldBack;
}

static bool
HasMark(const PlannedStmt *statement, PlanMark mark)
{
	ListCell *cell;

	foreach(cell, statement->invalItems)
	{
		const PlanInvalItem *item = (const PlanInvalItem *) lfirst(cell);

		if (IsA(item, PlanInvalItem) && item->cacheId == PROCOID &&
			item->hashValue == HashOfMark(mark))
			return true;
	}
	return false;
}

static void
DropApproximatePlans(void)
{
	if (!approximate_plans)
		return;
	approximate_plans = false;
	CallSyscacheCallbacks(PROCOID, HashOfMark(PlanMark::Approximate));
	CallSyscacheCallbacks(PROCOID, HashOfMark(PlanMark::Calling));
}

static void
DropHeldBackPlans(void)
{
	if (!held_back_plans)
		return;
	held_back_plans = false;
	CallSyscacheCallbacks(PROCOID, HashOfMark(PlanMark::HeldBack));
	CallSyscacheCallbacks(PROCOID, HashOfMark(PlanMark::Calling));
}

/* ---- exact times --------------------------------------------------------------------- */

bool
PlansExactly(void)
{
	return exactly || !ApproximateDistinctAllowed() || IsParallelWorker() ||
		   DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0)) > 0;
}

void
DropOtherPlans(void)
{
	if (!approximate_plans && !held_back_plans)
		return;
	if (PlansExactly())
		DropApproximatePlans();
	else
		DropHeldBackPlans();
}

bool
BeginExactly(void)
{
	bool before = exactly;

	exactly = true;
	return before;
}

void
EndExactly(bool before)
{
	exactly = before;
	if (held_back_plans && !PlansExactly())
		DropHeldBackPlans();
}

/* ---- functions -------------------------------------------------------------------------- */

/*
 * Called when a function that is not built in is looked up shortly before it is called. For a
 * trigger, the exact time begins when its function is called, which may be after the last
 * statement.
 */
static bool
NeedsFmgr(Oid function)
{
	DropOtherPlans();
	if (approximate_plans && get_func_rettype(function) == TRIGGEROID)
		DropApproximatePlans();
	return previous_needs_fmgr != NULL && previous_needs_fmgr(function);
}

/* Functions with a SET clause do not reach NeedsFmgr(), but come here. */
static void
NoteCall(FmgrHookEventType event, FmgrInfo *function, Datum *argument)
{
	if (event == FHET_START)
		DropOtherPlans();
	if (previous_fmgr != NULL)
		previous_fmgr(event, function, argument);
}

/* ---- statements that run ------------------------------------------------------------------ */

static bool
RunsExactly(const QueryDesc *query)
{
	const PlannedStmt *statement = query->plannedstmt;

	return statement->commandType != CMD_SELECT || statement->hasModifyingCTE ||
		   HasMark(statement, PlanMark::Deciding);
}

/* Begins an exact time if the statement needs one. Returns the argument for EndExactly(). */
static pg_noinline bool
BeginStatement(const QueryDesc *query)
{
	bool before = exactly;

	exactly |= RunsExactly(query);
	return before;
}

static void
StartStatement(QueryDesc *query, int flags)
{
	bool before = BeginStatement(query);

	PG_TRY();
	{
		if (previous_start != NULL)
			previous_start(query, flags);
		else
			standard_ExecutorStart(query, flags);
	}
	PG_FINALLY();
	{
		EndExactly(before);
	}
	PG_END_TRY();
}

/*
 * Under EXPLAIN ANALYZE, or with auto_explain.log_analyze, Citus has its workers run each query by
 * a function that returns the rows and the plan, and names the types of the columns. States of
 * aggregates have the type cstring, which no column can have, so this would raise an error. If the
 * statement seems not to be measured, Citus runs the queries as usual, and has one of them
 * explained later, in a savepoint.
 */
static pg_noinline void
DoNotAnalyzeStates(QueryDesc *query)
{
	if (query->estate != NULL && query->estate->es_instrument != 0 &&
		(HasMark(query->plannedstmt, PlanMark::Split) || HasSplitAggregates(query->plannedstmt)))
		query->estate->es_instrument = 0;
}

static void
RunStatement(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	bool before = BeginStatement(query);

	DoNotAnalyzeStates(query);
	/* A cursor's functions were looked up when it was opened. */
	if (exactly && query->operation == CMD_SELECT)
		DropApproximatePlans();
	PG_TRY();
	{
		if (previous_run != NULL)
			previous_run(query, direction, count ONCE);
		else
			standard_ExecutorRun(query, direction, count ONCE);
	}
	PG_FINALLY();
	{
		EndExactly(before);
	}
	PG_END_TRY();
}

static void
FinishStatement(QueryDesc *query)
{
	bool before = BeginStatement(query);

	PG_TRY();
	{
		if (previous_finish != NULL)
			previous_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		EndExactly(before);
	}
	PG_END_TRY();
}

void
InitExactly(void)
{
	previous_needs_fmgr = needs_fmgr_hook;
	needs_fmgr_hook = NeedsFmgr;
	previous_fmgr = fmgr_hook;
	fmgr_hook = NoteCall;
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = StartStatement;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = RunStatement;
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = FinishStatement;
}
