/*
 * dedup_guard(), dedup_unguard(): make and drop the objects of a guard (guard.hpp) with the DDL
 * that a user would write, with the rights of the calling user.
 */
#include "guard/inherit.hpp"
#include "guard/distributed.hpp"
#include "guard/divert.hpp"
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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
}

/*
 * A guard has up to four triggers and an index. If a user has made more, dedup_unguard() must be
 * called again.
 */
constexpr int MAX_DROPPED = 8;

char *
QualifiedGuardName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

void
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

/* Finds the trigger function that belongs to this function: it is in the same schema. */
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
	return OWNS_RELATION(relid, GetUserId());
}

/*
 * Checked before the table is locked, so that nobody can lock another user's table, and again
 * afterwards.
 */
static void
CheckOwner(Oid relid)
{
	if (!OwnsTable(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

/* Opens the table to be guarded or not guarded any more. */
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

void
CheckNotNull(FunctionCallInfo fcinfo, int arguments, const char *const *names)
{
	for (int i = 0; i < arguments; i++)
		if (names[i] != NULL && PG_ARGISNULL(i))
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("argument \"%s\" must not be null", names[i])));
}

/* ---- making --------------------------------------------------------------- */

/*
 * Returns the command that makes the index, or NULL if DETACH PARTITION or a former guard has left
 * one. Errors report the index's name as that of the constraint.
 */
static char *
IndexCommand(Relation rel, const GuardRequest &request, char **name)
{
	Oid access_method = get_index_am_oid(GUARD_ACCESS_METHOD, false);
	List *indexes = RelationGetIndexList(rel);
	ListCell *cell;
	StringInfoData command;

	foreach(cell, indexes)
		if (IsUsableGuardIndex(lfirst_oid(cell), access_method, request.clause, request.options))
		{
			*name = get_rel_name(lfirst_oid(cell));
			return NULL;
		}

	*name = ChooseRelationName(RelationGetRelationName(rel), NULL, "dedup_guard",
							   RelationGetNamespace(rel), false);
	initStringInfo(&command);
	appendStringInfo(&command, "CREATE INDEX %s ON %s USING " GUARD_ACCESS_METHOD " (",
					 quote_identifier(*name), QualifiedGuardName(RelationGetRelid(rel)));
	for (int i = 0; i < request.clause.used_count; i++)
		appendStringInfo(&command, "%s%s", i == 0 ? "" : ", ",
						 quote_identifier(
							 get_attname(RelationGetRelid(rel), request.clause.used[i], false)));
	/*
	 * Guards whose deleted rows free their keys must be called when a row is marked, or not marked
	 * any more.
	 */
	if (FollowsMarks(request.options) && request.mark != NULL)
		appendStringInfo(&command, ", %s", quote_identifier(request.mark));
	appendStringInfoChar(&command, ')');
	return command.data;
}

static char *
WriteTriggerCommand(Relation rel, const char *function, const GuardRequest &request,
					const char *constraint)
{
	GuardOptions options = request.options;
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE TRIGGER \"" GUARD_TRIGGER "\" BEFORE INSERT OR UPDATE ON %s"
					 " FOR EACH ROW EXECUTE FUNCTION %s('%s', %s",
					 QualifiedGuardName(RelationGetRelid(rel)), function,
					 GuardModeName(request.mode), quote_literal_cstr(constraint));
	for (int i = 0; i < kGuardOptions; i++)
		if (GuardOption(&options, i))
			appendStringInfo(&command, ", '%s'", guard_option_words[i]);
	appendStringInfoChar(&command, ')');
	return command.data;
}

/* Returns an expression over a table's columns as one over OLD. */
static char *
OverOld(Relation rel, const Expr *expression)
{
	return deparse_expression((Node *) const_cast<Expr *>(expression),
							  deparse_context_for("old", RelationGetRelid(rel)), true, false);
}

