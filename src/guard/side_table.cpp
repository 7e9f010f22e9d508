/* Side tables, into which refused rows are put; see divert.hpp. */
#include "guard/distributed.hpp"
#include "guard/divert.hpp"
#include "guard/request.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/varlena.h"
}

bool
IsSideColumn(const char *name)
{
	return strcmp(name, SIDE_AT) == 0 || strcmp(name, SIDE_BY) == 0 || strcmp(name, SIDE_REST) == 0;
}

AttrNumber
ColumnByName(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0)
			return (AttrNumber) (i + 1);
	return 0;
}

/* ---- checks ------------------------------------------------------------------------ */

/* Returns whether a table has a plain column of a name and type. */
static bool
HasColumnOfType(TupleDesc desc, const char *name, Oid type)
{
	const AttrNumber attnum = ColumnByName(desc, name);

	return attnum != 0 && TupleDescAttr(desc, attnum - 1)->atttypid == type &&
		   TupleDescAttr(desc, attnum - 1)->attgenerated == '\0';
}

/*
 * Returns whether one of two tables inherits from the other, or both are in one tree of partitions.
 */
static bool
AreRelated(Relation side, Oid guarded)
{
	const Oid type = get_rel_type_id(guarded);
	Relation table;
	bool same_tree;

	if (typeInheritsFrom(side->rd_rel->reltype, type) ||
		typeInheritsFrom(type, side->rd_rel->reltype))
		return true;
	table = RelationIdGetRelation(guarded);
	if (!RelationIsValid(table))
		return false;
	same_tree = RootOfPartition(table) == RootOfPartition(side);
	RelationClose(table);
	return same_tree;
}

/*
 * Returns whether the rows of a table are lost after a crash. For a partitioned table this is not
 * known.
 */
static bool
IsUnlogged(Oid table)
{
	return get_rel_relkind(table) == RELKIND_RELATION &&
		   get_rel_persistence(table) == RELPERSISTENCE_UNLOGGED;
}

/* Returns what is wrong with the partitions of a side table, or NULL. Takes no locks. */
static const char *
FlawOfPartitions(Oid side, Oid guarded)
{
	ListCell *cell;

	foreach(cell, find_all_inheritors(side, NoLock, NULL))
	{
		const Oid partition = lfirst_oid(cell);
		Relation rel;
		bool is_guarded;

		if (get_rel_relkind(partition) == RELKIND_FOREIGN_TABLE)
			return gettext_noop("One of its partitions is a foreign table.");
		if (IsUnlogged(partition) && !IsUnlogged(guarded))
			return gettext_noop("One of its partitions is unlogged, and the guarded table is not: "
								"after a crash it is empty.");
		rel = RelationIdGetRelation(partition);
		if (!RelationIsValid(rel))
			continue;
		is_guarded = OidIsValid(FindGuardFunction(rel, false));
		RelationClose(rel);
		if (is_guarded)
			return gettext_noop("One of its partitions is guarded itself.");
	}
	return NULL;
}

const char *
FlawOfSideTable(Relation side, Oid guarded)
{
	TupleDesc desc = RelationGetDescr(side);

	if (RelationGetRelid(side) == guarded)
		return gettext_noop("It is the guarded table.");
	if (IsLiveRelation(side))
		return gettext_noop("It is a live filter.");
	if (IsCatalogRelation(side))
		return gettext_noop("It is a system catalog.");
	if (side->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		(side->rd_rel->relkind != RELKIND_RELATION || side->rd_rel->relam != HEAP_TABLE_AM_OID))
		return gettext_noop("It is neither a heap table nor a partitioned table.");
	if (side->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return gettext_noop("It is a temporary table.");
	if (IsUnlogged(RelationGetRelid(side)) && !IsUnlogged(guarded))
		return gettext_noop("It is unlogged, and the guarded table is not: after a crash it is "
							"empty.");
	if (!HasColumnOfType(desc, SIDE_AT, TIMESTAMPTZOID))
		return gettext_noop("It has no column refused_at of type timestamp with time zone.");
	if (!HasColumnOfType(desc, SIDE_BY, REGCLASSOID))
		return gettext_noop("It has no column refused_by of type regclass.");
	if (ColumnByName(desc, SIDE_REST) != 0 && !HasColumnOfType(desc, SIDE_REST, JSONBOID))
		return gettext_noop("Its column rest is not of type jsonb.");
	if (AreRelated(side, guarded))
		return gettext_noop("It inherits from the guarded table, or is in one tree of partitions "
							"or inheritance with it.");
	if (OidIsValid(FindGuardFunction(side, false)))
		return gettext_noop("It is guarded itself.");
	return side->rd_rel->relkind == RELKIND_PARTITIONED_TABLE
			   ? FlawOfPartitions(RelationGetRelid(side), guarded)
			   : NULL;
}

const char *
FlawOfSideTableId(Oid side, Oid guarded)
{
	Relation rel = RelationIdGetRelation(side);
	const char *flaw;

	if (!RelationIsValid(rel))
		return gettext_noop("It does not exist.");
	flaw = FlawOfSideTable(rel, guarded);
	RelationClose(rel);
	return flaw;
}

void
ReportSideTable(Oid side, Oid guarded, const char *flaw)
{
	const char *name = get_rel_name(side);

	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("table \"%s\" cannot take the rows that the guard of table \"%s\" "
						   "refuses",
						   name == NULL ? "?" : name, get_rel_name(guarded)),
					errdetail_internal("%s", _(flaw))));
	pg_unreachable();
}

