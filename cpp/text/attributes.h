// Attributes: what templates say of a token. A template is a list of (column, offset); its attribute at token t is the
// tuple of the column's ids at t + offset. Each different tuple gets a number.
//   N tokens (t)    K templates (k)    id 0: nothing (no attribute), 1: before the sequence, 2: after it
//   key of (x1, x2, ...) = (x1 * size2 + x2) * size3 + ...       exact and reversible while it fits into 64 bits;
// if it may not fit, the product is folded to a 64-bit hash instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learn/rows.h"
#include "simd/key.h"
#include "text/strings.h"

namespace bridle {

// 64-bit keys -> numbers; open addressing, at most half full.
class Keys {
  public:
    // room for `count` keys: filling a table in the order of another one is slow while it grows
    explicit Keys(size_t count = 0) {
        while ((size_t{1} << (64 - shift_)) < 2 * count + 2) --shift_;
        slots_.resize(size_t{1} << (64 - shift_));
    }
    size_t size() const { return used_; }
    int32_t find(uint64_t key) const { return slots_[slot_of(key)].number; }
    int32_t& add(uint64_t key);  // its number; -1 if it is new
    void prefetch(uint64_t key) const { BRIDLE_PREFETCH(&slots_[home(key)]); }
    template <class Each>
    void each(const Each& call) const {
        for (const Slot& slot : slots_)
            if (slot.number >= 0) call(slot.key, slot.number);
    }

  private:
    struct Slot {
        uint64_t key = 0;
        int32_t number = -1;
    };
    size_t home(uint64_t key) const { return ((key ^ salt_) * 0x9e3779b97f4a7c15u) >> shift_; }
    size_t slot_of(uint64_t key) const {
        size_t s = home(key);
        while (slots_[s].number >= 0 && slots_[s].key != key) s = (s + 1) & (slots_.size() - 1);
        return s;
    }
    std::vector<Slot> slots_;
    int shift_ = 60;  // 64 - log2(slots)
    size_t used_ = 0;
    uint64_t salt_ = salt();
};

struct Place {
    int column, offset;
    bool operator==(const Place&) const = default;
};

// Columns of many sequences, end to end.
struct Columns {
    std::vector<const int32_t*> ids;  // each (N)
    const int64_t* offsets;           // (B + 1)
    int64_t B;
};

class Attributes {
  public:
    struct Template {
        std::vector<Place> places;
        std::vector<uint64_t> sizes;
        bool exact;
        Keys keys;
        std::vector<int32_t> direct;  // (size of the column) or empty
    };

    // sizes: ids of column c are 0 .. sizes[c] - 1
    Attributes(std::vector<std::vector<Place>> templates, std::vector<int64_t> sizes);

    // Numbers of the attributes of all tokens into attrs (at most N * K), row by row; indptr (N + 1).
    // The first form makes new numbers, the second leaves unknown attributes out. wanted (N): tokens with 0 are skipped; null: none
    // is.
    int64_t fit(const Columns& columns, const uint8_t* wanted, int64_t* indptr, int32_t* attrs);
    int64_t encode(const Columns& columns, const uint8_t* wanted, int64_t* indptr, int32_t* attrs) const;

    int32_t size() const { return size_; }
    const std::vector<Template>& templates() const { return templates_; }
    // Keeps the attributes whose `number` is not negative, under that number.
    void renumber(const int32_t* number, int32_t size);
    // Template and key of each attribute (size).
    void list(int32_t* of_template, uint64_t* key) const;
    // The same, back; false: a number is given twice or a key is out of range.
    bool put(const int32_t* of_template, const uint64_t* key, int32_t size);

  private:
    template <class Look>
    int64_t run(const Columns& columns, const uint8_t* wanted, int64_t* indptr, int32_t* attrs, const Look& look) const;
    void settle();  // single-place templates are looked up in an array

    std::vector<Template> templates_;
    int32_t size_ = 0;
};

// Attributes that decide a label: which label goes with each attribute nearly always, and where all that fire agree.

// For each of A attributes: the label that more than half of its tokens have, if there is one (candidate, else any),
// how many of its tokens have it (right), and how many tokens there are (total).
//   one pass of Boyer & Moore's vote: a label with a majority survives;  a second pass counts it
void majority(const Examples& x, int32_t* candidate, int32_t* right, int32_t* total, int64_t A);

// The label on which all attributes of a token agree. A template is looked up only where it may have an attribute:
//   may(t) = AND over places p of fits[p][id of p at t]      bit k: template k knows that id there, or has no such place
class Decider {
  public:
    // label_of (attributes): what each decides; negative: nothing
    Decider(const Attributes& attributes, const int32_t* label_of);

    // out (N); -1: no attribute decides, or they disagree
    void decide(const Columns& columns, int32_t* out) const;

  private:
    struct Rules {  // of one template
        std::vector<size_t> places;
        std::vector<uint64_t> sizes;
        bool exact;
        Keys label;
    };
    struct Fits {
        Place place;
        std::vector<uint32_t> of;  // (size of the column) templates, each as bit k mod 32; 0: no id
    };
    int32_t agreed(uint32_t may, const int32_t* ids) const;

    std::vector<Rules> rules_;  // templates that decide anything
    std::vector<Fits> fits_;
};

}  // namespace bridle
