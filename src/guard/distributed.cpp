/*
 * dedup_guard_distributed() on the coordinator: makes the triggers that define the guards of a
 * distributed table's shards. See distributed.hpp.
 */
#include "guard/distributed.hpp"
#include "guard/search.hpp"
#include "pg/sets.hpp"

extern "C" {
#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/defrem.h"
#include "common/shortest_dec.h"
#include "executor/spi.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"
}

/* ---- Citus's catalogs ------------------------------------------------------------------ */

namespace
{

enum class Spread
{
	None,      /* not a table of Citus */
	Local,     /* a table of the coordinator that Citus manages */
	Reference, /* a copy on each node */
	Shards,    /* distributed by a column */
	OneShard,
	Append /* any row may be in any shard */
};

/* How Citus has distributed a table. */
struct CitusTable
{
	Spread spread;
	const char *column; /* of Shards */
	bool replicated;    /* shards have several placements */
};

} /* namespace */

static bool
HasCitus(void)
{
	return OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE));
}

static Spread
SpreadOf(const char *method, const char *model, const char *colocation)
{
	switch (method[0])
	{
		case 'n':
			return model[0] == 't'                ? Spread::Reference
				   : strcmp(colocation, "0") == 0 ? Spread::Local
												  : Spread::OneShard;
		case 'a':
			return Spread::Append;
		default:
			return Spread::Shards;
	}
}

static CitusTable
ReadCitusTable(Oid table)
{
	const char *oid = psprintf("%u", table);
	CitusTable citus = {};
	MemoryContext old = CurrentMemoryContext;

	if (!HasCitus())
		return citus;
	SPI_connect();
	if (RunWithTexts("SELECT partmethod, repmodel, colocationid,"
					 " pg_catalog.column_to_column_name(logicalrelid, partkey),"
					 " EXISTS (SELECT FROM pg_catalog.pg_dist_shard s"
					 " JOIN pg_catalog.pg_dist_placement USING (shardid)"
					 " WHERE s.logicalrelid = p.logicalrelid"
					 " GROUP BY shardid HAVING pg_catalog.count(*) > 1)"
					 " FROM pg_catalog.pg_dist_partition p WHERE logicalrelid = $1::pg_catalog.oid",
					 1, &oid) == 1)
	{
		const char *column = ResultText(0, 4);

		citus.spread = SpreadOf(ResultText(0, 1), ResultText(0, 2), ResultText(0, 3));
		citus.column = column == NULL ? NULL : MemoryContextStrdup(old, column);
		citus.replicated = strcmp(ResultText(0, 5), "t") == 0;
	}
	SPI_finish();
	return citus;
}

bool
IsCitusTable(Oid table)
{
	return ReadCitusTable(table).spread != Spread::None;
}

void
RefuseDistributed(Relation rel)
{
	const char *name = RelationGetRelationName(rel);

	switch (ReadCitusTable(RelationGetRelid(rel)).spread)
	{
		case Spread::None:
		case Spread::Local:
			return;
		case Spread::Reference:
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("cannot guard reference table \"%s\"", name),
							errdetail("Citus writes each of its rows on every node.")));
			break;
		default:
			ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							errmsg("table \"%s\" is distributed", name),
							errdetail("Its rows are in shards on other nodes."),
							errhint("Call dedup_guard_distributed().")));
	}
}

/* Raises an error unless the shards of a table can be guarded. */
static CitusTable
RequireDistributed(Relation rel)
{
	const char *name = RelationGetRelationName(rel);
	CitusTable citus;

	if (!HasCitus())
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("Citus is not installed in this database"),
						errhint("Call dedup_guard() for a table that is not distributed.")));
	if (!HAS_DISTRIBUTED_GUARDS)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("guards on distributed tables need PostgreSQL 14 or later")));
	citus = ReadCitusTable(RelationGetRelid(rel));
	switch (citus.spread)
	{
		case Spread::None:
		case Spread::Local:
			ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
							errmsg("table \"%s\" is not distributed", name),
							errhint("Call dedup_guard() for it.")));
			break;
		case Spread::Reference:
			ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
							errmsg("table \"%s\" is a reference table", name),
							errdetail("Citus writes each of its rows on every node."),
							errhint("Distribute the table by a column of the key, or call "
									"dedup_guard() for a table that is not distributed.")));
			break;
		case Spread::Append:
			ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
							errmsg("table \"%s\" is distributed by append", name),
							errdetail("Rows with equal keys can be in different shards.")));
			break;
		case Spread::Shards:
		case Spread::OneShard:
			break;
	}
	return citus;
}

