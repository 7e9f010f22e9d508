/*
 * Aggregates over tables that Citus distributes.
 *
 * Citus computes an aggregate in parts on its workers if the types of the arguments are those that
 * the aggregate declares. No argument has the type VARIADIC "any". So for aggregates over keys of
 * any type Citus fetches the rows, which works but is slow. Overloads for bigint, uuid and so on
 * are not possible: they would change the meaning of existing calls, or make them ambiguous.
 * Examples are dedup_agg('a', 1), and dedup_agg() of a type with an implicit cast to bytea, such as
 * PostGIS's geometry.
 *
 * So statements that read a table that Citus manages are changed before Citus plans them:
 *   dedup_agg(k...)             becomes  dedup_agg_hashes(dedup_hash(NULL, k...))
 *   dedup_agg(p, k...)          becomes  dedup_agg_hashes(p, dedup_hash(p, k...))
 *   approx_count_distinct(k...) becomes  approx_count_distinct_hashes(dedup_hash(NULL, k...))
 * The hashes are computed on the workers, and the results are the same filters and counts.
 *
 * These are not changed, and are computed on the coordinator from the rows:
 *   - aggregates with DISTINCT or ORDER BY
 *   - keys whose bytes mean something else on another server, such as regclass
 *   - counts of filters
 *   - aggregates with a prototype that is volatile or a sub-select, because it would be evaluated
 *     twice; that depends on the session or on tables of this node; or that differs from row to
 *     row, because the first row's prototype is used, and no shard is first
 *   - aggregates that the user may not call, and all aggregates if another user has made a
 *     dedup_hash() in the schema, which a worker could call instead of ours
 *   - aggregates of a query without GROUP BY that has ORDER BY and LIMIT, for which Citus fails
 *
 * On a worker Citus calls worker_partial_agg(), which looks the aggregate's functions up for each
 * row. This takes 200 ns a row, three times the work itself. There
 *   worker_partial_agg('dedup_agg_hashes(bigint)'::regprocedure, h)
 * becomes dedup_agg_hashes_partial(h), which returns the same text of the same state.
 */
#ifndef STREAMDEDUP_QUERY_CITUS_HPP
#define STREAMDEDUP_QUERY_CITUS_HPP

#include "pg/pg.hpp"

/* Sets the hook; called by _PG_init. */
extern void InitCitus(void);

#endif /* STREAMDEDUP_QUERY_CITUS_HPP */
