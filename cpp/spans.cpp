#include "spans.h"

#include <algorithm>
#include <memory>

#include "nested_spans.h"
#include "span_graph.h"

namespace bridle {
namespace {

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
double bound_without_rules(SpanGraph& graph) {
    try {
        graph.fold({}, -1);
        return graph.backward();
    } catch (const Late&) {
        return kInf;
    }
}

// The best path; `violations` are its violations. A bound is the best score under the rules folded in so far.
Answer best(SpanGraph& graph, Lazy& rules, bool lazy, const Options& options, Control& control,
            std::vector<int32_t>& violations, int64_t* counters) {
    Answer out;
    std::vector<int32_t> path;
    try {
        for (out.status = Status::limit;;) {
            control.armed = counters[0] > 0 || !lazy;  // the first path is what there is to show
            if (!graph.fold(rules.active(), options.max_states)) {
                if (!(out.score > -kInf)) out.status = Status::too_large;
                return out;
            }
            ++counters[0];
            counters[1] = graph.states();
            const double relaxed = graph.backward();
            if (!(relaxed > -kInf)) {
                out.status = Status::infeasible;
                out.bound = -kInf;
                return out;
            }
            out.bound = std::min(out.bound, relaxed);
            graph.read(path);
            const double extra = rules.extra(path);
            if (relaxed - extra > out.score)
                out.score = relaxed - extra, out.path = path, violations = rules.violations;
            if (out.score >= out.bound) {
                out.status = Status::optimal;
                out.bound = out.score;  // above it only by rounding
                return out;
            }
            rules.activate_broken();
        }
    } catch (const Late&) {
        control.armed = false;
        if (!(out.score > -kInf)) out.status = Status::nothing_found;
        if (out.bound == kInf) out.bound = bound_without_rules(graph);
        return out;
    }
}

}  // namespace

void run_spans(const SpanBatch& batch, bool lazy, const Options& options, Control& control, const SpanOutputs& out) {
    const size_t n_rules = batch.problem.rules.size();
    const std::unique_ptr<SpanGraph> made =
        batch.extents ? nested_spans(control) : std::make_unique<SpanGraph>(control);
    SpanGraph& graph = *made;
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
        out.status[b] = static_cast<uint8_t>(answer.status);
        if (!(answer.score > -kInf)) continue;
        out.length[b] = static_cast<int32_t>(answer.path.size());
        std::copy(answer.path.begin(), answer.path.end(), out.path + s.begin);
        std::copy(violations.begin(), violations.end(), out.violations + b * n_rules);
    }
}

Status k_best_spans(const SpanBatch& batch, int64_t b, int k, const Options& options, Control& control,
                    std::vector<Found>& found, double& bound) {
    control.begin();
    control.armed = true;
    bound = kInf;
    const Sequence s(batch.problem, b);
    SpanGraph graph(control);
    Lazy rules(batch, s, true);
    graph.load(batch, s);
    try {
        for (bool whole = false; !whole;) {  // the k best under some rules are the k best when they break no other
            found.clear();
            if (!graph.fold(rules.active(), options.max_states)) return Status::too_large;
            bound = std::min(bound, graph.backward());
            if (!(bound > -kInf)) return Status::infeasible;
            if (!graph.k_best(k, found)) return Status::too_large;
            whole = true;
            for (const Found& one : found)
                if (rules.extra(one.path) > 0) whole = false, rules.activate_broken();
        }
    } catch (const Late&) {
        control.armed = false;
        found.clear();
        if (bound == kInf) bound = bound_without_rules(graph);
        return Status::nothing_found;
    }
    return Status::optimal;
}

}  // namespace bridle
