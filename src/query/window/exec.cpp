/*
 * The executor's side of the node for dedup_is_new(...) OVER (...).
 *
 * Rows are returned in the order in which they are read, each with the results of the functions.
 * While the filters of a partition fit into a cache, the node works row by row, as WindowAgg does.
 * After that it reads rows in batches, so that the cache misses of their keys overlap. A LIMIT then
 * reads up to BATCH - 1 rows more than it needs.
 *
 * Errors and warnings of a row are raised when the row is requested, except for errors from reading
 * the row and from hashing its key.
 */
#include "pg/row_batch.hpp"
#include "query/window/call.hpp"
#include "query/window/window.hpp"

extern "C" {
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "commands/explain.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
}

namespace
{

/* Rows are read in batches when the filters have at least this size. */
constexpr Size BATCH_FROM_BYTES = 256 * 1024;

struct Argument
{
	ExprState *expr;   /* NULL: a column */
	AttrNumber column; /* of the input's row */
};

/* A function of the window. */
struct Function
{
	WindowKind kind;
	bool drops[2]; /* the node drops rows with seen = 0, or with seen = 1 */
	Node *expr;    /* the call */
	FmgrInfo info;
	int argument_count;
	Argument *arguments; /* the prototype first, if there is one */

	/* of dedup_is_new() */
	WindowCall call;
	bool prepared;

	/* of the current partition */
	bool started;
	OwnFilter own;

	/* of the current batch */
	uint64 hashes[BATCH];
	uint8 seen[BATCH];
};

struct WindowState
{
	CustomScanState css; /* must be first */

	PlanState *input;
	WindowPlanFields plan;
	int function_count;
	Function *functions;
	ExprContext *input_context; /* for arguments, and to compare partitions */
	AttrNumber last_column;     /* of arguments: rows are deformed up to this column */

	/* partitions */
	ExprState *same_partition; /* NULL: there is only one partition */
	/* a row of the partition; of the next partition, if that is pending */
	TupleTableSlot *first;
	bool pending;
	bool started;
	bool done; /* the input has no more rows */
	MemoryContext partition;
	int64 number; /* number of the last returned row in its partition */

	/* the batch in hand */
	RowBatch rows;
	int filled;
	int tested;
	int next;

	uint64 partitions;
	Size memory; /* most bytes of all filters */
};

} /* namespace */

/* ---- keys --------------------------------------------------------------------- */

/* The row's columns must be deformed up to last_column. */
static inline NullableDatum
Evaluate(WindowState *state, const Argument *argument, TupleTableSlot *row)
{
	NullableDatum result;

	if (argument->expr == NULL)
	{
		result.value = row->tts_values[argument->column - 1];
		result.isnull = row->tts_isnull[argument->column - 1];
		return result;
	}
	state->input_context->ecxt_scantuple = row;
	result.value = ExecEvalExpr(argument->expr, state->input_context, &result.isnull);
	return result;
}

/* As in WindowAgg, a type without a hash function raises an error at the first row. */
static void
PrepareFunction(Function *function)
{
	LOCAL_FCINFO(fcinfo, 0);

	memset(fcinfo, 0, SizeForFunctionCallInfo(0));
	fcinfo->flinfo = &function->info;
	fcinfo->fncollation = exprInputCollation(function->expr);
	fcinfo->nargs = (short) function->argument_count;
	PrepareWindowCall(&function->call, fcinfo, function->kind == WindowKind::IsNewPrototype);
	function->prepared = true;
}

static void
StartFunction(WindowState *state, Function *function, TupleTableSlot *row)
{
	NullableDatum prototype = {};

	if (!function->prepared)
		PrepareFunction(function);
	if (function->call.with_prototype)
		prototype = Evaluate(state, &function->arguments[0], row);
	StartOwnFilter(&function->call, &function->own, state->partition, &prototype);
	function->started = true;
}

