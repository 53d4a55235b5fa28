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
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "search/control.h"
#include "learn/learn.h"
#include "learn/rows.h"
#include "simd/flush.h"
#include "simd/kernels.h"

namespace bridle {

// What the likelihoods share: their loop over sequences, when logarithms are needed, and sums with them.

namespace {

// Differences between transition scores up to which probabilities are scaled, not logarithms (likelihood.cpp says why).
template <class Real>
constexpr double kRange = sizeof(Real) == 8 ? 300 : 40;
constexpr double kNoLabel = -1e30;  // a score whose exp is 0, as in `lift`
constexpr int kHeld = 256;          // positions whose bigrams are added up in the precision of the pass

// log of the sum of exp(x[0]), ..., exp(x[m - 1])
inline double log_sum(std::span<const double> x) {
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const double value : x) sum += std::exp(value - top);
    return top + std::log(sum);
}

// One sequence with logarithms: p(y at t) into p (n, w); log Z. steps(t): the transition scores (m, m) to position t;
// add(t, p): hears the probabilities (m, m) of i at t - 1 and j at t.
template <class Real, class Steps, class Add>
double count_by_logs(const Real* u, const Steps& steps, int n, int m, int w, Real* p, const Add& add) {
    const auto at = [w](std::vector<double>& x, int t) { return x.data() + size_t(t) * w; };
    std::vector<double> a(size_t(n) * w), b(a.size()), x(m), both(size_t(m) * m);
    for (int t = 0; t < n; ++t) {
        const double* step = t ? steps(t) : nullptr;
        for (int j = 0; j < m; ++j) {
            for (int i = 0; t && i < m; ++i) x[i] = at(a, t - 1)[i] + step[i * m + j];
            at(a, t)[j] = u[size_t(t) * w + j] + (t ? log_sum(x) : 0.0);
        }
    }
    const double log_z = log_sum({at(a, n - 1), size_t(m)});
    for (int t = n - 1; t >= 0; --t) {
        const double* step = t + 1 < n ? steps(t + 1) : nullptr;
        for (int i = 0; i < m; ++i) {
            for (int j = 0; step && j < m; ++j) x[j] = step[i * m + j] + u[size_t(t + 1) * w + j] + at(b, t + 1)[j];
            at(b, t)[i] = step ? log_sum(x) : 0.0;
            p[size_t(t) * w + i] = Real(std::exp(at(a, t)[i] + at(b, t)[i] - log_z));
            for (int j = 0; step && j < m; ++j) both[i * m + j] = std::exp(at(a, t)[i] + x[j] - log_z);
        }
        if (step) add(t + 1, both.data());
    }
    return log_z;
}

inline bool all_known(std::span<const int32_t> y) {
    return std::ranges::all_of(y, [](int32_t label) { return label >= 0; });
}

inline bool none_known(std::span<const int32_t> y) {
    return std::ranges::all_of(y, [](int32_t label) { return label < 0; });
}

// Scores (n, width) := only of the labellings that agree with the labels that are known.
template <class Real>
void hold(std::span<const int32_t> known, int m, int width, Real* scores) {
    for (const int32_t y : known) {
        if (y >= 0) {
            const Real kept = scores[y];
            std::fill_n(scores, m, Real(kNoLabel));
            scores[y] = kept;
        }
        scores += width;
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
        const int n = int(x.offsets[b + 1] - first);
        if (n == 0) continue;
        const std::span<const int32_t> y(x.y + first, size_t(n));
        const bool whole = all_known(y);
        if (!whole && none_known(y)) continue;  // every labelling agrees with what is known
        const size_t cells = size_t(n) * x.width;
        if (u.size() < cells) u.resize(cells);
        x.score(first, n, w, u.data());
        if (!whole) scores.assign(u.begin(), u.begin() + ptrdiff_t(cells));
        for (int t = 0; cost && t < n; ++t)
            if (y[t] >= 0) {  // cost for all labels but the right one, less what all have in common
                u[size_t(t) * x.width + y[t]] -= Real(cost[y[t]]);
                log_z += cost[y[t]];
            }
        log_z += add(first, n, u.data(), 1.0);
        if (whole) continue;  // the counts of gold labels are the rest
        hold(y, x.m, x.width, scores.data());
        log_z += add(first, n, scores.data(), -1.0);
    }
    return log_z;
}

constexpr double kZero = 0;

}  // namespace

