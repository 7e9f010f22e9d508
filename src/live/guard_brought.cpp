/*
 * Rows that a guarded table brings along, and tables that look guarded and are not.
 *
 * A live filter does not learn the keys of rows that are in a table before the table is
 * guarded, or before it is attached as a partition. A WARNING then says how many rows
 * these are, and which statement loads their keys. A NOTICE says that a partition which
 * was detached is not guarded any more, and that CREATE TABLE ... LIKE does not copy a
 * guard. A WARNING names tables that inherit from a guarded table and are not guarded.
 *
 * ATTACH PARTITION clones the triggers of the guard, which the hook for new objects
 * reports (refuse.cpp). The server has opened the guard index of the partitioned table by
 * then, so the library is loaded. CREATE TABLE ... LIKE opens the index that it copies
 * before it runs the command that makes the copy. DETACH PARTITION opens the index too
 * late for any hook; so the end of the transaction that has loaded the library looks at
 * the relations that the transaction has changed.
 */
#include "live/truncation.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "commands/trigger.h"
#include "nodes/parsenodes.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
}

/* ---- counting ----------------------------------------------------------------- */

/*
 * At most 32 MB of a table are read, in pieces of 16 pages that are spread evenly: the
 * table is locked meanwhile.
 */
constexpr int64 MOST_BLOCKS = 4096;
constexpr BlockNumber PIECE = 16;

namespace
{

/* A key as one of several tables has it, and what is counted in them. */
struct BroughtRows
{
	LiveFilter	filter;
	uint32		generation;
	KeyPlan    *keys;
	int			columns;
	const char *names[INDEX_MAX_KEYS];
	int64		blocks;			/* of all tables */
	int64		blocks_read;
	double		credit;			/* a piece is read when this comes to 1 */
	uint64	   *unknown;		/* hashes that the filter does not have, one for each row */
	int			rows;
	int			room;
};

}							/* namespace */

/* The tables that a guard of this one covers and that have rows; all are locked. */
static List *
CoveredTables(Relation rel)
{
	List	   *tables = rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE ?
		list_make1_oid(RelationGetRelid(rel)) :
		find_all_inheritors(RelationGetRelid(rel), NoLock, NULL);
	List	   *covered = NIL;
	ListCell   *cell;

	foreach(cell, tables)
	{
		Relation	table = table_open(lfirst_oid(cell), NoLock);

		if (table->rd_rel->relkind == RELKIND_RELATION && table->rd_rel->relam == HEAP_TABLE_AM_OID)
			covered = lappend_oid(covered, lfirst_oid(cell));
		table_close(table, NoLock);
	}
	list_free(tables);
	return covered;
}

/* Looks at the rows of a scan. */
static void
CountRows(BroughtRows *brought, TableScanDesc scan, TupleTableSlot *slot,
		  const AttrNumber *attnums, MemoryContext row_context)
{
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		MemoryContext old = MemoryContextSwitchTo(row_context);
		NullableDatum columns[INDEX_MAX_KEYS];
		uint64		hash;
		bool		unknown;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < brought->columns; i++)
			columns[i].value = slot_getattr(slot, attnums[i], &columns[i].isnull);
		unknown = HashColumns(brought->keys, columns, NullKeys::Skip, brought->filter.key_seed(),
							  &hash) &&
			!LiveSeen(brought->filter, hash, brought->generation);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row_context);
		if (unknown)
			*OneMore(old, &brought->unknown, &brought->rows, &brought->room) = hash;
	}
}

/*
 * Looks at one table, as its owner: hash functions of types are code of users. Row
 * security does not apply to a scan like this one.
 */
