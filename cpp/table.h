// Transition scores laid out for one step back:
//   out[i] = max over j of  score[i][j] + w[j]
// by rows and by columns, with what the kernel needs to pass columns over that cannot win (simd/viterbi.inl).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "control.h"
#include "serial.h"
#include "simd/kernels.h"

namespace bridle {

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

    double at(int i, int j) const { return view_.flat ? 0.0 : rows_[static_cast<size_t>(i) * view_.width + j]; }
    const double* row(int i) const {  // padded with -inf; of a flat table with 0
        return view_.flat ? view_.rows : rows_.get() + static_cast<size_t>(i) * view_.width;
    }
    const TableView& view() const { return view_; }
    int64_t serial() const { return serial_; }  // another one whenever it is made anew

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

}  // namespace bridle
