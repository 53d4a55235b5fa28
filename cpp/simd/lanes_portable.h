// Plain C++ for every other processor: two doubles, four floats; the compiler makes of it what it can.
#pragma once

#include <string.h>

namespace bridle::portable {

template <class T, int kCount, class Bits>
struct Lanes {
    static constexpr int lanes = kCount;
    T v[kCount];

    template <class From>
    static BRIDLE_INLINE Lanes each(const From& from) {
        Lanes out;
        for (int k = 0; k < kCount; ++k) out.v[k] = from(k);
        return out;
    }
    static BRIDLE_INLINE Lanes load(const T* x) {
        return each([&](int k) { return x[k]; });
    }
    static BRIDLE_INLINE Lanes set(T x) {
        return each([&](int) { return x; });
    }
    static BRIDLE_INLINE Lanes widen(const float* x) {
        return each([&](int k) { return static_cast<T>(x[k]); });
    }
    static BRIDLE_INLINE Lanes load_some(const T* x, int count, T rest) {
        return each([&](int k) { return k < count ? x[k] : rest; });
    }
    static BRIDLE_INLINE Lanes widen_some(const float* x, int count, T rest) {
        return each([&](int k) { return k < count ? static_cast<T>(x[k]) : rest; });
    }
    static BRIDLE_INLINE Lanes gather(const T* x, const int32_t* index) {
        return each([&](int k) { return x[index[k]]; });
    }
    template <class To>
    BRIDLE_INLINE void store(To* x) const {
        for (int k = 0; k < kCount; ++k) x[k] = static_cast<To>(v[k]);
    }
    BRIDLE_INLINE T top() const {
        T out = v[0];
        for (int k = 1; k < kCount; ++k) out = v[k] > out ? v[k] : out;
        return out;
    }
    BRIDLE_INLINE T sum() const {  // in pairs, as the tiers with registers do
        T left = 0, right = 0;
        for (int k = 0; k < kCount / 2; ++k) left += v[k], right += v[k + kCount / 2];
        return left + right;
    }
    friend BRIDLE_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
        return each([&](int k) { return a.v[k] + b.v[k]; });
    }
    friend BRIDLE_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
        return each([&](int k) { return a.v[k] - b.v[k]; });
    }
    friend BRIDLE_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
        return each([&](int k) { return a.v[k] * b.v[k]; });
    }
    friend BRIDLE_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) { return a * b + c; }
    friend BRIDLE_INLINE Lanes max(const Lanes& a, const Lanes& b) {
        return each([&](int k) { return a.v[k] > b.v[k] ? a.v[k] : b.v[k]; });
    }
    friend BRIDLE_INLINE uint64_t at_least(const Lanes& a, const Lanes& b) {
        uint64_t bits = 0;
        for (int k = 0; k < kCount; ++k) bits |= uint64_t{a.v[k] >= b.v[k]} << k;
        return bits;
    }
    friend BRIDLE_INLINE Lanes where_less(const Lanes& x, const Lanes& limit, const Lanes& a, const Lanes& b) {
        return each([&](int k) { return x.v[k] < limit.v[k] ? a.v[k] : b.v[k]; });
    }
    friend BRIDLE_INLINE Lanes power(const Lanes& x) {
        constexpr int kMantissa = sizeof(T) == 8 ? 52 : 23, kBias = sizeof(T) == 8 ? 1023 : 127;
        return each([&](int k) {
            Bits bits;
            memcpy(&bits, &x.v[k], sizeof bits);
            bits = (bits + kBias) << kMantissa;
            T out;
            memcpy(&out, &bits, sizeof out);
            return out;
        });
    }
};

using D = Lanes<double, 2, uint64_t>;
using F = Lanes<float, 4, uint32_t>;
constexpr int kRegisters = 16;

}  // namespace bridle::portable
