#include "learn/rows.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "text/attributes.h"

namespace bridle {
namespace {

constexpr int64_t kAhead = 24;  // kernels look so many entries ahead

}  // namespace

Rows::Rows(int m, const int64_t* begin, int64_t A, const uint16_t* label, const uint8_t* free)
    : m(m), width(padded_row(m)), begin(begin), label(label), free(free), rows(size_t(A)) {
    if (A && begin[A] > int64_t{UINT32_MAX}) throw std::length_error("more than four thousand million weights");
    for (int64_t a = 0; a < A; ++a) {
        const int64_t count = begin[a + 1] - begin[a];
        rows[a] = {uint32_t(begin[a]), uint16_t(count), count ? label[begin[a]] : uint16_t{0}};
    }
}

void Scorer::score(int64_t first, int64_t count, float* out) {
    size_t most = 0;
    for (int64_t t = first; t < first + count; ++t) most = std::max(most, size_t(x_.indptr[t + 1] - x_.indptr[t]));
    if (full_.size() <= most)
        full_.resize(most + 1), list_.resize(most + 1), value_.resize(most + 1), list_value_.resize(most + 1);
    const TokenRows tokens{.rows = rows_.rows.data(),
                           .label = rows_.label,
                           .indptr = x_.indptr,
                           .attrs = x_.attrs,
                           .values = x_.values,
                           .last = x_.indptr[x_.n_tokens()],
                           .width = rows_.width};
    kernels().score_tokens(tokens, first, count, w_, out,
                           {full_.data(), list_.data(), value_.data(), list_value_.data()});
}

void score_tokens(const Rows& rows, const Examples& x, const float* w, float* out, Control& control) {
    constexpr int64_t kSome = 256;  // padded rows are made for some tokens at a time, so that they stay near
    std::vector<float> some(size_t(kSome) * rows.width);
    Scorer scorer(rows, x, w);
    for (int64_t t = 0, N = x.n_tokens(); t < N; t += kSome) {
        control.check();
        const int64_t count = std::min(kSome, N - t);
        scorer.score(t, count, some.data());
        for (int64_t k = 0; k < count; ++k) std::copy_n(&some[size_t(k) * rows.width], rows.m, out + (t + k) * rows.m);
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
    std::vector<double> row(size_t(rows.width));
    for (int64_t t = 0; t < N; ++t) {
        if ((t & 255) == 0) control.check();
        std::fill(row.begin(), row.end(), 0.0);
        add_attributes(rows, attrs + indptr[t], values ? values + indptr[t] : nullptr, indptr[t + 1] - indptr[t], w,
                       row.data());
        std::copy_n(row.begin(), rows.m, out + t * rows.m);
    }
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
        full_[t] = uint32_t(full);
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
                slot_[at] = uint32_t(s);
                label_[at] = rows.label[s];
                if (x.values) value_[at] = x.values[k];
            }
        }
    }
}

namespace {

using Bits = uint64_t;  // places in the list of attributes of a token
// What bundles do shows in `benchmarks/train.py`.
constexpr int64_t kMost = 64;
constexpr int kTogether = 2;  // attributes that are worth looking at

struct Candidate {
    int32_t root;  // attribute
    Bits members;  // places in the first token that has it
    bool operator==(const Candidate&) const = default;
};

template <class Each>
void each_bit(Bits bits, const Each& each) {
    for (; bits; bits &= bits - 1) each(std::countr_zero(bits));
}

// What a token has besides each of its attributes, always.
struct Together {
    std::vector<int32_t> count;  // (A) tokens that have it
    std::vector<int64_t> first;  // (A) the first of them
    std::vector<Bits> mask;      // (A) places of its attributes that all of them share
    std::vector<uint8_t> size;   // (A) how many they are; 0: of an attribute that only one token has

    Together(const Examples& x, size_t A) : count(A, 0), first(A, -1), mask(A, 0) {
        for (int64_t t = 0; t < x.n_tokens(); ++t) {
            const int32_t* here = x.attrs + x.indptr[t];
            const int64_t n = std::min(x.indptr[t + 1] - x.indptr[t], kMost);
            for (int64_t p = 0; p < n; ++p) {
                const int32_t a = here[p];
                if (count[a]++ == 0) {
                    first[a] = t;
                    mask[a] = n == kMost ? ~Bits{0} : (Bits{1} << n) - 1;
                    continue;
                }
                if (!(mask[a] & (mask[a] - 1))) continue;
                const int32_t* there = x.attrs + x.indptr[first[a]];
                Bits same = n == kMost ? mask[a] : mask[a] & ((Bits{1} << n) - 1);
                each_bit(same, [&](int k) { same &= ~(Bits{here[k] != there[k]} << k); });
                mask[a] = same;
            }
        }
        size.resize(A);
        for (size_t a = 0; a < A; ++a) size[a] = uint8_t(count[a] > 1 ? std::popcount(mask[a]) : 0);
    }
};

}  // namespace

// Which bundles there are, and which of them each token has.
struct Bundles::Cover {
    std::vector<Candidate> candidates;
    std::vector<int64_t> uses;    // (candidates)
    std::vector<int64_t> indptr;  // (N + 1)
    std::vector<int32_t> chosen;  // candidates of each token
    std::vector<int32_t> number;  // (candidates) of those that pay; -1: of the others
    std::vector<int64_t> first;   // (A)

