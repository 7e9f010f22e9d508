/*
 * The last key that a plan has hashed, and its hash (KeptHash): a row of a guard has its key hashed
 * by the node that reads ahead, by the trigger and by the guard index.
 */
#include "pg/equality.hpp"
#include "pg/value_plan.hpp"

using dedup::KeySeed;

void
KeepLastHash(KeyPlan *plan)
{
	if (plan->columns <= kKeptColumns)
		plan->kept = (KeptHash *) MemoryContextAllocZero(plan->context, sizeof(KeptHash));
}

/* Whether a value's bits are all that its hash depends on, but for the seed. */
static bool
IsHashedByValue(const ValuePlan *plan)
{
	switch (plan->kind)
	{
		case KeyKind::Bool:
		case KeyKind::Int16:
		case KeyKind::Int32:
		case KeyKind::UInt32:
		case KeyKind::Float4:
		case KeyKind::Char:
			return true;
		case KeyKind::Int64:
		case KeyKind::UInt64:
		case KeyKind::Float8:
			return FLOAT8PASSBYVAL;
		default:
			return false;
	}
}

void
KeepHash(KeyPlan *plan, const NullableDatum *columns, KeySeed seed, uint64 hash)
{
	KeptHash *kept = plan->kept;

	if (kept == NULL)
		return;
	kept->version = 0;
	/* It may have been hashed before an equality has changed. */
	if (unlikely(plan->version != equality_version))
		return;
	if (unlikely(kept->judged != plan->version))
	{
		kept->by_value = true;
		for (int i = 0; i < plan->columns; i++)
			kept->by_value = kept->by_value && IsHashedByValue(plan->plans[i]);
		kept->judged = plan->version;
	}
	if (!kept->by_value)
		return;
	for (int i = 0; i < plan->columns; i++)
	{
		if (columns[i].isnull)
			return;
		kept->values[i] = columns[i].value;
	}
	kept->seed = seed;
	kept->hash = hash;
	kept->version = plan->version;
}

/* Whether a key is the one that is kept. */
static inline bool
IsKept(const KeyPlan *plan, const NullableDatum *columns, KeySeed seed)
{
	const KeptHash *kept = plan->kept;

	if (kept->version != equality_version || kept->seed != seed)
		return false;
	for (int i = 0; i < plan->columns; i++)
		if (columns[i].isnull || columns[i].value != kept->values[i])
			return false;
	return true;
}

bool
HashColumnsAgain(KeyPlan *plan, const NullableDatum *columns, NullKeys nulls, KeySeed seed,
				 uint64 *hash)
{
	if (plan->kept != NULL && IsKept(plan, columns, seed))
	{
		*hash = plan->kept->hash;
		return true;
	}
	if (!HashColumns(plan, columns, nulls, seed, hash))
		return false;
	KeepHash(plan, columns, seed, *hash);
	return true;
}
