// The best set of intervals without rules: disjoint ones, or ones that may nest but not cross.
//   disjoint   best[k] = max(best[k-1], best[j] + score[k]),   j: how many of the intervals end at start[k] or before
//   nested     inside(s, e) = max over a that end at e of  inside(s, start[a]) + W[a],   W[a] = score[a] + inside of a
//
//   k intervals by their end    a an interval    s, e places: the first one, and the one after the last
#pragma once

#include <cstdint>
#include <vector>

#include "search/control.h"

namespace bridle {

struct Intervals {
    int count;
    const int32_t *start, *end;  // (count)  start < end; the end is not included
    const double* score;         // (count)
};

// The numbers of the chosen intervals, by start. Those that do not score above 0 are never chosen.
//   disjoint: no two share a place.   nested: two share places only if one holds the other; no two are equal.
std::vector<int32_t> best_disjoint(const Intervals& all, Control& control);
std::vector<int32_t> best_nested(const Intervals& all, Control& control);

}  // namespace bridle
