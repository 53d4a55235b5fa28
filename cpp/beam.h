// Beam search over labels and the states of a set: `width` hypotheses per position, not exact.
#pragma once

#include <vector>

#include "best_first.h"

namespace bridle {

struct Guide {  // what can still follow, by a backward pass over a fold of some of the automata
    const Fold* fold;
    const double* H;  // (n, Q, width)
};

// Labellings that obey the hard rules, best first; none when the beam lost them all. Of several guides the least counts.
std::vector<Found> beam(const Trellis& trellis, const Steps& steps, const AutomatonSet& set, int width,
                        const std::vector<Guide>& guides, Control& control);

}  // namespace bridle
