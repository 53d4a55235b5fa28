// What training needs of the kernels: sums for likelihood, passes of the mistake-driven learners, scores for tagging.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "learn/rows.h"
#include "search/engines.h"

namespace bridle {

// Features of label bigrams: what a template such as "label[-1] word[0]" says of a token and of the label before.
//   step[t][i][j] = pairwise[i][j] + sum over edge attributes a of token t of  weight(a, i, j)
//   N tokens (t)    A edge attributes (a)    m labels (i, then j)    E weights, each in its slot (s)
// An attribute has weights for some pairs of labels, in rising order. The first token of a sequence has no edge attributes.

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
    int64_t n_slots() const { return int64_t(slots_.size()); }
    int64_t n_attributes() const { return int64_t(begin_.size()) - 1; }
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
        const uint32_t cell = uint32_t(i * width + j);
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

// seen (A, words): bit y of attribute a: the two occur together
void seen_pairs(const Examples& x, int words, uint64_t* seen);

// Sequences low .. high-1: adds expected counts into state (W) and pair (m, m), returns the sum of log Z. In the precision of w.
// Where labels are not known (y below 0), without what is summed over the labellings that agree with the known ones.
// cost: (m) of a wrong label where this one is right, or null: all are 0.
template <class Real>
double expected_counts(const Joined& x, const Real* w, const double* pairwise, const double* cost, int64_t low,
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
int64_t perceptron_pass(const Joined& x, const AveragedWeights& v, std::span<const int64_t> order, int64_t& step,
                        Control& control);
// The update alone, for a labelling `guess` (N) that was found elsewhere; all labels are known. Returns the number of wrong tokens.
int64_t perceptron_update(const Joined& x, const AveragedWeights& v, int64_t b, const int32_t* guess, int64_t& step);

// One pass of a local learner over the tokens in `order`, but for those whose label is not known; returns the number of updates.
//   if score[y] - max of the others <= margin:  perceptron: w(y) += rate x, w(other) -= rate x
//                                               winnow:     w(y) *= 1 + rate, w(other) /= 1 + rate   (active attributes)
// A label that weighs more: the same as if it were updated so many times.
int64_t local_pass(const Joined& x, const AveragedWeights& v, bool winnow, double margin, double rate,
                   std::span<const int64_t> order, int64_t& step, int64_t& wrong, Control& control);

// Tagging in a constrained space (Zhao & Marcus 2012, section 2.2): labels of decided tokens are fixed, the others are scored,
// given the labels before them and the decided labels after them.
//   score(y at t) = static[t][y] + pair[y1][y] + triple[y2][y1][y]                  y1, y2: the labels before; m: none
//                 + next[d1][y] + next2[d1][d2][y] + around[y1][d1][y]              d1, d2: decided labels after it
//   score(decided y at t) = 0, or with `into`:  pair[y1][y] + triple[y2][y1][y] + around[y1][d1][y],
// so that the labels before it feel it; the rest of its score is the same for all labellings.
// beam: the best `width` ways to go on are kept; viterbi (width 0): for each label the best one, exact without triple.
//   m labels    rows of weights are padded to whole vectors

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
                         double* weights, double* sums, int beam, std::span<const int64_t> order, int64_t& step,
                         Control& control);

// Inference-based training: the structured perceptron, whose guesses are found under rules.
//   y^ = argmax over y of  w . F(x, y) - (what violated soft rules cost),  y obeys the hard rules;      w += F(x, y) - F(x, y^)
// If no labelling obeys them, y^ has the fewest violations, and of those labellings the best score.
//
// The rules are bound to all B sequences (b) before the first pass: what comes with a sequence never changes. Weights do, so the
// scores of one sequence are made at a time, and the table of transitions when label bigrams have moved since it was made.

// Finds labellings of the training sequences under one form of their rules.
class Guesser {
  public:
    // rules: bound to all sequences, without scores. What it points to must outlive this.
    Guesser(const Problem& rules, Engine engine, const Options& options);

    void begin();                // a pass: borrows memory to search in
    void end(Control& control);  // and gives it back
    void moved() { stale_ = true; }

    // unary (n, m) of sequence b, pair (m, m) or null; all finite.
    Answer best(int64_t b, const double* unary, const double* pair, Control& control);
    int64_t count() const { return problem_.B; }

  private:
    void score_steps(const double* pair, Control& control);

    Problem problem_;
    const Engine engine_;
    const Options& options_;
    Tables masked_;                   // transitions without scores, made when they are first needed
    std::shared_ptr<Tables> scored_;  // and with them
    std::unique_ptr<Search> search_;
    bool masks_made_ = false;
    bool stale_ = true;  // have label bigrams moved since `scored_` was made?
};

// How far a pass came.
struct Passed {
    int64_t done = 0, wrong = 0;      // sequences, and tokens of them
    Status status = Status::optimal;  // why the next one was left to the caller; optimal: there is none left
};

class TrainingRules {
  public:
    explicit TrainingRules(std::unique_ptr<Guesser> strict);

    // Where rules clash, ask this one; before it is set, a pass stops there.
    void relax(std::unique_ptr<Guesser> relaxed);
    int64_t count() const { return strict_->count(); }  // B

    // One pass over the sequences in `order`, or its beginning: up to a sequence that is infeasible and cannot be relaxed yet,
    // that no labelling was found for, or whose scores are too large.
    Passed pass(const Joined& x, const AveragedWeights& v, std::span<const int64_t> order, int64_t& step,
                Control& control);

  private:
    Answer guess(int64_t b, const double* pair, Control& control);
    bool score(const Joined& x, const double* w, int64_t b);  // into scores_; are all of them scores?

    std::unique_ptr<Guesser> strict_, relaxed_;
    std::vector<uint8_t> clash_;  // (B) is it infeasible? That does not depend on the weights
    std::vector<double> scores_;  // (n, m)
};

}  // namespace bridle
