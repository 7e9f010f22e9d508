/*
 * Writes refused rows into side tables; see divert.hpp.
 *
 * A row is put directly into a heap table that has only columns: no index, trigger, rule,
 * constraint, default or policy. dedup_guard() makes such a table. For all other tables, an INSERT
 * is used, which is prepared once in a query.
 *
 * Other sessions cannot change the table as long as the query holds its lock. But this session can,
 * by a trigger that runs between two rows. So the table is checked for each row.
 */
#include "guard/divert.hpp"

extern "C" {
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
}

/*
 * The source of the value for a column of the side table, if it is not a column of the guarded
 * table.
 */
constexpr AttrNumber FROM_NOWHERE = 0;
constexpr AttrNumber FROM_CLOCK = -1;
constexpr AttrNumber FROM_GUARD = -2;
constexpr AttrNumber FROM_REST = -3;

namespace
{

/* The way to write a value as JSON. */
enum class JsonForm
{
	Bare,  /* its text is a JSON value: boolean, integer */
	Jsonb, /* its text is JSON, but a scalar could be mistaken for another value */
	Text   /* as a JSON string of its text */
};

/* A column of the guarded table that the side table does not have. */
struct RestColumn
{
	AttrNumber attnum;
	const char *key; /* as JSON, with the colon */
	JsonForm form;
	FmgrInfo output;
};

} /* namespace */

struct DivertSite
{
	MemoryContextCallback over;
	const GuardPlan *plan;
	Oid owner;        /* of the guarded table */
	Oid refused_by;   /* the table into which the row can be brought back */
	TupleDesc desc;   /* of the side table; pinned until the query is over */
	AttrNumber *from; /* for each column of the side table */
	bool all_columns; /* each of these columns has a source */
	int rest_count;
	RestColumn *rest;
	Datum *values; /* the values of a row of the side table */
	bool *isnull;
	SPIPlanPtr insert; /* NULL: not prepared yet */
	int parameters;
	AttrNumber *parameter_columns; /* columns of the side table */
};

/* ---- sites -------------------------------------------------------------------------- */

/* Called when the query is over, or the table has changed. Runs in aborts, so it cannot fail. */
static void
DivertSiteOver(void *arg)
{
	DivertSite *site = (DivertSite *) arg;

	if (site->insert != NULL)
		SPI_freeplan(site->insert);
	site->insert = NULL;
	if (site->desc != NULL && --site->desc->tdrefcount == 0)
		FreeTupleDesc(site->desc);
	site->desc = NULL;
}

/*
 * Returns whether a column of the side table can hold the values of a column of the guarded table.
 */
static bool
CanHold(Form_pg_attribute side, Form_pg_attribute column)
{
	/* A column with another typmod would round values. */
	return side->atttypid == column->atttypid && side->attgenerated == '\0' &&
		   (side->atttypmod == -1 || side->atttypmod == column->atttypmod);
}

static AttrNumber
SourceOf(Form_pg_attribute side, TupleDesc table)
{
	const char *name = NameStr(side->attname);
	AttrNumber attnum;

	if (side->attisdropped)
		return FROM_NOWHERE;
	if (strcmp(name, SIDE_AT) == 0)
		return FROM_CLOCK;
	if (strcmp(name, SIDE_BY) == 0)
		return FROM_GUARD;
	if (strcmp(name, SIDE_REST) == 0)
		return FROM_REST;
	attnum = ColumnByName(table, name);
	if (attnum == 0 || TupleDescAttr(table, attnum - 1)->attgenerated != '\0' ||
		!CanHold(side, TupleDescAttr(table, attnum - 1)))
		return FROM_NOWHERE;
	return attnum;
}

static JsonForm
FormOf(Oid type)
{
	switch (getBaseType(type))
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return JsonForm::Bare;
		case JSONBOID:
			return JsonForm::Jsonb;
		default:
			return JsonForm::Text;
	}
}

