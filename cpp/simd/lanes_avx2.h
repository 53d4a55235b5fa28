// AVX2 and FMA: four doubles, eight floats.
#pragma once

#include <immintrin.h>

namespace bridle::avx2 {

struct D {
    static constexpr int lanes = 4;
    __m256d v;

    static BRIDLE_INLINE D load(const double* x) { return {_mm256_loadu_pd(x)}; }
    static BRIDLE_INLINE D set(double x) { return {_mm256_set1_pd(x)}; }
    static BRIDLE_INLINE D widen(const float* x) { return {_mm256_cvtps_pd(_mm_loadu_ps(x))}; }
    static BRIDLE_INLINE D load_some(const double* x, int count, double rest) {
        const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
        return {_mm256_blendv_pd(_mm256_set1_pd(rest), _mm256_maskload_pd(x, mask), _mm256_castsi256_pd(mask))};
    }
    static BRIDLE_INLINE D widen_some(const float* x, int count, double rest) {
        const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(0, 1, 2, 3));
        const __m256i wide = _mm256_cvtepi32_epi64(mask);
        return {_mm256_blendv_pd(_mm256_set1_pd(rest), _mm256_cvtps_pd(_mm_maskload_ps(x, mask)),
                                 _mm256_castsi256_pd(wide))};
    }
    static BRIDLE_INLINE D gather(const double* x, const int32_t* index) {
        return {_mm256_i32gather_pd(x, _mm_loadu_si128(reinterpret_cast<const __m128i*>(index)), 8)};
    }
    BRIDLE_INLINE void store(double* x) const { _mm256_storeu_pd(x, v); }
    BRIDLE_INLINE void store(float* x) const { _mm_storeu_ps(x, _mm256_cvtpd_ps(v)); }
    BRIDLE_INLINE double top() const {
        const __m128d half = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
        return _mm_cvtsd_f64(_mm_max_sd(half, _mm_unpackhi_pd(half, half)));
    }
    BRIDLE_INLINE double sum() const {
        const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
        return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
    }
};

BRIDLE_INLINE D operator+(D a, D b) { return {_mm256_add_pd(a.v, b.v)}; }
BRIDLE_INLINE D operator-(D a, D b) { return {_mm256_sub_pd(a.v, b.v)}; }
BRIDLE_INLINE D operator*(D a, D b) { return {_mm256_mul_pd(a.v, b.v)}; }
BRIDLE_INLINE D fma(D a, D b, D c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
BRIDLE_INLINE D max(D a, D b) { return {_mm256_max_pd(a.v, b.v)}; }
BRIDLE_INLINE uint64_t at_least(D a, D b) { return uint64_t(_mm256_movemask_pd(_mm256_cmp_pd(a.v, b.v, _CMP_GE_OQ))); }
BRIDLE_INLINE D where_less(D x, D limit, D a, D b) {
    return {_mm256_blendv_pd(b.v, a.v, _mm256_cmp_pd(x.v, limit.v, _CMP_LT_OQ))};
}
BRIDLE_INLINE D power(D k) {
    const __m256i bits = _mm256_add_epi64(_mm256_castpd_si256(k.v), _mm256_set1_epi64x(1023));
    return {_mm256_castsi256_pd(_mm256_slli_epi64(bits, 52))};
}

struct F {
    static constexpr int lanes = 8;
    __m256 v;

    static BRIDLE_INLINE F load(const float* x) { return {_mm256_loadu_ps(x)}; }
    static BRIDLE_INLINE F set(float x) { return {_mm256_set1_ps(x)}; }
    static BRIDLE_INLINE F gather(const float* x, const int32_t* index) {
        return {_mm256_i32gather_ps(x, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)), 4)};
    }
    BRIDLE_INLINE void store(float* x) const { _mm256_storeu_ps(x, v); }
    BRIDLE_INLINE float top() const {
        const __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
    }
    BRIDLE_INLINE float sum() const {
        const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
    }
};

BRIDLE_INLINE F operator+(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
BRIDLE_INLINE F operator-(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
BRIDLE_INLINE F operator*(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
BRIDLE_INLINE F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
BRIDLE_INLINE F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }
BRIDLE_INLINE F where_less(F x, F limit, F a, F b) {
    return {_mm256_blendv_ps(b.v, a.v, _mm256_cmp_ps(x.v, limit.v, _CMP_LT_OQ))};
}
BRIDLE_INLINE F power(F k) {
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(k.v), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 23))};
}

constexpr int kRegisters = 16;

}  // namespace bridle::avx2
