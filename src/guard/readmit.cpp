/*
 * dedup_readmit(): rows that were refused wrongly come back from the side table (divert.hpp).
 *
 * Writers of the guarded table are kept out meanwhile. A guard that is not exact cannot say
 * whether a row with a key is there. So the keys of the refused rows are hashed, and the table is
 * read once. Those that have no row in it are inserted one by one, past the filter: the guard's
 * trigger lets the one row pass that this session is bringing back. An exact guard judges them as
 * any rows.
 */
#include "guard/divert.hpp"
#include "guard/request.hpp"
#include "guard/table_keys.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
}

/* ---- the row that comes back ----------------------------------------------------------- */

namespace
{

struct Returning
{
	Oid guarded;
	int depth; /* of triggers, where the row is inserted */
	bool has_key;
	uint64 hash;
	bool refused; /* in turn */
};

} /* namespace */

/* NULL: dedup_readmit() inserts no row just now. */
static Returning *returning = NULL;

/* Whether the calling trigger is fired for a row of the INSERT itself. */
static bool
IsReturning(const GuardPlan *plan)
{
	return unlikely(returning != NULL) && returning->guarded == plan->guarded &&
		   returning->depth + 1 == DatumGetInt32(pg_trigger_depth(NULL));
}

bool
IsReadmitted(const GuardPlan *plan, uint64 hash)
{
	return IsReturning(plan) && returning->has_key && returning->hash == hash;
}

bool
StaysRefused(const GuardPlan *plan)
{
	if (!IsReturning(plan))
		return false;
	returning->refused = true;
	return true;
}

/* ---- reading the side table ---------------------------------------------------------------- */

namespace
{

/* A refused row. */
struct Refused
{
	uint64 hash;
	TimestampTz at; /* refused_at; or the latest time there is, if that is NULL */
	int table;      /* of the side table's */
	ItemPointerData tid;
	bool has_key;
	bool stays;
};

/* A column of the guarded table. */
struct ReturnedColumn
{
	Form_pg_attribute column; /* NULL: nothing is inserted into it */
	bool used;                /* the guard goes by it */
	FmgrInfo input;
	Oid typioparam;
};

/* A column of one of the side table's tables, and what its values become. */
struct SideSource
{
	AttrNumber attnum; /* 0: there is none */
	bool convert;      /* by its text */
	FmgrInfo output;
};

/* One of the tables that the side table consists of. */
struct SideLeaf
{
	Relation rel;
	TupleTableSlot *slot;
	SideSource *from;  /* for each column of the guarded table */
	AttrNumber at;     /* refused_at */
	AttrNumber by;     /* refused_by */
	AttrNumber rest;   /* or 0 */
	Bitmapset *others; /* columns that the guarded table does not have */
	SPIPlanPtr remove; /* DELETE; NULL: not made yet */
};

struct Readmission
{
	Relation rel; /* the guarded table */
	const GuardPlan *plan;
	KeyReader reader;
	dedup::KeySeed seed;
	Snapshot snapshot;
	ReturnedColumn *columns;
	TupleTableSlot *row; /* of the guarded table; for one that is read */
	Bitmapset *defaults; /* columns of that row that have no value */
	SideLeaf *leaves;
	int leaf_count;
	MemoryContext context;
	MemoryContext row_context; /* reset for each row */
	Refused *refused;
	int count;
	int room;
	SPIPlanPtr insert;
	Bitmapset *insert_defaults; /* columns that it leaves out */
};

} /* namespace */

