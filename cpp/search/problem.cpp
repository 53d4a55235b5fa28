#include "search/problem.h"

#include <algorithm>
#include <bit>
#include <new>

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
    for (const RuleAgreement& a : p.agreements) {
        const Rule& rule = p.rules[a.rule];
        agreements.push_back({a.rule, rule.mode, rule.penalty, a.kinds, a.group + begin, 0, n});
    }
}

void Sequence::expand() {
    constexpr size_t kMostMarks = size_t{1} << 28;
    auto marks = std::make_shared<std::vector<std::vector<uint8_t>>>();
    std::vector<BoundAutomaton> all = automata;
    int number = int(problem->automata.size());
    for (const Agreement& a : agreements) {
        std::vector<std::vector<int64_t>> members;
        for (int64_t k = 0; k < a.count; ++k) {
            if (a.group[k] < 0) continue;
            members.resize(std::max(members.size(), size_t(a.group[k]) + 1));
            members[a.group[k]].push_back(k);
        }
        if (members.size() * size_t(n) > kMostMarks) throw std::bad_alloc();
        for (const std::vector<int64_t>& group : members) {
            if (group.size() < 2) continue;
            std::vector<uint8_t>& row = marks->emplace_back(n, uint8_t{0});
            for (const int64_t k : group) row[k] = 1;
            all.push_back({a.kinds, row.data(), a.mode, a.penalty, a.rule, number++});
        }
    }
    agreements.clear();
    std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.rule < y.rule; });
    for (size_t k = 0; k < all.size(); ++k) all[k].number = int(k);
    automata = std::move(all);
    marks_ = std::move(marks);
}

int64_t count_changes(const Agreement& agreement, const int32_t* path) {
    thread_local std::vector<int32_t> last;
    last.clear();
    int64_t changes = 0;
    for (int64_t k = 0; k < agreement.count; ++k) {
        const int32_t g = agreement.group[k];
        if (g < 0) continue;
        if (size_t(g) >= last.size()) last.resize(size_t(g) + 1, -1);
        const int32_t kind = agreement.kinds->class_of[path[k]];
        changes += last[g] >= 0 && last[g] != kind;
        last[g] = kind;
    }
    return changes;
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
