// The border to Python, what comes with the sequences of a batch ("given"): compiled rules are bound to it.
//
// Common values (whole numbers, lists and tuples of them, names, lists of names, lists of texts) are read here. Whatever else
// comes is handed to Python, which knows all that is allowed and has the words for all that is not.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "border/rules.h"

namespace bridle {
namespace {

constexpr size_t kMostMarks = 256;        // of one automaton
constexpr Py_ssize_t kLongestText = 256;  // characters of a text that is remembered
constexpr int64_t kStretch = 256;         // sequences after which other threads may do something

// What a choice of label names means, as Python tells it: (token, first, last) bits or None, or a list of automata.
std::shared_ptr<Choice> choice_of(const Dependent& one, const nb::object& told) {
    auto made = std::make_shared<Choice>();
    if (one.kind == Dependent::automata) {
        for (nb::handle automaton : told) made->automata.push_back(nb::cast<const CountingAutomaton*>(automaton));
        made->kept = told;
        return made;
    }
    std::vector<uint64_t>* into[] = {&made->token, &made->first, &made->last};
    for (int k = 0; k < 3; ++k) {
        const nb::object bits = told[k];
        if (bits.is_none()) continue;
        const auto from = nb::cast<In<uint64_t>>(bits);
        into[k]->assign(from.data(), from.data() + from.size());
    }
    return made;
}

// The items of a list or a tuple, held: another thread may change a list while it is read. Null: it is neither.
nb::object items_of(PyObject* x) {
    if (PyTuple_CheckExact(x)) return nb::borrow(x);
    if (PyList_CheckExact(x)) return nb::steal(PyList_AsTuple(x));
    return {};
}

// Binds one batch. Other threads may bind the same rules meanwhile, so the mutex guards what is kept between batches; it is
// never held while Python is asked. (With the GIL, the mutex does nothing: another thread can run only when Python is asked.)
class Binder {
  public:
    // given(b): what comes with sequence b, or nothing. raises: are errors raised, or are they kept as values?
    Binder(PyCompiled& self, const int64_t* offsets, int64_t B, std::function<nb::object(int64_t)> given, bool raises)
        : self_(self),
          offsets_(offsets),
          B_(B),
          N_(offsets[B]),
          given_of_(std::move(given)),
          raises_(raises),
          of_(self.dependents.size()) {
        bound_ = std::make_unique<PyBound>();
        BoundRules& b = bound_->core;
        b.words = static_cast<int>(words_of(self_.core.tables.m));
        bool masked = !self_.base.empty(), tied = false;
        for (size_t d = 0; d < of_.size(); ++d) {
            const Dependent& one = self_.dependents[d];
            masked = masked || one.kind == Dependent::mask;
            tied = tied || one.kind == Dependent::tied;
            if (!one.keys.empty()) of_[d].choice.resize(B);
            if (one.kind != Dependent::automata || one.places.empty()) continue;
            if (one.few) of_[d].marks.assign(N_, 0);
            else of_[d].wide.assign(N_, 0);
        }
        if (masked) fill_allowed();
        if (tied) b.tied.assign(N_, 0);
    }

    // texts: a tuple, or None: those of given["tokens"]; which (N): the places of the tokens' texts in it, null: one text per token.
    std::unique_ptr<PyBound> run(const nb::object& texts, const int32_t* which, const Stop* stop) {
        hits_.resize(self_.users.size());
        which_ = which;
        facts_.resize(self_.columns.size());
        for (int64_t b = 0; b < B_; ++b) {
            if (stop && b % kStretch == kStretch - 1) const nb::gil_scoped_release others;  // who may set it
            if (stop && stop->flag) raise_stopped();
            const int n = static_cast<int>(offsets_[b + 1] - offsets_[b]);
            given_ = given_of_(b);
            const bool bound = attempt(b, [&] {
                for (size_t d = 0; d < of_.size(); ++d) dependent(d, b, n);
                if (!self_.users.empty()) conditions(b, n, texts);
            });
            if (!bound) leave(b);
        }
        gather();
        return std::move(bound_);
    }

