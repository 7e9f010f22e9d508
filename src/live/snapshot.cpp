/*
 * dedup_snapshot and dedup_load: convert a live filter to a value, and load a value's keys into a
 * live filter.
 */
#include <algorithm>

#include "core/live_method.hpp"
#include "core/live_value.hpp"
#include "live/call.hpp"
#include "live/page_type.hpp"
#include "live/store/store.hpp"
#include "value/datum.hpp"

extern "C" {
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
}

using namespace dedup::live;

/* Returns the newest generation in the part of a page that a snapshot sees. */
static uint32
NewestOf(const DumpedPage &page)
{
	uint32 newest = page.clock;

	for (uint32 i = 0; i < page.count; i++)
		newest = Max(newest, page.entries[i].generation);
	return newest;
}

/*
 * Adds a key that is not in a line yet to its line in a value. A key can have several entries, for
 * example in the filter of an exact guard, whose rows come back while an older snapshot exists. As
 * in the lines of the filter, they take one slot. A full line drops its oldest key.
 */
static void
AddEntryToLine(const LiveFilter &filter, uint8_t *lines, const DumpedEntry &entry, uint32 clock)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	uint8_t *line = lines + entry.line * dedup::kLineBytes;

	if (layout.timed)
		(void) AddSightToLine(line, layout, entry.rest, entry.generation, clock);
	else if (filter.parameters.geometry.forgets ||
			 AddOnceToLine(line, layout, entry.rest) == Once::kFull)
		(void) AddToLine(line, layout, entry.rest, entry.generation, clock);
}

