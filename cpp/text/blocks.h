// Text with one token per line <-> columns of strings, where nothing about the text is unusual.
//
// What is: a line with another number of columns, an empty label, bytes that are not text, a line that could be a comment or
// a token. The caller reads such a sequence itself, and says what is wrong with it if something is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bridle {

// Columns of strings as Arrow lays them out, and what text must be to become one.
//
//   ends    (values + 1) where each string begins and ends in `bytes`; the first is 0
//   rows    (rows + 1) which values belong to each row of a column of lists

// Strings that are made one after the other.
struct StringColumn {
    std::vector<int64_t> ends{0};
    std::string bytes;

    void add(std::string_view text) {
        bytes.append(text);
        close();
    }
    void close() { ends.push_back(int64_t(bytes.size())); }  // what was appended to `bytes` is a string
    int64_t size() const { return int64_t(ends.size()) - 1; }
    void cut(int64_t count) {  // only the first strings stay
        ends.resize(count + 1);
        bytes.resize(ends.back());
    }
    void clear() { ends.assign(1, 0), bytes.clear(); }
};

// Strings of another owner, in rows.
struct StringLists {
    const int64_t* rows;   // (n + 1); null: one string per row
    const uint8_t* known;  // (n) is the row there? null: all are
    const int64_t* ends;   // (values + 1)
    const uint8_t* whole;  // (values) is the string there? null: all are
    const char* bytes;
    const int32_t* which;  // (values) the string of each value; null: each has its own

    bool has(int64_t row) const { return !known || known[row]; }
    bool has_value(int64_t k) const { return !whole || whole[k]; }
    int64_t first(int64_t row) const { return rows ? rows[row] : row; }
    int64_t length(int64_t row) const { return rows ? rows[row + 1] - rows[row] : 1; }
    int64_t n_bytes(int64_t row) const {  // of all its values
        const int64_t begin = first(row), end = begin + length(row);
        if (!which) return ends[end] - ends[begin];
        int64_t size = 0;
        for (int64_t k = begin; k < end; ++k) size += ends[which[k] + 1] - ends[which[k]];
        return size;
    }
    std::string_view value(int64_t k) const {
        const int64_t s = which ? which[k] : k;
        return {bytes + ends[s], size_t(ends[s + 1] - ends[s])};
    }
};

// Writes a text where there is room for it; the place behind it.
inline char* put(char* p, std::string_view text) { return std::copy(text.begin(), text.end(), p); }

// Is it valid UTF-8 without NUL?
bool is_text(std::string_view bytes);

// How the lines of a file are cut.
struct ConllLayout {
    bool tab;                // columns are separated by TABs, otherwise by blanks
    int width;               // columns of a line
    int label;               // the column that must not be empty; -1: none
    std::vector<int> slots;  // (width) where the values of a column go; -1: nowhere
    std::string prefix;      // of comments; empty: there are none
    bool always;             // a line with the prefix above a sequence is a comment, whatever its number of columns
    bool docstart;           // skip lines that begin with -DOCSTART- above a sequence
    bool ends;               // a comment after a token ends the sequence
};

class ConllReader {
  public:
    enum class Stop { kMore, kFull, kOdd };  // more text is needed; enough rows; the next sequence is unusual

    explicit ConllReader(ConllLayout layout);

    // Reads sequences from `at` on, until `most` rows are there. `at` becomes the end of the last one that was read, and `end`
    // that of the next one if it is unusual. final: the text goes on no further.
    Stop read(std::string_view text, size_t& at, size_t& end, bool final, int64_t most);

    std::vector<int64_t> rows{0};       // (rows + 1)
    std::vector<int64_t> places;        // (rows) where the first token of each begins, in the text that was read
    std::vector<StringColumn> columns;  // each with rows.back() values
    std::vector<int64_t> comment_rows{0};
    StringColumn comments;
    int64_t skipped = 0;  // lines of -DOCSTART-
    void clear();

  private:
    enum class Line { kToken, kComment, kSkipped, kOdd };
    Line above(std::string_view line) const;
    bool is_between(std::string_view line) const;  // does a comment after a token end the sequence?
    bool token(std::string_view line);             // adds its values; false: it is unusual
    int count(std::string_view line) const;

    ConllLayout layout_;
};

// Where the next sequence ends, behind the empty line; npos: more text is needed.
size_t end_of_sequence(std::string_view text, size_t at, bool final);

// How lines are made of columns.
struct ConllForm {
    char separator;
    bool labelled;       // the last column has labels, which are not empty
    std::string absent;  // the label of each token of a row without labels
    std::string prefix;  // of comments
    bool alone;          // a reader would take blanks for separators if there is one column
};

// Appends the lines of rows from `at` on. The row at which it stopped: the number of rows, or one that is unusual.
int64_t write_conll(const std::vector<StringLists>& columns, const StringLists* comments, int64_t n, int64_t at,
                    const ConllForm& form, std::string& out);

// Lines of JSON objects <-> columns of strings, where nothing about a line is unusual.
//
// Unusual are: a key that was not announced or comes twice, a value of another type than its key asks for, columns of different
// lengths, numbers that only Python reads (NaN), half a surrogate pair, deep nesting. So is whatever is not JSON. The caller reads
// such a line itself, and says what is wrong with it if something is.

// A column of strings or lists, some of which may be missing.
struct JsonColumn {
    StringColumn values;
    std::vector<uint8_t> whole;    // (values) 0: null
    std::vector<int64_t> rows{0};  // (rows + 1)
    std::vector<uint8_t> known;    // (rows) 0: null; ids: 1 for a string, 2 for an integer

    void end_row(uint8_t is) {
        rows.push_back(values.size());
        known.push_back(is);
    }
    void clear() { values.clear(), whole.clear(), rows.assign(1, 0), known.clear(); }
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
    std::vector<int64_t> places;  // (rows) where each line begins, in the text that was read
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
