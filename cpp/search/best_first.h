// Best-first search over (position, label, state of the fold, states of a set), for the k best labellings.
//   f = g + H[t][q][y] + sum over counted automata of lambda * room(state)
// g: the true score so far, penalties paid. H: the best that can follow when counted edges cost lambda each. Both are
// monotone, so the first time a state is taken from the queue it is reached best.
//
//   n positions (t)    m labels (y)    Q states of the fold (q)    (set): one per automaton that is not folded
#pragma once

#include <cstdint>
#include <vector>

#include "search/trellis.h"

namespace bridle {

struct ScoredPath {
    double score;  // lattice score - what the fold and the set cost (with `price`: lattice score)
    std::vector<int32_t> path;
};

// One more estimate of what can follow, by the backward pass over a fold of some automata of the set. The least one counts.
struct Estimate {
    Fold fold;
    std::vector<double> H;  // (n, Q, width)
};

struct BestFirst {
    const Trellis& trellis;
    const Fold& fold;
    const Steps& steps;  // without multipliers
    const std::vector<double>& H;
    const AutomatonSet& set;            // automata that are not folded
    const std::vector<double>& lambda;  // (set)  0 for automata without a multiplier
    const std::vector<Estimate>& estimates;
    // If set, (n, Q): the least that the fold still costs. Then the cheapest labelling comes first, whatever its score,
    // and among the cheapest the one with the highest score; H must leave costs out.
    const double* price = nullptr;
    size_t memory = Control::kUnlimited;  // bytes that may be taken

    // Outcome.
    std::vector<ScoredPath> paths = {};  // best first
    double bound = -kInf;                // no labelling but these scores higher
    int64_t expansions = 0;
    bool complete = false;  // false: stopped by a limit: of expansions, time or memory

    // Looks for k labellings that score above `floor`. Stops after `most` expansions (negative: no limit).
    void run(int k, double floor, int64_t most, Control& control);
};

// Beam search over labels and the states of a set: `width` hypotheses per position, not exact.

struct Guide {  // what can still follow, by a backward pass over a fold of some of the automata
    const Fold* fold;
    const double* H;  // (n, Q, width)
};

// Labellings that obey the hard rules, best first; none when the beam lost them all. Of several guides the least counts.
std::vector<ScoredPath> beam(const Trellis& trellis, const Steps& steps, const AutomatonSet& set, int width,
                             const std::vector<Guide>& guides, Control& control);

}  // namespace bridle
