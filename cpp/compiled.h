// The rules of a decoder in the form that kernels read, built once. What depends on the sequences is added per batch.
#pragma once

#include <utility>
#include <vector>

#include "engines.h"
#include "groups.h"

namespace bridle {

struct CompiledRules {
    TableCache tables;  // transition, start and end scores with the masks of the rules
    GroupCache groups;
    SearchPool searches;
    Options options;
    std::vector<Rule> rules;
    std::vector<RuleAutomaton> automata;  // of rules that are the same for all sequences, ordered by rule

    template <class... Masks>
    CompiledRules(int m, Masks&&... masks) : tables(m, std::forward<Masks>(masks)...) {}
};

// What a batch adds to them. Rows are tokens, counted over the batch.
struct BoundRules {
    int words = 0;
    std::vector<uint64_t> allowed;            // (N, words) bit y: label y is allowed; empty: all are
    std::vector<uint8_t> tied;                // (N) must a token have the type of the one before? empty: none must
    std::vector<std::vector<uint8_t>> marks;  // each (N)
    std::vector<RuleAutomaton> automata;      // of all rules, ordered by rule
};

}  // namespace bridle
