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
#include "vectors.h"

namespace bridle {
namespace {

constexpr double kRange = 300;
constexpr double kZero = 0;

// out[j] = sum over i of x[i] * M[i][j]: kVectors vectors of columns stay in registers
template <int kVectors> BRIDLE_INLINE void times_block(const double* x, const double* M, int m, int w, double* out) {
    Vector sum[kVectors] = {};
    for (int i = 0; i < m; ++i, M += w)
        for (int v = 0; v < kVectors; ++v) sum[v] += x[i] * vector_at(M + v * kLanes);
    for (int v = 0; v < kVectors; ++v) vector_at(out + v * kLanes) = sum[v];
}

BRIDLE_INLINE void times(const double* x, const double* M, int m, int w, double* out) {
    int j = 0;
    for (; w - j >= 4 * kLanes; j += 4 * kLanes) times_block<4>(x, M + j, m, w, out + j);
    if (w - j == 3 * kLanes) times_block<3>(x, M + j, m, w, out + j);
    else if (w - j == 2 * kLanes) times_block<2>(x, M + j, m, w, out + j);
    else if (w - j == kLanes) times_block<1>(x, M + j, m, w, out + j);
}

// sum[i][j] += over `count` positions of a[i] v[j]; eight at a time
BRIDLE_CLONES void add_outer(const double* a, const double* v, int count, int m, int w, double* sum) {
    constexpr int kSome = 8;
    int t = 0;
    for (; t + kSome <= count; t += kSome, a += kSome * w, v += kSome * w)
        for (int j = 0; j < w; j += kLanes) {
            Vector right[kSome];
            for (int k = 0; k < kSome; ++k) right[k] = vector_at(v + k * w + j);
            for (int i = 0; i < m; ++i) {
                Vector row = vector_at(sum + i * w + j);
                for (int k = 0; k < kSome; ++k) row += a[k * w + i] * right[k];
                vector_at(sum + i * w + j) = row;
            }
        }
    for (; t < count; ++t, a += w, v += w)
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < w; j += kLanes) vector_at(sum + i * w + j) += a[i] * vector_at(v + j);
}

BRIDLE_CLONES void exp_all(double* x, int64_t count) {
    for (int64_t k = 0; k < count; ++k) x[k] = fast_exp(x[k]);
}

// U := exp(u - top of the row); the sum of the tops
double lift(double* u, int n, int m, int w) {
    double tops = 0;
    for (int t = 0; t < n; ++t) {
        double* row = u + static_cast<size_t>(t) * w;
        const double top = *std::max_element(row, row + m);
        tops += top;
        for (int y = 0; y < m; ++y) row[y] -= top;
        for (int y = m; y < w; ++y) row[y] = -1e9;  // its exp is 0
    }
    exp_all(u, static_cast<int64_t>(n) * w);
    return tops;
}

BRIDLE_CLONES double forward(const double* U, const double* E, int n, int m, int w, double* a, double* c) {
    double log_c = 0;
    for (int t = 0; t < n; ++t) {
        double* now = a + static_cast<size_t>(t) * w;
        const double* u = U + static_cast<size_t>(t) * w;
        if (t) times(now - w, E, m, w, now);
        else std::fill(now, now + w, 1.0);
        double sum = 0;
        for (int j = 0; j < w; ++j) now[j] *= u[j], sum += now[j];
        c[t] = 1 / sum;
        for (int j = 0; j < w; ++j) now[j] *= c[t];
        log_c += std::log(sum);
    }
    return log_c;
}

// v as above, and p(y at t) into p
BRIDLE_CLONES void backward(const double* U, const double* back, int n, int m, int w, const double* a, const double* c,
                            double* b, double* v, double* p) {
    for (int t = n - 1; t >= 0; --t) {
        if (t == n - 1) std::fill(b, b + w, 1.0);
        else times(v + static_cast<size_t>(t + 1) * w, back, m, w, b);
        const size_t row = static_cast<size_t>(t) * w;
        for (int j = 0; j < w; ++j) v[row + j] = c[t] * U[row + j] * b[j], p[row + j] = a[row + j] * b[j];
    }
}

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
        log_z += (n - 1) * shift + lift(u.data(), n, m, width);
        log_z += forward(u.data(), E.data(), n, m, width, a.data(), c.data());
        backward(u.data(), back.data(), n, m, width, a.data(), c.data(), b.data(), v.data(), p.data());
        x.expect(first, n, p.data(), state);
        if (n > 1) add_outer(a.data(), v.data() + width, n - 1, m, width, sum.data());
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
