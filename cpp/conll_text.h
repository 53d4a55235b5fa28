// Text with one token per line <-> columns of strings, where nothing about the text is unusual.
//
// What is: a line with another number of columns, an empty label, bytes that are no text, a line that could be a comment or
// a token. The caller reads such a sequence itself, and says what is wrong with it if something is.
#pragma once

#include "string_columns.h"

namespace bridle {

// How the lines of a file are cut.
struct ConllLayout {
    bool tab;                // columns are separated by TABs, otherwise by blanks
    int width;               // columns of a line
    int label;               // the column that must not be empty; -1: none
    std::vector<int> slots;  // (width) where the values of a column go; -1: nowhere
    std::string prefix;      // of comments; empty: there are none
    bool always;             // a line with the prefix above a sequence is a comment, whatever its number of columns
    bool docstart;           // skip lines that begin with -DOCSTART- above a sequence
};

class ConllReader {
  public:
    enum class Stop { kMore, kFull, kOdd };  // more text is needed; enough rows; the next sequence is unusual

    explicit ConllReader(ConllLayout layout);

    // Reads sequences from `at` on, until `most` rows are there. `at` becomes the end of the last one that was read, and `end`
    // that of the next one if it is unusual. final: the text goes on no further.
    Stop read(std::string_view text, size_t& at, size_t& end, bool final, int64_t most);

    std::vector<int32_t> rows{0};       // (rows + 1)
    std::vector<StringColumn> columns;  // each with rows.back() values
    std::vector<int32_t> comment_rows{0};
    StringColumn comments;
    int64_t skipped = 0;  // lines of -DOCSTART-
    void clear();

  private:
    enum class Line { kToken, kComment, kSkipped, kOdd };
    Line above(std::string_view line) const;  // a line that begins a sequence
    bool token(std::string_view line);        // adds its values; false: it is unusual
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

}  // namespace bridle
