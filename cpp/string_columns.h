// Columns of strings as Arrow lays them out, and what text must be to become one.
//
//   ends    (values + 1) where each string begins and ends in `bytes`; the first is 0
//   rows    (rows + 1) which values belong to each row of a column of lists
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace bridle {

// Strings that are made one after the other.
struct StringColumn {
    std::vector<int32_t> ends{0};
    std::string bytes;

    void add(std::string_view text) {
        bytes.append(text);
        close();
    }
    void close() { ends.push_back(static_cast<int32_t>(bytes.size())); }  // what was appended to `bytes` is a string
    int32_t size() const { return static_cast<int32_t>(ends.size()) - 1; }
    void cut(int32_t count) {  // only the first strings stay
        ends.resize(count + 1);
        bytes.resize(ends.back());
    }
    void clear() { cut(0); }
};

// Strings of somebody else, in rows.
struct StringLists {
    const int32_t* rows;   // (n + 1); null: one string per row
    const uint8_t* known;  // (n) is the row there? null: all are
    const int32_t* ends;   // (values + 1)
    const uint8_t* whole;  // (values) is the string there? null: all are
    const char* bytes;

    bool has(int64_t row) const { return !known || known[row]; }
    bool has_value(int64_t k) const { return !whole || whole[k]; }
    int64_t first(int64_t row) const { return rows ? rows[row] : row; }
    int64_t length(int64_t row) const { return rows ? rows[row + 1] - rows[row] : 1; }
    std::string_view value(int64_t k) const { return {bytes + ends[k], static_cast<size_t>(ends[k + 1] - ends[k])}; }
};

// Is it valid UTF-8 without NUL?
bool is_text(std::string_view bytes);

}  // namespace bridle
