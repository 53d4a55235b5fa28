// The border to Python, decoding: typed arrays in, typed arrays out. Arrays belong to Python and are kept alive here.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>

#include "bindings.h"
#include "engines.h"
#include "simd/tiers.h"
#include "spans.h"

using namespace bridle;

namespace {

struct PyProblem {
    Problem problem;
    std::vector<nb::object> kept;

    template <class T> const T* keep(const nb::object& array) {
        if (array.is_none()) return nullptr;
        kept.push_back(array);
        return nb::cast<In<T>>(array, false).data();  // without a conversion, whose copy nobody would keep
    }
};

// None: nothing is masked
std::vector<double> mask_of(const nb::object& allowed) {
    if (allowed.is_none()) return {};
    const auto from = nb::cast<In<uint8_t>>(allowed);
    std::vector<double> mask(from.size());
    for (size_t c = 0; c < mask.size(); ++c) mask[c] = from.data()[c] ? 0.0 : -kInf;
    return mask;
}

// scores (m), or None, and a mask (m), or none; padded
std::vector<double> edge_of(const nb::object& scores, const std::vector<double>& mask, int m) {
    if (scores.is_none() && mask.empty()) return {};
    std::vector<double> out(padded(m), -kInf);
    for (int y = 0; y < m; ++y) out[y] = mask.empty() ? 0.0 : mask[y];
    if (scores.is_none()) return out;
    const auto from = nb::cast<In<double>>(scores);
    for (int y = 0; y < m; ++y) out[y] += from.data()[y];
    return out;
}

void make_automaton(CountingAutomaton* self, In<int32_t> step, In<int32_t> violations, In<int32_t> final, In<uint16_t> class_of, int sense, int limit, In<uint8_t> edges, In<int32_t> room) {
    const auto copy = [](const auto& x) { return std::vector(x.data(), x.data() + x.size()); };
    new (self) CountingAutomaton{static_cast<int>(step.shape(0)), static_cast<int>(step.shape(1)), static_cast<int>(step.shape(2)),
                       copy(class_of), {}, copy(final), sense, limit, copy(edges), copy(room), {}};
    self->moves.resize(step.size());
    for (size_t c = 0; c < step.size(); ++c) self->moves[c] = {step.data()[c], violations.data()[c]};
    self->find_local();
}

void make_tables(TableCache* self, int m, nb::object step_allowed, nb::object same_type, nb::object first, nb::object last) {
    std::vector<double> free = mask_of(step_allowed), tied = mask_of(same_type);
    for (size_t c = 0; c < tied.size() && !free.empty(); ++c) tied[c] += free[c];
    new (self) TableCache(m, std::move(free), std::move(tied), mask_of(first), mask_of(last));
}

void make_problem(PyProblem* self, nb::object unary, nb::object offsets, nb::object first, nb::object tables) {
    new (self) PyProblem();
    Problem& p = self->problem;
    self->kept.push_back(tables);
    p.tables = nb::cast<TableCache*>(tables);
    p.m = p.tables->m;
    p.offsets = self->keep<int64_t>(offsets);
    p.B = static_cast<int64_t>(nb::cast<In<int64_t>>(offsets).size()) - 1;
    p.N = p.offsets[p.B];
    p.first = self->keep<int64_t>(first);
    if (nb::isinstance<In<float>>(unary)) p.unary32 = self->keep<float>(unary);
    else p.unary64 = self->keep<double>(unary);
}

void add_head(PyProblem& self, nb::object pairwise, bool per_step, nb::object start, nb::object end) {
    Problem& p = self.problem;
    Head& head = p.heads.emplace_back();
    head.pairwise = self.keep<double>(pairwise);
    head.per_step = per_step;
    head.start = edge_of(start, p.tables->first_mask, p.m);
    head.end = edge_of(end, p.tables->last_mask, p.m);
    if (!per_step) head.tables = freely({}, -1, [&](Control& c) { return p.tables->find(head.pairwise, c); });
}

void add_part(PyProblem& self, int rule, nb::list automata, nb::object which, nb::object marks) {
    std::vector<const CountingAutomaton*> all;
    for (nb::handle automaton : automata) all.push_back(nb::cast<const CountingAutomaton*>(automaton));
    self.kept.push_back(automata);
    RuleAutomaton part{rule, all, self.keep<uint8_t>(marks)};
    if (!which.is_none()) {
        const auto index = nb::cast<In<int32_t>>(which);
        part.automaton.clear();
        for (size_t b = 0; b < index.size(); ++b) part.automaton.push_back(index.data()[b] < 0 ? nullptr : all[index.data()[b]]);
    }
    self.problem.parts.push_back(std::move(part));
}

void set_masks(PyProblem& self, nb::object head_of, nb::object allowed, int words, nb::object tied) {
    self.problem.head_of = self.keep<int32_t>(head_of);
    self.problem.allowed = self.keep<uint64_t>(allowed);
    self.problem.words = words;
    self.problem.tied = self.keep<uint8_t>(tied);
}

void decode(const PyProblem& self, const std::string& engine, const Options& options, const Stop& stop, Out<int32_t> ids,
            Out<double> score, Out<double> bound, Out<uint8_t> status, Out<int32_t> violations, Out<int64_t> counters) {
    const Outputs out{ids.data(), score.data(), bound.data(), status.data(), violations.data(), counters.data(), counters.shape(1)};
    freely(stop, options.time_limit, [&](Control& c) { run(self.problem, engine_by_name(engine), options, c, out); });
}

nb::list k_best_of(const PyProblem& self, int64_t b, int k, const Options& options) {
    nb::list out;
    for (const Answer& a : freely({}, options.time_limit, [&](Control& c) { return k_best(self.problem, b, k, options, c); }))
        out.append(nb::make_tuple(a.path, a.score, static_cast<int>(a.status)));
    return out;
}

double log_sum_of(const PyProblem& self, int64_t b, const std::vector<int>& parts, nb::object marginals, const Options& options) {
    double* into = marginals.is_none() ? nullptr : nb::cast<Out<double>>(marginals).data();
    return freely({}, options.time_limit, [&](Control& c) { return log_sum(self.problem, b, parts, into, options.max_states, c); });
}

void decode_spans(const PyProblem& self, In<int32_t> n, In<int32_t> spans, In<int32_t> label, bool lazy, const Options& options,
                  const Stop& stop, Out<int32_t> path, Out<int32_t> length, Out<double> score, Out<double> bound,
                  Out<uint8_t> status, Out<int32_t> violations, Out<int64_t> counters) {
    const SpanBatch batch{self.problem, n.data(), spans.data(), label.data()};
    const SpanOutputs out{path.data(), length.data(), score.data(), bound.data(), status.data(), violations.data(), counters.data()};
    freely(stop, options.time_limit, [&](Control& c) { run_spans(batch, lazy, options, c, out); });
}

nb::tuple k_best_spans_of(const PyProblem& self, In<int32_t> n, In<int32_t> spans, In<int32_t> label, int64_t b, int k, const Options& options) {
    const SpanBatch batch{self.problem, n.data(), spans.data(), label.data()};
    std::vector<Found> found;
    const Status status = freely({}, options.time_limit, [&](Control& c) { return k_best_spans(batch, b, k, options, c, found); });
    nb::list out;
    for (const Found& one : found) out.append(nb::make_tuple(one.path, one.score));
    return nb::make_tuple(static_cast<int>(status), out);
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
    module.def("first_bad", [](In<float> x, double largest) { return kernels().first_bad_float(x.data(), static_cast<int64_t>(x.size()), static_cast<float>(std::min<double>(largest, std::numeric_limits<float>::max()))); }, nb::arg("scores"), nb::arg("largest"));
    module.def("first_bad", [](In<double> x, double largest) { return kernels().first_bad_double(x.data(), static_cast<int64_t>(x.size()), largest); }, nb::arg("scores"), nb::arg("largest"));
    nb::class_<CountingAutomaton>(module, "CountingAutomaton")
        .def("__init__", &make_automaton, nb::arg("step"), nb::arg("violations"), nb::arg("final"), nb::arg("class_of"), nb::arg("sense"), nb::arg("limit"), nb::arg("edges"), nb::arg("room"));
    nb::class_<Options>(module, "Options")
        .def(nb::init<>())
        .def_rw("time_limit", &Options::time_limit)
        .def_rw("max_states", &Options::max_states)
        .def_rw("width", &Options::width)
        .def_rw("max_product_states", &Options::max_product_states)
        .def_rw("tau", &Options::tau)
        .def_rw("seed", &Options::seed)
        .def_rw("arcs", &Options::arcs);
    nb::class_<Stop>(module, "Stop").def(nb::init<>()).def("set", [](Stop& stop) { stop.flag = true; });
    nb::class_<TableCache>(module, "TableCache")
        .def("__init__", &make_tables, nb::arg("m"), nb::arg("step_allowed").none(), nb::arg("same_type").none(), nb::arg("first").none(), nb::arg("last").none());
    nb::class_<PyProblem>(module, "Problem")
        .def("__init__", &make_problem, nb::arg("unary"), nb::arg("offsets"), nb::arg("first").none(), nb::arg("tables"))
        .def("add_head", &add_head, nb::arg("pairwise").none(), nb::arg("per_step"), nb::arg("start").none(), nb::arg("end").none())
        .def("set_masks", &set_masks, nb::arg("head_of"), nb::arg("allowed").none(), nb::arg("words"), nb::arg("tied").none())
        .def("add_rule", [](PyProblem& p, int mode, double penalty) { p.problem.rules.push_back({static_cast<Mode>(mode), penalty}); }, nb::arg("mode"), nb::arg("penalty"))
        .def("add_part", &add_part, nb::arg("rule"), nb::arg("automata"), nb::arg("which").none(), nb::arg("marks").none())
        .def("decode", &decode, nb::arg("engine"), nb::arg("options"), nb::arg("stop"), nb::arg("ids"), nb::arg("score"), nb::arg("bound"), nb::arg("status"), nb::arg("violations"), nb::arg("counters"))
        .def("k_best", &k_best_of, nb::arg("sequence"), nb::arg("k"), nb::arg("options"))
        .def("log_sum", &log_sum_of, nb::arg("sequence"), nb::arg("parts"), nb::arg("marginals").none(), nb::arg("options"))
        .def("decode_spans", &decode_spans, nb::arg("n"), nb::arg("spans"), nb::arg("label"), nb::arg("lazy"), nb::arg("options"), nb::arg("stop"), nb::arg("path"), nb::arg("length"), nb::arg("score"), nb::arg("bound"), nb::arg("status"), nb::arg("violations"), nb::arg("counters"))
        .def("k_best_spans", &k_best_spans_of, nb::arg("n"), nb::arg("spans"), nb::arg("label"), nb::arg("sequence"), nb::arg("k"), nb::arg("options"));
}
