// Sums and products of long vectors.

namespace {

// Four sums of whole vectors side by side; the order of additions is fixed.
double product(const double* a, const double* b, int64_t count) {
    D sum[4];
    for (D& v : sum) v = D::set(0);
    int64_t k = 0;
    for (; k + 4 * D::lanes <= count; k += 4 * D::lanes)
        for (int v = 0; v < 4; ++v) sum[v] = fma(D::load(a + k + v * D::lanes), D::load(b + k + v * D::lanes), sum[v]);
    double total = ((sum[0] + sum[1]) + (sum[2] + sum[3])).sum();
    for (; k < count; ++k) total += a[k] * b[k];
    return total;
}

void combine(const double* shares, const double* const* rows, size_t n, int64_t low, int64_t high, double* out) {
    int64_t k = low;
    for (; k + 2 * D::lanes <= high; k += 2 * D::lanes) {
        D left = D::set(0), right = left;
        for (size_t r = 0; r < n; ++r) {
            left = fma(D::set(shares[r]), D::load(rows[r] + k), left);
            right = fma(D::set(shares[r]), D::load(rows[r] + k + D::lanes), right);
        }
        left.store(out + k);
        right.store(out + k + D::lanes);
    }
    for (; k < high; ++k) {
        double sum = 0;
        for (size_t r = 0; r < n; ++r) sum += shares[r] * rows[r][k];
        out[k] = sum;
    }
}

}  // namespace
