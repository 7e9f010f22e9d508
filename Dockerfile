# SPDX-License-Identifier: PostgreSQL
#
# The official image of PostgreSQL with streamdedup in it:
#
#   docker build -t streamdedup .
#   docker build -t streamdedup --build-arg PG_MAJOR=16 .
#
# The first stage compiles; the image has nothing of it but the files that "make install" writes.

ARG PG_MAJOR=17

FROM postgres:${PG_MAJOR}-bookworm AS build
RUN apt-get update \
	&& apt-get install -y --no-install-recommends g++ make libxxhash-dev "postgresql-server-dev-${PG_MAJOR}"
COPY . /src
RUN make -C /src clean \
	&& make -C /src -j"$(nproc)" \
	&& make -C /src install DESTDIR=/installed \
	&& strip --strip-unneeded "/installed/usr/lib/postgresql/${PG_MAJOR}/lib/streamdedup.so"

FROM postgres:${PG_MAJOR}-bookworm
COPY --from=build /installed/ /
