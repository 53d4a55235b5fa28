// Local search for a better incumbent: the labels of one segment are changed to another label while that helps.
//   What a change costs is read from the groups of a decomposition: the states before it are known, and
//     ahead_g[t][q] = what group g charges for the labels from t on, from state q
#pragma once

#include <vector>

#include "incumbent.h"
#include "shares.h"

namespace bridle {

class SegmentSearch {
  public:
    SegmentSearch(Instance& instance, const Shares& shares) : in_(instance), shares_(shares) {}

    void improve(Incumbent& incumbent);

  private:
    struct Change {
        double score;
        int end, label;  // the segment ends before `end`
    };

    void look_back(int first, int last);                        // fills ahead_ and rest_ for positions last .. first
    double step(int t, int before, int y) const;                // score of label y at t
    double read(int t, int y, std::vector<int>& states) const;  // what all groups charge for label y at t
    Change best_change(int t, double earned) const;

    Instance& in_;
    const Shares& shares_;
    std::vector<int32_t> path_;
    std::vector<std::vector<double>> ahead_;  // (G) of (n + 1, Q)
    std::vector<double> rest_;                // (n + 1)  scores of the labels from t on, but for the step to t
    std::vector<int> states_;                 // (G)  before position t
    mutable std::vector<int> room_;           // (G)
};

}  // namespace bridle
