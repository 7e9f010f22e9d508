/*
 * What the parts of the guard share.
 *
 * A guarded table has three objects:
 *
 *   trigger ~dedup_guard          BEFORE INSERT OR UPDATE, each row; its arguments are
 *                                 the mode and the constraint name for errors
 *   trigger ~dedup_guard_delete   BEFORE DELETE, each row; its WHEN clause, which is
 *                                 always true, names the filter and the columns
 *   index <table>_dedup_guard     of access method streamdedup_guard on the key columns:
 *                                 stores nothing, tells us that a row landed
 *
 * The clause is the guard's description: the server keeps its references through
 * renames and dumps, maps them for each partition, and refuses to drop or alter what
 * they point to. It is on the trigger that single-row statements fire least, since
 * the server reads a clause anew for every statement that fires its trigger.
 */
#ifndef STREAMDEDUP_LIVE_GUARD_HPP
#define STREAMDEDUP_LIVE_GUARD_HPP

#include "live/live.hpp"

extern "C" {
#include "storage/itemptr.h"
#include "utils/reltrigger.h"
}

#define GUARD_ACCESS_METHOD "streamdedup_guard"
#define GUARD_FUNCTION "dedup_guard_trigger"

/* Triggers fire in the order of their names' bytes: these after every usual one. */
#define GUARD_TRIGGER "~dedup_guard"
#define GUARD_DELETE_TRIGGER "~dedup_guard_delete"

enum class GuardMode
{
	Skip,						/* leave the row out */
	Reject,						/* 23505 */
	Mark						/* set a column */
};

/* The triggers of a guarded table. */
struct GuardTriggers
{
	const Trigger *write;		/* BEFORE INSERT OR UPDATE */
	const Trigger *remove;		/* BEFORE DELETE */
};

/*
 * Finds the triggers of a table that call `function`; either can be missing. More of
 * them than one guard has is an error.
 */
extern GuardTriggers FindGuardTriggers(Relation rel, Oid function);

/* What a guard's WHEN clause says. */
struct GuardClause
{
	Oid			filter;
	int			columns;
	AttrNumber	attnums[INDEX_MAX_KEYS];
	Oid			types[INDEX_MAX_KEYS];
	Oid			collations[INDEX_MAX_KEYS];
	AttrNumber	mark;			/* column that says whether the row is a duplicate, or 0 */
};

/* Reads a clause as pg_trigger has it; false if it is not one that we write. */
extern bool ReadGuardClause(const char *qual, GuardClause *clause);

/* Whether an index is a guard index that is in use and sees every change of the key. */
extern bool IsUsableGuardIndex(Oid index, Oid access_method, int columns,
							   const AttrNumber *attnums);

/* Called by the guard index for every row that has got into a table. */
extern void GuardRowLanded(Relation heap, ItemPointer tid);

#endif							/* STREAMDEDUP_LIVE_GUARD_HPP */
