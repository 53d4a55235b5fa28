// Transition scores laid out for one step back:
//   out[i] = max over j of  score[i][j] + w[j]
// by rows and by columns, with what the kernel needs to pass columns over that cannot win (simd/viterbi.inl).
//
//   m labels (i, then j)    w (m): the best that follows each label j
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "search/control.h"
#include "simd/kernels.h"

namespace bridle {

// Numbers by which caches know what they were made of: an address may come again for something else, a number does not.

inline int64_t next_serial() {
    static std::atomic<int64_t> last{0};
    return ++last;
}

constexpr int kMostSquare = 8192;  // labels of which tables (m, m) are made: 512 MB of doubles each

struct Free {
    void operator()(double* memory) const { std::free(memory); }
};
using Doubles = std::unique_ptr<double[], Free>;  // not filled

class Table {
  public:
    Table() = default;
    Table(const Table&) = delete;  // the view points into it
    Table& operator=(const Table&) = delete;

    // score(i, j) = pairwise + mask, each (m, m) row-major or null: 0. O(m^2); O(m) without any.
    void build(int m, const double* pairwise, const double* mask, Control& control);
    // score(i, j) = that of another table + adjust, (m, m) and finite: what is possible stays possible.
    void adjust(const Table& base, const double* adjust, Control& control);

    // Would `build` make this table of them? pairwise is not null. O(m^2).
    bool made_of(const double* pairwise, const double* mask) const;

    double at(int i, int j) const { return view_.flat ? 0.0 : rows_[size_t(i) * view_.width + j]; }
    const double* row(int i) const {  // padded with -inf; of a flat table with 0
        return view_.flat ? view_.rows : rows_.get() + size_t(i) * view_.width;
    }
    const TableView& view() const { return view_; }
    size_t bytes() const { return 2 * room_ * sizeof(double); }  // about
    int64_t serial() const { return serial_; }                   // another one whenever it is made again

  private:
    enum class From : uint8_t {
        all,
        some,
        others
    };  // column j leads from all labels of D, from some, or from others too

    void shape(int m);  // room for rows and columns
    // Makes rows by fill(i, row) and columns of them, least_ and most_ over all rows. Are all scores finite?
    template <class Fill>
    bool lay(const Fill& fill, Control& control);
    void find_support(Control& control);  // D, and where columns lead from
    void find_limits();                   // least and most
    void find_diagonals();                // of the short columns, and whether the others are alike
    void publish();                       // the view

    TableView view_{};
    int64_t serial_ = 0;
    Doubles rows_, columns_;  // (m, width)
    size_t room_ = 0;         // of each
    std::vector<double> least_, most_;
    std::vector<From> from_;
    std::vector<int32_t> low_, high_;
    std::vector<uint64_t> narrow_;
    std::vector<double> diagonals_, same_;
    std::vector<uint64_t> short_from_;
};

// Scores that do not depend on the token, and the tables made of them. Sequences share a head, batches share tables: a decoder
// sees the same transition scores again and again, and making a table costs as much as a token.

struct Tables {
    Table free;  // transition scores with the mask
    Table tied;  // the same where the type must not change; empty if no rule asks for it
};

// Scores that do not depend on the token, as they came.
struct HeadScores {
    const double* pairwise = nullptr;  // (m, m) or, per_step, (n - 1, m, m); null: none
    bool per_step = false;
    const double *start = nullptr, *end = nullptr;  // (m) or null
};

// The same with masks.
struct Head {
    const double* pairwise = nullptr;  // as in HeadScores
    bool per_step = false;
    std::vector<double> start, end;        // (width) or empty
    std::shared_ptr<const Tables> tables;  // not with per_step
};

// The tables of a decoder for the transition scores that it met last.
class TableCache {
  public:
    // Masks hold 0 or -inf. free_mask (m, m), first_mask, last_mask (m), empty: nothing is masked; tied_mask (m, m), empty: no
    // second table.
    TableCache(int m, std::vector<double> free_mask, std::vector<double> tied_mask, std::vector<double> first_mask,
               std::vector<double> last_mask);

    // pairwise (m, m) or null. Throws Stopped.
    std::shared_ptr<const Tables> find(const double* pairwise, Control& control);
    // Without tables. `scores` must outlive what is returned.
    Head head(const HeadScores& scores) const;
    size_t bytes() const;  // that masks and tables take

    const int m;
    const std::vector<double> free_mask, tied_mask, first_mask, last_mask;

  private:
    struct Entry {
        bool scored;  // was it made with transition scores?
        std::shared_ptr<Tables> tables;
    };
    std::mutex mutex_;
    std::deque<Entry> entries_;    // the newest first
    std::atomic<size_t> held_{0};  // bytes of their tables
};

}  // namespace bridle
