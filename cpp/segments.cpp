#include "segments.h"

#include <algorithm>

namespace bridle {
namespace {

constexpr int kPasses = 10;
constexpr int kLongest = 16;  // segment that is changed

}  // namespace

double SegmentSearch::step(int t, int before, int y) const {
    const Steps& steps = in_.scratch.plain;
    return in_.scratch.trellis.unary(t)[y] + (t == 0 ? steps.first(y) : steps.at(t - 1, before, y));
}

double SegmentSearch::read(int t, int y, std::vector<int>& states) const {
    double cost = 0;
    for (size_t g = 0; g < states.size(); ++g) {
        const Fold& fold = shares_.groups[g].fold;
        cost += fold.cost(t, states[g])[y];
        states[g] = fold.next(t, states[g])[y];
    }
    return cost;
}

void SegmentSearch::look_back(int first, int last) {
    for (int t = last; t >= first; --t) {
        const int y = path_[t];
        rest_[t] = in_.scratch.trellis.unary(t)[y] + rest_[t + 1];
        if (t + 1 < in_.sequence.n) rest_[t] += in_.scratch.plain.at(t, y, path_[t + 1]);
        for (size_t g = 0; g < ahead_.size(); ++g) {
            const Fold& fold = shares_.groups[g].fold;
            double *here = ahead_[g].data() + static_cast<size_t>(t) * fold.Q, *after = here + fold.Q;
            for (int q = 0; q < fold.Q; ++q) here[q] = fold.cost(t, q)[y] + after[fold.next(t, q)[y]];
        }
    }
}

SegmentSearch::Change SegmentSearch::best_change(int t, double earned) const {
    const int n = in_.sequence.n;
    Change best{-kInf, t, -1};
    for (int y = 0; y < in_.sequence.m; ++y) {
        if (y == path_[t]) continue;
        room_ = states_;
        double score = earned;
        for (int u = t; u < std::min(n, t + kLongest); ++u) {
            score += step(u, u == t ? (t > 0 ? path_[t - 1] : -1) : y, y) - read(u, y, room_);
            if (!(score > -kInf)) break;
            double total = score;
            if (u + 1 < n) total += in_.scratch.plain.at(u, y, path_[u + 1]) + rest_[u + 1];
            for (size_t g = 0; g < room_.size(); ++g)
                total -= ahead_[g][static_cast<size_t>(u + 1) * shares_.groups[g].fold.Q + room_[g]];
            if (total > best.score) best = {total, u + 1, y};
        }
    }
    return best;
}

void SegmentSearch::improve(Incumbent& incumbent) {
    const int n = in_.sequence.n;
    const size_t G = shares_.groups.size();
    path_ = incumbent.path;
    rest_.assign(n + 1, 0.0), ahead_.resize(G);
    for (size_t g = 0; g < G; ++g) {
        const Fold& fold = shares_.groups[g].fold;
        ahead_[g].resize(static_cast<size_t>(n + 1) * fold.Q);
        std::copy(fold.final.begin(), fold.final.end(), ahead_[g].end() - fold.Q);
    }
    look_back(0, n - 1);
    double score = incumbent.score;
    for (int pass = 0; pass < kPasses; ++pass) {
        const double before = score;
        states_.assign(G, 0);
        double earned = 0;
        for (int t = 0; t < n; ++t) {
            in_.control.check();
            const Change change = best_change(t, earned);
            if (change.score > score + 1e-9) {
                score = change.score;
                std::fill(path_.begin() + t, path_.begin() + change.end, change.label);
                look_back(t, change.end - 1);
            }
            earned += step(t, t > 0 ? path_[t - 1] : -1, path_[t]) - read(t, path_[t], states_);
        }
        consider(in_, path_.data(), incumbent);
        if (!(score > before)) return;
        look_back(0, n - 1);
    }
}

}  // namespace bridle
