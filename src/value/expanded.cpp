/* Expanded filters, and functions that add keys to values. */
#include "value/expanded.hpp"

#include "value/fill.hpp"
#include "value/sound.hpp"

using dedup::Header;
using dedup::Outcome;

/*
 * Up to this many keys of a call are added to an expanded object in place. Interrupts are held off
 * meanwhile, so that an object has all keys of a call or none.
 */
static constexpr size_t KEYS_IN_PLACE = 1024;

/* Results of dedup_add() up to this size are flat, because a copy of them is cheap. */
static constexpr size_t FLAT_RESULT_BYTES = 1024;

/* ---- objects -------------------------------------------------------------- */

namespace
{

constexpr uint32 EXPANDED_MAGIC = 0x53444446;

/*
 * The image is canonical, with or without its checksum, or, after keys were added, a working one.
 * The object always holds a whole filter, because it survives errors: PL/pgSQL keeps a variable
 * when a block with an EXCEPTION clause catches an error. So a newly built value replaces the old
 * one only when it is complete, and interrupts are held off while an image is changed in place.
 */
struct ExpandedFilter
{
	ExpandedObjectHeader hdr;
	uint32 magic;
	struct varlena *value; /* flat */
	/* of the value alone; NULL: the value is in the object's context */
	MemoryContext value_context;
};

} /* namespace */

static Size ExpandedFlatSize(ExpandedObjectHeader *header);
static void ExpandedFlatten(ExpandedObjectHeader *header, void *result, Size size);

static const ExpandedObjectMethods expanded_methods = {ExpandedFlatSize, ExpandedFlatten};

static Size
ExpandedFlatSize(ExpandedObjectHeader *header)
{
	Header filter;

	CheckFlat(((ExpandedFilter *) header)->value, &filter);
	return VARHDRSZ + dedup::CanonicalBytes(filter);
}

static void
ExpandedFlatten(ExpandedObjectHeader *header, void *result, Size size)
{
	struct varlena *value = ((ExpandedFilter *) header)->value;
	Header filter;

	CheckFlat(value, &filter);
	Assert(size == VARHDRSZ + dedup::CanonicalBytes(filter));
	SET_VARSIZE(result, size);
	dedup::WriteCanonical((uint8_t *) VARDATA(value), filter, (uint8_t *) VARDATA(result));
	AssertCanonical((struct varlena *) result);
}

/* Returns the expanded filter of a datum, or NULL. */
static ExpandedFilter *
GetExpanded(Datum datum)
{
	ExpandedFilter *object;

	if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(datum)))
		return NULL;
	object = (ExpandedFilter *) DatumGetEOHP(datum);
	return object->hdr.eoh_methods == &expanded_methods && object->magic == EXPANDED_MAGIC ? object
																						   : NULL;
}

struct varlena *
ValueOfExpanded(Datum datum)
{
	ExpandedFilter *object = GetExpanded(datum);

	return object == NULL ? NULL : object->value;
}

static ExpandedFilter *
MakeExpanded(void)
{
	MemoryContext context =
		AllocSetContextCreateInternal(CurrentMemoryContext, "expanded dedup_filter",
									  ALLOCSET_START_SMALL_SIZES);
	ExpandedFilter *object =
		(ExpandedFilter *) MemoryContextAllocZero(context, sizeof(ExpandedFilter));

	EOH_init_header(&object->hdr, &expanded_methods, context);
	object->magic = EXPANDED_MAGIC;
	return object;
}

/* ---- adding --------------------------------------------------------------- */

/*
 * Returns a working value, in the current context, with the filter's keys and `n` more.
 * `first_is_new`: the filter has no room for the first of these keys, which is new.
 */
static struct varlena *
FillCopy(const FilterRef &filter, bool first_is_new, const uint64 *hashes, size_t n, uint64 limit)
{
	FilterState state = {(struct varlena *) (filter.image - VARHDRSZ), filter.header};

	MakeStep(&state, first_is_new ? dedup::NextStep(filter.header, limit)
								  : dedup::FirstStep(filter.header, limit));

	/*
	 * The key is not tested first, because the larger body or the method may report it by a false
	 * positive.
	 */
	if (first_is_new && !dedup::AddNew(state.image(), &state.header, hashes[0]))
		ReportFull(state.header);
	for (size_t i = first_is_new; i < n; i++)
	{
		FillOwned(&state, hashes[i], limit);
		if (i % dedup::kKeysBetweenPauses == dedup::kKeysBetweenPauses - 1)
			CHECK_FOR_INTERRUPTS();
	}
	return state.value;
}

/*
 * Returns whether a full image may have to grow for some of these keys, at most KEYS_IN_PLACE.
 * Known keys do not count: otherwise they would cause a copy of the image at each call.
 */
static bool
HasToGrowFor(const uint8_t *image, const Header &header, const uint64_t *hashes, size_t n)
{
	uint8_t seen[KEYS_IN_PLACE];
	uint64 more = 0;

	if (!dedup::HasToGrow(header, n))
		return false;
	dedup::ContainsAll(image, header, hashes, n, seen);
	for (size_t i = 0; i < n; i++)
		more += seen[i] == 0;
	return dedup::HasToGrow(header, more);
}