static bool
HasDistributionColumn(Oid table, const CitusTable &citus, const GuardClause &clause)
{
	const AttrNumber attnum = citus.column == NULL ? 0 : get_attnum(table, citus.column);

	for (int i = 0; i < clause.columns; i++)
		if (attnum != 0 && clause.attnums[i] == attnum)
			return true;
	return citus.spread != Spread::Shards;
}

/* Rows with equal keys must be in one shard. */
static void
RequireDistributionColumn(Relation rel, const CitusTable &citus, const GuardClause &clause)
{
	if (HasDistributionColumn(RelationGetRelid(rel), citus, clause))
		return;
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("the key of a guard of distributed table \"%s\" must contain its "
						   "distribution column \"%s\"",
						   RelationGetRelationName(rel), citus.column == NULL ? "?" : citus.column),
					errdetail("Otherwise rows with equal keys could be in different shards, and "
							  "each shard is guarded by a filter of its own."),
					errhint("Name the column itself as an element of the key, not inside of an "
							"expression. Or distribute the table by a column of the key.")));
}

/* The placements of a shard must decide alike, as exact guards and errors do. */
static void
RequireSameAnswers(Relation rel, const CitusTable &citus, const GuardRequest &request)
{
	if (!citus.replicated || request.options.exact || request.mode == GuardMode::Reject)
		return;
	ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("cannot guard \"%s\": its shards have several placements",
						   RelationGetRelationName(rel)),
					errdetail("By a false positive, one placement could refuse a row that another "
							  "placement accepts. The placements would then differ."),
					errhint("Make the guard exact, or use on_duplicate => 'reject'.")));
}

/* ---- the triggers -------------------------------------------------------------------------- */

/*
 * Begins the commands that make or drop the triggers, with the setting that Citus needs for that.
 * `one_by_one`: over one connection to each node.
 */
static int
BeginDistributedCommands(bool one_by_one)
{
	const int level = UseCatalogPath();
	const auto set = [](const char *name, const char *value) {
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
								 false);
	};

	set("citus.enable_unsafe_triggers", "on");
	if (one_by_one)
		set("citus.multi_shard_modify_mode", "sequential");
	return level;
}

static char *
DefinitionCommand(Relation rel, const char *function, const GuardRequest &request,
				  const ShardPlan &plan)
{
	StringInfoData command;
	bool first = true;

	initStringInfo(&command);
	appendStringInfo(&command,
					 "CREATE OR REPLACE TRIGGER \"" DISTRIBUTED_DEFINITION "\" BEFORE DELETE ON %s"
					 " FOR EACH ROW WHEN (false",
					 QualifiedGuardName(RelationGetRelid(rel)));
	AppendClauseParts(&command, rel, request, " AND ");
	appendStringInfo(&command, ") EXECUTE FUNCTION %s(", function);
	for (int i = 0; i < kShardArguments; i++)
		if (plan.arguments[i] != NULL)
		{
			appendStringInfo(&command, "%s%s", first ? "" : ", ",
							 quote_literal_cstr(
								 psprintf("%s=%s", shard_argument_names[i], plan.arguments[i])));
			first = false;
		}
	appendStringInfoChar(&command, ')');
	return command.data;
}

/* Makes the triggers, or makes them again. On each shard an event trigger does the rest. */
static void
MakeTriggers(Relation rel, const char *schema, const GuardRequest &request, ShardPlan *plan)
{
	const char *function = quote_qualified_identifier(schema, DISTRIBUTED_FUNCTION);
	const char *name = QualifiedGuardName(RelationGetRelid(rel));
	/* Otherwise several connections would make side tables with one name at the same time. */
	const bool shares_table = strncmp(plan->arguments[SHARD_ON_DUPLICATE], "divert:", 7) == 0;
	const int level = BeginDistributedCommands(shares_table);
	char *commands[4] = {};

	commands[0] = psprintf("CREATE OR REPLACE TRIGGER \"" DISTRIBUTED_TRIGGER
						   "\" BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW"
						   " EXECUTE FUNCTION %s()",
						   name, function);
	commands[1] =
		psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER \"" DISTRIBUTED_TRIGGER "\"", name);
	commands[2] = DefinitionCommand(rel, function, request, *plan);
	if (plan->arguments[SHARD_LOAD] != NULL)
	{
		plan->arguments[SHARD_LOAD] = NULL;
		commands[3] = DefinitionCommand(rel, function, request, *plan);
	}
	relation_close(rel, NoLock);
	RunAll(commands, lengthof(commands));
	AtEOXact_GUC(true, level);
}

