/* Reads and checks the arguments of dedup_guard(); see request.hpp. */
#include "guard/request.hpp"
#include "guard/divert.hpp"
#include "guard/inherit.hpp"
#include "guard/search.hpp"
#include "pg/keys.hpp"

#include <cctype>

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/prs2lock.h"
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

/* `rel` is the table, one of its partitions, or a table that inherits from it. */
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
	CheckIsNoSideTable(rel);
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

/* The filter of an exact guard must guard nothing else, not even under a disabled guard. */
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

[[noreturn]] static void
ReportNotExact(Relation live, const char *detail, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
					errmsg("live filter \"%s\" cannot be used by an exact guard",
						   RelationGetRelationName(live)),
					errdetail_internal("%s", _(detail)), errhint("%s", _(hint))));
	pg_unreachable();
}

/* Checks whether the filter has time if the guard uses it. */
static void
CheckWindow(const GuardRequest &request)
{
	Relation live = relation_open(request.clause.filter, NoLock);
	const LiveParameters parameters = LiveParametersOf(live);

	if (request.clause.at != NULL && parameters.ttl == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("live filter \"%s\" has no window of time", RelationGetRelationName(live)),
				 errdetail("The argument at is for filters with a ttl."),
				 errhint("Give dedup_create() a ttl, or leave the argument at out.")));
	if (request.options.exact && parameters.forgets && parameters.ttl == 0)
		ReportNotExact(live,
					   gettext_noop("It is a window of keys, which forgets keys whose rows are "
									"there."),
					   gettext_noop("Make a filter from dedup_filter(), or one with a ttl."));
	if (request.options.exact && parameters.ttl != 0 && request.clause.at == NULL)
		ReportNotExact(live,
					   gettext_noop("It has a ttl: it forgets keys whose rows are there, by the "
									"clock."),
					   gettext_noop("Give dedup_guard() the time of a row: at => 'column'. Or make "
									"a filter from dedup_filter(), without a ttl."));
	if (request.options.exact && parameters.renew)
		ReportNotExact(live,
					   gettext_noop("It renews its keys: then the time of a key is not that of its "
									"row."),
					   gettext_noop("Make a filter without renew."));
	relation_close(live, NoLock);
}

void
RequireLoggedAlike(Relation table, Oid filter)
{
	if (get_rel_persistence(filter) == RELPERSISTENCE_UNLOGGED &&
		table->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("unlogged live filter \"%s\" cannot be used by an exact guard of "
							   "table \"%s\"",
							   get_rel_name(filter), RelationGetRelationName(table)),
						errdetail("After a crash the filter is empty, and the table is not.")));
}

void
CheckExact(Relation rel, const GuardRequest &request)
{
	ListCell *cell;
	List *leaves;

	CheckOnlyGuard(request.clause.filter, request.options.exact);
	CheckWindow(request);
	if (!request.options.exact)
		return;
	leaves = LeavesOf(RelationGetRelid(rel));
	/* Tables that inherit get such an index with the parent if their extension does that. */
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		leaves = lcons_oid(RelationGetRelid(rel), leaves);
	foreach(cell, leaves)
	{
		const Oid table = lfirst_oid(cell);
		Relation leaf = relation_open(table, NoLock);

		RequireLoggedAlike(leaf, request.clause.filter);
		RequireSearchIndex(leaf, request.clause, rel,
						   leaf->rd_rel->relispartition ? RelationGetRelid(rel) : table);
		relation_close(leaf, NoLock);
	}
}

/* Finds a column by its name, or NULL. Raises an error if triggers cannot use it. */
static Form_pg_attribute
FindColumnIfAny(Relation rel, const char *name)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (column->attisdropped || strcmp(NameStr(column->attname), name) != 0)
			continue;
		RefuseGeneratedColumn(rel, column->attnum);
		return column;
	}
	return NULL;
}

/* Finds a column whose name differs from a text only in case, or NULL. */
static const char *
ColumnInOtherCase(Relation rel, const char *name)
{
	TupleDesc desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		const char *other = NameStr(TupleDescAttr(desc, i)->attname);

		if (!TupleDescAttr(desc, i)->attisdropped && pg_strcasecmp(other, name) == 0)
			return other;
	}
	return NULL;
}

[[noreturn]] static void
ReportNoColumn(Relation rel, const char *name)
{
	const char *other = ColumnInOtherCase(rel, name);

	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%s\" of table \"%s\" does not exist", name,
						   RelationGetRelationName(rel)),
					other != NULL ? errhint("Perhaps you meant the column \"%s\".", other) : 0));
	pg_unreachable();
}

