#include "rows.h"

#include <algorithm>
#include <stdexcept>

namespace bridle {
namespace {

struct Entries {
    const uint32_t* slot;
    const uint16_t* label;
    const float* value;  // null: all are 1
};

constexpr int64_t kAhead = 24;  // entries whose weights are fetched beforehand

// `kVectors` vectors of labels stay in registers while the full rows are added.
template <bool kValues, int kVectors>
BRIDLE_INLINE void add_full(const Entries& e, int64_t begin, int64_t full, int at, const double* w, double* out) {
    Vector sum[kVectors] = {};
    for (int64_t k = begin; k < full; ++k) {
        const double* row = w + e.slot[k] + at;
        for (int v = 0; v < kVectors; ++v) {
            if constexpr (kValues) sum[v] += static_cast<double>(e.value[k]) * vector_at(row + v * kLanes);
            else sum[v] += vector_at(row + v * kLanes);
        }
    }
    for (int v = 0; v < kVectors; ++v) vector_at(out + at + v * kLanes) = sum[v];
}

template <bool kValues>
BRIDLE_INLINE void score_token(const Entries& e, int64_t begin, int64_t full, int64_t end, int width, const double* w, double* out) {
    int at = 0;
    for (; width - at >= 4 * kLanes; at += 4 * kLanes) add_full<kValues, 4>(e, begin, full, at, w, out);
    if (width - at == 3 * kLanes) add_full<kValues, 3>(e, begin, full, at, w, out);
    else if (width - at == 2 * kLanes) add_full<kValues, 2>(e, begin, full, at, w, out);
    else if (width - at == kLanes) add_full<kValues, 1>(e, begin, full, at, w, out);
    for (int64_t k = full; k < end; ++k) {
        __builtin_prefetch(w + e.slot[k + kAhead]);
        out[e.label[k]] += kValues ? e.value[k] * w[e.slot[k]] : w[e.slot[k]];
    }
}

template <bool kValues>
BRIDLE_INLINE void expect_token(const Entries& e, int64_t begin, int64_t full, int64_t end, int width, const double* p, double* into) {
    for (int64_t k = begin; k < full; ++k) {
        double* row = into + e.slot[k];
        for (int y = 0; y < width; y += kLanes) {
            if constexpr (kValues) vector_at(row + y) += static_cast<double>(e.value[k]) * vector_at(p + y);
            else vector_at(row + y) += vector_at(p + y);
        }
    }
    for (int64_t k = full; k < end; ++k) {
        __builtin_prefetch(into + e.slot[k + kAhead], 1);
        into[e.slot[k]] += kValues ? e.value[k] * p[e.label[k]] : p[e.label[k]];
    }
}

BRIDLE_CLONES void score_joined(const Entries& e, const int64_t* begin, const uint32_t* full, int64_t count, int width, const double* w, double* out) {
    for (int64_t t = 0; t < count; ++t, out += width) {
        if (e.value) score_token<true>(e, begin[t], begin[t] + full[t], begin[t + 1], width, w, out);
        else score_token<false>(e, begin[t], begin[t] + full[t], begin[t + 1], width, w, out);
    }
}

BRIDLE_CLONES void expect_joined(const Entries& e, const int64_t* begin, const uint32_t* full, int64_t count, int width, const double* p, double* into) {
    for (int64_t t = 0; t < count; ++t, p += width) {
        if (e.value) expect_token<true>(e, begin[t], begin[t] + full[t], begin[t + 1], width, p, into);
        else expect_token<false>(e, begin[t], begin[t] + full[t], begin[t + 1], width, p, into);
    }
}

struct Parted {
    std::vector<uint32_t> full;  // where full rows begin
    std::vector<Rows::Row> list;
    std::vector<float> value, list_value;