int
DropDistributedCommands(Relation rel, char **commands)
{
	static const char *const names[] = {DISTRIBUTED_DEFINITION, DISTRIBUTED_TRIGGER};
	const TriggerDesc *triggers = rel->trigdesc;
	int n = 0;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		for (int j = 0; j < (int) lengthof(names); j++)
			if (strcmp(triggers->triggers[i].tgname, names[j]) == 0 &&
				!triggers->triggers[i].tgisclone &&
				IsDistributedFunction(triggers->triggers[i].tgfoid))
				commands[n++] = psprintf("DROP TRIGGER \"%s\" ON %s", names[j],
										 QualifiedGuardName(RelationGetRelid(rel)));
	return n;
}

void
RunDistributed(char *const *commands, int n)
{
	const int level = BeginDistributedCommands(false);

	RunAll(commands, n);
	AtEOXact_GUC(true, level);
}

/* ---- the call ------------------------------------------------------------------------------ */

namespace
{

/* The model from which the filters of the shards are made. */
struct FilterModel
{
	const char *base; /* the first part of their names */
	LiveParameters parameters;
	bool any_seed; /* the prototype has no seed: a random seed was chosen */
	bool unlogged;
};

} /* namespace */

static const char *
OnOff(bool value)
{
	return value ? "on" : "off";
}

/* Reads on_duplicate. Does not look for the side table, because each node has its own. */
static const char *
ReadMode(Relation rel, const char *text, GuardRequest *request)
{
	RangeVar *side;
	Oid there;

	if (strcmp(text, "divert") == 0)
	{
		request->mode = GuardMode::Divert;
		return text;
	}
	if (strncmp(text, "divert:", 7) != 0)
	{
		ReadRequestedMode(rel, text, request);
		return GuardModeName(request->mode);
	}
	request->mode = GuardMode::Divert;
	side = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(text + 7)));
	if (side->schemaname == NULL)
		side->schemaname = get_namespace_name(RelationGetNamespace(rel));
	there = RangeVarGetRelid(side, NoLock, true);
	if (OidIsValid(there) && IsCitusTable(there))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be the table that refused rows go into", side->relname),
				 errdetail("It is a table of Citus. Refused rows go into a plain table on "
						   "the node of their shard."),
				 errhint("Name another table; it is made on each node.")));
	return psprintf("divert:%s", quote_qualified_identifier(side->schemaname, side->relname));
}

/* Returns the shortest text that is read as the same number. */
static const char *
ShortestText(double number)
{
	char text[DOUBLE_SHORTEST_DECIMAL_LEN];

	double_to_shortest_decimal_buf(number, text);
	return pstrdup(text);
}

static void
FillPlan(FunctionCallInfo fcinfo, Relation rel, const FilterModel &model, const char *on_duplicate,
		 const GuardRequest &request, ShardPlan *plan)
{
	const LiveParameters &parameters = model.parameters;

	plan->clause = request.clause;
	plan->arguments[SHARD_FILTER] = model.base;
	plan->arguments[SHARD_METHOD] = dedup::MethodByCode(parameters.prototype_method)->name;
	plan->arguments[SHARD_KEYS] = psprintf(UINT64_FORMAT, parameters.prototype_keys);
	plan->arguments[SHARD_FPR] = ShortestText(parameters.prototype_fpr);
	plan->arguments[SHARD_HASH] = parameters.shape.hash == dedup::kXxh3Hash ? "xxh3" : "sip";
	plan->arguments[SHARD_SEED] = psprintf(INT64_FORMAT, (int64) parameters.shape.seed);
	plan->arguments[SHARD_TTL] = psprintf(INT64_FORMAT, parameters.ttl);
	plan->arguments[SHARD_RENEW] = OnOff(parameters.renew);
	plan->arguments[SHARD_UNLOGGED] = OnOff(model.unlogged);
	plan->arguments[SHARD_ON_DUPLICATE] = on_duplicate;
	plan->arguments[SHARD_EXACT] = OnOff(request.options.exact);
	plan->arguments[SHARD_NULLS_NOT_DISTINCT] = OnOff(request.options.nulls_not_distinct);
	plan->arguments[SHARD_TOO_OLD] = request.options.skip_too_old ? "skip" : "keep";
	plan->arguments[SHARD_ON_DELETE] = request.options.forget ? "forget" : "keep";
	plan->arguments[SHARD_LOAD] = PG_ARGISNULL(ARG_LOAD) ? NULL : OnOff(PG_GETARG_BOOL(ARG_LOAD));
}

