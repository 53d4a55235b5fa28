// The problem as plain data: what Python lays out, what every kernel reads. Nothing here computes.
//
//   B sequences (b), N tokens in all, n positions of one sequence (t), m labels (i, then j; y for one alone)
//   S states (s) of an automaton that counts violations
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "search/table.h"

namespace bridle {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Move {
    int32_t to, violations;  // next state; violations on the way
};

// Labels that an automaton treats alike share a class (c): its tables have a column for each class.
struct CountingAutomaton {
    int marks, states, classes;
    std::vector<uint16_t> class_of;  // (m)
    std::vector<Move> moves;         // (marks, states, classes)
    std::vector<int32_t> final;      // (states)  violations that show at the end
    // If the automaton only counts: violations = what the number of `edges` is above (sense 1) or below (-1) `limit`.
    int sense = 0, limit = 0;
    std::vector<uint8_t>
        edges;                  // (classes + 1, classes)  does class j count just after class i? last row: at the start
    std::vector<int32_t> room;  // (states)    what is left of the limit (sense -1: minus what lacks)
    // If the state is always that of the last label, the automaton is local: it is about neighbours and single tokens only.
    std::vector<int32_t> after_class;  // (classes)  the state after a label; empty: not local
    int64_t serial = next_serial();

    void find_local();  // fills `after_class`
    bool local() const { return !after_class.empty(); }
    int after(int y) const { return after_class[class_of[y]]; }
    const Move& read(int mark, int state, int y) const {
        return moves[(mark * states + state) * classes + class_of[y]];
    }
    bool counts(int i, int j) const {  // i < 0: the start
        return edges[size_t(i < 0 ? classes : class_of[i]) * classes + class_of[j]];
    }
};

// hard_once: a hard rule that was taken apart; if any of its automata is violated, that is one violation (relaxed only).
enum class Mode : uint8_t { hard, per_violation, per_sequence, hard_once };

inline bool is_hard(Mode mode) { return mode == Mode::hard || mode == Mode::hard_once; }

struct Rule {
    Mode mode;
    double penalty;
};

struct RuleAutomaton {
    int rule;
    std::vector<const CountingAutomaton*> automaton;  // (1) for all sequences or (B) one each; null: none
    const uint8_t* marks;  // (N) which of the automaton's tables to use at a token, or null: the first
};

// Tokens of one group should carry labels of one kind; each that differs from the one before it in its group is a violation.
struct RuleAgreement {
    int rule;
    const CountingAutomaton* kinds;  // of one group: mark 1 is a token of it. Its classes are the kinds
    const int32_t* group;            // (N)  of each token, from 0 in each sequence; -1: none
};

class GraphCache;
class GroupCache;
class SearchPool;

struct Problem {
    int m = 0;  // labels
    int64_t B = 0, N = 0;
    const int64_t* offsets = nullptr;  // (B + 1)
    const float* unary32 = nullptr;    // (rows, m), one of the two
    const double* unary64 = nullptr;
    const int64_t* first = nullptr;  // (B) the row where sequence b begins; null: as in offsets
    std::vector<Head> heads;
    const int32_t* head_of = nullptr;   // (B) null: all have the first
    const uint64_t* allowed = nullptr;  // (N, words) bit y: label y is allowed; null: all are
    int words = 0;
    const uint8_t* tied = nullptr;   // (N) has this token the type of the one before? null: never asked
    GraphCache* graphs = nullptr;    // of sums, of a decoder; null: there is none
    GroupCache* groups = nullptr;    // of the automata of a decoder; null: there is none
    SearchPool* searches = nullptr;  // of a decoder; null: there is none
    TableCache* tables = nullptr;    // has the transition masks
    std::span<const Rule> rules;
    std::span<const RuleAutomaton> automata;  // ordered by rule
    std::span<const RuleAgreement> agreements = {};
};

// An automaton bound to one sequence, with what its violations cost.
struct BoundAutomaton {
    const CountingAutomaton* automaton;
    const uint8_t* marks;  // (n) or null
    Mode mode;
    double penalty;
    int rule, number;  // number: among the automata of the problem

