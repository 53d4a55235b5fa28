// Attributes that come together are scored as one.
//
// With templates over the same columns, one attribute often implies others: the tags at -2, -1 and 0 as a trigram bring the
// bigrams and single tags with them. Let mask[a] be the attributes that every token with a has. Tokens are covered, largest mask
// first, by bundles (a, what is left of mask[a]); a bundle that pays is an attribute of its own with a full row, the sum of the
// rows of its members:
//   score[t] = sum over bundles and other attributes of t,   row(bundle) = sum of row(member),
//   expected(member) += expected(bundle)
// The sums are the same but for the order of additions, and half as long.
#pragma once

#include <memory>

#include "rows.h"

namespace bridle {

class Bundles {
  public:
    Bundles(const Rows& rows, const Examples& x);

    int64_t size() const { return size_; }                                   // bundles
    int64_t n_slots() const { return n_weights_ + size_ * tokens_->width; }  // weights, then the rows of the bundles
    int64_t n_weights() const { return n_weights_; }
    const Joined& tokens() const { return *tokens_; }  // of slots

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
