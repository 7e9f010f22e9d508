/*
 * The executor's side of SELECT DISTINCT through a filter.
 *
 * Rows are passed on in the order in which they come. While the set of keys (core/distinct_set.hpp)
 * fits into a cache, they are tested one by one, so that a LIMIT reads no additional row. After
 * that they are read in batches, whose lines of memory are prefetched together. A LIMIT then reads
 * up to BATCH - 1 rows more than it needs.
 *
 * The set has a memory context of its own. The rows of a batch are in slots of the child's type,
 * which pin a few of its buffers instead of copying rows. A rescan starts a new set.
 */
#include <sys/mman.h>

#include "core/shared_set.hpp"
#include "pg/keys.hpp"
#include "pg/row_batch.hpp"
#include "pg/settings.hpp"
#include "query/distinct/distinct.hpp"
#include "query/distinct/shared.hpp"

extern "C" {
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"
}

using dedup::DistinctSet;

namespace
{

/*
 * Rows are read in batches when the exact table has at least this size, 256 kB.
 * test/server_regress.sh builds with 0, so that they are read in batches from the first row on.
 */
#ifndef DEDUP_BATCH_FROM_SLOTS
#define DEDUP_BATCH_FROM_SLOTS 32768
#endif
constexpr uint64 BATCH_FROM_SLOTS = DEDUP_BATCH_FROM_SLOTS;

/* Memory of at least this size is allocated in large pages of this size. */
constexpr Size LARGE_BYTES = 8 << 20;
constexpr Size LARGE_PAGE = 2 << 20;

/*
 * While the set fits into a cache, a process of a parallel plan remembers this many hashes that
 * were let through. If there are few different keys, most rows then need no lookup in the shared
 * set.
 */
constexpr uint64 RECENT = 16384;

/* The counters of EXPLAIN ANALYZE. Rows add up over the scans; the set is that of the last scan. */
struct DistinctCounters
{
	uint64 tested; /* rows */
	uint64 passed;
	uint64 keys; /* number of keys in the set at the end */
	uint64 given_up;
	uint64 filters; /* number of filters in use at the end; 0: the set is exact */
	uint64 memory;  /* most bytes in use */
	double fpr;     /* at the end */
};

struct DistinctState
{
	CustomScanState css; /* must be first */

	PlanState *child;
	DistinctPlanFields plan;

	/* keys */
	KeyPlan *keys;
	AttrNumber *columns;
	int last_column;    /* rows are deformed up to this column */
	NullableDatum *key; /* of the current row */

	/* the set */
	MemoryContext context;
	DistinctSet *set;
	bool started;
	Size budget; /* most bytes of the set */
	Size memory; /* bytes in use */

	/* for parallel plans, instead of these: the set of all processes */
	SharedDistinct *shared;
	int processes;
	int process; /* 0: the leader */
	bool sharing;
	SharedDistinctView view;
	uint64 *recent;

	/* the batch in hand */
	RowBatch rows;
	uint64 hashes[BATCH];
	uint8 seen[BATCH];
	int filled;
	int next;
	bool done; /* the child has no more rows */

	DistinctCounters counters; /* in the leader of a parallel plan: of all processes */
	bool warned;
};

} /* namespace */

/* ---- the set and its memory ----------------------------------------------- */

/*
 * Allocates zeroed bytes that start a cache line, or a large page. Every key reads another line, so
 * page-table lookups would take most of the time. The chunk's address is stored in front of the
 * bytes.
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
	/* This is only a hint; if it is refused, nothing is lost. */
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

/* Gives the set the bytes that it needs for this many more hashes. */
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
		state->counters.memory = Max(state->counters.memory, state->memory);
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

/*
 * Each process below a Gather with workers has the area. If the leader runs the plan alone, for
 * example because there was no memory for a segment, it has none.
 */
static void
StartSet(DistinctState *state)
{
	dsa_area *area = state->css.ss.ps.state->es_query_dsa;

	state->started = true;
	state->sharing = state->shared != NULL && area != NULL;
	/* Without the area each process would let every key through. */
	if (state->shared != NULL && area == NULL && state->processes != 1)
		elog(ERROR, "approximate DISTINCT finds no dynamic shared memory area");
	if (state->sharing)
	{
		AttachSharedDistinct(&state->view, state->shared, area, state->process);
		state->recent = (uint64 *) MemoryContextAllocZero(state->context, RECENT * sizeof(uint64));
		return;
	}
	state->budget = DistinctMemory();
	state->set->Start(state->budget, distinct_fpr);
	state->memory = 0;
}

/* In a parallel plan, only the process that gives the set's oldest filter up first warns. */
static void
WarnGivenUp(DistinctState *state)
{
	Size memory = state->sharing ? state->view.shared->memory : state->memory;
	uint64 keys = state->sharing ? state->view.set.set().keys() : state->set->keys();

	if (state->warned)
		return;
	state->warned = true;
	ereport(
		WARNING,
		(errmsg("the filter of an approximate DISTINCT is full"),
		 errdetail("It takes %zu kB and holds " UINT64_FORMAT
				   " keys. It forgets the oldest from now on, so rows may come out more than once.",
				   memory / 1024, keys),
		 errhint(
			 "Raise streamdedup.distinct_memory, or turn streamdedup.approximate_distinct off.")));
}

