// Automata that read a labelling side by side, each in its own state, and what their violations cost together.
//
// A rule that is paid once per sequence may have several automata: the first violation of any pays, and all are done.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace bridle {

using State = uint16_t;

class AutomatonSet {
  public:
    std::vector<BoundAutomaton> automata;  // ordered by part

    void assign(std::vector<BoundAutomaton> members);
    int size() const { return static_cast<int>(automata.size()); }

    // All automata read label y at position t: from -> to. Returns the cost, +inf when a hard rule breaks.
    double advance(const State* from, State* to, int y, int64_t t) const {
        double cost = 0;
        const int count = size();
        for (int k = 0; k < count;) {
            const int end = until_[k];
            bool broke = false;
            for (; k < end; ++k) {
                const BoundAutomaton& p = automata[k];
                if (from[k] == p.paid() && p.mode == Mode::per_sequence) {
                    to[k] = from[k];
                    continue;
                }
                const Move& move = p.read(t, from[k], y);
                to[k] = static_cast<State>(move.to);
                if (move.violations == 0) continue;
                if (p.mode == Mode::hard) return kInf;
                if (p.mode == Mode::per_violation) cost += p.penalty * move.violations;
                else broke = true;
            }
            if (broke) {
                cost += automata[end - 1].penalty;
                for (int g = group_[end - 1]; g < end; ++g) to[g] = static_cast<State>(automata[g].paid());
            }
        }
        return cost;
    }

    // What shows at the end of the sequence.
    double finish(const State* at) const {
        double cost = 0;
        for (int k = 0; k < size();) {
            const int end = until_[k];
            bool broke = false;
            for (; k < end; ++k) {
                const BoundAutomaton& p = automata[k];
                if (at[k] == p.paid() && p.mode == Mode::per_sequence) continue;
                const int violations = p.automaton->final[at[k]];
                if (violations == 0) continue;
                if (p.mode == Mode::hard) return kInf;
                if (p.mode == Mode::per_violation) cost += p.penalty * violations;
                else broke = true;
            }
            if (broke) cost += automata[end - 1].penalty;
        }
        return cost;
    }

  private:
    std::vector<int> until_, group_;  // the automata of one rule that is paid once: from group_[k] to until_[k] - 1
};

}  // namespace bridle
