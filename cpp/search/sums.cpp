// Sums over the labellings of batches: sequences with the same automata share a graph (sums_graph.h), and a few at a time are summed
// together (sums_chain.h).
#include "search/sums.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "search/sums_chain.h"
#include "search/sums_graph.h"
#include "simd/flush.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostStates = size_t{1} << 22;
constexpr size_t kMostKept = size_t{1} << 22;  // bytes of a thread's rows between calls
constexpr int kPathCheck = 256;                // positions of a labelling between looks at the clock

// Sequences that share a graph and scores of transitions.
struct Class {
    std::vector<BoundAutomaton> automata;
    PositionKinds kinds;
    bool tied = false;
    std::vector<Lane> lanes;
};

bool has(const std::vector<int>& rules, int r) { return std::find(rules.begin(), rules.end(), r) != rules.end(); }

std::vector<BoundAutomaton> chosen_automata(const Sequence& s, const SumRequest& request) {
    std::vector<BoundAutomaton> out;
    for (const BoundAutomaton& p : s.automata) {
        const bool hard = has(request.hard, p.rule);
        if (!hard && !has(request.soft, p.rule)) continue;
        out.push_back(p);
        if (hard) out.back().mode = Mode::hard;
    }
    return out;
}

// What the marks of a sequence say at each position, as numbers of kinds.
void find_kinds(const std::vector<BoundAutomaton>& automata, int n, std::map<std::vector<uint8_t>, int32_t>& known,
                std::vector<int32_t>& kind) {
    if (std::none_of(automata.begin(), automata.end(), [](const BoundAutomaton& p) { return p.marks; })) {
        known.try_emplace(std::vector<uint8_t>(automata.size(), 0), 0);
        return;
    }
    std::vector<uint8_t> marks(automata.size());
    for (int t = 0; t < n; ++t) {
        for (size_t k = 0; k < automata.size(); ++k) marks[k] = automata[k].marks ? automata[k].marks[t] : 0;
        kind.push_back(known.try_emplace(marks, int32_t(known.size())).first->second);
    }
}

std::vector<Class> classes_of(const std::vector<Sequence>& sequences, const SumRequest& request) {
    std::map<std::vector<int64_t>, size_t> known;
    std::vector<Class> out;
    std::vector<std::map<std::vector<uint8_t>, int32_t>> kinds;
    for (size_t x = 0; x < sequences.size(); ++x) {
        const Sequence& s = sequences[x];
        std::vector<BoundAutomaton> automata = chosen_automata(s, request);
        std::vector<int64_t> key{int64_t(s.head - s.problem->heads.data())};
        bool marked = false;
        for (const BoundAutomaton& p : automata) {
            key.insert(key.end(), {p.automaton->serial, int64_t(p.mode) << 32 | uint32_t(p.rule)});
            marked = marked || p.marks;
        }
        auto [entry, fresh] = known.try_emplace(key, out.size());
        if (!fresh && marked && kinds[entry->second].size() > 32)
            entry->second = out.size(), fresh = true;  // enough kinds
        if (fresh) out.emplace_back().automata = automata, kinds.emplace_back();
        Class& here = out[entry->second];
        Lane lane{&s, {}, x};
        find_kinds(automata, s.n, kinds[entry->second], lane.kind);
        here.tied = here.tied || s.tied;
        here.lanes.push_back(std::move(lane));
    }
    for (size_t c = 0; c < out.size(); ++c) {  // in an order that does not depend on what was met first
        std::vector<int32_t> number(kinds[c].size());
        for (const auto& [marks, k] : kinds[c])
            number[k] = int32_t(out[c].kinds.marks.size()), out[c].kinds.marks.push_back(marks);
        for (Lane& lane : out[c].lanes)
            for (int32_t& k : lane.kind) k = number[k];
        if (out[c].kinds.marks.empty()) out[c].kinds.marks.emplace_back(out[c].automata.size(), uint8_t{0});
        std::stable_sort(out[c].lanes.begin(), out[c].lanes.end(),
                         [](const Lane& a, const Lane& b) { return a.sequence->n > b.sequence->n; });
    }
    return out;
}

