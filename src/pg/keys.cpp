/* Makes plans for hashing keys from the types of a call's arguments. */
#include "pg/equality.hpp"
#include "pg/value_plan.hpp"

extern "C" {
#include "access/tupdesc.h"
#include "access/xact.h"
#include "catalog/pg_aggregate.h"
#include "nodes/execnodes.h"
#include "nodes/memnodes.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

static void
NoHashFunction(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
			 errmsg("type %s cannot be a key, since it has no hash function", format_type_be(type)),
			 errhint("Cast the value to a type that has one, such as text.")));
}

bool
IsRegType(Oid type)
{
	switch (type)
	{
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
			return true;
		default:
			return false;
	}
}

/* Sets the kind of types whose canonical form is known here. Returns false for others. */
static bool
KnownKind(Oid type, KeyKind *kind)
{
	if (IsRegType(type))
	{
		*kind = KeyKind::UInt32;
		return true;
	}
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

namespace
{

/* The way in which the values of a type are hashed. */
struct Hashing
{
	Oid type; /* with domains removed */
	KeyKind kind;
	HashFunctions functions; /* OwnHash */
	Oid element;             /* Array, Range, Multirange: the type of the elements */
	Oid element_equality;    /* and the equality of the elements */
};

} /* namespace */

/*
 * Describes how values of a type are hashed that are compared by an equality operator,
 * DEFAULT_EQUALITY or EQUALITY_OF_KIND. If they cannot be hashed, their kind is OwnHash, without a
 * function.
 */
static Hashing
DescribeHashing(Oid type, Oid equality)
{
	Hashing hashing = {};
	bool known;

	type = getBaseType(type);
	hashing.type = type;
	hashing.kind = KeyKind::OwnHash;
	known = KnownKind(type, &hashing.kind);
	if (type == RECORDOID || type == UNKNOWNOID)
		return hashing;

	if (equality == DEFAULT_EQUALITY)
		equality = OwnEquality(type, &hashing.functions);
	else if (equality != EQUALITY_OF_KIND)
		hashing.functions = HashFunctionsOf(equality);
	if (equality != EQUALITY_OF_KIND)
	{
		hashing.kind = KeyKind::OwnHash;
		return hashing;
	}
	if (known)
		return hashing;

	hashing.element = get_element_type(type);
	if (OidIsValid(hashing.element))
	{
		hashing.kind = KeyKind::Array;
		return hashing;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_ENUM:
			hashing.kind = KeyKind::Enum;
			break;
		case TYPTYPE_COMPOSITE:
			hashing.kind = KeyKind::Record;
			break;
		case TYPTYPE_RANGE:
			hashing.kind = KeyKind::Range;
			hashing.element = lookup_type_cache(type, TYPECACHE_RANGE_INFO)->rngelemtype->type_id;
			hashing.element_equality = BoundEquality(type, hashing.element);
			break;
#if HAS_MULTIRANGES
		case TYPTYPE_MULTIRANGE:
			/*
			 * A multirange compares the bounds of its ranges itself, whatever "=" the ranges have.
			 */
			hashing.kind = KeyKind::Multirange;
			hashing.element = lookup_type_cache(type, TYPECACHE_MULTIRANGE_INFO)->rngtype->type_id;
			hashing.element_equality = EQUALITY_OF_KIND;
			break;
#endif
		default:
			hashing.functions = DefaultHashFunctions(type);
			break;
	}
	return hashing;
}

/* Ordered: the width of a type that holds other types is the narrowest of theirs. */
enum class HashWidth
{
	None,   /* no hash function */
	Narrow, /* it has only a hash function of 32 bits */
	Wide
};

static HashWidth WidthOf(Oid type, Oid equality, bool look_into_rows);

/*
 * Returns None for an anonymous record, whose columns are not known, and on servers before 14,
 * which cannot hash rows.
 */
static HashWidth
WidthOfRow(Oid type)
{
	HashWidth width = HashWidth::Wide;
	TupleDesc desc;

	if (type == RECORDOID || !HAS_HASHED_RECORDS)
		return HashWidth::None;
	desc = lookup_rowtype_tupdesc(type, -1);
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			width = Min(width, WidthOf(TupleDescAttr(desc, i)->atttypid, DEFAULT_EQUALITY, true));
	ReleaseTupleDesc(desc);
	return width;
}

static HashWidth
WidthOf(Oid type, Oid equality, bool look_into_rows)
{
	Hashing hashing = DescribeHashing(type, equality);

	check_stack_depth();
	switch (hashing.kind)
	{
		case KeyKind::OwnHash:
			return OidIsValid(hashing.functions.extended)   ? HashWidth::Wide
				   : OidIsValid(hashing.functions.standard) ? HashWidth::Narrow
															: HashWidth::None;
		case KeyKind::Array:
		case KeyKind::Range:
		case KeyKind::Multirange:
			return WidthOf(hashing.element, hashing.element_equality, look_into_rows);
#if !HAS_HASHED_TIDS
		case KeyKind::Tid:
			return HashWidth::None; /* the server cannot hash it either */
#endif
		case KeyKind::Record:
			return look_into_rows ? WidthOfRow(hashing.type) : HashWidth::Wide;
		default:
			return HashWidth::Wide;
	}
}

bool
IsHashableType(Oid type)
{
	return WidthOf(type, DEFAULT_EQUALITY, false) != HashWidth::None;
}

bool
HashesByBytes(const KeyPlan *plan)
{
	for (int i = 0; i < plan->columns; i++)
		switch (plan->plans[i]->kind)
		{
			case KeyKind::Array:
			case KeyKind::Range:
			case KeyKind::Multirange:
			case KeyKind::Record:
			case KeyKind::OwnHash:
				return false;
			default:
				break;
		}
	return true;
}

bool
IsWidelyHashableType(Oid type)
{
	return WidthOf(type, DEFAULT_EQUALITY, true) == HashWidth::Wide;
}

/* The error names `type`. */
static void
UseHashFunction(ValuePlan *plan, Oid type, const HashFunctions &functions)
{
	if (!OidIsValid(functions.standard))
		NoHashFunction(type);
	plan->kind = KeyKind::OwnHash;
	plan->extended = OidIsValid(functions.extended);
	fmgr_info_cxt(plan->extended ? functions.extended : functions.standard, &plan->hash,
				  plan->context);
	if (!OidIsValid(plan->collation) && OidIsValid(get_typcollation(plan->type)))
		plan->collation = DEFAULT_COLLATION_OID;
}

/*
 * Returns whether strings of different bytes can be equal in the collation, which is then
 * nondeterministic. Only the server's own hash function handles that.
 */
static bool
IsCollated(const ValuePlan *plan)
{
	bool text_like = plan->kind == KeyKind::Text || plan->kind == KeyKind::BpChar ||
					 plan->kind == KeyKind::Name || plan->kind == KeyKind::CString;

	return text_like && plan->type != BYTEAOID && OidIsValid(plan->collation) &&
		   !get_collation_isdeterministic(plan->collation);
}

/* `named` is the type that an error names. */
static ValuePlan *
MakePlanBy(MemoryContext context, Oid type, Oid equality, Oid collation, Oid named)
{
	ValuePlan *plan = (ValuePlan *) MemoryContextAllocZero(context, sizeof(ValuePlan));
	Hashing hashing = DescribeHashing(type, equality);

	check_stack_depth();
	plan->context = context;
	plan->type = hashing.type;
	plan->kind = hashing.kind;
	plan->collation = collation;
	get_typlenbyvalalign(plan->type, &plan->typlen, &plan->typbyval, &plan->typalign);
	switch (plan->kind)
	{
		case KeyKind::OwnHash:
			UseHashFunction(plan, named, hashing.functions);
			break;
		case KeyKind::Range:
			plan->typcache = lookup_type_cache(plan->type, TYPECACHE_RANGE_INFO);
			plan->element =
				MakePlanBy(context, hashing.element, hashing.element_equality,
						   plan->typcache->rng_collation,
						   hashing.element_equality == DEFAULT_EQUALITY ? hashing.element : type);
			break;
#if HAS_MULTIRANGES
		case KeyKind::Multirange:
			plan->typcache = lookup_type_cache(plan->type, TYPECACHE_MULTIRANGE_INFO);
			plan->element = MakePlanBy(context, hashing.element, hashing.element_equality,
									   InvalidOid, hashing.element);
			break;
#endif
		case KeyKind::Array:
			plan->element = MakePlanBy(context, hashing.element, hashing.element_equality,
									   collation, hashing.element);
			break;
		default:
			if (!IsCollated(plan))
				break;
			if (plan->kind == KeyKind::CString)
			{
				plan->kind = KeyKind::CollatedCString;
				plan->element = MakeValuePlan(context, TEXTOID, collation);
			}
			else
				UseHashFunction(plan, type, DefaultHashFunctions(plan->type));
			break;
	}
	return plan;
}

ValuePlan *
MakeValuePlan(MemoryContext context, Oid type, Oid collation)
{
	return MakePlanBy(context, type, DEFAULT_EQUALITY, collation, type);
}

/*
 * Returns the arguments of the aggregate for which a window node calls this transition function.
 * The node does not pass its aggregate. Aggregates with the same transition function, argument
 * types and collation cannot be distinguished, so the collations of their columns must agree.
 */
static List *
WindowAggregateArguments(FunctionCallInfo fcinfo, WindowAggState *node)
{
	List *found = NIL;
	ListCell *cell;

	foreach(cell, node->funcs)
	{
		WindowFunc *function = ((WindowFuncExprState *) lfirst(cell))->wfunc;
		HeapTuple tuple;
		bool same;

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
				ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
								errmsg("cannot tell the collations of two window aggregates apart"),
								errhint("Give their keys the same collations, or compute them in "
										"separate subqueries.")));
		found = function->args;
	}
	return found;
}

