// Pieces that walk side by side over a labelling, each in its own state, and what their violations cost together.
//
// A rule that is paid once per sequence may have several pieces: the first violation of any pays, and all are done.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace bridle {

using State = uint16_t;

class Team {
  public:
    std::vector<Piece> pieces;  // ordered by part

    void set(std::vector<Piece> members);
    int size() const { return static_cast<int>(pieces.size()); }

    // All pieces read label y at position t: from -> to. Returns the cost, +inf when a hard rule breaks.
    double advance(const State* from, State* to, int y, int64_t t) const {
        double cost = 0;
        const int count = size();
        for (int k = 0; k < count;) {
            const int end = until_[k];
            bool broke = false;
            for (; k < end; ++k) {
                const Piece& p = pieces[k];
                if (from[k] == p.paid() && p.mode == Mode::per_sequence) {
                    to[k] = from[k];
                    continue;
                }
                const Move& move = p.read(t, from[k], y);
                to[k] = static_cast<State>(move.to);
                if (move.hits == 0) continue;
                if (p.mode == Mode::hard) return kInf;
                if (p.mode == Mode::per_violation) cost += p.penalty * move.hits;
                else broke = true;
            }
            if (broke) {
                cost += pieces[end - 1].penalty;
                for (int g = group_[end - 1]; g < end; ++g) to[g] = static_cast<State>(pieces[g].paid());
            }
        }
        return cost;
    }

    // What shows at the end of the sequence.
    double finish(const State* at) const {
        double cost = 0;
        for (int k = 0; k < size();) {
            const int end = until_[k];
            bool broke = false;
            for (; k < end; ++k) {
                const Piece& p = pieces[k];
                if (at[k] == p.paid() && p.mode == Mode::per_sequence) continue;
                const int hits = p.machine->final[at[k]];
                if (hits == 0) continue;
                if (p.mode == Mode::hard) return kInf;
                if (p.mode == Mode::per_violation) cost += p.penalty * hits;
                else broke = true;
            }
            if (broke) cost += pieces[end - 1].penalty;
        }
        return cost;
    }

  private:
    std::vector<int> until_, group_;  // the pieces of one rule that is paid once: from group_[k] to until_[k] - 1
};

}  // namespace bridle
