/*
 * Plans for hashing keys, by the types of a call's arguments.
 */
#include "pg/value_plan.hpp"

extern "C" {
#include "catalog/pg_aggregate.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

static void
NoHashFunction(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
			 errmsg("type %s cannot be a key, since it has no hash function",
					format_type_be(type)),
			 errhint("Cast the value to a type that has one, such as text.")));
}

/* The kinds of types whose canonical form we know. */
static bool
KnownKind(Oid type, KeyKind *kind)
{
	switch (type)
	{
		case BOOLOID:
			*kind = KeyKind::Bool;
			return true;
		case INT2OID:
			*kind = KeyKind::Int16;
			return true;
		case INT4OID:
		case DATEOID:
			*kind = KeyKind::Int32;
			return true;
		case INT8OID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*kind = KeyKind::Int64;
			return true;
		case OIDOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case XIDOID:
		case CIDOID:
			*kind = KeyKind::UInt32;
			return true;
		case XID8OID:
		case PG_LSNOID:
			*kind = KeyKind::UInt64;
			return true;
		case FLOAT4OID:
			*kind = KeyKind::Float4;
			return true;
		case FLOAT8OID:
			*kind = KeyKind::Float8;
			return true;
		case CHAROID:
			*kind = KeyKind::Char;
			return true;
		case NAMEOID:
			*kind = KeyKind::Name;
			return true;
		case UNKNOWNOID:
			*kind = KeyKind::CString;
			return true;
		case TEXTOID:
		case VARCHAROID:
		case BYTEAOID:
			*kind = KeyKind::Text;
			return true;
		case BPCHAROID:
			*kind = KeyKind::BpChar;
			return true;
		case UUIDOID:
		case MACADDROID:
		case MACADDR8OID:
			*kind = KeyKind::Fixed;
			return true;
		case TIMETZOID:
			*kind = KeyKind::TimeTz;
			return true;
		case INTERVALOID:
			*kind = KeyKind::Interval;
			return true;
		case INETOID:
		case CIDROID:
			*kind = KeyKind::Inet;
			return true;
		case TIDOID:
			*kind = KeyKind::Tid;
			return true;
		case ACLITEMOID:
			*kind = KeyKind::AclItem;
			return true;
		case NUMERICOID:
			*kind = KeyKind::Numeric;
			return true;
		case JSONBOID:
			*kind = KeyKind::Jsonb;
			return true;
		case RECORDOID:
			*kind = KeyKind::Record;
			return true;
		default:
			return false;
	}
}

/* What MakeValuePlan() takes, without a plan or an error. */
bool
IsHashableType(Oid type)
{
	KeyKind		kind;

	type = getBaseType(type);
	if (KnownKind(type, &kind))
		return true;
	if (OidIsValid(get_element_type(type)))
		return IsHashableType(get_element_type(type));
	switch (get_typtype(type))
	{
		case TYPTYPE_ENUM:
		case TYPTYPE_COMPOSITE:
			return true;
		case TYPTYPE_RANGE:
			return IsHashableType(lookup_type_cache(type, TYPECACHE_RANGE_INFO)->rngelemtype->type_id);
#if PG_VERSION_NUM >= 140000
		case TYPTYPE_MULTIRANGE:
			return IsHashableType(lookup_type_cache(type, TYPECACHE_MULTIRANGE_INFO)->rngtype->type_id);
#endif
		default:
			return OidIsValid(lookup_type_cache(type, TYPECACHE_HASH_PROC)->hash_proc);
	}
}

