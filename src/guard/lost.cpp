/*
 * Rows that were left out as duplicates of a row that the same query deletes afterwards.
 *
 * Examples: a trigger BEFORE DELETE that fires before the guard's trigger copies the row to another
 * table of the same filter; a function in the condition of a DELETE inserts the row again; MERGE
 * inserts a row before it deletes the row with the same key. The inserted row is a duplicate at
 * that time, because the other row still exists. In mode `skip` it is left out, and both rows would
 * be lost.
 *
 * So the keys of rows that were left out are kept for a while, each with the command that was
 * running. A query that deletes a row has left it out, itself or in a query inside it, if that
 * command is not older than the query's snapshot. An earlier statement is older: this code marks
 * its command as one that has changed something, so that the next command has another id. Rows that
 * ON DELETE CASCADE deletes at the end of a query are deleted by that query. Queries that a rule
 * has made from one statement count as one query (statement.cpp). A function or trigger inside such
 * a query deletes rows for the statement, too, so rows that an earlier query of the statement has
 * left out count.
 *
 * Memory is limited to that of a hash table of a query. Beyond that all keys are dropped. A query
 * that then deletes a row, after it has left out more rows than that, raises an error, because the
 * row may be the twin of one of them.
 */
#include "guard/guard.hpp"
#include "guard/statement.hpp"

extern "C" {
#include "access/xact.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "tcop/pquery.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
}

namespace
{

/*
 * A row that was left out. The rows of a subtransaction, and of all inside it, are the last ones
 * when it aborts.
 */
struct LeftOut
{
	uint64 key; /* see DeletedKeyOf() */
	CommandId command;
	SubTransactionId subid;
	uint32 next; /* the row before it in the same chain, plus one; or 0 */
};

/* A filter whose rows were left out. */
struct LeftOutOf
{
	Oid filter;
	CommandId last;
	bool has_forgotten;
	CommandId forgotten; /* the last command whose rows were dropped */
};

/*
 * A query that runs or ends as a part of a statement: by ON DELETE CASCADE, or because a rule has
 * made it. On the stack.
 */
struct Part
{
	MemoryContext query; /* or NULL, if it ends */
	CommandId since;     /* the snapshot of the first query of the statement */
	CommandId own;       /* the query's own snapshot, if a rule has made it; else `since` */
	const Part *outer;
};

} /* namespace */

constexpr uint32 FEWEST_ROWS = 64;

/* All are in TopTransactionContext. The numbers are powers of two. */
static LeftOut *rows = NULL;
static uint32 row_count;
static uint32 row_room;
static uint32 most_rows;
static uint32 *chains = NULL; /* for lookups */
static uint32 chain_count;
static uint32 chained; /* number of rows that are in a chain */
static LeftOutOf *filters = NULL;
static int filter_count;
static int filter_room;
static CommandId last_command;

static const Part *parts = NULL; /* innermost first */
static bool is_finishing;
static CommandId finishing_since; /* the snapshot of the statement whose query is ending */
static ExecutorFinish_hook_type previous_executor_finish = NULL;
static ExecutorRun_hook_type previous_executor_run = NULL;

/*
 * Returns whether the calling trigger is fired by the query of the client's statement itself, and
 * that is COPY or an INSERT that only inserts.
 */
static bool
IsPlainInsert(void)
{
	const MemoryContext query = MemoryContextGetParent(CurrentMemoryContext);
	const PlannedStmt *statement;

	if (ActivePortal == NULL || list_length(ActivePortal->stmts) != 1 || query == NULL ||
		MemoryContextGetParent(query) != ActivePortal->portalContext)
		return false;
	statement = linitial_node(PlannedStmt, ActivePortal->stmts);
	if (statement->commandType == CMD_UTILITY)
		return IsA(statement->utilityStmt, CopyStmt) &&
			   ((const CopyStmt *) statement->utilityStmt)->is_from;
	return statement->commandType == CMD_INSERT && !statement->hasModifyingCTE &&
		   IsA(statement->planTree, ModifyTable) &&
		   ((const ModifyTable *) statement->planTree)->onConflictAction != ONCONFLICT_UPDATE;
}

static LeftOutOf *
FilterLeftOut(Oid filter)
{
	for (int i = 0; i < filter_count; i++)
		if (filters[i].filter == filter)
			return &filters[i];
	return NULL;
}

