/*
 * Makes and drops the guards of tables that inherit from a guarded table; see inherit.hpp.
 *
 * A clone is made from the text that the server prints for the parent's triggers, with the rights
 * of the child's owner. So its objects are those that a dump of the child contains, and that
 * TimescaleDB makes for its chunks.
 *
 * Children that are made or attached later are found by the extension's event trigger at the end of
 * the command, so that this also works in a session that has not loaded the library. A restored
 * dump makes all tables before it makes the first trigger, so nothing is cloned then.
 */
#include "guard/inherit.hpp"
#include "guard/load.hpp"
#include "guard/request.hpp"
#include "guard/search.hpp"
#include "guard/truncation.hpp"

extern "C" {
#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_utilcmd.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
}

/* ---- the objects of a table's guard -------------------------------------------------- */

namespace
{

struct RowTrigger
{
	Oid trigger;
	Oid function;
	char enabled;
};

} /* namespace */

/* Returns the triggers of a table's guard that fire for each row, or all of them. */
static List *
TriggersOfGuard(Oid table, bool all)
{
	Relation catalog = table_open(TriggerRelationId, AccessShareLock);
	List *triggers = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(catalog, TriggerRelidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
		RowTrigger *trigger;

		if ((!all && !TRIGGER_FOR_ROW(form->tgtype)) || !IsGuardTriggerFunction(form->tgfoid))
			continue;
		trigger = (RowTrigger *) palloc(sizeof(RowTrigger));
		*trigger = {form->oid, form->tgfoid, form->tgenabled};
		triggers = lappend(triggers, trigger);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return triggers;
}

/* Returns the guard indexes of a table; `rel` is open. */
static List *
IndexesOfGuard(Relation rel)
{
	const Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List *indexes = RelationGetIndexList(rel);
	List *found = NIL;
	ListCell *cell;

	foreach(cell, indexes)
	{
		Relation index = index_open(lfirst_oid(cell), AccessShareLock);

		if (index->rd_rel->relam == access_method)
			found = lappend_oid(found, lfirst_oid(cell));
		index_close(index, NoLock);
	}
	list_free(indexes);
	return found;
}

/* Returns whether a table has the triggers that every guard has. */
static bool
HasGuard(Oid table)
{
	const GuardRows rows = ReadGuardRows(table);

	return OidIsValid(rows.write) && OidIsValid(rows.remove);
}

/* ---- making --------------------------------------------------------------------------- */

/* Parses one command. */
static Node *
ParseCommand(const char *text)
{
	List *parsed = pg_parse_query(text);

	if (list_length(parsed) != 1)
		elog(ERROR, "unexpected command \"%s\"", text);
	return linitial_node(RawStmt, parsed)->stmt;
}

static void
CloneTrigger(const RowTrigger &trigger, Oid child)
{
	const char *source = TextDatumGetCString(
		DirectFunctionCall1(pg_get_triggerdef, ObjectIdGetDatum(trigger.trigger)));
	CreateTrigStmt *statement = castNode(CreateTrigStmt, ParseCommand(source));

	statement->relation =
		makeRangeVar(get_namespace_name(get_rel_namespace(child)), get_rel_name(child), -1);
	(void) CreateTriggerFiringOn(statement, source, child, InvalidOid, InvalidOid, InvalidOid,
								 trigger.function, InvalidOid, NULL, false, false, trigger.enabled);
	CommandCounterIncrement();
}

/* `source` is the command. */
static void
MakeIndex(Oid table, IndexStmt *statement, const char *source)
{
	statement = transformIndexStmt(table, statement, source);
	(void) DEFINE_INDEX(table, statement);
	CommandCounterIncrement();
}

/* Makes a guard index with the columns of the parent's, unless the child has one. */
static void
CloneGuardIndex(Oid parent, Oid child)
{
	Relation rel = table_open(parent, AccessShareLock);
	List *indexes = IndexesOfGuard(rel);
	StringInfoData text;
	Relation index;
	bool has;

	table_close(rel, NoLock);
	rel = table_open(child, NoLock);
	has = IndexesOfGuard(rel) != NIL;
	table_close(rel, NoLock);
	if (has || indexes == NIL)
		return;
	index = index_open(linitial_oid(indexes), AccessShareLock);
	initStringInfo(&text);
	appendStringInfo(&text, "CREATE INDEX %s ON %s USING " GUARD_ACCESS_METHOD " (",
					 quote_identifier(ChooseRelationName(get_rel_name(child), NULL, "dedup_guard",
														 get_rel_namespace(child), false)),
					 QualifiedGuardName(child));
	for (int i = 0; i < index->rd_index->indnatts; i++)
		appendStringInfo(&text, "%s%s", i == 0 ? "" : ", ",
						 quote_identifier(
							 get_attname(parent, index->rd_index->indkey.values[i], false)));
	appendStringInfoChar(&text, ')');
	index_close(index, NoLock);
	MakeIndex(child, castNode(IndexStmt, ParseCommand(text.data)), text.data);
}

/*
 * Gives a locked table a clone of its parent's guard, unless it has the guard. Does so with the
 * rights of the table's owner, as the server does for triggers of partitions.
 */
static void
CloneGuard(Oid parent, Oid child)
{
	List *triggers;
	ListCell *cell;
	Oid user;
	int security;

	/* The index is made first: see UncoverUnseen() (emptied.cpp). */
	CloneGuardIndex(parent, child);
	if (HasGuardOf(child, parent))
		return;
	triggers = TriggersOfGuard(parent, false);
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(OwnerOfTable(child), security | SECURITY_LOCAL_USERID_CHANGE);
	foreach(cell, triggers)
		CloneTrigger(*(const RowTrigger *) lfirst(cell), child);
	SetUserIdAndSecContext(user, security);
}

void
GuardInheritors(Oid table)
{
	/* Each parent comes before its children. */
	List *tables = find_all_inheritors(table, NoLock, NULL);
	ListCell *cell;

	foreach(cell, tables)
		if (lfirst_oid(cell) != table)
			CloneGuard(table, lfirst_oid(cell));
}

/* ---- dropping ------------------------------------------------------------------------- */

List *
LockClones(Oid table)
{
	List *clones = NIL;
	List *tables;
	ListCell *cell;

	if (get_rel_relkind(table) != RELKIND_RELATION || !has_subclass(table))
		return NIL;
	tables = find_all_inheritors(table, AccessExclusiveLock, NULL);
	foreach(cell, tables)
		if (lfirst_oid(cell) != table && HasGuardOf(lfirst_oid(cell), table))
			clones = lappend_oid(clones, lfirst_oid(cell));
	return clones;
}

void
DropGuardsOf(const List *tables, Oid function)
{
	ListCell *cell;

	foreach(cell, tables)
	{
		ObjectAddresses *objects = new_object_addresses();
		Relation rel = table_open(lfirst_oid(cell), NoLock);
		ListCell *part;

		foreach(part, TriggersOfGuard(lfirst_oid(cell), true))
		{
			const RowTrigger *trigger = (const RowTrigger *) lfirst(part);
			const ObjectAddress address = {TriggerRelationId, trigger->trigger, 0};

			if (trigger->function == function)
				add_exact_object_address(&address, objects);
		}
		foreach(part, IndexesOfGuard(rel))
		{
			const ObjectAddress address = {RelationRelationId, lfirst_oid(part), 0};

			add_exact_object_address(&address, objects);
		}
		table_close(rel, NoLock);
		performMultipleDeletions(objects, DROP_RESTRICT, 0);
		free_object_addresses(objects);
		CommandCounterIncrement();
	}
}

/* ---- tables that become children ------------------------------------------------------- */

[[noreturn]] static void
RefuseChild(Oid child, Oid parent, const char *detail, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("table \"%s\" cannot inherit from the guarded table \"%s\"",
						   get_rel_name(child), get_rel_name(parent)),
					errdetail_internal("%s", detail), hint != NULL ? errhint("%s", hint) : 0));
	pg_unreachable();
}

