// The border to Python, what comes with the sequences of a batch ("given"): compiled rules are bound to it.
//
// Common values (integers, lists and tuples of them, names, lists of names, lists of texts) are read here. Whatever else comes is
// handed to Python, which knows all that is allowed and has the words for all that is not.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "border/rules.h"

namespace bridle {
namespace {

constexpr Py_ssize_t kLongestText = 256;  // characters of a text that is remembered
constexpr int64_t kStretch = 256;         // sequences after which other threads may do something

// The items of a list or a tuple, held: another thread may change a list while it is read. Null: it is neither.
nb::object items_of(PyObject* x) {
    if (PyTuple_CheckExact(x)) return nb::borrow(x);
    if (PyList_CheckExact(x)) return nb::steal(PyList_AsTuple(x));
    return {};
}

// Calls visit(item) for each item of a tuple or list until one says no; false then, or if it is neither.
template <class Visit>
bool all_of(PyObject* x, const Visit& visit) {
    const nb::object items = items_of(x);
    const Py_ssize_t count = items.is_valid() ? PyTuple_Size(items.ptr()) : 0;
    for (Py_ssize_t k = 0; k < count; ++k)
        if (!visit(PyTuple_GetItem(items.ptr(), k))) return false;
    return items.is_valid();
}

bool all_texts(const nb::object& items) {
    return all_of(items.ptr(), [](PyObject* item) { return PyUnicode_CheckExact(item) != 0; });
}

// Positions and spans as Python writes them, appended to a list; false: only Python can read them.
struct PositionReader {
    int n;
    std::vector<int>& positions;

    static bool integer(PyObject* x, int64_t& out) {
        int over = 0;
        if (!PyLong_CheckExact(x)) return false;
        out = PyLong_AsLongLongAndOverflow(x, &over);
        return over == 0;
    }
    bool point(PyObject* x) {
        int64_t i = 0;
        if (!integer(x, i) || i < -n || i >= n) return false;
        positions.push_back(int(i < 0 ? i + n : i));
        return true;
    }
    bool points(PyObject* x) {
        return PyLong_CheckExact(x) ? point(x) : all_of(x, [&](PyObject* item) { return point(item); });
    }
    bool span(PyObject* x) {  // its tokens but for the first
        int64_t ends[2] = {0, 0};
        int count = 0;
        if (!all_of(x, [&](PyObject* item) { return count < 2 && integer(item, ends[count++]); }) || count != 2)
            return false;
        if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > n) return false;
        for (int64_t t = ends[0] + 1; t < ends[1]; ++t) positions.push_back(int(t));
        return true;
    }
    bool spans(PyObject* x) {
        if (span(x)) return true;
        positions.clear();
        return all_of(x, [&](PyObject* item) { return span(item); });
    }
};

// Other threads may bind the same rules meanwhile, so the mutex guards what is kept between batches; it is never held while
// Python is asked. (With the GIL, the mutex does nothing: another thread can run only when Python is asked.)
class PyGiven final : public GivenValues {
  public:
    // given(b): what comes with sequence b, or nothing. raises: are errors raised, or are they kept as values?
    PyGiven(PyCompiled& self, const int64_t* offsets, std::function<nb::object(int64_t)> given, bool raises)
        : self_(self), offsets_(offsets), given_of_(std::move(given)), raises_(raises), facts_(self.columns.size()) {}

    // texts: a tuple, instead of given["tokens"]; which (N): the places of the tokens' texts in it, null: one text per token.
    void set_texts(nb::object texts, const int32_t* which) { texts_ = std::move(texts), which_ = which; }

    void begin(int64_t b) override { b_ = b, given_ = given_of_(b); }

    bool attempt(int64_t b, const std::function<void()>& work) override {
        try {
            work();
            return true;
        } catch (nb::python_error& error) {
            if (raises_ || !error.matches(nb::module_::import_("bridle.errors").attr("BridleError"))) throw;
            if (b >= 0) errors[nb::int_(b)] = error.value();
            return false;
        }
    }

    void add_positions(size_t d, size_t k, int n, std::vector<int>& positions) override {
        const PyPlace& place = self_.dependents[d].places[k];
        const nb::object value = place.key.is_valid() ? value_of(place.key) : place.fixed;
        PositionReader reader{n, positions};
        if (value.is_valid() && (place.spans ? reader.spans(value.ptr()) : reader.points(value.ptr()))) return;
        positions.clear();
        for (nb::handle t : ask("positions", d, k, n)) positions.push_back(nb::cast<int>(t));
    }

    void find_groups(size_t d, int n, int32_t* groups) override {
        const nb::object array = ask("groups", d, n);
        const auto numbers = nb::cast<In<int32_t>>(array, false);
        check_length(numbers.size(), n);
        std::copy_n(numbers.data(), n, groups);
    }

