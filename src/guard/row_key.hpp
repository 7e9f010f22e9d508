/*
 * The key of a guarded row: its columns, its hash, its mark, and the error for a duplicate
 * (row_key.cpp).
 */
#ifndef STREAMDEDUP_GUARD_ROW_KEY_HPP
#define STREAMDEDUP_GUARD_ROW_KEY_HPP

#include "guard/guard.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "executor/tuptable.h"
}

extern void LoadGuardColumns(const GuardPlan *plan, TupleTableSlot *slot, NullableDatum *columns);

/* False if a column is NULL: then there is no key, as in a UNIQUE constraint. */
static inline bool
HashGuardKey(const GuardPlan *plan, const NullableDatum *columns, dedup::KeySeed seed, uint64 *hash)
{
	return HashColumns(plan->keys, columns, NullKeys::Skip, seed, hash);
}

/* Whether two keys are the same to the last bit. */
extern bool SameGuardColumns(const GuardPlan *plan, const NullableDatum *a, const NullableDatum *b);

/* Returns a copy of a key that has no NULL, in the current memory. */
extern const Datum *CopyGuardKey(const GuardPlan *plan, const NullableDatum *columns);

/* Whether two keys, the first without a NULL, are equal as their types have it. */
extern bool EqualGuardKeys(const GuardPlan *plan, const Datum *one, const NullableDatum *other);

/* Whether a row is marked as a duplicate: then its key is another row's. */
extern bool IsMarkedRow(const GuardPlan *plan, TupleTableSlot *slot);

/* The row, with its mark set. */
extern HeapTuple MarkGuardRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate);

/* Raises 23505, which is counted at once. */
[[noreturn]] extern void RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
								   const NullableDatum *columns);

#endif /* STREAMDEDUP_GUARD_ROW_KEY_HPP */