/* Makes a value of method fifo with the lines of a filter that does not grow. */
static struct varlena *
SnapshotOfLines(const LiveFilter &filter)
{
	const dedup::Shape *shape = &filter.parameters.shape;
	const LineLayout *layout = &filter.parameters.geometry.layout;
	struct varlena *value = AllocateFlat(dedup::kHeaderBytes + shape->bytes);
	uint8_t *image = (uint8_t *) VARDATA(value);
	uint32 clock = 0;
	MemoryContext context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_snapshot",
														  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	/* Each page of a timed filter has its own clock; the value has the newest of them. */
	for (bool again = true; again;)
	{
		again = false;
		dedup::ClearInPieces(image + dedup::kHeaderBytes, shape->bytes);
		for (BlockNumber block = 0; block < filter.parameters.geometry.pages && !again; block++)
		{
			uint8_t *lines =
				image + dedup::kHeaderBytes + (size_t) block * kLines * dedup::kLineBytes;
			DumpedPage page;

			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(context);
			if (!ReadLivePage(filter, GetActiveSnapshot(), block, &page))
				continue;
			if (NewestOf(page) > clock)
			{
				clock = NewestOf(page);
				again = block > 0;
			}
			if (page.lines != NULL)
				memcpy(lines, page.lines, kLines * dedup::kLineBytes);
			if (layout->timed && page.clock != 0)
				for (unsigned line = 0; line < kLines; line++)
					ExpireLine(lines + line * dedup::kLineBytes, *layout, page.clock, clock);
			for (uint32 i = 0; i < page.count; i++)
			{
				const DumpedEntry &entry = page.entries[i];

				if (!layout->timed || Alive(entry.generation, clock))
					AddEntryToLine(filter, lines, entry, clock);
			}
		}
		if (again)
			for (BlockNumber block = 0; block < filter.parameters.geometry.pages; block++)
			{
				DumpedPage page;

				CHECK_FOR_INTERRUPTS();
				MemoryContextReset(context);
				if (ReadLivePage(filter, GetActiveSnapshot(), block, &page))
					clock = Max(clock, NewestOf(page));
			}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	dedup::WriteHeader(image, *shape, dedup::Form::kFull, dedup::Counters{0, clock});
	dedup::Seal(image, dedup::kHeaderBytes + shape->bytes);
	return value;
}

namespace
{

/* The state of taking a snapshot of a filter that grows. */
struct GrownSnapshot
{
	const LiveFilter *filter;
	MemoryContext context; /* of the current page */
	uint32 now;
	uint8_t *image; /* of the value; NULL: keys are only counted */
	dedup::Shape shape;
	dedup::Counters counters;
	uint64 keys;
};

} /* namespace */

static void
AddKey(GrownSnapshot *snapshot, uint64 bits, unsigned line, uint32 generation)
{
	if (snapshot->filter->parameters.ttl != 0 && !Alive(generation, snapshot->now))
		return;
	snapshot->keys++;
	if (snapshot->image != NULL)
		AddToValue(snapshot->shape, &snapshot->counters, snapshot->image + dedup::kHeaderBytes,
				   {bits, line});
}

/*
 * Adds the keys of a page that had this level when the walk began, and of the pages that have split
 * off it since.
 */
static void
AddPages(GrownSnapshot *snapshot, uint32 number, unsigned level)
{
	const LiveFilter &filter = *snapshot->filter;
	LineLayout layout = filter.parameters.geometry.layout;
	MemoryContext old;
	DumpedPage page;

	CHECK_FOR_INTERRUPTS();
	MemoryContextReset(snapshot->context);
	old = MemoryContextSwitchTo(snapshot->context);
	if (ReadLivePage(filter, GetActiveSnapshot(), number, &page))
	{
		layout.level = page.level;
		for (unsigned line = 0; line < kLines && page.lines != NULL; line++)
			ForEachInLine(page.lines + line * dedup::kLineBytes, layout, number, page.clock,
						  [&](uint64 bits, uint32 generation) {
							  AddKey(snapshot, bits, line, generation);
						  });
		for (uint32 i = 0; i < page.count; i++)
		{
			const DumpedEntry &entry = page.entries[i];

			AddKey(snapshot, entry.rest >> (kRestBits - layout.widest_fingerprint_bits()),
				   entry.line, entry.generation);
		}
	}
	MemoryContextSwitchTo(old);
	for (; level < page.level; level++)
		AddPages(snapshot, UpperOf(number, level), level + 1);
}

static void
AddAllPages(GrownSnapshot *snapshot)
{
	const uint32 pages = CountPages(*snapshot->filter);

	for (uint32 number = 0; number < pages; number++)
		AddPages(snapshot, number, LevelOfPage(number, pages));
}

/*
 * Makes a value of method infini with the keys of a filter that grows. In a window of time these
 * are the keys of the window. The value has exactly the bits of each key that the filter has. The
 * keys are counted first, so that the value has the right size.
 */
static struct varlena *
SnapshotOfGrown(const LiveFilter &filter)
{
	GrownSnapshot snapshot = {};
	struct varlena *value;
	uint32 bytes;

	snapshot.filter = &filter;
	snapshot.context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_snapshot",
													 ALLOCSET_DEFAULT_SIZES);
	if (filter.parameters.ttl != 0)
		snapshot.now = Max(LiveGenerationNow(filter), LiveClock(filter));
	AddAllPages(&snapshot);
	snapshot.shape = ValueShape(filter.parameters.shape,
								filter.parameters.geometry.layout.widest_fingerprint_bits());
	if (snapshot.keys > MostKeysOfValue(snapshot.shape))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("snapshot of live filter \"%s\" is too large", LiveName(filter)),
				 errdetail("It holds " UINT64_FORMAT " keys; a value has room for " UINT64_FORMAT
						   " of them in its %d MB.",
						   snapshot.keys, MostKeysOfValue(snapshot.shape),
						   (int) (dedup::kMaxBodyBytes >> 20)),
				 errhint("Copy the filter with COPY or pg_dump.")));
	snapshot.counters = EmptyValue(snapshot.shape, snapshot.keys, &bytes);
	value = AllocateFlat(dedup::kHeaderBytes + bytes);
	snapshot.image = (uint8_t *) VARDATA(value);
	dedup::ClearInPieces(snapshot.image + dedup::kHeaderBytes, bytes);
	AddAllPages(&snapshot);
	MemoryContextDelete(snapshot.context);
	dedup::WriteHeader(snapshot.image, snapshot.shape, dedup::Form::kFull, snapshot.counters);
	dedup::Seal(snapshot.image, dedup::kHeaderBytes + bytes);
	return value;
}