    std::shared_ptr<const Choice> choice(size_t d) override {
        PyDependent& dependent = self_.dependents[d];
        if (dependent.keys.empty()) return fixed_choice(d);
        const nb::object key = key_of(dependent);
        if (!key.is_valid()) return choice_of(d, ask("choice", d));
        const auto held_by = [](const nb::object& capsule) {
            return *static_cast<std::shared_ptr<const Choice>*>(nb::borrow<nb::capsule>(capsule).data());
        };
        const auto weight = [](const Choice& choice) { return std::max(choice.bytes(), kLeastChoice); };
        {
            const nb::ft_lock_guard lock(self_.mutex);
            const nb::object known =
                dependent.choices.find(key, [&](const nb::object& x) { return weight(*held_by(x)); });
            if (known.is_valid()) return held_by(known);
        }
        std::shared_ptr<const Choice> choice = choice_of(d, ask("choice", d));
        const nb::capsule kept(new std::shared_ptr<const Choice>(choice),
                               [](void* p) noexcept { delete static_cast<std::shared_ptr<const Choice>*>(p); });
        const nb::ft_lock_guard lock(self_.mutex);
        dependent.choices.keep(key, kept, weight(*choice));
        return choice;
    }
    std::shared_ptr<const Choice> choice(size_t d, const std::vector<uint64_t>& marks) override {
        return choice_of(d, ask("choice", d, nb::cast(marks)));
    }

    void open_column(size_t c, int n) override {
        shared_ = self_.columns[c].tokens && texts_.is_valid();
        first_ = shared_ ? offsets_[b_] : 0;
        column_ = shared_ ? texts_ : column_of(c, n);
    }
    const char* facts(size_t c, int t) override {
        if (shared_ && which_) held_ = facts_once(c, which_[first_ + t]);
        else held_ = facts_of(c, PyTuple_GetItem(column_.ptr(), first_ + t));
        const char* numbers = PyBytes_AsString(held_.ptr());
        if (!numbers) throw nb::python_error();
        return numbers;
    }

    nb::typed<nb::dict, int64_t, nb::any> errors;  // of sequences

  private:
    template <class... More>
    nb::object ask(const char* method, size_t d, const More&... more) {
        return self_.python.attr(method)(d, given_, b_, more...);
    }

    nb::object value_of(const nb::object& key) {  // null: it is missing, or only Python can find it
        if (!PyDict_CheckExact(given_.ptr())) return {};
#if defined(Py_GIL_DISABLED)
        PyObject* value = nullptr;
        if (PyDict_GetItemRef(given_.ptr(), key.ptr(), &value) < 0) throw nb::python_error();
        return nb::steal(value);
#else
        PyObject* value = PyDict_GetItemWithError(given_.ptr(), key.ptr());
        if (!value && PyErr_Occurred()) throw nb::python_error();
        return nb::borrow(value);
#endif
    }

    // Of a rule without names: made when it is first needed, and never replaced.
    std::shared_ptr<const Choice> fixed_choice(size_t d) {
        std::shared_ptr<const Choice>& fixed = self_.dependents[d].fixed;
        {
            const nb::ft_lock_guard lock(self_.mutex);
            if (fixed) return fixed;
        }
        std::shared_ptr<const Choice> choice = choice_of(d, ask("choice", d));
        const nb::ft_lock_guard lock(self_.mutex);
        if (!fixed) fixed = std::move(choice);
        return fixed;
    }

    // A choice as Python describes it: (token, first, last) bits or None, or a list of automata.
    std::shared_ptr<const Choice> choice_of(size_t d, const nb::object& described) {
        auto choice = std::make_shared<Choice>();
        const auto kind = self_.core.dependent.rules[d].kind;
        if (kind == DependentRule::automata || kind == DependentRule::agreement) {
            for (nb::handle automaton : described)
                choice->automata.push_back(nb::cast<const CountingAutomaton*>(automaton));
            choice->owner = std::make_shared<nb::object>(described);
            return choice;
        }
        std::vector<uint64_t>* into[] = {&choice->token, &choice->first, &choice->last};
        for (int k = 0; k < 3; ++k) {
            const nb::object bits = described[k];
            if (bits.is_none()) continue;
            const auto from = nb::cast<In<uint64_t>>(bits);
            into[k]->assign(from.data(), from.data() + from.size());
        }
        return choice;
    }

