/*
 * Walks over query trees, whose callbacks have had a type since PostgreSQL 16 only.
 */
#ifndef STREAMDEDUP_QUERY_TREE_HPP
#define STREAMDEDUP_QUERY_TREE_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
}

using TreeWalker = bool (*) (Node *node, void *context);

static inline bool
WalkQuery(Query *query, TreeWalker walker, void *context, int flags)
{
#if PG_VERSION_NUM >= 160000
	return query_tree_walker(query, walker, context, flags);
#else
	return query_tree_walker(query, (bool (*) ()) (void (*) (void)) walker, context, flags);
#endif
}

static inline bool
WalkExpression(Node *node, TreeWalker walker, void *context)
{
#if PG_VERSION_NUM >= 160000
	return expression_tree_walker(node, walker, context);
#else
	return expression_tree_walker(node, (bool (*) ()) (void (*) (void)) walker, context);
#endif
}

#endif							/* STREAMDEDUP_QUERY_TREE_HPP */
