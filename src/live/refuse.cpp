/*
 * Refuses statements that would give a live filter other columns, parameters or pages than the
 * access method made: DML, row locks and most of ALTER TABLE.
 *
 * The hooks are those of the executor and of object access, not ProcessUtility's. The library is
 * loaded when a backend first opens a live filter. That is after ProcessUtility has started the
 * command, but before the command calls these hooks. refuse_utility.cpp refuses some commands
 * earlier, if the library is loaded.
 *
 * Object access hooks run after the catalog row is written and before the command counter is
 * incremented. So rows are read with SnapshotSelf, while relcache entries still show the state
 * before the command.
 */
#include "live/refuse.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
}

static ExecutorStart_hook_type previous_executor_start = NULL;
static object_access_hook_type previous_object_access = NULL;

/* ---- helpers ---------------------------------------------------------------- */

/*
 * Returns the relcache entry of a live filter, to be closed with RelationClose(), or NULL for
 * anything else. The command that called the hook holds the lock.
 */
static Relation
LookAtLive(Oid relid)
{
	Relation rel;

	if (!OidIsValid(relid))
		return NULL;
	rel = RelationIdGetRelation(relid);
	if (!RelationIsValid(rel))
		return NULL;
	if (IsLiveRelation(rel))
		return rel;
	RelationClose(rel);
	return NULL;
}

/*
 * Returns whether the relation is opened anywhere else than in LookAtLive(). ALTER TABLE opens it.
 * DROP TABLE, and other commands that cascade to the whole relation, may not have opened it.
 */
static bool
IsHeldOpen(Relation rel)
{
	return rel->rd_refcnt > 1;
}

static const char *
ColumnName(Relation rel, int column)
{
	if (column < 1 || column > RelationGetNumberOfAttributes(rel))
		return "?";
	return NameStr(TupleDescAttr(RelationGetDescr(rel), column - 1)->attname);
}

/* ---- DML and row locks ------------------------------------------------------ */

/* Returns what the parsed statement does to a relation of its range table. */
static AclMode
RequiredPermissions(const PlannedStmt *statement, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, statement->rtable);

	return REQUIRED_PRIVILEGES(statement, rte);
}

static void
RefuseChange(const PlannedStmt *statement, Index rti, Relation rel)
{
	AclMode permissions = RequiredPermissions(statement, rti);

	if (IS_MERGE(statement->commandType) && !statement->hasModifyingCTE)
		permissions = ACL_NO_RIGHTS;
	/* INSERT ... ON CONFLICT DO UPDATE asks for two. */
	if ((permissions & ACL_INSERT) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot insert into live filter \"%s\"", RelationGetRelationName(rel)),
				 errhint(
					 "Use is_new() to add a key, or dedup_load() to add those of a dedup_filter. A "
					 "dump of a live filter is restored by COPY: make it without --inserts.")));
	if ((permissions & ACL_UPDATE) != 0)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("cannot update live filter \"%s\"", RelationGetRelationName(rel)),
						errhint("Use is_new() to add a key, or dedup_forget() to remove one.")));
	if ((permissions & ACL_DELETE) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot delete from live filter \"%s\"", RelationGetRelationName(rel)),
				 errhint("Use dedup_forget() to remove a key, or TRUNCATE to empty the filter.")));
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot merge into live filter \"%s\"", RelationGetRelationName(rel)),
			 errhint(
				 "Use is_new() or dedup_load() to add keys, or dedup_forget() to remove them.")));
}

/*
 * This runs after the executor has started, so that it has checked privileges and opened the
 * relations that are checked here.
 */
static void
RefuseStatement(const QueryDesc *query)
{
	const PlannedStmt *statement = query->plannedstmt;
	const EState *estate = query->estate;
	ListCell *cell;

	if (estate == NULL || estate->es_relations == NULL)
		return;
	FOREACH_TARGET(rti, statement)
	{
		Relation rel = estate->es_relations[rti - 1];

		/* A pruned partition is not open. */
		if (rel != NULL && IsLiveRelation(rel))
			RefuseChange(statement, (Index) rti, rel);
	}
	foreach(cell, statement->rowMarks)
	{
		const PlanRowMark *mark = (const PlanRowMark *) lfirst(cell);
		Relation rel;

		/* Other row marks only read rows again, for a row of another relation. */
		if (mark->isParent || !RowMarkRequiresRowShareLock(mark->markType))
			continue;
		rel = estate->es_relations[mark->rti - 1];
		if (rel != NULL && IsLiveRelation(rel))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("cannot lock rows of live filter \"%s\"", RelationGetRelationName(rel)),
					 errhint("Use LOCK TABLE to lock the filter.")));
	}
}

