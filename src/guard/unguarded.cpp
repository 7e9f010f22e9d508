/*
 * Tables that look guarded and are not.
 *
 * A NOTICE says that a partition which was detached is not guarded any more, and that
 * CREATE TABLE ... LIKE does not copy a guard: it would copy the index, and no trigger. A
 * WARNING names tables that inherit from a guarded table and are not guarded.
 *
 * CREATE TABLE ... LIKE opens the index that it copies before it runs the command that
 * makes the copy, so the library is loaded for that command. DETACH PARTITION opens the
 * index too late for any hook; so the end of the transaction that has loaded the library
 * looks at all guard indexes.
 */
#include "guard/load.hpp"
#include "guard/truncation.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
}

/* ---- children -------------------------------------------------------------------- */

namespace
{

/* A table that has become a child of a table that is not partitioned. */
struct NewChild
{
	Oid child;
	Oid parent;
	SubTransactionId subid;
};

} /* namespace */

/* Checked when the command is over, which may guard the child yet. In TopTransactionContext. */
static List *new_children = NIL;

/* Returns the guard of a table, even if its triggers do not fire in this session; or NULL. */
static const GuardPlan *
GuardOf(Relation rel)
{
	const Oid function = FindGuardFunction(rel, false);

	return OidIsValid(function) ? FindGuardPlan(rel, function) : NULL;
}

/* Returns the filter of a table's guard, or InvalidOid. */
static Oid
GuardFilterOf(Oid relid)
{
	Relation rel = OidIsValid(relid) ? RelationIdGetRelation(relid) : NULL;
	const GuardPlan *plan = RelationIsValid(rel) ? GuardOf(rel) : NULL;

	if (RelationIsValid(rel))
		RelationClose(rel);
	return plan != NULL ? plan->clause.filter : InvalidOid;
}

/* Lists the names of tables, but no more than ten. */
static char *
TableNames(const List *tables)
{
	StringInfoData names;
	ListCell *cell;
	int n = 0;

	initStringInfo(&names);
	foreach(cell, tables)
	{
		if (n == 10)
		{
			appendStringInfo(&names, _(" and %d more"), list_length(tables) - n);
			break;
		}
		appendStringInfo(&names, "%s%s", n++ == 0 ? "" : ", ",
						 QualifiedGuardName(lfirst_oid(cell)));
	}
	return names.data;
}

static void
WarnOfChildren(Oid parent, const List *children)
{
	ereport(WARNING, (errmsg_plural("a table that inherits from \"%s\" is not guarded",
									"tables that inherit from \"%s\" are not guarded",
									(unsigned long) list_length(children), get_rel_name(parent)),
					  errdetail("A guard covers the partitions of a partitioned table, but not the "
								"children of another table. Not guarded: %s.",
								TableNames(children)),
					  errhint("Call dedup_guard() for each of them.")));
}

void
WarnOfUnguardedChildren(Relation rel, Oid filter)
{
	List *children;
	List *unguarded = NIL;
	ListCell *cell;

	if (rel->rd_rel->relkind != RELKIND_RELATION || !rel->rd_rel->relhassubclass)
		return;
	children = find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL);
	foreach(cell, children)
		if (lfirst_oid(cell) != RelationGetRelid(rel) && GuardFilterOf(lfirst_oid(cell)) != filter)
			unguarded = lappend_oid(unguarded, lfirst_oid(cell));
	if (unguarded != NIL)
		WarnOfChildren(RelationGetRelid(rel), unguarded);
	list_free(children);
	list_free(unguarded);
}

void
GuardChildCreated(Oid child, Oid parent)
{
	MemoryContext old;
	NewChild *pair;

	if (IsBinaryUpgrade || get_rel_relkind(parent) != RELKIND_RELATION)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	pair = (NewChild *) palloc(sizeof(NewChild));
	*pair = {child, parent, GetCurrentSubTransactionId()};
	new_children = lappend(new_children, pair);
	MemoryContextSwitchTo(old);
}

