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

/* The properties of a row that a guard uses. */
struct GuardKey
{
	/*
	 * false: the predicate is not true, or the row lacks a time that it needs; the other fields are
	 * not set
	 */
	bool counts;
	bool has_time; /* the time is in `at`; false: the guard has no time, or it is NULL */
	TimestampTz at;
	NullableDatum columns[INDEX_MAX_KEYS]; /* the elements of its key */
};

/* The state with which a query reads the keys of a table's rows. */
struct KeyReader
{
	const GuardClause *clause; /* of that table */
	ExprContext *context;      /* NULL: the clause has only columns */
	ExprState *elements[INDEX_MAX_KEYS];
	ExprState *where;
	ExprState *at;
};

/* Makes a reader in the current memory context. The clause must be kept as long as the reader. */
extern void MakeKeyReader(KeyReader *reader, const GuardClause *clause);

/*
 * Computes the key of a row by expressions, in the current memory context. These may be a user's
 * code; they run as the session's current user.
 */
extern void ComputeGuardKey(const KeyReader &reader, TupleTableSlot *slot, GuardKey *key);

/* Reads the key of a row. The values are in the slot, or in the current memory context. */
static inline void
ReadGuardKey(const KeyReader &reader, TupleTableSlot *slot, GuardKey *key)
{
	const GuardClause &clause = *reader.clause;

	if (unlikely(reader.context != NULL))
	{
		ComputeGuardKey(reader, slot, key);
		return;
	}
	key->counts = true;
	key->has_time = false;
	for (int i = 0; i < clause.columns; i++)
		key->columns[i].value = slot_getattr(slot, clause.attnums[i], &key->columns[i].isnull);
}

/*
 * Reads the key of a row of which only the columns that the clause uses are given, in its order.
 * `desc` is that of the table.
 */
extern void ReadUsedColumns(const KeyReader &reader, TupleDesc desc, const NullableDatum *used,
							GuardKey *key);

/*
 * Reads the key of a row from the values of a guard index and, if `marked` is not NULL, whether the
 * row is marked as a duplicate. Returns false if the index does not have all columns, so it is not
 * the guard's.
 */
extern bool ReadLandedKey(const KeyReader &reader, Relation heap, Relation index,
						  const Datum *values, const bool *isnull, GuardKey *key, bool *marked);

/*
 * Returns false if the row does not count, or a column is NULL: then there is no key, as in a
 * UNIQUE constraint.
 */
static inline bool
HashGuardKey(const GuardPlan *plan, const GuardKey &key, dedup::KeySeed seed, uint64 *hash)
{
	return key.counts && HashColumnsAgain(plan->keys, key.columns, plan->clause.nulls, seed, hash);
}

/*
 * Returns whether two rows have the same key, bit by bit, or both have none because they do not
 * count.
 */
extern bool SameGuardKey(const GuardPlan *plan, const GuardKey &a, const GuardKey &b);

/*
 * Returns whether the times of two rows are a ttl or more apart. Then neither is a duplicate of the
 * other.
 */
static inline bool
AreApart(TimestampTz a, TimestampTz b, int64 ttl)
{
	/* Infinite times are at the ends of the range. */
	return (a < b ? (uint64) b - (uint64) a : (uint64) a - (uint64) b) >= (uint64) ttl;
}

/* Returns whether two rows have the same time, or both have none. */
static inline bool
SameGuardTime(const GuardKey &a, const GuardKey &b)
{
	return a.has_time == b.has_time && (!a.has_time || a.at == b.at);
}

/* Returns a copy of the elements of a key, in the current memory context. */
extern const NullableDatum *CopyGuardKey(const GuardPlan *plan, const NullableDatum *columns);

/* Returns whether two keys are equal by the equality of their types. */
extern bool EqualGuardKeys(const GuardPlan *plan, const NullableDatum *one,
						   const NullableDatum *other);

/* Returns whether a row is marked as a duplicate. Then its key belongs to another row. */
extern bool IsMarkedRow(const GuardPlan *plan, TupleTableSlot *slot);

/* Returns the row with its mark set. */
extern HeapTuple MarkGuardRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate);

/* Raises 23505. The row is counted at once. */
[[noreturn]] extern void RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
								   const NullableDatum *columns);

#endif /* STREAMDEDUP_GUARD_ROW_KEY_HPP */
