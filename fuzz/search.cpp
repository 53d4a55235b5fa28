// Every engine, the k best and the sums against enumeration, on a small problem that is made of the fuzzer's bytes.
//   n <= 5 positions, m <= 4 labels, up to 4 rules: random automata or counts, hard or soft, with masks and marks
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "search/compiled.h"
#include "search/sums.h"
#include "bytes.h"

using namespace bridle;
using bridle::fuzz::Bytes;
using bridle::fuzz::require;

namespace {

constexpr double kNear = 1e-6;

double score_of(Bytes& bytes) {
    static constexpr double kScores[] = {0, 1, -1, 0.5, 2.25, -3, 0, -kInf, 1e3, -1e3, 1e-3, 4, 7, -0.5, 1e6, -1e6};
    return kScores[bytes.below(16)];
}

std::vector<double> scores_of(Bytes& bytes, size_t count) {
    std::vector<double> out(count);
    for (double& x : out) x = score_of(bytes);
    return out;
}

std::vector<double> mask_of(Bytes& bytes, size_t count) {  // often none
    if (bytes.below(4)) return {};
    std::vector<double> out(count);
    for (double& x : out) x = bytes.below(4) ? 0.0 : -kInf;
    return out;
}

CountingAutomaton any_automaton(Bytes& bytes, int m) {
    CountingAutomaton a{1 + bytes.below(2), 1 + bytes.below(4), 1 + bytes.below(m), {}, {}, {}, 0, 0, {}, {}, {}};
    for (int y = 0; y < m; ++y) a.class_of.push_back(uint16_t(y < a.classes ? y : bytes.below(a.classes)));
    for (int c = 0; c < a.marks * a.states * a.classes; ++c)
        a.moves.push_back({bytes.below(a.states), std::max(0, bytes.below(5) - 2)});
    for (int s = 0; s < a.states; ++s) a.final.push_back(std::max(0, bytes.below(4) - 2));
    return a;
}

// At most, or at least, `limit` tokens of the labels of class 1.
CountingAutomaton count(Bytes& bytes, int m) {
    const int limit = bytes.below(3), sense = bytes.coin() ? 1 : -1;
    CountingAutomaton a{1, limit + 1, 2, {}, {}, {}, sense, limit, {}, {}, {}};
    for (int y = 0; y < m; ++y) a.class_of.push_back(bytes.coin());
    for (int s = 0; s <= limit; ++s) {
        a.moves.push_back({s, 0});
        a.moves.push_back({std::min(s + 1, limit), sense > 0 && s == limit});
        a.final.push_back(sense < 0 ? limit - s : 0);
        a.room.push_back(limit - s);
    }
    a.edges = {0, 1, 0, 1, 0, 1};
    return a;
}

struct Fuzzed {
    int n, m;
    std::vector<double> unary, pairwise, start, end;
    std::vector<std::vector<uint8_t>> marks;
    std::vector<CountingAutomaton> automata;
    CompiledRules rules;
    Problem problem;
    int64_t offsets[2];

