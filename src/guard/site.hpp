/*
 * The data that the guard's triggers keep for a query (triggers.cpp), and the part of the triggers
 * for inserted rows (inserted.cpp).
 */
#ifndef STREAMDEDUP_GUARD_SITE_HPP
#define STREAMDEDUP_GUARD_SITE_HPP

#include "guard/divert.hpp"
#include "guard/exact.hpp"

extern "C" {
#include "commands/trigger.h"
}

/* The data that a trigger keeps for its query. */
struct GuardSite
{
	const GuardPlan *plan;
	bool checked; /* the guard index exists */
	/* ON CONFLICT can delete a row after it was put into the guard index */
	bool may_kill;
	Oid owner;                      /* of the guarded table */
	bool filter_checked;            /* it was made by dedup_create() */
	bool changeable;                /* triggers that may change a row fire after the guard's */
	bool removable;                 /* the same for DELETE */
	Oid root;                       /* the root of the partitions to which the table belongs */
	UnguardedPartitions *unguarded; /* NULL: unknown */
	bool parents_checked;
	bool has_seed; /* the fields below are set */
	dedup::KeySeed seed;
	bool may_delete;    /* the owner may add keys, so deleted rows may be inserted again */
	ExactSite exact;    /* without a plan: the guard is not exact */
	DivertSite *divert; /* NULL: no row was put into the side table yet */
	KeyReader reader;
	GuardKey key;
	GuardKey old_key;
};

/* Opens the filter. The privileges of the guarded table's owner are checked. */
extern LiveFilter OpenGuardFilter(GuardSite *site);

/* Returns the generation of a row's key. An event ahead of the clock counts as current. */
extern uint32 GenerationOfKey(const LiveFilter &filter, const GuardKey &key);

/* Tests and adds a key with the time of the row, if the guard uses it. Counts nothing. */
extern LiveAnswer TestAndAddKey(const LiveFilter &filter, uint64 hash, const GuardKey &key);

/*
 * A marked row repeats the key of another row. If deleted rows free their keys, a marked row has no
 * key of its own: otherwise the filter would keep a key after its row was deleted.
 */
static inline bool
HasNoKeyOfItsOwn(const GuardPlan *plan, TupleTableSlot *slot)
{
	return plan->options.forget && IsMarkedRow(plan, slot);
}

/* Returns the row to insert, or NULL if it is left out. */
extern HeapTuple GuardInsertedRow(GuardSite *site, const TriggerData *trigger);

#endif /* STREAMDEDUP_GUARD_SITE_HPP */
