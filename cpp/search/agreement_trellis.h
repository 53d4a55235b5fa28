// The trellises of a document's sequences and the chains of its repeated texts, which share variables (agreement_trellis.cpp).
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "search/control.h"
#include "search/fold.h"
#include "search/problem.h"
#include "search/search.h"
#include "search/trellis.h"

namespace bridle {

constexpr int64_t kBlock = 16;  // tokens that are swept together

// One sequence.
struct Part {
    Sequence sequence;
    int64_t at;  // its first token
    bool live;   // has it tokens of a group? If not, its best labelling is that of the document
    Steps steps{};
    Fold fold{};
    std::vector<char> active{};   // (automata)  was it broken by some labelling?
    std::vector<char> folded{};   // (automata)
    bool exact = true;            // are all active automata folded?
    size_t rows = 0, layers = 0;  // where its U begins; its F and H, which have Q rows for each token
    double value = 0;             // of its best path under U

    Part(Sequence s, int64_t at) : sequence(std::move(s)), at(at), live(false) {}
};

// What is charged once: a rule in a sequence or in a document.
struct Payer {
    enum State : uint8_t { open, obeys, pays };
    Mode mode;
    double penalty;
    int64_t changes = 0;  // the most that there can be
    State state = open;

    bool once() const { return mode == Mode::per_sequence; }
    double price() const {  // of a change
        if (is_hard(mode) || state == obeys) return kInf;
        if (!once()) return penalty;
        return state == pays ? 0.0 : penalty / double(std::max<int64_t>(1, changes));
    }
};

struct Chain {
    int payer, first, count;  // occurrences first .. first + count - 1
    const CountingAutomaton* kinds;
    double value = 0;
};

struct Occurrence {
    int chain;
    int part;
    int32_t position;  // in its sequence
    int next, before;  // of the same token; -1: none
    size_t cells;      // where its numbers of each kind begin
};

struct Range {
    int part, low, high;
};

class JointTrellis {
  protected:
    JointTrellis(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements, int most_folded,
                 Control& control, Counters& counters);

    // Lays out chains and scores. False: there is not enough memory for them.
    bool make_room();
    // Folds the active automata of each sequence as far as they are small together, and lays out F and H.
    void fold_parts();
    double* row_of(std::vector<double>& X, const Part& part, int t) {
        return X.data() + part.layers + size_t(t) * width_ * size_t(part.fold.Q);
    }
    double* scores(const Part& part, int t) { return U_.data() + part.rows + size_t(t) * width_; }
    bool sweep_back(bool averaging);  // over all tokens
    bool sweep();                     // over all tokens, both ways
    // Where trellis and chain want different kinds, the blocks around are swept again: a few times, since what is far away from
    // them hardly changes; if they are few, until they are at rest. False: some token has no label left.
    bool sweep_restless_blocks();
    double bound() const;
    void close(int o, int kind);
    void undo(size_t trail, size_t payers);

    const std::vector<Agreement>& agreements_;
    Control& control_;
    const int most_folded_;  // states of a fold
    Counters& counters_;
    std::deque<Part> parts_;
    int64_t n_ = 0;  // tokens of all sequences
    int m_ = 0;
    size_t width_ = 0;

    std::vector<Payer> payers_;
    std::vector<Chain> chains_;
    std::vector<Occurrence> occurrences_;     // those of a chain side by side
    std::vector<int64_t> token_of_;           // (occurrences)
    std::vector<int> first_of_;               // (n)  the first occurrence of a token; -1: none
    std::vector<double> theta_, L_, R_;       // (occurrences, kinds)
    std::vector<uint8_t> closed_;             // (occurrences, kinds)  was it ruled out?
    std::vector<uint8_t> restless_;           // (blocks of tokens)  do trellis and chains want different things?
    std::vector<std::pair<int, int>> trail_;  // what was ruled out, in order: occurrence, kind
    std::vector<int> decided_;                // payers, in order
    std::vector<double> H_;                   // (n of live sequences, Q, width)
    double rounding_ = 0;
    int unfolded_ = 0;  // automata that became active since the last fold

  private:
    void add_chains(const Agreement& a);
    // H[t] of U[t + 1] and H[t + 1].
    void step_back(Part& part, int t);
    // F[t] of F[t - 1] and U[t].
    void step_ahead(Part& part, int t);
    // from + theta of one occurrence, as its neighbour sees it.
    void pass(const Chain& chain, size_t cells, const double* from, double* to) const;
    // Labels of this kind are impossible at the token of o.
    void ban(int o, int kind);
    // Averages what the trellis and the chain say of an occurrence. False: no label is left for it.
    bool average(int o);
    void disturb(int o);
    // Fetches what is known of occurrences that a sweep comes to soon; step: 1 ahead, -1 back.
    void prefetch(int64_t x, int step) const;
    double chain_value(const Chain& chain, int o, const double* from) const;  // at its end, o; from: L or R
    // Forwards over tokens low .. high-1 of a sequence, F[low - 1], H and R being right.
    bool sweep_ahead(Part& part, int low, int high);
    // Backwards, H[high], F and L being right. averaging: or only H and R again?
    bool sweep_back(Part& part, int low, int high, bool averaging);
    double best_entry(Part& part);
    // Rebuilds the scores of a token under theta and what is closed.
    void restore(int o);

    std::vector<int> last_of_;     // (n)  the last occurrence of a token; -1: none
    std::vector<double> U_;        // (n of live sequences, width)
    std::vector<double> F_;        // (n of live sequences, Q, width)
    std::vector<Range> ranges_;    // tokens to sweep
    std::vector<uint8_t> active_;  // (blocks of tokens)  was it restless since it was last swept with all others?
    int64_t seen_ = 0;
    double moved_ = 0;  // the most that a score was moved since this was last set to 0
    std::vector<double> M1_, M2_, top_, w_;
    std::vector<int32_t> room_;
    Fold fold_;  // caches product automata
};

}  // namespace bridle
