#include "text/derived.h"

#include <algorithm>
#include <string>
#include <utility>

namespace bridle {
namespace {

enum class CharacterClass : uint8_t { upper, lower, digit, underscore, mark };

struct Character {
    uint8_t size;  // in bytes; 0: it is left to Python
    CharacterClass kind;
};

// The first character: ASCII but line feeds and nulls, letters of Latin-1, and the marks from U+2010 to U+203E.
Character first_of(std::string_view text) {
    const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
    const unsigned c = byte(0), d = byte(1), e = byte(2);
    if (c >= 'a' && c <= 'z') return {1, CharacterClass::lower};
    if (c >= 'A' && c <= 'Z') return {1, CharacterClass::upper};
    if (c >= '0' && c <= '9') return {1, CharacterClass::digit};
    if (c < 0x80) return {uint8_t(c != 0 && c != '\n'), c == '_' ? CharacterClass::underscore : CharacterClass::mark};
    if (c == 0xc3 && d >= 0x80)
        return {2, d == 0x97 || d == 0xb7 ? CharacterClass::mark
                   : d < 0x9f             ? CharacterClass::upper
                                          : CharacterClass::lower};
    if (c == 0xe2 && d == 0x80 && ((e >= 0x90 && e <= 0xa7) || (e >= 0xb0 && e <= 0xbe)))
        return {3, CharacterClass::mark};
    return {0, CharacterClass::mark};
}

// A text and its characters, if the functions here can read all of them.
struct ReadableText {
    std::string_view text;
    const Character* characters;
    size_t count;

    template <class Each>
    void each(const Each& call) const {
        const char* at = text.data();
        for (size_t k = 0; k < count; at += characters[k++].size)
            call(std::string_view(at, characters[k].size), characters[k].kind);
    }
    bool any(CharacterClass kind) const {
        return std::any_of(characters, characters + count, [&](const Character& c) { return c.kind == kind; });
    }
    size_t bytes(size_t first, size_t last) const {  // of characters first .. last-1
        size_t sum = 0;
        for (size_t k = first; k < last; ++k) sum += characters[k].size;
        return sum;
    }
};

void add_lower(std::string_view c, CharacterClass kind, std::string& out) {
    out += c;
    if (kind == CharacterClass::upper) out.back() = static_cast<char>(out.back() + 0x20);
}

void add_shape(const ReadableText& readable, std::string& out) {  // runs count once
    std::string_view last;
    readable.each([&](std::string_view c, CharacterClass kind) {
        const std::string_view symbol = kind == CharacterClass::upper   ? "X"
                                        : kind == CharacterClass::lower ? "x"
                                        : kind == CharacterClass::digit ? "d"
                                                                        : c;
        if (symbol != last) out += symbol;
        last = symbol;
    });
}

// Appends what a function makes of a text.
void derive(const Derivation& derivation, const ReadableText& readable, std::string& out) {
    const auto flag = [&](bool holds) { out += holds ? "yes" : ""; };
    const auto [text, characters, count] = readable;
    switch (derivation.function) {
        case TextFunction::lower:
            readable.each([&](std::string_view c, CharacterClass kind) { add_lower(c, kind, out); });
            break;
        case TextFunction::shape: add_shape(readable, out); break;
        case TextFunction::caps:
            if (readable.any(CharacterClass::upper)) add_shape(readable, out);
            break;
        case TextFunction::zeros:
            readable.each([&](std::string_view c, CharacterClass kind) {
                kind == CharacterClass::digit ? out.push_back('0') : add_lower(c, kind, out);
            });
            break;
        case TextFunction::bare:
            readable.each([&](std::string_view c, CharacterClass kind) {
                if (kind != CharacterClass::mark) add_lower(c, kind, out);
            });
            break;
        case TextFunction::tail:
            if (count && characters[count - 1].kind >= CharacterClass::underscore)
                out += text.substr(text.size() - characters[count - 1].size);
            break;
        case TextFunction::digit: flag(readable.any(CharacterClass::digit)); break;
        case TextFunction::upper: flag(readable.any(CharacterClass::upper)); break;
        case TextFunction::hyphen: flag(text.find('-') != text.npos); break;
        case TextFunction::prefix:
            if (count >= derivation.length) out += text.substr(0, readable.bytes(0, derivation.length));
            break;
        case TextFunction::suffix:
            if (count >= derivation.length)
                out += text.substr(text.size() - readable.bytes(count - derivation.length, count));
            break;
    }
}

// The texts of a source that have no number, each once.
class Unseen {
  public:
    Unseen(const TokenColumns::Source& source, int64_t N) {
        for (int64_t t = 0; t < N; ++t) {
            if (source.numbers[t] >= 0) continue;
            at_.push_back(t);
            which_.push_back(texts_.add(source.texts[t]));
        }
        for (int32_t k = 0; k < texts_.size(); ++k) {
            std::string_view text = texts_.at(k);
            Character c{1, CharacterClass::mark};
            for (; !text.empty() && c.size; text.remove_prefix(c.size)) characters_.push_back(c = first_of(text));
            is_readable_.push_back(c.size != 0);
            ends_.push_back(characters_.size());
        }
        ids_.resize(is_readable_.size());
    }

