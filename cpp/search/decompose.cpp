// Many rules that interact: dual decomposition over groups of rules, agreement on edges, then layered search.
//   The scores of edges are shared out between the groups, each of which folds its rules into its share:
//     optimum  <=  sum over g of  max over y of  sum over t of theta_g[t][y(t-1)][y(t)]  -  cost_g(y)
//   The bound is lowest where the groups agree on what every edge is worth. One step makes them agree at one position,
//     M_g[i][j] = theta_g[t][i][j] + max over q of F_g[t-1][q][i] + X_g[t][q][j],    theta_g[t] += mean over g of M_g - M_g
//   and never raises the bound. What the groups say can still follow, added up, is the estimate of a search, layer by layer.
//   Sweeps over all positions (shares.h) and searches (LayeredSearch) take turns: the search is made wider when sweeps no longer
//   help. A labelling that is found is improved segment by segment (SegmentSearch): the better it is, the more can be dropped.
//   Of very many rules only the active ones are grouped. What a labelling breaks comes in as groups with no share as yet.
//
//   n positions (t)    m labels (i, then j)    G groups (g)    Q states of a group (q)
//   F_g[t][q][j]: the best beginning that reads j at t and is then in state q    B_g: the best that can follow
//   X_g[t][q][j] = B_g[t][next(q, j)][j] - cost(q, j)
// Shares are in single precision: how far they have moved from the scores is measured and put right with each sweep, and what
// sums can have lost is added.
#include "search/relaxation.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/instance.h"
#include "search/shares.h"

namespace bridle {
namespace {

constexpr size_t kConsidered = 8;  // labellings of the last layer

// All labellings whose estimate is above the incumbent, position by position, at most so many of a layer.
//   A node is a label and the states of all groups. Its estimate is what it has earned and what the groups say can follow:
//     f = earned + sum over g of X_g[t][q_g][j]
class LayeredSearch {
  public:
    LayeredSearch(Instance& instance, Shares& shares, Incumbent& incumbent, ActiveRules& active)
        : in_(instance),
          shares_(shares),
          incumbent_(incumbent),
          active_(active),
          n_(instance.sequence.n),
          m_(instance.sequence.m),
          layers_(n_),
          step_(size_t(m_) * m_),
          row_(m_) {}

    // Considers the best labelling that is reached, and what it breaks becomes active. Returns the best estimate that was cut,
    // or that of a labelling which rules outside the groups made worse; -inf if there is neither.
    double run(size_t most, double margin) {
        G_ = shares_.groups.size();
        to_.resize(G_);
        nodes_ = 0;
        double cut = -kInf;
        for (int t = 0; t < n_; ++t) {
            std::swap(before_, here_);
            look_ahead(t, incumbent_.exists() ? incumbent_.score - margin : -kInf);
            cut = std::max(cut, keep_best(t, most));
            nodes_ += layers_[t].size();
            if (layers_[t].size() == 0) return cut;
        }
        return finish(cut);
    }
    size_t nodes() const { return nodes_ / size_t(n_); }  // of a layer, on the average of the last run

  private:
    struct Layer {
        std::vector<int32_t> label, parent;  // (nodes)
        size_t size() const { return label.size(); }
    };
    struct Front {                     // what of a layer only the next one asks for
        std::vector<double> earned;    // (nodes)
        std::vector<uint16_t> states;  // (nodes, G)
    };
    struct Candidate {
        float estimate;
        int32_t parent, label;
    };