/* Warns of the new children that are not guarded. */
static void
LookAtNewChildren(void)
{
	List *pairs = new_children;
	ListCell *cell;

	new_children = NIL;
	foreach(cell, pairs)
	{
		const NewChild *pair = (const NewChild *) lfirst(cell);
		const Oid filter = GuardFilterOf(pair->parent);

		/* NO INHERIT changes inheritance, too. */
		if (OidIsValid(filter) && GuardFilterOf(pair->child) != filter &&
			list_member_oid(find_inheritance_children(pair->parent, NoLock), pair->child))
			WarnOfChildren(pair->parent, list_make1_oid(pair->child));
	}
}

/* ---- partitions that are detached -------------------------------------------------- */

/* Returns a guard index of a table that has no trigger of a guard; else InvalidOid. */
static Oid
IdleGuardIndex(Oid relid)
{
	const Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);
	Relation rel = RelationIdGetRelation(relid);
	List *indexes;
	ListCell *cell;
	Oid idle = InvalidOid;

	if (!RelationIsValid(rel))
		return InvalidOid;
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == access_method)
			idle = lfirst_oid(cell);
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	if (OidIsValid(idle) && OidIsValid(FindGuardFunction(rel, false)))
		idle = InvalidOid;
	RelationClose(rel);
	return idle;
}

/* The same, and NoticeKeptKeys() if its rows would have freed their keys one by one. */
static void
NoticeDetached(Oid relid, Oid parent)
{
	const Oid index = IdleGuardIndex(relid);
	const GuardRows rows = OidIsValid(parent) ? ReadGuardRows(parent) : GuardRows{};

	if (OidIsValid(index) && OidIsValid(rows.remove) && rows.options.forget && !HasNoBlocks(relid))
		NoticeKeptKeys(relid, rows.clause.filter);
	if (OidIsValid(index))
		ereport(NOTICE, (errmsg("table \"%s\" is not guarded any more", get_rel_name(relid)),
						 errdetail("Its guard was that of the partitioned table. Index \"%s\" "
								   "stays, and refuses nothing without the guard's triggers.",
								   get_rel_name(index)),
						 errhint("Call dedup_guard() to guard the table, or DROP INDEX %s.",
								 QualifiedGuardName(index))));
}

/*
 * Whether this is a transaction of the statement that has loaded the library, whether a
 * relation has changed in it, and before which command the hook has seen no statement.
 * DETACH PARTITION CONCURRENTLY consists of several transactions, so this holds until the
 * end of the statement.
 */
static bool first_transaction = false;
static TimestampTz loaded_at;
static bool changed = false;
static CommandId unseen_before = InvalidCommandId;

static void
AtRelationChange(Datum, Oid relid)
{
	changed = changed || OidIsValid(relid);
}

/* Reports the tables that a finished statement has detached. */
static void
LookAtDetached(const AlterTableStmt *statement)
{
	ListCell *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = (const AlterTableCmd *) lfirst(cell);
		Oid relid;

#if PG_VERSION_NUM >= 140000
		if (command->subtype != AT_DetachPartition &&
			command->subtype != AT_DetachPartitionFinalize)
			continue;
#else
		if (command->subtype != AT_DetachPartition)
			continue;
#endif
		relid = RangeVarGetRelid(((const PartitionCmd *) command->def)->name, NoLock, true);
		if (OidIsValid(relid) &&
			OidIsValid(GuardFilterOf(RangeVarGetRelid(statement->relation, NoLock, true))))
			NoticeDetached(relid, RangeVarGetRelid(statement->relation, NoLock, true));
	}
}

/* The table that a table was a partition of before this transaction's first command. */
static Oid
FormerParent(Oid relid)
{
	Relation catalog = table_open(InheritsRelationId, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	Oid parent = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	snapshot->curcid = FirstCommandId;
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, InheritsRelidSeqnoIndexId, true, snapshot, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		parent = ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent;
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(catalog, AccessShareLock);
	return parent;
}

/*
 * Returns whether a guard index was detached from its parent's index in this transaction,
 * by a statement that the hook has not seen.
 */
static bool
WasDetachedUnseen(HeapTuple index)
{
	Snapshot snapshot;
	HeapTuple before;
	bool was_attached;

	if (((Form_pg_class) GETSTRUCT(index))->relispartition ||
		!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(index->t_data)) ||
		HeapTupleHeaderGetCmin(index->t_data) >= unseen_before)
		return false;
	/* The index as it was before this transaction's first command. */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	snapshot->curcid = FirstCommandId;
	before = ReadClass(((Form_pg_class) GETSTRUCT(index))->oid, snapshot);
	UnregisterSnapshot(snapshot);
	was_attached = HeapTupleIsValid(before) && ((Form_pg_class) GETSTRUCT(before))->relispartition;
	return was_attached;
}

