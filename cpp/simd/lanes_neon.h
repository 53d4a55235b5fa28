// NEON on 64-bit ARM: two doubles, four floats.
#pragma once

#include <arm_neon.h>

namespace bridle::neon {

struct D {
    static constexpr int lanes = 2;
    float64x2_t v;

    static BRIDLE_INLINE D load(const double* x) { return {vld1q_f64(x)}; }
    static BRIDLE_INLINE D set(double x) { return {vdupq_n_f64(x)}; }
    static BRIDLE_INLINE D pair(double low, double high) { return {vsetq_lane_f64(high, vdupq_n_f64(low), 1)}; }
    static BRIDLE_INLINE D widen(const float* x) { return {vcvt_f64_f32(vld1_f32(x))}; }
    static BRIDLE_INLINE D load_some(const double* x, int count, double rest) {
        return pair(count > 0 ? x[0] : rest, rest);
    }
    static BRIDLE_INLINE D widen_some(const float* x, int count, double rest) {
        return pair(count > 0 ? x[0] : rest, rest);
    }
    static BRIDLE_INLINE D gather(const double* x, const int32_t* index) { return pair(x[index[0]], x[index[1]]); }
    BRIDLE_INLINE void store(double* x) const { vst1q_f64(x, v); }
    BRIDLE_INLINE void store(float* x) const { vst1_f32(x, vcvt_f32_f64(v)); }
    BRIDLE_INLINE double top() const { return vmaxvq_f64(v); }
    BRIDLE_INLINE double sum() const { return vaddvq_f64(v); }
};

BRIDLE_INLINE D operator+(D a, D b) { return {vaddq_f64(a.v, b.v)}; }
BRIDLE_INLINE D operator-(D a, D b) { return {vsubq_f64(a.v, b.v)}; }
BRIDLE_INLINE D operator*(D a, D b) { return {vmulq_f64(a.v, b.v)}; }
BRIDLE_INLINE D fma(D a, D b, D c) { return {vfmaq_f64(c.v, a.v, b.v)}; }
BRIDLE_INLINE D max(D a, D b) { return {vmaxq_f64(a.v, b.v)}; }
BRIDLE_INLINE uint64_t at_least(D a, D b) {
    const uint64x2_t yes = vcgeq_f64(a.v, b.v);
    return (vgetq_lane_u64(yes, 0) & 1) | (vgetq_lane_u64(yes, 1) & 2);
}
BRIDLE_INLINE D where_less(D x, D limit, D a, D b) { return {vbslq_f64(vcltq_f64(x.v, limit.v), a.v, b.v)}; }
BRIDLE_INLINE D power(D k) {
    const int64x2_t bits = vaddq_s64(vreinterpretq_s64_f64(k.v), vdupq_n_s64(1023));
    return {vreinterpretq_f64_s64(vshlq_n_s64(bits, 52))};
}

struct F {
    static constexpr int lanes = 4;
    float32x4_t v;

    static BRIDLE_INLINE F load(const float* x) { return {vld1q_f32(x)}; }
    static BRIDLE_INLINE F set(float x) { return {vdupq_n_f32(x)}; }
    static BRIDLE_INLINE F gather(const float* x, const int32_t* k) {
        const float y[4] = {x[k[0]], x[k[1]], x[k[2]], x[k[3]]};
        return load(y);
    }
    BRIDLE_INLINE void store(float* x) const { vst1q_f32(x, v); }
    BRIDLE_INLINE float top() const { return vmaxvq_f32(v); }
    BRIDLE_INLINE float sum() const { return vaddvq_f32(v); }
};

BRIDLE_INLINE F operator+(F a, F b) { return {vaddq_f32(a.v, b.v)}; }
BRIDLE_INLINE F operator-(F a, F b) { return {vsubq_f32(a.v, b.v)}; }
BRIDLE_INLINE F operator*(F a, F b) { return {vmulq_f32(a.v, b.v)}; }
BRIDLE_INLINE F fma(F a, F b, F c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
BRIDLE_INLINE F max(F a, F b) { return {vmaxq_f32(a.v, b.v)}; }
BRIDLE_INLINE F where_less(F x, F limit, F a, F b) { return {vbslq_f32(vcltq_f32(x.v, limit.v), a.v, b.v)}; }
BRIDLE_INLINE F power(F k) {
    const int32x4_t bits = vaddq_s32(vreinterpretq_s32_f32(k.v), vdupq_n_s32(127));
    return {vreinterpretq_f32_s32(vshlq_n_s32(bits, 23))};
}

constexpr int kRegisters = 32;

}  // namespace bridle::neon
