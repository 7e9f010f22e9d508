/*
 * Rows that were left out as duplicates of a row that is deleted next, by the same query.
 *
 * A trigger BEFORE DELETE that fires before the guard's copies the row to another table of the
 * same filter; or a function in the condition of a DELETE inserts the row anew; or MERGE inserts
 * a row before it deletes the one with its key. The row that is inserted is a duplicate then,
 * since the other one is still there. Under `skip` it is left out, and both would be lost.
 *
 * So the keys of rows that were left out are kept for a while, each with the command that was
 * running. A query that deletes a row has left it out, or something inside of it has, if that
 * command is not older than the query's snapshot. An earlier statement is older: this marks
 * its command as one that has changed something, so that the next one has another id.
 *
 * The memory is bounded. Beyond MOST_KEYS the keys are forgotten, all at once.
 */
#include "guard/guard.hpp"

extern "C" {
#include "access/xact.h"
#include "nodes/plannodes.h"
#include "tcop/pquery.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
}

namespace
{

struct LeftOutKey
{
	uint64 hash;
	uint64 filter; /* an OID; no padding */
};

struct LeftOut
{
	LeftOutKey key;
	CommandId command;
	SubTransactionId subid;
};

} /* namespace */

constexpr long MOST_KEYS = 100000;

static HTAB *left_out = NULL; /* in TopTransactionContext */
static CommandId last_command;

/*
 * Whether the calling trigger is fired by the query of the client's statement itself, and that
 * is an INSERT that only inserts, or COPY.
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
	return statement->commandType == CMD_INSERT && !statement->hasModifyingCTE;
}

void
RememberLeftOut(Oid filter, uint64 hash)
{
	const LeftOutKey key = {hash, filter};
	LeftOut *row;
	bool found;

	if (likely(IsPlainInsert()))
		return;
	if (left_out != NULL && hash_get_num_entries(left_out) >= MOST_KEYS)
	{
		hash_destroy(left_out);
		left_out = NULL;
	}
	if (left_out == NULL)
	{
		HASHCTL control = {};

		control.keysize = sizeof(LeftOutKey);
		control.entrysize = sizeof(LeftOut);
		control.hcxt = TopTransactionContext;
		left_out = hash_create("dedup_guard rows left out", 64, &control,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	last_command = GetCurrentCommandId(true);
	row = (LeftOut *) hash_search(left_out, &key, HASH_ENTER, &found);
	row->command = last_command;
	row->subid = GetCurrentSubTransactionId();
}

bool
HaveLeftOut(void)
{
	return left_out != NULL;
}

void
CheckLeftOut(Relation rel, Oid filter, uint64 hash)
{
	const LeftOutKey key = {hash, filter};
	const LeftOut *row;
	CommandId since;

	if (likely(left_out == NULL) || !ActiveSnapshotSet())
		return;
	since = GetActiveSnapshot()->curcid;
	if (last_command < since)
		return;
	row = (const LeftOut *) hash_search(left_out, &key, HASH_FIND, NULL);
	if (row != NULL && row->command >= since)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot delete a row of table \"%s\" after the same statement has "
						"left out a duplicate of it",
						RelationGetRelationName(rel)),
				 errdetail("The row that was left out would be lost."),
				 errhint("Insert the row after the other one is deleted, for example in a trigger "
						 "AFTER DELETE.")));
}

void
ForgetLeftOut(SubTransactionId id)
{
	HASH_SEQ_STATUS scan;
	LeftOut *row;

	if (id == TopSubTransactionId)
		left_out = NULL;
	if (left_out == NULL)
		return;
	hash_seq_init(&scan, left_out);
	while ((row = (LeftOut *) hash_seq_search(&scan)) != NULL)
		if (row->subid >= id)
			(void) hash_search(left_out, &row->key, HASH_REMOVE, NULL);
}
