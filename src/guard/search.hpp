/*
 * Finding the live rows of a key in the tables of an exact guard, by an index of each
 * (search.cpp).
 *
 * A search locks one partition at a time and lets it go. It never waits for a transaction:
 * it says which one to wait for. No lock of a page is held when it returns.
 */
#ifndef STREAMDEDUP_GUARD_SEARCH_HPP
#define STREAMDEDUP_GUARD_SEARCH_HPP

#include "guard/guard.hpp"

extern "C" {
#include "utils/snapshot.h"
}

/* The columns of a guard by name, so that they can be found in every partition. */
struct SearchColumns
{
	int columns;
	const char *names[INDEX_MAX_KEYS];
	Oid types[INDEX_MAX_KEYS];
	Oid collations[INDEX_MAX_KEYS];
	const char *mark; /* rows where it is true do not count; NULL: all count */
};

/* What is looked for. */
struct SearchKey
{
	const GuardPlan *plan;        /* of the guard of `target` */
	Relation target;              /* where the row goes; it is searched first */
	const NullableDatum *columns; /* the key, none of it NULL, as plan->clause names it */
	ItemPointer self;             /* a row of `target` that does not count, or NULL */
	const LiveFilter *filter;     /* knows roughly when the key came; NULL: do not ask */
	uint64 hash;
	Oid *found; /* gets the table of a Live row; NULL: nobody asks */
};

enum class SearchResult
{
	None,
	Live,     /* a row that nobody is deleting */
	Deleting, /* no such row; one that `deleter` is deleting */
	Gone,     /* a row that the snapshot shows was deleted, or has moved, since */
	Ours      /* no such row; a committed one that this transaction has deleted */
};

/*
 * Looks for rows that are there just now. None does not prove that there is none: a row can
 * move behind the search. Rows that others have inserted and not committed do not count:
 * their keys are in flight.
 */
extern SearchResult SearchNow(const SearchKey &key, TransactionId *deleter);

/* Looks for rows that a snapshot shows, and holds each against what it is just now. */
extern SearchResult SearchBySnapshot(const SearchKey &key, Snapshot snapshot,
									 TransactionId *deleter);

/* The columns of the guard of a table. The names live as long as the table is open. */
extern SearchColumns SearchColumnsOf(Relation rel, const GuardClause &clause);

/*
 * Whether a table, which is locked, has an index by which an exact guard can find rows: of
 * access method btree or hash, valid, its first columns those of the key in any order, with
 * the equality of the columns, of all rows that count.
 */
extern bool HasSearchIndex(Relation rel, const SearchColumns &columns);

/* That index, or InvalidOid. */
extern Oid FindSearchIndex(Relation rel, const SearchColumns &columns);

/* Raises 55000 with the CREATE INDEX for `on` if a table has none. */
extern void RequireSearchIndex(Relation rel, const SearchColumns &columns, Oid on);

/*
 * The tables with rows of their own below a table, which is locked, those with the newest
 * bounds first; itself as the last, if it is one.
 */
extern List *LeavesOf(Oid table);

#endif /* STREAMDEDUP_GUARD_SEARCH_HPP */
