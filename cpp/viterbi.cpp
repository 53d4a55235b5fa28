#include "viterbi.h"

#include <algorithm>
#include <cmath>

namespace bridle {
namespace {

constexpr size_t kKeepCells = size_t{1} << 18;  // 2 MB of doubles: above that, rows are made twice instead of kept
constexpr size_t kBreath = size_t{1} << 22;     // sums between two looks at the clock

}  // namespace

void Viterbi::rows(const RawScores& x, int low, int high, const double* after, Control& control) {
    const int chunk = static_cast<int>(std::clamp<size_t>(kBreath / (static_cast<size_t>(x.width) * x.m), 1, 1 << 12));
    for (int top = high; top > low;) {
        const int bottom = std::max(low, top - chunk);
        control.check();
        double* here = V_.data() + kGuard + static_cast<size_t>(bottom - low) * x.width;
        kernels().scan(x, bottom, top, after, here, few_.data() + (bottom - low), H_.data(), room_.data());
        after = here;
        top = bottom;
    }
}

double Viterbi::best_path(const Sequence& s, int32_t* path, Control& control) {
    if (s.n == 0) return 0.0;
    const RawScores x = s.raw();
    const size_t width = x.width;
    const auto make_room = [&](size_t n) {
        V_.resize(std::max(V_.size(), width * n + 2 * kGuard));
        few_.resize(std::max(few_.size(), n + 1));
    };
    const auto best = [&](const double* first) { return *std::max_element(first, first + x.m); };
    H_.resize(width);
    room_.resize(width);
    if (width * s.n <= kKeepCells) {
        make_room(s.n);
        rows(x, 0, s.n, nullptr, control);
        return kernels().follow(x, 0, s.n, V_.data() + kGuard, few_.data(), -1, path) < 0 ? -kInf
                                                                                          : best(V_.data() + kGuard);
    }
    // Keep row t for every t that begins a block; make the rows of a block again when the path walks through it.
    const int block = std::max(2, static_cast<int>(std::sqrt(static_cast<double>(s.n))));
    const int blocks = (s.n + block - 1) / block;
    kept_.resize(width * blocks + 2 * kGuard);
    make_room(block);
    const auto fill = [&](int b) {
        const double* after = b + 1 < blocks ? kept_.data() + kGuard + width * (b + 1) : nullptr;
        rows(x, b * block, std::min(s.n, (b + 1) * block), after, control);
    };
    for (int b = blocks - 1; b >= 0; --b) {
        fill(b);
        std::copy_n(V_.begin() + kGuard, width, kept_.begin() + kGuard + width * b);
    }
    const double score = best(kept_.data() + kGuard);
    for (int b = 0, y = -1; b < blocks && score > -kInf; ++b) {
        if (b > 0) fill(b);
        y = kernels().follow(x, b * block, std::min(s.n, (b + 1) * block), V_.data() + kGuard, few_.data(), y, path);
    }
    return score;
}

}  // namespace bridle
