// Interning: strings <-> integers, in the order of first appearance.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bridle {

// Another number in every process, so that no file can be made of keys that collide.
uint64_t salt();

// Texts as Arrow keeps them: bytes end to end, and where each text begins.
struct Texts {
    const char* bytes;
    const int64_t* offsets;  // (count + 1)
    int64_t count;

    std::string_view operator[](int64_t k) const { return {bytes + offsets[k], size_t(offsets[k + 1] - offsets[k])}; }
};

class Strings {
  public:
    static constexpr int32_t kUnknown = -1;

    Strings() : slots_(64, Slot{0, kUnknown}) {}

    int32_t add(std::string_view text);         // its number, a new one if needed
    int32_t find(std::string_view text) const;  // its number or kUnknown
    int32_t size() const { return int32_t(ends_.size()); }
    std::string_view at(int32_t number) const;
    const std::vector<char>& bytes() const { return bytes_; }   // all strings, end to end
    const std::vector<int64_t>& ends() const { return ends_; }  // (size) where each ends

    // Numbers of texts, whose look-ups overlap.
    static constexpr int kSome = 32;  // at most so many
    void find_some(const std::string_view* texts, int count, int32_t* out) const;
    void find_all(const Texts& texts, int32_t* out) const;  // of any number of them

  private:
    struct Slot {
        uint32_t hash;
        int32_t number;
    };
    size_t slot_of(std::string_view text, uint64_t hash) const;  // where it is, or where it would go
    void grow();

    std::vector<char> bytes_;
    std::vector<int64_t> ends_;
    std::vector<Slot> slots_;  // open addressing, at most half full
};

}  // namespace bridle
