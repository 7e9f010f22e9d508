/*
 * Reading what dedup_guard() is asked for: see request.hpp.
 */
#include "guard/request.hpp"
#include "guard/inherit.hpp"
#include "guard/search.hpp"
#include "pg/keys.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

const char *
WhyUnguardable(Relation rel)
{
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			break;
		case RELKIND_FOREIGN_TABLE:
			return rel->rd_rel->relispartition
					   ? _("It is a foreign partition: this server cannot tell whether a row lands "
						   "there.")
					   : _("It is a foreign table: this server cannot tell whether a row lands "
						   "there.");
		default:
			return _("Only tables and partitioned tables can be guarded.");
	}
	if (IsLiveRelation(rel))
		return _("It is a live filter.");
	if (IsCatalogRelation(rel))
		return _("It is a system catalog.");
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return _("It is a temporary table.");
	if (rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return _("A guard works on tables of access method heap only.");
	return NULL;
}

/* A table, one of its partitions, or one that inherits from it. */
void
CheckTable(Relation rel, Oid function)
{
	const char *flaw = WhyUnguardable(rel);
	GuardTriggers triggers;

	if (flaw != NULL)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("cannot guard \"%s\"", RelationGetRelationName(rel)),
						errdetail_internal("%s", flaw)));

	triggers = FindGuardTriggers(rel, function);
	if (triggers.write != NULL || triggers.remove != NULL)
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
						errmsg("table \"%s\" is guarded already", RelationGetRelationName(rel)),
						errhint("Call dedup_unguard() first.")));
}

void
CheckIsFilter(Oid filter)
{
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
}

void
CheckFilter(Relation rel, Oid filter)
{
	AclResult allowed;
	Relation live;

	CheckIsFilter(filter);
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

/* The filter of an exact guard guards nothing else, not even under a guard that is disabled. */
static void
CheckOnlyGuard(Oid filter, bool exact)
{
	Oid other = InvalidOid;

	if (exact)
		other = TableOfAnyGuard(filter);
	else
		(void) TablesOfExactGuard(filter, &other);
	if (!OidIsValid(other))
		return;
	ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
					errmsg("live filter \"%s\" guards table \"%s\" already", get_rel_name(filter),
						   get_rel_name(other)),
					errdetail("The filter of an exact guard has the keys of one table."),
					errhint("Make another filter with dedup_create().")));
}

static void
CheckExactFilter(Oid filter)
{
	Relation live = relation_open(filter, NoLock);
	const LiveParameters parameters = LiveParametersOf(live);

	if (parameters.forgets)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("live filter \"%s\" cannot be that of an exact guard",
							   RelationGetRelationName(live)),
						errdetail("It is a window, which forgets keys whose rows are there."),
						errhint("Make a filter from dedup_filter(), without a ttl.")));
	relation_close(live, NoLock);
}

void
RequireLoggedAlike(Relation table, Oid filter)
{
	if (get_rel_persistence(filter) == RELPERSISTENCE_UNLOGGED &&
		table->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("unlogged live filter \"%s\" cannot be that of an exact guard of "
							   "table \"%s\"",
							   get_rel_name(filter), RelationGetRelationName(table)),
						errdetail("After a crash the filter is empty, and the table is not.")));
}

static SearchColumns
SearchColumnsOf(Relation rel, const GuardRequest &request)
{
	SearchColumns columns = {};

	columns.columns = request.columns;
	columns.mark = request.mark;
	for (int i = 0; i < request.columns; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), request.attnums[i] - 1);

		columns.names[i] = request.names[i];
		columns.types[i] = column->atttypid;
		columns.collations[i] = column->attcollation;
	}
	return columns;
}

void
CheckExact(Relation rel, const GuardRequest &request)
{
	const SearchColumns columns = SearchColumnsOf(rel, request);
	ListCell *cell;
	List *leaves;

	CheckOnlyGuard(request.filter, request.exact);
	if (!request.exact)
		return;
	CheckExactFilter(request.filter);
	leaves = LeavesOf(RelationGetRelid(rel));
	/* What inherits from a table gets an index with it where that is its extension's way. */
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		leaves = lcons_oid(RelationGetRelid(rel), leaves);
	foreach(cell, leaves)
	{
		const Oid table = lfirst_oid(cell);
		Relation leaf = relation_open(table, NoLock);

		RequireLoggedAlike(leaf, request.filter);
		RequireSearchIndex(leaf, columns,
						   leaf->rd_rel->relispartition ? RelationGetRelid(rel) : table);
		relation_close(leaf, NoLock);
	}
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

void
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
	request->mark_attnum = column->attnum;
}

void
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
WarnUnique(Relation rel, bool exact)
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
	ereport(WARNING, (exact ? errmsg("INSERT ... ON CONFLICT DO UPDATE will not update rows of "
									 "\"%s\" that have the key",
									 RelationGetRelationName(rel))
							: errmsg("INSERT ... ON CONFLICT DO UPDATE will not update rows of "
									 "\"%s\" whose key the filter has seen",
									 RelationGetRelationName(rel)),
					  errdetail("Table \"%s\" has the unique or exclusion index \"%s\"; the guard "
								"leaves a duplicate out before that is asked.",
								RelationGetRelationName(rel), get_rel_name(unique)),
					  errhint("Use on_duplicate => 'mark' or 'reject' if the table is written by "
							  "ON CONFLICT DO UPDATE.")));
	return true;
}

/* Checks the table, all of its partitions and what inherits from it. */
void
CheckTables(Relation rel, Oid function, const GuardRequest &request)
{
	bool warned = request.mode != GuardMode::Skip;
	List *tables = find_all_inheritors(RelationGetRelid(rel), ShareRowExclusiveLock, NULL);
	ListCell *cell;

	foreach(cell, tables)
	{
		Relation table = table_open(lfirst_oid(cell), NoLock);

		CheckTable(table, function);
		if (!warned)
			warned = WarnUnique(table, request.exact);
		table_close(table, NoLock);
	}
}