static void
AddRestColumn(DivertSite *site, Form_pg_attribute column)
{
	RestColumn *rest = &site->rest[site->rest_count++];
	StringInfoData key;
	Oid output;
	bool varlena;

	rest->attnum = column->attnum;
	initStringInfo(&key);
	escape_json(&key, NameStr(column->attname));
	appendStringInfoChar(&key, ':');
	rest->key = key.data;
	rest->form = FormOf(column->atttypid);
	getTypeOutputInfo(column->atttypid, &output, &varlena);
	fmgr_info(output, &rest->output);
}

/* Finds the columns of the guarded table that the side table does not have. */
static void
FindRest(DivertSite *site, TupleDesc table)
{
	site->rest_count = 0;
	site->rest = (RestColumn *) palloc(sizeof(RestColumn) * (Size) Max(table->natts, 1));
	for (int i = 0; i < table->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(table, i);
		bool found = column->attisdropped || column->attgenerated != '\0';

		for (int j = 0; j < site->desc->natts && !found; j++)
			found = site->from[j] == column->attnum;
		if (!found)
			AddRestColumn(site, column);
	}
}

/* Reads how rows must be written into the side table in its current state. */
static void
ReadSide(DivertSite *site, Relation side, TupleDesc table)
{
	const char *flaw = FlawOfSideTable(side, site->plan->guarded);
	TupleDesc desc = RelationGetDescr(side);
	bool has_rest = false;

	if (flaw != NULL)
		ReportSideTable(RelationGetRelid(side), site->plan->guarded, flaw);
	DivertSiteOver(site);
	/* PinTupleDesc() cannot be used, because resource owners are released within a query. */
	desc->tdrefcount++;
	site->desc = desc;
	site->all_columns = true;
	site->from = (AttrNumber *) palloc0(sizeof(AttrNumber) * (Size) desc->natts);
	site->values = (Datum *) palloc0(sizeof(Datum) * (Size) desc->natts);
	site->isnull = (bool *) palloc0(sizeof(bool) * (Size) desc->natts);
	site->parameter_columns = (AttrNumber *) palloc0(sizeof(AttrNumber) * (Size) desc->natts);
	for (int i = 0; i < desc->natts; i++)
	{
		site->from[i] = SourceOf(TupleDescAttr(desc, i), table);
		if (site->from[i] == FROM_NOWHERE && !TupleDescAttr(desc, i)->attisdropped)
			site->all_columns = false;
		has_rest = has_rest || site->from[i] == FROM_REST;
	}
	FindRest(site, table);
	if (site->rest_count > 0 && !has_rest)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" cannot take the rows that the guard of table \"%s\" refuses",
						RelationGetRelationName(side), get_rel_name(site->plan->guarded)),
				 errdetail("It has neither a column \"%s\" of the same type nor a column rest.",
						   NameStr(TupleDescAttr(table, site->rest[0].attnum - 1)->attname)),
				 errhint("Run: ALTER TABLE %s ADD COLUMN rest jsonb;",
						 QualifiedGuardName(RelationGetRelid(side)))));
}

static DivertSite *
MakeDivertSite(MemoryContext query, const GuardPlan *plan, Relation rel)
{
	DivertSite *site = (DivertSite *) MemoryContextAllocZero(query, sizeof(DivertSite));

	site->plan = plan;
	site->owner = OwnerOfTable(plan->guarded);
	site->refused_by = WhereRowsReturn(plan, rel);
	site->over.func = DivertSiteOver;
	site->over.arg = site;
	MemoryContextRegisterResetCallback(query, &site->over);
	return site;
}

/*
 * Opens the side table. Its lock is kept. The privilege INSERT is checked before the table is
 * locked.
 */
static Relation
OpenSide(const DivertSite *site)
{
	const Oid relid = site->plan->clause.side;
	Relation side = NULL;

	if (site->desc != NULL)
		side = relation_open(relid, NoLock);
	else if (get_rel_name(relid) != NULL)
	{
		if (pg_class_aclcheck(relid, site->owner, ACL_INSERT) != ACLCHECK_OK)
			ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
							errmsg("permission denied for table \"%s\"", get_rel_name(relid)),
							errdetail("The owner of table \"%s\" needs the privilege INSERT on it.",
									  get_rel_name(site->plan->guarded))));
		side = try_relation_open(relid, RowExclusiveLock);
	}
	if (side == NULL)
		ReportSideTable(relid, site->plan->guarded, gettext_noop("It does not exist."));
	return side;
}

