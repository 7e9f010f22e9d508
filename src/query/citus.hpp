/*
 * Aggregates over tables that Citus distributes.
 *
 * Citus computes an aggregate in parts on its workers if the types of the arguments are those
 * that the aggregate declares. VARIADIC "any" is no argument's type. For aggregates over keys
 * of any type it fetches the rows, which works and is slow. Overloads for bigint, uuid and so on
 * would not do: they change what existing calls mean, or make them ambiguous, for example
 * dedup_agg('a', 1) and dedup_agg() of a type that has an implicit cast to bytea, as PostGIS's
 * geometry has.
 *
 * So statements are changed before Citus plans them, if they read a table that Citus knows:
 *   dedup_agg(k...)             becomes  dedup_agg_hashes(dedup_hash(NULL, k...))
 *   dedup_agg(p, k...)          becomes  dedup_agg_hashes(p, dedup_hash(p, k...))
 *   approx_count_distinct(k...) becomes  approx_count_distinct_hashes(dedup_hash(NULL, k...))
 * The hashes are computed on the workers, and the results are the same filters and counts.
 *
 * What stays as it is, and is computed here from the rows:
 *   - an aggregate with DISTINCT or ORDER BY
 *   - keys whose bytes mean something else on another server, such as regclass
 *   - a count of filters
 *   - a prototype that is volatile or a sub-select, since it would be evaluated twice, or that
 *     depends on the session or on tables of this node; one that
 *     differs from row to row, since the first row's counts and no shard is first
 *   - aggregates that the user may not call; all, if somebody else has made a dedup_hash() in the
 *     schema, which a worker could take for ours
 *   - aggregates of a query without GROUP BY that has ORDER BY and LIMIT, for which Citus fails
 *
 * On a worker Citus calls worker_partial_agg(), which looks the aggregate's functions up for
 * each row: 200 ns a row, three times the work itself. There
 *   worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, h)
 * becomes dedup_agg_hashes_partial(h), which returns the same text of the same state.
 */
#ifndef STREAMDEDUP_QUERY_CITUS_HPP
#define STREAMDEDUP_QUERY_CITUS_HPP

#include "pg/pg.hpp"

/* Sets the hook; called by _PG_init. */
extern void InitCitus(void);

#endif /* STREAMDEDUP_QUERY_CITUS_HPP */
