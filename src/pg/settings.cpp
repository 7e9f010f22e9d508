/*
 * The settings, and the contexts in which streamdedup.approximate_distinct applies.
 *
 * Any user may turn it on, so it must not affect code that other users wrote to be run with their
 * rights. A SECURITY DEFINER function that counts distinct rows before it grants something must be
 * exact, whatever its caller has set. Its owner may turn the setting on, in the function's SET
 * clause or its body. So the value carries the user and the security context in which it was set.
 * If the current context is not the session's own, the setting applies only if both are the same.
 *
 * The setting does not apply in the sessions that Citus opens on its workers either. They get parts
 * of statements, which do not show what a missing row means for the whole statement. The
 * coordinator has decided about the statement. But ALTER DATABASE SET affects these sessions, too.
 *
 * A function's SET clause is applied after the switch to its owner, and undone with the server's
 * stack of values, which carries the user and the context along. SET ROLE does not change the
 * security context.
 */
#include "pg/settings.hpp"

extern "C" {
#include "utils/guc.h"
#include "utils/plancache.h"
}

bool approximate_distinct = false;
double distinct_fpr = 0.001;
int distinct_memory_kb = -1;
bool streaming_window = true;
bool guard_read_ahead = true;

namespace
{

/* The user who turned approximate_distinct on, and the context. */
struct SetBy
{
	Oid user;
	int context; /* bits of CONTEXT_BITS */
};

/* The bits of a security context with which another user's code runs. */
constexpr int CONTEXT_BITS = SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION;

constexpr Size LEAST_DEFAULT_MEMORY = 64 * 1024 * 1024;
constexpr int LEAST_MEMORY_KB = 64;

} /* namespace */

static SetBy set_by;

/*
 * Values that were given before the library was loaded are checked while it is being loaded,
 * perhaps in the body of a function that did not give them. It is not known who gave them.
 */
static bool defining = false;

static SetBy
PresentContext(void)
{
	SetBy present = {};

	GetUserIdAndSecContext(&present.user, &present.context);
	present.context &= CONTEXT_BITS;
	return present;
}

static bool
CheckApproximateDistinct(bool *newval, void **extra, GucSource source)
{
	SetBy *by;

	by = (SetBy *) MALLOC_FOR_SETTING(sizeof(SetBy));
	if (by == NULL)
	{
		GUC_check_errcode(ERRCODE_OUT_OF_MEMORY);
		GUC_check_errmsg("out of memory");
		return false;
	}
	*by = defining ? SetBy{InvalidOid, 0} : PresentContext();
	*extra = by;
	return true;
}

/*
 * Drops plans that were made under the old value. Does so only if an answer may change: a function
 * whose SET clause repeats the session's value costs no plans.
 */
static void
AssignApproximateDistinct(bool newval, void *extra)
{
	SetBy by = extra == NULL ? SetBy{InvalidOid, 0} : *(SetBy *) extra;
	bool changed = newval != approximate_distinct ||
				   (newval && (by.user != set_by.user || by.context != set_by.context));

	/* the server assigns the variable, too, after this function */
	approximate_distinct = newval;
	set_by = by;
	if (changed)
		ResetPlanCache();
}

static bool
CheckDistinctMemory(int *newval, void **extra, GucSource source)
{
	if (*newval == -1 || *newval >= LEAST_MEMORY_KB)
		return true;
	GUC_check_errdetail("It is -1, or at least %dkB.", LEAST_MEMORY_KB);
	return false;
}

void
InitSettings(void)
{
	defining = true;
	DefineCustomBoolVariable(
		"streamdedup.approximate_distinct", "Plans DISTINCT and count(DISTINCT) through a filter.",
		"They take less time and memory. A few rows may be lost, and counts are estimates.",
		&approximate_distinct, false, PGC_USERSET, GUC_EXPLAIN, CheckApproximateDistinct,
		AssignApproximateDistinct, NULL);
	defining = false;

	DefineCustomRealVariable(
		"streamdedup.distinct_fpr",
		"Sets the share of distinct rows that an approximate DISTINCT may lose.", NULL,
		&distinct_fpr, 0.001, 1e-8, 0.1, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomIntVariable(
		"streamdedup.distinct_memory",
		"Sets the most memory that the filter of an approximate DISTINCT takes.",
		"-1 is work_mem times hash_mem_multiplier, at least 64MB.", &distinct_memory_kb, -1, -1,
		MAX_KILOBYTES, PGC_USERSET, GUC_EXPLAIN | GUC_UNIT_KB, CheckDistinctMemory, NULL, NULL);

	DefineCustomBoolVariable("streamdedup.streaming_window",
							 "Runs dedup_is_new OVER in a node that does not store its rows.",
							 "The rows and the answers are those of WindowAgg.", &streaming_window,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	DefineCustomBoolVariable("streamdedup.guard_read_ahead",
							 "Reads the rows ahead that are inserted into a guarded table.",
							 "It takes less time and changes nothing else.", &guard_read_ahead,
							 true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);

	MarkGUCPrefixReserved("streamdedup");
}

Size
DistinctMemory(void)
{
	if (distinct_memory_kb >= 0)
		return (Size) distinct_memory_kb * 1024;
	return Max(get_hash_memory_limit(), LEAST_DEFAULT_MEMORY);
}

/*
 * The first parts of the application names that Citus gives to the sessions that it opens on other
 * nodes.
 */
static const char *const CITUS_SESSIONS[] = {"citus_internal", "citus_rebalancer",
											 "citus_run_command"};

static bool
IsCitusName(const char *name)
{
	if (name == NULL || name[0] != 'c')
		return false;
	for (const char *prefix : CITUS_SESSIONS)
		if (strncmp(name, prefix, strlen(prefix)) == 0)
			return true;
	return false;
}

/* The name with which the session began is the one that RESET would restore. */
static bool
BeganWithCitusName(void)
{
	static bool known = false;
	static bool began = false;

	if (!known)
	{
		began = IsCitusName(GetConfigOptionResetString("application_name"));
		known = true;
	}
	return began;
}

/*
 * The current name alone is not enough: a function that a worker calls may have set another name.
 */
bool
IsCitusSession(void)
{
	return IsCitusName(application_name) || BeganWithCitusName();
}

bool
ApproximateDistinctAllowed(void)
{
	SetBy present;

	if (!approximate_distinct || IsCitusSession())
		return false;
	present = PresentContext();
	return present.context == 0 ||
		   (present.user == set_by.user && present.context == set_by.context);
}
