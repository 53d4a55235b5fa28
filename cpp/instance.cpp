#include "instance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shares.h"

namespace bridle {

size_t Scratch::bytes() const {
    return fold.bytes() + sizeof(double) * (best_H.capacity() + H.capacity()) + trellis.bytes() +
           masked.trellis.bytes() + (shares ? shares->bytes() : 0);
}

int64_t Instance::expansions_left() const {
    return limits.max_states < 0 ? -1 : std::max<int64_t>(0, limits.max_states - counters.expansions);
}

double Instance::rounding() {
    if (rounding_ < 0) {
        rounding_ = scratch.trellis.rounding(scratch.plain);
        for (const BoundAutomaton& p : sequence.automata)
            rounding_ += std::numeric_limits<double>::epsilon() * (sequence.n + 8) * p.penalty;
    }
    return rounding_;
}

double Instance::tolerance(double score) {
    return std::max(limits.gap, std::min(rounding(), kLargestError * std::max(1.0, std::abs(score))));
}

}  // namespace bridle
