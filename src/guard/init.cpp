/*
 * The places where the guard is called: by live filters, at the ends of transactions, and when
 * commands have changed a catalog.
 */
#include "guard/guard.hpp"
#include "guard/statement.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_trigger.h"
}

/* ---- ends of transactions -------------------------------------------------- */

static void
GuardTransactionCallback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			SettleGuardLevel(1);
			CheckEmptied();
			WarnOfTruncatedKeys();
			LookAtUnguarded();
			ForgetDeletedRows(true);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			ForgetGuardLevel(1);
			ForgetDeletedRows(event != XACT_EVENT_ABORT);
			ForgetTruncations(TopSubTransactionId);
			ForgetLeft(TopSubTransactionId);
			ForgetLeftOut(TopSubTransactionId);
			ForgetEmptied(TopSubTransactionId);
			ForgetMarkedCopies(TopSubTransactionId);
			ForgetUnguarded();
			ForgetFreeing();
			TrimGuardPlans();
			break;
		default:
			break;
	}
}

static void
GuardSubtransactionCallback(SubXactEvent event, SubTransactionId id, SubTransactionId parent,
							void *arg)
{
	int level = GetCurrentTransactionNestLevel();

	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			DeletedRowsSubtransactionBegins(level);
			break;
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			SettleGuardLevel(level);
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			DeletedRowsSubtransactionCommits(level);
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			ForgetGuardLevel(level);
			DeletedRowsSubtransactionAborts(level, id, parent);
			ForgetTruncations(id);
			ForgetLeft(id);
			ForgetLeftOut(id);
			ForgetEmptied(id);
			ForgetMarkedCopies(id);
			break;
	}
}

/* ---- changes of catalogs --------------------------------------------------- */

static object_access_hook_type previous_object_access = NULL;

static void
TriggerCreated(Oid trigger)
{
	HeapTuple tuple =
		ReadCatalog(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger);

	if (!HeapTupleIsValid(tuple))
		return;
	GuardTriggerCreated(tuple);
	heap_freetuple(tuple);
}

/* Runs after the hook of live filters, which refuses some of these commands. */
static void
GuardObjectAccess(ObjectAccessType access, Oid catalog, Oid object, int column, void *arg)
{
	if (previous_object_access != NULL)
		previous_object_access(access, catalog, object, column, arg);
	if (access == OAT_POST_CREATE && catalog == TriggerRelationId)
		TriggerCreated(object);
	if (access == OAT_DROP && catalog == TriggerRelationId)
		GuardTriggerGoes(object);
}

/* ---- registering ----------------------------------------------------------- */

static const LiveGuard guard_of_live = {SettleGuardRows,  NoteFileCopied, GuardedBy,
										ExactlyGuardedBy, FilterEmptied,  FilterCoversAnew,
										KeyForgotten};

/*
 * This is called after InitLiveCounters(): the server calls the callback that was registered last
 * first, and taking keys back changes the counters. It is called after InitLiveRefusals(): our hook
 * calls the one that was installed before it first.
 */
void
InitGuard(void)
{
	live_guard = &guard_of_live;
	InitGuardRows();
	InitGuardMoves();
	InitGuardWith();
	InitGuardLost();
	InitGuardStatement();
	InitGuardTruncate();
	InitGuardUnguarded();
	InitGuardReadAhead();
	RegisterXactCallback(GuardTransactionCallback, NULL);
	RegisterSubXactCallback(GuardSubtransactionCallback, NULL);
	previous_object_access = object_access_hook;
	object_access_hook = GuardObjectAccess;
}
