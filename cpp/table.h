// Transition scores laid out for one step back:
//   out[i] = max over j of  score[i][j] + w[j]
//
// Columns that are alike (no pairwise scores, or the many labels that may follow a closed segment) are taken together,
// and only the range of i where a column is possible is touched: O(m) without pairwise scores, sparse under BIO and BIOES.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace bridle {

class Table {
  public:
    Table() = default;
    // `dense` (m, m) row-major, -inf allowed. `grouped` looks for like columns; worth it when the table is used often.
    void build(const double* dense, int m, bool grouped);

    double at(int i, int j) const { return dense_[static_cast<size_t>(i) * m_ + j]; }
    const double* row(int i) const { return dense_.data() + static_cast<size_t>(i) * m_; }

    __attribute__((always_inline)) inline void back(const double* __restrict w, double* __restrict out) const {
        constexpr double none = -std::numeric_limits<double>::infinity();
        const int m = m_;
        if (flat_) {
            double best = none;
            for (int j = 0; j < m; ++j) best = w[j] > best ? w[j] : best;
            for (int i = 0; i < m; ++i) out[i] = best;
            return;
        }
        for (int i = 0; i < m; ++i) out[i] = none;
        const double* column = columns_.data();
        for (const Group& g : groups_) {
            double x = none;
            for (int k = g.begin; k < g.end; ++k) x = w[members_[k]] > x ? w[members_[k]] : x;
            if (x > none) {
                const double* __restrict c = column;
                for (int i = g.low; i < g.high; ++i) {
                    const double v = c[i] + x;
                    out[i] = v > out[i] ? v : out[i];
                }
            }
            column += m;
        }
    }

  private:
    struct Group {
        int begin, end;  // its members
        int low, high;   // where its column is not all -inf
    };
    int m_ = 0;
    bool flat_ = false;  // all scores are 0
    std::vector<double> dense_, columns_;
    std::vector<int> members_;
    std::vector<Group> groups_;
};

}  // namespace bridle
