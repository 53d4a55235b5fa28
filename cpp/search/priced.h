// A sequence whose rules may be violated at a price. What local rules (about single tokens and neighbours) charge is put on the
// scores, where it costs as little as a mask does; the other rules keep their automata.
//   score(y) - price * (violations of hard rules) - (what soft rules cost)          y a labelling
//
//   n positions (t)    m labels (i, then j)
#pragma once

#include <cstdint>
#include <vector>

#include "search/problem.h"

namespace bridle {

class PricedSequence {
  public:
    // relaxed: hard rules have a price too. Keeps a reference to `s`.
    PricedSequence(const Sequence& s, bool relaxed, Control& control);
    PricedSequence(const PricedSequence&) = delete;  // what it hands out points into it
    PricedSequence& operator=(const PricedSequence&) = delete;

    // Can what an automaton of `s` charges be put on the scores?
    static bool fits(const Sequence& s, const BoundAutomaton& p);

    // Hard rules cost `price` per violation, if they are relaxed. Valid until the next call, as the next one is.
    const Sequence& at(double price, Control& control);
    // The score is minus the number of violations of hard rules: no other scores but -inf, and no soft rules.
    const Sequence& counted(Control& control);

  private:
    struct Counts {                    // of violations, or what they cost
        std::vector<double> unary;     // (n, m)
        std::vector<double> pairwise;  // (m, m), or (n - 1, m, m) if they differ by position
    };

    bool on_scores(const BoundAutomaton& p) const { return (relaxed_ || p.mode != Mode::hard) && fits(base_, p); }
    void count(const BoundAutomaton& p, double each, Counts& counts) const;
    const Sequence& priced_at(double price, bool scored, Control& control);

    const Sequence& base_;
    const bool relaxed_;
    std::vector<BoundAutomaton> others_;  // automata that are not on the scores
    size_t steps_;                        // tables of transitions: 0, 1, or n - 1 if they differ by position
    Counts scores_;                       // of the sequence, less what local soft rules cost
    Counts hard_;
    std::vector<double> unary_, pairwise_;
    std::vector<Rule> rules_;
    int64_t offsets_[2];
    Problem problem_;
    Sequence priced_;
};

}  // namespace bridle
