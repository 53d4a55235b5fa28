// Columns of ids that templates read (features/derived.py): the texts of a source, what functions make of them, and places
// in the sequence. Texts that training has not seen are derived here, each once; what only Python can read is left to it.
//   N tokens (t)    C columns (c)    id 0: nothing, strings are numbered from 3 on
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/strings.h"

namespace bridle {

enum class TextFunction { lower, shape, caps, zeros, bare, tail, digit, upper, hyphen, prefix, suffix };

struct Derivation {
    TextFunction function;
    size_t length = 0;  // of prefixes and suffixes
};

class TokenColumns {
  public:
    static constexpr int32_t kFirst = 3, kLeft = -1;

    enum class Kind { other, first, last, tenth, bias, texts, derived };  // other: left alone

    struct Column {
        Kind kind = Kind::other;
        size_t source = 0;
        std::optional<Derivation> derivation = {};  // of texts without a number; none: they are left to Python
        const Strings* values = nullptr;            // what it may yield
        const int32_t* table = nullptr;             // (size) the id of each text that has a number
        int32_t size = 0;
    };
    struct Source {
        Texts texts;             // (N)
        const int32_t* numbers;  // (N), negative: the text has none
    };

    // A function as templates name it: of a text (lower, prefix3, ...), or of a place (first, tenth, ...).
    static std::optional<Derivation> derivation(std::string_view name);
    static Kind place(std::string_view name);

    std::vector<Column> columns;

    // ids (C, N), kLeft where a text has no number and the column no function, or the text characters that are left to Python; how many
    // of those there are.
    int64_t ids(const std::vector<Source>& sources, const int64_t* offsets, int64_t B, int32_t* out) const;
};

}  // namespace bridle
