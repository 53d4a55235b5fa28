// Sums instead of maxima over labels x states:
//   A[t][q][j] = log of the sum of exp(score) over all ways to reach label j and state q at position t
//   B[t][q][i] = the same over all ways to go on from there
//   log Z = log sum over q, j of exp(A[n-1][q][j]), final states only;   p(t, y) ~ sum over q of exp(A[t][q][y] + B[t][q][y])
//
// Scores may be huge (people mask padding with the least float), so only differences are ever added: each row of unary
// scores has its largest subtracted, the transition scores theirs, and each row of A and B its own. Then all terms are <= 0,
// and those that matter to a sum are no further below 0 than the largest of them: what rounding can do to log Z is
// kUlps * sum over t of |largest term at t|, which is returned as `error`. log Z is relative to
//   sum over t of  max over y of unary[t][y]  +  sum over t of  max over i, j of pairwise[i][j]
// of the scores as they came, without masks, which is the same for every choice of rules.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engines.h"

namespace bridle {
namespace {

constexpr size_t kBreath = size_t{1} << 17;                           // terms between two looks at the clock
constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();  // of rounding for each term of a sum
constexpr double kNegligible = 64;  // a term that is so much smaller than the largest adds nothing: exp(-64) < 1e-27

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

// The largest transition score to each position (n), 0 where there is none.
std::vector<double> largest_steps(const Sequence& s, Control& control) {
    std::vector<double> out(s.n, 0.0);
    const size_t cells = static_cast<size_t>(s.m) * s.m;
    const double* scores = s.head->pairwise;
    for (int t = 1; scores && t < s.n; ++t) {
        if (t > 1 && !s.head->per_step) {
            out[t] = out[1];
            continue;
        }
        control.check();
        const double top = *std::max_element(scores, scores + cells);
        out[t] = top > -kInf ? top : 0.0;
        scores += cells;
    }
    return out;
}

// Unary scores as differences to the largest of their row.
class Rows {
  public:
    Rows(const Sequence& s, const Trellis& trellis) : s_(s), trellis_(trellis), row_(s.m) {}

    // The row of a position, masks folded in; `top`: what was subtracted; false: every label is impossible.
    bool read(int t) {
        const double* u = trellis_.unary(t);
        top = *std::max_element(u, u + s_.m);
        for (int y = 0; y < s_.m; ++y) row_[y] = top > -kInf ? u[y] - top : -kInf;
        return top > -kInf;
    }
    const double* scores() const { return row_.data(); }
    // `top` relative to the largest unary score of the position, without masks, start and end.
    double above_unary(int t) const {
        const Problem& p = *s_.problem;
        const int64_t at = (s_.first + t) * s_.m;
        return top - (p.unary32 ? static_cast<double>(*std::max_element(p.unary32 + at, p.unary32 + at + s_.m))
                                : *std::max_element(p.unary64 + at, p.unary64 + at + s_.m));
    }
    double top = 0;

  private:
    const Sequence& s_;
    const Trellis& trellis_;
    std::vector<double> row_;  // (m)
};

// Subtracts the largest entry from all and returns it; -inf: there is none.
double normalize(std::vector<double>& row, double* out) {
    const double top = *std::max_element(row.begin(), row.end());
    for (size_t c = 0; c < row.size(); ++c) out[c] = top > -kInf ? row[c] - top : -kInf;
    return top;
}

Sum sum_of(const Sequence& s, const std::vector<int>& rules, double* marginals, int64_t max_states, Control& control) {
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
    if (!fold.build(set, n, m, static_cast<int>(std::min<size_t>(most, 1 << 24)), control)) return {kInf, 0};
    if (n == 0) return {-fold.final[0], 0};

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
    std::vector<double> values(width);
    const std::vector<double> largest = largest_steps(s, control);
    Rows rows(s, trellis);
    double log_z = 0, error = 0;
    const auto add_error = [&](double largest_term) { error += kUlps * (std::abs(largest_term) + kNegligible); };
    for (int t = 0; t < n; ++t) {
        control.check();
        if (!rows.read(t)) return {-kInf, 0};
        std::fill(sums.begin(), sums.end(), LogSum());
        const double* u = rows.scores();
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
                        if (to >= 0)
                            sums[static_cast<size_t>(to) * m + j].add(a + (steps.at(t - 1, i, j) - largest[t]) + u[j]);
                    }
                }
            }
        }
        for (size_t c = 0; c < width; ++c) values[c] = sums[c].value();
        const double top = normalize(values, row(t));
        if (top == -kInf) return {-kInf, 0};
        // A start or end score was added to the unary one before the largest was subtracted.
        const bool ends = (t == 0 && !s.head->start.empty()) || (t == n - 1 && !s.head->end.empty());
        add_error(ends ? std::max(std::abs(top), std::abs(rows.top)) : top);
        log_z += top + rows.above_unary(t);
    }
    LogSum z;
    for (size_t c = 0; c < width; ++c)
        if (fold.final[c / m] == 0) z.add(row(n - 1)[c]);
    log_z += z.value();
    if (log_z == -kInf) return {-kInf, 0};
    add_error(z.value());
    if (!marginals) return {log_z, error};

    std::vector<double> B(width);
    for (size_t c = 0; c < width; ++c) B[c] = fold.final[c / m] == 0 ? 0.0 : -kInf;
    for (int t = n - 1; t >= 0; --t) {
        control.check();
        const double* a = row(t);
        LogSum all;
        for (size_t c = 0; c < width; ++c) all.add(a[c] + B[c]);
        const double whole = all.value();
        add_error(whole);
        for (int y = 0; y < m; ++y) {
            double p = 0;
            for (int q = 0; q < Q; ++q)
                p += std::exp(a[static_cast<size_t>(q) * m + y] + B[static_cast<size_t>(q) * m + y] - whole);
            marginals[static_cast<size_t>(t) * m + y] = p;
        }
        if (t == 0) break;
        rows.read(t);
        const double* u = rows.scores();
        for (int q = 0; q < Q; ++q) {
            if (q % stretch == stretch - 1) control.check();
            for (int i = 0; i < m; ++i) {
                LogSum sum;
                for (int j = 0; j < m; ++j) {
                    const int to = next(t, q, j);
                    if (to >= 0)
                        sum.add((steps.at(t - 1, i, j) - largest[t]) + u[j] + B[static_cast<size_t>(to) * m + j]);
                }
                values[static_cast<size_t>(q) * m + i] = sum.value();
            }
        }
        add_error(normalize(values, B.data()));
    }
    return {log_z, error};
}

}  // namespace

Sum log_sum(const Problem& problem, int64_t b, const std::vector<int>& rules, double* marginals, int64_t max_states,
            Control& control) {
    control.begin();
    const Armed armed(control);
    try {
        return sum_of(Sequence(problem, b), rules, marginals, max_states, control);
    } catch (const Late&) {
        return {std::numeric_limits<double>::quiet_NaN(), 0};
    }
}

}  // namespace bridle