/* ---- rows ------------------------------------------------------------------------------ */

/* Sets a setting until the end of the nesting level of settings. */
static void
SetForNow(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

void
SetPortableText(void)
{
	static const char *const settings[][2] = {{"datestyle", "ISO"},
											  {"intervalstyle", "postgres"},
											  {"extra_float_digits", "3"},
											  {"bytea_output", "hex"},
											  {"lc_monetary", "C"}};

	for (int i = 0; i < (int) lengthof(settings); i++)
		SetForNow(settings[i][0], settings[i][1]);
}

static void
AppendValue(StringInfo json, RestColumn *rest, Datum value)
{
	const char *text = OutputFunctionCall(&rest->output, value);

	if (rest->output.fn_oid == F_BOOLOUT)
		text = DatumGetBool(value) ? "true" : "false";
	if (rest->form == JsonForm::Bare ||
		(rest->form == JsonForm::Jsonb && (text[0] == '{' || text[0] == '[')))
		appendStringInfoString(json, text);
	else
		escape_json(json, text);
}

/* Returns the columns of a row that the side table does not have, as jsonb. */
static Datum
RestOf(const DivertSite *site, TupleTableSlot *slot)
{
	const int nest_level = NewGUCNestLevel();
	StringInfoData json;

	SetPortableText();
	/* With this setting, names of objects are written with their schemas. */
	SetForNow("search_path", "pg_catalog");
	initStringInfo(&json);
	for (int i = 0; i < site->rest_count; i++)
	{
		RestColumn *rest = &site->rest[i];
		bool isnull;
		const Datum value = slot_getattr(slot, rest->attnum, &isnull);

		appendStringInfo(&json, "%c%s", i == 0 ? '{' : ',', rest->key);
		if (isnull)
			appendStringInfoString(&json, "null");
		else
			AppendValue(&json, rest, value);
	}
	appendStringInfoChar(&json, '}');
	AtEOXact_GUC(false, nest_level);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* Makes the row of the side table. */
static void
FillRow(DivertSite *site, TupleTableSlot *slot)
{
	for (int i = 0; i < site->desc->natts; i++)
	{
		const AttrNumber from = site->from[i];

		site->isnull[i] = false;
		switch (from)
		{
			case FROM_NOWHERE:
				site->isnull[i] = true;
				break;
			case FROM_CLOCK:
				site->values[i] = TimestampTzGetDatum(GetCurrentTimestamp());
				break;
			case FROM_GUARD:
				site->values[i] = ObjectIdGetDatum(site->refused_by);
				break;
			case FROM_REST:
				site->isnull[i] = site->rest_count == 0;
				if (!site->isnull[i])
					site->values[i] = RestOf(site, slot);
				break;
			default:
				site->values[i] = slot_getattr(slot, from, &site->isnull[i]);
		}
	}
}

/* Returns whether a row can be put directly into the table. */
static bool
IsBareTable(const DivertSite *site, Relation side)
{
	return side->rd_rel->relkind == RELKIND_RELATION && site->all_columns &&
		   side->trigdesc == NULL && side->rd_rules == NULL && side->rd_att->constr == NULL &&
		   !side->rd_rel->relhasindex && !side->rd_rel->relrowsecurity &&
		   !side->rd_rel->relispartition;
}

static void
PrepareInsert(DivertSite *site)
{
	const char *name = QualifiedGuardName(site->plan->clause.side);
	const int natts = site->desc->natts;
	Oid *types = (Oid *) palloc(sizeof(Oid) * (Size) natts);
	StringInfoData columns;
	StringInfoData values;

	initStringInfo(&columns);
	initStringInfo(&values);
	site->parameters = 0;
	for (int i = 0; i < natts; i++)
	{
		if (site->from[i] == FROM_NOWHERE)
			continue;
		appendStringInfo(&columns, "%s%s", site->parameters == 0 ? "" : ", ",
						 quote_identifier(NameStr(TupleDescAttr(site->desc, i)->attname)));
		appendStringInfo(&values, "%s$%d", site->parameters == 0 ? "" : ", ", site->parameters + 1);
		types[site->parameters] = TupleDescAttr(site->desc, i)->atttypid;
		site->parameter_columns[site->parameters++] = (AttrNumber) (i + 1);
	}
	site->insert = SPI_prepare(psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)",
										name, columns.data, values.data),
							   site->parameters, types);
	if (site->insert == NULL)
		elog(ERROR, "could not prepare an INSERT: %s", SPI_result_code_string(SPI_result));
	SPI_keepplan(site->insert);
}

