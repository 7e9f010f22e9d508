/*
 * The key of a guarded row: see row_key.hpp.
 */
#include "guard/row_key.hpp"
#include "pg/equality.hpp"

extern "C" {
#include "access/htup_details.h"
#include "mb/pg_wchar.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
}

void
LoadGuardColumns(const GuardPlan *plan, TupleTableSlot *slot, NullableDatum *columns)
{
	for (int i = 0; i < plan->clause.columns; i++)
		columns[i].value = slot_getattr(slot, plan->clause.attnums[i], &columns[i].isnull);
}

bool
SameGuardColumns(const GuardPlan *plan, const NullableDatum *a, const NullableDatum *b)
{
	for (int i = 0; i < plan->clause.columns; i++)
	{
		if (a[i].isnull != b[i].isnull)
			return false;
		if (!a[i].isnull &&
			!datum_image_eq(a[i].value, b[i].value, plan->typbyval[i], plan->typlen[i]))
			return false;
	}
	return true;
}

const Datum *
CopyGuardKey(const GuardPlan *plan, const NullableDatum *columns)
{
	Datum *key = (Datum *) palloc(sizeof(Datum) * (Size) plan->clause.columns);

	for (int i = 0; i < plan->clause.columns; i++)
		key[i] = datumCopy(columns[i].value, plan->typbyval[i], plan->typlen[i]);
	return key;
}

bool
EqualGuardKeys(const GuardPlan *plan, const Datum *one, const NullableDatum *other)
{
	const GuardClause &clause = plan->clause;

	for (int i = 0; i < clause.columns; i++)
	{
		Oid equality;

		if (other[i].isnull)
			return false;
		if (datum_image_eq(one[i], other[i].value, plan->typbyval[i], plan->typlen[i]))
			continue;
		equality = KeyEqualityFunction(clause.types[i]);
		if (!OidIsValid(equality) ||
			!DatumGetBool(
				OidFunctionCall2Coll(equality, clause.collations[i], one[i], other[i].value)))
			return false;
	}
	return true;
}

/* Bytes of a column that an error shows. */
constexpr int DESCRIBED_BYTES = 256;

/*
 * "(a, b)=(1, x)", or NULL if the user may not see that, by the rules of unique
 * indexes.
 */
static char *
DescribeKey(Relation rel, const GuardPlan *plan, const NullableDatum *columns)
{
	const GuardClause &clause = plan->clause;
	Oid relid = RelationGetRelid(rel);
	StringInfoData text;

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return NULL;
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		for (int i = 0; i < clause.columns; i++)
			if (pg_attribute_aclcheck(relid, clause.attnums[i], GetUserId(), ACL_SELECT) !=
				ACLCHECK_OK)
				return NULL;

	initStringInfo(&text);
	for (int i = 0; i < clause.columns; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(rel), clause.attnums[i] - 1);

		appendStringInfo(&text, "%s%s", i == 0 ? "(" : ", ",
						 quote_identifier(NameStr(column->attname)));
	}
	for (int i = 0; i < clause.columns; i++)
	{
		Oid output;
		bool varlena;
		char *value;
		int length;

		getTypeOutputInfo(clause.types[i], &output, &varlena);
		value = OidOutputFunctionCall(output, columns[i].value);
		length = (int) strlen(value);
		appendStringInfoString(&text, i == 0 ? ")=(" : ", ");
		if (length <= DESCRIBED_BYTES)
			appendStringInfoString(&text, value);
		else
			appendStringInfo(&text, "%.*s...", pg_mbcliplen(value, length, DESCRIBED_BYTES), value);
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

void
RejectRow(Relation rel, const GuardPlan *plan, const LiveFilter &filter,
		  const NullableDatum *columns)
{
	char *key = DescribeKey(rel, plan, columns);

	CountLive(filter, LiveCounter::Rejected, 1);
	ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION),
					plan->exact ? errmsg("duplicate key value violates unique constraint \"%s\"",
										 plan->constraint)
								: errmsg("duplicate key value violates live filter \"%s\"",
										 RelationGetRelationName(filter.rel)),
					key != NULL ? errdetail("Key %s already exists.", key) : 0,
					errtableconstraint(rel, plan->constraint)));
	pg_unreachable();
}

HeapTuple
MarkGuardRow(Relation rel, const GuardPlan *plan, HeapTuple tuple, bool duplicate)
{
	TupleDesc desc = RelationGetDescr(rel);
	int column = plan->clause.mark;
	Datum value;
	bool isnull;

	if (plan->mode != GuardMode::Mark)
		return tuple;
	value = heap_getattr(tuple, column, desc, &isnull);
	if (!isnull && DatumGetBool(value) == duplicate)
		return tuple;
	value = BoolGetDatum(duplicate);
	isnull = false;
	return heap_modify_tuple_by_cols(tuple, desc, 1, &column, &value, &isnull);
}

bool
IsMarkedRow(const GuardPlan *plan, TupleTableSlot *slot)
{
	bool isnull;
	Datum mark;

	if (plan->mode != GuardMode::Mark)
		return false;
	mark = slot_getattr(slot, plan->clause.mark, &isnull);
	return !isnull && DatumGetBool(mark);
}
