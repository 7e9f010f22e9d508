/*
 * dedup_rows([prototype,] query, key_column...): returns the rows of a query whose key is new.
 *
 * The query runs once, with the caller's rights and snapshot, as any query of a VOLATILE function
 * does. Its rows are passed one by one through a filter of its own into a tuplestore. So the memory
 * is that of the filter, up to work_mem for the rows that are returned (the others of these are
 * written to disk), and that of the query itself.
 */
#include "pg/sets.hpp"
#include "query/own_filter.hpp"

extern "C" {
#include "executor/executor.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "tcop/cmdtag.h"
#include "tcop/utility.h"
#include "utils/plancache.h"
}

/* The data that the call site keeps in fn_extra, for the query. */
namespace
{

struct RowsSite
{
	bool warned;
	TupleDesc returned; /* in a target list: the row type of the first set */
};

/* Receives the rows of a query. It is used as a DestReceiver, so that is its first member. */
struct RowsSink
{
	DestReceiver dest;
	TupleDesc desc; /* the row type that the caller expects */
	KeyPlan *keys;
	int key_count;
	AttrNumber *key_columns; /* columns of the key, in the row */
	NullableDatum *columns;  /* of the current row */
	OwnFilter own;
	MemoryContext filter_context;
	MemoryContext row_context; /* memory for hashing a row */
	Tuplestorestate *store;
	bool *warned;
};

} /* namespace */

/* ---- the query ------------------------------------------------------------------ */

/*
 * Parses the query and checks that it only returns rows. Nothing is executed here. The plan is not
 * saved, so it ends with the SPI connection.
 */
static CachedPlanSource *
PrepareQuery(const char *text, SPIPlanPtr *plan)
{
	List *sources;
	CachedPlanSource *source;
	Query *query;

	*plan = SPI_prepare_cursor(text, 0, NULL, CURSOR_OPT_PARALLEL_OK);
	if (*plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	sources = SPI_plan_get_plan_sources(*plan);
	if (sources == NIL)
		ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR), errmsg("query of dedup_rows is empty")));
	if (list_length(sources) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR), errmsg("query of dedup_rows must be one statement"),
				 errdetail("It contains %d statements.", list_length(sources))));
	source = (CachedPlanSource *) linitial(sources);

	/* Rules can turn a statement into none or several, but not a SELECT. */
	query = list_length(source->query_list) == 1 ? linitial_node(Query, source->query_list) : NULL;
	if (query == NULL || query->commandType != CMD_SELECT || query->utilityStmt != NULL)
	{
		CommandTag tag = query != NULL ? CreateCommandTag((Node *) query) : source->commandTag;

		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("query of dedup_rows must be a SELECT, VALUES or TABLE"),
						errdetail("It is %s.", GetCommandTagName(tag))));
	}
	if (query->hasModifyingCTE)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("query of dedup_rows must not modify data in WITH")));
	return source;
}

/* Lists the columns of a result as in SQL: "a, b, c". */
static char *
ColumnNames(TupleDesc desc)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(TupleDescAttr(desc, i)->attname)));
	return names.data;
}

/* Finds the key columns in the result, by their exact names. */
static void
FindKeyColumns(RowsSink *sink, ArrayType *names)
{
	Datum *values;
	bool *isnull;
	Oid *types;
	Oid *collations;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &values, &isnull, &sink->key_count);
	if (sink->key_count == 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("dedup_rows needs at least one key column")));
	sink->key_columns = (AttrNumber *) palloc(sizeof(AttrNumber) * sink->key_count);
	sink->columns = (NullableDatum *) palloc(sizeof(NullableDatum) * sink->key_count);
	types = (Oid *) palloc(sizeof(Oid) * sink->key_count);
	collations = (Oid *) palloc(sizeof(Oid) * sink->key_count);
	for (int key = 0; key < sink->key_count; key++)
	{
		char *name;
		AttrNumber found = 0;

		if (isnull[key])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("key column of dedup_rows must not be null")));
		name = TextDatumGetCString(values[key]);
		for (int i = 0; i < sink->desc->natts; i++)
		{
			if (strcmp(NameStr(TupleDescAttr(sink->desc, i)->attname), name) != 0)
				continue;
			if (found != 0)
				ereport(ERROR, (errcode(ERRCODE_AMBIGUOUS_COLUMN),
								errmsg("key column \"%s\" is ambiguous", name),
								errdetail("Columns %d and %d of the query's result have that name.",
										  found, i + 1),
								errhint("Give one of them another name in the query.")));
			found = (AttrNumber) (i + 1);
		}
		if (found == 0)
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
							errmsg("the query's result has no column \"%s\"", name),
							sink->desc->natts > 0
								? errdetail("Its columns are %s.", ColumnNames(sink->desc))
								: errdetail("It has no columns.")));
		sink->key_columns[key] = found;
		types[key] = TupleDescAttr(sink->desc, found - 1)->atttypid;
		collations[key] = TupleDescAttr(sink->desc, found - 1)->attcollation;
	}
	sink->keys = MakeColumnsKeyPlan(CurrentMemoryContext, sink->key_count, types, collations);
}