static void
CountTable(BroughtRows *brought, Oid relid, Snapshot snapshot)
{
	Relation	heap = table_open(relid, NoLock);
	const BlockNumber blocks = RelationGetNumberOfBlocks(heap);
	const double share = Min(1.0, (double) MOST_BLOCKS / (double) brought->blocks);
	AttrNumber	attnums[INDEX_MAX_KEYS];
	MemoryContext row_context = AllocSetContextCreateInternal(CurrentMemoryContext,
															  "dedup_guard row",
															  ALLOCSET_DEFAULT_SIZES);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	TableScanDesc scan = table_beginscan_strat(heap, snapshot, 0, NULL, true, false);
	Oid			user;
	int			security;
	int			nest_level;

	for (int i = 0; i < brought->columns; i++)
		attnums[i] = get_attnum(relid, brought->names[i]);
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(heap->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#endif
	for (BlockNumber start = 0; start < blocks; start += PIECE)
	{
		const BlockNumber n = Min(PIECE, blocks - start);

		brought->credit += share;
		if (brought->credit < 1)
			continue;
		brought->credit -= 1;
		if (brought->blocks_read > 0)
			table_rescan(scan, NULL);
		heap_setscanlimits(scan, start, n);
		CountRows(brought, scan, slot, attnums, row_context);
		brought->blocks_read += n;
	}
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(row_context);
	table_close(heap, NoLock);
}

static int
CompareHashes(const void *left, const void *right)
{
	const uint64 a = *(const uint64 *) left;
	const uint64 b = *(const uint64 *) right;

	return a < b ? -1 : a > b;
}

/* How many of the rows have a key that another row before them has. */
static int
CountRepeated(BroughtRows *brought)
{
	int			repeated = 0;

	qsort(brought->unknown, (size_t) brought->rows, sizeof(uint64), CompareHashes);
	for (int i = 1; i < brought->rows; i++)
		repeated += brought->unknown[i] == brought->unknown[i - 1];
	return repeated;
}

/* Rounded to three digits. */
static int64
RoundedEstimate(double rows)
{
	double		unit = 1;

	while (rows / unit >= 999.5)
		unit *= 10;
	return (int64) (rint(rows / unit) * unit);
}

/* ---- warning ------------------------------------------------------------------- */

/* The statement that adds the keys of all rows to the filter, with qualified names. */
static char *
LoadStatement(Relation rel, const BroughtRows &brought, Oid function)
{
	StringInfoData text;
	const char *schema = get_namespace_name(get_func_namespace(function));

	initStringInfo(&text);
	appendStringInfo(&text, "SELECT count(*) FROM %s%s WHERE %s(%s::pg_catalog.regclass",
					 rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relhassubclass ? "ONLY " : "",
					 QualifiedGuardName(RelationGetRelid(rel)),
					 quote_qualified_identifier(schema, "is_new"),
					 quote_literal_cstr(QualifiedGuardName(RelationGetRelid(brought.filter.rel))));
	for (int i = 0; i < brought.columns; i++)
		appendStringInfo(&text, ", %s", quote_identifier(brought.names[i]));
	appendStringInfoString(&text, ");");
	return text.data;
}

/* What to know before the keys are loaded. */
static char *
BroughtDetail(const BroughtRows &brought, int repeated)
{
	const LiveParameters &parameters = brought.filter.parameters;
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, _("The guard does not refuse new rows with these keys."));
	if (repeated > 0)
		appendStringInfo(&text, ngettext(" %d of these rows repeats the key of another.",
										 " %d of these rows repeat the key of another.",
										 repeated), repeated);
	if (parameters.ttl != 0)
	{
		Interval	ttl = {};

		ttl.day = (int32) (parameters.ttl / USECS_PER_DAY);
		ttl.time = parameters.ttl % USECS_PER_DAY;
		appendStringInfo(&text, _(" The filter keeps a key that is loaded for %s from now; a condition can leave older rows out."),
						 DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&ttl))));
	}
	else if (parameters.forgets)
		appendStringInfo(&text, _(" The filter keeps the last " UINT64_FORMAT " keys."),
						 parameters.prototype_keys);
	return text.data;
}

static void
WarnOfUnknown(Relation rel, BroughtRows *brought, Oid function)
{
	const bool	exact = brought->blocks_read == brought->blocks;
	const int64 rows = exact ? brought->rows :
		RoundedEstimate((double) brought->rows * (double) brought->blocks / (double) brought->blocks_read);
	const char *hidden = check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED ?
		_(" Row-level security hides rows from this role: use one that it does not apply to.") : "";

	ereport(WARNING,
			(exact ?
			 errmsg_plural("live filter \"%s\" does not have the key of " INT64_FORMAT " row of table \"%s\"",
						   "live filter \"%s\" does not have the keys of " INT64_FORMAT " rows of table \"%s\"",
						   (unsigned long) rows, LiveName(brought->filter), rows,
						   RelationGetRelationName(rel)) :
			 errmsg("live filter \"%s\" does not have the keys of about " INT64_FORMAT " rows of table \"%s\"",
					LiveName(brought->filter), rows, RelationGetRelationName(rel)),
			 errdetail_internal("%s", BroughtDetail(*brought, exact ? CountRepeated(brought) : 0)),
			 errhint("To load the keys, run: %s%s", LoadStatement(rel, *brought, function), hidden)));
}

