#include "table.h"

namespace bridle {

constexpr size_t kDearer = 2;  // a vector of a group costs so many times that of a column that nobody looks at

void Table::build(const double* dense, int m, bool grouped) {
    constexpr double none = -std::numeric_limits<double>::infinity();
    m_ = m;
    width_ = padded(m);
    dense_.assign(static_cast<size_t>(m) * width_, none);
    for (int i = 0; i < m; ++i) std::copy_n(dense + static_cast<size_t>(i) * m, m, dense_.begin() + static_cast<size_t>(i) * width_);
    flat_ = grouped && std::all_of(dense, dense + static_cast<size_t>(m) * m, [](double v) { return v == 0; });
    groups_.clear();
    members_.clear();
    columns_.assign(static_cast<size_t>(m) * width_, none);
    every_ = false;
    if (flat_) return;
    std::vector<char> done(m, 0);
    double* column = columns_.data();
    for (int j = 0; j < m; ++j) {
        if (done[j]) continue;
        int low = m, high = 0;
        for (int i = 0; i < m; ++i) {
            column[i] = at(i, j);
            if (column[i] > none) low = std::min(low, i), high = i + 1;
        }
        if (low >= high) continue;  // nothing leads to j
        Group g{static_cast<int>(members_.size()), 0, low / kLanes * kLanes, padded(high)};
        members_.push_back(j);
        for (int k = j + 1; grouped && k < m; ++k) {
            bool alike = !done[k];
            for (int i = 0; alike && i < m; ++i) alike = column[i] == at(i, k);
            if (alike) members_.push_back(k), done[k] = 1;
        }
        g.end = static_cast<int>(members_.size());
        groups_.push_back(g);
        column += width_;
    }
    size_t touched = 0;  // what the groups would read, in vectors
    for (const Group& g : groups_) touched += (g.high - g.low) / kLanes;
    every_ = kDearer * touched > static_cast<size_t>(m) * width_ / kLanes;
    for (int j = 0; every_ && j < m; ++j)
        for (int i = 0; i < width_; ++i) columns_[static_cast<size_t>(j) * width_ + i] = i < m ? at(i, j) : none;
}

}  // namespace bridle
