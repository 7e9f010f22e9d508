/* Functions that return sets, and functions that take an array of keys. */
#ifndef STREAMDEDUP_PG_SETS_HPP
#define STREAMDEDUP_PG_SETS_HPP

#include "pg/keys.hpp"

extern "C" {
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/tuplestore.h"
}

/* The data with which a call site reads arrays of keys. It is zeroed before the first array. */
struct ElementPlan
{
	KeyPlan *keys;
	Oid type;              /* the element type for which the plan was made */
	MemoryContext context; /* the context of the plan; it is reset when the type changes */
	int16 typlen;
	bool typbyval;
	char typalign;
};

/* Makes the plan for the elements of this array, unless it exists. */
extern void PlanElements(FunctionCallInfo fcinfo, ElementPlan *plan, const ArrayType *array);

/* Returns the elements in the current context. They point into the array. */
extern void ReadElements(const ElementPlan *plan, ArrayType *array, Datum **values, bool **isnull,
						 int *count);

/*
 * Returns the ReturnSetInfo of this call. Raises 0A000 if the caller does not accept a set in this
 * mode: SFRM_ValuePerCall or SFRM_Materialize.
 */
extern ReturnSetInfo *RequireSet(FunctionCallInfo fcinfo, SetFunctionReturnMode mode);

/* Makes the tuplestore for this call's result. Its rows are of type `desc`. */
extern Tuplestorestate *ReturnRows(ReturnSetInfo *result, TupleDesc desc);

/*
 * Some elements of an array, which are returned one by one, so that elements that are rows are
 * returned as rows. It is in fn_extra, and zeroed before the first set.
 */
struct ElementSet
{
	ElementPlan plan;

	/* The set that is being returned, in `context`. */
	MemoryContext context;
	bool active;
	Datum *values;
	bool *isnull;
	int next;
	int count;
};

/*
 * Starts a set at the first call. Drops the last set. Returns a context for the work of choosing
 * the elements, which is a child of the set's context.
 */
extern MemoryContext StartSet(FunctionCallInfo fcinfo, ElementSet *set);

/* Takes all elements of an array argument into the set, in the set's context. */
extern void TakeElements(FunctionCallInfo fcinfo, ElementSet *set, int argument);

/* Keeps one of the elements; `kept` elements were kept before it. */
static inline void
KeepElement(ElementSet *set, int kept, int element)
{
	set->values[kept] = set->values[element];
	set->isnull[kept] = set->isnull[element];
}

/* Makes the first `kept` elements the set that is returned. */
extern void ReturnElements(FunctionCallInfo fcinfo, ElementSet *set, int kept);

/* Returns the result of each call: the next element, or the end of the set. */
extern Datum NextElement(FunctionCallInfo fcinfo, ElementSet *set);

/* Returns the empty set. */
extern Datum NoElements(FunctionCallInfo fcinfo);

#endif /* STREAMDEDUP_PG_SETS_HPP */
