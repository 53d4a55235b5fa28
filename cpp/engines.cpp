#include "engines.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "beam.h"

namespace bridle {

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
    const std::vector<Found> found = beam(trellis, steps, set, options.width, {}, control);
    if (found.empty()) {
        out.status = out.bound > -kInf ? Status::nothing_found : Status::infeasible;
        return out;
    }
    out.path = found[0].path;
    out.score = found[0].score;
    out.bound = std::max(out.bound, out.score);
    out.status = out.bound > out.score + trellis.rounding(steps) ? Status::limit : Status::optimal;
    if (out.status == Status::optimal) out.bound = out.score;
    return out;
}

namespace {

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
    for (int k = 0; k < static_cast<int>(std::size(kEngines)); ++k)
        if (name == kEngines[k].name) return k;
    return -1;
}

Engine engine_numbered(int number) { return kEngines[number].run; }

namespace {

constexpr int64_t kBoundCells = 1 << 24;  // tokens x labels that are soon looked at

double largest(const double* scores, int64_t count) { return *std::max_element(scores, scores + count); }

}  // namespace

double bound_by_scores(const Sequence& s) {
    const int64_t m = s.m, steps = s.n > 0 ? s.n - 1 : 0, square = m * m, tables = s.head->per_step ? steps : 1;
    const double* pairwise = steps > 0 ? s.head->pairwise : nullptr;
    if (s.n * m + (pairwise ? tables * square : 0) > kBoundCells) return kInf;
    const Problem& p = *s.problem;
    double sum = 0;
    for (int64_t t = s.first; t < s.first + s.n; ++t)
        sum +=
            p.unary32 ? *std::max_element(p.unary32 + t * m, p.unary32 + (t + 1) * m) : largest(p.unary64 + t * m, m);
    if (s.n > 0 && !s.head->start.empty()) sum += largest(s.head->start.data(), m);
    if (s.n > 0 && !s.head->end.empty()) sum += largest(s.head->end.data(), m);
    for (int64_t t = 0; pairwise && t < tables; ++t)
        sum += largest(pairwise + t * square, square) * static_cast<double>(steps) / static_cast<double>(tables);
    return sum + 1e-9 * std::abs(sum);  // sums in another order round otherwise
}

namespace {

// What there is to show when the time is up: the best path without rules bounds all others, and it is an answer if it breaks no
// hard rule.
Answer without_rules(const Sequence& s, Control& control, Search& search) {
    Answer out;
    out.status = Status::nothing_found;
    try {
        std::vector<int32_t> path(s.n);
        out.bound = search.first_path(s, path.data(), control);
        if (!(out.bound > -kInf)) {
            out.status = Status::infeasible;
            return out;
        }
        Verdict verdict;
        judge(s, path.data(), verdict, &control);
        if (verdict.cost == kInf) return out;
        out.score = out.bound - verdict.cost;
        out.status = verdict.cost == 0 ? Status::optimal : Status::limit;
        out.path = std::move(path);
    } catch (const Late&) {
        if (out.bound == kInf) out.bound = bound_by_scores(s);
    }
    return out;
}

Answer in_time(Engine engine, const Sequence& s, const Options& options, Control& control, Search& search,
               int64_t* counters) {
    try {
        return engine(s, options, control, search, counters);
    } catch (const Late&) {
        return without_rules(s, control, search);
    }
}

// Scores are checked when they come, but a batch borrows them: what was written into them since (NaN, +inf) must not pass for
// a labelling. It passes for an infeasible sequence, and whoever asks why is told which score is none.
bool is_sound(const Answer& answer, int m) {
    return answer.score < kInf &&
           std::all_of(answer.path.begin(), answer.path.end(), [m](int32_t y) { return y >= 0 && y < m; });
}

// Violations of each rule by an answer.
void count_violations(const Sequence& s, const Answer& answer, Verdict& verdict, int32_t* violations) {
    if (answer.violations.empty()) judge(s, answer.path.data(), verdict);
    const std::vector<int32_t>& of_automaton = answer.violations.empty() ? verdict.violations : answer.violations;
    for (size_t k = 0; k < s.automata.size(); ++k) {
        int32_t& of_rule = violations[s.automata[k].rule];
        of_rule = s.automata[k].mode == Mode::hard_once ? std::max(of_rule, std::min(of_automaton[k], 1))
                                                        : of_rule + of_automaton[k];
    }
}

}  // namespace

Answer solve(Engine engine, const Sequence& s, const Options& options, Control& control, Search& search,
             int64_t* counters) {
    Answer answer = in_time(engine, s, options, control, search, counters);
    if (!is_sound(answer, s.m)) answer = {Status::infeasible, -kInf, -kInf, {}};
    return answer;
}

void run(const Problem& problem, Engine engine, const Options& options, Control& control, const Outputs& out,
         const double* left) {
    const size_t n_rules = problem.rules.size();
    bool soft = false;  // without soft rules a labelling that was found breaks nothing
    for (const RuleAutomaton& part : problem.automata) soft = soft || problem.rules[part.rule].mode != Mode::hard;
    std::unique_ptr<Search> own = problem.searches ? problem.searches->take() : std::make_unique<Search>();
    Search& search = *own;
    Verdict verdict;
    for (int64_t b = 0; b < problem.B; ++b) {
        if (left) control.begin(left[b]);
        else control.begin();
        if ((b & 15) == 0) control.check();
        const Sequence s(problem, b);
        int64_t counters[kCounters] = {};
        const Answer answer = solve(engine, s, options, control, search, counters);
        std::copy_n(counters, std::min<size_t>(kCounters, out.n_counters), out.counters + b * out.n_counters);
        out.score[b] = answer.score;
        out.bound[b] = answer.bound;
        out.status[b] = static_cast<uint8_t>(answer.status);
        out.seconds[b] = control.spent();
        if (!(answer.score > -kInf)) continue;
        std::copy(answer.path.begin(), answer.path.end(), out.ids + s.begin);
        if (soft || answer.status == Status::relaxed)
            count_violations(s, answer, verdict, out.violations + b * n_rules);
    }
    if (problem.searches) problem.searches->give_back(std::move(own), control.memory());
}

std::vector<Answer> k_best(const Problem& problem, int64_t b, int k, const Options& options, Control& control) {
    control.begin();
    Search search;
    Counters counters;
    const Sequence s(problem, b);
    std::vector<Answer> found;
    try {
        found = search.k_best(s, k, limits_of(options), control, counters);
    } catch (const Late&) {
        found = {without_rules(s, control, search)};
        if (found[0].status == Status::infeasible) return {};
        if (found[0].status == Status::optimal)
            found[0].status = Status::limit;  // the best, but not all k of them are known
    }
    Verdict verdict;
    for (Answer& answer : found) {
        std::vector<int32_t> violations(problem.rules.size(), 0);
        if (answer.score > -kInf) count_violations(s, answer, verdict, violations.data());
        answer.violations = std::move(violations);
    }
    return found;
}

}  // namespace bridle
