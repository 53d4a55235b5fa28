#include "judge.h"

#include <algorithm>
#include <utility>

namespace bridle {
namespace {

constexpr size_t kTogether = 32;   // automata whose tables fit into the nearest cache
constexpr int kStretch = 1 << 14;  // tokens between two looks at the clock

}  // namespace

void judge(const Sequence& s, const int32_t* path, Verdict& verdict, Control* control) {
    const BoundAutomaton* automata = s.automata.data();
    const size_t count = s.automata.size();
    verdict.states.assign(count, 0);
    verdict.violations.assign(count, 0);
    int32_t *states = verdict.states.data(), *violations = verdict.violations.data();
    for (size_t first = 0; first < count; first += kTogether) {
        const size_t last = std::min(count, first + kTogether);
        for (int from = 0; from < s.n; from += kStretch) {
            if (control && from > 0) control->check();
            for (int t = from; t < std::min(s.n, from + kStretch);
                 ++t)  // side by side: their steps do not wait for each other
                for (size_t k = first; k < last; ++k) {
                    const Move& move = automata[k].read(t, states[k], path[t]);
                    violations[k] += move.violations;
                    states[k] = move.to;
                }
        }
    }
    double cost = 0;
    verdict.hard_violations = 0;
    verdict.broken.clear();
    int paid_rule = -1;
    for (size_t k = 0; k < count; ++k) {
        const BoundAutomaton& p = automata[k];
        violations[k] += p.automaton->final[states[k]];
        if (violations[k] == 0) continue;
        verdict.broken.push_back(static_cast<int>(k));
        if (p.mode == Mode::hard) verdict.hard_violations += violations[k];
        else if (p.mode == Mode::hard_once) verdict.hard_violations += p.rule != std::exchange(paid_rule, p.rule);
        else if (p.mode == Mode::per_violation) cost += p.penalty * violations[k];
        else if (p.rule != paid_rule) cost += p.penalty, paid_rule = p.rule;
    }
    verdict.soft_cost = cost;
    verdict.cost = verdict.hard_violations > 0 ? kInf : cost;
}

}  // namespace bridle