template <class Real>
double expected_counts(const Joined& x, const Real* w, const double* pairwise, const double* cost, int64_t low,
                       int64_t high, double* state, double* pair, Control& control) {
    const int m = x.m, width = x.width;
    const size_t square = size_t(m) * width;
    std::vector<Real> E(square), back(square), sum(square), b(width), a, v, p, c;
    std::vector<double> pairs(square);
    const auto [low_pair, high_pair] =
        pairwise ? std::minmax_element(pairwise, pairwise + size_t(m) * m) : std::pair(&kZero, &kZero);
    const double shift = *high_pair;
    const bool by_logs = shift - *low_pair > kRange<Real>;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < m; ++j) {
            E[size_t(i) * width + j] = Real(pairwise ? std::exp(pairwise[i * m + j] - shift) : 1.0);
            back[size_t(j) * width + i] = E[size_t(i) * width + j];
        }
    const SumKernels<Real>& k = sum_kernels<Real>();
    const FlushToZero flush;
    int held = 0;  // positions whose bigrams are in `sum`, not yet in `pairs`
    const auto settle = [&] {
        for (size_t cell = 0; cell < square; ++cell) pairs[cell] += sum[cell], sum[cell] = 0;
        held = 0;
    };
    const auto add = [&](int64_t first, int n, Real* u, double share) {
        const size_t cells = size_t(n) * width;
        if (a.size() < cells) a.resize(cells), v.resize(cells), p.resize(cells), c.resize(n);
        const auto scale = [&](std::vector<Real>& counts) {
            if (share != 1) std::for_each_n(counts.begin(), cells, [share](Real& q) { q *= Real(share); });
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
        for (int t = 0; t < n; ++t) log_z -= std::log(double(c[t]));
        k.backward(u, back.data(), n, m, width, a.data(), c.data(), b.data(), v.data(), p.data());
        scale(p), scale(v);
        x.expect(first, n, p.data(), state);
        for (int t = 0; pairwise && t + 1 < n; t += kHeld) {
            const int count = std::min(kHeld, n - 1 - t);
            if (held + count > kHeld) settle();
            k.add_outer(a.data() + size_t(t) * width, v.data() + size_t(t + 1) * width, count, m, width, sum.data());
            held += count;
        }
        return share * log_z;
    };
    const double log_z = over_sequences(x, w, cost, low, high, add, control);
    settle();
    for (int i = 0; pairwise && i < m; ++i)
        for (int j = 0; j < m; ++j) pair[i * m + j] += double(E[size_t(i) * width + j]) * pairs[size_t(i) * width + j];
    return log_z;
}

template double expected_counts(const Joined&, const double*, const double*, const double*, int64_t, int64_t, double*,
                                double*, Control&);
template double expected_counts(const Joined&, const float*, const double*, const double*, int64_t, int64_t, double*,
                                double*, Control&);

void gold_counts(const Joined& x, double* state, double* pair) {
    for (int64_t b = 0; b < x.B; ++b) {
        const int64_t first = x.offsets[b];
        if (!all_known({x.y + first, x.y + x.offsets[b + 1]})) continue;
        for (int64_t t = first; t < x.offsets[b + 1]; ++t) {
            x.of_label(t, x.y[t], [&](int64_t slot, double value) { state[slot] += value; });
            if (pair && t > first) pair[x.y[t - 1] * x.m + x.y[t]] += 1;
        }
    }
}

