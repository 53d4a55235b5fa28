#include "search/best_first.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace bridle {
namespace {

constexpr size_t kMostNodes = size_t{1} << 30;  // more cannot be numbered
constexpr size_t kLarge = size_t{1} << 24;      // bytes that are not moved in no time
constexpr double kSecondsPerPath = 3e-5;        // to judge a labelling and to hand it over
constexpr double kSecondsPerVisit = 2e-7;       // to move one when the set grows

struct Node {
    double g, paid;        // paid: only where prices come first
    int32_t parent, t, q;  // t == n: the end
    int32_t y;
};

struct Entry {
    double price, f;
    int32_t t, node;
    bool operator<(const Entry& other) const {  // comes later
        if (price != other.price) return price > other.price;
        return f < other.f || (f == other.f && t < other.t);
    }
};

struct Visits {
    int times = 0;
    double g = -kInf;  // the best so far
};

// An open-addressing set of (t, y, q, states): how often each was taken from the queue.
class Taken {
  public:
    explicit Taken(size_t width) : width_(width), slots_(1024, -1), visits_(1024) {}

    Visits& operator()(int32_t node, const std::vector<Node>& nodes, const std::vector<State>& states) {
        if (full()) grow(nodes, states);
        return visits_[find(node, nodes, states)];
    }

    size_t bytes() const { return slots_.size() * (sizeof(int32_t) + sizeof(Visits)); }
    // What the next one may take: bytes beside those it has, and seconds.
    size_t bytes_to_grow() const { return full() ? 2 * bytes() : 0; }
    double seconds_to_grow() const { return full() ? kSecondsPerVisit * double(used_) : 0.0; }

  private:
    bool full() const { return used_ * 2 >= slots_.size(); }
    size_t find(int32_t node, const std::vector<Node>& nodes, const std::vector<State>& states) {
        size_t at = hash(node, nodes, states) & (slots_.size() - 1);
        while (slots_[at] >= 0 && !same(slots_[at], node, nodes, states)) at = (at + 1) & (slots_.size() - 1);
        if (slots_[at] < 0) slots_[at] = node, visits_[at] = Visits(), ++used_;
        return at;
    }
    uint64_t hash(int32_t node, const std::vector<Node>& nodes, const std::vector<State>& states) const {
        const Node& v = nodes[node];
        uint64_t h = (uint64_t(v.t) << 32 | uint32_t(v.q)) * 0x9E3779B97F4A7C15ull + v.y;
        for (size_t k = 0; k < width_; ++k) h = (h ^ states[node * width_ + k]) * 1099511628211ull;
        return h ^ (h >> 31);
    }
    bool same(int32_t a, int32_t b, const std::vector<Node>& nodes, const std::vector<State>& states) const {
        const Node &u = nodes[a], &v = nodes[b];
        return u.t == v.t && u.y == v.y && u.q == v.q &&
               std::equal(states.data() + a * width_, states.data() + (a + 1) * width_, states.data() + b * width_);
    }
    void grow(const std::vector<Node>& nodes, const std::vector<State>& states) {
        std::vector<int32_t> old_slots = std::move(slots_);
        std::vector<Visits> old_visits = std::move(visits_);
        slots_.assign(old_slots.size() * 2, -1);
        visits_.assign(slots_.size(), Visits());
        used_ = 0;
        for (size_t k = 0; k < old_slots.size(); ++k)
            if (old_slots[k] >= 0) visits_[find(old_slots[k], nodes, states)] = old_visits[k];
    }
    size_t width_, used_ = 0;
    std::vector<int32_t> slots_;
    std::vector<Visits> visits_;
};

}  // namespace

