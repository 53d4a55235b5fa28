// Scores that do not depend on the token, and the tables made of them. Sequences share a head, batches share tables: a decoder
// sees the same transition scores again and again, and making a table costs as much as a token.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "control.h"
#include "table.h"

namespace bridle {

struct Tables {
    Table free;  // transition scores with the mask
    Table tied;  // the same where the type must not change; empty if no rule asks for it
};

// The tables of a decoder for the transition scores that it met last.
class TableCache {
  public:
    // Masks hold 0 or -inf. free_mask (m, m), first_mask, last_mask (m), empty: nothing is masked; tied_mask (m, m), empty: no
    // second table.
    TableCache(int m, std::vector<double> free_mask, std::vector<double> tied_mask, std::vector<double> first_mask,
               std::vector<double> last_mask);

    // pairwise (m, m) or null. Throws Stopped.
    std::shared_ptr<const Tables> find(const double* pairwise, Control& control);

    const int m;
    const std::vector<double> free_mask, tied_mask, first_mask, last_mask;

  private:
    struct Entry {
        bool scored;  // was it made with transition scores?
        std::shared_ptr<Tables> tables;
    };
    std::mutex mutex_;
    std::deque<Entry> entries_;  // the newest first
};

struct Head {
    const double* pairwise = nullptr;  // (m, m) or, per_step, (n - 1, m, m); null: none
    bool per_step = false;
    std::vector<double> start, end;        // (width) or empty
    std::shared_ptr<const Tables> tables;  // not with per_step
};

}  // namespace bridle
