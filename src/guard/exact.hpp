/*
 * Exact guards: if the filter may have seen a key, the table is searched for it (exact.cpp).
 *
 * A row that is found is proof. If no row is found, this is not proof, so the key is put in flight
 * before the last search. Rows are judged where the mode can still be applied: inserted rows by the
 * BEFORE trigger if they can be left out or marked, all others when they are in the table, as a
 * unique index does.
 */
#ifndef STREAMDEDUP_GUARD_EXACT_HPP
#define STREAMDEDUP_GUARD_EXACT_HPP

#include "guard/search.hpp"

extern "C" {
#include "nodes/execnodes.h"
}

/* The data that a query keeps about an exact guard of one table. */
struct ExactSite
{
	const GuardPlan *plan; /* NULL: the table has no exact guard */
	MemoryContext query;   /* the memory context of the site */
	MemoryContext memory;  /* below that, for one inserted row at a time */
	Oid owner;             /* of the guarded table; if it is valid, the site is complete */
	bool covers;           /* the filter has the key of every row that it must have */
	bool may_kill;         /* ON CONFLICT can delete a row after it was inserted */
	KeyReader reader;      /* for inserted rows */
};

/*
 * Prepares a site for a query: locks the guarded table, so that no partition is added during a
 * search, and checks the filter.
 */
extern void PrepareExactSite(ExactSite *site, Relation rel);

/* Raises 55000 unless the filter covers the table. */
extern void RequireCovered(const ExactSite *site);

/* A row that must be judged. */
struct ExactRow
{
	Relation rel; /* the table that it goes into */
	const GuardKey *key;
	uint64 hash;
	ItemPointer self;    /* its place if it was inserted already, or NULL */
	const GuardRow *row; /* its entry in the list of rows in progress, or NULL */
};

struct ExactVerdict
{
	bool duplicate;
	bool searched;     /* the table was searched */
	bool added;        /* the key is in flight for this row, as this subtransaction's */
	uint32 generation; /* in a window of time: the key's generation */
	Oid found;         /* the table of the row that has the key, if it was found */
};

/*
 * Judges a row whose key has no NULL. Waits, with nothing locked and the key not in flight, for
 * transactions that can decide. Counts nothing.
 */
extern ExactVerdict JudgeExactRow(const ExactSite *site, const LiveFilter &filter,
								  const ExactRow &row);

/* Takes a current snapshot that includes all work of this transaction. It must be unregistered. */
extern Snapshot TakeSnapshot(void);

/*
 * Searches live rows in all tables of a guard. If there is none, this is proof as long as no other
 * session can insert one: the key must be in flight, or writers must be kept out. Returns None or
 * Live; or Deleting if the caller must wait for `deleter`.
 */
extern SearchResult SearchForProof(const SearchKey &key, TransactionId *deleter);

/* Counts a search by its verdict. `now`: an error is about to be raised. */
extern void CountExactSearch(const LiveFilter &filter, const ExactVerdict &verdict, bool now);

/* Opens the filter of a site. */
extern LiveFilter OpenExactFilter(const ExactSite *site);

/*
 * Returns whether a row is inserted with the key that it has taken, by the values of a guard index.
 */
extern bool LandsWithKey(const GuardRow *row, Relation heap, Relation index, const Datum *values,
						 const bool *isnull);

/*
 * Called when a row was inserted into a table that may have an exact guard. `row` is its entry in
 * the list of rows in progress, or NULL: then no trigger has seen it.
 */
extern void ExactRowLanded(Relation heap, Relation index, const Datum *values, const bool *isnull,
						   ItemPointer tid, IndexInfo *info, GuardRow *row);

#endif /* STREAMDEDUP_GUARD_EXACT_HPP */
