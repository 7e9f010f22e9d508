/*
 * A plan node below ModifyTable that reads ahead the rows of an INSERT into a guarded table.
 *
 * Most of the cost of a guard is a cache miss for each key, because its page can be anywhere in the
 * filter. The node reads a few rows ahead, hashes their keys and prefetches the memory that their
 * triggers will read. The node decides nothing and adds nothing: the trigger of each row tests and
 * adds its key. If an earlier trigger changes the row, the prefetch is useless, but does no harm.
 *
 * Rows are read ahead only if this cannot be noticed. They are not read ahead if the source of the
 * statement has side effects, or sees the side effects of other code. Defaults of the table, such
 * as nextval(), are computed when the node returns the row.
 */
#include "guard/row_key.hpp"
#include "pg/row_batch.hpp"
#include "pg/settings.hpp"
#include "pg/side_effects.hpp"
#include "pg/walker.hpp"

extern "C" {
#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/explain.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/clauses.h"
#include "optimizer/planmain.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
}

/* The number of rows that are read at a time. */
constexpr int CHUNK = BATCH / 2;

/* No more rows are read while the rows in the ring take this many bytes or more. */
constexpr Size MOST_BYTES = 1024 * 1024;

/* The memory that a row's trigger will read is prefetched this many rows before the row. */
constexpr int DISTANCE = 4;

static planner_hook_type previous_planner = NULL;

extern const CustomScanMethods ReadAheadMethods;

/* ---- the plan ------------------------------------------------------------------- */

namespace
{

/* The node's part of the plan. */
struct ReadAheadPlan
{
	Oid table;     /* the table of the statement */
	bool computes; /* the node computes columns that the input does not have */
	List *columns; /* the guard's key columns, by their numbers in the input's row */
};

} /* namespace */

static List *
PackPlan(const ReadAheadPlan *fields)
{
	return list_make3(list_make1_oid(fields->table), list_make1_int(fields->computes),
					  fields->columns);
}

static ReadAheadPlan
UnpackPlan(const CustomScan *scan)
{
	return {linitial_oid((List *) linitial(scan->custom_private)),
			linitial_int((List *) lsecond(scan->custom_private)) != 0,
			(List *) lthird(scan->custom_private)};
}

/* Returns whether the key is read without expressions and hashed without functions of its types. */
static bool
IsPlainKey(const GuardPlan *plan)
{
	for (int i = 0; i < plan->clause.columns; i++)
		if (plan->clause.expressions[i] != NULL)
			return false;
	return HashesByBytes(plan->keys);
}

/* Returns the guard of a locked table if it fires and has a plain key, or NULL. */
static const GuardPlan *
FindPlainGuard(Oid table)
{
	Relation rel = table_open(table, NoLock);
	const GuardPlan *plan = NULL;

	if (rel->trigdesc != NULL && rel->trigdesc->trig_insert_before_row)
	{
		const Oid function = FindGuardFunction(rel, true);

		if (OidIsValid(function))
			plan = FindGuardPlan(rel, function);
	}
	table_close(rel, NoLock);
	return plan != NULL && IsPlainKey(plan) ? plan : NULL;
}

static bool
ReadsOrRuns(Node *node, void *)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) || IsA(node, SubLink) || IsA(node, SubPlan) ||
		(IsA(node, Param) && ((Param *) node)->paramkind != PARAM_EXTERN))
		return true;
	return expression_tree_walker(node, AsWalker(ReadsOrRuns), NULL);
}

/*
 * Returns whether the node must compute an expression when it returns the row, and can do so
 * because the expression does not use the row. An example is the default nextval().
 */
static bool
IsComputedLate(const TargetEntry *entry)
{
	Node *expr = (Node *) entry->expr;

	return contain_volatile_functions(expr) && !ReadsOrRuns(expr, NULL);
}

/*
 * Returns whether a statement is an INSERT whose rows may be read ahead. Then `late` is the number
 * of columns that are computed late. Expressions above the node, such as RETURNING, are computed
 * for one row at a time, so they may have side effects.
 */
