/* Replaces count(DISTINCT x) by approx_count_distinct(x) where both mean the same. */
#ifndef STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP
#define STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP

#include "query/distinct/scope.hpp"

/*
 * Returns whether this operator is the type's default equality, and the type has a hash function of
 * 64 bits for it. (With a hash of 32 bits, a million keys would lose a hundred, however exact the
 * filter is.) Checks the element types of arrays, ranges and composite types. Returns false for
 * anonymous records, and arrays of them.
 */
extern bool IsHashedEquality(Oid type, Oid equality);

extern bool IsCountDistinct(const Aggref *aggregate);

/*
 * Returns a copy of the query in which each count(DISTINCT x) is replaced that can and may be
 * replaced (scope.hpp), or the query itself if there is none. A distributed statement is not
 * changed if Citus has not created the extension on its other nodes.
 */
extern Query *RewriteCountDistinct(Query *query, bool distributed);

#endif /* STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP */
