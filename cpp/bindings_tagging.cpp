// The border to Python, tagging by ready-made features: a list or a dict per token in, names of labels out, in one call.
//
// Lists and tuples of strings, and dicts whose values are strings, numbers, booleans, dicts and lists, are read here. Whatever
// else comes is left to Python (None is returned), which knows all that is allowed and has the words for all that is not.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "bindings_learning.h"
#include "bindings_problem.h"
#include "feature_tagger.h"

namespace bridle {
namespace {

constexpr int64_t kLong = 64;            // tokens of a sequence for which the GIL is let go
constexpr double kLargestScore = 1e290;  // as arrays.py has it
constexpr int kDeepest = 50;             // of a dict in a dict, ...

// Room for texts that stay where they are until all of it is given back.
class Room {
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
    explicit Attributed(double largest) : largest_(largest) {}

    bool read(PyObject* token) {  // false: only Python can read it
        texts_.clear(), values_.clear(), room_.clear(), prefix_.clear(), held_.clear();
        if (PyDict_Check(token)) return dict(token);
        return PyList_Check(token) || PyTuple_Check(token) ? list(token) : false;
    }
    void add_to(const FeatureTagger& tagger, double* row) const {
        tagger.add(texts_.data(), values_.empty() ? nullptr : values_.data(), texts_.size(), row);
    }

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

    static bool text(PyObject* x, std::string_view& out) {
        if (PyUnicode_Check(x)) {
            Py_ssize_t size = 0;
            const char* at = PyUnicode_AsUTF8AndSize(x, &size);
            if (!at) PyErr_Clear();  // half a character
            out = {at, static_cast<size_t>(size)};
            return at != nullptr;
        }
        if (!PyBytes_Check(x)) return false;
        char* at = nullptr;
        Py_ssize_t size = 0;
        if (PyBytes_AsStringAndSize(x, &at, &size) < 0) throw nb::python_error();
        out = {at, static_cast<size_t>(size)};
        return true;
    }

    void put(std::string_view text, double value = 1.0) {
        if (value != 1.0 && values_.empty()) values_.assign(texts_.size(), 1.0);
        if (value != 1.0 || !values_.empty()) values_.push_back(value);
        texts_.push_back(text);
    }
    std::string_view joined(std::string_view name) {  // prefix and name
        if (prefix_.empty()) return name;
        char* out = room_.take(prefix_.size() + name.size());
        std::memcpy(out, prefix_.data(), prefix_.size());
        std::memcpy(out + prefix_.size(), name.data(), name.size());
        return {out, prefix_.size() + name.size()};
    }
    std::string_view joined(std::string_view name, std::string_view value) {  // prefix, name, colon and value
        char* out = room_.take(prefix_.size() + name.size() + 1 + value.size());
        char* at = out;
        std::memcpy(at, prefix_.data(), prefix_.size()), at += prefix_.size();
        std::memcpy(at, name.data(), name.size()), at += name.size();
        *at++ = ':';
        std::memcpy(at, value.data(), value.size()), at += value.size();
        return {out, static_cast<size_t>(at - out)};
    }

    bool list(PyObject* x) {
        x = own(x);
        const bool is_list = PyList_Check(x);
        const Py_ssize_t count = is_list ? PyList_Size(x) : PyTuple_Size(x);
        std::string_view name;
        for (Py_ssize_t k = 0; k < count; ++k) {
            if (!text(is_list ? PyList_GetItem(x, k) : PyTuple_GetItem(x, k), name)) return false;
            put(joined(name));
        }
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
                put(joined(name, more));
            } else if (PyFloat_Check(value) || PyLong_CheckExact(value)) {  // neither calls Python
                const double number = PyFloat_AsDouble(value);
                if (number == -1.0 && PyErr_Occurred()) PyErr_Clear();  // too large: Python says so
                else if (std::abs(number) <= largest_) {
                    put(joined(name), number);
                    continue;
                }
                return false;
            } else if (PyDict_Check(value) || PyList_Check(value)) {
                const size_t before = prefix_.size();
                prefix_.append(name).append(1, ':');
                if (depth == kDeepest || !(PyDict_Check(value) ? dict(value, depth + 1) : list(value))) return false;
                prefix_.resize(before);
            } else return false;
        }
        return true;
    }

    const double largest_;
    std::vector<std::string_view> texts_;
    std::vector<double> values_;  // empty: all are 1
    Room room_;
    std::string prefix_;
    std::vector<nb::object> held_;
};

