/*
 * SPDX-License-Identifier: PostgreSQL
 *
 * What makes the library a PostgreSQL module.
 */
#include "guard/guard.hpp"
#include "live/live.hpp"
#include "pg/settings.hpp"
#include "query/citus.hpp"
#include "query/distinct/hook.hpp"
#include "query/unmerged.hpp"
#include "query/window/window.hpp"

extern "C" {
#pragma GCC visibility push(default)
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "streamdedup", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif

void _PG_init(void);
#pragma GCC visibility pop
}

/*
 * Called between two pieces of the core's long loops (core/pause.hpp). Does nothing while
 * interrupts are held off, for example by an LWLock or in a critical section.
 */
static void
CheckForInterrupts(void)
{
	CHECK_FOR_INTERRUPTS();
}

/*
 * The order matters. Callbacks are called in the reverse order of their registration: the guard's
 * callbacks, which may still take keys back and count rows, before those of the counters. Hooks for
 * object access call the earlier hook first: live filters refuse a command before the guard sees
 * it. The hook of approximate DISTINCT is installed last, so it is called first: the aggregates
 * that it inserts are then changed for Citus.
 */
void
_PG_init(void)
{
	dedup::pause_function = CheckForInterrupts;
	InitSettings();
	InitLiveCounters();
	InitLiveRefusals();
	InitGuard();
	InitCitus();
	InitUnmerged();
	InitWindowNode();
	InitApproximate();
}
