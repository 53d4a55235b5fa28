// All labellings whose estimate is above the incumbent, position by position, at most so many of a layer; see decompose.h.
//   A node is a label and the states of all groups. Its estimate is what it has earned and what the groups say can follow:
//     f = earned + sum over g of X_g[t][q_g][j]
#pragma once

#include <cstdint>
#include <vector>

#include "relaxation.h"
#include "shares.h"

namespace bridle {

class LayeredSearch {
  public:
    LayeredSearch(Instance& instance, Shares& shares, Incumbent& incumbent, ActiveRules& active)
        : in_(instance),
          shares_(shares),
          incumbent_(incumbent),
          active_(active),
          n_(instance.sequence.n),
          m_(instance.sequence.m),
          layers_(n_),
          step_(static_cast<size_t>(m_) * m_),
          row_(m_) {}

    // Considers the best labelling that is reached, and what it breaks becomes active. Returns the best estimate that was cut,
    // or that of a labelling which rules outside the groups made worse; -inf if there is neither.
    double run(size_t most, double margin);
    size_t nodes() const { return nodes_ / static_cast<size_t>(n_); }  // of a layer, on the average of the last run

  private:
    struct Layer {
        std::vector<int32_t> label, parent;  // (nodes)
        size_t size() const { return label.size(); }
    };
    struct Front {                     // what of a layer only the next one asks for
        std::vector<double> earned;    // (nodes)
        std::vector<uint16_t> states;  // (nodes, G)
    };
    struct Candidate {
        float estimate;
        int32_t parent, label;
    };

    void look_ahead(int t, double low);    // fills candidates_
    double keep_best(int t, size_t most);  // fills the layer of t; returns the best estimate that was cut
    void add(int t, const Candidate& c);   // unless the same states are reached better
    double finish(double cut);

    Instance& in_;
    Shares& shares_;
    Incumbent& incumbent_;
    ActiveRules& active_;
    const int n_, m_;
    size_t G_ = 0, nodes_ = 0;
    std::vector<Layer> layers_;  // (n)
    Front before_, here_;        // of the layer before, and of the one that is filled
    std::vector<Candidate> candidates_;
    std::vector<int32_t> slots_;      // nodes of the layer by their hash; -1: none
    std::vector<double> step_, row_;  // (m, m) of the step to t, (m)
    std::vector<uint16_t> to_;        // (G)
};

}  // namespace bridle
