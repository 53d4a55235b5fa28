#include "majority.h"

#include <algorithm>

namespace bridle {

void majority(const Examples& x, int32_t* candidate, int32_t* right, int32_t* total, int64_t A) {
    std::fill_n(candidate, A, -1);
    std::fill_n(right, A, 0);
    std::fill_n(total, A, 0);
    const int64_t N = x.n_tokens();
    for (int64_t t = 0; t < N; ++t)
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k) {
            const int32_t a = x.attrs[k];
            ++total[a];
            if (right[a] == 0) candidate[a] = x.y[t], right[a] = 1;
            else right[a] += candidate[a] == x.y[t] ? 1 : -1;
        }
    std::fill_n(right, A, 0);
    for (int64_t t = 0; t < N; ++t)
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k) right[x.attrs[k]] += candidate[x.attrs[k]] == x.y[t];
}

void agree(const Examples& x, const int32_t* label_of, int32_t* out) {
    for (int64_t t = 0, N = x.n_tokens(); t < N; ++t) {
        int32_t found = -1;
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1] && found != -2; ++k) {
            const int32_t label = label_of[x.attrs[k]];
            found = found == -1 || found == label ? label : -2;
        }
        out[t] = found;
    }
}

}  // namespace bridle
