/* Plans queries without partial aggregates if the states of an aggregate cannot be merged. */
#include "query/unmerged.hpp"

#include "core/image.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/transam.h"
#include "nodes/pathnodes.h"
#include "optimizer/paths.h"

#pragma GCC visibility push(default)
Datum dedup_agg_prototype_trans(PG_FUNCTION_ARGS);
Datum dedup_agg_internal_prototype_trans(PG_FUNCTION_ARGS);
Datum dedup_agg_hashes_prototype_trans(PG_FUNCTION_ARGS);
#pragma GCC visibility pop
}

#if HAS_AGGREGATE_INFOS

static set_rel_pathlist_hook_type previous_pathlist = NULL;

/* Returns whether this is a transition function whose first argument after the state is a
 * prototype. */
static bool
TakesPrototype(Oid transition)
{
	return transition >= FirstNormalObjectId &&
		   (IsOurFunction(transition, dedup_agg_internal_prototype_trans,
						  "dedup_agg_internal_prototype_trans") ||
			IsOurFunction(transition, dedup_agg_hashes_prototype_trans,
						  "dedup_agg_hashes_prototype_trans") ||
			IsOurFunction(transition, dedup_agg_prototype_trans, "dedup_agg_prototype_trans"));
}

/*
 * Returns whether a prototype is known and its method cannot merge. A constant that is not a valid
 * filter is left to the executor, which may never read it.
 */
static bool
CannotMerge(const Node *prototype)
{
	const Const *known = (const Const *) prototype;
	struct varlena *value;
	dedup::Header header;

	if (!IsA(prototype, Const) || known->constisnull)
		return false;
	value = PG_DETOAST_DATUM(known->constvalue);
	return dedup::Check((const uint8_t *) VARDATA(value), VARSIZE(value) - VARHDRSZ, &header) ==
			   dedup::Flaw::kNone &&
		   header.method->merge == NULL;
}

static bool
HasUnmerged(const PlannerInfo *root)
{
	ListCell *cell;

	foreach(cell, root->aggtransinfos)
	{
		const AggTransInfo *aggregate = (const AggTransInfo *) lfirst(cell);

		if (TakesPrototype(aggregate->transfn_oid) && aggregate->args != NIL &&
			CannotMerge((Node *) linitial_node(TargetEntry, aggregate->args)->expr))
			return true;
	}
	return false;
}

/*
 * The planner has found the aggregates of the query and has folded constants, and has made no path
 * for groups yet. The first prototype that is folded may have loaded the library just now. So this
 * works in the first query of a session, where a planner_hook would come too late.
 *
 * PostgreSQL 19 may also make paths with partial aggregates below joins. It has begun with this
 * already, but does not use these paths if hasNonPartialAggs is set.
 */
static void
ForbidPartialAggregates(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (previous_pathlist != NULL)
		previous_pathlist(root, rel, rti, rte);
	if (root->aggtransinfos != NIL && !root->hasNonPartialAggs &&
		rel->reloptkind == RELOPT_BASEREL && HasUnmerged(root))
		root->hasNonPartialAggs = true;
}

void
InitUnmerged(void)
{
	previous_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = ForbidPartialAggregates;
}

#else

void
InitUnmerged(void)
{
}

#endif
