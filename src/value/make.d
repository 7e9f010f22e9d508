src/value/make.o: src/value/make.cpp src/value/datum.hpp src/pg/pg.hpp \
 src/core/filter.hpp src/core/bytes.hpp src/core/exact.hpp \
 src/core/image.hpp src/core/method.hpp src/core/registry.hpp \
 src/core/methods/a2.hpp src/core/methods/../bytes.hpp \
 src/core/methods/../method.hpp src/core/methods/../occupancy.hpp \
 src/core/methods/../sizing.hpp src/core/methods/../method.hpp \
 src/core/methods/apbf.hpp src/core/methods/../packed.hpp \
 src/core/methods/../bytes.hpp src/core/methods/apbf_sizes.hpp \
 src/core/methods/b_dbf.hpp src/core/methods/blocked_bloom.hpp \
 src/core/methods/bloom.hpp src/core/methods/count_min.hpp \
 src/core/methods/counting_bloom.hpp src/core/methods/cuckoo.hpp \
 src/core/methods/../random.hpp src/core/methods/cuckoo_buckets.hpp \
 src/core/methods/dsqf.hpp src/core/methods/dsqf_lists.hpp \
 src/core/methods/quotient_signature.hpp src/core/methods/fifo.hpp \
 src/core/methods/fifo_line.hpp src/core/methods/fp_lru.hpp \
 src/core/methods/lru_table.hpp src/core/methods/hll.hpp \
 src/core/methods/lru.hpp src/core/methods/qht.hpp \
 src/core/methods/qht_method.hpp src/core/methods/qht_row.hpp \
 src/core/methods/cell_rows.hpp src/core/methods/cell_rows_merge.hpp \
 src/core/methods/qht_sizes.hpp src/core/methods/qhtd.hpp \
 src/core/methods/qqht.hpp src/core/methods/qqhtd.hpp \
 src/core/methods/quotient.hpp src/core/methods/quotient_rewrite.hpp \
 src/core/methods/quotient_table.hpp src/core/methods/recent.hpp \
 src/core/methods/ring.hpp src/core/methods/rsbf.hpp \
 src/core/methods/sbf.hpp src/core/methods/sbf_cells.hpp \
 src/core/methods/sqf.hpp src/core/xxh3.hpp src/core/image.hpp \
 src/core/key_hash.hpp src/core/siphash.hpp src/core/merge.hpp \
 src/core/filter.hpp src/core/options.hpp src/core/registry.hpp \
 /usr/include/postgresql/15/server/postgres.h \
 /usr/include/postgresql/15/server/c.h \
 /usr/include/postgresql/15/server/postgres_ext.h \
 /usr/include/postgresql/15/server/pg_config_ext.h \
 /usr/include/postgresql/15/server/pg_config.h \
 /usr/include/postgresql/15/server/pg_config_manual.h \
 /usr/include/postgresql/15/server/pg_config_os.h \
 /usr/include/postgresql/15/server/port.h \
 /usr/include/postgresql/15/server/utils/elog.h \
 /usr/include/postgresql/15/server/utils/errcodes.h \
 /usr/include/postgresql/15/server/utils/palloc.h \
 /usr/include/postgresql/15/server/access/htup_details.h \
 /usr/include/postgresql/15/server/access/htup.h \
 /usr/include/postgresql/15/server/storage/itemptr.h \
 /usr/include/postgresql/15/server/storage/block.h \
 /usr/include/postgresql/15/server/storage/off.h \
 /usr/include/postgresql/15/server/storage/itemid.h \
 /usr/include/postgresql/15/server/access/transam.h \
 /usr/include/postgresql/15/server/access/xlogdefs.h \
 /usr/include/postgresql/15/server/access/tupdesc.h \
 /usr/include/postgresql/15/server/access/attnum.h \
 /usr/include/postgresql/15/server/catalog/pg_attribute.h \
 /usr/include/postgresql/15/server/catalog/genbki.h \
 /usr/include/postgresql/15/server/catalog/pg_attribute_d.h \
 /usr/include/postgresql/15/server/nodes/pg_list.h \
 /usr/include/postgresql/15/server/nodes/nodes.h \
 /usr/include/postgresql/15/server/access/tupmacs.h \
 /usr/include/postgresql/15/server/catalog/pg_type_d.h \
 /usr/include/postgresql/15/server/common/int.h \
 /usr/include/postgresql/15/server/storage/bufpage.h \
 /usr/include/postgresql/15/server/storage/item.h \
 /usr/include/postgresql/15/server/catalog/pg_collation.h \
 /usr/include/postgresql/15/server/catalog/pg_collation_d.h \
 /usr/include/postgresql/15/server/catalog/pg_type.h \
 /usr/include/postgresql/15/server/catalog/objectaddress.h \
 /usr/include/postgresql/15/server/nodes/parsenodes.h \
 /usr/include/postgresql/15/server/nodes/bitmapset.h \
 /usr/include/postgresql/15/server/nodes/lockoptions.h \
 /usr/include/postgresql/15/server/nodes/primnodes.h \
 /usr/include/postgresql/15/server/nodes/value.h \
 /usr/include/postgresql/15/server/partitioning/partdefs.h \
 /usr/include/postgresql/15/server/storage/lockdefs.h \
 /usr/include/postgresql/15/server/utils/relcache.h \
 /usr/include/postgresql/15/server/fmgr.h \
 /usr/include/postgresql/15/server/funcapi.h \
 /usr/include/postgresql/15/server/access/tupdesc.h \
 /usr/include/postgresql/15/server/executor/executor.h \
 /usr/include/postgresql/15/server/executor/execdesc.h \
 /usr/include/postgresql/15/server/nodes/execnodes.h \
 /usr/include/postgresql/15/server/access/tupconvert.h \
 /usr/include/postgresql/15/server/access/attmap.h \
 /usr/include/postgresql/15/server/executor/tuptable.h \
 /usr/include/postgresql/15/server/access/sysattr.h \
 /usr/include/postgresql/15/server/storage/buf.h \
 /usr/include/postgresql/15/server/executor/instrument.h \
 /usr/include/postgresql/15/server/portability/instr_time.h \
 /usr/include/postgresql/15/server/lib/ilist.h \
 /usr/include/postgresql/15/server/lib/pairingheap.h \
 /usr/include/postgresql/15/server/lib/stringinfo.h \
 /usr/include/postgresql/15/server/nodes/params.h \
 /usr/include/postgresql/15/server/nodes/plannodes.h \
 /usr/include/postgresql/15/server/access/sdir.h \
 /usr/include/postgresql/15/server/access/stratnum.h \
 /usr/include/postgresql/15/server/nodes/tidbitmap.h \
 /usr/include/postgresql/15/server/utils/dsa.h \
 /usr/include/postgresql/15/server/port/atomics.h \
 /usr/include/postgresql/15/server/port/atomics/arch-x86.h \
 /usr/include/postgresql/15/server/port/atomics/generic-gcc.h \
 /usr/include/postgresql/15/server/port/atomics/fallback.h \
 /usr/include/postgresql/15/server/port/atomics/generic.h \
 /usr/include/postgresql/15/server/storage/dsm.h \
 /usr/include/postgresql/15/server/storage/dsm_impl.h \
 /usr/include/postgresql/15/server/storage/condition_variable.h \
 /usr/include/postgresql/15/server/storage/proclist_types.h \
 /usr/include/postgresql/15/server/storage/spin.h \
 /usr/include/postgresql/15/server/storage/s_lock.h \
 /usr/include/postgresql/15/server/utils/hsearch.h \
 /usr/include/postgresql/15/server/utils/queryenvironment.h \
 /usr/include/postgresql/15/server/utils/reltrigger.h \
 /usr/include/postgresql/15/server/utils/sharedtuplestore.h \
 /usr/include/postgresql/15/server/storage/fd.h \
 /usr/include/postgresql/15/server/storage/sharedfileset.h \
 /usr/include/postgresql/15/server/storage/fileset.h \
 /usr/include/postgresql/15/server/utils/snapshot.h \
 /usr/include/postgresql/15/server/datatype/timestamp.h \
 /usr/include/postgresql/15/server/utils/sortsupport.h \
 /usr/include/postgresql/15/server/utils/tuplesort.h \
 /usr/include/postgresql/15/server/access/itup.h \
 /usr/include/postgresql/15/server/utils/tuplestore.h \
 /usr/include/postgresql/15/server/lib/simplehash.h \
 /usr/include/postgresql/15/server/port/pg_bitutils.h \
 /usr/include/postgresql/15/server/tcop/dest.h \
 /usr/include/postgresql/15/server/tcop/cmdtag.h \
 /usr/include/postgresql/15/server/tcop/cmdtaglist.h \
 /usr/include/postgresql/15/server/utils/memutils.h \
 /usr/include/postgresql/15/server/nodes/memnodes.h \
 /usr/include/postgresql/15/server/executor/tuptable.h \
 /usr/include/postgresql/15/server/fmgr.h \
 /usr/include/postgresql/15/server/miscadmin.h \
 /usr/include/postgresql/15/server/datatype/timestamp.h \
 /usr/include/postgresql/15/server/pgtime.h \
 /usr/include/postgresql/15/server/utils/builtins.h \
 /usr/include/postgresql/15/server/utils/fmgrprotos.h \
 /usr/include/postgresql/15/server/utils/expandeddatum.h \
 /usr/include/postgresql/15/server/utils/float.h \
 /usr/include/postgresql/15/server/utils/guc.h \
 /usr/include/postgresql/15/server/utils/array.h
