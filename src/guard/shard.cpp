/* The guard of a shard, on the node where the shard is; see distributed.hpp. */
#include "guard/distributed.hpp"
#include "guard/site.hpp"
#include "guard/table_keys.hpp"
#include "pg/catalog.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
}

/* ---- the filter of a shard ---------------------------------------------------------------- */

/* Returns the name of a shard's filter, in the schema of the shard. */
static const char *
ShardFilterName(const ShardPlan &plan, const char *shard)
{
	return makeObjectName(plan.arguments[SHARD_FILTER], NULL, shard);
}

/*
 * Makes the filter depend on the shard, so that it is dropped with the shard: after a move, a
 * split, or DROP TABLE. Citus drops the shard, and does not know the filter.
 */
static void
BindFilter(Oid filter, Oid table)
{
	ObjectAddress object;
	ObjectAddress owner;

	ObjectAddressSet(object, RelationRelationId, filter);
	ObjectAddressSet(owner, RelationRelationId, table);
	(void) deleteDependencyRecordsForClass(RelationRelationId, filter, RelationRelationId,
										   DEPENDENCY_AUTO);
	recordDependencyOn(&object, &owner, DEPENDENCY_AUTO);
}

/* Returns whether the filter is dropped with the table. */
static bool
IsBoundTo(Oid filter, Oid table)
{
	const char *texts[] = {psprintf("%u", filter), psprintf("%u", table)};

	return RunWithTexts("SELECT FROM pg_catalog.pg_depend WHERE deptype = 'a'"
						" AND classid = 'pg_catalog.pg_class'::pg_catalog.regclass"
						" AND objid = $1::pg_catalog.oid AND refobjid = $2::pg_catalog.oid"
						" AND refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass",
						2, texts) > 0;
}

/* Makes the filter of a shard. */
static Oid
CreateShardFilter(const char *schema, const char *qualified, const ShardPlan &plan)
{
	const char *const *arguments = plan.arguments;
	/* A filter that grows has no number of keys. */
	const char *keys =
		strcmp(arguments[SHARD_KEYS], "0") == 0 ? "" : psprintf("keys=%s ", arguments[SHARD_KEYS]);
	const char *texts[] = {qualified,
						   arguments[SHARD_METHOD],
						   psprintf("%sfpr=%s hash=%s", keys, arguments[SHARD_FPR],
									arguments[SHARD_HASH]),
						   arguments[SHARD_SEED],
						   strcmp(arguments[SHARD_TTL], "0") == 0
							   ? NULL
							   : psprintf("%s microseconds", arguments[SHARD_TTL]),
						   arguments[SHARD_UNLOGGED],
						   arguments[SHARD_RENEW]};

	(void) CallWithTexts(
		psprintf("SELECT %s.dedup_create($1, %s.dedup_method($2, NULL, $3, $4::pg_catalog.int8),"
				 " $5::pg_catalog.interval, $6::pg_catalog.bool, $7::pg_catalog.bool)"
				 "::pg_catalog.oid",
				 schema, schema),
		lengthof(texts), texts);
	return (Oid) strtoul(ResultText(0, 1), NULL, 10);
}

/* ---- keys of the shard's other placement --------------------------------------------------- */

/* Returns whether there can be keys to take over that the rows of the shard do not have. */
static bool
OutlivesRows(const ShardPlan &plan, const LiveFilter &filter)
{
	return !ShardFlag(plan, SHARD_EXACT) &&
		   (strcmp(plan.arguments[SHARD_ON_DELETE], "keep") == 0 || filter.parameters.forgets);
}

/*
 * Adds the keys of the filter of another placement of the shard, from which Citus copies or moves
 * it: keys of deleted rows, and the times of keys. Returns whether there is one.
 */
