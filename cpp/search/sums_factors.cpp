// E[i][j] = exp(pairwise[i][j] - shift),  W = exp(-what a step costs)   (sums_chain.h)
//   m labels (i, then j), t a position
#include "search/sums_factors.h"

#include <algorithm>
#include <cmath>

namespace bridle {
namespace {

void fill_factors(const SumGraph& g, const Sequence& s, const double* pairwise, bool tied, Factors& f) {
    const int m = g.m;
    const size_t cells = size_t(m) * m;
    f.shift = pairwise ? *std::max_element(pairwise, pairwise + cells) : 0.0;
    if (f.shift == -kInf) f.shift = 0.0;
    const TableCache& masks = *s.problem->tables;
    for (int k = 0; k <= int(tied); ++k) {
        const std::vector<double>& mask = k ? masks.tied_mask : masks.free_mask;
        f.score[k].resize(cells), f.wide.ahead[k].resize(cells), f.wide.back[k].resize(cells);
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < m; ++j) {
                const size_t from = size_t(g.label[i]) * m + g.label[j], to = size_t(i) * m + j;
                double x = pairwise ? pairwise[from] - f.shift : 0.0;
                if (!mask.empty()) x += mask[from];
                f.score[k][to] = x;
                f.wide.ahead[k][to] = f.wide.back[k][size_t(j) * m + i] = f.logs ? x : std::exp(x);
            }
    }
}

template <class T>
double largest(const T* x, int m) {  // eight at a time: one after the other would wait for each
    T top[8];
    std::fill_n(top, 8, x[0]);
    int k = 0;
    for (; k + 8 <= m; k += 8)
        for (int l = 0; l < 8; ++l) top[l] = x[k + l] > top[l] ? x[k + l] : top[l];
    for (; k < m; ++k) top[0] = x[k] > top[0] ? x[k] : top[0];
    return double(*std::max_element(top, top + 8));
}

}  // namespace

Factors factors_of(const SumGraph& g, const Sequence& s, const SumRequest& request, bool logs, bool tied) {
    Factors f;
    f.per_step = s.head->per_step, f.logs = logs;
    fill_factors(g, s, f.per_step ? nullptr : s.head->pairwise, tied, f);
    for (const SumGraph::Price& price : g.prices) {
        double cost = 0;
        for (const auto& [rule, count] : price)
            cost += count * (request.penalties ? request.penalties[rule] : s.problem->rules[rule].penalty);
        f.log_price.push_back(-cost);
        f.wide.price.push_back(logs ? -cost : std::exp(-cost));
    }
    const auto copy = [](const std::vector<double>& from, std::vector<float>& to) {
        to.assign(from.begin(), from.end());
    };
    for (int k = 0; k <= int(tied); ++k) {
        copy(f.wide.ahead[k], f.narrow.ahead[k]), copy(f.wide.back[k], f.narrow.back[k]);
    }
    copy(f.wide.price, f.narrow.price);
    return f;
}

void use_step(const SumGraph& g, const Sequence& s, int t, bool tied, Factors& factors) {
    fill_factors(g, s, s.head->pairwise + size_t(t - 1) * g.m * g.m, tied, factors);
}

void read_row(const SumGraph& g, const Sequence& s, const uint64_t* allowed, int t, double* row, double* out,
              size_t step) {
    s.row(t, row);
    if (allowed) {
        const uint64_t* bits = allowed + (s.begin + t) * ((s.m + 63) / 64);
        for (int y = 0; y < s.m; ++y)
            if (!(bits[y / 64] >> (y % 64) & 1)) row[y] = -kInf;
    }
    for (int k = 0; k < s.m; ++k) out[k * step] = row[g.label[k]];
}

bool differs(const Sequence& s, const uint64_t* allowed, int t) {
    const Head& head = *s.head;
    return s.problem->allowed || allowed || (t == 0 && !head.start.empty()) || (t == s.n - 1 && !head.end.empty());
}

double raw_top(const Sequence& s, int t) {
    const Problem& p = *s.problem;
    const int64_t at = (s.first + t) * s.m;
    const double top = p.unary32 ? largest(p.unary32 + at, s.m) : largest(p.unary64 + at, s.m);
    return top > -kInf ? top : 0.0;
}

}  // namespace bridle
