/*
 * count(DISTINCT x) becomes approx_count_distinct(x) where that means the same.
 */
#ifndef STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP
#define STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP

#include "query/scope.hpp"

extern bool IsCountDistinct(const Aggref *aggregate);

/*
 * The query with each count(DISTINCT x) in scope replaced that can be: a copy; or the query
 * itself if there is none. `barred_with` as of a walk.
 */
extern Query *RewriteCountDistinct(Query *query, List *barred_with);

#endif							/* STREAMDEDUP_QUERY_COUNT_DISTINCT_HPP */