/* Allocates in input_context, which the caller has reset for this row. */
static inline uint64
HashRow(WindowState *state, Function *function, TupleTableSlot *row)
{
	const Argument *arguments = function->arguments + function->call.with_prototype;

	for (int i = 0; i < function->call.keys->columns; i++)
		function->call.columns[i] = Evaluate(state, &arguments[i], row);
	return HashCallKey(&function->call, &function->own);
}

/* Tests one key, and raises its warnings. */
static void
TestOne(WindowState *state, Function *function, int i)
{
	MemoryContext old = MemoryContextSwitchTo(state->partition);

	function->seen[i] = !IsNewToOwn(&function->own, function->hashes[i]);
	MemoryContextSwitchTo(old);
	if (!function->seen[i])
		WarnOwnOverfull(&function->own, &function->call.warned, "dedup_is_new");
}

/* ---- rows ----------------------------------------------------------------------- */

static void
StartPartition(WindowState *state)
{
	MemoryContextReset(state->partition);
	for (int f = 0; f < state->function_count; f++)
		state->functions[f].started = false;
	state->started = true;
	state->number = 0;
	state->partitions++;
}

/* Returns the next row of the input if it is in the current partition, or NULL. */
static TupleTableSlot *
NextRowOfPartition(WindowState *state)
{
	TupleTableSlot *row;

	if (state->pending || state->done)
		return NULL;
	row = ExecProcNode(state->input);
	if (TupIsNull(row))
	{
		state->done = true;
		return NULL;
	}
	if (state->same_partition == NULL && state->started)
		return row;
	if (state->same_partition != NULL)
	{
		ExprContext *context = state->input_context;

		context->ecxt_innertuple = state->first;
		context->ecxt_outertuple = row;
		if (state->started && ExecQualAndReset(state->same_partition, context))
			return row;
	}
	ExecCopySlot(state->first, row);
	state->pending = true;
	return NULL;
}

/* Returns the next row, of any partition, or NULL. */
static TupleTableSlot *
NextRow(WindowState *state)
{
	TupleTableSlot *row = NextRowOfPartition(state);

	if (row != NULL || !state->pending)
		return row;
	state->pending = false;
	StartPartition(state);
	return state->first;
}

/* Tests a single row, function by function, as WindowAgg does. */
static void
TestRow(WindowState *state, TupleTableSlot *row)
{
	MemoryContext old;

	slot_getsomeattrs(row, state->last_column);
	ResetExprContext(state->input_context);
	old = MemoryContextSwitchTo(state->input_context->ecxt_per_tuple_memory);
	for (int f = 0; f < state->function_count; f++)
	{
		Function *function = &state->functions[f];

		if (function->kind == WindowKind::RowNumber)
			continue;
		if (!function->started)
			StartFunction(state, function, row);
		function->hashes[0] = HashRow(state, function, row);
		TestOne(state, function, 0);
	}
	MemoryContextSwitchTo(old);
}

/* Reads the next rows of the partition, up to BATCH. */
static void
FillBatch(WindowState *state)
{
	int n = 0;

	StartBatch(&state->rows);
	while (n < BATCH)
	{
		TupleTableSlot *row = NextRowOfPartition(state);
		MemoryContext old;

		if (row == NULL)
			break;
		/*
		 * The hashes are computed first: for some slot types, the copy also takes over the deformed
		 * columns.
		 */
		slot_getsomeattrs(row, state->last_column);
		ResetExprContext(state->input_context);
		old = MemoryContextSwitchTo(state->input_context->ecxt_per_tuple_memory);
		for (int f = 0; f < state->function_count; f++)
			if (state->functions[f].kind != WindowKind::RowNumber)
				state->functions[f].hashes[n] = HashRow(state, &state->functions[f], row);
		MemoryContextSwitchTo(old);
		KeepRow(&state->rows, n, row, state->input);
		n++;
		CHECK_FOR_INTERRUPTS();
	}
	state->filled = n;
	state->next = state->tested = 0;
}