    // fills candidates_
    void look_ahead(int t, double low) {
        const double* unary = in_.scratch.trellis.unary(t);
        const Steps& steps = in_.scratch.plain;
        candidates_.clear();
        if (t == 0) {  // the score of the first label is part of the first step
            for (int j = 0; j < m_; ++j) {
                double estimate = unary[j] + steps.first(j) > -kInf ? 0.0 : -kInf;
                for (const Share& s : shares_.groups)
                    estimate += shares_.B(s, 0)[s.fold.next(0, 0)[j] * shares_.width + j] - s.fold.cost(0, 0)[j];
                if (estimate > low) candidates_.push_back({float(estimate), -1, j});
            }
            return;
        }
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j) step_[size_t(i) * m_ + j] = steps.at(t - 1, i, j) + unary[j];
        for (Share& s : shares_.groups) shares_.complete(s, t);
        const Layer& before = layers_[t - 1];
        for (size_t p = 0; p < before.size(); ++p) {
            if ((p & 63) == 0) in_.control.check();
            const double* step = step_.data() + size_t(before.label[p]) * m_;
            for (int j = 0; j < m_; ++j) row_[j] = before_.earned[p] + step[j];
            for (size_t g = 0; g < G_; ++g) {
                const float* x = shares_.groups[g].X.data() + size_t(before_.states[p * G_ + g]) * shares_.width;
                for (int j = 0; j < m_; ++j) row_[j] += x[j];
            }
            for (int j = 0; j < m_; ++j)
                if (row_[j] > low) candidates_.push_back({float(row_[j]), int32_t(p), j});
        }
    }
    // fills the layer of t; returns the best estimate that was cut
    double keep_best(int t, size_t most) {
        Layer& here = layers_[t];
        here.label.clear(), here.parent.clear(), here_.earned.clear(), here_.states.clear();
        slots_.assign(std::bit_ceil(2 * std::min(most, candidates_.size()) + 1), -1);
        const auto better = [](const Candidate& a, const Candidate& b) { return a.estimate > b.estimate; };
        auto next = candidates_.begin();
        while (next != candidates_.end() && here.size() < most) {  // the best ones that are left, until as many differ
            const auto left = size_t(candidates_.end() - next);
            const auto end = next + ptrdiff_t(std::min(left, most - here.size()));
            if (end != candidates_.end()) std::nth_element(next, end, candidates_.end(), better);
            for (; next != end; ++next) {
                if ((next - candidates_.begin()) % 256 == 0) in_.control.check();
                add(t, *next);
            }
        }
        double cut = -kInf;
        for (; next != candidates_.end(); ++next) cut = std::max<double>(cut, next->estimate);
        return cut;
    }
    // unless the same states are reached better
    void add(int t, const Candidate& c) {
        const int j = c.label;
        const uint16_t* states = c.parent < 0 ? nullptr : before_.states.data() + size_t(c.parent) * G_;
        double earned = c.parent < 0
                            ? in_.scratch.trellis.unary(0)[j] + in_.scratch.plain.first(j)
                            : before_.earned[c.parent] + step_[size_t(layers_[t - 1].label[c.parent]) * m_ + j];
        uint64_t hash = 1469598103934665603ull ^ uint64_t(j);
        for (size_t g = 0; g < G_; ++g) {
            const Fold& fold = shares_.groups[g].fold;
            const int q = states ? states[g] : 0;
            earned -= fold.cost(t, q)[j];
            to_[g] = uint16_t(fold.next(t, q)[j]);
            hash = (hash ^ to_[g]) * 1099511628211ull;
        }
        Layer& here = layers_[t];
        size_t at = (hash ^ hash >> 29) & (slots_.size() - 1);
        for (; slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1)) {
            const size_t k = slots_[at];
            if (here.label[k] != j || !std::equal(to_.begin(), to_.end(), here_.states.begin() + ptrdiff_t(k * G_)))
                continue;
            if (earned > here_.earned[k]) here_.earned[k] = earned, here.parent[k] = c.parent;
            return;
        }
        slots_[at] = int32_t(here.size());
        here.label.push_back(j), here.parent.push_back(c.parent), here_.earned.push_back(earned);
        here_.states.insert(here_.states.end(), to_.begin(), to_.end());
    }
    double finish(double cut) {
        std::vector<double>& earned = here_.earned;
        for (size_t k = 0; k < earned.size(); ++k)
            for (size_t g = 0; g < G_; ++g) earned[k] -= shares_.groups[g].fold.final[here_.states[k * G_ + g]];
        std::vector<int32_t> order(earned.size()), path(n_);
        for (size_t k = 0; k < order.size(); ++k) order[k] = int32_t(k);
        const size_t few = std::min(kConsidered, order.size());
        std::partial_sort(order.begin(), order.begin() + ptrdiff_t(few), order.end(),
                          [&](int32_t a, int32_t b) { return earned[a] > earned[b]; });
        for (size_t k = 0; k < few; ++k) {
            // Only rules that no group holds can make a later one better than the first.
            if (!(earned[order[k]] > incumbent_.score)) break;
            for (int32_t t = n_ - 1, at = order[k]; t >= 0; --t)
                path[t] = layers_[t].label[at], at = layers_[t].parent[at];
            const std::vector<int>& broken = consider(in_, path.data(), incumbent_).broken;
            if (k == 0) active_.add(broken);
        }
        const double best = earned[order[0]];
        return best > incumbent_.score + in_.tolerance(incumbent_.score) ? std::max(cut, best) : cut;
    }

    Instance& in_;
    Shares& shares_;
    Incumbent& incumbent_;
    ActiveRules& active_;
    const int n_, m_;
    size_t G_ = 0, nodes_ = 0;
    std::vector<Layer> layers_;  // (n)
    Front before_, here_;        // of the layer before, and of the layer being filled
    std::vector<Candidate> candidates_;
    std::vector<int32_t> slots_;      // nodes of the layer by their hash; -1: none
    std::vector<double> step_, row_;  // (m, m) of the step to t, (m)
    std::vector<uint16_t> to_;        // (G)
};

// What these do shows in `benchmarks/run.py --only many`.
constexpr int kPasses = 10;
constexpr int kLongest = 16;  // segment that is changed

// Local search for a better incumbent: the labels of one segment are changed to another label while that helps.
//   What a change costs is read from the groups of a decomposition: the states before it are known, and
//     ahead_g[t][q] = what group g charges for the labels from t on, from state q
class SegmentSearch {
  public:
    SegmentSearch(Instance& instance, const Shares& shares) : in_(instance), shares_(shares) {}

    void improve(Incumbent& incumbent) {
        const int n = in_.sequence.n;
        const size_t G = shares_.groups.size();
        path_ = incumbent.path;
        rest_.assign(n + 1, 0.0), ahead_.resize(G);
        for (size_t g = 0; g < G; ++g) {
            const Fold& fold = shares_.groups[g].fold;
            ahead_[g].resize(size_t(n + 1) * fold.Q);
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

  private:
    struct Change {
        double score;
        int end, label;  // the segment ends before `end`
    };

    // fills ahead_ and rest_ for positions last .. first
    void look_back(int first, int last) {
        for (int t = last; t >= first; --t) {
            const int y = path_[t];
            rest_[t] = in_.scratch.trellis.unary(t)[y] + rest_[t + 1];
            if (t + 1 < in_.sequence.n) rest_[t] += in_.scratch.plain.at(t, y, path_[t + 1]);
            for (size_t g = 0; g < ahead_.size(); ++g) {
                const Fold& fold = shares_.groups[g].fold;
                double *here = ahead_[g].data() + size_t(t) * fold.Q, *after = here + fold.Q;
                for (int q = 0; q < fold.Q; ++q) here[q] = fold.cost(t, q)[y] + after[fold.next(t, q)[y]];
            }
        }
    }
    // score of label y at t
    double step(int t, int before, int y) const {
        const Steps& steps = in_.scratch.plain;
        return in_.scratch.trellis.unary(t)[y] + (t == 0 ? steps.first(y) : steps.at(t - 1, before, y));
    }
    // what all groups charge for label y at t
    double read(int t, int y, std::vector<int>& states) const {
        double cost = 0;
        for (size_t g = 0; g < states.size(); ++g) {
            const Fold& fold = shares_.groups[g].fold;
            cost += fold.cost(t, states[g])[y];
            states[g] = fold.next(t, states[g])[y];
        }
        return cost;
    }
    Change best_change(int t, double earned) const {
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
                    total -= ahead_[g][size_t(u + 1) * shares_.groups[g].fold.Q + room_[g]];
                if (total > best.score) best = {total, u + 1, y};
            }
        }
        return best;
    }

    Instance& in_;
    const Shares& shares_;
    std::vector<int32_t> path_;
    std::vector<std::vector<double>> ahead_;  // (G) of (n + 1, Q)
    std::vector<double> rest_;                // (n + 1)  scores of the labels from t on, but for the step to t
    std::vector<int> states_;                 // (G)  before position t
    mutable std::vector<int> room_;           // (G)
};

// What these do shows in `benchmarks/run.py --only many`.
constexpr size_t kMost = 64;                       // automata that are grouped whether they are active or not
constexpr size_t kMostActive = 160;                // automata that can be grouped in time
constexpr int kRounds = 60;                        // of sweeps and search
constexpr int kMoreRounds = 40;                    // that bring in rules
constexpr int kSweeps = 3;                         // of a round, but for the first, which has one
constexpr size_t kPerSweep = 256, kSteady = 4096;  // nodes of a layer that are worth another sweep, up to so many
constexpr double kProgress = 0.85;                 // of the gap is left: sweeps are worth more than a wider search
constexpr size_t kKeptBytes = size_t{1} << 25;
constexpr double kLargestMargin = 0.5;           // what single precision may lose
constexpr size_t kNarrow = 16, kWide = 1 << 18;  // nodes of a layer

// As many nodes of a layer as fit into memory beside the shares: their labels in all layers, two fronts, and the steps from one.
size_t widest(const Instance& instance, size_t groups) {
    const size_t n = instance.sequence.n, m = instance.sequence.m;
    const size_t node = n * 2 * sizeof(int32_t) + 2 * (sizeof(double) + groups * sizeof(uint16_t)) + m * 2 * 12 + 16;
    const size_t memory = instance.control.memory(),
                 left = memory / 4 * 3 - std::min(memory / 2, instance.scratch.bytes());
    return std::clamp(left / node, kNarrow, kWide);
}

