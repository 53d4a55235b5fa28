// Vectors of one tier: as many numbers as its registers hold, and what kernels do with them.
//
// A kernel file is compiled once per tier, with BRIDLE_TIER naming it. It sees two types, D (doubles) and F (floats):
//   D::lanes                     numbers in a vector
//   load, store                  at any address; doubles may be stored as floats
//   load_some(x, count, rest)    the first `count` numbers, `rest` in the other lanes
//   set(x), + - *, fma(a, b, c)  = a * b + c, rounded once where the tier can
//   max(a, b)                    a > b ? a : b
//   at_least(a, b)               bit k: a[k] >= b[k]
//   top, sum                     over the lanes; the order of additions is fixed
//   widen(const float*)          floats as doubles
//   gather(x, index)             x[index[k]]
//   power(k)                     2^k, where k is a whole number plus kRound (below)
//   where_less(x, limit, a, b)   x < limit ? a : b
// Kernels use nothing of the standard library: a function that the linker shares between files could otherwise end up with
// instructions that the processor does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "simd/compiler.h"

namespace bridle {

// Adding it rounds to an integer, which the low bits then hold.
constexpr double kRoundDouble = 6755399441055744.0;  // 1.5 * 2^52
constexpr float kRoundFloat = 12582912.0f;           // 1.5 * 2^23

}  // namespace bridle

#define BRIDLE_TIER_portable 1
#define BRIDLE_TIER_sse2 2
#define BRIDLE_TIER_avx2 3
#define BRIDLE_TIER_avx512 4
#define BRIDLE_TIER_neon 5
#define BRIDLE_TIER_NUMBER_(name) BRIDLE_TIER_##name
#define BRIDLE_TIER_NUMBER(name) BRIDLE_TIER_NUMBER_(name)

#if BRIDLE_TIER_NUMBER(BRIDLE_TIER) == BRIDLE_TIER_sse2
#include "simd/lanes_sse2.h"
#elif BRIDLE_TIER_NUMBER(BRIDLE_TIER) == BRIDLE_TIER_avx2
#include "simd/lanes_avx2.h"
#elif BRIDLE_TIER_NUMBER(BRIDLE_TIER) == BRIDLE_TIER_avx512
#include "simd/lanes_avx512.h"
#elif BRIDLE_TIER_NUMBER(BRIDLE_TIER) == BRIDLE_TIER_neon
#include "simd/lanes_neon.h"
#else
#include "simd/lanes_portable.h"
#endif
