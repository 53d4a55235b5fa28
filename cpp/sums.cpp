// Sums instead of maxima over labels x states:
//   A[t][q][j] = log of the sum of exp(score) over all ways to reach label j and state q at position t
//   B[t][q][i] = the same over all ways to go on from there
//   log Z = log sum over q, j of exp(A[n-1][q][j]), final states only;   p(t, y) = sum over q of exp(A + B - log Z)
#include <algorithm>
#include <cmath>
#include <limits>

#include "engines.h"

namespace bridle {
namespace {

constexpr size_t kBreath = size_t{1} << 17;  // terms between two looks at the clock

// log(exp(total) + exp(x)), kept as a pair (largest, scaled sum) until the end
struct LogSum {
    double top = -kInf, sum = 0;
    void add(double x) {
        if (x == -kInf) return;
        if (x <= top) sum += std::exp(x - top);
        else sum = sum * std::exp(top - x) + 1, top = x;
    }
    double value() const { return sum > 0 ? top + std::log(sum) : -kInf; }
};

double sum_of(const Sequence& s, const std::vector<int>& rules, double* marginals, int64_t max_states,
              Control& control) {
    std::vector<BoundAutomaton> chosen;
    for (const BoundAutomaton& p : s.automata)
        if (std::find(rules.begin(), rules.end(), p.rule) != rules.end()) {
            chosen.push_back(p);
            chosen.back().mode = Mode::hard;
        }
    Trellis trellis;
    trellis.load(s);
    Steps steps;
    steps.plain(s);
    AutomatonSet set;
    set.assign(std::move(chosen));
    Fold fold;
    const int n = s.n, m = s.m;
    // For each state: rows of A (all of them for marginals), of sums, of B and of the row before.
    const size_t bytes = std::max<size_t>(
        1, static_cast<size_t>(m) * ((marginals ? n : 2) * sizeof(double) + sizeof(LogSum) + 2 * sizeof(double)));
    size_t most = std::max<size_t>(2, control.memory() / 4 * 3 / bytes);
    if (max_states >= 0) most = std::min<size_t>(most, max_states);
    if (!fold.build(set, n, m, static_cast<int>(std::min<size_t>(most, 1 << 24)), control)) return kInf;
    if (n == 0) return -fold.final[0];

    const int Q = fold.Q;
    const size_t width = static_cast<size_t>(Q) * m;
    const auto next = [&](int t, int q, int j) {
        return fold.plain() ? 0 : fold.cost(t, q)[j] < kInf ? fold.next(t, q)[j] : -1;
    };
    std::vector<double> A;
    lay_out(A, width * (marginals ? n : 2), 0.0, control);
    const int stretch = static_cast<int>(
        std::max<size_t>(1, kBreath / (static_cast<size_t>(m) * m)));  // states between two looks at the clock
    const auto row = [&](int t) { return A.data() + width * (marginals ? t : t % 2); };
    std::vector<LogSum> sums(width);
    for (int t = 0; t < n; ++t) {
        control.check();
        std::fill(sums.begin(), sums.end(), LogSum());
        const double* u = trellis.unary(t);
        if (t == 0) {
            for (int j = 0; j < m; ++j)
                if (next(0, 0, j) >= 0) sums[static_cast<size_t>(next(0, 0, j)) * m + j].add(u[j]);
        } else {
            const double* before = row(t - 1);
            for (int q = 0; q < Q; ++q) {
                if (q % stretch == stretch - 1) control.check();
                for (int i = 0; i < m; ++i) {
                    const double a = before[static_cast<size_t>(q) * m + i];
                    if (a == -kInf) continue;
                    for (int j = 0; j < m; ++j) {
                        const int to = next(t, q, j);
                        if (to >= 0) sums[static_cast<size_t>(to) * m + j].add(a + steps.at(t - 1, i, j) + u[j]);
                    }
                }
            }
        }
        double* out = row(t);
        for (size_t c = 0; c < width; ++c) out[c] = sums[c].value();
    }
    LogSum z;
    for (size_t c = 0; c < width; ++c)
        if (fold.final[c / m] == 0) z.add(row(n - 1)[c]);
    const double log_z = z.value();
    if (!marginals || log_z == -kInf) return log_z;

    std::vector<double> B(width), earlier(width);
    for (size_t c = 0; c < width; ++c) B[c] = fold.final[c / m] == 0 ? 0.0 : -kInf;
    for (int t = n - 1; t >= 0; --t) {
        control.check();
        const double* a = row(t);
        for (int y = 0; y < m; ++y) {
            double p = 0;
            for (int q = 0; q < Q; ++q)
                p += std::exp(a[static_cast<size_t>(q) * m + y] + B[static_cast<size_t>(q) * m + y] - log_z);
            marginals[static_cast<size_t>(t) * m + y] = p;
        }
        if (t == 0) break;
        const double* u = trellis.unary(t);
        for (int q = 0; q < Q; ++q) {
            if (q % stretch == stretch - 1) control.check();
            for (int i = 0; i < m; ++i) {
                LogSum sum;
                for (int j = 0; j < m; ++j) {
                    const int to = next(t, q, j);
                    if (to >= 0) sum.add(steps.at(t - 1, i, j) + u[j] + B[static_cast<size_t>(to) * m + j]);
                }
                earlier[static_cast<size_t>(q) * m + i] = sum.value();
            }
        }
        B.swap(earlier);
    }
    return log_z;
}

}  // namespace

double log_sum(const Problem& problem, int64_t b, const std::vector<int>& rules, double* marginals, int64_t max_states,
               Control& control) {
    control.begin();
    const Armed armed(control);
    try {
        return sum_of(Sequence(problem, b), rules, marginals, max_states, control);
    } catch (const Late&) {
        return std::numeric_limits<double>::quiet_NaN();
    }
}

}  // namespace bridle