// The automata that are grouped: all, or if they are many, the active ones and others that the same price pays for.
class Chosen {
  public:
    Chosen(const Sequence& s, const ActiveRules& active)
        : s_(s), taken_(s.automata.size(), 0), all_(s.automata.size() <= kMost) {
        if (all_)
            for (size_t k = 0; k < s.automata.size(); ++k) more_.push_back(s.automata[k]);
        else update(active);
    }
    // What is new.
    const std::vector<BoundAutomaton>& more() const { return more_; }
    void update(const ActiveRules& active) {
        more_.clear();
        if (all_) return;
        std::vector<char> wanted(s_.problem->rules.size(), 0);
        const std::vector<int> list = active.list();
        for (int k : list)
            if (s_.automata[k].mode == Mode::per_sequence) wanted[s_.automata[k].rule] = 1;
        std::vector<char> is_active(s_.automata.size(), 0);
        for (int k : list) is_active[k] = 1;
        for (size_t k = 0; k < s_.automata.size(); ++k) {
            const BoundAutomaton& p = s_.automata[k];
            if (taken_[k] || !(is_active[k] || (p.mode == Mode::per_sequence && wanted[p.rule]))) continue;
            taken_[k] = 1;
            more_.push_back(p);
        }
    }

  private:
    const Sequence& s_;
    std::vector<char> taken_;  // (automata)
    const bool all_;
    std::vector<BoundAutomaton> more_;
};

}  // namespace

bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    if (!s.problem->groups || instance.limits.max_states >= 0) return false;
    Chosen chosen(s, active);
    if (chosen.more().size() > kMostActive) return false;
    const auto group = [&] {
        return s.problem->groups->find(chosen.more(), s.n, s.m, instance.limits.max_group_states, instance.control);
    };
    auto grouping = group();
    if (grouping->size() < 2) return false;
    std::shared_ptr<Shares> own = std::exchange(instance.scratch.shares, nullptr);
    if (!own) own = std::make_shared<Shares>();
    Shares& shares = *own;
    if (!shares.load(instance, chosen.more(), *grouping)) return false;
    if (shares.bytes() <= kKeptBytes)
        instance.scratch.shares = own;  // its memory and its automata serve the next sequence
    SegmentSearch segments(instance, shares);
    if (incumbent.exists()) segments.improve(incumbent);
    LayeredSearch layered(instance, shares, incumbent, active);
    const size_t widest_layer = widest(instance, shares.groups.size());
    size_t most = kNarrow;
    double margin = shares.margin(), last = kInf;
    for (int round = 0, more = 0; round < kRounds; ++round) {
        double bound = kInf;
        const int sweeps =
            round == 0 || !incumbent.exists() ? 1 : kSweeps + int(std::min(layered.nodes(), kSteady) / kPerSweep);
        for (int k = 0; k < sweeps; ++k) {
            if (!(margin <= kLargestMargin)) return false;  // scores too large for single precision
            // Twice the margin: the shares move on the way.
            bound = shares.sweep(incumbent.exists() ? incumbent.score - 2 * margin : -kInf, instance.control);
            margin = shares.margin();
            if (round == 1 && k == 0 &&
                incumbent.exists()) {  // the sooner the incumbent is good, the more the next sweeps drop
                layered.run(most, margin);
                segments.improve(incumbent);
            }
        }
        incumbent.tighten(std::max(bound + margin, incumbent.score));
        ++instance.counters.rounds;
        if (!(bound > -kInf) && !incumbent.exists()) return true;  // no labelling at all
        double score = incumbent.score;
        const double cut = layered.run(most, margin) + margin;
        if (incumbent.score > score) segments.improve(incumbent);
        if (cut <= incumbent.score + instance.tolerance(incumbent.score) || !(cut > -kInf)) {
            incumbent.tighten(incumbent.score);
            return true;
        }
        incumbent.tighten(std::max(cut, incumbent.score));
        if (proved(instance, incumbent)) return true;
        chosen.update(active);
        if (!chosen.more().empty()) {  // rules that the labelling breaks come in, at no loss of what was shared out
            if (++more > kMoreRounds || chosen.more().size() > kMostActive) return false;
            grouping = group();
            if (grouping->empty() || !shares.add(instance, chosen.more(), *grouping)) return false;
            margin = shares.margin();
            round = std::min(round, 0);
            continue;
        }
        const double gap = bound - incumbent.score;
        if (std::exchange(last, gap) * kProgress > gap && round > 0) continue;
        most = std::min(most * 4, widest_layer);
    }
    return false;
}

}  // namespace bridle
