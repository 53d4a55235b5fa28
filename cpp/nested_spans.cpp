#include "nested_spans.h"

#include <limits>

namespace bridle {
namespace {

constexpr double kMostWork = 4e9;  // multiplications of one round: a few seconds

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
            slot_[order_[k].number] = static_cast<int32_t>(k);
            const auto found = std::lower_bound(starts_.begin(), starts_.end(), from(order_[k]),
                                                [](const Start& start, int32_t at) { return start.at < at; });
            found->reach = std::max(found->reach, to(order_[k]));
        }
        pairs_ = count_pairs();
    }

    bool fold(std::vector<BoundAutomaton> automata, int64_t max_states) override {
        if (!SpanGraph::fold(std::move(automata), max_states)) return false;
        // W, and what is known of each place: a vector that grows is there twice, and half as large again.
        const double Q = fold_.Q, place = std::max(Q * Q * sizeof(double), Q * (sizeof(double) + sizeof(Step)));
        const double bytes = static_cast<double>(order_.size() + 1) * (Q * Q * sizeof(double) + 3 * place);
        return pairs_ * Q * Q * Q <= kMostWork && bytes <= static_cast<double>(control_.memory()) / 4;
    }

    double backward() override {
        const size_t Q = fold_.Q;
        lay_out(W_, order_.size() * Q * Q, -kInf, control_);
        for (size_t k = starts_.size(); k-- > 0;) learn(starts_[k]);
        if (H_.capacity() < (n_ + 1) * Q) lay_out(H_, (n_ + 1) * Q, 0.0, control_);
        else H_.resize((n_ + 1) * Q);
        for (size_t q = 0; q < Q; ++q) H_[n_ * Q + q] = -fold_.final[q];
        for (int b = n_ - 1; b >= 0; --b) {
            double* here = H_.data() + b * Q;
            std::fill_n(here, Q, -kInf);
            for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc)
                for (size_t q = 0; q < Q; ++q) here[q] = std::max(here[q], follow(*arc, q).value);
            breathe((end(b) - begin(b)) * Q * Q + 1);
        }
        return H_[0];
    }

    void read(std::vector<int32_t>& path) override {
        path.clear();
        for (int b = 0, q = 0; b < n_;) {
            const Arc* best = nullptr;
            Follow top{-kInf, 0};
            for (const Arc *arc = begin(b), *stop = end(b); arc < stop; ++arc) {
                const Follow one = follow(*arc, q);
                if (one.value > top.value) top = one, best = arc;
            }
            if (slot_[best->number] >= 0) read_inside({slot_[best->number], q, top.state}, path);
            else path.push_back(best->number);
            q = top.state;
            b = best->end;
        }
    }

  private:
    struct Start {
        int32_t at, reach;  // where spans start, and the last end of these
    };
    struct Follow {
        double value;   // the best that begins with an arc
        int32_t state;  // in which all that it holds has been read
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
        const auto found = std::upper_bound(order_.begin(), order_.end(), at,
                                            [&](int32_t place, const Arc& a) { return place < to(a); });
        return static_cast<size_t>(found - order_.begin());
    }
    size_t place_of(int32_t at) const {  // the last place at it or before it; place 0 is the start
        return static_cast<size_t>(std::upper_bound(places_.begin() + 1, places_.end(), at) - places_.begin()) - 1;
    }

    Follow follow(const Arc& arc, size_t q) const {
        const size_t Q = fold_.Q;
        if (slot_[arc.number] < 0) return {ahead(arc, static_cast<int>(q)), next(arc, q)};
        const double* w = W_.data() + (slot_[arc.number] * Q + q) * Q;
        const double* there = H_.data() + arc.end * Q;
        Follow best{-kInf, 0};
        for (size_t p = 0; p < Q; ++p)
            if (w[p] + there[p] > best.value) best = {w[p] + there[p], static_cast<int32_t>(p)};
        return best;
    }

    // How many spans lie between each start and the last end of spans from there.
    double count_pairs() const {
        std::vector<int32_t> by_start(order_.size());
        for (size_t k = 0; k < order_.size(); ++k) by_start[k] = static_cast<int32_t>(k);
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
                breathe(static_cast<int64_t>(last - k));
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
    void read_inside(const Chosen& outermost, std::vector<int32_t>& path) {
        todo_.assign(1, outermost);
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
                for (size_t r = 0; r < Q; ++r) steps_.push_back({-1, static_cast<int32_t>(r), places_.size() - 2});
            }
            const size_t at = (places_.size() - 1) * Q;
            for (size_t r = 0; r < Q; ++r)
                for (size_t t = 0; t < Q; ++t) {
                    const double value = best_[before * Q + r] + W_[(k * Q + r) * Q + t];
                    if (!(value > best_[at + t])) continue;
                    best_[at + t] = value;
                    steps_[at + t] = {static_cast<int32_t>(k), static_cast<int32_t>(r), before};
                }
            breathe(Q * Q);
        }
        for (size_t place = places_.size() - 1, state = chosen.after; place > 0;) {
            const Step step = steps_[place * Q + state];
            if (step.arc >= 0) todo_.push_back({step.arc, step.state, static_cast<int32_t>(state)});
            place = step.place;
            state = step.state;
        }
    }

    const int32_t* extents_ = nullptr;  // (A, 2)
    std::vector<Arc> order_;            // spans, by end
    std::vector<int32_t> slot_;         // (A)  the number of an arc in order_, -1: it is no span
    std::vector<Start> starts_;
    double pairs_ = 0;             // products of one round
    std::vector<int32_t> places_;  // of the row at hand: its start, and where spans end
    std::vector<double> row_;      // (places, Q, Q)
    std::vector<double> W_;        // (spans, Q, Q)
    std::vector<double> best_;     // (places, Q)  inside the span that is being read
    std::vector<Step> steps_;      // (places, Q)
    std::vector<Chosen> todo_;     // spans that are chosen and not yet read, the next one last
};

}  // namespace

std::unique_ptr<SpanGraph> nested_spans(Control& control) { return std::make_unique<NestedGraph>(control); }

}  // namespace bridle
