// Products of matrices in which the maximum stands for + and the sum for *, over the rows and columns that are left:
//   out[r][j] = max over k of  a[r][k] + b[k][j]        and what else the sweeps of shares.h do with rows of floats

namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

// kRows rows of `a` at once: their maxima do not wait for each other, and a row of `b` is read once for all.
template <int kRows, int kVectors>
BRIDLE_INLINE void max_plus_block(const float* a, int row, int column, const float* b, const int32_t* rows,
                                  const int32_t* inner, int n_inner, int width, float* out) {
    F top[kRows][kVectors];
    const float* from[kRows];
    for (int r = 0; r < kRows; ++r) {
        from[r] = a + size_t(rows[r]) * row;
        for (F& v : top[r]) v = F::set(kLeast);
    }
    for (int k = 0; k < n_inner; ++k) {
        const float* other = b + size_t(inner[k]) * width;
        const size_t at = size_t(inner[k]) * column;
        F x[kVectors];
        for (int v = 0; v < kVectors; ++v) x[v] = F::load(other + v * F::lanes);
        for (int r = 0; r < kRows; ++r) {
            const F y = F::set(from[r][at]);
            for (int v = 0; v < kVectors; ++v) top[r][v] = max(x[v] + y, top[r][v]);
        }
    }
    for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kVectors; ++v) top[r][v].store(out + size_t(rows[r]) * width + v * F::lanes);
}

template <int kRows, int kVectors>
BRIDLE_INLINE void max_plus_strip(const float* a, int row, int column, const float* b, const int32_t* rows, int n_rows,
                                  const int32_t* inner, int n_inner, int width, float* out) {
    int r = 0;
    for (; r + kRows <= n_rows; r += kRows)
        max_plus_block<kRows, kVectors>(a, row, column, b, rows + r, inner, n_inner, width, out);
    for (; r < n_rows; ++r) max_plus_block<1, kVectors>(a, row, column, b, rows + r, inner, n_inner, width, out);
}

}  // namespace

void max_plus(const float* a, int row, int column, const float* b, const int32_t* rows, int n_rows,
              const int32_t* inner, int n_inner, int width, float* out) {
    int at = 0;
    for (; at + 4 * F::lanes <= width; at += 4 * F::lanes)
        max_plus_strip<2, 4>(a, row, column, b + at, rows, n_rows, inner, n_inner, width, out + at);
    for (; at + 2 * F::lanes <= width; at += 2 * F::lanes)
        max_plus_strip<4, 2>(a, row, column, b + at, rows, n_rows, inner, n_inner, width, out + at);
    for (; at < width; at += F::lanes)
        max_plus_strip<4, 1>(a, row, column, b + at, rows, n_rows, inner, n_inner, width, out + at);
}

void look_up(const float* x, const int32_t* cell, const float* cost, const int32_t* rows, int n_rows, int width,
             float* out) {
    for (int r = 0; r < n_rows; ++r) {
        const size_t at = size_t(rows[r]) * width;
        for (int j = 0; j < width; j += F::lanes)
            (F::gather(x, cell + at + j) - F::load(cost + at + j)).store(out + at + j);
    }
}

int drop_low(float* x, float* y, const float* rest, float low, int32_t* rows, int n_rows, int width) {
    const F least = F::set(kLeast), limit = F::set(low);
    int kept = 0;
    for (int r = 0; r < n_rows; ++r) {
        const size_t at = size_t(rows[r]) * width;
        F top = least;
        for (int j = 0; j < width; j += F::lanes) {
            const F a = F::load(x + at + j), b = F::load(y + at + j), sum = a + b + F::load(rest + j);
            const F left = where_less(limit, sum, a, least);
            left.store(x + at + j);
            where_less(limit, sum, b, least).store(y + at + j);
            top = max(top, left);
        }
        if (top.top() > kLeast) rows[kept++] = rows[r];
    }
    return kept;
}

float largest(const float* x, size_t count) {
    const F zero = F::set(0.0f), lowest = F::set(-std::numeric_limits<float>::max());
    F top = zero;
    for (size_t c = 0; c < count; c += F::lanes) {
        const F v = F::load(x + c), finite = where_less(v, lowest, zero, v);
        top = max(top, max(finite, zero - finite));
    }
    return top.top();
}
