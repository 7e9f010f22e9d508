/*
 * The locks of dedup_rebuild(); see rebuild_locks.hpp.
 *
 * A session that writes locks the table first, then the filter. But a transaction can use a filter,
 * or write to one table under it, and then write to another table. So in whatever order
 * dedup_rebuild() waited for several of these locks, there could be a deadlock, and a writer could
 * be its victim. Also, writers must not queue behind a lock that waits for a long transaction.
 *
 * So dedup_rebuild() never waits long for a strong lock. It waits for the transactions that block
 * it, while it holds no lock that blocks them, and is in no lock queue. Then it tries to get all
 * locks together, within half of deadlock_timeout: no session that waits for it checks for a
 * deadlock before that. If it does not get them, it releases those that it has, and starts again.
 *
 * The locks of the load, AccessShareLock on the tables and ShareUpdateExclusiveLock on the filter,
 * block no reader and no writer. They block TRUNCATE, DROP, rewrites and dedup_unguard(), and
 * VACUUM and other rebuilds of the filter. Those wait before they hold any lock that
 * dedup_rebuild() needs later.
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

/* A pause, in microseconds, before the next attempt after the holders of the locks have ended. */
constexpr long PAUSE = 1000;

/* Returns the tables of a list with those below them, each once. */
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
 * Locks the filter. Repairing the filter of an exact guard, which has only the keys of the rows, is
 * allowed to a user who owns the table and may add keys. Other filters, and other sizes, require
 * the filter's owner.
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

/* Locks a relation. Raises 55P03 if this is not done before `end`. */
static void
LockUntil(Oid relid, LOCKMODE lock, TimestampTz end, int own_timeout)
{
	const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);

	LockTimeout = (int) Max(left, 1);
	if (own_timeout > 0)
		LockTimeout = Min(LockTimeout, own_timeout);
	LockRelationOid(relid, lock);
}

/* Locks everything. Returns the guarded tables, or NIL if they have changed since. */
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
 * Tries to lock everything in a subtransaction. If that fails, its locks are released, and the
 * result is NIL.
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
		/* If the user's own lock_timeout expires, this is an error, as elsewhere. */
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
