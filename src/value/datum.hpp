/*
 * dedup_filter values: how an image (core/image.hpp) travels as a Datum.
 *
 * Flat: a varlena whose data is the image. Canonical images are what is stored; a
 * checksum of 0 in one says that it was not computed yet, and flattening or output
 * computes it. Working images are aggregate states, and partial states on their
 * way from a worker.
 *
 * Expanded: an image in a memory context of its own, so that PL/pgSQL takes the
 * result of dedup_add() over without a copy, and from PostgreSQL 18 on lets it be
 * changed in place. Flattened wherever it is stored.
 */
#ifndef STREAMDEDUP_VALUE_DATUM_HPP
#define STREAMDEDUP_VALUE_DATUM_HPP

#include "pg/keys.hpp"

extern "C" {
#include "utils/expandeddatum.h"
}

/* A filter that may be read: an image whose header was checked. */
struct FilterRef
{
	const uint8_t *image;
	dedup::Header header;
};

/*
 * A filter in memory of its own that is being filled: a flat varlena with a
 * working image.
 */
struct FilterState
{
	struct varlena *value;
	dedup::Header header;

	uint8_t *image() const { return (uint8_t *) VARDATA(value); }
};

/* ---- errors --------------------------------------------------------------- */

/*
 * Reports what is wrong with bytes that should be a filter. `sqlstate` is that of
 * malformed bytes; a format or method of a later release is always 0A000. With an
 * ErrorSaveContext (PostgreSQL 16) the error is soft.
 */
extern void ReportFlaw(dedup::Flaw flaw, int sqlstate, const uint8_t *image, size_t size,
					   Node *escontext);

/* An error that shows both shapes in the user's words, unless they are equal. */
extern void RequireSameShape(const dedup::Header &left, const dedup::Header &right);

/* A key found no room in a filter that may be full (54000). */
[[noreturn]] extern void ReportFull(const dedup::Header &header);

/*
 * Filters that differ in their precision only: the finer of the two becomes one of the
 * other's shape, in the current context. Others stay as they are.
 */
extern void UnifyPrecision(FilterRef *left, FilterRef *right);

/*
 * An error (0A000) if filters of this method cannot be merged; in a parallel plan the
 * hint is to do without one.
 */
extern void RequireMerge(const dedup::Header &header, bool parallel);

/*
 * An error (0A000) that says what to use instead, if filters of this method do not
 * answer whether a key was seen.
 */
extern void RequireMembership(const dedup::Method &method);

/* The same, if they do not answer how often it was seen. */
extern void RequireFrequency(const dedup::Method &method);

/* Errors (22023, 54000) for rates and numbers of keys that no filter can have. */
extern void CheckRate(double fpr);
extern void CheckKeys(int64 keys);

/*
 * Raises an error (42804) if the key is a filter and nothing else. Whoever writes
 * dedup_agg(f) probably means dedup_merge_agg(f), or forgot the key.
 */
extern void RefuseFilterAsKey(const KeyPlan *plan);

/* ---- reading -------------------------------------------------------------- */

/*
 * Reads an argument: detoasts, checks the header, and settles an aggregate's state
 * (in a copy).
 */
extern FilterRef GetFilter(Datum datum);

/* The flat value of an expanded filter, or NULL if the datum is none. */
extern struct varlena *ValueOfExpanded(Datum datum);

/* Reads the header of a flat value in memory. */
extern void CheckFlat(const struct varlena *value, dedup::Header *header);

/* Validates a flat value that was fetched from storage; XX001 if it is corrupt. */
extern void CheckStored(const struct varlena *value, dedup::Header *header);

/*
 * GetFilter() for functions that are asked many times: a stored filter is fetched,
 * its checksum verified and its exact hashes indexed once for the call site, until
 * the transaction or the snapshot changes.
 */
struct FilterCache;
extern FilterRef GetFilterCached(FunctionCallInfo fcinfo, Datum datum, FilterCache **cache);

/*
 * The shape of an argument that is a prototype: a filter that must not be NULL
 * (22004) nor hold keys (22023).
 */
extern dedup::Shape GetPrototype(bool isnull, Datum datum);

/* ---- making --------------------------------------------------------------- */

/* A flat value with room for an image of so many bytes. */
extern struct varlena *AllocateFlat(size_t image_bytes);

/* A flat value with a copy of these bytes. */
extern struct varlena *CopyFlat(const uint8_t *image, size_t image_bytes);

/* The empty filter of a shape. */
extern struct varlena *MakeEmptyFilter(const dedup::Shape &shape);

/* The canonical, sealed value of any filter. */
extern struct varlena *MakeCanonical(const FilterRef &filter);

/*
 * A value with one more key. Large results are expanded objects in the current
 * context. An expanded object that may be written to is changed in place.
 */
extern Datum AddToValue(Datum datum, const FilterRef &filter, uint64 hash);

/* The same for many keys, at one copy. */
extern Datum AddAllToValue(Datum datum, const FilterRef &filter, const uint64 *hashes, size_t n);

/*
 * A value without one key, or the value as it is if the key is not there. An error
 * (0A000) that names the methods that can, if this filter's cannot.
 */
extern Datum ForgetInValue(Datum datum, const FilterRef &filter, uint64 hash);

/* ---- filling -------------------------------------------------------------- */

/*
 * The most hashes before the method takes over: of values; and of the states of
 * partial aggregates, where windows stay exact longer.
 */
enum class HashLimit
{
	Value,
	State
};

extern uint64 LimitOf(const dedup::Header &header, HashLimit limit);

/* Replaces the state's image by a working one, in the current context. */
extern void MakeStep(FilterState *state, const dedup::Step &step);

/*
 * Makes `state` able to take keys: a flat value in memory is turned into a working
 * one, if it is not, in the current context. As of all that follow, a filter that is
 * full is an error (54000).
 */
extern void StartFilling(FilterState *state, struct varlena *value, uint64 limit);

/*
 * Test-and-add. Where the filter has to grow, state->value is a new value in the
 * current context and the old one is left to its owner. True: the key was new.
 */
extern bool FillWith(FilterState *state, uint64 hash, uint64 limit);

/*
 * Takes over the keys of an exact filter one by one, each as the youngest: what
 * merging many small filters into one wants, at a cost that does not depend on how
 * much the state holds. The state may be a new value afterwards.
 */
extern void TakeOverHashes(FilterState *state, const FilterRef &exact, uint64 limit);

/*
 * Merges `other` into the state, by age where that matters; like FillWith() the
 * state may be a new value afterwards.
 */
extern void MergeIntoState(FilterState *state, const FilterRef &other, uint64 limit);

/* The merge of two values, canonical and sealed. */
extern struct varlena *MergeValues(FilterRef left, FilterRef right);

/* WARNING with the numbers if the filter holds more than it was sized for. */
extern bool WarnIfOverfull(const FilterRef &filter, const char *what);

#endif /* STREAMDEDUP_VALUE_DATUM_HPP */
