/*
 * dedup_guard(), dedup_unguard(): make and drop the objects of a guard (guard.hpp) by
 * the DDL that a user would write, as the user who asks.
 */
#include "guard/guard.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "parser/parse_func.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace
{

/* What dedup_guard() was asked for. */
struct GuardRequest
{
	Oid filter;
	int columns;
	const char *names[INDEX_MAX_KEYS];
	AttrNumber attnums[INDEX_MAX_KEYS];
	GuardMode mode;
	const char *mark; /* column name */
};

/* A guard has two triggers and an index; whoever made more calls twice. */
constexpr int MAX_DROPPED = 8;

} /* namespace */

char *
QualifiedGuardName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* Runs what is not NULL of some commands. */
static void
RunAll(char *const *commands, int n)
{
	SPI_connect();
	for (int i = 0; i < n; i++)
	{
		int result = commands[i] == NULL ? SPI_OK_UTILITY : SPI_execute(commands[i], false, 0);

		if (result != SPI_OK_UTILITY)
			elog(ERROR, "command \"%s\" failed: %s", commands[i], SPI_result_code_string(result));
	}
	SPI_finish();
}

/* The trigger function that belongs to this function: in the same schema. */
static Oid
GuardFunctionOf(FunctionCallInfo fcinfo, char **schema)
{
	*schema = get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid));
	return LookupFuncName(list_make2(makeString(*schema), makeString(pstrdup(GUARD_FUNCTION))), 0,
						  NULL, false);
}

/* ---- checks --------------------------------------------------------------- */

/* Before the table is locked, so that nobody can lock what is not his, and after. */
static void
CheckOwner(Oid relid)
{
#if PG_VERSION_NUM >= 160000
	bool owner = object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	bool owner = pg_class_ownercheck(relid, GetUserId());
#endif

	if (!owner)
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

/* The table that the caller wants guarded or not. */
static Relation
OpenOwnTable(Oid relid, LOCKMODE lock)
{
	Relation rel;

	CheckOwner(relid);
	rel = try_relation_open(relid, lock);
	if (rel == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", relid)));
	CheckOwner(relid);
	return rel;
}

static void
CheckNotNull(FunctionCallInfo fcinfo, int arguments, const char *const *names)
{
	for (int i = 0; i < arguments; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("argument \"%s\" must not be NULL", names[i])));
}

[[noreturn]] static void
CannotGuard(Relation rel, const char *detail)
{
	ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
					errmsg("cannot guard \"%s\"", RelationGetRelationName(rel)),
					errdetail_internal("%s", detail)));
	pg_unreachable();
}

/* A table, or one of its partitions. */
static void
CheckTable(Relation rel, Oid function)
{
	GuardTriggers triggers;

	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			break;
		case RELKIND_FOREIGN_TABLE:
			CannotGuard(rel, rel->rd_rel->relispartition
								 ? _("It is a foreign partition: this server cannot tell whether a "
									 "row lands there.")
								 : _("It is a foreign table: this server cannot tell whether a row "
									 "lands there."));
		default:
			CannotGuard(rel, _("Only tables and partitioned tables can be guarded."));
	}
	if (IsLiveRelation(rel))
		CannotGuard(rel, _("It is a live filter."));
	if (IsCatalogRelation(rel))
		CannotGuard(rel, _("It is a system catalog."));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		CannotGuard(rel, _("It is a temporary table."));
	if (rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		CannotGuard(rel, _("A guard works on tables of access method heap only."));

	triggers = FindGuardTriggers(rel, function);
	if (triggers.write != NULL || triggers.remove != NULL)
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
						errmsg("table \"%s\" is guarded already", RelationGetRelationName(rel)),
						errhint("Call dedup_unguard() first.")));
}

static void
CheckFilter(Relation rel, Oid filter)
{
	AclResult allowed;
	Relation live;

	if (!IsLiveRelationId(filter))
	{
		const char *name = get_rel_name(filter);

		if (name == NULL)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
							errmsg("relation with OID %u does not exist", filter)));
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" is not a live filter", name),
				 errhint("dedup_create() makes one.")));
	}
	if (get_rel_persistence(filter) == RELPERSISTENCE_TEMP)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("a temporary live filter cannot guard a table"),
						errdetail("Other sessions could not use it.")));

	allowed = pg_class_aclcheck(filter, rel->rd_rel->relowner, ACL_INSERT);
	if (allowed != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied for live filter \"%s\"", get_rel_name(filter)),
						errdetail("The owner of table \"%s\" needs the privilege INSERT on it.",
								  RelationGetRelationName(rel))));

	live = relation_open(filter, NoLock);
	if (!LiveIsWhole(live))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("live filter \"%s\" cannot guard a table", RelationGetRelationName(live)),
			 errdetail(
				 "Its parameters, its CHECK constraint or its trigger dedup_restore is missing."),
			 errhint("Make the filter with dedup_create(), not with CREATE TABLE.")));
	relation_close(live, NoLock);

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
		get_rel_persistence(filter) != RELPERSISTENCE_UNLOGGED)
		ereport(WARNING,
				(errmsg("table \"%s\" is unlogged, live filter \"%s\" is not",
						RelationGetRelationName(rel), get_rel_name(filter)),
				 errdetail(
					 "After a crash the table is empty, and the filter still refuses its keys."),
				 errhint("TRUNCATE the filter then, or make an unlogged one.")));
}

