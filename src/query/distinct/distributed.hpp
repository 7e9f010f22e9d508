/*
 * Statements over distributed tables, which Citus plans.
 *
 * The extension does not depend on Citus. A database has Citus if it has Citus's catalogs;
 * without them each function here is one look into a cache of the server.
 */
#ifndef STREAMDEDUP_QUERY_DISTRIBUTED_HPP
#define STREAMDEDUP_QUERY_DISTRIBUTED_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
}

/*
 * Returns whether the statement reads or writes distributed tables. Those that SQL functions
 * bring, when the planner replaces a call in FROM by the function's query, are not seen: Citus
 * does not plan such statements.
 */
extern bool IsDistributedStatement(Query *query);

/* Returns whether Citus has made the extension on its other nodes, too. */
extern bool IsDistributedExtension(Oid extension);

/*
 * Returns whether a distributed statement's plan, its sub-selects aside that Citus plans as
 * statements of their own, has aggregates that Citus splits: the workers send states. Citus
 * raises an error when it is to EXPLAIN ANALYZE such a plan.
 */
extern bool HasSplitAggregates(const PlannedStmt *statement);

#endif /* STREAMDEDUP_QUERY_DISTRIBUTED_HPP */
