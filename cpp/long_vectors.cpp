#include "long_vectors.h"

#include <algorithm>

#include "vectors.h"

namespace bridle {
namespace {

// Four sums of whole vectors side by side; the order of additions is fixed.
BRIDLE_CLONES double product(const double* a, const double* b, int64_t count) {
    Vector sum[4] = {};
    int64_t k = 0;
    for (; k + 4 * kLanes <= count; k += 4 * kLanes)
        for (int v = 0; v < 4; ++v) sum[v] += vector_at(a + k + v * kLanes) * vector_at(b + k + v * kLanes);
    const Vector all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    double total = 0;
    for (int j = 0; j < kLanes; ++j) total += all[j];
    for (; k < count; ++k) total += a[k] * b[k];
    return total;
}

BRIDLE_CLONES void combine_block(const double* shares, const double* const* rows, size_t n, int64_t low, int64_t high, double* out) {
    int64_t k = low;
    for (; k + 2 * kLanes <= high; k += 2 * kLanes) {
        Vector left = shares[0] * vector_at(rows[0] + k), right = shares[0] * vector_at(rows[0] + k + kLanes);
        for (size_t r = 1; r < n; ++r) {
            left += shares[r] * vector_at(rows[r] + k);
            right += shares[r] * vector_at(rows[r] + k + kLanes);
        }
        vector_at(out + k) = left;
        vector_at(out + k + kLanes) = right;
    }
    for (; k < high; ++k) {
        double sum = shares[0] * rows[0][k];
        for (size_t r = 1; r < n; ++r) sum += shares[r] * rows[r][k];
        out[k] = sum;
    }
}

}  // namespace

void products(const std::vector<const double*>& rows, const std::vector<const double*>& columns, int64_t size, int64_t low,
              int64_t high, double* out) {
    for (int64_t block = low; block < high; ++block) {
        const int64_t begin = block * kVectorBlock, count = std::min(kVectorBlock, size - begin);
        double* here = out + static_cast<size_t>(block) * rows.size() * columns.size();
        for (const double* row : rows)
            for (const double* column : columns) *here++ = product(row + begin, column + begin, count);
    }
}

void combine(const double* shares, const std::vector<const double*>& rows, int64_t low, int64_t high, double* out) {
    combine_block(shares, rows.data(), rows.size(), low, high, out);
}

}  // namespace bridle
