// Rules of a decoder as Python builds them, shared by the files at the border.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "border/border.h"
#include "search/engines.h"
#include "text/phrases.h"

namespace bridle {

// Values by Python keys; those used lately are kept. There are two generations: what is asked for is, or goes, into the young
// one. When that is full it becomes the old one, and what was old is dropped. Who uses it sees to it that nobody else does.
class RecentCache {
  public:
    explicit RecentCache(size_t most) : most_(most) {}

    // The value of a key, or nothing. weight(value): of one that was old and is kept again.
    template <class Weight>
    nb::object find(nb::handle key, const Weight& weight) {
        if (PyObject* found = look(young_, key)) return nb::borrow(found);
        PyObject* found = look(old_, key);
        if (!found) return {};
        const nb::object value = nb::borrow(found);
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
        PyObject* found = PyDict_GetItemWithError(in.ptr(), key.ptr());
        if (!found && PyErr_Occurred()) throw nb::python_error();
        return found;
    }

    nb::dict young_, old_;
    size_t weight_ = 0;  // of the young ones
    size_t most_;        // of all together
};

// What one set of label names means for a rule: allowed labels as bits, or automata.
struct Choice {
    std::vector<uint64_t> token, first, last;  // (words) or empty
    std::vector<const CountingAutomaton*> automata;
    nb::object kept;

    size_t bytes() const {
        size_t sum = sizeof *this + sizeof(uint64_t) * (token.size() + first.size() + last.size());
        for (const CountingAutomaton* a : automata)
            sum += sizeof *a + sizeof(Move) * a->moves.size() + sizeof(uint16_t) * a->class_of.size() + a->edges.size();
        return sum;
    }
};

constexpr size_t kMostTexts = 65536;                              // whose matches are remembered
constexpr size_t kMostChoices = 1024;                             // of label names that come with sequences, per rule
constexpr size_t kMostChoiceBytes = size_t{1} << 25;              // of all of them
constexpr size_t kLeastChoice = kMostChoiceBytes / kMostChoices;  // what a small one counts as

// Positions that a rule speaks of: by a value that comes with the sequence, by conditions on tokens, or always the same.
// Conditions are numbered. Each holds at some positions t; a place has those where `here` holds at t, `after` at t - 1 and
// `before` at t + 1.
struct RulePlace {
    nb::object key;                          // of `given`
    nb::object fixed;                        // a tuple
    int here = -1, after = -1, before = -1;  // conditions; -1: none
    bool spans = false;

    bool of_tokens() const { return here >= 0; }
    bool alone() const { return after < 0 && before < 0; }
};

// A column of the data that conditions look at.
struct Column {
    nb::object key;                 // of `given`
    bool tokens;                    // is it the texts of the tokens?
    int dependent;                  // one that looks at it
    std::vector<int> lists;         // that are looked for in it
    RecentCache texts{kMostTexts};  // text -> bytes: what `_Source.facts` says of it
};

// A list of phrases that is looked for in a column. Conditions, or -1: is in a phrase, is the last or the first token of one.
struct ListUse {
    const Phrases* phrases;
    int inside, last, first;
};

// A rule, or a part of one, that depends on the sequence.
struct Dependent {
    enum Kind { mask, tied, automata } kind;
    int rule;
    std::vector<RulePlace> places;
    std::vector<nb::object> keys;           // of label names that come with the sequence
    bool few;                               // few places: every combination of them is a mark
    std::shared_ptr<Choice> fixed;          // without keys: made when first needed
    RecentCache choices{kMostChoiceBytes};  // names -> a capsule with their choice
};

struct PyCompiled {
    CompiledRules core;
    std::vector<uint64_t> base;                           // (words) labels that are allowed at all; empty: all are
    std::vector<Dependent> dependents;                    // ordered by rule
    std::vector<std::vector<std::pair<int, int>>> users;  // (conditions) the rules, and their places that are no more
    std::vector<uint8_t> remembered;                      // (conditions) is it part of a place?
    std::vector<std::pair<int, int>> contexts;            // rules, and their places that have several conditions
    std::vector<Column> columns;
    std::vector<ListUse> lists;
    int first = -1, last = -1;  // conditions: is the first, the last token
    nb::ft_mutex mutex;         // guards the texts of `columns` and the choices of `dependents`
    nb::object python;          // answers what is not read here; must not refer to this object
    std::vector<nb::object> kept;

    template <class... Masks>
    PyCompiled(int m, Masks&&... masks) : core(m, std::forward<Masks>(masks)...) {}
    bool depends() const { return !dependents.empty() || !base.empty(); }
};

struct PyBound {
    BoundRules core;
    nb::object compiled;  // whose automata it points to; invalid: those of the caller
    std::vector<std::shared_ptr<Choice>> kept;
    nb::typed<nb::dict, int64_t, nb::any>
        errors;  // why sequences could not be bound; what they would decode to means nothing
};

// A problem with its rules, but without sequences. It points into both; bound: null if no rule depends on the sequences.
Problem problem_of(PyCompiled& compiled, const PyBound* bound);
inline size_t memory_of(const Options& options) {
    return static_cast<size_t>(std::max<int64_t>(options.max_memory, 0));
}

// The rules of a batch, and of one sequence of n tokens, which raises what is wrong with it. texts: of all tokens, instead of
// given["tokens"]; or None. which (N): the place of the text of each token among texts that are there once; None: a text per token.
std::unique_ptr<PyBound> bind_batch(nb::object compiled, In<int64_t> offsets, nb::object givens, nb::object texts,
                                    nb::object which, const Stop* stop);
std::unique_ptr<PyBound> bind_one(PyCompiled& self, int n, const nb::object& given);  // both: given.cpp

void bind_rules(nb::module_& module);  // rules.cpp

// A problem as Python lays it out, shared by the files at the border that decode.

// The scores of a batch with its rules. Scores in double precision are read where they lie.
struct PyProblem {
    Problem problem;
    const Options* options = nullptr;
    const Stop* stop = nullptr;             // ends the work on its tables; null: nobody does
    std::vector<std::vector<double>> made;  // scores that had another precision
    std::vector<nb::object> kept;
    double spent = 0;   // seconds that its tables took
    bool late = false;  // did they take longer than the time limit? Then there are none.

