/* The index with which an exact guard searches a table (search_index.cpp). */
#ifndef STREAMDEDUP_GUARD_SEARCH_INDEX_HPP
#define STREAMDEDUP_GUARD_SEARCH_INDEX_HPP

#include "guard/search.hpp"

extern "C" {
#include "access/stratnum.h"
}

/* The way to search a table. */
struct SearchIndex
{
	Oid table; /* must be first */
	Oid index;
	uint64 equalities; /* the version of equalities when it was chosen */
	int columns;
	int16 order[INDEX_MAX_KEYS]; /* the element of the key in each column of the index */
	Oid equal[INDEX_MAX_KEYS];   /* functions */
	StrategyNumber strategy;
	AttrNumber mark;   /* of the table, or 0 */
	bool proves_where; /* it contains only rows for which the guard's predicate is true */
};

/*
 * Returns how to search a table, which is locked, for a key: as this session remembers it, if
 * nothing has changed. Raises 55000 if no index of the table can be used.
 */
extern SearchIndex SearchIndexOf(Relation rel, const SearchKey &key);

#endif /* STREAMDEDUP_GUARD_SEARCH_INDEX_HPP */