/*
 * dedup_snapshot(name) returns dedup_filter
 *
 * Returns a value with the keys that are committed for the current snapshot, and this transaction's
 * own keys. It is of method fifo or, if the filter grows, of one that grows as well.
 */
DEDUP_FUNCTION(dedup_live_snapshot)
{
	LiveFilter filter;
	struct varlena *value;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	SettleLandedRows();
	if (!OpenNamed(fcinfo, "dedup_snapshot()", &filter))
		PG_RETURN_NULL();
	value = Grows(filter) ? SnapshotOfGrown(filter) : SnapshotOfLines(filter);
	CloseLive(filter);
	PG_RETURN_POINTER(value);
}

/* Loads exact hashes as one batch. Returns how many were new. */
static int64
LoadHashes(const LiveFilter &filter, const FilterRef &source)
{
	const size_t n = (size_t) source.header.hashes();
	uint64 *hashes = (uint64 *) palloc_extended(sizeof(uint64) * (n + 1), MCXT_ALLOC_HUGE);
	LiveAnswer *answers =
		(LiveAnswer *) palloc_extended(sizeof(LiveAnswer) * (n + 1), MCXT_ALLOC_HUGE);
	size_t at = 0;
	int64 fresh = 0;

	dedup::ForEachHash(source.image, source.header, [&](uint64_t hash) {
		if (at < n)
			hashes[at++] = hash;
	});
	LiveTestAndAddBatch(filter, hashes, at, LiveGenerationNow(filter), answers);
	dedup::ForUnits(at, 8 * sizeof(LiveAnswer), [&](uint64_t from, uint64_t to) {
		for (size_t i = from; i < to; i++)
			fresh += answers[i] == LiveAnswer::New;
	});
	return fresh;
}

/* Loads the lines of a snapshot. Returns how many keys they hold. */
static int64
LoadLines(const LiveFilter &filter, const FilterRef &source)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	const uint8_t *body = source.image + source.header.body_at();
	int64 keys = 0;

	LiveRequireEmpty(filter);
	for (uint32 block = 0; block < filter.parameters.geometry.pages; block++)
	{
		const uint8_t *lines = body + (size_t) block * kLines * dedup::kLineBytes;
		int64 here = 0;

		CHECK_FOR_INTERRUPTS();
		for (unsigned line = 0; line < kLines; line++)
		{
			if (!IsValidLine(lines + line * dedup::kLineBytes, layout))
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED), errmsg("dedup_filter value is corrupt"),
						 errdetail("A line of fingerprints is not valid.")));
			here += KeysInLine(lines + line * dedup::kLineBytes, layout);
		}
		if (here == 0)
			continue;
		LiveLoadPage(filter, {false, block, source.header.counters.state, 0, 0, NULL, lines});
		keys += here;
	}
	return keys;
}

/* ---- into filters that grow ---------------------------------------------------------- */

namespace
{

/* The keys of a value, as bits << kLineBitsInKey | line, in the order of pages. */
struct LoadedKeys
{
	uint64 *keys;
	uint64 count;
	uint64 room;
	bool is_short;
	bool is_bad;
};

constexpr unsigned kLineBitsInKey = 7;

} /* namespace */

