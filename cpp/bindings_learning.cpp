// The border to Python, learning: interned strings, attributes, weights. Arrays belong to Python and are kept alive here.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "attributes.h"
#include "bindings_learning.h"
#include "bundles.h"
#include "long_vectors.h"
#include "majority.h"

namespace bridle {
namespace {

void make_examples(PyExamples* self, nb::object offsets, nb::object indptr, nb::object attrs, nb::object values,
                   nb::object y) {
    new (self) PyExamples();
    self->offsets = keep<int64_t>(self->kept, offsets);
    self->B = static_cast<int64_t>(nb::cast<In<int64_t>>(offsets).size()) - 1;
    self->indptr = keep<int64_t>(self->kept, indptr);
    self->attrs = keep<int32_t>(self->kept, attrs);
    self->values = keep<float>(self->kept, values);
    self->y = keep<int32_t>(self->kept, y);
}

void make_rows(PyRows* self, int m, nb::object begin, nb::object label, nb::object free) {
    std::vector<nb::object> kept;
    const auto A = static_cast<int64_t>(nb::cast<In<int64_t>>(begin).size()) - 1;
    const int64_t* at = keep<int64_t>(kept, begin);
    const uint16_t* of = keep<uint16_t>(kept, label);
    new (self) PyRows(m, at, A, of, keep<uint8_t>(kept, free));
    self->kept = std::move(kept);
}

void make_attributes(Attributes* self, const std::vector<std::vector<std::pair<int, int>>>& templates,
                     const std::vector<int64_t>& sizes) {
    std::vector<std::vector<Place>> places;
    for (const auto& one : templates) {
        places.emplace_back();
        for (const auto& [column, offset] : one) places.back().push_back({column, offset});
    }
    new (self) Attributes(std::move(places), sizes);
}

Columns columns_of(const std::vector<In<int32_t>>& ids, In<int64_t> offsets) {
    Columns columns{{}, offsets.data(), static_cast<int64_t>(offsets.size()) - 1};
    for (const auto& column : ids) columns.ids.push_back(column.data());
    return columns;
}

int64_t fit_of(Attributes& self, const std::vector<In<int32_t>>& ids, In<int64_t> offsets, Out<int64_t> indptr,
               Out<int32_t> attrs, nb::object wanted) {
    const uint8_t* mask = wanted.is_none() ? nullptr : nb::cast<In<uint8_t>>(wanted).data();
    return self.fit(columns_of(ids, offsets), mask, indptr.data(), attrs.data());
}

int64_t encode_of(const Attributes& self, const std::vector<In<int32_t>>& ids, In<int64_t> offsets, Out<int64_t> indptr,
                  Out<int32_t> attrs, nb::object wanted) {
    const uint8_t* mask = wanted.is_none() ? nullptr : nb::cast<In<uint8_t>>(wanted).data();
    const Columns columns = columns_of(ids, offsets);
    const nb::gil_scoped_release release;
    return self.encode(columns, mask, indptr.data(), attrs.data());
}

void make_decider(Decider* self, const Attributes& attributes, In<int32_t> label_of) {
    check_length(label_of.size(), attributes.size());
    new (self) Decider(attributes, label_of.data());
}

void decide_of(const Decider& self, const std::vector<In<int32_t>>& ids, In<int64_t> offsets, Out<int32_t> out) {
    const Columns columns = columns_of(ids, offsets);
    check_length(out.size(), columns.offsets[columns.B]);
    const nb::gil_scoped_release release;
    self.decide(columns, out.data());
}

std::string_view view(nb::bytes text) { return {text.c_str(), text.size()}; }

bool add_strings(Strings& self, nb::bytes text, Out<int32_t> out) {
    return self.add_all(view(text), static_cast<int64_t>(out.size()), out.data());
}

bool find_strings(const Strings& self, nb::bytes text, Out<int32_t> out) {
    const std::string_view all = view(text);
    const nb::gil_scoped_release release;
    return self.find_all(all, static_cast<int64_t>(out.size()), out.data());
}

void dump_strings(const Strings& self, Out<uint8_t> bytes, Out<int64_t> ends) {
    std::copy(self.bytes().begin(), self.bytes().end(), bytes.data());
    std::copy(self.ends().begin(), self.ends().end(), ends.data());
}

// False: a string is there twice, or the ends do not rise to the number of bytes.
bool fill_strings(Strings& self, In<uint8_t> bytes, In<int64_t> ends) {
    int64_t begin = 0;
    for (size_t k = 0; k < ends.size(); begin = ends.data()[k++]) {
        const int64_t end = ends.data()[k];
        if (end < begin || end > static_cast<int64_t>(bytes.size())) return false;
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + begin,
                                    static_cast<size_t>(end - begin));
        if (self.add(text) != static_cast<int32_t>(k)) return false;
    }
    return begin == static_cast<int64_t>(bytes.size());
}

void make_bundles(Bundles* self, const PyRows& rows, const PyExamples& x) {
    const nb::gil_scoped_release release;
    new (self) Bundles(rows, x);
}

template <class Real>
void extend_of(const Bundles& b, Out<Real> w, int64_t low, int64_t high) {
    check_length(w.size(), b.n_slots());
    const nb::gil_scoped_release release;
    b.extend(w.data(), low, high);
}

template <class Real>
double expected_of(const Bundles& b, In<Real> w, nb::object pairwise, int64_t low, int64_t high, Out<double> state,
                   nb::object pair, const Stop& stop, nb::object cost) {
    check_length(w.size(), b.n_slots());
    check_length(state.size(), b.n_slots());
    const double* from = data_or_null(pairwise);
    const Real* weights = w.data();
    const double* costs = of_labels(cost, b.tokens().m);
    double *into = data_or_null(pair), *sums = state.data();
    return freely(stop, -1, [&](Control& c) {
        const double log_z = expected_counts(b.tokens(), weights, from, costs, low, high, sums, into, c);
        b.reduce(sums);
        return log_z;
    });
}

void gold_of(const Bundles& b, Out<double> state, nb::object pair) {
    check_length(state.size(), b.n_slots());
    gold_counts(b.tokens(), state.data(), data_or_null(pair));
    b.reduce(state.data());
}

void score_of(const PyRows& rows, const PyExamples& x, In<float> w, Out<float> out, const Stop& stop) {
    freely(stop, -1, [&](Control& c) { score_tokens(rows, x, w.data(), out.data(), c); });
}

void score_in_double_of(const PyRows& rows, In<int64_t> indptr, In<int32_t> attrs, nb::object values, In<double> w,
                        Out<double> out, const Stop& stop) {
    const int64_t N = static_cast<int64_t>(indptr.size()) - 1;
    check_length(attrs.size(), indptr.data()[N]);
    check_length(out.size(), N * rows.m);
    check_length(w.size(), rows.begin[rows.rows.size()]);
    if (!values.is_none()) check_length(nb::cast<In<double>>(values, false).size(), indptr.data()[N]);
    const double* of = values.is_none() ? nullptr : nb::cast<In<double>>(values, false).data();
    freely(stop, -1,
           [&](Control& c) { score_tokens(rows, indptr.data(), attrs.data(), of, N, w.data(), out.data(), c); });
}

// Scores of as many tokens as `out` (count, m) has rows.
void score_joined_of(const Joined& x, int64_t first, In<double> w, Out<double> out) {
    check_length(w.size(), x.n_slots());
    const int64_t count = static_cast<int64_t>(out.shape(0));
    std::vector<double> rows(static_cast<size_t>(count) * x.width);
    x.score(first, count, w.data(), rows.data());
    for (int64_t t = 0; t < count; ++t) std::copy_n(&rows[static_cast<size_t>(t) * x.width], x.m, out.data() + t * x.m);
}

template <class T>
std::vector<const T*> data_of(const std::vector<In<T>>& arrays) {
    std::vector<const T*> out;
    for (const auto& array : arrays) out.push_back(array.data());
    return out;
}

Blocks blocks_of(size_t size, int64_t low, int64_t high) { return {static_cast<int64_t>(size), low, high}; }

void product_of(In<double> a, In<double> b, int64_t low, int64_t high, Out<double> out) {
    const nb::gil_scoped_release release;
    product(blocks_of(a.size(), low, high), a.data(), b.data(), out.data());
}

void combine_of(In<double> shares, const std::vector<In<double>>& rows, int64_t low, int64_t high, Out<double> out) {
    const auto from = data_of(rows);
    const nb::gil_scoped_release release;
    combine(blocks_of(out.size(), low, high), shares.data(), from, out.data());
}

void gradient_of_counts(const std::vector<In<double>>& counts, In<double> gold, In<double> w, double decay, int64_t low,
                        int64_t high, Out<double> out, Out<double> sums) {
    const auto from = data_of(counts);
    const nb::gil_scoped_release release;
    gradient_of(blocks_of(out.size(), low, high), from, gold.data(), w.data(), decay, out.data(), sums.data());
}

template <class T>
void bind_history(nb::module_& module) {
    module.def(
        "take_step",
        [](In<double> there, In<double> w, In<double> gradient, Out<double> g, Out<T> s, Out<T> y, int64_t low,
           int64_t high, Out<double> sums) {
            const nb::gil_scoped_release release;
            take_step(blocks_of(w.size(), low, high), there.data(), w.data(), gradient.data(), g.data(), s.data(),
                      y.data(), sums.data());
        },
        nb::arg("there"), nb::arg("w"), nb::arg("gradient"), nb::arg("g"), nb::arg("s"), nb::arg("y"), nb::arg("low"),
        nb::arg("high"), nb::arg("sums"));
    module.def(
        "products",
        [](const std::vector<In<T>>& rows, In<T> change, In<double> p, int64_t low, int64_t high, Out<double> out) {
            const auto from = data_of(rows);
            const nb::gil_scoped_release release;
            products(blocks_of(p.size(), low, high), from, change.data(), p.data(), out.data());
        },
        nb::arg("rows"), nb::arg("change"), nb::arg("p"), nb::arg("low"), nb::arg("high"), nb::arg("out"));
    module.def(
        "aim",
        [](In<double> shares, In<double> p, const std::vector<In<T>>& rows, In<double> w, double step, int64_t low,
           int64_t high, Out<double> d, Out<double> there, Out<double> slope) {
            const auto from = data_of(rows);
            const nb::gil_scoped_release release;
            aim(blocks_of(p.size(), low, high), shares.data(), p.data(), from, w.data(), step, d.data(), there.data(),
                slope.data());
        },
        nb::arg("shares"), nb::arg("p"), nb::arg("rows"), nb::arg("w"), nb::arg("step"), nb::arg("low"),
        nb::arg("high"), nb::arg("d"), nb::arg("there"), nb::arg("slope"));
}

}  // namespace

