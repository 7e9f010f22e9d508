/*
 * count(DISTINCT x) becomes approx_count_distinct(x) where that means the same.
 */
#ifndef STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP
#define STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP

#include "query/distinct/scope.hpp"

/*
 * Whether the type's default equality is this operator, and is one that a hash function of
 * 64 bits goes with: by one of 32 bits a million keys lose a hundred, however exact the
 * filter. Looks into arrays, ranges and composite types; for anonymous records, and arrays
 * of them, it says no.
 */
extern bool IsHashedEquality(Oid type, Oid equality);

extern bool IsCountDistinct(const Aggref *aggregate);

/*
 * Returns a copy of the query in which each count(DISTINCT x) is replaced that can be and may
 * be (scope.hpp), or the query itself if there is none. A distributed statement stays as it is
 * if Citus has not made the extension on its other nodes.
 */
extern Query *RewriteCountDistinct(Query *query, bool distributed);

#endif /* STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP */
