/*
 * dedup_is_new(...) OVER (...) through a node of ours in the place of WindowAgg. It passes rows on
 * without a tuplestore.
 *
 *   function.cpp   the function, as WindowAgg calls it
 *   call.cpp       the common part of the function and the node
 *   plan.cpp       where the node replaces WindowAgg, and its plan
 *   exec.cpp       runs the plan
 */
#ifndef STREAMDEDUP_QUERY_WINDOW_WINDOW_HPP
#define STREAMDEDUP_QUERY_WINDOW_WINDOW_HPP

#include "pg/pg.hpp"

extern "C" {
#include "nodes/extensible.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
}

enum class WindowKind
{
	RowNumber,
	IsNew,         /* dedup_is_new(key...) */
	IsNewPrototype /* dedup_is_new(prototype, key...) */
};

/*
 * The contents of a plan's custom_private. These are plain lists, because plans are copied.
 *
 * The tuple that the node scans is the row of its input, followed by a column for each function.
 * The arguments of all functions are in custom_exprs, one after the other.
 */
struct WindowPlanFields
{
	int input_columns;
	List *kinds;                /* of the functions, as numbers */
	List *partition_columns;    /* numbers of the columns in the input's row */
	List *partition_operators;  /* their equality operators */
	List *partition_collations; /* their collations */
	bool read_ahead;            /* rows may be read before they are requested */
};

extern List *PackWindowPlan(const WindowPlanFields *fields);
extern void UnpackWindowPlan(const List *custom_private, WindowPlanFields *fields);

/* Makes the node's state; for plan.cpp. */
extern const CustomScanMethods WindowScanMethods;

/* Returns the number of the function to which a Var of the node's scan tuple belongs, or -1. */
static inline int
FunctionOfVar(const WindowPlanFields *fields, const Var *column)
{
	return column->varno == INDEX_VAR && column->varattno > fields->input_columns
			   ? column->varattno - fields->input_columns - 1
			   : -1;
}

/* Registers the node and the planner's hooks; called by _PG_init before InitApproximate(). */
extern void InitWindowNode(void);

#endif /* STREAMDEDUP_QUERY_WINDOW_WINDOW_HPP */
