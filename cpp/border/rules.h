// Rules of a decoder as Python builds them, shared by the files at the border.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "border/border.h"
#include "search/compiled.h"

namespace bridle {

// Values by Python keys; those used lately are kept. There are two generations: what is asked for is, or goes, into the young
// one. When that is full it becomes the old one, and what was old is dropped. Only one caller may use it at a time.
class RecentCache {
  public:
    explicit RecentCache(size_t most) : most_(most) {}

    // The value of a key, or nothing. weight(value): of one that was old and is kept again.
    template <class Weight>
    nb::object find(nb::handle key, const Weight& weight) {
        if (PyObject* young = look(young_, key)) return nb::borrow(young);
        PyObject* old = look(old_, key);
        if (!old) return {};
        const nb::object value = nb::borrow(old);
        keep(key, value, weight(value));
        return value;
    }
    void keep(const nb::handle& key, const nb::handle& value, size_t weight) {
        if (2 * weight > most_) return;
        if (2 * (weight_ + weight) > most_) {
            old_ = std::exchange(young_, nb::dict());
            weight_ = 0;
        }
        young_[key] = value;
        weight_ += weight;
    }

  private:
    static PyObject* look(const nb::dict& in, nb::handle key) {  // borrowed, or null
        PyObject* value = PyDict_GetItemWithError(in.ptr(), key.ptr());
        if (!value && PyErr_Occurred()) throw nb::python_error();
        return value;
    }

    nb::dict young_, old_;
    size_t weight_ = 0;  // of the young ones
    size_t most_;        // of all together
};

constexpr size_t kMostTexts = 65536;                              // whose matches are remembered
constexpr size_t kMostChoices = 1024;                             // of label names that come with sequences, per rule
constexpr size_t kMostChoiceBytes = size_t{1} << 25;              // of all of them
constexpr size_t kLeastChoice = kMostChoiceBytes / kMostChoices;  // what a small one counts as

// What only the border knows of a compiled rule that depends on the sequence (search/compiled.h): keys of `given`, and caches.
struct PyPlace {
    nb::object key;    // or
    nb::object fixed;  // a tuple
    bool spans;
};

struct PyDependent {
    std::vector<PyPlace> places;
    std::vector<nb::object> keys;           // of label names that come with the sequence
    std::shared_ptr<const Choice> fixed;    // without keys: made when first needed
    RecentCache choices{kMostChoiceBytes};  // names -> a capsule with their choice
};

// A column of the data that conditions look at.
struct PyColumn {
    nb::object key;
    bool tokens;                    // is it the texts of the tokens?
    int dependent;                  // a rule that looks at it
    RecentCache facts{kMostTexts};  // text -> bytes: what `_Source.facts` says of it
};

struct PyCompiled {
    CompiledRules core;
    std::vector<PyDependent> dependents;
    std::vector<PyColumn> columns;
    nb::ft_mutex mutex;  // guards the caches of `dependents` and `columns`
    nb::object python;   // answers what is not read here; must not refer to this object
    std::vector<nb::object> kept;

    template <class... Masks>
    PyCompiled(int m, Masks&&... masks) : core(m, std::forward<Masks>(masks)...) {}
    bool depends() const { return !core.dependent.empty(); }
    size_t memory() const { return size_t(std::max<int64_t>(core.options.max_memory, 0)); }
};

struct PyBound {
    BoundRules core;
    nb::object compiled;  // whose automata it points to
    nb::typed<nb::dict, int64_t, nb::any>
        errors;  // of sequences that could not be bound; what they decode to means nothing
};

// The rules of a batch, and of one sequence of n tokens, which raises what is wrong with it. texts: of all tokens, instead of
// given["tokens"]; or None. which (N): the place of the text of each token among texts that are there once; None: a text per token.
std::unique_ptr<PyBound> bind_batch(nb::object compiled, In<int64_t> offsets, nb::object givens, nb::object texts,
                                    nb::object which, const Stop* stop);
BoundRules bind_one(PyCompiled& self, int n, const nb::object& given);  // both: given.cpp

// The rules of a problem, and the arrays of scores that it points to. Scores in double precision are read where they lie.
struct PyProblem {
    Problem problem;
    PyCompiled* compiled = nullptr;
    std::vector<std::vector<double>> converted;  // scores that had another precision
    std::vector<nb::object> kept;
    double spent = 0;   // seconds that its tables took
    bool late = false;  // did they take longer than the time limit? Then there are none.

    const Options& options() const { return compiled->core.options; }
    double left() const {  // of the time limit; negative: there is none
        return options().time_limit < 0 ? -1.0 : std::max(0.0, options().time_limit - spent);
    }

    void set_unary(const nb::object& unary) {
        if (nb::isinstance<In<float>>(unary)) problem.unary32 = keep<float>(kept, unary);
        else problem.unary64 = keep<double>(kept, unary);
    }
    HeadScores head_scores(const nb::object& pairwise, const nb::object& start, const nb::object& end) {
        const bool per_step = !pairwise.is_none() && nb::cast<int>(pairwise.attr("ndim")) == 3;
        return {doubles(pairwise), per_step, doubles(start), doubles(end)};
    }
    // Adds scores that do not depend on the token. False: the tables took more than so many seconds; negative: no limit.
    bool add_head(const HeadScores& scores, double seconds, const Stop* stop) {
        Head& head = problem.heads.emplace_back(problem.tables->head(scores));
        if (head.per_step) return true;
        return freely(stop, seconds, [&](Control& c) {
            c.begin();
            return c.completes([&] { head.tables = problem.tables->find(head.pairwise, c); });
        });
    }

  private:
    const double* doubles(const nb::object& scores) {
        if (!nb::isinstance<In<float>>(scores)) return keep<double>(kept, scores);
        const auto from = nb::cast<In<float>>(scores, false);
        std::vector<double>& copy = converted.emplace_back(from.data(), from.data() + from.size());
        copy.push_back(0.0);  // an array without numbers has an address too
        return copy.data();
    }
};

// Sequences by number.
inline std::vector<int64_t> numbers_of(const PyProblem& self, In<int64_t> rows) {
    std::vector<int64_t> out(rows.data(), rows.data() + rows.size());
    const auto beyond = [&](int64_t b) { return b < 0 || b >= self.problem.B; };
    if (std::any_of(out.begin(), out.end(), beyond)) throw nb::value_error("there is no such sequence");
    return out;
}

// The scores of a single sequence, and what became of it.
struct SequenceScores {
    const float* unary32 = nullptr;  // (n, m), one of the two
    const double* unary64 = nullptr;
    HeadScores head = {};
};

struct SingleAnswer {
    double score = -kInf, bound = kInf, seconds = 0;
    uint8_t status = uint8_t(Status::nothing_found);
    std::vector<int32_t> violations;  // (rules)
    std::vector<int64_t> counters;
};

// Decodes one sequence, without a batch around it, within so many seconds (negative: no limit); its labels into path (n).
SingleAnswer decode_single(PyCompiled& compiled, int engine, const SequenceScores& scores, const nb::object& given,
                           double limit, size_t n_counters, const Stop* stop,
                           std::span<int32_t> path);  // module.cpp

void bind_rules(nb::module_& module);            // rules.cpp
void bind_sums(nb::class_<PyProblem>& problem);  // sums.cpp

}  // namespace bridle
