/* Errors and warnings about filters. The code that finds a fault calls one of these functions. */
#ifndef STREAMDEDUP_VALUE_ERRORS_HPP
#define STREAMDEDUP_VALUE_ERRORS_HPP

#include "pg/keys.hpp"

struct FilterRef;

/*
 * Raises an error that describes why these bytes are not a valid filter. `sqlstate` is the error
 * code to use for malformed bytes. A format or method of a later release always raises 0A000. With
 * an ErrorSaveContext (PostgreSQL 16) the error is soft.
 */
extern void ReportFlaw(dedup::Flaw flaw, int sqlstate, const uint8_t *image, size_t size,
					   Node *escontext);

/* Raises an error that shows both shapes in the words of the manual, unless they are equal. */
extern void RequireSameShape(const dedup::Header &left, const dedup::Header &right);

/* Raises an error (54000): a key found no room in a filter that can be full. */
[[noreturn]] extern void ReportFull(const dedup::Header &header);

/*
 * Raises an error (0A000) if filters of this method cannot be merged. If the filters are states of
 * a plan with partial aggregates, the hint says how to plan without.
 */
extern void RequireMerge(const dedup::Method &method, bool partial_plan);

/*
 * Raises an error (0A000) if filters of this method do not report whether a key was seen. The error
 * says what to use instead.
 */
extern void RequireMembership(const dedup::Method &method);

/* Does the same for filters that do not report how often a key was seen. */
extern void RequireFrequency(const dedup::Method &method);

/* Does the same for a filter that cannot forget a key. */
extern void RequireForget(const dedup::Header &header);

/* Raise errors (22023, 54000) for rates and numbers of keys that no filter can have. */
extern void CheckRate(double fpr);
extern void CheckKeys(int64 keys);

/*
 * Raises an error (42804) if the key is a filter and nothing else. A user who writes dedup_agg(f)
 * probably means dedup_merge_agg(f), or forgot the key. The function is in compare.cpp, beside the
 * hash function by which such a key is recognized.
 */
extern void RefuseFilterAsKey(const KeyPlan *plan);

/*
 * Raises a WARNING with the numbers if the filter holds more keys than it was sized for, or than it
 * can grow to.
 */
extern bool WarnIfOverfull(const FilterRef &filter, const char *what);

#endif /* STREAMDEDUP_VALUE_ERRORS_HPP */
