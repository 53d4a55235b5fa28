// The engine `search`: exact decoding under rules, lazily.
//   1. Best path of the trellis. If it breaks no rule, it is the answer.
//   2. If soft rules are broken: the best path that obeys them. Whatever breaks one of them pays its price, so
//        max over y  <=  max(best that obeys all, best that obeys none - the least price)
//      and often the first term, or what the first path paid, already reaches that; if not, every choice
//      of few broken rules is tried.
//   3. Broken rules become active. While their product automaton is small, fold it into the trellis: exact at once.
//   4. Otherwise fold what has no good linear row and give every counted rule a multiplier lambda >= 0:
//        bound(lambda) = max over y of  score(y) - sum lambda * (count(y) - limit)   >=   the optimum
//      improved by subgradient steps, each one pass over the trellis; every labelling met may be the answer.
//   5. If bound and answer do not meet, best-first search between them.
// Rules that the outcome breaks become active too, until none is left.
#pragma once

#include <cstdint>
#include <vector>

#include "best_first.h"
#include "judge.h"
#include "masked_trellis.h"
#include "trellis.h"
#include "viterbi.h"

namespace bridle {

enum class Status : uint8_t { optimal, limit, infeasible, nothing_found, too_large };

struct Answer {
    Status status = Status::optimal;
    double score = -kInf;  // lattice score - penalty
    double bound = kInf;
    std::vector<int32_t> path;
    std::vector<int32_t> violations = {};  // (automata) violations, if the engine knows them
};

struct Counters {
    int64_t rounds = 0, passes = 0, expansions = 0, states = 1, active = 0, multipliers = 0;
};

class Search {
  public:
    Counters counters;

    int max_product_states = 64;  // fold everything while the product has at most so many states

    // The best path by scores and masks alone; its score, -inf if there is none.
    double first_path(const Sequence& s, int32_t* path, Control& control);
    Answer best(const Sequence& s, int64_t max_states, Control& control);
    std::vector<Answer> k_best(const Sequence& s, int k, int64_t max_states, Control& control);

  private:
    bool consider(const int32_t* path);  // may be the best so far; false: some inactive automaton broke
    bool enforce_broken(Control& control);      // all broken rules obeyed, then the bound above; true: the optimum is proved
    void arrange(Control& control);   // active automata -> fold_ and set_
    double adjust(Control& control);
    bool tighten_bound(Control& control);  // subgradient steps; true: the optimum is proved
    void dive(int width, Control& control);  // a quick beam for a first answer
    double slack();                   // what rounding alone can make of equal scores
    bool proved();                    // do bound and answer meet?
    Answer solve(const Sequence& s, Control& control);
    void activate_broken();
    void estimate(Control& control);
    Answer stopped();
    Answer finished() const;
    Answer work(Control& control);

    Viterbi viterbi_;
    Trellis trellis_;  // loaded when the first path is not the answer
    MaskedTrellis masked_;
    Steps plain_, adjusted_;
    Fold fold_;
    AutomatonSet set_, all_;
    Judge judge_;
    std::vector<char> active_;              // (automata)
    std::vector<double> lambda_, top_;  // (set)
    std::vector<std::vector<int32_t>> counted_;  // (set)  transitions that a multiplier is put on, if they are few
    std::vector<double> H_, best_H_;
    std::vector<Estimate> estimates_;
    bool H_valid_ = false;  // best_H_ belongs to fold_ and lambda_
    Answer best_;
    double bound_ = kInf;
    double slack_ = -1;  // negative: not known yet
    int fold_limit_ = 0;
    int64_t arranged_ = 0;  // how many automata were active when fold_ and set_ were made
    int64_t max_states_ = -1;
    std::vector<int32_t> path_;
    std::vector<double> adjust_;  // (m + 1, m)
};

}  // namespace bridle