  private:
    struct Of {                                       // one dependent rule
        std::vector<std::shared_ptr<Choice>> choice;  // (B), if names come with the sequences
        std::vector<uint8_t> marks;                   // (N), if it has few places
        std::vector<uint64_t> wide;                   // (N), if it has many
    };

    bool has_failed(int64_t b) const { return bound_->errors.contains(nb::int_(b)); }

    // Does some work on a sequence (-1: on all); false: one of its values is wrong, which is its error from now on.
    template <class Work>
    bool attempt(int64_t b, const Work& work) {
        try {
            work();
            return true;
        } catch (nb::python_error& error) {
            if (raises_ || !error.matches(nb::module_::import_("bridle.errors").attr("BridleError"))) throw;
            if (b >= 0) bound_->errors[nb::int_(b)] = error.value();
            return false;
        }
    }

    // A sequence that could not be bound has no rules that come with it.
    void leave(int64_t b) {
        for (Of& of : of_) {
            if (!of.choice.empty()) of.choice[b] = std::make_shared<Choice>();
            if (!of.wide.empty()) std::fill(of.wide.begin() + offsets_[b], of.wide.begin() + offsets_[b + 1], 0);
        }
    }

    static size_t words_of(int m) { return (static_cast<size_t>(m) + 63) / 64; }

    void fill_allowed() {
        BoundRules& b = bound_->core;
        std::vector<uint64_t> row = self_.base;
        if (row.empty()) row.assign(b.words, ~uint64_t{0});
        b.allowed.resize(static_cast<size_t>(N_) * b.words);
        for (int64_t t = 0; t < N_; ++t) std::copy(row.begin(), row.end(), b.allowed.begin() + t * b.words);
    }

    template <class... More>
    nb::object asked(const char* method, int64_t b, size_t d, const More&... more) {
        return self_.python.attr(method)(d, given_, b, more...);
    }

    nb::object value_of(const nb::object& key) {  // null: it is missing, or only Python can find it
        if (!PyDict_CheckExact(given_.ptr())) return {};
#if defined(Py_GIL_DISABLED)
        PyObject* found = nullptr;
        if (PyDict_GetItemRef(given_.ptr(), key.ptr(), &found) < 0) throw nb::python_error();
        return nb::steal(found);
#else
        PyObject* found = PyDict_GetItemWithError(given_.ptr(), key.ptr());
        if (!found && PyErr_Occurred()) throw nb::python_error();
        return nb::borrow(found);
#endif
    }

    // Of a rule without keys: made when it is first needed, and never replaced.
    const Choice* fixed(size_t d, int64_t b) {
        Dependent& one = self_.dependents[d];
        {
            const nb::ft_lock_guard lock(self_.mutex);
            if (one.fixed) return one.fixed.get();
        }
        auto made = choice_of(one, asked("choice", b, d));
        const nb::ft_lock_guard lock(self_.mutex);
        if (!one.fixed) one.fixed = std::move(made);
        return one.fixed.get();
    }

    void dependent(size_t d, int64_t b, int n) {
        const Dependent& one = self_.dependents[d];
        const Choice* choice = nullptr;
        if (one.kind == Dependent::automata && !one.few) {
            // which automata it needs is known when all marks are
        } else if (!one.keys.empty()) {
            of_[d].choice[b] = chosen(d, b);
            choice = of_[d].choice[b].get();
        } else if (one.kind != Dependent::tied) {
            choice = fixed(d, b);
        }
        if (one.kind == Dependent::mask && one.places.empty()) {
            for (int64_t t = offsets_[b]; t < offsets_[b + 1] && !choice->token.empty(); ++t) narrow(t, choice->token);
            if (n > 0 && !choice->first.empty()) narrow(offsets_[b], choice->first);
            if (n > 0 && !choice->last.empty()) narrow(offsets_[b + 1] - 1, choice->last);
        }
        for (size_t k = 0; k < one.places.size(); ++k)
            if (!one.places[k].of_tokens()) positions(d, k, b, n);
    }

