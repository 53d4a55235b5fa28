// The border to Python, decoding: typed arrays in, typed arrays out. Arrays belong to Python and are kept alive here.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "bindings_problem.h"
#include "intervals.h"
#include "simd/tiers.h"
#include "spans.h"

using namespace bridle;

namespace {

// heads: (pairwise, start, end) each; head_of: the one of each sequence, None: all have the first.
void make_problem(PyProblem* self, nb::object compiled, nb::object bound, nb::object unary, nb::object offsets,
                  nb::object first, nb::list heads, nb::object head_of) {
    new (self) PyProblem();
    Problem& p = self->problem;
    if (!bound.is_none() && !nb::cast<const PyBound&>(bound).compiled.is(compiled))
        throw nb::value_error("rules bound by others");
    self->rule(nb::cast<PyCompiled&>(compiled), bound.is_none() ? nullptr : &nb::cast<const PyBound&>(bound));
    self->kept.push_back(std::move(compiled));
    self->kept.push_back(std::move(bound));
    p.offsets = self->keep<int64_t>(offsets);
    p.B = static_cast<int64_t>(nb::cast<In<int64_t>>(offsets).size()) - 1;
    p.N = p.offsets[p.B];
    p.first = self->keep<int64_t>(first);
    p.head_of = self->keep<int32_t>(head_of);
    self->score(unary);
    const auto began = Control::Clock::now();
    const double seconds = p.B == 1 ? self->options->time_limit : -1;  // sequences of a batch share tables
    try {
        for (nb::handle head : heads)
            self->add_head(nb::object(head[0]), nb::object(head[1]), nb::object(head[2]), seconds);
    } catch (const Late&) {
        self->late = true;
    }
    if (p.B == 1) self->spent = std::chrono::duration<double>(Control::Clock::now() - began).count();
}

int kernel_of(const std::string& name) {
    const int number = engine_number(name);
    if (number < 0) throw nb::value_error("no such kernel");
    return number;
}

// left (B): seconds that are left for each sequence, or None.
void decode(const PyProblem& self, int engine, const Stop& stop, Out<int32_t> ids, Out<double> score, Out<double> bound,
            Out<uint8_t> status, Out<int32_t> violations, Out<int64_t> counters, Out<double> seconds, nb::object left) {
    const Outputs out{ids.data(),        score.data(),    bound.data(),      status.data(),
                      violations.data(), counters.data(), counters.shape(1), seconds.data()};
    if (self.late) {
        out.bound[0] = bound_by_scores(Sequence(self.problem, 0));
        out.status[0] = static_cast<uint8_t>(Status::nothing_found);
        out.seconds[0] = self.spent;
        return;
    }
    const double* each = left.is_none() ? nullptr : nb::cast<In<double>>(left).data();
    freely(
        stop, self.left(), [&](Control& c) { run(self.problem, engine_numbered(engine), *self.options, c, out, each); },
        memory_of(*self.options));
    if (self.problem.B == 1) out.seconds[0] += self.spent;
}

// One sequence, without a batch around it, with so many seconds left if that is not None: (score, bound, status, violations or None, counters, seconds).
nb::tuple decode_one(PyCompiled& compiled, int engine, nb::object unary, nb::object pairwise, nb::object start,
                     nb::object end, nb::object given, int n_counters, Out<int32_t> ids, nb::object left) {
    const auto began = Control::Clock::now();
    PyProblem self;
    Problem& p = self.problem;
    const int n = static_cast<int>(ids.size());
    const auto bound = compiled.depends() ? bind_one(compiled, n, given) : nullptr;
    self.rule(compiled, bound.get());
    const int64_t offsets[] = {0, n};
    p.B = 1, p.N = n, p.offsets = offsets;
    self.score(unary);
    double score = -kInf, upper = kInf, seconds = 0;
    uint8_t status = 0;
    std::vector<int32_t> violations(p.rules.size(), 0);
    std::vector<int64_t> counters(n_counters, 0);
    const double limit =
        self.options->time_limit < 0 || left.is_none() ? self.options->time_limit : nb::cast<double>(left);
    try {
        self.add_head(pairwise, start, end, limit);
    } catch (const Late&) {
        return nb::make_tuple(score, bound_by_scores(Sequence(p, 0)), static_cast<uint8_t>(Status::nothing_found),
                              nb::none(), nb::cast(counters), limit);
    }
    self.spent = std::chrono::duration<double>(Control::Clock::now() - began).count();
    const Outputs out{ids.data(),        &score,          &upper,          &status,
                      violations.data(), counters.data(), counters.size(), &seconds};
    const double each = std::max(0.0, limit - self.spent);
    freely(
        {}, self.left(),
        [&](Control& c) { run(p, engine_numbered(engine), *self.options, c, out, limit < 0 ? nullptr : &each); },
        memory_of(*self.options));
    seconds += self.spent;
    nb::object broken = nb::none();
    if (std::any_of(violations.begin(), violations.end(), [](int32_t v) { return v != 0; }))
        broken = nb::cast(violations);
    return nb::make_tuple(score, upper, status, broken, nb::cast(counters), seconds);
}

nb::list k_best_of(const PyProblem& self, int64_t b, int k) {
    const Options& options = *self.options;
    nb::list out;
    if (self.late) {
        const double bound = bound_by_scores(Sequence(self.problem, b));
        out.append(nb::make_tuple(nb::list(), -kInf, static_cast<int>(Status::nothing_found), bound, nb::list()));
        return out;
    }
    for (const Answer& a : freely(
             {}, self.left(), [&](Control& c) { return k_best(self.problem, b, k, options, c); }, memory_of(options)))
        out.append(nb::make_tuple(a.path, a.score, static_cast<int>(a.status), a.bound, a.violations));
    return out;
}

// seconds: what is left of a call that asks several times; negative: no limit.
nb::tuple log_sum_of(const PyProblem& self, int64_t b, const std::vector<int>& rules, nb::object marginals,
                     double seconds) {
    const Options& options = *self.options;
    if (self.late) return nb::make_tuple(std::numeric_limits<double>::quiet_NaN(), 0.0);
    double* into = marginals.is_none() ? nullptr : nb::cast<Out<double>>(marginals).data();
    const Sum sum = freely(
        {}, seconds, [&](Control& c) { return log_sum(self.problem, b, rules, into, options.max_states, c); },
        memory_of(options));
    return nb::make_tuple(sum.log_z, sum.error);
}

void decode_spans(const PyProblem& self, In<int32_t> n, In<int32_t> spans, In<int32_t> label, bool lazy,
                  const Stop& stop, Out<int32_t> path, Out<int32_t> length, Out<double> score, Out<double> bound,
                  Out<uint8_t> status, Out<int32_t> violations, Out<int64_t> counters, nb::object extents) {
    const int32_t* held = extents.is_none() ? nullptr : nb::cast<In<int32_t>>(extents, false).data();
    const SpanBatch batch{self.problem, n.data(), spans.data(), label.data(), held};
    const SpanOutputs out{path.data(),   length.data(),     score.data(),   bound.data(),
                          status.data(), violations.data(), counters.data()};
    freely(
        stop, self.options->time_limit, [&](Control& c) { run_spans(batch, lazy, *self.options, c, out); },
        memory_of(*self.options));
}

nb::tuple k_best_spans_of(const PyProblem& self, In<int32_t> n, In<int32_t> spans, In<int32_t> label, int64_t b,
                          int k) {
    const SpanBatch batch{self.problem, n.data(), spans.data(), label.data()};
    std::vector<Found> found;
    double bound = kInf;
    const Status status = freely(
        {}, self.options->time_limit,
        [&](Control& c) { return k_best_spans(batch, b, k, *self.options, c, found, bound); },
        memory_of(*self.options));
    nb::list out;
    for (const Found& one : found) out.append(nb::make_tuple(one.path, one.score));
    return nb::make_tuple(static_cast<int>(status), bound, out);
}

// seconds: negative means no limit. None: the time was up.
std::optional<std::vector<int32_t>> best_intervals(In<int32_t> start, In<int32_t> end, In<double> score, bool nested,
                                                   double seconds) {
    const Intervals all{static_cast<int>(score.size()), start.data(), end.data(), score.data()};
    return freely({}, seconds, [&](Control& c) -> std::optional<std::vector<int32_t>> {
        c.begin();
        try {
            return nested ? best_nested(all, c) : best_disjoint(all, c);
        } catch (const Late&) {
            return std::nullopt;
        }
    });
}

}  // namespace

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
            return kernels().first_bad_float(
                x.data(), static_cast<int64_t>(x.size()),
                static_cast<float>(std::min<double>(largest, std::numeric_limits<float>::max())));
        },
        nb::arg("scores"), nb::arg("largest"));
    module.def(
        "first_bad",
        [](In<double> x, double largest) {
            return kernels().first_bad_double(x.data(), static_cast<int64_t>(x.size()), largest);
        },
        nb::arg("scores"), nb::arg("largest"));
    module.def("engine", &kernel_of, nb::arg("name"));
    nb::class_<Stop>(module, "Stop")
        .def(nb::init<>())
        .def("set", [](Stop& stop) { stop.flag = true; })
        .def("is_set", [](const Stop& stop) { return stop.flag.load(); });
    bind_rules(module);
    bind_edges(module);
    bind_perceptron(module);
    bind_tagging(module);
    bind_text(module);
    module.def("decode_one", &decode_one, nb::arg("rules"), nb::arg("engine"), nb::arg("unary"),
               nb::arg("pairwise").none(), nb::arg("start").none(), nb::arg("end").none(), nb::arg("given").none(),
               nb::arg("n_counters"), nb::arg("ids"), nb::arg("left").none() = nb::none());
    module.def("best_intervals", &best_intervals, nb::arg("start"), nb::arg("end"), nb::arg("score"), nb::arg("nested"),
               nb::arg("seconds") = -1.0);
    nb::class_<PyProblem>(module, "Problem")
        .def("__init__", &make_problem, nb::arg("rules"), nb::arg("bound").none(), nb::arg("unary"), nb::arg("offsets"),
             nb::arg("first").none(), nb::arg("heads"), nb::arg("head_of").none())
        .def("decode", &decode, nb::arg("engine"), nb::arg("stop"), nb::arg("ids"), nb::arg("score"), nb::arg("bound"),
             nb::arg("status"), nb::arg("violations"), nb::arg("counters"), nb::arg("seconds"),
             nb::arg("left").none() = nb::none())
        .def("k_best", &k_best_of, nb::arg("sequence"), nb::arg("k"))
        .def("log_sum", &log_sum_of, nb::arg("sequence"), nb::arg("rules"), nb::arg("marginals").none(),
             nb::arg("seconds"))
        .def("decode_spans", &decode_spans, nb::arg("n"), nb::arg("spans"), nb::arg("label"), nb::arg("lazy"),
             nb::arg("stop"), nb::arg("path"), nb::arg("length"), nb::arg("score"), nb::arg("bound"), nb::arg("status"),
             nb::arg("violations"), nb::arg("counters"), nb::arg("extents").none() = nb::none())
        .def("k_best_spans", &k_best_spans_of, nb::arg("n"), nb::arg("spans"), nb::arg("label"), nb::arg("sequence"),
             nb::arg("k"));
}
