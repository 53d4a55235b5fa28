// The border to Python, learners that are driven by mistakes.
#include <memory>
#include <utility>

#include "border/learning.h"
#include "border/rules.h"

namespace bridle {
namespace {

void make_moving(PyMoving* self, nb::object w, nb::object sum, nb::object pair, nb::object pair_sum,
                 nb::object pair_free, int64_t step, nb::object class_weight, nb::object edges, nb::object edge_w,
                 nb::object edge_sum) {
    new (self) PyMoving();
    const auto own = [&](const nb::object& array) {
        self->kept.push_back(array);
        return data_or_null(array);
    };
    self->w = own(w);
    self->sum = own(sum);
    self->pair = own(pair);
    self->pair_sum = own(pair_sum);
    self->pair_free = keep<uint8_t>(self->kept, pair_free);
    self->weight = keep<double>(self->kept, class_weight);
    self->classes = class_weight.is_none() ? 0 : nb::cast<In<double>>(class_weight, false).size();
    self->step = step;
    self->slots = nb::cast<Out<double>>(w, false).size();
    check_length(nb::cast<Out<double>>(sum, false).size(), int64_t(self->slots));
    if (edges.is_none()) return;
    self->edges = &nb::cast<const Edges&>(edges);
    for (const nb::object& array : {edge_w, edge_sum})
        check_length(nb::cast<Out<double>>(array, false).size(), self->edges->n_slots());
    self->edge_w = own(edge_w);
    self->edge_sum = own(edge_sum);
    self->kept.push_back(std::move(edges));
}

void check_fits(const PyMoving& v, const Joined& x) {
    check_length(v.slots, x.n_slots());
    if (v.weight) check_length(v.classes, x.m);
}

int64_t pass_of(PyMoving& v, const Joined& x, In<int64_t> order) {
    check_fits(v, x);
    return freely({}, -1, [&](Control& c) { return perceptron_pass(x, v, span_of(order), v.step, c); });
}

nb::tuple local_of(PyMoving& v, const Joined& x, bool winnow, double margin, double rate, In<int64_t> order) {
    check_fits(v, x);
    int64_t wrong = 0;
    const int64_t updates = freely(
        {}, -1, [&](Control& c) { return local_pass(x, v, winnow, margin, rate, span_of(order), v.step, wrong, c); });
    return nb::make_tuple(wrong, updates);
}

void constrained_of(const Context& context, const PyRows& rows, const PyExamples& x, In<float> w, In<int32_t> fixed,
                    In<int32_t> ahead, In<double> weights, int beam, Out<int32_t> out, const Stop& stop) {
    check_length(weights.size(), context.size());
    check_length(out.size(), x.n_tokens());
    const Tokens tokens{x.offsets, x.B, fixed.data(), ahead.data()};
    freely(&stop, -1, [&](Control& c) {
        constrained_search(rows, x, w.data(), tokens, context, weights.data(), beam, out.data(), c);
    });
}

int64_t constrained_pass_of(PyMoving& v, const Context& context, const Joined& x, In<int32_t> fixed, In<int32_t> ahead,
                            Out<double> weights, Out<double> sums, int beam, In<int64_t> order) {
    check_length(v.slots, x.n_slots());
    check_length(weights.size(), context.size());
    check_length(sums.size(), context.size());
    const Tokens tokens{x.offsets, x.B, fixed.data(), ahead.data()};
    return freely({}, -1, [&](Control& c) {
        return constrained_pass(x, tokens, context, v, weights.data(), sums.data(), beam, span_of(order), v.step, c);
    });
}

// Rules bound to the training sequences; the objects that hold them are kept alive here.
struct PyTrainingRules {
    PyTrainingRules(nb::object offsets, nb::object compiled, nb::object bound, int engine)
        : offsets(std::move(offsets)), rules(guesser(std::move(compiled), std::move(bound), engine)) {}

    std::unique_ptr<Guesser> guesser(nb::object compiled, nb::object bound, int engine) {
        PyCompiled& its = nb::cast<PyCompiled&>(compiled);
        if (bound.is_none() ? its.depends() : !nb::cast<const PyBound&>(bound).compiled.is(compiled))
            throw nb::value_error("rules bound by others, or not at all");
        Problem problem = problem_of(its.core, bound.is_none() ? nullptr : &nb::cast<const PyBound&>(bound).core);
        const auto at = nb::cast<In<int64_t>>(offsets, false);
        problem.offsets = at.data();
        problem.B = int64_t(at.size()) - 1;
        problem.N = problem.offsets[problem.B];
        kept.push_back(std::move(compiled));
        kept.push_back(std::move(bound));
        memory = its.memory();
        return std::make_unique<Guesser>(problem, engine_numbered(engine), its.core.options);
    }

