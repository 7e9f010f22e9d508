src/core/methods.o: src/core/methods.cpp src/core/registry.hpp \
 src/core/method.hpp src/core/methods/a2.hpp \
 src/core/methods/../bytes.hpp src/core/methods/../method.hpp \
 src/core/methods/../occupancy.hpp src/core/methods/../sizing.hpp \
 src/core/methods/../method.hpp src/core/methods/apbf.hpp \
 src/core/methods/../packed.hpp src/core/methods/../bytes.hpp \
 src/core/methods/apbf_sizes.hpp src/core/methods/b_dbf.hpp \
 src/core/methods/blocked_bloom.hpp src/core/methods/bloom.hpp \
 src/core/methods/count_min.hpp src/core/methods/counting_bloom.hpp \
 src/core/methods/cuckoo.hpp src/core/methods/../random.hpp \
 src/core/methods/cuckoo_buckets.hpp src/core/methods/dsqf.hpp \
 src/core/methods/dsqf_lists.hpp src/core/methods/quotient_signature.hpp \
 src/core/methods/fifo.hpp src/core/methods/fifo_line.hpp \
 src/core/methods/fp_lru.hpp src/core/methods/lru_table.hpp \
 src/core/methods/hll.hpp src/core/methods/lru.hpp \
 src/core/methods/qht.hpp src/core/methods/qht_method.hpp \
 src/core/methods/qht_row.hpp src/core/methods/cell_rows.hpp \
 src/core/methods/cell_rows_merge.hpp src/core/methods/qht_sizes.hpp \
 src/core/methods/qhtd.hpp src/core/methods/qqht.hpp \
 src/core/methods/qqhtd.hpp src/core/methods/quotient.hpp \
 src/core/methods/quotient_rewrite.hpp \
 src/core/methods/quotient_table.hpp src/core/methods/recent.hpp \
 src/core/methods/ring.hpp src/core/methods/rsbf.hpp \
 src/core/methods/sbf.hpp src/core/methods/sbf_cells.hpp \
 src/core/methods/sqf.hpp
src/core/registry.hpp:
src/core/method.hpp:
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