static bool
TakeOverKeys(const char *schema, const char *qualified, const char *shard)
{
	const char *nodes[1] = {shard};
	int found;
	bool taken = false;

	if (!OidIsValid(get_relname_relid("pg_dist_placement", PG_CATALOG_NAMESPACE)))
		return false;
	found = RunWithTexts("SELECT nodename, nodeport FROM pg_catalog.pg_dist_placement p"
						 " JOIN pg_catalog.pg_dist_node n USING (groupid)"
						 " WHERE p.shardid = $1::pg_catalog.int8 AND n.noderole = 'primary'"
						 " AND n.isactive AND p.groupid <>"
						 " (SELECT groupid FROM pg_catalog.pg_dist_local_group)",
						 1, nodes);
	for (int i = 0; i < found && !taken; i++)
	{
		SPITupleTable *table = SPI_tuptable;
		const char *ask[] = {SPI_getvalue(table->vals[i], table->tupdesc, 1),
							 SPI_getvalue(table->vals[i], table->tupdesc, 2),
							 psprintf("SELECT CASE WHEN pg_catalog.to_regclass(%s) IS NOT NULL THEN"
									  " %s.dedup_snapshot(pg_catalog.to_regclass(%s)) END",
									  quote_literal_cstr(qualified), schema,
									  quote_literal_cstr(qualified))};
		const char *load[2] = {qualified, NULL};

		(void) RunWithTexts("SELECT success, result FROM pg_catalog.master_run_on_worker("
							"ARRAY[$1], ARRAY[$2::pg_catalog.int4], ARRAY[$3], false)",
							lengthof(ask), ask);
		load[1] = ResultText(0, 2);
		if (strcmp(ResultText(0, 1), "t") != 0)
			ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							errmsg("could not read the filter of the other placement of shard %s "
								   "on node %s:%s",
								   shard, ask[0], ask[1]),
							errdetail_internal("%s", load[1])));
		if (load[1] != NULL && load[1][0] != '\0')
		{
			(void) CallWithTexts(psprintf("SELECT %s.dedup_load($1, $2::%s.dedup_filter)", schema,
										  schema),
								 2, load);
			taken = true;
		}
		SPI_tuptable = table;
	}
	return taken;
}

/* ---- making the guard ----------------------------------------------------------------------- */

/* Returns the key as dedup_guard() takes it, as the text of an array. */
static char *
ColumnsText(Oid table, const GuardClause &clause)
{
	Datum elements[INDEX_MAX_KEYS];

	for (int i = 0; i < clause.columns; i++)
		elements[i] = CStringGetTextDatum(clause.expressions[i] == NULL
											  ? get_attname(table, clause.attnums[i], false)
											  : ExpressionText(table, clause.expressions[i]));
	return OidOutputFunctionCall(F_ARRAY_OUT,
								 PointerGetDatum(construct_array(elements, clause.columns, TEXTOID,
																 -1, false, TYPALIGN_INT)));
}

static const char *
TextOfExpression(Oid table, const Expr *expression)
{
	return expression == NULL ? NULL : ExpressionText(table, expression);
}

/*
 * Returns, as dedup_guard() takes it, whether existing rows are loaded. A window that does not use
 * the time of the rows does not know when their keys came. Unless the keys were taken over, a
 * WARNING says that they are unknown.
 */
static const char *
LoadText(const ShardPlan &plan, const LiveFilter &filter, bool taken_over)
{
	if (plan.arguments[SHARD_LOAD] != NULL)
		return plan.arguments[SHARD_LOAD];
	if (!filter.parameters.forgets || plan.clause.at != NULL)
		return "true";
	return taken_over ? "false" : NULL;
}

static void
CallGuard(const char *schema, Oid table, Oid filter, const ShardPlan &plan, bool taken_over)
{
	const char *const *arguments = plan.arguments;
	LiveFilter live = OpenLiveUnchecked(filter, AccessShareLock);
	const char *load = LoadText(plan, live, taken_over);
	const char *mode = arguments[SHARD_ON_DUPLICATE];

	CloseLive(live);
	if (plan.clause.mark != 0)
		mode = psprintf("%s:%s", mode, get_attname(table, plan.clause.mark, false));

	const char *texts[] = {psprintf("%u", table),
						   psprintf("%u", filter),
						   ColumnsText(table, plan.clause),
						   mode,
						   arguments[SHARD_EXACT],
						   load,
						   TextOfExpression(table, plan.clause.where),
						   arguments[SHARD_NULLS_NOT_DISTINCT],
						   TextOfExpression(table, plan.clause.at),
						   arguments[SHARD_TOO_OLD],
						   arguments[SHARD_ON_DELETE]};

	/* An expression that is only a column is passed as the column's name. */
	if (plan.clause.at != NULL && IsA(plan.clause.at, Var))
		texts[8] = get_attname(table, ((const Var *) plan.clause.at)->varattno, false);
	(void) CallWithTexts(
		psprintf(
			"SELECT %s.dedup_guard($1::pg_catalog.oid, $2::pg_catalog.oid, $3::pg_catalog.text[], "
			"$4,"
			" $5::pg_catalog.bool, $6::pg_catalog.bool, $7, $8::pg_catalog.bool, $9, $10, $11)",
			schema),
		lengthof(texts), texts);
}

/* Returns the filter for a shard: the existing one, or a new one, which is filled. */
static Oid
ProvideFilter(const char *schema, Relation rel, const ShardPlan &plan, const char *shard,
			  bool *taken_over)
{
	const char *name = ShardFilterName(plan, shard);
	const char *qualified =
		quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)), name);
	Oid filter = get_relname_relid(name, RelationGetNamespace(rel));
	LiveFilter live;

	*taken_over = false;
	if (OidIsValid(filter))
	{
		if (!IsLiveRelationId(filter) || !IsBoundTo(filter, RelationGetRelid(rel)))
			ereport(ERROR, (errcode(ERRCODE_DUPLICATE_TABLE),
							errmsg("relation \"%s\" already exists", name),
							errdetail("The filter of shard \"%s\" must have this name.",
									  RelationGetRelationName(rel))));
		return filter;
	}
	filter = CreateShardFilter(schema, qualified, plan);
	CommandCounterIncrement();
	BindFilter(filter, RelationGetRelid(rel));
	live = OpenLiveUnchecked(filter, AccessShareLock);
	if (OutlivesRows(plan, live))
		*taken_over = TakeOverKeys(schema, qualified, shard);
	CloseLive(live);
	return filter;
}

/* Returns whether there is a guard. Sets what is wrong with it, or NULL. */
static bool
HasGuard(const char *schema, Oid table, const char **problem)
{
	const char *texts[] = {psprintf("%u", table)};

	if (RunWithTexts(psprintf("SELECT problem FROM %s.dedup_guards"
							  " WHERE \"table\" = $1::pg_catalog.oid",
							  schema),
					 1, texts) == 0)
		return false;
	*problem = ResultText(0, 1);
	return true;
}

static bool
HasGuardTriggers(Relation rel)
{
	const TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (IsGuardTriggerFunction(triggers->triggers[i].tgfoid))
			return true;
	return false;
}

static void
CallUnguard(const char *schema, Oid table)
{
	const char *texts[] = {psprintf("%u", table)};

	(void) CallWithTexts(psprintf("SELECT %s.dedup_unguard($1::pg_catalog.oid)", schema), 1, texts);
}

/*
 * Makes the guard of a shard, unless there is a complete one. Runs with the rights of the shard's
 * owner.
 */
static void
MakeShardGuard(Relation rel, const ShardPlan &plan, const char *schema, const char *shard)
{
	const Oid table = RelationGetRelid(rel);
	const char *problem = NULL;
	bool taken_over;
	Oid filter;

	SPI_connect();
	if (!HasGuard(schema, table, &problem) || problem != NULL)
	{
		const bool remnants = HasGuardTriggers(rel);

		relation_close(rel, NoLock);
		if (remnants)
			CallUnguard(schema, table);
		rel = relation_open(table, NoLock);
		filter = ProvideFilter(schema, rel, plan, shard, &taken_over);
		relation_close(rel, NoLock);
		CallGuard(schema, table, filter, plan, taken_over);
	}
	else
		relation_close(rel, NoLock);
	SPI_finish();
}

/* Returns the schema of our functions, from one of them. */
static const char *
SchemaOf(Oid function)
{
	return pstrdup(quote_identifier(get_namespace_name(get_func_namespace(function))));
}

/*
 * Called when a trigger was made that defines a shard's guard. The role that makes it must own the
 * table: the right to make triggers is not enough, because functions run with the owner's rights.
 */