/*
 * Adds keys to the object's image in place. Returns false, with nothing changed, if they may not
 * fit.
 */
static bool
AddToImage(ExpandedFilter *object, Header *header, const uint64 *hashes, size_t n)
{
	uint8_t *image = (uint8_t *) VARDATA(object->value);
	bool exact = header->exact();
	Outcome outcome = Outcome::kNew;

	if (header->canonical() || n > KEYS_IN_PLACE)
		return false;
	/* Only a call with a single key may find that there is no room, or that the filter is full. */
	if (n > 1 && (exact ? header->hashes() + n > header->room()
						: header->method->can_be_full(header->shape) ||
							  HasToGrowFor(image, *header, hashes, n)))
		return false;
	if (dedup::WouldRewrite(image, *header, hashes[0]))
		return false;
	HoldInterrupts();
	for (size_t i = 0; i < n; i++)
		outcome = dedup::TestAndAdd(image, header, hashes[i]);
	ResumeInterrupts();
	if (outcome == Outcome::kFull)
		ReportFull(*header);
	AssertAgrees(object->value, *header);
	return outcome != Outcome::kNoRoom;
}

/* Adds keys to an expanded object that may be written to. Adds all of them or, on error, none. */
static Datum
AddInPlace(ExpandedFilter *object, const uint64 *hashes, size_t n, uint64 limit)
{
	MemoryContext context;
	MemoryContext old;
	FilterRef before = ReadFlat(object->value);
	bool first_is_new;
	struct varlena *value;

	if (AddToImage(object, &before.header, hashes, n))
		return EOHPGetRWDatum(&object->hdr);

	/* A working image has no room for a single key only if that key is new. */
	first_is_new = n == 1 && !before.header.canonical();

	/*
	 * The context belongs to the caller's until the value is complete, so that an error drops it.
	 */
	context = AllocSetContextCreateInternal(CurrentMemoryContext, "expanded dedup_filter value",
											ALLOCSET_START_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	value = FillCopy(before, first_is_new, hashes, n, limit);
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, object->hdr.eoh_context);
	if (object->value_context != NULL)
		MemoryContextDelete(object->value_context);
	else
		pfree(object->value);
	object->value = value;
	object->value_context = context;
	return EOHPGetRWDatum(&object->hdr);
}

Datum
AddToValue(Datum datum, const FilterRef &filter, uint64 hash)
{
	return AddAllToValue(datum, filter, &hash, 1);
}

/* Returns a value with more keys. It is changed in place if possible. */
static Datum
AddHashes(Datum datum, const FilterRef &filter, const uint64 *hashes, size_t n)
{
	ExpandedFilter *object;
	MemoryContext old;
	size_t room = dedup::AddToBytes(filter.header);
	uint64 limit = filter.header.exact_limit();

	if (VARATT_IS_EXTERNAL_EXPANDED_RW(DatumGetPointer(datum)) &&
		(object = GetExpanded(datum)) != NULL)
		return AddInPlace(object, hashes, n, limit);

	if (n == 1 && filter.header.canonical())
	{
		struct varlena *value;
		size_t size;

		object = room > FLAT_RESULT_BYTES ? MakeExpanded() : NULL;
		old =
			object != NULL ? MemoryContextSwitchTo(object->hdr.eoh_context) : CurrentMemoryContext;
		value = AllocateFlat(room);
		size = dedup::AddTo(filter.image, filter.header, hashes[0], (uint8_t *) VARDATA(value));
		if (size == 0)
			ReportFull(filter.header);
		SET_VARSIZE(value, VARHDRSZ + size);
		AssertUnsealed(value);
		MemoryContextSwitchTo(old);
		if (object == NULL)
		{
			dedup::Seal((uint8_t *) VARDATA(value), size);
			return PointerGetDatum(value);
		}
		object->value = value;
		return EOHPGetRWDatum(&object->hdr);
	}

	/* There are many keys, or the image is a working one. */
	object = MakeExpanded();
	old = MemoryContextSwitchTo(object->hdr.eoh_context);
	object->value = FillCopy(filter, false, hashes, n, limit);
	MemoryContextSwitchTo(old);
	return EOHPGetRWDatum(&object->hdr);
}

Datum
AddAllToValue(Datum datum, const FilterRef &filter, const uint64 *hashes, size_t n)
{
	const dedup::Growth *growth = filter.header.method->growth;
	const uint64 before = filter.header.counters.count;
	const Datum result = AddHashes(datum, filter, hashes, n);

	/*
	 * Warns once: at the key by which a growing filter has more keys than it can hold at its rate.
	 */
	if (growth != NULL)
	{
		const uint64 most = growth->most_keys(filter.header.shape);

		if (unlikely(before <= most && before + n > most))
		{
			struct varlena *value = ValueOfExpanded(result);

			WarnIfOverfull(ReadFlat(value != NULL ? value
												  : (struct varlena *) DatumGetPointer(result)),
						   "dedup_add");
		}
	}
	return result;
}
