#include "rows.h"

#include <algorithm>
#include <stdexcept>

namespace bridle {
namespace {

constexpr int64_t kAhead = 24;  // kernels look so many entries ahead

struct Parted {
    std::vector<uint32_t> full;  // where full rows begin
    std::vector<Row> list;
    std::vector<float> value, list_value;

    void room(size_t n) {
        if (full.size() > n) return;
        full.resize(n + 1), list.resize(n + 1), value.resize(n + 1), list_value.resize(n + 1);
    }
};

// out (count, width) := scores
void score_some(const Rows& rows, const Examples& x, int64_t first, int64_t count, const float* w, float* out,
                Parted& parted) {
    for (int64_t t = first; t < first + count; ++t) parted.room(static_cast<size_t>(x.indptr[t + 1] - x.indptr[t]));
    const TokenRows tokens{rows.rows.data(),       rows.label, x.indptr, x.attrs, x.values,
                           x.indptr[x.n_tokens()], rows.width};
    kernels().score_tokens(tokens, first, count, w, out,
                           {parted.full.data(), parted.list.data(), parted.value.data(), parted.list_value.data()});
}

}  // namespace

Rows::Rows(int m, const int64_t* begin, int64_t A, const uint16_t* label, const uint8_t* free)
    : m(m), width(padded_row(m)), begin(begin), label(label), free(free), rows(static_cast<size_t>(A)) {
    if (A && begin[A] > int64_t{UINT32_MAX}) throw std::length_error("more than four thousand million weights");
    for (int64_t a = 0; a < A; ++a) {
        const int64_t count = begin[a + 1] - begin[a];
        rows[a] = {static_cast<uint32_t>(begin[a]), static_cast<uint16_t>(count),
                   count ? label[begin[a]] : uint16_t{0}};
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

void add_attributes(const Rows& rows, const int32_t* attrs, const double* values, int64_t count, const double* w,
                    double* out) {
    constexpr int kRun = 16;
    uint32_t run[kRun];  // full rows that follow each other and have the value 1
    int held = 0;
    const auto flush = [&] {
        if (held) kernels().add_rows(out, w, run, held, rows.width);
        held = 0;
    };
    for (int64_t k = 0; k < count; ++k) {
        const Row row = rows.rows[attrs[k]];
        const bool full = row.count == rows.width;
        const double value = values ? values[k] : 1.0;
        if (full && value == 1.0) {
            run[held++] = row.begin;
            if (held == kRun) flush();
            continue;
        }
        flush();
        const double* from = w + row.begin;
        const uint16_t* label = rows.label + row.begin;
        if (full)
            for (int y = 0; y < rows.m; ++y) out[y] += value * from[y];
        else
            for (int s = 0; s < row.count; ++s) out[label[s]] += value * from[s];
    }
    flush();
}

void score_tokens(const Rows& rows, const int64_t* indptr, const int32_t* attrs, const double* values, int64_t N,
                  const double* w, double* out, Control& control) {
    std::vector<double> row(static_cast<size_t>(rows.width));
    for (int64_t t = 0; t < N; ++t) {
        if ((t & 255) == 0) control.check();
        std::fill(row.begin(), row.end(), 0.0);
        add_attributes(rows, attrs + indptr[t], values ? values + indptr[t] : nullptr, indptr[t + 1] - indptr[t], w,
                       row.data());
        std::copy_n(row.begin(), rows.m, out + t * rows.m);
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
    : m(rows.m),
      width(rows.width),
      offsets(x.offsets),
      B(x.B),
      y(x.y),
      free_(rows.free),
      n_slots_(rows.begin[rows.rows.size()]) {
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

}  // namespace bridle