    void room(size_t n) {
        if (full.size() > n) return;
        full.resize(n + 1), list.resize(n + 1), value.resize(n + 1), list_value.resize(n + 1);
    }
};

// The sum of full rows, kVectors vectors of it in registers.
template <bool kValues, int kVectors>
BRIDLE_INLINE void add_full(const uint32_t* full, const float* value, int n, int at, const float* w, float* out) {
    FloatVector sum[kVectors] = {};
    for (int k = 0; k < n; ++k)
        for (int v = 0; v < kVectors; ++v) {
            if constexpr (kValues) sum[v] += value[k] * float_at(w + full[k] + at + v * kLanes);
            else sum[v] += float_at(w + full[k] + at + v * kLanes);
        }
    for (int v = 0; v < kVectors; ++v) float_at(out + at + v * kLanes) = sum[v];
}

// out (count, width) := scores. The attributes of a token are parted into full rows and lists, without a branch.
template <bool kValues>
BRIDLE_INLINE void score_some(const Rows& rows, const Examples& x, int64_t first, int64_t count, const float* w, float* out, Parted& parted) {
    constexpr int64_t kNear = 12, kFar = 24;  // attributes whose weights, and whose rows, are fetched beforehand
    const int width = rows.width;
    const int64_t last = x.indptr[x.n_tokens()];
    for (int64_t t = first; t < first + count; ++t, out += width) {
        const int64_t begin = x.indptr[t], end = x.indptr[t + 1];
        parted.room(static_cast<size_t>(end - begin));
        int n_full = 0, n_lists = 0;
        for (int64_t k = begin; k < end; ++k) {
            if (k + kFar < last) {
                __builtin_prefetch(&rows.rows[x.attrs[k + kFar]]);
                __builtin_prefetch(w + rows.rows[x.attrs[k + kNear]].begin);
            }
            const Rows::Row row = rows.rows[x.attrs[k]];
            const int full = row.count == width;
            parted.full[n_full] = row.begin;
            parted.list[n_lists] = row;
            if constexpr (kValues) parted.value[n_full] = parted.list_value[n_lists] = x.values[k];
            n_full += full;
            n_lists += 1 - full;
        }
        int at = 0;
        const uint32_t* full = parted.full.data();
        const float* value = parted.value.data();
        for (; width - at >= 4 * kLanes; at += 4 * kLanes) add_full<kValues, 4>(full, value, n_full, at, w, out);
        if (width - at == 3 * kLanes) add_full<kValues, 3>(full, value, n_full, at, w, out);
        else if (width - at == 2 * kLanes) add_full<kValues, 2>(full, value, n_full, at, w, out);
        else if (width - at == kLanes) add_full<kValues, 1>(full, value, n_full, at, w, out);
        for (int k = 0; k < n_lists; ++k) {
            const Rows::Row row = parted.list[k];
            const float v = kValues ? parted.list_value[k] : 1.0f;
            if (row.count == 1) {
                out[row.label] += v * w[row.begin];
                continue;
            }
            for (int s = 0; s < row.count; ++s) out[rows.label[row.begin + s]] += v * w[row.begin + s];
        }
    }
}

BRIDLE_CLONES void score_some(const Rows& rows, const Examples& x, int64_t first, int64_t count, const float* w, float* out, Parted& parted) {
    if (x.values) score_some<true>(rows, x, first, count, w, out, parted);
    else score_some<false>(rows, x, first, count, w, out, parted);
}

}  // namespace

Rows::Rows(int m, const int64_t* begin, int64_t A, const uint16_t* label, const uint8_t* free)
    : m(m), width(padded(m)), begin(begin), label(label), free(free), rows(static_cast<size_t>(A)) {
    if (A && begin[A] > int64_t{UINT32_MAX}) throw std::length_error("more than four thousand million weights");
    for (int64_t a = 0; a < A; ++a) {
        const int64_t count = begin[a + 1] - begin[a];
        rows[a] = {static_cast<uint32_t>(begin[a]), static_cast<uint16_t>(count), count ? label[begin[a]] : uint16_t{0}};
    }
}

void score_tokens(const Rows& rows, const Examples& x, const float* w, float* out, Control& control) {
    constexpr int64_t kSome = 256;  // padded rows are made for some tokens at a time, so that they stay near
    std::vector<float> some(static_cast<size_t>(kSome) * rows.width);
    Parted parted;
    for (int64_t t = 0, N = x.n_tokens(); t < N; t += kSome) {
        control.check();
        const int64_t count = std::min(kSome, N - t);
        score_some(rows, x, t, count, w, some.data(), parted);
        for (int64_t k = 0; k < count; ++k)
            std::copy_n(&some[static_cast<size_t>(k) * rows.width], rows.m, out + (t + k) * rows.m);
    }
}

struct Scorer::Room {
    const Rows& rows;
    const Examples& x;
    const float* w;
    Parted parted;
    std::vector<float> row;
};

Scorer::Scorer(const Rows& rows, const Examples& x, const float* w)
    : room_(new Room{rows, x, w, {}, std::vector<float>(static_cast<size_t>(rows.width))}) {}

Scorer::~Scorer() = default;

const float* Scorer::token(int64_t t) {
    score_some(room_->rows, room_->x, t, 1, room_->w, room_->row.data(), room_->parted);
    return room_->row.data();
}

Joined::Joined(const Rows& rows, const Examples& x)
    : m(rows.m), width(rows.width), offsets(x.offsets), B(x.B), y(x.y), free_(rows.free), n_slots_(rows.begin[rows.rows.size()]) {
    const int64_t N = x.n_tokens();
    begin_.assign(N + 1, 0);
    full_.assign(N, 0);
    const auto is_full = [&](int32_t a) { return rows.begin[a + 1] - rows.begin[a] == width; };
    for (int64_t t = 0; t < N; ++t) {
        int64_t entries = 0, full = 0;
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k) {
            const int32_t a = x.attrs[k];
            if (is_full(a)) ++entries, ++full;
            else entries += rows.begin[a + 1] - rows.begin[a];
        }
        full_[t] = static_cast<uint32_t>(full);
        begin_[t + 1] = begin_[t] + entries;
    }
    slot_.resize(begin_[N] + kAhead);
    label_.resize(begin_[N]);
    if (x.values) value_.resize(begin_[N]);
    for (int64_t t = 0; t < N; ++t) {
        int64_t full = begin_[t], list = full + full_[t];
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k) {
            const int32_t a = x.attrs[k];
            const int64_t last = is_full(a) ? rows.begin[a] + 1 : rows.begin[a + 1];
            for (int64_t s = rows.begin[a]; s < last; ++s) {
                const int64_t at = is_full(a) ? full++ : list++;
                slot_[at] = static_cast<uint32_t>(s);
                label_[at] = rows.label[s];
                if (x.values) value_[at] = x.values[k];
            }
        }
    }
}

void Joined::score(int64_t first, int64_t count, const double* w, double* out) const {
    const Entries e{slot_.data(), label_.data(), value_.empty() ? nullptr : value_.data()};
    score_joined(e, begin_.data() + first, full_.data() + first, count, width, w, out);
}

void Joined::expect(int64_t first, int64_t count, const double* p, double* into) const {
    const Entries e{slot_.data(), label_.data(), value_.empty() ? nullptr : value_.data()};
    expect_joined(e, begin_.data() + first, full_.data() + first, count, width, p, into);
}

}  // namespace bridle
