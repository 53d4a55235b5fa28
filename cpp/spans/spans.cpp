#include "spans/spans.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
#include <vector>

#include "search/fold.h"

namespace bridle {
namespace {

constexpr int64_t kMostSpanStates = 1 << 20;
constexpr int64_t kMostSpanNodes = int64_t{1} << 30;  // more cannot be numbered
constexpr int64_t kSpanBreath = 1 << 16;              // steps between two looks at the clock
constexpr double kMostWork = 4e9;                     // multiplications of one round, of spans that nest: a few seconds

// The graph of possible words, or spans, of one sequence, with the rules that are folded into it.
//   H[b][q] = max over arcs from b  of  score - cost of reading its label in q + H[end][next state]
//   n + 1 nodes (b)    A arcs (a)    Q states of the fold (q)
class SpanGraph {
  public:
    explicit SpanGraph(Control& control) : control_(control) {}
    virtual ~SpanGraph() = default;

    virtual void load(const SpanBatch& batch, const Sequence& s) {
        n_ = batch.n[s.b];
        m_ = s.m;
        arcs_in_all_ = s.n;
        label_ = batch.label + s.begin;
        const double* score = batch.problem.unary64 + s.begin;
        const int32_t* span = batch.spans + 2 * s.begin;
        if (in_order(score, span)) return;
        first_.assign(n_ + 2, 0);  // arcs by where they start, in the order they were given
        for (int a = 0; a < s.n; ++a)
            if (score[a] > -kInf) ++first_[span[2 * a] + 2];
        for (int b = 2; b <= n_ + 1; ++b) first_[b] += first_[b - 1];
        arcs_.resize(first_[n_ + 1]);
        for (int a = 0; a < s.n; ++a)
            if (score[a] > -kInf) arcs_[first_[span[2 * a] + 1]++] = {score[a], span[2 * a + 1], a};
    }

    // Folds these automata in. False: too large.
    virtual bool fold(std::vector<BoundAutomaton> automata, int64_t max_states) {
        AutomatonSet set;
        set.assign(std::move(automata));
        const int64_t row = int64_t(sizeof(double)) * (n_ + 1);  // of H, for a state
        int64_t most = std::min(kMostSpanStates, std::max<int64_t>(1, int64_t(control_.memory() / 8 * 3) / row));
        if (max_states >= 0) most = std::min(most, max_states);
        return fold_.build(set, arcs_in_all_, m_, int(most), control_);
    }

    // Fills H; returns the best score, -inf if there is no path.
    virtual double backward() {
        const size_t Q = fold_.Q;
        begin_back();
        for (int b = n_ - 1; b >= 0; --b) {
            double* here = H_.data() + b * Q;
            if (fold_.plain()) {
                double top = -kInf;
                for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc)
                    top = std::max(top, arc->score + H_[arc->end]);
                here[0] = top;
            } else {
                std::fill_n(here, Q, -kInf);
                for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc) {
                    const double* there = H_.data() + arc->end * Q;
                    if (silent(*arc)) {
                        for (size_t q = 0; q < Q; ++q) here[q] = std::max(here[q], arc->score + there[q]);
                        breathe(Q);
                        continue;
                    }
                    for (size_t q = 0; q < Q; ++q)
                        here[q] = std::max(here[q], arc->score - cost(*arc, q) + there[next(*arc, q)]);
                    breathe(Q);
                }
            }
            breathe(end(b) - begin(b) + 1);
        }
        return H_[0];
    }

