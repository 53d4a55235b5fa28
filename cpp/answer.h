// What an engine says about one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace bridle {

enum class Status : uint8_t { optimal, limit, infeasible, nothing_found, too_large, relaxed };

struct Answer {
    Status status = Status::optimal;
    double score = -kInf;  // lattice score - penalty
    double bound = kInf;
    std::vector<int32_t> path;
    std::vector<int32_t> violations = {};  // (automata) violations, if the engine knows them
};

}  // namespace bridle
