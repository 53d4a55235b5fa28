#include "search/problem.h"

#include <algorithm>
#include <bit>

namespace bridle {

void CountingAutomaton::find_local() {
    after_class.resize(classes);
    for (int c = 0; c < classes; ++c) after_class[c] = moves[c].to;
    for (size_t c = 0; c < moves.size(); ++c)
        if (moves[c].to != after_class[c % classes]) return after_class.clear();
}

Sequence::Sequence(const Problem& p, int64_t b)
    : problem(&p),
      b(b),
      begin(p.offsets[b]),
      first(p.first ? p.first[b] : begin),
      n(int(p.offsets[b + 1] - p.offsets[b])),
      m(p.m),
      head(&p.heads[p.head_of ? p.head_of[b] : 0]),
      tied(p.tied ? p.tied + begin : nullptr) {
    automata.reserve(p.automata.size());
    for (size_t k = 0; k < p.automata.size(); ++k) {
        const RuleAutomaton& part = p.automata[k];
        const CountingAutomaton* automaton = part.automaton[part.automaton.size() == 1 ? 0 : b];
        if (!automaton) continue;
        const Rule& rule = p.rules[part.rule];
        automata.push_back(
            {automaton, part.marks ? part.marks + begin : nullptr, rule.mode, rule.penalty, part.rule, int(k)});
    }
}

void Sequence::row(int t, double* out) const {
    const Problem& p = *problem;
    const int64_t at = begin + t;
    if (p.unary32) {
        const float* u = p.unary32 + (first + t) * m;
        for (int y = 0; y < m; ++y) out[y] = u[y];
    } else {
        const double* u = p.unary64 + (first + t) * m;
        std::copy_n(u, m, out);
    }
    if (t == 0 && !head->start.empty())
        for (int y = 0; y < m; ++y) out[y] += head->start[y];
    if (t == n - 1 && !head->end.empty())
        for (int y = 0; y < m; ++y) out[y] += head->end[y];
    if (p.allowed) {
        const uint64_t* bits = p.allowed + at * p.words;
        for (int w = 0; w < p.words; ++w) {  // most tokens allow everything
            const int low = w * 64, count = std::min(64, m - low);
            uint64_t banned = ~bits[w] & (~uint64_t{0} >> (64 - count));
            for (; banned; banned &= banned - 1) out[low + std::countr_zero(banned)] = -kInf;
        }
    }
}

double Sequence::unary(int t, int y) const {
    const int64_t at = (first + t) * m + y;
    double score = problem->unary32 ? problem->unary32[at] : problem->unary64[at];
    if (t == 0 && !head->start.empty()) score += head->start[y];
    if (t == n - 1 && !head->end.empty()) score += head->end[y];
    return score;
}

RawScores Sequence::raw() const {
    const Problem& p = *problem;
    const auto data = [](const std::vector<double>& x) { return x.empty() ? nullptr : x.data(); };
    return {.f32 = p.unary32 ? p.unary32 + first * m : nullptr,
            .f64 = p.unary64 ? p.unary64 + first * m : nullptr,
            .n = n,
            .m = m,
            .width = padded(m),
            .start = data(head->start),
            .end = data(head->end),
            .allowed = p.allowed ? p.allowed + begin * p.words : nullptr,
            .words = p.words,
            .tied = tied,
            .tables = {&head->tables->free.view(), &head->tables->tied.view()}};
}

void AutomatonSet::assign(std::vector<BoundAutomaton> members) {
    automata = std::move(members);
    const int count = size();
    until_.assign(count, 0);
    group_.assign(count, 0);
    for (int k = 0; k < count; ++k) {
        const bool joins = k > 0 && automata[k].mode == Mode::per_sequence && automata[k].rule == automata[k - 1].rule;
        group_[k] = joins ? group_[k - 1] : k;
    }
    for (int k = count - 1; k >= 0; --k)
        until_[k] = k + 1 < count && group_[k + 1] == group_[k] ? until_[k + 1] : k + 1;
}

}  // namespace bridle
