/*
 * Times at which every statement is planned exactly, whatever the setting is:
 *
 *   - while another statement is being planned: values that are computed then become constants
 *     of that statement's plan, and statements that are planned then may be a part of it
 *   - while a statement runs that changes data, or that calls functions where their result
 *     decides about rows
 *   - in commands that define something or store rows: CREATE INDEX, ALTER TABLE, COPY FROM,
 *     and those for materialized views
 *   - in triggers, and in parallel workers, which do not know the statement that they work for
 *
 * Functions keep their plans. So plans are marked, and plans of one kind are dropped before plans
 * of the other kind are needed.
 */
#ifndef STREAMDEDUP_QUERY_EXACTLY_HPP
#define STREAMDEDUP_QUERY_EXACTLY_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/plannodes.h"
}

enum class PlanMark
{
	Approximate, /* the plan may be approximate */
	HeldBack,    /* the plan would be approximate, but was made at an exact time or place */
	Split,       /* parts of it, which Citus plans separately, have split aggregates */
	Deciding,    /* it calls functions that decide about rows: see ScopeWalk */
	Calling      /* it is an expression of PL/pgSQL that calls functions */
};

extern void MarkPlan(PlannedStmt *statement, PlanMark mark);

/* Returns whether an invalidation's hash value is that of a mark. */
extern bool IsPlanMark(uint32 hash);

/*
 * Returns whether statements are planned exactly now: because of the time, or because the setting
 * does not apply.
 */
extern bool PlansExactly(void);

/*
 * Drops the plans that sessions keep and that are not of the kind that is made now. Must be called
 * before a kept plan is used.
 */
extern void DropOtherPlans(void);

/*
 * Begins an exact time. Returns the argument for EndExactly(), which must be called after an error,
 * too.
 */
extern bool BeginExactly(void);
extern void EndExactly(bool before);

/* Sets the hooks of the executor and of functions. */
extern void InitExactly(void);

#endif /* STREAMDEDUP_QUERY_EXACTLY_HPP */
