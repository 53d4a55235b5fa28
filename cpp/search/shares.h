// The shares of the groups in a dual decomposition, and the sweeps that make them agree; see decompose.cpp.
//   Labels, edges and states of a group through which nothing above the incumbent leads are dropped on the way: rows of F, B
//   and X are valid for the states in `alive` only.
//
//   n positions (t)    m labels (i, then j), rows padded to `width`    Q states of a group (q)
//   theta, F, B, X, M: as in decompose.cpp
#pragma once

#include <vector>

#include "search/groups.h"
#include "search/instance.h"

namespace bridle {

struct Share {  // of one group
    Fold fold;
    std::vector<int32_t> cell;  // (kinds, Q, width)  next state * width + j
    std::vector<float> cost;    // (kinds, Q, width)  +inf: a hard rule breaks; so is the padding
    std::vector<float> theta;   // (n, m, width)  of the step from t - 1 to t; the first holds the scores of label 0 too
    std::vector<float> F, B;    // (n, Q, width)
    std::vector<float> X, M;    // (Q, width), (m, width)
    std::vector<int32_t> alive;  // (n, Q)  states that are left; the first n_alive[t] of row t
    std::vector<int> n_alive;    // (n)
};

class Shares {
  public:
    std::vector<Share> groups;
    int width = 0;  // of a row: m, padded

    // False: a product is too large.
    bool load(Instance& instance, const std::vector<BoundAutomaton>& automata, const Grouping& grouping);
    // More groups, whose share is nothing as yet. After a sweep.
    bool add(Instance& instance, const std::vector<BoundAutomaton>& automata, const Grouping& grouping);
    size_t bytes() const;  // of memory that is kept for the next sequence
    // One sweep back, after one ahead unless it is the first. What leads to nothing above `floor` is dropped. Returns the bound.
    double sweep(double floor, Control& control);
    // What rounding can have made of the bound and of estimates. Measures the shares against the scores.
    double margin();

    void complete(Share& share, int t) const;  // fills X of position t
    const float* B(const Share& share, int t) const { return share.B.data() + size_t(t) * share.fold.Q * width; }

  private:
    bool fits(Share& share, const std::vector<BoundAutomaton>& automata, const std::vector<int>& members,
              Control& control);
    void enter(Share& share, Control& control);  // tables, F, and B of the last position
    void correct(int t);
    void add_up(size_t row);  // sum_ = what all groups together have of a row of edges
    double agree(int t, double floor);
    void pass_on(Share& share,
                 int t) const;  // X = the best that leads to each label of position t, before what it costs
    void scatter(Share& share, int t) const;  // F of position t from such an X
    void ahead(Share& share, int t, float low);
    void back(Share& share, int t, float low);

    int n_ = 0, m_ = 0;
    size_t cells_ = 0;                          // floats of all groups together
    bool fresh_ = true;                         // no sweep yet
    std::vector<double> scores_;                // (n, m, width)  of edges, as they are; -inf where one is impossible
    std::vector<double> sum_;                   // (width)
    std::vector<std::vector<int32_t>> labels_;  // (n) that are left
    std::vector<float> mean_, turned_;          // (m, width)
    std::vector<float> into_, from_;  // (width)  what the other groups can make of the best edge into, or from, a label
};

}  // namespace bridle
