/* Decides whether rows of a query may be read before they are requested. */
#ifndef STREAMDEDUP_PG_SIDE_EFFECTS_HPP
#define STREAMDEDUP_PG_SIDE_EFFECTS_HPP

#include "pg/pg.hpp"

/*
 * Returns whether a query, or an expression that is not planned yet, calls a volatile function,
 * locks rows or changes data. If not, it cannot be noticed when its rows are read, except by an
 * error.
 */
extern bool HasSideEffects(Node *node);

#endif /* STREAMDEDUP_PG_SIDE_EFFECTS_HPP */