/*
 * Returns the parent whose guard a table must get, or InvalidOid. Raises an error if there are
 * several guards.
 */
static Oid
GuardedParentOf(Oid child)
{
	List *parents = ParentsOf(child);
	Oid parent = InvalidOid;
	ListCell *cell;

	foreach(cell, parents)
	{
		const Oid other = lfirst_oid(cell);

		if (!HasGuard(other))
			continue;
		if (!OidIsValid(parent))
			parent = other;
		else if (UppermostGuarded(other) != UppermostGuarded(parent))
			RefuseChild(
				child, other,
				psprintf(_("It inherits from table \"%s\" already, which has another guard."),
						 get_rel_name(parent)),
				_("Call dedup_unguard() for one of them first."));
	}
	return parent;
}

/* Gives a table the guard of its parent, if the parent has one. Returns the parent. */
static Oid
GuardChild(Oid child)
{
	const Oid parent = GuardedParentOf(child);
	const char *flaw;
	Relation rel;
	bool has;

	if (!OidIsValid(parent))
		return InvalidOid;
	rel = table_open(child, NoLock);
	flaw = WhyUnguardable(rel);
	has = OidIsValid(FindGuardFunction(rel, false));
	table_close(rel, NoLock);
	if (flaw != NULL)
		RefuseChild(child, parent, flaw, NULL);
	if (has && !HasGuardOf(child, parent))
		RefuseChild(child, parent, _("It has a guard of its own."),
					psprintf(_("Call dedup_unguard() for table \"%s\" first."),
							 get_rel_name(child)));
	CloneGuard(parent, child);
	return parent;
}