struct PyFeatureTagger {
    FeatureTagger core;
    nb::tuple labels;        // (m) names
    const double* pairwise;  // (m, m) or null
    double largest;          // a value that is read here
    std::vector<nb::object> kept;
    nb::ft_mutex mutex;           // guards what follows
    std::vector<double> current;  // (n, m) scores of the sequence that was read last

    // The scores of a sequence; false: only Python can read it.
    bool score(nb::handle x, std::vector<double>& unary, int64_t& n) const {
        const bool is_list = PyList_Check(x.ptr());
        if (!is_list && !PyTuple_Check(x.ptr())) return false;
#if defined(Py_GIL_DISABLED)
        const nb::object held = nb::steal(PySequence_Tuple(x.ptr()));
        if (!held.is_valid()) throw nb::python_error();
        const auto token = [&](Py_ssize_t t) { return PyTuple_GetItem(held.ptr(), t); };
        n = PyTuple_Size(held.ptr());
#else
        const auto token = [&](Py_ssize_t t) {
            return is_list ? PyList_GetItem(x.ptr(), t) : PyTuple_GetItem(x.ptr(), t);
        };
        n = is_list ? PyList_Size(x.ptr()) : PyTuple_Size(x.ptr());
#endif
        const size_t m = static_cast<size_t>(core.labels());
        unary.resize(static_cast<size_t>(n) * m);
        std::vector<double> row(static_cast<size_t>(core.width()));
        Attributed attributes(largest);
        for (int64_t t = 0; t < n; ++t) {
            if (!attributes.read(token(t))) return false;
            std::fill(row.begin(), row.end(), 0.0);
            attributes.add_to(core, row.data());
            std::copy_n(row.begin(), m, unary.begin() + static_cast<size_t>(t) * m);
        }
        const auto count = static_cast<int64_t>(unary.size());
        return kernels().first_bad_double(unary.data(), count, kLargestScore) == count;
    }

    nb::object named(const std::vector<int32_t>& path) const {
        nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(path.size())));
        if (!out.is_valid()) throw nb::python_error();
        for (size_t t = 0; t < path.size(); ++t)
            PyList_SetItem(out.ptr(), static_cast<Py_ssize_t>(t),
                           nb::borrow(PyTuple_GetItem(labels.ptr(), path[t])).release().ptr());
        return out;
    }

    void best(const double* unary, std::vector<int32_t>& path) const {
        const auto n = static_cast<int64_t>(path.size());
        if (n > kLong) freely({}, -1, [&](Control& c) { core.best_path(unary, n, path.data(), c); });
        else {
            const Stop stop;
            Control control(stop, nullptr, -1);
            core.best_path(unary, n, path.data(), control);
        }
    }

    // False: there is none, or it is not proved to be the best.
    bool best_under(PyCompiled& compiled, int engine, const nb::object& given, const std::vector<double>& unary,
                    std::vector<int32_t>& path) const {
        const int n = static_cast<int>(path.size());
        const auto bound = compiled.depends() ? bind_one(compiled, n, given) : nullptr;
        PyProblem self;
        Problem& p = self.problem;
        self.rule(compiled, bound.get());
        const int64_t offsets[] = {0, n};
        p.B = 1, p.N = n, p.offsets = offsets;
        p.unary64 = unary.data();
        const double limit = self.options->time_limit;
        try {
            self.add_head(pairwise, limit);
        } catch (const Late&) {
            return false;
        }
        double score = -kInf, upper = kInf, seconds = 0;
        uint8_t status = 0;
        std::vector<int32_t> violations(p.rules.size(), 0);
        int64_t counter = 0;
        const Outputs out{path.data(), &score, &upper, &status, violations.data(), &counter, 1, &seconds};
        freely(
            {}, limit, [&](Control& c) { run(p, engine_numbered(engine), *self.options, c, out, nullptr); },
            memory_of(*self.options));
        return status == static_cast<uint8_t>(Status::optimal);
    }
};