void
CheckIsNoSideTable(Relation rel)
{
	Oid table = TableOfSide(RelationGetRelid(rel));
	ListCell *cell;

	if (rel->rd_rel->relispartition)
		foreach(cell, get_partition_ancestors(RelationGetRelid(rel)))
			if (!OidIsValid(table))
				table = TableOfSide(lfirst_oid(cell));
	if (!OidIsValid(table))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot guard \"%s\"", RelationGetRelationName(rel)),
			 errdetail("Rows that the guard of table \"%s\" refuses go into it. If it refused them "
					   "in turn, they would be lost.",
					   get_rel_name(table))));
}

/* ---- making ------------------------------------------------------------------------ */

/* Finds the requested side table. Does not change clause.side if there is none yet. */
void
ReadSideTable(Relation rel, const char *name, GuardRequest *request)
{
	char *schema = get_namespace_name(RelationGetNamespace(rel));

	request->mode = GuardMode::Divert;
	if (name == NULL)
		request->side =
			makeRangeVar(schema, makeObjectName(RelationGetRelationName(rel), NULL, "refused"), -1);
	else
		request->side = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(name)));
	request->clause.side = RangeVarGetRelid(request->side, NoLock, true);
	if (request->side->schemaname != NULL || OidIsValid(request->clause.side))
		return;
	/*
	 * A table that is not found in the search path is, or will be, in the schema of the guarded
	 * table.
	 */
	request->side->schemaname = schema;
	request->clause.side = RangeVarGetRelid(request->side, NoLock, true);
}

static char *
CreateSideTable(Relation rel, const GuardRequest &request)
{
	TupleDesc desc = RelationGetDescr(rel);
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command, "CREATE %sTABLE %s (",
					 rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
					 quote_qualified_identifier(request.side->schemaname, request.side->relname));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		/* Generated columns are computed after the guard's trigger has run. */
		if (column->attisdropped || column->attgenerated != '\0' ||
			IsSideColumn(NameStr(column->attname)))
			continue;
		appendStringInfo(&command, "%s %s", quote_identifier(NameStr(column->attname)),
						 format_type_extended(column->atttypid, column->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN |
												  FORMAT_TYPE_FORCE_QUALIFY));
		if (OidIsValid(column->attcollation) &&
			column->attcollation != get_typcollation(column->atttypid))
			appendStringInfo(&command, " COLLATE %s",
							 generate_collation_name(column->attcollation));
		appendStringInfoString(&command, ", ");
	}
	appendStringInfoString(&command, SIDE_AT " pg_catalog.timestamptz, " SIDE_BY
											 " pg_catalog.regclass, " SIDE_REST
											 " pg_catalog.jsonb) USING heap");
	return command.data;
}

static void
RunCommand(const char *command)
{
	const int result = SPI_execute(command, false, 0);

	if (result != SPI_OK_UTILITY)
		elog(ERROR, "command \"%s\" failed: %s", command, SPI_result_code_string(result));
}

/* Raises an error unless a table can be the side table of a request. */
static void
CheckSideTable(Relation rel, Oid side)
{
	const char *flaw;
	Relation table = try_relation_open(side, RowExclusiveLock);

	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("relation with OID %u does not exist", side)));
	flaw = FlawOfSideTable(table, RelationGetRelid(rel));
	if (flaw == NULL && IsCitusTable(side))
		flaw = gettext_noop("It is a table of Citus: rows in its shards are no rows of its own.");
	if (flaw != NULL)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("\"%s\" cannot be the table that refused rows go into",
							   RelationGetRelationName(table)),
						errdetail_internal("%s", _(flaw))));
	relation_close(table, NoLock);
	if (pg_class_aclcheck(side, rel->rd_rel->relowner, ACL_INSERT) != ACLCHECK_OK)
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("permission denied for table \"%s\"", get_rel_name(side)),
						errdetail("The owner of table \"%s\" needs the privilege INSERT on it.",
								  RelationGetRelationName(rel))));
}

void
MakeSideTable(Relation rel, GuardRequest *request)
{
	const Oid owner = rel->rd_rel->relowner;

	if (request->mode != GuardMode::Divert)
		return;
	if (!OidIsValid(request->clause.side))
	{
		SPI_connect();
		RunCommand(CreateSideTable(rel, *request));
		if (owner != GetUserId())
			RunCommand(psprintf("ALTER TABLE %s OWNER TO %s",
								quote_qualified_identifier(request->side->schemaname,
														   request->side->relname),
								quote_identifier(GetUserNameFromId(owner, false))));
		SPI_finish();
		request->clause.side = RangeVarGetRelid(request->side, NoLock, false);
	}
	CheckSideTable(rel, request->clause.side);
}