    // The best path by H.
    void read(std::vector<int32_t>& path) {
        path.clear();
        for (int b = 0, q = 0; b < n_;) {
            const Arc* best = nullptr;
            Follow top{-kInf, 0};
            for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc) {
                const Follow next_arc = follow(*arc, q);
                if (next_arc.value > top.value) top = next_arc, best = arc;
            }
            append(*best, q, top.state, path);
            q = top.state;
            b = best->end;
        }
    }

    // The k best paths by H, best first. False: too many steps to keep in memory.
    bool k_best(int k, std::vector<ScoredPath>& paths) {
        struct Node {
            double g;
            int32_t parent, arc, b, q;
        };
        struct Entry {
            double f;
            int32_t b, node;
            bool operator<(const Entry& other) const { return f < other.f || (f == other.f && b < other.b); }
        };
        const size_t Q = fold_.Q;
        std::vector<Node> nodes{{0.0, -1, -1, 0, 0}};
        std::vector<int32_t> times((n_ + 1) * Q, 0);  // a state that was left k times leads to nothing new
        std::priority_queue<Entry> queue;
        // A vector that grows is there twice, for a moment.
        const size_t most =
            std::min<size_t>(kMostSpanNodes, control_.memory() / 2 / (2 * (sizeof(Node) + sizeof(Entry))));
        if (H_[0] > -kInf) queue.push({H_[0], 0, 0});
        paths.clear();
        while (!queue.empty() && int(paths.size()) < k) {
            const Entry top = queue.top();
            queue.pop();
            const Node node = nodes[top.node];
            if (node.b == n_) {
                std::vector<int32_t>& arcs = paths.emplace_back(ScoredPath{top.f, {}}).path;
                for (int32_t v = top.node; nodes[v].parent >= 0; v = nodes[v].parent) arcs.push_back(nodes[v].arc);
                std::reverse(arcs.begin(), arcs.end());
                continue;
            }
            if (times[node.b * Q + node.q]++ >= k) continue;
            for (const Arc *arc = begin(node.b), *stop = end(node.b); arc < stop; ++arc) {
                const double f = node.g + ahead(*arc, node.q);
                if (!(f > -kInf)) continue;
                if (nodes.size() >= most) return false;
                queue.push({f, arc->end, int32_t(nodes.size())});
                nodes.push_back(
                    {node.g + arc->score - cost(*arc, node.q), top.node, arc->number, arc->end, next(*arc, node.q)});
            }
            breathe(end(node.b) - begin(node.b) + 1);
        }
        // Scores are sums in another order than H: rounding may have swapped equals.
        std::stable_sort(paths.begin(), paths.end(),
                         [](const ScoredPath& a, const ScoredPath& b) { return a.score > b.score; });
        return true;
    }

    int64_t states() const { return fold_.Q; }

  protected:
    struct Arc {
        double score;
        int32_t end, number;
    };
    struct Follow {
        double value;   // the best that begins with an arc
        int32_t state;  // in which all that it holds has been read
    };
    virtual Follow follow(const Arc& arc, size_t q) const { return {ahead(arc, int(q)), next(arc, q)}; }
    // Appends an arc that is read between two states, and what it holds.
    virtual void append(const Arc& arc, int32_t /*before*/, int32_t /*after*/, std::vector<int32_t>& path) {
        path.push_back(arc.number);
    }
    // Takes the arcs as they are if they come by start, as they mostly do; else false.
    bool in_order(const double* score, const int32_t* span) {
        first_.resize(n_ + 2);
        arcs_.resize(arcs_in_all_);
        int b = 0, count = 0;
        first_[0] = 0;
        for (int a = 0; a < arcs_in_all_; ++a) {
            if (!(score[a] > -kInf)) continue;
            if (span[2 * a] < b) return false;
            while (b < span[2 * a]) first_[++b] = count;
            arcs_[count++] = {score[a], span[2 * a + 1], a};
        }
        while (b < n_) first_[++b] = count;
        return true;
    }
    void begin_back() {  // H of the last boundary
        const size_t Q = fold_.Q;
        if (H_.capacity() < (n_ + 1) * Q) lay_out(H_, (n_ + 1) * Q, 0.0, control_);
        else H_.resize((n_ + 1) * Q);
        for (size_t q = 0; q < Q; ++q) H_[n_ * Q + q] = -fold_.final[q];
    }
    const Arc* begin(int b) const { return arcs_.data() + first_[b]; }
    const Arc* end(int b) const { return arcs_.data() + first_[b + 1]; }
    bool silent(const Arc& arc) const { return label_[arc.number] < 0; }
    int next(const Arc& arc, size_t q) const {
        if (fold_.plain() || silent(arc)) return int(q);
        return fold_.next(arc.number, int(q))[label_[arc.number]];
    }
    double cost(const Arc& arc, size_t q) const {
        if (fold_.plain() || silent(arc)) return 0.0;
        return fold_.cost(arc.number, int(q))[label_[arc.number]];
    }
    double ahead(const Arc& arc, int q) const {  // the best that begins with this arc
        return arc.score - cost(arc, q) + H_[size_t(arc.end) * fold_.Q + next(arc, q)];
    }
    void breathe(int64_t steps) {
        work_ += steps;
        if (work_ < kSpanBreath) return;
        work_ = 0;
        control_.check();
    }

    Control& control_;
    int n_ = 0, m_ = 0, arcs_in_all_ = 0;
    int64_t work_ = 0;
    const int32_t* label_ = nullptr;  // (A)
    std::vector<int32_t> first_;      // (n + 2)  arcs that start at b: first_[b] .. first_[b + 1] - 1
    std::vector<Arc> arcs_;           // possible ones, by start
    Fold fold_;
    std::vector<double> H_;  // (n + 1, Q)
};

