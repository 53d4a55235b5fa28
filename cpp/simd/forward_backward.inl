// Forward-backward, scaled (likelihood.cpp has the equations), in single or in double precision.

namespace {

//   x = k ln 2 + r,  |r| <= ln 2 / 2;   exp(x) = 2^k * (1 + r + r^2/2! + ...)

// To within two units in the last place, for x <= 700; 0 below -700. kLeft: terms that are left out; with 4, to within 1e-11.
template <int kLeft = 0>
BRIDLE_INLINE D exp(D x) {
    constexpr double factor[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       0.5,          1.0,         1.0};
    const D least = D::set(-700), shift = D::set(kRoundDouble);
    const D clamped = max(x, least), scaled = fma(clamped, D::set(1.4426950408889634), shift), k = scaled - shift;
    const D r = fma(k, D::set(-1.90821492927058770002e-10), fma(k, D::set(-6.93147180369123816490e-01), clamped));
    D sum = D::set(factor[kLeft]);
    for (int c = kLeft + 1; c < 14; ++c) sum = fma(sum, r, D::set(factor[c]));
    return where_less(x, least, D::set(0), sum * power(scaled));
}

// The same, for x <= 80; 0 below -80.
BRIDLE_INLINE F exp(F x) {
    constexpr float factor[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    const F least = F::set(-80), shift = F::set(kRoundFloat);
    const F clamped = max(x, least), scaled = fma(clamped, F::set(1.44269504f), shift), k = scaled - shift;
    const F r = fma(k, F::set(2.12194440e-4f), fma(k, F::set(-0.693359375f), clamped));
    F sum = F::set(factor[0]);
    for (int c = 1; c < 8; ++c) sum = fma(sum, r, F::set(factor[c]));
    return where_less(x, least, F::set(0), sum * power(scaled));
}

template <class Real>
double lift(Real* u, int n, int m, int w) {
    using V = typename VectorOf<Real>::type;
    double tops = 0;
    for (int t = 0; t < n; ++t, u += w) {
        for (int y = m; y < w; ++y) u[y] = Real(-1e30);  // no label: not the largest, and its exp is 0
        V most = V::load(u);
        for (int y = V::lanes; y < w; y += V::lanes) most = max(V::load(u + y), most);
        const Real top = most.top();
        tops += top;
        for (int y = 0; y < w; y += V::lanes) exp(V::load(u + y) - V::set(top)).store(u + y);
    }
    return tops;
}

// out[j] = sum over i of x[i] * M[i][j]: kVectors vectors of columns stay in registers, twice, so that sums need not wait
template <int kVectors, class V, class Real>
BRIDLE_INLINE void times_block(const Real* x, const Real* M, int m, int w, Real* out) {
    V sum[kVectors], other[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = other[v] = V::set(0);
    int i = 0;
    for (; i + 2 <= m; i += 2, M += 2 * w)
        for (int v = 0; v < kVectors; ++v) {
            sum[v] = fma(V::set(x[i]), V::load(M + v * V::lanes), sum[v]);
            other[v] = fma(V::set(x[i + 1]), V::load(M + w + v * V::lanes), other[v]);
        }
    if (i < m)
        for (int v = 0; v < kVectors; ++v) sum[v] = fma(V::set(x[i]), V::load(M + v * V::lanes), sum[v]);
    for (int v = 0; v < kVectors; ++v) (sum[v] + other[v]).store(out + v * V::lanes);
}

template <class Real>
BRIDLE_INLINE void times(const Real* x, const Real* M, int m, int w, Real* out) {
    using V = typename VectorOf<Real>::type;
    int j = 0;
    for (; w - j >= 24; j += 24) times_block<3 * kInEight<V>, V>(x, M + j, m, w, out + j);
    if (w - j == 16) times_block<2 * kInEight<V>, V>(x, M + j, m, w, out + j);
    else if (w - j == 8) times_block<kInEight<V>, V>(x, M + j, m, w, out + j);
}

// Eight positions at a time.
template <class Real>
void add_outer(const Real* a, const Real* v, int count, int m, int w, Real* sum) {
    using V = typename VectorOf<Real>::type;
    constexpr int kSome = 8;
    int t = 0;
    for (; t + kSome <= count; t += kSome, a += kSome * w, v += kSome * w)
        for (int j = 0; j < w; j += V::lanes) {
            V right[kSome];
            for (int k = 0; k < kSome; ++k) right[k] = V::load(v + k * w + j);
            for (int i = 0; i < m; ++i) {
                V row = V::load(sum + i * w + j), other = V::set(a[i]) * right[0];
                for (int k = 1; k < kSome; k += 2) row = fma(V::set(a[k * w + i]), right[k], row);
                for (int k = 2; k < kSome; k += 2) other = fma(V::set(a[k * w + i]), right[k], other);
                (row + other).store(sum + i * w + j);
            }
        }
    for (; t < count; ++t, a += w, v += w)
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < w; j += V::lanes)
                fma(V::set(a[i]), V::load(v + j), V::load(sum + i * w + j)).store(sum + i * w + j);
}

// a := U * (before M), scaled to the sum 1; before: null at the first position. Returns the scale.
template <class Real>
BRIDLE_INLINE Real forward_row(const Real* before, const Real* M, const Real* U, int m, int w, Real* a) {
    using V = typename VectorOf<Real>::type;
    if (before) times(before, M, m, w, a);
    V sum = V::set(0);
    for (int j = 0; j < w; j += V::lanes) {
        const V now = before ? V::load(a + j) * V::load(U + j) : V::load(U + j);
        now.store(a + j);
        sum = sum + now;
    }
    const Real scale = 1 / sum.sum();
    for (int j = 0; j < w; j += V::lanes) (V::load(a + j) * V::set(scale)).store(a + j);
    return scale;
}

// v := c U b, p := a b; b: null at the last position
template <class Real>
BRIDLE_INLINE void weigh_row(Real c, const Real* U, const Real* a, const Real* b, int w, Real* v, Real* p) {
    using V = typename VectorOf<Real>::type;
    for (int j = 0; j < w; j += V::lanes) {
        const V here = b ? V::load(b + j) : V::set(1);
        (V::set(c) * V::load(U + j) * here).store(v + j);
        (V::load(a + j) * here).store(p + j);
    }
}

template <class Real>
void forward(const Real* U, const Real* E, int n, int m, int w, Real* a, Real* c) {
    for (int t = 0; t < n; ++t, a += w, U += w) c[t] = forward_row(t ? a - w : nullptr, E, U, m, w, a);
}

template <class Real>
void backward(const Real* U, const Real* back, int n, int m, int w, const Real* a, const Real* c, Real* b, Real* v,
              Real* p) {
    for (int t = n - 1; t >= 0; --t) {
        const size_t row = size_t(t) * w;
        if (t < n - 1) times(v + row + w, back, m, w, b);
        weigh_row(c[t], U + row, a + row, t < n - 1 ? b : nullptr, w, v + row, p + row);
    }
}

// One position, where each has a table of its own.
template <class Real>
Real forward_step(const Real* before, const Real* M, const Real* U, int m, int w, Real* a) {
    return forward_row(before, M, U, m, w, a);
}

template <class Real>
void weigh(Real c, const Real* U, const Real* a, const Real* b, int w, Real* v, Real* p) {
    weigh_row(c, U, a, b, w, v, p);
}

// b[i] = sum over j of M[i][j] v[j] and sum[i][j] += a[i] M[i][j] v[j], in one go over M.
template <class Real>
void backward_step(const Real* M, const Real* v, const Real* a, int m, int w, Real* b, Real* sum) {
    using V = typename VectorOf<Real>::type;
    for (int i = 0; i < m; ++i, M += w, sum += w) {
        const V share = V::set(a[i]);
        V total = V::set(0);
        for (int j = 0; j < w; j += V::lanes) {
            const V both = V::load(M + j) * V::load(v + j);
            total = total + both;
            fma(share, both, V::load(sum + j)).store(sum + j);
        }
        b[i] = total.sum();
    }
    for (int i = m; i < w; ++i) b[i] = 0;
}

template <class Real>
constexpr SumKernels<Real> kSumKernels{
    score_entries<Real>, expect_entries<Real>, lift<Real>,  forward<Real>,       backward<Real>,
    add_outer<Real>,     forward_step<Real>,   weigh<Real>, backward_step<Real>,
};

}  // namespace
