// Sums as logarithms, for scores whose factors would leave the range of doubles (sums_logs.cpp).
#pragma once

#include <algorithm>
#include <cmath>

#include "search/problem.h"
#include "simd/kernels.h"

namespace bridle {

// log(exp(a) + exp(b))
inline double plus(double a, double b) {
    const double top = std::max(a, b);
    return top == -kInf ? -kInf : top + std::log1p(std::exp(std::min(a, b) - top));
}

extern const LaneKernels<double> kLogLanes;

}  // namespace bridle
