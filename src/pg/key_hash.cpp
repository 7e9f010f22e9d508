/* Hashes keys by their plans. */
#include "pg/equality.hpp"
#include "pg/value_plan.hpp"

#include <sys/socket.h> /* AF_INET, which utils/inet.h uses without including it */

extern "C" {
#include "access/tupdesc.h"
#include "catalog/pg_enum.h"
#include "executor/functions.h"
#include "storage/itemptr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/expandeddatum.h"
#include "utils/inet.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#if HAS_MULTIRANGES
#include "utils/multirangetypes.h"
#endif
#include "utils/numeric.h"
#include "utils/rangetypes.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
}

using dedup::HashBytes;
using dedup::KeySeed;
using dedup::StoreU64;

int hash_depth = 0;

static uint64 HashValue(ValuePlan *plan, Datum value, KeySeed seed);

/* ---- values --------------------------------------------------------------- */

static inline uint64
HashU64(uint64 value, KeySeed seed)
{
	return HashInteger((int64) value, seed);
}

static inline uint64
HashTwo(uint64 first, uint64 second, KeySeed seed)
{
	uint8_t bytes[16];

	StoreU64(bytes, first);
	StoreU64(bytes + 8, second);
	return HashBytes(bytes, sizeof bytes, seed);
}

/*
 * Combines the hash of the next element of a composite value, or of a NULL, with the hash so far.
 */
static inline uint64
Fold(uint64 so_far, uint64 element, KeySeed seed)
{
	return HashTwo(so_far, element, seed);
}

static inline uint64
FoldNull(uint64 so_far, KeySeed seed)
{
	return HashU64(so_far, seed.Other());
}

static uint64
HashFloat(float8 value, KeySeed seed)
{
	uint64 bits;

	if (std::isnan(value))
		bits = UINT64CONST(0x7ff8000000000000);
	else if (value == 0)
		bits = 0;
	else
		std::memcpy(&bits, &value, sizeof bits);
	return HashU64(bits, seed);
}

uint64
HashToastedText(Datum value, KeySeed seed)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	uint64 hash = HashBytes(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text), seed);

	pfree(text);
	return hash;
}

/* Hashes char(n) without its trailing blanks. */
static uint64
HashBpChar(Datum value, KeySeed seed)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	int length = bpchartruelen(VARDATA_ANY(text), (int) VARSIZE_ANY_EXHDR(text));
	uint64 hash = HashBytes(VARDATA_ANY(text), (size_t) length, seed);

	if ((Pointer) text != DatumGetPointer(value))
		pfree(text);
	return hash;
}

static uint64
HashInet(Datum value, KeySeed seed)
{
	inet *address = DatumGetInetPP(value);
	uint8_t bytes[2 + 16] = {0};
	int size = ip_addrsize(address);
	uint64 hash;

	bytes[0] = ip_family(address) == PGSQL_AF_INET ? 4 : 6;
	bytes[1] = (uint8_t) ip_bits(address);
	std::memcpy(bytes + 2, ip_addr(address), (size_t) size);
	hash = HashBytes(bytes, (size_t) (2 + size), seed);
	if ((Pointer) address != DatumGetPointer(value))
		pfree(address);
	return hash;
}

/*
 * Hashes an interval by its comparison value (months of 30 days, days of 24 hours): as whole days
 * and a rest below a day.
 */
static uint64
HashInterval(const Interval *interval, KeySeed seed)
{
	int64 days = (int64) interval->month * 30 + interval->day;
	int64 rest = interval->time % USECS_PER_DAY;

	days += interval->time / USECS_PER_DAY;
	if (rest < 0)
	{
		rest += USECS_PER_DAY;
		days--;
	}
	return HashTwo((uint64) days, (uint64) rest, seed);
}

/* Counts the changes of enum labels of which this backend was notified. */
static uint64 enum_version = 0;

static void
EnumChanged(Datum arg, SYSCACHE_ID cache, uint32 hash)
{
	enum_version++;
}

