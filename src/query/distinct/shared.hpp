/*
 * The set of a parallel SELECT DISTINCT, which the leader and the workers share.
 *
 * Its head is in the parallel query's segment. The table and the filters are in the query's
 * dynamic shared area (dsa), from which any process can allocate, and which goes with the
 * query, whatever ends it.
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
	Size skipped; /* bytes, so that the block starts a cache line */
};

/* In shared memory. */
struct SharedDistinct
{
	ConditionVariable opened;
	/* Changed only by the process that closed the gate: */
	int blocks;
	SharedBlock block[dedup::DistinctSet::kMaxLinks];
	Size memory;      /* bytes in use */
	Size most_memory; /* bytes, over all scans */
	bool warned;      /* that keys are given up, in any scan */
					  /* a dedup::SharedSet follows, at the start of a cache line */
};

/* One process's part. */
struct SharedDistinctView
{
	SharedDistinct *shared;
	dsa_area *area;
	dedup::SharedSetView set;
};

extern Size SharedDistinctSize(int processes);

/* Starts the set; for the leader, before the workers start. */
extern void InitSharedDistinct(SharedDistinct *shared, int processes, Size budget, double fpr);

/* Starts it anew, when all workers of the scan before have ended. */
extern void ReInitSharedDistinct(SharedDistinct *shared, int processes, Size budget, double fpr);

extern void AttachSharedDistinct(SharedDistinctView *view, SharedDistinct *shared, dsa_area *area,
								 int process);

/*
 * seen[i] = 0 for the keys that no process has seen. Returns false if the oldest filter was
 * given up for the first time in any scan, in which case view->set.set() tells how many keys
 * there are.
 */
extern bool TestAndAddShared(SharedDistinctView *view, const uint64 *hashes, int n, uint8 *seen);

/* Brings view->set.set() up to date, for a report. */
extern void CountSharedDistinct(SharedDistinctView *view);

#endif /* STREAMDEDUP_QUERY_DISTINCT_SHARED_HPP */
