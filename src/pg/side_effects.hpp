/*
 * Whether rows of a query may be read before they are asked for.
 */
#ifndef STREAMDEDUP_PG_SIDE_EFFECTS_HPP
#define STREAMDEDUP_PG_SIDE_EFFECTS_HPP

#include "pg/pg.hpp"

/*
 * Returns whether a query, or an expression that is not planned yet, calls a volatile function,
 * locks rows or changes data. If not, nobody can tell when its rows were read, unless an error
 * does.
 */
extern bool HasSideEffects(Node *node);

#endif /* STREAMDEDUP_PG_SIDE_EFFECTS_HPP */
