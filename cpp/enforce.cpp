#include "enforce.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace bridle {
namespace {

constexpr size_t kBranches = 6;   // soft rules of which every choice is tried
constexpr size_t kMostSoft = 24;  // soft rules that are required at once
constexpr int kTurns = 8;

// The rules that must hold, and what it costs to break some of them.
struct Required {
    const Sequence& s;
    std::vector<char> automata;  // (automata)
    std::vector<int> soft;       // the soft rules among them; bit r of a choice stands for soft[r]

    explicit Required(const Sequence& s) : s(s), automata(s.automata.size(), 0) {}

    // Returns the least penalty of what is added, +inf if all of it is hard.
    double add(const std::vector<int>& broken) {
        double least = kInf;
        for (int k : broken) {
            const BoundAutomaton& p = s.automata[k];
            automata[k] = 1;
            if (p.mode == Mode::hard) continue;
            least = std::min(least, p.penalty);
            if (std::find(soft.begin(), soft.end(), p.rule) == soft.end()) soft.push_back(p.rule);
        }
        return least;
    }
    // Must automaton k hold if the soft rules in `choice` may be broken?
    bool contains(size_t k, unsigned choice = 0) const {
        if (!automata[k] || choice == 0) return automata[k];
        const size_t at = std::find(soft.begin(), soft.end(), s.automata[k].rule) - soft.begin();
        return at == soft.size() || !(choice >> at & 1);
    }
    double penalty(unsigned choice) const {
        double sum = 0;
        for (size_t r = 0; r < soft.size(); ++r) sum += choice >> r & 1 ? s.problem->rules[soft[r]].penalty : 0.0;
        return sum;
    }
};

struct Outcome {
    double value;             // -inf: no labelling obeys
    std::vector<int> broken;  // automata that the labelling breaks
};

// The best labelling that obeys what is required but for the rules in `choice`. None if the product automaton is too large.
std::optional<Outcome> best_obeying(Instance& instance, const Required& required, unsigned choice,
                                    Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    Scratch& scratch = instance.scratch;
    std::vector<BoundAutomaton> local, others;
    for (size_t k = 0; k < s.automata.size(); ++k)
        if (required.contains(k, choice)) (s.automata[k].automaton->local() ? local : others).push_back(s.automata[k]);
    for (BoundAutomaton& p : others) p.mode = Mode::hard;
    AutomatonSet set;
    set.assign(std::move(others));
    if (!scratch.fold.build(set, s.n, s.m, instance.limits.max_product_states, instance.control)) return std::nullopt;
    MaskedTrellis& masked = scratch.masked;
    masked.load(scratch.trellis, scratch.plain, local, instance.control);
    ++instance.counters.passes;
    const double value = masked.trellis.best_path(scratch.fold, masked.steps, scratch.path.data(), instance.control);
    if (!(value > -kInf)) return Outcome{value, {}};
    return Outcome{value, consider(instance, scratch.path.data(), incumbent).broken};
}

}  // namespace

bool enforce_broken_rules(Instance& instance, std::vector<int> broken, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    if (s.n == 0 || !MaskedTrellis::fits(instance.scratch.trellis, instance.scratch.plain)) return false;
    const double free = incumbent.bound;  // the best score when nothing is required
    Required required(s);
    const auto is_new = [&](int k) { return !required.contains(k); };
    double reached = free, breaking = -kInf;  // no labelling that breaks something required scores above `breaking`
    for (int turn = 0; turn < kTurns; ++turn) {
        const double least = required.add(broken);
        if (least < kInf) breaking = std::max(breaking, reached - least);
        if (required.soft.size() > kMostSoft) return false;
        std::optional<Outcome> best = best_obeying(instance, required, 0, incumbent);
        if (!best) return false;
        reached = best->value;
        incumbent.tighten(std::max(reached, breaking));
        if (proved(instance, incumbent)) return true;
        broken = std::move(best->broken);
        if (std::any_of(broken.begin(), broken.end(), is_new)) continue;
        // Every choice of what to break (Tromble & Eisner, figure 7). What such a labelling breaks besides is required next.
        if (required.soft.size() > kBranches) return false;
        double top = reached;
        broken.clear();
        for (unsigned choice = 1; choice < 1u << required.soft.size(); ++choice) {
            const double penalty = required.penalty(choice);
            if (free - penalty <= incumbent.score + instance.tolerance(incumbent.score)) continue;
            best = best_obeying(instance, required, choice, incumbent);
            if (!best) return false;
            top = std::max(top, best->value - penalty);
            std::copy_if(best->broken.begin(), best->broken.end(), std::back_inserter(broken), is_new);
        }
        incumbent.tighten(std::max(top, incumbent.score));
        if (proved(instance, incumbent)) return true;
        if (broken.empty()) return false;
    }
    return false;
}

}  // namespace bridle