static void
LiveExecutorStart(QueryDesc *query, int eflags)
{
	if (previous_executor_start != NULL)
		previous_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (HAS_TARGETS(query->plannedstmt) || query->plannedstmt->rowMarks != NIL)
		RefuseStatement(query);
}

/* ---- relations and columns -------------------------------------------------- */

/*
 * Handles a relation that a rewrite makes, to fill it and to swap it with the old one. A rewrite
 * that keeps access method and persistence belongs to VACUUM FULL, or to ALTER TABLE of columns,
 * which other checks refuse.
 */
static void
RefuseRewrite(Relation made, Oid original)
{
	Relation rel = RelationIdGetRelation(original);

	if (!RelationIsValid(rel))
		return;
	if (IsLiveRelation(rel) || IsLiveRelation(made))
	{
		if (!IsLiveRelation(rel))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot make table \"%s\" a live filter", RelationGetRelationName(rel)),
					 errhint("Use dedup_create() to make a live filter.")));
		if (rel->rd_rel->relam != made->rd_rel->relam)
			ereport(
				ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change the access method of live filter \"%s\"",
						RelationGetRelationName(rel)),
				 errhint(
					 "Use dedup_snapshot() to get its keys as a value that any table can hold.")));
		if (rel->rd_rel->relpersistence != made->rd_rel->relpersistence)
		{
			bool unlogged = made->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;

			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 unlogged ? errmsg("cannot make live filter \"%s\" unlogged",
									   RelationGetRelationName(rel))
							  : errmsg("cannot make live filter \"%s\" logged",
									   RelationGetRelationName(rel)),
					 unlogged
						 ? errhint("Make another filter with dedup_create(..., unlogged => true).")
						 : errhint("Make another filter with dedup_create().")));
		}
	}
	RelationClose(rel);
}

void
RefuseIndexOn(const char *filter)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot create an index on live filter \"%s\"", filter),
			 errhint(
				 "A live filter needs none: is_new() and dedup_seen() find a key by its hash.")));
}

static void
RefuseIndex(Oid index)
{
	HeapTuple tuple =
		ReadCatalog(IndexRelationId, IndexRelidIndexId, Anum_pg_index_indexrelid, index);
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	rel = LookAtLive(((Form_pg_index) GETSTRUCT(tuple))->indrelid);
	if (rel != NULL)
		RefuseIndexOn(RelationGetRelationName(rel));
	heap_freetuple(tuple);
}

static void
RelationCreated(Oid relid, bool is_internal)
{
	Relation rel = RelationIdGetRelation(relid);
	const char *prefix = "pg_temp_";

	if (!RelationIsValid(rel))
		return;
	if (rel->rd_rel->relkind == RELKIND_INDEX)
		RefuseIndex(relid);

	/*
	 * This is the name that make_new_heap() gives. Users can give such a name too, but not
	 * internally.
	 */
	else if (is_internal && strncmp(RelationGetRelationName(rel), prefix, strlen(prefix)) == 0)
		RefuseRewrite(rel, (Oid) strtoul(RelationGetRelationName(rel) + strlen(prefix), NULL, 10));
	RelationClose(rel);
}

/*
 * Only row security is refused here. Some servers do not call the hook for it (18 does, 15 does
 * not). There, it hides a filter's rows from other roles' SELECT, and does no harm.
 */
static void
RelationAltered(Relation rel)
{
	HeapTuple tuple =
		ReadCatalog(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, RelationGetRelid(rel));
	Form_pg_class now;

	if (!HeapTupleIsValid(tuple))
		return;
	now = (Form_pg_class) GETSTRUCT(tuple);
	if ((now->relrowsecurity && !rel->rd_rel->relrowsecurity) ||
		(now->relforcerowsecurity && !rel->rd_rel->relforcerowsecurity))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot enable row security on live filter \"%s\"",
							   RelationGetRelationName(rel)),
						errhint("Use GRANT and REVOKE: SELECT allows looking keys up, INSERT "
								"allows adding them.")));
	heap_freetuple(tuple);
}

static void
ColumnAdded(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot add a column to live filter \"%s\"", RelationGetRelationName(rel)),
			 errhint("Make another filter with dedup_create().")));
}

static void
ColumnAltered(Relation rel, int column)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot alter column \"%s\" of live filter \"%s\"",
						   ColumnName(rel, column), RelationGetRelationName(rel)),
					errhint("Make another filter with dedup_create().")));
}

static void
ColumnDropped(Relation rel, int column)
{
	if (IsHeldOpen(rel))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot drop column \"%s\" of live filter \"%s\"",
							   ColumnName(rel, column), RelationGetRelationName(rel)),
						errhint("Use DROP TABLE to drop the filter.")));
}

/* ---- defaults --------------------------------------------------------------- */