void
WarnOfBroughtRows(Relation rel, const GuardClause &clause, Oid function)
{
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_guard rows",
														  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	BroughtRows brought = {};
	List	   *tables = CoveredTables(rel);
	ListCell   *cell;

	foreach(cell, tables)
	{
		Relation	table = table_open(lfirst_oid(cell), NoLock);

		brought.blocks += RelationGetNumberOfBlocks(table);
		table_close(table, NoLock);
	}
	if (brought.blocks > 0)
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

		brought.filter = OpenLiveUnchecked(clause.filter, AccessShareLock);
		brought.generation = brought.filter.parameters.ttl == 0 ? 0 :
			LiveGeneration(brought.filter, GetCurrentTimestamp());
		brought.keys = MakeColumnsKeyPlan(context, clause.columns, clause.types, clause.collations);
		brought.columns = clause.columns;
		for (int i = 0; i < clause.columns; i++)
			brought.names[i] = get_attname(RelationGetRelid(rel), clause.attnums[i], false);
		/* Of a large table the middle of each stretch; of others every piece. */
		brought.credit = brought.blocks > MOST_BLOCKS ? 0.5 : 0;
		foreach(cell, tables)
			CountTable(&brought, lfirst_oid(cell), snapshot);
		UnregisterSnapshot(snapshot);
		if (brought.rows > 0)
			WarnOfUnknown(rel, &brought, function);
		CloseLive(brought.filter);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---- partitions that are attached ------------------------------------------------ */

/*
 * Triggers BEFORE DELETE of guards that the command which is running has made, from the
 * uppermost table down. Only the uppermost counts: its rows are those of all partitions.
 * In TopTransactionContext.
 */
static List *made_triggers = NIL;

static bool
IsGuardDeleteTrigger(Form_pg_trigger trigger)
{
	return trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_DELETE) &&
		IsGuardTriggerFunction(trigger->tgfoid);
}

/* Reads the clause of a trigger from its row of pg_trigger. */
static bool
ReadClauseOf(HeapTuple tuple, GuardClause *clause)
{
	Relation	catalog = table_open(TriggerRelationId, AccessShareLock);
	bool		isnull;
	Datum		qual = heap_getattr(tuple, Anum_pg_trigger_tgqual, RelationGetDescr(catalog), &isnull);

	table_close(catalog, AccessShareLock);
	return !isnull && ReadGuardClause(TextDatumGetCString(qual), clause);
}

void
GuardTriggerCreated(HeapTuple tuple)
{
	Form_pg_trigger trigger = (Form_pg_trigger) GETSTRUCT(tuple);
	MemoryContext old;
	GuardClause clause;
	Relation	rel;
	bool		cloned;

	if (IsBinaryUpgrade || !IsGuardDeleteTrigger(trigger))
		return;
	cloned = list_member_oid(made_triggers, trigger->tgparentid);
	old = MemoryContextSwitchTo(TopTransactionContext);
	made_triggers = cloned ? lappend_oid(made_triggers, trigger->oid) : list_make1_oid(trigger->oid);
	MemoryContextSwitchTo(old);

	/* dedup_guard() looks at the rows itself; a restore has loaded the filter. */
	if (cloned || !OidIsValid(trigger->tgparentid) || trigger->tgenabled == TRIGGER_DISABLED)
		return;
	if (!ReadClauseOf(tuple, &clause))
		return;
	rel = table_open(trigger->tgrelid, NoLock);
	if (IsGuardClauseOf(rel, clause) &&
		TableOwnerMayAdd(GuardedTable(trigger->tgparentid), clause.filter))
		WarnOfBroughtRows(rel, clause, trigger->tgfoid);
	table_close(rel, NoLock);
}

/* ---- tables that are not guarded ---------------------------------------------------- */

