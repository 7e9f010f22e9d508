/* Filters that are queried many times. */
#ifndef STREAMDEDUP_VALUE_CACHE_HPP
#define STREAMDEDUP_VALUE_CACHE_HPP

#include "value/datum.hpp"

/* The filter that a call site queried last. */
struct FilterCache;

/*
 * Does GetFilter() for functions that are called many times. A stored filter is fetched, its
 * checksum verified and its exact hashes indexed once for the call site, until the transaction or
 * the snapshot changes.
 */
extern FilterRef GetFilterCached(FunctionCallInfo fcinfo, Datum datum, FilterCache **cache);

/* Unordered lists up to this many hashes are searched without an index. */
constexpr uint64 SEARCHED_HASHES = 32;

/* Returns whether the filter is a list that would be searched from end to end for every key. */
extern bool IsLongList(const dedup::Header &header);

/*
 * Returns a copy of such a filter with an index, in the current context. The copy is a working
 * image.
 */
extern FilterRef CopyIndexed(const FilterRef &filter);

#endif /* STREAMDEDUP_VALUE_CACHE_HPP */
