#include "edges.h"

#include <cmath>
#include <stdexcept>

#include "forward_backward.h"

namespace bridle {

int64_t sum_edges(const EdgeRows& rows, const Examples& x, const float* w, int64_t* indptr, int32_t* pair, float* score,
                  Control& control) {
    std::vector<int64_t> at(static_cast<size_t>(rows.m) * rows.m, -1);  // where the sum of a pair stands, if it does
    int64_t count = 0;
    indptr[0] = 0;
    for (int64_t t = 0, N = x.n_tokens(); t < N; ++t) {
        if ((t & 255) == 0) control.check();
        const int64_t first = count;
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k)
            for (int64_t s = rows.begin[x.attrs[k]]; s < rows.begin[x.attrs[k] + 1]; ++s) {
                int64_t& place = at[static_cast<size_t>(rows.pair[s])];
                if (place < first) pair[place = count++] = rows.pair[s], score[place] = w[s];
                else score[place] += w[s];
            }
        indptr[t + 1] = count;
    }
    return count;
}

void fill_steps(int m, const double* pairwise, const int64_t* indptr, const int32_t* pair, const float* score,
                int64_t low, int64_t high, double* out) {
    const size_t square = static_cast<size_t>(m) * m;
    for (int64_t t = low; t < high; ++t, out += square) {
        if (pairwise) std::copy_n(pairwise, square, out);
        else std::fill_n(out, square, 0.0);
        for (int64_t k = indptr[t]; k < indptr[t + 1]; ++k) out[pair[k]] += static_cast<double>(score[k]);
    }
}

Edges::Edges(const EdgeRows& rows, const Examples& x)
    : m(rows.m), width(padded_row(rows.m)), x_(x), begin_(rows.begin, rows.begin + rows.A + 1) {
    if (int64_t{m} * width > int64_t{UINT32_MAX}) throw std::length_error("too many labels");
    slots_.reserve(static_cast<size_t>(begin_.back()));
    for (int64_t s = 0; s < begin_.back(); ++s) {
        const int i = rows.pair[s] / m, j = rows.pair[s] % m;
        slots_.push_back({static_cast<uint32_t>(i * width + j), static_cast<uint16_t>(i), static_cast<uint16_t>(j)});
    }
}

void Edges::steps(int64_t b, const double* pairwise, const double* w, double* out) const {
    const size_t square = static_cast<size_t>(m) * m;
    for (int64_t t = x_.offsets[b] + 1; t < x_.offsets[b + 1]; ++t, out += square) {
        if (pairwise) std::copy_n(pairwise, square, out);
        else std::fill_n(out, square, 0.0);
        of_token(t, [&](int64_t s, const Slot& slot) { out[static_cast<size_t>(slot.i) * m + slot.j] += w[s]; });
    }
}

void Edges::prepare(const double* w, int64_t low, int64_t high, double* factor, double* spread) const {
    for (int64_t a = low; a < high; ++a) {
        double least = 0, most = 0;  // 0: of pairs that it has no weight for
        for (int64_t s = begin_[a]; s < begin_[a + 1]; ++s) {
            factor[s] = std::exp(w[s]);
            least = std::min(least, w[s]), most = std::max(most, w[s]);
        }
        spread[a] = most - least;
    }
}

void Edges::gold(double* counts) const {
    for (int64_t b = 0; b < x_.B; ++b) {
        const int64_t first = x_.offsets[b], last = x_.offsets[b + 1];
        if (!all_known(x_.y + first, static_cast<int>(last - first))) continue;
        for (int64_t t = first + 1; t < last; ++t) of_pair(t, x_.y[t - 1], x_.y[t], [&](int64_t s) { counts[s] += 1; });
    }
}

}  // namespace bridle