/* ---- what the caller expects ------------------------------------------------------ */

/* Makes a definition list for such rows: "a integer, b text". */
static char *
DefinitionList(TupleDesc desc)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(&list, "%s%s %s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(TupleDescAttr(desc, i)->attname)),
						 format_type_with_typemod(TupleDescAttr(desc, i)->atttypid,
												  TupleDescAttr(desc, i)->atttypmod));
	return list.data;
}

/*
 * Raises an error (42804) unless the rows of the query have the types that the caller expects, and
 * the same lengths or precisions if the caller gave any.
 */
static void
CheckRowType(TupleDesc expected, TupleDesc result)
{
	bool same = expected->natts == result->natts;

	for (int i = 0; same && i < result->natts; i++)
	{
		Form_pg_attribute wanted = TupleDescAttr(expected, i);
		Form_pg_attribute given = TupleDescAttr(result, i);

		same = wanted->atttypid == given->atttypid &&
			   (wanted->atttypmod < 0 || wanted->atttypmod == given->atttypmod);
	}
	if (!same)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("rows of the query do not match the column definition list"),
						errdetail("The query returns (%s), the list is (%s).",
								  DefinitionList(result), DefinitionList(expected)),
						errhint("Change the list, or cast the columns in the query.")));
}

/*
 * In a target list, the server assumes that all rows of a call site are like those of the first
 * call, and does not check that.
 */
static void
CheckSameRowType(FunctionCallInfo fcinfo, RowsSite *site, TupleDesc result)
{
	if (site->returned == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		site->returned = CreateTupleDescCopy(result);
		MemoryContextSwitchTo(old);
		return;
	}
	if (!equalTupleDescs(site->returned, result))
		ereport(
			ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("queries of one dedup_rows call in a SELECT list must return the same columns"),
			 errdetail("An earlier row's query returned (%s), this one's returns (%s).",
					   DefinitionList(site->returned), DefinitionList(result)),
			 errhint("Call dedup_rows in FROM, with a column definition list.")));
}

/* ---- rows --------------------------------------------------------------------------- */

/* Returns a row if its key is new. */
static void
TakeRow(RowsSink *sink, TupleTableSlot *slot)
{
	MemoryContext old = MemoryContextSwitchTo(sink->row_context);
	uint64 hash;
	bool is_new;

	for (int i = 0; i < sink->key_count; i++)
		sink->columns[i].value = slot_getattr(slot, sink->key_columns[i], &sink->columns[i].isnull);
	HashColumns(sink->keys, sink->columns, NullKeys::Equal, sink->own.seed(), &hash);
	MemoryContextSwitchTo(sink->filter_context);
	is_new = IsNewToOwn(&sink->own, hash);
	MemoryContextSwitchTo(old);
	MemoryContextReset(sink->row_context);
	if (!is_new)
		return;
	tuplestore_puttupleslot(sink->store, slot);
	WarnOwnOverfull(&sink->own, sink->warned, "dedup_rows");
}

/*
 * The rows have the type that was checked, because the objects that it depends on were locked when
 * the query was parsed. This checks that again.
 */
static void
CheckPromise(RowsSink *sink, TupleDesc actual)
{
	bool same = actual->natts == sink->desc->natts;

	for (int i = 0; same && i < actual->natts; i++)
		same = TupleDescAttr(actual, i)->atttypid == TupleDescAttr(sink->desc, i)->atttypid;
	if (!same)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("result of the query changed between its planning and its run")));
}

#if HAS_SPI_RECEIVERS && !defined(DEDUP_ROWS_BY_CURSOR)

static bool
ReceiveRow(TupleTableSlot *slot, DestReceiver *self)
{
	TakeRow((RowsSink *) self, slot);
	return true;
}

static void
StartReceiving(DestReceiver *self, int operation, TupleDesc desc)
{
	CheckPromise((RowsSink *) self, desc);
}

