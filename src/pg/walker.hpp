/* The type of functions that visit the nodes of a tree. */
#ifndef STREAMDEDUP_PG_WALKER_HPP
#define STREAMDEDUP_PG_WALKER_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
}

/* Before PostgreSQL 16, walkers are declared without arguments, as C allows. */
#if PG_VERSION_NUM >= 160000
using Walker = tree_walker_callback;
#else
using Walker = bool (*)();
#endif

static inline Walker
AsWalker(bool (*visit)(Node *, void *))
{
	return (Walker) (void (*)(void)) visit;
}

#if PG_VERSION_NUM >= 160000
using StateWalker = planstate_tree_walker_callback;
#else
using StateWalker = bool (*)();
#endif

static inline StateWalker
AsStateWalker(bool (*visit)(struct PlanState *, void *))
{
	return (StateWalker) (void (*)(void)) visit;
}

#endif /* STREAMDEDUP_PG_WALKER_HPP */
