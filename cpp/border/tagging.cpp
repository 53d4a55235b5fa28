// The border to Python, tagging by ready-made features: a list or a dict per token in, names of labels out, in one call.
//
// Lists, tuples and sets of strings, and dicts whose values are strings, numbers, booleans, dicts, lists, tuples and sets, are
// read here. Tokens that are something else are turned by Python, which knows all that is allowed and has the words for all
// that is not, into pairs of a name and a value.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <string>

#include "border/learning.h"
#include "border/rules.h"
#include "learn/feature_tagger.h"

namespace bridle {
namespace {

constexpr int64_t kLong = 1 << 16;       // steps from label to label for which the GIL is let go
constexpr double kLargestScore = 1e290;  // as arrays.py has it
constexpr int kDeepest = 50;             // of a dict in a dict, ...

// Memory for texts, all of which is given back at once. (std::pmr has the same, but not on macOS before 14.)
class Arena {
  public:
    char* take(size_t size) {
        if (size > left_) {
            blocks_.push_back(std::make_unique<char[]>(std::max(size, kBlock)));
            at_ = blocks_.back().get();
            left_ = std::max(size, kBlock);
        }
        char* out = at_;
        at_ += size, left_ -= size;
        return out;
    }
    void clear() {
        if (blocks_.empty()) return;
        blocks_.resize(1);
        at_ = blocks_[0].get();
        left_ = kBlock;  // the first may be longer
    }

  private:
    static constexpr size_t kBlock = 4096;
    std::vector<std::unique_ptr<char[]>> blocks_;
    char* at_ = nullptr;
    size_t left_ = 0;
};

// The attributes of one token, as views of Python's texts or of names that were put together here.
class Attributed {
  public:
    Attributed(double largest, nb::handle scalars) : largest_(largest), scalars_(scalars) {}

    bool read(PyObject* token) {  // false: only Python can read it
        texts_.clear(), values_.clear(), names_.clear(), prefix_.clear(), held_.clear();
        return PyDict_Check(token) ? dict(token) : list(token);
    }
    // made: a list of pairs, as Python turns a token into; false: one is not, or a name is not text.
    bool read_pairs(nb::object listed_pairs) {
        texts_.clear(), values_.clear(), held_.clear();
        PyObject* pairs = listed_pairs.ptr();
        if (!PyList_Check(pairs)) return false;
        held_.push_back(std::move(listed_pairs));
        std::string_view name;
        for (Py_ssize_t k = 0; k < PyList_Size(pairs); ++k) {
            PyObject* pair = PyList_GetItem(pairs, k);
            if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) return false;
            PyObject* value = PyTuple_GetItem(pair, 1);
            if (!PyFloat_Check(value) || !text(PyTuple_GetItem(pair, 0), name)) return false;
            put(name, PyFloat_AsDouble(value));
        }
        return true;
    }
    void add_to(const FeatureTagger& tagger, double* row) const { tagger.add(texts_, values_, row); }

  private:
    // Without the GIL another thread may change what is read: then a copy is.
    PyObject* own(PyObject* x) {
#if defined(Py_GIL_DISABLED)
        held_.push_back(nb::steal(PyDict_Check(x) ? PyDict_Copy(x) : PySequence_Tuple(x)));
        if (!held_.back().is_valid()) throw nb::python_error();
        return held_.back().ptr();
#else
        return x;
#endif
    }

    // Before Python 3.12 the collector may run when a list is made, and Python's code then, in whatever thread.
    static nb::object listed(PyObject* set) {
        const bool collects = PyGC_Disable();
        nb::object out = nb::steal(PySequence_List(set));
        if (collects) PyGC_Enable();
        if (!out.is_valid()) throw nb::python_error();
        return out;
    }

    bool is_scalar(PyObject* x) const {
        if (PyDict_Check(x) || PyList_Check(x)) return false;
        const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(x));
        for (Py_ssize_t k = 0; k < PyTuple_Size(scalars_.ptr()); ++k)
            if (PyTuple_GetItem(scalars_.ptr(), k) == type) return true;
        return false;
    }