// Spans that may hold others, with rules folded in.
// A span together with all that may be chosen inside it is one arc from state to state:
//   W[a][q][p] = score[a] - cost of reading a in q + inside(start[a], end[a])[next state][p], a itself left out
//   inside(s, e) = max(inside(s, e'), max over a with end[a] = e, start[a] >= s  of  inside(s, start[a]) x W[a])
// where e' is the place before e, and x is the product of matrices under max and plus. For one s it is a row of matrices,
// one for each place where a span ends; W of the spans that start at s is known when the row has come to their end.
//   H[b][q] = max over spans from b  of  max over p  of  W[a][q][p] + H[end][p], and over other arcs as in a plain graph
class NestedGraph : public SpanGraph {
  public:
    using SpanGraph::SpanGraph;

    void load(const SpanBatch& batch, const Sequence& s) override {
        SpanGraph::load(batch, s);
        extents_ = batch.extents + 2 * s.begin;
        const double* score = batch.problem.unary64 + s.begin;
        order_.clear();
        starts_.clear();
        for (int a = 0; a < s.n; ++a)
            if (label_[a] > 0 && score[a] > -kInf) order_.push_back({score[a], 0, a});
        // By end; of those that end together, the inner ones first.
        std::stable_sort(order_.begin(), order_.end(), [&](const Arc& a, const Arc& b) {
            return to(a) != to(b) ? to(a) < to(b) : from(a) > from(b);
        });
        for (const Arc& a : order_) starts_.push_back({from(a), 0});
        std::sort(starts_.begin(), starts_.end(), [](const Start& a, const Start& b) { return a.at < b.at; });
        starts_.erase(std::unique(starts_.begin(), starts_.end(), [](auto& a, auto& b) { return a.at == b.at; }),
                      starts_.end());
        slot_.assign(s.n, -1);
        for (size_t k = 0; k < order_.size(); ++k) {
            slot_[order_[k].number] = int32_t(k);
            const auto start = std::lower_bound(starts_.begin(), starts_.end(), from(order_[k]),
                                                [](const Start& start, int32_t at) { return start.at < at; });
            start->reach = std::max(start->reach, to(order_[k]));
        }
        pairs_ = count_pairs();
    }

    bool fold(std::vector<BoundAutomaton> automata, int64_t max_states) override {
        if (!SpanGraph::fold(std::move(automata), max_states)) return false;
        // W, and what is known of each place: a vector that grows is there twice, and half as large again.
        const double Q = fold_.Q, place = std::max(Q * Q * sizeof(double), Q * (sizeof(double) + sizeof(Step)));
        const double bytes = double(order_.size() + 1) * (Q * Q * sizeof(double) + 3 * place);
        return pairs_ * Q * Q * Q <= kMostWork && bytes <= double(control_.memory()) / 4;
    }