static void
ReadColumnsOf(Readmission *readmission)
{
	TupleDesc desc = RelationGetDescr(readmission->rel);
	const GuardClause &clause = readmission->plan->clause;

	readmission->columns =
		(ReturnedColumn *) palloc0(sizeof(ReturnedColumn) * (Size) Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		ReturnedColumn *returned = &readmission->columns[i];
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
OpenLeaf(const Readmission *readmission, Oid relid, SideLeaf *leaf)
{
	TupleDesc table = RelationGetDescr(readmission->rel);
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
		if (attnum == 0 || readmission->columns[attnum - 1].column == NULL)
			continue;
		source = &leaf->from[attnum - 1];
		source->attnum = (AttrNumber) (i + 1);
		source->convert = column->atttypid != TupleDescAttr(table, attnum - 1)->atttypid;
		getTypeOutputInfo(column->atttypid, &output, &varlena);
		fmgr_info(output, &source->output);
	}
}

/* Opens the side table's tables, which are locked. */
static void
OpenLeaves(Readmission *readmission)
{
	const Oid side = readmission->plan->clause.side;
	List *tables = list_make1_oid(side);
	ListCell *cell;

	if (get_rel_relkind(side) == RELKIND_PARTITIONED_TABLE)
		tables = find_all_inheritors(side, RowExclusiveLock, NULL);
	readmission->leaves = (SideLeaf *) palloc(sizeof(SideLeaf) * (Size) list_length(tables));
	foreach(cell, tables)
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
			OpenLeaf(readmission, lfirst_oid(cell),
					 &readmission->leaves[readmission->leaf_count++]);
}

static void
CloseLeaves(Readmission *readmission)
{
	for (int i = 0; i < readmission->leaf_count; i++)
	{
		SideLeaf *leaf = &readmission->leaves[i];

		ExecDropSingleTupleTableSlot(leaf->slot);
		table_close(leaf->rel, NoLock);
	}
}

/* The text of a JSON value. */
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

/* The value of a column in `rest`, if it is there. */
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
	/* The input function of a domain checks NULL, too. */
	*value = InputFunctionCall(&returned->input, *isnull ? NULL : TextOf(found),
							   returned->typioparam, returned->column->atttypmod);
	return true;
}

/* A column of the table was renamed, or so it seems: its values would be lost. */
static void
CheckNothingIsLost(const Readmission *readmission, const SideLeaf *leaf,
				   const ReturnedColumn *returned)
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
						RelationGetRelationName(leaf->rel),
						RelationGetRelationName(readmission->rel)),
				 errdetail("Column \"%s\" of \"%s\" has values for no column of \"%s\", whose "
						   "column \"%s\" has none.",
						   NameStr(other->attname), RelationGetRelationName(leaf->rel),
						   RelationGetRelationName(readmission->rel),
						   NameStr(returned->column->attname)),
				 errhint("If the column was renamed, rename that of \"%s\", too; else drop it, or "
						 "add column \"%s\" to \"%s\".",
						 RelationGetRelationName(leaf->rel), NameStr(returned->column->attname),
						 RelationGetRelationName(leaf->rel))));
	}
}

