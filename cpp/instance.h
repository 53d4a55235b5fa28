// One sequence while it is searched: its scores and rules, what may be spent on it and what was, and memory to work in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "judge.h"
#include "masked_trellis.h"
#include "trellis.h"
#include "viterbi.h"

namespace bridle {

class Shares;

constexpr double kLargestError =
    1e-6;  // of a score, that rounding may excuse: far away from it large prices do not count

struct SearchLimits {
    int64_t max_states = -1;        // expansions of best-first search; negative: no limit
    int max_product_states = 64;    // fold everything while the product has at most so many states
    int max_group_states = 128;     // of the product automaton of a group
    int64_t decompose_after = 500;  // expansions before rules are decomposed into groups
    int64_t glance = 200;           // expansions of a search over all rules at once
    double gap = 0;                 // scores that are no further apart need not be told apart
};

struct Counters {
    int64_t rounds = 0, passes = 0, expansions = 0, states = 1, active = 0, multipliers = 0;
    double tolerance = 0;  // how far below the best score the answer may be
};

// Steps with multipliers on counted transitions.
struct AdjustedSteps {
    Steps steps;
    std::vector<double>
        added;  // (m + 1, m)  what multipliers add, the last row to the first label; `steps` points here
};

// Memory and caches that outlive a sequence, so that the next one allocates little.
struct Scratch {
    // The sequence at hand.
    Steps plain;      // without multipliers
    Trellis trellis;  // loaded when the first path is not the answer

    // The relaxation at hand; see there.
    Fold fold;                   // caches product automata
    std::vector<double> best_H;  // (n, Q, width)

    // Written anew before each use.
    Viterbi viterbi;
    MaskedTrellis masked;  // caches tables of masked transitions
    AdjustedSteps adjusted;
    std::vector<double> H;           // (n, Q, width)
    std::vector<int32_t> path;       // (n)
    Verdict verdict;                 // on the labelling considered last
    std::shared_ptr<Shares> shares;  // caches product automata

    size_t bytes() const;  // about
};

class Instance {
  public:
    const Sequence& sequence;
    const SearchLimits limits;
    Control& control;
    Counters& counters;
    Scratch& scratch;

    Instance(const Sequence& s, const SearchLimits& limits, Control& control, Counters& counters, Scratch& scratch)
        : sequence(s), limits(limits), control(control), counters(counters), scratch(scratch) {}

    // How many expansions are left; negative: no limit.
    int64_t expansions_left() const;
    // Scores that are no further above this one than rounding can bring equal scores apart, or than nobody asks for, need not
    // be told apart from it. The trellis must be loaded.
    double tolerance(double score);

  private:
    double rounding();

    double rounding_ = -1;  // negative: not asked for yet
};

}  // namespace bridle
