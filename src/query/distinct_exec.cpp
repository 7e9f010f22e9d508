/*
 * The executor's side of SELECT DISTINCT through a filter.
 *
 * Rows pass in the order in which they come. While the set of keys (core/distinct_set.hpp)
 * fits a cache they are tested one by one, so that a LIMIT reads no row too many. After
 * that they are read in batches, whose lines of memory are fetched side by side: a LIMIT
 * then reads up to BATCH - 1 rows more than it needs.
 *
 * The set's memory is a context of its own below the query's; rows of a batch are in
 * slots of the child's kind. Nothing outlives a rescan but counters.
 */
#include "core/distinct_set.hpp"
#include "pg/keys.hpp"
#include "pg/settings.hpp"
#include "query/distinct.hpp"

#include <sys/mman.h>

extern "C" {
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#endif
#include "executor/executor.h"
#include "port/atomics.h"
#include "utils/ruleutils.h"
}

using dedup::DistinctSet;

namespace
{

constexpr int BATCH = 32;

/* From this size of the exact table on rows are read in batches: 256 kB. */
constexpr uint64 BATCH_FROM_SLOTS = 32768;

/* What EXPLAIN ANALYZE shows, of one process. Of a worker it is in shared memory. */
struct DistinctCounters
{
	uint64		tested;
	uint64		passed;
	uint64		memory;			/* bytes, at most */
	uint64		links;			/* filters in use; 0: exact */
	uint64		given_up;		/* keys */
	double		fpr;
};

/* One for each worker, behind it. */
struct DistinctShared
{
	int			workers;
	pg_atomic_flag warned;
	DistinctCounters counters[FLEXIBLE_ARRAY_MEMBER];
};

struct DistinctState
{
	CustomScanState css;		/* must be first */

	PlanState  *child;
	const TupleTableSlotOps *ops;	/* of the child's rows */
	DistinctPlanFields plan;

	/* keys */
	KeyPlan    *keys;
	int		   *columns;
	int			last_column;	/* rows are taken apart up to here */
	NullableDatum *key;			/* of the row in hand */

	/* the set */
	MemoryContext context;
	DistinctSet *set;
	Size		memory;			/* bytes in use now */
	bool		started;

	/* the batch in hand */
	TupleTableSlot **slots;
	uint64		hashes[BATCH];
	uint8		seen[BATCH];
	int			filled;
	int			next;
	bool		done;			/* the child has no more rows */

	DistinctCounters *counters; /* own, or in shared memory */
	DistinctCounters own;
	DistinctCounters workers;	/* their sum */
	int			worker_count;
	bool		warned;
	DistinctShared *shared;
};

}							/* namespace */

/* ---- custom_private ------------------------------------------------------- */

List *
PackDistinctPlan(const DistinctPlanFields *fields)
{
	List	   *list = list_make4(fields->columns, fields->types, fields->collations,
								  makeInteger(fields->filters));

	return list;
}

void
UnpackDistinctPlan(List *custom_private, DistinctPlanFields *fields)
{
	fields->columns = (List *) linitial(custom_private);
	fields->types = (List *) lsecond(custom_private);
	fields->collations = (List *) lthird(custom_private);
	fields->filters = intVal(lfourth(custom_private));
}

/* ---- the set and its memory ----------------------------------------------- */

/*
 * Zeroed bytes that start a cache line. Large ones are asked for in large pages, since
 * every key looks at another.
 */
static uint8 *
AllocateForSet(DistinctState *state, Size bytes)
{
	const Size	large_page = (Size) 2 << 20;
	Size		padding = bytes >= large_page ? large_page : dedup::kLineBytes;
	uint8	   *chunk = (uint8 *)
		MemoryContextAllocExtended(state->context, bytes + padding, MCXT_ALLOC_HUGE);
	uint8	   *aligned = (uint8 *) TYPEALIGN(padding, chunk);

	/* The chunk's start, for pfree; there is room, as chunks are only MAXALIGNed. */
	if (aligned == chunk)
		aligned += padding == dedup::kLineBytes ? 0 : 0;
#ifdef MADV_HUGEPAGE
	if (bytes >= large_page)
		(void) madvise(aligned, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
	memset(aligned, 0, bytes);
	return aligned;
}
