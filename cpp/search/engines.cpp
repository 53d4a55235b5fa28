#include "search/engines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include "search/agreement.h"
#include "search/best_first.h"
#include "search/priced.h"

namespace bridle {
namespace {

Answer run_viterbi(const Sequence& s, const Options&, Control& control, Search& search, int64_t*) {
    Answer out;
    out.path.resize(s.n);
    out.score = out.bound = search.first_path(s, out.path.data(), control);
    out.status = out.score > -kInf ? Status::optimal : Status::infeasible;
    return out;
}

Answer run_search(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters) {
    Counters c;
    Answer out = search.best(s, limits_of(options), control, c);
    const int64_t values[] = {c.rounds, c.passes, c.expansions, c.states, c.active, c.multipliers};
    std::copy(std::begin(values), std::end(values), counters);
    return out;
}

Answer run_beam(const Sequence& s, const Options& options, Control& control, Search&, int64_t*) {
    Trellis trellis;
    Steps steps;
    Fold plain;
    plain.clear();
    trellis.load(s);
    steps.plain(s);
    Answer out;
    out.path.resize(s.n);
    out.bound = trellis.best_path(plain, steps, out.path.data(), control);  // no rule can make it better
    AutomatonSet set;
    set.assign(s.automata);
    const Armed armed(control);
    const std::vector<ScoredPath> paths = beam(trellis, steps, set, options.width, {}, control);
    if (paths.empty()) {
        out.status = out.bound > -kInf ? Status::nothing_found : Status::infeasible;
        return out;
    }
    out.path = paths[0].path;
    out.score = paths[0].score;
    out.bound = std::max(out.bound, out.score);
    out.status = out.bound > out.score + trellis.rounding(steps) ? Status::limit : Status::optimal;
    if (out.status == Status::optimal) out.bound = out.score;
    return out;
}

constexpr int64_t kBoundCells = 1 << 24;  // tokens x labels that are soon looked at

template <class Real>
double largest(std::span<const Real> scores) {
    return *std::max_element(scores.begin(), scores.end());
}

}  // namespace

double bound_by_scores(const Sequence& s) {
    const int64_t m = s.m, steps = s.n > 0 ? s.n - 1 : 0, square = m * m, tables = s.head->per_step ? steps : 1;
    const double* pairwise = steps > 0 ? s.head->pairwise : nullptr;
    if (s.n * m + (pairwise ? tables * square : 0) > kBoundCells) return kInf;
    const Problem& p = *s.problem;
    double sum = 0;
    for (int64_t t = s.first; t < s.first + s.n; ++t)
        sum += p.unary32 ? largest(std::span(p.unary32 + t * m, size_t(m)))
                         : largest(std::span(p.unary64 + t * m, size_t(m)));
    for (const auto* ends : {&s.head->start, &s.head->end})
        if (s.n > 0 && !ends->empty()) sum += largest(std::span<const double>(*ends));
    for (int64_t t = 0; pairwise && t < tables; ++t)
        sum += largest(std::span(pairwise + t * square, size_t(square))) * double(steps) / double(tables);
    return sum + 1e-9 * std::abs(sum);  // sums in another order round otherwise
}

namespace {

// What there is to show when the time is up: the best path without rules bounds all others, and it is an answer if it breaks no
// hard rule.
Answer without_rules(const Sequence& s, Control& control, Search& search) {
    Answer out;
    out.status = Status::nothing_found;
    std::vector<int32_t> path(s.n);
    Verdict verdict;
    const auto judge_first_path = [&] {
        out.bound = search.first_path(s, path.data(), control);
        if (out.bound > -kInf) judge(s, path.data(), verdict, &control);
    };
    if (!control.completes(judge_first_path)) {
        if (out.bound == kInf) out.bound = bound_by_scores(s);
    } else if (!(out.bound > -kInf)) {
        out.status = Status::infeasible;
    } else if (verdict.cost < kInf) {
        out.score = out.bound - verdict.cost;
        out.status = verdict.cost == 0 ? Status::optimal : Status::limit;
        out.path = std::move(path);
    }
    return out;
}

// Scores are checked when they come, but a batch borrows them: what was written into them since (NaN, +inf) must not pass for
// a labelling. It passes for an infeasible sequence, and the explanation names the bad score.
bool is_sound(const Answer& answer, int m) {
    return answer.score < kInf &&
           std::all_of(answer.path.begin(), answer.path.end(), [m](int32_t y) { return y >= 0 && y < m; });
}

Answer run_relaxed(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters);

// Violations of each rule by an answer.
void count_violations(const Sequence& s, const Answer& answer, Verdict& verdict, int32_t* violations) {
    if (answer.violations.empty()) judge(s, answer.path.data(), verdict);
    const std::vector<int32_t>& of_automaton = answer.violations.empty() ? verdict.violations : answer.violations;
    for (size_t k = 0; k < s.automata.size(); ++k) {
        int32_t& of_rule = violations[s.automata[k].rule];
        of_rule = s.automata[k].mode == Mode::hard_once ? std::max(of_rule, std::min(of_automaton[k], 1))
                                                        : of_rule + of_automaton[k];
    }
    for (size_t k = 0; k < s.agreements.size(); ++k)
        violations[s.agreements[k].rule] += of_automaton[s.automata.size() + k];
}

}  // namespace

Sequence sequence_for(Engine engine, const Problem& problem, int64_t b) {
    Sequence s(problem, b);
    const auto in_part = [](const Agreement& a) { return a.mode == Mode::hard_once; };
    const bool knows = engine == run_search || engine == run_viterbi || engine == run_relaxed;
    if (!s.agreements.empty() && (!knows || std::any_of(s.agreements.begin(), s.agreements.end(), in_part))) s.expand();
    return s;
}

Answer solve(Engine engine, const Sequence& s, const Options& options, Control& control, Search& search,
             int64_t* counters) {
    Answer answer;
    if (!control.completes([&] { answer = engine(s, options, control, search, counters); }))
        answer = without_rules(s, control, search);
    if (!is_sound(answer, s.m)) answer = {.status = Status::infeasible, .bound = -kInf};
    return answer;
}

void run(const Problem& problem, Engine engine, const Options& options, Control& control, const Outputs& out,
         const double* left) {
    const size_t n_rules = problem.rules.size();
    bool soft = false;  // without soft rules a labelling that was found breaks nothing
    for (const RuleAutomaton& part : problem.automata) soft = soft || problem.rules[part.rule].mode != Mode::hard;
    for (const RuleAgreement& part : problem.agreements) soft = soft || problem.rules[part.rule].mode != Mode::hard;
    std::unique_ptr<Search> own = problem.searches ? problem.searches->take() : std::make_unique<Search>();
    Search& search = *own;
    Verdict verdict;
    for (int64_t b = 0; b < problem.B; ++b) {
        if (left) control.begin(left[b]);
        else control.begin();
        if ((b & 15) == 0) control.check();
        const Sequence s = sequence_for(engine, problem, b);
        int64_t counters[kCounters] = {};
        const Answer answer = solve(engine, s, options, control, search, counters);
        std::copy_n(counters, std::min<size_t>(kCounters, out.n_counters), out.counters + b * out.n_counters);
        out.score[b] = answer.score;
        out.bound[b] = answer.bound;
        out.status[b] = uint8_t(answer.status);
        out.seconds[b] = control.spent();
        if (!(answer.score > -kInf)) continue;
        std::copy(answer.path.begin(), answer.path.end(), out.ids + s.begin);
        if (soft || answer.status == Status::relaxed)
            count_violations(s, answer, verdict, out.violations + b * n_rules);
    }
    if (problem.searches) problem.searches->give_back(std::move(own), control.memory());
}

void run_documents(const Problem& problem, const Documents& documents, const Options& options, Control& control,
                   const DocumentOutputs& out) {
    const size_t n_rules = problem.rules.size(), A = documents.agreements.size();
    std::unique_ptr<Search> own = problem.searches ? problem.searches->take() : std::make_unique<Search>();
    Verdict verdict;
    for (size_t d = 0; d + 1 < documents.cuts.size(); ++d) {
        control.begin();
        control.check();
        const int64_t low = documents.cuts[d], high = documents.cuts[d + 1];
        const int64_t begin = problem.offsets[low], n = problem.offsets[high] - begin;
        std::vector<Sequence> sequences;
        std::vector<Agreement> agreements;
        sequences.reserve(size_t(high - low));
        for (int64_t b = low; b < high; ++b) {
            const Sequence& s = sequences.emplace_back(problem, b);
            for (Agreement a : s.agreements) {
                a.first = s.begin - begin;
                agreements.push_back(a);
            }
        }
        for (const DocumentAgreement& a : documents.agreements)
            agreements.push_back({-1, a.rule.mode, a.rule.penalty, a.kinds, a.group + begin, 0, n});
        Counters c;
        Answer answer{.status = Status::nothing_found};
        if (!control.completes(
                [&] { answer = best_in_agreement(sequences, agreements, limits_of(options), control, *own, c); })) {
            answer.bound = 0;
            for (const Sequence& s : sequences) answer.bound += bound_by_scores(s);
        }
        const int64_t values[] = {c.rounds, c.passes, c.expansions, c.states, c.active, c.multipliers};
        std::copy_n(values, std::min(std::size(values), out.n_counters), out.counters + d * out.n_counters);
        const bool labelled = answer.score > -kInf && answer.path.size() == size_t(n);
        out.score[d] = labelled ? answer.score : -kInf, out.bound[d] = answer.bound;
        out.status[d] = uint8_t(answer.status);
        out.seconds[d] = control.spent();
        if (!labelled) continue;
        std::copy(answer.path.begin(), answer.path.end(), out.ids + begin);
        for (const Sequence& s : sequences) {
            judge(s, answer.path.data() + (s.begin - begin), verdict);
            count_violations(s, {.violations = verdict.violations}, verdict, out.violations + s.b * n_rules);
        }
        for (size_t a = 0; a < A; ++a)
            out.changes[d * A + a] = int32_t(count_changes(agreements[agreements.size() - A + a], answer.path.data()));
    }
    if (problem.searches) problem.searches->give_back(std::move(own), control.memory());
}

std::vector<Answer> k_best(const Problem& problem, int64_t b, int k, const Options& options, Control& control) {
    control.begin();
    Search search;
    Counters counters;
    Sequence s(problem, b);
    s.expand();
    std::vector<Answer> answers;
    if (!control.completes([&] { answers = search.k_best(s, k, limits_of(options), control, counters); })) {
        answers = {without_rules(s, control, search)};
        if (answers[0].status == Status::infeasible) return {};
        if (answers[0].status == Status::optimal)
            answers[0].status = Status::limit;  // the best, but not all k of them are known
    }
    Verdict verdict;
    for (Answer& answer : answers) {
        std::vector<int32_t> violations(problem.rules.size(), 0);
        if (answer.score > -kInf) count_violations(s, answer, verdict, violations.data());
        answer.violations = std::move(violations);
    }
    return answers;
}

// `two_stage`, after Fersini et al. (2012), (22)-(29):
//   1. Z = the best score under the hard rules, soft ones left out
//   2. among the labellings with score >= Z - (1 - tau) |Z|: the least penalty, and of those the highest score

namespace {

constexpr int kMostStates = 2048;
constexpr int kDigits = 9;  // of the dearest price
constexpr size_t kMostCells = size_t{1} << 25;

// least[t][q]: what the fold must still cost after position t, if any label that is possible may come.
std::vector<double> least_price(const Trellis& trellis, const Fold& fold, Control& control) {
    const int n = trellis.n, m = trellis.m, Q = fold.Q;
    std::vector<double> least(size_t(n) * Q);
    for (int q = 0; n > 0 && q < Q; ++q) least[size_t(n - 1) * Q + q] = fold.final[q];
    for (int t = n - 2; t >= 0; --t) {
        control.check();
        const double* u = trellis.unary(t + 1);
        for (int q = 0; q < Q; ++q) {
            double best = kInf;
            for (int j = 0; j < m; ++j) {
                const int to = fold.plain() ? 0 : fold.next(t + 1, q)[j];
                if (!(u[j] > -kInf)) continue;
                best = std::min(best, (fold.plain() ? 0.0 : fold.cost(t + 1, q)[j]) + least[size_t(t + 1) * Q + to]);
            }
            least[size_t(t) * Q + q] = best;
        }
    }
    return least;
}

// Stage 2. z: the lattice score of stage 1; fallback: its answer, for when a limit comes first.
Answer cheapest_near(const Sequence& s, const Options& options, Control& control, const Answer& fallback, double z,
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
    const size_t cells = std::max<size_t>(1, size_t(s.n) * s.m);
    const size_t bytes = std::max<size_t>(1, Trellis::backward_bytes(s.n, s.m) + sizeof(double) * s.n);  // of a state
    const size_t fits = std::max<size_t>(2, std::min(kMostCells / cells, control.memory() / 8 * 3 / bytes));
    const int most = int(std::min<size_t>(kMostStates, fits));
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
    BestFirst cheapest{.trellis = trellis,
                       .fold = fold,
                       .steps = steps,
                       .H = H,
                       .set = outside,
                       .lambda = none,
                       .estimates = {},
                       .price = price.data(),
                       .memory = std::max(memory / 4, memory - std::min(memory, held))};
    const double threshold = z - (1 - options.tau) * std::abs(z);
    const double below =
        std::nextafter(threshold - trellis.rounding(steps), -kInf);  // the search wants more than its floor
    cheapest.run(1, below, options.max_states, control);
    counters[0] = cheapest.expansions;
    if (!cheapest.complete || cheapest.paths.empty()) return fallback;
    Answer out;
    Verdict verdict;
    out.path = cheapest.paths[0].path;
    judge(s, out.path.data(), verdict);
    out.score = out.bound = cheapest.paths[0].score - verdict.cost;
    return out;
}

Answer run_two_stage(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters) {
    Sequence hard = s;
    std::erase_if(hard.automata, [](const BoundAutomaton& p) { return p.mode != Mode::hard; });
    Counters stage_one;
    Answer first = search.best(hard, limits_of(options), control, stage_one);
    first.violations.clear();  // they are about the hard automata only
    if (!(first.score > -kInf) || hard.automata.size() == s.automata.size()) return first;
    Verdict verdict;
    judge(s, first.path.data(), verdict);
    const double cost = verdict.cost, z = first.score;
    first.violations = verdict.violations;
    first.score -= cost;
    if (first.status != Status::optimal) return first;  // its bound holds: no penalty is below 0
    first.bound = first.score;
    if (cost == 0 || s.n == 0) return first;
    Answer cheapest = first;
    cheapest.status = Status::limit;  // it keeps to the threshold, but a cheaper one may exist
    cheapest.bound = z;
    control.completes([&] {
        const Armed armed(control);
        cheapest = cheapest_near(s, options, control, cheapest, z, counters);
    });
    return cheapest;
}

// `relaxed`: for a sequence on which no labelling obeys the hard rules, the fewest violations of them, and of those labellings
// the best score. With a price on every violation,
//     best(price) = max over y of  score(y) - price * violations(y)
// no labelling with as few violations as the one found scores higher than it. So a price is right if it leaves the fewest
// violations, whatever it is: it begins low, where bounds are good, and rises until they are reached. How few there must be is
// known (one, since no labelling obeys), or found by counting violations alone.

// What this does shows in the clashing sets of `benchmarks/run.py --only many`.
constexpr double kRaise = 8.0;  // how a price rises
constexpr double kHighestPrice = 1e300;
constexpr double kApart = 1 - 1e-6;  // numbers of violations that differ are further apart

// A power of two, so that sequences share prices and what is cached for them: about what a few tokens can gain.
double first_price(const Sequence& s, Control& control) {
    std::vector<double> leads, row(s.m);
    for (int t = 0; t < s.n && s.m > 1; ++t) {
        if (t % 4096 == 4095) control.check();
        s.row(t, row.data());
        std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
        if (row[1] > -kInf) leads.push_back(row[0] - row[1]);
    }
    if (leads.empty()) return 1.0;
    std::nth_element(leads.begin(), leads.begin() + ptrdiff_t(leads.size() / 2), leads.end());
    return std::exp2(std::clamp(std::ceil(std::log2(16.0 * leads[leads.size() / 2] + 1e-300)), -10.0, 60.0));
}

// What no labelling scores more than, by the best path without rules or, if that takes too long, by the scores alone.
double bound_without_rules(const Sequence& s, PricedSequence& priced, Search& search, Control& control) {
    double bound = 0;
    std::vector<int32_t> path(s.n);
    return control.completes([&] { bound = search.first_path(priced.at(0, control), path.data(), control); })
               ? bound
               : bound_by_scores(s);
}

// The best labelling so far, as the rules see it.
struct Relaxed {
    int64_t violations = std::numeric_limits<int64_t>::max();  // of hard rules
    double score = -kInf;                                      // less what soft rules cost
    std::vector<int32_t> path, of_automaton;

