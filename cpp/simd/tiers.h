// Which tiers were compiled, which of them this processor has, and which one is in use.
#pragma once

#include <string>
#include <vector>

namespace bridle {

// Chooses the best tier, or the tier with this name. Throws std::runtime_error, with the likely cause, if there is none such.
void choose_tier(const char* name);

std::vector<std::string> tiers_here();  // that this processor has, the best last
std::string processor();                // its name, as it tells it

}  // namespace bridle
