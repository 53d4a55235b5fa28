// Inference-based training: the structured perceptron, whose guesses are found under rules.
//   y^ = argmax over y of  w . F(x, y) - (what violated soft rules cost),  y obeys the hard rules;      w += F(x, y) - F(x, y^)
// If no labelling obeys them, y^ has the fewest violations, and of those labellings the best score (engines.cpp).
//
// The rules are bound to all B sequences (b) before the first pass: what comes with a sequence never changes. Weights do, so the
// scores of one sequence are made at a time, and the table of transitions when label bigrams have moved since it was made.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/engines.h"
#include "learn/learn.h"

namespace bridle {

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
    Passed pass(const Joined& x, const AveragedWeights& v, const int64_t* order, int64_t count, int64_t& step,
                Control& control);

  private:
    Answer guess(int64_t b, const double* pair, Control& control);
    bool score(const Joined& x, const double* w, int64_t b);  // into scores_; are all of them scores?

    std::unique_ptr<Guesser> strict_, relaxed_;
    std::vector<uint8_t> clash_;  // (B) is it infeasible? That does not depend on the weights
    std::vector<double> scores_;  // (n, m)
};

}  // namespace bridle