/*
 * A command runs triggers and other code that the owners of the side table and its partitions have
 * made, as the owner of the guarded table. So these owners must already have his rights. Otherwise
 * a role whose only right is to make triggers for the guarded table could name a side table of its
 * own.
 */
static void
RequireTrusted(const DivertSite *site)
{
	const Oid relid = site->plan->clause.side;
	List *tables = find_all_inheritors(relid, NoLock, NULL);
	ListCell *cell;

	foreach(cell, tables)
	{
		if (has_privs_of_role(OwnerOfTable(lfirst_oid(cell)), site->owner))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" cannot take the rows that the guard of table \"%s\" refuses",
						get_rel_name(relid), get_rel_name(site->plan->guarded)),
				 errdetail("Triggers, constraints and the like of table \"%s\" would run as the "
						   "owner of table \"%s\", whose rights its own owner does not have.",
						   get_rel_name(lfirst_oid(cell)), get_rel_name(site->plan->guarded)),
				 errhint("Give the two tables one owner.")));
	}
	list_free(tables);
}

/* Inserts the row by a command, as the owner of the guarded table. */
static void
InsertByCommand(DivertSite *site)
{
	const GuardPlan *plan = site->plan;
	Oid user;
	int security;
	Datum *values;
	char *nulls;
	int result;

	if (site->insert == NULL)
		RequireTrusted(site);
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(site->owner, security | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	if (site->insert == NULL)
		PrepareInsert(site);
	values = (Datum *) palloc(sizeof(Datum) * (Size) site->parameters);
	nulls = (char *) palloc((Size) site->parameters);
	for (int i = 0; i < site->parameters; i++)
	{
		values[i] = site->values[site->parameter_columns[i] - 1];
		nulls[i] = site->isnull[site->parameter_columns[i] - 1] ? 'n' : ' ';
	}
	result = SPI_execute_plan(site->insert, values, nulls, false, 0);
	if (result < 0)
		elog(ERROR, "could not insert a row: %s", SPI_result_code_string(result));
	if (result != SPI_OK_INSERT || SPI_processed != 1)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has not kept a row that the guard of table \"%s\" refuses",
					get_rel_name(plan->clause.side), get_rel_name(plan->guarded)),
			 errdetail("A trigger or rule of \"%s\" has left the row out. The row would be lost.",
					   get_rel_name(plan->clause.side))));
	SPI_finish();
	SetUserIdAndSecContext(user, security);
}

void
DivertRow(DivertSite **kept, MemoryContext query, const GuardPlan *plan, Relation rel,
		  TupleTableSlot *slot)
{
	DivertSite *site = *kept;
	Relation side;
	bool bare;

	if (site == NULL)
		site = *kept = MakeDivertSite(query, plan, rel);
	side = OpenSide(site);
	if (unlikely(RelationGetDescr(side) != site->desc))
	{
		MemoryContext old = MemoryContextSwitchTo(query);

		ReadSide(site, side, RelationGetDescr(rel));
		MemoryContextSwitchTo(old);
	}
	FillRow(site, slot);
	bare = IsBareTable(site, side);
	if (bare)
	{
		HeapTuple tuple = heap_form_tuple(site->desc, site->values, site->isnull);

		simple_heap_insert(side, tuple);
		heap_freetuple(tuple);
	}
	relation_close(side, NoLock);
	if (!bare)
		InsertByCommand(site);
}
