/*
 * dedup_is_new(...) OVER (...) through a node of ours in the place of WindowAgg: rows in,
 * rows out, without a tuplestore.
 *
 *   function.cpp   the function, as WindowAgg calls it
 *   call.cpp       what the function and the node share
 *   plan.cpp       where the node takes the place of WindowAgg, and its plan
 *   exec.cpp       runs it
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
 * What a plan holds in custom_private: plain lists, since plans are copied.
 *
 * The tuple that the node scans is the row of its input, and behind it a column for each
 * function. The arguments of all functions are in custom_exprs, one after the other.
 */
struct WindowPlanFields
{
	int input_columns;
	List *kinds;                /* of the functions, as numbers */
	List *partition_columns;    /* numbers of the columns in the input's row */
	List *partition_operators;  /* their equality operators */
	List *partition_collations; /* their collations */
	bool read_ahead;            /* rows may be read before they are asked for */
};

extern List *PackWindowPlan(const WindowPlanFields *fields);
extern void UnpackWindowPlan(const List *custom_private, WindowPlanFields *fields);

/* Makes the node's state; for plan.cpp. */
extern const CustomScanMethods WindowScanMethods;

/* The number of the function that a Var of the node's scan tuple is of, or -1. */
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
