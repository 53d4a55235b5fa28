// Best paths over labels x states of a folded automaton.
//   H[t][q][i] = max over j of  step(t, i, j) + unary[t+1][j] - cost[q][j] + H[t+1][next(q, j)][j]
//   H[n-1][q][i] = -final[q]
// the best score from position t on, label i and state q being reached there. The best path is then read off forwards.
//
//   n positions (t)    m labels (i, then j), rows padded to `width`    Q states of the fold (q)
#pragma once

#include <vector>

#include "search/control.h"
#include "search/fold.h"
#include "search/problem.h"

namespace bridle {

// Transition scores of a sequence, as they are or with multipliers on counted edges.
class Steps {
  public:
    void plain(const Sequence& s);
    // adjust (m, m): added to every transition; first (m): added to the first label.
    void adjusted(const Sequence& s, const double* adjust, const double* first, Control& control);

    double at(int t, int i, int j) const {  // from position t to t + 1
        if (!per_step_) return table(t).at(i, j);
        const size_t cell = size_t(i) * m_ + j;
        return score(t)[cell] + extra(t)[cell];
    }
    double first(int j) const { return first_ ? first_[j] : 0.0; }
    double score(const Sequence& s, const int32_t* path) const;  // of a labelling, rules not counted
    // The scores from position t to t + 1: a table, or (m, m) with what masks add to them.
    bool per_step() const { return per_step_; }
    const Table& table(int t) const { return tables_ ? *tables_[t + 1] : *(tie(t) ? tie_ : free_); }
    const double* score(int t) const { return per_step_ + size_t(t) * m_ * m_; }
    const double* extra(int t) const { return tie(t) ? add_tied_ : add_free_; }

  private:
    friend class Trellis;
    friend class MaskedTrellis;
    bool tie(int t) const { return tied_ && tied_[t + 1]; }
    const TableView* const* views(int n) const;  // (n) of the tables that lead to each position
    int m_ = 0;
    const uint8_t* tied_ = nullptr;
    const Table *free_ = nullptr, *tie_ = nullptr;
    const Table* const* tables_ = nullptr;  // (n) the table that leads to each position, if they differ
    const double* per_step_ = nullptr;      // (n - 1, m, m)
    const double *add_free_ = nullptr, *add_tied_ = nullptr, *first_ = nullptr;  // add: with per_step_ only
    Table own_free_, own_tied_;                                                  // when adjusted
    std::vector<double> sum_free_, sum_tied_;
    mutable std::vector<const TableView*> views_;  // empty: not asked for yet
};

class Trellis {
  public:
    int n = 0, m = 0;
    int width = 0;  // of a row of scores: m, padded

    void load(const Sequence& s);  // keeps all rows if they are few, else reads them again when asked
    const double* unary(int t) const;
    const Sequence& sequence() const { return *sequence_; }
    // What best_path keeps for each state of a fold, and backward does, in bytes.
    static size_t path_bytes(int n, int m);
    static size_t backward_bytes(int n, int m) { return sizeof(double) * size_t(n) * padded(m); }
    size_t bytes() const {
        return sizeof(double) * (unary_.capacity() + rows_.capacity() + buffer_.capacity() + kept_.capacity());
    }

    // Fills H (n, Q, width); returns the best score, -inf if there is no path.
    double backward(const Fold& fold, const Steps& steps, std::vector<double>& H, Control& control) const;
    // The best path by an H that `backward` filled.
    void read(const Fold& fold, const Steps& steps, const std::vector<double>& H, int32_t* path) const;
    // Both at once; keeps only every so many rows of a long sequence and fills the gaps a second time.
    double best_path(const Fold& fold, const Steps& steps, int32_t* path, Control& control);

    // How far apart two sums of the scores of one labelling, added up in another order, can be by rounding.
    double rounding(const Steps& steps) const;

  private:
    friend class MaskedTrellis;
    void rows(const Fold& fold, const Steps& steps, int low, int high, const double* after, double* H, Control&) const;
    const double* read_rows(int first, int last) const;  // unary scores of some positions, when they are not kept
    double enter(const Fold& fold, const Steps& steps, const double* H0, int& q, int32_t& y) const;
    void go(const Fold& fold, const Steps& steps, int t, const double* H, int& q, int32_t& y) const;

    const Sequence* sequence_ = nullptr;
    std::vector<double> unary_;
    mutable std::vector<double> row_, rows_, w_;
    mutable std::vector<int32_t> room_;
    mutable int rows_first_ = 0, rows_last_ = -1;  // what is in rows_
    std::vector<double> buffer_, kept_;
};

// The best path by scores and masks alone, read off the scores as they came: what every sequence is asked first.
//   V[t][j] = unary[t][j] + max over k of  pairwise[j][k] + V[t+1][k]        y[t] = argmax over j of  pairwise[y[t-1]][j] + V[t][j]
// Scores may be single, sums are double: a sum of n scores is off by no more than n units in the 53rd bit.

class Viterbi {
  public:
    // Fills path (n) and returns its score; -inf: there is none. Transitions must not differ by position.
    double best_path(const Sequence& s, int32_t* path, Control& control);

  private:
    void rows(const RawScores& x, int low, int high, const double* after, Control& control);  // into V_ and few_

    std::vector<double> V_, kept_, H_;
    std::vector<uint64_t> few_;
    std::vector<int32_t> room_;
};

}  // namespace bridle
