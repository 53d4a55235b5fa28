// The graph of possible words, or spans, of one sequence, with the rules that are folded into it.
//
//   H[b][q] = max over arcs from b  of  score - cost of reading its label in q + H[end][next state]
//   n + 1 nodes (b)    A arcs (a)    Q states of the fold (q)
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "fold.h"
#include "spans.h"

namespace bridle {

inline constexpr int64_t kMostSpanStates = 1 << 20;
inline constexpr int64_t kMostSpanNodes = int64_t{1} << 30;  // more cannot be numbered
inline constexpr int64_t kSpanBreath = 1 << 16;              // steps between two looks at the clock

// The possible words of one sequence and the rules that are folded into them.
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
        const int64_t row = static_cast<int64_t>(sizeof(double)) * (n_ + 1);  // of H, for a state
        int64_t most =
            std::min(kMostSpanStates, std::max<int64_t>(1, static_cast<int64_t>(control_.memory() / 8 * 3) / row));
        if (max_states >= 0) most = std::min(most, max_states);
        return fold_.build(set, arcs_in_all_, m_, static_cast<int>(most), control_);
    }

    // Fills H; returns the best score, -inf if there is no path.
    virtual double backward() {
        const size_t Q = fold_.Q;
        if (H_.capacity() < (n_ + 1) * Q) lay_out(H_, (n_ + 1) * Q, 0.0, control_);
        else H_.resize((n_ + 1) * Q);
        double* last = H_.data() + n_ * Q;
        for (size_t q = 0; q < Q; ++q) last[q] = -fold_.final[q];
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
    virtual void read(std::vector<int32_t>& path) {
        path.clear();
        for (int b = 0, q = 0; b < n_;) {
            const Arc* best = nullptr;
            double top = -kInf;
            for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc) {
                const double value = ahead(*arc, q);
                if (value > top) top = value, best = arc;
            }
            path.push_back(best->number);
            q = next(*best, q);
            b = best->end;
        }
    }

    // The k best paths by H, best first. False: too many steps to keep in memory.
    bool k_best(int k, std::vector<Found>& found) {
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
        found.clear();
        while (!queue.empty() && static_cast<int>(found.size()) < k) {
            const Entry top = queue.top();
            queue.pop();
            const Node node = nodes[top.node];
            if (node.b == n_) {
                Found& one = found.emplace_back(Found{top.f, {}});
                for (int32_t v = top.node; nodes[v].parent >= 0; v = nodes[v].parent) one.path.push_back(nodes[v].arc);
                std::reverse(one.path.begin(), one.path.end());
                continue;
            }
            if (times[node.b * Q + node.q]++ >= k) continue;
            for (const Arc *arc = begin(node.b), *stop = end(node.b); arc < stop; ++arc) {
                const double f = node.g + ahead(*arc, node.q);
                if (!(f > -kInf)) continue;
                if (nodes.size() >= most) return false;
                queue.push({f, arc->end, static_cast<int32_t>(nodes.size())});
                nodes.push_back(
                    {node.g + arc->score - cost(*arc, node.q), top.node, arc->number, arc->end, next(*arc, node.q)});
            }
            breathe(end(node.b) - begin(node.b) + 1);
        }
        // Scores are sums in another order than H: rounding may have swapped equals.
        std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
        return true;
    }

    int64_t states() const { return fold_.Q; }

  protected:
    struct Arc {
        double score;
        int32_t end, number;
    };
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
    const Arc* begin(int b) const { return arcs_.data() + first_[b]; }
    const Arc* end(int b) const { return arcs_.data() + first_[b + 1]; }
    bool silent(const Arc& arc) const { return label_[arc.number] < 0; }
    int next(const Arc& arc, size_t q) const {
        if (fold_.plain() || silent(arc)) return static_cast<int>(q);
        return fold_.next(arc.number, static_cast<int>(q))[label_[arc.number]];
    }
    double cost(const Arc& arc, size_t q) const {
        if (fold_.plain() || silent(arc)) return 0.0;
        return fold_.cost(arc.number, static_cast<int>(q))[label_[arc.number]];
    }
    double ahead(const Arc& arc, int q) const {  // the best that begins with this arc
        return arc.score - cost(arc, q) + H_[static_cast<size_t>(arc.end) * fold_.Q + next(arc, q)];
    }
    void breathe(int64_t steps) {
        if ((work_ += steps) < kSpanBreath) return;
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

}  // namespace bridle
