/* Rows of the server's catalogs, and this extension's functions in them. */
#ifndef STREAMDEDUP_PG_CATALOG_HPP
#define STREAMDEDUP_PG_CATALOG_HPP

#include "pg/pg.hpp"

/*
 * Returns a copy of the row with an OID, as the running command has left it, or NULL. For hooks of
 * object access, which run before the command counter is incremented.
 */
extern HeapTuple ReadCatalog(Oid catalog, Oid index, AttrNumber oid_column, Oid object);

/*
 * Returns whether a function is the C function of this library with this symbol. Its name and
 * schema do not show that: the extension can be in any schema, and any user can make functions.
 */
extern bool IsOurFunction(Oid function, PGFunction address, const char *symbol);

/*
 * Calls `changed` whenever a relation may have changed, with its OID, or with InvalidOid for any
 * relation. The server has ten places for such callbacks; it needs three itself, and Citus needs
 * five. So the library takes only one.
 */
extern void WatchRelations(void (*changed)(Oid relation));

/* Returns whether the current user may call a function or an aggregate. */
extern bool MayCall(Oid function);

#endif /* STREAMDEDUP_PG_CATALOG_HPP */
