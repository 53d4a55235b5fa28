// Word lattices: best paths over boundaries x states of a folded automaton.
//   H[b][q] = max over arcs a from b to e, with label y, of  score[a] - cost[q][y] + H[e][next(q, y)]
//   H[n][q] = -final[q]
// the best score from boundary b on, state q being reached there. The best path is then read off forwards, the k best by
// best-first search with H as the (perfect) estimate.
//
//   n characters, boundaries 0 .. n (b, then e)     A arcs (a): possible words, each with one label (y)     Q states (q)
//
// The arcs take the place of the tokens of a Problem: its unary scores are (N), one per arc, and marks are per arc.
// An automaton that reads a path looks up the mark of the arc, so automata, sets and folds serve as they are.
#pragma once

#include <vector>

#include "search/engines.h"

namespace bridle {

struct SpanBatch {
    const Problem& problem;  // N arcs in all, sequence b has those of its offsets
    const int32_t* n;        // (B)
    const int32_t* spans;    // (N, 2)  start, end
    const int32_t* label;    // (N)  negative: a silent arc, which no rule reads
    // (N, 2) or null: what an arc holds, from and to. Then arcs whose label is above 0 may hold others of these, which are
    // read after it and before what follows; two of them never cross, and are never equal.
    const int32_t* extents = nullptr;
};

struct SpanOutputs {
    int32_t* path;    // (N)  arcs of the best path of sequence b, from offsets[b] on, numbered within the sequence
    int32_t* length;  // (B)  how many they are
    double *score, *bound;  // (B)
    uint8_t* status;        // (B)
    int32_t* violations;    // (B, rules)  violations
    int64_t* counters;      // (B, kCounters)  rounds, states
};

// Decodes all sequences, or throws Stopped. lazy: fold only rules that a best path breaks, until none is left; else all at once.
void run_spans(const SpanBatch& batch, bool lazy, const Options& options, Control& control, const SpanOutputs& out);

// The k best paths of sequence b, as arcs, best first: fewer if there are fewer. status optimal: they are proved;
// infeasible, nothing_found (a limit) or too_large: there are none. bound: no path scores higher.
Status k_best_spans(const SpanBatch& batch, int64_t b, int k, const Options& options, Control& control,
                    std::vector<ScoredPath>& paths, double& bound);

}  // namespace bridle
