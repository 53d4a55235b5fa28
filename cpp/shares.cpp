#include "shares.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr int kLanes = 16;              // rows are padded to this on all tiers
constexpr int kMostStates = 4096;       // of a group
constexpr size_t kMostCells = 1 << 25;  // floats of all groups together
constexpr double kLargest = 1e6;        // sum of scores that single precision may hold
constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

bool Shares::load(Instance& instance, const std::vector<BoundAutomaton>& automata, const Grouping& grouping) {
    const Trellis& trellis = instance.scratch.trellis;
    const Steps& steps = instance.scratch.plain;
    n_ = trellis.n, m_ = trellis.m, width = (m_ + kLanes - 1) / kLanes * kLanes;
    if (n_ < 2 || grouping.size() < 2) return false;
    groups.resize(grouping.size());
    size_t cells = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
        std::vector<BoundAutomaton> members;
        for (int k : grouping[g]) members.push_back(automata[k]);
        AutomatonSet set;
        set.assign(std::move(members));
        if (!groups[g].fold.build(set, n_, m_, kMostStates, instance.control)) return false;
        cells += static_cast<size_t>(n_) * width * (2 * groups[g].fold.Q + m_);
        if (cells > kMostCells || cells * sizeof(float) > instance.control.memory() / 4) return false;
    }
    const size_t edges = static_cast<size_t>(m_) * width;
    scores_.assign(static_cast<size_t>(n_) * edges, -kInf);
    double largest = 0;  // of all finite scores
    for (int t = 1; t < n_; ++t, instance.control.check())
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j) {
                const double before = t == 1 ? trellis.unary(0)[i] + steps.first(i) : 0.0;
                const double score = before + steps.at(t - 1, i, j) + trellis.unary(t)[j];
                scores_[t * edges + static_cast<size_t>(i) * width + j] = score;
                if (score > -kInf) largest = std::max(largest, std::abs(score));
            }
    if (!(largest * n_ < kLargest)) return false;
    mean_.assign(edges, kNone), turned_.assign(edges, kNone);
    for (Share& s : groups) {
        const int Q = s.fold.Q;
        s.theta.resize(scores_.size());
        for (size_t c = 0; c < scores_.size(); ++c) s.theta[c] = static_cast<float>(scores_[c] / static_cast<double>(groups.size()));
        s.F.assign(static_cast<size_t>(n_) * Q * width, kNone);
        s.B.assign(static_cast<size_t>(n_) * Q * width, kNone);
        s.X.assign(static_cast<size_t>(Q) * width, kNone);
        s.M.assign(edges, kNone);
        for (int j = 0; j < m_; ++j) {
            float& f = s.F[static_cast<size_t>(s.fold.next(0, 0)[j]) * width + j];
            f = std::max(f, static_cast<float>(-s.fold.cost(0, 0)[j]));
        }
        for (int q = 0; q < Q; ++q)
            for (int i = 0; i < m_; ++i)
                s.B[(static_cast<size_t>(n_ - 1) * Q + q) * width + i] = static_cast<float>(-s.fold.final[q]);
        for (int t = n_ - 1; t >= 1; --t) complete(s, t), back(s, t), instance.control.check();
    }
    return true;
}

void Shares::complete(Share& s, int t) const {
    const float* after = B(s, t);
    for (int q = 0; q < s.fold.Q; ++q) {
        const double* cost = s.fold.cost(t, q);
        const int32_t* next = s.fold.next(t, q);
        float* x = s.X.data() + static_cast<size_t>(q) * width;
        for (int j = 0; j < m_; ++j) x[j] = after[static_cast<size_t>(next[j]) * width + j] - static_cast<float>(cost[j]);
    }
}

double Shares::sweep(double floor, Control& control) {
    double bound = kInf;
    for (int t = 1; t < n_; ++t) {
        for (Share& s : groups) complete(s, t);
        bound = agree(t, floor);
        for (Share& s : groups) ahead(s, t);
        control.check();
    }
    for (int t = n_ - 1; t >= 1; --t) {
        for (Share& s : groups) complete(s, t);
        bound = std::min(bound, agree(t, floor));
        for (Share& s : groups) back(s, t);
        control.check();
    }
    return bound;
}

