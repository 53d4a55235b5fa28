#include "judge.h"

#include <algorithm>

namespace bridle {
namespace {

constexpr size_t kTogether = 32;  // automata whose tables fit into the nearest cache

}  // namespace

void Judge::load(const Sequence& s) {
    sequence_ = &s;
    const size_t count = s.automata.size();
    states_.resize(count);
    violations.assign(count, 0);
    broken.clear();
}

double Judge::cost(const int32_t* path, int n) {
    const auto& automata = sequence_->automata;
    const size_t count = automata.size();
    std::fill(states_.begin(), states_.end(), 0);
    std::fill(violations.begin(), violations.end(), 0);
    for (size_t first = 0; first < count; first += kTogether) {
        const size_t last = std::min(count, first + kTogether);
        for (int t = 0; t < n; ++t)  // automata side by side: their steps do not wait for each other
            for (size_t k = first; k < last; ++k) {
                const Move& move = automata[k].read(t, states_[k], path[t]);
                violations[k] += move.violations;
                states_[k] = move.to;
            }
    }
    double total = 0;
    broken.clear();
    int paid_rule = -1;
    for (size_t k = 0; k < count; ++k) {
        const BoundAutomaton& p = automata[k];
        violations[k] += p.automaton->final[states_[k]];
        if (violations[k] == 0) continue;
        broken.push_back(static_cast<int>(k));
        if (p.mode == Mode::hard) total = kInf;
        else if (p.mode == Mode::per_violation) total += p.penalty * violations[k];
        else if (p.rule != paid_rule) total += p.penalty, paid_rule = p.rule;
    }
    return total;
}

}  // namespace bridle
