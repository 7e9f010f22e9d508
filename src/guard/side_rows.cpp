/* Reads the rows of side tables; see side_rows.hpp. */
#include "guard/side_rows.hpp"

extern "C" {
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
}

static void
ReadColumnsOf(SideRows *rows, const GuardClause &clause)
{
	TupleDesc desc = RelationGetDescr(rows->table);

	rows->columns = (ReturnedColumn *) palloc0(sizeof(ReturnedColumn) * (Size) Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		ReturnedColumn *returned = &rows->columns[i];
		Form_pg_attribute column = TupleDescAttr(desc, i);
		Oid input;

		if (column->attisdropped || column->attgenerated != '\0')
			continue;
		returned->column = column;
		getTypeInputInfo(column->atttypid, &input, &returned->typioparam);
		fmgr_info(input, &returned->input);
		for (int j = 0; j < clause.used_count; j++)
			returned->used = returned->used || clause.used[j] == column->attnum;
	}
}

static void
OpenLeaf(const SideRows *rows, Oid relid, SideLeaf *leaf)
{
	TupleDesc table = RelationGetDescr(rows->table);
	TupleDesc desc;

	*leaf = {};
	leaf->rel = table_open(relid, NoLock);
	desc = RelationGetDescr(leaf->rel);
	leaf->slot = table_slot_create(leaf->rel, NULL);
	leaf->at = ColumnByName(desc, SIDE_AT);
	leaf->by = ColumnByName(desc, SIDE_BY);
	leaf->rest = ColumnByName(desc, SIDE_REST);
	leaf->from = (SideSource *) palloc0(sizeof(SideSource) * (Size) Max(table->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);
		const char *name = NameStr(column->attname);
		SideSource *source;
		AttrNumber attnum;
		Oid output;
		bool varlena;

		if (column->attisdropped || IsSideColumn(name))
			continue;
		attnum = ColumnByName(table, name);
		if (attnum == 0)
			leaf->others = bms_add_member(leaf->others, i + 1);
		if (attnum == 0 || rows->columns[attnum - 1].column == NULL)
			continue;
		source = &leaf->from[attnum - 1];
		source->attnum = (AttrNumber) (i + 1);
		source->convert = column->atttypid != TupleDescAttr(table, attnum - 1)->atttypid;
		getTypeOutputInfo(column->atttypid, &output, &varlena);
		fmgr_info(output, &source->output);
	}
}

void
OpenSideRows(SideRows *rows, Relation table, const GuardClause &clause)
{
	List *tables = list_make1_oid(clause.side);
	ListCell *cell;

	*rows = {};
	rows->table = table;
	ReadColumnsOf(rows, clause);
	rows->row = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsVirtual);
	if (get_rel_relkind(clause.side) == RELKIND_PARTITIONED_TABLE)
		tables = find_all_inheritors(clause.side, RowExclusiveLock, NULL);
	rows->leaves = (SideLeaf *) palloc(sizeof(SideLeaf) * (Size) list_length(tables));
	foreach(cell, tables)
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
			OpenLeaf(rows, lfirst_oid(cell), &rows->leaves[rows->leaf_count++]);
}

void
CloseSideRows(const SideRows &rows)
{
	for (int i = 0; i < rows.leaf_count; i++)
	{
		ExecDropSingleTupleTableSlot(rows.leaves[i].slot);
		table_close(rows.leaves[i].rel, NoLock);
	}
	ExecDropSingleTupleTableSlot(rows.row);
}

/* Returns the text of a JSON value. */
static char *
TextOf(JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, (Size) value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(
				DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			Assert(value->type == jbvBinary);
			return JsonbToCString(NULL, value->val.binary.data, value->val.binary.len);
	}
}

/* Reads the value of a column in `rest`. Returns false if there is none. */
static bool
ReadFromRest(ReturnedColumn *returned, Jsonb *rest, Datum *value, bool *isnull)
{
	const char *name = NameStr(returned->column->attname);
	JsonbValue *found;

	if (rest == NULL || !JB_ROOT_IS_OBJECT(rest))
		return false;
	found = getKeyJsonValueFromContainer(&rest->root, name, (int) strlen(name), NULL);
	if (found == NULL)
		return false;
	*isnull = found->type == jbvNull;
	/* The input function of a domain also checks NULL. */
	*value = InputFunctionCall(&returned->input, *isnull ? NULL : TextOf(found),
							   returned->typioparam, returned->column->atttypmod);
	return true;
}

/* A column of the table seems to have been renamed: its values would be lost. */
static void
CheckNothingIsLost(const SideRows *rows, const SideLeaf *leaf, const ReturnedColumn *returned)
{
	TupleDesc desc = RelationGetDescr(leaf->rel);
	int attnum = -1;

	while ((attnum = bms_next_member(leaf->others, attnum)) >= 0)
	{
		Form_pg_attribute other = TupleDescAttr(desc, attnum - 1);
		bool isnull;

		(void) slot_getattr(leaf->slot, attnum, &isnull);
		if (isnull || other->atttypid != returned->column->atttypid)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot bring rows of table \"%s\" back into table \"%s\"",
						RelationGetRelationName(leaf->rel), RelationGetRelationName(rows->table)),
				 errdetail("Column \"%s\" of \"%s\" has values for no column of \"%s\", whose "
						   "column \"%s\" has none.",
						   NameStr(other->attname), RelationGetRelationName(leaf->rel),
						   RelationGetRelationName(rows->table),
						   NameStr(returned->column->attname)),
				 errhint("If the column was renamed, rename that of \"%s\", too; else drop it, or "
						 "add column \"%s\" to \"%s\".",
						 RelationGetRelationName(leaf->rel), NameStr(returned->column->attname),
						 RelationGetRelationName(leaf->rel))));
	}
}

void
ReadSideRow(SideRows *rows, SideLeaf *leaf, bool all)
{
	TupleDesc desc = RelationGetDescr(rows->table);
	TupleTableSlot *row = rows->row;
	Jsonb *rest = NULL;
	bool isnull = true;

	if (leaf->rest != 0)
	{
		const Datum value = slot_getattr(leaf->slot, leaf->rest, &isnull);

		if (!isnull)
			rest = DatumGetJsonbP(value);
	}
	ExecClearTuple(row);
	rows->defaults = NULL;
	for (int i = 0; i < desc->natts; i++)
	{
		ReturnedColumn *returned = &rows->columns[i];
		SideSource *source = &leaf->from[i];

		row->tts_values[i] = (Datum) 0;
		row->tts_isnull[i] = true;
		if (returned->column == NULL || (!all && !returned->used) ||
			ReadFromRest(returned, rest, &row->tts_values[i], &row->tts_isnull[i]))
			continue;
		if (source->attnum == 0)
		{
			CheckNothingIsLost(rows, leaf, returned);
			if (returned->used)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("cannot bring rows of table \"%s\" back into table \"%s\"",
								RelationGetRelationName(leaf->rel),
								RelationGetRelationName(rows->table)),
						 errdetail("A row has no value for column \"%s\", which the guard uses.",
								   NameStr(returned->column->attname))));
			rows->defaults = bms_add_member(rows->defaults, i);
			continue;
		}
		row->tts_values[i] = slot_getattr(leaf->slot, source->attnum, &row->tts_isnull[i]);
		if (source->convert)
			row->tts_values[i] =
				InputFunctionCall(&returned->input,
								  row->tts_isnull[i]
									  ? NULL
									  : OutputFunctionCall(&source->output, row->tts_values[i]),
								  returned->typioparam, returned->column->atttypmod);
	}
	ExecStoreVirtualTuple(row);
}
