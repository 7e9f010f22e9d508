/*
 * Errors and warnings about filters. Whoever finds the fault calls one of these.
 */
#ifndef STREAMDEDUP_VALUE_ERRORS_HPP
#define STREAMDEDUP_VALUE_ERRORS_HPP

#include "pg/keys.hpp"

struct FilterRef;

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

/* The same, if this filter cannot forget a key. */
extern void RequireForget(const dedup::Header &header);

/* Errors (22023, 54000) for rates and numbers of keys that no filter can have. */
extern void CheckRate(double fpr);
extern void CheckKeys(int64 keys);

/*
 * Raises an error (42804) if the key is a filter and nothing else. Whoever writes
 * dedup_agg(f) probably means dedup_merge_agg(f), or forgot the key. It is in
 * compare.cpp, beside the hash function by which such a key is known.
 */
extern void RefuseFilterAsKey(const KeyPlan *plan);

/* WARNING with the numbers if the filter holds more than it was sized for, or can grow to. */
extern bool WarnIfOverfull(const FilterRef &filter, const char *what);

#endif /* STREAMDEDUP_VALUE_ERRORS_HPP */
