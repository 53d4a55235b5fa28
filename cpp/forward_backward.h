// What the likelihoods share: their loop over sequences, when logarithms are needed, and sums with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "control.h"
#include "rows.h"

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace bridle {

// Differences between transition scores up to which probabilities are scaled, not logarithms (likelihood.cpp says why).
template <class Real>
constexpr double kRange = sizeof(Real) == 8 ? 300 : 40;
constexpr double kNoLabel = -1e30;  // a score whose exp is 0, as in `lift`
constexpr int kHeld = 256;          // positions whose bigrams are added up in the precision of the pass

// log of the sum of exp(x[0]), ..., exp(x[m - 1])
inline double log_sum(const double* x, int m) {
    const double top = *std::max_element(x, x + m);
    double sum = 0;
    for (int k = 0; k < m; ++k) sum += std::exp(x[k] - top);
    return top + std::log(sum);
}

// One sequence with logarithms: p(y at t) into p (n, w); log Z. steps(t): the transition scores (m, m) to position t;
// add(t, p): hears the probabilities (m, m) of i at t - 1 and j at t.
template <class Real, class Steps, class Add>
double count_by_logs(const Real* u, const Steps& steps, int n, int m, int w, Real* p, const Add& add) {
    const auto at = [w](std::vector<double>& x, int t) { return x.data() + static_cast<size_t>(t) * w; };
    std::vector<double> a(static_cast<size_t>(n) * w), b(a.size()), x(m), both(static_cast<size_t>(m) * m);
    for (int t = 0; t < n; ++t) {
        const double* step = t ? steps(t) : nullptr;
        for (int j = 0; j < m; ++j) {
            for (int i = 0; t && i < m; ++i) x[i] = at(a, t - 1)[i] + step[i * m + j];
            at(a, t)[j] = u[static_cast<size_t>(t) * w + j] + (t ? log_sum(x.data(), m) : 0.0);
        }
    }
    const double log_z = log_sum(at(a, n - 1), m);
    for (int t = n - 1; t >= 0; --t) {
        const double* step = t + 1 < n ? steps(t + 1) : nullptr;
        for (int i = 0; i < m; ++i) {
            for (int j = 0; step && j < m; ++j)
                x[j] = step[i * m + j] + u[static_cast<size_t>(t + 1) * w + j] + at(b, t + 1)[j];
            at(b, t)[i] = step ? log_sum(x.data(), m) : 0.0;
            p[static_cast<size_t>(t) * w + i] = static_cast<Real>(std::exp(at(a, t)[i] + at(b, t)[i] - log_z));
            for (int j = 0; step && j < m; ++j) both[i * m + j] = std::exp(at(a, t)[i] + x[j] - log_z);
        }
        if (step) add(t + 1, both.data());
    }
    return log_z;
}

// Numbers below the smallest normal one are taken for 0 meanwhile: they take a hundred times as long, and mean nothing here.
class FlushToZero {
  public:
#if defined(__SSE2__) || defined(_M_X64)
    FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~FlushToZero() { _mm_setcsr(before_); }

  private:
    unsigned before_;
#else
    FlushToZero() {}
#endif
};

inline bool all_known(const int32_t* y, int n) {
    return std::all_of(y, y + n, [](int32_t label) { return label >= 0; });
}

inline bool none_known(const int32_t* y, int n) {
    return std::all_of(y, y + n, [](int32_t label) { return label < 0; });
}

// Scores (n, width) := only of the labellings that agree with the labels that are known.
template <class Real>
void hold(const int32_t* y, int n, int m, int width, Real* scores) {
    for (int t = 0; t < n; ++t, scores += width) {
        if (y[t] < 0) continue;
        const Real kept = scores[y[t]];
        std::fill_n(scores, m, static_cast<Real>(kNoLabel));
        scores[y[t]] = kept;
    }
}

// The sum of log Z of sequences low .. high-1, where add(first, n, u, share) adds share * expected counts of the scores u
// (n, width), which it may overwrite, and returns share * log Z. likelihood.cpp says what missing labels and costs do.
template <class Real, class Add>
double over_sequences(const Joined& x, const Real* w, const double* cost, int64_t low, int64_t high, const Add& add,
                      Control& control) {
    std::vector<Real> u, scores;
    double log_z = 0;
    for (int64_t b = low; b < high; ++b) {
        if (b % 64 == 0) control.check();
        const int64_t first = x.offsets[b];
        const int n = static_cast<int>(x.offsets[b + 1] - first);
        if (n == 0) continue;
        const int32_t* y = x.y + first;
        const bool whole = all_known(y, n);
        if (!whole && none_known(y, n)) continue;  // every labelling agrees with what is known
        const size_t cells = static_cast<size_t>(n) * x.width;
        if (u.size() < cells) u.resize(cells);
        x.score(first, n, w, u.data());
        if (!whole) scores.assign(u.begin(), u.begin() + static_cast<std::ptrdiff_t>(cells));
        for (int t = 0; cost && t < n; ++t)
            if (y[t] >= 0) {  // cost for all labels but the right one, less what all have in common
                u[static_cast<size_t>(t) * x.width + y[t]] -= static_cast<Real>(cost[y[t]]);
                log_z += cost[y[t]];
            }
        log_z += add(first, n, u.data(), 1.0);
        if (whole) continue;  // the counts of gold labels are the rest
        hold(y, n, x.m, x.width, scores.data());
        log_z += add(first, n, scores.data(), -1.0);
    }
    return log_z;
}

}  // namespace bridle