    double backward() override {
        const size_t Q = fold_.Q;
        lay_out(W_, order_.size() * Q * Q, -kInf, control_);
        for (size_t k = starts_.size(); k-- > 0;) learn(starts_[k]);
        begin_back();
        for (int b = n_ - 1; b >= 0; --b) {
            double* here = H_.data() + b * Q;
            std::fill_n(here, Q, -kInf);
            for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc)
                for (size_t q = 0; q < Q; ++q) here[q] = std::max(here[q], follow(*arc, q).value);
            breathe((end(b) - begin(b)) * Q * Q + 1);
        }
        return H_[0];
    }

  private:
    struct Start {
        int32_t at, reach;  // where spans start, and the last end of these
    };
    struct Chosen {  // a span (a number of order_), and the states before and after all that it holds
        int32_t arc, before, after;
    };
    struct Step {            // of the best way to a state at a place
        int32_t arc, state;  // the last span (a number of order_; -1: none) and the state before it
        size_t place;        // the place where it starts
    };

    int32_t from(const Arc& a) const { return extents_[2 * a.number]; }
    int32_t to(const Arc& a) const { return extents_[2 * a.number + 1]; }
    size_t first_after(int32_t at) const {  // the first span that ends after it
        const auto after = std::upper_bound(order_.begin(), order_.end(), at,
                                            [&](int32_t place, const Arc& a) { return place < to(a); });
        return size_t(after - order_.begin());
    }
    size_t place_of(int32_t at) const {  // the last place at it or before it; place 0 is the start
        return size_t(std::upper_bound(places_.begin() + 1, places_.end(), at) - places_.begin()) - 1;
    }

    Follow follow(const Arc& arc, size_t q) const override {
        const size_t Q = fold_.Q;
        if (slot_[arc.number] < 0) return SpanGraph::follow(arc, q);
        const double* w = W_.data() + (slot_[arc.number] * Q + q) * Q;
        const double* there = H_.data() + arc.end * Q;
        Follow best{-kInf, 0};
        for (size_t p = 0; p < Q; ++p)
            if (w[p] + there[p] > best.value) best = {w[p] + there[p], int32_t(p)};
        return best;
    }

    // How many spans lie between each start and the last end of spans from there.
    double count_pairs() const {
        std::vector<int32_t> by_start(order_.size());
        for (size_t k = 0; k < order_.size(); ++k) by_start[k] = int32_t(k);
        std::sort(by_start.begin(), by_start.end(),
                  [&](int32_t a, int32_t b) { return from(order_[a]) < from(order_[b]); });
        std::vector<int32_t> counts(order_.size() + 1,
                                    0);  // a Fenwick tree over order_: spans that start there or later
        double pairs = 0;
        for (size_t s = starts_.size(), k = by_start.size(); s-- > 0;) {
            for (; k > 0 && from(order_[by_start[k - 1]]) >= starts_[s].at; --k)
                for (size_t i = by_start[k - 1] + 1; i < counts.size(); i += i & (~i + 1)) ++counts[i];
            for (size_t i = first_after(starts_[s].reach); i > 0; i -= i & (~i + 1)) pairs += counts[i];
        }
        return pairs;
    }

    // W of all spans that start there.
    void learn(const Start& start) {
        const size_t Q = fold_.Q, square = Q * Q;
        places_.assign(1, start.at);
        row_.assign(square, -kInf);
        for (size_t q = 0; q < Q; ++q) row_[q * Q + q] = 0.0;
        for (size_t k = first_after(start.at); k < order_.size() && to(order_[k]) <= start.reach;) {
            size_t last = k;  // spans that are equal see the same inside
            while (last < order_.size() && to(order_[last]) == to(order_[k]) && from(order_[last]) == from(order_[k]))
                ++last;
            if (from(order_[k]) < start.at) {
                breathe(int64_t(last - k));
                k = last;
                continue;
            }
            if (from(order_[k]) == start.at)
                for (size_t j = k; j < last; ++j) enter(j, row_.data() + (places_.size() - 1) * square);
            const size_t before = place_of(from(order_[k]));
            if (places_.back() < to(order_[k])) {
                places_.push_back(to(order_[k]));
                row_.resize(row_.size() + square);
                std::copy_n(row_.end() - 2 * square, square, row_.end() - square);
            }
            double* here = row_.data() + (places_.size() - 1) * square;
            for (; k < last; ++k) multiply(row_.data() + before * square, W_.data() + k * square, here);
        }
    }

    // W of one span, from what may be chosen inside it.
    void enter(size_t k, const double* inside) {
        const size_t Q = fold_.Q;
        for (size_t q = 0; q < Q; ++q) {
            const double gain = order_[k].score - cost(order_[k], q);
            if (!(gain > -kInf)) continue;
            const double* from_state = inside + next(order_[k], q) * Q;
            for (size_t p = 0; p < Q; ++p) W_[(k * Q + q) * Q + p] = gain + from_state[p];
        }
    }

    void multiply(const double* left, const double* right, double* into) {
        const size_t Q = fold_.Q;
        for (size_t q = 0; q < Q; ++q)
            for (size_t r = 0; r < Q; ++r) {
                const double first = left[q * Q + r];
                if (!(first > -kInf)) continue;
                for (size_t p = 0; p < Q; ++p) into[q * Q + p] = std::max(into[q * Q + p], first + right[r * Q + p]);
            }
        breathe(Q * Q * Q);
    }

    // A span and what is chosen inside it, outer ones first. Spans may lie in one another a thousand deep: no recursion.
    void append(const Arc& arc, int32_t before, int32_t after, std::vector<int32_t>& path) override {
        if (slot_[arc.number] < 0) return path.push_back(arc.number);
        todo_.assign(1, Chosen{slot_[arc.number], before, after});
        while (!todo_.empty()) {
            const Chosen holder = todo_.back();
            todo_.pop_back();
            path.push_back(order_[holder.arc].number);
            open(holder);
        }
    }

    // Puts what is chosen directly inside a span on the list, the first one last.
    void open(const Chosen& chosen) {
        const size_t Q = fold_.Q;
        const Arc& holder = order_[chosen.arc];
        const int32_t start = from(holder), stop = to(holder);
        places_.assign(1, start);
        best_.assign(Q, -kInf);
        steps_.assign(Q, {-1, -1, 0});
        best_[next(holder, chosen.before)] = 0.0;
        for (size_t k = first_after(start); k < order_.size() && to(order_[k]) <= stop; ++k) {
            breathe(1);
            if (from(order_[k]) < start || (from(order_[k]) == start && to(order_[k]) == stop)) continue;
            const size_t before = place_of(from(order_[k]));
            if (places_.back() < to(order_[k])) {
                places_.push_back(to(order_[k]));
                best_.resize(best_.size() + Q);
                std::copy_n(best_.end() - 2 * Q, Q, best_.end() - Q);
                for (size_t r = 0; r < Q; ++r) steps_.push_back({-1, int32_t(r), places_.size() - 2});
            }
            const size_t at = (places_.size() - 1) * Q;
            for (size_t r = 0; r < Q; ++r)
                for (size_t t = 0; t < Q; ++t) {
                    const double value = best_[before * Q + r] + W_[(k * Q + r) * Q + t];
                    if (!(value > best_[at + t])) continue;
                    best_[at + t] = value;
                    steps_[at + t] = {int32_t(k), int32_t(r), before};
                }
            breathe(Q * Q);
        }
        for (size_t place = places_.size() - 1, state = chosen.after; place > 0;) {
            const Step step = steps_[place * Q + state];
            if (step.arc >= 0) todo_.push_back({step.arc, step.state, int32_t(state)});
            place = step.place;
            state = step.state;
        }
    }

    const int32_t* extents_ = nullptr;  // (A, 2)
    std::vector<Arc> order_;            // spans, by end
    std::vector<int32_t> slot_;         // (A)  the number of an arc in order_, -1: not a span
    std::vector<Start> starts_;
    double pairs_ = 0;             // products of one round
    std::vector<int32_t> places_;  // of the row at hand: its start, and where spans end
    std::vector<double> row_;      // (places, Q, Q)
    std::vector<double> W_;        // (spans, Q, Q)
    std::vector<double> best_;     // (places, Q)  inside the span that is being read
    std::vector<Step> steps_;      // (places, Q)
    std::vector<Chosen> todo_;     // spans that are chosen and not yet read, the next one last
};

