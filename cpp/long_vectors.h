// Sums and products of long vectors, which are read once: R rows and C columns of the same length, in blocks.
#pragma once

#include <cstdint>
#include <vector>

namespace bridle {

constexpr int64_t kVectorBlock = 8192;  // numbers of each vector that are worked on together, so that they stay near

// out[k][r][c] = product of row r and column c over block k = low .. high-1 of `size` numbers. The sum over the blocks is left
// to the caller, so that it does not depend on who did which block.
void products(const std::vector<const double*>& rows, const std::vector<const double*>& columns, int64_t size, int64_t low,
              int64_t high, double* out);

// out = sum over rows of share * row, for numbers low .. high-1
void combine(const double* shares, const std::vector<const double*>& rows, int64_t low, int64_t high, double* out);

}  // namespace bridle
