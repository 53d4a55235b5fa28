#include "search/instance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "search/shares.h"

namespace bridle {
namespace {

constexpr size_t kTogether = 32;   // automata whose tables fit into the nearest cache
constexpr int kStretch = 1 << 14;  // tokens between two looks at the clock

}  // namespace

void judge(const Sequence& s, const int32_t* path, Verdict& verdict, Control* control) {
    const BoundAutomaton* automata = s.automata.data();
    const size_t count = s.automata.size();
    verdict.states.assign(count, 0);
    verdict.violations.assign(count, 0);
    int32_t *states = verdict.states.data(), *violations = verdict.violations.data();
    for (size_t first = 0; first < count; first += kTogether) {
        const size_t last = std::min(count, first + kTogether);
        for (int from = 0; from < s.n; from += kStretch) {
            if (control && from > 0) control->check();
            for (int t = from; t < std::min(s.n, from + kStretch);
                 ++t)  // side by side: their steps do not wait for each other
                for (size_t k = first; k < last; ++k) {
                    const Move& move = automata[k].read(t, states[k], path[t]);
                    violations[k] += move.violations;
                    states[k] = move.to;
                }
        }
    }
    double cost = 0;
    verdict.hard_violations = 0;
    verdict.broken.clear();
    int paid_rule = -1;
    for (size_t k = 0; k < count; ++k) {
        const BoundAutomaton& p = automata[k];
        violations[k] += p.automaton->final[states[k]];
        if (violations[k] == 0) continue;
        verdict.broken.push_back(int(k));
        if (p.mode == Mode::hard) verdict.hard_violations += violations[k];
        else if (p.mode == Mode::hard_once) verdict.hard_violations += p.rule != std::exchange(paid_rule, p.rule);
        else if (p.mode == Mode::per_violation) cost += p.penalty * violations[k];
        else if (p.rule != paid_rule) cost += p.penalty, paid_rule = p.rule;
    }
    verdict.agrees = true;
    for (const Agreement& a : s.agreements) {
        const int64_t changes = count_changes(a, path + a.first);
        verdict.violations.push_back(int32_t(changes));
        if (changes == 0) continue;
        verdict.agrees = false;
        if (is_hard(a.mode)) verdict.hard_violations += changes;
        else cost += a.penalty * double(a.mode == Mode::per_sequence ? 1 : changes);
    }
    verdict.soft_cost = cost;
    verdict.cost = verdict.hard_violations > 0 ? kInf : cost;
}

namespace {

constexpr size_t kKnownCells = size_t{1} << 21;  // of all tables that are kept
constexpr size_t kTableCells = 2048;             // what a table counts at least: there are at most 1,024

}  // namespace

void MaskedTrellis::load(const Trellis& base, const Steps& plain, const std::vector<BoundAutomaton>& automata,
                         Control& control) {
    const int n = base.n, m = base.m, width = base.width;
    trellis.sequence_ = base.sequence_;
    trellis.n = n, trellis.m = m, trellis.width = width;
    trellis.unary_ = base.unary_;
    trellis.row_.resize(width);
    trellis.w_.assign(width + 2 * kGuard, -kInf);
    trellis.room_.resize(width);
    steps.plain(*base.sequence_);
    bool neighbours = false;
    for (const BoundAutomaton& p : automata) {
        const CountingAutomaton& automaton = *p.automaton;
        const auto ban = [&](int t, int state) {
            double* u = trellis.unary_.data() + size_t(t) * width;
            for (int y = 0; y < m; ++y)
                if (p.read(t, state, y).violations) u[y] = -kInf;
        };
        if (automaton.states == 1)
            for (int t = 0; t < n; ++t) ban(t, 0);
        else ban(0, 0), neighbours = true;
        for (int y = 0; y < m; ++y)
            if (automaton.final[automaton.after(y)]) trellis.unary_[size_t(n - 1) * width + y] = -kInf;
    }
    if (!neighbours) return;
    if (known_.size() * std::max(kTableCells, size_t(m) * m) >
        std::min(kKnownCells, control.memory() / 16 / (2 * sizeof(double))))
        known_.clear();
    tables_.resize(n);
    // Positions whose marks agree share a table; with few automata the marks fit in one number.
    std::vector<BoundAutomaton> marked;
    for (const BoundAutomaton& p : automata)
        if (p.automaton->states > 1 && p.marks) marked.push_back(p);
    std::vector<std::pair<uint64_t, const Table*>> seen;
    for (int t = 1; t < n; ++t) {
        uint64_t marks = plain.tie(t - 1);
        for (const BoundAutomaton& p : marked) marks = marks << 8 | p.marks[t];
        if (marked.size() > 7) {
            tables_[t] = table_to(t, plain, automata, control);
            continue;
        }
        const auto same =
            std::find_if(seen.begin(), seen.end(), [&](const auto& entry) { return entry.first == marks; });
        tables_[t] = same != seen.end() ? same->second : table_to(t, plain, automata, control);
        if (same == seen.end()) seen.emplace_back(marks, tables_[t]);
    }
    steps.tables_ = tables_.data();
}

const Table* MaskedTrellis::table_to(int t, const Steps& plain, const std::vector<BoundAutomaton>& automata,
                                     Control& control) {
    const Table& usual = plain.table(t - 1);
    const int m = trellis.m;
    key_.assign(1, usual.serial());
    held_.clear();
    for (const BoundAutomaton& p : automata) {
        const CountingAutomaton& automaton = *p.automaton;
        const int mark = p.marks ? p.marks[t] : 0;
        const ptrdiff_t cells = ptrdiff_t(automaton.states) * automaton.classes;
        const auto first = automaton.moves.begin() + mark * cells;
        if (automaton.states > 1 &&
            std::any_of(first, first + cells, [](const Move& move) { return move.violations > 0; })) {
            key_.insert(key_.end(), {automaton.serial, mark});
            held_.emplace_back(&automaton, mark);
        }
    }
    if (key_.size() == 1) return &usual;
    if (const auto entry = known_.find(key_); entry != known_.end()) return entry->second.get();
    dense_.resize(size_t(m) * m);
    for (int i = 0; i < m; ++i) {
        if (i % 64 == 63) control.check();
        for (int j = 0; j < m; ++j) {
            double score = usual.at(i, j);
            for (const auto& [automaton, mark] : held_)
                if (automaton->read(mark, automaton->after(i), j).violations) score = -kInf;
            dense_[size_t(i) * m + j] = score;
        }
    }
    auto table = std::make_unique<Table>();
    table->build(m, dense_.data(), nullptr, control);  // may run out of time: only what is whole is kept
    return known_.emplace(key_, std::move(table)).first->second.get();
}

size_t Scratch::bytes() const {
    return fold.bytes() + sizeof(double) * (best_H.capacity() + H.capacity()) + trellis.bytes() +
           masked.trellis.bytes() + (shares ? shares->bytes() : 0);
}

int64_t Instance::expansions_left() const {
    return limits.max_states < 0 ? -1 : std::max<int64_t>(0, limits.max_states - counters.expansions);
}

double Instance::rounding() {
    if (rounding_ < 0) {
        rounding_ = scratch.trellis.rounding(scratch.plain);
        for (const BoundAutomaton& p : sequence.automata)
            rounding_ += std::numeric_limits<double>::epsilon() * (sequence.n + 8) * p.penalty;
    }
    return rounding_;
}

double Instance::tolerance(double score) {
    return std::max(limits.gap, std::min(rounding(), kLargestError * std::max(1.0, std::abs(score))));
}

const Verdict& consider(Instance& instance, const int32_t* path, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    Verdict& verdict = instance.scratch.verdict;
    judge(s, path, verdict, &instance.control);
    const double score = instance.scratch.plain.score(s, path) - verdict.cost;
    if (score > incumbent.score) {
        incumbent.score = score;
        incumbent.path.assign(path, path + s.n);
        incumbent.violations = verdict.violations;
    }
    return verdict;
}

bool proved(Instance& instance, const Incumbent& incumbent) {
    return incumbent.exists() && incumbent.bound <= incumbent.score + instance.tolerance(incumbent.score);
}

Status status_when_finished(const Incumbent& incumbent) {
    return incumbent.exists() ? Status::optimal : Status::infeasible;
}

Status status_when_stopped(Instance& instance, const Incumbent& incumbent) {
    if (proved(instance, incumbent)) return Status::optimal;
    return incumbent.exists() ? Status::limit : Status::nothing_found;
}

Answer to_answer(Incumbent incumbent, Status status) {
    const bool finished = status == Status::optimal || status == Status::infeasible;
    const double bound = finished ? incumbent.score : std::max(incumbent.bound, incumbent.score);
    return {status, incumbent.score, bound, std::move(incumbent.path), std::move(incumbent.violations)};
}

}  // namespace bridle