void bind_learning(nb::module_& module) {
    module.attr("ROW_WIDTH") = kRowLanes;
    module.attr("VECTOR_BLOCK") = kVectorBlock;
    module.def("product", &product_of, nb::arg("a"), nb::arg("b"), nb::arg("low"), nb::arg("high"), nb::arg("out"));
    module.def("combine", &combine_of, nb::arg("shares"), nb::arg("rows"), nb::arg("low"), nb::arg("high"),
               nb::arg("out"));
    module.def("gradient_of", &gradient_of_counts, nb::arg("counts"), nb::arg("gold"), nb::arg("w"), nb::arg("decay"),
               nb::arg("low"), nb::arg("high"), nb::arg("out"), nb::arg("sums"));
    bind_history<double>(module);
    bind_history<float>(module);
    nb::class_<Strings> strings(module, "Strings");
    strings.def(nb::init<>())
        .def("__len__", &Strings::size)
        .def_prop_ro("n_bytes", [](const Strings& s) { return s.bytes().size(); })
        .def("add", &add_strings, nb::arg("text"), nb::arg("out"))
        .def("find", &find_strings, nb::arg("text"), nb::arg("out"))
        .def("dump", &dump_strings, nb::arg("bytes"), nb::arg("ends"))
        .def("fill", &fill_strings, nb::arg("bytes"), nb::arg("ends"));
    bind_texts(strings);
    nb::class_<Attributes>(module, "Attributes")
        .def("__init__", &make_attributes, nb::arg("templates"), nb::arg("sizes"))
        .def("__len__", &Attributes::size)
        .def("fit", &fit_of, nb::arg("ids"), nb::arg("offsets"), nb::arg("indptr"), nb::arg("attrs"),
             nb::arg("wanted").none() = nb::none())
        .def("encode", &encode_of, nb::arg("ids"), nb::arg("offsets"), nb::arg("indptr"), nb::arg("attrs"),
             nb::arg("wanted").none() = nb::none())
        .def(
            "renumber", [](Attributes& a, In<int32_t> number, int32_t size) { a.renumber(number.data(), size); },
            nb::arg("number"), nb::arg("size"))
        .def(
            "list", [](const Attributes& a, Out<int32_t> of, Out<uint64_t> key) { a.list(of.data(), key.data()); },
            nb::arg("of_template"), nb::arg("key"))
        .def(
            "put",
            [](Attributes& a, In<int32_t> of, In<uint64_t> key) {
                return a.put(of.data(), key.data(), static_cast<int32_t>(of.size()));
            },
            nb::arg("of_template"), nb::arg("key"));
    nb::class_<PyExamples>(module, "Examples")
        .def("__init__", &make_examples, nb::arg("offsets"), nb::arg("indptr"), nb::arg("attrs"),
             nb::arg("values").none(), nb::arg("y").none());
    nb::class_<PyRows>(module, "Rows")
        .def("__init__", &make_rows, nb::arg("m"), nb::arg("begin"), nb::arg("label"), nb::arg("free").none())
        .def("score", &score_of, nb::arg("examples"), nb::arg("weights"), nb::arg("out"), nb::arg("stop"))
        .def("score_in_double", &score_in_double_of, nb::arg("indptr"), nb::arg("attrs"), nb::arg("values").none(),
             nb::arg("weights"), nb::arg("out"), nb::arg("stop"));
    nb::class_<Joined>(module, "Joined")
        .def(nb::init<const PyRows&, const PyExamples&>(), nb::arg("rows"), nb::arg("examples"), nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 3>())
        .def("score", &score_joined_of, nb::arg("first"), nb::arg("weights"), nb::arg("out"));
    nb::class_<Bundles>(module, "Bundles")
        .def("__init__", &make_bundles, nb::arg("rows"), nb::arg("examples"), nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 3>())
        .def("__len__", &Bundles::size)
        .def_prop_ro("n_slots", &Bundles::n_slots)
        .def("extend", &extend_of<double>, nb::arg("weights"), nb::arg("low"), nb::arg("high"))
        .def("extend", &extend_of<float>, nb::arg("weights"), nb::arg("low"), nb::arg("high"))
        .def("expected", &expected_of<double>, nb::arg("weights"), nb::arg("pairwise").none(), nb::arg("low"),
             nb::arg("high"), nb::arg("state"), nb::arg("pair").none(), nb::arg("stop"),
             nb::arg("cost").none() = nb::none())
        .def("expected", &expected_of<float>, nb::arg("weights"), nb::arg("pairwise").none(), nb::arg("low"),
             nb::arg("high"), nb::arg("state"), nb::arg("pair").none(), nb::arg("stop"),
             nb::arg("cost").none() = nb::none())
        .def("gold", &gold_of, nb::arg("state"), nb::arg("pair").none());
    module.def(
        "majority",
        [](const PyExamples& x, Out<int32_t> candidate, Out<int32_t> right, Out<int32_t> total) {
            majority(x, candidate.data(), right.data(), total.data(), static_cast<int64_t>(total.size()));
        },
        nb::arg("examples"), nb::arg("candidate"), nb::arg("right"), nb::arg("total"));
    nb::class_<Decider>(module, "Decider")
        .def("__init__", &make_decider, nb::arg("attributes"), nb::arg("label_of"))
        .def("decide", &decide_of, nb::arg("ids"), nb::arg("offsets"), nb::arg("out"));
    module.def(
        "seen_pairs", [](const PyExamples& x, int words, Out<uint64_t> seen) { seen_pairs(x, words, seen.data()); },
        nb::arg("examples"), nb::arg("words"), nb::arg("seen"));
}

}  // namespace bridle
