// Numbers by which caches know what they were made of: an address may come again for something else, a number does not.
#pragma once

#include <atomic>
#include <cstdint>

namespace bridle {

inline int64_t next_serial() {
    static std::atomic<int64_t> last{0};
    return ++last;
}

}  // namespace bridle
