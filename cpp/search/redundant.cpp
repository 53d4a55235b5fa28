#include "search/engines.h"

#include <algorithm>
#include <utility>

namespace bridle {
namespace {

constexpr int64_t kMostSteps = 300'000;  // of all questions together: about a millisecond

class Questions {
  public:
    Questions(const TableCache& masks, const std::vector<uint64_t>& base) : masks_(masks), base_(base), m_(masks.m) {}

    // Does some labelling violate `a` that keeps to the masks and does not violate `hard` (may be null)? True if it is not known.
    bool violable(const CountingAutomaton& a, const CountingAutomaton* hard) {
        const auto breaks = [&](int q) { return hard && hard->final[q] > 0; };
        if (a.final[0] > 0 && !breaks(0)) return true;  // a sequence without tokens
        const size_t T = hard ? hard->states : 1, cells = a.states * T * m_;
        if (static_cast<int64_t>(cells) > kMostSteps - steps_) return true;
        seen_.assign(cells, 0);
        open_.clear();
        // Label y is read in states s of `a` and q of `hard`. Is `a` violated?
        const auto read = [&](int s, int q, int y) {
            const Move step = a.read(0, s, y);
            const Move other = hard ? hard->read(0, q, y) : Move{0, 0};
            if (other.violations > 0) return false;
            if (step.violations > 0) return true;
            if (a.final[step.to] > 0 && !breaks(other.to) && open(masks_.last_mask, y)) return true;
            char& seen = seen_[(step.to * T + other.to) * m_ + y];
            if (!seen) open_.push_back({step.to, other.to, y});
            seen = 1;
            return false;
        };
        for (int y = 0; y < m_; ++y)
            if (allowed(y) && open(masks_.first_mask, y) && read(0, 0, y)) return true;
        while (!open_.empty()) {
            const Node from = open_.back();
            open_.pop_back();
            if ((steps_ += m_) > kMostSteps) return true;
            for (int y = 0; y < m_; ++y)
                if (allowed(y) && open(masks_.free_mask, static_cast<size_t>(from.y) * m_ + y) &&
                    read(from.s, from.q, y))
                    return true;
        }
        return false;
    }

  private:
    struct Node {
        int s, q, y;
    };
    static bool open(const std::vector<double>& mask, size_t at) { return mask.empty() || mask[at] > -kInf; }
    bool allowed(int y) const { return base_.empty() || (base_[y / 64] >> (y % 64) & 1); }

    const TableCache& masks_;
    const std::vector<uint64_t>& base_;
    const int m_;
    int64_t steps_ = 0;
    std::vector<char> seen_;  // (states, states of the hard rule, labels)
    std::vector<Node> open_;
};

}  // namespace

void drop_redundant(CompiledRules& rules, const std::vector<uint64_t>& base) {
    Questions ask(rules.tables, base);
    const auto hard = [&](const RuleAutomaton& one) { return rules.rules[one.rule].mode == Mode::hard; };
    std::vector<RuleAutomaton>& all = rules.automata;
    for (size_t k = all.size(); k-- > 0;) {  // of two equal rules the first stays
        const CountingAutomaton& here = *all[k].automaton[0];
        bool needed = ask.violable(here, nullptr);
        for (size_t h = 0; needed && h < all.size(); ++h)
            if (h != k && hard(all[h])) needed = ask.violable(here, all[h].automaton[0]);
        if (!needed) all.erase(all.begin() + static_cast<ptrdiff_t>(k));
    }
}

}  // namespace bridle