    int paid() const { return automaton->states; }  // per sequence: the state after the price was paid
    int n_states() const { return automaton->states + (mode == Mode::per_sequence); }
    const Move& read(int64_t t, int s, int y) const { return automaton->read(marks ? marks[t] : 0, s, y); }
};

// An agreement of one sequence, with what its violations cost.
struct Agreement {
    int rule;
    Mode mode;
    double penalty;
    const CountingAutomaton* kinds;
    const int32_t* group;  // (count)  of tokens first, first + 1, ...
    int64_t first, count;
};

// How often the kind changes in a group, over all groups.
int64_t count_changes(const Agreement& agreement, const int32_t* path);

// One sequence of a problem.
struct Sequence {
    const Problem* problem;
    int64_t b, begin;  // begin: its first token in all that is laid out like offsets
    int64_t first;     // its first row of scores
    int n, m;
    const Head* head;
    const uint8_t* tied;  // (n) or null
    std::vector<BoundAutomaton> automata;
    std::vector<Agreement> agreements;

    Sequence(const Problem& p, int64_t b);
    // An automaton for every group instead of agreements, for engines that know nothing else.
    void expand();
    void row(int t, double* out) const;  // unary scores of a position: start, end and masks folded in
    double unary(int t, int y) const;    // one of them, masks left out
    RawScores raw() const;               // all of them as they came, with their tables

  private:
    std::shared_ptr<const std::vector<std::vector<uint8_t>>> marks_;  // of automata of groups
};

// What an engine says about one sequence.

enum class Status : uint8_t { optimal, limit, infeasible, nothing_found, too_large, relaxed };

struct Answer {
    Status status = Status::optimal;
    double score = -kInf;  // lattice score - penalty
    double bound = kInf;
    std::vector<int32_t> path = {};
    std::vector<int32_t> violations = {};  // (automata and agreements) violations, if the engine knows them
};

// Automata that read a labelling side by side, each in its own state, and what their violations cost together.
//
// A rule that is paid once per sequence may have several automata: the first violation of any pays, and all are done.

using State = uint16_t;

class AutomatonSet {
  public:
    std::vector<BoundAutomaton> automata;  // ordered by part

    void assign(std::vector<BoundAutomaton> members);
    int size() const { return int(automata.size()); }

    // All automata read label y at position t: from -> to. Returns the cost, +inf when a hard rule breaks.
    double advance(const State* from, State* to, int y, int64_t t) const {
        double cost = 0;
        const int count = size();
        for (int k = 0; k < count;) {
            const int end = until_[k];
            bool broke = false;
            for (; k < end; ++k) {
                const BoundAutomaton& p = automata[k];
                if (from[k] == p.paid() && p.mode == Mode::per_sequence) {
                    to[k] = from[k];
                    continue;
                }
                const Move& move = p.read(t, from[k], y);
                to[k] = State(move.to);
                if (move.violations == 0) continue;
                if (p.mode == Mode::hard) return kInf;
                if (p.mode == Mode::per_violation) cost += p.penalty * move.violations;
                else broke = true;
            }
            if (broke) {
                cost += automata[end - 1].penalty;
                for (int g = group_[end - 1]; g < end; ++g) to[g] = State(automata[g].paid());
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
                const BoundAutomaton& p = automata[k];
                if (at[k] == p.paid() && p.mode == Mode::per_sequence) continue;
                const int violations = p.automaton->final[at[k]];
                if (violations == 0) continue;
                if (p.mode == Mode::hard) return kInf;
                if (p.mode == Mode::per_violation) cost += p.penalty * violations;
                else broke = true;
            }
            if (broke) cost += automata[end - 1].penalty;
        }
        return cost;
    }

  private:
    std::vector<int> until_, group_;  // the automata of one rule that is paid once: from group_[k] to until_[k] - 1
};

}  // namespace bridle
