// Products of matrices in which the maximum stands for + and the sum for *:  out[r][j] = max over k of  a[r][k] + b[k][j]

namespace {

template <int kVectors>
BRIDLE_INLINE void max_plus_strip(const float* a, int row, int column, const float* b, int rows, int inner, int width, float* out) {
    for (int r = 0; r < rows; ++r) {
        F top[kVectors];
        for (F& v : top) v = F::set(-std::numeric_limits<float>::infinity());
        const float* from = a + static_cast<size_t>(r) * row;
        for (int k = 0; k < inner; ++k) {
            const F x = F::set(from[static_cast<size_t>(k) * column]);
            const float* other = b + static_cast<size_t>(k) * width;
            for (int v = 0; v < kVectors; ++v) top[v] = max(F::load(other + v * F::lanes) + x, top[v]);
        }
        for (int v = 0; v < kVectors; ++v) top[v].store(out + static_cast<size_t>(r) * width + v * F::lanes);
    }
}

}  // namespace

// a[r][k] stands at r * row + k * column; b (inner, width), out (rows, width); width: a multiple of 16
void max_plus(const float* a, int row, int column, const float* b, int rows, int inner, int width, float* out) {
    constexpr int kMost = 4;
    int at = 0;
    for (; at + kMost * F::lanes <= width; at += kMost * F::lanes)
        max_plus_strip<kMost>(a, row, column, b + at, rows, inner, width, out + at);
    for (; at + 2 * F::lanes <= width; at += 2 * F::lanes) max_plus_strip<2>(a, row, column, b + at, rows, inner, width, out + at);
    for (; at < width; at += F::lanes) max_plus_strip<1>(a, row, column, b + at, rows, inner, width, out + at);
}
