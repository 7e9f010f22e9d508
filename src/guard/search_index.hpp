/*
 * The index by which an exact guard searches a table (search_index.cpp).
 */
#ifndef STREAMDEDUP_GUARD_SEARCH_INDEX_HPP
#define STREAMDEDUP_GUARD_SEARCH_INDEX_HPP

#include "guard/search.hpp"

extern "C" {
#include "access/stratnum.h"
}

/* How a table is searched. */
struct SearchIndex
{
	Oid table; /* must be first */
	Oid index;
	uint64 equalities; /* that it was chosen by */
	int columns;
	int16 order[INDEX_MAX_KEYS]; /* which of the key's elements each column of the index is */
	Oid equal[INDEX_MAX_KEYS];   /* functions */
	StrategyNumber strategy;
	AttrNumber mark;   /* of the table, or 0 */
	bool proves_where; /* it has no rows but those for which the guard's predicate is true */
};

/*
 * How a table, which is locked, is searched for a key: as this session remembers it, if
 * nothing has changed. Raises 55000 if no index of the table serves.
 */
extern SearchIndex SearchIndexOf(Relation rel, const SearchKey &key);

#endif /* STREAMDEDUP_GUARD_SEARCH_INDEX_HPP */
