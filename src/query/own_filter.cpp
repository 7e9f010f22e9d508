/* A filter that a query fills for its own use. */
#include "query/own_filter.hpp"

#include "value/sound.hpp"

extern "C" {
#include "executor/nodeHash.h"
}

using dedup::Shape;

/* The rate without a prototype. */
static constexpr double DEFAULT_FPR = 0.001;

Shape
DefaultShape(void)
{
	Size memory = get_hash_memory_limit();
	dedup::Request request;
	Shape shape;

	request.memory = Min(memory, dedup::kMaxBodyBytes);
	request.fpr = DEFAULT_FPR;
	if (dedup::PlanFilter(dedup::WindowMethod(), request, 0, &shape) != dedup::PlanStatus::kOk)
		elog(ERROR, "could not size a window of %zu bytes", memory);
	return shape;
}

void
StartDefaultFilter(OwnFilter *own, const Shape &shape)
{
	own->keys = 0;
	own->limit = shape.bytes / 24;
	StartFilling(&own->state, MakeEmptyFilter(shape), own->limit);
}

void
StartPrototypeFilter(OwnFilter *own, const Shape &shape)
{
	struct varlena *empty = MakeEmptyFilter(shape);

	own->keys = 0;
	CheckFlat(empty, &own->state.header);
	RequireMembership(*own->state.header.method);
	own->limit = LimitOf(own->state.header, HashLimit::Value);
	StartFilling(&own->state, empty, own->limit);
}

bool
IsNewToOwn(OwnFilter *own, uint64 hash)
{
	bool is_new = FillOwned(&own->state, hash, own->limit);

	own->keys += is_new;
	return is_new;
}

void
TestAndAddToOwn(OwnFilter *own, const uint64 *hashes, int n, uint8 *seen)
{
	int done = 0;

	while (done < n)
	{
		FilterState *state = &own->state;
		int tested = (int) dedup::TestAndAddAll(state->image(), &state->header, hashes + done,
												(size_t) (n - done), seen + done);

		AssertAgrees(state->value, state->header);
		for (int i = done; i < done + tested; i++)
			own->keys += !seen[i];
		done += tested;
		if (done < n)
		{
			seen[done] = !IsNewToOwn(own, hashes[done]);
			done++;
		}
	}
}

/* Returns whether the filter has too many keys after `more` new keys are added. */
static bool
IsOverfullWith(const OwnFilter *own, uint64 more)
{
	const dedup::Header &header = own->state.header;
	const dedup::Growth *growth = header.method->growth;

	return !header.method->forgets(header.shape) &&
		   own->keys + more >
			   (growth != NULL ? growth->most_keys(header.shape) : header.shape.keys);
}

bool
OwnMaySpeak(const OwnFilter *own, bool warned, int n)
{
	const dedup::Header &header = own->state.header;

	return header.method->can_be_full(header.shape) || (!warned && IsOverfullWith(own, (uint64) n));
}

void
WarnOwnOverfull(const OwnFilter *own, bool *warned, const char *function)
{
	const dedup::Header &header = own->state.header;

	if (*warned || header.exact() || !IsOverfullWith(own, 0))
		return;
	*warned = true;
	if (header.method->growth != NULL)
	{
		ereport(
			WARNING,
			(errmsg("the filter of %s cannot grow further", function),
			 errdetail(
				 "It has reached %d MB, which keep a false-positive rate of %g up to " UINT64_FORMAT
				 " keys, and now holds " UINT64_FORMAT
				 ", at a rate of %.3g that rises with every further key.",
				 (int) (dedup::kMaxBodyBytes >> 20), header.shape.fpr,
				 header.method->growth->most_keys(header.shape), own->keys,
				 header.method->expected_fpr(header.shape, (double) own->keys)),
			 errhint("Give dedup_filter() the number of keys: such a filter holds more keys in "
					 "as many bytes. Or give dedup_window(), which forgets old keys and keeps "
					 "its rate.")));
		return;
	}
	ereport(WARNING, (errmsg("the filter of %s is overfull", function),
					  errdetail("It was sized for " UINT64_FORMAT
								" keys at a false-positive rate of %g and now holds " UINT64_FORMAT
								", at a rate of %.3g that rises with every further key.",
								header.shape.keys, header.shape.fpr, own->keys,
								header.method->expected_fpr(header.shape, (double) own->keys)),
					  errhint("Give dedup_filter() without a number of keys, which grows, or "
							  "dedup_window(), which forgets old keys. Both keep their rate.")));
}
