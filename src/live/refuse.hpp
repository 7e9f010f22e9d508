/*
 * The refusal of statements on live filters: refuse.cpp and refuse_utility.cpp.
 */
#ifndef STREAMDEDUP_LIVE_REFUSE_HPP
#define STREAMDEDUP_LIVE_REFUSE_HPP

#include "live/live.hpp"

/* Raise the errors (0A000) of commands that both files refuse. `filter` is its name. */
extern void RefuseIndexOn(const char *filter);
extern void RefuseConstraintOn(const char *filter);

/* Sets ProcessUtility's hook; called by InitLiveRefusals(). */
extern void InitLiveUtility(void);

#endif /* STREAMDEDUP_LIVE_REFUSE_HPP */
