#pragma once

#include <cstdint>

namespace bridle {

// Another number in every process, so that nobody can make keys that collide.
uint64_t salt();

}  // namespace bridle