static void
ShardTriggerMade(const CreateTrigStmt *statement)
{
	const Oid table = RangeVarGetRelid(statement->relation, NoLock, true);
	const Trigger *trigger;
	const char *shard;
	const char *schema;
	ShardPlan plan;
	AsOwner before;
	Relation rel;

	if (!OidIsValid(table))
		return;
	shard = ShardOfTrigger(statement->trigname, statement->relation->relname);
	if (shard == NULL)
		return;
	rel = relation_open(table, NoLock);
	trigger = FindShardDefinition(rel);
	if (trigger == NULL || strcmp(trigger->tgname, statement->trigname) != 0)
	{
		relation_close(rel, NoLock);
		return;
	}
	if (!OwnsTable(table))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
	ReadShardPlan(rel, trigger, &plan);
	schema = SchemaOf(trigger->tgfoid);
	before = BecomeOwner(rel);
	MakeShardGuard(rel, plan, schema, shard);
	BecomeAgain(before);
}

/* dedup_guard_shard_made() returns event_trigger: called at the end of CREATE TRIGGER */
DEDUP_FUNCTION(dedup_guard_shard_made)
{
	const EventTriggerData *data = (const EventTriggerData *) fcinfo->context;
	const CreateTrigStmt *statement;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function %s must be called as an event trigger",
							   "dedup_guard_shard_made")));
	statement = (const CreateTrigStmt *) data->parsetree;
	if (statement == NULL || !IsA(statement, CreateTrigStmt) || IsBinaryUpgrade)
		PG_RETURN_NULL();
	if (strcmp(statement->trigname, DISTRIBUTED_DEFINITION) == 0)
		CheckDefinition(statement->relation);
	else if (strncmp(statement->trigname, DISTRIBUTED_DEFINITION "_",
					 strlen(DISTRIBUTED_DEFINITION "_")) == 0)
		ShardTriggerMade(statement);
	PG_RETURN_NULL();
}

/* ---- dropping it ----------------------------------------------------------------------------- */

/*
 * Called when the trigger that refuses rows is about to be dropped. If the trigger that defines the
 * guard was dropped, as after DROP COLUMN ... CASCADE, the remaining objects of the guard are
 * dropped, too.
 */
static void
DropRemnants(Relation rel, const char *name)
{
	const Oid table = RelationGetRelid(rel);
	const TriggerDesc *triggers = rel->trigdesc;
	const char *texts[] = {psprintf("%u", table)};
	const char *schema = NULL;
	bool guarded;
	int found;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (strcmp(triggers->triggers[i].tgname, name) == 0 &&
			IsDistributedFunction(triggers->triggers[i].tgfoid))
			schema = SchemaOf(triggers->triggers[i].tgfoid);
	guarded = HasGuardTriggers(rel);
	relation_close(rel, NoLock);
	if (schema == NULL)
		return;
	SPI_connect();
	if (guarded)
		CallUnguard(schema, table);
	CommandCounterIncrement();
	found = RunWithTexts("SELECT objid FROM pg_catalog.pg_depend WHERE deptype = 'a'"
						 " AND classid = 'pg_catalog.pg_class'::pg_catalog.regclass"
						 " AND refobjid = $1::pg_catalog.oid AND refobjsubid = 0"
						 " AND refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass",
						 1, texts);
	for (int i = 0; i < found; i++)
	{
		SPITupleTable *result = SPI_tuptable;
		ObjectAddress object;

		ObjectAddressSet(object, RelationRelationId, (Oid) strtoul(ResultText(i, 1), NULL, 10));
		if (IsLiveRelationId(object.objectId))
			performDeletion(&object, DROP_RESTRICT, 0);
		SPI_tuptable = result;
	}
	SPI_finish();
}

/* Returns whether a trigger is the one of a shard that refuses rows. */
static bool
RefusesRows(const char *trigger, const char *shard)
{
	return shard != NULL && strcmp(trigger, psprintf(DISTRIBUTED_TRIGGER "_%s", shard)) == 0;
}