std::shared_ptr<const SumGraph> graph_of(const Class& here, const Problem& problem, const SumRequest& request,
                                         Control& control) {
    size_t most = kMostStates;
    if (request.max_states >= 0) most = std::min<size_t>(most, size_t(request.max_states));
    const size_t bytes = control.memory() / 4;
    if (!problem.graphs) return build_graph(here.automata, here.kinds, *problem.tables, most, bytes, control);
    return problem.graphs->find(here.automata, here.kinds, *problem.tables, most, bytes, control);
}

// A sequence without tokens.
double empty_sum(const SumGraph& g, const SumRequest& request, const Problem& problem, double* counts) {
    if (g.empty < 0) return -kInf;
    double cost = 0;
    for (const auto& [rule, count] : g.prices[g.empty]) {
        cost += count * (request.penalties ? request.penalties[rule] : problem.rules[rule].penalty);
        if (counts) counts[rule] += count;
    }
    return -cost;
}

std::vector<Sequence> sequences_of(const Problem& problem, std::span<const int64_t> numbers,
                                   const SumRequest& request) {
    std::vector<Sequence> out;
    out.reserve(numbers.size());
    for (const int64_t b : numbers) {
        Sequence& s = out.emplace_back(problem, b);
        const auto counts = [&](const Agreement& a) { return has(request.hard, a.rule) || has(request.soft, a.rule); };
        if (std::any_of(s.agreements.begin(), s.agreements.end(), counts)) s.expand();
    }
    return out;
}

// The score of a labelling, as factors of the graph have it; counts (R) or null: += how often it violates soft rules.
double score_path(const SumGraph& g, const Factors& factors, const Lane& lane, const SumRequest& request, bool tied,
                  const int32_t* ids, double* counts, Control& control) {
    const Sequence& s = *lane.sequence;
    const Problem& problem = *s.problem;
    if (s.n == 0) return empty_sum(g, request, problem, counts);
    const auto pay = [&](int32_t price) {
        for (const auto& [rule, count] : g.prices[price])
            if (counts) counts[rule] += count;
        return factors.log_price[price];
    };
    Factors step;
    step.logs = true;
    double sum = 0;
    int v = -1;
    for (int t = 0; t < s.n; ++t) {
        if (t % kPathCheck == 0) control.check();
        const int j = g.place[ids[t]], y = ids[t];
        const LaneTarget to =
            t ? g.kinds[lane.kind_at(t)].steps[size_t(g.node_row[v]) * g.m + j] : g.start[lane.kind_at(0)][j];
        const uint64_t* bits = problem.allowed ? problem.allowed + (s.begin + t) * problem.words : nullptr;
        if (to.cell < 0 || (bits && !(bits[y / 64] >> (y % 64) & 1))) return -kInf;
        sum += s.unary(t, y) - raw_top(s, t) + pay(to.price);
        if (t > 0) {
            if (s.head->per_step) use_step(g, s, t, tied, step);
            sum += (s.head->per_step ? step : factors).score[lane.tied_at(t)][size_t(g.node_place[v]) * g.m + j];
        }
        if (sum == -kInf) return sum;
        v = to.cell;
    }
    return g.final[v] < 0 ? -kInf : sum + pay(g.final[v]);
}

// Subtracts the labels and bigrams of a labelling, and what it violates, from what is expected.
void subtract_path(const Lane& lane, const int32_t* ids, const double* violated, const SumOutputs& out) {
    const Sequence& s = *lane.sequence;
    const size_t R = s.problem->rules.size(), m = s.m;
    for (int t = 0; t < s.n; ++t) {
        out.marginals.subtract_one(size_t(s.first + t) * m + ids[t]);
        if (t == 0) continue;
        const size_t cell = size_t(ids[t - 1]) * m + ids[t];
        out.edges.subtract_one(lane.x * m * m + cell);
        if (out.edge_sum) out.edge_sum[cell] -= 1;
    }
    for (size_t r = 0; out.counts && r < R; ++r) out.counts[lane.x * R + r] -= violated[r];
}

