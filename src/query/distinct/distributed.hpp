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
}

enum class Reach
{
	Local,   /* reads no distributed table */
	Unknown, /* calls SQL functions in FROM, which the planner may replace by their queries */
	Distributed
};

/* Returns whether the statement reads or writes distributed tables. */
extern Reach ReachOf(Query *query);

/* Returns whether Citus has made the extension on its other nodes, too. */
extern bool IsDistributedExtension(Oid extension);

#endif /* STREAMDEDUP_QUERY_DISTRIBUTED_HPP */
