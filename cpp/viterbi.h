// The best path by scores and masks alone, read off the scores as they came: what every sequence is asked first.
//   V[t][j] = unary[t][j] + max over k of  pairwise[j][k] + V[t+1][k]        y[t] = argmax over j of  pairwise[y[t-1]][j] + V[t][j]
// Scores may be single, sums are double: a sum of n scores is off by no more than n units in the 53rd bit.
#pragma once

#include <vector>

#include "control.h"
#include "problem.h"

namespace bridle {

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
