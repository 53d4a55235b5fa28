// The product automaton of a team, to be read along the trellis: one state q stands for the states of all its pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "team.h"

namespace bridle {

class Fold {
  public:
    int Q = 1;                  // states; 0 is the start
    std::vector<double> final;  // (Q) cost at the end, +inf: must not end here

    // Explores what can be reached. False when there are more than `most` states.
    bool build(const Team& team, int n, int m, int most);
    void clear();  // no rule at all: one state
    void forget_costs();  // what is allowed stays allowed, but nothing has a price

    bool plain() const { return team_size_ == 0; }
    const int32_t* next(int64_t t, int q) const { return next_.data() + cell(t, q); }  // (m)  -1: a hard rule breaks
    const double* cost(int64_t t, int q) const { return cost_.data() + cell(t, q); }   // (m)

  private:
    size_t cell(int64_t t, int q) const {
        return ((kind_.empty() ? 0 : static_cast<size_t>(kind_[t])) * Q + q) * m_;
    }
    int m_ = 0, team_size_ = 0;
    std::vector<uint16_t> kind_;  // (n) which table a position uses; empty: all the first
    std::vector<int32_t> next_;   // (kinds, Q, m)
    std::vector<double> cost_;
};

}  // namespace bridle
