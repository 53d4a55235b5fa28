// One sequence while it is searched: its scores and rules, what may be spent on it and what was, and memory to work in.
//   incumbent  <=  optimum  <=  bound          the search ends when they meet, but for rounding
//
//   n positions (t)    m labels (i, then j)    Q states of a fold (q)    H (n, Q, width): the best that can follow
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "search/control.h"
#include "search/problem.h"
#include "search/trellis.h"

namespace bridle {

// What a labelling costs under the rules of a sequence, and which automata it breaks.

struct Verdict {
    double cost = 0;       // +inf when a hard rule breaks
    double soft_cost = 0;  // of the soft rules alone
    int64_t hard_violations = 0;
    std::vector<int> broken;          // automata, ascending
    std::vector<int32_t> violations;  // (automata and, behind them, agreements)
    std::vector<int32_t> states;      // (automata) where each of them ends
    bool agrees = true;               // do all agreements hold?
};

// Fills `verdict` and reuses its memory.
void judge(const Sequence& s, const int32_t* path, Verdict& verdict, Control* control = nullptr);

// A trellis on which some local automata (about single tokens and neighbours) hold: what would break them is -inf.

class MaskedTrellis {
  public:
    Trellis trellis;
    Steps steps;

    // Can automata be held on this trellis? Not on one whose rows are not kept or whose transitions differ by position.
    static bool fits(const Trellis& base, const Steps& plain) {
        return !base.unary_.empty() && !plain.per_step_ && base.m <= kMostSquare;
    }
    void load(const Trellis& base, const Steps& plain, const std::vector<BoundAutomaton>& automata, Control& control);

  private:
    const Table* table_to(int t, const Steps& plain, const std::vector<BoundAutomaton>& automata, Control& control);

    using Key = std::vector<int64_t>;
    std::vector<const Table*> tables_;
    std::map<Key, std::unique_ptr<Table>> known_;  // the same rules meet the same transitions again and again
    Key key_;
    std::vector<std::pair<const CountingAutomaton*, int>> held_;  // what `key_` stands for: automata and marks
    std::vector<double> dense_;
};

class Shares;

constexpr double kLargestError =
    1e-6;  // of a score, that rounding may excuse: far away from it large prices do not count

struct SearchLimits {
    int64_t max_states = -1;        // expansions of best-first search; negative: no limit
    int max_product_states = 64;    // fold everything while the product has at most so many states
    int max_group_states = 128;     // of the product automaton of a group
    int64_t decompose_after = 500;  // expansions before rules are decomposed into groups
    int64_t glance = 200;           // expansions of a search over all rules at once
    double gap = 0;                 // scores within this distance count as equal
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

    // Overwritten before each use.
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
    // How far above this score another one may be and still count as equal: by rounding, or by the gap that the caller
    // accepts. The trellis must be loaded.
    double tolerance(double score);

  private:
    double rounding();

    double rounding_ = -1;  // negative: not asked for yet
};

// The incumbent: the best labelling found so far, and a proved bound on all others.
//   score of the incumbent  <=  the optimum  <=  bound          they meet: the incumbent is the optimum

struct Incumbent {
    double score = -kInf;                  // lattice score - penalty; -inf: no labelling found yet
    double bound = kInf;                   // no labelling scores higher
    std::vector<int32_t> path = {};        // (n)
    std::vector<int32_t> violations = {};  // (automata and agreements)

    bool exists() const { return score > -kInf; }
    void tighten(double proved_bound) { bound = std::min(bound, proved_bound); }
};

// Judges a labelling and makes it the incumbent if it scores higher. The verdict stays valid until the next labelling.
const Verdict& consider(Instance& instance, const int32_t* path, Incumbent& incumbent);

// Do bound and incumbent meet, but for rounding?
bool proved(Instance& instance, const Incumbent& incumbent);

// The status when all labellings above the incumbent are ruled out, and when the search stops at a limit.
Status status_when_finished(const Incumbent& incumbent);
Status status_when_stopped(Instance& instance, const Incumbent& incumbent);

Answer to_answer(Incumbent incumbent, Status status);

}  // namespace bridle
