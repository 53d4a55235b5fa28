// The kernels of lanes (simd/kernels.h) with logarithms, for one sequence at a time: products are sums, and sums are `plus`.
#include "search/sums_logs.h"

#include <algorithm>

namespace bridle {
namespace {

void log_multiply(const LaneRun* runs, size_t n_runs, const LaneTerm* terms, const LaneTarget* targets,
                  const double* price, const double* table, const double* x, const double*, double* out) {
    for (const LaneRun* run = runs; run < runs + n_runs; ++run)
        for (uint32_t k = 0; k < run->count; ++k) {
            const LaneTarget& target = targets[run->target + k];
            if (target.cell < 0) continue;
            double top = -kInf, sum = 0;
            for (uint32_t c = run->begin; c < run->end; ++c) {
                const double here = x[terms[c].cell] + table[terms[c].at + k];
                if (here == -kInf) continue;
                if (here <= top) sum += std::exp(here - top);
                else sum = sum * std::exp(top - here) + 1, top = here;
            }
            if (sum > 0) out[target.cell] = plus(out[target.cell], top + std::log(sum) + price[target.price]);
        }
}

void log_gather(const LaneTarget* targets, size_t count, const double* price, const double*, const double* x,
                double* out) {
    for (size_t k = 0; k < count; ++k)
        if (targets[k].cell >= 0) out[k] = plus(out[k], x[targets[k].cell] + price[targets[k].price]);
}

void log_outer(const LaneTile* tiles, size_t n_tiles, const double* x, size_t x_step, const double* y, size_t y_step,
               int count, int m, const double* table, double* sum) {
    for (const LaneTile* tile = tiles; tile < tiles + n_tiles; ++tile)
        for (int k = 0; k < tile->rows; ++k)
            for (int l = 0; l < tile->columns; ++l) {
                const size_t at = size_t(tile->i + k) * m + tile->j + l;
                for (int t = 0; t < count; ++t)
                    sum[at] += std::exp(x[t * x_step + tile->cell + k] + y[t * y_step + tile->column + l] + table[at]);
            }
}

void log_take(const float* const* rows, const int32_t* label, int m, double* u) {
    for (int k = 0; k < m; ++k) u[k] = rows[0][label[k]];
}

void log_lift(double* u, int m, const double*, double* top, double* kept) {
    const double most = *std::max_element(u, u + m);
    top[0] = most > -kInf ? most : 0.0;
    for (int j = 0; j < m; ++j) kept[j] = u[j] = u[j] > -kInf ? u[j] - most : -kInf;
}

void log_scale(double* a, const double* u, const int32_t* label, int nodes, double* total, double* kept) {
    total[0] = -kInf;
    for (int v = 0; v < nodes; ++v) {
        a[v] += u[label[v]];
        total[0] = plus(total[0], a[v]);
    }
    for (int v = 0; v < nodes; ++v) kept[v] = a[v] -= total[0] > -kInf ? total[0] : 0.0;
}

void log_weigh(const double* a, double* b, const double* u, const int32_t* label, int nodes, double* p, double*) {
    for (int v = 0; v < nodes; ++v) {
        p[label[v]] = plus(p[label[v]], a[v] + b[v]);
        b[v] += u[label[v]];
    }
}

void log_put(const double* p, const int32_t* label, int m, double* const* rows) {
    for (int k = 0; k < m; ++k) rows[0][label[k]] = std::min(std::exp(p[k]), 1.0);
}

}  // namespace

const LaneKernels<double> kLogLanes{1,          log_take,  log_lift,  log_multiply, log_scale, log_multiply,
                                    log_gather, log_outer, log_weigh, log_put};

}  // namespace bridle