src/value/datum.hpp:
src/pg/pg.hpp:
src/core/filter.hpp:
src/core/bytes.hpp:
src/core/exact.hpp:
src/core/image.hpp:
src/core/method.hpp:
src/core/registry.hpp:
src/core/methods/a2.hpp:
src/core/methods/../bytes.hpp:
src/core/methods/../method.hpp:
src/core/methods/../occupancy.hpp:
src/core/methods/../sizing.hpp:
src/core/methods/../method.hpp:
src/core/methods/apbf.hpp:
src/core/methods/../packed.hpp:
src/core/methods/../bytes.hpp:
src/core/methods/apbf_sizes.hpp:
src/core/methods/b_dbf.hpp:
src/core/methods/blocked_bloom.hpp:
src/core/methods/bloom.hpp:
src/core/methods/count_min.hpp:
src/core/methods/counting_bloom.hpp:
src/core/methods/cuckoo.hpp:
src/core/methods/../random.hpp:
src/core/methods/cuckoo_buckets.hpp:
src/core/methods/dsqf.hpp:
src/core/methods/dsqf_lists.hpp:
src/core/methods/quotient_signature.hpp:
src/core/methods/fifo.hpp:
src/core/methods/fifo_line.hpp:
src/core/methods/fp_lru.hpp:
src/core/methods/lru_table.hpp:
src/core/methods/hll.hpp:
src/core/methods/lru.hpp:
src/core/methods/qht.hpp:
src/core/methods/qht_method.hpp:
src/core/methods/qht_row.hpp:
src/core/methods/cell_rows.hpp:
src/core/methods/cell_rows_merge.hpp:
src/core/methods/qht_sizes.hpp:
src/core/methods/qhtd.hpp:
src/core/methods/qqht.hpp:
src/core/methods/qqhtd.hpp:
src/core/methods/quotient.hpp:
src/core/methods/quotient_rewrite.hpp:
src/core/methods/quotient_table.hpp:
src/core/methods/recent.hpp:
src/core/methods/ring.hpp:
src/core/methods/rsbf.hpp:
src/core/methods/sbf.hpp:
src/core/methods/sbf_cells.hpp:
src/core/methods/sqf.hpp:
src/core/xxh3.hpp:
src/core/image.hpp:
src/core/key_hash.hpp:
src/core/siphash.hpp:
src/core/merge.hpp:
src/core/filter.hpp:
src/core/options.hpp:
src/core/registry.hpp:
/usr/include/postgresql/15/server/postgres.h:
/usr/include/postgresql/15/server/c.h:
/usr/include/postgresql/15/server/postgres_ext.h:
/usr/include/postgresql/15/server/pg_config_ext.h:
/usr/include/postgresql/15/server/pg_config.h:
/usr/include/postgresql/15/server/pg_config_manual.h:
/usr/include/postgresql/15/server/pg_config_os.h:
/usr/include/postgresql/15/server/port.h:
/usr/include/postgresql/15/server/utils/elog.h:
/usr/include/postgresql/15/server/utils/errcodes.h:
/usr/include/postgresql/15/server/utils/palloc.h:
/usr/include/postgresql/15/server/access/htup_details.h:
/usr/include/postgresql/15/server/access/htup.h:
/usr/include/postgresql/15/server/storage/itemptr.h:
/usr/include/postgresql/15/server/storage/block.h:
/usr/include/postgresql/15/server/storage/off.h:
/usr/include/postgresql/15/server/storage/itemid.h:
/usr/include/postgresql/15/server/access/transam.h:
/usr/include/postgresql/15/server/access/xlogdefs.h:
/usr/include/postgresql/15/server/access/tupdesc.h:
/usr/include/postgresql/15/server/access/attnum.h:
/usr/include/postgresql/15/server/catalog/pg_attribute.h:
/usr/include/postgresql/15/server/catalog/genbki.h:
/usr/include/postgresql/15/server/catalog/pg_attribute_d.h:
/usr/include/postgresql/15/server/nodes/pg_list.h:
/usr/include/postgresql/15/server/nodes/nodes.h:
/usr/include/postgresql/15/server/access/tupmacs.h:
/usr/include/postgresql/15/server/catalog/pg_type_d.h:
/usr/include/postgresql/15/server/common/int.h:
/usr/include/postgresql/15/server/storage/bufpage.h:
/usr/include/postgresql/15/server/storage/item.h:
/usr/include/postgresql/15/server/catalog/pg_collation.h:
/usr/include/postgresql/15/server/catalog/pg_collation_d.h:
/usr/include/postgresql/15/server/catalog/pg_type.h:
/usr/include/postgresql/15/server/catalog/objectaddress.h:
/usr/include/postgresql/15/server/nodes/parsenodes.h:
/usr/include/postgresql/15/server/nodes/bitmapset.h:
/usr/include/postgresql/15/server/nodes/lockoptions.h:
/usr/include/postgresql/15/server/nodes/primnodes.h:
/usr/include/postgresql/15/server/nodes/value.h:
/usr/include/postgresql/15/server/partitioning/partdefs.h:
/usr/include/postgresql/15/server/storage/lockdefs.h:
/usr/include/postgresql/15/server/utils/relcache.h:
/usr/include/postgresql/15/server/fmgr.h:
/usr/include/postgresql/15/server/funcapi.h:
/usr/include/postgresql/15/server/access/tupdesc.h:
/usr/include/postgresql/15/server/executor/executor.h:
/usr/include/postgresql/15/server/executor/execdesc.h:
/usr/include/postgresql/15/server/nodes/execnodes.h:
/usr/include/postgresql/15/server/access/tupconvert.h:
/usr/include/postgresql/15/server/access/attmap.h:
/usr/include/postgresql/15/server/executor/tuptable.h:
/usr/include/postgresql/15/server/access/sysattr.h:
/usr/include/postgresql/15/server/storage/buf.h:
/usr/include/postgresql/15/server/executor/instrument.h:
/usr/include/postgresql/15/server/portability/instr_time.h:
/usr/include/postgresql/15/server/lib/ilist.h:
/usr/include/postgresql/15/server/lib/pairingheap.h:
/usr/include/postgresql/15/server/lib/stringinfo.h:
/usr/include/postgresql/15/server/nodes/params.h:
/usr/include/postgresql/15/server/nodes/plannodes.h:
/usr/include/postgresql/15/server/access/sdir.h:
/usr/include/postgresql/15/server/access/stratnum.h:
/usr/include/postgresql/15/server/nodes/tidbitmap.h:
/usr/include/postgresql/15/server/utils/dsa.h:
/usr/include/postgresql/15/server/port/atomics.h:
/usr/include/postgresql/15/server/port/atomics/arch-x86.h:
/usr/include/postgresql/15/server/port/atomics/generic-gcc.h:
/usr/include/postgresql/15/server/port/atomics/fallback.h:
/usr/include/postgresql/15/server/port/atomics/generic.h:
/usr/include/postgresql/15/server/storage/dsm.h:
/usr/include/postgresql/15/server/storage/dsm_impl.h:
/usr/include/postgresql/15/server/storage/condition_variable.h:
/usr/include/postgresql/15/server/storage/proclist_types.h:
/usr/include/postgresql/15/server/storage/spin.h:
/usr/include/postgresql/15/server/storage/s_lock.h:
/usr/include/postgresql/15/server/utils/hsearch.h:
/usr/include/postgresql/15/server/utils/queryenvironment.h:
/usr/include/postgresql/15/server/utils/reltrigger.h:
/usr/include/postgresql/15/server/utils/sharedtuplestore.h:
/usr/include/postgresql/15/server/storage/fd.h:
/usr/include/postgresql/15/server/storage/sharedfileset.h:
/usr/include/postgresql/15/server/storage/fileset.h:
/usr/include/postgresql/15/server/utils/snapshot.h:
/usr/include/postgresql/15/server/datatype/timestamp.h:
/usr/include/postgresql/15/server/utils/sortsupport.h:
/usr/include/postgresql/15/server/utils/tuplesort.h:
/usr/include/postgresql/15/server/access/itup.h:
/usr/include/postgresql/15/server/utils/tuplestore.h:
/usr/include/postgresql/15/server/lib/simplehash.h:
/usr/include/postgresql/15/server/port/pg_bitutils.h:
/usr/include/postgresql/15/server/tcop/dest.h:
/usr/include/postgresql/15/server/tcop/cmdtag.h:
/usr/include/postgresql/15/server/tcop/cmdtaglist.h:
/usr/include/postgresql/15/server/utils/memutils.h:
/usr/include/postgresql/15/server/nodes/memnodes.h:
/usr/include/postgresql/15/server/executor/tuptable.h:
/usr/include/postgresql/15/server/fmgr.h:
/usr/include/postgresql/15/server/miscadmin.h:
/usr/include/postgresql/15/server/datatype/timestamp.h:
/usr/include/postgresql/15/server/pgtime.h:
/usr/include/postgresql/15/server/utils/builtins.h:
/usr/include/postgresql/15/server/utils/fmgrprotos.h:
/usr/include/postgresql/15/server/utils/expandeddatum.h:
/usr/include/postgresql/15/server/utils/float.h:
/usr/include/postgresql/15/server/utils/guc.h:
/usr/include/postgresql/15/server/utils/array.h:
