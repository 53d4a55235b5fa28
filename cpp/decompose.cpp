#include "decompose.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "shares.h"

namespace bridle {
namespace {

constexpr size_t kMost = 64;  // automata that can be grouped in time
constexpr int kRounds = 10;                // of sweeps and search
constexpr int kSweeps = 3;                 // of a round
constexpr double kLargestMargin = 0.5;     // what single precision may lose
constexpr size_t kNarrow = 64, kWide = 1 << 17;  // nodes of a layer

// As many nodes of a layer as fit into memory beside the shares: those of all layers, and the steps from one of them, in an index.
size_t widest(const Instance& instance, size_t groups) {
    const size_t node = 2 * sizeof(int32_t) + 2 * sizeof(double) + groups * sizeof(uint16_t), entry = 64;
    const size_t all = instance.sequence.n * node + instance.sequence.m * (2 * node + entry);
    const size_t memory = instance.control.memory(), left = memory / 4 * 3 - std::min(memory / 2, instance.scratch.bytes());
    return std::clamp(left / all, kNarrow, kWide);
}

struct Layer {
    std::vector<int32_t> label, parent;    // (nodes)
    std::vector<double> earned, estimate;  // (nodes)
    std::vector<uint16_t> states;          // (nodes, G)
    size_t size() const { return label.size(); }

    void add(int y, int32_t from, double e, double f, const std::vector<uint16_t>& at) {
        label.push_back(y), parent.push_back(from), earned.push_back(e), estimate.push_back(f);
        states.insert(states.end(), at.begin(), at.end());
    }
    // Keeps the nodes with the best estimates; returns the best of the others, -inf if there are none.
    double cut(size_t most, size_t G);
};

double Layer::cut(size_t most, size_t G) {
    if (size() <= most) return -kInf;
    std::vector<int32_t> order(size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int32_t>(k);
    std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(most), order.end(),
                     [&](int32_t a, int32_t b) { return estimate[a] > estimate[b]; });
    double best = -kInf;
    for (size_t k = most; k < order.size(); ++k) best = std::max(best, estimate[order[k]]);
    Layer kept;
    std::vector<uint16_t> at(G);
    for (size_t k = 0; k < most; ++k) {
        const size_t old = order[k];
        std::copy_n(states.begin() + static_cast<ptrdiff_t>(old * G), G, at.begin());
        kept.add(label[old], parent[old], earned[old], estimate[old], at);
    }
    *this = std::move(kept);
    return best;
}

// All labellings whose estimate is above the incumbent, position by position, at most `most` nodes of each.
class LayeredSearch {
  public:
    LayeredSearch(Instance& instance, Shares& shares, double margin, Incumbent& incumbent, ActiveRules& active)
        : in_(instance), shares_(shares), margin_(margin), incumbent_(incumbent), active_(active), n_(instance.sequence.n),
          m_(instance.sequence.m), G_(shares.groups.size()), layers_(n_), row_(m_), step_(m_), to_(G_) {}

    // Considers the best labelling that is reached. Returns the best estimate that was cut, -inf if none was.
    double run(size_t most) {
        double cut = -kInf;
        for (int t = 0; t < n_; ++t) {
            expand(t);
            cut = std::max(cut, layers_[t].cut(most, G_));
            if (layers_[t].size() == 0) return cut;
        }
        Layer& last = layers_[n_ - 1];
        const size_t best = std::max_element(last.estimate.begin(), last.estimate.end()) - last.estimate.begin();
        std::vector<int32_t> path(n_);
        for (int32_t t = n_ - 1, at = static_cast<int32_t>(best); t >= 0; --t)
            path[t] = layers_[t].label[at], at = layers_[t].parent[at];
        active_.add(consider(in_, path.data(), incumbent_).broken);
        // Rules that no group holds may cost more: then something between may be better.
        return last.estimate[best] > incumbent_.score + in_.rounding() ? std::max(cut, last.estimate[best]) : cut;
    }

  private:
    double floor() const { return incumbent_.found() ? incumbent_.score - margin_ : -kInf; }