double Shares::agree(int t, double floor) {
    const size_t edges = static_cast<size_t>(m_) * width, at = t * edges;
    std::vector<float>& sum = mean_;
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (Share& s : groups) {
        const float* before = s.F.data() + static_cast<size_t>(t - 1) * s.fold.Q * width;
        kernels().max_plus(before, 1, width, s.X.data(), m_, s.fold.Q, width, s.M.data());
        const float* theta = s.theta.data() + at;
        for (size_t c = 0; c < edges; ++c) s.M[c] += theta[c], sum[c] += s.M[c];
    }
    float best = kNone;
    const float low = static_cast<float>(floor), part = 1.0f / static_cast<float>(groups.size());
    for (size_t c = 0; c < edges; ++c) {
        best = std::max(best, sum[c]);
        sum[c] = sum[c] > low ? sum[c] * part : kNone;
    }
    for (Share& s : groups) {
        float* theta = s.theta.data() + at;
        for (size_t c = 0; c < edges; ++c) theta[c] = mean_[c] > kNone ? theta[c] + (mean_[c] - s.M[c]) : kNone;
    }
    return best;
}

void Shares::ahead(Share& s, int t) const {
    const int Q = s.fold.Q;
    const float* before = s.F.data() + static_cast<size_t>(t - 1) * Q * width;
    float* after = s.F.data() + static_cast<size_t>(t) * Q * width;
    kernels().max_plus(before, width, 1, s.theta.data() + static_cast<size_t>(t) * m_ * width, Q, m_, width, s.X.data());
    std::fill(after, after + static_cast<size_t>(Q) * width, kNone);
    for (int q = 0; q < Q; ++q) {
        const double* cost = s.fold.cost(t, q);
        const int32_t* next = s.fold.next(t, q);
        const float* x = s.X.data() + static_cast<size_t>(q) * width;
        for (int j = 0; j < m_; ++j) {
            const float value = x[j] - static_cast<float>(cost[j]);
            float& best = after[static_cast<size_t>(next[j]) * width + j];
            best = value > best ? value : best;
        }
    }
}

void Shares::back(Share& s, int t) {
    const float* theta = s.theta.data() + static_cast<size_t>(t) * m_ * width;
    for (int i = 0; i < m_; ++i)
        for (int j = 0; j < m_; ++j) turned_[static_cast<size_t>(j) * width + i] = theta[static_cast<size_t>(i) * width + j];
    kernels().max_plus(s.X.data(), width, 1, turned_.data(), s.fold.Q, m_, width, s.B.data() + static_cast<size_t>(t - 1) * s.fold.Q * width);
}

double Shares::margin() const {
    // A labelling that no edge of which was ruled out has its score in the shares, but for what each edge has moved.
    const size_t edges = static_cast<size_t>(m_) * width;
    double moved = 0;
    for (int t = 1; t < n_; ++t) {
        double most = 0;
        for (size_t c = t * edges; c < (t + 1) * edges; ++c) {
            if (!(scores_[c] > -kInf) || !(groups[0].theta[c] > kNone)) continue;
            double sum = 0;
            for (const Share& s : groups) sum += s.theta[c];
            most = std::max(most, std::abs(sum - scores_[c]));
        }
        moved += most;
    }
    // Each of some 2 n + 8 additions rounds a number that is no larger than the largest of its kind.
    double size = 0;
    const auto look = [&](const std::vector<float>& numbers) {
        for (float x : numbers)
            if (x > kNone) size = std::max(size, static_cast<double>(std::abs(x)));
    };
    for (const Share& s : groups) {
        look(s.F), look(s.B), look(s.theta);
        for (double f : s.fold.final)
            if (f < kInf) size = std::max(size, std::abs(f));
    }
    const double eps = std::numeric_limits<float>::epsilon();
    return moved + eps * (2.0 * n_ + 8.0) * static_cast<double>(groups.size()) * 2.0 * size;
}

}  // namespace bridle
