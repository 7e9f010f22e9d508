# SPDX-License-Identifier: PostgreSQL
#
# streamdedup: a PostgreSQL extension. Builds with PGXS: make, make install,
# make installcheck.

EXTENSION = streamdedup
MODULE_big = streamdedup
DATA = $(patsubst $(srcdir)/%,%,$(wildcard $(srcdir)/src/install/*.sql))

srcdir ?= .
ifdef VPATH
srcdir = $(VPATH)
endif

# All that is below src.
SOURCES = $(patsubst $(srcdir)/%,%,$(sort $(wildcard $(srcdir)/src/*.cpp $(srcdir)/src/*/*.cpp $(srcdir)/src/*/*/*.cpp)))
OBJS = $(SOURCES:.cpp=.o)
REGRESS = $(patsubst $(srcdir)/sql/%.sql,%,$(sort $(wildcard $(srcdir)/sql/*.sql)))
REGRESS_OPTS = --load-extension=streamdedup

# No bitcode: JIT could inline none of the entry points, and it takes half of the build.
override with_llvm = no

# -MMD -MP: each object says which of our headers it was made from, read below.
# -ffp-contract=off: a processor that multiplies and adds in one step would round otherwise, and
# could compute another size for a filter.
# -Wno-register: the headers of servers up to 15 use that keyword.
# -Wno-unused-parameter, -Wno-missing-field-initializers: server headers again.
PG_CXXFLAGS = -MMD -MP -std=c++20 -fno-exceptions -fno-rtti -fvisibility=hidden -ffp-contract=off \
	-Wall -Wextra -Wno-register -Wno-unused-parameter -Wno-missing-field-initializers
PG_CPPFLAGS = -I$(srcdir)/src

# A package build has its flags in the environment. PGXS takes only those for C from there.
ifeq ($(origin CXXFLAGS),environment)
CXXFLAGS_OF_PACKAGE := $(CXXFLAGS)
PG_CXXFLAGS += $(CXXFLAGS_OF_PACKAGE)
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)

# Tests in test/isolation and test/tap, where the server brings what runs them: not
# every package of 13 has the isolation tester, and the TAP tests need 15.
PGXS_TEST = $(dir $(PGXS))../test
ifneq ($(wildcard $(PGXS_TEST)/isolation/pg_isolation_regress),)
ISOLATION = $(patsubst $(srcdir)/test/isolation/specs/%.spec,%,$(sort $(wildcard $(srcdir)/test/isolation/specs/*.spec)))
# 13 has no DETACH PARTITION CONCURRENTLY.
ifneq ($(filter 13.%,$(shell $(PG_CONFIG) --version)),)
ISOLATION := $(filter-out exact_detach,$(ISOLATION))
endif
ISOLATION_OPTS = --inputdir=$(srcdir)/test/isolation --load-extension=streamdedup
endif
ifneq ($(wildcard $(PGXS_TEST)/perl/PostgreSQL/Test/Cluster.pm),)
ifeq ($(wildcard $(PGXS_TEST)/perl/PostgresNode.pm),)
TAP_TESTS = 1
PROVE_TESTS = test/tap/*.pl
endif
endif

include $(PGXS)

DEPENDS = $(OBJS:.o=.d)
-include $(DEPENDS)
clean: clean-depends
.PHONY: clean-depends
clean-depends:
	rm -f $(DEPENDS)

# Out of tree the object folders have to be made.
ifdef VPATH
$(OBJS): | objdirs
.PHONY: objdirs
objdirs:
	mkdir -p $(sort $(dir $(OBJS)))
endif

# A source archive by PGXN's rules, of what is committed. The same commit makes the same bytes.
DISTNAME = $(EXTENSION)-$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(srcdir)/streamdedup.control)
.PHONY: dist
dist:
	TZ=UTC git -C $(srcdir) archive --format=zip --prefix=$(DISTNAME)/ HEAD > $(DISTNAME).zip
