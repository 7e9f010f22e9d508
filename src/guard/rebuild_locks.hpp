/*
 * The locks of dedup_rebuild() (rebuild_locks.cpp).
 */
#ifndef STREAMDEDUP_GUARD_REBUILD_LOCKS_HPP
#define STREAMDEDUP_GUARD_REBUILD_LOCKS_HPP

#include "guard/guard.hpp"

/*
 * Locks tables with all tables below them in AccessShareLock, and the filter that guards them in
 * ShareUpdateExclusiveLock. Raises an error unless the caller owns the tables and the filter. If
 * the filter's size stays and its guard is exact, the right to add keys to the filter is enough.
 * Returns the tables that the filter guards. Writers are not blocked.
 */
extern List *LockToRebuild(Oid filter, bool resizes);

/* Waits until all transactions that have written to the tables, or use the filter, have ended. */
extern void WaitForUsers(const List *tables, Oid filter);

/*
 * Blocks all other sessions from writing to the tables, and from using the filter, to the end of
 * the transaction. Returns the tables that the filter guards, which may have changed since.
 */
extern List *LockOutUsers(Oid filter);

#endif /* STREAMDEDUP_GUARD_REBUILD_LOCKS_HPP */
