/* Finds the equality of a type in the catalogs. */
#include "pg/equality.hpp"

extern "C" {
#include "access/hash.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_range.h"
#include "commands/defrem.h"
#include "utils/acl.h"
#include "utils/catcache.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

/* record *= record, which compares records by their bytes. pg_operator.h has no name for it. */
static constexpr Oid RECORD_IMAGE_EQ_OP = 3188;

uint64 equality_version = 1;

/* ---- changes ------------------------------------------------------------------ */

static void
EqualitiesChanged(Datum arg, SYSCACHE_ID cache, uint32 hash)
{
	equality_version++;
}

void
WatchEqualities(void)
{
	static bool watching = false;

	if (watching)
		return;
	watching = true;
	CacheRegisterSyscacheCallback(CLAOID, EqualitiesChanged, (Datum) 0);
	CacheRegisterSyscacheCallback(AMOPOPID, EqualitiesChanged, (Datum) 0);
	CacheRegisterSyscacheCallback(AMPROCNUM, EqualitiesChanged, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, EqualitiesChanged, (Datum) 0);
	/* A hash function can be replaced by one in another language. */
	CacheRegisterSyscacheCallback(PROCOID, EqualitiesChanged, (Datum) 0);
}

/* ---- hash functions ----------------------------------------------------------- */

static HashFunctions
HashFunctionsOfFamily(Oid family, Oid type)
{
	HashFunctions functions;

	functions.standard = get_opfamily_proc(family, type, type, HASHSTANDARD_PROC);
	functions.extended = get_opfamily_proc(family, type, type, HASHEXTENDED_PROC);
	return functions;
}

/*
 * Searches every hash operator family that has the operator, as a hash join does. Prefers the
 * family of a default class.
 */
HashFunctions
HashFunctionsOf(Oid equality)
{
	HashFunctions found = {};
	CatCList *members = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(equality));

	for (int i = 0; i < members->n_members; i++)
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(&members->members[i]->tuple);
		HashFunctions functions;
		Oid opclass;
		bool is_default;

		if (member->amopmethod != HASH_AM_OID || member->amopstrategy != HTEqualStrategyNumber ||
			member->amoplefttype != member->amoprighttype)
			continue;
		functions = HashFunctionsOfFamily(member->amopfamily, member->amoplefttype);
		if (!OidIsValid(functions.standard))
			continue;
		opclass = GetDefaultOpClass(member->amoplefttype, HASH_AM_OID);
		is_default = OidIsValid(opclass) && get_opclass_family(opclass) == member->amopfamily;
		if (is_default || !OidIsValid(found.standard))
			found = functions;
		if (is_default)
			break;
	}
	ReleaseSysCacheList(members);
	return found;
}

HashFunctions
DefaultHashFunctions(Oid type)
{
	/* The type cache checks the hash functions against the equality if it knows both. */
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_HASH_PROC |
														TYPECACHE_HASH_EXTENDED_PROC);

	return {entry->hash_proc, entry->hash_extended_proc};
}

/* ---- operators ---------------------------------------------------------------- */

static Oid
OwnerOfType(Oid type)
{
	HeapTuple tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_type) GETSTRUCT(tuple))->typowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Finds an operator "=" of the type and itself, in any schema. Every role can make such an
 * operator for another role's type, so the operator's owner matters.
 */
static Oid
EqualityByName(Oid type)
{
	Oid found = InvalidOid;
	Oid owner = InvalidOid;
	CatCList *operators = SearchSysCacheList3(OPERNAMENSP, CStringGetDatum("="),
											  ObjectIdGetDatum(type), ObjectIdGetDatum(type));

	for (int i = 0; i < operators->n_members && !OidIsValid(found); i++)
	{
		Form_pg_operator form = (Form_pg_operator) GETSTRUCT(&operators->members[i]->tuple);

		if (form->oprresult != BOOLOID || !OidIsValid(form->oprcode))
			continue;
		if (!OidIsValid(owner))
			owner = OwnerOfType(type);
		if (OidIsValid(owner) && has_privs_of_role(form->oprowner, owner))
			found = form->oid;
	}
	ReleaseSysCacheList(operators);
	return found;
}

/* The server's own operators are the equalities of the kinds, with one exception. */
static bool
IsOfKind(Oid equality)
{
	return equality < FirstNormalObjectId && equality != RECORD_IMAGE_EQ_OP;
}

Oid
OwnEquality(Oid type, HashFunctions *functions)
{
	TypeCacheEntry *entry =
		lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_HASH_OPFAMILY);
	Oid equality = InvalidOid;

	*functions = {};
	if (OidIsValid(entry->btree_opf) && entry->btree_opintype == type)
		equality = get_opfamily_member(entry->btree_opf, type, type, BTEqualStrategyNumber);
	if (!OidIsValid(equality) && OidIsValid(entry->hash_opf) && entry->hash_opintype == type)
		equality = get_opfamily_member(entry->hash_opf, type, type, HTEqualStrategyNumber);
	if (!OidIsValid(equality) && type >= FirstNormalObjectId)
		equality = EqualityByName(type);
	if (!OidIsValid(equality) || IsOfKind(equality))
		return EQUALITY_OF_KIND;
	*functions = HashFunctionsOf(equality);
	return equality;
}

Oid
BoundEquality(Oid range_type, Oid bound_type)
{
	HeapTuple tuple = SearchSysCache1(RANGETYPE, ObjectIdGetDatum(range_type));
	Oid opclass;
	Oid compared;
	Oid equality;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for range type %u", range_type);
	opclass = ((Form_pg_range) GETSTRUCT(tuple))->rngsubopc;
	ReleaseSysCache(tuple);

	if (opclass == GetDefaultOpClass(bound_type, BTREE_AM_OID))
		return DEFAULT_EQUALITY;
	compared = get_opclass_input_type(opclass);
	equality =
		get_opfamily_member(get_opclass_family(opclass), compared, compared, BTEqualStrategyNumber);
	return IsOfKind(equality) ? EQUALITY_OF_KIND : equality;
}

Oid
KeyEqualityFunction(Oid type)
{
	const Oid base = getBaseType(type);
	HashFunctions functions;
	Oid equality = OwnEquality(base, &functions);

	if (equality == EQUALITY_OF_KIND)
		equality = lookup_type_cache(base, TYPECACHE_EQ_OPR)->eq_opr;
	return OidIsValid(equality) ? get_opcode(equality) : InvalidOid;
}
