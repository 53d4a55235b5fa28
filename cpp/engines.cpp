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
    Answer out = search.best(s, {options.max_states, options.max_product_states, options.max_group_states, options.decompose_after}, control, c);
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
    {"viterbi", run_viterbi}, {"search", run_search}, {"beam", run_beam}, {"product", run_product},
    {"lazy_intersection", run_lazy_intersection}, {"two_stage", run_two_stage}, {"relaxed", run_relaxed},
};

}  // namespace

int engine_number(const std::string& name) {
    for (int k = 0; k < static_cast<int>(std::size(kEngines)); ++k)
        if (name == kEngines[k].name) return k;
    return -1;
}

Engine engine_numbered(int number) { return kEngines[number].run; }

namespace {

constexpr int64_t kKeptCells = 1 << 16;  // tokens x labels of a sequence after which a search is used again

// Violations of each rule by an answer.
void count_violations(const Sequence& s, const Answer& answer, Verdict& verdict, int32_t* violations) {
    if (answer.violations.empty()) judge(s, answer.path.data(), verdict);
    const std::vector<int32_t>& of_automaton = answer.violations.empty() ? verdict.violations : answer.violations;
    for (size_t k = 0; k < s.automata.size(); ++k) violations[s.automata[k].rule] += of_automaton[k];
}

}  // namespace

void run(const Problem& problem, Engine engine, const Options& options, Control& control, const Outputs& out, const double* left) {
    const size_t n_rules = problem.rules.size();
    bool soft = false;  // without soft rules a labelling that was found breaks nothing
    for (const RuleAutomaton& part : problem.automata) soft = soft || problem.rules[part.rule].mode != Mode::hard;
    std::unique_ptr<Search> own = problem.searches ? problem.searches->take() : std::make_unique<Search>();
    Search& search = *own;
    Verdict verdict;
    int64_t largest = 0;
    for (int64_t b = 0; b < problem.B; ++b) {
        if ((b & 15) == 0) control.check();
        if (left) control.begin(left[b]);
        else control.begin();
        const Sequence s(problem, b);
        largest = std::max<int64_t>(largest, static_cast<int64_t>(s.n) * s.m);
        int64_t counters[kCounters] = {};
        const Answer answer = engine(s, options, control, search, counters);
        std::copy_n(counters, std::min<size_t>(kCounters, out.n_counters), out.counters + b * out.n_counters);
        out.score[b] = answer.score;
        out.bound[b] = answer.bound;
        out.status[b] = static_cast<uint8_t>(answer.status);
        out.seconds[b] = control.spent();
        if (!(answer.score > -kInf)) continue;
        std::copy(answer.path.begin(), answer.path.end(), out.ids + s.begin);
        if (soft || answer.status == Status::relaxed) count_violations(s, answer, verdict, out.violations + b * n_rules);
    }
    if (problem.searches && largest <= kKeptCells) problem.searches->give_back(std::move(own));  // else its memory is large
}

std::vector<Answer> k_best(const Problem& problem, int64_t b, int k, const Options& options, Control& control) {
    control.begin();
    Search search;
    Counters counters;
    return search.k_best(Sequence(problem, b), k, {options.max_states, options.max_product_states, options.max_group_states, options.decompose_after}, control, counters);
}

}  // namespace bridle
