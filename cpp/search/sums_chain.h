// Sums instead of maxima over labels x states of a product automaton (sums_graph.h), scaled, one sequence per lane:
//   U[t][y] = exp(unary[t][y] - top[t]),  E[i][j] = exp(pairwise[i][j] - shift),  W = exp(-what a step costs)
//   a[t][v'] = U[t][j] / |a[t-1]| * sum over nodes v = (q, i) with step(q, j) = v' of  a[t-1][v] E[i][j] W[q][j]
//   b[t][v] = sum over j of  E[i][j] W[q][j] w[t+1][step(q, j)],   w[t] = U[t] / |a[t-1]| * b[t],   b[n-1][v] = W[v] / f
//   f = sum over v of a[n-1][v] W[v];   log Z = sum of top + (n-1) shift + sum over t < n-1 of log |a[t]| + log f
//   p(y at t) = sum over q of a[t][q, y] b[t][q, y];   p(i, j at t) = sum over q of a[t-1][q, i] E[i][j] W[q][j] w[t][step(q, j)]
// so that sum over v of a[t] b[t] is 1 everywhere. What falls below 1e-300 of the whole is lost. It does not matter if no |a[t]| is
// below kLeast and no b above kMost; where that is not so, everything is done again with logarithms, slowly (kLogLanes).
// The way back may run in single precision, in twice as many lanes: what falls below 1e-38 is lost there, and what comes out is a
// gradient in single precision. The limits are tighter then, and sequences that exceed them are summed again in doubles.
//
// With logarithms scores may be huge (people mask padding with the least float), so only differences are ever added. Then all terms
// are <= 0, and those that matter to a sum are at most as far below 0 as the largest of them: what rounding can do to log Z is
// kUlps * sum over t of |largest term at t|, which is returned as `error`. log Z is relative to
//   offset = sum over t of  max over y of unary[t][y]  +  sum over t of  max over i, j of pairwise[i][j]
// of the scores as they came, without masks.
//
// A segment y[a] .. y[e-1] needs no sum of its own. The sum over all ways to reach each node with these labels comes from row a-1 of
// a, and what may follow from row e of b. Both leave out labels that would make it another segment.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/control.h"
#include "search/sums_factors.h"

namespace bridle {

// What one chain after the other works in, and bigrams of all of them by lane.
template <class Real>
struct ChainRows {
    std::vector<Real> a, u;
    std::vector<Real> edges[2];  // (m, m, L) for each table of factors, which are missing in them
};

// Draws labellings of a lane (number l of L) from the first label to the last, each by what may follow from it: w (n, V, L).
void draw_labellings(const SumGraph& g, Factors& f, const Lane& lane, size_t l, const double* w, size_t L, bool tied,
                     const SumOutputs& out, Control& control);

// Sums up lanes, the longest first, no more than the kernels have; tied: are there positions whose type must not change?
// Real: the precision of the way back; log Z is as exact as doubles are. Returns the lanes whose sums must be done again, with
// more exactness: in double precision, and then with logarithms.
template <class Real>
std::vector<uint8_t> sum_lanes(const SumGraph& graph, Factors& factors, std::span<const Lane> lanes, bool tied,
                               const SumRequest& request, const SumOutputs& out, ChainRows<Real>& rows,
                               Control& control);

}  // namespace bridle