/* Checks the rules that dedup_guard() checks for a filter, and those for shards. */
static void
CheckRequest(Relation rel, const CitusTable &citus, const FilterModel &model,
			 const GuardRequest &request)
{
	const char *flaw = FlawOfFilter(model.parameters, request.options, request.clause);

	RequireDistributionColumn(rel, citus, request.clause);
	RequireSameAnswers(rel, citus, request);
	if (flaw != NULL)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("cannot guard \"%s\" with filters of this kind",
							   RelationGetRelationName(rel)),
						errdetail_internal("%s", _(flaw))));
	if (request.options.exact && rel->rd_rel->relkind == RELKIND_RELATION)
		RequireSearchIndex(rel, request.clause, rel, RelationGetRelid(rel));
}

/* Warns about windows of keys, or of time by the clock: the nodes' own warnings do not reach us. */
static void
WarnOfRows(const char *table, const FilterModel &model, const GuardRequest &request)
{
	bool has_rows;

	if (!model.parameters.forgets || request.clause.at != NULL)
		return;
	SPI_connect();
	has_rows = CallWithTexts(psprintf("SELECT FROM %s LIMIT 1", table), 0, NULL) > 0;
	SPI_finish();
	if (has_rows)
		ereport(WARNING,
				(errmsg("the filters do not have the keys of the rows of table %s", table),
				 errdetail(
					 "The filters are windows, and the rows do not show when their keys came. The "
					 "guard does not refuse new rows with these keys."),
				 errhint("To load the keys as of now, call dedup_unguard(), and "
						 "dedup_guard_distributed() with load => true.")));
}

/*
 * Takes over an earlier definition. Returns false if there is none; raises an error if it differs.
 */
static bool
CompareWithEarlier(Relation rel, bool any_seed, ShardPlan *plan)
{
	const Trigger *trigger = FindShardDefinition(rel);
	ShardPlan earlier;

	if (trigger == NULL)
		return false;
	ReadShardPlan(rel, trigger, &earlier);
	if (!SameShardPlan(*plan, earlier, any_seed))
		ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
						errmsg("table \"%s\" is guarded already, in another way",
							   RelationGetRelationName(rel)),
						errhint("To mend this guard, call dedup_guard_distributed() with the table "
								"alone. To make another one, call dedup_unguard() first.")));
	plan->arguments[SHARD_SEED] = earlier.arguments[SHARD_SEED];
	return true;
}

static void
GuardDistributed(FunctionCallInfo fcinfo, Relation rel, const CitusTable &citus,
				 const FilterModel &model)
{
	GuardRequest request = {};
	ShardPlan plan = {};
	const char *on_duplicate;

	request.options.exact = PG_GETARG_BOOL(ARG_EXACT);
	ReadColumns(rel, PG_GETARG_ARRAYTYPE_P(ARG_COLUMNS), &request);
	ReadWhere(rel, TextArgument(fcinfo, ARG_WHERE), &request);
	ReadNullsNotDistinct(PG_GETARG_BOOL(ARG_NULLS_NOT_DISTINCT), &request);
	ReadTime(rel, TextArgument(fcinfo, ARG_AT), &request);
	ReadTooOld(TextArgument(fcinfo, ARG_TOO_OLD), &request);
	ReadOnDelete(TextArgument(fcinfo, ARG_ON_DELETE), &request);
	FinishRequest(rel, &request);
	on_duplicate = ReadMode(rel, TextArgument(fcinfo, ARG_ON_DUPLICATE), &request);
	CheckRequest(rel, citus, model, request);
	FillPlan(fcinfo, rel, model, on_duplicate, request, &plan);
	const bool again = CompareWithEarlier(rel, model.any_seed, &plan);
	const char *table = QualifiedGuardName(RelationGetRelid(rel));

	MakeTriggers(rel, get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)), request,
				 &plan);
	if (!again && PG_ARGISNULL(ARG_LOAD))
		WarnOfRows(table, model, request);
}