/* Makes an index like the parent's with which an exact guard can search a new table. */
static void
CloneSearchIndex(Oid parent, Oid child)
{
	const GuardRows rows = ReadGuardRows(parent);
	Relation rel = table_open(parent, NoLock);
	Relation new_rel = table_open(child, NoLock);
	GuardClause mapped;
	const bool needs = rows.options.exact && MapGuardClause(rows.clause, rel, new_rel, &mapped) &&
					   !HasSearchIndex(new_rel, mapped);
	const Oid index = needs ? FindSearchIndex(rel, rows.clause) : InvalidOid;

	table_close(new_rel, NoLock);
	if (OidIsValid(index))
	{
		const char *source =
			TextDatumGetCString(DirectFunctionCall1(pg_get_indexdef, ObjectIdGetDatum(index)));
		IndexStmt *statement = castNode(IndexStmt, ParseCommand(source));

		statement->relation =
			makeRangeVar(get_namespace_name(get_rel_namespace(child)), get_rel_name(child), -1);
		statement->idxname = NULL;
		statement->unique = false;
		statement->tableSpace = NULL;
		MakeIndex(child, statement, source);
	}
	table_close(rel, NoLock);
}

/* Handles a table that was made as a child. */
static void
ChildMade(Oid child)
{
	const Oid parent = GuardChild(child);

	if (OidIsValid(parent))
		CloneSearchIndex(parent, child);
}

/* Returns whether the guard of a table is that of a parent other than this one. */
static bool
HasOtherGuardedParent(Oid child, Oid parent)
{
	List *parents = ParentsOf(child);
	ListCell *cell;

	foreach(cell, parents)
		if (lfirst_oid(cell) != parent && HasGuardOf(child, lfirst_oid(cell)))
			return true;
	return false;
}

/* Handles a locked table that has become a child: it and the tables below it get the guard. */
static void
ChildAttached(Oid child, Oid to)
{
	const Oid parent = GuardedParentOf(child);
	Oid guarded;
	GuardRows rows;
	List *tables;
	ListCell *cell;
	Relation rel;

	/*
	 * A guard that it has already may have been made by hand, and may not have seen all of its
	 * rows.
	 */
	if (!OidIsValid(parent) || HasOtherGuardedParent(child, to))
		return;
	tables = find_all_inheritors(child, ShareRowExclusiveLock, NULL);
	foreach(cell, tables)
		(void) GuardChild(lfirst_oid(cell));
	guarded = UppermostGuarded(parent);
	rows = ReadGuardRows(child);
	rel = table_open(child, NoLock);
	if (IsGuardClauseOf(rel, rows.clause) &&
		!LoadAttachedRows(rel, rows.clause, guarded, "ALTER TABLE ... INHERIT") &&
		rows.remove_enabled != TRIGGER_DISABLED && TableOwnerMayAdd(guarded, rows.clause.filter))
		WarnOfBroughtRows(rel, rows.clause, FindGuardFunction(rel, false));
	table_close(rel, NoLock);
}