    void expand(int t) {
        const Trellis& trellis = in_.scratch.trellis;
        const Steps& steps = in_.scratch.plain;
        seen_.clear();
        if (t == 0) {
            for (int j = 0; j < m_; ++j) node(t, -1, j, trellis.unary(0)[j] + steps.first(j), nullptr);
            return;
        }
        for (Share& s : shares_.groups) shares_.complete(s, t);
        const Layer& before = layers_[t - 1];
        for (size_t p = 0; p < before.size(); ++p) {
            if ((p & 63) == 0) in_.control.check();
            const uint16_t* states = before.states.data() + p * G_;
            for (int j = 0; j < m_; ++j) {
                step_[j] = before.earned[p] + steps.at(t - 1, before.label[p], j) + trellis.unary(t)[j];
                row_[j] = step_[j];
            }
            for (size_t g = 0; g < G_; ++g) {
                const float* x = shares_.groups[g].X.data() + static_cast<size_t>(states[g]) * shares_.width;
                for (int j = 0; j < m_; ++j) row_[j] += x[j];
            }
            const double low = floor();
            for (int j = 0; j < m_; ++j)
                if (row_[j] > low) node(t, static_cast<int32_t>(p), j, step_[j], states);
        }
    }

    // The node that reads label j at t; `earned`: before what it costs. states: before it, null at the start.
    void node(int t, int32_t parent, int j, double earned, const uint16_t* states) {
        double follow = 0;
        for (size_t g = 0; g < G_; ++g) {
            const Share& s = shares_.groups[g];
            const int q = states ? states[g] : 0;
            earned -= s.fold.cost(t, q)[j];
            to_[g] = static_cast<uint16_t>(s.fold.next(t, q)[j]);
            follow += shares_.B(s, t)[static_cast<size_t>(to_[g]) * shares_.width + j];
        }
        if (t == n_ - 1) {  // nothing follows: in double precision what it costs to end here
            follow = 0;
            for (size_t g = 0; g < G_; ++g) follow -= shares_.groups[g].fold.final[to_[g]];
        }
        // The score of the first label is part of the first step: it is earned, and not to come.
        const double first = t == 0 ? in_.scratch.trellis.unary(0)[j] + in_.scratch.plain.first(j) : 0.0;
        const double estimate = earned - (n_ > 1 ? first : 0.0) + follow;
        if (!(estimate > floor())) return;
        Layer& here = layers_[t];
        uint64_t hash = 1469598103934665603ull ^ static_cast<uint64_t>(j);
        for (uint16_t q : to_) hash = (hash ^ q) * 1099511628211ull, hash ^= hash >> 29;
        const auto [low, high] = seen_.equal_range(hash);
        for (auto it = low; it != high; ++it) {
            const size_t k = it->second;
            if (here.label[k] != j || !std::equal(to_.begin(), to_.end(), here.states.begin() + static_cast<ptrdiff_t>(k * G_))) continue;
            if (earned > here.earned[k]) here.earned[k] = earned, here.estimate[k] = estimate, here.parent[k] = parent;
            return;
        }
        seen_.emplace(hash, static_cast<int32_t>(here.size()));
        here.add(j, parent, earned, estimate, to_);
    }

    Instance& in_;
    Shares& shares_;
    const double margin_;
    Incumbent& incumbent_;
    ActiveRules& active_;
    const int n_, m_;
    const size_t G_;
    std::vector<Layer> layers_;  // (n)
    std::unordered_multimap<uint64_t, int32_t> seen_;
    std::vector<double> row_, step_;  // (m)
    std::vector<uint16_t> to_;        // (G)
};

}  // namespace

bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    if (s.automata.size() > kMost || !s.problem->groups || instance.limits.max_states >= 0) return false;
    const auto grouping = s.problem->groups->find(s.automata, s.n, s.m, instance.limits.max_group_states, instance.control);
    Shares shares;
    if (!shares.load(instance, s.automata, *grouping)) return false;
    const size_t widest_layer = widest(instance, shares.groups.size());
    size_t most = kNarrow;
    double margin = shares.margin();
    for (int round = 0; round < kRounds; ++round) {
        double bound = kInf;
        for (int k = 0; k < kSweeps; ++k) {
            if (!(margin <= kLargestMargin)) return false;  // scores too large for single precision
            // Twice the margin: the shares move on the way.
            bound = shares.sweep(incumbent.found() ? incumbent.score - 2 * margin : -kInf, instance.control);
            margin = shares.margin();
        }
        incumbent.tighten(std::max(bound + margin, incumbent.score));
        ++instance.counters.rounds;
        if (!(bound > -kInf) && !incumbent.found()) return true;  // no labelling at all
        const double cut = LayeredSearch(instance, shares, margin, incumbent, active).run(most) + margin;
        if (cut <= incumbent.score + instance.rounding() || !(cut > -kInf)) {
            incumbent.tighten(incumbent.score);
            return true;
        }
        incumbent.tighten(std::max(cut, incumbent.score));
        if (proved(instance, incumbent)) return true;
        if (most == widest_layer) return false;
        most = std::min(most * 4, widest_layer);
    }
    return false;
}

}  // namespace bridle
