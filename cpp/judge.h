// What a labelling costs under the rules of a sequence, and which automata it breaks.
#pragma once

#include <cstdint>
#include <vector>

#include "control.h"
#include "problem.h"

namespace bridle {

struct Verdict {
    double cost = 0;       // +inf when a hard rule breaks
    double soft_cost = 0;  // of the soft rules alone
    int64_t hard_violations = 0;
    std::vector<int> broken;          // automata, ascending
    std::vector<int32_t> violations;  // (automata)
    std::vector<int32_t> states;      // (automata) where each of them ends
};

// Fills `verdict` and reuses its memory.
void judge(const Sequence& s, const int32_t* path, Verdict& verdict, Control* control = nullptr);

}  // namespace bridle
