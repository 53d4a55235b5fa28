// The key of a tuple of ids: (x1 * size2 + x2) * size3 + ..., or a hash of it where that does not fit into 64 bits.
#pragma once

#include "simd/compiler.h"

namespace bridle {

BRIDLE_INLINE uint64_t key_with(uint64_t key, uint64_t size, int32_t id, bool exact) {
    if (!exact) {
        key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93u;
        key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93u;
    }
    return key * size + uint32_t(id);
}

}  // namespace bridle
