#include "text/blocks.h"

#include <cstring>
#include <algorithm>

namespace bridle {
namespace {

constexpr std::string_view kDocstart = "-DOCSTART-";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_empty(std::string_view line) { return std::all_of(line.begin(), line.end(), is_blank); }

// The line at `at`, without its end, which may be CRLF; `at` moves to the next one. False: it is cut off.
bool next_line(std::string_view text, size_t& at, bool final, std::string_view& line) {
    const void* newline = std::memchr(text.data() + at, '\n', text.size() - at);
    if (!newline && !final) return false;
    const size_t end = newline ? static_cast<const char*>(newline) - text.data() : text.size();
    line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = newline ? end + 1 : end;
    return true;
}

// Calls visit(cell) for each column of a line.
template <class Visit>
void each_cell(std::string_view line, bool tab, const Visit& visit) {
    const char *p = line.data(), *const end = p + line.size();
    if (tab) {
        for (const char* begin = p;; ++p) {
            if (p != end && *p != '\t') continue;
            visit(std::string_view(begin, p - begin));
            if (p == end) return;
            begin = p + 1;
        }
    }
    while (true) {
        while (p != end && is_blank(*p)) ++p;
        if (p == end) return;
        const char* begin = p;
        while (p != end && !is_blank(*p)) ++p;
        visit(std::string_view(begin, p - begin));
    }
}

// Are these lines, each with so many separators, and nothing else that a cell cannot have? Then no cell has one of them.
bool are_lines(std::string_view text, char separator, int64_t n_lines, int64_t n_separators) {
    bool is_odd = false;
    for (const char c : text) {
        n_lines -= c == '\n';
        n_separators -= c == separator;
        is_odd |= (c == '\r') | (c == '\0') | ((c == '\t') & (separator != '\t'));
    }
    return !is_odd && n_lines == 0 && n_separators == 0;
}

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

ConllReader::ConllReader(ConllLayout layout) : layout_(std::move(layout)) {
    columns.resize(std::count_if(layout_.slots.begin(), layout_.slots.end(), [](int slot) { return slot >= 0; }));
}

void ConllReader::clear() {
    rows.assign(1, 0);
    places.clear();
    comment_rows.assign(1, 0);
    for (StringColumn& column : columns) column.clear();
    comments.clear();
    skipped = 0;
}

int ConllReader::count(std::string_view line) const {
    int cells = 0;
    each_cell(line, layout_.tab, [&](std::string_view) { ++cells; });
    return cells;
}

bool ConllReader::is_between(std::string_view line) const {
    if (!line.starts_with(layout_.prefix)) return false;
    if (layout_.tab) return line.find('\t') == line.npos;
    return !std::string_view("# ").starts_with(layout_.prefix) || count(line) != layout_.width;
}

ConllReader::Line ConllReader::above(std::string_view line) const {
    if (!layout_.prefix.empty() && line.starts_with(layout_.prefix)) {
        if (layout_.always || count(line) != layout_.width) return Line::kComment;
        if (!layout_.tab) return Line::kOdd;
    }
    return layout_.docstart && line.starts_with(kDocstart) ? Line::kSkipped : Line::kToken;
}

bool ConllReader::token(std::string_view line) {
    int k = 0;
    bool is_fine = true;
    each_cell(line, layout_.tab, [&](std::string_view cell) {
        if (k < layout_.width) {
            if (k == layout_.label && cell.empty()) is_fine = false;
            if (const int slot = layout_.slots[k]; slot >= 0) columns[slot].add(cell);
        }
        ++k;
    });
    return is_fine && k == layout_.width;
}

ConllReader::Stop ConllReader::read(std::string_view text, size_t& at, size_t& end, bool final, int64_t most) {
    while (int64_t(rows.size()) <= most) {
        const int64_t before = rows.back(), comments_before = comments.size();
        int64_t n = before;
        int64_t passed = 0;
        bool begun = false, is_odd = false;  // has a token come?
        bool top = true;                     // are there only comment lines above, since the last empty line?
        size_t p = at, place = at;           // place: of the first token
        std::string_view line;
        const auto back = [&](Stop stop) {
            for (StringColumn& column : columns) column.cut(before);
            comments.cut(comments_before);
            return stop;
        };
        while (true) {
            const size_t here = p;
            if (p == text.size() ? !final : !next_line(text, p, final, line)) return back(Stop::kMore);
            if (begun && layout_.ends && is_between(line)) {
                p = here;
                break;
            }
            const bool over = p == text.size() && final;
            const bool empty = is_empty(line);
            if (!empty && !is_odd) {
                Line kind = top ? above(line) : Line::kToken;
                const bool aside = kind == Line::kToken && layout_.tab && layout_.width > 1 &&
                                   !layout_.prefix.empty() && line.starts_with(layout_.prefix) &&
                                   !std::memchr(line.data(), '\t', line.size());
                if (aside) kind = Line::kComment, top = false;
                if (kind == Line::kComment) comments.add(line);
                if (kind == Line::kSkipped) ++passed;
                if (kind == Line::kOdd) is_odd = true;
                if (kind == Line::kToken) {
                    if (!begun) place = here;
                    top = false, begun = true;
                    if (token(line)) ++n;
                    else is_odd = true;
                }
            }
            line = {};
            if (!empty && !over) continue;
            if (begun || is_odd) break;
            top = true;
            if (over || comments.size() == comments_before) {  // comments at the end of a file belong to no sequence
                if (!is_text(text.substr(at, p - at))) break;
                at = p, skipped += passed, passed = 0;
            }
            if (over) return back(Stop::kMore);
        }
        if (is_odd || !is_text(text.substr(at, p - at))) {
            end = p;
            return back(Stop::kOdd);
        }
        at = p, skipped += passed;
        rows.push_back(n);
        places.push_back(int64_t(place));
        comment_rows.push_back(comments.size());
    }
    return Stop::kFull;
}

size_t end_of_sequence(std::string_view text, size_t at, bool final) {
    std::string_view line;
    bool begun = false;
    while (at < text.size()) {
        if (!next_line(text, at, final, line)) return std::string_view::npos;
        if (!is_empty(line)) begun = true;
        else if (begun) return at;
    }
    return final ? at : std::string_view::npos;
}

int64_t write_conll(const std::vector<StringLists>& columns, const StringLists* comments, int64_t n, int64_t at,
                    const ConllForm& form, std::string& out) {
    const int width = int(columns.size());
    for (; at < n; ++at) {
        if (!columns[0].has(at)) continue;
        const size_t before = out.size();
        const int64_t length = columns[0].length(at);
        bool is_odd = length == 0;
        if (comments && comments->has(at)) {
            for (int64_t k = 0; k < comments->length(at); ++k) {
                const std::string_view line = comments->value(comments->first(at) + k);
                is_odd |= !line.starts_with(form.prefix) || line.find_first_of("\r\n") != line.npos;
                out.append(line).push_back('\n');
            }
        }
        size_t room = length * width;  // a separator or a line end behind each cell
        for (const StringLists& column : columns) {
            is_odd |= column.has(at) ? column.length(at) != length : !form.labelled || &column != &columns.back();
            room += column.has(at) ? column.n_bytes(at) : length * form.absent.size();
        }
        const size_t begin = out.size();
        out.resize(begin + room);
        char* p = out.data() + begin;
        for (int64_t t = 0; t < length && !is_odd; ++t) {
            bool visible = false;  // is there more than blanks on the line?
            const char* line = p;
            for (int k = 0; k < width; ++k) {
                const StringLists& column = columns[k];
                const bool has = column.has(at);
                const std::string_view cell = has ? column.value(column.first(at) + t) : std::string_view(form.absent);
                is_odd |= has && !column.has_value(column.first(at) + t);
                is_odd |= cell.empty() && (form.separator == ' ' || (form.labelled && k + 1 == width));
                visible = visible || cell.find_first_not_of(' ') != cell.npos;
                p = put(p, cell);
                *p++ = k + 1 < width ? form.separator : '\n';
            }
            is_odd |= !visible;
            if (width == 1 && form.alone) {
                const std::string_view text(line, p - line);
                is_odd |= text.find(' ') != text.npos || text.starts_with(form.prefix);
            }
        }
        if (is_odd || !are_lines(std::string_view(out).substr(begin), form.separator, length, length * (width - 1))) {
            out.resize(before);
            return at;
        }
        out.push_back('\n');
    }
    return n;
}

}  // namespace bridle
