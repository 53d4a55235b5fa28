// The border to Python, decoding: typed arrays in, typed arrays out. Arrays belong to Python and are kept alive here.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "border/rules.h"
#include "spans/intervals.h"
#include "simd/tiers.h"
#include "spans/spans.h"

using namespace bridle;

namespace {

// heads: (pairwise, start, end) each; head_of: the one of each sequence, None: all have the first; stop: ends the work on tables.
void make_problem(PyProblem* self, nb::object compiled, nb::object bound, nb::object unary, nb::object offsets,
                  nb::object first, nb::list heads, nb::object head_of, const Stop* stop) {
    new (self) PyProblem();
    Problem& p = self->problem;
    const PyBound* its = bound.is_none() ? nullptr : &nb::cast<const PyBound&>(bound);
    if (its && !its->compiled.is(compiled)) throw nb::value_error("rules bound by others");
    self->compiled = &nb::cast<PyCompiled&>(compiled);
    p = problem_of(self->compiled->core, its ? &its->core : nullptr);
    self->kept.push_back(std::move(compiled));
    self->kept.push_back(std::move(bound));
    p.offsets = keep<int64_t>(self->kept, offsets);
    p.B = int64_t(nb::cast<In<int64_t>>(offsets).size()) - 1;
    p.N = p.offsets[p.B];
    p.first = keep<int64_t>(self->kept, first);
    p.head_of = keep<int32_t>(self->kept, head_of);
    self->set_unary(unary);
    const auto began = Control::Clock::now();
    const double seconds = p.B == 1 ? self->options().time_limit : -1;  // sequences of a batch share tables
    for (nb::handle head : heads)
        if (!self->late) self->late = !self->add_head(self->head_scores(head[0], head[1], head[2]), seconds, stop);
    if (p.B == 1) self->spent = std::chrono::duration<double>(Control::Clock::now() - began).count();
}

int kernel_of(const std::string& name) {
    const int number = engine_number(name);
    if (number < 0) throw nb::value_error("no such kernel");
    return number;
}

// left (B): seconds that are left for each sequence, or None.
void decode(const PyProblem& self, int engine, const Stop* stop, Out<int32_t> ids, Out<double> score, Out<double> bound,
            Out<uint8_t> status, Out<int32_t> violations, Out<int64_t> counters, Out<double> seconds, nb::object left) {
    const Outputs out{.ids = ids.data(),
                      .score = score.data(),
                      .bound = bound.data(),
                      .status = status.data(),
                      .violations = violations.data(),
                      .counters = counters.data(),
                      .n_counters = counters.shape(1),
                      .seconds = seconds.data()};
    if (self.late) {
        out.bound[0] = bound_by_scores(Sequence(self.problem, 0));
        out.status[0] = uint8_t(Status::nothing_found);
        out.seconds[0] = self.spent;
        return;
    }
    const double* each = left.is_none() ? nullptr : nb::cast<In<double>>(left).data();
    freely(
        stop, self.left(),
        [&](Control& c) { run(self.problem, engine_numbered(engine), self.options(), c, out, each); },
        self.compiled->memory());
    if (self.problem.B == 1) out.seconds[0] += self.spent;
}

// Documents of the sequences of a problem, which begin at cuts (D + 1). agreements: (mode, penalty, automaton, groups (N)) each.
void decode_documents(const PyProblem& self, In<int64_t> cuts, nb::list agreements, const Stop* stop, Out<int32_t> ids,
                      Out<double> score, Out<double> bound, Out<uint8_t> status, Out<int32_t> violations,
                      Out<int32_t> changes, Out<int64_t> counters, Out<double> seconds) {
    const Problem& p = self.problem;
    Documents documents{{cuts.data(), cuts.size()}, {}};
    for (size_t d = 0; d < cuts.size(); ++d)
        if (cuts.data()[d] < (d ? cuts.data()[d - 1] : 0) || cuts.data()[d] > p.B)
            throw nb::value_error("documents are not in order");
    for (nb::handle agreement : agreements) {
        const auto groups = nb::cast<In<int32_t>>(agreement[3], false);
        check_length(groups.size(), p.N);
        documents.agreements.push_back(
            {{static_cast<Mode>(nb::cast<int>(agreement[0])), nb::cast<double>(agreement[1])},
             nb::cast<const CountingAutomaton*>(agreement[2]),
             groups.data()});
    }
    const size_t D = cuts.size() - 1;
    check_length(ids.size(), p.N), check_length(violations.size(), p.B * int64_t(p.rules.size()));
    check_length(score.size(), int64_t(D)), check_length(changes.size(), int64_t(D * documents.agreements.size()));
    const DocumentOutputs out{.ids = ids.data(),
                              .score = score.data(),
                              .bound = bound.data(),
                              .status = status.data(),
                              .violations = violations.data(),
                              .changes = changes.data(),
                              .counters = counters.data(),
                              .n_counters = counters.shape(1),
                              .seconds = seconds.data()};
    if (self.late) {
        for (size_t d = 0; d < D; ++d) out.bound[d] = kInf, out.status[d] = uint8_t(Status::nothing_found);
        return;
    }
    freely(
        stop, self.left(), [&](Control& c) { run_documents(p, documents, self.options(), c, out); },
        self.compiled->memory());
}

// One sequence, without a batch around it, with so many seconds left if that is not None: (score, bound, status, violations or None, counters, seconds).
nb::tuple decode_one(PyCompiled& compiled, int engine, nb::object unary, nb::object pairwise, nb::object start,
                     nb::object end, nb::object given, int n_counters, Out<int32_t> ids, nb::object left,
                     const Stop* stop) {
    double limit = compiled.core.options.time_limit;
    if (limit >= 0 && !left.is_none()) limit = nb::cast<double>(left);
    PyProblem arrays;
    arrays.set_unary(unary);
    const SequenceScores scores{arrays.problem.unary32, arrays.problem.unary64,
                                arrays.head_scores(pairwise, start, end)};
    const SingleAnswer answer =
        decode_single(compiled, engine, scores, given, limit, n_counters, stop, {ids.data(), ids.size()});
    nb::object violations = nb::none();
    if (std::any_of(answer.violations.begin(), answer.violations.end(), [](int32_t v) { return v != 0; }))
        violations = nb::cast(answer.violations);
    return nb::make_tuple(answer.score, answer.bound, answer.status, violations, nb::cast(answer.counters),
                          answer.seconds);
}

// The k best labellings of each of these sequences, best first: (path, score, status, bound, violations) each. None at all: there is
// none; a single one with the status nothing_found: a limit came first.
nb::list k_best_all(const PyProblem& self, int k, In<int64_t> rows, const Stop* stop) {
    const std::vector<int64_t> numbers = numbers_of(self, rows);
    std::vector<std::vector<Answer>> batch(numbers.size());
    freely(
        stop, self.left(),
        [&](Control& c) {
            for (size_t r = 0; r < numbers.size(); ++r) {
                if (!self.late) batch[r] = k_best(self.problem, numbers[r], k, self.options(), c);
                else
                    batch[r] = {{.status = Status::nothing_found,
                                 .bound = bound_by_scores(Sequence(self.problem, numbers[r]))}};
            }
        },
        self.compiled->memory());
    nb::list out;
    for (std::vector<Answer>& answers : batch) {
        nb::list best;
        for (const Answer& a : answers)
            best.append(nb::make_tuple(a.path, a.score, int(a.status), a.bound, a.violations));
        answers = {};
        out.append(std::move(best));
    }
    return out;
}

void decode_spans(const PyProblem& self, In<int32_t> n, In<int32_t> spans, In<int32_t> label, bool lazy,
                  const Stop* stop, Out<int32_t> path, Out<int32_t> length, Out<double> score, Out<double> bound,
                  Out<uint8_t> status, Out<int32_t> violations, Out<int64_t> counters, nb::object extents) {
    const int32_t* held = extents.is_none() ? nullptr : nb::cast<In<int32_t>>(extents, false).data();
    const SpanBatch batch{
        .problem = self.problem, .n = n.data(), .spans = spans.data(), .label = label.data(), .extents = held};
    const SpanOutputs out{.path = path.data(),
                          .length = length.data(),
                          .score = score.data(),
                          .bound = bound.data(),
                          .status = status.data(),
                          .violations = violations.data(),
                          .counters = counters.data()};
    freely(
        stop, self.options().time_limit, [&](Control& c) { run_spans(batch, lazy, self.options(), c, out); },
        self.compiled->memory());
}

nb::tuple k_best_spans_of(const PyProblem& self, In<int32_t> n, In<int32_t> spans, In<int32_t> label, int64_t b, int k,
                          const Stop* stop) {
    const SpanBatch batch{self.problem, n.data(), spans.data(), label.data()};
    std::vector<ScoredPath> paths;
    double bound = kInf;
    const Status status = freely(
        stop, self.options().time_limit,
        [&](Control& c) { return k_best_spans(batch, b, k, self.options(), c, paths, bound); },
        self.compiled->memory());
    nb::list out;
    for (const ScoredPath& scored : paths) out.append(nb::make_tuple(scored.path, scored.score));
    return nb::make_tuple(int(status), bound, out);
}

// seconds: negative means no limit. None: the time was up.
std::optional<std::vector<int32_t>> best_intervals(In<int32_t> start, In<int32_t> end, In<double> score, bool nested,
                                                   double seconds, const Stop* stop) {
    const Intervals all{int(score.size()), start.data(), end.data(), score.data()};
    return freely(stop, seconds, [&](Control& c) {
        c.begin();
        std::optional<std::vector<int32_t>> best;
        c.completes([&] { best = nested ? best_nested(all, c) : best_disjoint(all, c); });
        return best;
    });
}

}  // namespace

