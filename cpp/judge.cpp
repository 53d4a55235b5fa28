#include "judge.h"

#include <algorithm>

namespace bridle {
namespace {

constexpr size_t kTogether = 32;  // machines whose tables fit into the nearest cache

}  // namespace

void Judge::load(const Sequence& s) {
    sequence_ = &s;
    const size_t count = s.pieces.size();
    states_.resize(count);
    hits.assign(count, 0);
    broken.clear();
}

double Judge::cost(const int32_t* path, int n) {
    const auto& pieces = sequence_->pieces;
    const size_t count = pieces.size();
    std::fill(states_.begin(), states_.end(), 0);
    std::fill(hits.begin(), hits.end(), 0);
    for (size_t first = 0; first < count; first += kTogether) {
        const size_t last = std::min(count, first + kTogether);
        for (int t = 0; t < n; ++t)  // machines side by side: their steps do not wait for each other
            for (size_t k = first; k < last; ++k) {
                const Move& move = pieces[k].read(t, states_[k], path[t]);
                hits[k] += move.hits;
                states_[k] = move.to;
            }
    }
    double total = 0;
    broken.clear();
    int paid_rule = -1;
    for (size_t k = 0; k < count; ++k) {
        const Piece& p = pieces[k];
        hits[k] += p.machine->final[states_[k]];
        if (hits[k] == 0) continue;
        broken.push_back(static_cast<int>(k));
        if (p.mode == Mode::hard) total = kInf;
        else if (p.mode == Mode::per_violation) total += p.penalty * hits[k];
        else if (p.rule != paid_rule) total += p.penalty, paid_rule = p.rule;
    }
    return total;
}

}  // namespace bridle
