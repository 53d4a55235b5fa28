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

Decider::Decider(const Attributes& attributes, const int32_t* label_of) {
    const auto place_of = [&](const Place& place, uint64_t size) {
        size_t p = 0;
        while (p < fits_.size() && !(fits_[p].place == place)) ++p;
        if (p == fits_.size()) fits_.push_back({place, std::vector<uint32_t>(size)});
        return p;
    };
    for (const Attributes::Template& one : attributes.templates()) {
        size_t count = 0;
        one.keys.each([&](uint64_t, int32_t number) { count += label_of[number] >= 0; });
        if (!count) continue;
        Rules made{{}, one.sizes, one.exact, Keys(count)};
        one.keys.each([&](uint64_t key, int32_t number) {
            if (label_of[number] >= 0) made.label.add(key) = label_of[number];
        });
        for (size_t p = 0; p < one.places.size(); ++p) made.places.push_back(place_of(one.places[p], one.sizes[p]));
        rules_.push_back(std::move(made));
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
                int32_t id = at < first ? 1 : at >= last ? 2 : columns.ids[static_cast<size_t>(place.column)][at];
                if (static_cast<uint32_t>(id) >= of.size()) id = 0;
                ids[p] = id;
                may &= of[static_cast<size_t>(id)];
            }
            out[t] = agreed(may, ids.data());
        }
    }
}

int32_t Decider::agreed(uint32_t may, const int32_t* ids) const {
    int32_t label = -1;
    for (; may; may &= may - 1)
        for (size_t k = static_cast<size_t>(lowest_bit(may)); k < rules_.size(); k += 32) {
            const Rules& rules = rules_[k];
            uint64_t key = 0;
            for (size_t p = 0; p < rules.places.size(); ++p)
                key = key_with(key, rules.sizes[p], ids[rules.places[p]], rules.exact);
            const int32_t found = rules.label.find(key);
            if (found < 0 || found == label) continue;
            if (label >= 0) return -1;
            label = found;
        }
    return label;
}

}  // namespace bridle
