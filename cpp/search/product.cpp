// `product`: intersect everything, then the best path. `lazy_intersection`: Tromble & Eisner (2006), intersect only what is violated.
//   product             best path of  L & A_1 & ... & A_R
//   figure 2 (hard)     y = best path of L;  while some A_r rejects y:  L = L & A_r, y = best path of L
//   figure 7 (soft)     a branch (L, left, p): for each r in `left` that y breaks, a branch with L & A_r and the price p so far;
//                       then p pays for r. A branch whose best path less p is no better than the incumbent is dropped.
//
//   L lattice    A_r automaton of constraint r    n positions (t)    m labels (i, then j)    Q states of what is intersected (q)
#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "search/engines.h"

namespace bridle {
namespace {

constexpr int kMostStates = 1 << 20;
constexpr size_t kMostCells = size_t{1} << 29;  // of n * Q * m: more takes minutes

// The trellis with some of the automata folded in.
struct Lattice {
    Trellis trellis;
    Steps steps;
    Fold fold;
    std::vector<int32_t> path;

    explicit Lattice(const Sequence& s) : path(s.n) {
        trellis.load(s);
        steps.plain(s);
    }
    // False: too large for the limits.
    bool intersect(const std::vector<BoundAutomaton>& automata, const Options& options, Control& control) {
        AutomatonSet set;
        set.assign(automata);
        const size_t cells = std::max<size_t>(1, size_t(trellis.n) * trellis.m);
        size_t most = std::min<size_t>(kMostStates, std::max<size_t>(2, kMostCells / cells));
        const size_t bytes =
            options.arcs ? Trellis::backward_bytes(trellis.n, trellis.m) : Trellis::path_bytes(trellis.n, trellis.m);
        most = std::min(most, std::max<size_t>(2, control.memory() / 2 / std::max<size_t>(1, bytes)));
        if (options.max_states >= 0) most = std::min<size_t>(most, options.max_states);
        return fold.build(set, trellis.n, trellis.m, int(most), control);
    }
    double best(Control& control) { return trellis.best_path(fold, steps, path.data(), control); }

