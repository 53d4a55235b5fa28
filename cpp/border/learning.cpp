// The border to Python, learning: interned strings, attributes, weights. Arrays belong to Python and are kept alive here.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "text/attributes.h"
#include "text/derived.h"
#include "border/learning.h"
#include "learn/rows.h"

namespace bridle {
namespace {

void make_examples(PyExamples* self, nb::object offsets, nb::object indptr, nb::object attrs, nb::object values,
                   nb::object y) {
    new (self) PyExamples();
    self->offsets = keep<int64_t>(self->kept, offsets);
    self->B = int64_t(nb::cast<In<int64_t>>(offsets).size()) - 1;
    self->indptr = keep<int64_t>(self->kept, indptr);
    self->attrs = keep<int32_t>(self->kept, attrs);
    self->values = keep<float>(self->kept, values);
    self->y = keep<int32_t>(self->kept, y);
}

void make_rows(PyRows* self, int m, nb::object begin, nb::object label, nb::object free) {
    std::vector<nb::object> kept;
    const auto A = int64_t(nb::cast<In<int64_t>>(begin).size()) - 1;
    const int64_t* at = keep<int64_t>(kept, begin);
    const uint16_t* of = keep<uint16_t>(kept, label);
    new (self) PyRows(m, at, A, of, keep<uint8_t>(kept, free));
    self->kept = std::move(kept);
}

void make_attributes(Attributes* self, const std::vector<std::vector<std::pair<int, int>>>& templates,
                     const std::vector<int64_t>& sizes) {
    std::vector<std::vector<Place>> places;
    for (const auto& pairs : templates) {
        places.emplace_back();
        for (const auto& [column, offset] : pairs) places.back().push_back({column, offset});
    }
    new (self) Attributes(std::move(places), sizes);
}

// ids: (columns, N)
Columns columns_of(In<int32_t> ids, In<int64_t> offsets) {
    Columns columns{{}, offsets.data(), int64_t(offsets.size()) - 1};
    if (ids.ndim() != 2) throw nb::value_error("the ids of columns are not a table");
    check_length(ids.shape(1), columns.offsets[columns.B]);
    for (size_t c = 0; c < ids.shape(0); ++c) columns.ids.push_back(ids.data() + c * ids.shape(1));
    return columns;
}

int64_t fit_of(Attributes& self, In<int32_t> ids, In<int64_t> offsets, Out<int64_t> indptr, Out<int32_t> attrs,
               nb::object wanted) {
    const uint8_t* mask = wanted.is_none() ? nullptr : nb::cast<In<uint8_t>>(wanted).data();
    return self.fit(columns_of(ids, offsets), mask, indptr.data(), attrs.data());
}

int64_t encode_of(const Attributes& self, In<int32_t> ids, In<int64_t> offsets, Out<int64_t> indptr, Out<int32_t> attrs,
                  nb::object wanted) {
    const uint8_t* mask = wanted.is_none() ? nullptr : nb::cast<In<uint8_t>>(wanted).data();
    const Columns columns = columns_of(ids, offsets);
    const nb::gil_scoped_release release;
    return self.encode(columns, mask, indptr.data(), attrs.data());
}

void make_decider(Decider* self, const Attributes& attributes, In<int32_t> label_of) {
    check_length(label_of.size(), attributes.size());
    new (self) Decider(attributes, label_of.data());
}

void decide_of(const Decider& self, In<int32_t> ids, In<int64_t> offsets, Out<int32_t> out) {
    const Columns columns = columns_of(ids, offsets);
    check_length(out.size(), columns.offsets[columns.B]);
    const nb::gil_scoped_release release;
    self.decide(columns, out.data());
}

// Strings end to end: (bytes, offsets). Half characters, which UTF-8 does not have, are kept.
nb::tuple packed(const nb::object& strings) {
    const nb::object items = nb::steal(PySequence_Tuple(strings.ptr()));
    if (!items.is_valid()) throw nb::python_error();
    std::vector<uint8_t> bytes;
    std::vector<int64_t> offsets{0};
    const Py_ssize_t n = PyTuple_Size(items.ptr());
    bytes.reserve(8 * n), offsets.reserve(n + 1);
    for (Py_ssize_t k = 0; k < n; ++k) {
        PyObject* item = PyTuple_GetItem(items.ptr(), k);
        Py_ssize_t size = 0;
        const char* at = PyUnicode_AsUTF8AndSize(item, &size);
        nb::object encoded;
        if (!at && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear();
            encoded = nb::steal(PyUnicode_AsEncodedString(item, "utf-8", "surrogatepass"));
            at = encoded.is_valid() ? PyBytes_AsString(encoded.ptr()) : nullptr;
            size = encoded.is_valid() ? PyBytes_Size(encoded.ptr()) : 0;
        }
        if (!at) throw nb::python_error();
        bytes.insert(bytes.end(), at, at + size);
        offsets.push_back(int64_t(bytes.size()));
    }
    const size_t n_bytes = bytes.size(), count = offsets.size();
    return nb::make_tuple(array_of(std::move(bytes), {n_bytes}), array_of(std::move(offsets), {count}));
}

// The kernels trust offsets, so they are looked at here.
Texts texts_of(In<uint8_t> bytes, In<int64_t> offsets) {
    const auto count = int64_t(offsets.size()) - 1;
    const int64_t* at = offsets.data();
    if (count < 0 || at[0] < 0 || at[count] > int64_t(bytes.size()) || !std::is_sorted(at, at + count + 1))
        throw nb::value_error("the offsets of texts do not rise from 0 to the number of bytes");
    return {reinterpret_cast<const char*>(bytes.data()), at, count};
}

void find_strings(const Strings& self, In<uint8_t> bytes, In<int64_t> offsets, Out<int32_t> out) {
    const Texts texts = texts_of(bytes, offsets);
    check_length(out.size(), texts.count);
    const nb::gil_scoped_release release;
    self.find_all(texts, out.data());
}

// Copies a text, often one of a few short names: two overlapping pieces, without a call.
char* put_short(char* p, std::string_view text) {
    const char* from = text.data();
    const size_t n = text.size();
    if (n > 16) std::memcpy(p, from, n);
    else if (n >= 8) std::memcpy(p, from, 8), std::memcpy(p + n - 8, from + n - 8, 8);
    else if (n >= 4) std::memcpy(p, from, 4), std::memcpy(p + n - 4, from + n - 4, 4);
    else
        for (size_t k = 0; k < n; ++k) p[k] = from[k];
    return p + n;
}

// The texts at these places, end to end: (bytes, offsets).
template <class T>
nb::tuple take_texts(In<uint8_t> bytes, In<int64_t> offsets, In<T> at) {
    const Texts texts = texts_of(bytes, offsets);
    const size_t count = at.size();
    const T* which = at.data();
    std::vector<int64_t> ends(count + 1);
    for (size_t k = 0; k < count; ++k) {
        if (which[k] < 0 || which[k] >= texts.count) throw nb::value_error("there is no such text");
        ends[k + 1] = ends[k] + int64_t(texts[which[k]].size());
    }
    std::vector<uint8_t> bytes_taken(ends[count]);
    char* p = reinterpret_cast<char*>(bytes_taken.data());
    for (size_t k = 0; k < count; ++k) p = put_short(p, texts[which[k]]);
    const size_t size = bytes_taken.size();
    return nb::make_tuple(array_of(std::move(bytes_taken), {size}), array_of(std::move(ends), {count + 1}));
}

// at: which of them, or None: all.
void add_strings(Strings& self, In<uint8_t> bytes, In<int64_t> offsets, nb::object at, Out<int32_t> out) {
    const Texts texts = texts_of(bytes, offsets);
    const auto count = int64_t(out.size());
    const int64_t* which = nullptr;
    if (at.is_none()) check_length(out.size(), texts.count);
    else {
        const auto numbers = nb::cast<In<int64_t>>(at, false);
        check_length(numbers.size(), count);
        which = numbers.data();
        const auto beyond = [&](int64_t k) { return k < 0 || k >= texts.count; };
        if (std::any_of(which, which + count, beyond)) throw nb::value_error("there is no such text");
    }
    const nb::gil_scoped_release release;
    for (int64_t k = 0; k < count; ++k) out.data()[k] = self.add(texts[which ? which[k] : k]);
}

struct PyTokenColumns : TokenColumns {
    std::vector<nb::object> kept;
};

// columns: (source or -1, function, table or None, values or None)
void make_token_columns(PyTokenColumns* self,
                        const std::vector<std::tuple<int, std::string, nb::object, nb::object>>& columns) {
    new (self) PyTokenColumns();
    for (const auto& [source, function, table, values] : columns) {
        TokenColumns::Column column{source < 0 ? TokenColumns::place(function) : TokenColumns::Kind::texts};
        if (source >= 0) column.source = size_t(source);
        if (!table.is_none()) {
            column.kind = TokenColumns::Kind::derived;
            column.table = keep<int32_t>(self->kept, table);
            column.size = int32_t(nb::len(table));
            column.derivation = TokenColumns::derivation(function);
            self->kept.push_back(values);
            column.values = nb::cast<const Strings*>(values);
        }
        self->columns.push_back(column);
    }
}

// sources: (bytes, offsets of the texts, their numbers); out: (columns, N)
int64_t token_ids(const PyTokenColumns& self,
                  const std::vector<std::tuple<In<uint8_t>, In<int64_t>, In<int32_t>>>& sources, In<int64_t> offsets,
                  Out<int32_t> out) {
    const int64_t B = int64_t(offsets.size()) - 1, N = offsets.data()[B];
    std::vector<TokenColumns::Source> texts;
    for (const auto& [bytes, ends, numbers] : sources) {
        texts.push_back({texts_of(bytes, ends), numbers.data()});
        check_length(numbers.size(), N);
        check_length(size_t(texts.back().texts.count), N);
    }
    for (const TokenColumns::Column& column : self.columns) {
        const bool reads = column.kind == TokenColumns::Kind::texts || column.kind == TokenColumns::Kind::derived;
        if (reads && column.source >= texts.size()) throw nb::value_error("there is no such source");
    }
    check_length(out.size(), N * int64_t(self.columns.size()));
    const nb::gil_scoped_release release;
    return self.ids(texts, offsets.data(), B, out.data());
}

void dump_strings(const Strings& self, Out<uint8_t> bytes, Out<int64_t> ends) {
    std::copy(self.bytes().begin(), self.bytes().end(), bytes.data());
    std::copy(self.ends().begin(), self.ends().end(), ends.data());
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
    return freely(&stop, -1, [&](Control& c) {
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
    freely(&stop, -1, [&](Control& c) { score_tokens(rows, x, w.data(), out.data(), c); });
}

void score_in_double_of(const PyRows& rows, In<int64_t> indptr, In<int32_t> attrs, nb::object values, In<double> w,
                        Out<double> out, const Stop& stop) {
    const int64_t N = int64_t(indptr.size()) - 1;
    check_length(attrs.size(), indptr.data()[N]);
    check_length(out.size(), N * rows.m);
    check_length(w.size(), rows.begin[rows.rows.size()]);
    if (!values.is_none()) check_length(nb::cast<In<double>>(values, false).size(), indptr.data()[N]);
    const double* of = values.is_none() ? nullptr : nb::cast<In<double>>(values, false).data();
    freely(&stop, -1,
           [&](Control& c) { score_tokens(rows, indptr.data(), attrs.data(), of, N, w.data(), out.data(), c); });
}

// Scores of as many tokens as `out` (count, m) has rows.
void score_joined_of(const Joined& x, int64_t first, In<double> w, Out<double> out) {
    check_length(w.size(), x.n_slots());
    const int64_t count = int64_t(out.shape(0));
    std::vector<double> rows(size_t(count) * x.width);
    x.score(first, count, w.data(), rows.data());
    for (int64_t t = 0; t < count; ++t) std::copy_n(&rows[size_t(t) * x.width], x.m, out.data() + t * x.m);
}

template <class T>
std::vector<const T*> data_of(const std::vector<In<T>>& arrays) {
    std::vector<const T*> out;
    for (const auto& array : arrays) out.push_back(array.data());
    return out;
}

constexpr int64_t kVectorBlock = 4096;

// Works on blocks low .. high-1 of long vectors, each(begin, count, number of the block): numbers that are worked on together stay
// near, and sums over blocks, which are left to the caller, do not depend on who did which block.
template <class Each>
void over_blocks(size_t size, int64_t low, int64_t high, const Each& each) {
    const nb::gil_scoped_release release;
    for (int64_t b = low; b < high; ++b)
        each(b * kVectorBlock, std::min(kVectorBlock, int64_t(size) - b * kVectorBlock), b);
}

// out[block] = a.b
void product_of(In<double> a, In<double> b, int64_t low, int64_t high, Out<double> out) {
    over_blocks(a.size(), low, high, [&](int64_t k, int64_t count, int64_t block) {
        out.data()[block] = kernels().product(a.data() + k, b.data() + k, count);
    });
}

// out = sum over rows of share * row
void combine_of(In<double> shares, const std::vector<In<double>>& rows, int64_t low, int64_t high, Out<double> out) {
    const auto from = data_of(rows);
    over_blocks(out.size(), low, high, [&](int64_t k, int64_t count, int64_t) {
        kernels().combine(shares.data(), from.data(), from.size(), k, k + count, out.data());
    });
}

// As in simd/kernels.h; sums[block][..].
void gradient_of_counts(const std::vector<In<double>>& counts, In<double> gold, In<double> w, double decay, int64_t low,
                        int64_t high, Out<double> out, Out<double> sums) {
    const auto from = data_of(counts);
    over_blocks(out.size(), low, high, [&](int64_t k, int64_t count, int64_t b) {
        kernels().gradient_of(from.data(), from.size(), gold.data(), w.data(), decay, out.data(), k, k + count,
                              sums.data() + 2 * b);
    });
}

template <class T>
void bind_history(nb::module_& module) {
    module.def(
        "take_step",
        [](In<double> there, In<double> w, In<double> gradient, Out<double> g, Out<T> s, Out<T> y, int64_t low,
           int64_t high, Out<double> sums) {
            over_blocks(w.size(), low, high, [&](int64_t k, int64_t count, int64_t b) {
                history_kernels<T>().take_step(there.data() + k, w.data() + k, gradient.data() + k, g.data() + k,
                                               s.data() + k, y.data() + k, count, sums.data() + 4 * b);
            });
        },
        "there"_a, "w"_a, "gradient"_a, "g"_a, "s"_a, "y"_a, "low"_a, "high"_a, "sums"_a);
    module.def(
        "products",  // out[block][row] = row.change, row.p
        [](const std::vector<In<T>>& rows, In<T> change, In<double> p, int64_t low, int64_t high, Out<double> out) {
            const auto from = data_of(rows);
            over_blocks(p.size(), low, high, [&](int64_t k, int64_t count, int64_t b) {
                double* here = out.data() + 2 * size_t(b) * from.size();
                for (const T* row : from) {
                    *here++ = history_kernels<T>().product(row + k, change.data() + k, count);
                    *here++ = history_kernels<T>().with_vector(row + k, p.data() + k, count);
                }
            });
        },
        "rows"_a, "change"_a, "p"_a, "low"_a, "high"_a, "out"_a);
    module.def(
        "aim",
        [](In<double> shares, In<double> p, const std::vector<In<T>>& rows, In<double> w, double step, int64_t low,
           int64_t high, Out<double> d, Out<double> there, Out<double> slope) {
            const auto from = data_of(rows);
            over_blocks(p.size(), low, high, [&](int64_t k, int64_t count, int64_t b) {
                slope.data()[b] = history_kernels<T>().aim(shares.data(), p.data(), from.data(), from.size(), w.data(),
                                                           step, d.data(), there.data(), k, k + count);
            });
        },
        "shares"_a, "p"_a, "rows"_a, "w"_a, "step"_a, "low"_a, "high"_a, "d"_a, "there"_a, "slope"_a);
}

}  // namespace

void bind_learning(nb::module_& module) {
    module.attr("ROW_WIDTH") = kRowLanes;
    module.attr("VECTOR_BLOCK") = kVectorBlock;
    module.def("product", &product_of, "a"_a, "b"_a, "low"_a, "high"_a, "out"_a);
    module.def("combine", &combine_of, "shares"_a, "rows"_a, "low"_a, "high"_a, "out"_a);
    module.def("gradient_of", &gradient_of_counts, "counts"_a, "gold"_a, "w"_a, "decay"_a, "low"_a, "high"_a, "out"_a,
               "sums"_a);
    bind_history<double>(module);
    bind_history<float>(module);
    module.def("packed", &packed, "strings"_a);
    module.def("taken", &take_texts<int32_t>, "bytes"_a, "offsets"_a, "at"_a);
    module.def("taken", &take_texts<int64_t>, "bytes"_a, "offsets"_a, "at"_a);
    nb::class_<Strings>(module, "Strings")
        .def(nb::init<>())
        .def("__len__", &Strings::size)
        .def_prop_ro("n_bytes", [](const Strings& s) { return s.bytes().size(); })
        .def("add", &add_strings, "bytes"_a, "offsets"_a, "at"_a.none(), "out"_a)
        .def("find", &find_strings, "bytes"_a, "offsets"_a, "out"_a)
        .def("dump", &dump_strings, "bytes"_a, "ends"_a);
    nb::class_<PyTokenColumns>(module, "TokenColumns")
        .def("__init__", &make_token_columns, "columns"_a)
        .def("ids", &token_ids, "sources"_a, "offsets"_a, "out"_a);
    nb::class_<Attributes>(module, "Attributes")
        .def("__init__", &make_attributes, "templates"_a, "sizes"_a)
        .def("__len__", &Attributes::size)
        .def("fit", &fit_of, "ids"_a, "offsets"_a, "indptr"_a, "attrs"_a, "wanted"_a.none() = nb::none())
        .def("encode", &encode_of, "ids"_a, "offsets"_a, "indptr"_a, "attrs"_a, "wanted"_a.none() = nb::none())
        .def(
            "renumber", [](Attributes& a, In<int32_t> number, int32_t size) { a.renumber(number.data(), size); },
            "number"_a, "size"_a)
        .def(
            "list", [](const Attributes& a, Out<int32_t> of, Out<uint64_t> key) { a.list(of.data(), key.data()); },
            "of_template"_a, "key"_a)
        .def(
            "put",
            [](Attributes& a, In<int32_t> of, In<uint64_t> key) {
                return a.put(of.data(), key.data(), int32_t(of.size()));
            },
            "of_template"_a, "key"_a);
    nb::class_<PyExamples>(module, "Examples")
        .def("__init__", &make_examples, "offsets"_a, "indptr"_a, "attrs"_a, "values"_a.none(), "y"_a.none());
    nb::class_<PyRows>(module, "Rows")
        .def("__init__", &make_rows, "m"_a, "begin"_a, "label"_a, "free"_a.none())
        .def("score", &score_of, "examples"_a, "weights"_a, "out"_a, "stop"_a)
        .def("score_in_double", &score_in_double_of, "indptr"_a, "attrs"_a, "values"_a.none(), "weights"_a, "out"_a,
             "stop"_a);
    nb::class_<Joined>(module, "Joined")
        .def(nb::init<const PyRows&, const PyExamples&>(), "rows"_a, "examples"_a, nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 3>())
        .def("score", &score_joined_of, "first"_a, "weights"_a, "out"_a);
    nb::class_<Bundles>(module, "Bundles")
        .def("__init__", &make_bundles, "rows"_a, "examples"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("__len__", &Bundles::size)
        .def_prop_ro("n_slots", &Bundles::n_slots)
        .def("extend", &extend_of<double>, "weights"_a, "low"_a, "high"_a)
        .def("extend", &extend_of<float>, "weights"_a, "low"_a, "high"_a)
        .def("expected", &expected_of<double>, "weights"_a, "pairwise"_a.none(), "low"_a, "high"_a, "state"_a,
             "pair"_a.none(), "stop"_a, "cost"_a.none() = nb::none())
        .def("expected", &expected_of<float>, "weights"_a, "pairwise"_a.none(), "low"_a, "high"_a, "state"_a,
             "pair"_a.none(), "stop"_a, "cost"_a.none() = nb::none())
        .def("gold", &gold_of, "state"_a, "pair"_a.none());
    module.def(
        "majority",
        [](const PyExamples& x, Out<int32_t> candidate, Out<int32_t> right, Out<int32_t> total) {
            majority(x, candidate.data(), right.data(), total.data(), int64_t(total.size()));
        },
        "examples"_a, "candidate"_a, "right"_a, "total"_a);
    nb::class_<Decider>(module, "Decider")
        .def("__init__", &make_decider, "attributes"_a, "label_of"_a)
        .def("decide", &decide_of, "ids"_a, "offsets"_a, "out"_a);
    module.def(
        "seen_pairs", [](const PyExamples& x, int words, Out<uint64_t> seen) { seen_pairs(x, words, seen.data()); },
        "examples"_a, "words"_a, "seen"_a);
}

}  // namespace bridle
