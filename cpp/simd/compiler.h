// What compilers call differently.
#pragma once

#include <cstdint>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define BRIDLE_INLINE __forceinline
#define BRIDLE_NOINLINE __declspec(noinline)
#define BRIDLE_PREFETCH(address) ((void)0)
#else
#define BRIDLE_INLINE __attribute__((always_inline)) inline
#define BRIDLE_NOINLINE __attribute__((noinline))
#define BRIDLE_PREFETCH(address) __builtin_prefetch(address)
#endif

namespace bridle {

// The two halves of a 128-bit product, folded into one.
BRIDLE_INLINE uint64_t folded_product(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    __extension__ using Wide = unsigned __int128;
    const Wide wide = static_cast<Wide>(a) * b;
    return uint64_t(wide) ^ uint64_t(wide >> 64);
#else
    const uint64_t low = uint64_t{uint32_t(a)} * uint32_t(b), cross = (a >> 32) * uint32_t(b);
    const uint64_t middle = uint64_t{uint32_t(a)} * (b >> 32) + uint32_t(cross) + (low >> 32);
    return (a * b) ^ ((a >> 32) * (b >> 32) + (cross >> 32) + (middle >> 32));
#endif
}

BRIDLE_INLINE int count_bits(uint64_t bits) {
#if defined(__POPCNT__)
    return __builtin_popcountll(bits);
#else
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    return int(((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
#endif
}

BRIDLE_INLINE int lowest_bit(uint64_t bits) {  // of some that are set
#if defined(_MSC_VER) && !defined(__clang__)
    unsigned long at;
    _BitScanForward64(&at, bits);
    return int(at);
#else
    return __builtin_ctzll(bits);
#endif
}

}  // namespace bridle
