/*
 * TRUNCATE of the filter of an exact guard, and an unlogged filter of a logged table.
 *
 * The filter of an exact guard may be truncated only together with its table, like a table that a
 * foreign key refers to. Then both are empty, and the filter has all keys of the table.
 *
 * A session that has not loaded the library does not call our hooks for the statement. But it loads
 * the library when it opens the filter, before the filter gets its new file. Our code does not know
 * then which other tables the statement names; but the statement holds the locks of all of them. So
 * a filter whose table is not locked raises an error at once. Otherwise this is recorded. When the
 * filter is next checked for whether it covers its table, or when the transaction commits, the
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
	List *tables;  /* with the exact guard; this transaction has locked all of them */
	Oid not_empty; /* the last table that was found to have rows, or InvalidOid */
	/* the tables were empty at that time; no row is inserted without checking the filter */
	bool all_empty;
	/*
	 * the subtransaction that has recorded that the filter covers its table, or
	 * InvalidSubTransactionId
	 */
	SubTransactionId covered;
};

} /* namespace */

/* In TopTransactionContext. The last note of a filter comes first. */
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

/* ---- tables without rows -------------------------------------------------------------- */

bool
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

/*
 * Returns whether no table has rows. TRUNCATE calls this after each table, so usually one check is
 * enough: the last tables are truncated last.
 */
static bool
AllEmpty(Emptied *note)
{
	if (OidIsValid(note->not_empty) && !HasNoBlocks(note->not_empty))
		return false;
	note->not_empty = InvalidOid;
	for (int i = list_length(note->tables); i-- > 0 && !OidIsValid(note->not_empty);)
		if (!HasNoBlocks(list_nth_oid(note->tables, i)))
			note->not_empty = list_nth_oid(note->tables, i);
	return !OidIsValid(note->not_empty);
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
	note = (Emptied *) palloc0(sizeof(Emptied));
	note->filter = RelationGetRelid(rel);
	note->subid = GetCurrentSubTransactionId();
	note->tables = list_copy(tables);
	note->all_empty = AllEmpty(note);
	note->covered = InvalidSubTransactionId;
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
	/* The guard may have been removed since. */
	if (note == NULL || note->covered != InvalidSubTransactionId ||
		!(note->all_empty || AllEmpty(note)) || TablesOfExactGuard(note->filter, &guarded) == NIL)
		return false;
	SetLiveCovers(filter, true);
	note->covered = GetCurrentSubTransactionId();
	return true;
}

/* `fail`: raises an error for a filter that covers nothing. */
static void
AskAll(bool fail)
{
	ListCell *cell;

	foreach(cell, emptied)
	{
		const Emptied *note = (const Emptied *) lfirst(cell);
		Relation rel;
		Oid guarded;

		if (note != FindEmptied(note->filter) || note->covered != InvalidSubTransactionId)
			continue;
		rel = RelationIdGetRelation(note->filter);
		if (!RelationIsValid(rel))
			continue; /* dropped since */
		if (!LiveCovers({rel, LiveParametersOf(rel)}) && fail &&
			TablesOfExactGuard(note->filter, &guarded) != NIL)
			ReportAlone(rel, guarded);
		RelationClose(rel);
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

/*
 * Handles a table with rows that gets the index of its exact guard after its triggers.
 * dedup_guard() and ATTACH PARTITION do not do that, so nobody has loaded the keys of these rows.
 * TimescaleDB does it when a table becomes a chunk.
 */
static void
UncoverUnseen(Oid filter)
{
	LiveFilter live;

	if (!IsLiveRelationId(filter))
		return;
	live = OpenLiveUnchecked(filter, ShareRowExclusiveLock);
	SetLiveCovers(live, false);
	CloseLive(live);
}

void
ExactGuardIndexBuilt(Relation heap, Relation index)
{
	Oid function;
	const GuardPlan *plan;

	if (heap->rd_rel->relkind != RELKIND_RELATION || !IsTransactionState())
		return;
	function = FindGuardFunction(heap, false);
	plan = OidIsValid(function) ? FindGuardPlan(heap, function, true) : NULL;
	if (plan == NULL || !plan->options.exact)
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
	/* A parallel restore makes triggers and indexes in any order, and has loaded the keys. */
	else if (index->rd_createSubid != InvalidSubTransactionId &&
			 plan->guarded != RelationGetRelid(heap) && !heap->rd_rel->relispartition)
		UncoverUnseen(plan->clause.filter);
}
