// The incumbent: the best labelling found so far, and a proved bound on all others.
//   score of the incumbent  <=  the optimum  <=  bound          they meet: the incumbent is the optimum
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "answer.h"
#include "instance.h"

namespace bridle {

struct Incumbent {
    double score = -kInf;                  // lattice score - penalty; -inf: no labelling found yet
    double bound = kInf;                   // no labelling scores higher
    std::vector<int32_t> path = {};        // (n)
    std::vector<int32_t> violations = {};  // (automata)

    bool found() const { return score > -kInf; }
    void tighten(double proved_bound) { bound = std::min(bound, proved_bound); }
};

// Judges a labelling and makes it the incumbent if it scores higher. The verdict stays valid until the next labelling.
const Verdict& consider(Instance& instance, const int32_t* path, Incumbent& incumbent);

// Do bound and incumbent meet, but for rounding?
bool proved(Instance& instance, const Incumbent& incumbent);

// The status when all labellings above the incumbent are ruled out, and when the search stops at a limit.
Status status_when_finished(const Incumbent& incumbent);
Status status_when_stopped(Instance& instance, const Incumbent& incumbent);

Answer to_answer(Incumbent incumbent, Status status);

}  // namespace bridle
