// The border to Python, rules: compiled once per decoder.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "border/rules.h"

namespace bridle {
namespace {

std::vector<double> mask_of(const nb::object& allowed) {  // None: nothing is masked
    if (allowed.is_none()) return {};
    const auto from = nb::cast<In<uint8_t>>(allowed);
    std::vector<double> mask(from.size());
    for (size_t c = 0; c < mask.size(); ++c) mask[c] = from.data()[c] ? 0.0 : -kInf;
    return mask;
}

void make_automaton(CountingAutomaton* self, In<int32_t> step, In<int32_t> violations, In<int32_t> final,
                    In<uint16_t> class_of, int sense, int limit, In<uint8_t> edges, In<int32_t> room) {
    const auto copy = [](const auto& x) { return std::vector(x.data(), x.data() + x.size()); };
    std::vector<Move> moves(step.size());
    for (size_t c = 0; c < step.size(); ++c) moves[c] = {step.data()[c], violations.data()[c]};
    new (self) CountingAutomaton{.marks = int(step.shape(0)),
                                 .states = int(step.shape(1)),
                                 .classes = int(step.shape(2)),
                                 .class_of = copy(class_of),
                                 .moves = std::move(moves),
                                 .final = copy(final),
                                 .sense = sense,
                                 .limit = limit,
                                 .edges = copy(edges),
                                 .room = copy(room),
                                 .after_class = {}};
    self->find_local();
}

void make_compiled(PyCompiled* self, int m, nb::object step, nb::object same_type, nb::object first, nb::object last,
                   const Options& options, nb::object base, nb::object python) {
    std::vector<double> free = mask_of(step), tied = mask_of(same_type);
    for (size_t c = 0; c < tied.size() && !free.empty(); ++c) tied[c] += free[c];
    new (self) PyCompiled(m, std::move(free), std::move(tied), mask_of(first), mask_of(last));
    self->core.options = options;
    self->python = std::move(python);
    if (!base.is_none()) {
        const auto bits = nb::cast<In<uint64_t>>(base);
        self->core.dependent.base.assign(bits.data(), bits.data() + bits.size());
    }
}

void add_automaton(PyCompiled& self, int rule, nb::object automaton) {
    self.core.automata.push_back({rule, {nb::cast<const CountingAutomaton*>(automaton)}, nullptr});
    self.kept.push_back(std::move(automaton));
}

// places: ("given", key, spans) | ("tokens", (here, after, before), False) | ("fixed", positions, spans). keys: names that come
// with the sequence.
void add_dependent(PyCompiled& self, int rule, const std::string& kind, nb::list places, nb::list keys) {
    DependentRule added{.kind = kind == "mask"        ? DependentRule::mask
                                : kind == "tied"      ? DependentRule::tied
                                : kind == "agreement" ? DependentRule::agreement
                                                      : DependentRule::automata,
                        .rule = rule,
                        .places = {},
                        .named = nb::len(keys) > 0};
    PyDependent& dependent = self.dependents.emplace_back();
    for (nb::handle place : places) {
        const auto [source, value, spans] = nb::cast<std::tuple<std::string, nb::object, bool>>(place);
        added.places.emplace_back();
        dependent.places.push_back({source == "given" ? value : nb::object(), value, spans});
        if (source != "tokens") continue;
        added.places.back() = {nb::cast<int>(value[0]), nb::cast<int>(value[1]), nb::cast<int>(value[2])};
    }
    for (nb::handle key : keys) dependent.keys.push_back(nb::borrow(key));
    self.core.dependent.add(std::move(added));
}

// columns: (key, a dependent that looks at it); lists: (column, phrases, inside, last, first); first, last: conditions, or -1.
void set_conditions(PyCompiled& self, nb::list columns, nb::list lists, int first, int last) {
    DependentRules& dependent = self.core.dependent;
    for (nb::handle column : columns)
        self.columns.push_back(
            {nb::borrow(column[0]), nb::cast<std::string>(column[0]) == "tokens", nb::cast<int>(column[1])});
    dependent.lists.resize(self.columns.size());
    for (nb::handle list : lists) {
        const auto [column, phrases, inside, at_last, at_first] =
            nb::cast<std::tuple<size_t, nb::object, int, int, int>>(list);
        dependent.lists.at(column).push_back({nb::cast<const Phrases*>(phrases), inside, at_last, at_first});
        self.kept.push_back(phrases);
    }
    dependent.first = first;
    dependent.last = last;
}

std::string_view view(const nb::bytes& text) { return {text.c_str(), text.size()}; }

void make_phrases(Phrases* self, nb::bytes lines) {
    const std::string_view text = view(lines);
    const nb::gil_scoped_release release;
    new (self) Phrases(text);
}

// words, out (N); offsets (B + 1)
void phrase_places(const Phrases& self, In<int32_t> words, In<int64_t> offsets, Out<int32_t> out) {
    if (out.size() != words.size() || offsets.size() == 0 ||
        offsets.data()[offsets.size() - 1] != int64_t(words.size()))
        throw nb::value_error("words, offsets and out do not fit together");
    const nb::gil_scoped_release release;
    for (size_t b = 0; b + 1 < offsets.size(); ++b) {
        const int64_t at = offsets.data()[b];
        self.places({words.data() + at, size_t(offsets.data()[b + 1] - at)}, out.data() + at);
    }
}

}  // namespace

void bind_rules(nb::module_& module) {
    nb::class_<CountingAutomaton>(module, "CountingAutomaton")
        .def("__init__", &make_automaton, "step"_a, "violations"_a, "final"_a, "class_of"_a, "sense"_a, "limit"_a,
             "edges"_a, "room"_a);
    nb::class_<Phrases>(module, "Phrases")
        .def("__init__", &make_phrases, "lines"_a)
        .def("__len__", &Phrases::count)
        .def_prop_ro("n_bytes", &Phrases::bytes)
        .def("places", &phrase_places, "words"_a, "offsets"_a, "out"_a)
        .def("word", [](const Phrases& p, nb::bytes text) { return p.word(view(text)); }, "text"_a);
    nb::class_<Options>(module, "Options")
        .def(nb::init<>())
        .def_rw("time_limit", &Options::time_limit)
        .def_rw("max_states", &Options::max_states)
        .def_rw("max_memory", &Options::max_memory)
        .def_rw("width", &Options::width)
        .def_rw("max_product_states", &Options::max_product_states)
        .def_rw("max_group_states", &Options::max_group_states)
        .def_rw("decompose_after", &Options::decompose_after)
        .def_rw("tau", &Options::tau)
        .def_rw("seed", &Options::seed)
        .def_rw("arcs", &Options::arcs);
    nb::class_<PyBound>(module, "BoundRules")
        .def_prop_ro("allowed",
                     [](const PyBound& b) -> nb::object {  // (N, words), or None
                         const auto words = size_t(b.core.words);
                         if (b.core.allowed.empty()) return nb::none();
                         return array_of(b.core.allowed, {b.core.allowed.size() / words, words});
                     })
        .def_ro("errors", &PyBound::errors);
    nb::class_<PyCompiled>(module, "CompiledRules")
        .def("__init__", &make_compiled, "m"_a, "step"_a.none(), "same_type"_a.none(), "first"_a.none(),
             "last"_a.none(), "options"_a, "base"_a.none(), "python"_a)
        .def(
            "add_rule",
            [](PyCompiled& c, int mode, double penalty) { c.core.rules.push_back({static_cast<Mode>(mode), penalty}); },
            "mode"_a, "penalty"_a)
        .def("add_automaton", &add_automaton, "rule"_a, "automaton"_a)
        .def("add_dependent", &add_dependent, "rule"_a, "kind"_a, "places"_a, "keys"_a)
        .def("set_conditions", &set_conditions, "columns"_a, "lists"_a, "first"_a, "last"_a)
        .def("drop_redundant", [](PyCompiled& c) { c.core.drop_redundant(); })
        .def_prop_ro("n_bytes", [](const PyCompiled& c) { return c.core.bytes(); })
        .def_prop_ro("n_automata", [](const PyCompiled& c) { return c.core.automata.size(); })
        .def_prop_ro("depends", &PyCompiled::depends)
        .def_prop_ro("reads_tokens",
                     [](const PyCompiled& c) {
                         return std::any_of(c.columns.begin(), c.columns.end(),
                                            [](const PyColumn& x) { return x.tokens; });
                     })
        .def("bind", &bind_batch, "offsets"_a, "givens"_a.none(), "texts"_a.none(), "which"_a.none(),
             "stop"_a.none() = nb::none());
}

}  // namespace bridle
