#include "instance.h"

#include <algorithm>
#include <limits>

namespace bridle {

int64_t Instance::expansions_left() const {
    return limits.max_states < 0 ? -1 : std::max<int64_t>(0, limits.max_states - counters.expansions);
}

double Instance::rounding() {
    if (rounding_ < 0) {
        rounding_ = scratch.trellis.rounding(scratch.plain);
        for (const BoundAutomaton& p : sequence.automata)
            rounding_ += std::numeric_limits<double>::epsilon() * (sequence.n + 8) * p.penalty;
        rounding_ = std::max(rounding_, limits.gap);
    }
    return rounding_;
}

}  // namespace bridle
