// Transition scores laid out for one step back:
//   out[i] = max over j of  score[i][j] + w[j]
//
// Columns that are alike (no pairwise scores, or the many labels that may follow a closed segment) are taken together,
// and only the range of i where a column is possible is touched: O(m) without pairwise scores, sparse under BIO and BIOES.
// Rows are padded to whole vectors of kLanes scores, the padding being -inf.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "vectors.h"

namespace bridle {

// The largest of kLanes scores, in three steps instead of seven.
__attribute__((always_inline)) inline double largest_lane(const double* x) {
    const double a = std::max(x[0], x[4]), b = std::max(x[1], x[5]), c = std::max(x[2], x[6]), d = std::max(x[3], x[7]);
    return std::max(std::max(a, b), std::max(c, d));
}

class Table {
  public:
    Table() = default;
    // `dense` (m, m) row-major, -inf allowed. `grouped` looks for like columns; worth it when the table is used often.
    void build(const double* dense, int m, bool grouped);

    double at(int i, int j) const { return dense_[static_cast<size_t>(i) * width_ + j]; }
    const double* row(int i) const { return dense_.data() + static_cast<size_t>(i) * width_; }  // padded

    // w and out have padded(m) scores.
    __attribute__((always_inline)) inline void back(const double* __restrict w, double* __restrict out) const {
        constexpr double none = -std::numeric_limits<double>::infinity();
        const int width = width_;
        if (flat_) {
            double lane[kLanes];
            for (int k = 0; k < kLanes; ++k) lane[k] = w[k];
            for (int j = kLanes; j < width; j += kLanes)
                for (int k = 0; k < kLanes; ++k) lane[k] = w[j + k] > lane[k] ? w[j + k] : lane[k];
            const double best = largest_lane(lane);
            for (int i = 0; i < width; ++i) out[i] = best;
            return;
        }
        if (every_) {
            int i = 0;
            for (; width - i >= 4 * kLanes; i += 4 * kLanes) back_strip<4>(w, out, i);
            if (width - i == 3 * kLanes) back_strip<3>(w, out, i);
            else if (width - i == 2 * kLanes) back_strip<2>(w, out, i);
            else if (width - i == kLanes) back_strip<1>(w, out, i);
            return;
        }
        for (int i = 0; i < width; ++i) out[i] = none;
        const double* column = columns_.data();
        for (const Group& g : groups_) {
            double x = none, x1 = none, x2 = none, x3 = none;  // four at a time: they need not wait for each other
            int k = g.begin;
            for (; k + 4 <= g.end; k += 4) {
                x = std::max(x, w[members_[k]]);
                x1 = std::max(x1, w[members_[k + 1]]);
                x2 = std::max(x2, w[members_[k + 2]]);
                x3 = std::max(x3, w[members_[k + 3]]);
            }
            for (; k < g.end; ++k) x = std::max(x, w[members_[k]]);
            x = std::max(std::max(x, x1), std::max(x2, x3));
            if (x > none) {
                const double* __restrict c = column;
                for (int i = g.low; i < g.high; i += kLanes)
                    for (int l = 0; l < kLanes; ++l) {
                        const double v = c[i + l] + x;
                        out[i + l] = v > out[i + l] ? v : out[i + l];
                    }
            }
            column += width;
        }
    }

  private:
    // kVectors vectors of out stay in registers while all columns pass by
    template <int kVectors> BRIDLE_INLINE void back_strip(const double* __restrict w, double* __restrict out, int i) const {
        Vector top[kVectors];
        for (Vector& v : top) v = Vector{} - std::numeric_limits<double>::infinity();
        const double* column = columns_.data() + i;
        for (int j = 0; j < m_; ++j, column += width_)
            for (int v = 0; v < kVectors; ++v) {
                const Vector here = vector_at(column + v * kLanes) + w[j];
                top[v] = here > top[v] ? here : top[v];
            }
        for (int v = 0; v < kVectors; ++v) vector_at(out + i + v * kLanes) = top[v];
    }

    struct Group {
        int begin, end;  // its members
        int low, high;   // where its column is not all -inf, in whole vectors
    };
    int m_ = 0, width_ = 0;
    bool flat_ = false;  // all scores are 0
    bool every_ = false;  // hardly any columns are alike: columns_ has all of them
    std::vector<double> dense_;    // (m, width)
    std::vector<double> columns_;  // (groups, width), or (m, width)
    std::vector<int> members_;
    std::vector<Group> groups_;
};

}  // namespace bridle
