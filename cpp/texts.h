// Texts as Arrow keeps them: bytes end to end, and where each text begins. They are looked up, made distinct, and given to the
// functions of templates without an object for each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "strings.h"

namespace bridle {

struct Texts {
    const char* bytes;
    const int64_t* offsets;  // (count + 1)
    int64_t count;

    std::string_view operator[](int64_t k) const {
        return {bytes + offsets[k], static_cast<size_t>(offsets[k + 1] - offsets[k])};
    }
    std::string_view all() const { return {bytes + offsets[0], static_cast<size_t>(offsets[count] - offsets[0])}; }
};

// Numbers (count) of texts among strings whose line feeds and nulls are escaped (features/strings.py).
void find_texts(const Strings& escaped, const Texts& texts, int32_t* out);

// Adds the texts at `at` (count), as they are; their numbers into out (count). at: null means all of them, in order.
void add_texts(Strings& plain, const Texts& texts, const int64_t* at, int64_t count, int32_t* out);

// The functions of templates (features/derived.py), for text of ASCII.
enum class TextFunction { lower, shape, caps, zeros, bare, tail, digit, upper, hyphen, prefix, suffix };

struct Derivation {
    TextFunction function;
    size_t length = 0;  // of prefixes and suffixes
};
std::optional<Derivation> derivation_named(std::string_view name);  // as templates name it: lower, prefix3, ...

// What the function makes of a text; false: the text is not ASCII, or has a line feed or a null.
bool derive(const Derivation& how, std::string_view text, std::string& out);

// The ids (count) of what the function makes of texts: 0 for nothing or a string that is not there, otherwise its number + first;
// -1 where `derive` says no.
void derived_ids(const Strings& escaped, const Derivation& how, const Texts& texts, int32_t first, int32_t* out);

}  // namespace bridle
