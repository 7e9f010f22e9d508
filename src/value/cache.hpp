/*
 * Filters that are asked many times.
 */
#ifndef STREAMDEDUP_VALUE_CACHE_HPP
#define STREAMDEDUP_VALUE_CACHE_HPP

#include "value/datum.hpp"

/* What a call site keeps of the filter that it asked last. */
struct FilterCache;

/*
 * GetFilter() for functions that are asked many times: a stored filter is fetched,
 * its checksum verified and its exact hashes indexed once for the call site, until
 * the transaction or the snapshot changes.
 */
extern FilterRef GetFilterCached(FunctionCallInfo fcinfo, Datum datum, FilterCache **cache);

/* Lists without order are searched as they are up to this many hashes. */
constexpr uint64 SEARCHED_HASHES = 32;

/* Whether the filter is a list that would be searched from end to end for every key. */
extern bool IsLongList(const dedup::Header &header);

/* A copy of such a filter with an index, in the current context: a working image. */
extern FilterRef CopyIndexed(const FilterRef &filter);

#endif /* STREAMDEDUP_VALUE_CACHE_HPP */
