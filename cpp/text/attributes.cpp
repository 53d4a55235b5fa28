#include "text/attributes.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "simd/kernels.h"

namespace bridle {
namespace {

// What these do shows in `benchmarks/tag.py`.
constexpr uint64_t kSparse = 16;  // a column with fewer attributes than one in so many ids is not worth an array
constexpr int kBlock = 128;       // tokens looked at together, so that their look-ups overlap

}  // namespace

int32_t& Keys::add(uint64_t key) {
    const size_t slot_index = slot_of(key);
    if (slots_[slot_index].number >= 0) return slots_[slot_index].number;
    if (2 * (used_ + 1) > slots_.size()) {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        --shift_;
        for (const Slot& slot : old)
            if (slot.number >= 0) slots_[slot_of(slot.key)] = slot;
    }
    ++used_;
    Slot& slot = slots_[slot_of(key)];
    slot.key = key;
    return slot.number;
}

Attributes::Attributes(std::vector<std::vector<Place>> templates, std::vector<int64_t> sizes) {
    for (std::vector<Place>& places : templates) {
        Template& pattern = templates_.emplace_back();
        uint64_t product = 1;
        pattern.exact = true;
        for (const Place& place : places) {
            const int64_t size = sizes.at(size_t(place.column));
            if (size < 3) throw std::invalid_argument("a column has no ids");
            pattern.sizes.push_back(uint64_t(size));
            if (product > UINT64_MAX / uint64_t(size)) pattern.exact = false, product = 1;
            else product *= uint64_t(size);
        }
        pattern.places = std::move(places);
    }
}

// The loop over blocks: for each template the keys of a block, then the look-ups; then the rows are closed up.
template <class Look>
int64_t Attributes::run(const Columns& columns, const uint8_t* wanted, int64_t* indptr, int32_t* attrs,
                        const Look& look) const {
    const size_t K = templates_.size();
    std::vector<int32_t> numbers(K * kBlock);
    int32_t left[kBlock], right[kBlock];  // tokens before and after, in the sequence
    int64_t at[kBlock];                   // the tokens of the block
    uint64_t key[kBlock];
    int32_t ids[kBlock], none[kBlock];
    const int64_t N = columns.offsets[columns.B];
    int64_t b = 0, written = 0, t = 0;
    indptr[0] = 0;
    while (t < N) {
        const int64_t first = t;
        int count = 0;
        for (; t < N && count < kBlock; ++t) {
            if (wanted && !wanted[t]) continue;
            while (t >= columns.offsets[b + 1]) ++b;
            left[count] = int32_t(std::min<int64_t>(t - columns.offsets[b], INT32_MAX));
            right[count] = int32_t(std::min<int64_t>(columns.offsets[b + 1] - 1 - t, INT32_MAX));
            at[count++] = t;
        }
        for (size_t k = 0; k < K; ++k) {
            const Template& pattern = templates_[k];
            std::fill_n(key, count, 0);
            std::fill_n(none, count, 0);
            for (size_t p = 0; p < pattern.places.size(); ++p) {
                const auto [column, offset] = pattern.places[p];
                const int32_t *room = offset < 0 ? left : right, *from = columns.ids[size_t(column)];
                if (!wanted && first + offset >= 0 && first + offset + count <= N)
                    std::copy_n(from + first + offset, count, ids);
                else
                    for (int c = 0; c < count; ++c) ids[c] = room[c] >= std::abs(offset) ? from[at[c] + offset] : 0;
                kernels().add_place(ids, room, std::abs(offset), offset < 0 ? 1 : 2, pattern.sizes[p], pattern.exact,
                                    count, key, none);
            }
            look(k, key, none, count, numbers.data() + k * kBlock);
        }
        int64_t row = first;
        for (int c = 0; c < count; ++c) {
            while (row < at[c]) indptr[++row] = written;  // tokens that were skipped
            for (size_t k = 0; k < K; ++k) {
                const int32_t number = numbers[k * kBlock + size_t(c)];
                attrs[written] = number;
                written += number >= 0;
            }
            indptr[++row] = written;
        }
        while (row < t) indptr[++row] = written;
    }
    return written;
}

int64_t Attributes::fit(const Columns& columns, const uint8_t* wanted, int64_t* indptr, int32_t* attrs) {
    const int64_t written = run(columns, wanted, indptr, attrs,
                                [&](size_t k, const uint64_t* key, const int32_t* none, int count, int32_t* out) {
                                    for (int c = 0; c < count; ++c) {
                                        out[c] = -1;
                                        if (none[c]) continue;
                                        int32_t& number = templates_[k].keys.add(key[c]);
                                        if (number < 0) {
                                            if (size_ == INT32_MAX)
                                                throw std::length_error("more than two thousand million attributes");
                                            number = size_++;
                                        }
                                        out[c] = number;
                                    }
                                });
    settle();
    return written;
}

int64_t Attributes::encode(const Columns& columns, const uint8_t* wanted, int64_t* indptr, int32_t* attrs) const {
    return run(columns, wanted, indptr, attrs,
               [&](size_t k, const uint64_t* key, const int32_t* none, int count, int32_t* out) {
                   const Template& pattern = templates_[k];
                   if (!pattern.direct.empty()) {
                       for (int c = 0; c < count; ++c) out[c] = none[c] ? -1 : pattern.direct[key[c]];
                       return;
                   }
                   for (int c = 0; c < count; ++c) pattern.keys.prefetch(key[c]);
                   for (int c = 0; c < count; ++c) out[c] = none[c] ? -1 : pattern.keys.find(key[c]);
               });
}

void Attributes::settle() {
    for (Template& pattern : templates_) {
        pattern.direct.clear();
        if (pattern.places.size() != 1 || pattern.keys.size() * kSparse < pattern.sizes[0]) continue;
        pattern.direct.assign(pattern.sizes[0], -1);
        pattern.keys.each([&](uint64_t key, int32_t number) { pattern.direct[key] = number; });
    }
}

void Attributes::renumber(const int32_t* number, int32_t size) {
    for (Template& pattern : templates_) {
        Keys kept(pattern.keys.size());
        pattern.keys.each([&](uint64_t key, int32_t old) {
            if (number[old] >= 0) kept.add(key) = number[old];
        });
        pattern.keys = std::move(kept);
    }
    size_ = size;
    settle();
}

void Attributes::list(int32_t* of_template, uint64_t* key) const {
    for (size_t k = 0; k < templates_.size(); ++k)
        templates_[k].keys.each([&](uint64_t attribute_key, int32_t number) {
            of_template[number] = int32_t(k);
            key[number] = attribute_key;
        });
}

bool Attributes::put(const int32_t* of_template, const uint64_t* key, int32_t size) {
    for (size_t k = 0; k < templates_.size(); ++k)
        templates_[k].keys = Keys(size_t(std::count(of_template, of_template + size, int32_t(k))));
    for (int32_t a = 0; a < size; ++a) {
        if (of_template[a] < 0 || size_t(of_template[a]) >= templates_.size()) return false;
        Template& pattern = templates_[size_t(of_template[a])];
        if (pattern.places.size() == 1 && key[a] >= pattern.sizes[0]) return false;
        int32_t& number = pattern.keys.add(key[a]);
        if (number >= 0) return false;
        number = a;
    }
    size_ = size;
    settle();
    return true;
}

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

Decider::Decider(const Attributes& attributes, const int32_t* label_of) {
    const auto place_of = [&](const Place& place, uint64_t size) {
        size_t p = 0;
        while (p < fits_.size() && !(fits_[p].place == place)) ++p;
        if (p == fits_.size()) fits_.push_back({place, std::vector<uint32_t>(size)});
        return p;
    };
    for (const Attributes::Template& pattern : attributes.templates()) {
        size_t count = 0;
        pattern.keys.each([&](uint64_t, int32_t number) { count += label_of[number] >= 0; });
        if (!count) continue;
        Rules rules{{}, pattern.sizes, pattern.exact, Keys(count)};
        pattern.keys.each([&](uint64_t key, int32_t number) {
            if (label_of[number] >= 0) rules.label.add(key) = label_of[number];
        });
        for (size_t p = 0; p < pattern.places.size(); ++p)
            rules.places.push_back(place_of(pattern.places[p], pattern.sizes[p]));
        rules_.push_back(std::move(rules));
    }
    for (size_t k = 0; k < rules_.size(); ++k) {
        const Rules& rules = rules_[k];
        const uint32_t bit = uint32_t{1} << (k % 32);
        for (size_t p = 0; p < fits_.size(); ++p) {
            const bool there = std::find(rules.places.begin(), rules.places.end(), p) != rules.places.end();
            if (there && rules.exact) continue;
            for (size_t id = there; id < fits_[p].of.size(); ++id)
                fits_[p].of[id] |= bit;  // a hash does not tell its ids
        }
        if (!rules.exact) continue;
        rules.label.each([&](uint64_t key, int32_t) {
            for (size_t p = rules.places.size(); p-- > 0; key /= rules.sizes[p])
                if (const uint64_t id = key % rules.sizes[p]) fits_[rules.places[p]].of[id] |= bit;
        });
    }
}

void Decider::decide(const Columns& columns, int32_t* out) const {
    std::vector<int32_t> ids(fits_.size());
    for (int64_t b = 0; b < columns.B; ++b) {
        const int64_t first = columns.offsets[b], last = columns.offsets[b + 1];
        for (int64_t t = first; t < last; ++t) {
            uint32_t may = rules_.empty() ? 0 : ~uint32_t{0};
            for (size_t p = 0; p < fits_.size(); ++p) {
                const auto& [place, of] = fits_[p];
                const int64_t at = t + place.offset;
                int32_t id = at < first ? 1 : at >= last ? 2 : columns.ids[size_t(place.column)][at];
                if (uint32_t(id) >= of.size()) id = 0;
                ids[p] = id;
                may &= of[size_t(id)];
            }
            out[t] = agreed(may, ids.data());
        }
    }
}

int32_t Decider::agreed(uint32_t may, const int32_t* ids) const {
    int32_t label = -1;
    for (; may; may &= may - 1)
        for (size_t k = size_t(lowest_bit(may)); k < rules_.size(); k += 32) {
            const Rules& rules = rules_[k];
            uint64_t key = 0;
            for (size_t p = 0; p < rules.places.size(); ++p)
                key = key_with(key, rules.sizes[p], ids[rules.places[p]], rules.exact);
            const int32_t decided = rules.label.find(key);
            if (decided < 0 || decided == label) continue;
            if (label >= 0) return -1;
            label = decided;
        }
    return label;
}

}  // namespace bridle