static uint64
HashEnum(ValuePlan *plan, Oid value, KeySeed seed)
{
	if (enum_version == 0)
	{
		CacheRegisterSyscacheCallback(ENUMOID, EnumChanged, (Datum) 0);
		enum_version = 1;
	}
	if (plan->enum_value != value || plan->enum_version != enum_version)
	{
		HeapTuple tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));

		if (!HeapTupleIsValid(tuple))
			ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
							errmsg("invalid internal value for enum: %u", value)));
		plan->enum_label = ((Form_pg_enum) GETSTRUCT(tuple))->enumlabel;
		plan->enum_value = value;
		plan->enum_version = enum_version;
		ReleaseSysCache(tuple);
	}
	return HashBytes(NameStr(plan->enum_label), std::strlen(NameStr(plan->enum_label)), seed);
}

/* Hashes what array_eq() compares: dimensions, lower bounds, elements. NULLs are equal. */
static uint64
HashArray(ValuePlan *plan, Datum value, KeySeed seed)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	ValuePlan *element = plan->element;
	uint64 hash = (uint64) ARR_NDIM(array);
	ArrayIterator iterator;
	Datum item;
	bool isnull;

	for (int i = 0; i < ARR_NDIM(array); i++)
		hash =
			Fold(hash, (uint64) (uint32) ARR_DIMS(array)[i] << 32 | (uint32) ARR_LBOUND(array)[i],
				 seed);
	iterator = array_create_iterator(array, 0, NULL);
	while (array_iterate(iterator, &item, &isnull))
		hash = isnull ? FoldNull(hash, seed) : Fold(hash, HashValue(element, item, seed), seed);
	array_free_iterator(iterator);
	if ((Pointer) array != DatumGetPointer(value))
		pfree(array);
	return hash;
}

static uint64
HashBound(ValuePlan *element, const RangeBound *bound, uint64 so_far, KeySeed seed)
{
	uint64 flags = (uint64) bound->infinite << 1 | (uint64) bound->inclusive;

	so_far = Fold(so_far, flags, seed);
	if (!bound->infinite)
		so_far = Fold(so_far, HashValue(element, bound->val, seed), seed);
	return so_far;
}

static uint64
HashRange(ValuePlan *plan, Datum value, KeySeed seed)
{
	RangeType *range = DatumGetRangeTypeP(value);
	RangeBound lower, upper;
	bool empty;
	uint64 hash;

	range_deserialize(plan->typcache, range, &lower, &upper, &empty);
	hash = empty;
	if (!empty)
	{
		hash = HashBound(plan->element, &lower, hash, seed);
		hash = HashBound(plan->element, &upper, hash, seed);
	}
	if ((Pointer) range != DatumGetPointer(value))
		pfree(range);
	return HashU64(hash, seed);
}

#if HAS_MULTIRANGES
static uint64
HashMultirange(ValuePlan *plan, Datum value, KeySeed seed)
{
	MultirangeType *multirange = DatumGetMultirangeTypeP(value);
	int32 count;
	RangeType **ranges;
	uint64 hash;

	multirange_deserialize(plan->typcache->rngtype, multirange, &count, &ranges);
	hash = (uint64) count;
	for (int i = 0; i < count; i++)
		hash = Fold(hash, HashRange(plan->element, RangeTypePGetDatum(ranges[i]), seed), seed);
	if ((Pointer) multirange != DatumGetPointer(value))
		pfree(multirange);
	return HashU64(hash, seed);
}
#endif

/* Makes the plans for a row type's columns, unless they are the last ones. */
static void
PlanRow(ValuePlan *plan, TupleDesc desc)
{
	bool same = plan->row != NULL && plan->row_columns == desc->natts;

	for (int i = 0; same && i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		same = plan->row[i].type == (att->attisdropped ? InvalidOid : att->atttypid) &&
			   plan->row[i].collation == att->attcollation;
	}
	if (same)
		return;

	plan->row = NULL; /* in case of an error later */

	/* A column's hash function may have called this function while the old plans are in use. */
	if (plan->row_context == NULL || plan->in_row > 0)
		plan->row_context = AllocSetContextCreateInternal(plan->context, "dedup_filter row plan",
														  ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(plan->row_context);
	RowColumn *row = (RowColumn *) MemoryContextAllocZero(plan->row_context,
														  sizeof(RowColumn) * (desc->natts + 1));

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		row[i].collation = att->attcollation;
		if (att->attisdropped)
			continue;
		row[i].type = att->atttypid;
		row[i].plan = MakeValuePlan(plan->row_context, att->atttypid, att->attcollation);
	}
	plan->row_columns = desc->natts;
	plan->row = row;
}

