/*
 * dedup_guard(), dedup_unguard(): make and drop the objects of a guard (guard.hpp) by
 * the DDL that a user would write, as the user who asks.
 */
#include "guard/inherit.hpp"
#include "guard/load.hpp"
#include "guard/request.hpp"

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

/* A guard has two triggers and an index; whoever made more calls twice. */
constexpr int MAX_DROPPED = 8;

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

bool
OwnsTable(Oid relid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	return pg_class_ownercheck(relid, GetUserId());
#endif
}

/* Before the table is locked, so that nobody can lock what is not his, and after. */
static void
CheckOwner(Oid relid)
{
	if (!OwnsTable(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

/* The table that the caller wants guarded or not. */
Relation
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

/* ---- making --------------------------------------------------------------- */

/*
 * The column for marks, if the guard index has it: an exact guard is told when a row
 * is marked, or no longer.
 */
static AttrNumber
MarkInIndex(const GuardRequest &request)
{
	return request.exact ? request.mark_attnum : 0;
}

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
		if (IsUsableGuardIndex(lfirst_oid(cell), access_method, request.columns, request.attnums,
							   MarkInIndex(request)))
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
	if (MarkInIndex(request) != 0)
		appendStringInfo(&command, ", %s", quote_identifier(request.mark));
	appendStringInfoChar(&command, ')');
	return command.data;
}

static char *
WriteTriggerCommand(Relation rel, const char *function, const GuardRequest &request,
					const char *constraint)
{
	static const char *const modes[] = {"skip", "reject", "mark"};

	return psprintf("CREATE TRIGGER \"" GUARD_TRIGGER "\" BEFORE INSERT OR UPDATE ON %s"
					" FOR EACH ROW EXECUTE FUNCTION %s(%s, %s%s)",
					QualifiedGuardName(RelationGetRelid(rel)), function,
					quote_literal_cstr(modes[(int) request.mode]), quote_literal_cstr(constraint),
					request.exact ? ", '" GUARD_EXACT "'" : "");
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
 * dedup_guard(table regclass, filter regclass, columns text[], on_duplicate text,
 *             exact boolean, load boolean) returns void
 *
 * As the user who calls it: the table has to be his.
 */
DEDUP_FUNCTION(dedup_guard)
{
	static const char *const names[] = {"table", "filter", "columns", "on_duplicate", "exact"};
	GuardRequest request = {};
	Relation rel;
	Oid function;
	char *schema;
	char *index_name;
	char *commands[3];

	CheckNotNull(fcinfo, lengthof(names), names);
	function = GuardFunctionOf(fcinfo, &schema);
	request.filter = PG_GETARG_OID(1);
	request.exact = PG_GETARG_BOOL(4);
	request.load = PG_ARGISNULL(5) ? request.exact : PG_GETARG_BOOL(5);

	rel = OpenOwnTable(PG_GETARG_OID(0), ShareRowExclusiveLock);
	CheckTable(rel, function);
	LockRelationOid(request.filter, AccessShareLock);
	CheckFilter(rel, request.filter);
	ReadColumns(rel, PG_GETARG_ARRAYTYPE_P(2), &request);
	ReadRequestedMode(rel, text_to_cstring(PG_GETARG_TEXT_PP(3)), &request);
	CheckTables(rel, function, request);
	CheckExact(rel, request);

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
	GuardInheritors(PG_GETARG_OID(0));

	SettleGuardRows();
	rel = table_open(PG_GETARG_OID(0), NoLock);
	if (request.load || request.exact)
		LoadForGuard(rel, ClauseOf(rel, request), request);
	else if (PG_ARGISNULL(5))
		WarnOfBroughtRows(rel, ClauseOf(rel, request), function);
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

	if (OidIsValid(ParentOfClone(RelationGetRelid(rel))))
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("the guard of table \"%s\" belongs to a table above it",
							   RelationGetRelationName(rel)),
						errhint("Call dedup_unguard() for table \"%s\".",
								get_rel_name(UppermostGuarded(RelationGetRelid(rel))))));
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
	List *clones;
	Oid filter;
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
	filter = FilterOfExactGuard(PG_GETARG_OID(0));
	clones = LockClones(PG_GETARG_OID(0));
	RunAll(commands, n);
	DropGuardsOf(clones, function);
	if (OidIsValid(filter))
	{
		LiveFilter live = OpenLiveUnchecked(filter, ShareRowExclusiveLock);

		SetLiveCovers(live, false);
		CloseLive(live);
	}
	PG_RETURN_VOID();
}
