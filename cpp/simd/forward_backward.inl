// Forward-backward, scaled (likelihood.cpp has the equations).

namespace {

// exp(x) to within two units in the last place, for x <= 700; 0 below -700.
//   x = k ln 2 + r,  |r| <= ln 2 / 2;   exp(x) = 2^k * (1 + r + r^2/2! + ... + r^13/13!)
BRIDLE_INLINE D exp(D x) {
    constexpr double factor[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    const D least = D::set(-700), shift = D::set(kRoundDouble);
    const D clamped = max(x, least), scaled = fma(clamped, D::set(1.4426950408889634), shift), k = scaled - shift;
    const D r = fma(k, D::set(-1.90821492927058770002e-10), fma(k, D::set(-6.93147180369123816490e-01), clamped));
    D sum = D::set(factor[0]);
    for (int c = 1; c < 14; ++c) sum = fma(sum, r, D::set(factor[c]));
    return where_less(x, least, D::set(0), sum * power(scaled));
}

double lift(double* u, int n, int m, int w) {
    double tops = 0;
    for (int t = 0; t < n; ++t, u += w) {
        for (int y = m; y < w; ++y) u[y] = -1e300;  // no label: not the largest, and its exp is 0
        D most = D::load(u);
        for (int y = D::lanes; y < w; y += D::lanes) most = max(D::load(u + y), most);
        const double top = most.top();
        tops += top;
        for (int y = 0; y < w; y += D::lanes) exp(D::load(u + y) - D::set(top)).store(u + y);
    }
    return tops;
}

// out[j] = sum over i of x[i] * M[i][j]: kVectors vectors of columns stay in registers
template <int kVectors> BRIDLE_INLINE void times_block(const double* x, const double* M, int m, int w, double* out) {
    D sum[kVectors];
    for (D& v : sum) v = D::set(0);
    for (int i = 0; i < m; ++i, M += w)
        for (int v = 0; v < kVectors; ++v) sum[v] = fma(D::set(x[i]), D::load(M + v * D::lanes), sum[v]);
    for (int v = 0; v < kVectors; ++v) sum[v].store(out + v * D::lanes);
}

BRIDLE_INLINE void times(const double* x, const double* M, int m, int w, double* out) {
    constexpr int kBlock = 8 / D::lanes > 1 ? 8 / D::lanes : 1;  // vectors in eight labels
    int j = 0;
    for (; w - j >= 24; j += 24) times_block<3 * kBlock>(x, M + j, m, w, out + j);
    if (w - j == 16) times_block<2 * kBlock>(x, M + j, m, w, out + j);
    else if (w - j == 8) times_block<kBlock>(x, M + j, m, w, out + j);
}

// sum[i][j] += over `count` positions of a[i] v[j]; eight at a time
void add_outer(const double* a, const double* v, int count, int m, int w, double* sum) {
    constexpr int kSome = 8;
    int t = 0;
    for (; t + kSome <= count; t += kSome, a += kSome * w, v += kSome * w)
        for (int j = 0; j < w; j += D::lanes) {
            D right[kSome];
            for (int k = 0; k < kSome; ++k) right[k] = D::load(v + k * w + j);
            for (int i = 0; i < m; ++i) {
                D row = D::load(sum + i * w + j);
                for (int k = 0; k < kSome; ++k) row = fma(D::set(a[k * w + i]), right[k], row);
                row.store(sum + i * w + j);
            }
        }
    for (; t < count; ++t, a += w, v += w)
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < w; j += D::lanes) fma(D::set(a[i]), D::load(v + j), D::load(sum + i * w + j)).store(sum + i * w + j);
}

void forward(const double* U, const double* E, int n, int m, int w, double* a, double* c) {
    for (int t = 0; t < n; ++t, a += w, U += w) {
        if (t) times(a - w, E, m, w, a);
        D sum = D::set(0);
        for (int j = 0; j < w; j += D::lanes) {
            const D now = t ? D::load(a + j) * D::load(U + j) : D::load(U + j);
            now.store(a + j);
            sum = sum + now;
        }
        c[t] = 1 / sum.sum();
        for (int j = 0; j < w; j += D::lanes) (D::load(a + j) * D::set(c[t])).store(a + j);
    }
}

// v as above, and p(y at t) into p
void backward(const double* U, const double* back, int n, int m, int w, const double* a, const double* c, double* b, double* v,
              double* p) {
    for (int t = n - 1; t >= 0; --t) {
        const size_t row = static_cast<size_t>(t) * w;
        if (t < n - 1) times(v + row + w, back, m, w, b);
        for (int j = 0; j < w; j += D::lanes) {
            const D here = t < n - 1 ? D::load(b + j) : D::set(1);
            (D::set(c[t]) * D::load(U + row + j) * here).store(v + row + j);
            (D::load(a + row + j) * here).store(p + row + j);
        }
    }
}

}  // namespace
