/*
 * What makes the library a PostgreSQL module.
 */
#include "guard/guard.hpp"
#include "live/live.hpp"
#include "pg/settings.hpp"
#include "query/distinct/hook.hpp"

extern "C" {
#pragma GCC visibility push(default)
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "streamdedup", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif

void		_PG_init(void);
#pragma GCC visibility pop
}

/*
 * Callbacks are called last registered first: the guard's, which may still take keys
 * back and count rows, before those of the counters. Hooks for object access call the one
 * installed before them first: live filters refuse a command before the guard looks at it.
 */
void
_PG_init(void)
{
	InitSettings();
	InitLiveCounters();
	InitLiveRefusals();
	InitGuard();
	InitApproximate();
}