/* A column by its name; an error if triggers cannot use it. */
static Form_pg_attribute
FindColumn(Relation rel, const char *name)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (column->attisdropped || strcmp(NameStr(column->attname), name) != 0)
			continue;
		if (column->attgenerated != '\0')
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("a guard cannot use the generated column \"%s\"", name),
							errdetail("It is computed after the guard's trigger has run.")));
		return column;
	}
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%s\" of table \"%s\" does not exist", name,
						   RelationGetRelationName(rel))));
	pg_unreachable();
}

static bool
IsKeyColumn(const GuardRequest &request, AttrNumber attnum)
{
	for (int i = 0; i < request.columns; i++)
		if (request.attnums[i] == attnum)
			return true;
	return false;
}

static void
ReadColumns(Relation rel, ArrayType *array, GuardRequest *request)
{
	Oid types[INDEX_MAX_KEYS];
	Oid collations[INDEX_MAX_KEYS];
	Datum *elements;
	bool *nulls;
	int n;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
						errmsg("the key columns must be a one-dimensional array")));
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	if (n == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a key needs at least one column")));
	if (n > INDEX_MAX_KEYS)
		ereport(ERROR, (errcode(ERRCODE_TOO_MANY_COLUMNS),
						errmsg("a guard's key cannot have more than %d columns", INDEX_MAX_KEYS)));

	for (int i = 0; i < n; i++)
	{
		const char *name;
		Form_pg_attribute column;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("the name of a key column must not be NULL")));
		name = TextDatumGetCString(elements[i]);
		column = FindColumn(rel, name);
		if (IsKeyColumn(*request, column->attnum))
			ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
							errmsg("key column \"%s\" is given twice", name)));
		request->names[i] = name;
		request->attnums[i] = column->attnum;
		types[i] = column->atttypid;
		collations[i] = column->attcollation;
		request->columns = i + 1;
	}

	/* Complains about types that have no hash function. */
	MakeColumnsKeyPlan(CurrentMemoryContext, n, types, collations);
}

static void
ReadMarkColumn(Relation rel, const char *name, GuardRequest *request)
{
	TupleDesc desc = RelationGetDescr(rel);
	Form_pg_attribute column = NULL;

	if (name == NULL)
	{
		int candidates = 0;

		for (int i = 0; i < desc->natts; i++)
		{
			Form_pg_attribute attribute = TupleDescAttr(desc, i);

			if (attribute->attisdropped || attribute->atttypid != BOOLOID ||
				attribute->attgenerated != '\0' || IsKeyColumn(*request, attribute->attnum))
				continue;
			candidates++;
			column = attribute;
			if (strcmp(NameStr(attribute->attname), "is_duplicate") == 0)
			{
				candidates = 1;
				break;
			}
		}
		if (candidates != 1)
			ereport(ERROR,
					(errcode(candidates == 0 ? ERRCODE_UNDEFINED_COLUMN : ERRCODE_AMBIGUOUS_COLUMN),
					 candidates == 0
						 ? errmsg("table \"%s\" has no boolean column to mark duplicates in",
								  RelationGetRelationName(rel))
						 : errmsg("table \"%s\" has several boolean columns to mark duplicates in",
								  RelationGetRelationName(rel)),
					 candidates == 0 ? errhint("Add a column is_duplicate boolean.")
									 : errhint("Name the column: 'mark:column'.")));
	}
	else
	{
		column = FindColumn(rel, name);
		if (column->atttypid != BOOLOID)
			ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
							errmsg("column \"%s\" is to mark duplicates but is of type %s", name,
								   format_type_be(column->atttypid)),
							errhint("Name a column of type boolean.")));
		if (IsKeyColumn(*request, column->attnum))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("column \"%s\" cannot both mark duplicates and be part of the key",
							name)));
	}
	request->mark = pstrdup(NameStr(column->attname));
}

