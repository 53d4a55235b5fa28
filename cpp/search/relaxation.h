// The relaxation: active rules folded into the trellis, or counted at a price, and the bound that follows.
//   bound(lambda) = max over y of  score(y) - sum lambda * (count(y) - limit)   >=   the optimum
//   y a labelling    count(y): the counted transitions of an automaton that y takes, allowed up to its limit
//   set: the active automata that are not folded     lambda (set): their multipliers
#pragma once

#include <cstdint>
#include <vector>

#include "search/best_first.h"
#include "search/instance.h"

namespace bridle {

// The automata that some best path broke: the search looks at no others.
class ActiveRules {
  public:
    explicit ActiveRules(size_t automata) : active_(automata, 0) {}
    void add(const std::vector<int>& broken) {
        for (int k : broken)
            if (!active_[k]) active_[k] = 1, ++count_;
    }
    bool contain(const std::vector<int>& broken) const {
        for (int k : broken)
            if (!active_[k]) return false;
        return true;
    }
    std::vector<int> list() const;
    int64_t count() const { return count_; }

  private:
    std::vector<char> active_;  // (automata)
    int64_t count_ = 0;
};

// Lives as long as the search of one sequence, but for `fold` and `H`: these are in Scratch, for their cache and memory.
struct Relaxation {
    int fold_limit;         // the most states that `relax` folds
    int64_t n_active = -1;  // how many automata were active when it was made; negative: not made yet
    Fold& fold;
    AutomatonSet set = {};
    std::vector<double> lambda = {};                 // (set)
    std::vector<double> cap = {};                    // (set)  the most that a multiplier may be; 0: there is none
    std::vector<std::vector<int32_t>> counted = {};  // (set)  transitions that a multiplier is put on, if they are few
    bool has_H = false;
    std::vector<double>& H;                // (n, Q, width)  the best that can follow, by fold and lambda
    std::vector<Estimate> estimates = {};  // more of the kind, for best-first search

    Relaxation(int fold_limit, Scratch& scratch) : fold_limit(fold_limit), fold(scratch.fold), H(scratch.best_H) {}
    bool outdated(const ActiveRules& active) const { return n_active < active.count(); }
};

// Chooses which active automata are folded, and gives the others multipliers: those that they had before, or 0.
void relax(Instance& instance, const ActiveRules& active, Relaxation& relaxation);

// Lowers the bound by subgradient steps, each one pass over the trellis. The labellings met on the way are considered, and
// what they break becomes active. True: the optimum is proved.
bool tighten_bound(Instance& instance, Relaxation& relaxation, Incumbent& incumbent, ActiveRules& active, int passes);

// Fills `adjusted`: steps with the multipliers on counted transitions. Returns what these add to every labelling.
double put_multipliers(Instance& instance, const Relaxation& relaxation, AdjustedSteps& adjusted);

// More estimates for best-first search: folds of the automata that neither the fold nor a multiplier takes care of.
void add_estimates(Instance& instance, Relaxation& relaxation);

// Looks for a better incumbent by a narrow beam over all automata, guided by H and the estimates.
void improve_by_beam(Instance& instance, const Relaxation& relaxation, int width, Incumbent& incumbent);

// Many rules that interact (decompose.cpp). Looks at all rules at once, or at the active ones.
// True: the optimum is proved. False: it gave up; the incumbent is no worse than before.
bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent);

}  // namespace bridle
