#include "text/blocks.h"

#include <cstring>
#include <algorithm>
#include <array>

namespace bridle {
namespace {

constexpr int kDeepest = 32;   // values within each other
constexpr int kLongest = 200;  // characters of a number
constexpr int kDigits = 18;    // of an id

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_character(std::string& out, uint32_t c) {
    const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (c < 0x80) return put(c);
    if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
    if (c >= 0x10000) put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f));
    else put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
}

// Bytes that a JSON string cannot have as they are.
constexpr auto kSpecial = [] {
    std::array<bool, 256> special{};
    for (int c = 0; c < 0x20; ++c) special[c] = true;
    special['"'] = special['\\'] = true;
    return special;
}();

bool is_special(char c) { return kSpecial[uint8_t(c)]; }

}  // namespace

// A place in a line. Each method reads one thing and moves behind it; false: it is not there.
struct JsonReader::Cursor {
    const char *p, *end;

    void spaces() {
        while (p != end && is_space(*p)) ++p;
    }
    bool is(char c) const { return p != end && *p == c; }
    bool take(char c) {
        if (!is(c)) return false;
        ++p;
        return true;
    }
    bool word(std::string_view text) {
        if (!std::string_view(p, end - p).starts_with(text)) return false;
        p += text.size();
        return true;
    }
    bool hex(uint32_t& c) {
        if (end - p < 4) return false;
        c = 0;
        for (int k = 0; k < 4; ++k, ++p) {
            const char low = static_cast<char>(*p | 0x20);
            if (is_digit(*p)) c = c << 4 | uint32_t(*p - '0');
            else if (low >= 'a' && low <= 'f') c = c << 4 | uint32_t(low - 'a' + 10);
            else return false;
        }
        return true;
    }
    bool escape(std::string& out) {
        if (p == end) return false;
        static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
        const char c = *p++;
        if (const size_t k = kFrom.find(c); k != kFrom.npos) return out.push_back(kTo[k]), true;
        uint32_t high, low;
        if (c != 'u' || !hex(high)) return false;
        if (high >= 0xd800 && high < 0xe000) {
            if (high >= 0xdc00 || !word("\\u") || !hex(low) || low < 0xdc00 || low >= 0xe000) return false;
            high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        }
        append_character(out, high);
        return true;
    }
    bool string(std::string& out) {
        if (!take('"')) return false;
        while (true) {
            const char* begin = p;
            while (p != end && !is_special(*p)) ++p;
            out.append(begin, p);
            if (p == end) return false;
            const char c = *p++;
            if (c == '"') return true;
            if (c != '\\' || !escape(out)) return false;
        }
    }
    bool digits() {
        const char* begin = p;
        while (p != end && is_digit(*p)) ++p;
        return p != begin;
    }
    bool number(bool& is_integer) {
        const char* begin = p;
        take('-');
        if (!take('0') && !digits()) return false;
        is_integer = true;
        if (take('.')) {
            is_integer = false;
            if (!digits()) return false;
        }
        if (is('e') || is('E')) {
            is_integer = false;
            ++p;
            if (is('+') || is('-')) ++p;
            if (!digits()) return false;
        }
        return p - begin <= kLongest;
    }
    bool skip(std::string& scratch, int depth = 0) {
        if (p == end || depth > kDeepest) return false;
        bool is_integer;
        switch (*p) {
            case '"': return scratch.clear(), string(scratch);
            case 't': return word("true");
            case 'f': return word("false");
            case 'n': return word("null");
            case '[':
            case '{': break;
            default: return number(is_integer);
        }
        const char close = *p++ == '[' ? ']' : '}';
        spaces();
        if (take(close)) return true;
        while (true) {
            spaces();
            if (close == '}') {
                scratch.clear();
                if (!string(scratch)) return false;
                spaces();
                if (!take(':')) return false;
                spaces();
            }
            if (!skip(scratch, depth + 1)) return false;
            spaces();
            if (take(close)) return true;
            if (!take(',')) return false;
        }
    }
};

void JsonReader::add_key(std::string name, Role role, std::string needs) {
    keys_.push_back({std::move(name), role, std::move(needs)});
    columns.emplace_back();
    for (int64_t row = 0; row < n_rows; ++row) columns.back().end_row(0);
}

