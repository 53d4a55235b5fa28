#include "feature_tagger.h"

#include <algorithm>

#include "problem.h"

namespace bridle {

FeatureTagger::FeatureTagger(const Rows& rows, const double* w, const double* pairwise)
    : rows_(rows), w_(w), lanes_(padded(rows.m)), zeros_(static_cast<size_t>(lanes_), 0.0) {
    if (!pairwise) return;
    const size_t m = static_cast<size_t>(rows.m), lanes = static_cast<size_t>(lanes_);
    forward_.assign(m * lanes, -kInf);
    back_.assign(m * lanes, -kInf);
    for (size_t i = 0; i < m; ++i)
        for (size_t j = 0; j < m; ++j) forward_[i * lanes + j] = back_[j * lanes + i] = pairwise[i * m + j];
}

void FeatureTagger::add(const std::string_view* texts, const double* values, size_t count, double* row) const {
    int32_t found[Strings::kSome];
    double kept[Strings::kSome];
    for (size_t first = 0; first < count; first += Strings::kSome) {
        const int some = static_cast<int>(std::min<size_t>(Strings::kSome, count - first));
        attributes.find_some(texts + first, some, found);
        int known = 0;
        for (int k = 0; k < some; ++k) {
            if (values) kept[known] = values[first + static_cast<size_t>(k)];
            found[known] = found[k];
            known += found[k] >= 0;
        }
        add_attributes(rows_, found, values ? kept : nullptr, known, w_, row);
    }
}

void FeatureTagger::best_path(const double* unary, int64_t n, int32_t* path, Control& control) const {
    if (n == 0) return;
    const size_t m = static_cast<size_t>(rows_.m), lanes = static_cast<size_t>(lanes_);
    const double* zeros = zeros_.data();
    if (forward_.empty()) {  // no label depends on another
        std::vector<double> row(lanes, -kInf);
        for (int64_t t = 0; t < n; ++t) {
            std::copy_n(unary + static_cast<size_t>(t) * m, m, row.begin());
            path[t] = kernels().best_of(row.data(), zeros, zeros, lanes_);
        }
        return;
    }
    std::vector<double> V(static_cast<size_t>(n) * lanes);
    std::fill_n(std::copy_n(unary, m, V.begin()), lanes - m, -kInf);
    for (int64_t t = 1; t < n; ++t) {
        if ((t & 255) == 0) control.check();
        double* here = V.data() + static_cast<size_t>(t) * lanes;
        kernels().step_ahead(here - lanes, forward_.data(), rows_.m, lanes_, here);
        const double* scores = unary + static_cast<size_t>(t) * m;
        for (size_t y = 0; y < m; ++y) here[y] += scores[y];
    }
    const double* row = V.data() + static_cast<size_t>(n - 1) * lanes;
    path[n - 1] = kernels().best_of(row, zeros, zeros, lanes_);
    for (int64_t t = n - 2; t >= 0; --t) {
        row -= lanes;
        path[t] = kernels().best_of(row, back_.data() + static_cast<size_t>(path[t + 1]) * lanes, zeros, lanes_);
    }
}

}  // namespace bridle