    // Writes the ids of a column where the texts stand; returns how many are left.
    int64_t put(const TokenColumns::Column& column, int32_t* out) {
        if (!column.derivation) std::fill(ids_.begin(), ids_.end(), TokenColumns::kLeft);
        else derive_all(*column.derivation, *column.values);
        int64_t left = 0;
        for (size_t k = 0; k < at_.size(); ++k) {
            const int32_t id = ids_[size_t(which_[k])];
            out[at_[k]] = id;
            left += id < 0;
        }
        return left;
    }

  private:
    ReadableText readable(int32_t k) const {
        const size_t begin = k ? ends_[size_t(k - 1)] : 0;
        return {texts_.at(k), characters_.data() + begin, ends_[size_t(k)] - begin};
    }
    void derive_all(const Derivation& derivation, const Strings& values) {
        std::string_view some[Strings::kSome];
        int32_t numbers[Strings::kSome];
        for (int32_t k = 0; k < texts_.size(); k += Strings::kSome) {
            const int held = std::min(Strings::kSome, texts_.size() - k);
            for (int j = 0; j < held; ++j) {
                derived_[j].clear();
                if (is_readable_[at_of(k, j)]) derive(derivation, readable(k + j), derived_[j]);
                some[j] = derived_[j];
            }
            values.find_some(some, held, numbers);
            for (int j = 0; j < held; ++j) {
                int32_t& id = ids_[at_of(k, j)];
                id = is_readable_[at_of(k, j)] ? 0 : TokenColumns::kLeft;
                if (!some[j].empty() && numbers[j] != Strings::kUnknown) id = numbers[j] + TokenColumns::kFirst;
            }
        }
    }
    static size_t at_of(int32_t k, int j) { return size_t(k) + size_t(j); }

    Strings texts_;
    std::vector<int64_t> at_;
    std::vector<int32_t> which_, ids_;   // the text at each place; the id of each text
    std::vector<uint8_t> is_readable_;   // can the functions here read it?
    std::vector<Character> characters_;  // of all texts
    std::vector<size_t> ends_;           // of the characters of each text
    std::string derived_[Strings::kSome];
};

void put_places(TokenColumns::Kind kind, const int64_t* offsets, int64_t B, int32_t* out) {
    using Kind = TokenColumns::Kind;
    std::fill_n(out, offsets[B], kind == Kind::bias ? TokenColumns::kFirst : 0);
    for (int64_t b = 0; b < B; ++b) {
        const int64_t low = offsets[b], length = offsets[b + 1] - low;
        if (kind == Kind::tenth)
            for (int64_t t = 0; t < length; ++t) out[low + t] = TokenColumns::kFirst + int32_t(10 * t / length);
        else if (kind != Kind::bias && length) out[kind == Kind::first ? low : low + length - 1] = TokenColumns::kFirst;
    }
}

}  // namespace

std::optional<Derivation> TokenColumns::derivation(std::string_view name) {
    constexpr std::pair<std::string_view, TextFunction> kPlain[] = {
        {"lower", TextFunction::lower}, {"shape", TextFunction::shape}, {"caps", TextFunction::caps},
        {"zeros", TextFunction::zeros}, {"bare", TextFunction::bare},   {"tail", TextFunction::tail},
        {"digit", TextFunction::digit}, {"upper", TextFunction::upper}, {"hyphen", TextFunction::hyphen},
    };
    for (const auto& [called, function] : kPlain)
        if (name == called) return Derivation{function};
    for (const auto& [called, function] :
         {std::pair<std::string_view, TextFunction>{"prefix", TextFunction::prefix}, {"suffix", TextFunction::suffix}})
        if (name.size() == called.size() + 1 && name.starts_with(called) && name.back() >= '0' && name.back() <= '9')
            return Derivation{function, size_t(name.back() - '0')};
    return std::nullopt;
}

TokenColumns::Kind TokenColumns::place(std::string_view name) {
    constexpr std::pair<std::string_view, Kind> kPlaces[] = {
        {"first", Kind::first}, {"last", Kind::last}, {"tenth", Kind::tenth}, {"bias", Kind::bias}};
    for (const auto& [called, kind] : kPlaces)
        if (name == called) return kind;
    return Kind::other;
}

int64_t TokenColumns::ids(const std::vector<Source>& sources, const int64_t* offsets, int64_t B, int32_t* out) const {
    const int64_t N = offsets[B];
    std::vector<Unseen> unseen;
    unseen.reserve(sources.size());
    for (const Source& source : sources) unseen.emplace_back(source, N);
    int64_t left = 0;
    for (size_t c = 0; c < columns.size(); ++c) {
        const Column& column = columns[c];
        int32_t* ids = out + int64_t(c) * N;
        if (column.kind == Kind::texts || column.kind == Kind::derived) {
            const int32_t* numbers = sources[column.source].numbers;
            if (column.kind == Kind::texts)
                for (int64_t t = 0; t < N; ++t) ids[t] = numbers[t] < 0 ? 0 : numbers[t] + kFirst;
            else {
                for (int64_t t = 0; t < N; ++t)
                    ids[t] = numbers[t] < 0 || numbers[t] >= column.size ? 0 : column.table[numbers[t]];
                left += unseen[column.source].put(column, ids);
            }
        } else if (column.kind != Kind::other) put_places(column.kind, offsets, B, ids);
    }
    return left;
}

}  // namespace bridle