static void
EmptyBatch(WindowState *state)
{
	DropRows(&state->rows);
	state->filled = state->next = state->tested = 0;
}

/*
 * Tests the keys of the batch: all of them, or only the next one if it may raise an error or a
 * warning.
 */
static void
TestBatch(WindowState *state)
{
	int from = state->tested;
	int n = state->filled - from;
	bool one = false;

	for (int f = 0; f < state->function_count; f++)
	{
		Function *function = &state->functions[f];

		if (function->kind != WindowKind::RowNumber &&
			OwnMaySpeak(&function->own, function->call.warned, n))
			one = true;
	}
	for (int f = 0; f < state->function_count; f++)
	{
		Function *function = &state->functions[f];

		if (function->kind == WindowKind::RowNumber)
			continue;
		if (one)
			TestOne(state, function, from);
		else
		{
			MemoryContext old = MemoryContextSwitchTo(state->partition);

			TestAndAddToOwn(&function->own, function->hashes + from, n, function->seen + from);
			MemoryContextSwitchTo(old);
		}
	}
	state->tested += one ? 1 : n;
}

/* Returns the bytes of the partition's filters. */
static Size
FilterBytes(WindowState *state)
{
	Size bytes = 0;

	for (int f = 0; f < state->function_count; f++)
		if (state->functions[f].started)
			bytes += state->functions[f].own.bytes();
	state->memory = Max(state->memory, bytes);
	return bytes;
}

/* Returns whether the node's filter passes the row at this place in the batch. */
static inline bool
Passes(const WindowState *state, int i)
{
	for (int f = 0; f < state->function_count; f++)
		if (state->functions[f].drops[state->functions[f].seen[i]])
			return false;
	return true;
}

/* Returns the row in the form that the plan above expects. */
static TupleTableSlot *
PassRow(WindowState *state, TupleTableSlot *row, int i)
{
	ProjectionInfo *projection = state->css.ss.ps.ps_ProjInfo;
	TupleTableSlot *scanned = state->css.ss.ss_ScanTupleSlot;
	int columns = state->plan.input_columns;

	ExecClearTuple(scanned);
	slot_getallattrs(row);
	memcpy(scanned->tts_values, row->tts_values, sizeof(Datum) * columns);
	memcpy(scanned->tts_isnull, row->tts_isnull, sizeof(bool) * columns);
	for (int f = 0; f < state->function_count; f++)
	{
		scanned->tts_isnull[columns + f] = false;
		scanned->tts_values[columns + f] = state->functions[f].kind == WindowKind::RowNumber
											   ? Int64GetDatum(state->number)
											   : BoolGetDatum(!state->functions[f].seen[i]);
	}
	ExecStoreVirtualTuple(scanned);
	if (projection == NULL)
		return scanned;
	projection->pi_exprContext->ecxt_scantuple = scanned;
	return ExecProject(projection);
}

static TupleTableSlot *
ExecWindow(CustomScanState *css)
{
	WindowState *state = (WindowState *) css;

	/* memory of the last returned row; rows that do not pass allocate nothing there */
	ResetExprContext(css->ss.ps.ps_ExprContext);
	for (;;)
	{
		TupleTableSlot *row;
		int i = 0;

		CHECK_FOR_INTERRUPTS();
		if (state->next < state->filled)
		{
			if (state->next == state->tested)
				TestBatch(state);
			i = state->next++;
			row = state->rows.slots[i];
		}
		else
		{
			if (state->plan.read_ahead && FilterBytes(state) >= BATCH_FROM_BYTES &&
				!state->pending && !state->done)
			{
				FillBatch(state);
				continue;
			}
			row = NextRow(state);
			if (row == NULL)
			{
				EmptyBatch(state);
				return NULL;
			}
			TestRow(state, row);
		}
		state->number++;
		if (Passes(state, i))
			return PassRow(state, row, i);
		InstrCountFiltered1(css, 1);
	}
}

