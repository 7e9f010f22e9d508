/*
 * The executor's side of SELECT DISTINCT through a filter.
 *
 * Rows pass in the order in which they come. While the set of keys
 * (core/distinct_set.hpp) fits a cache they are tested one by one, so that a LIMIT reads
 * no row too many. After that they are read in batches, whose lines of memory are
 * fetched side by side: a LIMIT then reads up to BATCH - 1 rows more than it needs.
 *
 * The set's memory is a context of its own; the rows of a batch are in slots of the
 * child's kind, which hold on to a few of its buffers rather than copy. A rescan starts
 * anew.
 */
#include <sys/mman.h>

#include "core/distinct_set.hpp"
#include "pg/keys.hpp"
#include "pg/settings.hpp"
#include "query/distinct/distinct.hpp"
#include "pg/row_batch.hpp"

extern "C" {
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"
}

using dedup::DistinctSet;

namespace
{

/*
 * From this size of the exact table on, 256 kB, rows are read in batches.
 * test/server_regress.sh builds with 0, to have them from the first row on.
 */
#ifndef DEDUP_BATCH_FROM_SLOTS
#define DEDUP_BATCH_FROM_SLOTS 32768
#endif
constexpr uint64 BATCH_FROM_SLOTS = DEDUP_BATCH_FROM_SLOTS;

/* Memory from this size on is asked for in large pages of this size. */
constexpr Size LARGE_BYTES = 8 << 20;
constexpr Size LARGE_PAGE = 2 << 20;

/* What EXPLAIN ANALYZE shows, of one process; of a worker, in shared memory. */
struct DistinctCounters
{
	uint64 tested; /* rows */
	uint64 passed;
	uint64 keys; /* in the set at the end */
	uint64 given_up;
	uint64 filters; /* in use at the end; 0: exact */
	uint64 memory;  /* bytes, at most */
	double fpr;     /* at the end */
};

struct DistinctShared
{
	int workers;
	DistinctCounters counters[FLEXIBLE_ARRAY_MEMBER]; /* each worker's */
};

struct DistinctState
{
	CustomScanState css; /* must be first */

	PlanState *child;
	DistinctPlanFields plan;

	/* keys */
	KeyPlan *keys;
	AttrNumber *columns;
	int last_column;    /* rows are taken apart up to here */
	NullableDatum *key; /* of the row in hand */

	/* the set */
	MemoryContext context;
	DistinctSet *set;
	bool started;
	Size budget; /* bytes at most */
	Size memory; /* bytes in use */

	/* the batch in hand */
	RowBatch rows;
	uint64 hashes[BATCH];
	uint8 seen[BATCH];
	int filled;
	int next;
	bool done; /* the child has no more rows */

	DistinctCounters *counters; /* own, or a worker's in shared memory */
	DistinctCounters own;
	DistinctCounters others; /* sum of the workers' */
	DistinctShared *shared;
	bool warned;
};

} /* namespace */

/* ---- the set and its memory ----------------------------------------------- */

/*
 * Zeroed bytes that start a cache line, or a large page. Every key looks at another line,
 * so most of the time would go into looking up pages. The chunk's address is in front.
 */
