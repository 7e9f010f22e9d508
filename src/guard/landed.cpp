/*
 * Rows that have got into a guarded table: what the guard index is told of each (rows.cpp
 * says what a note is).
 */
#include "guard/exact.hpp"
#include "guard/row_key.hpp"

/* ---- rows that land ------------------------------------------------------------- */

/*
 * Whether the index has all columns that the guard goes by, and if so, whether the row's key is
 * the one that is expected.
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

/* Runs `read` in memory of its own: the server calls us in the query's, and expressions leave some.
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

/* Whether the key of a row can change between its trigger and its landing. */
static bool
CanChange(const GuardRow *row)
{
	return row->changeable || row->reader->context != NULL;
}

[[noreturn]] static void
ReportChangedKey(const GuardRow *row, Relation heap)
{
	if (!row->changeable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the key of a row of table \"%s\" is another one after the guard has "
						"tested it",
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

/* A row of a guard that is not exact has landed. */
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
 * Whether a row of an exact guard has landed as it was judged. A new one whose key was
 * changed since is an error: it could have been left out. Others that later triggers may have
 * changed, in their key or mark, are judged anew.
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
