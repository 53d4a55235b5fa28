// Numbers below the smallest normal one are taken for 0 meanwhile: they take a hundred times as long, and mean nothing where sums
// are scaled.
#pragma once

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace bridle {

class FlushToZero {
  public:
#if defined(__SSE2__) || defined(_M_X64)
    FlushToZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~FlushToZero() { _mm_setcsr(before_); }
    FlushToZero(const FlushToZero&) = delete;
    FlushToZero& operator=(const FlushToZero&) = delete;

  private:
    unsigned before_;
#else
    FlushToZero() {}
#endif
};

}  // namespace bridle
