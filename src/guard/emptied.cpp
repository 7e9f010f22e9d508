/*
 * TRUNCATE of the filter of an exact guard, and other ways to a filter without the keys.
 *
 * The filter of an exact guard is truncated only together with its table, as a table that a
 * foreign key refers to is. Then it is empty, and so is the table, all of whose keys it has.
 *
 * A session that has not loaded the library does not call our hooks for the statement, but it
 * loads the library when it opens the filter, before the filter gets its new file. It does not
 * know then what else the statement names; but that holds the locks of all of it. So a
 * filter whose table is not locked is an error at once. Otherwise a note is made; and when it
 * is asked next whether the filter covers its table, or when the transaction commits, the
 * table must have no rows.
 */
#include "guard/truncation.hpp"

extern "C" {
#include "catalog/pg_class.h"
#include "nodes/pg_list.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
}

namespace
{

/* A filter of an exact guard that this transaction has truncated. */
struct Emptied
{
	Oid filter;
	SubTransactionId subid;
	bool table_empty;         /* already then; nothing lands without asking about the filter */
	SubTransactionId covered; /* that has said so, or InvalidSubTransactionId */
};

} /* namespace */

/* In TopTransactionContext; the last note of a filter comes first. */
static List *emptied = NIL;

static Emptied *
FindEmptied(Oid filter)
{
	ListCell *cell;

	foreach(cell, emptied)
		if (((Emptied *) lfirst(cell))->filter == filter)
			return (Emptied *) lfirst(cell);
	return NULL;
}

/* ---- what has no rows ---------------------------------------------------------------- */

static bool
HasNoBlocks(Oid table)
{
	Relation rel = RelationIdGetRelation(table);
	bool empty = true;

	if (!RelationIsValid(rel))
		return true;
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		empty = RelationGetNumberOfBlocks(rel) == 0;
	RelationClose(rel);
	return empty;
}

/* Whether tables have no rows, and nobody else can insert any. */
static bool
AllEmpty(const List *tables)
{
	ListCell *cell;

	foreach(cell, tables)
		if (!HoldsExclusively(lfirst_oid(cell)) || !HasNoBlocks(lfirst_oid(cell)))
			return false;
	return true;
}

[[noreturn]] static void
ReportAlone(Relation filter, Oid guarded)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot truncate live filter \"%s\", which an exact guard uses",
						   RelationGetRelationName(filter)),
					errdetail("The guard of table \"%s\" needs the keys of all rows.",
							  get_rel_name(guarded)),
					errhint("Truncate table \"%s\" at the same time.", get_rel_name(guarded))));
	pg_unreachable();
}

/* ---- truncating ------------------------------------------------------------------------ */

void
FilterEmptied(Relation rel)
{
	Oid guarded = InvalidOid;
	List *tables = TablesOfExactGuard(RelationGetRelid(rel), &guarded);
	MemoryContext old;
	ListCell *cell;
	Emptied *note;

	if (tables == NIL)
		return;
	foreach(cell, tables)
		if (!HoldsExclusively(lfirst_oid(cell)) ||
			!(IsTruncated(lfirst_oid(cell)) || HasNoBlocks(lfirst_oid(cell))))
			ReportAlone(rel, guarded);
	old = MemoryContextSwitchTo(TopTransactionContext);
	note = (Emptied *) palloc(sizeof(Emptied));
	*note = {RelationGetRelid(rel), GetCurrentSubTransactionId(), AllEmpty(tables),
			 InvalidSubTransactionId};
	emptied = lcons(note, emptied);
	MemoryContextSwitchTo(old);
}

bool
FilterCoversAnew(const LiveFilter &filter)
{
	Emptied *note;
	Oid guarded;

	if (likely(emptied == NIL))
		return false;
	note = FindEmptied(RelationGetRelid(filter.rel));
	if (note == NULL || note->covered != InvalidSubTransactionId ||
		!(note->table_empty ||
		  AllEmpty(TablesOfExactGuard(RelationGetRelid(filter.rel), &guarded))))
		return false;
	SetLiveCovers(filter, true);
	note->covered = GetCurrentSubTransactionId();
	return true;
}

/* Asks about one filter that was truncated; NULL if it is gone, or has no exact guard. */
static bool
Covers(const Emptied *note, bool fail)
{
	Relation rel = RelationIdGetRelation(note->filter);
	Oid guarded = InvalidOid;
	bool covers = false;

	if (!RelationIsValid(rel))
		return false;
	if (IsLiveRelation(rel) && TablesOfExactGuard(note->filter, &guarded) != NIL)
	{
		covers = LiveCovers({rel, LiveParametersOf(rel)});
		if (!covers && fail)
			ReportAlone(rel, guarded);
	}
	RelationClose(rel);
	return covers;
}

static void
AskAll(bool fail)
{
	ListCell *cell;

	foreach(cell, emptied)
	{
		const Emptied *note = (const Emptied *) lfirst(cell);

		if (note == FindEmptied(note->filter) && note->covered == InvalidSubTransactionId)
			(void) Covers(note, fail);
	}
}

void
CoverEmptied(void)
{
	AskAll(false);
}

void
CheckEmptied(void)
{
	AskAll(true);
}

void
ForgetEmptied(SubTransactionId id)
{
	ListCell *cell;

	if (id == TopSubTransactionId)
	{
		emptied = NIL;
		return;
	}
	foreach(cell, emptied)
	{
		Emptied *note = (Emptied *) lfirst(cell);

		if (note->covered >= id)
			note->covered = InvalidSubTransactionId;
		if (note->subid >= id)
			emptied = foreach_delete_current(emptied, cell);
	}
}

/* ---- the table ------------------------------------------------------------------------ */

void
ExactGuardIndexBuilt(Relation heap)
{
	Oid function;
	const GuardPlan *plan;

	if (heap->rd_rel->relkind != RELKIND_RELATION || !IsTransactionState())
		return;
	function = FindGuardFunction(heap, false);
	plan = OidIsValid(function) ? FindGuardPlan(heap, function, true) : NULL;
	if (plan == NULL || !plan->exact)
		return;
	if (heap->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT &&
		get_rel_persistence(plan->clause.filter) == RELPERSISTENCE_UNLOGGED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" cannot be logged while unlogged live filter \"%s\" guards it "
						"exactly",
						RelationGetRelationName(heap), get_rel_name(plan->clause.filter)),
				 errdetail("After a crash the filter would be empty, and the table would not."),
				 errhint("Run dedup_unguard(), and dedup_guard() with a logged filter.")));
	if (HasNoBlocks(RelationGetRelid(heap)))
		CoverEmptied();
}