    static bool text(PyObject* x, std::string_view& out) {
        if (PyUnicode_Check(x)) {
            Py_ssize_t size = 0;
            const char* at = PyUnicode_AsUTF8AndSize(x, &size);
            if (!at) PyErr_Clear();  // half a character
            out = {at, size_t(size)};
            return at != nullptr;
        }
        if (!PyBytes_Check(x)) return false;
        char* at = nullptr;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(x, &at, &size) < 0) throw nb::python_error();
        out = {at, size_t(size)};
        return true;
    }

    void put(std::string_view text, double value = 1.0) {
        if (value != 1.0 && values_.empty()) values_.assign(texts_.size(), 1.0);
        if (value != 1.0 || !values_.empty()) values_.push_back(value);
        texts_.push_back(text);
    }
    std::string_view joined(std::initializer_list<std::string_view> parts) {  // after the prefix
        size_t size = prefix_.size();
        for (const std::string_view part : parts) size += part.size();
        char* out = names_.take(size);
        char* at = std::copy(prefix_.begin(), prefix_.end(), out);
        for (const std::string_view part : parts) at = std::copy(part.begin(), part.end(), at);
        return {out, size};
    }
    std::string_view joined(std::string_view name) { return prefix_.empty() ? name : joined({name}); }

    bool list(PyObject* x) {  // or a tuple, or a set, whose texts are taken in their order
        const size_t first = texts_.size();
        const bool is_set = PyAnySet_CheckExact(x);
        if (is_set) {
            held_.push_back(listed(x));
            x = held_.back().ptr();
        } else if (PyList_Check(x) || PyTuple_Check(x)) x = own(x);
        else return false;
        const bool is_list = PyList_Check(x);
        const Py_ssize_t count = is_list ? PyList_Size(x) : PyTuple_Size(x);
        std::string_view name;
        for (Py_ssize_t k = 0; k < count; ++k) {
            if (!text(is_list ? PyList_GetItem(x, k) : PyTuple_GetItem(x, k), name)) return false;
            put(joined(name));
        }
        if (is_set) std::sort(texts_.begin() + ptrdiff_t(first), texts_.end());  // all are 1
        return true;
    }

    bool dict(PyObject* x, int depth = 0) {
        x = own(x);
        PyObject *key = nullptr, *value = nullptr;
        Py_ssize_t at = 0;
        std::string_view name, more;
        while (PyDict_Next(x, &at, &key, &value)) {
            if (!text(key, name)) return false;
            if (value == Py_True) put(joined(name));
            else if (value == Py_False) continue;  // 0 times its weights
            else if (PyUnicode_Check(value) || PyBytes_Check(value)) {
                if (!text(value, more)) return false;
                put(joined({name, ":", more}));
            } else if (PyFloat_Check(value) || PyLong_CheckExact(value) || is_scalar(value)) {  // none calls Python
                const double number = PyFloat_AsDouble(value);
                if (number == -1.0 && PyErr_Occurred()) PyErr_Clear();  // too large: Python says so
                else if (std::abs(number) <= largest_) {
                    put(joined(name), number);
                    continue;
                }
                return false;
            } else {
                const size_t before = prefix_.size();
                prefix_.append(name).append(1, ':');
                if (depth == kDeepest || !(PyDict_Check(value) ? dict(value, depth + 1) : list(value))) return false;
                prefix_.resize(before);
            }
        }
        return true;
    }

    const double largest_;
    const nb::handle scalars_;
    std::vector<std::string_view> texts_;
    std::vector<double> values_;  // empty: all are 1
    Arena names_;                 // that were put together here
    std::string prefix_;
    std::vector<nb::object> held_;
};

nb::bytes bytes_of(const std::vector<double>& x) { return nb::bytes(x.data(), x.size() * sizeof(double)); }

struct PyFeatureTagger {
    FeatureTagger core;
    nb::tuple labels;        // (m) names
    const double* pairwise;  // (m, m) or null
    double largest;          // a value that is read here
    nb::tuple scalars;       // types of numbers besides Python's, whose conversion runs no Python
    std::vector<nb::object> kept;
    nb::ft_mutex mutex{};           // guards what follows
    std::vector<double> current{};  // (n, m) scores of the sequence that was read last
    nb::object given;               // the values that came with it
    std::vector<double> spare{};    // memory

    // Scores, and what came with them, are those of the current sequence from now on.
    void keep(std::vector<double> unary, nb::object with) {
        const nb::ft_lock_guard lock(mutex);
        current.swap(unary), spare.swap(unary);
        std::swap(given, with);
    }

    // The scores of a sequence; false: only Python can read it. pairs: makes pairs of a token that is not read here.
    bool score(nb::handle x, nb::handle pairs, std::vector<double>& unary, int64_t& n) {
        if (!PyList_Check(x.ptr()) && !PyTuple_Check(x.ptr())) return false;
        const nb::object held = nb::steal(PySequence_Tuple(x.ptr()));  // pairs may change x, and so may other threads
        if (!held.is_valid()) throw nb::python_error();
        n = PyTuple_Size(held.ptr());
        {
            const nb::ft_lock_guard lock(mutex);
            unary.swap(spare);
        }
        const size_t m = size_t(core.labels());
        unary.resize(size_t(n) * m);
        std::vector<double> row(size_t(core.width()));
        Attributed attributes(largest, scalars);
        for (int64_t t = 0; t < n; ++t) {
            PyObject* token = PyTuple_GetItem(held.ptr(), t);
            if (!attributes.read(token) && !attributes.read_pairs(pairs(nb::handle(token)))) return false;
            std::fill(row.begin(), row.end(), 0.0);
            attributes.add_to(core, row.data());
            std::copy_n(row.begin(), m, unary.begin() + size_t(t) * m);
        }
        const auto count = int64_t(unary.size());
        return kernels().first_bad_double(unary.data(), count, kLargestScore) == count;
    }

