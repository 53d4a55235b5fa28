// Rules that can be left out of every search: masks, or one hard rule that stays, see to it that they are never violated.
#pragma once

#include <cstdint>
#include <vector>

#include "compiled.h"

namespace bridle {

// Drops automata that no labelling violates which keeps to the masks and to some hard rule. base (words): bits of labels that are
// allowed at all; empty: all are. What would take long to find out stays in.
void drop_redundant(CompiledRules& rules, const std::vector<uint64_t>& base);

}  // namespace bridle
