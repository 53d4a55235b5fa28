// Forward-backward where the transition scores differ from position to position (likelihood.cpp has the equations):
//   E[t][i][j] = exp(pairwise[i][j]) * product over edge attributes a of token t of  exp(weight(a, i, j))
// A token has edge attributes with few pairs of labels, so there is one table: what a position changes is set back after it.
//   p(i, j at t) = a[t-1][i] E[t][i][j] v[t][j]     is added to the bigram (i, j) and to all weights of t and (i, j)
// Sequences whose transition scores differ too much for single precision are done in double, others with logarithms.
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include "edges.h"
#include "forward_backward.h"

namespace bridle {
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
          base_(static_cast<size_t>(m_) * w_),
          sum_(base_.size()),
          b_(w_),
          v_(w_),
          scaled_(w_),
          pairs_(base_.size()),
          scores_(static_cast<size_t>(m_) * m_) {
        if (pairwise) std::copy_n(pairwise, scores_.size(), scores_.data());
        const auto [least, most] = std::minmax_element(scores_.begin(), scores_.end());
        shift_ = *most, range_ = *most - *least;
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j)
                base_[static_cast<size_t>(i) * w_ + j] = static_cast<Real>(std::exp(score(i, j) - shift_));
        table_ = base_;
    }

    // Tokens first .. first + n - 1 with scores u (n, width), which are lost: p (n, width) := share * p(y at t), edge (E) and the
    // label bigrams += share * p(i, j at t). Returns share * log Z.
    double count(int64_t first, int n, Real* u, double share, Real* p, double* edge) {
        const double range = range_of(first, n);
        if (range > kRange<Real>) return count_wide(first, n, range, u, share, p, edge);
        const Real part = static_cast<Real>(share);
        const SumKernels<Real>& k = sum_kernels<Real>();
        const size_t cells = static_cast<size_t>(n) * w_;
        if (a_.size() < cells) a_.resize(cells), c_.resize(n);
        double log_z = (n - 1) * shift_ + k.lift(u, n, m_, w_);
        for (int t = 0; t < n; ++t) {
            Real* a = &a_[static_cast<size_t>(t) * w_];
            if (t) change(first + t);
            c_[t] = k.forward_step(t ? a - w_ : nullptr, table_.data(), u + static_cast<size_t>(t) * w_, m_, w_, a);
            if (t) restore(first + t);
            log_z -= std::log(static_cast<double>(c_[t]));
        }
        for (int t = n - 1; t >= 0; --t) {
            const size_t row = static_cast<size_t>(t) * w_;
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
                edge[s] += static_cast<double>(before[slot.i] * table_[slot.cell]) * v_[slot.j];
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
            for (int j = 0; j < m_; ++j) pair[i * m_ + j] += pairs_[static_cast<size_t>(i) * w_ + j];
        if (wide_) wide_->add_pairs(pair);
    }

  private:
    double& score(int i, int j) { return scores_[static_cast<size_t>(i) * m_ + j]; }

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
        edges_.of_token(
            t, [&](int64_t s, const Edges::Slot& slot) { table_[slot.cell] *= static_cast<Real>(weights_.factor[s]); });
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
                const size_t cells = static_cast<size_t>(n) * w_;
                std::vector<double> scores(u, u + cells), found(cells);
                const double log_z = wide_->count(first, n, scores.data(), share, found.data(), edge);
                for (size_t cell = 0; cell < cells; ++cell) p[cell] = static_cast<float>(found[cell]);
                return log_z;
            }
        }
        std::vector<double> step(scores_.size());
        const auto steps = [&](int t) {
            step = scores_;
            edges_.of_token(first + t, [&](int64_t s, const Edges::Slot& slot) {
                step[static_cast<size_t>(slot.i) * m_ + slot.j] += weights_.w[s];
            });
            return step.data();
        };
        const double log_z = count_by_logs(u, steps, n, m_, w_, p, [&](int t, const double* both) {
            edges_.of_token(first + t, [&](int64_t s, const Edges::Slot& slot) {
                edge[s] += share * both[static_cast<size_t>(slot.i) * m_ + slot.j];
            });
            for (int i = 0; i < m_; ++i)
                for (int j = 0; j < m_; ++j) pairs_[static_cast<size_t>(i) * w_ + j] += share * both[i * m_ + j];
        });
        std::for_each_n(p, static_cast<size_t>(n) * w_, [share](Real& q) { q *= static_cast<Real>(share); });
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
        p.resize(std::max(p.size(), static_cast<size_t>(n) * x.width));
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
