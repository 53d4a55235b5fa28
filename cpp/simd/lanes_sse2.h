// SSE2, which every x86-64 processor has: two doubles, four floats.
#pragma once

#include <emmintrin.h>

namespace bridle::sse2 {

struct D {
    static constexpr int lanes = 2;
    __m128d v;

    static BRIDLE_INLINE D load(const double* x) { return {_mm_loadu_pd(x)}; }
    static BRIDLE_INLINE D set(double x) { return {_mm_set1_pd(x)}; }
    static BRIDLE_INLINE D widen(const float* x) { return {_mm_setr_pd(x[0], x[1])}; }
    static BRIDLE_INLINE D load_some(const double* x, int count, double rest) {
        return {_mm_setr_pd(count > 0 ? x[0] : rest, rest)};
    }
    static BRIDLE_INLINE D widen_some(const float* x, int count, double rest) {
        return {_mm_setr_pd(count > 0 ? x[0] : rest, rest)};
    }
    static BRIDLE_INLINE D gather(const double* x, const int32_t* index) {
        return {_mm_setr_pd(x[index[0]], x[index[1]])};
    }
    BRIDLE_INLINE void store(double* x) const { _mm_storeu_pd(x, v); }
    BRIDLE_INLINE void store(float* x) const {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(x), _mm_castps_si128(_mm_cvtpd_ps(v)));
    }
    BRIDLE_INLINE double top() const { return _mm_cvtsd_f64(_mm_max_sd(v, _mm_unpackhi_pd(v, v))); }
    BRIDLE_INLINE double sum() const { return _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v))); }
};

BRIDLE_INLINE D operator+(D a, D b) { return {_mm_add_pd(a.v, b.v)}; }
BRIDLE_INLINE D operator-(D a, D b) { return {_mm_sub_pd(a.v, b.v)}; }
BRIDLE_INLINE D operator*(D a, D b) { return {_mm_mul_pd(a.v, b.v)}; }
BRIDLE_INLINE D fma(D a, D b, D c) { return a * b + c; }
BRIDLE_INLINE D max(D a, D b) { return {_mm_max_pd(a.v, b.v)}; }
BRIDLE_INLINE uint64_t at_least(D a, D b) { return uint64_t(_mm_movemask_pd(_mm_cmpge_pd(a.v, b.v))); }
BRIDLE_INLINE D where_less(D x, D limit, D a, D b) {
    const __m128d less = _mm_cmplt_pd(x.v, limit.v);
    return {_mm_or_pd(_mm_and_pd(less, a.v), _mm_andnot_pd(less, b.v))};
}
BRIDLE_INLINE D power(D k) {
    const __m128i bits = _mm_add_epi64(_mm_castpd_si128(k.v), _mm_set1_epi64x(1023));
    return {_mm_castsi128_pd(_mm_slli_epi64(bits, 52))};
}

struct F {
    static constexpr int lanes = 4;
    __m128 v;

    static BRIDLE_INLINE F load(const float* x) { return {_mm_loadu_ps(x)}; }
    static BRIDLE_INLINE F set(float x) { return {_mm_set1_ps(x)}; }
    static BRIDLE_INLINE F gather(const float* x, const int32_t* k) {
        return {_mm_setr_ps(x[k[0]], x[k[1]], x[k[2]], x[k[3]])};
    }
    BRIDLE_INLINE void store(float* x) const { _mm_storeu_ps(x, v); }
    BRIDLE_INLINE float top() const {
        const __m128 pair = _mm_max_ps(v, _mm_movehl_ps(v, v));
        return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
    }
    BRIDLE_INLINE float sum() const {
        const __m128 pair = _mm_add_ps(v, _mm_movehl_ps(v, v));
        return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
    }
};

BRIDLE_INLINE F operator+(F a, F b) { return {_mm_add_ps(a.v, b.v)}; }
BRIDLE_INLINE F operator-(F a, F b) { return {_mm_sub_ps(a.v, b.v)}; }
BRIDLE_INLINE F operator*(F a, F b) { return {_mm_mul_ps(a.v, b.v)}; }
BRIDLE_INLINE F fma(F a, F b, F c) { return a * b + c; }
BRIDLE_INLINE F max(F a, F b) { return {_mm_max_ps(a.v, b.v)}; }
BRIDLE_INLINE F where_less(F x, F limit, F a, F b) {
    const __m128 less = _mm_cmplt_ps(x.v, limit.v);
    return {_mm_or_ps(_mm_and_ps(less, a.v), _mm_andnot_ps(less, b.v))};
}
BRIDLE_INLINE F power(F k) {
    const __m128i bits = _mm_add_epi32(_mm_castps_si128(k.v), _mm_set1_epi32(127));
    return {_mm_castsi128_ps(_mm_slli_epi32(bits, 23))};
}

constexpr int kRegisters = 16;

}  // namespace bridle::sse2
