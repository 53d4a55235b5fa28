#include "long_vectors.h"

#include <algorithm>

#include "simd/kernels.h"

namespace bridle {
void products(const std::vector<const double*>& rows, const std::vector<const double*>& columns, int64_t size, int64_t low,
              int64_t high, double* out) {
    for (int64_t block = low; block < high; ++block) {
        const int64_t begin = block * kVectorBlock, count = std::min(kVectorBlock, size - begin);
        double* here = out + static_cast<size_t>(block) * rows.size() * columns.size();
        for (const double* row : rows)
            for (const double* column : columns) *here++ = kernels().product(row + begin, column + begin, count);
    }
}

void combine(const double* shares, const std::vector<const double*>& rows, int64_t low, int64_t high, double* out) {
    kernels().combine(shares, rows.data(), rows.size(), low, high, out);
}

}  // namespace bridle
