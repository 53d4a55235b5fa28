// Long vectors, in blocks: numbers that are worked on together stay near, and sums over blocks, which are left to the caller, do
// not depend on who did which block. All functions work on the blocks low .. high-1 of vectors of `size` numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simd/kernels.h"

namespace bridle {

constexpr int64_t kVectorBlock = 4096;

struct Blocks {
    int64_t size, low, high;

    // each(begin, count, number of the block)
    template <class Each>
    void each(const Each& call) const {
        for (int64_t b = low; b < high; ++b) call(b * kVectorBlock, std::min(kVectorBlock, size - b * kVectorBlock), b);
    }
};

// out[block][0] = a.b
void product(const Blocks& blocks, const double* a, const double* b, double* out);
// out = sum over rows of share * row
void combine(const Blocks& blocks, const double* shares, const std::vector<const double*>& rows, double* out);
// As in simd/kernels.h; sums[block][..].
void gradient_of(const Blocks& blocks, const std::vector<const double*>& counts, const double* gold, const double* w,
                 double decay, double* out, double* sums);

template <class History>
void take_step(const Blocks& blocks, const double* there, const double* w, const double* gradient, double* g,
               History* s, History* y, double* sums) {
    blocks.each([&](int64_t k, int64_t count, int64_t b) {
        history_kernels<History>().take_step(there + k, w + k, gradient + k, g + k, s + k, y + k, count, sums + 4 * b);
    });
}

// out[block][row] = row.change, row.p
template <class History>
void products(const Blocks& blocks, const std::vector<const History*>& rows, const History* change, const double* p,
              double* out) {
    const HistoryKernels<History>& kernel = history_kernels<History>();
    blocks.each([&](int64_t k, int64_t count, int64_t b) {
        double* here = out + 2 * static_cast<size_t>(b) * rows.size();
        for (const History* row : rows) {
            *here++ = kernel.product(row + k, change + k, count);
            *here++ = kernel.with_vector(row + k, p + k, count);
        }
    });
}

template <class History>
void aim(const Blocks& blocks, const double* shares, const double* p, const std::vector<const History*>& rows,
         const double* w, double step, double* d, double* there, double* slope) {
    blocks.each([&](int64_t k, int64_t count, int64_t b) {
        slope[b] = history_kernels<History>().aim(shares, p, rows.data(), rows.size(), w, step, d, there, k, k + count);
    });
}

}  // namespace bridle