/* Sets seen[i] = 0 for the keys that are new, in order. */
static void
TestAndAdd(DistinctState *state, int n)
{
	bool kept;

	if (state->sharing)
	{
		if (n > 0 && unlikely(!TestAndAddShared(&state->view, state->hashes, n, state->seen)))
			WarnGivenUp(state);
		return;
	}
	state->counters.tested += (uint64) n;
	MakeRoom(state, (Size) n);
	kept = state->set->TestAndAdd(state->hashes, (size_t) n, state->seen);
	Assert(state->set->given_up() <= state->set->keys());
	Assert(state->set->keys() <= state->set->tested());
	if (unlikely(!kept))
		WarnGivenUp(state);
}

/* Returns whether the set fits into a cache, so that rows are tested one by one. */
static bool
IsSmall(const DistinctState *state)
{
	const DistinctSet *set = state->sharing ? &state->view.set.set() : state->set;

	return set->exact() && set->slots() < BATCH_FROM_SLOTS;
}

/* Tests one key, with a small set. */
static bool
IsNew(DistinctState *state, uint64 hash)
{
	uint64 *recent = NULL;

	if (state->sharing)
	{
		recent = &state->recent[hash % RECENT];
		if (*recent == hash && hash != 0)
		{
			state->view.set.CountTested(1);
			return false;
		}
	}
	state->hashes[0] = hash;
	TestAndAdd(state, 1);
	if (recent != NULL)
		*recent = hash;
	return !state->seen[0];
}

/* ---- rows ------------------------------------------------------------------ */

/* Hashing allocates in the row's context. */
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

/* Returns the row in the form that the plan above expects. */
static inline TupleTableSlot *
PassRow(DistinctState *state, TupleTableSlot *slot)
{
	ProjectionInfo *projection = state->css.ss.ps.ps_ProjInfo;

	if (!state->sharing)
		state->counters.passed++;
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
		/*
		 * The hash is computed first: for some slot types, the copy also takes over the deformed
		 * columns.
		 */
		state->hashes[n] = HashRow(state, slot);
		if (state->sharing)
			state->view.set.Prefetch(state->hashes[n]);
		else
			state->set->Prefetch(state->hashes[n]);
		KeepRow(&state->rows, n, slot, state->child);
		n++;
		CHECK_FOR_INTERRUPTS();
	}
	TestAndAdd(state, n);
	state->filled = n;
	state->next = 0;
}

/* Releases the rows of the last batch. */
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
		/* The leader reads no more rows. */
		if (state->sharing && unlikely(state->view.set.Ended()))
		{
			EmptyBatch(state);
			return NULL;
		}
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
		if (!IsSmall(state))
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
		if (IsNew(state, HashRow(state, slot)))
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
	/*
	 * Rows are passed on in the child's slots. The node above, or our own projection, must not
	 * assume virtual slots.
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

/*
 * Lets workers end soon if they find no new key. They would otherwise not notice for a long time
 * that the leader reads no more rows.
 */
static void
EndShared(DistinctState *state)
{
	if (state->shared == NULL || state->process > 0)
		return;
	if (!state->sharing)
		AttachSharedDistinct(&state->view, state->shared, NULL, 0);
	state->view.set.End();
}

static void
EndDistinct(CustomScanState *css)
{
	DistinctState *state = (DistinctState *) css;

	EndShared(state);
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

/* ---- counters ------------------------------------------------------------------ */

static void
NoteSet(DistinctState *state, const DistinctSet *set)
{
	DistinctCounters *counters = &state->counters;

	counters->keys = set->keys() - set->given_up();
	counters->given_up = set->given_up();
	counters->filters = (uint64) set->links();
	counters->fpr = set->fpr();
}

/* Records, in the leader, what all processes did in a scan. */
static void
NoteShared(DistinctState *state)
{
	const DistinctSet *set = &state->view.set.set();

	/*
	 * The leader may not have run the plan at all, or, without an area, may have run all of it
	 * alone.
	 */
	if (!state->started)
		AttachSharedDistinct(&state->view, state->shared, NULL, 0);
	else if (!state->sharing)
	{
		NoteSet(state, state->set);
		return;
	}
	CountSharedDistinct(&state->view);
	NoteSet(state, set);
	state->counters.tested += set->tested();
	state->counters.passed += set->keys();
	state->counters.memory = Max(state->counters.memory, state->shared->most_memory);
	state->warned |= state->shared->warned;
}

/* ---- parallel plans ------------------------------------------------------------ */

static Size
EstimateDistinct(CustomScanState *css, ParallelContext *pcxt)
{
	return SharedDistinctSize(pcxt->nworkers + 1);
}

static void
InitializeDistinct(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	DistinctState *state = (DistinctState *) css;

	state->shared = (SharedDistinct *) coordinate;
	state->processes = pcxt->nworkers + 1;
	InitSharedDistinct(state->shared, state->processes, DistinctMemory(), distinct_fpr);
	state->shared->warned = state->warned;
}

/* The workers of the previous scan have ended. */
static void
ReInitializeDistinct(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	DistinctState *state = (DistinctState *) css;

	NoteShared(state);
	state->started = state->sharing = false;
	ReInitSharedDistinct(state->shared, state->processes, DistinctMemory(), distinct_fpr);
}

static void
InitializeDistinctWorker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	DistinctState *state = (DistinctState *) css;

	state->shared = (SharedDistinct *) coordinate;
	state->process = ParallelWorkerNumber + 1;
}

/*
 * The shared memory is freed after this. Workers may still be running, if not all rows were read.
 */
static void
ShutdownDistinct(CustomScanState *css)
{
	DistinctState *state = (DistinctState *) css;

	if (state->shared == NULL)
		return;
	EndShared(state);
	if (state->process == 0)
		NoteShared(state);
	state->shared = NULL;
	state->started = state->sharing = false;
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

	if (state->started && !state->sharing)
		NoteSet(state, state->set);
	total = state->counters;

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
