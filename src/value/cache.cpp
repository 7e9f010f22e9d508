/*
 * The filter that a call site keeps, so that a stored filter is fetched only once when it is
 * queried for many rows.
 */
#include "value/cache.hpp"

#include "pg/compat_storage.hpp"
#include "value/sound.hpp"

extern "C" {
#include "access/detoast.h"
#include "storage/proc.h"
#include "utils/snapmgr.h"
}

using dedup::ExactOrder;
using dedup::Form;
using dedup::Header;
using dedup::Step;

namespace
{

/*
 * A fetched value may be reused for the same TOAST pointer, in the same transaction and snapshot.
 * The number of a TOAST value can be used again after its row was deleted and vacuumed; the
 * snapshot prevents that.
 */
struct FetchKey
{
	struct varatt_external pointer;
	LocalTransactionId transaction;
	CommandId command;
	TransactionId xmin;
	TransactionId xmax;
	uint64 completions;
};

} /* namespace */

struct FilterCache
{
	MemoryContext context; /* holds the filter; reset when it changes */
	bool fetched;          /* valid by `key`, else by `head` */
	FetchKey key;
	uint8_t head[dedup::kHeaderBytes];
	FilterRef filter; /* image is NULL if there is no filter */
};

bool
IsLongList(const Header &header)
{
	return header.form == Form::kExact && header.order() != ExactOrder::kSorted &&
		   header.hashes() > SEARCHED_HASHES;
}

FilterRef
CopyIndexed(const FilterRef &filter)
{
	const Step step = {Form::kWorkingExact, filter.header.hashes()};
	struct varlena *copy = AllocateFlat(dedup::StepBytes(filter.header, step));
	FilterRef indexed;

	/* The copy is a longer list of the same hashes, so it cannot be full. */
	(void) dedup::MakeWorking(filter.image, filter.header, step, (uint8_t *) VARDATA(copy));
	indexed = ReadFlat(copy);
	AssertSound(copy, indexed.header);
	return indexed;
}

static bool
MakeFetchKey(Datum datum, FetchKey *key)
{
	Snapshot snapshot;

	if (!ActiveSnapshotSet())
		return false;
	snapshot = GetActiveSnapshot();
	memset(key, 0, sizeof *key); /* zeroed, because keys are compared as bytes */
	VARATT_EXTERNAL_GET_POINTER(key->pointer, DatumGetPointer(datum));
	key->transaction = LOCAL_XID;
	key->command = snapshot->curcid;
	key->xmin = snapshot->xmin;
	key->xmax = snapshot->xmax;
	key->completions = ENDED_BEFORE(snapshot);
	return true;
}

/* Puts a verified value into the cache, with an index if it needs one. */
static void
FillCache(FilterCache *cache, struct varlena *value, const Header &header)
{
	const uint8_t *image = (const uint8_t *) VARDATA(value);
	MemoryContext old = MemoryContextSwitchTo(cache->context);

	/* Set last: an error before this point leaves the cache empty, but never half filled. */
	cache->filter = IsLongList(header) ? CopyIndexed({image, header})
									   : ReadFlat(CopyFlat(image, VARSIZE(value) - VARHDRSZ));
	MemoryContextSwitchTo(old);
}

FilterRef
GetFilterCached(FunctionCallInfo fcinfo, Datum datum, FilterCache **cache_slot)
{
	FilterCache *cache = *cache_slot;
	struct varlena *pointer = (struct varlena *) DatumGetPointer(datum);
	struct varlena *value = NULL;
	FetchKey key;
	bool fetched = VARATT_IS_EXTERNAL_ONDISK(pointer) && MakeFetchKey(datum, &key);
	const uint8_t *head = NULL;

	if (!fetched)
	{
		FilterRef filter = GetFilter(datum);

		/*
		 * A value in memory is read where it is, unless it is a long list of hashes. It is
		 * recognized by its header, which holds the checksum.
		 */
		if (!IsLongList(filter.header) || filter.header.checksum == 0)
			return filter;
		head = filter.image;
		value = (struct varlena *) (head - VARHDRSZ);
	}

	if (cache == NULL)
	{
		cache =
			(FilterCache *) MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(FilterCache));
		cache->context = AllocSetContextCreateInternal(fcinfo->flinfo->fn_mcxt,
													   "dedup_filter cache", ALLOCSET_SMALL_SIZES);
		*cache_slot = cache;
	}
	if (cache->filter.image == NULL || cache->fetched != fetched ||
		(fetched ? memcmp(&cache->key, &key, sizeof key)
				 : memcmp(cache->head, head, sizeof cache->head)) != 0)
	{
		Header header;

		cache->filter.image = NULL;
		MemoryContextReset(cache->context);
		if (fetched)
			value = PG_DETOAST_DATUM(datum);
		CheckStored(value, &header);
		cache->fetched = fetched;
		if (fetched)
			cache->key = key;
		else
			memcpy(cache->head, head, sizeof cache->head);
		FillCache(cache, value, header);
		if (fetched)
			pfree(value);
	}
	return cache->filter;
}
