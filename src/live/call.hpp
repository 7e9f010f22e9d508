/*
 * The data that the call site of an SQL function on a live filter keeps, and the filter that its
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

	/* The name that was resolved last, and the state on which its meaning depends. */
	text *name;
	char *search_path;
	Oid user;
	uint64 catalogs;
	Oid relid;
};

/*
 * Returns the call site. Each function on a live filter is declared in SQL for a text and for a
 * regclass. Both declarations are one function here, which checks the type once.
 */
extern LiveCall *GetLiveCall(FunctionCallInfo fcinfo);

/*
 * Returns the relation that the first argument (not NULL) names. Raises 42P01 for a name that does
 * not exist.
 */
extern Oid ResolveName(FunctionCallInfo fcinfo, LiveCall *call);

/*
 * Opens the filter that the first argument (not NULL) names, for queries about the whole filter.
 * Returns false for an OID that names no relation: a query over pg_class may still find a relation
 * that was dropped meanwhile.
 */
extern bool OpenNamed(FunctionCallInfo fcinfo, const char *function, LiveFilter *filter);

/*
 * Raises an error for a NULL argument. A result of NULL would silently leave out rows of a query
 * with WHERE is_new(...).
 */
extern void RequireArgument(FunctionCallInfo fcinfo, int argument, const char *what,
							const char *function);

#endif /* STREAMDEDUP_LIVE_CALL_HPP */
