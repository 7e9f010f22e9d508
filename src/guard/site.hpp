/*
 * What the guard's triggers keep for a query (triggers.cpp), and the part of them for rows that
 * are inserted (inserted.cpp).
 */
#ifndef STREAMDEDUP_GUARD_SITE_HPP
#define STREAMDEDUP_GUARD_SITE_HPP

#include "guard/divert.hpp"
#include "guard/exact.hpp"

extern "C" {
#include "commands/trigger.h"
}

/* What a trigger keeps for its query. */
struct GuardSite
{
	const GuardPlan *plan;
	bool checked;                   /* the guard index is there */
	bool may_kill;                  /* ON CONFLICT can kill a row that is in the guard index */
	Oid owner;                      /* of the guarded table */
	bool filter_checked;            /* it is one that dedup_create() has made */
	bool changeable;                /* triggers fire after the guard's, which may change a row */
	bool removable;                 /* the same for DELETE */
	Oid root;                       /* of the partitions that the table belongs to */
	UnguardedPartitions *unguarded; /* NULL: not looked for yet */
	bool parents_checked;
	bool has_seed; /* and what follows it */
	dedup::KeySeed seed;
	bool may_delete;    /* the owner may add keys, so deleted rows may come again */
	ExactSite exact;    /* without a plan: the guard is not exact */
	DivertSite *divert; /* NULL: no row has gone into the side table yet */
	KeyReader reader;
	GuardKey key;
	GuardKey old_key;
};

/* The filter. The privilege that counts is that of the guarded table's owner. */
extern LiveFilter OpenGuardFilter(GuardSite *site);

/* The generation of a row's key. An event ahead of the clock counts as of now. */
extern uint32 GenerationOfKey(const LiveFilter &filter, const GuardKey &key);

/* Test-and-add by the time of the row, if the guard knows it. Counts nothing. */
extern LiveAnswer TestAndAddKey(const LiveFilter &filter, uint64 hash, const GuardKey &key);

/*
 * A marked row repeats the key of another one. Where keys go with their rows, it has none of its
 * own: else the filter would keep a key after its row.
 */
static inline bool
HasNoKeyOfItsOwn(const GuardPlan *plan, TupleTableSlot *slot)
{
	return plan->options.forget && IsMarkedRow(plan, slot);
}

/* Returns the row as it goes on, or NULL if it is left out. */
extern HeapTuple GuardInsertedRow(GuardSite *site, const TriggerData *trigger);

#endif /* STREAMDEDUP_GUARD_SITE_HPP */
