/*
 * dedup_snapshot and dedup_load: a live filter as a value, and a value's keys into a live
 * filter.
 */
#include "core/live_method.hpp"
#include "live/call.hpp"
#include "live/page_type.hpp"
#include "live/store/store.hpp"
#include "value/datum.hpp"

extern "C" {
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
}

using namespace dedup::live;

/* The newest generation in what a snapshot sees of a page. */
static uint32
NewestOf(const DumpedPage &page)
{
	uint32 newest = page.clock;

	for (uint32 i = 0; i < page.count; i++)
		newest = Max(newest, page.entries[i].generation);
	return newest;
}

/*
 * dedup_snapshot(name) returns dedup_filter
 *
 * A value of method fifo with the keys that the current snapshot sees as committed, and
 * this transaction's own.
 */
DEDUP_FUNCTION(dedup_live_snapshot)
{
	LiveFilter filter;
	const dedup::Shape *shape;
	const LineLayout *layout;
	struct varlena *value;
	uint8_t *image;
	uint32 clock = 0;
	MemoryContext context;
	MemoryContext old;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	SettleLandedRows();
	if (!OpenNamed(fcinfo, "dedup_snapshot()", &filter))
		PG_RETURN_NULL();
	RefuseGrowing(filter, "take a snapshot of");
	shape = &filter.parameters.shape;
	layout = &filter.parameters.geometry.layout;
	value = AllocateFlat(dedup::kHeaderBytes + shape->bytes);
	image = (uint8_t *) VARDATA(value);
	context = AllocSetContextCreateInternal(CurrentMemoryContext, "dedup_snapshot",
											ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	/* Pages of a timed filter have clocks of their own; the value has the newest. */
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

				if (layout->timed && !Alive(entry.generation, clock))
					continue;
				AddToLine(lines + entry.line * dedup::kLineBytes, *layout, entry.rest,
						  entry.generation, clock);
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
	CloseLive(filter);
	PG_RETURN_POINTER(value);
}

/* Loads exact hashes, as one batch. Returns how many were new. */
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

	RefuseGrowing(filter, "load a snapshot into");
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

/* What a value is, in words that compare with those of a live filter. */
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

/*
 * dedup_load(name, filter dedup_filter) returns bigint
 *
 * Adds the keys of a value: those of a snapshot to an empty filter of the same
 * parameters, the hashes of an exact filter to any with its seed and hash. Returns how many keys
 * were loaded. They are this transaction's until it commits.
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
		(!source.header.exact() && !(source.header.shape == filter.parameters.shape)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot load a filter of another shape into live filter \"%s\"",
						LiveName(filter)),
				 errdetail("The live filter is for " UINT64_FORMAT
						   " keys at a rate of %g with %s; the value is for %s.",
						   filter.parameters.shape.keys, filter.parameters.shape.fpr,
						   DescribeShape(filter.parameters.shape), DescribeValue(source)),
				 errhint(
					 "Snapshots can be loaded into filters made with the same parameters and seed; "
					 "filters that are still exact into any with the same seed and hash.")));
	if (source.header.exact())
	{
		keys = LoadHashes(filter, source);
		if (keys > 0)
			CountLive(filter, LiveCounter::New, keys);
	}
	else
		keys = LoadLines(filter, source);
	CloseLive(filter);
	PG_RETURN_INT64(keys);
}