void seen_pairs(const Examples& x, int words, uint64_t* seen) {
    for (int64_t t = 0; t < x.offsets[x.B]; ++t)
        for (int64_t k = x.indptr[t]; x.y[t] >= 0 && k < x.indptr[t + 1]; ++k)
            seen[size_t(x.attrs[k]) * words + x.y[t] / 64] |= uint64_t{1} << (x.y[t] % 64);
}

int64_t sum_edges(const EdgeRows& rows, const Examples& x, const float* w, int64_t* indptr, int32_t* pair, float* score,
                  Control& control) {
    std::vector<int64_t> at(size_t(rows.m) * rows.m, -1);  // where the sum of a pair stands, if it does
    int64_t count = 0;
    indptr[0] = 0;
    for (int64_t t = 0, N = x.n_tokens(); t < N; ++t) {
        if ((t & 255) == 0) control.check();
        const int64_t first = count;
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k)
            for (int64_t s = rows.begin[x.attrs[k]]; s < rows.begin[x.attrs[k] + 1]; ++s) {
                int64_t& place = at[size_t(rows.pair[s])];
                if (place < first) pair[place = count++] = rows.pair[s], score[place] = w[s];
                else score[place] += w[s];
            }
        indptr[t + 1] = count;
    }
    return count;
}

void fill_steps(int m, const double* pairwise, const int64_t* indptr, const int32_t* pair, const float* score,
                int64_t low, int64_t high, double* out) {
    const size_t square = size_t(m) * m;
    for (int64_t t = low; t < high; ++t, out += square) {
        if (pairwise) std::copy_n(pairwise, square, out);
        else std::fill_n(out, square, 0.0);
        for (int64_t k = indptr[t]; k < indptr[t + 1]; ++k) out[pair[k]] += double(score[k]);
    }
}

Edges::Edges(const EdgeRows& rows, const Examples& x)
    : m(rows.m), width(padded_row(rows.m)), x_(x), begin_(rows.begin, rows.begin + rows.A + 1) {
    if (int64_t{m} * width > int64_t{UINT32_MAX}) throw std::length_error("too many labels");
    slots_.reserve(size_t(begin_.back()));
    for (int64_t s = 0; s < begin_.back(); ++s) {
        const int i = rows.pair[s] / m, j = rows.pair[s] % m;
        slots_.push_back({uint32_t(i * width + j), uint16_t(i), uint16_t(j)});
    }
}

void Edges::steps(int64_t b, const double* pairwise, const double* w, double* out) const {
    const size_t square = size_t(m) * m;
    for (int64_t t = x_.offsets[b] + 1; t < x_.offsets[b + 1]; ++t, out += square) {
        if (pairwise) std::copy_n(pairwise, square, out);
        else std::fill_n(out, square, 0.0);
        of_token(t, [&](int64_t s, const Slot& slot) { out[size_t(slot.i) * m + slot.j] += w[s]; });
    }
}

void Edges::prepare(const double* w, int64_t low, int64_t high, double* factor, double* spread) const {
    for (int64_t a = low; a < high; ++a) {
        double least = 0, most = 0;  // 0: of pairs that it has no weight for
        for (int64_t s = begin_[a]; s < begin_[a + 1]; ++s) {
            factor[s] = std::exp(w[s]);
            least = std::min(least, w[s]), most = std::max(most, w[s]);
        }
        spread[a] = most - least;
    }
}

void Edges::gold(double* counts) const {
    for (int64_t b = 0; b < x_.B; ++b) {
        const int64_t first = x_.offsets[b], last = x_.offsets[b + 1];
        if (!all_known({x_.y + first, x_.y + last})) continue;
        for (int64_t t = first + 1; t < last; ++t) of_pair(t, x_.y[t - 1], x_.y[t], [&](int64_t s) { counts[s] += 1; });
    }
}

