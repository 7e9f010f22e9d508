/* The type of functions that visit the nodes of a tree. */
#ifndef STREAMDEDUP_PG_WALKER_HPP
#define STREAMDEDUP_PG_WALKER_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/nodeFuncs.h"
}

using Walker = WALKER_TYPE;

static inline Walker
AsWalker(bool (*visit)(Node *, void *))
{
	return (Walker) (void (*)(void)) visit;
}

using StateWalker = STATE_WALKER_TYPE;

static inline StateWalker
AsStateWalker(bool (*visit)(struct PlanState *, void *))
{
	return (StateWalker) (void (*)(void)) visit;
}

#endif /* STREAMDEDUP_PG_WALKER_HPP */
