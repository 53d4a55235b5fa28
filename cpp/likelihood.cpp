// Forward-backward, scaled:
//   U[t][y] = exp(unary[t][y] - top[t]),  E[i][j] = exp(pairwise[i][j])
//   a[t][j] = U[t][j] * sum over i of a[t-1][i] E[i][j] * c[t],   c[t] such that a[t] sums to 1
//   b[t][i] = c[t+1] * sum over j of E[i][j] U[t+1][j] b[t+1][j]
// (E is shifted so that its largest entry is 1.) What falls below exp(-700) is lost, and transitions that differ by more
// than kRange could bring it back: then everything is done with logarithms instead, slowly.
//   log Z = sum over t of top[t] - log c[t];   p(y at t) = a[t][y] b[t][y];   p(i, j at t) = a[t-1][i] E[i][j] v[t][j]
//   with v[t] = c[t] U[t] b[t].   The sum of p(i, j) over t is E times the sum of outer products a[t-1] v[t].
//   n positions (t)    m labels (i, then j)    w: m rounded up to whole vectors
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "learn.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kRange = 300;
constexpr double kZero = 0;

// log of the sum of exp(x[0]), ..., exp(x[m - 1])
double log_sum(const double* x, int m) {
    const double top = *std::max_element(x, x + m);
    double sum = 0;
    for (int k = 0; k < m; ++k) sum += std::exp(x[k] - top);
    return top + std::log(sum);
}

// One sequence with logarithms: p(y at t) into p (n, w), p(i, j) added to pair (m, m); log Z.
double count_by_logs(const double* u, const double* pairwise, int n, int m, int w, double* p, double* pair) {
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
            p[static_cast<size_t>(t) * w + i] = std::exp(at(a, t)[i] + at(b, t)[i] - log_z);
            for (int j = 0; t + 1 < n && j < m; ++j) pair[i * m + j] += std::exp(at(a, t)[i] + x[j] - log_z);
        }
    return log_z;
}

}  // namespace

double expected_counts(const Joined& x, const double* w, const double* pairwise, int64_t low,
                       int64_t high, double* state, double* pair, Control& control) {
    const int m = x.m, width = x.width;
    const size_t square = static_cast<size_t>(m) * width;
    std::vector<double> E(square), back(square), sum(square), b(width), u, a, v, p, c;
    const auto [low_pair, high_pair] = pairwise ? std::minmax_element(pairwise, pairwise + static_cast<size_t>(m) * m) : std::pair(&kZero, &kZero);
    const double shift = *high_pair;
    const bool by_logs = shift - *low_pair > kRange;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < m; ++j) {
            E[static_cast<size_t>(i) * width + j] = pairwise ? std::exp(pairwise[i * m + j] - shift) : 1.0;
            back[static_cast<size_t>(j) * width + i] = E[static_cast<size_t>(i) * width + j];
        }
    const Kernels& k = kernels();
    double log_z = 0;
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
        for (int t = 0; t < n; ++t) log_z -= std::log(c[t]);
        k.backward(u.data(), back.data(), n, m, width, a.data(), c.data(), b.data(), v.data(), p.data());
        x.expect(first, n, p.data(), state);
        if (n > 1) k.add_outer(a.data(), v.data() + width, n - 1, m, width, sum.data());
    }
    for (int i = 0; pairwise && i < m; ++i)
        for (int j = 0; j < m; ++j) pair[i * m + j] += E[static_cast<size_t>(i) * width + j] * sum[static_cast<size_t>(i) * width + j];
    return log_z;
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
