// Attributes that decide a label: which label goes with each attribute nearly always, and where all that fire agree.
#pragma once

#include <cstdint>

#include "rows.h"

namespace bridle {

// For each of A attributes: the label that more than half of its tokens have, if there is one (candidate, else any),
// how many of its tokens have it (right), and how many tokens there are (total).
//   one pass of Boyer & Moore's vote: a label with a majority survives;  a second pass counts it
void majority(const Examples& x, int32_t* candidate, int32_t* right, int32_t* total, int64_t A);

// label_of (A): what each attribute decides. out (N): the label on which all attributes of a token agree; -1: there are
// none, -2: they disagree.
void agree(const Examples& x, const int32_t* label_of, int32_t* out);

}  // namespace bridle
