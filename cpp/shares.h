// The shares of the groups in a dual decomposition, and the sweeps that make them agree; see decompose.h.
#pragma once

#include <vector>

#include "groups.h"
#include "instance.h"

namespace bridle {

struct Share {  // of one group
    Fold fold;
    std::vector<float> theta;      // (n, m, width)  of the step from t - 1 to t; the first holds the scores of label 0 too
    std::vector<float> F, B;       // (n, Q, width)
    std::vector<float> X, M;       // (Q, width), (m, width)
};

class Shares {
  public:
    std::vector<Share> groups;
    int width = 0;  // of a row: m, padded

    // False: a product is too large, or there is but one group.
    bool load(Instance& instance, const std::vector<BoundAutomaton>& automata, const Grouping& grouping);
    // One sweep each way. Edges that lead to nothing above `floor` become impossible. Returns the bound.
    double sweep(double floor, Control& control);
    // What rounding can have made of the bound and of estimates. Measures the shares against the scores.
    double margin() const;

    void complete(Share& share, int t) const;  // fills X of position t
    const float* B(const Share& share, int t) const { return share.B.data() + static_cast<size_t>(t) * share.fold.Q * width; }

  private:
    double agree(int t, double floor);
    void ahead(Share& share, int t) const;
    void back(Share& share, int t);

    int n_ = 0, m_ = 0;
    std::vector<double> scores_;        // (n, m, width)  of edges, as they are; -inf where one is impossible
    std::vector<float> mean_, turned_;  // (m, width)
};

}  // namespace bridle
