/*
 * The one door to PostgreSQL's headers: C++ headers first and outside of
 * extern "C", the server's inside, and what differs between servers (compat.hpp).
 */
#ifndef STREAMDEDUP_PG_PG_HPP
#define STREAMDEDUP_PG_PG_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/key_hash.hpp"
#include "core/merge.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"

extern "C" {
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
}

#include "pg/compat.hpp"

/* Hashes, times and counters of 64 bits are passed as values. */
#if SIZEOF_VOID_P < 8
#error "streamdedup needs a 64-bit server"
#endif

/* HOLD_INTERRUPTS() and RESUME_INTERRUPTS() without ++ on a volatile, which C++20 deprecates. */
static inline void
HoldInterrupts(void)
{
	InterruptHoldoffCount = InterruptHoldoffCount + 1;
}

static inline void
ResumeInterrupts(void)
{
	Assert(InterruptHoldoffCount > 0);
	InterruptHoldoffCount = InterruptHoldoffCount - 1;
}

/*
 * Declares an SQL-callable function and exports it; everything else of the
 * library is hidden.
 */
#define DEDUP_FUNCTION(name)                                                                       \
	extern "C" {                                                                                   \
	_Pragma("GCC visibility push(default)") PG_FUNCTION_INFO_V1(name);                             \
	Datum name(PG_FUNCTION_ARGS);                                                                  \
	_Pragma("GCC visibility pop")                                                                  \
	}                                                                                              \
	Datum name(PG_FUNCTION_ARGS)

#endif /* STREAMDEDUP_PG_PG_HPP */
