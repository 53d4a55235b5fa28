// Rules of a decoder as Python builds them, shared by the files at the border.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bindings.h"
#include "compiled.h"

namespace bridle {

// What one set of label names means for a rule: allowed labels as bits, or automata.
struct Choice {
    std::vector<uint64_t> token, first, last;  // (words) or empty
    std::vector<const CountingAutomaton*> automata;
    nb::object kept;
};

// Positions that a rule speaks of: by a value that comes with the sequence, by the text of tokens, or always the same.
struct Place {
    nb::object key;    // of `given`
    nb::object fixed;  // a tuple
    int pattern = -1;  // its number
    bool spans = false;
};

// A rule, or a part of one, that depends on the sequence.
struct Dependent {
    enum Kind { mask, tied, automata } kind;
    int rule;
    std::vector<Place> places;
    std::vector<nb::object> keys;   // of label names that come with the sequence
    bool few;                       // few places: every combination of them is a mark
    std::shared_ptr<Choice> fixed;  // without keys: made when first needed
    nb::dict known;                 // names -> number of their choice
    std::vector<std::shared_ptr<Choice>> choices;
};

struct PyCompiled {
    CompiledRules core;
    std::vector<uint64_t> base;                           // (words) labels that are allowed at all; empty: all are
    std::vector<Dependent> dependents;                    // ordered by rule
    std::vector<std::vector<std::pair<int, int>>> users;  // (patterns) the rules and places that ask for each
    nb::object tokens = nb::str("tokens");
    nb::ft_mutex mutex;                     // guards `texts`, `matches` and the choices of `dependents`
    nb::dict texts;                         // text -> row of matches
    std::vector<std::vector<int>> matches;  // patterns that match a text
    nb::object python;                      // answers what is not read here; must not refer to this object
    std::vector<nb::object> kept;

    template <class... Masks>
    PyCompiled(int m, Masks&&... masks) : core(m, std::forward<Masks>(masks)...) {}
    bool depends() const { return !dependents.empty() || !base.empty(); }
};

struct PyBound {
    BoundRules core;
    nb::object compiled;  // whose automata it points to; invalid: those of the caller
    std::vector<std::shared_ptr<Choice>> kept;
};

// The rules of a batch, and of one sequence of n tokens. texts (N): of all tokens, instead of given["tokens"]; or None.
std::unique_ptr<PyBound> bind_batch(nb::object compiled, In<int64_t> offsets, nb::object givens, nb::object texts);
std::unique_ptr<PyBound> bind_one(PyCompiled& self, int n, const nb::object& given);  // both: bindings_given.cpp

void bind_rules(nb::module_& module);  // bindings_rules.cpp

}  // namespace bridle
