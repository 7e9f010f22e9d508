/* Queries that belong to one statement because a rule has made several from it. */
#ifndef STREAMDEDUP_GUARD_STATEMENT_HPP
#define STREAMDEDUP_GUARD_STATEMENT_HPP

#include "pg/pg.hpp"

extern "C" {
#include "executor/execdesc.h"
}

/* Returns the command id of a query's own snapshot. */
extern CommandId OwnSnapshot(const QueryDesc *query);

/*
 * Returns the command id of the snapshot under which the statement of a running query began.
 * Without rules that is the query's own snapshot.
 */
extern CommandId SnapshotOfStatement(const QueryDesc *query);

/* Installs hooks. Called once, by InitGuard(). */
extern void InitGuardStatement(void);

#endif /* STREAMDEDUP_GUARD_STATEMENT_HPP */