static uint32 *
ChainOf(uint64 key)
{
	return &chains[key & (chain_count - 1)];
}

/* Puts the rows that are not in a chain yet into chains. */
static void
ChainRows(void)
{
	if (chain_count != row_room)
	{
		uint32 *fresh = (uint32 *) MemoryContextAllocExtended(TopTransactionContext,
															  sizeof(uint32) * (Size) row_room,
															  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

		if (chains != NULL)
			pfree(chains);
		chains = fresh;
		chain_count = row_room;
		chained = 0;
	}
	for (; chained < row_count; chained++)
	{
		uint32 *chain = ChainOf(rows[chained].key);

		rows[chained].next = *chain;
		*chain = chained + 1;
	}
}

/*
 * Returns whether a command's rows matter to a deletion. They do if the command is not older than
 * `since`, or belongs to an earlier query of a statement of which the deletion is a part, or in
 * which it is nested.
 */
static bool
Matters(CommandId command, CommandId since)
{
	if (command >= since)
		return true;
	for (const Part *part = parts; part != NULL; part = part->outer)
		if (command >= part->since && command < part->own)
			return true;
	return false;
}

/* Returns whether a row up to this command may matter to a deletion inside a part. */
static bool
MayMatter(CommandId command)
{
	for (const Part *part = parts; part != NULL; part = part->outer)
		if (part->since < part->own && command >= part->since)
			return true;
	return false;
}

static bool
IsLeftOut(uint64 key, CommandId since)
{
	if (row_count == 0)
		return false;
	ChainRows();
	for (uint32 at = *ChainOf(key); at > 0; at = rows[at - 1].next)
		if (rows[at - 1].key == key && Matters(rows[at - 1].command, since))
			return true;
	return false;
}

static void
ForgetRows(void)
{
	for (int i = 0; i < filter_count; i++)
	{
		filters[i].has_forgotten = true;
		filters[i].forgotten = filters[i].last;
	}
	if (chained > 0)
		memset(chains, 0, sizeof(uint32) * chain_count);
	row_count = chained = 0;
}

/* Makes room for one more row. */
static void
MakeRoom(void)
{
	if (row_room == 0)
	{
		const Size most = get_hash_memory_limit() / (sizeof(LeftOut) + sizeof(uint32));

		most_rows = FEWEST_ROWS;
		while (most_rows < (uint32) 1 << 30 && (Size) 2 * most_rows <= most)
			most_rows *= 2;
		rows = (LeftOut *) MemoryContextAlloc(TopTransactionContext, sizeof(LeftOut) * FEWEST_ROWS);
		row_room = FEWEST_ROWS;
	}
	else if (row_room < most_rows)
	{
		rows = (LeftOut *) repalloc_huge(rows, sizeof(LeftOut) * 2 * (Size) row_room);
		row_room *= 2;
	}
	else
		ForgetRows();
}

void
RememberLeftOut(Oid filter, uint64 hash)
{
	const uint64 key = DeletedKeyOf(filter, hash);
	const SubTransactionId subid = GetCurrentSubTransactionId();
	LeftOutOf *of;

	if (likely(IsPlainInsert()))
		return;
	of = FilterLeftOut(filter);
	if (of == NULL)
	{
		of = OneMore(TopTransactionContext, &filters, &filter_count, &filter_room);
		*of = {filter, FirstCommandId, false, FirstCommandId};
	}
	of->last = last_command = GetCurrentCommandId(true);
	if (row_count == row_room)
		MakeRoom();
	rows[row_count++] = {key, last_command, subid, 0};
}

/*
 * Returns the snapshot of the query that fires the calling trigger, or of the statement that it is
 * part of.
 */
static CommandId
SnapshotOfQuery(void)
{
	const CommandId since = GetActiveSnapshot()->curcid;

	if (parts != NULL && parts->query != NULL &&
		MemoryContextGetParent(CurrentMemoryContext) == parts->query)
		return Min(since, parts->since);
	return since;
}

bool
HaveLeftOut(void)
{
	return unlikely(filter_count > 0) && ActiveSnapshotSet() &&
		   (parts != NULL || last_command >= SnapshotOfQuery());
}

void
CheckLeftOut(Relation rel, Oid filter, uint64 hash, bool updates)
{
	const LeftOutOf *of;
	CommandId since;

	if (likely(!HaveLeftOut()))
		return;
	of = FilterLeftOut(filter);
	if (of == NULL)
		return;
	since = SnapshotOfQuery();
	if (IsLeftOut(DeletedKeyOf(filter, hash), since))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 updates ? errmsg("cannot change the key of a row of table \"%s\" after the same "
							  "statement has left out a duplicate of it",
							  RelationGetRelationName(rel))
					 : errmsg("cannot delete a row of table \"%s\" after the same statement has "
							  "left out a duplicate of it",
							  RelationGetRelationName(rel)),
			 errdetail("The row that was left out would be lost."),
			 errhint(
				 "Insert the row after the other row was removed, for example in a trigger AFTER "
				 "DELETE OR UPDATE.")));
	if (of->has_forgotten && (of->forgotten >= since || MayMatter(of->forgotten)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("too many rows were left out before a row of table \"%s\" is deleted or "
						"its key is changed",
						RelationGetRelationName(rel)),
				 errdetail("One of the rows that the statement has left out may be a duplicate of "
						   "this row, and it would be lost."),
				 errhint("Raise work_mem, or delete the rows in a statement of its own, before "
						 "others are inserted.")));
}