/* Makes the row of the guarded table of the side table's row in the slot. */
static void
ReadSideRow(Readmission *readmission, SideLeaf *leaf)
{
	TupleDesc desc = RelationGetDescr(readmission->rel);
	TupleTableSlot *row = readmission->row;
	Jsonb *rest = NULL;
	bool isnull = true;

	if (leaf->rest != 0)
	{
		const Datum value = slot_getattr(leaf->slot, leaf->rest, &isnull);

		if (!isnull)
			rest = DatumGetJsonbP(value);
	}
	ExecClearTuple(row);
	readmission->defaults = NULL;
	for (int i = 0; i < desc->natts; i++)
	{
		ReturnedColumn *returned = &readmission->columns[i];
		SideSource *source = &leaf->from[i];

		row->tts_values[i] = (Datum) 0;
		row->tts_isnull[i] = true;
		if (returned->column == NULL ||
			ReadFromRest(returned, rest, &row->tts_values[i], &row->tts_isnull[i]))
			continue;
		if (source->attnum == 0)
		{
			CheckNothingIsLost(readmission, leaf, returned);
			if (returned->used)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("cannot bring rows of table \"%s\" back into table \"%s\"",
								RelationGetRelationName(leaf->rel),
								RelationGetRelationName(readmission->rel)),
						 errdetail("A row has no value for column \"%s\", which the guard uses.",
								   NameStr(returned->column->attname))));
			readmission->defaults = bms_add_member(readmission->defaults, i);
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

/* Adds the row in the slot to those that are looked at. */
static void
AddRefused(Readmission *readmission, int table, MemoryContext context)
{
	SideLeaf *leaf = &readmission->leaves[table];
	Refused refused = {};
	GuardKey key;
	bool isnull;

	ReadSideRow(readmission, leaf);
	ReadGuardKey(readmission->reader, readmission->row, &key);
	refused.has_key = HashGuardKey(readmission->plan, key, readmission->seed, &refused.hash);
	refused.at = DatumGetTimestampTz(slot_getattr(leaf->slot, leaf->at, &isnull));
	if (isnull)
		refused.at = DT_NOEND;
	refused.table = table;
	refused.tid = leaf->slot->tts_tid;
	*OneMore(context, &readmission->refused, &readmission->count, &readmission->room) = refused;
}

static void
ScanSide(Readmission *readmission)
{
	const MemoryContext context = CurrentMemoryContext;

	for (int table = 0; table < readmission->leaf_count; table++)
	{
		SideLeaf *leaf = &readmission->leaves[table];
		TableScanDesc scan =
			table_beginscan_strat(leaf->rel, readmission->snapshot, 0, NULL, true, false);

		while (table_scan_getnextslot(scan, ForwardScanDirection, leaf->slot))
		{
			bool isnull;
			const Datum by = slot_getattr(leaf->slot, leaf->by, &isnull);

			CHECK_FOR_INTERRUPTS();
			if (isnull || DatumGetObjectId(by) != RelationGetRelid(readmission->rel))
				continue;
			MemoryContextSwitchTo(readmission->row_context);
			AddRefused(readmission, table, context);
			MemoryContextSwitchTo(context);
			MemoryContextReset(readmission->row_context);
		}
		table_endscan(scan);
	}
}

/* Reads a refused row again. Returns false if it is gone. */
static bool
FetchRefused(Readmission *readmission, const Refused &refused)
{
	SideLeaf *leaf = &readmission->leaves[refused.table];
	ItemPointerData tid = refused.tid;

	if (!table_tuple_fetch_row_version(leaf->rel, &tid, readmission->snapshot, leaf->slot))
		return false;
	ReadSideRow(readmission, leaf);
	return true;
}

/* ---- which rows come back -------------------------------------------------------------------- */

static int
Compare(int64 a, int64 b)
{
	return a < b ? -1 : a > b;
}

/* By their age; those of one instant by their place. */
static int
CompareAges(const void *a, const void *b)
{
	const Refused *one = (const Refused *) a;
	const Refused *other = (const Refused *) b;
	int result = Compare(one->at, other->at);

	if (result == 0)
		result = Compare(one->table, other->table);
	if (result == 0)
		result = ItemPointerCompare(const_cast<ItemPointer>(&one->tid),
									const_cast<ItemPointer>(&other->tid));
	return result;
}

/* By their keys' hashes; those of one hash by their age. */
static int
CompareHashes(const void *a, const void *b)
{
	const Refused *one = (const Refused *) a;
	const Refused *other = (const Refused *) b;

	if (one->has_key != other->has_key)
		return one->has_key ? -1 : 1;
	if (one->has_key && one->hash != other->hash)
		return one->hash < other->hash ? -1 : 1;
	return CompareAges(a, b);
}

/* Returns the first row with a hash, of so many that have a key, or `keyed`. */
static int
FindHash(const Readmission *readmission, int keyed, uint64 hash)
{
	int low = 0;
	int high = keyed;

	while (low < high)
	{
		const int middle = low + (high - low) / 2;

		if (readmission->refused[middle].hash < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether a refused row has a key, exactly. In the row's memory. */
static bool
HasThatKey(Readmission *readmission, const Refused &refused, const NullableDatum *columns)
{
	GuardKey key;

	if (!FetchRefused(readmission, refused))
		return false;
	ReadGuardKey(readmission->reader, readmission->row, &key);
	return key.counts && EqualGuardKeys(readmission->plan, key.columns, columns);
}

/* Lets stay what has the key of an older one, or of a row of the table. Sorted by hashes. */
static void
FindRepeats(Readmission *readmission, int keyed)
{
	for (int i = 0; i < keyed; i++)
	{
		const Refused &first = readmission->refused[i];
		const NullableDatum *columns = NULL;

		for (int j = i + 1; !first.stays && j < keyed && readmission->refused[j].hash == first.hash;
			 j++)
		{
			const MemoryContext old = MemoryContextSwitchTo(readmission->row_context);

			CHECK_FOR_INTERRUPTS();
			if (columns == NULL && FetchRefused(readmission, first))
			{
				GuardKey key;

				ReadGuardKey(readmission->reader, readmission->row, &key);
				columns = CopyGuardKey(readmission->plan, key.columns);
			}
			if (columns != NULL && !readmission->refused[j].stays)
				readmission->refused[j].stays =
					HasThatKey(readmission, readmission->refused[j], columns);
			MemoryContextSwitchTo(old);
		}
		MemoryContextReset(readmission->row_context);
	}
}

/* Lets stay what has the key of a row of the table. Sorted by hashes. */
static void
FindInTable(Readmission *readmission, const LiveFilter &filter, int keyed)
{
	const TableKeys keys = TableKeysOf(readmission->rel, readmission->plan->clause, filter);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	ListCell *cell;

	foreach(cell, CoveredTables(readmission->rel))
		VisitKeys(keys, lfirst_oid(cell), snapshot, [&](const KeyRow &row) {
			for (int i = FindHash(readmission, keyed, row.hash);
				 i < keyed && readmission->refused[i].hash == row.hash; i++)
				if (!readmission->refused[i].stays)
					readmission->refused[i].stays =
						HasThatKey(readmission, readmission->refused[i], row.key->columns);
			return false;
		});
	UnregisterSnapshot(snapshot);
}

static void
ChooseRows(Readmission *readmission, const LiveFilter &filter)
{
	int keyed = 0;

	if (readmission->count == 0)
		return;
	if (!readmission->plan->options.exact)
	{
		qsort(readmission->refused, (size_t) readmission->count, sizeof(Refused), CompareHashes);
		while (keyed < readmission->count && readmission->refused[keyed].has_key)
			keyed++;
		if (keyed > 0)
		{
			FindInTable(readmission, filter, keyed);
			FindRepeats(readmission, keyed);
		}
	}
	qsort(readmission->refused, (size_t) readmission->count, sizeof(Refused), CompareAges);
}

/* ---- bringing them back ------------------------------------------------------------------------
 */

static SPIPlanPtr
Prepare(const char *command, int parameters, Oid *types)
{
	const SPIPlanPtr plan = SPI_prepare(command, parameters, types);

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", command, SPI_result_code_string(SPI_result));
	return plan;
}

/* The INSERT of the columns that the row has values for. */
static void
PrepareReturn(Readmission *readmission)
{
	TupleDesc desc = RelationGetDescr(readmission->rel);
	Oid *types = (Oid *) palloc(sizeof(Oid) * (Size) Max(desc->natts, 1));
	StringInfoData columns;
	StringInfoData values;
	int n = 0;

	initStringInfo(&columns);
	initStringInfo(&values);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = readmission->columns[i].column;

		if (column == NULL || bms_is_member(i, readmission->defaults))
			continue;
		appendStringInfo(&columns, "%s%s", n == 0 ? "" : ", ",
						 quote_identifier(NameStr(column->attname)));
		appendStringInfo(&values, "%s$%d", n == 0 ? "" : ", ", n + 1);
		types[n++] = column->atttypid;
	}
	/* A row without columns has no key, and no guard that refuses it. */
	readmission->insert =
		Prepare(psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)",
						 QualifiedGuardName(RelationGetRelid(readmission->rel)), columns.data,
						 values.data),
				n, types);
}

/* Inserts the row. Returns false if the guard refuses it. */
static bool
InsertRow(Readmission *readmission, const Refused &refused)
{
	const int natts = RelationGetDescr(readmission->rel)->natts;
	const TupleTableSlot *row = readmission->row;
	Datum *values = (Datum *) palloc(sizeof(Datum) * (Size) natts);
	char *nulls = (char *) palloc((Size) natts);
	Returning marked = {RelationGetRelid(readmission->rel), DatumGetInt32(pg_trigger_depth(NULL)),
						refused.has_key, refused.hash, false};
	Returning *const outer = returning;
	volatile int result = 0;
	MemoryContext old;
	int n = 0;

	if (readmission->insert == NULL ||
		!bms_equal(readmission->defaults, readmission->insert_defaults))
	{
		if (readmission->insert != NULL)
			SPI_freeplan(readmission->insert);
		readmission->insert = NULL;
		PrepareReturn(readmission);
		old = MemoryContextSwitchTo(readmission->context);
		readmission->insert_defaults = bms_copy(readmission->defaults);
		MemoryContextSwitchTo(old);
	}
	for (int i = 0; i < natts; i++)
	{
		if (readmission->columns[i].column == NULL || bms_is_member(i, readmission->defaults))
			continue;
		values[n] = row->tts_values[i];
		nulls[n++] = row->tts_isnull[i] ? 'n' : ' ';
	}
	returning = &marked;
	PG_TRY();
	{
		result = SPI_execute_plan(readmission->insert, values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		returning = outer;
	}
	PG_END_TRY();
	if (result < 0)
		elog(ERROR, "could not insert a row: %s", SPI_result_code_string(result));
	if (marked.refused)
		return false;
	if (result != SPI_OK_INSERT || SPI_processed != 1)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("table \"%s\" has not kept a row that was to be brought back",
							   RelationGetRelationName(readmission->rel)),
						errdetail("A trigger or rule of the table has left the row out.")));
	return true;
}

