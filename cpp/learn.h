// What training needs of the kernels: sums for likelihood, passes of the mistake-driven learners, scores for tagging.
#pragma once

#include <cstdint>

#include "edges.h"
#include "rows.h"

namespace bridle {

// seen (A, words): bit y of attribute a: the two occur together
void seen_pairs(const Examples& x, int words, uint64_t* seen);

// Sequences low .. high-1: adds expected counts into state (W) and pair (m, m), returns the sum of log Z. In the precision of w.
// Where labels are not known (y below 0), without what is summed over the labellings that agree with the known ones.
// cost: (m) of a wrong label where this one is right, or null: all are 0.
double expected_counts(const Joined& x, const double* w, const double* pairwise, const double* cost, int64_t low,
                       int64_t high, double* state, double* pair, Control& control);
double expected_counts(const Joined& x, const float* w, const double* pairwise, const double* cost, int64_t low,
                       int64_t high, double* state, double* pair, Control& control);
// Adds the counts of the gold labels, for all sequences whose labels are all known.
void gold_counts(const Joined& x, double* state, double* pair);

// Weights of a mistake-driven learner, and what is needed for their average:
//   w changes by d at step c:  sum += c * d;    average over steps 0 .. C-1 = w - sum / C
struct AveragedWeights {
    double *w, *sum;               // (W)
    double *pair, *pair_sum;       // (m, m) or null: labels are scored one by one
    const uint8_t* pair_free;      // (m, m) may it change? null: all may
    const double* weight;          // (m) of each label: by how much updates are scaled; null: all are 1
    const Edges* edges = nullptr;  // null: there are no weights of edges
    double *edge_w = nullptr, *edge_sum = nullptr;  // (E)
};

// One pass of the structured perceptron over the sequences in `order`; returns the number of wrong tokens.
//   y^ = argmax of the score;  w += F(x, y) - F(x, y^),   what belongs to token t times the weight of its label y[t]
// Where labels are not known, y is the best of the labellings that agree with what is known.
int64_t perceptron_pass(const Joined& x, const AveragedWeights& v, const int64_t* order, int64_t count, int64_t& step,
                        Control& control);
// The update alone, for a labelling `guess` (N) that somebody else found; all labels are known. Returns the number of wrong tokens.
int64_t perceptron_update(const Joined& x, const AveragedWeights& v, int64_t b, const int32_t* guess, int64_t& step);

// One pass of a local learner over the tokens in `order`, but for those whose label is not known; returns the number of updates.
//   if score[y] - max of the others <= margin:  perceptron: w(y) += rate x, w(other) -= rate x
//                                               winnow:     w(y) *= 1 + rate, w(other) /= 1 + rate   (active attributes)
// A label that weighs more: the same as if it were updated so many times.
int64_t local_pass(const Joined& x, const AveragedWeights& v, bool winnow, double margin, double rate,
                   const int64_t* order, int64_t count, int64_t& step, int64_t& wrong, Control& control);

}  // namespace bridle
