// How near the Viterbi kernel of one tier comes to what its vector unit can do. Built and run by peak.py.
//   peak: m * width additions and maxima per token, from registers, nothing else;  read: the same scores read from memory
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "simd/lanes.h"
#include "search/table.h"

namespace bridle {

namespace BRIDLE_TIER {
extern const Kernels table;
}
const Kernels& kernels() { return BRIDLE_TIER::table; }

namespace {

using BRIDLE_TIER::D;
using Clock = std::chrono::steady_clock;

template <class Work>
double best_ns(const Work& work) {
    double best = 1e18;
    for (int k = 0; k < 9; ++k) {
        const auto begin = Clock::now();
        work();
        best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
    }
    return best;
}

// Nanoseconds of one addition and one maximum of whole vectors, as many side by side as there is room for.
double pair_ns() {
    constexpr int kSide = 8, kTimes = 1 << 20;
    double sink[D::lanes], start[D::lanes];
    for (int k = 0; k < D::lanes; ++k) start[k] = k * 1e-3;
    const double took = best_ns([&] {
        D top[kSide];
        for (D& v : top) v = D::load(start);
        D x = D::load(start);
        for (int k = 0; k < kTimes; ++k) {
#if defined(__x86_64__) && defined(__GNUC__)
            __asm__ volatile("" : "+x"(x.v));
#endif
            for (D& v : top) v = max(v, x + D::load(start));
        }
        for (int v = 1; v < kSide; ++v) top[0] = max(top[0], top[v]);
        top[0].store(sink);
        if (sink[0] > 1e9) std::puts("");
    });
    return took / kTimes / kSide;
}

// kind: "all" columns may win, "few" of them (as with scores of a trained model), or "flat": no transition scores
void measure(int m, const char* kind, double pair) {
    const int n = 512;
    std::mt19937 random(m);
    std::normal_distribution<double> noise;
    std::vector<float> unary(static_cast<size_t>(n) * m);
    const bool all = kind[0] == 'a', flat = kind[1] == 'l' && !all;
    for (float& u : unary) u = static_cast<float>(noise(random) * (all ? 0.1 : 4));
    std::vector<double> pairwise(static_cast<size_t>(m) * m);
    for (double& p : pairwise) p = noise(random) * (all ? 10 : 1);
    Stop stop;
    Control control(stop, nullptr, -1);
    Table table;
    table.build(m, flat ? nullptr : pairwise.data(), nullptr, control);
    const int width = padded(m);
    const RawScores x{
        unary.data(), nullptr, n, m, width, nullptr, nullptr, nullptr, 0, nullptr, {&table.view(), &table.view()}};
    std::vector<double> V(static_cast<size_t>(n) * width + 2 * kGuard), H(width);
    std::vector<uint64_t> few(n + 1);
    std::vector<int32_t> room(width), path(n);
    const int times = std::max(1, 4000000 / (n * m));
    const double scan = best_ns([&] {
                            for (int k = 0; k < times; ++k)
                                kernels().scan(x, 0, n, nullptr, V.data() + kGuard, few.data(), H.data(), room.data());
                        }) /
                        times / n;
    const double follow = best_ns([&] {
                              for (int k = 0; k < times; ++k)
                                  kernels().follow(x, 0, n, V.data() + kGuard, few.data(), -1, path.data());
                          }) /
                          times / n;
    // What reading the transition scores once per token costs, and nothing else.
    double read = 0, sink[D::lanes];
    if (!flat)
        read = best_ns([&] {
                   D top[8];
                   for (D& v : top) v = D::load(table.view().columns);
                   for (int k = 0; k < times * n; ++k)
                       for (const double *x = table.view().columns,
                                         *end = x + static_cast<size_t>(m) * width / (8 * D::lanes) * (8 * D::lanes);
                            x < end; x += 8 * D::lanes)
                           for (int v = 0; v < 8; ++v) top[v] = max(D::load(x + v * D::lanes), top[v]);
                   for (int v = 1; v < 8; ++v) top[0] = max(top[0], top[v]);
                   top[0].store(sink);
                   if (sink[0] == 12345) std::puts("");
               }) /
               times / n;
    std::printf(
        "{\"tier\": \"%s\", \"m\": %d, \"kind\": \"%s\", \"scan\": %.2f, \"follow\": %.2f, \"peak\": %.2f, \"read\": "
        "%.2f}\n",
        kernels().name, m, kind, scan, follow, pair * m * width / D::lanes, read);
}

}  // namespace
}  // namespace bridle

int main() {
    const double pair = bridle::pair_ns();
    for (const int m : {8, 13, 33, 128})
        for (const char* kind : {"all", "few", "flat"}) bridle::measure(m, kind, pair);
}
