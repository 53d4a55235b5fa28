// Tagging in a constrained space (Zhao & Marcus 2012, section 2.2): labels of decided tokens are fixed, the others are scored,
// given the labels before them and the decided labels after them.
//   score(y at t) = static[t][y] + pair[y1][y] + triple[y2][y1][y]                  y1, y2: the labels before; m: none
//                 + next[d1][y] + next2[d1][d2][y] + around[y1][d1][y]              d1, d2: decided labels after it
//   score(decided y at t) = 0, or with `into`:  pair[y1][y] + triple[y2][y1][y] + around[y1][d1][y],
// so that the labels before it feel it; the rest of its score is the same for all labellings.
// beam: the best `width` ways to go on are kept; viterbi (width 0): for each label the best one, exact without triple.
//   m labels    rows of weights are padded to whole vectors
#pragma once

#include <cstdint>

#include "learn.h"

namespace bridle {

// Where the weights of neighbouring labels lie: rows of `width` numbers, one after the other.
struct Context {
    int m, width;
    bool triple, ahead, into;

    int64_t pair(int y1) const { return int64_t{y1} * width; }
    int64_t of_triple(int y2, int y1) const { return (m + 1 + int64_t{y2} * (m + 1) + y1) * width; }
    int64_t next(int d1) const { return (first_ahead() + d1) * width; }
    int64_t next2(int d1, int d2) const { return (first_ahead() + m + int64_t{d1} * m + d2) * width; }
    int64_t around(int y1, int d1) const { return (first_ahead() + m + int64_t{m} * m + int64_t{y1} * m + d1) * width; }
    int64_t size() const { return ahead ? around(m + 1, 0) : first_ahead() * width; }

  private:
    int64_t first_ahead() const { return m + 1 + (triple ? int64_t{m + 1} * (m + 1) : 0); }
};

struct Tokens {
    const int64_t* offsets;  // (B + 1)
    int64_t B;
    const int32_t* fixed;  // (N) the label of a decided token, or negative
    const int32_t* ahead;  // (N) the same, as seen from tokens before it
};

// Static scores by rows, examples and w; out (N)
void constrained_search(const Rows& rows, const Examples& examples, const float* w, const Tokens& x,
                        const Context& context, const double* weights, int beam, int32_t* out, Control& control);

// One pass of the averaged perceptron; context weights and their sums besides those in v. Returns the number of wrong tokens.
int64_t constrained_pass(const Joined& x, const Tokens& tokens, const Context& context, const AveragedWeights& v,
                         double* weights, double* sums, int beam, const int64_t* order, int64_t count, int64_t& step,
                         Control& control);

}  // namespace bridle
