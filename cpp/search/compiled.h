// The rules of a decoder, compiled once, and how those that depend on the sequence are bound to a batch.
//   B sequences (b), N tokens in all (t), n of one sequence    dependent rules (d), each with places (k)    conditions (c)
//
// A place stands for the positions that a rule is about: those of a value that comes with the sequence, always the same ones,
// or those where conditions on tokens hold: `here` at t, `after` at t - 1 and `before` at t + 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "search/engines.h"
#include "search/sums_graph.h"
#include "text/phrases.h"

namespace bridle {

// What one set of label names means for a rule: allowed labels as bits, or automata.
struct Choice {
    std::vector<uint64_t> token, first, last;  // (words) or empty
    std::vector<const CountingAutomaton*> automata;
    std::shared_ptr<const void> owner;  // of the automata

    size_t bytes() const;
};

struct RulePlace {
    int here = -1, after = -1, before = -1;  // conditions; -1: none

    bool of_tokens() const { return here >= 0; }
    bool alone() const { return after < 0 && before < 0; }
};

// A rule, or a part of one, that depends on the sequence.
struct DependentRule {
    enum Kind { mask, tied, automata, agreement } kind;
    int rule;
    std::vector<RulePlace> places;
    bool named;  // do label names come with the sequence?

    bool few() const { return places.size() <= 3; }  // few places: every combination of them is a mark
};

// A list of phrases that is looked for in a column. Conditions, or -1: is in a phrase, is the last or the first token of one.
struct ListUse {
    const Phrases* phrases;
    int inside, last, first;
};

struct DependentRules {
    using PlaceOfRule = std::pair<int, int>;  // d, k

    std::vector<uint64_t> base;                   // (words) labels that are allowed at all; empty: all are
    std::vector<DependentRule> rules;             // ordered by rule
    std::vector<std::vector<PlaceOfRule>> users;  // (conditions) places that are no more than the condition
    std::vector<uint8_t> remembered;              // (conditions) is it part of a place?
    std::vector<PlaceOfRule> contexts;            // places that have several conditions
    std::vector<std::vector<ListUse>> lists;      // (columns) that are looked for in each
    int first = -1, last = -1;                    // conditions: is the first, the last token

    void add(DependentRule rule);
    bool empty() const { return rules.empty() && base.empty(); }
};

struct CompiledRules {
    TableCache tables;  // transition, start and end scores with the masks of the rules
    GraphCache graphs;
    GroupCache groups;
    SearchPool searches;
    Options options;
    std::vector<Rule> rules;
    std::vector<RuleAutomaton> automata;  // of rules that are the same for all sequences, ordered by rule
    DependentRules dependent;

    template <class... Masks>
    CompiledRules(int m, Masks&&... masks) : tables(m, std::forward<Masks>(masks)...) {}

    size_t bytes() const;  // that masks, tables, automata and free searches take: what grows with the labels

    // Drops automata that no labelling violates which keeps to the masks and to some hard rule. What would take long to find out
    // stays in.
    void drop_redundant();
};

// What a batch adds to them.
struct BoundRules {
    int words = 0;
    std::vector<uint64_t> allowed;             // (N, words) bit y: label y is allowed; empty: all are
    std::vector<uint8_t> tied;                 // (N) must a token have the type of the one before? empty: none must
    std::vector<std::vector<uint8_t>> marks;   // each (N)
    std::vector<RuleAutomaton> automata;       // of all rules, ordered by rule
    std::vector<std::vector<int32_t>> groups;  // each (N)
    std::vector<RuleAgreement> agreements;
    std::vector<std::shared_ptr<const Choice>> kept;
};

// A problem with its rules, but without sequences. It points into both; bound: null if no rule depends on the sequences.
Problem problem_of(CompiledRules& rules, const BoundRules* bound);

// What comes with the sequences of a batch. Whatever is asked is about the sequence that was begun last; answers may throw.
class GivenValues {
  public:
    virtual ~GivenValues() = default;
    virtual void begin(int64_t b) = 0;
    // Does some work on a sequence (-1: on all); false: one of its values is wrong, which is its error from now on.
    virtual bool attempt(int64_t b, const std::function<void()>& work) = 0;
    // Appends the positions of a place in a sequence of n tokens.
    virtual void add_positions(size_t d, size_t k, int n, std::vector<int>& positions) = 0;
    // The groups of n tokens that should agree.
    virtual void find_groups(size_t d, int n, int32_t* groups) = 0;
    // What label names mean for a rule; marks: for one with many places, those that occur.
    virtual std::shared_ptr<const Choice> choice(size_t d) = 0;
    virtual std::shared_ptr<const Choice> choice(size_t d, const std::vector<uint64_t>& marks) = 0;
    // Opens a column of n texts. What is known of text t: numbers (int32) end to end, [count, conditions that hold (count), its word
    // in each list of the column].
    virtual void open_column(size_t column, int n) = 0;
    virtual const char* facts(size_t column, int t) = 0;
};

// Binds one batch.
class Binder {
  public:
    Binder(const CompiledRules& rules, std::span<const int64_t> offsets, GivenValues& given);

    void bind(int64_t b);  // the next sequence
    BoundRules finish();   // after all of them

  private:
    struct Binding {                                        // of one dependent rule
        std::shared_ptr<const Choice> same;                 // of all sequences, if no names come with them
        std::vector<std::shared_ptr<const Choice>> choice;  // (B), if they do
        std::vector<uint8_t> marks;                         // (N), if it has few places
        std::vector<uint64_t> wide;                         // (N), if it has many
        std::vector<int32_t> groups;                        // (N), if it is about agreement
    };

    int length(int64_t b) const { return int(offsets_[b + 1] - offsets_[b]); }
    void leave(int64_t b);
    void bind_rule(size_t d, int64_t b);
    void narrow(int64_t t, const std::vector<uint64_t>& bits);
    void mark(size_t d, size_t k, int64_t b, int64_t t);
    void hold(int condition, int64_t b, int64_t t);
    void bind_conditions(int64_t b);
    void read_column(size_t column, int64_t b);
    void gather(size_t d);
    void choose_by_marks(size_t d);

    const DependentRules& dependent_;
    const std::vector<RuleAutomaton>& automata_;
    const std::span<const int64_t> offsets_;  // (B + 1)
    const int64_t B_, N_;
    GivenValues& given_;
    std::vector<Binding> bindings_;  // (dependent rules)
    BoundRules bound_;
    std::vector<char> failed_;  // (B)
    std::vector<int> positions_;
    std::vector<std::vector<uint8_t>>
        holds_;                   // (conditions that are remembered) where each holds in the sequence at hand
    std::vector<int32_t> words_;  // (lists of a column, n) the words of the sequence at hand
};

}  // namespace bridle
