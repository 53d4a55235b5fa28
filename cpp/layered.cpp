#include "layered.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace bridle {
namespace {

constexpr size_t kConsidered = 8;  // labellings of the last layer

}  // namespace

double LayeredSearch::run(size_t most, double margin) {
    G_ = shares_.groups.size();
    to_.resize(G_);
    nodes_ = 0;
    double cut = -kInf;
    for (int t = 0; t < n_; ++t) {
        std::swap(before_, here_);
        look_ahead(t, incumbent_.found() ? incumbent_.score - margin : -kInf);
        cut = std::max(cut, keep_best(t, most));
        nodes_ += layers_[t].size();
        if (layers_[t].size() == 0) return cut;
    }
    return finish(cut);
}

void LayeredSearch::look_ahead(int t, double low) {
    const double* unary = in_.scratch.trellis.unary(t);
    const Steps& steps = in_.scratch.plain;
    candidates_.clear();
    if (t == 0) {  // the score of the first label is part of the first step
        for (int j = 0; j < m_; ++j) {
            double estimate = unary[j] + steps.first(j) > -kInf ? 0.0 : -kInf;
            for (const Share& s : shares_.groups)
                estimate += shares_.B(s, 0)[s.fold.next(0, 0)[j] * shares_.width + j] - s.fold.cost(0, 0)[j];
            if (estimate > low) candidates_.push_back({static_cast<float>(estimate), -1, j});
        }
        return;
    }
    for (int i = 0; i < m_; ++i)
        for (int j = 0; j < m_; ++j) step_[static_cast<size_t>(i) * m_ + j] = steps.at(t - 1, i, j) + unary[j];
    for (Share& s : shares_.groups) shares_.complete(s, t);
    const Layer& before = layers_[t - 1];
    for (size_t p = 0; p < before.size(); ++p) {
        if ((p & 63) == 0) in_.control.check();
        const double* step = step_.data() + static_cast<size_t>(before.label[p]) * m_;
        for (int j = 0; j < m_; ++j) row_[j] = before_.earned[p] + step[j];
        for (size_t g = 0; g < G_; ++g) {
            const float* x =
                shares_.groups[g].X.data() + static_cast<size_t>(before_.states[p * G_ + g]) * shares_.width;
            for (int j = 0; j < m_; ++j) row_[j] += x[j];
        }
        for (int j = 0; j < m_; ++j)
            if (row_[j] > low) candidates_.push_back({static_cast<float>(row_[j]), static_cast<int32_t>(p), j});
    }
}

double LayeredSearch::keep_best(int t, size_t most) {
    Layer& here = layers_[t];
    here.label.clear(), here.parent.clear(), here_.earned.clear(), here_.states.clear();
    slots_.assign(std::bit_ceil(2 * std::min(most, candidates_.size()) + 1), -1);
    const auto better = [](const Candidate& a, const Candidate& b) { return a.estimate > b.estimate; };
    auto next = candidates_.begin();
    while (next != candidates_.end() && here.size() < most) {  // the best ones that are left, until as many differ
        const auto left = static_cast<size_t>(candidates_.end() - next);
        const auto end = next + static_cast<ptrdiff_t>(std::min(left, most - here.size()));
        if (end != candidates_.end()) std::nth_element(next, end, candidates_.end(), better);
        for (; next != end; ++next) {
            if ((next - candidates_.begin()) % 256 == 0) in_.control.check();
            add(t, *next);
        }
    }
    double cut = -kInf;
    for (; next != candidates_.end(); ++next) cut = std::max<double>(cut, next->estimate);
    return cut;
}

void LayeredSearch::add(int t, const Candidate& c) {
    const int j = c.label;
    const uint16_t* states = c.parent < 0 ? nullptr : before_.states.data() + static_cast<size_t>(c.parent) * G_;
    double earned =
        c.parent < 0 ? in_.scratch.trellis.unary(0)[j] + in_.scratch.plain.first(j)
                     : before_.earned[c.parent] + step_[static_cast<size_t>(layers_[t - 1].label[c.parent]) * m_ + j];
    uint64_t hash = 1469598103934665603ull ^ static_cast<uint64_t>(j);
    for (size_t g = 0; g < G_; ++g) {
        const Fold& fold = shares_.groups[g].fold;
        const int q = states ? states[g] : 0;
        earned -= fold.cost(t, q)[j];
        to_[g] = static_cast<uint16_t>(fold.next(t, q)[j]);
        hash = (hash ^ to_[g]) * 1099511628211ull;
    }
    Layer& here = layers_[t];
    size_t at = (hash ^ hash >> 29) & (slots_.size() - 1);
    for (; slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1)) {
        const size_t k = slots_[at];
        if (here.label[k] != j ||
            !std::equal(to_.begin(), to_.end(), here_.states.begin() + static_cast<ptrdiff_t>(k * G_)))
            continue;
        if (earned > here_.earned[k]) here_.earned[k] = earned, here.parent[k] = c.parent;
        return;
    }
    slots_[at] = static_cast<int32_t>(here.size());
    here.label.push_back(j), here.parent.push_back(c.parent), here_.earned.push_back(earned);
    here_.states.insert(here_.states.end(), to_.begin(), to_.end());
}

double LayeredSearch::finish(double cut) {
    std::vector<double>& earned = here_.earned;
    for (size_t k = 0; k < earned.size(); ++k)
        for (size_t g = 0; g < G_; ++g) earned[k] -= shares_.groups[g].fold.final[here_.states[k * G_ + g]];
    std::vector<int32_t> order(earned.size()), path(n_);
    for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int32_t>(k);
    const size_t few = std::min(kConsidered, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(few), order.end(),
                      [&](int32_t a, int32_t b) { return earned[a] > earned[b]; });
    for (size_t k = 0; k < few; ++k) {
        // Only rules that no group holds can make a later one better than the first.
        if (!(earned[order[k]] > incumbent_.score)) break;
        for (int32_t t = n_ - 1, at = order[k]; t >= 0; --t) path[t] = layers_[t].label[at], at = layers_[t].parent[at];
        const std::vector<int>& broken = consider(in_, path.data(), incumbent_).broken;
        if (k == 0) active_.add(broken);
    }
    const double best = earned[order[0]];
    return best > incumbent_.score + in_.tolerance(incumbent_.score) ? std::max(cut, best) : cut;
}

}  // namespace bridle
