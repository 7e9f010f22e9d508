/* Catches errors by running code in an internal subtransaction. */
#ifndef STREAMDEDUP_PG_SUBTRANSACTION_HPP
#define STREAMDEDUP_PG_SUBTRANSACTION_HPP

#include "pg/pg.hpp"

extern "C" {
#include "access/xact.h"
#include "utils/resowner.h"
}

/*
 * Rolls the subtransaction back. Must be called first in PG_CATCH(). Returns the error, in
 * `context`. Restores the context and the resource owner from before the subtransaction.
 */
static inline ErrorData *
RollBackError(MemoryContext context, ResourceOwner owner)
{
	ErrorData *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/*
 * Runs work() in a subtransaction. Returns the message of the error that it raised, or null. Raises
 * errors that have other causes: cancel, shutdown, lack of resources. A parallel plan does not
 * allow subtransactions.
 */
template <typename Work>
static char *
ErrorOf(Work work)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char *volatile problem = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		work();
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData *error = RollBackError(context, owner);
		const int category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

		if (category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_INSUFFICIENT_RESOURCES)
			ReThrowError(error);
		problem = error->message;
	}
	PG_END_TRY();
	return problem;
}

#endif /* STREAMDEDUP_PG_SUBTRANSACTION_HPP */
