/*
 * The last parameter of ExecutorRun_hook, which only servers before 18 have: for declarations and
 * for calls.
 */
#ifndef STREAMDEDUP_PG_EXECUTOR_RUN_HPP
#define STREAMDEDUP_PG_EXECUTOR_RUN_HPP

#include "pg/pg.hpp"

#if PG_VERSION_NUM >= 180000
#define ONCE_PARAMETER
#define ONCE
#else
#define ONCE_PARAMETER , bool once
#define ONCE , once
#endif

#endif /* STREAMDEDUP_PG_EXECUTOR_RUN_HPP */
