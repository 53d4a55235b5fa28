#include "search/priced.h"

#include <algorithm>
#include <memory>

namespace bridle {
namespace {

constexpr int kFewStates = 8;
constexpr size_t kMostCells = size_t{1} << 22;  // of transitions that differ by position

// Do the marks of the steps between tokens differ?
bool differs_by_position(const Sequence& s, const BoundAutomaton& p) {
    return p.marks && std::any_of(p.marks + 1, p.marks + s.n, [&](uint8_t mark) { return mark != p.marks[1]; });
}

}  // namespace

PricedSequence::PricedSequence(const Sequence& s, bool relaxed, Control& control)
    : base_(s), relaxed_(relaxed), offsets_{0, s.n}, priced_(s) {
    const size_t n = s.n, m = s.m, square = m * m;
    const bool per_step = s.head->per_step;
    const std::vector<double>& mask = s.problem->tables->free_mask;
    bool any = per_step || (s.head->tables && !s.head->tables->free.view().flat), differ = per_step;
    for (const BoundAutomaton& p : s.automata)
        if (on_scores(p) && p.automaton->states > 1) any = true, differ = differ || differs_by_position(s, p);
    steps_ = n < 2 || !any ? 0 : differ ? n - 1 : 1;

    scores_.unary.resize(n * m);
    for (size_t t = 0; t < n; ++t) {
        if (t % 4096 == 4095) control.check();
        s.row(int(t), scores_.unary.data() + t * m);
    }
    scores_.pairwise.assign(steps_ * square, 0.0);
    for (size_t t = 0; t < steps_; ++t) {
        control.check();
        double* into = scores_.pairwise.data() + t * square;
        for (size_t c = 0; c < square; ++c)
            into[c] = per_step ? s.head->pairwise[t * square + c] + (mask.empty() ? 0.0 : mask[c])
                               : s.head->tables->free.at(int(c / m), int(c % m));
    }
    hard_.unary.assign(n * m, 0.0), hard_.pairwise.assign(steps_ * square, 0.0);
    for (const BoundAutomaton& p : s.automata) {
        control.check();
        if (!on_scores(p)) others_.push_back(p);
        else if (p.mode == Mode::hard) count(p, 1.0, hard_);
        else count(p, -p.penalty, scores_);
    }
    problem_.m = s.m, problem_.B = 1, problem_.N = s.n, problem_.offsets = offsets_;
    problem_.groups = s.problem->groups, problem_.tables = s.problem->tables;
    problem_.heads.emplace_back();
    priced_.problem = &problem_, priced_.head = &problem_.heads[0];
    priced_.b = priced_.begin = priced_.first = 0;
    priced_.tied = nullptr;
}

bool PricedSequence::fits(const Sequence& s, const BoundAutomaton& p) {
    if (p.mode == Mode::per_sequence || p.mode == Mode::hard_once || !p.automaton->local() || s.n == 0) return false;
    if (p.automaton->states == 1) return true;
    if (s.m > kMostSquare || s.tied) return false;
    // Transitions that differ by position slow everything down: worth it only where the automaton would be large.
    if (s.head->per_step || !differs_by_position(s, p)) return true;
    return p.automaton->states > kFewStates && size_t(s.m) * s.m * s.n <= kMostCells;
}

void PricedSequence::count(const BoundAutomaton& p, double each, Counts& counts) const {
    const CountingAutomaton& automaton = *p.automaton;
    const int n = base_.n, m = base_.m, S = automaton.states, C = automaton.classes;
    std::vector<char> charges(size_t(automaton.marks) * S,
                              0);  // does a state charge for any label at all?
    for (size_t c = 0; c < automaton.moves.size(); ++c) charges[c / C] |= automaton.moves[c].violations > 0;
    const auto charge = [&](int64_t t, int state, double* into) {  // for each label that is read there at t
        if (!charges[size_t(p.marks ? p.marks[t] : 0) * S + state]) return;
        for (int y = 0; y < m; ++y) into[y] += each * p.read(t, state, y).violations;
    };
    double* unary = counts.unary.data();
    for (int t = 0; t < (S == 1 ? n : 1); ++t) charge(t, 0, unary + size_t(t) * m);
    double* last = unary + size_t(n - 1) * m;
    for (int y = 0; y < m; ++y) last[y] += each * automaton.final[automaton.after(y)];
    if (S == 1) return;
    for (size_t k = 0; k < steps_; ++k)  // the step from position k to k + 1
        for (int i = 0; i < m; ++i)
            charge(int64_t(k) + 1, automaton.after(i), counts.pairwise.data() + (k * m + i) * m);
}

const Sequence& PricedSequence::at(double price, Control& control) { return priced_at(price, true, control); }

const Sequence& PricedSequence::counted(Control& control) { return priced_at(1.0, false, control); }

const Sequence& PricedSequence::priced_at(double price, bool scored, Control& control) {
    const auto add = [&](const std::vector<double>& scores, const std::vector<double>& hard, std::vector<double>& out) {
        out.resize(scores.size());
        for (size_t c = 0; c < out.size(); ++c)
            out[c] = (scored || scores[c] == -kInf ? scores[c] : 0.0) - price * hard[c];
    };
    add(scores_.unary, hard_.unary, unary_);
    add(scores_.pairwise, hard_.pairwise, pairwise_);
    problem_.unary64 = unary_.data();
    Head& head = problem_.heads[0];
    head.per_step = steps_ > 1;
    head.pairwise = steps_ ? pairwise_.data() : nullptr;
    head.tables.reset();
    if (!head.per_step) {
        auto tables = std::make_shared<Tables>();
        tables->free.build(base_.m, head.pairwise, nullptr, control);
        head.tables = std::move(tables);
    }
    rules_.assign(base_.problem->rules.begin(), base_.problem->rules.end());
    for (Rule& rule : rules_)
        if (is_hard(rule.mode) && relaxed_)
            rule = {rule.mode == Mode::hard ? Mode::per_violation : Mode::per_sequence, price};
    problem_.rules = rules_;
    priced_.automata.clear();
    for (BoundAutomaton p : others_) {
        if (!is_hard(p.mode) && !scored) continue;
        p.mode = rules_[p.rule].mode, p.penalty = rules_[p.rule].penalty;
        priced_.automata.push_back(p);
    }
    priced_.agreements.clear();
    for (Agreement a : base_.agreements) {
        if (!is_hard(a.mode) && !scored) continue;
        a.mode = rules_[a.rule].mode, a.penalty = rules_[a.rule].penalty;
        priced_.agreements.push_back(a);
    }
    return priced_;
}

}  // namespace bridle