/* Takes the row out of the side table. */
static void
RemoveRefused(Readmission *readmission, Refused *refused)
{
	SideLeaf *leaf = &readmission->leaves[refused->table];
	Oid type = TIDOID;
	Datum tid = PointerGetDatum(&refused->tid);
	int result;

	if (leaf->remove == NULL)
		leaf->remove = Prepare(psprintf("DELETE FROM ONLY %s WHERE ctid OPERATOR(pg_catalog.=) $1",
										QualifiedGuardName(RelationGetRelid(leaf->rel))),
							   1, &type);
	result = SPI_execute_plan(leaf->remove, &tid, NULL, false, 0);
	if (result < 0)
		elog(ERROR, "could not delete a row: %s", SPI_result_code_string(result));
	if (result != SPI_OK_DELETE || SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not delete a row from table \"%s\"",
						RelationGetRelationName(leaf->rel)),
				 errdetail("Another transaction, or a trigger, rule or policy of the table, is in "
						   "the way.")));
}

/* Reads a row as it was refused; its functions run as the table's owner. */
static bool
ReadAsOwner(Readmission *readmission, const Refused &refused)
{
	const AsOwner before = BecomeOwner(readmission->rel);
	bool there;

	SetPortableText();
	there = FetchRefused(readmission, refused);
	BecomeAgain(before);
	return there;
}