// The rules that are folded in, and what the others say of a path.
class Lazy {
  public:
    Lazy(const SpanBatch& batch, const Sequence& s, bool lazy)
        : s_(s), rules_(batch.problem.rules), label_(batch.label + s.begin), active_(rules_.size(), !lazy) {}

    std::vector<BoundAutomaton> active() const {
        std::vector<BoundAutomaton> out;
        for (const BoundAutomaton& p : s_.automata)
            if (active_[p.rule]) out.push_back(p);
        return out;
    }
    // Violations of each rule by a path; returns what the rules that are not folded in cost, +inf if a hard one breaks.
    double extra(const std::vector<int32_t>& path) {
        violations.assign(rules_.size(), 0);
        for (const BoundAutomaton& p : s_.automata) {
            int state = 0;
            for (const int32_t a : path) {
                if (label_[a] < 0) continue;
                const Move& move = p.read(a, state, label_[a]);
                violations[p.rule] += move.violations;
                state = move.to;
            }
            violations[p.rule] += p.automaton->final[state];
        }
        double sum = 0;
        for (size_t r = 0; r < rules_.size(); ++r)
            if (violations[r] && !active_[r]) sum += price(r);
        return sum;
    }
    void activate_broken() {  // by the path that was asked about last
        for (size_t r = 0; r < rules_.size(); ++r)
            if (violations[r] && price(r) > 0) active_[r] = true;
    }
    std::vector<int32_t> violations;  // (rules)

