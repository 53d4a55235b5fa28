#include "text/blocks.h"

namespace bridle {
namespace {

// The length of the character that begins with a byte above 0x7f; 0: it is none.
int length_of(const uint8_t* p, size_t left) {
    const auto tail = [&](int k) { return (p[k] & 0xc0) == 0x80; };
    if (p[0] >= 0xc2 && p[0] <= 0xdf) return left >= 2 && tail(1) ? 2 : 0;
    if ((p[0] & 0xf0) == 0xe0) {
        if (left < 3 || !tail(1) || !tail(2)) return 0;
        if (p[0] == 0xe0 && p[1] < 0xa0) return 0;   // could be shorter
        if (p[0] == 0xed && p[1] >= 0xa0) return 0;  // half of a pair
        return 3;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        if (left < 4 || !tail(1) || !tail(2) || !tail(3)) return 0;
        if (p[0] == 0xf0 && p[1] < 0x90) return 0;
        if (p[0] == 0xf4 && p[1] >= 0x90) return 0;  // beyond U+10FFFF
        return 4;
    }
    return 0;
}

}  // namespace

bool is_text(std::string_view bytes) {
    constexpr uint64_t kOnes = 0x0101010101010101u, kHighs = 0x8080808080808080u;
    const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
    size_t at = 0;
    const size_t size = bytes.size();
    while (at < size) {
        if (at + 8 <= size) {  // eight bytes between 1 and 0x7f, which is nearly all text
            uint64_t word;
            std::memcpy(&word, p + at, 8);
            if ((((word - kOnes) | word) & kHighs) == 0) {
                at += 8;
                continue;
            }
        }
        if (p[at] == 0) return false;
        if (p[at] < 0x80) {
            ++at;
            continue;
        }
        const int length = length_of(p + at, size - at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

}  // namespace bridle
