// Sums over labels x states, one sequence per lane (kernels.h says what each kernel does). A cell has kLanes numbers: one vector of V
// back, and so many vectors of doubles ahead as that takes.

namespace {

template <class Real>
using Vector = typename VectorOf<Real>::type;
template <class Real>
constexpr int kLanes = Vector<Real>::lanes;

// One run in one vector of each cell of kWidth numbers. kSets sets of accumulators, so that few columns need not wait for each other.
template <class V, int kWidth, int kCount, class Real>
BRIDLE_INLINE void lane_run(const LaneRun& run, const LaneTerm* terms, const LaneTarget* target, const Real* price,
                            const Real* table, const Real* x, const Real* mask, Real* out) {
    constexpr int kSets = kCount <= 4 ? 2 : 1;
    V sum[kSets][kCount];
    for (int s = 0; s < kSets; ++s)
        for (int k = 0; k < kCount; ++k) sum[s][k] = V::set(0);
    const LaneTerm *term = terms + run.begin, *const end = terms + run.end;
    const auto add = [&](const LaneTerm& here, V* to) {
        const V value = V::load(x + size_t(here.cell) * kWidth);
        const Real* const row = table + here.at;
        for (int k = 0; k < kCount; ++k) to[k] = fma(value, V::set(row[k]), to[k]);
    };
    for (; end - term >= kSets; term += kSets)
        for (int s = 0; s < kSets; ++s) add(term[s], sum[s]);
    for (; term < end; ++term) add(*term, sum[0]);
    for (int k = 0; k < kCount; ++k, ++target) {
        if (target->cell < 0) continue;
        const V all = kSets == 2 ? sum[0][k] + sum[kSets - 1][k] : sum[0][k];
        Real* to = out + size_t(target->cell) * kWidth;
        V weight = V::set(price[target->price]);
        if (mask) weight = weight * V::load(mask);
        fma(all, weight, V::load(to)).store(to);
    }
}

template <class V, int kWidth, class Real>
void lane_multiply(const LaneRun* runs, size_t n_runs, const LaneTerm* terms, const LaneTarget* targets,
                   const Real* price, const Real* table, const Real* x, const Real* mask, Real* out) {
    for (const LaneRun *run = runs, *end = runs + n_runs; run < end; ++run)
        with_count<kMostRun>(int(run->count), [&]<int kCount>() {
            for (int at = 0; at < kWidth; at += V::lanes)
                lane_run<V, kWidth, kCount>(*run, terms, targets + run->target, price, table, x + at,
                                            mask ? mask + at : nullptr, out + at);
        });
}

template <class Real>
void lane_gather(const LaneTarget* targets, size_t count, const Real* price, const Real* mask, const Real* x,
                 Real* out) {
    using V = Vector<Real>;
    for (size_t k = 0; k < count; ++k, out += V::lanes) {
        if (targets[k].cell < 0) continue;
        V weight = V::set(price[targets[k].price]);
        if (mask) weight = weight * V::load(mask);
        fma(V::load(x + size_t(targets[k].cell) * V::lanes), weight, V::load(out)).store(out);
    }
}

template <int kRows, int kColumns, class Real>
BRIDLE_INLINE void lane_tile(const LaneTile& tile, const Real* x, size_t x_step, const Real* y, size_t y_step,
                             int count, int m, Real* sum) {
    using V = Vector<Real>;
    V all[kRows][kColumns];
    Real* const to = sum + (size_t(tile.i) * m + tile.j) * V::lanes;
    for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) all[i][j] = V::load(to + (size_t(i) * m + j) * V::lanes);
    const Real *left = x + size_t(tile.cell) * V::lanes, *right = y + size_t(tile.column) * V::lanes;
    for (int t = 0; t < count; ++t, left += x_step * V::lanes, right += y_step * V::lanes) {
        V column[kColumns];
        for (int j = 0; j < kColumns; ++j) column[j] = V::load(right + j * V::lanes);
        for (int i = 0; i < kRows; ++i) {
            const V row = V::load(left + i * V::lanes);
            for (int j = 0; j < kColumns; ++j) all[i][j] = fma(row, column[j], all[i][j]);
        }
    }
    for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) all[i][j].store(to + (size_t(i) * m + j) * V::lanes);
}

