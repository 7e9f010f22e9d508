/*
 * What the call site of an SQL function on a live filter keeps, and the filter that its
 * first argument names.
 */
#ifndef STREAMDEDUP_LIVE_CALL_HPP
#define STREAMDEDUP_LIVE_CALL_HPP

#include "live/live.hpp"
#include "pg/sets.hpp"

/* Kept in fn_extra. */
struct LiveCall
{
	bool by_name; /* the first argument is a text; else a regclass */
	KeyPlan *keys;
	ElementSet set; /* dedup_new_keys */

	/* The name resolved last, and what its meaning depends on. */
	text *name;
	char *search_path;
	Oid user;
	uint64 catalogs;
	Oid relid;
};

/*
 * The call site. Each function of a live filter is declared in SQL for a text and for a
 * regclass; both declarations are one function here, which asks once what it is given.
 */
extern LiveCall *GetLiveCall(FunctionCallInfo fcinfo);

/* The relation that the first argument, not NULL, names. Raises 42P01 for an unknown name. */
extern Oid ResolveName(FunctionCallInfo fcinfo, LiveCall *call);

/*
 * Opens the filter that the first argument, not NULL, names, to be asked as a whole.
 * Returns false for an OID that names no relation: a query over pg_class still finds one
 * that has been dropped meanwhile.
 */
extern bool OpenNamed(FunctionCallInfo fcinfo, const char *function, LiveFilter *filter);

/*
 * Raises an error for a NULL argument. A result of NULL would silently leave out the
 * rows of a query that asks WHERE is_new(...).
 */
extern void RequireArgument(FunctionCallInfo fcinfo, int argument, const char *what,
							const char *function);

#endif /* STREAMDEDUP_LIVE_CALL_HPP */