static void
ReadRequestedMode(Relation rel, const char *text, GuardRequest *request)
{
	if (strcmp(text, "skip") == 0)
		request->mode = GuardMode::Skip;
	else if (strcmp(text, "reject") == 0)
		request->mode = GuardMode::Reject;
	else if (strcmp(text, "mark") == 0 || strncmp(text, "mark:", 5) == 0)
	{
		request->mode = GuardMode::Mark;
		ReadMarkColumn(rel, text[4] == ':' ? text + 5 : NULL, request);
	}
	else
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("unknown value \"%s\" of on_duplicate", text),
						errhint("Use skip (the row is left out), reject (an error) or mark (a "
								"boolean column is set; mark:column names it).")));
}

/*
 * ON CONFLICT DO UPDATE on a unique index of the table's own never gets to see a row
 * that the guard left out.
 */
static bool
WarnUnique(Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	Oid unique = InvalidOid;

	foreach(cell, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_index form;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_index) GETSTRUCT(tuple);
		if (!OidIsValid(unique) && (form->indisunique || form->indisexclusion))
			unique = lfirst_oid(cell);
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	if (!OidIsValid(unique))
		return false;
	ereport(WARNING, (errmsg("INSERT ... ON CONFLICT DO UPDATE will not update rows of \"%s\" "
							 "whose key the filter has seen",
							 RelationGetRelationName(rel)),
					  errdetail("Table \"%s\" has the unique or exclusion index \"%s\"; the guard "
								"leaves a duplicate out before that is asked.",
								RelationGetRelationName(rel), get_rel_name(unique)),
					  errhint("Use on_duplicate => 'mark' or 'reject' if the table is written by "
							  "ON CONFLICT DO UPDATE.")));
	return true;
}

/* Checks the table and all of its partitions. */
static void
CheckTables(Relation rel, Oid function, GuardMode mode)
{
	bool warned = mode != GuardMode::Skip;
	List *tables = list_make1_oid(RelationGetRelid(rel));
	ListCell *cell;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		tables = find_all_inheritors(RelationGetRelid(rel), ShareRowExclusiveLock, NULL);
	foreach(cell, tables)
	{
		Relation table = table_open(lfirst_oid(cell), NoLock);

		CheckTable(table, function);
		if (!warned)
			warned = WarnUnique(table);
		table_close(table, NoLock);
	}
}

/* ---- making --------------------------------------------------------------- */

/*
 * The command that makes the index, or NULL if DETACH PARTITION or a former guard has
 * left one. Its name is the one that errors give as that of the constraint.
 */
static char *
IndexCommand(Relation rel, const GuardRequest &request, char **name)
{
	Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	StringInfoData command;

	foreach(cell, indexes)
		if (IsUsableGuardIndex(lfirst_oid(cell), access_method, request.columns, request.attnums))
		{
			*name = get_rel_name(lfirst_oid(cell));
			return NULL;
		}

	*name = ChooseRelationName(RelationGetRelationName(rel), NULL, "dedup_guard",
							   RelationGetNamespace(rel), false);
	initStringInfo(&command);
	appendStringInfo(&command, "CREATE INDEX %s ON %s USING " GUARD_ACCESS_METHOD " (",
					 quote_identifier(*name), QualifiedGuardName(RelationGetRelid(rel)));
	for (int i = 0; i < request.columns; i++)
		appendStringInfo(&command, "%s%s", i == 0 ? "" : ", ", quote_identifier(request.names[i]));
	appendStringInfoChar(&command, ')');
	return command.data;
}

static char *
WriteTriggerCommand(Relation rel, const char *function, const GuardRequest &request,
					const char *constraint)
{
	static const char *const modes[] = {"skip", "reject", "mark"};

	return psprintf("CREATE TRIGGER \"" GUARD_TRIGGER "\" BEFORE INSERT OR UPDATE ON %s"
					" FOR EACH ROW EXECUTE FUNCTION %s(%s, %s)",
					QualifiedGuardName(RelationGetRelid(rel)), function,
					quote_literal_cstr(modes[(int) request.mode]), quote_literal_cstr(constraint));
}

static char *
DeleteTriggerCommand(Relation rel, const char *function, const GuardRequest &request)
{
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE TRIGGER \"" GUARD_DELETE_TRIGGER "\" BEFORE DELETE ON %s"
					 " FOR EACH ROW WHEN ('%u'::pg_catalog.regclass IS NOT NULL",
					 QualifiedGuardName(RelationGetRelid(rel)), request.filter);
	for (int i = 0; i < request.columns; i++)
		appendStringInfo(&command, " OR OLD.%s IS NULL", quote_identifier(request.names[i]));
	if (request.mark != NULL)
		appendStringInfo(&command, " OR OLD.%s IS NOT NULL", quote_identifier(request.mark));
	appendStringInfo(&command, ") EXECUTE FUNCTION %s()", function);
	return command.data;
}

