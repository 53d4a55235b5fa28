#include "texts.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace bridle {
namespace {

bool has(std::string_view text, char c) { return !text.empty() && std::memchr(text.data(), c, text.size()); }
bool needs_escape(std::string_view text) { return has(text, '\0') || has(text, '\n'); }

std::string escaped_form(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\0') out.append(2, '\0');
        else if (c == '\n') out.append(1, '\0').append(1, 'n');
        else out.push_back(c);
    }
    return out;
}

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

}  // namespace

void find_texts(const Strings& escaped, const Texts& texts, int32_t* out) {
    constexpr int kSome = Strings::kSome;
    const bool any = needs_escape(texts.all());
    std::string_view some[kSome];
    std::vector<std::string> forms(any ? kSome : 0);
    for (int64_t k = 0; k < texts.count; k += kSome) {
        const int held = static_cast<int>(std::min<int64_t>(kSome, texts.count - k));
        for (int j = 0; j < held; ++j) {
            some[j] = texts[k + j];
            if (any && needs_escape(some[j])) some[j] = forms[j] = escaped_form(some[j]);
        }
        escaped.find_some(some, held, out + k);
    }
}

void add_texts(Strings& plain, const Texts& texts, const int64_t* at, int64_t count, int32_t* out) {
    for (int64_t k = 0; k < count; ++k) out[k] = plain.add(texts[at ? at[k] : k]);
}

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
            flag(has(text, '-'), out);
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

void derived_ids(const Strings& escaped, const Derivation& how, const Texts& texts, int32_t first, int32_t* out) {
    std::string made;
    for (int64_t k = 0; k < texts.count; ++k) {
        if (!derive(how, texts[k], made)) {
            out[k] = -1;
            continue;
        }
        const int32_t number = made.empty() ? Strings::kUnknown : escaped.find(made);
        out[k] = number == Strings::kUnknown ? 0 : number + first;
    }
}

}  // namespace bridle
