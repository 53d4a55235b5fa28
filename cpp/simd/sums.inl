// Sums of weights: scores of tokens, and the other way round, what tokens add to each weight.
//   score[t][y] = sum over attributes a of token t of  value * weight(a, y)

namespace {

// What this does shows in `benchmarks/train.py`.
constexpr int64_t kAhead = 24;  // entries whose weights are fetched beforehand

template <class Real>
struct VectorOf;
template <>
struct VectorOf<double> {
    using type = D;
};
template <>
struct VectorOf<float> {
    using type = F;
};

template <class V>
constexpr int kInEight = 8 / V::lanes > 1 ? 8 / V::lanes : 1;  // vectors in eight labels, the unit of a full row

// kVectors vectors of labels stay in registers while the full rows are added.
template <bool kValues, int kVectors, class V, class Real>
BRIDLE_INLINE void add_full(const Entries& e, int64_t begin, int64_t full, int at, const Real* w, Real* out) {
    V sum[kVectors];
    for (V& v : sum) v = V::set(0);
    for (int64_t k = begin; k < full; ++k) {
        const Real* row = w + e.slot[k] + at;
        for (int v = 0; v < kVectors; ++v) {
            if constexpr (kValues) sum[v] = fma(V::set(e.value[k]), V::load(row + v * V::lanes), sum[v]);
            else sum[v] = sum[v] + V::load(row + v * V::lanes);
        }
    }
    for (int v = 0; v < kVectors; ++v) sum[v].store(out + at + v * V::lanes);
}

template <bool kValues, class Real>
BRIDLE_INLINE void score_entry(const Entries& e, int64_t begin, int64_t full, int64_t end, int width, const Real* w,
                               Real* out) {
    using V = typename VectorOf<Real>::type;
    int at = 0;
    for (; width - at >= 24; at += 24) add_full<kValues, 3 * kInEight<V>, V>(e, begin, full, at, w, out);
    if (width - at == 16) add_full<kValues, 2 * kInEight<V>, V>(e, begin, full, at, w, out);
    else if (width - at == 8) add_full<kValues, kInEight<V>, V>(e, begin, full, at, w, out);
    for (int64_t k = full; k < end; ++k) {
        BRIDLE_PREFETCH(w + e.slot[k + kAhead]);
        out[e.label[k]] += kValues ? e.value[k] * w[e.slot[k]] : w[e.slot[k]];
    }
}

// The same the other way round: kVectors vectors of p stay in registers while they are added to the full rows.
template <bool kValues, int kVectors, class Real>
BRIDLE_INLINE void add_to_full(const Entries& e, int64_t begin, int64_t full, int at, const Real* p, double* into) {
    D some[kVectors];
    for (int v = 0; v < kVectors; ++v) some[v] = wide(p + at + v * D::lanes);
    for (int64_t k = begin; k < full; ++k) {
        double* row = into + e.slot[k] + at;
        for (int v = 0; v < kVectors; ++v) {
            if constexpr (kValues)
                fma(D::set(e.value[k]), some[v], D::load(row + v * D::lanes)).store(row + v * D::lanes);
            else (D::load(row + v * D::lanes) + some[v]).store(row + v * D::lanes);
        }
    }
}

template <bool kValues, class Real>
BRIDLE_INLINE void expect_entry(const Entries& e, int64_t begin, int64_t full, int64_t end, int width, const Real* p,
                                double* into) {
    int at = 0;
    for (; width - at >= 24; at += 24) add_to_full<kValues, 3 * kInEight<D>>(e, begin, full, at, p, into);
    if (width - at == 16) add_to_full<kValues, 2 * kInEight<D>>(e, begin, full, at, p, into);
    else if (width - at == 8) add_to_full<kValues, kInEight<D>>(e, begin, full, at, p, into);
    for (int64_t k = full; k < end; ++k) {
        BRIDLE_PREFETCH(into + e.slot[k + kAhead]);
        into[e.slot[k]] += kValues ? e.value[k] * p[e.label[k]] : p[e.label[k]];
    }
}

template <class Real>
void score_entries(const Entries& e, const int64_t* begin, const uint32_t* full, int64_t count, int width,
                   const Real* w, Real* out) {
    for (int64_t t = 0; t < count; ++t, out += width) {
        if (e.value) score_entry<true>(e, begin[t], begin[t] + full[t], begin[t + 1], width, w, out);
        else score_entry<false>(e, begin[t], begin[t] + full[t], begin[t + 1], width, w, out);
    }
}

template <class Real>
void expect_entries(const Entries& e, const int64_t* begin, const uint32_t* full, int64_t count, int width,
                    const Real* p, double* into) {
    for (int64_t t = 0; t < count; ++t, p += width) {
        if (e.value) expect_entry<true>(e, begin[t], begin[t] + full[t], begin[t + 1], width, p, into);
        else expect_entry<false>(e, begin[t], begin[t] + full[t], begin[t + 1], width, p, into);
    }
}

// ---- tagging, in single precision -----------------------------------------------------------------------------------------

template <bool kValues, int kVectors>
BRIDLE_INLINE void add_float_rows(const uint32_t* full, const float* value, int n, int at, const float* w, float* out) {
    F sum[kVectors];
    for (F& v : sum) v = F::set(0);
    for (int k = 0; k < n; ++k)
        for (int v = 0; v < kVectors; ++v) {
            const F row = F::load(w + full[k] + at + v * F::lanes);
            if constexpr (kValues) sum[v] = sum[v] + F::set(value[k]) * row;
            else sum[v] = sum[v] + row;
        }
    for (int v = 0; v < kVectors; ++v) sum[v].store(out + at + v * F::lanes);
}

// The attributes of a token are parted into full rows and lists, without a branch.
template <bool kValues>
BRIDLE_INLINE void score_tokens_of(const TokenRows& x, int64_t first, int64_t count, const float* w, float* out,
                                   const TokenRoom& room) {
    // What these do shows in `benchmarks/tag.py`.
    constexpr int64_t kNear = 12, kFar = 24;  // attributes whose weights, and whose rows, are fetched beforehand
    constexpr int kBlock = 8 / F::lanes > 1 ? 8 / F::lanes : 1;
    const int width = x.width;
    for (int64_t t = first; t < first + count; ++t, out += width) {
        int n_full = 0, n_lists = 0;
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k) {
            if (k + kFar < x.last) {
                BRIDLE_PREFETCH(&x.rows[x.attrs[k + kFar]]);
                BRIDLE_PREFETCH(w + x.rows[x.attrs[k + kNear]].begin);
            }
            const Row row = x.rows[x.attrs[k]];
            const int full = row.count == width;
            room.full[n_full] = row.begin;
            room.list[n_lists] = row;
            if constexpr (kValues) room.value[n_full] = room.list_value[n_lists] = x.values[k];
            n_full += full;
            n_lists += 1 - full;
        }
        int at = 0;
        for (; width - at >= 24; at += 24)
            add_float_rows<kValues, 3 * kBlock>(room.full, room.value, n_full, at, w, out);
        if (width - at == 16) add_float_rows<kValues, 2 * kBlock>(room.full, room.value, n_full, at, w, out);
        else if (width - at == 8) add_float_rows<kValues, kBlock>(room.full, room.value, n_full, at, w, out);
        for (int k = 0; k < n_lists; ++k) {
            const Row row = room.list[k];
            const float v = kValues ? room.list_value[k] : 1.0f;
            if (row.count == 1) {
                out[row.label] += v * w[row.begin];
                continue;
            }
            for (int s = 0; s < row.count; ++s) out[x.label[row.begin + s]] += v * w[row.begin + s];
        }
    }
}

void score_tokens(const TokenRows& x, int64_t first, int64_t count, const float* w, float* out, const TokenRoom& room) {
    if (x.values) score_tokens_of<true>(x, first, count, w, out, room);
    else score_tokens_of<false>(x, first, count, w, out, room);
}

void add_row(double* out, const double* row, int width) {
    for (int j = 0; j < width; j += D::lanes) (D::load(out + j) + D::load(row + j)).store(out + j);
}

void add_rows(double* out, const double* w, const uint32_t* begin, int n, int width) {
    for (int j = 0; j < width; j += D::lanes) {
        D sum = D::load(out + j);
        for (int k = 0; k < n; ++k) sum = sum + D::load(w + begin[k] + j);
        sum.store(out + j);
    }
}

}  // namespace