/* Hashes as record_eq() compares: column by column. NULLs are equal. */
static uint64
HashRecord(ValuePlan *plan, Datum value, KeySeed seed)
{
	HeapTupleHeader record = DatumGetHeapTupleHeader(value);
	TupleDesc desc =
		lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(record), HeapTupleHeaderGetTypMod(record));
	int columns = desc->natts;
	HeapTupleData tuple;
	Datum *values;
	bool *isnull;
	RowColumn *row;
	uint64 hash = 0;

	check_stack_depth(); /* records can contain records */
	PlanRow(plan, desc);
	row = plan->row;

	tuple.t_len = HeapTupleHeaderGetDatumLength(record);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = record;
	values = (Datum *) palloc(sizeof(Datum) * (columns + 1));
	isnull = (bool *) palloc(sizeof(bool) * (columns + 1));
	heap_deform_tuple(&tuple, desc, values, isnull);
	plan->in_row++;
	for (int i = 0; i < columns; i++)
	{
		if (row[i].plan == NULL)
			continue;
		hash = isnull[i] ? FoldNull(hash, seed)
						 : Fold(hash, HashValue(row[i].plan, values[i], seed), seed);
	}
	plan->in_row--;
	pfree(values);
	pfree(isnull);
	ReleaseTupleDesc(desc);
	return hash;
}

static uint64
CallHashFunction(ValuePlan *plan, FmgrInfo *function, Datum value, KeySeed seed)
{
	if (plan->extended)
		return DatumGetUInt64(
			FunctionCall2Coll(function, plan->collation, value, UInt64GetDatum(seed.seed)));
	return DatumGetUInt32(FunctionCall1Coll(function, plan->collation, value));
}

/*
 * Calls a hash function in SQL. It may run statements that hash by the same plan, and the server's
 * state of an SQL function in a FmgrInfo is for one call at a time.
 */
static uint64
CallSqlHashFunction(ValuePlan *plan, Datum value, KeySeed seed)
{
	FmgrInfo another;
	uint64 hash;

	if (plan->in_call)
	{
		fmgr_info(plan->hash.fn_oid, &another);
		return CallHashFunction(plan, &another, value, seed);
	}
	plan->in_call = true;
	PG_TRY();
	{
		hash = CallHashFunction(plan, &plan->hash, value, seed);
	}
	PG_FINALLY();
	{
		plan->in_call = false;
	}
	PG_END_TRY();
	return hash;
}

static uint64
HashByOwnFunction(ValuePlan *plan, Datum value, KeySeed seed)
{
	/* The function must not take over or change a value that is still used elsewhere. */
	value = MakeExpandedObjectReadOnly(value, false, plan->typlen);
	return HashU64(plan->hash.fn_addr == fmgr_sql
					   ? CallSqlHashFunction(plan, value, seed)
					   : CallHashFunction(plan, &plan->hash, value, seed),
				   seed);
}

/*
 * Hashes a numeric by its normalized text. The server's own hash is the same for n and -n, and for
 * NaN and both infinities.
 */
static uint64
HashNumeric(Datum value, KeySeed seed)
{
	Numeric number = DatumGetNumeric(value);
	char *text = numeric_normalize(number);
	uint64 hash = HashBytes(text, std::strlen(text), seed);

	pfree(text);
	if ((Pointer) number != DatumGetPointer(value))
		pfree(number);
	return hash;
}