ValuePlan *
MakeValuePlan(MemoryContext context, Oid type, Oid collation)
{
	ValuePlan  *plan = (ValuePlan *) MemoryContextAllocZero(context, sizeof(ValuePlan));
	bool		text_like;

	plan->context = context;
	plan->type = getBaseType(type);
	plan->collation = collation;
	get_typlenbyvalalign(plan->type, &plan->typlen, &plan->typbyval, &plan->typalign);

	if (KnownKind(plan->type, &plan->kind))
	{
		/*
		 * In a nondeterministic collation strings of different bytes can be equal;
		 * only the server's own hash function knows.
		 */
		text_like = plan->kind == KeyKind::Text || plan->kind == KeyKind::BpChar ||
			plan->kind == KeyKind::Name || plan->kind == KeyKind::CString;
		if (!text_like || plan->type == BYTEAOID || !OidIsValid(collation) ||
			get_collation_isdeterministic(collation))
			return plan;
		if (plan->kind == KeyKind::CString)
		{
			plan->kind = KeyKind::CollatedCString;
			plan->element = MakeValuePlan(context, TEXTOID, collation);
			return plan;
		}
	}
	else if (OidIsValid(get_element_type(plan->type)))
	{
		plan->kind = KeyKind::Array;
		plan->element = MakeValuePlan(context, get_element_type(plan->type), collation);
		return plan;
	}
	else
	{
		switch (get_typtype(plan->type))
		{
			case TYPTYPE_ENUM:
				plan->kind = KeyKind::Enum;
				return plan;
			case TYPTYPE_COMPOSITE:
				plan->kind = KeyKind::Record;
				return plan;
			case TYPTYPE_RANGE:
				plan->kind = KeyKind::Range;
				plan->typcache = lookup_type_cache(plan->type, TYPECACHE_RANGE_INFO);
				plan->element = MakeValuePlan(context, plan->typcache->rngelemtype->type_id,
											  plan->typcache->rng_collation);
				return plan;
#if PG_VERSION_NUM >= 140000
			case TYPTYPE_MULTIRANGE:
				plan->kind = KeyKind::Multirange;
				plan->typcache = lookup_type_cache(plan->type, TYPECACHE_MULTIRANGE_INFO);
				plan->element = MakeValuePlan(context, plan->typcache->rngtype->type_id,
											  InvalidOid);
				return plan;
#endif
			default:
				break;
		}
	}

	/* The type's own hash function. */
	{
		TypeCacheEntry *typcache = lookup_type_cache(plan->type,
													 TYPECACHE_HASH_PROC |
													 TYPECACHE_HASH_EXTENDED_PROC);

		if (!OidIsValid(typcache->hash_proc))
			NoHashFunction(type);
		plan->kind = KeyKind::OwnHash;
		plan->extended = OidIsValid(typcache->hash_extended_proc);
		fmgr_info_cxt(plan->extended ? typcache->hash_extended_proc : typcache->hash_proc,
					  &plan->hash, context);
		if (!OidIsValid(plan->collation) && OidIsValid(get_typcollation(plan->type)))
			plan->collation = DEFAULT_COLLATION_OID;
	}
	return plan;
}

/*
 * The arguments of the aggregate that a window node calls this transition function
 * for. The node tells its function only what it calls: aggregates of the same
 * transition function, argument types and collation are told apart by nothing, so
 * they must agree in their columns' collations.
 */
static List *
WindowAggregateArguments(FunctionCallInfo fcinfo, WindowAggState *node)
{
	List	   *found = NIL;
	ListCell   *cell;

	foreach(cell, node->funcs)
	{
		WindowFunc *function = ((WindowFuncExprState *) lfirst(cell))->wfunc;
		HeapTuple	tuple;
		bool		same;

		if (!function->winagg || function->inputcollid != fcinfo->fncollation ||
			list_length(function->args) != fcinfo->nargs - 1)
			continue;
		tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(function->winfnoid));
		if (!HeapTupleIsValid(tuple))
			continue;
		same = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn == fcinfo->flinfo->fn_oid;
		ReleaseSysCache(tuple);
		for (int i = 1; same && i < fcinfo->nargs; i++)
			same = exprType((Node *) list_nth(function->args, i - 1)) ==
				get_fn_expr_argtype(fcinfo->flinfo, i);
		if (!same)
			continue;
		for (int i = 0; found != NIL && i < list_length(found); i++)
			if (exprCollation((Node *) list_nth(found, i)) !=
				exprCollation((Node *) list_nth(function->args, i)))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot tell the collations of two window aggregates apart"),
						 errhint("Give their keys the same collations, or compute them in separate subqueries.")));
		found = function->args;
	}
	return found;
}

/*
 * Collation of an argument's own expression. The call as a whole has one
 * collation, which is none when two columns differ.
 */
