// What the inner loops share: whole vectors, code for several generations of vector units, an exponential that vectorises.
#pragma once

#include <cstdint>
#include <cstring>

// The same code for several generations of vector units; the loader picks. Not under sanitizers, which cannot start it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(BRIDLE_NO_CLONES)
#define BRIDLE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BRIDLE_CLONES
#endif
#define BRIDLE_INLINE __attribute__((always_inline)) inline

namespace bridle {

constexpr int kLanes = 8;
using Vector = double __attribute__((vector_size(8 * kLanes), aligned(8), may_alias));  // lies anywhere
BRIDLE_INLINE Vector& vector_at(double* x) { return *reinterpret_cast<Vector*>(x); }
BRIDLE_INLINE const Vector& vector_at(const double* x) { return *reinterpret_cast<const Vector*>(x); }
using FloatVector = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
BRIDLE_INLINE FloatVector& float_at(float* x) { return *reinterpret_cast<FloatVector*>(x); }
BRIDLE_INLINE const FloatVector& float_at(const float* x) { return *reinterpret_cast<const FloatVector*>(x); }
constexpr int padded(int m) { return (m + kLanes - 1) / kLanes * kLanes; }

// exp(x) to within two units in the last place, for x <= 700; 0 below -700.
//   x = k ln 2 + r,  |r| <= ln 2 / 2;   exp(x) = 2^k * (1 + r + r^2/2! + ... + r^13/13!)
BRIDLE_INLINE double fast_exp(double x) {
    constexpr double shift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number in the low bits
    const double clamped = x < -700 ? -700 : x;
    const double scaled = clamped * 1.4426950408889634 + shift;
    int64_t bits;
    std::memcpy(&bits, &scaled, 8);
    const double k = scaled - shift;
    const double r = (clamped - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double sum = 1.0 / 6227020800;
    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const uint64_t power = (static_cast<uint64_t>(bits) + 1023) << 52;
    double two_k;
    std::memcpy(&two_k, &power, 8);
    return x < -700 ? 0.0 : sum * two_k;
}

// Another number in every process, so that nobody can make keys that collide.
uint64_t salt();

}  // namespace bridle
