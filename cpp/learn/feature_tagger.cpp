#include "learn/feature_tagger.h"

#include <algorithm>

#include "search/trellis.h"

namespace bridle {

FeatureTagger::FeatureTagger(const Rows& rows, const Strings& attributes, const double* w, const double* pairwise)
    : rows_(rows), attributes_(attributes), w_(w) {
    const size_t m = static_cast<size_t>(rows.m);
    std::vector<double> back(pairwise ? m * m : 0);
    if (pairwise)
        for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j < m; ++j) back[j * m + i] = pairwise[i * m + j];
    const Stop stop;
    Control control(stop, nullptr, -1);
    back_.tables = TableCache(rows.m, {}, {}, {}, {}).find(pairwise ? back.data() : nullptr, control);
}

void FeatureTagger::add(const std::string_view* texts, const double* values, size_t count, double* row) const {
    int32_t found[Strings::kSome];
    double kept[Strings::kSome];
    for (size_t first = 0; first < count; first += Strings::kSome) {
        const int some = static_cast<int>(std::min<size_t>(Strings::kSome, count - first));
        attributes_.find_some(texts + first, some, found);
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
    const size_t m = static_cast<size_t>(rows_.m);
    std::vector<double> reversed(static_cast<size_t>(n) * m);
    for (int64_t t = 0; t < n; ++t)
        std::copy_n(unary + static_cast<size_t>(t) * m, m, reversed.begin() + static_cast<size_t>(n - 1 - t) * m);
    const int64_t offsets[] = {0, n};
    Problem problem;
    problem.m = rows_.m, problem.B = 1, problem.N = n;
    problem.offsets = offsets;
    problem.unary64 = reversed.data();
    problem.heads.push_back(back_);
    Viterbi().best_path(Sequence(problem, 0), path, control);
    std::reverse(path, path + n);
}

}  // namespace bridle