static Oid
ArgumentCollation(FunctionCallInfo fcinfo, int argument)
{
	Node	   *expr = fcinfo->flinfo->fn_expr;
	Aggref	   *aggref;
	List	   *args = NIL;

	if (AggCheckCallContext(fcinfo, NULL))
	{
		/* The aggregate's arguments, without its state. */
		aggref = AggGetAggref(fcinfo);
		if (aggref != NULL)
			args = aggref->args;
		else if (IsA(fcinfo->context, WindowAggState))
			args = WindowAggregateArguments(fcinfo, (WindowAggState *) fcinfo->context);
		argument--;
	}
	else if (expr != NULL && IsA(expr, FuncExpr))
		args = ((FuncExpr *) expr)->args;
	else if (expr != NULL && IsA(expr, WindowFunc))
		args = ((WindowFunc *) expr)->args;
	if (argument < list_length(args))
	{
		Node	   *node = (Node *) list_nth(args, argument);

		if (IsA(node, TargetEntry))
			node = (Node *) ((TargetEntry *) node)->expr;
		return exprCollation(node);
	}
	return fcinfo->fncollation;
}

static KeyShortcut
ShortcutFor(KeyKind kind)
{
	switch (kind)
	{
		case KeyKind::Int16:
			return KeyShortcut::Int16;
		case KeyKind::Int32:
			return KeyShortcut::Int32;
		case KeyKind::Int64:
			return KeyShortcut::Int64;
		case KeyKind::Text:
			return KeyShortcut::Text;
		default:
			return KeyShortcut::None;
	}
}

KeyPlan *
MakeKeyPlan(FunctionCallInfo fcinfo, int first)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;
	KeyPlan    *plan = (KeyPlan *) MemoryContextAllocZero(flinfo->fn_mcxt, sizeof(KeyPlan));
	int			columns = fcinfo->nargs - first;

	plan->first = first;
	plan->columns = columns;
	plan->variadic = get_fn_expr_variadic(flinfo);
	if (columns < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a key needs at least one column")));
	plan->plans = (ValuePlan **) MemoryContextAllocZero(flinfo->fn_mcxt,
														sizeof(ValuePlan *) * columns);
	for (int i = 0; i < columns; i++)
	{
		Oid			type = get_fn_expr_argtype(flinfo, first + i);
		Oid			collation;

		if (!OidIsValid(type))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_DATATYPE),
					 errmsg("could not determine the type of key column %d", i + 1)));
		collation = ArgumentCollation(fcinfo, first + i);
		if (plan->variadic)
		{
			Oid			element = get_element_type(getBaseType(type));

			if (!OidIsValid(element))
				ereport(ERROR,
						(errcode(ERRCODE_DATATYPE_MISMATCH),
						 errmsg("VARIADIC argument must be an array")));
			type = element;
		}
		plan->plans[i] = MakeValuePlan(flinfo->fn_mcxt, type, collation);
	}
	if (columns == 1 && !plan->variadic)
		plan->shortcut = ShortcutFor(plan->plans[0]->kind);
	return plan;
}

KeyPlan *
MakeElementKeyPlan(MemoryContext context, Oid element_type, Oid collation)
{
	KeyPlan    *plan = (KeyPlan *) MemoryContextAllocZero(context, sizeof(KeyPlan));

	plan->columns = 1;
	plan->plans = (ValuePlan **) MemoryContextAllocZero(context, sizeof(ValuePlan *));
	plan->plans[0] = MakeValuePlan(context, element_type, collation);
	return plan;
}

KeyPlan *
MakeColumnsKeyPlan(MemoryContext context, int columns, const Oid *types, const Oid *collations)
{
	KeyPlan    *plan = (KeyPlan *) MemoryContextAllocZero(context, sizeof(KeyPlan));

	plan->columns = columns;
	plan->plans = (ValuePlan **) MemoryContextAllocZero(context, sizeof(ValuePlan *) * columns);
	for (int i = 0; i < columns; i++)
		plan->plans[i] = MakeValuePlan(context, types[i], collations[i]);
	if (columns == 1)
		plan->shortcut = ShortcutFor(plan->plans[0]->kind);
	return plan;
}
