/*
 * Rows of the server's catalogs, and our functions in them.
 */
#ifndef STREAMDEDUP_PG_CATALOG_HPP
#define STREAMDEDUP_PG_CATALOG_HPP

#include "pg/pg.hpp"

/*
 * Returns a copy of the row with an OID, as the running command has left it, or NULL. Hooks
 * for object access need it: they run before the command counter moves.
 */
extern HeapTuple ReadCatalog(Oid catalog, Oid index, AttrNumber oid_column, Oid object);

/*
 * Whether a function is the C function of this library with this symbol. Neither its name
 * nor its schema says so: the extension can be in any schema, and anybody can make functions.
 */
extern bool IsOurFunction(Oid function, PGFunction address, const char *symbol);

/*
 * Calls `changed` whenever a relation may have changed, with its OID, or with InvalidOid for any.
 * The server has ten places for such callbacks, of which it needs three itself and Citus five. So
 * the library takes one.
 */
extern void WatchRelations(void (*changed)(Oid relation));

/* Returns whether the present user may call a function or an aggregate. */
extern bool MayCall(Oid function);

#endif /* STREAMDEDUP_PG_CATALOG_HPP */