    double left() const {  // of the time limit; negative: there is none
        return options->time_limit < 0 ? -1.0 : std::max(0.0, options->time_limit - spent);
    }

    template <class T>
    const T* keep(const nb::object& array) {
        if (array.is_none()) return nullptr;
        kept.push_back(array);
        return nb::cast<In<T>>(array, false).data();  // without a conversion, whose copy nobody would keep
    }

    void score(const nb::object& unary) {
        if (nb::isinstance<In<float>>(unary)) problem.unary32 = keep<float>(unary);
        else problem.unary64 = keep<double>(unary);
    }

    const double* doubles(const nb::object& scores) {
        if (!nb::isinstance<In<float>>(scores)) return keep<double>(scores);
        const auto from = nb::cast<In<float>>(scores, false);
        std::vector<double>& copy = made.emplace_back(from.data(), from.data() + from.size());
        copy.push_back(0.0);  // an array without numbers has an address too
        return copy.data();
    }

    // scores (m), or None, and a mask (m), or none; padded
    std::vector<double> edge(const nb::object& scores, const std::vector<double>& mask) {
        if (scores.is_none() && mask.empty()) return {};
        const int m = problem.m;
        std::vector<double> out(padded(m), -kInf);
        for (int y = 0; y < m; ++y) out[y] = mask.empty() ? 0.0 : mask[y];
        if (scores.is_none()) return out;
        const double* from = doubles(scores);
        for (int y = 0; y < m; ++y) out[y] += from[y];
        return out;
    }

    // pairwise (m, m) or (n - 1, m, m), or null, which must outlive this. seconds: what the table of transitions may take, before Late
    // is thrown; negative: no limit.
    void add_head(const double* pairwise, bool per_step, const nb::object& start, const nb::object& end,
                  double seconds) {
        Head& head = problem.heads.emplace_back();
        head.per_step = per_step;
        head.pairwise = pairwise;
        head.start = edge(start, problem.tables->first_mask);
        head.end = edge(end, problem.tables->last_mask);
        if (per_step) return;
        head.tables = freely(stop, seconds, [&](Control& c) {
            c.begin();
            return problem.tables->find(head.pairwise, c);
        });
    }
    void add_head(const nb::object& pairwise, const nb::object& start, const nb::object& end, double seconds) {
        const bool per_step = !pairwise.is_none() && nb::cast<int>(pairwise.attr("ndim")) == 3;
        add_head(doubles(pairwise), per_step, start, end, seconds);
    }

    void rule(PyCompiled& compiled, const PyBound* bound) {
        options = &compiled.core.options;
        problem = problem_of(compiled, bound);
    }
};

// What became of a single sequence.
struct Single {
    double score = -kInf, bound = kInf, seconds = 0;
    uint8_t status = static_cast<uint8_t>(Status::nothing_found);
    std::vector<int32_t> violations;  // (rules)
    std::vector<int64_t> counters;
};

// Decodes one sequence, without a batch around it, within so many seconds (negative: no limit); its labels into path (n).
// add_scores(problem) adds its scores and its head.
template <class Scores>
Single decode_single(PyCompiled& compiled, int engine, int n, const nb::object& given, double limit, size_t n_counters,
                     const Stop* stop, int32_t* path, const Scores& add_scores) {
    const auto began = Control::Clock::now();
    PyProblem self;
    Problem& p = self.problem;
    const auto bound = compiled.depends() ? bind_one(compiled, n, given) : nullptr;
    self.rule(compiled, bound.get());
    self.stop = stop;
    const int64_t offsets[] = {0, n};
    p.B = 1, p.N = n, p.offsets = offsets;
    Single found;
    found.violations.resize(p.rules.size());
    found.counters.resize(n_counters);
    try {
        add_scores(self);
    } catch (const Late&) {
        found.bound = bound_by_scores(Sequence(p, 0)), found.seconds = limit;
        return found;
    }
    const double spent = std::chrono::duration<double>(Control::Clock::now() - began).count();
    const Outputs out{
        path,       &found.score,  &found.bound, &found.status, found.violations.data(), found.counters.data(),
        n_counters, &found.seconds};
    const double left = limit < 0 ? -1.0 : std::max(0.0, limit - spent);
    freely(
        stop, left,
        [&](Control& c) { run(p, engine_numbered(engine), *self.options, c, out, limit < 0 ? nullptr : &left); },
        memory_of(*self.options));
    found.seconds += spent;
    return found;
}

}  // namespace bridle