static bool
MayReadAhead(const Query *query, int *late)
{
	const RangeTblEntry *table;
	Query source;
	ListCell *cell;

	*late = 0;
	if (query->commandType != CMD_INSERT || !guard_read_ahead || query->jointree->fromlist == NIL)
		return false;
	table = rt_fetch(query->resultRelation, query->rtable);
	if ((table->relkind != RELKIND_RELATION && table->relkind != RELKIND_PARTITIONED_TABLE) ||
		FindPlainGuard(table->relid) == NULL)
		return false;
	source = *query;
	source.commandType = CMD_SELECT;
	source.returningList = source.withCheckOptions = source.targetList = NIL;
	source.onConflict = NULL;
	foreach(cell, query->targetList)
		if (IsComputedLate(lfirst_node(TargetEntry, cell)))
			(*late)++;
		else
			source.targetList = lappend(source.targetList, lfirst(cell));
	return !HasSideEffects((Node *) &source);
}

/* Returns the source of the statement's rows, or NULL if the planner expects only a few rows. */
static Plan **
SourceOf(PlannedStmt *statement)
{
	ModifyTable *top = (ModifyTable *) statement->planTree;
	Plan **source;

	if (!IsA(top, ModifyTable) || top->operation != CMD_INSERT)
		return NULL;
	source = SOURCE_OF(top);
	return source != NULL && (*source)->plan_rows > BATCH ? source : NULL;
}

/*
 * Returns the node for a source of rows. Returns NULL if the node is not possible, for example
 * because the planner has moved one of the `late` columns further down, such as into the partitions
 * of a source.
 */
static Plan *
MakeNode(Plan *source, Oid table, const GuardPlan *guard, int late)
{
	CustomScan *scan = makeNode(CustomScan);
	ReadAheadPlan fields = {table, late > 0, NIL};
	List *read = NIL; /* the columns that the source still computes */
	ListCell *cell;

	foreach(cell, source->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		TargetEntry *passed = flatCopyTargetEntry(entry);
		Node *expr = (Node *) entry->expr;

		if (IsComputedLate(entry))
			late--;
		else
		{
			const int column = list_length(read) + 1;
			Var *var = makeVar(OUTER_VAR, column, exprType(expr), exprTypmod(expr),
							   exprCollation(expr), 0);

			scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
											  makeTargetEntry((Expr *) var, column, NULL, false));
			entry = flatCopyTargetEntry(entry);
			entry->resno = column;
			read = lappend(read, entry);
			/* The server checks that the value of a dropped column is a constant NULL. */
			if (!IsA(expr, Const))
			{
				var = (Var *) copyObjectImpl(var);
				var->varno = INDEX_VAR;
				passed->expr = (Expr *) var;
			}
		}
		scan->scan.plan.targetlist = lappend(scan->scan.plan.targetlist, passed);
	}
	for (int i = 0; i < guard->clause.columns; i++)
	{
		const TargetEntry *key =
			get_tle_by_resno(scan->scan.plan.targetlist, guard->clause.attnums[i]);

		if (key == NULL || !IsA(key->expr, Var))
			return NULL;
		fields.columns = lappend_int(fields.columns, ((Var *) key->expr)->varattno);
	}
	if (late != 0 || (fields.computes && !is_projection_capable_plan(source)))
		return NULL;
	source->targetlist = read;
	scan->scan.plan.startup_cost = source->startup_cost;
	scan->scan.plan.total_cost = source->total_cost;
	scan->scan.plan.plan_rows = source->plan_rows;
	scan->scan.plan.plan_width = source->plan_width;
	scan->scan.plan.extParam = bms_copy(source->extParam);
	scan->scan.plan.allParam = bms_copy(source->allParam);
	scan->scan.plan.lefttree = source;
	scan->custom_private = PackPlan(&fields);
	scan->methods = &ReadAheadMethods;
	return &scan->scan.plan;
}

static PlannedStmt *
PlanStatement(Query *query, const char *text, int cursor_options,
			  ParamListInfo parameters EXPLAIN_PARAMETER)
{
	const Oid table = query->commandType == CMD_INSERT
						  ? rt_fetch(query->resultRelation, query->rtable)->relid
						  : InvalidOid;
	int late;
	/* This must be called before the planner, which changes the query. */
	const bool may = MayReadAhead(query, &late);
	PlannedStmt *statement =
		previous_planner != NULL
			? previous_planner(query, text, cursor_options, parameters EXPLAIN)
			: standard_planner(query, text, cursor_options, parameters EXPLAIN);
	Plan **source = may ? SourceOf(statement) : NULL;
	const GuardPlan *guard = source != NULL ? FindPlainGuard(table) : NULL;

	if (guard != NULL)
	{
		Plan *node = MakeNode(*source, table, guard, late);

		if (node != NULL)
			*source = node;
	}
	return statement;
}