static Form_pg_attribute
FindColumn(Relation rel, const char *name)
{
	Form_pg_attribute column = FindColumnIfAny(rel, name);

	if (column == NULL)
		ReportNoColumn(rel, name);
	return column;
}

/* Returns whether a text can only be the name of a column. */
static bool
IsName(const char *text)
{
	for (const char *at = text; *at != '\0'; at++)
		if (!(isalnum((unsigned char) *at) || *at == '_' || IS_HIGHBIT_SET(*at)))
			return false;
	return !isdigit((unsigned char) *text);
}

static Expr *
ColumnExpression(Form_pg_attribute column)
{
	return (Expr *) makeVar(PRS2_OLD_VARNO, column->attnum, column->atttypid, column->atttypmod,
							column->attcollation, 0);
}

/* Reads a column by its exact name, or an expression. */
static Expr *
ReadColumnOrExpression(Relation rel, const char *text, const char *argument)
{
	Form_pg_attribute column = FindColumnIfAny(rel, text);

	if (column != NULL)
		return ColumnExpression(column);
	if (IsName(text))
		ReportNoColumn(rel, text);
	return ReadExpression(rel, text, argument, false);
}

static bool
UsesColumn(const GuardClause &clause, AttrNumber attnum)
{
	for (int i = 0; i < clause.used_count; i++)
		if (clause.used[i] == attnum)
			return true;
	return false;
}

/* Adds an element of the key. */
static void
AddElement(Expr *expression, const char *text, GuardClause *clause)
{
	const int n = clause->columns;

	clause->types[n] = exprType((Node *) expression);
	clause->collations[n] = exprCollation((Node *) expression);
	if (clause->types[n] == UNKNOWNOID || clause->types[n] == RECORDOID)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("\"%s\" cannot be an element of a key: it is of type %s", text,
							   format_type_be(clause->types[n])),
						errhint("Give each column or expression as an element of its own.")));
	if (type_is_collatable(clause->types[n]) && !OidIsValid(clause->collations[n]))
		ereport(ERROR, (errcode(ERRCODE_INDETERMINATE_COLLATION),
						errmsg("could not determine which collation to use for \"%s\"", text),
						errhint("Use the COLLATE clause to set the collation explicitly.")));
	if (IsA(expression, Var))
		clause->attnums[n] = ((const Var *) expression)->varattno;
	else
		clause->expressions[n] = expression;
	for (int i = 0; i < n; i++)
		if (clause->attnums[n] != 0 ? clause->attnums[i] == clause->attnums[n]
									: equal(clause->expressions[i], clause->expressions[n]))
			ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
							errmsg("key column \"%s\" is given twice", text)));
	clause->columns++;
}

void
ReadColumns(Relation rel, ArrayType *array, GuardRequest *request)
{
	GuardClause *clause = &request->clause;
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
		const char *element;

		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("the name of a key column must not be null")));
		element = TextDatumGetCString(elements[i]);
		AddElement(ReadColumnOrExpression(rel, element, "columns"), element, clause);
	}

	/* This raises an error for types without a hash function. */
	MakeColumnsKeyPlan(CurrentMemoryContext, n, clause->types, clause->collations);
}

void
ReadWhere(Relation rel, const char *text, GuardRequest *request)
{
	if (text != NULL)
		request->clause.where = ReadExpression(rel, text, "where", true);
}

void
ReadTime(Relation rel, const char *text, GuardRequest *request)
{
	Expr *time;

	if (text == NULL)
		return;
	time = ReadColumnOrExpression(rel, text, "at");
	if (getBaseType(exprType((Node *) time)) != TIMESTAMPTZOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("\"%s\" cannot be the time of a row because it is of type %s", text,
						format_type_be(exprType((Node *) time))),
				 getBaseType(exprType((Node *) time)) == TIMESTAMPOID
					 ? errhint("Give its time zone: %s AT TIME ZONE 'UTC'.", text)
					 : errhint("Use a column or an expression of type timestamp with time zone.")));
	/* In the clause, the time is recognized by its type. */
	if (exprType((Node *) time) != TIMESTAMPTZOID)
		time = (Expr *) makeRelabelType(time, TIMESTAMPTZOID, -1, InvalidOid, COERCE_EXPLICIT_CAST);
	request->clause.at = time;
}