    void narrow(int64_t t, const std::vector<uint64_t>& bits) {
        BoundRules& b = bound_->core;
        for (int w = 0; w < b.words; ++w) b.allowed[t * b.words + w] &= bits[w];
    }

    // A token (counted over the batch) stands at place k of a rule.
    void mark(size_t d, size_t k, int64_t b, int64_t t) {
        const Dependent& one = self_.dependents[d];
        if (one.kind == Dependent::tied) bound_->core.tied[t] = 1;
        else if (one.kind == Dependent::mask) narrow(t, (one.keys.empty() ? one.fixed : of_[d].choice[b])->token);
        else if (one.few) of_[d].marks[t] |= static_cast<uint8_t>(1u << k);
        else of_[d].wide[t] |= uint64_t{1} << k;
    }

    // ---- positions and spans ----------------------------------------------------------------------------------------

    static bool is_number(PyObject* x) { return PyLong_CheckExact(x); }

    // Calls visit(item) for each item of a tuple or list until one says no; false then, or if it is neither.
    template <class Visit>
    static bool all_of(PyObject* x, const Visit& visit) {
        const nb::object items = items_of(x);
        const Py_ssize_t count = items.is_valid() ? PyTuple_Size(items.ptr()) : 0;
        for (Py_ssize_t k = 0; k < count; ++k)
            if (!visit(PyTuple_GetItem(items.ptr(), k))) return false;
        return items.is_valid();
    }

    static bool small(PyObject* x, int64_t& out) {  // a whole number that fits
        int over = 0;
        if (!is_number(x)) return false;
        out = PyLong_AsLongLongAndOverflow(x, &over);
        return over == 0;
    }

    void positions(size_t d, size_t k, int64_t b, int n) {
        const RulePlace& place = self_.dependents[d].places[k];
        const nb::object value = place.key.is_valid() ? value_of(place.key) : place.fixed;
        spots_.clear();
        const bool read = value.is_valid() && (place.spans ? spans(value.ptr(), n) : points(value.ptr(), n));
        if (read) {
            for (int t : spots_) mark(d, k, b, offsets_[b] + t);
            return;
        }
        for (nb::handle t : asked("positions", b, d, k, n)) mark(d, k, b, offsets_[b] + nb::cast<int>(t));
    }

    bool point(PyObject* x, int n) {
        int64_t i = 0;
        if (!small(x, i) || i < -n || i >= n) return false;
        spots_.push_back(static_cast<int>(i < 0 ? i + n : i));
        return true;
    }
    bool points(PyObject* x, int n) {
        return is_number(x) ? point(x, n) : all_of(x, [&](PyObject* item) { return point(item, n); });
    }
    bool span(PyObject* x, int n) {
        int64_t ends[2] = {0, 0};
        int count = 0;
        if (!all_of(x, [&](PyObject* item) { return count < 2 && small(item, ends[count++]); }) || count != 2)
            return false;
        if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > n) return false;
        for (int64_t t = ends[0] + 1; t < ends[1]; ++t) spots_.push_back(static_cast<int>(t));
        return true;
    }
    bool spans(PyObject* x, int n) {
        if (span(x, n)) return true;
        spots_.clear();
        return all_of(x, [&](PyObject* item) { return span(item, n); });
    }

    // ---- names that come with the sequence ----------------------------------------------------------------------------

    // The value as a key of a dictionary: names as they are, lists as tuples; null if only Python can read it.
    static nb::object hashable(const nb::object& value) {
        if (!value.is_valid() || PyUnicode_CheckExact(value.ptr())) return value;
        nb::object items = items_of(value.ptr());
        return items.is_valid() && all_texts(items) ? items : nb::object();
    }
    static bool all_texts(const nb::object& items) {
        return all_of(items.ptr(), [](PyObject* item) { return PyUnicode_CheckExact(item) != 0; });
    }

