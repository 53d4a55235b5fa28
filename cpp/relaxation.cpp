// Which rules are folded, and which multipliers the others may have.
#include "relaxation.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace bridle {
namespace {

constexpr size_t kFoldCells = size_t{1} << 25;  // of H, when it must be kept
constexpr size_t kFoldWork = size_t{1} << 33;   // when everything is folded, it need not
constexpr size_t kListed = 16;                  // counted transitions per label that are listed

bool counts(const BoundAutomaton& p) { return p.automaton->sense != 0; }

// Do all automata of the rule of automaton k count?
bool whole_rule_counts(const Sequence& s, int k) {
    const int rule = s.automata[k].rule, count = static_cast<int>(s.automata.size());
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
    for (int k : numbers) out.push_back(s.automata[k]);
    return out;
}

// Folds as many automata from the front of `order` as fit; returns how many. Counted rules have good multipliers: they are
// folded only if all fits, or when multipliers alone took too long.
size_t fold_front(Instance& instance, const std::vector<int>& order, int limit, Fold& fold) {
    const Sequence& s = instance.sequence;
    const size_t cells = std::max<size_t>(1, static_cast<size_t>(s.n) * s.m);
    const size_t memory = instance.control.memory() / 8 * 3;  // of two H, or of what a best path keeps
    const auto states = [&](size_t allowed, size_t bytes) {
        return static_cast<int>(std::max<size_t>(
            1, std::min({static_cast<size_t>(limit), allowed / cells, memory / std::max<size_t>(1, bytes)})));
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
            if (!automaton.edges[static_cast<size_t>(a) * C + b]) continue;
            const size_t more = static_cast<size_t>(a < C ? begin[a + 1] - begin[a] : 1) * (begin[b + 1] - begin[b]);
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
        case Mode::hard_once:
            return kInf;
        case Mode::per_violation:
            return p.penalty;
        case Mode::per_sequence:
            break;
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
        if (active_[k]) out.push_back(static_cast<int>(k));
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

}  // namespace bridle