static int64
BringBack(Readmission *readmission)
{
	Oid user;
	int security;
	int64 count = 0;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(readmission->rel->rd_rel->relowner,
						   security | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	for (int i = 0; i < readmission->count; i++)
	{
		Refused *refused = &readmission->refused[i];
		const MemoryContext old = MemoryContextSwitchTo(readmission->row_context);

		CHECK_FOR_INTERRUPTS();
		if (!refused->stays && ReadAsOwner(readmission, *refused) &&
			InsertRow(readmission, *refused))
		{
			RemoveRefused(readmission, refused);
			count++;
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(readmission->row_context);
	}
	SPI_finish();
	SetUserIdAndSecContext(user, security);
	return count;
}

/* ---- the call
 * ------------------------------------------------------------------------------------ */

/* Opens the table with all locks that are needed. Its guard diverts. */
static void
OpenReadmission(Oid relid, Readmission *readmission)
{
	const char *flaw;
	Relation side;
	Oid function;

	readmission->rel = OpenOwnTable(relid, ShareRowExclusiveLock);
	if (readmission->rel->rd_refcnt > 1)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
						errmsg("cannot bring rows back into table \"%s\"",
							   RelationGetRelationName(readmission->rel)),
						errdetail("It is being used by active queries in this session.")));
	if (readmission->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		list_free(find_all_inheritors(relid, ShareRowExclusiveLock, NULL));
	function = FindGuardFunction(readmission->rel, false);
	if (OidIsValid(function))
		readmission->plan = GetGuardPlan(readmission->rel, function);
	if (readmission->plan == NULL || readmission->plan->mode != GuardMode::Divert)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("the guard of table \"%s\" does not divert rows",
							   RelationGetRelationName(readmission->rel)),
						errhint("Only dedup_guard(..., on_duplicate => 'divert') keeps the rows "
								"that it refuses.")));
	if (readmission->plan->guarded != relid)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("the guard of partition \"%s\" belongs to a table above it",
							   RelationGetRelationName(readmission->rel)),
						errhint("Call dedup_readmit() for table \"%s\".",
								get_rel_name(readmission->plan->guarded))));
	side = try_relation_open(readmission->plan->clause.side, RowExclusiveLock);
	flaw = side == NULL ? gettext_noop("It does not exist.") : FlawOfSideTable(side, relid);
	if (flaw != NULL)
		ReportSideTable(readmission->plan->clause.side, relid, flaw);
	relation_close(side, NoLock);
}

