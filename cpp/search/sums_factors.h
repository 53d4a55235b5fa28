// Scores of sequences as sums need them: by places of labels (sums_graph.h), as factors or as logarithms.
#pragma once

#include <cstdint>
#include <vector>

#include "search/sums.h"
#include "search/sums_graph.h"

namespace bridle {

struct Lane {
    const Sequence* sequence;
    std::vector<int32_t> kind;  // (n) of each position; empty: all are of the first
    size_t x;                   // its place in the outputs

    int kind_at(int t) const { return kind.empty() ? 0 : kind[t]; }
    bool tied_at(int t) const { return sequence->tied && sequence->tied[t]; }
};

// Factors of steps and prices in the precision of the way back.
template <class Real>
struct BackFactors {
    std::vector<Real> ahead[2], back[2], price;
};

// Scores that do not depend on the token, by places of labels. Two tables: the second where the type must not change.
struct Factors {
    bool per_step = false, logs = false;
    double shift = 0;
    std::vector<double> score[2];  // (m, m)  logarithms of the factors
    std::vector<double> log_price;
    BackFactors<double> wide;  // (m, m): factors, the same turned; and of each price of the graph
    BackFactors<float> narrow;

    template <class Real>
    const BackFactors<Real>& in() const {
        if constexpr (sizeof(Real) == sizeof(double)) return wide;
        else return narrow;
    }
    double price_of(int32_t price) const { return wide.price[price]; }
};

Factors factors_of(const SumGraph& g, const Sequence& s, const SumRequest& request, bool logs, bool tied);
// The tables of the step to position t, where they differ from one to the next.
void use_step(const SumGraph& g, const Sequence& s, int t, bool tied, Factors& factors);

// Writes the scores of a position by places, `step` numbers apart. row (m): to work in; allowed (N, words) or null.
void read_row(const SumGraph& g, const Sequence& s, const uint64_t* allowed, int t, double* row, double* out,
              size_t step);
// Do start scores, end scores or masks change the scores of a position?
bool differs(const Sequence& s, const uint64_t* allowed, int t);
// The largest score of a position as it came, without masks; 0: all are impossible.
double raw_top(const Sequence& s, int t);

}  // namespace bridle