void
AppendClauseParts(StringInfo command, Relation rel, const GuardRequest &request, const char *joiner)
{
	const GuardClause &clause = request.clause;

	for (int i = 0; i < clause.columns; i++)
		if (clause.expressions[i] != NULL)
			appendStringInfo(command, "%s(%s) IS NULL", joiner,
							 OverOld(rel, clause.expressions[i]));
		else
			appendStringInfo(command, "%sOLD.%s IS NULL", joiner,
							 quote_identifier(
								 get_attname(RelationGetRelid(rel), clause.attnums[i], false)));
	if (request.mark != NULL)
		appendStringInfo(command, "%sOLD.%s IS NOT NULL", joiner, quote_identifier(request.mark));
	if (clause.where != NULL)
		appendStringInfo(command, "%s(%s) IS NOT TRUE", joiner, OverOld(rel, clause.where));
	if (clause.at != NULL)
		appendStringInfo(command, "%s(%s) IS NOT NULL", joiner, OverOld(rel, clause.at));
}

/* clause.hpp describes the clause. */
static char *
DeleteTriggerCommand(Relation rel, const char *function, const GuardRequest &request)
{
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE TRIGGER \"" GUARD_DELETE_TRIGGER "\" BEFORE DELETE ON %s"
					 " FOR EACH ROW WHEN ('%u'::pg_catalog.regclass IS NOT NULL",
					 QualifiedGuardName(RelationGetRelid(rel)), request.clause.filter);
	AppendClauseParts(&command, rel, request, " OR ");
	if (OidIsValid(request.clause.side))
		appendStringInfo(&command, " OR '%u'::pg_catalog.regclass IS NULL", request.clause.side);
	appendStringInfo(&command, ") EXECUTE FUNCTION %s()", function);
	return command.data;
}

/*
 * Returns the command for a trigger of a guard whose deleted rows free their keys; NULL for other
 * guards.
 */
static char *
LateTriggerCommand(Relation rel, const char *function, const GuardRequest &request,
				   const char *name, const char *event, const char *each)
{
	if (!request.options.forget)
		return NULL;
	return psprintf("CREATE TRIGGER \"%s\" AFTER %s ON %s FOR EACH %s EXECUTE FUNCTION %s()", name,
					event, QualifiedGuardName(RelationGetRelid(rel)), each, function);
}

