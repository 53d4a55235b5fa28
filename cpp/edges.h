// Features of label bigrams: what a template such as "label[-1] word[0]" says of a token and of the label before.
//   step[t][i][j] = pairwise[i][j] + sum over edge attributes a of token t of  weight(a, i, j)
//   N tokens (t)    A edge attributes (a)    m labels (i, then j)    E weights, each in its slot (s)
// An attribute has weights for some pairs of labels, in rising order. The first token of a sequence has no edge attributes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "control.h"
#include "rows.h"

namespace bridle {

struct EdgeRows {
    int m;
    int64_t A;
    const int64_t* begin;  // (A + 1) weights of attribute a
    const int32_t* pair;   // (E) i * m + j
};

// What tokens add to the steps that lead to them, each pair of labels once: indptr (N + 1), pair and score (as many as there are
// weights of tokens, at most N * m * m). Returns how many there are.
int64_t sum_edges(const EdgeRows& rows, const Examples& x, const float* w, int64_t* indptr, int32_t* pair, float* score,
                  Control& control);

// The same as tables: out (high - low, m, m) of the steps that lead to tokens low .. high-1; pairwise (m, m) or null.
void fill_steps(int m, const double* pairwise, const int64_t* indptr, const int32_t* pair, const float* score,
                int64_t low, int64_t high, double* out);

// Examples and weights joined for training.
class Edges {
  public:
    struct Slot {
        uint32_t cell;  // i * width + j
        uint16_t i, j;
    };

    Edges(const EdgeRows& rows, const Examples& x);

    const int m, width;  // width: padded_row(m)
    int64_t n_slots() const { return static_cast<int64_t>(slots_.size()); }
    int64_t n_attributes() const { return static_cast<int64_t>(begin_.size()) - 1; }
    const Examples& tokens() const { return x_; }

    // each(s, slot) for the weights of token t
    template <class Each>
    void of_token(int64_t t, const Each& each) const {
        for (int64_t k = x_.indptr[t]; k < x_.indptr[t + 1]; ++k)
            for (int64_t s = begin_[x_.attrs[k]], end = begin_[x_.attrs[k] + 1]; s < end; ++s) each(s, slots_[s]);
    }
    // each(s) for the weights of token t that belong to labels i, then j
    template <class Each>
    void of_pair(int64_t t, int i, int j, const Each& each) const {
        const uint32_t cell = static_cast<uint32_t>(i * width + j);
        for (int64_t k = x_.indptr[t]; k < x_.indptr[t + 1]; ++k) {
            const Slot *first = slots_.data() + begin_[x_.attrs[k]], *last = slots_.data() + begin_[x_.attrs[k] + 1];
            const Slot* at = std::lower_bound(first, last, cell, [](const Slot& s, uint32_t c) { return s.cell < c; });
            if (at != last && at->cell == cell) each(at - slots_.data());
        }
    }

    // out (n - 1, m, m): the steps of sequence b under weights that change; pairwise (m, m) or null
    void steps(int64_t b, const double* pairwise, const double* w, double* out) const;

    // Of attributes low .. high-1: factor (E) = exp(w), spread (A) = how far steps with and without it can be apart.
    void prepare(const double* w, int64_t low, int64_t high, double* factor, double* spread) const;
    // Adds the counts of the gold labels (E), for all sequences whose labels are all known.
    void gold(double* counts) const;

  private:
    const Examples x_;
    std::vector<int64_t> begin_;  // (A + 1)
    std::vector<Slot> slots_;     // (E)
};

// Weights of edges as the likelihood wants them; the last two are made by Edges::prepare.
struct EdgeWeights {
    const double *w, *factor;  // (E)
    const double* spread;      // (A)
};

// Sequences low .. high-1: adds expected counts into state (W), pair (m, m; null if pairwise is) and edge (E), returns the sum of
// log Z. In the precision of w. Missing labels and cost: as in learn.h.
template <class Real>
double expected_counts(const Joined& x, const Edges& edges, const Real* w, const double* pairwise,
                       const EdgeWeights& edge_weights, const double* cost, int64_t low, int64_t high, double* state,
                       double* pair, double* edge, Control& control);
extern template double expected_counts(const Joined&, const Edges&, const double*, const double*, const EdgeWeights&,
                                       const double*, int64_t, int64_t, double*, double*, double*, Control&);
extern template double expected_counts(const Joined&, const Edges&, const float*, const double*, const EdgeWeights&,
                                       const double*, int64_t, int64_t, double*, double*, double*, Control&);

}  // namespace bridle