/* ---- the node --------------------------------------------------------------------- */

/* Checks permissions as WindowAgg does. */
static void
CheckMayExecute(Oid function)
{
	AclResult result = MAY_EXECUTE(function, GetUserId());

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

/*
 * Reads which rows the conditions of the plan pass. plan.cpp moves only such conditions into the
 * plan.
 */
static void
ReadConditions(WindowState *state, const List *conditions)
{
	ListCell *cell;

	foreach(cell, conditions)
	{
		Node *condition = (Node *) lfirst(cell);
		bool negated = is_notclause(condition);
		Var *asked = castNode(Var, negated ? (Node *) get_notclausearg(condition) : condition);

		state->functions[FunctionOfVar(&state->plan, asked)].drops[negated ? 0 : 1] = true;
	}
}

static void
BeginFunctions(WindowState *state, const CustomScan *plan)
{
	int next = 0; /* index into custom_exprs */

	state->function_count = list_length(state->plan.kinds);
	state->functions = (Function *) palloc0(sizeof(Function) * state->function_count);
	for (int f = 0; f < state->function_count; f++)
	{
		Function *function = &state->functions[f];
		const TargetEntry *entry =
			(const TargetEntry *) list_nth(plan->custom_scan_tlist, state->plan.input_columns + f);
		FuncExpr *call = castNode(FuncExpr, entry->expr);

		function->kind = (WindowKind) list_nth_int(state->plan.kinds, f);
		function->expr = (Node *) call;
		CheckMayExecute(call->funcid);
		fmgr_info_cxt(call->funcid, &function->info, CurrentMemoryContext);
		fmgr_info_set_expr((Node *) call, &function->info);
		function->argument_count = list_length(call->args);
		function->arguments =
			(Argument *) palloc0(sizeof(Argument) * (function->argument_count + 1));
		for (int i = 0; i < function->argument_count; i++)
		{
			Expr *expr = (Expr *) list_nth(plan->custom_exprs, next++);

			if (IsA(expr, Var) && ((Var *) expr)->varattno > 0)
			{
				function->arguments[i].column = ((Var *) expr)->varattno;
				state->last_column = Max(state->last_column, ((Var *) expr)->varattno);
			}
			else
				function->arguments[i].expr = ExecInitExpr(expr, &state->css.ss.ps);
		}
	}
}

static void
BeginPartitions(WindowState *state, EState *estate, TupleDesc desc, const TupleTableSlotOps *ops)
{
	int n = list_length(state->plan.partition_columns);
	AttrNumber *columns = (AttrNumber *) palloc(sizeof(AttrNumber) * (n + 1));
	Oid *operators = (Oid *) palloc(sizeof(Oid) * (n + 1));
	Oid *collations = (Oid *) palloc(sizeof(Oid) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		columns[i] = (AttrNumber) list_nth_int(state->plan.partition_columns, i);
		operators[i] = list_nth_oid(state->plan.partition_operators, i);
		collations[i] = list_nth_oid(state->plan.partition_collations, i);
	}
	if (n > 0)
		state->same_partition =
			execTuplesMatchPrepare(desc, n, columns, operators, collations, &state->css.ss.ps);
	state->first = ExecInitExtraTupleSlot(estate, desc, ops);
	state->partition = AllocSetContextCreate(CurrentMemoryContext, "dedup_is_new partition",
											 ALLOCSET_DEFAULT_SIZES);
}

static void
BeginWindow(CustomScanState *css, EState *estate, int eflags)
{
	WindowState *state = (WindowState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	PlanState before = css->ss.ps;
	const TupleTableSlotOps *ops;
	TupleDesc desc;
	bool fixed;

	UnpackWindowPlan(plan->custom_private, &state->plan);
	state->input = outerPlanState(css) = ExecInitNode(outerPlan(plan), estate, eflags);
	state->input_context = CreateExprContext(estate);

	/* Arguments are evaluated over rows of the input, not over returned rows. */
	desc = ExecGetResultType(state->input);
	ops = ExecGetResultSlotOps(state->input, &fixed);
	css->ss.ps.scandesc = desc;
	css->ss.ps.scanops = ops;
	css->ss.ps.scanopsfixed = fixed;
	BeginFunctions(state, plan);
	css->ss.ps.scandesc = before.scandesc;
	css->ss.ps.scanops = before.scanops;
	css->ss.ps.scanopsfixed = before.scanopsfixed;

	BeginPartitions(state, estate, desc, ops);
	ReadConditions(state, plan->scan.plan.qual);
}

static void
EndWindow(CustomScanState *css)
{
	WindowState *state = (WindowState *) css;

	ExecEndNode(state->input);
	MemoryContextDelete(state->partition);
}

static void
ReScanWindow(CustomScanState *css)
{
	WindowState *state = (WindowState *) css;

	(void) FilterBytes(state);
	EmptyBatch(state);
	ExecClearTuple(state->first);
	MemoryContextReset(state->partition);
	for (int f = 0; f < state->function_count; f++)
		state->functions[f].started = false;
	state->started = state->pending = state->done = false;
	if (state->input->chgParam == NULL)
		ExecReScan(state->input);
}

/* ---- EXPLAIN ------------------------------------------------------------------------ */

static char *
ShowColumn(const CustomScan *scan, int column, List *context, const ExplainState *es)
{
	TargetEntry *entry = (TargetEntry *) list_nth(scan->custom_scan_tlist, column - 1);
	Node *expr = (Node *) entry->expr;

	return deparse_expression((Node *) makeVar(INDEX_VAR, entry->resno, exprType(expr),
											   exprTypmod(expr), exprCollation(expr), 0),
							  context, es->verbose, false);
}

static void
ExplainWindow(CustomScanState *css, List *ancestors, ExplainState *es)
{
	WindowState *state = (WindowState *) css;
	Plan *plan = css->ss.ps.plan;
	const CustomScan *scan = (const CustomScan *) plan;
	List *context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);
	List *functions = NIL;
	List *partition = NIL;
	ListCell *cell;

	for (int f = 0; f < state->function_count; f++)
		functions =
			lappend(functions, ShowColumn(scan, state->plan.input_columns + f + 1, context, es));
	foreach(cell, state->plan.partition_columns)
		partition = lappend(partition, ShowColumn(scan, lfirst_int(cell), context, es));
	ExplainPropertyList("Window Function", functions, es);
	if (partition != NIL)
		ExplainPropertyList("Partition Key", partition, es);
	if (!es->analyze)
		return;
	(void) FilterBytes(state);
	if (partition != NIL)
		ExplainPropertyUInteger("Partitions", NULL, state->partitions, es);
	ExplainPropertyUInteger("Memory Usage", "kB", (state->memory + 1023) / 1024, es);
}

/* ---- what the server calls ------------------------------------------------------------ */

static const CustomExecMethods ExecMethods = {
	.CustomName = "StreamingWindow",
	.BeginCustomScan = BeginWindow,
	.ExecCustomScan = ExecWindow,
	.EndCustomScan = EndWindow,
	.ReScanCustomScan = ReScanWindow,
	.MarkPosCustomScan = NULL,
	.RestrPosCustomScan = NULL,
	.EstimateDSMCustomScan = NULL,
	.InitializeDSMCustomScan = NULL,
	.ReInitializeDSMCustomScan = NULL,
	.InitializeWorkerCustomScan = NULL,
	.ShutdownCustomScan = NULL,
	.ExplainCustomScan = ExplainWindow,
};

static Node *
CreateWindowState(CustomScan *scan)
{
	WindowState *state = (WindowState *) palloc0(sizeof(WindowState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &ExecMethods;
	return (Node *) state;
}

const CustomScanMethods WindowScanMethods = {
	.CustomName = "StreamingWindow",
	.CreateCustomScanState = CreateWindowState,
};
