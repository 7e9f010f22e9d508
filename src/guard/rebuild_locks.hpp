/*
 * The locks of dedup_rebuild() (rebuild_locks.cpp).
 */
#ifndef STREAMDEDUP_GUARD_REBUILD_LOCKS_HPP
#define STREAMDEDUP_GUARD_REBUILD_LOCKS_HPP

#include "guard/guard.hpp"

/*
 * Locks tables with all tables below them in AccessShareLock, and the filter that guards them
 * in ShareUpdateExclusiveLock. Raises an error unless the caller owns the tables and the
 * filter; if its size stays and its guard is exact, it is enough that he may add keys to it.
 * Returns the tables that the filter guards. Writers go on.
 */
extern List *LockToRebuild(Oid filter, bool resizes);

/* Waits until all transactions that have written to the tables, or use the filter, are over. */
extern void WaitForUsers(const List *tables, Oid filter);

/*
 * Keeps everybody else from writing to the tables, and from using the filter, to the end of the
 * transaction. Returns the tables that the filter guards, which may be others by now.
 */
extern List *LockOutUsers(Oid filter);

#endif /* STREAMDEDUP_GUARD_REBUILD_LOCKS_HPP */