/* Opens the table of a call that has all arguments. */
static Relation
OpenDistributed(FunctionCallInfo fcinfo, CitusTable *citus)
{
	Relation rel;

	CheckGuardArguments(fcinfo);
	rel = OpenOwnTable(PG_GETARG_OID(ARG_TABLE), ShareRowExclusiveLock);
	*citus = RequireDistributed(rel);
	return rel;
}

/* Makes guards whose filters are like a filter that dedup_create() has made. */
static void
GuardLikeFilter(FunctionCallInfo fcinfo, Oid filter)
{
	CitusTable citus;
	Relation rel = OpenDistributed(fcinfo, &citus);
	FilterModel model = {};
	Relation live;

	CheckIsFilter(filter);
	live = relation_open(filter, AccessShareLock);
	model.base = pstrdup(RelationGetRelationName(live));
	model.parameters = LiveParametersOf(live);
	model.unlogged = live->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;
	relation_close(live, NoLock);
	GuardDistributed(fcinfo, rel, citus, model);
}

/*
 * dedup_guard_distributed(table regclass, filter regclass, columns text[], on_duplicate text,
 *                         exact boolean, load boolean, where text, nulls_not_distinct boolean,
 *                         at text, too_old text, on_delete text) returns void
 *
 * There are also forms with the filter's name, and with a prototype.
 */
DEDUP_FUNCTION(dedup_guard_distributed)
{
	GuardLikeFilter(fcinfo, PG_ARGISNULL(ARG_FILTER) ? InvalidOid : PG_GETARG_OID(ARG_FILTER));
	PG_RETURN_VOID();
}

DEDUP_FUNCTION(dedup_guard_distributed_name)
{
	RangeVar *name;
	Oid filter;

	if (PG_ARGISNULL(ARG_FILTER))
		GuardLikeFilter(fcinfo, InvalidOid);
	name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(ARG_FILTER)));
	filter = RangeVarGetRelid(name, NoLock, true);
	if (!OidIsValid(filter))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("live filter \"%s\" does not exist", name->relname),
						errhint("Make a filter with dedup_create() as the model for the filters of "
								"the shards. Or give a prototype, such as dedup_filter(1000000, "
								"0.0001).")));
	GuardLikeFilter(fcinfo, filter);
	PG_RETURN_VOID();
}

DEDUP_FUNCTION(dedup_guard_distributed_prototype)
{
	CitusTable citus;
	Relation rel = OpenDistributed(fcinfo, &citus);
	FilterModel model = {};

	model.base = makeObjectName(RelationGetRelationName(rel), NULL, "seen");
	model.parameters = ReadLivePrototype(PG_GETARG_DATUM(ARG_FILTER), &model.any_seed);
	model.unlogged = rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;
	GuardDistributed(fcinfo, rel, citus, model);
	PG_RETURN_VOID();
}

/*
 * dedup_guard_distributed(table regclass) returns void
 *
 * Repairs the guard: shards without a guard get one.
 */
DEDUP_FUNCTION(dedup_guard_distributed_again)
{
	static const char *const names[] = {"table"};
	GuardRequest request = {};
	const Trigger *trigger;
	CitusTable citus;
	ShardPlan plan;
	Relation rel;

	CheckNotNull(fcinfo, lengthof(names), names);
	rel = OpenOwnTable(PG_GETARG_OID(0), ShareRowExclusiveLock);
	citus = RequireDistributed(rel);
	trigger = FindShardDefinition(rel);
	if (trigger == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("table \"%s\" is not guarded", RelationGetRelationName(rel)),
						errhint("Give dedup_guard_distributed() a filter and the key, too.")));
	ReadShardPlan(rel, trigger, &plan);
	RequireDistributionColumn(rel, citus, plan.clause);
	request.clause = plan.clause;
	if (plan.clause.mark != 0)
		request.mark = get_attname(RelationGetRelid(rel), plan.clause.mark, false);
	MakeTriggers(rel, get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)), request,
				 &plan);
	PG_RETURN_VOID();
}

void
CheckDefinition(const RangeVar *table)
{
	Relation rel = relation_openrv_extended(table, NoLock, true);
	const Trigger *trigger = rel == NULL ? NULL : FindShardDefinition(rel);
	ShardPlan plan;

	if (trigger != NULL && IsShardPlan(trigger, &plan))
		RequireDistributionColumn(rel, ReadCitusTable(RelationGetRelid(rel)), plan.clause);
	if (rel != NULL)
		relation_close(rel, NoLock);
}

