/*
 * The definition of a shard's guard, as it is stored in a trigger that Citus makes on each shard;
 * see distributed.hpp.
 */
#include "guard/distributed.hpp"
#include "pg/catalog.hpp"

#include <cctype>

extern "C" {
#include "catalog/pg_trigger.h"
#include "executor/spi.h"
#include "nodes/nodes.h"
#include "utils/guc.h"
}

const char *const shard_argument_names[kShardArguments] =
	{"filter",  "method",    "keys",     "fpr",          "hash",  "seed",
	 "ttl",     "renew",     "unlogged", "on_duplicate", "exact", "nulls_not_distinct",
	 "too_old", "on_delete", "load"};

extern "C" Datum dedup_guard_shard(PG_FUNCTION_ARGS);

bool
IsDistributedFunction(Oid function)
{
	return IsOurFunction(function, dedup_guard_shard, DISTRIBUTED_FUNCTION);
}

const Trigger *
FindShardDefinition(Relation rel)
{
	const TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (strncmp(trigger->tgname, DISTRIBUTED_DEFINITION, strlen(DISTRIBUTED_DEFINITION)) == 0 &&
			trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_DELETE) &&
			!trigger->tgisclone && IsDistributedFunction(trigger->tgfoid))
			return trigger;
	}
	return NULL;
}

/* Reads the arguments. Returns whether each of them is known, and no required one is missing. */
static bool
ReadArguments(const Trigger *trigger, ShardPlan *plan)
{
	for (int i = 0; i < kShardArguments; i++)
		plan->arguments[i] = NULL;
	for (int i = 0; i < trigger->tgnargs; i++)
	{
		const char *equals = strchr(trigger->tgargs[i], '=');
		bool known = false;

		for (int j = 0; equals != NULL && j < kShardArguments; j++)
		{
			const size_t length = strlen(shard_argument_names[j]);

			if (length != (size_t) (equals - trigger->tgargs[i]) ||
				strncmp(trigger->tgargs[i], shard_argument_names[j], length) != 0)
				continue;
			known = plan->arguments[j] == NULL;
			plan->arguments[j] = pstrdup(equals + 1);
		}
		if (!known)
			return false;
	}
	for (int i = 0; i < SHARD_LOAD; i++)
		if (plan->arguments[i] == NULL)
			return false;
	return true;
}

bool
IsShardPlan(const Trigger *trigger, ShardPlan *plan)
{
	return trigger->tgqual != NULL && ReadClauseWithoutFilter(trigger->tgqual, &plan->clause) &&
		   ReadArguments(trigger, plan);
}

void
ReadShardPlan(Relation rel, const Trigger *trigger, ShardPlan *plan)
{
	if (!IsShardPlan(trigger, plan))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("trigger \"%s\" of table \"%s\" does not describe the guard of a "
							   "distributed table",
							   trigger->tgname, RelationGetRelationName(rel)),
						errdetail("Its WHEN condition or its arguments are not those that "
								  "dedup_guard_distributed() writes."),
						errhint("Drop it, and call dedup_guard_distributed() for the distributed "
								"table.")));
}

static bool
SameElement(const GuardClause &one, const GuardClause &other, int i)
{
	return one.attnums[i] == other.attnums[i] && equal(one.expressions[i], other.expressions[i]);
}

bool
SameShardPlan(const ShardPlan &one, const ShardPlan &other, bool any_seed)
{
	bool same =
		one.clause.columns == other.clause.columns && one.clause.mark == other.clause.mark &&
		equal(one.clause.where, other.clause.where) && equal(one.clause.at, other.clause.at);

	for (int i = 0; same && i < one.clause.columns; i++)
		same = SameElement(one.clause, other.clause, i);
	for (int i = 0; same && i < SHARD_LOAD; i++)
		same = (i == SHARD_SEED && any_seed) || strcmp(one.arguments[i], other.arguments[i]) == 0;
	return same;
}

const char *
ShardOfTrigger(const char *trigger, const char *table)
{
	const char *behind_trigger = strrchr(trigger, '_');
	const char *behind_table = strrchr(table, '_');

	if (behind_trigger == NULL || behind_table == NULL || behind_trigger[1] == '\0' ||
		strcmp(behind_trigger, behind_table) != 0)
		return NULL;
	for (const char *at = behind_trigger + 1; *at != '\0'; at++)
		if (!isdigit((unsigned char) *at))
			return NULL;
	return behind_trigger + 1;
}

/* ---- statements ------------------------------------------------------------------------ */

int
UseCatalogPath(void)
{
	const int level = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

int
CallWithTexts(const char *command, int parameters, const char *const *texts)
{
	Oid types[16];
	Datum values[16] = {};
	char nulls[16] = {};
	int result;

	Assert(parameters <= (int) lengthof(types));
	for (int i = 0; i < parameters; i++)
	{
		types[i] = TEXTOID;
		nulls[i] = texts[i] == NULL ? 'n' : ' ';
		values[i] = texts[i] == NULL ? (Datum) 0 : CStringGetTextDatum(texts[i]);
	}
	result = SPI_execute_with_args(command, parameters, types, values, nulls, false, 0);
	if (result < 0)
		elog(ERROR, "command \"%s\" failed: %s", command, SPI_result_code_string(result));
	return (int) SPI_processed;
}

int
RunWithTexts(const char *command, int parameters, const char *const *texts)
{
	const int level = UseCatalogPath();
	const int rows = CallWithTexts(command, parameters, texts);

	AtEOXact_GUC(true, level);
	return rows;
}

char *
ResultText(int row, int column)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
}