/* Reads an argument that is one of two words. Returns whether it is the second. */
static bool
IsSecondWord(const char *text, const char *argument, const char *first, const char *second)
{
	if (strcmp(text, first) != 0 && strcmp(text, second) != 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value \"%s\" of %s", text, argument),
						errhint("Use %s or %s.", first, second)));
	return strcmp(text, second) == 0;
}

void
ReadTooOld(const char *text, GuardRequest *request)
{
	request->options.skip_too_old = IsSecondWord(text, "too_old", "keep", "skip");
	if (request->options.skip_too_old && request->clause.at == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("too_old is given without at"),
				 errdetail("Without at, the time of a row is the clock's, so no row is older than "
						   "the window.")));
	if (request->options.skip_too_old && request->options.exact)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("too_old is 'skip' for an exact guard"),
						errdetail("An exact guard finds duplicates of rows of any age."),
						errhint("Leave the argument too_old out.")));
}

void
ReadOnDelete(const char *text, GuardRequest *request)
{
	request->options.forget = IsSecondWord(text, "on_delete", "keep", "forget");
	if (request->options.forget && request->options.exact)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("on_delete is 'forget' for an exact guard"),
						errdetail("Under an exact guard the key of a deleted row is always free."),
						errhint("Leave the argument on_delete out.")));
}

void
ReadNullsNotDistinct(bool value, GuardRequest *request)
{
	if (value && !HAS_NULLS_NOT_DISTINCT)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("nulls_not_distinct needs PostgreSQL 15 or later")));
	request->options.nulls_not_distinct = value;
}

void
FinishRequest(Relation rel, GuardRequest *request)
{
	const char *flaw = FindUsedColumns(&request->clause);

	ApplyOptions(request->options, &request->clause);
	if (flaw != NULL)
		ereport(ERROR, (errcode(ERRCODE_TOO_MANY_COLUMNS),
						errmsg("cannot guard \"%s\"", RelationGetRelationName(rel)),
						errdetail_internal("%s", _(flaw))));
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
				attribute->attgenerated != '\0' || UsesColumn(request->clause, attribute->attnum))
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
							errmsg("column \"%s\" cannot mark duplicates because it is of type %s",
								   name, format_type_be(column->atttypid)),
							errhint("Name a column of type boolean.")));
		if (UsesColumn(request->clause, column->attnum))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("column \"%s\" cannot both mark duplicates and be part of the key, "
							"predicate or time",
							name)));
	}
	request->mark = pstrdup(NameStr(column->attname));
	request->clause.mark = column->attnum;
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
	else if (strcmp(text, "divert") == 0 || strncmp(text, "divert:", 7) == 0)
		ReadSideTable(rel, text[6] == ':' ? text + 7 : NULL, request);
	else
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("invalid value \"%s\" of on_duplicate", text),
						errhint("Use skip (the row is left out), reject (an error), mark (a "
								"boolean column is set; mark:column names it) or divert (the row "
								"goes into another table; divert:table names it).")));
}

/*
 * ON CONFLICT DO UPDATE on another unique index of the table never sees a row that the guard has
 * left out.
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
	ereport(WARNING,
			(exact ? errmsg("INSERT ... ON CONFLICT DO UPDATE will not update rows of "
							"\"%s\" that have the key",
							RelationGetRelationName(rel))
				   : errmsg("INSERT ... ON CONFLICT DO UPDATE will not update rows of "
							"\"%s\" whose key the filter has seen",
							RelationGetRelationName(rel)),
			 errdetail("Table \"%s\" has the unique or exclusion index \"%s\"; the guard "
					   "leaves a duplicate out before this index is checked.",
					   RelationGetRelationName(rel), get_rel_name(unique)),
			 exact ? errhint("Use on_duplicate => 'mark' or 'reject' if the table is "
							 "written by ON CONFLICT DO UPDATE.")
				   : errhint("Use on_duplicate => 'mark', or 'reject' with an exact guard, "
							 "if the table is written by ON CONFLICT DO UPDATE.")));
	return true;
}

/* Checks the table, all of its partitions and the tables that inherit from it. */
void
CheckTables(Relation rel, Oid function, const GuardRequest &request)
{
	bool warned = request.mode != GuardMode::Skip && request.mode != GuardMode::Divert;
	List *tables = find_all_inheritors(RelationGetRelid(rel), ShareRowExclusiveLock, NULL);
	ListCell *cell;

	foreach(cell, tables)
	{
		Relation table = table_open(lfirst_oid(cell), NoLock);

		CheckTable(table, function);
		if (!warned)
			warned = WarnUnique(table, request.options.exact);
		table_close(table, NoLock);
	}
}
