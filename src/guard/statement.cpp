/*
 * Queries that belong to one statement because a rule has made several from it.
 *
 *   CREATE RULE r AS ON DELETE TO t DO ALSO INSERT INTO archive VALUES (old.k)
 *
 * DELETE FROM t then runs two queries, one after the other, each under a snapshot of its own. The
 * server does not tell the executor which queries were made from one statement. But they have the
 * same source text, they run directly one after the other, at the same level of nesting, and all of
 * them are planned before the first one runs. So the last query of the current level is kept, with
 * the snapshot of the first query of its statement.
 *
 * The next query belongs to another statement, or to another run of the same statement, if
 *   - it is the first query of a portal,
 *   - its plan is the one with which the previous run began (a plan that is kept),
 *   - a query was planned since the previous query ended (a plan that is made for each run), or
 *   - the previous query is the original one, and is not an INSERT: rules put their queries
 *     before it.
 * Only the original query has a place in the source text. EXPLAIN plans each query directly before
 * the query runs. Such queries are recognized, because one was planned before each of them.
 *
 * In an SQL function, the queries of two statements can still look like those of one. A statement
 * has at most one query whose rows the server counts for the client, and at most one place in the
 * source text. A second such query, or another place, begins another statement. Its first query is
 * then the one after the counted query of the previous statement. Until that point, a row that the
 * previous statement has left out counts as left out by this one: this may raise an error, but
 * loses no row.
 */
#include "guard/statement.hpp"

extern "C" {
#include "access/xact.h"
#include "executor/executor.h"
#include "optimizer/planner.h"
#include "tcop/pquery.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
}

namespace
{

/* The pointers are only compared: their targets may be freed. */
struct Statement
{
	const char *source;
	int location;      /* of the original query, or -1 */
	TimestampTz began; /* the time of the client's command */
	const PlannedStmt *first;
	const QueryDesc *query; /* the last query that has started */
	CommandId since;        /* the snapshot of the first query */
	bool is_over;           /* no more queries of this statement follow */
	bool has_counted;       /* a query whose rows the server counts for the client */
	bool has_later;
	CommandId since_later; /* the snapshot of the first query after that one, if `has_later` */
	bool plans_each;       /* each query so far was planned directly before it ran */
	/* number of queries planned before the first one; others may be among them */
	uint32 planned;
	uint32 plans; /* number of queries planned since `query` has started */
};

} /* namespace */

/* For the current level of nesting. Each hook restores what nested queries have changed. */
static Statement current;

static planner_hook_type previous_planner = NULL;
static ExecutorStart_hook_type previous_executor_start = NULL;
static ExecutorRun_hook_type previous_executor_run = NULL;
static ExecutorFinish_hook_type previous_executor_finish = NULL;

CommandId
OwnSnapshot(const QueryDesc *query)
{
	return query->snapshot != NULL ? query->snapshot->curcid : FirstCommandId;
}

/* Returns whether the query is the first one of a portal. */
static bool
BeginsPortal(const QueryDesc *query)
{
	return ActivePortal != NULL && ActivePortal->stmts != NIL &&
		   linitial(ActivePortal->stmts) == query->plannedstmt;
}

/* Returns whether a query that starts belongs to the statement of the previous one. */
static bool
Continues(const QueryDesc *query)
{
	const PlannedStmt *plan = query->plannedstmt;

	return current.source != NULL && current.source == query->sourceText && !current.is_over &&
		   current.first != plan && current.began == GetCurrentStatementStartTimestamp() &&
		   (current.plans == 0 || (current.plans_each && current.plans <= current.planned)) &&
		   !BeginsPortal(query);
}

static void
StartStatement(const QueryDesc *query)
{
	const PlannedStmt *plan = query->plannedstmt;
	/* The library may have been loaded while the very first query was planned. */
	const uint32 planned = current.source != NULL ? current.plans : PG_UINT32_MAX;

	current = {};
	current.source = query->sourceText;
	current.location = -1;
	current.began = GetCurrentStatementStartTimestamp();
	current.first = plan;
	current.since = OwnSnapshot(query);
	current.plans_each = true;
	current.planned = planned;
}

/*
 * Returns whether a query that seems to continue a statement belongs to another run, or to another
 * statement.
 */
static bool
IsAnother(const PlannedStmt *plan)
{
	return (plan->canSetTag && current.has_counted) ||
		   (plan->stmt_location >= 0 && current.location >= 0 &&
			plan->stmt_location != current.location);
}

static void
StartQuery(const QueryDesc *query)
{
	const PlannedStmt *plan = query->plannedstmt;

	if (likely(!Continues(query)))
		StartStatement(query);
	else
	{
		if (current.plans == 0)
			current.plans_each = false;
		if (IsAnother(plan))
		{
			current.since = current.has_later ? current.since_later : OwnSnapshot(query);
			current.has_counted = current.has_later = false;
		}
		else if (current.has_counted && !current.has_later)
		{
			current.has_later = true;
			current.since_later = OwnSnapshot(query);
		}
	}
	if (plan->stmt_location >= 0)
		current.location = plan->stmt_location;
	current.is_over = plan->stmt_location >= 0 && plan->commandType != CMD_INSERT;
	current.has_counted = current.has_counted || plan->canSetTag;
	current.query = query;
	current.plans = 0;
}

CommandId
SnapshotOfStatement(const QueryDesc *query)
{
	return current.query == query ? current.since : OwnSnapshot(query);
}

/* ---- hooks ------------------------------------------------------------------------------- */

static PlannedStmt *
PlanQuery(Query *parse, const char *source, int options, ParamListInfo parameters EXPLAIN_PARAMETER)
{
	const Statement outer = current;
	PlannedStmt *plan = previous_planner != NULL
							? previous_planner(parse, source, options, parameters EXPLAIN)
							: standard_planner(parse, source, options, parameters EXPLAIN);

	current = outer;
	current.plans++;
	return plan;
}

static void
GuardExecutorStart(QueryDesc *query, int eflags)
{
	StartQuery(query);

	const Statement outer = current;

	if (previous_executor_start != NULL)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	current = outer;
}

static void
GuardExecutorRun(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	/* The library may have been loaded when the query started. */
	if (unlikely(current.source == NULL) && !query->already_executed)
		StartQuery(query);

	const Statement outer = current;

	if (previous_executor_run != NULL)
		previous_executor_run(query, direction, count ONCE);
	else
		standard_ExecutorRun(query, direction, count ONCE);
	current = outer;
}

static void
GuardExecutorFinish(QueryDesc *query)
{
	const Statement outer = current;

	if (previous_executor_finish != NULL)
		previous_executor_finish(query);
	else
		standard_ExecutorFinish(query);
	current = outer;
}

void
InitGuardStatement(void)
{
	previous_planner = planner_hook;
	planner_hook = PlanQuery;
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = GuardExecutorStart;
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = GuardExecutorRun;
	previous_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = GuardExecutorFinish;
}