void JsonReader::clear() {
    for (JsonColumn& column : columns) column.clear();
    n_rows = 0;
    places.clear();
}

JsonReader::Stop JsonReader::read(std::string_view text, size_t& at, size_t& end, bool final, int64_t most) {
    while (at < text.size()) {
        if (n_rows >= most) return Stop::kFull;
        const void* newline = std::memchr(text.data() + at, '\n', text.size() - at);
        if (!newline && !final) return Stop::kMore;
        const size_t stop = newline ? static_cast<const char*>(newline) - text.data() : text.size();
        const size_t next = newline ? stop + 1 : stop;
        const std::string_view row_text = text.substr(at, stop - at);
        if (!std::all_of(row_text.begin(), row_text.end(), is_space)) {
            if (!is_text(row_text) || !line(row_text)) {
                for (JsonColumn& column : columns) column.cut(n_rows);
                end = next;
                return Stop::kOdd;
            }
            ++n_rows;
            places.push_back(int64_t(at));
        }
        at = next;
    }
    return Stop::kMore;
}

bool JsonReader::line(std::string_view text) {
    Cursor cursor{text.data(), text.data() + text.size()};
    seen_.assign(keys_.size(), 0);
    cursor.spaces();
    if (!cursor.take('{')) return false;
    cursor.spaces();
    if (!cursor.is('}')) {
        size_t guess = 0;  // keys often come in the order in which they were announced
        do {
            cursor.spaces();
            key_.clear();
            if (!cursor.string(key_)) return false;
            if (guess >= keys_.size() || keys_[guess].name != key_)
                guess = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == key_; }) -
                        keys_.begin();
            if (guess >= keys_.size() || seen_[guess]) return false;
            cursor.spaces();
            if (!cursor.take(':')) return false;
            cursor.spaces();
            seen_[guess] = 1;
            if (!value(cursor, keys_[guess], columns[guess])) return false;
            cursor.spaces();
            ++guess;
        } while (cursor.take(','));
    }
    if (!cursor.take('}')) return false;
    cursor.spaces();
    if (cursor.p != cursor.end) return false;
    for (size_t k = 0; k < keys_.size(); ++k)
        if (!seen_[k]) columns[k].end_row(0);
    return fits();
}

// Have the columns of the last row as many values as there are tokens, and are all there that must be?
bool JsonReader::fits() const {
    int64_t n = -1;
    const auto length = [](const JsonColumn& column) {
        return column.rows.back() - column.rows[column.rows.size() - 2];
    };
    for (size_t k = 0; k < keys_.size(); ++k)
        if (keys_[k].role == Role::kTokens && columns[k].known.back()) n = length(columns[k]);
    if (n < 0) return false;
    for (size_t k = 0; k < keys_.size(); ++k) {
        const Role role = keys_[k].role;
        const bool is_list = role == Role::kLabels || role == Role::kColumn || role == Role::kWanted;
        if (is_list && columns[k].known.back() && length(columns[k]) != n) return false;
        if (role == Role::kWanted && !columns[k].known.back()) return false;
        if (!seen_[k] || keys_[k].needs.empty()) continue;
        const auto is_there = [&](size_t j) { return seen_[j] && keys_[j].name == keys_[k].needs; };
        bool is_met = false;
        for (size_t j = 0; j < keys_.size(); ++j) is_met |= is_there(j);
        if (!is_met) return false;
    }
    return true;
}

