// What the functions of templates (features/derived.py) make of texts.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "text/strings.h"

namespace bridle {
namespace {

enum class TextFunction { lower, shape, caps, zeros, bare, tail, digit, upper, hyphen, prefix, suffix };

struct Derivation {
    TextFunction function;
    size_t length = 0;  // of prefixes and suffixes
};

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_upper(c) || (c >= 'a' && c <= 'z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lowered(char c) { return is_upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; }

void shape(std::string_view text, std::string& out) {  // runs count once
    for (const char c : text) {
        const char kind = is_upper(c) ? 'X' : is_letter(c) ? 'x' : is_digit(c) ? 'd' : c;
        if (out.empty() || out.back() != kind) out.push_back(kind);
    }
}

void flag(bool holds, std::string& out) {
    if (holds) out = "yes";
}

// A function as templates name it: lower, prefix3, ...
std::optional<Derivation> derivation_named(std::string_view name) {
    constexpr std::pair<std::string_view, TextFunction> kPlain[] = {
        {"lower", TextFunction::lower}, {"shape", TextFunction::shape}, {"caps", TextFunction::caps},
        {"zeros", TextFunction::zeros}, {"bare", TextFunction::bare},   {"tail", TextFunction::tail},
        {"digit", TextFunction::digit}, {"upper", TextFunction::upper}, {"hyphen", TextFunction::hyphen},
    };
    for (const auto& [called, function] : kPlain)
        if (name == called) return Derivation{function};
    for (const auto& [called, function] :
         {std::pair<std::string_view, TextFunction>{"prefix", TextFunction::prefix}, {"suffix", TextFunction::suffix}})
        if (name.size() == called.size() + 1 && name.substr(0, called.size()) == called && is_digit(name.back()))
            return Derivation{function, static_cast<size_t>(name.back() - '0')};
    return std::nullopt;
}

// False: the text is not ASCII, or has a line feed or a null.
bool derive(const Derivation& how, std::string_view text, std::string& out) {
    out.clear();
    for (const char c : text)
        if (static_cast<unsigned char>(c) >= 0x80 || c == '\0' || c == '\n') return false;
    const bool capital = std::any_of(text.begin(), text.end(), is_upper);
    switch (how.function) {
        case TextFunction::lower:
            for (const char c : text) out.push_back(lowered(c));
            break;
        case TextFunction::shape:
            shape(text, out);
            break;
        case TextFunction::caps:
            if (capital) shape(text, out);
            break;
        case TextFunction::zeros:
            for (const char c : text) out.push_back(is_digit(c) ? '0' : lowered(c));
            break;
        case TextFunction::bare:
            for (const char c : text)
                if (is_letter(c) || is_digit(c) || c == '_') out.push_back(lowered(c));
            break;
        case TextFunction::tail:
            if (!text.empty() && !is_letter(text.back()) && !is_digit(text.back())) out.push_back(text.back());
            break;
        case TextFunction::digit:
            flag(std::any_of(text.begin(), text.end(), is_digit), out);
            break;
        case TextFunction::upper:
            flag(capital, out);
            break;
        case TextFunction::hyphen:
            flag(text.find('-') != text.npos, out);
            break;
        case TextFunction::prefix:
            if (text.size() >= how.length) out = text.substr(0, how.length);
            break;
        case TextFunction::suffix:
            if (text.size() >= how.length) out = text.substr(text.size() - how.length);
            break;
    }
    return true;
}

}  // namespace

bool derive(const Strings& strings, std::string_view function, const Texts& texts, int32_t first, int32_t* out) {
    const auto how = derivation_named(function);
    std::string made;
    for (int64_t k = 0; how && k < texts.count; ++k) {
        if (!derive(*how, texts[k], made)) {
            out[k] = -1;
            continue;
        }
        const int32_t number = made.empty() ? Strings::kUnknown : strings.find(made);
        out[k] = number == Strings::kUnknown ? 0 : number + first;
    }
    return how.has_value();
}

}  // namespace bridle