void BestFirst::run(int k, double floor, int64_t most, Control& control) {
    const int n = trellis.n, m = trellis.m;
    const size_t width = set.size();
    std::vector<Node> nodes;
    std::vector<State> states;  // (nodes, width)
    std::priority_queue<Entry> queue;
    Taken taken(width);
    std::vector<State> to(width), from(width, 0);
    const size_t more = estimates.size();
    std::vector<int32_t> where, now(more, 0);  // (nodes, more)  states of the other folds
    const size_t node_bytes = sizeof(Node) + sizeof(State) * width + sizeof(int32_t) * more;
    const size_t path_bytes = 4 * sizeof(int32_t) * n + 512;  // here, and in the hands of the caller
    const auto vectors_grow = [&] { return nodes.size() > kLarge / node_bytes && nodes.size() + m > nodes.capacity(); };
    paths.clear();
    complete = false;

    const auto push_end = [&](double g, double paid, double due, int32_t parent) {
        if (price) paid += due;
        else g -= due;
        if (due == kInf || !(g > floor)) return;
        nodes.push_back({g, paid, parent, n, 0, 0});
        states.resize(states.size() + width);
        where.resize(where.size() + more);
        queue.push({paid, g, n, int32_t(nodes.size() - 1)});
    };
    const auto room = [&](const State* s, int t) {
        double sum = 0;
        for (size_t p = 0; p < width; ++p)
            if (lambda[p] > 0) {
                const CountingAutomaton& automaton = *set.automata[p].automaton;
                if (s[p] < automaton.states) sum += lambda[p] * automaton.room[s[p]];
                else if (automaton.sense > 0)
                    sum += lambda[p] * (n - 1 - t);  // paid: all that follows may count, for free
            }
        return sum;
    };
    // No more than room() can be after one more label, the states before it being s.
    const auto most_room = [&](const State* s, int t) {
        double sum = 0;
        for (size_t p = 0; p < width; ++p) {
            const BoundAutomaton& bound_automaton = set.automata[p];
            if (!(lambda[p] > 0) || bound_automaton.automaton->sense < 0)
                continue;  // of what is lacking, nothing may be left
            const bool paid = s[p] >= bound_automaton.automaton->states,
                       may_pay = bound_automaton.mode == Mode::per_sequence;
            sum +=
                lambda[p] * std::max(paid ? 0 : bound_automaton.automaton->room[s[p]], paid || may_pay ? n - 1 - t : 0);
        }
        return sum;
    };
    // Steps from a node (or from nothing: parent -1) to label j at position t.
    const auto expand = [&](int32_t parent) {
        const int t = parent < 0 ? 0 : nodes[parent].t + 1;
        const double g0 = parent < 0 ? 0.0 : nodes[parent].g, paid0 = parent < 0 ? 0.0 : nodes[parent].paid;
        const int q0 = parent < 0 ? 0 : nodes[parent].q, y0 = parent < 0 ? -1 : nodes[parent].y;
        if (parent >= 0) std::copy_n(states.begin() + parent * width, width, from.begin());
        if (parent >= 0) std::copy_n(where.begin() + parent * more, more, now.begin());
        const double most = most_room(from.data(), t);
        const double* u = trellis.unary(t);
        const double* h = H.data() + size_t(t) * fold.Q * trellis.width;
        const int32_t* next = fold.plain() ? nullptr : fold.next(t, q0);
        const double* cost = fold.plain() ? nullptr : fold.cost(t, q0);
        for (int j = 0; j < m; ++j) {
            const int q = next ? next[j] : 0;
            double g = g0 + u[j];
            if (parent >= 0) g += steps.at(t - 1, y0, j);
            double ahead = h[size_t(q) * trellis.width + j];
            if (!(g + ahead > -kInf) || !(g + ahead + most > floor)) continue;  // without a look at the rules
            const size_t place = where.size();
            for (size_t e = 0; e < more && ahead > -kInf; ++e) {
                const Estimate& other = estimates[e];
                if (other.fold.cost(t, now[e])[j] == kInf) ahead = -kInf;
                where.push_back(other.fold.next(t, now[e])[j]);
                ahead = std::min(ahead, other.H[(size_t(t) * other.fold.Q + where.back()) * trellis.width + j]);
            }
            where.resize(place + more);
            const auto drop = [&] { where.resize(place); };
            if (!(ahead > -kInf)) {
                drop();
                continue;
            }
            const double due = set.advance(from.data(), to.data(), j, t) + (cost ? cost[j] : 0.0);
            if (due == kInf) {
                drop();
                continue;
            }
            double paid = 0;
            if (price) paid = paid0 + due;
            else g -= due;
            const double f = g + ahead + room(to.data(), t);
            if (!(f > floor)) {
                drop();
                continue;
            }
            nodes.push_back({g, paid, parent, t, q, j});
            states.insert(states.end(), to.begin(), to.end());
            const double total = price ? paid + price[size_t(t) * fold.Q + q] : 0.0;
            if (total < kInf) queue.push({total, f, t, int32_t(nodes.size() - 1)});
        }
    };

    if (n == 0) push_end(0, 0, fold.final[0] + set.finish(from.data()), -1);
    else expand(-1);
    while (!queue.empty()) {
        const Entry top = queue.top();
        // Half as much again: a vector that grows is there twice, for a moment.
        const size_t bytes = (nodes.size() * node_bytes + queue.size() * sizeof(Entry)) / 2 * 3 + taken.bytes() +
                             taken.bytes_to_grow() + paths.size() * path_bytes;
        if ((most >= 0 && expansions >= most) || nodes.size() > kMostNodes || bytes > memory) {
            bound = top.f;
            return;
        }
        if ((expansions & 63) == 0 || taken.bytes_to_grow() > kLarge || vectors_grow()) {
            if (control.late(taken.seconds_to_grow() + kSecondsPerPath * double(paths.size()) +
                             Control::kSecondsPerByte * double(bytes))) {
                bound = top.f;
                return;
            }
            control.check();
        }
        queue.pop();
        const Node node = nodes[top.node];
        if (node.t == n) {
            ScoredPath best{node.g, std::vector<int32_t>(n)};
            for (int32_t v = node.parent; v >= 0; v = nodes[v].parent) best.path[nodes[v].t] = nodes[v].y;
            paths.push_back(std::move(best));
            if (int(paths.size()) == k) {
                bound = queue.empty() ? -kInf : queue.top().f;
                complete = true;
                return;
            }
            continue;
        }
        Visits& visits = taken(top.node, nodes, states);
        if (price ? node.g <= visits.g : visits.times >= k) continue;
        visits.g = node.g;
        ++visits.times;
        ++expansions;
        if (node.t == n - 1)
            push_end(node.g, node.paid, fold.final[node.q] + set.finish(states.data() + top.node * width), top.node);
        else expand(top.node);
    }
    bound = -kInf;
    complete = true;
}

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

