/*
 * Rows of a table that is dropped, or detached from its guarded parent. The same transaction may
 * insert these rows again, like rows that it deletes.
 *
 * In both cases the server drops the triggers of the table, and the guard sees this event.
 * dedup_unguard() also drops the triggers, so at this moment the guard does not know whether the
 * table is dropped or detached. The guard only notes the table and its file, which is cheap.
 *
 * The rows are read when a later row of the transaction would be refused by the same filter, and
 * the table was dropped or does not belong to the guarded table any more. They are read once, as
 * they were when the triggers were dropped. The file of a table that was dropped, truncated or
 * rewritten exists until the transaction commits.
 */
#include "guard/inherit.hpp"
#include "guard/truncation.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "utils/rel.h"
#include "utils/relcache.h"
}

/* The notes, in TopTransactionContext. They have the same type as those of truncated tables. */
static List *left_tables = NIL;

/*
 * The filter that had no rows to read when a row was last refused. InvalidOid if any relation has
 * changed since then. If a noted table is neither dropped nor detached, this variable saves time:
 * without it each refused row would check all notes again.
 */
static Oid nothing_to_read;
static bool has_forgotten; /* this transaction has called dedup_forget() */

static bool
IsNoted(Relation heap)
{
	ListCell *cell;

	foreach(cell, left_tables)
	{
		const Truncation *left = (const Truncation *) lfirst(cell);

		if (left->heap == RelationGetRelid(heap) && left->after == FileNumberOf(heap) &&
			left->until == GetCurrentCommandId(false))
			return true;
	}
	return false;
}

static void
AtRelationChange(Oid)
{
	nothing_to_read = InvalidOid;
}

static void
NoteLeftTable(Relation heap, const GuardPlan *plan, bool leaves)
{
	Relation filter = RelationIdGetRelation(plan->clause.filter);
	Relation toast = OidIsValid(heap->rd_rel->reltoastrelid)
						 ? RelationIdGetRelation(heap->rd_rel->reltoastrelid)
						 : NULL;
	MemoryContext old;
	Truncation *left;

	if (RelationIsValid(filter))
	{
		static bool watching = false;

		if (!watching)
			WatchRelations(AtRelationChange);
		watching = true;
		nothing_to_read = InvalidOid;
		old = MemoryContextSwitchTo(TopTransactionContext);
		left = (Truncation *) palloc0(sizeof(Truncation));
		left->subid = GetCurrentSubTransactionId();
		left->heap = RelationGetRelid(heap);
		left->before = FileOf(heap);
		left->after = FileNumberOf(heap);
		if (RelationIsValid(toast))
		{
			left->has_toast = true;
			left->toast_table = RelationGetRelid(toast);
			left->toast = FileOf(toast);
		}
		left->permanent = heap->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
		left->desc = CreateTupleDescCopyConstr(RelationGetDescr(heap));
		left->plan = plan;
		left->filter_file = FileNumberOf(filter);
		left->leaves = leaves;
		left->until = GetCurrentCommandId(false);
		left->offset = FirstOffsetNumber;
		left_tables = lappend(left_tables, left);
		MemoryContextSwitchTo(old);
		KeepDeletedRowsOf(left->subid);
		RelationClose(filter);
	}
	if (RelationIsValid(toast))
		RelationClose(toast);
}

/* Notes a guarded table. Must be called before the first trigger of the guard is dropped. */
static void
NoteIfGuarded(Relation heap, bool leaves)
{
	const GuardPlan *plan;

	if (heap->rd_rel->relkind != RELKIND_RELATION || heap->rd_rel->relam != HEAP_TABLE_AM_OID ||
		RelationUsesLocalBuffers(heap) || IsNoted(heap))
		return;
	plan = FiringGuard(heap);
	if (plan != NULL)
		NoteLeftTable(heap, plan, leaves);
}

