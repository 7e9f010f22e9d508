/*
 * The locks of dedup_rebuild(): see rebuild_locks.hpp.
 *
 * Everybody who writes locks the table first, then the filter. But a transaction can ask a
 * filter, or write to one table under it, and then write to another one. So there is no order
 * in which several of these locks could be waited for without a deadlock, whose victim could
 * be a writer. Neither may writers queue behind a lock that waits for a long transaction.
 *
 * So dedup_rebuild() never waits for a strong lock for long. It waits for the transactions
 * that are in its way, while it holds no lock that is in theirs, nor is in the queue of one.
 * Then it tries to get all locks together, within half of deadlock_timeout: nobody who waits
 * for it looks for a deadlock before that. If it does not get them, it gives those back that
 * it has, and begins again.
 *
 * The locks of the load, AccessShareLock on the tables and ShareUpdateExclusiveLock on the
 * filter, are in the way of no reader and no writer. They keep out TRUNCATE, DROP, rewrites and
 * dedup_unguard(), and VACUUM and other rebuilds of the filter. Those wait before they hold
 * anything that dedup_rebuild() wants later.
 */
#include "guard/rebuild_locks.hpp"
#include "guard/request.hpp"
#include "pg/subtransaction.hpp"

extern "C" {
#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"
}

/* A pause, in microseconds, before locks are tried again whose holders have just gone. */
constexpr long PAUSE = 1000;

/* The tables of a list with those below them, each once. */
static List *
WithInheritors(const List *tables, LOCKMODE lock)
{
	List *all = NIL;
	ListCell *cell;

	foreach(cell, tables)
		all = list_concat_unique_oid(all, find_all_inheritors(lfirst_oid(cell), lock, NULL));
	return all;
}

static bool
SameTables(const List *some, const List *others)
{
	return list_difference_oid(some, others) == NIL && list_difference_oid(others, some) == NIL;
}

/* ---- at the beginning ------------------------------------------------------------------- */

/*
 * Locks the filter. To repair that of an exact guard, which has no keys but those of the rows, is
 * a matter of who owns the table and may add keys. Other filters, and other sizes, are their
 * owner's.
 */
static void
LockFilter(Oid filter, bool resizes)
{
	if (!resizes && OidIsValid(TableOfExactGuard(filter)) &&
		pg_class_aclcheck(filter, GetUserId(), ACL_INSERT) == ACLCHECK_OK)
		LockRelationOid(filter, ShareUpdateExclusiveLock);
	else
		relation_close(OpenOwnTable(filter, ShareUpdateExclusiveLock), NoLock);
}

List *
LockToRebuild(Oid filter, bool resizes)
{
	List *tables = TablesOfGuards(filter);
	ListCell *cell;

	for (;;)
	{
		List *now;

		foreach(cell, tables)
		{
			relation_close(OpenOwnTable(lfirst_oid(cell), AccessShareLock), NoLock);
			list_free(find_all_inheritors(lfirst_oid(cell), AccessShareLock, NULL));
		}
		LockFilter(filter, resizes);
		CheckIsFilter(filter);
		now = TablesOfGuards(filter);
		if (list_difference_oid(now, tables) == NIL)
			return now;
		tables = now;
	}
}

/* ---- waiting ---------------------------------------------------------------------------- */

static List *
AddTag(List *tags, Oid relid)
{
	LOCKTAG *tag = (LOCKTAG *) palloc(sizeof(LOCKTAG));

	SET_LOCKTAG_RELATION(*tag, MyDatabaseId, relid);
	return lappend(tags, tag);
}

void
WaitForUsers(const List *tables, Oid filter)
{
	List *tags = NIL;
	ListCell *cell;

	foreach(cell, WithInheritors(tables, AccessShareLock))
		tags = AddTag(tags, lfirst_oid(cell));
	WaitForLockersMultiple(tags, ShareRowExclusiveLock, true);
	WaitForLockersMultiple(AddTag(NIL, filter), AccessExclusiveLock, true);
}

/* ---- trying ----------------------------------------------------------------------------- */

/* Locks a relation. Raises 55P03 if that is not done at a certain time. */
static void
LockUntil(Oid relid, LOCKMODE lock, TimestampTz end, int own_timeout)
{
	const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);

	LockTimeout = (int) Max(left, 1);
	if (own_timeout > 0)
		LockTimeout = Min(LockTimeout, own_timeout);
	LockRelationOid(relid, lock);
}

/* Locks everything. Returns the tables that are guarded, or NIL if these have changed since. */
static List *
LockAll(Oid filter, TimestampTz end, int own_timeout)
{
	List *tables = TablesOfGuards(filter);
	List *all = WithInheritors(tables, NoLock);
	ListCell *cell;

	foreach(cell, all)
		LockUntil(lfirst_oid(cell), ShareRowExclusiveLock, end, own_timeout);
	LockUntil(filter, AccessExclusiveLock, end, own_timeout);
	return SameTables(tables, TablesOfGuards(filter)) &&
				   SameTables(all, WithInheritors(tables, NoLock))
			   ? tables
			   : NIL;
}

/*
 * Tries to lock everything in a subtransaction: if that fails, its locks go with it. Returns
 * NIL if it has failed.
 */
static List *
TryToLockAll(Oid filter)
{
	const MemoryContext context = CurrentMemoryContext;
	const ResourceOwner owner = CurrentResourceOwner;
	const int own_timeout = LockTimeout;
	const int patience = Max(DeadlockTimeout / 2, 1);
	const TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), patience);
	List *volatile tables = NIL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		tables = LockAll(filter, end, own_timeout);
		LockTimeout = own_timeout;
		if (tables != NIL)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error = RollBackError(context, owner);

		LockTimeout = own_timeout;
		/* The user's own lock_timeout is an error, as elsewhere. */
		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE ||
			(own_timeout > 0 && own_timeout <= patience))
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return tables;
}

List *
LockOutUsers(Oid filter)
{
	List *tables = TryToLockAll(filter);

	while (tables == NIL)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(PAUSE);
		WaitForUsers(TablesOfGuards(filter), filter);
		tables = TryToLockAll(filter);
	}
	return tables;
}