    nb::object offsets;
    std::vector<nb::object> kept;
    size_t memory = 0;  // bytes, per sequence
    TrainingRules rules;
};

nb::tuple pass_under_rules(PyMoving& v, const Joined& x, PyTrainingRules& under, In<int64_t> order) {
    check_fits(v, x);
    check_length(size_t(under.rules.count()), x.B);
    const Passed passed =
        freely({}, -1, [&](Control& c) { return under.rules.pass(x, v, span_of(order), v.step, c); }, under.memory);
    return nb::make_tuple(passed.done, passed.wrong, int(passed.status));
}

}  // namespace

void bind_perceptron(nb::module_& module) {
    nb::class_<PyTrainingRules>(module, "TrainingRules")
        .def(nb::init<nb::object, nb::object, nb::object, int>(), "offsets"_a, "rules"_a, "bound"_a.none(), "engine"_a)
        .def(
            "relax",
            [](PyTrainingRules& self, nb::object rules, nb::object bound, int engine) {
                self.rules.relax(self.guesser(std::move(rules), std::move(bound), engine));
            },
            "rules"_a, "bound"_a.none(), "engine"_a);
    nb::class_<PyMoving>(module, "AveragedWeights")
        .def("__init__", &make_moving, "weights"_a, "sum"_a, "pair"_a.none(), "pair_sum"_a.none(), "pair_free"_a.none(),
             "step"_a, "class_weight"_a.none() = nb::none(), "edges"_a.none() = nb::none(),
             "edge_weights"_a.none() = nb::none(), "edge_sum"_a.none() = nb::none())
        .def_ro("step", &PyMoving::step)
        .def("perceptron_pass", &pass_of, "examples"_a, "order"_a)
        .def(
            "perceptron_update",
            [](PyMoving& v, const Joined& x, int64_t b, In<int32_t> guess) {
                return perceptron_update(x, v, b, guess.data(), v.step);
            },
            "examples"_a, "sequence"_a, "guess"_a)
        .def("perceptron_pass_under_rules", &pass_under_rules, "examples"_a, "rules"_a, "order"_a)
        .def("local_pass", &local_of, "examples"_a, "winnow"_a, "margin"_a, "rate"_a, "order"_a);
    nb::class_<Context>(module, "Context")
        .def(
            "__init__",
            [](Context* c, int m, bool triple, bool ahead, bool into) {
                new (c) Context{m, padded_row(m), triple, ahead, into};
            },
            "m"_a, "triple"_a, "ahead"_a, "into"_a)
        .def_prop_ro("size", &Context::size)
        .def("search", &constrained_of, "rows"_a, "examples"_a, "static_weights"_a, "fixed"_a, "ahead"_a, "weights"_a,
             "beam"_a, "out"_a, "stop"_a)
        .def(
            "learn",
            [](const Context& c, PyMoving& v, const Joined& x, In<int32_t> fixed, In<int32_t> ahead,
               Out<double> weights, Out<double> sums, int beam,
               In<int64_t> order) { return constrained_pass_of(v, c, x, fixed, ahead, weights, sums, beam, order); },
            "moving"_a, "examples"_a, "fixed"_a, "ahead"_a, "weights"_a, "sums"_a, "beam"_a, "order"_a);
}

// The border to Python, features of label bigrams: weights of attributes and pairs of labels.

namespace {

struct PyEdgeRows : EdgeRows {
    std::vector<nb::object> kept;
};

void make_edge_rows(PyEdgeRows* self, int m, nb::object begin, nb::object pair) {
    new (self) PyEdgeRows();
    self->m = m;
    self->A = int64_t(nb::cast<In<int64_t>>(begin).size()) - 1;
    self->begin = keep<int64_t>(self->kept, begin);
    self->pair = keep<int32_t>(self->kept, pair);
    check_length(nb::cast<In<int32_t>>(pair).size(), self->begin[self->A]);
}

int64_t sum_of(const PyEdgeRows& rows, const PyExamples& x, In<float> w, Out<int64_t> indptr, Out<int32_t> pair,
               Out<float> score, const Stop& stop) {
    check_length(w.size(), rows.begin[rows.A]);
    check_length(indptr.size(), x.n_tokens() + 1);
    check_length(pair.size(), int64_t(score.size()));
    return freely(&stop, -1, [&](Control& c) {
        return sum_edges(rows, x, w.data(), indptr.data(), pair.data(), score.data(), c);
    });
}

// Tables of the steps to tokens low .. low + len(out) - 1.
void fill_of(nb::object pairwise, In<int64_t> indptr, In<int32_t> pair, In<float> score, int64_t low, Out<double> out) {
    const int m = int(out.shape(1));
    const int64_t high = low + int64_t(out.shape(0));
    check_length(out.size(), (high - low) * m * m);
    if (low < 0 || high >= int64_t(indptr.size())) throw nb::value_error("there are no such tokens");
    const double* base = pairwise.is_none() ? nullptr : nb::cast<In<double>>(pairwise, false).data();
    if (base) check_length(nb::cast<In<double>>(pairwise, false).size(), int64_t{m} * m);
    const nb::gil_scoped_release release;
    fill_steps(m, base, indptr.data(), pair.data(), score.data(), low, high, out.data());
}

void prepare_of(const Edges& e, In<double> w, int64_t low, int64_t high, Out<double> factor, Out<double> spread) {
    check_length(w.size(), e.n_slots());
    check_length(factor.size(), e.n_slots());
    check_length(spread.size(), e.n_attributes());
    const nb::gil_scoped_release release;
    e.prepare(w.data(), low, high, factor.data(), spread.data());
}

void steps_of(const Edges& e, int64_t b, nb::object pairwise, In<double> w, Out<double> out) {
    check_length(w.size(), e.n_slots());
    check_length(out.size(), (e.tokens().offsets[b + 1] - e.tokens().offsets[b] - 1) * e.m * e.m);
    e.steps(b, data_or_null(pairwise), w.data(), out.data());
}

template <class Real>
double expected_of(const Edges& e, const Bundles& b, In<Real> w, nb::object pairwise, In<double> edge_weights,
                   In<double> factor, In<double> spread, int64_t low, int64_t high, Out<double> state, nb::object pair,
                   Out<double> edge, const Stop& stop, nb::object cost) {
    for (const size_t got : {w.size(), state.size()}) check_length(got, b.n_slots());
    for (const size_t got : {edge_weights.size(), factor.size(), edge.size()}) check_length(got, e.n_slots());
    check_length(spread.size(), e.n_attributes());
    const double* from = data_or_null(pairwise);
    double* into = data_or_null(pair);
    const double* costs = of_labels(cost, e.m);
    const EdgeWeights weights{edge_weights.data(), factor.data(), spread.data()};
    return freely(&stop, -1, [&](Control& c) {
        const double log_z = expected_counts(b.tokens(), e, w.data(), from, weights, costs, low, high, state.data(),
                                             into, edge.data(), c);
        b.reduce(state.data());
        return log_z;
    });
}

template <class Real>
void bind_expected(nb::class_<Edges>& edges) {
    edges.def("expected", &expected_of<Real>, "bundles"_a, "weights"_a, "pairwise"_a.none(), "edge_weights"_a,
              "factor"_a, "spread"_a, "low"_a, "high"_a, "state"_a, "pair"_a.none(), "edge"_a, "stop"_a,
              "cost"_a.none() = nb::none());
}

}  // namespace

void bind_edges(nb::module_& module) {
    nb::class_<PyEdgeRows>(module, "EdgeRows")
        .def("__init__", &make_edge_rows, "m"_a, "begin"_a, "pair"_a)
        .def("sum", &sum_of, "examples"_a, "weights"_a, "indptr"_a, "pair"_a, "score"_a, "stop"_a);
    module.def("fill_steps", &fill_of, "pairwise"_a.none(), "indptr"_a, "pair"_a, "score"_a, "low"_a, "out"_a);
    nb::class_<Edges> edges(module, "Edges");
    edges
        .def(nb::init<const PyEdgeRows&, const PyExamples&>(), "rows"_a, "examples"_a, nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 3>())
        .def("prepare", &prepare_of, "weights"_a, "low"_a, "high"_a, "factor"_a, "spread"_a)
        .def(
            "gold",
            [](const Edges& e, Out<double> counts) {
                check_length(counts.size(), e.n_slots());
                e.gold(counts.data());
            },
            "counts"_a)
        .def("steps", &steps_of, "sequence"_a, "pairwise"_a.none(), "weights"_a, "out"_a);
    bind_expected<double>(edges);
    bind_expected<float>(edges);
}

}  // namespace bridle
