// Tagging by attributes that come as texts: look them up, sum their weights, find the best path.
//   unary[t][y] = sum over attributes a of token t of  value * weight(a, y)         in the order in which they come
//   V[t][j] = unary[t][j] + max over i of  pairwise[i][j] + V[t-1][i]
// All in double precision. Of labellings with equal scores, that with the smallest last label is taken, then that with the
// smallest label before it, and so on: sums and choices are those of CRFsuite. For that, sequences are decoded backwards
// (trellis.h goes the other way).
//
//   n tokens (t)    m labels (i, then j; y)    a an attribute: a text with a value
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "search/control.h"
#include "search/problem.h"
#include "learn/rows.h"
#include "text/strings.h"

namespace bridle {

class FeatureTagger {
  public:
    // attributes: their texts; w (W), pairwise (m, m) or null; all must outlive it
    FeatureTagger(const Rows& rows, const Strings& attributes, const double* w, const double* pairwise);

    int labels() const { return rows_.m; }
    int width() const { return rows_.width; }
    // row (width) += the weights of attributes, those that are not known left out. values: none: all are 1.
    void add(std::span<const std::string_view> texts, std::span<const double> values, double* row) const;
    // The best labelling of unary (n, m), into path (n).
    void best_path(const double* unary, std::span<int32_t> path, Control& control) const;

  private:
    const Rows& rows_;
    const Strings& attributes_;
    const double* w_;
    Head back_;  // transitions from a label to the one before
};

}  // namespace bridle