std::vector<ScoredPath> beam(const Trellis& trellis, const Steps& steps, const AutomatonSet& set, int width,
                             const std::vector<Guide>& guides, Control& control) {
    const int n = trellis.n, m = trellis.m;
    const size_t size = set.size() + guides.size();
    const size_t fits = control.memory() / 8 / (sizeof(Hypothesis) * (size_t(n) + 1));
    width = int(std::clamp<size_t>(fits, 1, width));
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
            to[g] = State(fold.plain() ? 0 : fold.next(t, from[g])[j]);
            ahead = std::min(ahead, guides[g].H[(size_t(t) * fold.Q + to[g]) * trellis.width + j]);
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
                if (ahead > -kInf) candidates.push_back({g + ahead, g, ahead, int32_t(b), j});
            }
        }
        std::make_heap(candidates.begin(), candidates.end());
        for (; !candidates.empty(); candidates.pop_back()) {
            std::pop_heap(candidates.begin(), candidates.end());
            const Candidate& c = candidates.back();
            const bool full = int(best.size()) == width;
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
    std::vector<ScoredPath> paths;
    for (const Hypothesis& end : kept[n]) {
        const double cost = set.finish(now.data() + end.states);
        if (cost == kInf) continue;
        std::vector<int32_t>& path = paths.emplace_back(ScoredPath{end.g - cost, std::vector<int32_t>(n)}).path;
        const Hypothesis* at = &end;
        for (int t = n; t > 0; at = &kept[t - 1][at->back], --t) path[t - 1] = at->y;
    }
    std::stable_sort(paths.begin(), paths.end(),
                     [](const ScoredPath& a, const ScoredPath& b) { return a.score > b.score; });
    return paths;
}

}  // namespace bridle
