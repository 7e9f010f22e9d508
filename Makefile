# streamdedup: a PostgreSQL extension. Builds with PGXS: make, make install,
# make installcheck.

EXTENSION = streamdedup
MODULE_big = streamdedup
DATA = $(wildcard $(srcdir)/src/install/*.sql)

SOURCES = src/core/methods.cpp src/pg/module.cpp src/pg/settings.cpp src/pg/loading.cpp src/pg/keys.cpp src/pg/key_hash.cpp src/pg/base64.cpp \
	src/value/datum.cpp src/value/expanded.cpp src/value/cache.cpp src/value/io.cpp src/value/make.cpp \
	src/value/advise.cpp src/value/functions.cpp \
	src/value/aggregate.cpp src/value/stats.cpp \
	src/query/own_filter.cpp src/query/window.cpp src/query/new_keys.cpp src/query/rows.cpp \
	src/query/approximate.cpp src/query/scope.cpp src/query/count_distinct.cpp \
	src/query/distinct_plan.cpp src/query/distinct_exec.cpp \
	src/live/filter.cpp src/live/pages.cpp src/live/settle.cpp src/live/keys.cpp src/live/counters.cpp \
	src/live/page_type.cpp src/live/table_am.cpp src/live/restore.cpp src/live/vacuum.cpp \
	src/live/functions.cpp src/live/setup.cpp \
	src/live/refuse.cpp src/live/guard.cpp src/live/guard_plan.cpp src/live/guard_rows.cpp src/live/guard_deleted.cpp \
	src/live/deleted_runs.cpp \
	src/live/guard_moves.cpp src/live/guard_truncate.cpp src/live/truncation.cpp src/live/guard_index.cpp src/live/guard_setup.cpp
OBJS = $(SOURCES:.cpp=.o)

# Tests: test/sql and test/expected, run against an installed extension.
TESTS = $(sort $(wildcard $(srcdir)/test/sql/*.sql))
REGRESS = $(patsubst $(srcdir)/test/sql/%.sql,%,$(TESTS))
REGRESS_OPTS = --inputdir=$(srcdir)/test --load-extension=streamdedup

srcdir ?= .
ifdef VPATH
srcdir = $(VPATH)
endif

# -Wno-register: the headers of servers up to 15 use that keyword.
# -Wno-unused-parameter, -Wno-missing-field-initializers: server headers again.
PG_CXXFLAGS = -std=c++20 -fno-exceptions -fno-rtti -fvisibility=hidden \
	-Wall -Wextra -Wno-register -Wno-unused-parameter -Wno-missing-field-initializers
PG_CPPFLAGS = -I$(srcdir)/src -DDEDUP_METHODS_ELSEWHERE

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)

# Tests in test/isolation and test/tap, where the server brings what runs them: not
# every package of 13 has the isolation tester, and the TAP tests need 15.
PGXS_TEST = $(dir $(PGXS))../test
ifneq ($(wildcard $(PGXS_TEST)/isolation/pg_isolation_regress),)
ISOLATION = $(patsubst $(srcdir)/test/isolation/specs/%.spec,%,$(sort $(wildcard $(srcdir)/test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation --load-extension=streamdedup
endif
ifneq ($(wildcard $(PGXS_TEST)/perl/PostgreSQL/Test/Cluster.pm),)
ifeq ($(wildcard $(PGXS_TEST)/perl/PostgresNode.pm),)
TAP_TESTS = 1
PROVE_TESTS = test/tap/*.pl
endif
endif

include $(PGXS)

# The rule that makes LLVM bitcode takes none of PG_CXXFLAGS up to PostgreSQL 15.
BITCODE_CXXFLAGS += $(PG_CXXFLAGS)

# No dependency tracking in distribution builds of the server, so every object
# depends on every header: a full build takes seconds.
HEADERS = $(wildcard $(srcdir)/src/core/*.hpp $(srcdir)/src/core/methods/*.hpp \
	$(srcdir)/src/pg/*.hpp $(srcdir)/src/value/*.hpp $(srcdir)/src/query/*.hpp $(srcdir)/src/live/*.hpp)
$(OBJS) $(OBJS:.o=.bc): $(HEADERS)

# Out of tree the object folders have to be made.
ifdef VPATH
$(OBJS) $(OBJS:.o=.bc): | objdirs
.PHONY: objdirs
objdirs:
	mkdir -p $(sort $(dir $(OBJS)))
endif