void
GuardTriggerGoes(Oid trigger)
{
	HeapTuple tuple =
		ReadCatalog(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger);
	Form_pg_trigger form;
	Relation heap = NULL;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_trigger) GETSTRUCT(tuple);
	if (IsGuardTriggerFunction(form->tgfoid))
		heap = RelationIdGetRelation(form->tgrelid);
	heap_freetuple(tuple);
	if (!RelationIsValid(heap))
		return;
	NoteIfGuarded(heap, false);
	RelationClose(heap);
}

void
GuardedTableLeaves(Oid table)
{
	Relation heap = RelationIdGetRelation(table);

	if (!RelationIsValid(heap))
		return;
	NoteIfGuarded(heap, true);
	RelationClose(heap);
}

/* Returns whether a noted table was dropped, or was detached from the guarded table. */
static bool
HasLeft(const Truncation *left)
{
	Relation heap = RelationIdGetRelation(left->heap);
	const Oid guarded = left->plan->guarded;
	bool has_left;

	if (!RelationIsValid(heap))
		return true;
	has_left = left->leaves || guarded != left->heap;
	if (left->leaves)
		;
	else if (has_left && heap->rd_rel->relispartition)
		has_left = !list_member_oid(get_partition_ancestors(left->heap), guarded);
	else if (has_left)
		has_left = !InheritsFrom(left->heap, guarded);
	if (has_left)
	{
		/* A table that has a guard with the same filter again keeps its keys. */
		const GuardPlan *plan = FiringGuard(heap);

		has_left = plan == NULL || plan->clause.filter != left->plan->clause.filter;
	}
	RelationClose(heap);
	return has_left;
}

/* Returns whether a later note of the same table exists. Then only the later note is used. */
static bool
IsNotedLater(const Truncation *left)
{
	bool later = false;
	ListCell *cell;

	foreach(cell, left_tables)
	{
		const Truncation *other = (const Truncation *) lfirst(cell);

		if (other == left)
			later = false;
		else
			later = later || other->heap == left->heap;
	}
	return later;
}

bool
ReadLeftRows(const LiveFilter &filter)
{
	bool read = false;
	ListCell *cell;

	if (likely(left_tables == NIL) || nothing_to_read == RelationGetRelid(filter.rel))
		return false;
	foreach(cell, left_tables)
	{
		Truncation *left = (Truncation *) lfirst(cell);

		/* If the filter was truncated after the note, it has no keys of these rows. */
		if (left->done || left->plan->clause.filter != RelationGetRelid(filter.rel) ||
			!IsSameFile(left->filter_file, FileNumberOf(filter.rel)) || IsNotedLater(left) ||
			!HasLeft(left))
			continue;
		ReadTruncation(left, filter);
		read = true;
	}
	if (!read)
		nothing_to_read = RelationGetRelid(filter.rel);
	return read;
}

void
ReadLeftRowsFirst(const LiveFilter &filter)
{
	if (unlikely(left_tables != NIL) && (has_forgotten || filter.parameters.ttl != 0))
		(void) ReadLeftRows(filter);
}

void
KeyForgotten(void)
{
	has_forgotten = true;
}

void
LeftTableShrinks(Relation heap)
{
	ListCell *cell;

	foreach(cell, left_tables)
	{
		Truncation *left = (Truncation *) lfirst(cell);
		LiveFilter filter;

		if (left->done || left->heap != RelationGetRelid(heap) ||
			left->after != FileNumberOf(heap) || IsNotedLater(left) || !HasLeft(left) ||
			!IsLiveRelationId(left->plan->clause.filter))
			continue;
		filter = OpenLiveUnchecked(left->plan->clause.filter, AccessShareLock);
		if (IsSameFile(left->filter_file, FileNumberOf(filter.rel)))
			ReadTruncation(left, filter);
		CloseLive(filter);
	}
}

void
ForgetLeft(SubTransactionId id)
{
	ListCell *cell;

	nothing_to_read = InvalidOid;
	if (id == TopSubTransactionId)
	{
		left_tables = NIL;
		has_forgotten = false;
	}
	foreach(cell, left_tables)
		if (((const Truncation *) lfirst(cell))->subid >= id)
			left_tables = foreach_delete_current(left_tables, cell);
}
