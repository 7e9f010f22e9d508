/*
 * Applies new and deleted rows to a key while a file is filled; see rebuild_keys.hpp.
 *
 * The filter of an exact guard keeps the key of a deleted row. This only costs a search of the
 * table. Another row can have the same hash, and its key must not be removed. For guards that
 * forget, hashes that several rows have are counted, so that the key is removed with the last of
 * them.
 *
 * In a window of time, a key has the generation of its newest row. For guards that forget, rows of
 * one hash are counted by generation: when the newest row is deleted, the key gets the generation
 * of the next one. Rows that are too old for the window do not count. A row without a time, or
 * ahead of the clock, was loaded with the generation at that time, and is later searched there,
 * too.
 */
#include "guard/rebuild_keys.hpp"
#include "live/replace.hpp"

using dedup::live::Alive;

namespace
{

/* The rows of one hash and one generation. */
struct RowsOfGeneration
{
	uint32 generation; /* 0 without times */
	int64 rows;
};

/* The rows of one hash, if there may be more than one: one group, or an array of groups. */
struct RowsOfHash
{
	uint64 hash;
	int count;
	int room;
	RowsOfGeneration one;
	RowsOfGeneration *more; /* NULL: the group is `one` */
};

} /* namespace */

/* ---- rows of a hash -------------------------------------------------------------------- */

static RowsOfGeneration *
GroupsOf(RowsOfHash *rows)
{
	return rows->more != NULL ? rows->more : &rows->one;
}

static void
AddRow(const RebuiltKeys *keys, RowsOfHash *rows, uint32 generation)
{
	RowsOfGeneration *groups = GroupsOf(rows);

	for (int i = 0; i < rows->count; i++)
		if (groups[i].generation == generation)
		{
			groups[i].rows++;
			return;
		}
	if (rows->count == 0)
	{
		groups[rows->count++] = {generation, 1};
		return;
	}
	if (rows->more == NULL)
	{
		rows->count = 0;
		*OneMore(keys->context, &rows->more, &rows->count, &rows->room) = rows->one;
	}
	*OneMore(keys->context, &rows->more, &rows->count, &rows->room) = {generation, 1};
}

/* If the row was loaded at an earlier time, it is in the newest generation before its own. */
static void
RemoveRow(RowsOfHash *rows, uint32 generation)
{
	RowsOfGeneration *groups = GroupsOf(rows);
	RowsOfGeneration *nearest = NULL;

	for (int i = 0; i < rows->count; i++)
		if (groups[i].generation <= generation &&
			(nearest == NULL || groups[i].generation > nearest->generation))
			nearest = &groups[i];
	/* The filter may seem to have the key because of another row. */
	if (nearest == NULL)
		return;
	if (--nearest->rows == 0)
		*nearest = groups[--rows->count];
}

static int64
CountRows(RowsOfHash *rows)
{
	const RowsOfGeneration *groups = GroupsOf(rows);
	int64 count = 0;

	for (int i = 0; i < rows->count; i++)
		count += groups[i].rows;
	return count;
}

static uint32
NewestOf(RowsOfHash *rows)
{
	const RowsOfGeneration *groups = GroupsOf(rows);
	uint32 newest = 0;

	for (int i = 0; i < rows->count; i++)
		newest = Max(newest, groups[i].generation);
	return newest;
}

/* Returns what is known about a hash; empty, if nothing is. */
static RowsOfHash
KnownRows(const RebuiltKeys *keys, uint64 hash)
{
	const RowsOfHash *found =
		(const RowsOfHash *) hash_search(keys->repeated, &hash, HASH_FIND, NULL);

	return found != NULL ? *found : RowsOfHash{hash, 0, 0, {}, NULL};
}

/* Keeps this, if it is more than the filter shows. */
static void
KeepRows(RebuiltKeys *keys, RowsOfHash *rows)
{
	bool found;

	if (CountRows(rows) > 1)
	{
		*(RowsOfHash *) hash_search(keys->repeated, &rows->hash, HASH_ENTER, &found) = *rows;
		return;
	}
	(void) hash_search(keys->repeated, &rows->hash, HASH_REMOVE, &found);
	if (rows->more != NULL)
		pfree(rows->more);
}