    Cover(const Rows& rows, const Examples& x) {
        const int64_t N = x.n_tokens();
        const Together together(x, rows.rows.size());
        first = together.first;
        Keys known(size_t(N) / 2);  // candidates by a hash
        Bits mask[kMost];
        int size[kMost];
        indptr.assign(1, 0);
        for (int64_t t = 0; t < N; ++t) {
            const int32_t* here = x.attrs + x.indptr[t];
            const int64_t n = std::min(x.indptr[t + 1] - x.indptr[t], kMost);
            Bits left = n == kMost ? ~Bits{0} : (Bits{1} << n) - 1;
            for (int64_t p = 0; p < n; ++p) mask[p] = together.mask[here[p]], size[p] = together.size[here[p]];
            for (;;) {
                Candidate best{-1, 0};
                int most = kTogether - 1;
                each_bit(left, [&](int p) {
                    if (size[p] <= most) return;
                    const Bits members = mask[p] & left;
                    if (const int count = std::popcount(members); count > most) best = {here[p], members}, most = count;
                });
                if (best.root < 0) break;
                left &= ~best.members;
                chosen.push_back(number_of(best, known));
                ++uses[chosen.back()];
            }
            indptr.push_back(int64_t(chosen.size()));
        }
        choose(rows, x);
    }

    int32_t number_of(const Candidate& candidate, Keys& known) {
        uint64_t key = candidate.members * 0x9e3779b97f4a7c15u ^ uint32_t(candidate.root);
        for (;; key += 0x632be59bd9b4e019u) {  // another candidate may have the same hash
            int32_t& number = known.add(key);
            if (number < 0) {
                number = int32_t(candidates.size());
                candidates.push_back(candidate), uses.push_back(0);
            }
            if (candidates[number] == candidate) return number;
        }
    }

    const int32_t* attributes_of(const Candidate& c, const Examples& x) const {
        return x.attrs + x.indptr[first[c.root]];
    }

    // A bundle pays if reading its row at every use, and making it once, is less than reading the rows of its members.
    void choose(const Rows& rows, const Examples& x) {
        const int64_t row = rows.width / kRowLanes;
        int32_t count = 0;
        for (size_t c = 0; c < candidates.size(); ++c) {
            int64_t members = 0;
            each_bit(candidates[c].members, [&](int p) {
                const int64_t weights = rows.rows[attributes_of(candidates[c], x)[p]].count;
                members += weights == rows.width ? row : weights;
            });
            number.push_back(uses[c] * members > 4 * (members + row) + row * uses[c] ? count++ : -1);
        }
    }
};

Bundles::Bundles(const Rows& rows, const Examples& x) : n_weights_(rows.begin[rows.rows.size()]) {
    const auto A = int32_t(rows.rows.size());
    if (x.values) {  // the members of a bundle would need equal values
        tokens_ = std::make_unique<Joined>(rows, x);
        return;
    }
    const Cover cover(rows, x);
    // The members of bundles, laid out like tokens.
    std::vector<int64_t> indptr{0}, begin(rows.begin, rows.begin + A + 1);
    std::vector<int32_t> attrs;
    std::vector<uint16_t> label(rows.label, rows.label + n_weights_);
    for (size_t c = 0; c < cover.candidates.size(); ++c) {
        if (cover.number[c] < 0) continue;
        const int32_t* from = cover.attributes_of(cover.candidates[c], x);
        each_bit(cover.candidates[c].members, [&](int p) { attrs.push_back(from[p]); });
        indptr.push_back(int64_t(attrs.size()));
        begin.push_back(begin.back() + rows.width);
        for (int y = 0; y < rows.width; ++y) label.push_back(uint16_t(y < rows.m ? y : 0));
        ++size_;
    }
    all_ = {0, size_};
    members_ = std::make_unique<Joined>(rows, Examples{all_.data(), 1, indptr.data(), attrs.data(), nullptr, nullptr});
    // The tokens, with bundles in the place of their members.
    std::vector<int64_t> token_indptr{0};
    std::vector<int32_t> token_attrs;
    token_indptr.reserve(x.n_tokens() + 1);
    for (int64_t t = 0; t < x.n_tokens(); ++t) {
        Bits covered = 0;
        for (int64_t k = cover.indptr[t]; k < cover.indptr[t + 1]; ++k) {
            const int32_t c = cover.chosen[k];
            if (cover.number[c] < 0) continue;
            covered |= cover.candidates[c].members;
            token_attrs.push_back(A + cover.number[c]);
        }
        for (int64_t k = x.indptr[t]; k < x.indptr[t + 1]; ++k)
            if (k - x.indptr[t] >= kMost || !(covered >> (k - x.indptr[t]) & 1)) token_attrs.push_back(x.attrs[k]);
        token_indptr.push_back(int64_t(token_attrs.size()));
    }
    const Rows wider(rows.m, begin.data(), A + size_, label.data(), nullptr);
    tokens_ = std::make_unique<Joined>(wider,
                                       Examples{x.offsets, x.B, token_indptr.data(), token_attrs.data(), nullptr, x.y});
}

void Bundles::reduce(double* counts) const {
    if (!size_) return;
    members_->expect(0, size_, counts + n_weights_, counts);
    std::fill(counts + n_weights_, counts + n_slots(), 0.0);
}

}  // namespace bridle
