// Attributes that decide a label: which label goes with each attribute nearly always, and where all that fire agree.
#pragma once

#include <cstdint>
#include <vector>

#include "attributes.h"
#include "rows.h"

namespace bridle {

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