SingleAnswer bridle::decode_single(PyCompiled& compiled, int engine, const SequenceScores& scores,
                                   const nb::object& given, double limit, size_t n_counters, const Stop* stop,
                                   std::span<int32_t> path) {
    const auto began = Control::Clock::now();
    BoundRules bound;
    if (compiled.depends()) bound = bind_one(compiled, int(path.size()), given);
    PyProblem self;
    Problem& p = self.problem = problem_of(compiled.core, compiled.depends() ? &bound : nullptr);
    const int64_t offsets[] = {0, int64_t(path.size())};
    p.B = 1, p.N = offsets[1], p.offsets = offsets;
    p.unary32 = scores.unary32, p.unary64 = scores.unary64;
    SingleAnswer answer;
    answer.violations.resize(p.rules.size());
    answer.counters.resize(n_counters);
    if (!self.add_head(scores.head, limit, stop)) {
        answer.bound = bound_by_scores(Sequence(p, 0)), answer.seconds = limit;
        return answer;
    }
    const double spent = std::chrono::duration<double>(Control::Clock::now() - began).count();
    const double left = limit < 0 ? -1.0 : std::max(0.0, limit - spent);
    const Outputs out{.ids = path.data(),
                      .score = &answer.score,
                      .bound = &answer.bound,
                      .status = &answer.status,
                      .violations = answer.violations.data(),
                      .counters = answer.counters.data(),
                      .n_counters = n_counters,
                      .seconds = &answer.seconds};
    freely(
        stop, left,
        [&](Control& c) {
            run(p, engine_numbered(engine), compiled.core.options, c, out, limit < 0 ? nullptr : &left);
        },
        compiled.memory());
    answer.seconds += spent;
    return answer;
}

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);  // engines that users define live until the interpreter ends
    module.doc() = "Kernels of Bridle.";
    module.attr("N_COUNTERS") = kCounters;
    module.attr("MOST_SQUARE") = kMostSquare;
    choose_tier(std::getenv("BRIDLE_SIMD"));
    module.def("tier", [] { return std::string(kernels().name); });
    module.def("tiers", &tiers_here);
    module.def("processor", &processor);
    bind_learning(module);
    module.def(
        "first_bad",
        [](In<float> x, double largest) {
            return kernels().first_bad_float(x.data(), int64_t(x.size()),
                                             float(std::min<double>(largest, std::numeric_limits<float>::max())));
        },
        "scores"_a, "largest"_a);
    module.def(
        "first_bad",
        [](In<double> x, double largest) { return kernels().first_bad_double(x.data(), int64_t(x.size()), largest); },
        "scores"_a, "largest"_a);
    module.def("engine", &kernel_of, "name"_a);
    nb::class_<Stop>(module, "Stop")
        .def(nb::init<>())
        .def("set", [](Stop& stop) { stop.flag = true; })
        .def("is_set", [](const Stop& stop) { return stop.flag.load(); });
    bind_rules(module);
    bind_edges(module);
    bind_perceptron(module);
    bind_tagging(module);
    bind_text(module);
    module.def("decode_one", &decode_one, "rules"_a, "engine"_a, "unary"_a, "pairwise"_a.none(), "start"_a.none(),
               "end"_a.none(), "given"_a.none(), "n_counters"_a, "ids"_a, "left"_a.none() = nb::none(),
               "stop"_a.none() = nb::none());
    module.def("best_intervals", &best_intervals, "start"_a, "end"_a, "score"_a, "nested"_a, "seconds"_a = -1.0,
               "stop"_a.none() = nb::none());
    nb::class_<PyProblem> problem(module, "Problem");
    problem
        .def("__init__", &make_problem, "rules"_a, "bound"_a.none(), "unary"_a, "offsets"_a, "first"_a.none(),
             "heads"_a, "head_of"_a.none(), "stop"_a.none() = nb::none())
        .def("decode", &decode, "engine"_a, "stop"_a, "ids"_a, "score"_a, "bound"_a, "status"_a, "violations"_a,
             "counters"_a, "seconds"_a, "left"_a.none() = nb::none())
        .def("decode_documents", &decode_documents, "cuts"_a, "agreements"_a, "stop"_a, "ids"_a, "score"_a, "bound"_a,
             "status"_a, "violations"_a, "changes"_a, "counters"_a, "seconds"_a)
        .def("k_best_all", &k_best_all, "k"_a, "rows"_a, "stop"_a)
        .def("decode_spans", &decode_spans, "n"_a, "spans"_a, "label"_a, "lazy"_a, "stop"_a, "path"_a, "length"_a,
             "score"_a, "bound"_a, "status"_a, "violations"_a, "counters"_a, "extents"_a.none() = nb::none())
        .def("k_best_spans", &k_best_spans_of, "n"_a, "spans"_a, "label"_a, "sequence"_a, "k"_a,
             "stop"_a.none() = nb::none());
    bind_sums(problem);
}