// Forward-backward where the transition scores differ from position to position (likelihood.cpp has the equations):
//   E[t][i][j] = exp(pairwise[i][j]) * product over edge attributes a of token t of  exp(weight(a, i, j))
// A token has edge attributes with few pairs of labels, so there is one table: what a position changes is set back after it.
//   p(i, j at t) = a[t-1][i] E[t][i][j] v[t][j]     is added to the bigram (i, j) and to all weights of t and (i, j)
// Sequences whose transition scores differ too much for single precision are done in double, others with logarithms.

namespace {

// Lattices whose transitions are those of tokens of `edges`; any unary scores will do.
template <class Real>
class EdgeChain {
  public:
    EdgeChain(const Edges& edges, const double* pairwise, const EdgeWeights& weights)
        : edges_(edges),
          weights_(weights),
          m_(edges.m),
          w_(edges.width),
          base_(size_t(m_) * w_),
          sum_(base_.size()),
          b_(w_),
          v_(w_),
          scaled_(w_),
          pairs_(base_.size()),
          scores_(size_t(m_) * m_) {
        if (pairwise) std::copy_n(pairwise, scores_.size(), scores_.data());
        const auto [least, most] = std::minmax_element(scores_.begin(), scores_.end());
        shift_ = *most, range_ = *most - *least;
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j) base_[size_t(i) * w_ + j] = Real(std::exp(score(i, j) - shift_));
        table_ = base_;
    }

    // Tokens first .. first + n - 1 with scores u (n, width), which are lost: p (n, width) := share * p(y at t), edge (E) and the
    // label bigrams += share * p(i, j at t). Returns share * log Z.
    double count(int64_t first, int n, Real* u, double share, Real* p, double* edge) {
        const double range = range_of(first, n);
        if (range > kRange<Real>) return count_wide(first, n, range, u, share, p, edge);
        const Real part = Real(share);
        const SumKernels<Real>& k = sum_kernels<Real>();
        const size_t cells = size_t(n) * w_;
        if (a_.size() < cells) a_.resize(cells), c_.resize(n);
        double log_z = (n - 1) * shift_ + k.lift(u, n, m_, w_);
        for (int t = 0; t < n; ++t) {
            Real* a = &a_[size_t(t) * w_];
            if (t) change(first + t);
            c_[t] = k.forward_step(t ? a - w_ : nullptr, table_.data(), u + size_t(t) * w_, m_, w_, a);
            if (t) restore(first + t);
            log_z -= std::log(double(c_[t]));
        }
        for (int t = n - 1; t >= 0; --t) {
            const size_t row = size_t(t) * w_;
            k.weigh(c_[t], u + row, &a_[row], t + 1 < n ? b_.data() : nullptr, w_, v_.data(), p + row);
            if (share != 1) std::for_each_n(p + row, w_, [part](Real& q) { q *= part; });
            if (t == 0) break;
            const Real* before = &a_[row - w_];
            if (share != 1) {
                std::transform(before, before + w_, scaled_.begin(), [part](Real q) { return q * part; });
                before = scaled_.data();
            }
            change(first + t);
            k.backward_step(table_.data(), v_.data(), before, m_, w_, b_.data(), sum_.data());
            edges_.of_token(first + t, [&](int64_t s, const Edges::Slot& slot) {
                edge[s] += double(before[slot.i] * table_[slot.cell]) * v_[slot.j];
            });
            restore(first + t);
            if (++held_ == kHeld) settle();
        }
        return share * log_z;
    }

