// The product of automata and labels over which sums run, and the programs that run over it (simd/lanes.inl).
//
//   V nodes (v): a state of the product and the label that was read last; those of one state are a row (q)
//   step(q, j) = the node that reading label j leads to, and its price: which soft rules are violated, and how often
//
// Only what can be reached under the masks, and from where a labelling can still end, is kept; nodes with equal futures are one.
// Labels are renumbered (places): those that may follow most others come first, so that runs of columns have the same terms.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "search/control.h"
#include "search/problem.h"

namespace bridle {

struct SumGraph {
    using Price = std::vector<std::pair<int32_t, int32_t>>;  // soft rules and how often they are violated

    struct Kind {                         // of positions: automata read by the marks there
        std::vector<LaneTarget> steps;    // (Q, m)  a step leads to node `cell` (-1: none)
        std::vector<LaneTarget> reverse;  // of the runs back
        std::vector<LaneTarget> forward;  // of the runs ahead
        std::vector<LaneRun> ahead, back;
        std::vector<LaneTerm> ahead_terms, back_terms;
        std::vector<LaneTile> tiles;
        std::vector<int32_t> charged;  // steps that have a price, and for each
        std::vector<LaneRun> charges;  // one run that sums up what takes it, with
        std::vector<LaneTerm> charge_terms;
        std::vector<LaneTarget> charge_targets;
    };

    int m = 0, Q = 0, V = 0;
    std::vector<int32_t> label, place;          // (m)  of each place its label, and the other way round
    std::vector<int32_t> node_row, node_place;  // (V)
    std::vector<int32_t> row_begin;             // (Q + 1)
    std::vector<Kind> kinds;
    std::vector<std::vector<LaneTarget>> start;  // (kinds, m)  by place: the first step
    std::vector<int32_t> final;                  // (V)  price at the end; -1: must not end here
    int32_t empty = -1;                          // the same of a sequence without tokens
    std::vector<Price> prices;                   // the first is nothing

    size_t bytes() const;
};

// What the graph of some automata depends on besides them: positions of one kind have the same marks.
struct PositionKinds {
    std::vector<std::vector<uint8_t>> marks;  // (kinds, automata)
};

// Builds the graph; null: it has too many states or is too large. masks: of transitions and first labels.
std::shared_ptr<const SumGraph> build_graph(const std::vector<BoundAutomaton>& automata, const PositionKinds& kinds,
                                            const TableCache& masks, size_t most_states, size_t most_bytes,
                                            Control& control);

// Graphs that were used last; a decoder meets few.
class GraphCache {
  public:
    std::shared_ptr<const SumGraph> find(const std::vector<BoundAutomaton>& automata, const PositionKinds& kinds,
                                         const TableCache& masks, size_t most_states, size_t most_bytes,
                                         Control& control);

  private:
    static constexpr size_t kMostEntries = 32, kMostBytes = size_t{1} << 26;  // but for the newest
    struct Entry {
        std::vector<int64_t> key;
        size_t most_states, most_bytes;  // limits that it was too large for, if there is no graph
        std::shared_ptr<const SumGraph> graph;
    };
    std::mutex mutex_;
    std::vector<Entry> entries_;  // the newest first
};

}  // namespace bridle
