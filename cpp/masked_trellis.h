// A trellis on which some local automata (about single tokens and neighbours) hold: what would break them is -inf.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trellis.h"

namespace bridle {

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

}  // namespace bridle
