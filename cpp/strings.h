// Interning: strings <-> whole numbers, in the order of first appearance.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bridle {

class Strings {
  public:
    static constexpr int32_t kUnknown = -1;

    Strings() : slots_(64, Slot{0, kUnknown}) {}

    int32_t add(std::string_view text);         // its number, a new one if need be
    int32_t find(std::string_view text) const;  // its number or kUnknown
    int32_t size() const { return static_cast<int32_t>(ends_.size()); }
    std::string_view at(int32_t number) const;
    const std::vector<char>& bytes() const { return bytes_; }   // all strings, end to end
    const std::vector<int64_t>& ends() const { return ends_; }  // (size) where each ends

    // `count` parts of `text`, cut at line feeds; numbers into out (count). False: there are more or fewer parts.
    bool add_all(std::string_view text, int64_t count, int32_t* out);
    bool find_all(std::string_view text, int64_t count, int32_t* out) const;

    // Numbers of texts, whose look-ups overlap.
    static constexpr int kSome = 32;  // at most so many
    void find_some(const std::string_view* texts, int count, int32_t* out) const;

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
