/*
 * Functions that help to load the library.
 *
 * A server loads it into a session when one of its functions is first called there. Before that,
 * streamdedup.approximate_distinct can be set and has no effect: the server accepts any name with a
 * dot, and warns about it, if at all, only when the library is loaded. So there is a function that
 * sets it, and CREATE EXTENSION reports how sessions can start with the library.
 */
#include "pg/settings.hpp"

extern "C" {
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_db_role_setting.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"
}

static const char *const LIBRARY = "streamdedup";
static const char *const SESSION_PRELOAD = "session_preload_libraries";

/*
 * dedup_approximate_distinct(enable boolean, is_local boolean) returns boolean
 *
 * Does SET, or SET LOCAL; the call itself loads the library. It has the caller's rights, as
 * set_config() has.
 */
DEDUP_FUNCTION(dedup_approximate_distinct)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
						errmsg("argument \"%s\" must not be null",
							   PG_ARGISNULL(0) ? "enable" : "is_local")));
	(void) set_config_option("streamdedup.approximate_distinct", PG_GETARG_BOOL(0) ? "on" : "off",
							 superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_SESSION,
							 PG_GETARG_BOOL(1) ? GUC_ACTION_LOCAL : GUC_ACTION_SET, true, 0, false);
	PG_RETURN_BOOL(approximate_distinct);
}

/* ---- the notice of CREATE EXTENSION ----------------------------------------- */

/* The text of the notice that is raised at the end of the transaction, in TopMemoryContext. */
static char *pending_hint = NULL;

/* Returns the entries of a list of libraries; none if the list cannot be parsed. */
static List *
SplitLibraries(const char *value)
{
	List *names = NIL;

	if (value == NULL || !SplitDirectoriesString(pstrdup(value), ',', &names))
		return NIL;
	return names;
}

/* Returns whether the library is among them, by any path. */
static bool
IsListed(const List *names)
{
	ListCell *cell;

	foreach(cell, names)
	{
		const char *name = (const char *) lfirst(cell);
		const char *slash = strrchr(name, '/');
		size_t length = strlen(LIBRARY);

		if (slash != NULL)
			name = slash + 1;
		if (strncmp(name, LIBRARY, length) == 0 && (name[length] == '\0' || name[length] == '.'))
			return true;
	}
	return false;
}

/*
 * Returns the value of session_preload_libraries that ALTER DATABASE has set in this database, or
 * NULL. The session may be older than that.
 */
static char *
OfDatabase(void)
{
	Relation rel = table_open(DbRoleSettingRelationId, AccessShareLock);
	char *value = NULL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(InvalidOid));
	scan = systable_beginscan(rel, DbRoleSettingDatidRolidIndexId, true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool isnull;
		Datum settings =
			heap_getattr(tuple, Anum_pg_db_role_setting_setconfig, RelationGetDescr(rel), &isnull);

		if (!isnull)
		{
			size_t length = strlen(SESSION_PRELOAD);
			Datum *elements;
			bool *nulls;
			int n;

			deconstruct_array(DatumGetArrayTypeP(settings), TEXTOID, -1, false, TYPALIGN_INT,
							  &elements, &nulls, &n);
			for (int i = 0; i < n; i++)
			{
				char *setting = nulls[i] ? NULL : TextDatumGetCString(elements[i]);

				if (setting != NULL && strncmp(setting, SESSION_PRELOAD, length) == 0 &&
					setting[length] == '=')
					value = setting + length + 1;
			}
		}
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return value;
}

/*
 * Raises the notice before the transaction ends, if the extension exists then: its savepoint may
 * have been rolled back.
 */
static void
SayAtCommit(XactEvent event, void *arg)
{
	char *hint = pending_hint;

	if (hint == NULL || event == XACT_EVENT_PARALLEL_PRE_COMMIT)
		return;
	pending_hint = NULL;
	if ((event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE) &&
		OidIsValid(get_extension_oid(LIBRARY, true)))
		ereport(NOTICE, (errmsg("streamdedup is not preloaded: its settings take effect in a "
								"session when it first calls one of its functions"),
						 errhint("%s", hint)));
	pfree(hint);
}

/*
 * dedup_preload_notice() returns void
 *
 * For the extension's script, which creates it, calls it and drops it. Messages of a script do not
 * reach the client, because client_min_messages is raised for it. So the notice waits until the end
 * of the transaction.
 */
DEDUP_FUNCTION(dedup_preload_notice)
{
	static bool registered = false;
	char *of_database = OfDatabase();
	const char *value =
		of_database != NULL ? of_database : GetConfigOption(SESSION_PRELOAD, true, false);
	List *names = SplitLibraries(value);
	StringInfoData list;
	ListCell *cell;

	if (IsListed(names) ||
		IsListed(SplitLibraries(GetConfigOption("shared_preload_libraries", true, false))) ||
		IsListed(SplitLibraries(GetConfigOption("local_preload_libraries", true, false))) ||
		IsListed(SplitLibraries(GetConfigOption(SESSION_PRELOAD, true, false))))
		PG_RETURN_VOID();

	initStringInfo(&list);
	foreach(cell, names)
		appendStringInfo(&list, "%s, ", quote_literal_cstr((const char *) lfirst(cell)));
	appendStringInfoString(&list, quote_literal_cstr(LIBRARY));

	if (pending_hint != NULL)
		pfree(pending_hint);
	pending_hint = MemoryContextStrdup(TopMemoryContext,
									   psprintf("A superuser can have all new sessions of this "
												"database load it: ALTER DATABASE %s SET %s = %s;",
												quote_identifier(get_database_name(MyDatabaseId)),
												SESSION_PRELOAD, list.data));
	if (!registered)
	{
		RegisterXactCallback(SayAtCommit, NULL);
		registered = true;
	}
	PG_RETURN_VOID();
}
