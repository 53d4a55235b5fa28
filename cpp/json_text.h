// Lines of JSON objects <-> columns of strings, where nothing about a line is unusual.
//
// What is: a key that was not announced or comes twice, a value that has another type than its key asks for, columns of different
// lengths, numbers that only Python reads (NaN), half a surrogate pair, deep nesting, and whatever is not JSON. The caller reads
// such a line itself, and says what is wrong with it if something is.
#pragma once

#include "string_columns.h"

namespace bridle {

// A column of strings or lists, some of which may be missing.
struct JsonColumn {
    StringColumn values;
    std::vector<uint8_t> whole;    // (values) 0: null
    std::vector<int32_t> rows{0};  // (rows + 1)
    std::vector<uint8_t> known;    // (rows) 0: null; ids: 1 for a string, 2 for an integer

    void end_row(uint8_t is) {
        rows.push_back(values.size());
        known.push_back(is);
    }
    void cut(int64_t n) {  // only the first n rows stay
        rows.resize(n + 1);
        known.resize(n);
        values.cut(rows.back());
        whole.resize(rows.back());
    }
};

class JsonReader {
  public:
    enum class Stop { kMore, kFull, kOdd };  // more text is needed; enough rows; the next line is unusual
    enum class Role {
        kTokens,
        kLabels,
        kId,
        kGiven,
        kColumn,
        kWanted,
        kSkip
    };  // kWanted: a column that each row must have

    // needs: the name of another key without which this one is unusual; empty: none.
    void add_key(std::string name, Role role, std::string needs);

    // Reads lines from `at` on, until `most` rows are there. `at` becomes the end of the last line that was read, and `end` that of
    // the next one if it is unusual. final: the text goes on no further.
    Stop read(std::string_view text, size_t& at, size_t& end, bool final, int64_t most);

    std::vector<JsonColumn> columns;  // of the keys, in their order; those to be skipped have no values
    int64_t n_rows = 0;
    void clear();

  private:
    struct Key {
        std::string name;
        Role role;
        std::string needs;
    };
    struct Cursor;
    bool line(std::string_view text);
    bool value(Cursor& cursor, const Key& key, JsonColumn& column);
    bool strings(Cursor& cursor, JsonColumn& column, bool nulls);
    bool fits() const;

    std::vector<Key> keys_;
    std::vector<uint8_t> seen_;  // (keys) in this line
    std::string key_;
};

// A column of rows to be written: `text` is what comes before a value, such as `"tokens": `.
struct JsonField {
    enum class Kind { kRaw, kString, kStrings };  // JSON as it is; a string; a list of strings
    Kind kind;
    std::string text;
    StringLists values;
    bool nulls;  // write null for a value that is missing, instead of nothing?
};

// Appends a line for each row.
void write_json(const std::vector<JsonField>& fields, int64_t n, std::string& out);

}  // namespace bridle
