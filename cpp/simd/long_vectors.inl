// Long vectors, which are read once: what an iteration of L-BFGS asks of them, and products and sums in general. Sums are over
// the vectors in the order of the lanes, then the rest; `wide` reads numbers of either precision as doubles.

namespace {

// The sum over k of what `at(k)` gives in vectors, four side by side, and of what `one(k)` gives for the rest.
template <class At, class Single>
BRIDLE_INLINE double sum_over(int64_t count, const At& at, const Single& single) {
    D sum[4];
    for (D& v : sum) v = D::set(0);
    int64_t k = 0;
    for (; k + 4 * D::lanes <= count; k += 4 * D::lanes)
        for (int v = 0; v < 4; ++v) sum[v] = at(k + v * D::lanes, sum[v]);
    double total = ((sum[0] + sum[1]) + (sum[2] + sum[3])).sum();
    for (; k < count; ++k) total += single(k);
    return total;
}

template <class X, class Y>
double product(const X* a, const Y* b, int64_t count) {
    return sum_over(
        count, [&](int64_t k, D sum) { return fma(wide(a + k), wide(b + k), sum); },
        [&](int64_t k) { return double(a[k]) * double(b[k]); });
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

template <class History>
void take_step(const double* there, const double* w, const double* gradient, double* g, History* s, History* y,
               int64_t count, double* sums) {
    D sy = D::set(0), yy = sy, gg = sy, ww = sy;
    int64_t k = 0;
    for (; k + D::lanes <= count; k += D::lanes) {
        const D to = D::load(there + k), now = D::load(gradient + k);
        (to - D::load(w + k)).store(s + k);
        (now - D::load(g + k)).store(y + k);
        now.store(g + k);
        const D step = wide(s + k), change = wide(y + k);  // as they were rounded
        sy = fma(step, change, sy), yy = fma(change, change, yy);
        gg = fma(now, now, gg), ww = fma(to, to, ww);
    }
    sums[0] = sy.sum(), sums[1] = yy.sum(), sums[2] = gg.sum(), sums[3] = ww.sum();
    for (; k < count; ++k) {
        s[k] = static_cast<History>(there[k] - w[k]);
        y[k] = static_cast<History>(gradient[k] - g[k]);
        g[k] = gradient[k];
        const double step = s[k], change = y[k];
        sums[0] += step * change, sums[1] += change * change, sums[2] += g[k] * g[k], sums[3] += there[k] * there[k];
    }
}

template <class History>
double aim(const double* shares, const double* p, const History* const* rows, size_t n, const double* w, double step,
           double* d, double* there, int64_t low, int64_t high) {
    D slope = D::set(0), other = slope;
    const D far = D::set(step);
    int64_t k = low;
    for (; k + 2 * D::lanes <= high; k += 2 * D::lanes) {
        const D p0 = D::load(p + k), p1 = D::load(p + k + D::lanes);
        D left = D::set(shares[0]) * p0, right = D::set(shares[0]) * p1;
        for (size_t r = 0; r < n; ++r) {
            left = fma(D::set(shares[r + 1]), wide(rows[r] + k), left);
            right = fma(D::set(shares[r + 1]), wide(rows[r] + k + D::lanes), right);
        }
        left.store(d + k);
        right.store(d + k + D::lanes);
        fma(far, left, D::load(w + k)).store(there + k);
        fma(far, right, D::load(w + k + D::lanes)).store(there + k + D::lanes);
        slope = fma(left, p0, slope), other = fma(right, p1, other);
    }
    double total = (slope + other).sum();
    for (; k < high; ++k) {
        d[k] = shares[0] * p[k];
        for (size_t r = 0; r < n; ++r) d[k] += shares[r + 1] * double(rows[r][k]);
        there[k] = w[k] + step * d[k];
        total += d[k] * p[k];
    }
    return total;
}

void gradient_of(const double* const* counts, size_t n, const double* gold, const double* w, double decay, double* out,
                 int64_t low, int64_t high, double* sums) {
    D of_gold = D::set(0), square = of_gold;
    int64_t k = low;
    for (; k + D::lanes <= high; k += D::lanes) {
        const D x = D::load(w + k), y = D::load(gold + k);
        D sum = fma(D::set(decay), x, D::load(counts[0] + k) - y);
        for (size_t r = 1; r < n; ++r) sum = sum + D::load(counts[r] + k);
        sum.store(out + k);
        of_gold = fma(x, y, of_gold), square = fma(x, x, square);
    }
    sums[0] = of_gold.sum(), sums[1] = square.sum();
    for (; k < high; ++k) {
        out[k] = counts[0][k] - gold[k] + decay * w[k];
        for (size_t r = 1; r < n; ++r) out[k] += counts[r][k];
        sums[0] += w[k] * gold[k], sums[1] += w[k] * w[k];
    }
}

template <class History>
constexpr HistoryKernels<History> kHistoryKernels{product<History, History>, product<History, double>,
                                                  take_step<History>, aim<History>};

}  // namespace