    nb::object named(const std::vector<int32_t>& path) const {
        nb::object out = nb::steal(PyList_New(Py_ssize_t(path.size())));
        if (!out.is_valid()) throw nb::python_error();
        for (size_t t = 0; t < path.size(); ++t)
            PyList_SetItem(out.ptr(), Py_ssize_t(t),
                           nb::borrow(PyTuple_GetItem(labels.ptr(), path[t])).release().ptr());
        return out;
    }

    void best(const double* unary, std::vector<int32_t>& path) const {
        const auto n = int64_t(path.size());
        if (n * core.labels() * core.labels() > kLong)
            freely({}, -1, [&](Control& c) { core.best_path(unary, path, c); });
        else {
            const Stop stop;
            Control control(stop, nullptr, -1);
            core.best_path(unary, path, control);
        }
    }
};

// attributes: their texts; labels: a tuple of names; weights (W) and pairwise (m, m) or None in double precision.
void make_tagger(PyFeatureTagger* self, const PyRows& rows, const Strings& attributes, nb::object weights,
                 nb::object pairwise, nb::tuple labels, double largest, nb::tuple scalars) {
    std::vector<nb::object> kept;
    check_length(nb::cast<In<double>>(weights, false).size(), rows.begin[rows.rows.size()]);
    check_length(nb::len(labels), rows.m);
    check_length(size_t(attributes.size()), int64_t(rows.rows.size()));
    const double* w = keep<double>(kept, weights);
    const double* pair = pairwise.is_none() ? nullptr : keep<double>(kept, pairwise);
    if (pair) check_length(nb::cast<In<double>>(pairwise, false).size(), int64_t{rows.m} * rows.m);
    new (self) PyFeatureTagger{.core = {rows, attributes, w, pair},
                               .labels = std::move(labels),
                               .pairwise = pair,
                               .largest = largest,
                               .scalars = std::move(scalars),
                               .kept = std::move(kept),
                               .given = nb::none()};
}

// Makes scores those of the current sequence in the end, whatever becomes of it.
struct Current {
    PyFeatureTagger& self;
    std::vector<double>& unary;
    const nb::object& given;
    ~Current() { self.keep(std::move(unary), given); }
};

// The labels of a sequence of features, which is the current one if it can be read; rules: None, or those of a decoder
// with its engine. None: only Python can read it. A tuple: why there are no labels (scores, status, bound, seconds spent).
nb::object tag_of(PyFeatureTagger& self, nb::handle x, nb::handle pairs, PyCompiled* rules, int engine,
                  nb::object given) {
    std::vector<double> unary;
    int64_t n = 0;
    if (!self.score(x, pairs, unary, n)) return nb::none();
    const Current kept{self, unary, given};
    std::vector<int32_t> path(n);
    if (!rules) {
        self.best(unary.data(), path);
        return self.named(path);
    }
    const SequenceScores scores{.unary64 = unary.data(), .head = {.pairwise = self.pairwise}};
    const SingleAnswer answer =
        decode_single(*rules, engine, scores, given, rules->core.options.time_limit, 1, nullptr, path);
    if (answer.status <= uint8_t(Status::limit)) return self.named(path);
    return nb::make_tuple(bytes_of(unary), int(answer.status), answer.bound, answer.seconds);
}

}  // namespace

void bind_tagging(nb::module_& module) {
    nb::class_<PyFeatureTagger>(module, "FeatureTagger")
        .def("__init__", &make_tagger, "rows"_a, "attributes"_a, "weights"_a, "pairwise"_a.none(), "labels"_a,
             "largest"_a, "scalars"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("tag", &tag_of, "x"_a, "pairs"_a, "rules"_a.none(), "engine"_a, "given"_a.none(),
             nb::sig("def tag(self, x: object, pairs: object, rules: CompiledRules | None, engine: int, "
                     "given: object | None) -> list[str] | tuple[bytes, int, float, float] | None"))
        .def(
            "best",
            [](const PyFeatureTagger& self, In<double> unary) {
                check_length(unary.size(), int64_t(unary.shape(0)) * self.core.labels());
                std::vector<int32_t> path(unary.shape(0));
                self.best(unary.data(), path);
                return nb::typed<nb::list, nb::str>(nb::borrow<nb::list>(self.named(path)));
            },
            "unary"_a)
        .def("current",
             [](PyFeatureTagger& self) {
                 const nb::ft_lock_guard lock(self.mutex);
                 return nb::make_tuple(bytes_of(self.current), self.given);
             })
        .def(
            "set",
            [](PyFeatureTagger& self, nb::handle x, nb::handle pairs, nb::object given) {
                std::vector<double> unary;
                int64_t n = 0;
                if (!self.score(x, pairs, unary, n)) return false;
                self.keep(std::move(unary), std::move(given));
                return true;
            },
            "x"_a, "pairs"_a, "given"_a.none())
        .def(
            "keep",
            [](PyFeatureTagger& self, In<double> unary, nb::object given) {
                self.keep({unary.data(), unary.data() + unary.size()}, std::move(given));
            },
            "unary"_a, "given"_a.none());
}

}  // namespace bridle