/* Reads the keys of a value. Without room for keys, counts how many there may be. */
static void
ReadKeys(const LiveFilter &filter, const FilterRef &source, LoadedKeys *loaded)
{
	const dedup::Header &header = source.header;
	const unsigned bits = filter.parameters.geometry.layout.widest_fingerprint_bits();
	const unsigned needed = NeededBits(header.shape, bits);

	loaded->count = 0;
	ForEachPrefix(header.shape, header.counters, source.image + header.body_at(),
				  [&](unsigned p, uint64 prefix) {
					  if (p < needed)
					  {
						  loaded->is_short = true;
						  return;
					  }
					  loaded->is_bad =
						  !FromPrefix(header.shape, bits, p, prefix,
									  [&](const LongFingerprint &key) {
										  if (loaded->count < loaded->room)
											  loaded->keys[loaded->count] =
												  key.bits << kLineBitsInKey | key.line;
										  loaded->count++;
									  }) ||
						  loaded->is_bad;
				  });
}

/* Returns the level of all pages for this many keys: most of the lines have room then. */
static unsigned
LevelFor(const LiveFilter &filter, uint64 keys)
{
	const LineLayout &layout = filter.parameters.geometry.layout;
	const uint32 most = MostPages(layout, filter.parameters.shape.fpr);
	unsigned level = 0;

	while ((uint64) 2 << level <= most && keys > ((uint64) kLines * layout.usable() / 2) << level)
		level++;
	return level;
}

/* Loads the keys of one page, whose rests have the first bits in common. */
static void
LoadKeysOfPage(const LiveFilter &filter, const uint64 *keys, uint64 count, unsigned level,
			   uint32 generation)
{
	LineLayout layout = filter.parameters.geometry.layout;
	const unsigned left = kRestBits - layout.widest_fingerprint_bits();
	uint8_t *lines = (uint8_t *) palloc0(kLines * dedup::kLineBytes);
	uint64 *others = (uint64 *) palloc(sizeof(uint64) * (count + 1));
	uint32 other_count = 0;
	DumpedPage page = {};
	DumpedEntry *entries;

	layout.level = level;
	for (uint64 i = 0; i < count; i++)
	{
		uint8_t *line = lines + (keys[i] & dedup::LowMask(kLineBitsInKey)) * dedup::kLineBytes;
		const uint64 rest = keys[i] >> kLineBitsInKey << left;

		if (LineHolds(line, layout, rest, generation, generation))
			continue;
		if (IsFullLine(line, layout))
			others[other_count++] = keys[i];
		else
			(void) AddToLine(line, layout, rest, generation, generation);
	}
	/*
	 * An entry has more bits than are known of the key, so there is one entry for each possible
	 * value.
	 */
	entries =
		(DumpedEntry *) palloc_extended(sizeof(DumpedEntry) * (((Size) other_count << left) + 1),
										MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < other_count; i++)
		for (uint64 low = 0; low < (uint64) 1 << left; low++)
			entries[page.count++] = {(uint32) (others[i] & dedup::LowMask(kLineBitsInKey)),
									 generation, others[i] >> kLineBitsInKey << left | low};
	page.block = (uint32) (PageBits(keys[0] >> kLineBitsInKey << left) & dedup::LowMask(level));
	page.level = level;
	page.pages = (uint32) 1 << level;
	page.clock = generation;
	page.entries = entries;
	page.lines = lines;
	LiveLoadPage(filter, page);
}