static void
EndReceiving(DestReceiver *self)
{
}

/* Runs the query to its end, with parallel workers if the planner chooses them. */
static void
RunQuery(SPIPlanPtr plan, RowsSink *sink)
{
	SPIExecuteOptions options = {};
	int result;

	sink->dest.receiveSlot = ReceiveRow;
	sink->dest.rStartup = StartReceiving;
	sink->dest.rShutdown = EndReceiving;
	sink->dest.rDestroy = EndReceiving;
	sink->dest.mydest = DestTuplestore;
	options.dest = &sink->dest;
	result = SPI_execute_plan_extended(plan, &options);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute_plan_extended failed: %s", SPI_result_code_string(result));
}

#else

/* The number of rows that are fetched at a time. */
static constexpr long FETCHED_ROWS = 1000;

/* Before PostgreSQL 14 a plan returns rows only as copies. So they are fetched in batches. */
static void
RunQuery(SPIPlanPtr plan, RowsSink *sink)
{
	Portal portal = SPI_cursor_open(NULL, plan, NULL, NULL, false);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(sink->desc, &TTSOpsHeapTuple);
	uint64 rows;

	CheckPromise(sink, portal->tupDesc);
	do
	{
		SPI_cursor_fetch(portal, true, FETCHED_ROWS);
		rows = SPI_processed;
		for (uint64 i = 0; i < rows; i++)
		{
			ExecStoreHeapTuple(SPI_tuptable->vals[i], slot, false);
			TakeRow(sink, slot);
		}
		ExecClearTuple(slot);
		SPI_freetuptable(SPI_tuptable);
		CHECK_FOR_INTERRUPTS();
	} while (rows == (uint64) FETCHED_ROWS);
	ExecDropSingleTupleTableSlot(slot);
	SPI_cursor_close(portal);
}

#endif

static Datum
DedupRows(FunctionCallInfo fcinfo, bool with_prototype)
{
	ReturnSetInfo *result = RequireSet(fcinfo, SFRM_Materialize);
	const int first = with_prototype ? 1 : 0;
	RowsSite *site = (RowsSite *) fcinfo->flinfo->fn_extra;
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext old;
	RowsSink sink = {};
	dedup::Shape shape;
	char *query;
	ArrayType *names;
	SPIPlanPtr plan;

	if (site == NULL)
	{
		site = (RowsSite *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(RowsSite));
		fcinfo->flinfo->fn_extra = site;
	}
	if (PG_ARGISNULL(first))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("query of dedup_rows must not be null")));
	if (PG_ARGISNULL(first + 1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("key columns of dedup_rows must not be null")));
	shape = with_prototype
				? GetPrototype(PG_ARGISNULL(0), PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0))
				: DefaultShape();
	query = text_to_cstring(PG_GETARG_TEXT_PP(first));
	names = PG_GETARG_ARRAYTYPE_P(first + 1);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	sink.desc = CreateTupleDescCopy(PrepareQuery(query, &plan)->resultDesc);
	FindKeyColumns(&sink, names);
	if (result->expectedDesc != NULL)
		CheckRowType(result->expectedDesc, sink.desc);
	else
		CheckSameRowType(fcinfo, site, sink.desc);

	sink.warned = &site->warned;
	sink.row_context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_rows row",
													 ALLOCSET_DEFAULT_SIZES);
	sink.filter_context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_rows filter",
														ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(sink.filter_context);
	if (with_prototype)
		StartPrototypeFilter(&sink.own, shape);
	else
		StartDefaultFilter(&sink.own, shape);
	MemoryContextSwitchTo(old);
	/* The store outlives the connection. */
	sink.store = ReturnRows(result, sink.desc);

	RunQuery(plan, &sink);
	SPI_finish();
	MemoryContextSwitchTo(outer);
	return (Datum) 0;
}

/*
 * dedup_rows(query text, VARIADIC key_columns text[]) returns setof record
 *
 * Returns the rows of the query whose key (the named columns of its result) has not come before, in
 * the query's order. Uses a window that fills hash_mem.
 */
DEDUP_FUNCTION(dedup_rows)
{
	return DedupRows(fcinfo, false);
}

/*
 * dedup_rows(prototype dedup_filter, query text, VARIADIC key_columns text[])
 *
 * Does the same with a filter that is made as the prototype was.
 */
DEDUP_FUNCTION(dedup_rows_prototype)
{
	return DedupRows(fcinfo, true);
}