namespace
{

/* A table that has become a child of a table that is not partitioned. */
struct NewChild
{
	Oid			child;
	Oid			parent;
	SubTransactionId subid;
};

}							/* namespace */

/* Looked at when the command is over: it may guard the child yet. In TopTransactionContext. */
static List *new_children = NIL;

/* The guard of a table, whether its triggers fire in this session or not; or NULL. */
static const GuardPlan *
GuardOf(Relation rel)
{
	const Oid	function = FindGuardFunction(rel, false);

	return OidIsValid(function) ? FindGuardPlan(rel, function) : NULL;
}

/* The filter of a table's guard, or InvalidOid. */
static Oid
GuardFilterOf(Oid relid)
{
	Relation	rel = OidIsValid(relid) ? RelationIdGetRelation(relid) : NULL;
	const GuardPlan *plan = RelationIsValid(rel) ? GuardOf(rel) : NULL;

	if (RelationIsValid(rel))
		RelationClose(rel);
	return plan != NULL ? plan->clause.filter : InvalidOid;
}

/* The names of tables, the first ten of them. */
static char *
TableNames(const List *tables)
{
	StringInfoData names;
	ListCell   *cell;
	int			n = 0;

	initStringInfo(&names);
	foreach(cell, tables)
	{
		if (n == 10)
		{
			appendStringInfo(&names, _(" and %d more"), list_length(tables) - n);
			break;
		}
		appendStringInfo(&names, "%s%s", n++ == 0 ? "" : ", ", QualifiedGuardName(lfirst_oid(cell)));
	}
	return names.data;
}

static void
WarnOfChildren(Oid parent, const List *children)
{
	ereport(WARNING,
			(errmsg_plural("a table that inherits from \"%s\" is not guarded",
						   "tables that inherit from \"%s\" are not guarded",
						   (unsigned long) list_length(children), get_rel_name(parent)),
			 errdetail("A guard covers the partitions of a partitioned table, but not the children of another table. Not guarded: %s.",
					   TableNames(children)),
			 errhint("Call dedup_guard() for each of them.")));
}

void
WarnOfUnguardedChildren(Relation rel, Oid filter)
{
	List	   *children;
	List	   *unguarded = NIL;
	ListCell   *cell;

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
	NewChild   *pair;

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
	List	   *pairs = new_children;
	ListCell   *cell;

	new_children = NIL;
	foreach(cell, pairs)
	{
		const NewChild *pair = (const NewChild *) lfirst(cell);
		const Oid	filter = GuardFilterOf(pair->parent);

		/* NO INHERIT changes inheritance, too. */
		if (OidIsValid(filter) && GuardFilterOf(pair->child) != filter &&
			list_member_oid(find_inheritance_children(pair->parent, NoLock), pair->child))
			WarnOfChildren(pair->parent, list_make1_oid(pair->child));
	}
}

/* ---- partitions that are detached -------------------------------------------------- */

/* A guard index of a table that has no trigger of a guard; or InvalidOid. */
static Oid
IdleGuardIndex(Oid relid)
{
	const Oid	access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);
	Relation	rel = RelationIdGetRelation(relid);
	List	   *indexes;
	ListCell   *cell;
	Oid			idle = InvalidOid;

	if (!RelationIsValid(rel))
		return InvalidOid;
	indexes = RelationGetIndexList(rel);
	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));

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

static void
NoticeDetached(Oid relid)
{
	const Oid	index = IdleGuardIndex(relid);

	if (OidIsValid(index))
		ereport(NOTICE,
				(errmsg("table \"%s\" is not guarded any more", get_rel_name(relid)),
				 errdetail("Its guard was that of the partitioned table. Index \"%s\" stays, and refuses nothing without the guard's triggers.",
						   get_rel_name(index)),
				 errhint("Call dedup_guard() to guard the table, or DROP INDEX %s.",
						 QualifiedGuardName(index))));
}

/* Tables that a statement which has run has detached. */
static void
LookAtDetached(const AlterTableStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = (const AlterTableCmd *) lfirst(cell);
		Oid			relid;

#if PG_VERSION_NUM >= 140000
		if (command->subtype != AT_DetachPartition && command->subtype != AT_DetachPartitionFinalize)
			continue;
#else
		if (command->subtype != AT_DetachPartition)
			continue;
#endif
		relid = RangeVarGetRelid(((const PartitionCmd *) command->def)->name, NoLock, true);
		if (OidIsValid(relid) && 
			OidIsValid(GuardFilterOf(RangeVarGetRelid(statement->relation, NoLock, true))))
			NoticeDetached(relid);
	}
}

