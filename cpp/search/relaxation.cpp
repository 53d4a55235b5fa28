// Which rules are folded, and which multipliers the others may have.
#include "search/relaxation.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "search/best_first.h"

namespace bridle {
namespace {

// What these do shows in `benchmarks/run.py --only hard`.
constexpr size_t kFoldCells = size_t{1} << 25;  // of H, when it must be kept
constexpr size_t kFoldWork = size_t{1} << 33;   // when everything is folded, it need not
constexpr size_t kListed = 16;                  // counted transitions per label that are listed

bool counts(const BoundAutomaton& p) { return p.automaton->sense != 0; }

// Do all automata of the rule of automaton k count?
bool whole_rule_counts(const Sequence& s, int k) {
    const int rule = s.automata[k].rule, count = int(s.automata.size());
    int first = k;
    while (first > 0 && s.automata[first - 1].rule == rule) --first;
    for (k = first; k < count && s.automata[k].rule == rule; ++k)
        if (!counts(s.automata[k])) return false;
    return true;
}

// First what has no multiplier, then what has a weak one; automata that one price pays for stay together.
std::tuple<int, int, int> folding_rank(const Sequence& s, int k) {
    const BoundAutomaton& p = s.automata[k];
    if (p.mode == Mode::per_sequence) return {whole_rule_counts(s, k) ? 1 : 0, 0, p.rule};
    return {counts(p) ? 2 : 0, p.n_states(), k};
}

// The automata with these numbers, in the order of the sequence.
std::vector<BoundAutomaton> automata_of(const Sequence& s, std::vector<int> numbers) {
    std::sort(numbers.begin(), numbers.end());
    std::vector<BoundAutomaton> out;
    out.reserve(numbers.size());
    for (int k : numbers) out.push_back(s.automata[k]);
    return out;
}

// Folds as many automata from the front of `order` as fit; returns how many. Counted rules have good multipliers: they are
// folded only if all fits, or when multipliers alone took too long.
size_t fold_front(Instance& instance, const std::vector<int>& order, int limit, Fold& fold) {
    const Sequence& s = instance.sequence;
    const size_t cells = std::max<size_t>(1, size_t(s.n) * s.m);
    const size_t memory = instance.control.memory() / 8 * 3;  // of two H, or of what a best path keeps
    const auto states = [&](size_t allowed, size_t bytes) {
        return int(
            std::max<size_t>(1, std::min({size_t(limit), allowed / cells, memory / std::max<size_t>(1, bytes)})));
    };
    const int most = states(kFoldCells, 2 * Trellis::backward_bytes(s.n, s.m));
    const int most_in_all = states(kFoldWork, Trellis::path_bytes(s.n, s.m));
    size_t folded = order.size();
    double product = 1;
    for (size_t c = 0; c < order.size(); ++c) {
        product *= s.automata[order[c]].n_states();
        if (product > 64.0 * most_in_all) {  // surely too large, whatever can be reached of it
            folded = c;
            break;
        }
    }
    const auto cuts_a_rule = [&](size_t at) {  // the automata that one price pays for go in together or not at all
        return at > 0 && at < order.size() && s.automata[order[at]].mode == Mode::per_sequence &&
               s.automata[order[at]].rule == s.automata[order[at - 1]].rule;
    };
    AutomatonSet inside;
    for (;; --folded) {
        while (cuts_a_rule(folded)) --folded;
        inside.assign(automata_of(s, {order.begin(), order.begin() + folded}));
        if (fold.build(inside, s.n, s.m, folded == order.size() ? most_in_all : most, instance.control)) return folded;
        if (limit <= instance.limits.max_product_states)
            while (folded > 1 && std::get<0>(folding_rank(s, order[folded - 2])) == 2) --folded;
    }
}

// The transitions that an automaton counts, as cells of (m + 1, m), the last row being the start; none if they are too many.
std::vector<int32_t> counted_cells(const CountingAutomaton& automaton, int m) {
    const int C = automaton.classes;
    std::vector<int32_t> begin(C + 1, 0), member(m), out;  // members of class c: begin[c] .. begin[c + 1] - 1
    for (int y = 0; y < m; ++y) ++begin[automaton.class_of[y]];
    for (int c = 0, sum = 0; c <= C; ++c) sum += begin[c], begin[c] = sum;
    for (int y = m - 1; y >= 0; --y) member[--begin[automaton.class_of[y]]] = y;
    for (int a = 0; a <= C; ++a)
        for (int b = 0; b < C; ++b) {
            if (!automaton.edges[size_t(a) * C + b]) continue;
            const size_t more = size_t(a < C ? begin[a + 1] - begin[a] : 1) * (begin[b + 1] - begin[b]);
            if (out.size() + more > kListed * m) return {};
            for (int i = a < C ? begin[a] : 0; i < (a < C ? begin[a + 1] : 1); ++i)
                for (int j = begin[b]; j < begin[b + 1]; ++j) out.push_back((a < C ? member[i] : m) * m + member[j]);
        }
    return out;
}

// May an automaton of `set` have a multiplier? Of automata that one price pays for, all must count: the price of those that do not
// is charged whole elsewhere.
bool has_multiplier(const AutomatonSet& set, const BoundAutomaton& p) {
    const auto uncounted = [&](const BoundAutomaton& q) { return q.rule == p.rule && !counts(q); };
    return counts(p) &&
           (p.mode != Mode::per_sequence || std::none_of(set.automata.begin(), set.automata.end(), uncounted));
}

// The most that the multiplier of an automaton of `set` may be.
double cap_of(const AutomatonSet& set, const BoundAutomaton& p, int n) {
    switch (p.mode) {
        case Mode::hard:
        case Mode::hard_once: return kInf;
        case Mode::per_violation: return p.penalty;
        case Mode::per_sequence: break;
    }
    // Once paid, whatever still counts is free: the multiplier must not exceed its share.
    const auto same_rule = [&](const BoundAutomaton& q) { return q.rule == p.rule; };
    const auto share = std::count_if(set.automata.begin(), set.automata.end(), same_rule);
    return p.penalty / (share * (p.automaton->sense > 0 ? n + 1.0 : std::max(1, p.automaton->limit)));
}

}  // namespace

std::vector<int> ActiveRules::list() const {
    std::vector<int> out;
    for (size_t k = 0; k < active_.size(); ++k)
        if (active_[k]) out.push_back(int(k));
    return out;
}

void relax(Instance& instance, const ActiveRules& active, Relaxation& relaxation) {
    const Sequence& s = instance.sequence;
    relaxation.n_active = -1;
    relaxation.has_H = false;
    relaxation.estimates.clear();
    std::vector<int> order = active.list();
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return folding_rank(s, a) < folding_rank(s, b); });
    const size_t folded = fold_front(instance, order, relaxation.fold_limit, relaxation.fold);

    const AutomatonSet before = std::exchange(relaxation.set, {});
    const std::vector<double> known = std::exchange(relaxation.lambda, {});
    AutomatonSet& set = relaxation.set;
    set.assign(automata_of(s, {order.begin() + folded, order.end()}));
    relaxation.lambda.assign(set.size(), 0.0);
    relaxation.cap.assign(set.size(), 0.0);
    relaxation.counted.assign(set.size(), {});
    for (int p = 0, q = 0; p < set.size(); ++p) {
        const BoundAutomaton& automaton = set.automata[p];
        if (s.m <= kMostSquare && has_multiplier(set, automaton)) {
            relaxation.cap[p] = cap_of(set, automaton, s.n);
            relaxation.counted[p] = counted_cells(*automaton.automaton, s.m);
            ++instance.counters.multipliers;
        }
        while (q < before.size() && before.automata[q].number < automaton.number) ++q;
        if (q < before.size() && before.automata[q].number == automaton.number)  // a good start
            relaxation.lambda[p] = std::min(known[q], relaxation.cap[p]);
    }
    instance.counters.states = std::max<int64_t>(instance.counters.states, relaxation.fold.Q);
    relaxation.n_active = active.count();
}

