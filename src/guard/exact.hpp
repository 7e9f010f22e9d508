/*
 * Exact guards: what the filter may have seen is looked for in the table (exact.cpp).
 *
 * A row that is found is proof; none found is not, so the key is put in flight before the
 * last look. Rows are judged where it is still possible to do what the mode says: inserted
 * ones by the BEFORE trigger if they can be left out or marked, all others where they
 * land, as a unique index does.
 */
#ifndef STREAMDEDUP_GUARD_EXACT_HPP
#define STREAMDEDUP_GUARD_EXACT_HPP

#include "guard/search.hpp"

extern "C" {
#include "nodes/execnodes.h"
}

/* What a query keeps of an exact guard for one table. */
struct ExactSite
{
	const GuardPlan *plan; /* NULL: the table has no exact guard */
	MemoryContext query;   /* where the site is */
	MemoryContext memory;  /* below that, for one row that lands at a time */
	Oid owner;             /* of the guarded table; valid: all of the site is known */
	bool covers;           /* the filter has the key of every row that it is to have */
	bool may_kill;         /* ON CONFLICT can kill a row that has landed */
	KeyReader reader;      /* of rows that land */
};

/*
 * Prepares a site for a query: locks the guarded table, so that no partition comes while we
 * search, and looks at the filter.
 */
extern void PrepareExactSite(ExactSite *site, Relation rel);

/* 55000 unless the filter covers the table. */
extern void RequireCovered(const ExactSite *site);

/* A row that is to be judged. */
struct ExactRow
{
	Relation rel; /* where it goes */
	const GuardKey *key;
	uint64 hash;
	ItemPointer self;    /* where it has landed already, or NULL */
	const GuardRow *row; /* in hand, or NULL */
};

struct ExactVerdict
{
	bool duplicate;
	bool searched;     /* the table was asked */
	bool added;        /* the key is in flight for this row, as this subtransaction's */
	uint32 generation; /* under which, in a window of time */
	Oid found;         /* the table of the row that has the key, if it was found */
};

/*
 * Judges a row whose key has no NULL. Waits, with nothing locked and the key not in flight,
 * for transactions that can decide. Counts nothing.
 */
extern ExactVerdict JudgeExactRow(const ExactSite *site, const LiveFilter &filter,
								  const ExactRow &row);

/*
 * Takes a snapshot of now in which all that this transaction has done counts; to be
 * unregistered.
 */
extern Snapshot TakeSnapshot(void);

/*
 * Looks for live rows in all tables of a guard so that none found is proof, as long as nobody
 * can insert one: the key is in flight, or writers are kept out. Returns None or Live; Deleting
 * if `deleter` must be waited for.
 */
extern SearchResult SearchForProof(const SearchKey &key, TransactionId *deleter);

/* Counts a search by its verdict; `now`: an error is about to be raised. */
extern void CountExactSearch(const LiveFilter &filter, const ExactVerdict &verdict, bool now);

/* The filter of a site. */
extern LiveFilter OpenExactFilter(const ExactSite *site);

/* Whether a row lands with the key that it has taken, by what a guard index is told. */
extern bool LandsWithKey(const GuardRow *row, Relation heap, Relation index, const Datum *values,
						 const bool *isnull);

/*
 * A row has got into a table that may have an exact guard. `row` is the one in hand that it
 * is, or NULL: then no trigger has seen it.
 */
extern void ExactRowLanded(Relation heap, Relation index, const Datum *values, const bool *isnull,
						   ItemPointer tid, IndexInfo *info, GuardRow *row);

#endif /* STREAMDEDUP_GUARD_EXACT_HPP */
