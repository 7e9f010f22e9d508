/*
 * Functions that return sets, and those that take an array of keys.
 */
#ifndef STREAMDEDUP_PG_SETS_HPP
#define STREAMDEDUP_PG_SETS_HPP

#include "pg/keys.hpp"

extern "C" {
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/tuplestore.h"
}

/* What a call site needs to read arrays of keys. Zeroed: no array was read yet. */
struct ElementPlan
{
	KeyPlan *keys;
	Oid type;              /* the element type that the plan is for */
	MemoryContext context; /* where the plan is; reset when the type changes */
	int16 typlen;
	bool typbyval;
	char typalign;
};

/* Makes the plan for the elements of this array, unless it is there. */
extern void PlanElements(FunctionCallInfo fcinfo, ElementPlan *plan, const ArrayType *array);

/* The elements, in the current context. They point into the array. */
extern void ReadElements(const ElementPlan *plan, ArrayType *array, Datum **values, bool **isnull,
						 int *count);

/*
 * The ReturnSetInfo of this call. Raises 0A000 if the caller does not take a set in this
 * mode: SFRM_ValuePerCall or SFRM_Materialize.
 */
extern ReturnSetInfo *RequireSet(FunctionCallInfo fcinfo, SetFunctionReturnMode mode);

/* Makes the tuplestore that is this call's result. Its rows are of type `desc`. */
extern Tuplestorestate *ReturnRows(ReturnSetInfo *result, TupleDesc desc);

/*
 * Some elements of an array, which are returned value by value, so that elements which are
 * rows are returned as rows. Lives in fn_extra; zeroed: no set was returned yet.
 */
struct ElementSet
{
	ElementPlan plan;

	/* The set that is being returned; it lives in `context`. */
	MemoryContext context;
	bool active;
	Datum *values;
	bool *isnull;
	int next;
	int count;
};

/*
 * Starts a set, at the first call: forgets the last one and returns a context for the work
 * of choosing the elements, a child of the set's.
 */
extern MemoryContext StartSet(FunctionCallInfo fcinfo, ElementSet *set);

/* Takes all elements of an array argument into the set, in the set's context. */
extern void TakeElements(FunctionCallInfo fcinfo, ElementSet *set, int argument);

/* Keeps one of the elements; `kept` were kept before it. */
static inline void
KeepElement(ElementSet *set, int kept, int element)
{
	set->values[kept] = set->values[element];
	set->isnull[kept] = set->isnull[element];
}

/* The first `kept` elements are the set to be returned. */
extern void ReturnElements(FunctionCallInfo fcinfo, ElementSet *set, int kept);

/* The result of each call: the next element, or the end of the set. */
extern Datum NextElement(FunctionCallInfo fcinfo, ElementSet *set);

/* The result of a call that returns the empty set. */
extern Datum NoElements(FunctionCallInfo fcinfo);

#endif /* STREAMDEDUP_PG_SETS_HPP */