/* ---- the state of the shards --------------------------------------------------------------- */

/* Returns what is wrong with the guard of a distributed table on all shards, or NULL. */
static const char *
ProblemOfDefinition(Oid table)
{
	Relation rel = try_relation_open(table, AccessShareLock);
	const Trigger *trigger = rel == NULL ? NULL : FindShardDefinition(rel);
	const char *problem = NULL;
	ShardPlan plan;

	if (trigger != NULL && IsShardPlan(trigger, &plan) &&
		!HasDistributionColumn(table, ReadCitusTable(table), plan.clause))
		problem = "the table is distributed by a column that is not in the key";
	if (rel != NULL)
		relation_close(rel, AccessShareLock);
	return problem;
}

/* Returns a text escaped for a template of format(). */
static const char *
DoublePercents(const char *text)
{
	char *doubled = (char *) palloc(2 * strlen(text) + 1);
	char *to = doubled;

	for (; *text != '\0'; *to++ = *text++)
		if (*text == '%')
			*to++ = '%';
	*to = '\0';
	return doubled;
}

/*
 * dedup_guard_placements(table regclass) returns setof record
 *
 * Returns a table's rows of dedup_guards_distributed. Queries each placement of its shards.
 */
DEDUP_FUNCTION(dedup_guard_placements)
{
	ReturnSetInfo *result = RequireSet(fcinfo, SFRM_Materialize);
	const char *schema =
		quote_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)));
	const char *texts[3];
	Tuplestorestate *store;
	TupleDesc desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	store = ReturnRows(result, BlessTupleDesc(CreateTupleDescCopy(desc)));
	if (!HasCitus())
		PG_RETURN_NULL();
	texts[0] = psprintf("%u", PG_GETARG_OID(0));
	texts[2] = ProblemOfDefinition(PG_GETARG_OID(0));
	/*
	 * The query does not read pg_class, where Citus can hide shards. Citus inserts the shard's
	 * name.
	 */
	texts[1] = psprintf("SELECT pg_catalog.json_build_object('carried', (SELECT pg_catalog.count(*)"
						" FROM pg_catalog.pg_trigger WHERE tgrelid OPERATOR(pg_catalog.=) "
						"%%1$L::pg_catalog.regclass"
						" AND tgfoid OPERATOR(pg_catalog.=) %s::pg_catalog.regprocedure"
						" AND tgenabled OPERATOR(pg_catalog.<>) 'D'), 'guard',"
						" (SELECT pg_catalog.row_to_json(g) FROM %s.dedup_guards g"
						" WHERE g.\"table\" OPERATOR(pg_catalog.=) %%1$L::pg_catalog.regclass))",
						DoublePercents(
							quote_literal_cstr(psprintf("%s.%s()", schema, DISTRIBUTED_FUNCTION))),
						DoublePercents(schema));
	SPI_connect();
	(void) RunWithTexts(
		"WITH placements AS MATERIALIZED (SELECT shardid, nodename, nodeport, success, result,"
		" CASE WHEN success THEN result::pg_catalog.json END AS state"
		" FROM pg_catalog.run_command_on_placements($1::pg_catalog.oid::pg_catalog.regclass, $2)),"
		" found AS (SELECT *, state->'guard'->>'filter' AS filter,"
		" CASE WHEN NOT success THEN result"
		" WHEN pg_catalog.json_typeof(state->'guard') = 'null' THEN 'it has no guard'"
		" WHEN (state->>'carried')::int <> 2"
		" THEN 'a trigger that Citus makes with the shard is missing or disabled'"
		" ELSE coalesce(state->'guard'->>'problem', $3) END AS problem FROM placements)"
		" SELECT $1::pg_catalog.oid::pg_catalog.regclass, shardid, nodename, nodeport, filter,"
		" problem IS NULL, (state->'guard'->>'refused')::pg_catalog.int8, problem"
		" FROM found ORDER BY shardid, nodename, nodeport",
		lengthof(texts), texts);
	for (uint64 i = 0; i < SPI_processed; i++)
		tuplestore_puttuple(store, SPI_tuptable->vals[i]);
	SPI_finish();
	PG_RETURN_NULL();
}