// Adds the bigrams in `rows` to edge_sum (m, m).
template <class Real>
void add_edges(const SumGraph& graph, const Factors& factors, const ChainRows<Real>& rows, double* edge_sum) {
    const size_t m = size_t(graph.m), cells = m * m;
    for (int k = 0; k < 2; ++k) {
        const std::vector<Real>& from = rows.edges[k];
        const size_t L = from.size() / cells;
        for (size_t c = 0; L > 0 && c < cells; ++c) {
            double p = 0;
            for (size_t l = 0; l < L; ++l) p += from[c * L + l];
            edge_sum[size_t(graph.label[c / m]) * m + graph.label[c % m]] += p * factors.wide.ahead[k][c];
        }
    }
}
// Sums up lanes, the longest first, as exactly as their scores need: in single precision first if that is good enough for what is
// wanted and there are more of them than vectors of doubles hold.
class LaneSums {
  public:
    LaneSums(const Class& members, const SumGraph& graph, Factors& factors, const SumRequest& request,
             const SumOutputs& out, Control& control)
        : members_(members), graph_(graph), factors_(factors), request_(request), out_(out), control_(control) {
        const Problem& problem = *members.lanes[0].sequence->problem;
        const bool per_step = members.lanes[0].sequence->head->per_step;
        const bool single = problem.unary32 && !out.marginals.f64 && !out.edges.f64 && !out.steps && !out.entropy &&
                            !out.samples && !out.segments && (out.marginals || out.edges || out.edge_sum);
        most_ = per_step ? 1 : lane_kernels<double>().lanes;
        if (single && most_ > 1 && int(members.lanes.size()) > most_)
            most_ = lane_kernels<float>().lanes, single_ = true;
    }

    ~LaneSums() { trim(double_rows_), trim(single_rows_); }
    LaneSums(const LaneSums&) = delete;
    LaneSums& operator=(const LaneSums&) = delete;

    size_t most() const { return size_t(most_); }
    void sum(std::span<const Lane> lanes) {
        const auto doubles = size_t(lane_kernels<double>().lanes);
        std::vector<Lane> again;
        if (single_ && lanes.size() > doubles) {
            again = doubtful(lanes,
                             sum_lanes(graph_, factors_, lanes, members_.tied, request_, out_, single_rows_, control_));
            if (2 * again.size() > lanes.size()) single_ = false;  // the others will be like these
            lanes = again;
        }
        for (size_t low = 0; low < lanes.size(); low += doubles)
            sum_in_double(lanes.subspan(low, std::min(doubles, lanes.size() - low)));
    }
    void finish() {
        if (!out_.edge_sum) return;
        add_edges(graph_, factors_, double_rows_, out_.edge_sum);
        add_edges(graph_, factors_, single_rows_, out_.edge_sum);
    }

  private:
    // The rows of a thread stay for its next call, which saves the time of new pages.
    template <class Real>
    static ChainRows<Real>& rows_of_thread() {
        thread_local ChainRows<Real> rows;
        return rows;
    }
    template <class Real>
    static void trim(ChainRows<Real>& rows) {
        if ((rows.a.size() + rows.u.size()) * sizeof(Real) > kMostKept) rows.a = {}, rows.u = {};
        for (std::vector<Real>& edges : rows.edges) edges.clear();
    }
    void sum_in_double(std::span<const Lane> lanes) {
        const std::vector<Lane> again =
            doubtful(lanes, sum_lanes(graph_, factors_, lanes, members_.tied, request_, out_, double_rows_, control_));
        if (again.empty()) return;
        Factors logs = factors_of(graph_, *lanes[0].sequence, request_, true, members_.tied);
        for (const Lane& lane : again)
            sum_lanes(graph_, logs, std::span(&lane, 1), members_.tied, request_, out_, double_rows_, control_);
    }
    static std::vector<Lane> doubtful(std::span<const Lane> lanes, const std::vector<uint8_t>& flags) {
        std::vector<Lane> out;
        for (size_t l = 0; l < lanes.size(); ++l)
            if (flags[l]) out.push_back(lanes[l]);
        return out;
    }

    const Class& members_;
    const SumGraph& graph_;
    Factors& factors_;
    const SumRequest& request_;
    const SumOutputs& out_;
    Control& control_;
    ChainRows<double>& double_rows_ = rows_of_thread<double>();
    ChainRows<float>& single_rows_ = rows_of_thread<float>();
    int most_;
    bool single_ = false;
};

}  // namespace