    // Arcs of the lattice that lie on some path, those that leave the start included.
    int64_t arcs(Control& control) {
        const int n = trellis.n, m = trellis.m;
        const size_t width = size_t(fold.Q) * m;
        std::vector<double> H;
        if (n == 0 || !(trellis.backward(fold, steps, H, control) > -kInf)) return 0;
        std::vector<char> here(width, 0), there(width);
        int64_t count = 0;
        const auto step = [&](int t, int q, int i) {
            const double* u = trellis.unary(t);
            for (int j = 0; j < m; ++j) {
                const int to = fold.plain() ? 0 : fold.next(t, q)[j];
                if (!fold.plain() && fold.cost(t, q)[j] == kInf) continue;
                const size_t cell = size_t(to) * m + j;
                if (!(u[j] + (t > 0 ? steps.at(t - 1, i, j) : 0.0) + H[(size_t(t) * fold.Q + to) * trellis.width + j] >
                      -kInf))
                    continue;
                ++count;
                there[cell] = 1;
            }
        };
        for (int t = 0; t < n; ++t) {
            control.check();
            std::fill(there.begin(), there.end(), 0);
            if (t == 0) step(0, 0, -1);
            else
                for (size_t c = 0; c < width; ++c) {
                    if (c % 4096 == 4095) control.check();
                    if (here[c]) step(t, int(c / m), int(c % m));
                }
            here.swap(there);
        }
        return count;
    }
};

Answer too_large(double bound = kInf) { return {.status = Status::too_large, .bound = bound}; }

// A constraint of Tromble & Eisner: a hard automaton, or all automata of a rule that is paid once.
struct Constraint {
    std::vector<BoundAutomaton> automata;
    double weight;  // <= 0, -inf: hard
    bool violated(std::span<const int32_t> path) const {
        for (const BoundAutomaton& p : automata) {
            int s = 0;
            for (int t = 0; t < int(path.size()); ++t) {
                const Move& move = p.read(t, s, path[t]);
                if (move.violations) return true;
                s = move.to;
            }
            if (p.automaton->final[s]) return true;
        }
        return false;
    }
};

std::vector<Constraint> constraints_of(const Sequence& s, uint64_t seed) {
    std::vector<Constraint> all;
    int last = -1;
    for (const BoundAutomaton& p : s.automata) {
        if (p.mode != Mode::hard && p.rule == last) all.back().automata.push_back(p);
        else all.push_back({{p}, p.mode == Mode::hard ? -kInf : -p.penalty});
        last = p.rule;
    }
    std::mt19937_64 random(seed + uint64_t(s.n));
    for (size_t k = all.size(); k > 1; --k) std::swap(all[k - 1], all[random() % k]);
    return all;
}

// What relax leaves in `counters`: [0] intersections, [1] branches, [2] how many arc counts follow, [3..23] arcs,
// [24] how many rules the first path breaks, [25...] their numbers.
constexpr int kArcs = 3, kBroken = 24;

struct Trace {
    int64_t* counters;
    bool wanted;
    void intersected() { ++counters[0]; }
    void first_path(const std::vector<Constraint>& all, std::span<const int32_t> path) {
        std::vector<int> broken;
        for (const Constraint& c : all)
            if (c.violated(path)) broken.push_back(c.automata[0].rule);
        std::sort(broken.begin(), broken.end());
        broken.erase(std::unique(broken.begin(), broken.end()), broken.end());
        const size_t room = kCounters - kBroken - 1;
        counters[kBroken] = int64_t(std::min(broken.size(), room));
        std::copy_n(broken.begin(), counters[kBroken], counters + kBroken + 1);
    }
    void arcs(Lattice& lattice, Control& control) {
        if (wanted && kArcs + counters[2] < kBroken) {
            const int64_t count = lattice.arcs(control);
            counters[kArcs + counters[2]++] = count;
        }
    }
};

std::vector<BoundAutomaton> held(std::vector<BoundAutomaton> automata) {  // a constraint that was intersected holds
    for (BoundAutomaton& p : automata) p.mode = Mode::hard;
    std::sort(automata.begin(), automata.end(),
              [](const BoundAutomaton& a, const BoundAutomaton& b) { return a.number < b.number; });
    return automata;
}

// Figure 7: SOFT-CONSTRAIN-LATTICE. A hard constraint is one with weight -inf; if all are, there is one branch at a time, and this is
// figure 2: HARD-CONSTRAIN-LATTICE.
Answer constrain(const Sequence& s, const std::vector<Constraint>& all, const Options& options, Control& control,
                 Trace trace) {
    struct Branch {
        std::vector<int> inside, left;  // constraints intersected; constraints not looked at yet
        double penalty;
        double most;  // what it can give at best
    };
    std::vector<int> everything(all.size());
    std::iota(everything.begin(), everything.end(), 0);
    std::deque<Branch> branches{{{}, everything, 0.0, kInf}};
    Answer out;
    double open = -kInf;    // the best that a branch dropped by a limit could have given
    size_t held_bytes = 0;  // of all branches that were made
    Lattice lattice(s);
    const auto look_at = [&](const Branch& branch) {  // false: too large
        ++trace.counters[1];
        std::vector<BoundAutomaton> inside;
        for (int c : branch.inside) inside.insert(inside.end(), all[c].automata.begin(), all[c].automata.end());
        lattice.fold.clear();
        if (!inside.empty() && !lattice.intersect(held(inside), options, control)) return false;
        const double best = lattice.best(control);
        if (best > -kInf && trace.counters[1] == 1) trace.first_path(all, lattice.path);
        trace.arcs(lattice, control);
        if (!(best > -kInf) || best + branch.penalty <= out.score) return true;  // PRUNE
        std::vector<int> left = branch.left;
        double penalty = branch.penalty;
        for (int c : branch.left) {
            control.check();
            if (!all[c].violated(lattice.path)) continue;
            left.erase(std::find(left.begin(), left.end(), c));
            std::vector<int> within = branch.inside;
            within.push_back(c);
            trace.intersected();
            held_bytes += sizeof(Branch) + sizeof(int) * (within.size() + left.size()) + 64;
            if (held_bytes > control.memory() / 4) open = std::max(open, best + penalty);
            else branches.push_back({std::move(within), left, penalty, best + penalty});
            penalty += all[c].weight;
            if (penalty == -kInf) break;  // what breaks a hard constraint is of no use
        }
        if (out.score < best + penalty) {
            out.score = best + penalty;
            out.path = lattice.path;
        }
        return true;
    };
    while (!branches.empty()) {
        const Branch branch = std::move(branches.front());
        branches.pop_front();
        bool fits = true;
        if (control.completes([&] { fits = look_at(branch); })) {
            if (!fits) return too_large(branch.most);
            control.armed = true;  // the first branch bounds all others
        } else {
            if (!control.armed) control.give_up();
            open = std::max(open, branch.most);
            for (const Branch& other : branches) open = std::max(open, other.most);
            branches.clear();
        }
    }
    control.armed = false;
    if (open > out.score &&
        out.score > -kInf) {  // a branch that a limit dropped may have known that less is to be paid
        Verdict verdict;
        judge(s, out.path.data(), verdict);
        out.score = std::max(out.score, lattice.steps.score(s, out.path.data()) - verdict.cost);
        out.violations = verdict.violations;
    }
    out.bound = std::max(open, out.score);
    if (out.score > -kInf) out.status = out.bound > out.score ? Status::limit : Status::optimal;
    else out.status = open > -kInf ? Status::nothing_found : Status::infeasible;
    return out;
}

}  // namespace

Answer run_product(const Sequence& s, const Options& options, Control& control, Search&, int64_t* counters) {
    Lattice lattice(s);
    const Armed armed(control);
    if (!lattice.intersect(s.automata, options, control)) return too_large();
    Answer out;
    out.score = out.bound = lattice.best(control);
    out.status = out.score > -kInf ? Status::optimal : Status::infeasible;
    out.path = lattice.path;
    counters[0] = lattice.fold.Q;
    if (options.arcs) counters[1] = lattice.arcs(control);
    return out;
}

Answer run_lazy_intersection(const Sequence& s, const Options& options, Control& control, Search&, int64_t* counters) {
    const std::vector<Constraint> all = constraints_of(s, options.seed);
    const bool soft = std::any_of(all.begin(), all.end(), [](const Constraint& c) { return c.weight > -kInf; });
    const Answer answer = constrain(s, all, options, control, {counters, options.arcs});
    if (!soft) counters[1] = 0;  // figure 2 has no branches
    return answer;
}

}  // namespace bridle
