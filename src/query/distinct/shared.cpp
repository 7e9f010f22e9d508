/*
 * The set of a parallel SELECT DISTINCT: its memory, and how processes wait for each other.
 *
 * The core's gate (core/shared_set.hpp) separates the process that enlarges the set from the
 * others. That process holds no lock of the server meanwhile, so it can be cancelled, and so can
 * the processes that wait for it. The set is not used again after that: an error of any process
 * ends the query in all of them.
 */
#include "query/distinct/shared.hpp"

extern "C" {
#include "miscadmin.h"
#include "pgstat.h"
}

using dedup::SharedSet;

/*
 * The time that the process that enlarges the set waits for another that is inside, before it
 * checks again.
 */
static constexpr long WAIT_MICROSECONDS = 20;
static constexpr int LOOKS_BETWEEN_WAITS = 1000;

/* ---- the head ------------------------------------------------------------------ */

static SharedSet *
SetOf(SharedDistinct *shared)
{
	return (SharedSet *) TYPEALIGN(dedup::kLineBytes, (char *) shared + sizeof(SharedDistinct));
}

Size
SharedDistinctSize(int processes)
{
	return sizeof(SharedDistinct) + dedup::kLineBytes + SharedSet::Bytes(processes);
}

void
InitSharedDistinct(SharedDistinct *shared, int processes, Size budget, double fpr)
{
	memset(shared, 0, sizeof *shared);
	ConditionVariableInit(&shared->opened);
	SetOf(shared)->Start(processes, budget, fpr, 1);
}

/* The old blocks are kept until a process that knows the area allocates the first new block. */
void
ReInitSharedDistinct(SharedDistinct *shared, int processes, Size budget, double fpr)
{
	SharedSet *set = SetOf(shared);

	set->Start(processes, budget, fpr, set->generation() + 1);
}

void
AttachSharedDistinct(SharedDistinctView *view, SharedDistinct *shared, dsa_area *area, int process)
{
	view->shared = shared;
	view->area = area;
	view->set.Start(SetOf(shared), process);
}

/* ---- blocks -------------------------------------------------------------------- */

static uint8 *
Address(SharedDistinctView *view, const SharedBlock *block)
{
	return (uint8 *) dsa_get_address(view->area, block->chunk) + block->skipped;
}

/*
 * On a server whose system limits shared memory, for example in a container, this allocation can
 * fail although the query could run in one process.
 */
static void
HintAtMemory(void *arg)
{
	if (geterrcode() == ERRCODE_DISK_FULL || geterrcode() == ERRCODE_OUT_OF_MEMORY)
		errhint("A parallel approximate DISTINCT needs shared memory. Lower "
				"streamdedup.distinct_memory, or set max_parallel_workers_per_gather to 0.");
}

/*
 * Allocates zeroed bytes. The padding is the same in each process, because segments start at a
 * page.
 */
static uint8 *
AllocateBlock(SharedDistinctView *view, SharedBlock *block, Size bytes)
{
	ErrorContextCallback callback = {};
	uint8 *chunk;
	uint8 *aligned;

	callback.callback = HintAtMemory;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	block->chunk = dsa_allocate_extended(view->area, bytes + dedup::kLineBytes, DSA_ALLOC_HUGE);
	error_context_stack = callback.previous;
	chunk = (uint8 *) dsa_get_address(view->area, block->chunk);
	aligned = (uint8 *) TYPEALIGN(dedup::kLineBytes, chunk);
	block->skipped = (Size) (aligned - chunk);
	dedup::ClearInPieces(aligned, bytes);
	return aligned;
}

static void
Refresh(SharedDistinctView *view)
{
	if (likely(!view->set.Stale()))
		return;
	view->set.Refresh();
	for (int i = 0; i < view->set.blocks(); i++)
		view->set.Locate(i, Address(view, &view->shared->block[i]));
}

/* ---- growing ------------------------------------------------------------------- */

/* Gives the set the bytes that it needs for this many hashes, alone while the gate is closed. */
static void
GiveBytes(SharedDistinctView *view, Size hashes)
{
	SharedDistinct *shared = view->shared;
	Size bytes;

	/* free the blocks of the previous scan */
	if (view->set.blocks() == 0)
	{
		while (shared->blocks > 0)
			dsa_free(view->area, shared->block[--shared->blocks].chunk);
		shared->memory = 0;
	}
	while ((bytes = view->set.Wants(hashes)) != 0)
	{
		Size before = 8 * view->set.set().slots();
		SharedBlock block;
		uint8 *old = view->set.Give(AllocateBlock(view, &block, bytes));
		int i = view->set.blocks() - 1;

		shared->memory += bytes;
		shared->most_memory = Max(shared->most_memory, shared->memory);
		if (old != NULL)
		{
			dsa_free(view->area, shared->block[i].chunk);
			shared->memory -= before;
		}
		shared->block[i] = block;
		shared->blocks = i + 1;
		CHECK_FOR_INTERRUPTS();
	}
}

static void
WaitUntilEmpty(SharedDistinctView *view)
{
	for (int looks = 1; !view->set.Empty(); looks++)
	{
		CHECK_FOR_INTERRUPTS();
		if (looks % LOOKS_BETWEEN_WAITS == 0)
			pg_usleep(WAIT_MICROSECONDS);
	}
}

static void
WaitUntilOpen(SharedDistinctView *view)
{
	ConditionVariablePrepareToSleep(&view->shared->opened);
	while (view->set.Closed())
		ConditionVariableSleep(&view->shared->opened, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

/* Makes room, or waits for the process that does. Returns the same as TestAndAddShared(). */
static bool
MakeRoom(SharedDistinctView *view, Size hashes)
{
	bool kept;

	if (!view->set.Close())
	{
		WaitUntilOpen(view);
		return true;
	}
	WaitUntilEmpty(view);
	Refresh(view);
	view->set.Collect();
	GiveBytes(view, hashes);
	kept = view->set.Fit(hashes) || view->shared->warned;
	view->shared->warned |= !kept;
	view->set.Open();
	ConditionVariableBroadcast(&view->shared->opened);
	return kept;
}

/* ---- keys ---------------------------------------------------------------------- */

bool
TestAndAddShared(SharedDistinctView *view, const uint64 *hashes, int n, uint8 *seen)
{
	bool kept = true;

	for (;;)
	{
		Size missing;

		if (unlikely(!view->set.Enter()))
		{
			WaitUntilOpen(view);
			continue;
		}
		Refresh(view);
		if (likely(view->set.Reserve((Size) n)))
			break;
		missing = view->set.Ask(hashes, (Size) n, seen);
		if (missing == 0)
		{
			view->set.CountTested((uint64) n);
			view->set.Leave();
			return kept;
		}
		if (view->set.Reserve(missing))
			break;
		view->set.Leave();
		kept &= MakeRoom(view, missing);
	}
	view->set.TestAndAdd(hashes, (size_t) n, seen);
	view->set.Leave();
	return kept;
}

void
CountSharedDistinct(SharedDistinctView *view)
{
	while (!view->set.Enter())
		WaitUntilOpen(view);
	view->set.Count();
	view->set.Leave();
}
