// Step 2 of the search: require the rules that are broken, and bound what would still break one of them.
#pragma once

#include <vector>

#include "incumbent.h"

namespace bridle {

// `broken`: the automata that the best path breaks, whose score is the bound of the incumbent. Improves both.
// True: the optimum is proved.
bool enforce_broken_rules(Instance& instance, std::vector<int> broken, Incumbent& incumbent);

}  // namespace bridle
