// Forward-backward, scaled:
//   U[t][y] = exp(unary[t][y] - top[t]),  E[i][j] = exp(pairwise[i][j])
//   a[t][j] = U[t][j] * sum over i of a[t-1][i] E[i][j] * c[t],   c[t] such that a[t] sums to 1
//   b[t][i] = c[t+1] * sum over j of E[i][j] U[t+1][j] b[t+1][j]
// (E is shifted so that its largest entry is 1.) What falls below exp(-700) is lost, and transitions that differ by more
// than kRange could bring it back: then everything is done with logarithms instead, slowly. In single precision a probability
// is off by some 1e-6 of itself, and what falls below exp(-80) is lost; sums over tokens are double.
//   log Z = sum over t of top[t] - log c[t];   p(y at t) = a[t][y] b[t][y];   p(i, j at t) = a[t-1][i] E[i][j] v[t][j]
//   with v[t] = c[t] U[t] b[t].   The sum of p(i, j) over t is E times the sum of outer products a[t-1] v[t].
//   n positions (t)    m labels (i, then j)    w: m rounded up to whole vectors
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

#include "learn.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

template <class Real>
constexpr double kRange = sizeof(Real) == 8 ? 300 : 40;
constexpr int kHeld = 256;  // positions whose bigrams are added up in the precision of the pass
constexpr double kZero = 0;

// log of the sum of exp(x[0]), ..., exp(x[m - 1])
double log_sum(const double* x, int m) {
    const double top = *std::max_element(x, x + m);
    double sum = 0;
    for (int k = 0; k < m; ++k) sum += std::exp(x[k] - top);
    return top + std::log(sum);
}

// One sequence with logarithms: p(y at t) into p (n, w), p(i, j) added to pair (m, m); log Z.
template <class Real>
double count_by_logs(const Real* u, const double* pairwise, int n, int m, int w, Real* p, double* pair) {
    const auto at = [w](std::vector<double>& x, int t) { return x.data() + static_cast<size_t>(t) * w; };
    std::vector<double> a(static_cast<size_t>(n) * w), b(a.size()), x(m);
    for (int t = 0; t < n; ++t)
        for (int j = 0; j < m; ++j) {
            for (int i = 0; t && i < m; ++i) x[i] = at(a, t - 1)[i] + pairwise[i * m + j];
            at(a, t)[j] = u[static_cast<size_t>(t) * w + j] + (t ? log_sum(x.data(), m) : 0.0);
        }
    const double log_z = log_sum(at(a, n - 1), m);
    for (int t = n - 1; t >= 0; --t)
        for (int i = 0; i < m; ++i) {
            for (int j = 0; t + 1 < n && j < m; ++j)
                x[j] = pairwise[i * m + j] + u[static_cast<size_t>(t + 1) * w + j] + at(b, t + 1)[j];
            at(b, t)[i] = t + 1 < n ? log_sum(x.data(), m) : 0.0;
            p[static_cast<size_t>(t) * w + i] = static_cast<Real>(std::exp(at(a, t)[i] + at(b, t)[i] - log_z));
            for (int j = 0; t + 1 < n && j < m; ++j) pair[i * m + j] += std::exp(at(a, t)[i] + x[j] - log_z);
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

template <class Real>
double count_expected(const Joined& x, const Real* w, const double* pairwise, int64_t low, int64_t high, double* state,
                      double* pair, Control& control) {
    const int m = x.m, width = x.width;
    const size_t square = static_cast<size_t>(m) * width;
    std::vector<Real> E(square), back(square), sum(square), b(width), u, a, v, p, c;
    std::vector<double> pairs(square);
    const auto [low_pair, high_pair] =
        pairwise ? std::minmax_element(pairwise, pairwise + static_cast<size_t>(m) * m) : std::pair(&kZero, &kZero);
    const double shift = *high_pair;
    const bool by_logs = shift - *low_pair > kRange<Real>;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < m; ++j) {
            E[static_cast<size_t>(i) * width + j] =
                static_cast<Real>(pairwise ? std::exp(pairwise[i * m + j] - shift) : 1.0);
            back[static_cast<size_t>(j) * width + i] = E[static_cast<size_t>(i) * width + j];
        }
    const SumKernels<Real>& k = sum_kernels<Real>();
    const FlushToZero flush;
    double log_z = 0;
    int held = 0;  // positions whose bigrams are in `sum`, not yet in `pairs`
    const auto settle = [&] {
        for (size_t cell = 0; cell < square; ++cell) pairs[cell] += sum[cell], sum[cell] = 0;
        held = 0;
    };
    for (int64_t s = low; s < high; ++s) {
        if (s % 64 == 0) control.check();
        const int64_t first = x.offsets[s];
        const int n = static_cast<int>(x.offsets[s + 1] - first);
        if (n == 0) continue;
        const size_t cells = static_cast<size_t>(n) * width;
        if (u.size() < cells) u.resize(cells), a.resize(cells), v.resize(cells), p.resize(cells), c.resize(n);
        x.score(first, n, w, u.data());
        if (by_logs) {
            log_z += count_by_logs(u.data(), pairwise, n, m, width, p.data(), pair);
            x.expect(first, n, p.data(), state);
            continue;
        }
        log_z += (n - 1) * shift + k.lift(u.data(), n, m, width);
        k.forward(u.data(), E.data(), n, m, width, a.data(), c.data());
        for (int t = 0; t < n; ++t) log_z -= std::log(static_cast<double>(c[t]));
        k.backward(u.data(), back.data(), n, m, width, a.data(), c.data(), b.data(), v.data(), p.data());
        x.expect(first, n, p.data(), state);
        for (int t = 0; pairwise && t + 1 < n; t += kHeld) {
            const int count = std::min(kHeld, n - 1 - t);
            if (held + count > kHeld) settle();
            k.add_outer(a.data() + static_cast<size_t>(t) * width, v.data() + static_cast<size_t>(t + 1) * width, count,
                        m, width, sum.data());
            held += count;
        }
    }
    settle();
    for (int i = 0; pairwise && i < m; ++i)
        for (int j = 0; j < m; ++j)
            pair[i * m + j] +=
                static_cast<double>(E[static_cast<size_t>(i) * width + j]) * pairs[static_cast<size_t>(i) * width + j];
    return log_z;
}

}  // namespace

double expected_counts(const Joined& x, const double* w, const double* pairwise, int64_t low, int64_t high,
                       double* state, double* pair, Control& control) {
    return count_expected(x, w, pairwise, low, high, state, pair, control);
}

double expected_counts(const Joined& x, const float* w, const double* pairwise, int64_t low, int64_t high,
                       double* state, double* pair, Control& control) {
    return count_expected(x, w, pairwise, low, high, state, pair, control);
}

void gold_counts(const Joined& x, double* state, double* pair) {
    for (int64_t b = 0; b < x.B; ++b)
        for (int64_t t = x.offsets[b]; t < x.offsets[b + 1]; ++t) {
            x.of_label(t, x.y[t], [&](int64_t slot, double value) { state[slot] += value; });
            if (pair && t > x.offsets[b]) pair[x.y[t - 1] * x.m + x.y[t]] += 1;
        }
}

void seen_pairs(const Examples& x, int words, uint64_t* seen) {
    for (int64_t t = 0; t < x.offsets[x.B]; ++t)
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k)
            seen[static_cast<size_t>(x.attrs[k]) * words + x.y[t] / 64] |= uint64_t{1} << (x.y[t] % 64);
}

}  // namespace bridle