    std::shared_ptr<Choice> chosen(size_t d, int64_t b) {
        Dependent& one = self_.dependents[d];
        nb::object key = one.keys.size() == 1 ? hashable(value_of(one.keys[0])) : nb::object();
        if (one.keys.size() > 1) {
            nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(one.keys.size())));
            for (size_t k = 0; k < one.keys.size() && all.is_valid(); ++k) {
                nb::object part = hashable(value_of(one.keys[k]));
                if (part.is_valid()) PyTuple_SetItem(all.ptr(), static_cast<Py_ssize_t>(k), part.release().ptr());
                else all.reset();
            }
            key = all;
        }
        if (!key.is_valid()) return choice_of(one, asked("choice", b, d));
        const auto held_by = [](const nb::object& capsule) {
            return *static_cast<std::shared_ptr<Choice>*>(nb::borrow<nb::capsule>(capsule).data());
        };
        const auto weight = [](const Choice& choice) { return std::max(choice.bytes(), kLeastChoice); };
        {
            const nb::ft_lock_guard lock(self_.mutex);
            const nb::object known = one.choices.find(key, [&](const nb::object& x) { return weight(*held_by(x)); });
            if (known.is_valid()) return held_by(known);
        }
        std::shared_ptr<Choice> made = choice_of(one, asked("choice", b, d));
        const nb::capsule kept(new std::shared_ptr<Choice>(made),
                               [](void* p) noexcept { delete static_cast<std::shared_ptr<Choice>*>(p); });
        const nb::ft_lock_guard lock(self_.mutex);
        one.choices.keep(key, kept, weight(*made));
        return made;
    }

    // ---- conditions on tokens -----------------------------------------------------------------------------------------

    // What is known of a text: bytes that hold numbers, [count, conditions that hold (count), its word in each list].
    nb::object facts_of(size_t c, nb::handle text) {
        const auto ask = [&] { return nb::object(self_.python.attr("facts")(c, text)); };
        if (!PyUnicode_CheckExact(text.ptr()) || PyUnicode_GetLength(text.ptr()) > kLongestText) return ask();
        RecentCache& texts = self_.columns[c].texts;
        {
            const nb::ft_lock_guard lock(self_.mutex);
            nb::object known = texts.find(text, [](const nb::object&) { return size_t{1}; });
            if (known.is_valid()) return known;
        }
        nb::object found = ask();
        const nb::ft_lock_guard lock(self_.mutex);
        texts.keep(text, found, 1);
        return found;
    }

    // The same of a text that many tokens may have.
    const nb::object& facts_once(size_t c, const nb::object& texts, int32_t number) {
        auto& known = facts_[c];
        if (known.empty()) known.resize(static_cast<size_t>(PyTuple_Size(texts.ptr())));
        if (!known[number].is_valid()) known[number] = facts_of(c, PyTuple_GetItem(texts.ptr(), number));
        return known[number];
    }

    // A condition holds at a token (counted over the batch): marks the places that are no more than it.
    void holds(int condition, int64_t b, int64_t t) {
        if (condition < 0) return;
        for (const auto& [d, k] : self_.users[condition]) mark(d, k, b, t);
        if (self_.remembered[condition]) hits_[condition][t - offsets_[b]] = 1;
    }

    void conditions(int64_t b, int n, const nb::object& texts) {
        for (size_t c = 0; c < hits_.size(); ++c)
            if (self_.remembered[c]) hits_[c].assign(n, 0);
        for (size_t c = 0; c < self_.columns.size(); ++c) column(c, b, n, self_.columns[c].tokens ? texts : nb::none());
        if (n > 0) {
            holds(self_.first, b, offsets_[b]);
            holds(self_.last, b, offsets_[b + 1] - 1);
        }
        for (const auto& [d, k] : self_.contexts) {
            const RulePlace& place = self_.dependents[d].places[k];
            const auto is = [&](int condition, int t) {
                return condition < 0 || (t >= 0 && t < n && hits_[condition][t]);
            };
            for (int t = 0; t < n; ++t)
                if (is(place.here, t) && is(place.after, t - 1) && is(place.before, t + 1))
                    mark(d, k, b, offsets_[b] + t);
        }
    }

    void column(size_t c, int64_t b, int n, const nb::object& texts) {
        const Column& column = self_.columns[c];
        const int64_t first = texts.is_none() ? 0 : offsets_[b];
        const nb::object held = texts.is_none() ? values_of(c, b, n) : texts;
        words_.resize(column.lists.size() * n);
        for (int t = 0; t < n; ++t) {
            const nb::object facts = which_ && !texts.is_none() ? facts_once(c, held, which_[first + t])
                                                                : facts_of(c, PyTuple_GetItem(held.ptr(), first + t));
            const char* at = PyBytes_AsString(facts.ptr());
            if (!at) throw nb::python_error();
            const auto next = [&] {
                int32_t number;
                std::memcpy(&number, at, sizeof number);
                at += sizeof number;
                return number;
            };
            for (int left = next(); left > 0; --left) holds(next(), b, offsets_[b] + t);
            for (size_t l = 0; l < column.lists.size(); ++l) words_[l * n + t] = next();
        }
        for (size_t l = 0; l < column.lists.size(); ++l)
            phrases(self_.lists[column.lists[l]], words_.data() + l * n, b, n);
    }

    void phrases(const ListUse& list, const int32_t* words, int64_t b, int n) {
        int covered = 0;  // tokens before this one are known to be in a phrase, or not to be
        list.phrases->match(words, n, [&](int first, int last) {
            const int64_t begin = offsets_[b];
            for (covered = std::max(covered, first); covered <= last; ++covered) holds(list.inside, b, begin + covered);
            holds(list.first, b, begin + first);
            holds(list.last, b, begin + last);
        });
    }

    // The values of a column, one text per token.
    nb::object values_of(size_t c, int64_t b, int n) {
        const nb::object value = value_of(self_.columns[c].key);
        nb::object held = value.is_valid() ? items_of(value.ptr()) : nb::object();
        if (held.is_valid() && PyTuple_Size(held.ptr()) == n && all_texts(held)) return held;
        return nb::steal(PySequence_Tuple(asked("texts", b, self_.columns[c].dependent, c, n).ptr()));
    }

    // ---- automata of all rules, in order -----------------------------------------------------------------------------------

    void gather() {
        BoundRules& out = bound_->core;
        auto next = self_.core.automata.begin();
        const auto last = self_.core.automata.end();
        for (size_t d = 0; d < of_.size(); ++d) {
            const Dependent& one = self_.dependents[d];
            for (; next != last && next->rule <= one.rule; ++next) out.automata.push_back(*next);
            if (one.kind == Dependent::automata) gather(d);
            for (auto& choice : of_[d].choice)
                if (choice && (bound_->kept.empty() || bound_->kept.back() != choice)) bound_->kept.push_back(choice);
        }
        out.automata.insert(out.automata.end(), next, last);
    }

    void gather(size_t d) {
        const Dependent& one = self_.dependents[d];
        Of& of = of_[d];
        if (B_ == 0) return;
        if (!one.few) ask_for_marks(d);
        const uint8_t* marks = of.marks.empty() ? nullptr : bound_->core.marks.emplace_back(std::move(of.marks)).data();
        if (one.few ? one.keys.empty() : of.choice.size() == 1) {
            const std::shared_ptr<Choice>& same = one.few ? one.fixed : of.choice[0];
            if (!same) return;  // no sequence could be bound
            bound_->kept.push_back(same);
            for (const CountingAutomaton* automaton : same->automata)
                bound_->core.automata.push_back({one.rule, {automaton}, marks});
            return;
        }
        size_t most = 0;
        for (const auto& choice : of.choice) most = std::max(most, choice->automata.size());
        for (size_t k = 0; k < most; ++k) {
            RuleAutomaton each{one.rule, {}, marks};
            for (const auto& choice : of.choice)
                each.automaton.push_back(k < choice->automata.size() ? choice->automata[k] : nullptr);
            bound_->core.automata.push_back(std::move(each));
        }
    }

    // A rule with many places has tables only for the marks that occur: in the batch, or, if these are too many, in a sequence.
    void ask_for_marks(size_t d) {
        const Dependent& one = self_.dependents[d];
        Of& of = of_[d];
        std::vector<uint64_t> marks = distinct(of.wide.begin(), of.wide.end());
        bool apart = marks.size() > kMostMarks;
        of.marks.resize(of.wide.size());
        const auto number = [&](int64_t first, int64_t last) {
            for (int64_t t = first; t < last; ++t)
                of.marks[t] =
                    static_cast<uint8_t>(std::lower_bound(marks.begin(), marks.end(), of.wide[t]) - marks.begin());
        };
        const auto ask = [&](int64_t b) { return choice_of(one, asked("choice", b, d, nb::cast(marks))); };
        number(0, N_);
        if (one.keys.empty() && !apart) {  // all sequences have the same automata
            of.choice.resize(1);
            if (attempt(-1, [&] { of.choice[0] = ask(0); })) return;
            apart = true;
        }
        of.choice.resize(B_);
        for (int64_t b = 0; b < B_; ++b) {
            if (apart) {
                marks = distinct(of.wide.begin() + offsets_[b], of.wide.begin() + offsets_[b + 1]);
                number(offsets_[b], offsets_[b + 1]);
            }
            given_ = given_of_(b);
            if (has_failed(b) || !attempt(b, [&] { of.choice[b] = ask(b); })) of.choice[b] = std::make_shared<Choice>();
        }
    }

    template <class At>
    static std::vector<uint64_t> distinct(At first, At last) {  // sorted, 0 among them
        std::vector<uint64_t> found(first, last);
        found.push_back(0);
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return found;
    }

    PyCompiled& self_;
    const int64_t* offsets_;
    const int64_t B_, N_;
    std::function<nb::object(int64_t)> given_of_;
    const bool raises_;
    std::vector<Of> of_;
    std::unique_ptr<PyBound> bound_;
    nb::object given_;                            // of the sequence at hand
    const int32_t* which_ = nullptr;              // (N) or null
    std::vector<std::vector<nb::object>> facts_;  // (columns, distinct texts)
    std::vector<int> spots_;
    std::vector<std::vector<uint8_t>>
        hits_;                    // (conditions that are remembered) where each holds in the sequence at hand
    std::vector<int32_t> words_;  // (lists of a column, n) the words of the sequence at hand
};

}  // namespace