    // The label names of a sequence as a key of a dictionary; null if only Python can read them.
    nb::object key_of(const PyDependent& dependent) {
        if (dependent.keys.size() == 1) return hashable(value_of(dependent.keys[0]));
        nb::object key = nb::steal(PyTuple_New(Py_ssize_t(dependent.keys.size())));
        for (size_t k = 0; k < dependent.keys.size(); ++k) {
            nb::object part = hashable(value_of(dependent.keys[k]));
            if (!part.is_valid()) return {};
            PyTuple_SetItem(key.ptr(), Py_ssize_t(k), part.release().ptr());
        }
        return key;
    }
    static nb::object hashable(const nb::object& value) {  // names as they are, lists as tuples
        if (!value.is_valid() || PyUnicode_CheckExact(value.ptr())) return value;
        nb::object items = items_of(value.ptr());
        return items.is_valid() && all_texts(items) ? items : nb::object();
    }

    // The values of a column, one text per token.
    nb::object column_of(size_t c, int n) {
        const nb::object value = value_of(self_.columns[c].key);
        nb::object items = value.is_valid() ? items_of(value.ptr()) : nb::object();
        if (items.is_valid() && PyTuple_Size(items.ptr()) == n && all_texts(items)) return items;
        return nb::steal(PySequence_Tuple(ask("texts", self_.columns[c].dependent, c, n).ptr()));
    }

    nb::object facts_of(size_t c, nb::handle text) {
        const auto ask_python = [&] { return nb::object(self_.python.attr("facts")(c, text)); };
        if (!PyUnicode_CheckExact(text.ptr()) || PyUnicode_GetLength(text.ptr()) > kLongestText) return ask_python();
        RecentCache& cache = self_.columns[c].facts;
        {
            const nb::ft_lock_guard lock(self_.mutex);
            nb::object known = cache.find(text, [](const nb::object&) { return size_t{1}; });
            if (known.is_valid()) return known;
        }
        nb::object facts = ask_python();
        const nb::ft_lock_guard lock(self_.mutex);
        cache.keep(text, facts, 1);
        return facts;
    }
    // The same of a text that many tokens may have.
    const nb::object& facts_once(size_t c, int32_t number) {
        auto& known = facts_[c];
        if (known.empty()) known.resize(size_t(PyTuple_Size(texts_.ptr())));
        if (!known[number].is_valid()) known[number] = facts_of(c, PyTuple_GetItem(texts_.ptr(), number));
        return known[number];
    }

    PyCompiled& self_;
    const int64_t* offsets_;  // (B + 1)
    const std::function<nb::object(int64_t)> given_of_;
    const bool raises_;
    nb::object texts_;                            // a tuple, or null
    const int32_t* which_ = nullptr;              // (N) or null
    int64_t b_ = 0, first_ = 0;                   // the current sequence, and its first text in column_
    nb::object given_, column_, held_;            // its values, its texts and the facts that are known
    bool shared_ = false;                         // are they those of texts_?
    std::vector<std::vector<nb::object>> facts_;  // (columns, distinct texts)
};

}  // namespace

std::unique_ptr<PyBound> bind_batch(nb::object compiled, In<int64_t> offsets, nb::object givens, nb::object texts,
                                    nb::object which, const Stop* stop) {
    PyCompiled& self = nb::cast<PyCompiled&>(compiled);
    const auto B = int64_t(offsets.size()) - 1;
    const int64_t N = offsets.data()[B];
    PyGiven given(
        self, offsets.data(), [&](int64_t b) { return givens.is_none() ? nb::none() : nb::object(givens[b]); }, false);
    if (!texts.is_none()) {
        texts = nb::steal(PySequence_Tuple(texts.ptr()));
        if (!texts.is_valid()) throw nb::python_error();
        const int64_t count = PyTuple_Size(texts.ptr());
        const int32_t* numbers = which.is_none() ? nullptr : nb::cast<In<int32_t>>(which, false).data();
        const int64_t size = numbers ? int64_t(nb::cast<In<int32_t>>(which, false).size()) : count;
        const auto beyond = [&](int32_t number) { return number < 0 || number >= count; };
        if (size != N || (numbers && std::any_of(numbers, numbers + N, beyond)))
            throw nb::value_error("texts, or which of them: the text of each token");
        given.set_texts(std::move(texts), numbers);
    }
    Binder binder(self.core, {offsets.data(), offsets.size()}, given);
    for (int64_t b = 0; b < B; ++b) {
        if (stop && b % kStretch == kStretch - 1) const nb::gil_scoped_release others;  // who may set it
        if (stop && stop->flag) raise_stopped();
        binder.bind(b);
    }
    BoundRules bound = binder.finish();
    return std::make_unique<PyBound>(PyBound{std::move(bound), std::move(compiled), std::move(given.errors)});
}

BoundRules bind_one(PyCompiled& self, int n, const nb::object& given) {
    const int64_t offsets[] = {0, n};
    PyGiven values(self, offsets, [&](int64_t) { return given; }, true);
    Binder binder(self.core, offsets, values);
    binder.bind(0);
    return binder.finish();
}

}  // namespace bridle