/*
 * The relations that the transaction which has loaded the library has changed, or others
 * meanwhile; up to so many. DETACH PARTITION CONCURRENTLY is several transactions, so it
 * goes on for the rest of the statement.
 */
static bool first_transaction = false;
static TimestampTz loaded_at;
static Oid	changed[64];
static int	changes = 0;

static void
AtRelationChange(Datum, Oid relid)
{
	if (!first_transaction || !OidIsValid(relid) || changes == lengthof(changed))
		return;
	for (int i = 0; i < changes; i++)
		if (changed[i] == relid)
			return;
	changed[changes++] = relid;
}

/* Whether this transaction has detached a guard index from one above it. */
static bool
WasIndexDetached(Oid relid, Oid access_method)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		detached = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_class) GETSTRUCT(tuple))->relam == access_method &&
		!((Form_pg_class) GETSTRUCT(tuple))->relispartition &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		HeapTuple	before;

		/* What there was before this transaction's first command. */
		snapshot->curcid = FirstCommandId;
		before = ReadClass(relid, snapshot);
		UnregisterSnapshot(snapshot);
		detached = HeapTupleIsValid(before) && ((Form_pg_class) GETSTRUCT(before))->relispartition;
	}
	ReleaseSysCache(tuple);
	return detached;
}

/* Tables that were detached by the statement that has loaded the library. */
static void
LookAtFirstTransaction(void)
{
	const int	n = changes;

	if (n == 0 || !TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	const Oid	access_method = get_index_am_oid(GUARD_ACCESS_METHOD, true);

	for (int i = 0; i < n && OidIsValid(access_method); i++)
		if (WasIndexDetached(changed[i], access_method))
			NoticeDetached(IndexGetRelation(changed[i], true));
}

/* ---- utility statements --------------------------------------------------------------- */

static ProcessUtility_hook_type previous_process_utility = NULL;

/* Whether a statement is the copy of a guard index for CREATE TABLE ... LIKE. */
static bool
IsCopyOfGuardIndex(const Node *statement, ProcessUtilityContext context)
{
	const IndexStmt *index = (const IndexStmt *) statement;

	return context == PROCESS_UTILITY_SUBCOMMAND && IsA(statement, IndexStmt) &&
		index->transformed && index->accessMethod != NULL &&
		strcmp(index->accessMethod, GUARD_ACCESS_METHOD) == 0;
}

static void
BroughtProcessUtility(PlannedStmt *statement, const char *query,
#if PG_VERSION_NUM >= 140000
					  bool read_only_tree,
#endif
					  ProcessUtilityContext context, ParamListInfo params,
					  QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	const ProcessUtility_hook_type next = previous_process_utility != NULL ?
		previous_process_utility : standard_ProcessUtility;
	Node	   *tree = statement->utilityStmt;

	if (IsCopyOfGuardIndex(tree, context))
	{
		ereport(NOTICE,
				(errmsg("the guard of the table in LIKE is not copied to table \"%s\"",
						((const IndexStmt *) tree)->relation->relname),
				 errhint("Call dedup_guard() to guard the new table.")));
		return;
	}
	if (context != PROCESS_UTILITY_SUBCOMMAND)
		made_triggers = NIL;
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
	if (first_transaction)
		LookAtFirstTransaction();
}

void
ForgetBrought(SubTransactionId id)
{
	ListCell   *cell;

	if (id == TopSubTransactionId)
	{
		made_triggers = new_children = NIL;
		changes = 0;
		first_transaction = first_transaction && loaded_at == GetCurrentStatementStartTimestamp();
		return;
	}
	foreach(cell, new_children)
		if (((const NewChild *) lfirst(cell))->subid >= id)
			new_children = foreach_delete_current(new_children, cell);
}

void
InitGuardBrought(void)
{
	previous_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = BroughtProcessUtility;
	first_transaction = IsTransactionState();
	loaded_at = GetCurrentStatementStartTimestamp();
	if (first_transaction)
		CacheRegisterRelcacheCallback(AtRelationChange, (Datum) 0);
}