RebuiltKeys
StartRebuiltKeys(const LiveFilter &filter, bool exact, MemoryContext context)
{
	RebuiltKeys keys = {};
	HASHCTL how = {};

	how.keysize = sizeof(uint64);
	how.entrysize = sizeof(RowsOfHash);
	how.hcxt = context;
	keys.filter = filter;
	keys.exact = exact;
	keys.repeated = hash_create("dedup_rebuild repeated hashes", 256, &how,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	keys.context = context;
	return keys;
}

/* ---- windows of time --------------------------------------------------------------------- */

static bool
IsTimed(const RebuiltKeys *keys)
{
	return keys->filter.parameters.ttl != 0;
}

/* Returns whether rows of a generation are in the window. */
static bool
InWindow(const RebuiltKeys *keys, uint32 generation)
{
	return generation != 0 && Alive(generation, keys->newest);
}

/* Puts a key under a generation. `last` is its generation so far, or 0. */
static void
PutTimedKey(RebuiltKeys *keys, uint64 hash, uint32 generation, uint32 last)
{
	uint32 put_as;

	(void) LivePutKey(keys->filter, hash, generation, &put_as);
	if (last == 0)
		CountLive(keys->filter, LiveCounter::New, 1);
}

/*
 * Does the same for an exact guard, whose filter keeps the keys of deleted rows. Keys that the
 * filter cannot prove to be new are searched in the table.
 */
static bool
ApplyExactTimes(RebuiltKeys *keys, uint64 hash, const KeyChanges &changes)
{
	uint32 generation = 0;
	uint32 last;

	if (changes.come == 0)
		return false;
	for (int64 i = 0; i < changes.come; i++)
	{
		generation = Max(generation, changes.come_in[i]);
		if (!InWindow(keys, changes.come_in[i]))
			keys->from = Max(keys->from, changes.come_in[i] + 1);
	}
	RaiseLiveCoversFrom(keys->filter, keys->from);
	if (LiveAddIfNew(keys->filter, hash, generation))
	{
		CountLive(keys->filter, LiveCounter::New, 1);
		return changes.come > 1;
	}
	last = LastInReplacement(keys->filter, hash, keys->newest);
	if (InWindow(keys, generation) && generation > last)
		PutTimedKey(keys, hash, generation, last);
	return true;
}

/* Does the same for guards that forget. */
static void
ApplyTimes(RebuiltKeys *keys, uint64 hash, const KeyChanges &changes)
{
	const uint32 last = LastInReplacement(keys->filter, hash, keys->newest);
	RowsOfHash rows = KnownRows(keys, hash);
	uint32 generation;

	if (rows.count == 0 && last != 0)
		AddRow(keys, &rows, last);
	for (int64 i = 0; i < changes.come; i++)
		if (InWindow(keys, changes.come_in[i]))
			AddRow(keys, &rows, changes.come_in[i]);
	for (int64 i = 0; i < changes.gone; i++)
		if (InWindow(keys, changes.gone_in[i]))
			RemoveRow(&rows, changes.gone_in[i]);
	generation = NewestOf(&rows);
	if (!InWindow(keys, generation))
		generation = 0;
	/* A row that has gone may have a key yet that has expired: it makes a late row a duplicate. */
	if (generation < last || (generation == 0 && changes.gone > 0))
		(void) EraseFromReplacement(keys->filter, hash);
	if (generation != 0 && generation != last)
		PutTimedKey(keys, hash, generation, generation < last ? 0 : last);
	KeepRows(keys, &rows);
}

/* ---- sets -------------------------------------------------------------------------------- */

/* Adds a key. Returns false if the filter seems to have it. */
static bool
AddKey(RebuiltKeys *keys, uint64 hash)
{
	if (LiveTestAndAdd(keys->filter, hash, 0) != LiveAnswer::New)
		return false;
	CountLive(keys->filter, LiveCounter::New, 1);
	return true;
}

static bool
ApplyToSet(RebuiltKeys *keys, uint64 hash, const KeyChanges &changes)
{
	RowsOfHash known = KnownRows(keys, hash);
	/* A deleted row was counted. Without a count, it is not known whether there was one. */
	const int64 had = Max(CountRows(&known), changes.gone);
	int64 rows = had + changes.come - changes.gone;

	if (had == 0 && !AddKey(keys, hash))
		rows++;
	known.count = 1;
	known.one.rows = rows;
	KeepRows(keys, &known);
	if (rows == 0 && !keys->exact)
		(void) EraseFromReplacement(keys->filter, hash);
	return rows > 1 && changes.come > 0;
}

/* ---- both kinds -------------------------------------------------------------------------- */

void
NoteRepeatedRows(RebuiltKeys *keys, uint64 hash, uint32 before, uint32 generation)
{
	RowsOfHash rows = KnownRows(keys, hash);

	/* An exact guard searches its table for the rows. */
	if (IsTimed(keys) && keys->exact)
		return;
	if (rows.count == 0)
		AddRow(keys, &rows, before);
	AddRow(keys, &rows, generation);
	KeepRows(keys, &rows);
}

bool
ApplyKeyChanges(RebuiltKeys *keys, uint64 hash, const KeyChanges &changes)
{
	if (!IsTimed(keys))
		return ApplyToSet(keys, hash, changes);
	if (keys->exact)
		return ApplyExactTimes(keys, hash, changes);
	ApplyTimes(keys, hash, changes);
	return false;
}