static void
RefuseDefault(Relation rel, int column)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change the default of column \"%s\" of live filter \"%s\"",
					ColumnName(rel, column), RelationGetRelationName(rel)),
			 column == kLivePageColumn ? errdetail("It holds the parameters of the filter.") : 0,
			 errhint("Make another filter with dedup_create().")));
}

/*
 * The first default of the column `page` is that of CREATE TABLE, or completes a relation that was
 * made without one. To set another default, the first would have to be dropped, which is refused.
 */
static void
DefaultCreated(Relation rel, int column)
{
	if (column != kLivePageColumn)
		RefuseDefault(rel, column);
}

static void
DefaultDropped(Oid object)
{
	HeapTuple tuple =
		ReadCatalog(AttrDefaultRelationId, AttrDefaultOidIndexId, Anum_pg_attrdef_oid, object);
	Form_pg_attrdef row;
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	row = (Form_pg_attrdef) GETSTRUCT(tuple);
	rel = LookAtLive(row->adrelid);
	if (rel != NULL)
	{
		if (IsHeldOpen(rel))
			RefuseDefault(rel, row->adnum);
		RelationClose(rel);
	}
	heap_freetuple(tuple);
}

/* ---- constraints ------------------------------------------------------------ */

/* Returns whether a relation has another CHECK constraint. */
static bool
HasOtherCheck(Relation rel, Oid constraint)
{
	Relation catalog;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;
	bool found = false;

	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(rel)));
	scan =
		systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, SnapshotSelf, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint row = (Form_pg_constraint) GETSTRUCT(tuple);

		found = row->contype == CONSTRAINT_CHECK && row->oid != constraint;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * The first CHECK belongs to CREATE TABLE, as the first default does. From PostgreSQL 18 on, NOT
 * NULL is a constraint too. CREATE TABLE writes it when its column is already NOT NULL, while ALTER
 * TABLE sets the column's mark last.
 */
static bool
IsOfCreateTable(Relation rel, HeapTuple constraint)
{
	Form_pg_constraint row = (Form_pg_constraint) GETSTRUCT(constraint);

	if (row->contype == CONSTRAINT_CHECK)
		return !HasOtherCheck(rel, row->oid);
#if HAS_NOT_NULL_CONSTRAINTS
	if (row->contype == CONSTRAINT_NOTNULL)
	{
		AttrNumber column = extractNotNullColumn(constraint);

		return TupleDescAttr(RelationGetDescr(rel), column - 1)->attnotnull;
	}
#endif
	return false;
}

void
RefuseConstraintOn(const char *filter)
{
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot add a constraint to live filter \"%s\"", filter),
					errhint("Put constraints on the tables that the keys come from.")));
}

static void
ConstraintCreated(Oid object)
{
	HeapTuple tuple =
		ReadCatalog(ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid, object);
	Form_pg_constraint row;
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	row = (Form_pg_constraint) GETSTRUCT(tuple);
	rel = LookAtLive(row->conrelid);
	if (rel != NULL)
	{
		if (!IsOfCreateTable(rel, tuple))
			RefuseConstraintOn(RelationGetRelationName(rel));
		RelationClose(rel);
	}
	rel = LookAtLive(row->confrelid);
	if (rel != NULL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot refer to live filter \"%s\" by a foreign key",
							   RelationGetRelationName(rel)),
						errhint("Refer to the table that the keys come from.")));
	heap_freetuple(tuple);
}

static void
ConstraintDropped(Oid object)
{
	HeapTuple tuple =
		ReadCatalog(ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid, object);
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	rel = LookAtLive(((Form_pg_constraint) GETSTRUCT(tuple))->conrelid);
	if (rel != NULL)
	{
		if (IsHeldOpen(rel))
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("cannot drop constraint \"%s\" of live filter \"%s\"",
								   NameStr(((Form_pg_constraint) GETSTRUCT(tuple))->conname),
								   RelationGetRelationName(rel)),
							errhint("Make another filter with dedup_create().")));
		RelationClose(rel);
	}
	heap_freetuple(tuple);
}

/* ---- objects that depend on a relation --------------------------------------- */

static void
TriggerCreated(Oid object)
{
	HeapTuple tuple =
		ReadCatalog(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, object);
	Form_pg_trigger row;
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	row = (Form_pg_trigger) GETSTRUCT(tuple);
	rel = LookAtLive(row->tgrelid);
	if (rel != NULL)
	{
		if (!IsRestoreTriggerFunction(row->tgfoid))
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("cannot create a trigger on live filter \"%s\"",
								   RelationGetRelationName(rel)),
							errhint("Put the trigger on the table that the filter guards.")));
		RelationClose(rel);
	}
	heap_freetuple(tuple);
}