static uint64
HashJsonbScalar(const JsonbValue *scalar, uint64 so_far, KeySeed seed)
{
	so_far = Fold(so_far, (uint64) scalar->type, seed);
	switch (scalar->type)
	{
		case jbvString:
			return Fold(so_far,
						HashBytes(scalar->val.string.val, (size_t) scalar->val.string.len, seed),
						seed);
		case jbvNumeric:
			return Fold(so_far, HashNumeric(NumericGetDatum(scalar->val.numeric), seed), seed);
		case jbvBool:
			return Fold(so_far, scalar->val.boolean, seed);
		default:
			return so_far;
	}
}

/* Hashes a jsonb token by token. The server's own hash ignores how its containers are nested. */
static uint64
HashJsonb(Datum value, KeySeed seed)
{
	Jsonb *document = DatumGetJsonbP(value);
	JsonbIterator *iterator = JsonbIteratorInit(&document->root);
	JsonbIteratorToken token;
	JsonbValue item;
	uint64 hash = 0;

	while ((token = JsonbIteratorNext(&iterator, &item, false)) != WJB_DONE)
	{
		hash = Fold(hash, (uint64) token, seed);
		if (token == WJB_BEGIN_ARRAY)
			hash = Fold(hash, item.val.array.rawScalar, seed);
		else if (token == WJB_KEY || token == WJB_VALUE || token == WJB_ELEM)
			hash = HashJsonbScalar(&item, hash, seed);
	}
	if ((Pointer) document != DatumGetPointer(value))
		pfree(document);
	return hash;
}

