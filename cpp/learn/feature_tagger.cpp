#include "learn/feature_tagger.h"

#include <algorithm>

#include "search/trellis.h"

namespace bridle {

FeatureTagger::FeatureTagger(const Rows& rows, const Strings& attributes, const double* w, const double* pairwise)
    : rows_(rows), attributes_(attributes), w_(w) {
    const size_t m = size_t(rows.m);
    std::vector<double> back(pairwise ? m * m : 0);
    if (pairwise)
        for (size_t i = 0; i < m; ++i)
            for (size_t j = 0; j < m; ++j) back[j * m + i] = pairwise[i * m + j];
    const Stop stop;
    Control control(stop, nullptr, -1);
    back_.tables = TableCache(rows.m, {}, {}, {}, {}).find(pairwise ? back.data() : nullptr, control);
}

void FeatureTagger::add(std::span<const std::string_view> texts, std::span<const double> values, double* row) const {
    int32_t numbers[Strings::kSome];
    double kept[Strings::kSome];
    for (size_t first = 0; first < texts.size(); first += Strings::kSome) {
        const int some = int(std::min<size_t>(Strings::kSome, texts.size() - first));
        attributes_.find_some(texts.data() + first, some, numbers);
        int known = 0;
        for (int k = 0; k < some; ++k) {
            if (!values.empty()) kept[known] = values[first + size_t(k)];
            numbers[known] = numbers[k];
            known += numbers[k] >= 0;
        }
        add_attributes(rows_, numbers, values.empty() ? nullptr : kept, known, w_, row);
    }
}

void FeatureTagger::best_path(const double* unary, std::span<int32_t> path, Control& control) const {
    const size_t m = size_t(rows_.m);
    const auto n = int64_t(path.size());
    std::vector<double> reversed(size_t(n) * m);
    for (int64_t t = 0; t < n; ++t) std::copy_n(unary + size_t(t) * m, m, reversed.begin() + size_t(n - 1 - t) * m);
    const int64_t offsets[] = {0, n};
    Problem problem;
    problem.m = rows_.m, problem.B = 1, problem.N = n;
    problem.offsets = offsets;
    problem.unary64 = reversed.data();
    problem.heads.push_back(back_);
    Viterbi().best_path(Sequence(problem, 0), path.data(), control);
    std::ranges::reverse(path);
}

}  // namespace bridle
