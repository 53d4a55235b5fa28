#include "long_vectors.h"

namespace bridle {

void product(const Blocks& blocks, const double* a, const double* b, double* out) {
    blocks.each([&](int64_t k, int64_t count, int64_t block) { out[block] = kernels().product(a + k, b + k, count); });
}

void combine(const Blocks& blocks, const double* shares, const std::vector<const double*>& rows, double* out) {
    blocks.each([&](int64_t k, int64_t count, int64_t) {
        kernels().combine(shares, rows.data(), rows.size(), k, k + count, out);
    });
}

void gradient_of(const Blocks& blocks, const std::vector<const double*>& counts, const double* gold, const double* w,
                 double decay, double* out, double* sums) {
    blocks.each([&](int64_t k, int64_t count, int64_t b) {
        kernels().gradient_of(counts.data(), counts.size(), gold, w, decay, out, k, k + count, sums + 2 * b);
    });
}

}  // namespace bridle
