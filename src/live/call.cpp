/* The call sites of SQL functions on live filters, and the resolution of filters' names. */
#include "live/call.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"
}

/* Counts changes of relations and schemas. Each of them can change the meaning of a name. */
static uint64 catalog_changes = 1;

static void
AtRelcacheChange(Oid)
{
	catalog_changes++;
}

static void
AtSyscacheChange(Datum, SYSCACHE_ID, uint32)
{
	catalog_changes++;
}

/* Returns whether this function is the one that is declared for a text. */
static bool
IsNamedByText(FmgrInfo *flinfo)
{
	Oid type = get_fn_expr_argtype(flinfo, 0);
	Oid *types;
	int count;

	if (type == TEXTOID || type == REGCLASSOID)
		return type == TEXTOID;
	/* The fast-path protocol calls a function without an expression. */
	(void) get_func_signature(flinfo->fn_oid, &types, &count);
	return types[0] == TEXTOID;
}

LiveCall *
GetLiveCall(FunctionCallInfo fcinfo)
{
	static bool registered = false;
	LiveCall *call = (LiveCall *) fcinfo->flinfo->fn_extra;

	if (call == NULL)
	{
		const bool by_name = IsNamedByText(fcinfo->flinfo);

		if (!registered)
		{
			WatchRelations(AtRelcacheChange);
			CacheRegisterSyscacheCallback(NAMESPACEOID, AtSyscacheChange, (Datum) 0);
			registered = true;
		}
		call = (LiveCall *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(LiveCall));
		call->by_name = by_name;
		fcinfo->flinfo->fn_extra = call;
	}
	return call;
}

void
RequireArgument(FunctionCallInfo fcinfo, int argument, const char *what, const char *function)
{
	if (PG_ARGISNULL(argument))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("%s of %s must not be null", what, function)));
}

Oid
ResolveName(FunctionCallInfo fcinfo, LiveCall *call)
{
	text *name;

	if (!call->by_name)
		return PG_GETARG_OID(0);
	name = PG_GETARG_TEXT_PP(0);
	if (call->name != NULL && call->catalogs == catalog_changes && call->user == GetUserId() &&
		VARSIZE_ANY_EXHDR(call->name) == VARSIZE_ANY_EXHDR(name) &&
		memcmp(VARDATA_ANY(call->name), VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)) == 0 &&
		strcmp(call->search_path, namespace_search_path) == 0)
		return call->relid;

	Oid relid =
		RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(name)), NoLock, false);
	MemoryContext old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

	if (call->name != NULL)
	{
		pfree(call->name);
		pfree(call->search_path);
		call->name = NULL;
	}
	call->search_path = pstrdup(namespace_search_path);
	call->user = GetUserId();
	call->relid = relid;
	call->catalogs = catalog_changes;
	call->name = (text *) DatumGetPointer(PointerGetDatum(
		cstring_to_text_with_len(VARDATA_ANY(name), (int) VARSIZE_ANY_EXHDR(name))));
	MemoryContextSwitchTo(old);
	return relid;
}

bool
OpenNamed(FunctionCallInfo fcinfo, const char *function, LiveFilter *filter)
{
	LiveCall *call = GetLiveCall(fcinfo);

	if (!call->by_name)
		return OpenLiveIfExists(PG_GETARG_OID(0), function, filter);
	*filter = OpenLive(ResolveName(fcinfo, call), LiveUse::Ask, GetUserId(), function);
	return true;
}