// bytes, ends: the texts of the attributes; labels: a tuple of names; weights (W) and pairwise (m, m) or None in double precision.
void make_tagger(PyFeatureTagger* self, const PyRows& rows, nb::object held, In<uint8_t> bytes, In<int64_t> ends,
                 nb::object weights, nb::object pairwise, nb::tuple labels, double largest) {
    std::vector<nb::object> kept{std::move(held)};
    check_length(nb::cast<In<double>>(weights, false).size(), rows.begin[rows.rows.size()]);
    check_length(nb::len(labels), rows.m);
    check_length(ends.size(), static_cast<int64_t>(rows.rows.size()));
    const double* w = keep<double>(kept, weights);
    const double* pair = pairwise.is_none() ? nullptr : keep<double>(kept, pairwise);
    if (pair) check_length(nb::cast<In<double>>(pairwise, false).size(), int64_t{rows.m} * rows.m);
    new (self) PyFeatureTagger{FeatureTagger(rows, w, pair), std::move(labels), pair, largest, std::move(kept), {}, {}};
    int64_t begin = 0;
    for (size_t k = 0; k < ends.size(); begin = ends.data()[k++]) {
        const int64_t end = ends.data()[k];
        if (end < begin || end > static_cast<int64_t>(bytes.size())) throw nb::value_error("texts do not fit together");
        const char* at = reinterpret_cast<const char*>(bytes.data()) + begin;
        if (self->core.attributes.add({at, static_cast<size_t>(end - begin)}) != static_cast<int32_t>(k))
            throw nb::value_error("an attribute is there twice");
    }
}

// Makes scores those of the current sequence in the end, whatever becomes of it.
struct Current {
    PyFeatureTagger& self;
    std::vector<double>& unary;
    ~Current() {
        const nb::ft_lock_guard lock(self.mutex);
        self.current.swap(unary);
    }
};

// The labels of a sequence of features; rules: None, or those of a decoder with its engine. None: Python has to look at it.
nb::object tag_of(PyFeatureTagger& self, nb::handle x, PyCompiled* rules, int engine, nb::object given) {
    std::vector<double> unary;
    {
        const nb::ft_lock_guard lock(self.mutex);
        unary.swap(self.current);  // its memory
    }
    int64_t n = 0;
    if (!self.score(x, unary, n)) return nb::none();
    const Current kept{self, unary};
    std::vector<int32_t> path(static_cast<size_t>(n));
    bool found = true;
    if (rules) found = self.best_under(*rules, engine, given, unary, path);
    else self.best(unary.data(), path);
    return found ? self.named(path) : nb::none();
}

}  // namespace

void bind_tagging(nb::module_& module) {
    nb::class_<PyFeatureTagger>(module, "FeatureTagger")
        .def(
            "__init__",
            [](PyFeatureTagger* self, nb::object rows, In<uint8_t> bytes, In<int64_t> ends, nb::object weights,
               nb::object pairwise, nb::tuple labels, double largest) {
                make_tagger(self, nb::cast<const PyRows&>(rows), rows, bytes, ends, std::move(weights),
                            std::move(pairwise), std::move(labels), largest);
            },
            nb::arg("rows"), nb::arg("bytes"), nb::arg("ends"), nb::arg("weights"), nb::arg("pairwise").none(),
            nb::arg("labels"), nb::arg("largest"))
        .def("tag", &tag_of, nb::arg("x"), nb::arg("rules").none(), nb::arg("engine"), nb::arg("given").none(),
             nb::sig("def tag(self, x: object, rules: CompiledRules | None, engine: int, given: object | None) -> "
                     "list[str] | None"))
        .def(
            "best",
            [](const PyFeatureTagger& self, In<double> unary) {
                check_length(unary.size(), static_cast<int64_t>(unary.shape(0)) * self.core.labels());
                std::vector<int32_t> path(unary.shape(0));
                self.best(unary.data(), path);
                return nb::typed<nb::list, nb::str>(nb::borrow<nb::list>(self.named(path)));
            },
            nb::arg("unary"))
        .def("scores",
             [](PyFeatureTagger& self) {
                 const nb::ft_lock_guard lock(self.mutex);
                 return nb::bytes(self.current.data(), self.current.size() * sizeof(double));
             })
        .def(
            "set",
            [](PyFeatureTagger& self, nb::handle x) {
                std::vector<double> unary;
                int64_t n = 0;
                if (!self.score(x, unary, n)) return false;
                const nb::ft_lock_guard lock(self.mutex);
                self.current.swap(unary);
                return true;
            },
            nb::arg("x"))
        .def(
            "keep",
            [](PyFeatureTagger& self, In<double> unary) {
                const nb::ft_lock_guard lock(self.mutex);
                self.current.assign(unary.data(), unary.data() + unary.size());
            },
            nb::arg("unary"));
}

}  // namespace bridle
