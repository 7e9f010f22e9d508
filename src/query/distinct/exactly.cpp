/*
 * Keeping the times at which statements are planned exactly, and the plans that sessions
 * keep, apart.
 *
 * A mark is an invalidation item that no catalog has: the plan cache drops the plans that
 * carry it when it is told that the item has changed. Approximate plans are dropped when
 * the first function is looked up at an exact time: its own plans, and those of functions
 * that it calls, may be from before. Plans that were held back are dropped when the exact
 * time is over. Neither happens if no such plan has been made.
 */
#include "query/distinct/exactly.hpp"

extern "C" {
#include "access/parallel.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/syscache.h"
}

static needs_fmgr_hook_type previous_needs_fmgr = NULL;
static fmgr_hook_type previous_fmgr = NULL;
static ExecutorStart_hook_type previous_start = NULL;
static ExecutorRun_hook_type previous_run = NULL;
static ExecutorFinish_hook_type previous_finish = NULL;

static bool exactly = false;

/* Whether plans with the mark were made since they were dropped. */
static bool approximate_plans = false;
static bool held_back_plans = false;

/* ---- marks ------------------------------------------------------------------------ */

/* The marks' hash values. A function whose name hashes to one costs a new plan, no more. */
constexpr uint32 FIRST_MARK = 0x64656470;

static uint32
HashOfMark(PlanMark mark)
{
	return FIRST_MARK + (uint32) mark;
}

bool
IsPlanMark(uint32 hash)
{
	return hash >= HashOfMark(PlanMark::Approximate) && hash <= HashOfMark(PlanMark::Deciding);
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
	ListCell   *cell;

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
}

/* ---- exact times --------------------------------------------------------------------- */

bool
PlansExactly(void)
{
	return exactly || IsParallelWorker() ||
		DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0)) > 0;
}

bool
BeginExactly(void)
{
	bool		before = exactly;

	exactly = true;
	return before;
}

void
EndExactly(bool before)
{
	exactly = before;
	if (!exactly && held_back_plans)
	{
		held_back_plans = false;
		CallSyscacheCallbacks(PROCOID, HashOfMark(PlanMark::HeldBack));
	}
}

/* ---- functions -------------------------------------------------------------------------- */

/* Called when a function that is not built in is looked up, to be called soon. */
static bool
NeedsFmgr(Oid function)
{
	if (approximate_plans && PlansExactly())
		DropApproximatePlans();
	return previous_needs_fmgr != NULL && previous_needs_fmgr(function);
}

/* Functions with a SET clause are not asked about, but come here. */
static void
NoteCall(FmgrHookEventType event, FmgrInfo *function, Datum *argument)
{
	if (event == FHET_START && approximate_plans && PlansExactly())
		DropApproximatePlans();
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

/* Begins an exact time if the statement is one; returns what EndExactly() takes. */
static pg_noinline bool
BeginStatement(const QueryDesc *query)
{
	bool		before = exactly;

	exactly |= RunsExactly(query);
	return before;
}

static void
StartStatement(QueryDesc *query, int flags)
{
	bool		before = BeginStatement(query);

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

#if PG_VERSION_NUM >= 180000
#define ONCE_PARAMETER
#define ONCE
#else
#define ONCE_PARAMETER , bool once
#define ONCE , once
#endif

static void
RunStatement(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	bool		before = BeginStatement(query);

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
	bool		before = BeginStatement(query);

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