/* Reads the refused rows, and finds those that come back. */
static void
FindRows(Readmission *readmission, const LiveFilter &filter)
{
	AsOwner before;

	readmission->seed = filter.key_seed();
	MakeKeyReader(&readmission->reader, &readmission->plan->clause);
	ReadColumnsOf(readmission);
	OpenLeaves(readmission);
	readmission->row = MakeSingleTupleTableSlot(RelationGetDescr(readmission->rel), &TTSOpsVirtual);
	before = BecomeOwner(readmission->rel);
	SetPortableText();
	ScanSide(readmission);
	ChooseRows(readmission, filter);
	BecomeAgain(before);
}

/*
 * dedup_readmit(table regclass) returns bigint
 *
 * Brings back the rows that the guard of a table has refused although there is no row of their
 * key in it. As the owner of the table. Returns how many.
 */
DEDUP_FUNCTION(dedup_readmit)
{
	Readmission readmission = {};
	MemoryContext old;
	LiveFilter filter;
	int64 count;

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"table\" must not be NULL")));
	PreventCommandDuringRecovery("dedup_readmit()");
	PreventCommandIfReadOnly("dedup_readmit()");
	SettleGuardRows();
	OpenReadmission(PG_GETARG_OID(0), &readmission);

	/* All that has committed until now, and that this transaction has done. */
	CommandCounterIncrement();
	readmission.snapshot = RegisterSnapshot(GetTransactionSnapshot());
	readmission.context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_readmit",
														ALLOCSET_DEFAULT_SIZES);
	readmission.row_context =
		AllocSetContextCreateInternal(readmission.context, "dedup_readmit row",
									  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(readmission.context);
	filter = OpenLive(readmission.plan->clause.filter, LiveUse::Add,
					  readmission.rel->rd_rel->relowner, "dedup_readmit()");
	FindRows(&readmission, filter);
	CloseLive(filter);
	count = BringBack(&readmission);
	CloseLeaves(&readmission);
	ExecDropSingleTupleTableSlot(readmission.row);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(readmission.context);
	UnregisterSnapshot(readmission.snapshot);
	table_close(readmission.rel, NoLock);
	PG_RETURN_INT64(count);
}
