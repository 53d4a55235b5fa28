#include "decompose.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr int kCap = 128;          // states of a group
constexpr int kRounds = 14;        // of sweeps and search
constexpr size_t kWidest = 1 << 17;  // nodes of a layer

double weight_of(const BoundAutomaton& p) { return p.mode == Mode::hard ? 20.0 : p.penalty; }

// ---- groups -----------------------------------------------------------------------------------------------------------

struct Group {
    std::vector<BoundAutomaton> automata;
    int states = 0;
    double weight = 0;
};

int states_of(const std::vector<BoundAutomaton>& automata, int n, int m, int most, Control& control, Fold& fold) {
    AutomatonSet set;
    std::vector<BoundAutomaton> sorted = automata;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    set.assign(std::move(sorted));
    return fold.build(set, n, m, most, control) ? fold.Q : -1;
}

std::vector<BoundAutomaton> joined(const Group& a, const Group& b) {
    std::vector<BoundAutomaton> both = a.automata;
    both.insert(both.end(), b.automata.begin(), b.automata.end());
    return both;
}

// Rules whose product grows least, for what they cost, share a group.
std::vector<Group> grouped(const std::vector<BoundAutomaton>& automata, int n, int m, Control& control, Fold& fold) {
    std::vector<Group> groups;
    for (size_t k = 0; k < automata.size();) {  // automata that one price pays for stay together
        Group one;
        const int rule = automata[k].rule;
        const bool once = automata[k].mode == Mode::per_sequence;
        do one.automata.push_back(automata[k++]);
        while (once && k < automata.size() && automata[k].rule == rule);
        for (const BoundAutomaton& p : one.automata) one.weight += weight_of(p);
        one.states = states_of(one.automata, n, m, 4096, control, fold);
        if (one.states < 0) return {};
        groups.push_back(std::move(one));
    }
    struct Pair { double merit; int states; };
    const auto merit = [&](const Group& a, const Group& b) -> Pair {
        if (static_cast<int64_t>(a.states) * b.states > 4 * kCap * kCap) return {kInf, 0};
        const int states = states_of(joined(a, b), n, m, kCap, control, fold);
        if (states < 0) return {kInf, 0};
        return {std::log(static_cast<double>(states) / (static_cast<double>(a.states) * b.states)) / std::sqrt(std::min(a.weight, b.weight)), states};
    };
    std::vector<std::vector<Pair>> pairs(groups.size(), std::vector<Pair>(groups.size(), {kInf, 0}));
    for (size_t a = 0; a < groups.size(); ++a)
        for (size_t b = a + 1; b < groups.size(); ++b) pairs[a][b] = merit(groups[a], groups[b]);
    std::vector<char> gone(groups.size(), 0);
    for (;;) {
        size_t x = 0, y = 0;
        double least = kInf;
        for (size_t a = 0; a < groups.size(); ++a)
            for (size_t b = a + 1; b < groups.size(); ++b)
                if (!gone[a] && !gone[b] && pairs[a][b].merit < least) least = pairs[a][b].merit, x = a, y = b;
        if (!(least < kInf)) break;
        groups[x].automata = joined(groups[x], groups[y]);
        groups[x].states = pairs[x][y].states;
        groups[x].weight += groups[y].weight;
        gone[y] = 1;
        for (size_t c = 0; c < groups.size(); ++c) {
            if (gone[c] || c == x) continue;
            pairs[std::min(x, c)][std::max(x, c)] = merit(groups[std::min(x, c)], groups[std::max(x, c)]);
        }
    }
    std::vector<Group> out;
    for (size_t g = 0; g < groups.size(); ++g)
        if (!gone[g]) out.push_back(std::move(groups[g]));
    return out;
}

// ---- sweeps -----------------------------------------------------------------------------------------------------------

struct Share {  // of one group
    Fold fold;
    std::vector<double> theta;  // (n, m, width)
    std::vector<double> F, B;   // (n, Q, width)
    std::vector<double> X, M;   // (Q, width), (m, width)
};

