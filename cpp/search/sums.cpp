// Sums instead of maxima over labels x states:
//   A[t][q][j] = log of the sum of exp(score) over all ways to reach label j and state q at position t
//   B[t][q][i] = the same over all ways to go on from there
//   log Z = log sum over q, j of exp(A[n-1][q][j]), final states only;   p(t, y) ~ sum over q of exp(A[t][q][y] + B[t][q][y])
//
// Scores may be huge (people mask padding with the least float), so only differences are ever added: each row of unary
// scores has its largest subtracted, the transition scores theirs, and each row of A and B its own. Then all terms are <= 0,
// and those that matter to a sum are at most as far below 0 as the largest of them: what rounding can do to log Z is
// kUlps * sum over t of |largest term at t|, which is returned as `error`. log Z is relative to
//   sum over t of  max over y of unary[t][y]  +  sum over t of  max over i, j of pairwise[i][j]
// of the scores as they came, without masks, which is the same for every choice of rules.
//
// A segment y[a] .. y[e-1] needs no sum of its own. V[q], the sum over all ways to reach state q with these labels at its end,
// comes from row a-1 of A, and what may follow from row e of B. Both leave out labels that would make it another segment.
#include <algorithm>
#include <cmath>
#include <limits>

#include "search/engines.h"

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
    const size_t cells = size_t(s.m) * s.m;
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
        return top - (p.unary32 ? double(*std::max_element(p.unary32 + at, p.unary32 + at + s_.m))
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

// Forward and backward sums of one sequence.
class Sums {
  public:
    Sums(const Sequence& s, const std::vector<int>& rules, int64_t max_states, bool both, Control& control)
        : s_(s), n_(s.n), m_(s.m), both_(both), control_(control), rows_(s, trellis_) {
        std::vector<BoundAutomaton> chosen;
        for (const BoundAutomaton& p : s.automata)
            if (std::find(rules.begin(), rules.end(), p.rule) != rules.end()) {
                chosen.push_back(p);
                chosen.back().mode = Mode::hard;
            }
        trellis_.load(s);
        steps_.plain(s);
        AutomatonSet set;
        set.assign(std::move(chosen));
        // For each state: rows of A (all of them if B is wanted), of sums, of B and of the row before.
        const size_t bytes =
            std::max<size_t>(1, size_t(m_) * ((both ? n_ : 2) * sizeof(double) + sizeof(LogSum) + 2 * sizeof(double)));
        size_t most = std::max<size_t>(2, control.memory() / 4 * 3 / bytes);
        if (max_states >= 0) most = std::min<size_t>(most, max_states);
        fits_ = fold_.build(set, n_, m_, int(std::min<size_t>(most, 1 << 24)), control);
    }

    Sum run(double* marginals, SegmentSums* segments) {
        if (!fits_) return {kInf, 0};
        if (n_ == 0) return {-fold_.final[0], 0};
        width_ = size_t(fold_.Q) * m_;
        values_.resize(width_);
        largest_ = largest_steps(s_, control_);
        stretch_ = int(std::max<size_t>(1, kBreath / (size_t(m_) * m_)));
        const double log_z = forward();
        if (log_z == -kInf) return {-kInf, 0};
        if (both_) backward(marginals, segments);
        return {log_z, error_};
    }

  private:
    int next(int t, int q, int j) const {  // -1: a rule breaks
        return fold_.plain() ? 0 : fold_.cost(t, q)[j] < kInf ? fold_.next(t, q)[j] : -1;
    }
    double step(int t, int i, int j) const { return steps_.at(t - 1, i, j) - largest_[t]; }  // from i to j at t
    double* row(int t) { return A_.data() + width_ * (both_ ? t : t % 2); }
    size_t cell(int q, int y) const { return size_t(q) * m_ + y; }
    static double rounding(double largest_term) { return kUlps * (std::abs(largest_term) + kNegligible); }

    // Fills A; log Z.
    double forward() {
        lay_out(A_, width_ * (both_ ? n_ : 2), 0.0, control_);
        tops_.resize(n_);
        std::vector<LogSum> sums(width_);
        double log_z = 0;
        for (int t = 0; t < n_; ++t) {
            control_.check();
            if (!rows_.read(t)) return -kInf;
            std::fill(sums.begin(), sums.end(), LogSum());
            const double* u = rows_.scores();
            for (int j = 0; t == 0 && j < m_; ++j)
                if (next(0, 0, j) >= 0) sums[cell(next(0, 0, j), j)].add(u[j]);
            for (int q = 0; t > 0 && q < fold_.Q; ++q) {
                if (q % stretch_ == stretch_ - 1) control_.check();
                for (int i = 0; i < m_; ++i) {
                    const double a = row(t - 1)[cell(q, i)];
                    if (a == -kInf) continue;
                    for (int j = 0; j < m_; ++j)
                        if (const int to = next(t, q, j); to >= 0) sums[cell(to, j)].add(a + step(t, i, j) + u[j]);
                }
            }
            for (size_t c = 0; c < width_; ++c) values_[c] = sums[c].value();
            const double top = tops_[t] = normalize(values_, row(t));
            if (top == -kInf) return -kInf;
            // A start or end score was added to the unary one before the largest was subtracted.
            const bool ends = (t == 0 && !s_.head->start.empty()) || (t == n_ - 1 && !s_.head->end.empty());
            error_ += rounding(ends ? std::max(std::abs(top), std::abs(rows_.top)) : top);
            log_z += top + rows_.above_unary(t);
        }
        LogSum z;
        for (size_t c = 0; c < width_; ++c)
            if (fold_.final[c / m_] == 0) z.add(row(n_ - 1)[c]);
        if (z.value() > -kInf) error_ += rounding(z.value());
        return log_z + z.value();
    }

    // Goes through B from the last row to the first. marginals (n, m) or null.
    void backward(double* marginals, SegmentSums* segments) {
        B_.resize(width_);
        for (size_t c = 0; c < width_; ++c) B_[c] = fold_.final[c / m_] == 0 ? 0.0 : -kInf;
        const int count = segments ? int(segments->first.size()) : 0;
        int k = count - 1;
        // Segment k ends before position t, whose B is known. Its sum is relative to row t - 1 of A and B, once B has it.
        const auto sum_at = [&](int t) {
            if (k < 0 || segments->end[k] != t) return -1;
            along(*segments, k);
            segments->log_p[k] = onwards(*segments, k);
            return k--;
        };
        int waiting = sum_at(n_);  // a segment whose sum over all labellings comes next; -1: none
        for (int t = n_ - 1; t >= 0; --t) {
            control_.check();
            const double* a = row(t);
            LogSum all;
            for (size_t c = 0; c < width_; ++c) all.add(a[c] + B_[c]);
            const double whole = all.value();
            error_ += rounding(whole);
            if (waiting >= 0) segments->log_p[waiting] -= whole;
            for (int y = 0; marginals && y < m_; ++y) {
                double p = 0;
                for (int q = 0; q < fold_.Q; ++q) p += std::exp(a[cell(q, y)] + B_[cell(q, y)] - whole);
                marginals[size_t(t) * m_ + y] = p;
            }
            if (t == 0) break;
            waiting = sum_at(t);
            const double top = step_back(t);
            error_ += rounding(top);
            if (waiting >= 0) segments->log_p[waiting] -= top;
        }
        for (int each = 0; each < count; ++each) segments->error[each] += error_;
    }

    // From row t of B to row t - 1; what was subtracted from it.
    double step_back(int t) {
        rows_.read(t);
        const double* u = rows_.scores();
        for (int q = 0; q < fold_.Q; ++q) {
            if (q % stretch_ == stretch_ - 1) control_.check();
            for (int i = 0; i < m_; ++i) {
                LogSum sum;
                for (int j = 0; j < m_; ++j)
                    if (const int to = next(t, q, j); to >= 0) sum.add(step(t, i, j) + u[j] + B_[cell(to, j)]);
                values_[cell(q, i)] = sum.value();
            }
        }
        return normalize(values_, B_.data());
    }

    // Fills V for the last token of a segment, relative to that row of A.
    void along(SegmentSums& x, int k) {
        std::vector<LogSum> sums(fold_.Q);
        V_.resize(fold_.Q);
        x.error[k] = 0;
        for (int t = x.first[k]; t < x.end[k]; ++t) {
            control_.check();
            const int j = x.ids[t];
            rows_.read(t);
            const double u = rows_.scores()[j] - tops_[t];
            std::fill(sums.begin(), sums.end(), LogSum());
            if (t == 0 && next(0, 0, j) >= 0) sums[next(0, 0, j)].add(u);
            for (int q = 0; t > 0 && q < fold_.Q; ++q) {
                const int to = next(t, q, j);
                if (to < 0) continue;
                if (t > x.first[k]) sums[to].add(V_[q] + step(t, x.ids[t - 1], j) + u);
                for (int i = 0; t == x.first[k] && i < m_; ++i)
                    if (x.labels->begins(i, j)) sums[to].add(row(t - 1)[cell(q, i)] + step(t, i, j) + u);
            }
            for (int q = 0; q < fold_.Q; ++q) V_[q] = sums[q].value();
            const double top = *std::max_element(V_.begin(), V_.end());
            if (top > -kInf) x.error[k] += rounding(top);
        }
    }

    // The sum over all labellings that go on from V after the segment; B is at its end.
    double onwards(const SegmentSums& x, int k) {
        const int t = x.end[k], i = x.ids[t - 1];
        if (t < n_) rows_.read(t);
        LogSum sum;
        for (int q = 0; q < fold_.Q; ++q) {
            if (t == n_ && fold_.final[q] == 0) sum.add(V_[q]);
            for (int j = 0; t < n_ && j < m_; ++j)
                if (const int to = next(t, q, j); to >= 0 && x.labels->begins(i, j))
                    sum.add(V_[q] + step(t, i, j) + rows_.scores()[j] + B_[cell(to, j)]);
        }
        return sum.value();
    }

    const Sequence& s_;
    const int n_, m_;
    const bool both_;  // is B wanted?
    Control& control_;
    Trellis trellis_;
    Steps steps_;
    Fold fold_;
    Rows rows_;
    bool fits_ = false;
    size_t width_ = 0;                                         // Q m
    int stretch_ = 1;                                          // states between two looks at the clock
    std::vector<double> A_, B_, V_, values_, tops_, largest_;  // tops (n): what was subtracted from each row of A
    double error_ = 0;
};

}  // namespace

Sum log_sum(const Problem& problem, int64_t b, const std::vector<int>& rules, double* marginals, SegmentSums* segments,
            int64_t max_states, Control& control) {
    control.begin();
    const Armed armed(control);
    Sequence sequence(problem, b);
    sequence.expand();
    Sum sum{std::numeric_limits<double>::quiet_NaN(), 0};
    control.completes(
        [&] { sum = Sums(sequence, rules, max_states, marginals || segments, control).run(marginals, segments); });
    return sum;
}

}  // namespace bridle
