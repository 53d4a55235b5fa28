#include "text/strings.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

#include "simd/compiler.h"

namespace bridle {

uint64_t salt() {
    static const uint64_t number = (uint64_t{std::random_device()()} << 32) ^ std::random_device()();
    return number;
}

namespace {

// The last 0 to 7 bytes of a text as a number; texts of one length with different bytes have different numbers. (A copy of so
// many bytes would be a loop, whose result could not be read at once.)
uint64_t last_bytes(const char* at, size_t left) {
    if (left >= 4) {
        uint32_t low, high;
        std::memcpy(&low, at, 4);
        std::memcpy(&high, at + left - 4, 4);
        return low | uint64_t{high} << 32;
    }
    const auto byte = [&](size_t k) { return uint64_t{static_cast<unsigned char>(at[k])}; };
    return left ? byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16 : 0;
}

// Eight bytes at a time, each step a multiplication whose halves are folded.
uint64_t hash_of(std::string_view text) {
    constexpr uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd6e8feb86659fd93u;
    static const uint64_t start = k0 ^ salt();
    uint64_t h = text.size() ^ start;
    const char* at = text.data();
    size_t left = text.size();
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        std::memcpy(&word, at, 8);
        h = folded_product(h ^ word, k1);
    }
    return folded_product(h ^ last_bytes(at, left), k1 ^ h);
}

}  // namespace

std::string_view Strings::at(int32_t number) const {
    const int64_t begin = number ? ends_[number - 1] : 0;
    return {bytes_.data() + begin, size_t(ends_[number] - begin)};
}

size_t Strings::slot_of(std::string_view text, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    const auto high = uint32_t(hash >> 32);
    size_t s = hash & mask;
    while (slots_[s].number != kUnknown && (slots_[s].hash != high || at(slots_[s].number) != text)) s = (s + 1) & mask;
    return s;
}

int32_t Strings::find(std::string_view text) const { return slots_[slot_of(text, hash_of(text))].number; }

int32_t Strings::add(std::string_view text) {
    const uint64_t hash = hash_of(text);
    size_t s = slot_of(text, hash);
    if (slots_[s].number != kUnknown) return slots_[s].number;
    if (size() == INT32_MAX - 8) throw std::length_error("more than two thousand million different strings");
    if (2 * (ends_.size() + 1) > slots_.size()) {
        grow();
        s = slot_of(text, hash);
    }
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ends_.push_back(int64_t(bytes_.size()));
    slots_[s] = {uint32_t(hash >> 32), size() - 1};
    return size() - 1;
}

void Strings::grow() {
    std::vector<Slot> old(slots_.size() * 2, Slot{0, kUnknown});
    old.swap(slots_);
    for (const Slot& slot : old)
        if (slot.number != kUnknown) slots_[slot_of(at(slot.number), hash_of(at(slot.number)))] = slot;
}

void Strings::find_all(const Texts& texts, int32_t* out) const {
    std::string_view some[kSome];
    for (int64_t k = 0; k < texts.count; k += kSome) {
        const int held = int(std::min<int64_t>(kSome, texts.count - k));
        for (int j = 0; j < held; ++j) some[j] = texts[k + j];
        find_some(some, held, out + k);
    }
}

void Strings::find_some(const std::string_view* texts, int count, int32_t* out) const {
    uint64_t hash[kSome];
    for (int j = 0; j < count; ++j) {
        hash[j] = hash_of(texts[j]);
        BRIDLE_PREFETCH(&slots_[hash[j] & (slots_.size() - 1)]);
    }
    for (int j = 0; j < count; ++j) {  // the string that is most likely it
        const int32_t number = slots_[hash[j] & (slots_.size() - 1)].number;
        if (number != kUnknown) BRIDLE_PREFETCH(&ends_[number]);
    }
    for (int j = 0; j < count; ++j) out[j] = slots_[slot_of(texts[j], hash[j])].number;
}

}  // namespace bridle
