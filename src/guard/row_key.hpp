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

/* What a row is to a guard. */
struct GuardKey
{
	bool counts;   /* false: the predicate is not true, and the rest is not known; or it has no
					* time that it needs */
	bool has_time; /* in `at`; false: the guard has none, or it is NULL */
	TimestampTz at;
	NullableDatum columns[INDEX_MAX_KEYS]; /* the elements of its key */
};

/* How a query reads the keys of a table's rows. */
struct KeyReader
{
	const GuardClause *clause; /* of that table */
	ExprContext *context;      /* NULL: there is nothing but columns */
	ExprState *elements[INDEX_MAX_KEYS];
	ExprState *where;
	ExprState *at;
};

/* Makes a reader in the current memory. The clause has to live as long. */
extern void MakeKeyReader(KeyReader *reader, const GuardClause *clause);

/*
 * Computes what a row is by expressions, in the current memory. They may be a user's code, which
 * runs as whoever the session is just now.
 */
extern void ComputeGuardKey(const KeyReader &reader, TupleTableSlot *slot, GuardKey *key);

/* Reads what a row is. The values are in the slot, or in the current memory. */
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
 * Reads what a row is of which there are only the columns that the clause uses, in its order.
 * `desc` is that of the table.
 */
extern void ReadUsedColumns(const KeyReader &reader, TupleDesc desc, const NullableDatum *used,
							GuardKey *key);

/*
 * Reads what a row is that a guard index is told of, and whether it is marked as a duplicate
 * if that is not NULL. False: the index does not have all columns, so it is not the guard's.
 */
extern bool ReadLandedKey(const KeyReader &reader, Relation heap, Relation index,
						  const Datum *values, const bool *isnull, GuardKey *key, bool *marked);

/*
 * False if the row does not count, or a column is NULL: then there is no key, as in a UNIQUE
 * constraint.
 */
static inline bool
HashGuardKey(const GuardPlan *plan, const GuardKey &key, dedup::KeySeed seed, uint64 *hash)
{
	return key.counts && HashColumnsAgain(plan->keys, key.columns, plan->clause.nulls, seed, hash);
}

/* Whether two rows have the same key to the last bit, or none both because they do not count. */
extern bool SameGuardKey(const GuardPlan *plan, const GuardKey &a, const GuardKey &b);

/* Whether the times of two rows are a ttl or more apart: then neither is the other's duplicate. */
static inline bool
AreApart(TimestampTz a, TimestampTz b, int64 ttl)
{
	/* Infinite ones are at the ends of the range. */
	return (a < b ? (uint64) b - (uint64) a : (uint64) a - (uint64) b) >= (uint64) ttl;
}

/* Whether two rows have the same time, or none both. */
static inline bool
SameGuardTime(const GuardKey &a, const GuardKey &b)
{
	return a.has_time == b.has_time && (!a.has_time || a.at == b.at);
}

/* Returns a copy of the elements of a key, in the current memory. */
extern const NullableDatum *CopyGuardKey(const GuardPlan *plan, const NullableDatum *columns);

/* Whether two keys are equal as their types have it. */
extern bool EqualGuardKeys(const GuardPlan *plan, const NullableDatum *one,
						   const NullableDatum *other);

/* Whether a row is marked as a duplicate: then its key is another row's. */
extern bool IsMarkedRow(const GuardPlan *plan, TupleTableSlot *slot);

/* The row, with its mark set. */
extern HeapTuple MarkGuardRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate);

/* Raises 23505, which is counted at once. */
[[noreturn]] extern void RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
								   const NullableDatum *columns);

#endif /* STREAMDEDUP_GUARD_ROW_KEY_HPP */
