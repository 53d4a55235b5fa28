// Sparse examples and the weights that score them.
//   unary[t][y] = sum over attributes a of token t of  value * weight(a, y)
//   N tokens (t)    A attributes (a)    m labels (y)    W weights, each in its slot
// The weights of an attribute lie side by side: for all labels (a full row, padded to whole vectors) or only for some,
// each with its label. A full row costs less than a list when an attribute goes with several labels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/control.h"
#include "simd/kernels.h"

namespace bridle {

struct Examples {
    const int64_t* offsets;  // (B + 1) tokens of sequence b
    int64_t B;
    const int64_t* indptr;  // (N + 1) attributes of token t
    const int32_t* attrs;   // (indptr[N])
    const float* values;    // the same, or null: all are 1
    const int32_t* y;       // (N) gold labels, or null

    int64_t n_tokens() const { return offsets[B]; }
};

struct Rows {
    Rows(int m, const int64_t* begin, int64_t A, const uint16_t* label, const uint8_t* free);

    int m, width;           // width: padded_row(m)
    const int64_t* begin;   // (A + 1) weights of attribute a; `width` of them: a full row
    const uint16_t* label;  // (W) whose weight it is
    const uint8_t*
        free;  // (W) may it change? null: all may. In a full row, labels never seen with the attribute may not
    std::vector<Row> rows;  // (A)
};

// Scores of all tokens into out (N, m).
void score_tokens(const Rows& rows, const Examples& x, const float* w, float* out, Control& control);

// The same in double precision, for one token: out (width) += value * weight, in the order of the attributes. values: null: all
// are 1.
void add_attributes(const Rows& rows, const int32_t* attrs, const double* values, int64_t count, const double* w,
                    double* out);
// Of all tokens, into out (N, m).
void score_tokens(const Rows& rows, const int64_t* indptr, const int32_t* attrs, const double* values, int64_t N,
                  const double* w, double* out, Control& control);

// Scores of some tokens, when they are asked for.
class Scorer {
  public:
    Scorer(const Rows& rows, const Examples& x, const float* w) : rows_(rows), x_(x), w_(w) {}
    // out (count, width) := scores of tokens first .. first + count - 1
    void score(int64_t first, int64_t count, float* out);

  private:
    const Rows& rows_;
    const Examples& x_;
    const float* w_;
    std::vector<uint32_t> full_;  // memory for the attributes of one token
    std::vector<Row> list_;
    std::vector<float> value_, list_value_;
};

// Examples and rows joined for training: of each token, where its full rows begin, then the slots of its lists.
class Joined {
  public:
    Joined(const Rows& rows, const Examples& x);

    const int m, width;
    int64_t n_slots() const { return n_slots_; }
    const int64_t* offsets;  // as in Examples
    const int64_t B;
    const int32_t* y;

    // out (count, width) := scores of tokens first .. first + count - 1
    template <class Real>
    void score(int64_t first, int64_t count, const Real* w, Real* out) const {
        sum_kernels<Real>().score(entries(), begin_.data() + first, full_.data() + first, count, width, w, out);
    }
    // into (W) += value * p[label]: the other way round; p (count, width)
    template <class Real>
    void expect(int64_t first, int64_t count, const Real* p, double* into) const {
        sum_kernels<Real>().expect(entries(), begin_.data() + first, full_.data() + first, count, width, p, into);
    }

    // each(slot, value) for the weights of token t that belong to one label and may change
    template <class Each>
    void of_label(int64_t t, int label, const Each& each) const {
        const int64_t begin = begin_[t], full = begin + full_[t], end = begin_[t + 1];
        for (int64_t k = begin; k < full; ++k)
            if (const int64_t s = int64_t{slot_[k]} + label; !free_ || free_[s]) each(s, value(k));
        for (int64_t k = full; k < end; ++k)
            if (label_[k] == label) each(int64_t{slot_[k]}, value(k));
    }

  private:
    Entries entries() const { return {slot_.data(), label_.data(), value_.empty() ? nullptr : value_.data()}; }
    double value(int64_t k) const { return value_.empty() ? 1.0 : value_[k]; }

    std::vector<int64_t> begin_;  // (N + 1)
    std::vector<uint32_t> full_;  // (N) how many entries are full rows
    std::vector<uint32_t> slot_;  // entries
    std::vector<uint16_t> label_;
    std::vector<float> value_;  // empty: all are 1
    const uint8_t* free_;
    int64_t n_slots_;  // W
};

// Attributes that come together are scored as one.
//
// With templates over the same columns, one attribute often implies others: the tags at -2, -1 and 0 as a trigram bring the
// bigrams and single tags with them. Let mask[a] be the attributes that every token with a has. Tokens are covered, largest mask
// first, by bundles (a, what is left of mask[a]); a bundle that pays is an attribute of its own with a full row, the sum of the
// rows of its members:
//   score[t] = sum over bundles and other attributes of t,   row(bundle) = sum of row(member),
//   expected(member) += expected(bundle)
// The sums are the same but for the order of additions, and half as long.

class Bundles {
  public:
    Bundles(const Rows& rows, const Examples& x);

    int64_t size() const { return size_; }                                   // bundles
    int64_t n_slots() const { return n_weights_ + size_ * tokens_->width; }  // weights, then the rows of the bundles
    const Joined& tokens() const { return *tokens_; }                        // of slots

    // Fills the rows of bundles low .. high-1 behind the weights of w (n_slots).
    template <class Real>
    void extend(Real* w, int64_t low, int64_t high) const {
        if (low < high) members_->score(low, high - low, w, w + n_weights_ + low * members_->width);
    }
    // Adds what was counted for bundles to their members, and sets it back to 0.
    void reduce(double* counts) const;

  private:
    struct Cover;

    int64_t size_ = 0, n_weights_;
    std::vector<int64_t> all_;         // (2)  the bundles, as if they were one sequence
    std::unique_ptr<Joined> members_;  // of bundles, as if they were tokens
    std::unique_ptr<Joined> tokens_;
};

}  // namespace bridle