/* Handles a locked table that is no longer a child of another one. */
static void
ChildDetached(Oid child, Oid parent)
{
	List *tables;
	List *left = NIL;
	ListCell *cell;
	GuardRows rows;
	Oid guarded;
	Oid function;
	Relation rel;

	if (!HasGuardOf(child, parent))
		return;
	rows = ReadGuardRows(parent);
	guarded = UppermostGuarded(parent);
	rel = table_open(child, NoLock);
	function = FindGuardFunction(rel, false);
	table_close(rel, NoLock);
	/* Each parent comes before its children. */
	tables = find_all_inheritors(child, AccessExclusiveLock, NULL);
	foreach(cell, tables)
	{
		const Oid table = lfirst_oid(cell);
		List *parents = ParentsOf(table);
		bool stays = !HasGuardOf(table, parent);
		ListCell *above;

		/* It may also be below the guarded table by another path. */
		foreach(above, parents)
			stays = stays || (!list_member_oid(left, lfirst_oid(above)) &&
							  HasGuardOf(table, lfirst_oid(above)));
		if (!stays)
			left = lappend_oid(left, table);
	}
	foreach(cell, left)
		GuardedTableLeaves(lfirst_oid(cell));
	DropGuardsOf(left, function);
	foreach(cell, left)
	{
		if (rows.options.forget && !HasNoBlocks(lfirst_oid(cell)))
			NoticeKeptKeys(lfirst_oid(cell), rows.clause.filter);
		ereport(NOTICE,
				(errmsg("table \"%s\" is not guarded any more", get_rel_name(lfirst_oid(cell))),
				 errdetail("Its guard was that of table \"%s\".", get_rel_name(guarded)),
				 errhint("Call dedup_guard() to guard the table.")));
	}
}

/* ---- the event trigger ------------------------------------------------------------------ */

/* Handles a table that a command has just made. */
static void
TableMade(const CreateStmt *statement, Oid schema)
{
	Oid child;
	Relation rel;
	bool made;

	if (statement->inhRelations == NIL || statement->partbound != NULL)
		return;
	if (!OidIsValid(schema))
		schema = RangeVarGetCreationNamespace(statement->relation);
	child = get_relname_relid(statement->relation->relname, schema);
	rel = OidIsValid(child) ? RelationIdGetRelation(child) : NULL;
	if (!RelationIsValid(rel))
		return;
	/* IF NOT EXISTS: the table may have existed before, and is not locked then. */
	made = rel->rd_createSubid != InvalidSubTransactionId;
	RelationClose(rel);
	if (made)
		ChildMade(child);
}

static void
SchemaMade(const CreateSchemaStmt *statement)
{
	const char *name = statement->schemaname;
	Oid schema;
	ListCell *cell;

	if (name == NULL && statement->authrole != NULL)
		name = get_rolespec_name(statement->authrole);
	schema = name == NULL ? InvalidOid : get_namespace_oid(name, true);
	foreach(cell, statement->schemaElts)
		if (OidIsValid(schema) && IsA(lfirst(cell), CreateStmt))
			TableMade((const CreateStmt *) lfirst(cell), schema);
}

static void
TableAltered(const AlterTableStmt *statement)
{
	ListCell *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = (const AlterTableCmd *) lfirst(cell);
		Oid child;
		Oid parent;

		if (command->subtype != AT_AddInherit && command->subtype != AT_DropInherit)
			continue;
		child = RangeVarGetRelid(statement->relation, NoLock, true);
		/* Code that the command has called may have changed the meaning of the name. */
		if (!OidIsValid(child) || !OwnsTable(child))
			continue;
		parent = RangeVarGetRelid((const RangeVar *) command->def, NoLock, true);
		if (!OidIsValid(parent))
			continue;
		if (command->subtype == AT_AddInherit)
			ChildAttached(child, parent);
		else
			ChildDetached(child, parent);
	}
}

/*
 * dedup_guard_inherited() returns event_trigger: fires at the end of commands that can make a table
 * the child of another one
 */
DEDUP_FUNCTION(dedup_guard_inherited)
{
	const EventTriggerData *data = (const EventTriggerData *) fcinfo->context;
	const Node *statement;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function %s must be called as an event trigger",
							   "dedup_guard_inherited")));
	statement = data->parsetree;
	if (statement == NULL || IsBinaryUpgrade || strcmp(data->event, "ddl_command_end") != 0)
		PG_RETURN_NULL();
	NothingDetachedBy(statement);
	if (IsA(statement, CreateStmt))
		TableMade((const CreateStmt *) statement, InvalidOid);
	else if (IsA(statement, CreateForeignTableStmt))
		TableMade(&((const CreateForeignTableStmt *) statement)->base, InvalidOid);
	else if (IsA(statement, CreateSchemaStmt))
		SchemaMade((const CreateSchemaStmt *) statement);
	else if (IsA(statement, AlterTableStmt))
		TableAltered((const AlterTableStmt *) statement);
	PG_RETURN_NULL();
}
