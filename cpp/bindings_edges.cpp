// The border to Python, features of label bigrams: weights of attributes and pairs of labels.
#include "bindings_learning.h"
#include "bundles.h"
#include "edges.h"

namespace bridle {
namespace {

struct PyEdgeRows : EdgeRows {
    std::vector<nb::object> kept;
};

void make_edge_rows(PyEdgeRows* self, int m, nb::object begin, nb::object pair) {
    new (self) PyEdgeRows();
    self->m = m;
    self->A = static_cast<int64_t>(nb::cast<In<int64_t>>(begin).size()) - 1;
    self->begin = keep<int64_t>(self->kept, begin);
    self->pair = keep<int32_t>(self->kept, pair);
    check_length(nb::cast<In<int32_t>>(pair).size(), self->begin[self->A]);
}

int64_t sum_of(const PyEdgeRows& rows, const PyExamples& x, In<float> w, Out<int64_t> indptr, Out<int32_t> pair,
               Out<float> score, const Stop& stop) {
    check_length(w.size(), rows.begin[rows.A]);
    check_length(indptr.size(), x.n_tokens() + 1);
    check_length(pair.size(), static_cast<int64_t>(score.size()));
    return freely(stop, -1, [&](Control& c) {
        return sum_edges(rows, x, w.data(), indptr.data(), pair.data(), score.data(), c);
    });
}

// Tables of the steps to tokens low .. low + len(out) - 1.
void fill_of(nb::object pairwise, In<int64_t> indptr, In<int32_t> pair, In<float> score, int64_t low, Out<double> out) {
    const int m = static_cast<int>(out.shape(1));
    const int64_t high = low + static_cast<int64_t>(out.shape(0));
    check_length(out.size(), (high - low) * m * m);
    if (low < 0 || high >= static_cast<int64_t>(indptr.size())) throw nb::value_error("there are no such tokens");
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
    return freely(stop, -1, [&](Control& c) {
        const double log_z = expected_counts(b.tokens(), e, w.data(), from, weights, costs, low, high, state.data(),
                                             into, edge.data(), c);
        b.reduce(state.data());
        return log_z;
    });
}

template <class Real>
void bind_expected(nb::class_<Edges>& edges) {
    edges.def("expected", &expected_of<Real>, nb::arg("bundles"), nb::arg("weights"), nb::arg("pairwise").none(),
              nb::arg("edge_weights"), nb::arg("factor"), nb::arg("spread"), nb::arg("low"), nb::arg("high"),
              nb::arg("state"), nb::arg("pair").none(), nb::arg("edge"), nb::arg("stop"),
              nb::arg("cost").none() = nb::none());
}

}  // namespace

void bind_edges(nb::module_& module) {
    nb::class_<PyEdgeRows>(module, "EdgeRows")
        .def("__init__", &make_edge_rows, nb::arg("m"), nb::arg("begin"), nb::arg("pair"))
        .def("sum", &sum_of, nb::arg("examples"), nb::arg("weights"), nb::arg("indptr"), nb::arg("pair"),
             nb::arg("score"), nb::arg("stop"));
    module.def("fill_steps", &fill_of, nb::arg("pairwise").none(), nb::arg("indptr"), nb::arg("pair"), nb::arg("score"),
               nb::arg("low"), nb::arg("out"));
    nb::class_<Edges> edges(module, "Edges");
    edges
        .def(nb::init<const PyEdgeRows&, const PyExamples&>(), nb::arg("rows"), nb::arg("examples"),
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("prepare", &prepare_of, nb::arg("weights"), nb::arg("low"), nb::arg("high"), nb::arg("factor"),
             nb::arg("spread"))
        .def(
            "gold",
            [](const Edges& e, Out<double> counts) {
                check_length(counts.size(), e.n_slots());
                e.gold(counts.data());
            },
            nb::arg("counts"))
        .def("steps", &steps_of, nb::arg("sequence"), nb::arg("pairwise").none(), nb::arg("weights"), nb::arg("out"));
    bind_expected<double>(edges);
    bind_expected<float>(edges);
}

}  // namespace bridle