/* Loads a value of the method of filters that grow. Returns how many keys it holds. */
static int64
LoadPrefixes(const LiveFilter &filter, const FilterRef &source)
{
	const unsigned bits = filter.parameters.geometry.layout.widest_fingerprint_bits();
	const uint32 generation = LiveGenerationNow(filter);
	MemoryContext context =
		AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_load", ALLOCSET_DEFAULT_SIZES);
	LoadedKeys loaded = {};
	unsigned level;

	LiveRequireEmpty(filter);
	ReadKeys(filter, source, &loaded);
	if (loaded.is_short)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fingerprints of the value are too short for live filter \"%s\"",
						LiveName(filter)),
				 errdetail("The live filter needs %u bits of the hash of each key.",
						   NeededBits(source.header.shape, bits)),
				 errhint("Snapshots of live filters that grow can be loaded into others with the "
						 "same seed and the same rate or a higher one.")));
	loaded.room = loaded.count;
	loaded.keys = (uint64 *) palloc_extended(sizeof(uint64) * (loaded.room + 1), MCXT_ALLOC_HUGE);
	ReadKeys(filter, source, &loaded);
	if (loaded.is_bad)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("dedup_filter value is corrupt"),
						errdetail("A fingerprint belongs to no line.")));
	std::sort(loaded.keys, loaded.keys + loaded.count);
	loaded.count = (uint64) (std::unique(loaded.keys, loaded.keys + loaded.count) - loaded.keys);
	level = LevelFor(filter, loaded.count);
	for (uint64 from = 0, to; from < loaded.count; from = to)
	{
		const unsigned shift = kLineBitsInKey + bits - level;
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		for (to = from + 1;
			 to < loaded.count && loaded.keys[to] >> shift == loaded.keys[from] >> shift; to++)
			;
		LoadKeysOfPage(filter, loaded.keys + from, to - from, level, generation);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	pfree(loaded.keys);
	MemoryContextDelete(context);
	return (int64) loaded.count;
}

/* Describes a value in words that can be compared with those for a live filter. */
static char *
DescribeValue(const FilterRef &value)
{
	const dedup::Shape &shape = value.header.shape;
	const char *rest =
		IsLiveMethod(*value.header.method)
			? DescribeShape(shape)
			: psprintf("seed " INT64_FORMAT ", hash %s and method %s", (int64) shape.seed,
					   dedup::kHashNames[shape.hash], value.header.method->name);

	if (value.header.method->growth != NULL)
		return psprintf("any number of keys at a rate of %g with %s", shape.fpr, rest);
	return psprintf(UINT64_FORMAT " keys at a rate of %g with %s", shape.keys, shape.fpr, rest);
}

/* Returns whether a value with the filter's seed and hash that is not exact can be loaded. */
static bool
FitsLive(const LiveFilter &filter, const FilterRef &source)
{
	return Grows(filter) ? CanBeLoaded(*source.header.method)
						 : source.header.shape == filter.parameters.shape;
}

/*
 * dedup_load(name, filter dedup_filter) returns bigint
 *
 * Adds the keys of a value. A snapshot can be loaded into an empty filter of the same parameters;
 * an exact filter into any live filter with its seed and hash. Returns how many keys were loaded.
 * They are this transaction's until it commits.
 */
DEDUP_FUNCTION(dedup_live_load)
{
	LiveCall *call = GetLiveCall(fcinfo);
	LiveFilter filter;
	FilterRef source;
	int64 keys;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	SettleLandedRows();
	filter = OpenLive(ResolveName(fcinfo, call), LiveUse::Add, GetUserId(), "dedup_load()");
	source = GetFilter(PG_GETARG_DATUM(1));
	RequireMembership(*source.header.method);
	if (dedup::KeySeedOf(source.header.shape) != filter.key_seed() ||
		(!source.header.exact() && !FitsLive(filter, source)))
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cannot load a filter of another shape into live filter \"%s\"",
					LiveName(filter)),
			 errdetail("The live filter is for %s at a rate of %g with %s; the value is for %s.",
					   Grows(filter)
						   ? "any number of keys"
						   : psprintf(UINT64_FORMAT " keys", filter.parameters.shape.keys),
					   filter.parameters.shape.fpr, DescribeShape(filter.parameters.shape),
					   DescribeValue(source)),
			 errhint("Snapshots can be loaded into filters made with the same parameters and seed; "
					 "filters that are still exact into any with the same seed and hash.")));
	if (source.header.exact())
	{
		keys = LoadHashes(filter, source);
		if (keys > 0)
			CountLive(filter, LiveCounter::New, keys);
	}
	else
		keys = Grows(filter) ? LoadPrefixes(filter, source) : LoadLines(filter, source);
	CloseLive(filter);
	PG_RETURN_INT64(keys);
}
