/*
 * A call of dedup_is_new(...) OVER (...).
 */
#include "query/window/call.hpp"

using dedup::Shape;

void
PrepareWindowCall(WindowCall *call, FunctionCallInfo fcinfo, bool with_prototype)
{
	call->with_prototype = with_prototype;
	call->keys = MakeKeyPlan(fcinfo, with_prototype ? 1 : 0);
	call->columns =
		(NullableDatum *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt,
												 sizeof(NullableDatum) * call->keys->columns);
}

void
StartOwnFilter(WindowCall *call, OwnFilter *own, MemoryContext context,
			   const NullableDatum *prototype)
{
	Shape shape = {};
	MemoryContext old;

	if (call->with_prototype)
		shape = GetPrototype(prototype->isnull, prototype->value);
	old = MemoryContextSwitchTo(context);
	if (call->with_prototype)
		StartPrototypeFilter(own, shape);
	else
	{
		if (!call->has_default)
			call->default_shape = DefaultShape();
		call->has_default = true;
		StartDefaultFilter(own, call->default_shape);
	}
	MemoryContextSwitchTo(old);
}