void sum_up(const Problem& problem, std::span<const int64_t> numbers, const SumRequest& request, const SumOutputs& out,
            Control& control) {
    const std::vector<Sequence> sequences = sequences_of(problem, numbers, request);
    const FlushToZero flush;
    const size_t R = problem.rules.size(), B = numbers.size();
    std::fill_n(out.log_z, B, kNaN), std::fill_n(out.offset, B, 0.0), std::fill_n(out.error, B, 0.0);
    if (out.counts) std::fill_n(out.counts, B * R, 0.0);
    if (out.entropy) std::fill_n(out.entropy, B, kNaN);
    if (out.gold) std::fill_n(out.gold->score, B, kNaN);
    std::vector<double> violated;
    for (Class& here : classes_of(sequences, request)) {
        const Armed armed(control);
        std::shared_ptr<const SumGraph> graph;
        control.begin();
        control.armed = true;
        if (!control.completes([&] { graph = graph_of(here, problem, request, control); })) continue;
        if (!graph) {
            for (const Lane& lane : here.lanes) out.log_z[lane.x] = kInf;
            continue;
        }
        size_t count = here.lanes.size();
        while (count > 0 && here.lanes[count - 1].sequence->n == 0) {
            const size_t x = here.lanes[--count].x;
            out.log_z[x] = empty_sum(*graph, request, problem, out.counts ? out.counts + x * R : nullptr);
            if (out.gold) out.gold->score[x] = out.log_z[x];
            if (out.entropy) out.entropy[x] = out.log_z[x] > -kInf ? 0.0 : kNaN;
        }
        if (count == 0) continue;
        here.lanes.resize(count);
        Factors factors;
        LaneSums sums(here, *graph, factors, request, out, control);
        for (size_t low = 0; low < count; low += sums.most()) {
            if (low > 0) control.begin(), control.armed = true;
            const std::span lanes(here.lanes.data() + low, std::min(sums.most(), count - low));
            control.completes([&] {
                if (low == 0) factors = factors_of(*graph, *lanes[0].sequence, request, false, here.tied);
                if (out.gold) violated.assign(lanes.size() * R, 0.0);
                for (size_t l = 0; out.gold && l < lanes.size(); ++l) {
                    double& score = out.gold->score[lanes[l].x];
                    score = score_path(*graph, factors, lanes[l], request, here.tied,
                                       out.gold->ids + lanes[l].sequence->begin, &violated[l * R], control);
                    if (out.keep && score == -kInf) out.keep[lanes[l].x] = 0;
                }
                if (graph->V > 0) sums.sum(lanes);
                else
                    for (const Lane& lane : lanes) out.log_z[lane.x] = -kInf;
                for (size_t l = 0; out.gold && l < lanes.size(); ++l)
                    if (out.gold->score[lanes[l].x] > -kInf)
                        subtract_path(lanes[l], out.gold->ids + lanes[l].sequence->begin, &violated[l * R], out);
            });
        }
        sums.finish();
    }
}

void score_paths(const Problem& problem, std::span<const int64_t> numbers, const SumRequest& request,
                 const int32_t* ids, double* score, double* counts, Control& control) {
    const std::vector<Sequence> sequences = sequences_of(problem, numbers, request);
    const size_t R = problem.rules.size(), B = numbers.size();
    std::fill_n(score, B, kNaN);
    if (counts) std::fill_n(counts, B * R, 0.0);
    for (const Class& here : classes_of(sequences, request)) {
        const Armed armed(control);
        control.begin();
        control.armed = true;
        control.completes([&] {
            const std::shared_ptr<const SumGraph> graph = graph_of(here, problem, request, control);
            Factors factors;
            if (graph) factors = factors_of(*graph, *here.lanes[0].sequence, request, true, here.tied);
            for (const Lane& lane : here.lanes)
                score[lane.x] = !graph
                                    ? kInf
                                    : score_path(*graph, factors, lane, request, here.tied, ids + lane.sequence->begin,
                                                 counts ? counts + lane.x * R : nullptr, control);
        });
    }
}

}  // namespace bridle
