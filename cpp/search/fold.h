// The product automaton of a set, to be read along the trellis: one state q stands for the states of all its automata.
//   q = (s of automaton 1, s of automaton 2, ...)    next(t, q)[j] = (step of each at s)    cost(t, q)[j] = sum of their costs
// Only states that the start can reach are kept. Positions whose marks agree for all automata are of one kind.
//
//   n positions (t)    m labels (j), rows padded to `width`    Q states of the product (q)    kinds of positions
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "search/control.h"
#include "search/problem.h"

namespace bridle {

class Fold {
  public:
    int Q = 1;                  // states; 0 is the start
    std::vector<double> final;  // (Q) cost at the end, +inf: must not end here

    // Explores what can be reached. False when there are more than `most` states, or tables that take more than an eighth of
    // the memory.
    bool build(const AutomatonSet& set, int n, int m, int most, Control& control);
    void clear();                   // no rule at all: one state
    void share(const Fold& other);  // the same tables
    void forget_costs();            // what is allowed stays allowed, but nothing has a price

    bool plain() const { return !tables_; }
    int kinds() const { return kind_.empty() ? 1 : 1 + *std::max_element(kind_.begin(), kind_.end()); }  // of positions
    int kind(int64_t t) const { return kind_.empty() ? 0 : kind_[t]; }
    size_t bytes() const { return kCellBytes * ((tables_ ? tables_->next.size() : 0) + known_cells_); }
    // Reading label j at position t in state q (padded rows):
    const double* cost(int64_t t, int q) const { return tables_->cost.data() + row(t, q); }  // +inf: a hard rule breaks
    const int32_t* next(int64_t t, int q) const { return tables_->next.data() + row(t, q); }  // the next state
    const int32_t* cell(int64_t t, int q) const { return tables_->cell.data() + row(t, q); }  // next * width + j

  private:
    struct Tables {  // (kinds, Q, width)
        int Q = 0;
        std::vector<int32_t> next, cell;
        std::vector<double> cost, final;
    };
    static constexpr size_t kCellBytes = 2 * sizeof(int32_t) + sizeof(double);
    using Key = std::vector<int64_t>;

    size_t row(int64_t t, int q) const { return ((kind_.empty() ? 0 : size_t(kind_[t])) * Q + q) * width_; }
    std::shared_ptr<Tables> explore(const AutomatonSet& set, const std::vector<int>& first, int m, int most,
                                    Control& control) const;

    int width_ = 0;
    std::vector<int32_t> kind_;  // (n) which table a position uses; empty: all the first
    std::shared_ptr<Tables> tables_;
    std::map<Key, std::shared_ptr<Tables>> known_;  // the same rules are broken again and again
    size_t known_cells_ = 0;
};

}  // namespace bridle
