/*
 * The settings, and where streamdedup.approximate_distinct holds.
 *
 * Any user may turn it on, so it must not reach into what others wrote to be run with
 * their rights: a SECURITY DEFINER function that counts distinct rows before it grants
 * something is exact whatever its caller has set. Its owner may ask for it, in the
 * function's SET clause or its body. So the value carries the user and the security
 * context that it was set in, and where the present context is not the session's own,
 * it holds only if they are the same.
 *
 * Nor does it hold in the sessions that Citus opens on its workers. They get parts of
 * statements, out of which nobody can tell what a missing row does to the whole; the
 * coordinator has decided about the statement. ALTER DATABASE SET reaches them all the same.
 *
 * A function's SET clause is applied after the switch to its owner, and undone with the
 * stack of values, which carries ours along. SET ROLE is no such context.
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

/* Who turned approximate_distinct on. */
struct SetBy
{
	Oid user;
	int context; /* bits of CONTEXT_BITS */
};

/* What makes a security context one where other people's code runs. */
constexpr int CONTEXT_BITS = SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION;

constexpr Size LEAST_DEFAULT_MEMORY = 64 * 1024 * 1024;
constexpr int LEAST_MEMORY_KB = 64;

} /* namespace */

static SetBy set_by;

/*
 * Values given before the library was loaded are checked while it is, perhaps in the
 * body of a function that did not give them. Nobody knows who did.
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
 * Plans made under the old value go. Only what changes an answer counts: a function
 * whose SET clause repeats the session's value costs no plans.
 */
static void
AssignApproximateDistinct(bool newval, void *extra)
{
	SetBy by = extra == NULL ? SetBy{InvalidOid, 0} : *(SetBy *) extra;
	bool changed = newval != approximate_distinct ||
				   (newval && (by.user != set_by.user || by.context != set_by.context));

	/* the server assigns the variable too, after this */
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

/* The beginnings of the names that Citus gives the sessions which it opens on other nodes. */
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

/* The name that the session began with is the one that RESET would bring back. */
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

/* The present name alone does not say it: a function that a worker calls may have set another. */
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