void
ShardTriggerDropped(Oid table, const char *name)
{
	const Trigger *trigger;
	const char *shard;
	const char *schema;
	bool guarded;
	ShardPlan plan;
	Relation rel;
	Oid filter;

	if (strncmp(name, DISTRIBUTED_TRIGGER "_", strlen(DISTRIBUTED_TRIGGER "_")) != 0 ||
		!OidIsValid(table) || !OwnsTable(table))
		return;
	rel = relation_open(table, AccessExclusiveLock);
	trigger = FindShardDefinition(rel);
	shard = ShardOfTrigger(name, RelationGetRelationName(rel));
	if (trigger == NULL && RefusesRows(name, shard))
	{
		DropRemnants(rel, name);
		return;
	}
	if (trigger == NULL || shard == NULL || strcmp(trigger->tgname, name) != 0)
	{
		relation_close(rel, NoLock);
		return;
	}
	ReadShardPlan(rel, trigger, &plan);
	schema = SchemaOf(trigger->tgfoid);
	guarded = HasGuardTriggers(rel);
	filter = get_relname_relid(ShardFilterName(plan, shard), RelationGetNamespace(rel));
	relation_close(rel, NoLock);
	SPI_connect();
	if (guarded)
		CallUnguard(schema, table);
	if (OidIsValid(filter) && IsLiveRelationId(filter) && IsBoundTo(filter, table))
	{
		ObjectAddress object;

		CommandCounterIncrement();
		ObjectAddressSet(object, RelationRelationId, filter);
		performDeletion(&object, DROP_RESTRICT, 0);
	}
	SPI_finish();
}

bool
IsGuardedShard(Oid table)
{
	Relation rel = RelationIdGetRelation(table);
	bool is_shard;

	if (!RelationIsValid(rel))
		return false;
	is_shard = FindShardDefinition(rel) != NULL;
	RelationClose(rel);
	return is_shard;
}

/* ---- the trigger that comes with a shard ---------------------------------------------------- */

/* Returns the name of the table to which a shard belongs; a guess if this node does not know it. */
static const char *
TableOfShard(Relation rel, const char *shard)
{
	const char *name = RelationGetRelationName(rel);
	const char *result = NULL;
	MemoryContext old = CurrentMemoryContext;

	if (OidIsValid(get_relname_relid("pg_dist_shard", PG_CATALOG_NAMESPACE)))
	{
		SPI_connect();
		if (RunWithTexts("SELECT n.nspname, c.relname FROM pg_catalog.pg_dist_shard s"
						 " JOIN pg_catalog.pg_class c ON c.oid = s.logicalrelid"
						 " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
						 " WHERE s.shardid = $1::pg_catalog.int8",
						 1, &shard) == 1)
			result = MemoryContextStrdup(old, quote_qualified_identifier(ResultText(0, 1),
																		 ResultText(0, 2)));
		SPI_finish();
	}
	if (result != NULL)
		return result;
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  pnstrdup(name, strrchr(name, '_') - name));
}

[[noreturn]] static void
ReportUnguardedShard(const TriggerData *trigger)
{
	Relation rel = trigger->tg_relation;
	const char *shard = ShardOfTrigger(trigger->tg_trigger->tgname, RelationGetRelationName(rel));

	/* A partition's clone has the name of its parent's trigger. */
	if (shard == NULL && trigger->tg_trigger->tgisclone)
		shard = ShardOfTrigger(trigger->tg_trigger->tgname, trigger->tg_trigger->tgname);
	if (shard == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is not guarded any more", RelationGetRelationName(rel)),
				 errdetail("Its shards were guarded while it was distributed."),
				 errhint("Call dedup_unguard() for it, and dedup_guard() if it is to be "
						 "guarded.")));
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("shard \"%s\" has lost its guard", RelationGetRelationName(rel)),
					errdetail("Rows with a duplicate key could be inserted into it."),
					errhint("On the coordinator, run: SELECT %s.dedup_guard_distributed(%s);",
							SchemaOf(trigger->tg_trigger->tgfoid),
							quote_literal_cstr(TableOfShard(rel, shard)))));
	pg_unreachable();
}

namespace
{

/* The data that the trigger keeps for a query. */
struct ShardSite
{
	bool guarded;          /* the guard of the shard judges the rows */
	bool follows;          /* the fields below are set: for rows that logical replication copies */
	const GuardPlan *plan; /* NULL: there is nothing to do */
	KeyReader reader;
	GuardKey key;
	GuardKey old_key;
};

} /* namespace */

static ShardSite *
GetShardSite(FunctionCallInfo fcinfo)
{
	/* This function is called in the per-tuple memory of the query. */
	if (unlikely(fcinfo->flinfo->fn_extra == NULL))
		fcinfo->flinfo->fn_extra =
			MemoryContextAllocZero(MemoryContextGetParent(CurrentMemoryContext), sizeof(ShardSite));
	return (ShardSite *) fcinfo->flinfo->fn_extra;
}

