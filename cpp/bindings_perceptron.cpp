// The border to Python, learners that are driven by mistakes.
#include <memory>
#include <utility>

#include "bindings_learning.h"
#include "bindings_rules.h"
#include "constrained.h"
#include "ibt.h"

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
    check_length(nb::cast<Out<double>>(sum, false).size(), static_cast<int64_t>(self->slots));
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
    return freely({}, -1, [&](Control& c) {
        return perceptron_pass(x, v, order.data(), static_cast<int64_t>(order.size()), v.step, c);
    });
}

nb::tuple local_of(PyMoving& v, const Joined& x, bool winnow, double margin, double rate, In<int64_t> order) {
    check_fits(v, x);
    int64_t wrong = 0;
    const int64_t updates = freely({}, -1, [&](Control& c) {
        return local_pass(x, v, winnow, margin, rate, order.data(), static_cast<int64_t>(order.size()), v.step, wrong,
                          c);
    });
    return nb::make_tuple(wrong, updates);
}

void constrained_of(const Context& context, const PyRows& rows, const PyExamples& x, In<float> w, In<int32_t> fixed,
                    In<int32_t> ahead, In<double> weights, int beam, Out<int32_t> out, const Stop& stop) {
    check_length(weights.size(), context.size());
    check_length(out.size(), x.n_tokens());
    const Tokens tokens{x.offsets, x.B, fixed.data(), ahead.data()};
    freely(stop, -1, [&](Control& c) {
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
        return constrained_pass(x, tokens, context, v, weights.data(), sums.data(), beam, order.data(),
                                static_cast<int64_t>(order.size()), v.step, c);
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
        Problem problem = problem_of(its, bound.is_none() ? nullptr : &nb::cast<const PyBound&>(bound));
        const auto at = nb::cast<In<int64_t>>(offsets, false);
        problem.offsets = at.data();
        problem.B = static_cast<int64_t>(at.size()) - 1;
        problem.N = problem.offsets[problem.B];
        kept.push_back(std::move(compiled));
        kept.push_back(std::move(bound));
        memory = memory_of(its.core.options);
        return std::make_unique<Guesser>(problem, engine_numbered(engine), its.core.options);
    }

    nb::object offsets;
    std::vector<nb::object> kept;
    size_t memory = 0;  // bytes, per sequence
    TrainingRules rules;
};

nb::tuple pass_under_rules(PyMoving& v, const Joined& x, PyTrainingRules& under, In<int64_t> order) {
    check_fits(v, x);
    check_length(static_cast<size_t>(under.rules.count()), x.B);
    const auto count = static_cast<int64_t>(order.size());
    const Passed passed = freely(
        {}, -1, [&](Control& c) { return under.rules.pass(x, v, order.data(), count, v.step, c); }, under.memory);
    return nb::make_tuple(passed.done, passed.wrong, static_cast<int>(passed.status));
}

}  // namespace

void bind_perceptron(nb::module_& module) {
    nb::class_<PyTrainingRules>(module, "TrainingRules")
        .def(nb::init<nb::object, nb::object, nb::object, int>(), nb::arg("offsets"), nb::arg("rules"),
             nb::arg("bound").none(), nb::arg("engine"))
        .def(
            "relax",
            [](PyTrainingRules& self, nb::object rules, nb::object bound, int engine) {
                self.rules.relax(self.guesser(std::move(rules), std::move(bound), engine));
            },
            nb::arg("rules"), nb::arg("bound").none(), nb::arg("engine"));
    nb::class_<PyMoving>(module, "AveragedWeights")
        .def("__init__", &make_moving, nb::arg("weights"), nb::arg("sum"), nb::arg("pair").none(),
             nb::arg("pair_sum").none(), nb::arg("pair_free").none(), nb::arg("step"),
             nb::arg("class_weight").none() = nb::none(), nb::arg("edges").none() = nb::none(),
             nb::arg("edge_weights").none() = nb::none(), nb::arg("edge_sum").none() = nb::none())
        .def_ro("step", &PyMoving::step)
        .def("perceptron_pass", &pass_of, nb::arg("examples"), nb::arg("order"))
        .def(
            "perceptron_update",
            [](PyMoving& v, const Joined& x, int64_t b, In<int32_t> guess) {
                return perceptron_update(x, v, b, guess.data(), v.step);
            },
            nb::arg("examples"), nb::arg("sequence"), nb::arg("guess"))
        .def("perceptron_pass_under_rules", &pass_under_rules, nb::arg("examples"), nb::arg("rules"), nb::arg("order"))
        .def("local_pass", &local_of, nb::arg("examples"), nb::arg("winnow"), nb::arg("margin"), nb::arg("rate"),
             nb::arg("order"));
    nb::class_<Context>(module, "Context")
        .def(
            "__init__",
            [](Context* c, int m, bool triple, bool ahead, bool into) {
                new (c) Context{m, padded_row(m), triple, ahead, into};
            },
            nb::arg("m"), nb::arg("triple"), nb::arg("ahead"), nb::arg("into"))
        .def_prop_ro("size", &Context::size)
        .def("search", &constrained_of, nb::arg("rows"), nb::arg("examples"), nb::arg("static_weights"),
             nb::arg("fixed"), nb::arg("ahead"), nb::arg("weights"), nb::arg("beam"), nb::arg("out"), nb::arg("stop"))
        .def(
            "learn",
            [](const Context& c, PyMoving& v, const Joined& x, In<int32_t> fixed, In<int32_t> ahead,
               Out<double> weights, Out<double> sums, int beam,
               In<int64_t> order) { return constrained_pass_of(v, c, x, fixed, ahead, weights, sums, beam, order); },
            nb::arg("moving"), nb::arg("examples"), nb::arg("fixed"), nb::arg("ahead"), nb::arg("weights"),
            nb::arg("sums"), nb::arg("beam"), nb::arg("order"));
}

}  // namespace bridle