template <class Real>
void lane_outer(const LaneTile* tiles, size_t n_tiles, const Real* x, size_t x_step, const Real* y, size_t y_step,
                int count, int m, const Real*, Real* sum) {
    for (const LaneTile *tile = tiles, *end = tiles + n_tiles; tile < end; ++tile)
        with_count<kMostTileRows>(tile->rows, [&]<int kRows>() {
            with_count<kMostTileColumns>(tile->columns, [&]<int kColumns>() {
                lane_tile<kRows, kColumns>(*tile, x, x_step, y, y_step, count, m, sum);
            });
        });
}

template <class Real>
void lane_take(const float* const* rows, const int32_t* label, int m, double* u) {
    for (int k = 0; k < m; ++k, u += kLanes<Real>)
        for (int lane = 0; lane < kLanes<Real>; ++lane) u[lane] = double(rows[lane][label[k]]);
}

template <class Real>
void lane_lift(double* u, int m, const double* factor, double* top, Real* kept) {
    constexpr int kWidth = kLanes<Real>, kParts = kWidth / D::lanes, kLeft = sizeof(Real) < sizeof(double) ? 4 : 0;
    const D least = D::set(-1e300);
    D most[kParts], scale[kParts];
    for (int part = 0; part < kParts; ++part) most[part] = least, scale[part] = D::load(factor + part * D::lanes);
    for (int j = 0; j < m; ++j)
        for (int part = 0; part < kParts; ++part)
            most[part] = max(D::load(u + size_t(j) * kWidth + part * D::lanes), most[part]);
    for (int j = 0; j < m; ++j)
        for (int part = 0; part < kParts; ++part) {
            const size_t at = size_t(j) * kWidth + part * D::lanes;
            const D value = exp<kLeft>(D::load(u + at) - most[part]) * scale[part];
            value.store(u + at);
            value.store(kept + at);
        }
    for (int part = 0; part < kParts; ++part)
        where_less(least, most[part], most[part], D::set(0)).store(top + part * D::lanes);
}

template <class Real>
void lane_scale(double* a, const double* u, const int32_t* label, int nodes, double* total, Real* kept) {
    constexpr int kWidth = kLanes<Real>, kParts = kWidth / D::lanes;
    D sum[kParts];
    for (int part = 0; part < kParts; ++part) sum[part] = D::set(0);
    for (int v = 0; v < nodes; ++v)
        for (int part = 0; part < kParts; ++part) {
            const size_t at = size_t(v) * kWidth + part * D::lanes;
            const D here = D::load(a + at) * D::load(u + size_t(label[v]) * kWidth + part * D::lanes);
            here.store(a + at);
            here.store(kept + at);
            sum[part] = sum[part] + here;
        }
    for (int part = 0; part < kParts; ++part) sum[part].store(total + part * D::lanes);
}

template <class Real>
void lane_weigh(const Real* a, Real* b, const Real* u, const int32_t* label, int nodes, Real* p, Real* most) {
    using V = Vector<Real>;
    V top = V::load(most);
    for (int v = 0; v < nodes; ++v) {
        Real* const there = b + size_t(v) * V::lanes;
        const V back = V::load(there);
        Real* to = p + size_t(label[v]) * V::lanes;
        fma(V::load(a + size_t(v) * V::lanes), back, V::load(to)).store(to);
        top = max(back, top);
        (back * V::load(u + size_t(label[v]) * V::lanes)).store(there);
    }
    top.store(most);
}

template <class Real>
void lane_put(const Real* p, const int32_t* label, int m, Real* const* rows) {
    for (int k = 0; k < m; ++k, p += kLanes<Real>)
        for (int lane = 0; lane < kLanes<Real>; ++lane) rows[lane][label[k]] = p[lane] < Real(1) ? p[lane] : Real(1);
}

template <class Real>
constexpr LaneKernels<Real> kLaneKernels{
    kLanes<Real>,      lane_take<Real>,
    lane_lift<Real>,   lane_multiply<D, kLanes<Real>, double>,
    lane_scale<Real>,  lane_multiply<Vector<Real>, kLanes<Real>, Real>,
    lane_gather<Real>, lane_outer<Real>,
    lane_weigh<Real>,  lane_put<Real>,
};

}  // namespace
