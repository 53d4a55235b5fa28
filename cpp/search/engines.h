// One function per engine, each for one sequence; `run` decodes a batch in one thread.
//   score(y) = first[y[0]] + sum over t of unary[t][y[t]] + sum over t of pairwise[y[t-1]][y[t]] + last[y[n-1]]
//   an engine finds   max over y of  score(y) - (what the soft rules cost)   such that the hard rules hold
//
//   B sequences (b), N tokens in all, n of one sequence (t)    m labels (i, then j; y for a labelling)    S segments
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <span>
#include <vector>

#include "search/groups.h"
#include "search/search.h"

namespace bridle {

struct Options {
    double time_limit = -1;           // seconds per sequence; negative: none
    int64_t max_states = -1;          // negative: none
    int64_t max_memory = 1000000000;  // bytes per sequence
    int width = 8;                    // beam
    int max_product_states = 64;      // search: fold while the product has at most so many states
    int max_group_states = 128;       // search: of the product automaton of a group
    int64_t decompose_after = 500;    // search: expansions before rules are decomposed into groups
    double tau = 1.0;                 // two_stage
    uint64_t seed = 0;                // lazy_intersection: the order in which rules are looked at
    bool arcs = false;                // product, lazy_intersection: count lattice arcs
};

inline SearchLimits limits_of(const Options& options) {
    return {options.max_states, options.max_product_states, options.max_group_states, options.decompose_after};
}

// Numbers that engines leave per sequence; the Python side names them. Any engine may be given fewer places than this.
constexpr int kCounters = 64;

using Engine = Answer (*)(const Sequence&, const Options&, Control&, Search&, int64_t* counters);

Answer run_product(const Sequence&, const Options&, Control&, Search&, int64_t* counters);
Answer run_lazy_intersection(const Sequence&, const Options&, Control&, Search&, int64_t* counters);

// Engines by number; -1: there is none of this name.
int engine_number(const std::string& name);
Engine engine_numbered(int number);

struct Outputs {
    int32_t* ids;         // (N)
    double* score;        // (B) lattice score - penalty
    double* bound;        // (B)
    uint8_t* status;      // (B)
    int32_t* violations;  // (B, rules)  violations
    int64_t* counters;    // (B, n_counters)
    size_t n_counters;
    double* seconds;  // (B) spent on each sequence, if there is a time limit
};

// No labelling scores more than the best label everywhere, masks left out, and the best transition between them. +inf: there are
// too many scores to look at in no time.
double bound_by_scores(const Sequence& s);

// A sequence as an engine wants it: few know agreements, the others have an automaton for every group.
Sequence sequence_for(Engine engine, const Problem& problem, int64_t b);

// Decodes one sequence: what the engine finds, or what there is to show when the time is up. Throws Stopped.
Answer solve(Engine engine, const Sequence& s, const Options& options, Control& control, Search& search,
             int64_t* counters);

// Decodes all sequences, or throws Stopped. left (B): seconds that are left for each, if there is a time limit; null: all of it.
void run(const Problem& problem, Engine engine, const Options& options, Control& control, const Outputs& out,
         const double* left = nullptr);

// A rule about equal tokens of documents: groups count over all tokens of a problem, from 0 in each document.
struct DocumentAgreement {
    Rule rule;
    const CountingAutomaton* kinds;
    const int32_t* group;  // (N)
};

// Documents: sequences that follow each other and are decoded together.
struct Documents {
    std::span<const int64_t> cuts;  // (D + 1)  the first sequence of each
    std::vector<DocumentAgreement> agreements;
};

struct DocumentOutputs {
    int32_t* ids;           // (N)
    double *score, *bound;  // (D)
    uint8_t* status;        // (D)
    int32_t* violations;    // (B, rules)
    int32_t* changes;       // (D, agreements)  violations of those
    int64_t* counters;      // (D, n_counters)
    size_t n_counters;
    double* seconds;  // (D)
};

// Decodes all documents by the engine `search`, each within the limits of a sequence, or throws Stopped.
void run_documents(const Problem& problem, const Documents& documents, const Options& options, Control& control,
                   const DocumentOutputs& out);

// The k best labellings of sequence b: fewer if there are fewer. Their violations are those of each rule.
std::vector<Answer> k_best(const Problem& problem, int64_t b, int k, const Options& options, Control& control);

}  // namespace bridle
