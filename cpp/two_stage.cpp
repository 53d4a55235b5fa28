// `two_stage`, after Fersini et al. (2012), (22)-(29):
//   1. Z = the best score under the hard rules, soft ones left out
//   2. among the labellings with score >= Z - (1 - tau) |Z|: the least penalty, and of those the highest score
#include <cmath>

#include "engines.h"

namespace bridle {
namespace {

constexpr int kMostStates = 2048;
constexpr int kDigits = 9;  // of the dearest price
constexpr size_t kMostCells = size_t{1} << 25;

// least[t][q]: what the fold must still cost after position t, if any label that is possible may come.
std::vector<double> least_price(const Trellis& trellis, const Fold& fold, Control& control) {
    const int n = trellis.n, m = trellis.m, Q = fold.Q;
    std::vector<double> least(static_cast<size_t>(n) * Q);
    for (int q = 0; n > 0 && q < Q; ++q) least[static_cast<size_t>(n - 1) * Q + q] = fold.final[q];
    for (int t = n - 2; t >= 0; --t) {
        control.check();
        const double* u = trellis.unary(t + 1);
        for (int q = 0; q < Q; ++q) {
            double best = kInf;
            for (int j = 0; j < m; ++j) {
                const int to = fold.plain() ? 0 : fold.next(t + 1, q)[j];
                if (!(u[j] > -kInf)) continue;
                best = std::min(
                    best, (fold.plain() ? 0.0 : fold.cost(t + 1, q)[j]) + least[static_cast<size_t>(t + 1) * Q + to]);
            }
            least[static_cast<size_t>(t) * Q + q] = best;
        }
    }
    return least;
}

// Stage 2. first: the answer of stage 1, whose lattice score is z.
Answer cheapest_near(const Sequence& s, const Options& options, Control& control, Answer first, double z,
                     int64_t* counters) {
    Trellis trellis;
    trellis.load(s);
    Steps steps;
    steps.plain(s);
    // Prices in whole units, so that sums do not depend on the order of their terms; in decimal ones, since people write
    // 0.3 and 1.6 and mean that they make 1.9.
    std::vector<BoundAutomaton> automata = s.automata;
    double dearest = 0;
    for (const BoundAutomaton& p : automata) dearest = std::max(dearest, p.penalty);
    const double unit = std::pow(10.0, std::floor(std::log10(dearest)) - kDigits);
    for (BoundAutomaton& p : automata) p.penalty = dearest > 0 ? std::round(p.penalty / unit) : 0.0;
    AutomatonSet inside, outside;
    Fold fold, free;
    const size_t cells = std::max<size_t>(1, static_cast<size_t>(s.n) * s.m);
    const size_t bytes = std::max<size_t>(1, Trellis::backward_bytes(s.n, s.m) + sizeof(double) * s.n);  // of a state
    const size_t fits = std::max<size_t>(2, std::min(kMostCells / cells, control.memory() / 8 * 3 / bytes));
    const int most = static_cast<int>(std::min<size_t>(kMostStates, fits));
    size_t folded = automata.size();
    for (;; --folded) {  // as many as fit, from the front; a rule is never cut in two
        while (folded > 0 && folded < automata.size() && automata[folded].rule == automata[folded - 1].rule) --folded;
        inside.assign({automata.begin(), automata.begin() + folded});
        if (fold.build(inside, s.n, s.m, most, control)) break;
    }
    outside.assign({automata.begin() + folded, automata.end()});
    free = fold;
    free.forget_costs();
    std::vector<double> H;
    trellis.backward(free, steps, H, control);
    const std::vector<double> price = least_price(trellis, fold, control);
    const std::vector<double> none(outside.size(), 0.0);
    const size_t memory = control.memory(),
                 held = fold.bytes() + free.bytes() + sizeof(double) * (H.size() + price.size());
    BestFirst cheapest{trellis, fold,         steps,
                       H,       outside,      none,
                       {},      price.data(), std::max(memory / 4, memory - std::min(memory, held))};
    const double threshold = z - (1 - options.tau) * std::abs(z);
    const double below =
        std::nextafter(threshold - trellis.rounding(steps), -kInf);  // the search wants more than its floor
    cheapest.run(1, below, options.max_states, control);
    counters[0] = cheapest.expansions;
    if (!cheapest.complete || cheapest.found.empty()) {
        first.status = Status::limit;  // it keeps to the threshold, but a cheaper one may exist
        first.bound = z;
        return first;
    }
    Answer out;
    Verdict verdict;
    out.path = cheapest.found[0].path;
    judge(s, out.path.data(), verdict);
    out.score = out.bound = cheapest.found[0].score - verdict.cost;
    return out;
}

}  // namespace

Answer run_two_stage(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters) {
    Sequence hard = s;
    std::erase_if(hard.automata, [](const BoundAutomaton& p) { return p.mode != Mode::hard; });
    Counters stage_one;
    Answer first = search.best(hard, limits_of(options), control, stage_one);
    first.violations.clear();  // they speak of the hard automata only
    if (!(first.score > -kInf) || hard.automata.size() == s.automata.size()) return first;
    Verdict verdict;
    judge(s, first.path.data(), verdict);
    const double cost = verdict.cost, z = first.score;
    first.violations = verdict.violations;
    first.score -= cost;
    if (first.status != Status::optimal) return first;  // its bound holds: no penalty is below 0
    first.bound = first.score;
    if (cost == 0 || s.n == 0) return first;
    try {
        const Armed armed(control);
        return cheapest_near(s, options, control, first, z, counters);
    } catch (const Late&) {
        first.status = Status::limit;  // it keeps to the threshold, but a cheaper one may exist
        first.bound = z;
        return first;
    }
}

}  // namespace bridle