/* ---- rows ------------------------------------------------------------------------ */

namespace
{

/* The hash of a row's key, and the seed of this hash. */
struct KeyHash
{
	bool exists;
	uint64 hash;
	dedup::KeySeed seed;
};

struct ReadAheadState
{
	CustomScanState css; /* must be first */

	PlanState *input;
	ReadAheadPlan plan;
	int columns[INDEX_MAX_KEYS];
	int last_column;
	const GuardPlan *guard; /* NULL: the table has no plain guard, or `looked` is false */
	bool looked;            /* LookForGuard() was called */
	MemoryContext hashing;  /* memory for the values of a key */

	int *varying; /* the columns of the input's row that have a variable length */
	int varying_count;

	/* a ring of the rows that were read and not returned yet */
	RowBatch rows;
	LiveHint hints[BATCH];
	KeyHash hashes[BATCH];
	Size bytes_of[BATCH];
	Size bytes; /* the sum for all rows in the ring */
	int first;
	int count;
	TupleTableSlot *handed_on; /* the last row that was returned from the ring */
	bool done;                 /* the input has no more rows */
	int64 alone;               /* the number of rows that were not read ahead */
};

} /* namespace */

/*
 * Opens the guard's filter if this transaction has locked it. The triggers of earlier rows have
 * normally done so. Without the lock it is not safe to read the filter.
 */
static bool
OpenForHints(const ReadAheadState *state, LiveFilter *filter)
{
	if (state->guard == NULL)
		return false;
	filter->rel = RelationIdGetRelation(state->guard->clause.filter);
	if (!RelationIsValid(filter->rel))
		return false;
	if (!CheckRelationLockedByMe(filter->rel, RowExclusiveLock, true) ||
		!IsLiveRelation(filter->rel) || !LiveHasParameters(filter->rel))
	{
		RelationClose(filter->rel);
		return false;
	}
	filter->parameters = LiveParametersOf(filter->rel);
	return true;
}

/*
 * Returns whether a value can be hashed without detoasting it. Other values are not hashed here,
 * because the trigger would have to detoast them again.
 */
static bool
IsAtHand(const GuardPlan *guard, int i, const NullableDatum &value)
{
	const struct varlena *bytes = (const struct varlena *) DatumGetPointer(value.value);

	return value.isnull || guard->typlen[i] != -1 ||
		   !(VARATT_IS_EXTERNAL(bytes) || VARATT_IS_COMPRESSED(bytes));
}

/* Returns an element of the key of a row whose columns are deformed already. */
static inline NullableDatum
ElementOf(const ReadAheadState *state, const TupleTableSlot *row, int i)
{
	const int at = state->columns[i] - 1;

	return {row->tts_values[at], row->tts_isnull[at]};
}

static KeyHash
HashRow(ReadAheadState *state, const LiveFilter &filter, TupleTableSlot *row)
{
	const GuardPlan *guard = state->guard;
	NullableDatum key[INDEX_MAX_KEYS];
	KeyHash result = {false, 0, filter.key_seed()};

	slot_getsomeattrs(row, state->last_column);
	for (int i = 0; i < guard->clause.columns; i++)
	{
		key[i] = ElementOf(state, row, i);
		if (!IsAtHand(guard, i, key[i]))
			return result;
	}
	result.exists = HashColumns(guard->keys, key, guard->clause.nulls, result.seed, &result.hash);
	return result;
}

/*
 * Stores the hash of a row that is about to be returned as the last hash of the guard's plan. If
 * the row still has the same key when its trigger fires, the trigger need not hash the key again.
 */
static void
HandHashOn(const ReadAheadState *state, const TupleTableSlot *row, const KeyHash &hash)
{
	const GuardPlan *guard = state->guard;
	NullableDatum key[kKeptColumns];

	if (!hash.exists || guard->keys->kept == NULL)
		return;
	for (int i = 0; i < guard->clause.columns; i++)
		key[i] = ElementOf(state, row, i);
	KeepHash(guard->keys, key, hash.seed, hash.hash);
}