    // Adds the probabilities of all label bigrams to pair (m, m).
    void add_pairs(double* pair) {
        settle();
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j) pair[i * m_ + j] += pairs_[size_t(i) * w_ + j];
        if (wide_) wide_->add_pairs(pair);
    }

  private:
    double& score(int i, int j) { return scores_[size_t(i) * m_ + j]; }

    // How far apart transition scores to one position can be, at most.
    double range_of(int64_t first, int n) const {
        const Examples& x = edges_.tokens();
        double most = 0;
        for (int64_t t = first + 1; t < first + n; ++t) {
            double spread = 0;
            for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k) spread += weights_.spread[x.attrs[k]];
            most = std::max(most, spread);
        }
        return range_ + most;
    }

    void change(int64_t t) {
        edges_.of_token(t, [&](int64_t s, const Edges::Slot& slot) { table_[slot.cell] *= Real(weights_.factor[s]); });
    }
    void restore(int64_t t) {
        edges_.of_token(t, [&](int64_t, const Edges::Slot& slot) { table_[slot.cell] = base_[slot.cell]; });
    }

    void settle() {
        for (size_t cell = 0; cell < sum_.size(); ++cell) pairs_[cell] += sum_[cell], sum_[cell] = 0;
        held_ = 0;
    }

    double count_wide(int64_t first, int n, double range, Real* u, double share, Real* p, double* edge) {
        if constexpr (std::is_same_v<Real, float>) {
            if (range <= kRange<double>) {
                if (!wide_) wide_ = std::make_unique<EdgeChain<double>>(edges_, scores_.data(), weights_);
                const size_t cells = size_t(n) * w_;
                std::vector<double> scores(u, u + cells), probabilities(cells);
                const double log_z = wide_->count(first, n, scores.data(), share, probabilities.data(), edge);
                for (size_t cell = 0; cell < cells; ++cell) p[cell] = float(probabilities[cell]);
                return log_z;
            }
        }
        std::vector<double> step(scores_.size());
        const auto steps = [&](int t) {
            step = scores_;
            edges_.of_token(first + t, [&](int64_t s, const Edges::Slot& slot) {
                step[size_t(slot.i) * m_ + slot.j] += weights_.w[s];
            });
            return step.data();
        };
        const double log_z = count_by_logs(u, steps, n, m_, w_, p, [&](int t, const double* both) {
            edges_.of_token(first + t, [&](int64_t s, const Edges::Slot& slot) {
                edge[s] += share * both[size_t(slot.i) * m_ + slot.j];
            });
            for (int i = 0; i < m_; ++i)
                for (int j = 0; j < m_; ++j) pairs_[size_t(i) * w_ + j] += share * both[i * m_ + j];
        });
        std::for_each_n(p, size_t(n) * w_, [share](Real& q) { q *= Real(share); });
        return share * log_z;
    }

    const Edges& edges_;
    const EdgeWeights weights_;
    const int m_, w_;
    std::vector<Real> base_, table_;  // (m, width)  without edge attributes; of the position that is looked at
    std::vector<Real> sum_;           // (m, width)  probabilities of `held_` positions, not yet in pairs_
    std::vector<Real> b_, v_, scaled_, a_, c_;
    std::vector<double> pairs_, scores_;  // (m, width); (m, m)
    double shift_ = 0, range_ = 0;
    int held_ = 0;
    std::unique_ptr<EdgeChain<double>> wide_;  // for sequences that single precision is too narrow for
};

}  // namespace

template <class Real>
double expected_counts(const Joined& x, const Edges& edges, const Real* w, const double* pairwise,
                       const EdgeWeights& edge_weights, const double* cost, int64_t low, int64_t high, double* state,
                       double* pair, double* edge, Control& control) {
    EdgeChain<Real> chain(edges, pairwise, edge_weights);
    std::vector<Real> p;
    const FlushToZero flush;
    const auto add = [&](int64_t first, int n, Real* u, double share) {
        p.resize(std::max(p.size(), size_t(n) * x.width));
        const double log_z = chain.count(first, n, u, share, p.data(), edge);
        x.expect(first, n, p.data(), state);
        return log_z;
    };
    const double log_z = over_sequences(x, w, cost, low, high, add, control);
    if (pair) chain.add_pairs(pair);
    return log_z;
}

template double expected_counts(const Joined&, const Edges&, const double*, const double*, const EdgeWeights&,
                                const double*, int64_t, int64_t, double*, double*, double*, Control&);
template double expected_counts(const Joined&, const Edges&, const float*, const double*, const EdgeWeights&,
                                const double*, int64_t, int64_t, double*, double*, double*, Control&);

}  // namespace bridle