/* What the guard's WHEN clause says. */
static GuardClause
ClauseOf(Relation rel, const GuardRequest &request)
{
	TupleDesc desc = RelationGetDescr(rel);
	GuardClause clause = {};

	clause.filter = request.filter;
	clause.columns = request.columns;
	for (int i = 0; i < request.columns; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, request.attnums[i] - 1);

		clause.attnums[i] = column->attnum;
		clause.types[i] = column->atttypid;
		clause.collations[i] = column->attcollation;
	}
	return clause;
}

/*
 * dedup_guard(table regclass, filter regclass, columns text[], on_duplicate text)
 * returns void
 *
 * As the user who calls it: the table has to be his.
 */
DEDUP_FUNCTION(dedup_guard)
{
	static const char *const names[] = {"table", "filter", "columns", "on_duplicate"};
	GuardRequest request = {};
	Relation rel;
	Oid function;
	char *schema;
	char *index_name;
	char *commands[3];

	CheckNotNull(fcinfo, lengthof(names), names);
	function = GuardFunctionOf(fcinfo, &schema);
	request.filter = PG_GETARG_OID(1);

	rel = OpenOwnTable(PG_GETARG_OID(0), ShareRowExclusiveLock);
	CheckTable(rel, function);
	LockRelationOid(request.filter, AccessShareLock);
	CheckFilter(rel, request.filter);
	ReadColumns(rel, PG_GETARG_ARRAYTYPE_P(2), &request);
	ReadRequestedMode(rel, text_to_cstring(PG_GETARG_TEXT_PP(3)), &request);
	CheckTables(rel, function, request.mode);

	schema = pstrdup(quote_qualified_identifier(schema, GUARD_FUNCTION));
	commands[0] = IndexCommand(rel, request, &index_name);
	commands[1] = WriteTriggerCommand(rel, schema, request, index_name);
	commands[2] = DeleteTriggerCommand(rel, schema, request);

	if (rel->rd_rel->relispartition)
		ereport(NOTICE,
				(errmsg("only the partition \"%s\" is guarded", RelationGetRelationName(rel)),
				 errdetail("The other partitions of \"%s\" are not. An UPDATE that moves a row "
						   "from one of them to this one is an error if the filter has its key.",
						   get_rel_name(RootOfPartition(rel))),
				 errhint("To guard all partitions, call dedup_guard() for \"%s\".",
						 get_rel_name(RootOfPartition(rel)))));

	/* DDL refuses tables that are in use; the lock stays. */
	relation_close(rel, NoLock);
	RunAll(commands, lengthof(commands));

	SettleGuardRows();
	rel = table_open(PG_GETARG_OID(0), NoLock);
	WarnOfBroughtRows(rel, ClauseOf(rel, request), function);
	WarnOfUnguardedChildren(rel, request.filter);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* ---- dropping ------------------------------------------------------------- */

/* Commands that drop the table's guard indexes, but those that belong to a parent's. */
static int
DropIndexCommands(Relation rel, char **commands)
{
	Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	int n = 0;

	foreach(cell, indexes)
	{
		HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_class form;

		if (!HeapTupleIsValid(tuple))
			continue;
		form = (Form_pg_class) GETSTRUCT(tuple);
		if (form->relam == access_method && !form->relispartition && n < MAX_DROPPED)
			commands[n++] =
				psprintf("DROP INDEX %s",
						 quote_qualified_identifier(get_namespace_name(form->relnamespace),
													NameStr(form->relname)));
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	return n;
}

static int
DropTriggerCommands(Relation rel, Oid function, char **commands)
{
	const TriggerDesc *triggers = rel->trigdesc;
	int n = 0;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgfoid != function || n == MAX_DROPPED)
			continue;
		if (trigger->tgisclone)
			ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
							errmsg("the guard of partition \"%s\" belongs to a table above it",
								   RelationGetRelationName(rel)),
							errhint("Call dedup_unguard() for that table.")));
		commands[n++] = psprintf("DROP TRIGGER %s ON %s", quote_identifier(trigger->tgname),
								 QualifiedGuardName(RelationGetRelid(rel)));
	}
	return n;
}

/*
 * dedup_unguard(table regclass) returns void
 *
 * What the filter has seen it keeps.
 */
DEDUP_FUNCTION(dedup_unguard)
{
	static const char *const names[] = {"table"};
	Relation rel;
	Oid function;
	char *schema;
	char *commands[2 * MAX_DROPPED];
	int n;

	CheckNotNull(fcinfo, lengthof(names), names);
	function = GuardFunctionOf(fcinfo, &schema);

	/* DROP INDEX takes this lock, and to take it second would invite a deadlock. */
	rel = OpenOwnTable(PG_GETARG_OID(0), AccessExclusiveLock);
	n = DropTriggerCommands(rel, function, commands);
	n += DropIndexCommands(rel, commands + n);
	if (n == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("table \"%s\" is not guarded", RelationGetRelationName(rel))));
	relation_close(rel, NoLock);
	RunAll(commands, n);
	PG_RETURN_VOID();
}
