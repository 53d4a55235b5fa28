// What makes best-first search short: closer estimates of what can follow, and a good incumbent before it starts.
#include <algorithm>
#include <utility>

#include "beam.h"
#include "relaxation.h"

namespace bridle {
namespace {

constexpr size_t kEstimates = 12, kEstimateStates = 48, kEstimateCells = size_t{1} << 22;

}  // namespace

void add_estimates(Instance& instance, Relaxation& relaxation) {
    Scratch& scratch = instance.scratch;
    const Trellis& trellis = scratch.trellis;
    const AutomatonSet& outside = relaxation.set;
    put_multipliers(instance, relaxation, scratch.adjusted);
    const size_t row = std::max<size_t>(1, static_cast<size_t>(trellis.n) * trellis.width);
    size_t left = instance.control.memory() / 8 / sizeof(double);  // cells of all estimates together
    const auto most = [&] { return static_cast<int>(std::min(kEstimateStates, std::min(kEstimateCells, left) / row)); };
    std::vector<BoundAutomaton> chosen;
    Estimate made;
    const auto fits = [&](const std::vector<BoundAutomaton>& automata) {
        AutomatonSet set;
        set.assign(automata);
        return made.fold.build(set, trellis.n, trellis.m, most(), instance.control);
    };
    const auto finish = [&] {
        if (chosen.empty() || relaxation.estimates.size() >= kEstimates || !fits(chosen)) return;
        ++instance.counters.passes;
        trellis.backward(made.fold, scratch.adjusted.steps, made.H, instance.control);
        left -= std::min(left, made.H.size());
        relaxation.estimates.push_back(std::move(made));
        made = Estimate();
        chosen.clear();
    };
    for (int p = 0; p < outside.size();) {
        std::vector<BoundAutomaton> next;  // one automaton, or all that one price pays for
        do {
            if (relaxation.cap[p] == 0) next.push_back(outside.automata[p]);
            ++p;
        } while (p < outside.size() && outside.automata[p].mode == Mode::per_sequence &&
                 outside.automata[p].rule == outside.automata[p - 1].rule);
        std::vector<BoundAutomaton> more = chosen;
        more.insert(more.end(), next.begin(), next.end());
        if (fits(more)) {
            chosen = std::move(more);
        } else {
            finish();
            chosen = std::move(next);
        }
    }
    finish();
}

void improve_by_beam(Instance& instance, const Relaxation& relaxation, int width, Incumbent& incumbent) {
    AutomatonSet all;
    all.assign(instance.sequence.automata);
    std::vector<Guide> guides{{&relaxation.fold, relaxation.H.data()}};
    for (const Estimate& e : relaxation.estimates) guides.push_back({&e.fold, e.H.data()});
    for (const Found& found :
         beam(instance.scratch.trellis, instance.scratch.plain, all, width, guides, instance.control))
        consider(instance, found.path.data(), incumbent);
}

}  // namespace bridle
