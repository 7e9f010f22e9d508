/*
 * Rows that move to another partition.
 *
 * An UPDATE that moves a row to another partition is a DELETE and an INSERT of one
 * row, that is, without a reset of the query's per-tuple memory in between (see
 * guard_rows.cpp); so is what logical replication makes of it. A BEFORE INSERT trigger
 * that then left the row out would lose it. That a row in hand is moving is known from
 * the triggers that have fired for it (guard.cpp). Here is what tells so where those
 * cannot: the queries that insert only rows that they move, and the keys of rows that
 * were deleted in a publisher's transaction.
 */
#include "live/guard.hpp"

extern "C" {
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "utils/hsearch.h"
}

/* ---- updates of partitioned tables ----------------------------------------- */

namespace
{

/* An UPDATE of a partitioned table, which inserts only rows that it moves. */
struct GuardUpdate
{
	MemoryContextCallback over;
	GuardUpdate *below;
	MemoryContext context;		/* of the query; holds this too */
};

}							/* namespace */

static GuardUpdate *guard_updates = NULL;	/* innermost first */
static ExecutorStart_hook_type previous_executor_start = NULL;

static void
GuardUpdateOver(void *arg)
{
	for (GuardUpdate **link = &guard_updates; *link != NULL; link = &(*link)->below)
		if (*link == arg)
		{
			*link = (*link)->below;
			break;
		}
}

static void
GuardExecutorStart(QueryDesc *query, int eflags)
{
	const PlannedStmt *statement = query->plannedstmt;

	if (previous_executor_start != NULL)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (query->operation == CMD_UPDATE && !statement->hasModifyingCTE &&
		IsA(statement->planTree, ModifyTable) &&
		((const ModifyTable *) statement->planTree)->rootRelation > 0)
	{
		MemoryContext context = query->estate->es_query_cxt;
		GuardUpdate *update = (GuardUpdate *) MemoryContextAlloc(context, sizeof(GuardUpdate));

		update->context = context;
		update->below = guard_updates;
		update->over.func = GuardUpdateOver;
		update->over.arg = update;
		MemoryContextRegisterResetCallback(context, &update->over);
		guard_updates = update;
	}
}

bool
IsGuardFiredByUpdate(void)
{
	MemoryContext query = MemoryContextGetParent(CurrentMemoryContext);

	for (GuardUpdate *update = guard_updates; update != NULL; update = update->below)
		if (update->context == query)
			return true;
	return false;
}

/* ---- rows that a publisher has moved ---------------------------------------- */

namespace
{

struct MovedKey
{
	Oid			filter;
	uint64		hash;
};

}							/* namespace */

/* Keys of rows deleted by the transaction that is being applied. */
static HTAB *guard_moved = NULL;

/*
 * A row that moves between partitions of the publisher arrives as a DELETE and an
 * INSERT, messages of their own. So in a worker that applies changes a key whose row
 * was deleted in this transaction may be inserted in it once more.
 */
void
RememberMovedKey(Oid filter, uint64 hash)
{
	MovedKey	key;

	if (guard_moved == NULL)
	{
		HASHCTL		info = {};

		info.keysize = sizeof(MovedKey);
		info.entrysize = sizeof(MovedKey);
		info.hcxt = TopTransactionContext;
		guard_moved = hash_create("dedup_guard moved keys", 64, &info,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	memset(&key, 0, sizeof key);
	key.filter = filter;
	key.hash = hash;
	(void) hash_search(guard_moved, &key, HASH_ENTER, NULL);
}

bool
TakeMovedKey(Oid filter, uint64 hash)
{
	MovedKey	key;
	bool		found = false;

	if (likely(guard_moved == NULL))
		return false;
	memset(&key, 0, sizeof key);
	key.filter = filter;
	key.hash = hash;
	(void) hash_search(guard_moved, &key, HASH_REMOVE, &found);
	return found;
}

/* Its memory is the transaction's and goes by itself. */
void
ForgetMovedKeys(void)
{
	guard_moved = NULL;
}

void
InitGuardMoves(void)
{
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = GuardExecutorStart;
}
