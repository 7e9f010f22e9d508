/*
 * Finds the live rows of a key in the tables of an exact guard, with an index of each table
 * (search.cpp).
 *
 * A search locks one partition at a time and releases it. It never waits for a transaction, but
 * returns the one to wait for. It holds no lock of a page when it returns.
 */
#ifndef STREAMDEDUP_GUARD_SEARCH_HPP
#define STREAMDEDUP_GUARD_SEARCH_HPP

#include "guard/row_key.hpp"

extern "C" {
#include "utils/snapshot.h"
}

/* The key that is searched, and the rows that count. */
struct SearchKey
{
	const GuardPlan *plan; /* of the guard of `target` */
	Relation target;       /* the table that the row goes into; it is searched first */
	const GuardKey *row;   /* the row that needs a key of its own, and its key */
	/* rows whose times are at least this far apart do not count; 0: no times */
	int64 ttl;
	ItemPointer self;         /* a row of `target` that does not count, or NULL */
	const LiveFilter *filter; /* knows about when the key came; NULL: this is not used */
	uint64 hash;
	Oid *found; /* receives the table of a Live row; may be NULL */
};

enum class SearchResult
{
	None,
	Live,     /* there is a row that nobody is deleting */
	Deleting, /* there is no such row, but one that `deleter` is deleting */
	Gone,     /* a row that the snapshot shows was deleted, or has moved, since */
	/*
	 * there is no such row, but a committed one that this transaction has deleted. If rows have
	 * times, other rows can have the same key, so the answer is None instead
	 */
	Ours
};

/*
 * Searches rows that exist now. None does not prove that there is none, because a row can move
 * behind the search. Rows that other sessions have inserted and not committed do not count: their
 * keys are in flight.
 */
extern SearchResult SearchNow(const SearchKey &key, TransactionId *deleter);

/* Searches rows that a snapshot shows, and compares each with its current state. */
extern SearchResult SearchBySnapshot(const SearchKey &key, Snapshot snapshot,
									 TransactionId *deleter);

/*
 * Returns whether a table, which is locked, has an index with which an exact guard can find rows.
 * The index must be of access method btree or hash, valid, and contain all rows that count. Its
 * first columns must be the elements of the key in any order, with the equality of their types. The
 * clause is that table's own.
 */
extern bool HasSearchIndex(Relation rel, const GuardClause &clause);

/* Returns that index, or InvalidOid. */
extern Oid FindSearchIndex(Relation rel, const GuardClause &clause);

/*
 * Raises 55000 with the CREATE INDEX for `on` if a table has no such index. The clause is that of a
 * guard of `from`.
 */
extern void RequireSearchIndex(Relation rel, const GuardClause &clause, Relation from, Oid on);

/*
 * Returns the tables with rows of their own below a table, which is locked, those with the newest
 * bounds first. The table itself is the last, if it has rows of its own.
 */
extern List *LeavesOf(Oid table);

#endif /* STREAMDEDUP_GUARD_SEARCH_HPP */
