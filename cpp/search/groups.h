// Groups of automata whose product is small: rules that have states in common, or cost much together, share one.
//   merge the groups g, h with the least   log(S_gh / (S_g S_h)) / sqrt(min(w_g, w_h))   while S_gh <= most, again and again
//
//   S_g states of the product of a group    S_gh of two groups together    w_g penalties of its rules, a hard one as 20
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "search/control.h"
#include "search/problem.h"

namespace bridle {

using Grouping = std::vector<std::vector<int>>;  // of each group: which automata of a list

class GroupSearch;

// Groupings of the lists that were met last. Finding one takes as long as decoding, and a decoder meets few lists.
class GroupCache {
  public:
    // The groups of some automata of a sequence of n tokens and m labels, with products of at most `most` states; empty if one
    // automaton alone has far too many.
    std::shared_ptr<const Grouping> find(const std::vector<BoundAutomaton>& automata, int n, int m, int most,
                                         Control& control);

  private:
    using Key = std::vector<uint64_t>;
    struct Entry {
        Key key;
        std::shared_ptr<const Grouping> grouping;  // null: time was up, and it is
        std::shared_ptr<GroupSearch> unfinished;
    };
    std::mutex mutex_;
    std::deque<Entry> entries_;  // those used last first
};

}  // namespace bridle