static uint8 *
AllocateForSet(DistinctState *state, Size bytes)
{
	Size boundary = bytes >= LARGE_BYTES ? LARGE_PAGE : dedup::kLineBytes;
	char *chunk =
		(char *) MemoryContextAllocExtended(state->context, bytes + boundary + sizeof(char *),
											MCXT_ALLOC_HUGE);
	uint8 *aligned = (uint8 *) TYPEALIGN(boundary, chunk + sizeof(char *));

	memcpy(aligned - sizeof(char *), &chunk, sizeof(char *));
#ifdef MADV_HUGEPAGE
	/* Only a hint, and in the way of nothing if it is refused. */
	if (bytes >= LARGE_BYTES)
		(void) madvise(aligned, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#endif
	dedup::ClearInPieces(aligned, bytes);
	return aligned;
}

static void
FreeOfSet(uint8 *bytes)
{
	char *chunk;

	memcpy(&chunk, bytes - sizeof(char *), sizeof(char *));
	pfree(chunk);
}

/* Gives the set what it wants before so many hashes. */
static void
MakeRoom(DistinctState *state, Size hashes)
{
	DistinctSet *set = state->set;
	Size bytes;

	while (unlikely((bytes = set->Wants(hashes)) != 0))
	{
		uint64 before = 8 * set->slots();
		uint8 *old = set->Give(AllocateForSet(state, bytes));

		state->memory += bytes;
		state->counters->memory = Max(state->counters->memory, state->memory);
		if (old != NULL)
		{
			FreeOfSet(old);
			state->memory -= before;
		}
		CHECK_FOR_INTERRUPTS();
	}
	Assert(state->memory <= state->budget);
	Assert(!set->exact() || state->memory == 8 * set->slots());
}

static void
StartSet(DistinctState *state)
{
	state->budget = DistinctMemory();
	state->set->Start(state->budget, distinct_fpr / state->plan.filters);
	state->memory = 0;
	state->started = true;
}

/*
 * Once a node. Not of those that each process of a parallel plan has for itself: there is
 * always one above, which knows what they forget.
 */
static void
WarnGivenUp(DistinctState *state)
{
	if (state->warned || state->css.ss.ps.plan->parallel_aware)
		return;
	state->warned = true;
	ereport(
		WARNING,
		(errmsg("the filter of an approximate DISTINCT is full"),
		 errdetail("It takes %zu kB and holds " UINT64_FORMAT
				   " keys. It forgets the oldest from now on, so rows may come out more than once.",
				   state->memory / 1024, state->set->keys()),
		 errhint(
			 "Raise streamdedup.distinct_memory, or turn streamdedup.approximate_distinct off.")));
}

/* seen[i] = 0 for the keys that are new, in order. */
static void
TestAndAdd(DistinctState *state, int n)
{
	bool kept;

	MakeRoom(state, (Size) n);
	kept = state->set->TestAndAdd(state->hashes, (size_t) n, state->seen);
	state->counters->tested += (uint64) n;
	Assert(state->set->given_up() <= state->set->keys());
	Assert(state->set->keys() <= state->set->tested());
	if (unlikely(!kept))
		WarnGivenUp(state);
}

/* ---- rows ------------------------------------------------------------------ */

/* What is allocated for the hash is in the row's context. */
static inline uint64
HashRow(DistinctState *state, TupleTableSlot *slot)
{
	const dedup::KeySeed seed = {};
	uint64 hash;
	MemoryContext old;

	slot_getsomeattrs(slot, state->last_column);
	for (int i = 0; i < state->keys->columns; i++)
	{
		state->key[i].value = slot->tts_values[state->columns[i] - 1];
		state->key[i].isnull = slot->tts_isnull[state->columns[i] - 1];
	}
	old = MemoryContextSwitchTo(state->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	if (!HashByShortcut(state->keys, state->key, seed, &hash))
		HashColumns(state->keys, state->key, NullKeys::Equal, seed, &hash);
	MemoryContextSwitchTo(old);
	return hash;
}

/* The row as the plan above wants it. */
static inline TupleTableSlot *
PassRow(DistinctState *state, TupleTableSlot *slot)
{
	ProjectionInfo *projection = state->css.ss.ps.ps_ProjInfo;

	state->counters->passed++;
	if (likely(projection == NULL))
		return slot;
	projection->pi_exprContext->ecxt_scantuple = slot;
	return ExecProject(projection);
}

/* Reads the next rows, as many as there are, and tests them. */
static void
FillBatch(DistinctState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	int n = 0;

	StartBatch(&state->rows);
	while (n < BATCH)
	{
		TupleTableSlot *slot = ExecProcNode(state->child);

		if (TupIsNull(slot))
		{
			state->done = true;
			break;
		}
		ResetExprContext(econtext);
		/* First the hash: the copy takes over what is taken apart of some kinds only. */
		state->hashes[n] = HashRow(state, slot);
		state->set->Prefetch(state->hashes[n]);
		KeepRow(&state->rows, n, slot, state->child);
		n++;
		CHECK_FOR_INTERRUPTS();
	}
	TestAndAdd(state, n);
	state->filled = n;
	state->next = 0;
}

/* Lets go of the rows of the last batch. */
static void
EmptyBatch(DistinctState *state)
{
	DropRows(&state->rows);
	state->filled = state->next = 0;
}

static TupleTableSlot *
ExecDistinct(CustomScanState *css)
{
	DistinctState *state = (DistinctState *) css;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;

	if (unlikely(!state->started))
		StartSet(state);
	for (;;)
	{
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		while (state->next < state->filled)
		{
			int i = state->next++;

			if (!state->seen[i])
				return PassRow(state, state->rows.slots[i]);
		}
		if (unlikely(state->done))
		{
			EmptyBatch(state);
			return NULL;
		}
		if (!state->set->exact() || state->set->slots() >= BATCH_FROM_SLOTS)
		{
			FillBatch(state);
			continue;
		}
		slot = ExecProcNode(state->child);
		if (TupIsNull(slot))
		{
			state->done = true;
			continue;
		}
		state->hashes[0] = HashRow(state, slot);
		TestAndAdd(state, 1);
		if (!state->seen[0])
			return PassRow(state, slot);
	}
}

/* ---- the node -------------------------------------------------------------- */

static void
BeginDistinct(CustomScanState *css, EState *estate, int eflags)
{
	DistinctState *state = (DistinctState *) css;
	CustomScan *plan = (CustomScan *) css->ss.ps.plan;
	const TupleTableSlotOps *ops;
	bool fixed;
	int n;
	Oid *types;
	Oid *collations;

	UnpackDistinctPlan(plan->custom_private, &state->plan);
	if (outerPlan(plan) != NULL)
		state->child = outerPlanState(css) = ExecInitNode(outerPlan(plan), estate, eflags);
	else
	{
		state->child = ExecInitNode((Plan *) linitial(plan->custom_plans), estate, eflags);
		css->custom_ps = list_make1(state->child);
	}
	state->counters = &state->own;

	/*
	 * Rows are passed on as they are, in the child's slots: what is above, or our own
	 * projection, must not take them for virtual ones.
	 */
	ops = ExecGetResultSlotOps(state->child, &fixed);
	if (css->ss.ps.ps_ProjInfo == NULL)
	{
		css->ss.ps.resultops = ops;
		css->ss.ps.resultopsfixed = fixed;
		css->ss.ps.resultopsset = true;
	}
	else
	{
		css->ss.ps.scanops = ops;
		css->ss.ps.scanopsfixed = fixed;
		css->ss.ps.scanopsset = true;
		css->ss.ps.ps_ProjInfo = NULL;
		ExecAssignScanProjectionInfoWithVarno(&css->ss, INDEX_VAR);
	}

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	n = list_length(state->plan.columns);
	state->columns = (AttrNumber *) palloc(sizeof(AttrNumber) * n);
	state->key = (NullableDatum *) palloc0(sizeof(NullableDatum) * n);
	types = (Oid *) palloc(sizeof(Oid) * n);
	collations = (Oid *) palloc(sizeof(Oid) * n);
	for (int i = 0; i < n; i++)
	{
		state->columns[i] = (AttrNumber) list_nth_int(state->plan.columns, i);
		state->last_column = Max(state->last_column, state->columns[i]);
		types[i] = list_nth_oid(state->plan.types, i);
		collations[i] = list_nth_oid(state->plan.collations, i);
	}
	state->keys = MakeColumnsKeyPlan(CurrentMemoryContext, n, types, collations);
	state->set = (DistinctSet *) palloc0(sizeof(DistinctSet));
	state->context =
		AllocSetContextCreate(CurrentMemoryContext, "approximate distinct", ALLOCSET_DEFAULT_SIZES);
}

static void
EndDistinct(CustomScanState *css)
{
	DistinctState *state = (DistinctState *) css;

	ExecEndNode(state->child);
	if (state->context != NULL)
		MemoryContextDelete(state->context);
}

static void
ReScanDistinct(CustomScanState *css)
{
	DistinctState *state = (DistinctState *) css;

	EmptyBatch(state);
	state->done = false;
	state->started = false;
	MemoryContextReset(state->context);
	if (css->ss.ps.chgParam != NULL && css->custom_ps != NIL)
		UpdateChangedParamSet(state->child, css->ss.ps.chgParam);
	if (state->child->chgParam == NULL)
		ExecReScan(state->child);
}

/* ---- parallel plans: only the counters are shared ----------------------------- */

static Size
EstimateDistinct(CustomScanState *css, ParallelContext *pcxt)
{
	return add_size(offsetof(DistinctShared, counters),
					mul_size(sizeof(DistinctCounters), (Size) pcxt->nworkers));
}

static void
InitializeDistinct(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	DistinctState *state = (DistinctState *) css;

	memset(coordinate, 0, EstimateDistinct(css, pcxt));
	state->shared = (DistinctShared *) coordinate;
	state->shared->workers = pcxt->nworkers;
}

/*
 * Takes over what the workers have counted in a scan: as of this process rows add up over
 * the scans, keys are those of the last, and memory is the most of any.
 */
static void
CollectWorkers(DistinctState *state)
{
	DistinctCounters *others = &state->others;
	uint64 memory = 0;

	others->keys = others->given_up = 0;
	for (int i = 0; i < state->shared->workers; i++)
	{
		DistinctCounters *worker = &state->shared->counters[i];

		others->tested += worker->tested;
		others->passed += worker->passed;
		others->keys += worker->keys;
		others->given_up += worker->given_up;
		others->filters = Max(others->filters, worker->filters);
		memory += worker->memory;
		others->fpr = Max(others->fpr, worker->fpr);
		memset(worker, 0, sizeof *worker);
	}
	others->memory = Max(others->memory, memory);
}

static void
ReInitializeDistinct(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	CollectWorkers((DistinctState *) css);
}

static void
InitializeDistinctWorker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	DistinctState *state = (DistinctState *) css;

	state->shared = (DistinctShared *) coordinate;
	state->counters = &state->shared->counters[ParallelWorkerNumber];
}

/* What the set comes to. */
static void
CountSet(DistinctState *state)
{
	if (!state->started)
		return;
	state->counters->keys = state->set->keys() - state->set->given_up();
	state->counters->given_up = state->set->given_up();
	state->counters->filters = (uint64) state->set->links();
	state->counters->fpr = state->set->fpr();
}

/* The shared memory goes after this. */
static void
ShutdownDistinct(CustomScanState *css)
{
	DistinctState *state = (DistinctState *) css;

	if (state->set == NULL)
		return;
	CountSet(state);
	if (state->shared == NULL)
		return;
	if (state->counters == &state->own)
		CollectWorkers(state);
	else
	{
		state->own = *state->counters;
		state->counters = &state->own;
	}
	state->shared = NULL;
}

/* ---- EXPLAIN ----------------------------------------------------------------- */

static void
ExplainDistinct(CustomScanState *css, List *ancestors, ExplainState *es)
{
	DistinctState *state = (DistinctState *) css;
	Plan *plan = css->ss.ps.plan;
	CustomScan *scan = (CustomScan *) plan;
	List *context = set_deparse_context_plan(es->deparse_cxt, plan, ancestors);
	bool prefix = list_length(es->rtable) > 1 || es->verbose;
	List *keys = NIL;
	DistinctCounters total;
	ListCell *cell;

	foreach(cell, state->plan.columns)
	{
		TargetEntry *entry =
			(TargetEntry *) list_nth(scan->custom_scan_tlist, lfirst_int(cell) - 1);
		Var *column =
			makeVar(INDEX_VAR, entry->resno, exprType((Node *) entry->expr),
					exprTypmod((Node *) entry->expr), exprCollation((Node *) entry->expr), 0);

		keys = lappend(keys, deparse_expression((Node *) column, context, prefix, false));
	}
	ExplainPropertyList("Distinct Key", keys, es);
	if (!es->analyze)
		return;

	CountSet(state);
	total = state->own;
	total.tested += state->others.tested;
	total.passed += state->others.passed;
	total.keys += state->others.keys;
	total.given_up += state->others.given_up;
	total.filters = Max(total.filters, state->others.filters);
	total.memory += state->others.memory;
	total.fpr = Max(total.fpr, state->others.fpr);

	ExplainPropertyText("Distinct Method", total.filters == 0 ? "exact" : "approximate", es);
	ExplainPropertyUInteger("Rows Tested", NULL, total.tested, es);
	ExplainPropertyUInteger("Rows Passed", NULL, total.passed, es);
	ExplainPropertyUInteger("Keys", NULL, total.keys, es);
	if (total.filters > 0)
		ExplainPropertyFloat("False-Positive Rate", NULL, total.fpr, 9, es);
	if (total.given_up > 0)
		ExplainPropertyUInteger("Keys Given Up", NULL, total.given_up, es);
	ExplainPropertyUInteger("Memory Usage", "kB", (total.memory + 1023) / 1024, es);
}

/* ---- what the server calls ----------------------------------------------------- */

static const CustomExecMethods ExecMethods = {
	.CustomName = "ApproximateDistinct",
	.BeginCustomScan = BeginDistinct,
	.ExecCustomScan = ExecDistinct,
	.EndCustomScan = EndDistinct,
	.ReScanCustomScan = ReScanDistinct,
	.MarkPosCustomScan = NULL,
	.RestrPosCustomScan = NULL,
	.EstimateDSMCustomScan = EstimateDistinct,
	.InitializeDSMCustomScan = InitializeDistinct,
	.ReInitializeDSMCustomScan = ReInitializeDistinct,
	.InitializeWorkerCustomScan = InitializeDistinctWorker,
	.ShutdownCustomScan = ShutdownDistinct,
	.ExplainCustomScan = ExplainDistinct,
};

static Node *
CreateDistinctState(CustomScan *scan)
{
	DistinctState *state = (DistinctState *) palloc0(sizeof(DistinctState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &ExecMethods;
	return (Node *) state;
}

const CustomScanMethods DistinctScanMethods = {
	.CustomName = "ApproximateDistinct",
	.CreateCustomScanState = CreateDistinctState,
};
