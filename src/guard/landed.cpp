/*
 * Rows that were inserted into a guarded table: the calls of the guard index for each of them.
 * (rows.cpp describes the notes.)
 */
#include "guard/exact.hpp"
#include "guard/row_key.hpp"

/* ---- rows that were inserted --------------------------------------------------- */

/*
 * Returns whether the index has all columns that the guard uses, and the row has the expected key.
 */
static bool
ReadsKeyOf(const GuardRow *row, Relation heap, Relation index, const Datum *values,
		   const bool *isnull, bool *expected)
{
	GuardKey key;
	uint64 hash;
	bool has_key;

	if (!ReadLandedKey(*row->reader, heap, index, values, isnull, &key, NULL))
		return false;
	has_key = HashGuardKey(row->plan, key, row->seed, &hash);
	*expected = has_key == row->has_key && (!has_key || hash == row->hash);
	return true;
}

/*
 * Runs `read` in a memory context of its own. The server calls this code in the query's context, in
 * which expressions leave memory allocated.
 */
template <typename Read>
static bool
InRowMemory(const KeyReader &reader, Read read)
{
	MemoryContext memory;
	MemoryContext old;
	bool result;

	if (reader.context == NULL)
		return read();
	memory = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard row",
										   ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(memory);
	result = read();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(memory);
	return result;
}

static bool
HasKeyOf(const GuardRow *row, Relation heap, Relation index, const Datum *values,
		 const bool *isnull, bool *expected)
{
	return InRowMemory(*row->reader,
					   [&] { return ReadsKeyOf(row, heap, index, values, isnull, expected); });
}

/* Returns whether the key of a row can change between its trigger and its insertion. */
static bool
CanChange(const GuardRow *row)
{
	return row->changeable || row->reader->context != NULL;
}

[[noreturn]] static void
ReportChangedKey(const GuardRow *row, Relation heap)
{
	if (!row->changeable)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the key of a row of table \"%s\" has changed after the guard has tested it",
					RelationGetRelationName(heap)),
			 errdetail("A function that the guard's key or predicate calls is declared "
					   "IMMUTABLE, and returns different results for the same row.")));
	ereport(
		ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg(
			 "a trigger of table \"%s\" has changed the key of a row after the guard has tested it",
			 RelationGetRelationName(heap)),
		 errhint(
			 "Triggers fire in the order of their names. Give it a name that sorts before \"%s\".",
			 GUARD_TRIGGER)));
	pg_unreachable();
}

/* Handles an inserted row of a guard that is not exact. */
static void
ApproximateRowLanded(GuardRow *row, Relation heap, Relation index, const Datum *values,
					 const bool *isnull, ItemPointer tid)
{
	bool expected;

	if ((!HasGuardNote(row) && !row->freed.exists && !row->changeable) ||
		!HasKeyOf(row, heap, index, values, isnull, &expected))
		return;
	if (!expected)
	{
		if (CanChange(row))
			ReportChangedKey(row, heap);
		return;
	}
	if (row->freed.exists)
	{
		NoteDeletedRow(row->freed.filter, row->freed.hash, GetCurrentSubTransactionId(),
					   row->plan->options.forget, row->freed.own, row->freed.in_window);
		row->freed.exists = false;
	}
	GuardNoteLanded(row, heap, tid);
}

/*
 * Returns whether a row of an exact guard was inserted as it was judged. Raises an error for a new
 * row whose key was changed since, because that row could have been left out. Rows whose key or
 * mark later triggers may have changed are judged again.
 */
static bool
LandedAsJudged(GuardRow *row, Relation heap, Relation index, const Datum *values,
			   const bool *isnull, ItemPointer tid)
{
	if (!row->judged)
		return false;
	if (row->key != NULL && CanChange(row) &&
		!InRowMemory(*row->reader, [&] { return LandsWithKey(row, heap, index, values, isnull); }))
		ReportChangedKey(row, heap);
	GuardNoteLanded(row, heap, tid);
	return !row->changeable || row->key != NULL;
}

void
GuardRowLanded(Relation heap, Relation index, const Datum *values, const bool *isnull,
			   ItemPointer tid, IndexInfo *info)
{
	GuardRow *row = FindLandedRow(heap);

	if (row != NULL && row->exact == NULL)
		ApproximateRowLanded(row, heap, index, values, isnull, tid);
	else if (row == NULL || !LandedAsJudged(row, heap, index, values, isnull, tid))
		ExactRowLanded(heap, index, values, isnull, tid, info, row);
	if (row != NULL)
		row->key = NULL;
}
