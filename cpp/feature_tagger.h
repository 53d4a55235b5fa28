// Tagging by attributes that come as texts: look them up, sum their weights, find the best path.
//   unary[t][y] = sum over attributes a of token t of  value * weight(a, y)         in the order in which they come
//   V[t][j] = unary[t][j] + max over i of  V[t-1][i] + pairwise[i][j]
// All in double precision. Of labellings with equal scores, that with the smallest last label is taken, then that with the
// smallest label before it, and so on: sums and choices are those of CRFsuite.
#pragma once

#include <string_view>
#include <vector>

#include "control.h"
#include "rows.h"
#include "strings.h"

namespace bridle {

class FeatureTagger {
  public:
    // w (W), pairwise (m, m) or null; both must outlive it
    FeatureTagger(const Rows& rows, const double* w, const double* pairwise);

    Strings attributes;  // their texts, by number

    int labels() const { return rows_.m; }
    int width() const { return rows_.width; }
    // row (width) += the weights of attributes, those that are not known left out. values: null: all are 1.
    void add(const std::string_view* texts, const double* values, size_t count, double* row) const;
    // The best labelling of unary (n, m), into path (n).
    void best_path(const double* unary, int64_t n, int32_t* path, Control& control) const;

  private:
    const Rows& rows_;
    const double* w_;
    int lanes_;                    // m, padded
    std::vector<double> forward_;  // (m, lanes) pairwise; empty: there is none
    std::vector<double> back_;     // (m, lanes) the same, transposed
    std::vector<double> zeros_;    // (lanes)
};

}  // namespace bridle
