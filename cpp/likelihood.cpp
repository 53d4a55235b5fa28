// Forward-backward, scaled:
//   U[t][y] = exp(unary[t][y] - top[t]),  E[i][j] = exp(pairwise[i][j])
//   a[t][j] = U[t][j] * sum over i of a[t-1][i] E[i][j] * c[t],   c[t] such that a[t] sums to 1
//   b[t][i] = c[t+1] * sum over j of E[i][j] U[t+1][j] b[t+1][j]
// (E is shifted so that its largest entry is 1.) What falls below exp(-700) is lost, and transitions that differ by more
// than kRange could bring it back: then everything is done with logarithms instead, slowly. In single precision a probability
// is off by some 1e-6 of itself, and what falls below exp(-80) is lost; sums over tokens are double.
//   log Z = sum over t of top[t] - log c[t];   p(y at t) = a[t][y] b[t][y];   p(i, j at t) = a[t-1][i] E[i][j] v[t][j]
//   with v[t] = c[t] U[t] b[t].   The sum of p(i, j) over t is E times the sum of outer products a[t-1] v[t].
// A sequence whose labels are not all known adds  log Z - log Z'  and the difference of the expected counts, where Z' is summed
// over the labellings that agree with what is known. Under class weights Z is that of softmax-margin (Gimpel & Smith 2010):
//   unary[t][y] + cost[gold[t]] for the labels y other than gold[t],   cost = log of the weight of a label
//   n positions (t)    m labels (i, then j)    w: m rounded up to whole vectors
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "forward_backward.h"
#include "learn.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kZero = 0;

template <class Real>
double count_expected(const Joined& x, const Real* w, const double* pairwise, const double* cost, int64_t low,
                      int64_t high, double* state, double* pair, Control& control) {
    const int m = x.m, width = x.width;
    const size_t square = static_cast<size_t>(m) * width;
    std::vector<Real> E(square), back(square), sum(square), b(width), a, v, p, c;
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
    int held = 0;  // positions whose bigrams are in `sum`, not yet in `pairs`
    const auto settle = [&] {
        for (size_t cell = 0; cell < square; ++cell) pairs[cell] += sum[cell], sum[cell] = 0;
        held = 0;
    };
    const auto add = [&](int64_t first, int n, Real* u, double share) {
        const size_t cells = static_cast<size_t>(n) * width;
        if (a.size() < cells) a.resize(cells), v.resize(cells), p.resize(cells), c.resize(n);
        const auto scale = [&](std::vector<Real>& counts) {
            if (share != 1) std::for_each_n(counts.begin(), cells, [share](Real& q) { q *= static_cast<Real>(share); });
        };
        if (by_logs) {
            const double log_z = count_by_logs(
                u, [&](int) { return pairwise; }, n, m, width, p.data(),
                [&](int, const double* both) {
                    for (int cell = 0; cell < m * m; ++cell) pair[cell] += share * both[cell];
                });
            scale(p);
            x.expect(first, n, p.data(), state);
            return share * log_z;
        }
        double log_z = (n - 1) * shift + k.lift(u, n, m, width);
        k.forward(u, E.data(), n, m, width, a.data(), c.data());
        for (int t = 0; t < n; ++t) log_z -= std::log(static_cast<double>(c[t]));
        k.backward(u, back.data(), n, m, width, a.data(), c.data(), b.data(), v.data(), p.data());
        scale(p), scale(v);
        x.expect(first, n, p.data(), state);
        for (int t = 0; pairwise && t + 1 < n; t += kHeld) {
            const int count = std::min(kHeld, n - 1 - t);
            if (held + count > kHeld) settle();
            k.add_outer(a.data() + static_cast<size_t>(t) * width, v.data() + static_cast<size_t>(t + 1) * width, count,
                        m, width, sum.data());
            held += count;
        }
        return share * log_z;
    };
    const double log_z = over_sequences(x, w, cost, low, high, add, control);
    settle();
    for (int i = 0; pairwise && i < m; ++i)
        for (int j = 0; j < m; ++j)
            pair[i * m + j] +=
                static_cast<double>(E[static_cast<size_t>(i) * width + j]) * pairs[static_cast<size_t>(i) * width + j];
    return log_z;
}

}  // namespace

double expected_counts(const Joined& x, const double* w, const double* pairwise, const double* cost, int64_t low,
                       int64_t high, double* state, double* pair, Control& control) {
    return count_expected(x, w, pairwise, cost, low, high, state, pair, control);
}

double expected_counts(const Joined& x, const float* w, const double* pairwise, const double* cost, int64_t low,
                       int64_t high, double* state, double* pair, Control& control) {
    return count_expected(x, w, pairwise, cost, low, high, state, pair, control);
}

void gold_counts(const Joined& x, double* state, double* pair) {
    for (int64_t b = 0; b < x.B; ++b) {
        const int64_t first = x.offsets[b];
        if (!all_known(x.y + first, static_cast<int>(x.offsets[b + 1] - first))) continue;
        for (int64_t t = first; t < x.offsets[b + 1]; ++t) {
            x.of_label(t, x.y[t], [&](int64_t slot, double value) { state[slot] += value; });
            if (pair && t > first) pair[x.y[t - 1] * x.m + x.y[t]] += 1;
        }
    }
}

void seen_pairs(const Examples& x, int words, uint64_t* seen) {
    for (int64_t t = 0; t < x.offsets[x.B]; ++t)
        for (int64_t k = x.indptr[t]; x.y[t] >= 0 && k < x.indptr[t + 1]; ++k)
            seen[static_cast<size_t>(x.attrs[k]) * words + x.y[t] / 64] |= uint64_t{1} << (x.y[t] % 64);
}

}  // namespace bridle