/* Raises an error unless the guard of a shard judges the rows of this query. */
static void
RequireGuard(ShardSite *site, const TriggerData *trigger)
{
	Oid function;

	if (likely(site->guarded))
		return;
	function = FindGuardFunction(trigger->tg_relation, true);
	if (!OidIsValid(function))
		ReportUnguardedShard(trigger);

	const GuardTriggers triggers = FindGuardTriggers(trigger->tg_relation, function);

	if (triggers.write == NULL || !GuardTriggerFires(triggers.write->tgenabled))
		ReportUnguardedShard(trigger);
	site->guarded = true;
}

/* Finds out what must be done for rows that logical replication copies. */
static void
PrepareToFollow(ShardSite *site, const TriggerData *trigger)
{
	const Oid function = FindGuardFunction(trigger->tg_relation, false);
	MemoryContext old;

	site->plan = OidIsValid(function) ? FindGuardPlan(trigger->tg_relation, function, true) : NULL;
	/* The guard index of an exact guard sees rows without triggers. */
	if (site->plan != NULL && (site->plan->options.exact || !GuardOwnerMayAdd(site->plan) ||
							   !IsLiveRelationId(site->plan->clause.filter)))
		site->plan = NULL;
	if (site->plan != NULL)
	{
		old = MemoryContextSwitchTo(GetMemoryChunkContext(site));
		MakeKeyReader(&site->reader, &site->plan->clause);
		MemoryContextSwitchTo(old);
	}
	site->follows = true;
}

/* Returns the key of a row, if the row has a key of its own. */
static bool
FollowedKey(const ShardSite *site, const LiveFilter &filter, TupleTableSlot *slot, GuardKey *key,
			uint64 *hash)
{
	if (IsMarkedRow(site->plan, slot))
		return false;
	ReadGuardKey(site->reader, slot, key);
	return HashGuardKey(site->plan, *key, filter.key_seed(), hash);
}

/*
 * Logical replication applies to a copy of a shard the changes that the guard of the shard has
 * allowed. So the filter is updated by the rows, and nothing is refused.
 */
static void
FollowRow(ShardSite *site, const TriggerData *trigger)
{
	const bool inserted = TRIGGER_FIRED_BY_INSERT(trigger->tg_event);
	const bool deleted = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
	uint64 old_hash = 0;
	uint64 hash = 0;
	bool had_key;
	bool has_key;
	LiveFilter filter;

	if (!site->follows)
		PrepareToFollow(site, trigger);
	if (site->plan == NULL)
		return;
	filter = OpenLiveUnchecked(site->plan->clause.filter, RowExclusiveLock);
	had_key =
		!inserted && FollowedKey(site, filter, trigger->tg_trigslot, &site->old_key, &old_hash);
	has_key =
		!deleted && FollowedKey(site, filter, inserted ? trigger->tg_trigslot : trigger->tg_newslot,
								&site->key, &hash);
	if (had_key && has_key && old_hash == hash)
		MoveKeyInTime(site->plan, filter, site->old_key, site->key, hash);
	else
	{
		if (had_key && site->plan->options.forget)
			(void) ReleaseRowKey(site->plan, filter, site->old_key, old_hash);
		if (has_key && TestAndAddKey(filter, hash, site->key) == LiveAnswer::New)
			CountLive(filter, LiveCounter::New, 1);
	}
	CloseLive(filter);
}

/*
 * dedup_guard_shard() returns trigger
 */
DEDUP_FUNCTION(dedup_guard_shard)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	HeapTuple row;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
						errmsg("function %s must be called as a trigger", DISTRIBUTED_FUNCTION)));
	if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("trigger \"%s\" of table \"%s\" is not part of a guard",
						trigger->tg_trigger->tgname, RelationGetRelationName(trigger->tg_relation)),
				 errdetail("It is not fired BEFORE each row."),
				 errhint("Drop it; dedup_guard_distributed() makes such triggers.")));
	row = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;
	if (unlikely(SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA))
		FollowRow(GetShardSite(fcinfo), trigger);
	else if (!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		RequireGuard(GetShardSite(fcinfo), trigger);
	PG_RETURN_POINTER(row);
}
