/*
 * What makes the library a PostgreSQL module.
 */
#include "pg/pg.hpp"

extern "C" {
#pragma GCC visibility push(default)
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "streamdedup", .version = "0.1.0");
#else
PG_MODULE_MAGIC;
#endif
#pragma GCC visibility pop
}