/* ---- queries that are a part of a statement ---------------------------------------------- */

/* Returns whether a query can delete rows at its end, by cascade. */
static bool
MayCascade(const QueryDesc *query)
{
	return query->operation == CMD_DELETE || query->operation == CMD_UPDATE ||
		   IS_MERGE(query->operation) || query->estate->es_auxmodifytables != NIL;
}

static void
FinishQuery(QueryDesc *query)
{
	if (previous_executor_finish != NULL)
		previous_executor_finish(query);
	else
		standard_ExecutorFinish(query);
}

static void
GuardExecutorFinish(QueryDesc *query)
{
	const bool was_finishing = is_finishing;
	const CommandId outer = finishing_since;
	const Part *outer_parts = parts;
	const Part part = {NULL, SnapshotOfStatement(query), OwnSnapshot(query), parts};
	const bool continues = part.since < part.own;

	/* Triggers of a query without triggers of its own fire at the end of the outer query. */
	if ((!MayCascade(query) && !continues) ||
		(query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0 || query->snapshot == NULL)
	{
		FinishQuery(query);
		return;
	}
	is_finishing = true;
	finishing_since = part.since;
	if (continues)
		parts = &part;
	PG_TRY();
	{
		FinishQuery(query);
	}
	PG_FINALLY();
	{
		is_finishing = was_finishing;
		finishing_since = outer;
		parts = outer_parts;
	}
	PG_END_TRY();
}

static void
RunQuery(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	if (previous_executor_run != NULL)
		previous_executor_run(query, direction, count ONCE);
	else
		standard_ExecutorRun(query, direction, count ONCE);
}

static void
GuardExecutorRun(QueryDesc *query, ScanDirection direction, uint64 count ONCE_PARAMETER)
{
	/*
	 * The server runs cascading queries without triggers of their own, at the end of another query.
	 */
	const bool cascades =
		is_finishing && (query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0;
	const CommandId since = cascades ? finishing_since : SnapshotOfStatement(query);
	const CommandId own = OwnSnapshot(query);
	const Part *outer = parts;
	const Part part = {query->estate->es_query_cxt, since, cascades ? since : own, parts};

	if (likely(since >= own))
	{
		RunQuery(query, direction, count ONCE);
		return;
	}
	parts = &part;
	PG_TRY();
	{
		RunQuery(query, direction, count ONCE);
	}
	PG_FINALLY();
	{
		parts = outer;
	}
	PG_END_TRY();
}

void
InitGuardLost(void)
{
	previous_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = GuardExecutorFinish;
	previous_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = GuardExecutorRun;
}

/* ---- ends of transactions ---------------------------------------------------------------- */

void
ForgetLeftOut(SubTransactionId id)
{
	if (id == TopSubTransactionId)
	{
		rows = NULL;
		chains = NULL;
		row_count = row_room = chain_count = chained = 0;
		filters = NULL;
		filter_count = filter_room = 0;
	}
	for (; row_count > 0 && rows[row_count - 1].subid >= id; row_count--)
		if (chained == row_count)
		{
			chained--;
			*ChainOf(rows[chained].key) = rows[chained].next;
		}
}
