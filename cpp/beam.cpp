#include "beam.h"

#include <algorithm>

namespace bridle {
namespace {

struct Hypothesis {
    double g, f;
    int32_t back, y;
    size_t states;  // where its states begin: first those of the team, then those of the guides
};

}  // namespace

std::vector<Found> beam(const Trellis& trellis, const Steps& steps, const Team& team, int width,
                        const std::vector<Guide>& guides, Control& control) {
    const int n = trellis.n, m = trellis.m;
    const size_t size = team.size() + guides.size();
    std::vector<std::vector<Hypothesis>> kept(n + 1);
    kept[0].push_back({0, 0, -1, -1, 0});
    std::vector<State> now(size, 0), later;
    int64_t steps_done = 0;
    // What can follow label j at position t; the guides' next states are written to `to`.
    const auto ahead_of = [&](int t, int j, const State* from, State* to) {
        double ahead = guides.empty() ? 0.0 : kInf;
        for (size_t g = 0; g < guides.size(); ++g) {
            const Fold& fold = *guides[g].fold;
            if (!fold.plain() && fold.cost(t, from[g])[j] == kInf) return -kInf;
            to[g] = static_cast<State>(fold.plain() ? 0 : fold.next(t, from[g])[j]);
            ahead = std::min(ahead, guides[g].H[(static_cast<size_t>(t) * fold.Q + to[g]) * trellis.width + j]);
        }
        return ahead;
    };
    std::vector<Hypothesis> grown;
    for (int t = 0; t < n; ++t) {
        grown.clear();
        later.clear();
        const double* u = trellis.unary(t);
        for (size_t b = 0; b < kept[t].size(); ++b) {
            if ((++steps_done & 255) == 0) control.check();
            const Hypothesis& from = kept[t][b];
            for (int j = 0; j < m; ++j) {
                double g = from.g + u[j];
                if (t > 0) g += steps.at(t - 1, from.y, j);
                if (!(g > -kInf)) continue;
                const size_t at = later.size();
                later.resize(at + size);
                const State* before = now.data() + from.states;
                const double ahead = ahead_of(t, j, before + team.size(), later.data() + at + team.size());
                const double cost = ahead > -kInf ? team.advance(before, later.data() + at, j, t) : kInf;
                if (cost == kInf) {
                    later.resize(at);
                    continue;
                }
                grown.push_back({g - cost, g - cost + ahead, static_cast<int32_t>(b), j, at});
            }
        }
        const size_t keep = std::min<size_t>(width, grown.size());
        std::partial_sort(grown.begin(), grown.begin() + keep, grown.end(),
                          [](const Hypothesis& a, const Hypothesis& b) { return a.f > b.f; });
        grown.resize(keep);
        kept[t + 1] = grown;
        now.swap(later);
    }
    std::vector<Found> found;
    for (const Hypothesis& end : kept[n]) {
        const double cost = team.finish(now.data() + end.states);
        if (cost == kInf) continue;
        Found f{end.g - cost, std::vector<int32_t>(n)};
        const Hypothesis* at = &end;
        for (int t = n; t > 0; at = &kept[t - 1][at->back], --t) f.path[t - 1] = at->y;
        found.push_back(std::move(f));
    }
    std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
    return found;
}

}  // namespace bridle
