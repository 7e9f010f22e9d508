/*
 * Finding the live rows of a key in the tables of an exact guard, by an index of each
 * (search.cpp).
 *
 * A search locks one partition at a time and lets it go. It never waits for a transaction:
 * it says which one to wait for. No lock of a page is held when it returns.
 */
#ifndef STREAMDEDUP_GUARD_SEARCH_HPP
#define STREAMDEDUP_GUARD_SEARCH_HPP

#include "guard/row_key.hpp"

extern "C" {
#include "utils/snapshot.h"
}

/* What is looked for. */
struct SearchKey
{
	const GuardPlan *plan;    /* of the guard of `target` */
	Relation target;          /* where the row goes; it is searched first */
	const GuardKey *row;      /* what is to have a key of its own, which it has */
	int64 ttl;                /* rows whose times are as far apart do not count; 0: no times */
	ItemPointer self;         /* a row of `target` that does not count, or NULL */
	const LiveFilter *filter; /* knows roughly when the key came; NULL: do not ask */
	uint64 hash;
	Oid *found; /* gets the table of a Live row; NULL: nobody asks */
};

enum class SearchResult
{
	None,
	Live,     /* a row that nobody is deleting */
	Deleting, /* no such row; one that `deleter` is deleting */
	Gone,     /* a row that the snapshot shows was deleted, or has moved, since */
	Ours      /* no such row; a committed one that this transaction has deleted. Where rows have
			   * times others can have the same key, so there the answer is None */
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

/*
 * Whether a table, which is locked, has an index by which an exact guard can find rows: of
 * access method btree or hash, valid, its first columns the elements of the key in any order,
 * with the equality of their types, of all rows that count. The clause is that table's own.
 */
extern bool HasSearchIndex(Relation rel, const GuardClause &clause);

/* That index, or InvalidOid. */
extern Oid FindSearchIndex(Relation rel, const GuardClause &clause);

/*
 * Raises 55000 with the CREATE INDEX for `on` if a table has none. The clause is that of a
 * guard of `from`.
 */
extern void RequireSearchIndex(Relation rel, const GuardClause &clause, Relation from, Oid on);

/*
 * The tables with rows of their own below a table, which is locked, those with the newest
 * bounds first; itself as the last, if it is one.
 */
extern List *LeavesOf(Oid table);

#endif /* STREAMDEDUP_GUARD_SEARCH_HPP */
