#include "beam.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace bridle {
namespace {

struct Hypothesis {
    double g, f;
    int32_t back, y;
    size_t states;  // where its states begin: first those of the set, then those of the guides
};

struct Candidate {  // a step that the rules were not asked about yet
    double f;       // they can only make it worse
    double g, ahead;
    int32_t back, y;
    bool operator<(const Candidate& other) const { return f < other.f; }
};

}  // namespace

std::vector<Found> beam(const Trellis& trellis, const Steps& steps, const AutomatonSet& set, int width,
                        const std::vector<Guide>& guides, Control& control) {
    const int n = trellis.n, m = trellis.m;
    const size_t size = set.size() + guides.size();
    const size_t fits = control.memory() / 8 / (sizeof(Hypothesis) * (static_cast<size_t>(n) + 1));
    width = static_cast<int>(std::clamp<size_t>(fits, 1, width));
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
    std::vector<Candidate> candidates;  // a heap, the best on top
    std::vector<State> room(guides.size());
    std::priority_queue<double, std::vector<double>, std::greater<>> best;  // the `width` largest f so far
    for (int t = 0; t < n; ++t) {
        grown.clear();
        later.clear();
        candidates.clear();
        best = {};
        const double* u = trellis.unary(t);
        for (size_t b = 0; b < kept[t].size(); ++b) {
            if ((++steps_done & 255) == 0) control.check();
            const Hypothesis& from = kept[t][b];
            for (int j = 0; j < m; ++j) {
                double g = from.g + u[j];
                if (t > 0) g += steps.at(t - 1, from.y, j);
                if (!(g > -kInf)) continue;
                const double ahead = ahead_of(t, j, now.data() + from.states + set.size(), room.data());
                if (ahead > -kInf) candidates.push_back({g + ahead, g, ahead, static_cast<int32_t>(b), j});
            }
        }
        std::make_heap(candidates.begin(), candidates.end());
        for (; !candidates.empty(); candidates.pop_back()) {
            std::pop_heap(candidates.begin(), candidates.end());
            const Candidate& c = candidates.back();
            const bool full = static_cast<int>(best.size()) == width;
            if (full && c.f <= best.top()) break;
            if ((++steps_done & 255) == 0) control.check();
            const size_t at = later.size();
            later.resize(at + size);
            const State* before = now.data() + kept[t][c.back].states;
            const double cost = set.advance(before, later.data() + at, c.y, t);
            if (cost == kInf || (full && c.f - cost <= best.top())) {
                later.resize(at);
                continue;
            }
            ahead_of(t, c.y, before + set.size(), later.data() + at + set.size());
            grown.push_back({c.g - cost, c.g - cost + c.ahead, c.back, c.y, at});
            if (full) best.pop();
            best.push(c.f - cost);
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
        const double cost = set.finish(now.data() + end.states);
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