class Sweeps {
  public:
    Sweeps(Instance& instance, std::vector<Share>& shares)
        : in_(instance), shares_(shares), n_(instance.sequence.n), m_(instance.sequence.m), w_(instance.scratch.trellis.width),
          a_(static_cast<size_t>(m_) * w_), turned_(static_cast<size_t>(m_) * w_) {
        const double part = 1.0 / static_cast<double>(shares.size());
        const Trellis& trellis = in_.scratch.trellis;
        for (Share& s : shares_) {
            s.theta.assign(static_cast<size_t>(n_) * m_ * w_, -kInf);
            s.F.assign(static_cast<size_t>(n_) * s.fold.Q * w_, -kInf);
            s.B.assign(static_cast<size_t>(n_) * s.fold.Q * w_, -kInf);
            s.X.assign(static_cast<size_t>(s.fold.Q) * w_, -kInf);
            s.M.assign(static_cast<size_t>(m_) * w_, -kInf);
        }
        for (int t = 1; t < n_; ++t) {
            std::vector<double> first(m_, 0.0), here(m_);
            for (int j = 0; j < m_; ++j) here[j] = trellis.unary(t)[j];
            if (t == 1)
                for (int i = 0; i < m_; ++i) first[i] = trellis.unary(0)[i];
            for (int i = 0; i < m_; ++i)
                for (int j = 0; j < m_; ++j) {
                    const double score = (first[i] + in_.scratch.plain.at(t - 1, i, j) + here[j]) * part;
                    for (Share& s : shares_) s.theta[(static_cast<size_t>(t) * m_ + i) * w_ + j] = score;
                    if (score > -kInf) largest_ = std::max(largest_, std::abs(score));
                }
        }
        for (Share& s : shares_) {
            for (int j = 0; j < m_; ++j) {
                const double cost = s.fold.cost(0, 0)[j];
                if (cost < kInf) {
                    double& f = s.F[static_cast<size_t>(s.fold.next(0, 0)[j]) * w_ + j];
                    f = std::max(f, -cost);
                }
            }
            for (int q = 0; q < s.fold.Q; ++q)
                for (int i = 0; i < m_; ++i) s.B[(static_cast<size_t>(n_ - 1) * s.fold.Q + q) * w_ + i] = -s.fold.final[q];
        }
        for (int t = n_ - 1; t >= 1; --t)
            for (Share& s : shares_) complete(s, t), back(s, t);
    }

    // X of one position, from the B there
    void complete(Share& s, int t) {
        const double* after = B(s, t);
        for (int q = 0; q < s.fold.Q; ++q) {
            const double* cost = s.fold.cost(t, q);
            const int32_t* cell = s.fold.cell(t, q);
            double* x = s.X.data() + static_cast<size_t>(q) * w_;
            for (int j = 0; j < m_; ++j) x[j] = after[cell[j]] - cost[j];
        }
    }

    double forward(double floor) {
        for (int t = 1; t < n_; ++t) {
            for (Share& s : shares_) complete(s, t);
            agree(t, floor);
            for (Share& s : shares_) ahead(s, t);
        }
        return bound_;
    }
    double backward(double floor) {
        for (int t = n_ - 1; t >= 1; --t) {
            for (Share& s : shares_) complete(s, t);
            agree(t, floor);
            for (Share& s : shares_) back(s, t);
        }
        return bound_;
    }
    // How far rounding may have moved the sum of the shares.
    double drift() const {
        return std::numeric_limits<double>::epsilon() * (16.0 + 8.0 * steps_) * n_ * static_cast<double>(shares_.size()) * (1.0 + largest_);
    }

    const double* B(const Share& s, int t) const { return s.B.data() + static_cast<size_t>(t) * s.fold.Q * w_; }

  private:
    void agree(int t, double floor) {
        const size_t cells = static_cast<size_t>(m_) * w_;
        const double G = static_cast<double>(shares_.size());
        std::fill(a_.begin(), a_.end(), 0.0);
        for (Share& s : shares_) {
            const double* before = s.F.data() + static_cast<size_t>(t - 1) * s.fold.Q * w_;
            kernels().max_plus(before, 1, w_, s.X.data(), m_, s.fold.Q, w_, s.M.data());
            const double* theta = s.theta.data() + static_cast<size_t>(t) * cells;
            for (size_t c = 0; c < cells; ++c) s.M[c] += theta[c], a_[c] += s.M[c];
        }
        bound_ = -kInf;
        for (size_t c = 0; c < cells; ++c) {
            if (!(a_[c] > floor)) a_[c] = -kInf;
            bound_ = std::max(bound_, a_[c]);
            a_[c] /= G;
        }
        for (Share& s : shares_) {
            double* theta = s.theta.data() + static_cast<size_t>(t) * cells;
            for (size_t c = 0; c < cells; ++c) theta[c] = a_[c] > -kInf ? theta[c] + (a_[c] - s.M[c]) : -kInf;
        }
        ++steps_;
    }
    void ahead(Share& s, int t) {
        const int Q = s.fold.Q;
        const double* before = s.F.data() + static_cast<size_t>(t - 1) * Q * w_;
        double* after = s.F.data() + static_cast<size_t>(t) * Q * w_;
        kernels().max_plus(before, w_, 1, s.theta.data() + static_cast<size_t>(t) * m_ * w_, Q, m_, w_, s.X.data());
        std::fill(after, after + static_cast<size_t>(Q) * w_, -kInf);
        for (int q = 0; q < Q; ++q) {
            const double* cost = s.fold.cost(t, q);
            const int32_t* cell = s.fold.cell(t, q);
            const double* x = s.X.data() + static_cast<size_t>(q) * w_;
            for (int j = 0; j < m_; ++j) {
                const double value = x[j] - cost[j];
                if (value > after[cell[j]]) after[cell[j]] = value;
            }
        }
    }
    void back(Share& s, int t) {
        const double* theta = s.theta.data() + static_cast<size_t>(t) * m_ * w_;
        std::fill(turned_.begin(), turned_.end(), -kInf);
        for (int i = 0; i < m_; ++i)
            for (int j = 0; j < m_; ++j) turned_[static_cast<size_t>(j) * w_ + i] = theta[static_cast<size_t>(i) * w_ + j];
        kernels().max_plus(s.X.data(), w_, 1, turned_.data(), s.fold.Q, m_, w_, s.B.data() + static_cast<size_t>(t - 1) * s.fold.Q * w_);
    }

