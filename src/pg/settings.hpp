/*
 * The settings, by the names under streamdedup.
 */
#ifndef STREAMDEDUP_PG_SETTINGS_HPP
#define STREAMDEDUP_PG_SETTINGS_HPP

#include "pg/pg.hpp"

/* streamdedup.approximate_distinct; ask ApproximateDistinctAllowed() rather. */
extern bool approximate_distinct;

/* streamdedup.distinct_fpr: the rate that the filter of a DISTINCT keeps. */
extern double distinct_fpr;

/* streamdedup.distinct_memory, or -1; ask DistinctMemory() rather. */
extern int distinct_memory_kb;

/*
 * streamdedup.streaming_window: whether dedup_is_new(...) OVER (...) is planned through a
 * node of ours in the place of WindowAgg. The answers are the same.
 */
extern bool streaming_window;

/*
 * streamdedup.guard_read_ahead: whether an INSERT of many rows into a guarded table is planned
 * with a node that reads rows ahead. What becomes of the rows is the same.
 */
extern bool guard_read_ahead;

/* Defines them; called by _PG_init before everything else. */
extern void InitSettings(void);

/* Bytes that the filter of one DISTINCT may take: the setting at this moment. */
extern Size DistinctMemory(void);

/*
 * Whether streamdedup.approximate_distinct is on and holds for what is planned now:
 * not for the body of a SECURITY DEFINER function, which is exact unless whoever it
 * runs as has turned the setting on, not for maintenance commands, and not in sessions of
 * Citus. Costs nothing.
 */
extern bool ApproximateDistinctAllowed(void);

/* Returns whether Citus opened this session, from another node. */
extern bool IsCitusSession(void);

#endif /* STREAMDEDUP_PG_SETTINGS_HPP */