/* Returns the size of the memory that a row owns, without columns of fixed length. */
static Size
BytesOf(const ReadAheadState *state, const TupleTableSlot *row)
{
	Size bytes = 0;

	if (state->varying_count == 0 || TTS_IS_BUFFERTUPLE(row))
		return 0;
	if (TTS_IS_MINIMALTUPLE(row))
		return ((const MinimalTupleTableSlot *) row)->mintuple->t_len;
	if (TTS_IS_HEAPTUPLE(row))
		return ((const HeapTupleTableSlot *) row)->tuple->t_len;
	for (int i = 0; i < state->varying_count && state->varying[i] < row->tts_nvalid; i++)
	{
		const int at = state->varying[i];

		if (!row->tts_isnull[at])
			bytes += VARSIZE_ANY(DatumGetPointer(row->tts_values[at]));
	}
	return bytes;
}

static bool
MayReadMore(const ReadAheadState *state)
{
	return !state->done && state->count < BATCH && (state->count == 0 || state->bytes < MOST_BYTES);
}

/* Reads up to CHUNK rows into the ring, hashes their keys and starts to prefetch their pages. */
static void
ReadChunk(ReadAheadState *state)
{
	LiveFilter filter;
	int n;

	StartBatch(&state->rows);
	for (n = 0; n < CHUNK && MayReadMore(state); n++)
	{
		const int i = (state->first + state->count) % BATCH;
		TupleTableSlot *row = ExecProcNode(state->input);

		if (TupIsNull(row))
		{
			state->done = true;
			break;
		}
		KeepRow(&state->rows, i, row, state->input, BATCH_PAGES / 2);
		state->bytes_of[i] = BytesOf(state, state->rows.slots[i]);
		state->bytes += state->bytes_of[i];
		state->count++;
		CHECK_FOR_INTERRUPTS();
	}
	if (n == 0)
		return;

	const int from = (state->first + state->count - n) % BATCH;

	if (!OpenForHints(state, &filter))
	{
		for (int i = 0; i < n; i++)
		{
			state->hints[(from + i) % BATCH] = {};
			state->hashes[(from + i) % BATCH].exists = false;
		}
		return;
	}

	const MemoryContext old = MemoryContextSwitchTo(state->hashing);

	for (int i = 0; i < n; i++)
	{
		const int at = (from + i) % BATCH;

		const KeyHash hash = HashRow(state, filter, state->rows.slots[at]);

		state->hashes[at] = hash;
		state->hints[at] = hash.exists ? HintOfKey(filter, hash.hash) : LiveHint{};
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->hashing);
	RelationClose(filter.rel);
	FindHints(state->hints + from, Min(n, BATCH - from));
	FindHints(state->hints, Max(0, from + n - BATCH));
}

/* Finds the guard for this execution, as its triggers do. */
static void
LookForGuard(ReadAheadState *state)
{
	state->looked = true;
	state->guard = FindPlainGuard(state->plan.table);
	if (state->guard != NULL && state->guard->clause.columns != list_length(state->plan.columns))
		state->guard = NULL;
}

/* Returns the next row of the input, or NULL. */
static TupleTableSlot *
NextRow(ReadAheadState *state)
{
	TupleTableSlot *row;

	/* The first rows are not read ahead: for an INSERT of a few rows this would be slower. */
	if (state->alone < BATCH)
	{
		state->alone++;
		return ExecProcNode(state->input);
	}
	if (!state->looked)
		LookForGuard(state);
	if (state->guard == NULL)
		return ExecProcNode(state->input);
	if (state->handed_on != NULL)
		ExecClearTuple(state->handed_on);
	state->handed_on = NULL;
	if (state->count < CHUNK && MayReadMore(state))
		ReadChunk(state);
	if (state->count == 0)
		return NULL;
	if (state->count > DISTANCE)
		FetchHint(state->hints[(state->first + DISTANCE) % BATCH]);
	row = state->handed_on = state->rows.slots[state->first];
	HandHashOn(state, row, state->hashes[state->first]);
	state->bytes -= state->bytes_of[state->first];
	state->first = (state->first + 1) % BATCH;
	state->count--;
	return row;
}