const char *
TextArgument(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

void
CheckGuardArguments(FunctionCallInfo fcinfo)
{
	static const char *const names[] = {"table", "filter",  "columns",  "on_duplicate",
										"exact", NULL,      NULL,       "nulls_not_distinct",
										NULL,    "too_old", "on_delete"};

	CheckNotNull(fcinfo, lengthof(names), names);
}

/* Reads the arguments of a call. The table is locked. */
static void
ReadRequest(FunctionCallInfo fcinfo, Relation rel, GuardRequest *request)
{
	request->clause.filter = PG_GETARG_OID(ARG_FILTER);
	request->options.exact = PG_GETARG_BOOL(ARG_EXACT);
	request->load = PG_ARGISNULL(ARG_LOAD) ? request->options.exact : PG_GETARG_BOOL(ARG_LOAD);
	LockRelationOid(request->clause.filter, AccessShareLock);
	CheckFilter(rel, request->clause.filter);
	ReadColumns(rel, PG_GETARG_ARRAYTYPE_P(ARG_COLUMNS), request);
	ReadWhere(rel, TextArgument(fcinfo, ARG_WHERE), request);
	ReadNullsNotDistinct(PG_GETARG_BOOL(ARG_NULLS_NOT_DISTINCT), request);
	ReadTime(rel, TextArgument(fcinfo, ARG_AT), request);
	ReadTooOld(TextArgument(fcinfo, ARG_TOO_OLD), request);
	ReadOnDelete(TextArgument(fcinfo, ARG_ON_DELETE), request);
	FinishRequest(rel, request);
	ReadRequestedMode(rel, TextArgument(fcinfo, ARG_ON_DUPLICATE), request);
}

/*
 * dedup_guard(table regclass, filter regclass, columns text[], on_duplicate text,
 *             exact boolean, load boolean, where text, nulls_not_distinct boolean,
 *             at text, too_old text, on_delete text) returns void
 *
 * Runs with the rights of the calling user, who must own the table.
 */
DEDUP_FUNCTION(dedup_guard)
{
	GuardRequest request = {};
	Relation rel;
	Oid function;
	char *schema;
	char *index_name;
	char *commands[5];

	CheckGuardArguments(fcinfo);
	function = GuardFunctionOf(fcinfo, &schema);
	rel = OpenOwnTable(PG_GETARG_OID(ARG_TABLE), ShareRowExclusiveLock);
	RefuseDistributed(rel);
	CheckTable(rel, function);
	ReadRequest(fcinfo, rel, &request);
	CheckTables(rel, function, request);
	CheckExact(rel, request);
	MakeSideTable(rel, &request);

	schema = pstrdup(quote_qualified_identifier(schema, GUARD_FUNCTION));
	commands[0] = IndexCommand(rel, request, &index_name);
	commands[1] = WriteTriggerCommand(rel, schema, request, index_name);
	commands[2] = DeleteTriggerCommand(rel, schema, request);
	commands[3] =
		LateTriggerCommand(rel, schema, request, GUARD_FORGET_TRIGGER, "DELETE OR UPDATE", "ROW");
	commands[4] =
		LateTriggerCommand(rel, schema, request, GUARD_TRUNCATE_TRIGGER, "TRUNCATE", "STATEMENT");

	if (rel->rd_rel->relispartition)
		ereport(NOTICE,
				(errmsg("only the partition \"%s\" is guarded", RelationGetRelationName(rel)),
				 errdetail("The other partitions of \"%s\" are not. An UPDATE that moves a row "
						   "from one of them to this one is an error if the filter has its key.",
						   get_rel_name(RootOfPartition(rel))),
				 errhint("To guard all partitions, call dedup_guard() for \"%s\".",
						 get_rel_name(RootOfPartition(rel)))));

	/* DDL refuses tables that are in use, so the table is closed; its lock is kept. */
	relation_close(rel, NoLock);
	RunAll(commands, lengthof(commands));
	GuardInheritors(PG_GETARG_OID(0));

	SettleGuardRows();
	rel = table_open(PG_GETARG_OID(ARG_TABLE), NoLock);
	if (request.load || request.options.exact)
		LoadForGuard(rel, request);
	else if (PG_ARGISNULL(ARG_LOAD))
		WarnOfBroughtRows(rel, request.clause, function);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* ---- dropping ------------------------------------------------------------- */

/* Adds the commands that drop the table's guard indexes, except those that belong to a parent's. */
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
 * The filter keeps the keys that it has seen.
 */
DEDUP_FUNCTION(dedup_unguard)
{
	static const char *const names[] = {"table"};
	Relation rel;
	Oid function;
	char *schema;
	char *commands[2 * MAX_DROPPED + 2];
	List *clones;
	Oid filter;
	int distributed;
	int n;

	CheckNotNull(fcinfo, lengthof(names), names);
	function = GuardFunctionOf(fcinfo, &schema);

	/* DROP INDEX takes this lock. Taking it later, as a stronger lock, could cause a deadlock. */
	rel = OpenOwnTable(PG_GETARG_OID(0), AccessExclusiveLock);
	n = DropTriggerCommands(rel, function, commands);
	n += DropIndexCommands(rel, commands + n);
	distributed = DropDistributedCommands(rel, commands + n);
	if (n + distributed == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("table \"%s\" is not guarded", RelationGetRelationName(rel))));
	relation_close(rel, NoLock);
	filter = FilterOfExactGuard(PG_GETARG_OID(0));
	clones = LockClones(PG_GETARG_OID(0));
	RunAll(commands, n);
	DropGuardsOf(clones, function);
	if (distributed > 0)
		RunDistributed(commands + n, distributed);
	if (OidIsValid(filter))
	{
		LiveFilter live = OpenLiveUnchecked(filter, ShareRowExclusiveLock);

		SetLiveCovers(live, false);
		CloseLive(live);
	}
	PG_RETURN_VOID();
}
