/* Functions that return sets, and functions that take an array of keys. */
#include "pg/sets.hpp"

extern "C" {
#include "utils/lsyscache.h"
}

/* ---- arrays of keys ----------------------------------------------------------------- */

void
PlanElements(FunctionCallInfo fcinfo, ElementPlan *plan, const ArrayType *array)
{
	if (likely(plan->type == ARR_ELEMTYPE(array)))
		return;
	/* An error below must leave no plan behind. */
	plan->type = InvalidOid;
	plan->keys = NULL;
	if (plan->context == NULL)
		plan->context = AllocSetContextCreateInternal(fcinfo->flinfo->fn_mcxt, "dedup key plan",
													  ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(plan->context);
	plan->keys = MakeElementKeyPlan(plan->context, ARR_ELEMTYPE(array), PG_GET_COLLATION());
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &plan->typlen, &plan->typbyval, &plan->typalign);
	plan->type = ARR_ELEMTYPE(array);
}

void
ReadElements(const ElementPlan *plan, ArrayType *array, Datum **values, bool **isnull, int *count)
{
	deconstruct_array(array, plan->type, plan->typlen, plan->typbyval, plan->typalign, values,
					  isnull, count);
}

/* ---- sets ------------------------------------------------------------------------------ */

ReturnSetInfo *
RequireSet(FunctionCallInfo fcinfo, SetFunctionReturnMode mode)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	if (result == NULL || !IsA(result, ReturnSetInfo) || !(result->allowedModes & mode))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("set-valued function called in context that cannot accept a set")));
	return result;
}

Tuplestorestate *
ReturnRows(ReturnSetInfo *result, TupleDesc desc)
{
	MemoryContext old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);

	result->setDesc = BlessTupleDesc(CreateTupleDescCopy(desc));
	result->setResult = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0,
											  false, work_mem);
	result->returnMode = SFRM_Materialize;
	MemoryContextSwitchTo(old);
	return result->setResult;
}

/* ---- elements as a set ----------------------------------------------------------------- */

/* Drops the set: it was returned, or the rest of it is not needed. */
static void
EndSet(Datum argument)
{
	ElementSet *set = (ElementSet *) DatumGetPointer(argument);

	set->active = false;
	MemoryContextReset(set->context);
}

MemoryContext
StartSet(FunctionCallInfo fcinfo, ElementSet *set)
{
	if (set->context == NULL)
		set->context = AllocSetContextCreateInternal(fcinfo->flinfo->fn_mcxt, "dedup set",
													 ALLOCSET_SMALL_SIZES);
	MemoryContextReset(set->context);
	return AllocSetContextCreateInternal(set->context, "dedup set work", ALLOCSET_DEFAULT_SIZES);
}

void
TakeElements(FunctionCallInfo fcinfo, ElementSet *set, int argument)
{
	/* The elements stay in the array, which is kept until the set's end. */
	MemoryContext old = MemoryContextSwitchTo(set->context);
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(argument);

	PlanElements(fcinfo, &set->plan, array);
	ReadElements(&set->plan, array, &set->values, &set->isnull, &set->count);
	MemoryContextSwitchTo(old);
}

void
ReturnElements(FunctionCallInfo fcinfo, ElementSet *set, int kept)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	RegisterExprContextCallback(result->econtext, EndSet, PointerGetDatum(set));
	set->count = kept;
	set->next = 0;
	set->active = true;
}

Datum
NextElement(FunctionCallInfo fcinfo, ElementSet *set)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	if (set->next >= set->count)
	{
		UnregisterExprContextCallback(result->econtext, EndSet, PointerGetDatum(set));
		EndSet(PointerGetDatum(set));
		return NoElements(fcinfo);
	}
	result->isDone = ExprMultipleResult;
	fcinfo->isnull = set->isnull[set->next];
	return set->values[set->next++];
}

Datum
NoElements(FunctionCallInfo fcinfo)
{
	((ReturnSetInfo *) fcinfo->resultinfo)->isDone = ExprEndResult;
	PG_RETURN_NULL();
}