    Instance& in_;
    std::vector<Share>& shares_;
    const int n_, m_, w_;
    std::vector<double> a_, turned_;  // (m, width)
    double bound_ = kInf, largest_ = 0;
    int64_t steps_ = 0;
};

// ---- layers -----------------------------------------------------------------------------------------------------------

struct Layer {
    std::vector<int32_t> label, parent;
    std::vector<double> earned, estimate;
    std::vector<uint16_t> states;  // (nodes, G)
    void clear() { label.clear(), parent.clear(), earned.clear(), estimate.clear(), states.clear(); }
    size_t size() const { return label.size(); }
};

struct LayerOutcome {
    bool complete;   // was nothing cut?
    double dropped;  // the best estimate that was cut
};

LayerOutcome search_layers(Instance& instance, std::vector<Share>& shares, Sweeps& sweeps, size_t most, double margin, Incumbent& incumbent,
                           ActiveRules& active) {
    const int n = instance.sequence.n, m = instance.sequence.m, w = instance.scratch.trellis.width;
    const size_t G = shares.size();
    const Trellis& trellis = instance.scratch.trellis;
    std::vector<Layer> layers(n);
    std::vector<double> row(w), step(w);
    std::vector<uint16_t> to(G);
    double dropped = -kInf;
    const auto floor = [&] { return incumbent.found() ? incumbent.score + margin : -kInf; };
    const auto hash_of = [&](int label) {
        uint64_t h = 1469598103934665603ull ^ static_cast<uint64_t>(label);
        for (uint16_t q : to) h = (h ^ q) * 1099511628211ull, h ^= h >> 29;
        return h;
    };
    for (int t = 0; t < n; ++t) {
        if (t > 0)
            for (Share& s : shares) sweeps.complete(s, t);
        Layer& here = layers[t];
        std::unordered_multimap<uint64_t, int32_t> seen;
        const size_t parents = t == 0 ? 1 : layers[t - 1].size();
        for (size_t p = 0; p < parents; ++p) {
            if ((p & 63) == 0) instance.control.check();
            const uint16_t* from = t == 0 ? nullptr : layers[t - 1].states.data() + p * G;
            const double earned = t == 0 ? 0.0 : layers[t - 1].earned[p];
            const double* unary = trellis.unary(t);
            for (int j = 0; j < m; ++j) {
                step[j] = earned + unary[j] + (t == 0 ? 0.0 : instance.scratch.plain.at(t - 1, layers[t - 1].label[p], j));
                row[j] = step[j];
            }
            for (size_t g = 0; g < G; ++g) {
                const Share& s = shares[g];
                if (t == 0) continue;
                const double* x = s.X.data() + static_cast<size_t>(from[g]) * w;
                for (int j = 0; j < m; ++j) row[j] += x[j];
            }
            for (int j = 0; j < m; ++j) {
                if (t > 0 && !(row[j] > floor())) continue;
                double cost = 0, follow = 0;
                for (size_t g = 0; g < G; ++g) {
                    const Share& s = shares[g];
                    const int q = t == 0 ? 0 : from[g];
                    cost += s.fold.cost(t, q)[j];
                    to[g] = static_cast<uint16_t>(s.fold.next(t, q)[j]);
                    follow += sweeps.B(s, t)[static_cast<size_t>(to[g]) * w + j];
                }
                const double e = step[j] - cost;
                // Before the first step the unary score of position 0 is in the shares, not yet earned.
                const double f = t == 0 ? e - trellis.unary(0)[j] + follow : e + follow;
                if (!(f > floor())) continue;
                const uint64_t h = hash_of(j);
                int32_t same = -1;
                const auto [low, high] = seen.equal_range(h);
                for (auto it = low; it != high && same < 0; ++it)
                    if (here.label[it->second] == j && std::equal(to.begin(), to.end(), here.states.begin() + static_cast<size_t>(it->second) * G)) same = it->second;
                if (same >= 0) {
                    if (e > here.earned[same]) here.earned[same] = e, here.estimate[same] = f, here.parent[same] = static_cast<int32_t>(p);
                    continue;
                }
                seen.emplace(h, static_cast<int32_t>(here.size()));
                here.label.push_back(j), here.parent.push_back(static_cast<int32_t>(p));
                here.earned.push_back(e), here.estimate.push_back(f);
                here.states.insert(here.states.end(), to.begin(), to.end());
            }
        }
        if (here.size() > most) {
            std::vector<int32_t> order(here.size());
            for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int32_t>(k);
            std::nth_element(order.begin(), order.begin() + most, order.end(), [&](int32_t a, int32_t b) { return here.estimate[a] > here.estimate[b]; });
            for (size_t k = most; k < order.size(); ++k) dropped = std::max(dropped, here.estimate[order[k]]);
            order.resize(most);
            Layer kept;
            for (int32_t k : order) {
                kept.label.push_back(here.label[k]), kept.parent.push_back(here.parent[k]);
                kept.earned.push_back(here.earned[k]), kept.estimate.push_back(here.estimate[k]);
                kept.states.insert(kept.states.end(), here.states.begin() + static_cast<size_t>(k) * G, here.states.begin() + static_cast<size_t>(k + 1) * G);
            }
            here = std::move(kept);
        }
        if (here.size() == 0) return {!(dropped > -kInf), dropped};
    }
    size_t best = 0;
    for (size_t k = 1; k < layers[n - 1].size(); ++k)
        if (layers[n - 1].estimate[k] > layers[n - 1].estimate[best]) best = k;
    std::vector<int32_t> path(n);
    int32_t at = static_cast<int32_t>(best);
    for (int t = n - 1; t >= 0; --t) path[t] = layers[t].label[at], at = layers[t].parent[at];
    active.add(consider(instance, path.data(), incumbent).broken);
    return {!(dropped > -kInf), std::max(dropped, layers[n - 1].estimate[best] > incumbent.score + margin ? layers[n - 1].estimate[best] : -kInf)};
}

}  // namespace

