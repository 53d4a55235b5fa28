// Exact samples: with labels up to t - 1 read, at node v = (q, i),
//   P(y[t] = j) ~ E[i][j] W[q][j] w[t][step(q, j)]   (sums_chain.h has the rest of the notation)
#include <algorithm>
#include <cmath>
#include <random>

#include "search/sums_chain.h"

namespace bridle {

void draw_labellings(const SumGraph& g, Factors& f, const Lane& lane, size_t l, const double* w, size_t L, bool tied,
                     const SumOutputs& out, Control& control) {
    const Sequence& s = *lane.sequence;
    const int m = g.m;
    std::mt19937_64 random(out.seed * 0x9e3779b97f4a7c15ull + uint64_t(out.first + s.b));
    std::vector<double> weight(m);
    const auto times = [&](double a, double b) { return f.logs ? a + b : a * b; };
    for (int sample = 0; sample < out.n_samples; ++sample) {
        int32_t* const to = out.samples + size_t(sample) * s.problem->N + s.begin;
        int v = -1;
        for (int t = 0; t < s.n; ++t) {
            if ((t & 255) == 0) control.check();
            if (s.head->per_step && t > 0) use_step(g, s, t, tied, f);
            const LaneTarget* const steps =
                t ? &g.kinds[lane.kind_at(t)].steps[size_t(g.node_row[v]) * m] : g.start[lane.kind_at(0)].data();
            const double* const rows = w + size_t(t) * g.V * L;
            const double* const factors = t ? &f.wide.ahead[lane.tied_at(t)][size_t(g.node_place[v]) * m] : nullptr;
            double top = -kInf, sum = 0;
            for (int j = 0; j < m; ++j) {
                double x = f.logs ? -kInf : 0.0;
                if (steps[j].cell >= 0) {
                    x = times(rows[size_t(steps[j].cell) * L + l], f.price_of(steps[j].price));
                    if (factors) x = times(x, factors[j]);
                }
                weight[j] = x, top = std::max(top, x);
            }
            for (double& x : weight) sum += x = f.logs ? std::exp(x - top) : x;
            double left = double(random() >> 11) * 0x1p-53 * sum;
            int last = -1;
            for (int j = 0; j < m; ++j) {
                if (!(weight[j] > 0)) continue;
                last = j, left -= weight[j];
                if (left < 0) break;
            }
            v = steps[last].cell;
            to[t] = g.label[last];
        }
    }
}

}  // namespace bridle
