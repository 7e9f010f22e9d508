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

enum class Reach
{
	Local,
	Distributed, /* names distributed tables */
	/*
	 * Names shards or intermediate results of Citus. Such a statement is part of another, that
	 * Citus runs on this node, and what may be approximate in that was decided when it was
	 * planned.
	 */
	Part
};

/*
 * Returns what the statement is to Citus. Distributed tables that SQL functions bring, when the
 * planner replaces a call in FROM by the function's query, are not seen: Citus does not plan
 * such statements.
 */
extern Reach ReachOf(Query *query);

/* Returns whether the session has loaded Citus, or somebody has made a setting of its name. */
extern bool CitusIsLoaded(void);

/* Returns whether Citus has made the extension on its other nodes, too. */
extern bool IsDistributedExtension(Oid extension);

/*
 * Returns whether a plan has aggregates that Citus splits, so that workers send their states.
 * The plans of sub-selects that Citus plans as statements of their own are not looked at.
 */
extern bool HasSplitAggregates(const PlannedStmt *statement);

#endif /* STREAMDEDUP_QUERY_DISTRIBUTED_HPP */