static TupleTableSlot *
ExecReadAhead(CustomScanState *css)
{
	ReadAheadState *state = (ReadAheadState *) css;
	TupleTableSlot *row = NextRow(state);
	TupleTableSlot *scanned = css->ss.ss_ScanTupleSlot;

	if (TupIsNull(row))
		return NULL;
	if (!state->plan.computes)
		return row;
	ResetExprContext(css->ss.ps.ps_ExprContext);
	ExecClearTuple(scanned);
	slot_getallattrs(row);
	memcpy(scanned->tts_values, row->tts_values,
		   sizeof(Datum) * (Size) scanned->tts_tupleDescriptor->natts);
	memcpy(scanned->tts_isnull, row->tts_isnull,
		   sizeof(bool) * (Size) scanned->tts_tupleDescriptor->natts);
	ExecStoreVirtualTuple(scanned);
	css->ss.ps.ps_ExprContext->ecxt_scantuple = scanned;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

/* ---- the node ---------------------------------------------------------------------- */

static void
BeginVarying(ReadAheadState *state, TupleDesc desc)
{
	state->varying = (int *) palloc(sizeof(int) * (Size) (desc->natts + 1));
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attlen == -1)
			state->varying[state->varying_count++] = i;
}

static void
BeginReadAhead(CustomScanState *css, EState *estate, int eflags)
{
	ReadAheadState *state = (ReadAheadState *) css;
	const CustomScan *scan = (const CustomScan *) css->ss.ps.plan;
	ListCell *cell;
	int i = 0;

	state->plan = UnpackPlan(scan);
	foreach(cell, state->plan.columns)
	{
		state->columns[i++] = lfirst_int(cell);
		state->last_column = Max(state->last_column, lfirst_int(cell));
	}
	state->input = outerPlanState(css) = ExecInitNode(outerPlan(scan), estate, eflags);
	BeginVarying(state, ExecGetResultType(state->input));
	state->hashing = AllocSetContextCreate(CurrentMemoryContext, "dedup_guard keys read ahead",
										   ALLOCSET_SMALL_SIZES);
	if (!state->plan.computes)
	{
		/* The node returns the slots of its input. */
		css->ss.ps.resultops = ExecGetResultSlotOps(state->input, NULL);
		css->ss.ps.resultopsset = true;
		css->ss.ps.resultopsfixed = false;
	}
}

static void
EndReadAhead(CustomScanState *css)
{
	ReadAheadState *state = (ReadAheadState *) css;

	DropRows(&state->rows);
	ExecEndNode(state->input);
}

static void
ReScanReadAhead(CustomScanState *css)
{
	ReadAheadState *state = (ReadAheadState *) css;

	DropRows(&state->rows);
	state->handed_on = NULL;
	state->first = state->count = 0;
	state->bytes = 0;
	state->alone = 0;
	state->done = false;
	if (state->input->chgParam == NULL)
		ExecReScan(state->input);
}

static void
ExplainReadAhead(CustomScanState *css, List *ancestors, ExplainState *es)
{
	const ReadAheadState *state = (const ReadAheadState *) css;

	ExplainPropertyText("Guarded Table", get_rel_name(state->plan.table), es);
}

static const CustomExecMethods ExecMethods = {
	.CustomName = "GuardReadAhead",
	.BeginCustomScan = BeginReadAhead,
	.ExecCustomScan = ExecReadAhead,
	.EndCustomScan = EndReadAhead,
	.ReScanCustomScan = ReScanReadAhead,
	.MarkPosCustomScan = NULL,
	.RestrPosCustomScan = NULL,
	.EstimateDSMCustomScan = NULL,
	.InitializeDSMCustomScan = NULL,
	.ReInitializeDSMCustomScan = NULL,
	.InitializeWorkerCustomScan = NULL,
	.ShutdownCustomScan = NULL,
	.ExplainCustomScan = ExplainReadAhead,
};

static Node *
CreateReadAheadState(CustomScan *scan)
{
	ReadAheadState *state = (ReadAheadState *) palloc0(sizeof(ReadAheadState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &ExecMethods;
	return (Node *) state;
}

const CustomScanMethods ReadAheadMethods = {
	.CustomName = "GuardReadAhead",
	.CreateCustomScanState = CreateReadAheadState,
};

void
InitGuardReadAhead(void)
{
	RegisterCustomScanMethods(&ReadAheadMethods);
	previous_planner = planner_hook;
	planner_hook = PlanStatement;
}