bool JsonReader::value(Cursor& cursor, const Key& key, JsonColumn& column) {
    const char* begin = cursor.p;
    bool is_integer = false;
    const auto raw = [&](uint8_t is) {
        column.values.add({begin, size_t(cursor.p - begin)});
        column.whole.push_back(1);
        column.end_row(is);
        return true;
    };
    switch (key.role) {
        case Role::kTokens:
        case Role::kWanted: return strings(cursor, column, false) && (column.end_row(1), true);
        case Role::kLabels:
            if (cursor.word("null")) return column.end_row(0), true;
            return strings(cursor, column, true) && (column.end_row(1), true);
        case Role::kColumn: {
            const int64_t before = column.values.size();
            if (cursor.is('[') && strings(cursor, column, true))  // one with a null is unusual
                return !std::count(column.whole.begin() + before, column.whole.end(), 0) && (column.end_row(1), true);
            column.values.cut(before);  // a list of something else, or no list
            column.whole.resize(before);
            cursor.p = begin;
            return cursor.skip(key_) && (column.end_row(0), true);
        }
        case Role::kId:
            if (cursor.word("null")) return column.end_row(0), true;
            if (cursor.is('"')) {
                if (!cursor.string(column.values.bytes)) return false;
                column.values.close();
                column.whole.push_back(1);
                return column.end_row(1), true;
            }
            if (!cursor.number(is_integer) || !is_integer || cursor.p - begin > kDigits) return false;
            return !(begin[0] == '-' && begin[1] == '0') && raw(2);  // -0 is 0
        case Role::kGiven:
            if (cursor.word("null")) return column.end_row(0), true;
            if (!cursor.is('{') || !cursor.skip(key_)) return false;
            if (std::all_of(begin + 1, cursor.p - 1, is_space)) return column.end_row(0), true;
            return raw(1);
        case Role::kSkip: return cursor.skip(key_) && (column.end_row(0), true);
    }
    return false;
}

bool JsonReader::strings(Cursor& cursor, JsonColumn& column, bool nulls) {
    if (!cursor.take('[')) return false;
    cursor.spaces();
    if (cursor.take(']')) return true;
    do {
        cursor.spaces();
        const bool is_null = nulls && cursor.word("null");
        if (!is_null && !cursor.string(column.values.bytes)) return false;
        column.values.close();
        column.whole.push_back(!is_null);
        cursor.spaces();
    } while (cursor.take(','));
    return cursor.take(']');
}

// ---- writing --------------------------------------------------------------------------------------------------------

namespace {

void append_string(std::string& out, std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t", kTo = "\"\\bfnrt";
    out.push_back('"');
    const char *p = text.data(), *const end = p + text.size();
    while (true) {
        const char* begin = p;
        while (p != end && !is_special(*p)) ++p;
        out.append(begin, p);
        if (p == end) break;
        const char c = *p++;
        out.push_back('\\');
        if (const size_t k = kFrom.find(c); k != kFrom.npos) out.push_back(kTo[k]);
        else out.append("u00").append({kHex[c >> 4], kHex[c & 15]});
    }
    out.push_back('"');
}

// The list of a row. Nearly always no string has to be escaped: then it is as long as is easily said.
void append_strings(std::string& out, const StringLists& values, int64_t row) {
    const int64_t first = values.first(row), length = values.length(row);
    const size_t before = out.size();
    out.resize(before + values.n_bytes(row) + 6 * length + 2);  // quotes or null, comma, blank
    char* p = put(out.data() + before, "[");
    int64_t quotes = 0;
    for (int64_t k = first; k < first + length; ++k) {
        if (k > first) p = put(p, ", ");
        if (!values.has_value(k)) p = put(p, "null");
        else *p++ = '"', p = put(p, values.value(k)), *p++ = '"', quotes += 2;
    }
    p = put(p, "]");
    out.resize(p - out.data());
    bool is_plain = true;
    for (const char c : std::string_view(out).substr(before)) {
        quotes -= c == '"';
        is_plain &= (uint8_t(c) >= 0x20) & (c != '\\');
    }
    if (is_plain && quotes == 0) return;
    out.resize(before);
    for (int64_t k = first; k < first + length; ++k) {
        out.append(k > first ? ", " : "[");
        if (values.has_value(k)) append_string(out, values.value(k));
        else out.append("null");
    }
    out.push_back(']');
}

}  // namespace

void write_json(const std::vector<JsonField>& fields, int64_t n, std::string& out) {
    for (int64_t row = 0; row < n; ++row) {
        out.push_back('{');
        bool is_first = true;
        for (const JsonField& field : fields) {
            const bool has = field.values.has(row);
            if (!has && !field.nulls) continue;
            if (!is_first) out.append(", ");
            is_first = false;
            out.append(field.text);
            if (!has) {
                out.append("null");
                continue;
            }
            if (field.kind == JsonField::Kind::kStrings) append_strings(out, field.values, row);
            else if (field.kind == JsonField::Kind::kString) append_string(out, field.values.value(row));
            else out.append(field.values.value(row));
        }
        out.append("}\n");
    }
}

}  // namespace bridle
