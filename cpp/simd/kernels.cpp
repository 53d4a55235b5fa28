// All kernels of one tier; compiled once per tier with its flags and -DBRIDLE_TIER=<name>.
#include "simd/kernels.h"

#include <utility>

#include "simd/key.h"
#include "simd/lanes.h"

namespace bridle::BRIDLE_TIER {

namespace {

// Numbers of either precision as doubles.
BRIDLE_INLINE D wide(const double* x) { return D::load(x); }
BRIDLE_INLINE D wide(const float* x) { return D::widen(x); }

// Calls run.template operator()<k>() for the k = 1 .. kMost that `count` is; false: it is none of them.
template <int kMost, class Run>
BRIDLE_INLINE bool with_count(int count, const Run& run) {
    return [&]<int... k>(std::integer_sequence<int, k...>) {
        return ((count == k + 1 && (run.template operator()<k + 1>(), true)) || ...);
    }(std::make_integer_sequence<int, kMost>());
}

}  // namespace

#include "simd/keys.inl"
#include "simd/long_vectors.inl"
#include "simd/sums.inl"

#include "simd/forward_backward.inl"
#include "simd/lanes.inl"
#include "simd/max_plus.inl"
#include "simd/viterbi.inl"

extern const Kernels table;
const Kernels table{
    BRIDLE_TIER_NAME,
    D::lanes,
    step_back,
    rows_back,
    fold_back,
    dense_back,
    best_of,
    scan,
    follow,
    step_ahead,
    max_plus,
    look_up,
    drop_low,
    largest,
    first_bad_float,
    first_bad_double,
    score_tokens,
    add_row,
    add_rows,
    kSumKernels<double>,
    kSumKernels<float>,
    kLaneKernels<double>,
    kLaneKernels<float>,
    product<double, double>,
    combine,
    gradient_of,
    kHistoryKernels<double>,
    kHistoryKernels<float>,
    add_place,
};

}  // namespace bridle::BRIDLE_TIER
