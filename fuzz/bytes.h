// The fuzzer's bytes as a source of small numbers; when they run out, all further ones are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bridle::fuzz {

class Bytes {
  public:
    Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
    uint8_t next() { return at_ < end_ ? *at_++ : uint8_t{0}; }
    int below(int n) { return next() % n; }
    bool coin() { return next() & 1; }
    std::string_view rest() {
        const std::string_view all(reinterpret_cast<const char*>(at_), size_t(end_ - at_));
        at_ = end_;
        return all;
    }

  private:
    const uint8_t *at_, *end_;
};

// A finding: the fuzzer keeps the input that led here.
inline void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "bridle: %s\n", what);
    std::abort();
}

}  // namespace bridle::fuzz
