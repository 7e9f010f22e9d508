/*
 * The set of a parallel SELECT DISTINCT, which the leader and the workers share.
 *
 * Its head is in the parallel query's segment. The table and the filters are in the query's dynamic
 * shared area (dsa). Any process can allocate in that area, and it is freed with the query, however
 * the query ends.
 */
#ifndef STREAMDEDUP_QUERY_DISTINCT_SHARED_HPP
#define STREAMDEDUP_QUERY_DISTINCT_SHARED_HPP

#include "core/shared_set.hpp"
#include "pg/pg.hpp"

extern "C" {
#include "storage/condition_variable.h"
#include "utils/dsa.h"
}

/* A table or a filter. */
struct SharedBlock
{
	dsa_pointer chunk;
	Size skipped; /* bytes to skip, so that the block starts a cache line */
};

/* The part in shared memory. */
struct SharedDistinct
{
	ConditionVariable opened;
	/* Changed only by the process that closed the gate: */
	int blocks;
	SharedBlock block[dedup::DistinctSet::kMaxLinks];
	Size memory;      /* bytes in use */
	Size most_memory; /* most bytes in use in any scan */
	bool warned;      /* the warning that keys are given up was raised, in any scan */
					  /* a dedup::SharedSet follows, at the start of a cache line */
};

/* The part of one process. */
struct SharedDistinctView
{
	SharedDistinct *shared;
	dsa_area *area;
	dedup::SharedSetView set;
};

extern Size SharedDistinctSize(int processes);

/* Starts the set. Called by the leader, before the workers start. */
extern void InitSharedDistinct(SharedDistinct *shared, int processes, Size budget, double fpr);

/* Starts a new set, after all workers of the previous scan have ended. */
extern void ReInitSharedDistinct(SharedDistinct *shared, int processes, Size budget, double fpr);

extern void AttachSharedDistinct(SharedDistinctView *view, SharedDistinct *shared, dsa_area *area,
								 int process);

/*
 * Sets seen[i] = 0 for the keys that no process has seen. Returns false if the oldest filter was
 * given up for the first time in any scan. Then view->set.set() has the number of keys.
 */
extern bool TestAndAddShared(SharedDistinctView *view, const uint64 *hashes, int n, uint8 *seen);

/* Updates view->set.set(), for a report. */
extern void CountSharedDistinct(SharedDistinctView *view);

#endif /* STREAMDEDUP_QUERY_DISTINCT_SHARED_HPP */