    explicit Fuzzed(Bytes& bytes)
        : n(bytes.below(6)),
          m(1 + bytes.below(4)),
          unary(scores_of(bytes, size_t(n) * m)),
          rules(m, mask_of(bytes, size_t(m) * m), std::vector<double>(), mask_of(bytes, m), mask_of(bytes, m)) {
        const size_t square = size_t(m) * m;
        const int tables = bytes.below(3);  // none, one, one per step
        if (tables) pairwise = scores_of(bytes, tables == 1 ? square : square * std::max(n - 1, 0) + 1);
        if (bytes.coin()) start = scores_of(bytes, m);
        if (bytes.coin()) end = scores_of(bytes, m);
        const int count_of = bytes.below(5);
        automata.reserve(count_of);
        for (int k = 0; k < count_of; ++k) {
            automata.push_back(bytes.below(3) ? any_automaton(bytes, m) : count(bytes, m));
            automata.back().find_local();
            const double penalty = 0.5 * bytes.below(8);
            rules.rules.push_back({static_cast<Mode>(bytes.below(3)), penalty});
            std::vector<uint8_t>& at = marks.emplace_back(n);
            for (uint8_t& mark : at) mark = uint8_t(bytes.below(automata.back().marks));
        }
        for (int k = 0; k < count_of; ++k)
            rules.automata.push_back({k, {&automata[k]}, automata[k].marks > 1 ? marks[k].data() : nullptr});
        rules.options.max_product_states = bytes.coin() ? 64 : 1 + bytes.below(4);
        rules.options.decompose_after = bytes.coin() ? 500 : 0;
        rules.options.max_group_states = bytes.coin() ? 128 : 1 + bytes.below(8);

        offsets[0] = 0, offsets[1] = n;
        unary.push_back(0.0);  // an array without numbers has an address too
        // Only rules that are the same for all sequences are ever asked about, and those have no marks.
        const bool marked = std::any_of(automata.begin(), automata.end(), [](const auto& a) { return a.marks > 1; });
        if (bytes.coin() && !marked) rules.drop_redundant();
        problem = problem_of(rules, nullptr);
        problem.B = 1, problem.N = n;
        problem.offsets = offsets;
        problem.unary64 = unary.data();
        const auto data = [](const std::vector<double>& x) { return x.empty() ? nullptr : x.data(); };
        problem.heads.push_back(rules.tables.head({.pairwise = tables ? pairwise.data() : nullptr,
                                                   .per_step = tables == 2,
                                                   .start = data(start),
                                                   .end = data(end)}));
        Head& head = problem.heads[0];
        Control control = forever();
        if (!head.per_step) head.tables = rules.tables.find(head.pairwise, control);
    }

    static Control forever() {
        static const Stop stop;
        return {stop, nullptr, -1};
    }

    // By the plain definitions: every score, every mask, every rule (also those that were dropped as redundant).
    double value(const std::vector<int32_t>& y, int& hard, bool soft = true) const {
        const TableCache& masks = rules.tables;
        double total = 0;
        for (int t = 0; t < n; ++t) {
            total += unary[size_t(t) * m + y[t]];
            if (t == 0)
                total += (start.empty() ? 0 : start[y[t]]) + (masks.first_mask.empty() ? 0 : masks.first_mask[y[t]]);
            if (t == n - 1)
                total += (end.empty() ? 0 : end[y[t]]) + (masks.last_mask.empty() ? 0 : masks.last_mask[y[t]]);
            if (t == 0) continue;
            const size_t cell = size_t(y[t - 1]) * m + y[t];
            if (!pairwise.empty()) total += pairwise[problem.heads[0].per_step ? (t - 1) * size_t(m) * m + cell : cell];
            if (!masks.free_mask.empty()) total += masks.free_mask[cell];
        }
        for (size_t k = 0; k < automata.size(); ++k) {
            const CountingAutomaton& a = automata[k];
            int state = 0, broken = 0;
            for (int t = 0; t < n; ++t) {
                const Move& move = a.read(a.marks > 1 ? marks[k][t] : 0, state, y[t]);
                broken += move.violations;
                state = move.to;
            }
            broken += a.final[state];
            const Rule& rule = rules.rules[k];
            if (rule.mode == Mode::hard) hard += broken;
            else if (soft) total -= rule.penalty * (rule.mode == Mode::per_violation ? broken : std::min(broken, 1));
        }
        return total;
    }

    template <class Each>
    void each(const Each& call) const {
        std::vector<int32_t> y(n, 0);
        for (;;) {
            call(y);
            int t = 0;
            while (t < n && ++y[t] == m) y[t++] = 0;
            if (t == n) return;
        }
    }
};

bool near(double a, double b) { return a == b || std::abs(a - b) <= kNear * std::max({1.0, std::abs(a), std::abs(b)}); }

struct Result {
    std::vector<int32_t> ids, violations;
    double score = 0, bound = 0, seconds = 0;
    uint8_t status = 0;
    std::vector<int64_t> counters = std::vector<int64_t>(kCounters, 0);