static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent) {
    const double t0 = now();
    const Sequence& s = instance.sequence;
    if (s.n < 2 || s.m > 64) return false;
    Fold fold;
    const std::vector<Group> groups = grouped(s.automata, s.n, s.m, instance.control, fold);
    const double t1 = now(); double ts = 0, tl = 0;
    struct Tell { double &a, &b; double g; ~Tell() { if (getenv("DD")) fprintf(stderr, "group %.1f sweeps %.1f layers %.1f ms\n", g * 1e3, a * 1e3, b * 1e3); } } tell{ts, tl, t1 - t0};
    if (groups.size() < 2) return false;
    std::vector<Share> shares(groups.size());
    for (size_t g = 0; g < groups.size(); ++g) {
        AutomatonSet set;
        std::vector<BoundAutomaton> members = groups[g].automata;
        std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
        set.assign(std::move(members));
        if (!shares[g].fold.build(set, s.n, s.m, 4096, instance.control)) return false;
    }
    Sweeps sweeps(instance, shares);
    size_t most = 64;
    for (int round = 0; round < kRounds; ++round) {
        double bound = kInf;
        double tt = now();
        for (int k = 0; k < 4; ++k) {
            const double floor = incumbent.found() ? incumbent.score - sweeps.drift() - instance.rounding() : -kInf;
            sweeps.forward(floor);
            instance.control.check();
            bound = sweeps.backward(floor);
            instance.control.check();
        }
        ts += now() - tt;
        const double margin = sweeps.drift() + instance.rounding();
        incumbent.tighten(std::max(bound + margin, incumbent.score));
        if (getenv("DD")) fprintf(stderr, "G %zu round %d bound %.4f incumbent %.4f most %zu\n", shares.size(), round, bound, incumbent.score, most);
        if (proved(instance, incumbent) || bound <= incumbent.score + margin) return incumbent.found();
        tt = now();
        const LayerOutcome outcome = search_layers(instance, shares, sweeps, most, margin, incumbent, active);
        tl += now() - tt;
        if (outcome.dropped <= incumbent.score + margin) {
            incumbent.tighten(incumbent.score);
            return true;
        }
        incumbent.tighten(std::max(outcome.dropped, incumbent.score));
        most = std::min(most * 4, kWidest);
    }
    return false;
}

}  // namespace bridle
