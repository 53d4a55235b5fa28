// Steps 3 and 4 of the search: multipliers on counted transitions, and the subgradient steps that improve them.
#include <algorithm>
#include <cmath>

#include "relaxation.h"

namespace bridle {
namespace {

// gradient (set): where lambda should move, by the counts of a labelling. Returns its squared length.
double subgradient(const Relaxation& relaxation, const std::vector<int32_t>& path, std::vector<double>& gradient) {
    double norm = 0;
    for (int p = 0; p < relaxation.set.size(); ++p) {
        gradient[p] = 0;
        const double lambda = relaxation.lambda[p], cap = relaxation.cap[p];
        if (cap == 0) continue;
        const CountingAutomaton& automaton = *relaxation.set.automata[p].automaton;
        int count = 0, before = -1;
        for (const int32_t y : path) count += automaton.counts(before, y), before = y;
        gradient[p] = automaton.sense * (count - automaton.limit);
        if ((lambda <= 0 && gradient[p] < 0) || (lambda >= cap && gradient[p] > 0)) gradient[p] = 0;
        norm += gradient[p] * gradient[p];
    }
    return norm;
}

}  // namespace

double put_multipliers(Instance& instance, const Relaxation& relaxation, AdjustedSteps& adjusted) {
    const Sequence& s = instance.sequence;
    const std::vector<double>& lambda = relaxation.lambda;
    if (std::all_of(lambda.begin(), lambda.end(), [](double l) { return l == 0; })) {
        adjusted.steps.plain(s);
        return 0;
    }
    const int m = s.m;
    double base = 0;
    std::vector<double>& added = adjusted.added;
    added.assign(static_cast<size_t>(m + 1) * m, 0.0);
    for (int p = 0; p < relaxation.set.size(); ++p) {
        if (lambda[p] == 0) continue;
        const CountingAutomaton& automaton = *relaxation.set.automata[p].automaton;
        const double l = automaton.sense * lambda[p];
        const std::vector<int32_t>& counted = relaxation.counted[p];
        for (const int32_t cell : counted) added[cell] -= l;
        for (int i = 0; i <= m && counted.empty(); ++i) {  // too many to list
            const size_t from = i < m ? automaton.class_of[i] : automaton.classes;
            const uint8_t* edges = automaton.edges.data() + from * automaton.classes;
            double* row = added.data() + static_cast<size_t>(i) * m;
            for (int j = 0; j < m; ++j) row[j] -= l * edges[automaton.class_of[j]];
        }
        base += lambda[p] * automaton.room[0];
    }
    adjusted.steps.adjusted(s, added.data(), added.data() + static_cast<size_t>(m) * m, instance.control);
    return base;
}

bool tighten_bound(Instance& instance, Relaxation& relaxation, Incumbent& incumbent, ActiveRules& active, int passes) {
    Scratch& scratch = instance.scratch;
    std::vector<double>& lambda = relaxation.lambda;
    std::vector<double> best_lambda = lambda, gradient(lambda.size());
    double lowest = kInf, pace = 1.0;
    int stale = 0;
    for (int pass = 0; pass < passes; ++pass) {
        const double base = put_multipliers(instance, relaxation, scratch.adjusted);
        const Steps& steps = scratch.adjusted.steps;
        ++instance.counters.passes;
        const double value = scratch.trellis.backward(relaxation.fold, steps, scratch.H, instance.control) + base;
        if (!(value > -kInf)) {  // even the relaxed problem has no answer
            incumbent.bound = incumbent.score = -kInf;
            break;
        }
        scratch.trellis.read(relaxation.fold, steps, scratch.H, scratch.path.data());
        const bool improved = value < lowest - 1e-12 * std::abs(value);
        if (value < lowest) {
            lowest = value;
            best_lambda = lambda;
            scratch.H.swap(relaxation.H);
            relaxation.has_H = true;
            incumbent.tighten(value);
        }
        active.add(consider(instance, scratch.path.data(), incumbent).broken);
        if (pass == 0 && !incumbent.found()) improve_by_beam(instance, relaxation, 3, incumbent);
        if (proved(instance, incumbent)) break;
        // Polyak's step towards the incumbent, shorter when it does not help.
        stale = improved ? 0 : stale + 1;
        if (stale >= 3) pace *= 0.5, stale = 0;
        if (pace < 0.1) break;
        const double norm = subgradient(relaxation, scratch.path, gradient);
        if (norm == 0) break;
        const double goal = incumbent.found() ? incumbent.score : value - 0.05 * std::max(1.0, std::abs(value));
        const double length = pace * std::max(value - goal, 1e-6 * std::max(1.0, std::abs(value))) / norm;
        for (size_t p = 0; p < lambda.size(); ++p)
            lambda[p] = std::clamp(lambda[p] + length * gradient[p], 0.0, relaxation.cap[p]);
    }
    lambda = best_lambda;  // H belongs to it
    return proved(instance, incumbent) || !(incumbent.bound > -kInf);
}

}  // namespace bridle