    Result(const Fuzzed& f, const char* engine) : ids(f.n + 1, -1), violations(f.rules.rules.size() + 1, 0) {
        Control control = Fuzzed::forever();
        const Outputs out{ids.data(),        &score,          &bound,          &status,
                          violations.data(), counters.data(), counters.size(), &seconds};
        run(f.problem, engine_numbered(engine_number(engine)), f.rules.options, control, out);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Bytes bytes(data, size);
    const Fuzzed f(bytes);
    std::vector<double> all;
    std::vector<double> feasible(size_t(f.n) * f.m + 1, 0.0);
    double log_all = -kInf, log_hard = -kInf;
    const auto add = [](double& sum, double x) {
        if (x > -kInf) sum = sum > x ? sum + std::log1p(std::exp(x - sum)) : x + std::log1p(std::exp(sum - x));
    };
    f.each([&](const std::vector<int32_t>& y) {
        int hard = 0, none = 0;
        const double value = f.value(y, hard), plain = f.value(y, none, false);
        if (hard == 0 && value > -kInf) all.push_back(value);
        if (plain > -kInf) add(log_all, plain);
        if (plain > -kInf && hard == 0) add(log_hard, plain);
    });
    std::sort(all.rbegin(), all.rend());
    const double best = all.empty() ? -kInf : all[0];

    const bool per_violation = std::any_of(f.rules.rules.begin(), f.rules.rules.end(),
                                           [](const Rule& rule) { return rule.mode == Mode::per_violation; });
    for (const char* engine : {"search", "product", "lazy_intersection", "beam", "two_stage", "viterbi", "relaxed"}) {
        if (!std::strcmp(engine, "viterbi") && !f.rules.automata.empty()) continue;
        if (!std::strcmp(engine, "relaxed") && !all.empty()) continue;
        if (!std::strcmp(engine, "lazy_intersection") && per_violation) continue;  // it does not take such rules
        const Result result(f, engine);
        const auto status = static_cast<Status>(result.status);
        if (!std::strcmp(engine, "relaxed")) continue;  // that it ends, within its memory, is all that is asked
        const bool answered = status == Status::optimal || status == Status::limit;
        if (answered) {
            int hard = 0;
            const std::vector<int32_t> y(result.ids.begin(), result.ids.begin() + f.n);
            require(near(f.value(y, hard), result.score), "the score is not that of the labelling");
            require(hard == 0, "a hard rule is broken");
        }
        if (!std::strcmp(engine, "two_stage")) continue;
        require(!(result.bound < best - kNear * std::max(1.0, std::abs(best))), "a bound below the optimum");
        if (!std::strcmp(engine, "beam")) continue;
        require(status == (all.empty() ? Status::infeasible : Status::optimal),
                "optimal, infeasible: one of them is wrong");
        if (answered) require(near(result.score, best), "not the optimum");
    }

    Control control = Fuzzed::forever();
    const std::vector<Answer> ranked = k_best(f.problem, 0, 6, f.rules.options, control);
    require(ranked.size() == std::min<size_t>(6, all.size()), "more or fewer labellings than there are");
    for (size_t k = 0; k < ranked.size(); ++k) require(near(ranked[k].score, all[k]), "not the next best labelling");

    std::vector<int> hard;
    for (int k = 0; k < int(f.rules.rules.size()); ++k)
        if (f.rules.rules[k].mode == Mode::hard) hard.push_back(k);
    struct Total {
        double log_z = 0, offset = 0, error = 0;
    };
    const auto sum = [&](std::vector<int> rules, double* marginals) {
        Total total;
        const int64_t first = 0;
        const SumOutputs out{.log_z = &total.log_z,
                             .offset = &total.offset,
                             .error = &total.error,
                             .marginals = {.f64 = marginals},
                             .edges = {},
                             .steps = {}};
        sum_up(f.problem, {&first, 1}, {.hard = std::move(rules), .soft = {}}, out, control);
        return total;
    };
    const Total under = sum(hard, feasible.data()), whole = sum({}, nullptr);
    require((under.log_z == -kInf) == (log_hard == -kInf), "a sum over nothing, or not over nothing");
    if (log_hard > -kInf && under.error + whole.error < 1e-5)
        require(std::abs((under.log_z - whole.log_z) - (log_hard - log_all)) < 1e-4,
                "another probability of the rules");
    for (int t = 0; t < f.n && log_hard > -kInf; ++t) {
        double all_labels = 0;
        for (int y = 0; y < f.m; ++y) all_labels += feasible[size_t(t) * f.m + y];
        require(std::abs(all_labels - 1) < 1e-6, "probabilities of a position do not sum to 1");
    }
    return 0;
}