    // Returns the violations of a labelling.
    int64_t consider(const Sequence& s, const Steps& plain, const std::vector<int32_t>& labelling, Verdict& verdict) {
        judge(s, labelling.data(), verdict);
        const double here = plain.score(s, labelling.data()) - verdict.soft_cost;
        if (verdict.hard_violations < violations || (verdict.hard_violations == violations && here > score)) {
            violations = verdict.hard_violations, score = here;
            path = labelling, of_automaton = verdict.violations;
        }
        return verdict.hard_violations;
    }
};

Answer run_relaxed(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters) {
    SearchLimits limits = limits_of(options);
    limits.glance = 0;  // prices leave too many labellings near the incumbent
    PricedSequence priced(s, true, control);
    Steps plain;
    plain.plain(s);
    Verdict verdict;
    Counters spent;
    Relaxed best;
    int64_t fewest = 1;  // no labelling has fewer violations
    bool counted = false, proved = false;
    double bound = kInf, tolerance = 0, price = first_price(s, control);
    std::optional<Answer> none;  // why there is no labelling at all
    const auto raise_price = [&] {
        for (;; price *= kRaise) {
            const int32_t* known = best.path.empty() ? nullptr : best.path.data();
            const Answer answer = search.best(priced.at(price, control), limits, control, spent, known);
            ++counters[0], counters[1] += spent.expansions, tolerance = spent.tolerance;
            if (answer.status == Status::infeasible) none = answer;  // not even the lattice has a path
            else if (answer.path.empty() && s.n > 0) none = {.status = Status::nothing_found, .bound = answer.bound};
            if (none) return;
            const int64_t violations = best.consider(s, plain, answer.path, verdict);
            bound = std::min(bound, answer.bound + price * double(best.violations));
            if (answer.status != Status::optimal) return;
            proved = violations == fewest;
            if (proved || control.late() || price > kHighestPrice) return;
            if (counted) continue;
            limits.gap = kApart;
            const Answer least = search.best(priced.counted(control), limits, control, spent, best.path.data());
            limits.gap = 0;
            counters[1] += spent.expansions;
            counted = true;
            if (!least.path.empty()) best.consider(s, plain, least.path, verdict);
            fewest = std::max(fewest, int64_t(std::ceil(-least.bound - (1 - kApart))));
            if (least.status != Status::optimal) return;
            fewest = best.violations;
            proved = violations == fewest;
            if (proved) return;
        }
    };
    if (!control.completes(raise_price)) {
        if (best.path.empty()) control.give_up();  // nothing to show
        proved = false;
    }
    if (none) return *none;
    if (proved && tolerance <= kLargestError * std::max(1.0, std::abs(best.score))) {
        bound = best.score;
    } else {  // no rule raises a score; a bound by price holds for the fewest violations only
        const double free = bound_without_rules(s, priced, search, control);
        bound = std::max(best.score, best.violations == fewest ? std::min(bound, free) : free);
        proved = false;
    }
    counters[2] = best.violations, counters[3] = fewest, counters[4] = proved;
    return {.status = Status::relaxed,
            .score = best.score,
            .bound = bound,
            .path = std::move(best.path),
            .violations = std::move(best.of_automaton)};
}

constexpr struct {
    const char* name;
    Engine run;
} kEngines[] = {
    {"viterbi", run_viterbi},
    {"search", run_search},
    {"beam", run_beam},
    {"product", run_product},
    {"lazy_intersection", run_lazy_intersection},
    {"two_stage", run_two_stage},
    {"relaxed", run_relaxed},
};

}  // namespace

int engine_number(const std::string& name) {
    for (int k = 0; k < int(std::size(kEngines)); ++k)
        if (name == kEngines[k].name) return k;
    return -1;
}

Engine engine_numbered(int number) { return kEngines[number].run; }

}  // namespace bridle