/* Reports the tables that the statement which has loaded the library has detached. */
static void
LookAtFirstTransaction(void)
{
	const Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);
	Relation catalog;
	SysScanDesc scan;
	HeapTuple tuple;
	List *detached = NIL;
	ListCell *cell;

	if (!OidIsValid(access_method))
		return;
	catalog = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == access_method && WasDetachedUnseen(tuple))
			detached = lappend_oid(detached, ((Form_pg_class) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	foreach(cell, detached)
	{
		const Oid relid = IndexGetRelation(lfirst_oid(cell), true);

		if (OidIsValid(relid))
			NoticeDetached(relid, FormerParent(relid));
	}
	list_free(detached);
}

/* ---- utility statements --------------------------------------------------------------- */

static ProcessUtility_hook_type previous_process_utility = NULL;

/* Returns whether a statement copies a guard index for CREATE TABLE ... LIKE. */
static bool
IsCopyOfGuardIndex(const Node *statement, ProcessUtilityContext context)
{
	const IndexStmt *index = (const IndexStmt *) statement;

	return context == PROCESS_UTILITY_SUBCOMMAND && IsA(statement, IndexStmt) &&
		   index->transformed && index->accessMethod != NULL &&
		   strcmp(index->accessMethod, GUARD_ACCESS_METHOD) == 0;
}

static void
UnguardedProcessUtility(PlannedStmt *statement, const char *query,
#if PG_VERSION_NUM >= 140000
						bool read_only_tree,
#endif
						ProcessUtilityContext context, ParamListInfo params,
						QueryEnvironment *environment, DestReceiver *dest,
						QueryCompletion *completion)
{
	const ProcessUtility_hook_type next =
		previous_process_utility != NULL ? previous_process_utility : standard_ProcessUtility;
	Node *tree = statement->utilityStmt;

	if (IsCopyOfGuardIndex(tree, context))
	{
		ereport(NOTICE, (errmsg("the guard of the table in LIKE is not copied to table \"%s\"",
								((const IndexStmt *) tree)->relation->relname),
						 errhint("Call dedup_guard() to guard the new table.")));
		return;
	}
	if (context != PROCESS_UTILITY_SUBCOMMAND)
	{
		ForgetMadeTriggers();
		if (first_transaction && unseen_before == InvalidCommandId && IsTransactionState())
			unseen_before = GetCurrentCommandId(false);
	}
	if (IsA(tree, AlterTableStmt))
		LockForAttach((const AlterTableStmt *) tree);
	next(statement, query,
#if PG_VERSION_NUM >= 140000
		 read_only_tree,
#endif
		 context, params, environment, dest, completion);
	if (IsA(tree, AlterTableStmt))
		LookAtDetached((const AlterTableStmt *) tree);
	if (context == PROCESS_UTILITY_TOPLEVEL && new_children != NIL && IsTransactionState())
		LookAtNewChildren();
}

/* ---- ends of transactions ------------------------------------------------------------- */

void
LookAtUnguarded(void)
{
	if (new_children != NIL)
		LookAtNewChildren();
	if (first_transaction && changed && TransactionIdIsValid(GetTopTransactionIdIfAny()))
		LookAtFirstTransaction();
}

void
ForgetUnguarded(SubTransactionId id)
{
	ListCell *cell;

	if (id == TopSubTransactionId)
	{
		ForgetMadeTriggers();
		new_children = NIL;
		changed = false;
		first_transaction = first_transaction && unseen_before == InvalidCommandId &&
							loaded_at == GetCurrentStatementStartTimestamp();
		return;
	}
	foreach(cell, new_children)
		if (((const NewChild *) lfirst(cell))->subid >= id)
			new_children = foreach_delete_current(new_children, cell);
}

void
InitGuardUnguarded(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = UnguardedProcessUtility;
	first_transaction = IsTransactionState();
	loaded_at = GetCurrentStatementStartTimestamp();
	if (first_transaction)
		CacheRegisterRelcacheCallback(AtRelationChange, (Datum) 0);
}
