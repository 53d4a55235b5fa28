// Sums over labels x states, one sequence per lane (kernels.h says what each kernel does). A cell is a vector of doubles.

namespace {

BRIDLE_INLINE D cell(const double* x, size_t number) { return D::load(x + number * D::lanes); }

// kSets sets of accumulators, so that few columns need not wait for each other.
template <int kCount>
BRIDLE_INLINE void lane_run(const LaneRun& run, const LaneTerm* terms, const LaneTarget* target, const double* price,
                            const double* table, const double* x, const double* mask, double* out) {
    constexpr int kSets = kCount <= 4 ? 2 : 1;
    D sum[kSets][kCount];
    for (int s = 0; s < kSets; ++s)
        for (int k = 0; k < kCount; ++k) sum[s][k] = D::set(0);
    const LaneTerm *term = terms + run.begin, *const end = terms + run.end;
    for (; end - term >= kSets; term += kSets)
        for (int s = 0; s < kSets; ++s) {
            const D value = cell(x, term[s].cell);
            for (int k = 0; k < kCount; ++k) sum[s][k] = fma(value, D::set(table[term[s].at + k]), sum[s][k]);
        }
    for (; term < end; ++term)
        for (int k = 0; k < kCount; ++k) sum[0][k] = fma(cell(x, term->cell), D::set(table[term->at + k]), sum[0][k]);
    for (int k = 0; k < kCount; ++k, ++target) {
        if (target->cell < 0) continue;
        const D all = kSets == 2 ? sum[0][k] + sum[kSets - 1][k] : sum[0][k];
        double* to = out + size_t(target->cell) * D::lanes;
        D weight = D::set(price[target->price]);
        if (mask) weight = weight * D::load(mask);
        fma(all, weight, D::load(to)).store(to);
    }
}

void lane_multiply(const LaneRun* runs, size_t n_runs, const LaneTerm* terms, const LaneTarget* targets,
                   const double* price, const double* table, const double* x, const double* mask, double* out) {
    for (const LaneRun *run = runs, *end = runs + n_runs; run < end; ++run)
        with_count<kMostRun>(int(run->count), [&]<int kCount>() {
            lane_run<kCount>(*run, terms, targets + run->target, price, table, x, mask, out);
        });
}

void lane_gather(const LaneTarget* targets, size_t count, const double* price, const double* mask, const double* x,
                 double* out) {
    for (size_t k = 0; k < count; ++k, out += D::lanes) {
        if (targets[k].cell < 0) continue;
        D weight = D::set(price[targets[k].price]);
        if (mask) weight = weight * D::load(mask);
        fma(cell(x, size_t(targets[k].cell)), weight, D::load(out)).store(out);
    }
}

template <int kRows, int kColumns>
BRIDLE_INLINE void lane_tile(const LaneTile& tile, const double* x, size_t x_step, const double* y, size_t y_step,
                             int count, int m, double* sum) {
    D all[kRows][kColumns];
    double* const to = sum + (size_t(tile.i) * m + tile.j) * D::lanes;
    for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) all[i][j] = D::load(to + (size_t(i) * m + j) * D::lanes);
    const double *left = x + size_t(tile.cell) * D::lanes, *right = y + size_t(tile.column) * D::lanes;
    for (int t = 0; t < count; ++t, left += x_step * D::lanes, right += y_step * D::lanes) {
        D column[kColumns];
        for (int j = 0; j < kColumns; ++j) column[j] = cell(right, j);
        for (int i = 0; i < kRows; ++i) {
            const D row = cell(left, i);
            for (int j = 0; j < kColumns; ++j) all[i][j] = fma(row, column[j], all[i][j]);
        }
    }
    for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kColumns; ++j) all[i][j].store(to + (size_t(i) * m + j) * D::lanes);
}

void lane_outer(const LaneTile* tiles, size_t n_tiles, const double* x, size_t x_step, const double* y, size_t y_step,
                int count, int m, const double*, double* sum) {
    for (const LaneTile *tile = tiles, *end = tiles + n_tiles; tile < end; ++tile)
        with_count<kMostTileRows>(tile->rows, [&]<int kRows>() {
            with_count<kMostTileColumns>(tile->columns, [&]<int kColumns>() {
                lane_tile<kRows, kColumns>(*tile, x, x_step, y, y_step, count, m, sum);
            });
        });
}

void lane_lift(double* u, int m, double* top) {
    const D least = D::set(-1e300);
    D most = least;
    for (int j = 0; j < m; ++j) most = max(cell(u, j), most);
    for (int j = 0; j < m; ++j) exp(cell(u, j) - most).store(u + size_t(j) * D::lanes);
    where_less(least, most, most, D::set(0)).store(top);
}

void lane_scale(double* a, const double* u, const int32_t* label, int nodes, double* total) {
    D sum = D::set(0);
    for (int v = 0; v < nodes; ++v) {
        const D here = cell(a, v) * cell(u, label[v]);
        here.store(a + size_t(v) * D::lanes);
        sum = sum + here;
    }
    sum.store(total);
}

void lane_weigh(const double* a, double* b, const double* u, const int32_t* label, int nodes, double* p, double* most) {
    D top = D::load(most);
    for (int v = 0; v < nodes; ++v) {
        const D back = cell(b, v);
        double* to = p + size_t(label[v]) * D::lanes;
        fma(cell(a, v), back, D::load(to)).store(to);
        top = max(back, top);
        (back * cell(u, label[v])).store(b + size_t(v) * D::lanes);
    }
    top.store(most);
}

constexpr LaneKernels kLaneKernels{D::lanes, lane_multiply, lane_gather, lane_outer, lane_lift, lane_scale, lane_weigh};

}  // namespace
