/* The settings, with their names under streamdedup. */
#ifndef STREAMDEDUP_PG_SETTINGS_HPP
#define STREAMDEDUP_PG_SETTINGS_HPP

#include "pg/pg.hpp"

/* streamdedup.approximate_distinct. Use ApproximateDistinctAllowed() instead. */
extern bool approximate_distinct;

/* streamdedup.distinct_fpr: the false-positive rate of the filter of a DISTINCT. */
extern double distinct_fpr;

/* streamdedup.distinct_memory, or -1. Use DistinctMemory() instead. */
extern int distinct_memory_kb;

/*
 * streamdedup.streaming_window: whether our own node replaces WindowAgg for dedup_is_new(...) OVER
 * (...). The results are the same.
 */
extern bool streaming_window;

/*
 * streamdedup.guard_read_ahead: whether an INSERT of many rows into a guarded table is planned with
 * a node that reads rows ahead. The result is the same.
 */
extern bool guard_read_ahead;

/* Defines the settings. Called by _PG_init before everything else. */
extern void InitSettings(void);

/* Returns the most bytes of the filter of one DISTINCT, by the current setting. */
extern Size DistinctMemory(void);

/*
 * Returns whether streamdedup.approximate_distinct is on and applies to the statement that is being
 * planned. It does not apply to the body of a SECURITY DEFINER function, unless the user that it
 * runs as has turned the setting on; nor to maintenance commands, nor in sessions of Citus. This
 * check is cheap.
 */
extern bool ApproximateDistinctAllowed(void);

/* Returns whether Citus opened this session from another node. */
extern bool IsCitusSession(void);

#endif /* STREAMDEDUP_PG_SETTINGS_HPP */
