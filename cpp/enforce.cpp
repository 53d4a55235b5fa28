// Step 2 of the search: hold what is broken, and bound what would still break it.
#include <algorithm>
#include <iterator>

#include "search.h"

namespace bridle {
namespace {

constexpr size_t kBranches = 6;  // soft rules of which every choice is tried
constexpr int kTurns = 8;

}  // namespace

bool Search::enforce_broken(Control& control) {
    const Sequence& s = trellis_.sequence();
    if (s.n == 0 || !MaskedTrellis::fits(trellis_, plain_)) return false;
    const double free = bound_;  // the best score when nothing is asked
    std::vector<char> held(s.automata.size(), 0);
    std::vector<int> priced;  // the soft rules among them
    bool folded = true;
    // The best score when all that is held is obeyed, but for some of the priced rules.
    const auto best_when = [&](unsigned broken) {
        std::vector<BoundAutomaton> local, others;
        for (size_t k = 0; k < held.size(); ++k) {
            const auto at = std::find(priced.begin(), priced.end(), s.automata[k].rule) - priced.begin();
            if (!held[k] || (at < static_cast<ptrdiff_t>(priced.size()) && broken >> at & 1)) continue;
            (s.automata[k].automaton->local() ? local : others).push_back(s.automata[k]);
        }
        for (BoundAutomaton& p : others) p.mode = Mode::hard;
        AutomatonSet set;
        set.assign(std::move(others));
        folded = fold_.build(set, s.n, s.m, max_product_states, control);
        if (!folded) return free;
        masked_.load(trellis_, plain_, local, control);
        ++counters.passes;
        const double value = masked_.trellis.best_path(fold_, masked_.steps, path_.data(), control);
        if (value > -kInf) consider(path_.data());
        else judge_.broken.clear();
        return value;
    };
    double reached = free, breaking = -kInf;  // no labelling that breaks something held scores above `breaking`
    for (int turn = 0; turn < kTurns; ++turn) {
        double least = kInf;
        for (int k : judge_.broken) {
            const BoundAutomaton& p = s.automata[k];
            held[k] = 1;
            if (p.mode == Mode::hard) continue;
            least = std::min(least, p.penalty);
            if (std::find(priced.begin(), priced.end(), p.rule) == priced.end()) priced.push_back(p.rule);
        }
        if (least < kInf) breaking = std::max(breaking, reached - least);
        if (priced.size() > 24) return false;
        reached = best_when(0);
        if (!folded) return false;
        bound_ = std::min(bound_, std::max(reached, breaking));
        if (proved()) return true;
        const auto news = [&](int k) { return !held[k]; };
        if (std::any_of(judge_.broken.begin(), judge_.broken.end(), news)) continue;
        // Every choice of what to break (Tromble & Eisner, figure 7). What such a labelling breaks besides is held next.
        if (priced.size() > kBranches) return false;
        double top = reached;
        std::vector<int> besides;
        for (unsigned broken = 1; broken < 1u << priced.size(); ++broken) {
            double price = 0;
            for (size_t r = 0; r < priced.size(); ++r) price += broken >> r & 1 ? s.problem->rules[priced[r]].penalty : 0.0;
            if (free - price <= best_.score + slack()) continue;
            top = std::max(top, best_when(broken) - price);
            if (!folded) return false;
            std::copy_if(judge_.broken.begin(), judge_.broken.end(), std::back_inserter(besides), news);
        }
        bound_ = std::min(bound_, std::max(top, best_.score));
        if (proved()) return true;
        if (besides.empty()) return false;
        judge_.broken = besides;
    }
    return false;
}

}  // namespace bridle
