// AVX-512 (F, DQ, BW, VL): eight doubles.
#pragma once

#include "simd/lanes_avx2.h"

namespace bridle::avx512 {

struct D {
    static constexpr int lanes = 8;
    __m512d v;

    static BRIDLE_INLINE D load(const double* x) { return {_mm512_loadu_pd(x)}; }
    static BRIDLE_INLINE D set(double x) { return {_mm512_set1_pd(x)}; }
    static BRIDLE_INLINE D widen(const float* x) { return {_mm512_cvtps_pd(_mm256_loadu_ps(x))}; }
    static BRIDLE_INLINE D load_some(const double* x, int count, double rest) {
        return {_mm512_mask_loadu_pd(_mm512_set1_pd(rest), static_cast<__mmask8>((1u << count) - 1), x)};
    }
    static BRIDLE_INLINE D widen_some(const float* x, int count, double rest) {
        const auto mask = static_cast<__mmask8>((1u << count) - 1);
        return {_mm512_mask_cvtps_pd(_mm512_set1_pd(rest), mask, _mm256_maskz_loadu_ps(mask, x))};
    }
    static BRIDLE_INLINE D gather(const double* x, const int32_t* index) {
        return {_mm512_i32gather_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)), x, 8)};
    }
    BRIDLE_INLINE void store(double* x) const { _mm512_storeu_pd(x, v); }
    BRIDLE_INLINE void store(float* x) const { _mm256_storeu_ps(x, _mm512_cvtpd_ps(v)); }
    BRIDLE_INLINE double top() const { return _mm512_reduce_max_pd(v); }
    BRIDLE_INLINE double sum() const { return _mm512_reduce_add_pd(v); }
};

BRIDLE_INLINE D operator+(D a, D b) { return {_mm512_add_pd(a.v, b.v)}; }
BRIDLE_INLINE D operator-(D a, D b) { return {_mm512_sub_pd(a.v, b.v)}; }
BRIDLE_INLINE D operator*(D a, D b) { return {_mm512_mul_pd(a.v, b.v)}; }
BRIDLE_INLINE D fma(D a, D b, D c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
BRIDLE_INLINE D max(D a, D b) { return {_mm512_max_pd(a.v, b.v)}; }
BRIDLE_INLINE uint64_t at_least(D a, D b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_GE_OQ); }
BRIDLE_INLINE D where_less(D x, D limit, D a, D b) {
    return {_mm512_mask_blend_pd(_mm512_cmp_pd_mask(x.v, limit.v, _CMP_LT_OQ), b.v, a.v)};
}
BRIDLE_INLINE D power(D k) {
    const __m512i bits = _mm512_add_epi64(_mm512_castpd_si512(k.v), _mm512_set1_epi64(1023));
    return {_mm512_castsi512_pd(_mm512_slli_epi64(bits, 52))};
}

using avx2::F;  // eight floats, not sixteen: rows of weights are padded to whole vectors of eight

constexpr int kRegisters = 32;

}  // namespace bridle::avx512