std::unique_ptr<PyBound> bind_batch(nb::object compiled, In<int64_t> offsets, nb::object givens, nb::object texts,
                                    nb::object which, const Stop* stop) {
    PyCompiled& self = nb::cast<PyCompiled&>(compiled);
    const int64_t N = offsets.data()[offsets.size() - 1];
    const int32_t* numbers = nullptr;
    if (!texts.is_none()) {
        texts = nb::steal(PySequence_Tuple(texts.ptr()));
        if (!texts.is_valid()) throw nb::python_error();
        const int64_t count = PyTuple_Size(texts.ptr());
        const auto beyond = [&](int32_t number) { return number < 0 || number >= count; };
        if (!which.is_none()) numbers = nb::cast<In<int32_t>>(which, false).data();
        const int64_t told = numbers ? static_cast<int64_t>(nb::cast<In<int32_t>>(which, false).size()) : count;
        if (told != N || (numbers && std::any_of(numbers, numbers + N, beyond)))
            throw nb::value_error("texts, or which of them: the text of each token");
    }
    const auto given = [&](int64_t b) { return givens.is_none() ? nb::none() : nb::object(givens[b]); };
    const auto B = static_cast<int64_t>(offsets.size()) - 1;
    auto made = Binder(self, offsets.data(), B, given, false).run(texts, numbers, stop);
    made->compiled = std::move(compiled);
    return made;
}

std::unique_ptr<PyBound> bind_one(PyCompiled& self, int n, const nb::object& given) {
    const int64_t offsets[] = {0, n};
    return Binder(self, offsets, 1, [&](int64_t) { return given; }, true).run(nb::none(), nullptr, nullptr);
}

}  // namespace bridle
