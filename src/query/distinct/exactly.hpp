/*
 * Times at which every statement is planned exactly, whatever the setting says:
 *
 *   - while another statement is being planned: what is evaluated then becomes a constant of
 *     that statement's plan, and what is planned then may be a part of it
 *   - while a statement runs that changes data, or that calls functions where their result
 *     decides about rows
 *   - in commands that define something or store rows: CREATE INDEX, ALTER TABLE, COPY FROM,
 *     and the materialized views
 *   - in triggers, and in parallel workers, which know nothing of the statement they help
 *
 * Functions keep their plans, so plans are marked, and those of the one kind are dropped
 * before the other kind is needed.
 */
#ifndef STREAMDEDUP_QUERY_EXACTLY_HPP
#define STREAMDEDUP_QUERY_EXACTLY_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/plannodes.h"
}

enum class PlanMark
{
	Approximate, /* may answer approximately */
	HeldBack,    /* would, had it not been planned at such a time or place */
	Split,       /* parts of it, which Citus plans apart, have split aggregates */
	Deciding,    /* calls functions that decide: see ScopeWalk */
	Calling      /* an expression of PL/pgSQL that calls functions */
};

extern void MarkPlan(PlannedStmt *statement, PlanMark mark);

/* Returns whether an invalidation's hash value is that of a mark. */
extern bool IsPlanMark(uint32 hash);

/*
 * Returns whether statements are planned exactly now: at such a time, or where the setting
 * does not apply.
 */
extern bool PlansExactly(void);

/*
 * Drops the plans that sessions keep of the other kind than those that are made now. Must be
 * called before a plan that may have been kept is used.
 */
extern void DropOtherPlans(void);

/*
 * Begins such a time and returns what EndExactly() takes. EndExactly() must be called
 * after an error, too.
 */
extern bool BeginExactly(void);
extern void EndExactly(bool before);

/* Sets the hooks of the executor and of functions. */
extern void InitExactly(void);

#endif /* STREAMDEDUP_QUERY_EXACTLY_HPP */
