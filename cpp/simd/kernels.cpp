// All kernels of one tier; compiled once per tier with its flags and -DBRIDLE_TIER=<name>.
#include "kernels.h"

#include "key.h"
#include "lanes.h"

namespace bridle::BRIDLE_TIER {

#include "forward_backward.inl"
#include "keys.inl"
#include "long_vectors.inl"
#include "sums.inl"
#include "viterbi.inl"

extern const Kernels table;
const Kernels table{
    BRIDLE_TIER_NAME, D::lanes,
    step_back, rows_back, fold_back, dense_back, best_of, scan, follow, step_ahead, first_bad_float, first_bad_double,
    score_entries, expect_entries, score_tokens, add_row,
    lift, forward, backward, add_outer,
    product, combine,
    add_place,
};

}  // namespace bridle::BRIDLE_TIER
