// The engine `search`: exact decoding under rules, lazily.
//   1. Best path of the trellis. If it breaks no rule, it is the answer.
//   2. If soft rules are broken: the best path that obeys them. Whatever breaks one of them pays its price, so
//        max over y  <=  max(best that obeys all, best that obeys none - the least price)
//      and often the first term, or what the first path paid, already reaches that; if not, every choice
//      of few broken rules is tried.                                                            (Required)
//      Soft rules about labels and transitions that charge per violation are put on the scores instead.  (priced.h)
//      Then a short best-first search over all rules: often few labellings are left above the best one found.
//   3. Broken rules become active. While their product automaton is small, fold it into the trellis: exact at once.
//   4. Otherwise fold what has no good linear row and give every counted rule a multiplier lambda >= 0:
//        bound(lambda) = max over y of  score(y) - sum lambda * (count(y) - limit)   >=   the optimum
//      improved by subgradient steps, each one pass over the trellis; every labelling met may be the answer.
//                                                                                               (relaxation.h)
//   5. If bound and answer do not meet, best-first search between them.                         (best_first.h)
//   6. If that takes long, or would because many rules are active: rules in groups that share out the scores.  (decompose.cpp)
// Rules that the outcome breaks become active too, until none is left. Agreement of tokens stands outside: it adds scores to the
// labels of tokens and asks for the best labelling again (agreement.h).
//
//   y a labelling    n positions (t)    k an automaton of a rule    lambda: the multiplier of a counted one
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "search/problem.h"
#include "search/relaxation.h"

namespace bridle {

class Search {
  public:
    // The best path by scores and masks alone; its score, -inf if there is none.
    double first_path(const Sequence& s, int32_t* path, Control& control);
    // `counters` is overwritten. known (n): a labelling to begin with, or null.
    Answer best(const Sequence& s, const SearchLimits& limits, Control& control, Counters& counters,
                const int32_t* known = nullptr);
    size_t bytes() const { return scratch_.bytes(); }
    std::vector<Answer> k_best(const Sequence& s, int k, const SearchLimits& limits, Control& control,
                               Counters& counters);

  private:
    // Step 1. Considers the best path and bounds all others by it; returns the automata that it breaks.
    std::vector<int> start(Instance& instance, Incumbent& incumbent);
    // The k best, the first being known.
    std::vector<Answer> next_best(Instance& instance, int k, const Answer& first, Incumbent& incumbent,
                                  ActiveRules& active, Relaxation& relaxation);

    Scratch scratch_;  // nothing else outlives a sequence
};

// Searches that are not in use: what one of them knows of the rules of a decoder serves the next sequence too.
class SearchPool {
  public:
    std::unique_ptr<Search> take();
    // memory: bytes that a sequence may take; a search that holds much of them is dropped.
    void give_back(std::unique_ptr<Search> search, size_t memory);
    size_t bytes() const;  // of the searches that are free

  private:
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Search>> free_;
};

}  // namespace bridle
