// SIMD instructions that are wider than those of the compile target, used after a check at run
// time. The results are the same, with fewer instructions.

#ifndef STREAMDEDUP_CORE_WIDE_HPP_
#define STREAMDEDUP_CORE_WIDE_HPP_

#if defined(__x86_64__) && defined(__SSE2__)
#define DEDUP_HAS_WIDE 1
// gcc 12 warns about uninitialized registers in its own header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#define DEDUP_AVX2 __attribute__((target("avx2")))
#define DEDUP_AVX512 __attribute__((target("avx512f")))
#define DEDUP_AVX512BW __attribute__((target("avx512bw")))
#else
#define DEDUP_HAS_WIDE 0
#endif

#endif  // STREAMDEDUP_CORE_WIDE_HPP_