// What makes best-first search short: closer estimates of what can follow, and a good incumbent before it starts.

namespace {

constexpr size_t kEstimates = 12, kEstimateStates = 48, kEstimateCells = size_t{1} << 22;

}  // namespace

void add_estimates(Instance& instance, Relaxation& relaxation) {
    Scratch& scratch = instance.scratch;
    const Trellis& trellis = scratch.trellis;
    const AutomatonSet& outside = relaxation.set;
    put_multipliers(instance, relaxation, scratch.adjusted);
    const size_t row = std::max<size_t>(1, size_t(trellis.n) * trellis.width);
    size_t left = instance.control.memory() / 8 / sizeof(double);  // cells of all estimates together
    const auto most = [&] { return int(std::min(kEstimateStates, std::min(kEstimateCells, left) / row)); };
    std::vector<BoundAutomaton> chosen;
    Estimate estimate;
    const auto fits = [&](const std::vector<BoundAutomaton>& automata) {
        AutomatonSet set;
        set.assign(automata);
        return estimate.fold.build(set, trellis.n, trellis.m, most(), instance.control);
    };
    const auto finish = [&] {
        if (chosen.empty() || relaxation.estimates.size() >= kEstimates || !fits(chosen)) return;
        ++instance.counters.passes;
        trellis.backward(estimate.fold, scratch.adjusted.steps, estimate.H, instance.control);
        left -= std::min(left, estimate.H.size());
        relaxation.estimates.push_back(std::move(estimate));
        estimate = Estimate();
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
    for (const ScoredPath& scored :
         beam(instance.scratch.trellis, instance.scratch.plain, all, width, guides, instance.control))
        consider(instance, scored.path.data(), incumbent);
}

// Steps 3 and 4 of the search: multipliers on counted transitions, and the subgradient steps that improve them.

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
    added.assign(size_t(m + 1) * m, 0.0);
    for (int p = 0; p < relaxation.set.size(); ++p) {
        if (lambda[p] == 0) continue;
        const CountingAutomaton& automaton = *relaxation.set.automata[p].automaton;
        const double l = automaton.sense * lambda[p];
        const std::vector<int32_t>& counted = relaxation.counted[p];
        for (const int32_t cell : counted) added[cell] -= l;
        for (int i = 0; i <= m && counted.empty(); ++i) {  // too many to list
            const size_t from = i < m ? automaton.class_of[i] : automaton.classes;
            const uint8_t* edges = automaton.edges.data() + from * automaton.classes;
            double* row = added.data() + size_t(i) * m;
            for (int j = 0; j < m; ++j) row[j] -= l * edges[automaton.class_of[j]];
        }
        base += lambda[p] * automaton.room[0];
    }
    adjusted.steps.adjusted(s, added.data(), added.data() + size_t(m) * m, instance.control);
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
        if (pass == 0 && !incumbent.exists()) improve_by_beam(instance, relaxation, 3, incumbent);
        if (proved(instance, incumbent)) break;
        // Polyak's step towards the incumbent, shorter when it does not help.
        stale = improved ? 0 : stale + 1;
        if (stale >= 3) pace *= 0.5, stale = 0;
        if (pace < 0.1) break;
        const double norm = subgradient(relaxation, scratch.path, gradient);
        if (norm == 0) break;
        const double goal = incumbent.exists() ? incumbent.score : value - 0.05 * std::max(1.0, std::abs(value));
        const double length = pace * std::max(value - goal, 1e-6 * std::max(1.0, std::abs(value))) / norm;
        for (size_t p = 0; p < lambda.size(); ++p)
            lambda[p] = std::clamp(lambda[p] + length * gradient[p], 0.0, relaxation.cap[p]);
    }
    lambda = std::move(best_lambda);  // H belongs to it
    return proved(instance, incumbent) || !(incumbent.bound > -kInf);
}

}  // namespace bridle