static void
RuleCreated(Oid object)
{
	HeapTuple tuple =
		ReadCatalog(RewriteRelationId, RewriteOidIndexId, Anum_pg_rewrite_oid, object);
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	rel = LookAtLive(((Form_pg_rewrite) GETSTRUCT(tuple))->ev_class);
	/* CREATE MATERIALIZED VIEW makes the rule of its query. */
	if (rel != NULL && rel->rd_rel->relkind == RELKIND_MATVIEW)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("materialized view \"%s\" cannot be a live filter",
							   RelationGetRelationName(rel)),
						errhint("Make live filters with dedup_create().")));
	if (rel != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot create a rule on live filter \"%s\"", RelationGetRelationName(rel)),
				 errhint("Put the rule on the table that the filter guards.")));
	heap_freetuple(tuple);
}

static void
PolicyCreated(Oid object)
{
	HeapTuple tuple = ReadCatalog(PolicyRelationId, PolicyOidIndexId, Anum_pg_policy_oid, object);
	Relation rel;

	if (!HeapTupleIsValid(tuple))
		return;
	rel = LookAtLive(((Form_pg_policy) GETSTRUCT(tuple))->polrelid);
	if (rel != NULL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cannot create a policy on live filter \"%s\"",
							   RelationGetRelationName(rel)),
						errhint("Use GRANT and REVOKE: SELECT allows looking keys up, INSERT "
								"allows adding them.")));
	heap_freetuple(tuple);
}

/* This includes CREATE TABLE ... INHERITS and PARTITION OF. */
static void
RefuseInheritance(Oid child, Oid parent)
{
	Relation rel = LookAtLive(child);

	if (rel != NULL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("live filter \"%s\" cannot be a child or a partition of a table",
							   RelationGetRelationName(rel)),
						errhint("Make filters on their own with dedup_create().")));
	rel = LookAtLive(parent);
	if (rel != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot inherit from live filter \"%s\"", RelationGetRelationName(rel)),
				 errhint("Make filters on their own with dedup_create().")));
}

/* ---- the hook --------------------------------------------------------------- */

static void
ObjectCreated(Oid catalog, Oid object, int column, bool is_internal)
{
	Relation rel;

	switch (catalog)
	{
		case RelationRelationId:
			if (column == 0)
				RelationCreated(object, is_internal);
			else if ((rel = LookAtLive(object)) != NULL)
				ColumnAdded(rel);
			break;
		case AttrDefaultRelationId:

			/* A default is named here by its column; when it is dropped, by its own OID. */
			if ((rel = LookAtLive(object)) != NULL)
			{
				DefaultCreated(rel, column);
				RelationClose(rel);
			}
			break;
		case ConstraintRelationId:
			ConstraintCreated(object);
			break;
		case TriggerRelationId:
			TriggerCreated(object);
			break;
		case RewriteRelationId:
			RuleCreated(object);
			break;
		case PolicyRelationId:
			PolicyCreated(object);
			break;
	}
}

static void
ObjectAltered(Oid catalog, Oid object, int column, Oid auxiliary)
{
	Relation rel;

	switch (catalog)
	{
		case RelationRelationId:
			if ((rel = LookAtLive(object)) != NULL)
			{
				if (column != 0)
					ColumnAltered(rel, column);
				RelationAltered(rel);
				RelationClose(rel);
			}
			break;
		case InheritsRelationId:
			RefuseInheritance(object, auxiliary);
			break;
	}
}

static void
ObjectDropped(Oid catalog, Oid object, int column)
{
	Relation rel;

	switch (catalog)
	{
		case RelationRelationId:
			if (column != 0 && (rel = LookAtLive(object)) != NULL)
			{
				ColumnDropped(rel, column);
				RelationClose(rel);
			}
			break;
		case AttrDefaultRelationId:
			DefaultDropped(object);
			break;
		case ConstraintRelationId:
			ConstraintDropped(object);
			break;
	}
}

static void
LiveObjectAccess(ObjectAccessType access, Oid catalog, Oid object, int column, void *arg)
{
	if (previous_object_access != NULL)
		previous_object_access(access, catalog, object, column, arg);
	switch (access)
	{
		case OAT_POST_CREATE:
			ObjectCreated(catalog, object, column,
						  arg != NULL && ((ObjectAccessPostCreate *) arg)->is_internal);
			break;
		case OAT_POST_ALTER:
			ObjectAltered(catalog, object, column,
						  arg != NULL ? ((ObjectAccessPostAlter *) arg)->auxiliary_id : InvalidOid);
			break;
		case OAT_DROP:
			ObjectDropped(catalog, object, column);
			break;
		default:
			break;
	}
}

void
InitLiveRefusals(void)
{
	InitLiveUtility();
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = LiveExecutorStart;
	previous_object_access = object_access_hook;
	object_access_hook = LiveObjectAccess;
}