  private:
    double price(size_t r) const {
        if (rules_[r].mode == Mode::hard) return kInf;
        return rules_[r].penalty * (rules_[r].mode == Mode::per_violation ? violations[r] : 1);
    }
    const Sequence& s_;
    const std::span<const Rule> rules_;
    const int32_t* label_;
    std::vector<char> active_;  // (rules)
};

// What no path exceeds; +inf if even that takes too long.
double bound_without_rules(SpanGraph& graph, Control& control) {
    double bound = kInf;
    control.completes([&] {
        graph.fold({}, -1);
        bound = graph.backward();
    });
    return bound;
}

// The best path; `violations` are its violations. A bound is the best score under the rules folded in so far.
Answer best(SpanGraph& graph, Lazy& rules, bool lazy, const Options& options, Control& control,
            std::vector<int32_t>& violations, int64_t* counters) {
    Answer out;
    std::vector<int32_t> path;
    const bool finished = control.completes([&] {
        for (out.status = Status::limit;;) {
            control.armed = counters[0] > 0 || !lazy;  // the first path is what there is to show
            if (!graph.fold(rules.active(), options.max_states)) {
                if (!(out.score > -kInf)) out.status = Status::too_large;
                return;
            }
            ++counters[0];
            counters[1] = graph.states();
            const double relaxed = graph.backward();
            if (!(relaxed > -kInf)) {
                out.status = Status::infeasible;
                out.bound = -kInf;
                return;
            }
            out.bound = std::min(out.bound, relaxed);
            graph.read(path);
            const double extra = rules.extra(path);
            if (relaxed - extra > out.score)
                out.score = relaxed - extra, out.path = path, violations = rules.violations;
            if (out.score >= out.bound) {
                out.status = Status::optimal;
                out.bound = out.score;  // above it only by rounding
                return;
            }
            rules.activate_broken();
        }
    });
    if (finished) return out;
    control.armed = false;
    if (!(out.score > -kInf)) out.status = Status::nothing_found;
    if (out.bound == kInf) out.bound = bound_without_rules(graph, control);
    return out;
}

}  // namespace

void run_spans(const SpanBatch& batch, bool lazy, const Options& options, Control& control, const SpanOutputs& out) {
    const size_t n_rules = batch.problem.rules.size();
    const std::unique_ptr<SpanGraph> owner =
        batch.extents ? std::make_unique<NestedGraph>(control) : std::make_unique<SpanGraph>(control);
    SpanGraph& graph = *owner;
    std::vector<int32_t> violations;
    for (int64_t b = 0; b < batch.problem.B; ++b) {
        control.begin();
        control.check();
        const Sequence s(batch.problem, b);
        Lazy rules(batch, s, lazy);
        graph.load(batch, s);
        const Answer answer = best(graph, rules, lazy, options, control, violations, out.counters + b * kCounters);
        out.score[b] = answer.score;
        out.bound[b] = answer.bound;
        out.status[b] = uint8_t(answer.status);
        if (!(answer.score > -kInf)) continue;
        out.length[b] = int32_t(answer.path.size());
        std::copy(answer.path.begin(), answer.path.end(), out.path + s.begin);
        std::copy(violations.begin(), violations.end(), out.violations + b * n_rules);
    }
}

Status k_best_spans(const SpanBatch& batch, int64_t b, int k, const Options& options, Control& control,
                    std::vector<ScoredPath>& paths, double& bound) {
    control.begin();
    control.armed = true;
    bound = kInf;
    const Sequence s(batch.problem, b);
    SpanGraph graph(control);
    Lazy rules(batch, s, true);
    graph.load(batch, s);
    // The k best under some rules are the k best when they break no other.
    const auto fold_until_none_breaks = [&]() -> Status {
        for (;;) {
            paths.clear();
            if (!graph.fold(rules.active(), options.max_states)) return Status::too_large;
            bound = std::min(bound, graph.backward());
            if (!(bound > -kInf)) return Status::infeasible;
            if (!graph.k_best(k, paths)) return Status::too_large;
            bool broken = false;
            for (const ScoredPath& path : paths)
                if (rules.extra(path.path) > 0) broken = true, rules.activate_broken();
            if (!broken) return Status::optimal;
        }
    };
    Status status;
    if (control.completes([&] { status = fold_until_none_breaks(); })) return status;
    control.armed = false;
    paths.clear();
    if (bound == kInf) bound = bound_without_rules(graph, control);
    return Status::nothing_found;
}

}  // namespace bridle