/*
 * Returns the collation of an argument's own expression. The call as a whole has one collation,
 * which is none if two columns differ.
 */
static Oid
ArgumentCollation(FunctionCallInfo fcinfo, int argument)
{
	Node *expr = fcinfo->flinfo->fn_expr;
	Aggref *aggref;
	List *args = NIL;

	if (AggCheckCallContext(fcinfo, NULL))
	{
		/* These are the aggregate's arguments, without its state. */
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
		Node *node = (Node *) list_nth(args, argument);

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

/* At the end of a transaction no key is being hashed. */
static void
ResetHashDepth(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		hash_depth = 0;
}

static void
WatchChanges(void)
{
	static bool watching = false;

	if (!watching)
		RegisterXactCallback(ResetHashDepth, NULL);
	watching = true;
	WatchEqualities();
}

static KeyPlan *
AllocateKeyPlan(MemoryContext context, int columns)
{
	KeyPlan *plan = (KeyPlan *) MemoryContextAllocZero(context, sizeof(KeyPlan));

	plan->context = context;
	plan->columns = columns;
	plan->plans = (ValuePlan **) MemoryContextAllocZero(context, sizeof(ValuePlan *) * columns);
	plan->types = (Oid *) MemoryContextAllocZero(context, sizeof(Oid) * columns);
	plan->collations = (Oid *) MemoryContextAllocZero(context, sizeof(Oid) * columns);
	WatchChanges();
	plan->version = equality_version;
	return plan;
}

static void
PlanColumn(KeyPlan *plan, int column, Oid type, Oid collation)
{
	plan->types[column] = type;
	plan->collations[column] = collation;
	plan->plans[column] = MakeValuePlan(plan->context, type, collation);
}

bool
IsHashedBy(const KeyPlan *plan, PGFunction function)
{
	return plan->columns == 1 && plan->plans[0]->kind == KeyKind::OwnHash &&
		   plan->plans[0]->hash.fn_addr == function;
}

/* Deletes the plans of earlier renewals. */
static void
DropOldPlans(MemoryContext renewals, MemoryContext present)
{
	MemoryContext context = renewals->firstchild;

	while (context != NULL)
	{
		MemoryContext next = context->nextchild;

		if (context != present)
			MemoryContextDelete(context);
		context = next;
	}
}

void
RenewKeyPlan(KeyPlan *plan)
{
	uint64 version = equality_version;
	MemoryContext memory;
	ValuePlan **plans;

	if (plan->renewals == NULL)
		plan->renewals = AllocSetContextCreateInternal(plan->context, "dedup_filter key plans",
													   ALLOCSET_SMALL_SIZES);
	memory = AllocSetContextCreateInternal(plan->renewals, "dedup_filter key plan",
										   ALLOCSET_SMALL_SIZES);
	plans = (ValuePlan **) MemoryContextAlloc(memory, sizeof(ValuePlan *) * plan->columns);
	for (int i = 0; i < plan->columns; i++)
		plans[i] = MakeValuePlan(memory, plan->types[i], plan->collations[i]);
	memcpy(plan->plans, plans, sizeof(ValuePlan *) * plan->columns);
	plan->version = version;

	/* A hash function that the old plans call may have led to this call. */
	if (hash_depth == 0)
		DropOldPlans(plan->renewals, memory);
}

KeyPlan *
MakeKeyPlan(FunctionCallInfo fcinfo, int first)
{
	FmgrInfo *flinfo = fcinfo->flinfo;
	int columns = fcinfo->nargs - first;
	KeyPlan *plan;

	if (columns < 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a key needs at least one column")));
	plan = AllocateKeyPlan(flinfo->fn_mcxt, columns);
	plan->first = first;
	plan->variadic = get_fn_expr_variadic(flinfo);
	for (int i = 0; i < columns; i++)
	{
		Oid type = get_fn_expr_argtype(flinfo, first + i);
		Oid collation;

		if (!OidIsValid(type))
			ereport(ERROR, (errcode(ERRCODE_INDETERMINATE_DATATYPE),
							errmsg("could not determine the type of key column %d", i + 1)));
		collation = ArgumentCollation(fcinfo, first + i);
		if (plan->variadic)
		{
			Oid element = get_element_type(getBaseType(type));

			if (!OidIsValid(element))
				ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
								errmsg("VARIADIC argument must be an array")));
			type = element;
		}
		PlanColumn(plan, i, type, collation);
	}
	if (columns == 1 && !plan->variadic)
		plan->shortcut = ShortcutFor(plan->plans[0]->kind);
	return plan;
}

KeyPlan *
MakeElementKeyPlan(MemoryContext context, Oid element_type, Oid collation)
{
	KeyPlan *plan = AllocateKeyPlan(context, 1);

	PlanColumn(plan, 0, element_type, collation);
	return plan;
}

KeyPlan *
MakeColumnsKeyPlan(MemoryContext context, int columns, const Oid *types, const Oid *collations)
{
	KeyPlan *plan = AllocateKeyPlan(context, columns);

	for (int i = 0; i < columns; i++)
		PlanColumn(plan, i, types[i], collations[i]);
	if (columns == 1)
		plan->shortcut = ShortcutFor(plan->plans[0]->kind);
	return plan;
}
