/*
 * Statements over distributed tables, which Citus plans.
 *
 * The extension does not depend on Citus. A database has Citus if it has Citus's catalogs. Without
 * them, each function here costs one lookup in a cache of the server.
 */
#ifndef STREAMDEDUP_QUERY_DISTRIBUTED_HPP
#define STREAMDEDUP_QUERY_DISTRIBUTED_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
}

enum class Reach
{
	Local,
	Distributed, /* it names distributed tables */
	/*
	 * It names shards or intermediate results of Citus. Such a statement is part of another
	 * statement, which Citus runs on this node. Which parts of it may be approximate was decided
	 * when that statement was planned.
	 */
	Part
};

/*
 * Returns whether and how the statement involves Citus. Does not see distributed tables that come
 * from SQL functions, when the planner replaces a call in FROM by the function's query: Citus does
 * not plan such statements.
 */
extern Reach ReachOf(Query *query);

/* Returns whether the session has loaded Citus, or a user has made a setting with its name. */
extern bool CitusIsLoaded(void);

/* Returns whether Citus has created the extension on its other nodes, too. */
extern bool IsDistributedExtension(Oid extension);

/*
 * Returns whether a plan has aggregates that Citus splits, so that workers send their states. Does
 * not look at the plans of sub-selects that Citus plans as separate statements.
 */
extern bool HasSplitAggregates(const PlannedStmt *statement);

#endif /* STREAMDEDUP_QUERY_DISTRIBUTED_HPP */
