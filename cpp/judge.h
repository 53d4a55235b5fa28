// What a labelling costs under the rules of a sequence, and which automata it breaks.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace bridle {

class Judge {
  public:
    void load(const Sequence& s);
    const Sequence& sequence() const { return *sequence_; }
    double cost(const int32_t* path, int n);  // +inf when a hard rule breaks
    // After cost():
    std::vector<int> broken;    // automata
    std::vector<int32_t> violations;  // (automata) violations

  private:
    const Sequence* sequence_ = nullptr;
    std::vector<int32_t> states_;
};

}  // namespace bridle
