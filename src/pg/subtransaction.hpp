/*
 * Errors that are caught: what is tried runs in an internal subtransaction.
 */
#ifndef STREAMDEDUP_PG_SUBTRANSACTION_HPP
#define STREAMDEDUP_PG_SUBTRANSACTION_HPP

#include "pg/pg.hpp"

extern "C" {
#include "access/xact.h"
#include "utils/resowner.h"
}

/*
 * To be called first in PG_CATCH(): rolls the subtransaction back. Returns the error, in
 * `context`. Context and resource owner are those from before the subtransaction.
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

#endif /* STREAMDEDUP_PG_SUBTRANSACTION_HPP */