static uint64
HashValue(ValuePlan *plan, Datum value, KeySeed seed)
{
	switch (plan->kind)
	{
		case KeyKind::Bool:
			return HashU64(DatumGetBool(value), seed);
		case KeyKind::Int16:
			return HashInteger(DatumGetInt16(value), seed);
		case KeyKind::Int32:
			return HashInteger(DatumGetInt32(value), seed);
		case KeyKind::Int64:
			return HashInteger(DatumGetInt64(value), seed);
		case KeyKind::UInt32:
			return HashU64(DatumGetUInt32(value), seed);
		case KeyKind::UInt64:
			return HashU64(DatumGetUInt64(value), seed);
		case KeyKind::Float4:
			return HashFloat(DatumGetFloat4(value), seed);
		case KeyKind::Float8:
			return HashFloat(DatumGetFloat8(value), seed);
		case KeyKind::Char:
		{
			char c = DatumGetChar(value);

			return HashBytes(&c, c != 0, seed);
		}
		case KeyKind::Name:
			return HashBytes(NameStr(*DatumGetName(value)),
							 strnlen(NameStr(*DatumGetName(value)), NAMEDATALEN), seed);
		case KeyKind::CString:
			return HashBytes(DatumGetCString(value), std::strlen(DatumGetCString(value)), seed);
		case KeyKind::CollatedCString:
			return HashValue(plan->element,
							 PointerGetDatum(cstring_to_text(DatumGetCString(value))), seed);
		case KeyKind::Text:
			return HashText(value, seed);
		case KeyKind::BpChar:
			return HashBpChar(value, seed);
		case KeyKind::Fixed:
			return HashBytes(DatumGetPointer(value), (size_t) plan->typlen, seed);
		case KeyKind::TimeTz:
		{
			TimeTzADT *time = DatumGetTimeTzADTP(value);

			return HashTwo((uint64) time->time, (uint64) (int64) time->zone, seed);
		}
		case KeyKind::Interval:
			return HashInterval(DatumGetIntervalP(value), seed);
		case KeyKind::Inet:
			return HashInet(value, seed);
		case KeyKind::Tid:
		{
			ItemPointer tid = (ItemPointer) DatumGetPointer(value);

			return HashU64((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 |
							   ItemPointerGetOffsetNumberNoCheck(tid),
						   seed);
		}
		case KeyKind::AclItem:
		{
			AclItem *item = DatumGetAclItemP(value);

			return Fold(HashTwo(item->ai_grantee, item->ai_grantor, seed), (uint64) item->ai_privs,
						seed);
		}
		case KeyKind::Enum:
			return HashEnum(plan, DatumGetObjectId(value), seed);
		case KeyKind::Array:
			return HashArray(plan, value, seed);
		case KeyKind::Range:
			return HashRange(plan, value, seed);
		case KeyKind::Multirange:
#if HAS_MULTIRANGES
			return HashMultirange(plan, value, seed);
#else
			break;
#endif
		case KeyKind::Record:
			return HashRecord(plan, value, seed);
		case KeyKind::Numeric:
			return HashNumeric(value, seed);
		case KeyKind::Jsonb:
			return HashJsonb(value, seed);
		case KeyKind::OwnHash:
			return HashByOwnFunction(plan, value, seed);
	}
	elog(ERROR, "unexpected kind of key: %d", (int) plan->kind);
	return 0; /* keep the compiler quiet */
}

/* ---- keys ----------------------------------------------------------------- */

/* Hashes columns by their plans. The hash of a single column is the hash of the key. */
static uint64
HashPlanned(KeyPlan *plan, const NullableDatum *columns, KeySeed seed)
{
	uint64 hash;

	if (plan->columns == 1 && !columns[0].isnull)
		return HashValue(plan->plans[0], columns[0].value, seed);
	hash = (uint64) plan->columns;
	for (int i = 0; i < plan->columns; i++)
		hash = columns[i].isnull
				   ? FoldNull(hash, seed)
				   : Fold(hash, HashValue(plan->plans[i], columns[i].value, seed), seed);
	return hash;
}

bool
HashColumns(KeyPlan *plan, const NullableDatum *columns, NullKeys nulls, KeySeed seed, uint64 *hash)
{
	if (nulls == NullKeys::Skip)
		for (int i = 0; i < plan->columns; i++)
			if (columns[i].isnull)
				return false;

	if (unlikely(plan->version != equality_version))
		RenewKeyPlan(plan);
	hash_depth++;
	*hash = HashPlanned(plan, columns, seed);
	hash_depth--;
	return true;
}

/* VARIADIC array: its elements are the columns. */
static bool
HashVariadic(KeyPlan *plan, FunctionCallInfo fcinfo, NullKeys nulls, KeySeed seed, uint64 *hash)
{
	ValuePlan *element;
	ArrayType *array;
	Datum *values;
	bool *isnull;
	NullableDatum *items;
	KeyPlan expanded = {};
	bool result = true;

	if (fcinfo->args[plan->first].isnull)
	{
		if (nulls == NullKeys::Skip)
			return false;
		*hash = FoldNull(0, seed);
		return true;
	}
	if (unlikely(plan->version != equality_version))
		RenewKeyPlan(plan);
	element = plan->plans[0];
	array = DatumGetArrayTypeP(fcinfo->args[plan->first].value);
	deconstruct_array(array, ARR_ELEMTYPE(array), element->typlen, element->typbyval,
					  element->typalign, &values, &isnull, &expanded.columns);
	if (expanded.columns < 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("a key needs at least one column")));
	expanded.plans = (ValuePlan **) palloc(sizeof(ValuePlan *) * expanded.columns);
	items = (NullableDatum *) palloc(sizeof(NullableDatum) * expanded.columns);
	for (int i = 0; i < expanded.columns; i++)
	{
		expanded.plans[i] = element;
		items[i].value = values[i];
		items[i].isnull = isnull[i];
	}
	/* HashColumns() would renew `expanded`, but there is nothing to renew it from. */
	for (int i = 0; nulls == NullKeys::Skip && result && i < expanded.columns; i++)
		result = !isnull[i];
	hash_depth++;
	if (result)
		*hash = HashPlanned(&expanded, items, seed);
	hash_depth--;
	pfree(expanded.plans);
	pfree(items);
	pfree(values);
	pfree(isnull);
	return result;
}

bool
HashAnyKey(KeyPlan *plan, FunctionCallInfo fcinfo, NullKeys nulls, KeySeed seed, uint64 *hash)
{
	if (unlikely(plan->variadic))
		return HashVariadic(plan, fcinfo, nulls, seed, hash);
	return HashColumns(plan, fcinfo->args + plan->first, nulls, seed, hash);
}
