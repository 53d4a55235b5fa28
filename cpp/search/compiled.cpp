#include "search/compiled.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace bridle {
namespace {

constexpr size_t kMostMarks = 256;  // of one automaton

std::vector<uint64_t> distinct(std::span<const uint64_t> marks) {  // sorted, 0 among them
    std::vector<uint64_t> out(marks.begin(), marks.end());
    out.push_back(0);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

size_t bytes_of(const CountingAutomaton& a) {
    return sizeof a + sizeof(Move) * a.moves.size() + sizeof(uint16_t) * a.class_of.size() + a.edges.size();
}

}  // namespace

size_t Choice::bytes() const {
    size_t sum = sizeof *this + sizeof(uint64_t) * (token.size() + first.size() + last.size());
    for (const CountingAutomaton* a : automata) sum += bytes_of(*a);
    return sum;
}

size_t CompiledRules::bytes() const {
    size_t sum = sizeof *this + tables.bytes() + searches.bytes();
    for (const RuleAutomaton& rule : automata)
        for (const CountingAutomaton* a : rule.automaton)
            if (a) sum += bytes_of(*a);
    return sum;
}

void DependentRules::add(DependentRule rule) {
    const int d = int(rules.size());
    for (size_t k = 0; k < rule.places.size(); ++k) {
        const RulePlace& place = rule.places[k];
        if (!place.of_tokens()) continue;
        for (const int condition : {place.here, place.after, place.before}) {
            if (condition < 0) continue;
            const size_t size = std::max(users.size(), size_t(condition) + 1);
            users.resize(size);
            remembered.resize(size);
            if (!place.alone()) remembered[condition] = 1;
        }
        (place.alone() ? users[place.here] : contexts).push_back({d, int(k)});
    }
    rules.push_back(std::move(rule));
}

Problem problem_of(CompiledRules& rules, const BoundRules* bound) {
    Problem problem;
    problem.m = rules.tables.m;
    problem.tables = &rules.tables;
    problem.graphs = &rules.graphs;
    problem.groups = &rules.groups;
    problem.searches = &rules.searches;
    problem.rules = rules.rules;
    problem.automata = rules.automata;
    if (!bound) return problem;
    problem.automata = bound->automata;
    problem.agreements = bound->agreements;
    problem.words = bound->words;
    problem.allowed = bound->allowed.empty() ? nullptr : bound->allowed.data();
    problem.tied = bound->tied.empty() ? nullptr : bound->tied.data();
    return problem;
}

Binder::Binder(const CompiledRules& rules, std::span<const int64_t> offsets, GivenValues& given)
    : dependent_(rules.dependent),
      automata_(rules.automata),
      offsets_(offsets),
      B_(int64_t(offsets.size()) - 1),
      N_(offsets.back()),
      given_(given),
      bindings_(dependent_.rules.size()),
      failed_(B_, 0),
      holds_(dependent_.users.size()) {
    bound_.words = (rules.tables.m + 63) / 64;
    bool masked = !dependent_.base.empty(), tied = false;
    for (size_t d = 0; d < bindings_.size(); ++d) {
        const DependentRule& rule = dependent_.rules[d];
        masked = masked || rule.kind == DependentRule::mask;
        tied = tied || rule.kind == DependentRule::tied;
        if (rule.named) bindings_[d].choice.resize(B_);
        if (rule.kind == DependentRule::agreement) bindings_[d].groups.assign(N_, -1);
        if (rule.kind != DependentRule::automata || rule.places.empty()) continue;
        if (rule.few()) bindings_[d].marks.assign(N_, 0);
        else bindings_[d].wide.assign(N_, 0);
    }
    if (masked) {
        std::vector<uint64_t> row = dependent_.base;
        if (row.empty()) row.assign(bound_.words, ~uint64_t{0});
        bound_.allowed.resize(size_t(N_) * bound_.words);
        for (int64_t t = 0; t < N_; ++t) std::copy(row.begin(), row.end(), bound_.allowed.begin() + t * bound_.words);
    }
    if (tied) bound_.tied.assign(N_, 0);
}

void Binder::bind(int64_t b) {
    given_.begin(b);
    const bool bound = given_.attempt(b, [this, b] {
        for (size_t d = 0; d < bindings_.size(); ++d) bind_rule(d, b);
        if (!dependent_.users.empty()) bind_conditions(b);
    });
    if (!bound) leave(b);
}

// A sequence that could not be bound has no rules that come with it.
void Binder::leave(int64_t b) {
    failed_[b] = 1;
    for (Binding& binding : bindings_) {
        if (!binding.choice.empty()) binding.choice[b] = std::make_shared<const Choice>();
        if (!binding.wide.empty())
            std::fill(binding.wide.begin() + offsets_[b], binding.wide.begin() + offsets_[b + 1], 0);
        if (!binding.groups.empty())
            std::fill(binding.groups.begin() + offsets_[b], binding.groups.begin() + offsets_[b + 1], -1);
    }
}

void Binder::bind_rule(size_t d, int64_t b) {
    const DependentRule& rule = dependent_.rules[d];
    Binding& binding = bindings_[d];
    const Choice* choice = nullptr;
    if (rule.kind == DependentRule::automata && !rule.few()) {
        // which automata it needs is known when all marks are
    } else if (rule.named) {
        binding.choice[b] = given_.choice(d);
        choice = binding.choice[b].get();
    } else if (rule.kind != DependentRule::tied) {
        if (!binding.same) binding.same = given_.choice(d);
        choice = binding.same.get();
    }
    const int n = length(b);
    if (rule.kind == DependentRule::mask && rule.places.empty() && n > 0) {
        for (int64_t t = offsets_[b]; t < offsets_[b + 1] && !choice->token.empty(); ++t) narrow(t, choice->token);
        if (!choice->first.empty()) narrow(offsets_[b], choice->first);
        if (!choice->last.empty()) narrow(offsets_[b + 1] - 1, choice->last);
    }
    if (rule.kind == DependentRule::agreement) given_.find_groups(d, n, binding.groups.data() + offsets_[b]);
    for (size_t k = 0; k < rule.places.size(); ++k) {
        if (rule.places[k].of_tokens()) continue;
        positions_.clear();
        given_.add_positions(d, k, n, positions_);
        for (const int t : positions_) mark(d, k, b, offsets_[b] + t);
    }
}

void Binder::narrow(int64_t t, const std::vector<uint64_t>& bits) {
    for (int w = 0; w < bound_.words; ++w) bound_.allowed[t * bound_.words + w] &= bits[w];
}

// Marks a token (counted over the batch) as being at place k of a rule.
void Binder::mark(size_t d, size_t k, int64_t b, int64_t t) {
    const DependentRule& rule = dependent_.rules[d];
    Binding& binding = bindings_[d];
    if (rule.kind == DependentRule::tied) bound_.tied[t] = 1;
    else if (rule.kind == DependentRule::mask) narrow(t, (rule.named ? binding.choice[b] : binding.same)->token);
    else if (rule.few()) binding.marks[t] |= uint8_t(1u << k);
    else binding.wide[t] |= uint64_t{1} << k;
}

// A condition holds at a token (counted over the batch): marks the places that are no more than it.
void Binder::hold(int condition, int64_t b, int64_t t) {
    if (condition < 0) return;
    for (const auto& [d, k] : dependent_.users[condition]) mark(d, k, b, t);
    if (dependent_.remembered[condition]) holds_[condition][t - offsets_[b]] = 1;
}

void Binder::bind_conditions(int64_t b) {
    const int n = length(b);
    for (size_t c = 0; c < holds_.size(); ++c)
        if (dependent_.remembered[c]) holds_[c].assign(n, 0);
    for (size_t column = 0; column < dependent_.lists.size(); ++column) read_column(column, b);
    if (n > 0) {
        hold(dependent_.first, b, offsets_[b]);
        hold(dependent_.last, b, offsets_[b + 1] - 1);
    }
    const auto holds = [&](int condition, int t) { return condition < 0 || (t >= 0 && t < n && holds_[condition][t]); };
    for (const auto& [d, k] : dependent_.contexts) {
        const RulePlace& place = dependent_.rules[d].places[k];
        for (int t = 0; t < n; ++t)
            if (holds(place.here, t) && holds(place.after, t - 1) && holds(place.before, t + 1))
                mark(d, k, b, offsets_[b] + t);
    }
}

void Binder::read_column(size_t column, int64_t b) {
    const std::vector<ListUse>& lists = dependent_.lists[column];
    const int n = length(b);
    const int64_t begin = offsets_[b];
    given_.open_column(column, n);
    words_.resize(lists.size() * n);
    for (int t = 0; t < n; ++t) {
        const char* at = given_.facts(column, t);
        const auto next = [&] {
            int32_t number;
            std::memcpy(&number, at, sizeof number);
            at += sizeof number;
            return number;
        };
        for (int left = next(); left > 0; --left) hold(next(), b, begin + t);
        for (size_t l = 0; l < lists.size(); ++l) words_[l * n + t] = next();
    }
    for (size_t l = 0; l < lists.size(); ++l) {
        const ListUse& list = lists[l];
        int covered = 0;  // tokens before this one are known to be in a phrase, or not to be
        list.phrases->match({words_.data() + l * n, size_t(n)}, [&](int first, int last) {
            for (covered = std::max(covered, first); covered <= last; ++covered) hold(list.inside, b, begin + covered);
            hold(list.first, b, begin + first);
            hold(list.last, b, begin + last);
        });
    }
}

BoundRules Binder::finish() {
    auto next = automata_.begin();
    for (size_t d = 0; d < bindings_.size(); ++d) {
        const DependentRule& rule = dependent_.rules[d];
        for (; next != automata_.end() && next->rule <= rule.rule; ++next) bound_.automata.push_back(*next);
        if (rule.kind == DependentRule::automata && B_ > 0) gather(d);
        if (rule.kind == DependentRule::agreement && bindings_[d].same) {
            bound_.kept.push_back(bindings_[d].same);
            const int32_t* groups = bound_.groups.emplace_back(std::move(bindings_[d].groups)).data();
            bound_.agreements.push_back({rule.rule, bindings_[d].same->automata[0], groups});
        }
        for (const auto& choice : bindings_[d].choice)
            if (choice && (bound_.kept.empty() || bound_.kept.back() != choice)) bound_.kept.push_back(choice);
    }
    bound_.automata.insert(bound_.automata.end(), next, automata_.end());
    return std::move(bound_);
}

void Binder::gather(size_t d) {
    const DependentRule& rule = dependent_.rules[d];
    Binding& binding = bindings_[d];
    if (!rule.few()) choose_by_marks(d);
    const uint8_t* marks = binding.marks.empty() ? nullptr : bound_.marks.emplace_back(std::move(binding.marks)).data();
    if (binding.choice.empty()) {
        if (!binding.same) return;  // no sequence could be bound
        bound_.kept.push_back(binding.same);
        for (const CountingAutomaton* automaton : binding.same->automata)
            bound_.automata.push_back({rule.rule, {automaton}, marks});
        return;
    }
    size_t most = 0;
    for (const auto& choice : binding.choice) most = std::max(most, choice->automata.size());
    for (size_t k = 0; k < most; ++k) {
        RuleAutomaton each{rule.rule, {}, marks};
        for (const auto& choice : binding.choice)
            each.automaton.push_back(k < choice->automata.size() ? choice->automata[k] : nullptr);
        bound_.automata.push_back(std::move(each));
    }
}

// A rule with many places has tables only for the marks that occur: in the batch, or, if these are too many, in a sequence.
void Binder::choose_by_marks(size_t d) {
    Binding& binding = bindings_[d];
    std::vector<uint64_t> marks = distinct(binding.wide);
    bool apart = marks.size() > kMostMarks;
    binding.marks.resize(binding.wide.size());
    const auto number = [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t)
            binding.marks[t] = uint8_t(std::lower_bound(marks.begin(), marks.end(), binding.wide[t]) - marks.begin());
    };
    number(0, N_);
    if (!dependent_.rules[d].named && !apart) {  // all sequences have the same automata
        given_.begin(0);
        if (given_.attempt(-1, [&] { binding.same = given_.choice(d, marks); })) return;
        apart = true;
    }
    binding.choice.resize(B_);
    for (int64_t b = 0; b < B_; ++b) {
        if (apart) {
            marks = distinct(std::span(binding.wide).subspan(offsets_[b], length(b)));
            number(offsets_[b], offsets_[b + 1]);
        }
        given_.begin(b);
        if (failed_[b] || !given_.attempt(b, [&] { binding.choice[b] = given_.choice(d, marks); }))
            binding.choice[b] = std::make_shared<const Choice>();
    }
}

// ---- rules that can be left out of every search: masks, or one hard rule that stays, keep them from being violated ----

namespace {

constexpr int64_t kMostSteps = 300'000;  // of all questions together: about a millisecond

class Questions {
  public:
    Questions(const TableCache& masks, const std::vector<uint64_t>& base) : masks_(masks), base_(base), m_(masks.m) {}

    // Does some labelling violate `a` that keeps to the masks and does not violate `hard` (may be null)? True if it is not known.
    bool violable(const CountingAutomaton& a, const CountingAutomaton* hard) {
        const auto breaks = [&](int q) { return hard && hard->final[q] > 0; };
        if (a.final[0] > 0 && !breaks(0)) return true;  // a sequence without tokens
        const size_t T = hard ? hard->states : 1, cells = a.states * T * m_;
        if (int64_t(cells) > kMostSteps - steps_) return true;
        seen_.assign(cells, 0);
        open_.clear();
        // Label y is read in states s of `a` and q of `hard`. Is `a` violated?
        const auto read = [&](int s, int q, int y) {
            const Move step = a.read(0, s, y);
            const Move other = hard ? hard->read(0, q, y) : Move{0, 0};
            if (other.violations > 0) return false;
            if (step.violations > 0) return true;
            if (a.final[step.to] > 0 && !breaks(other.to) && open(masks_.last_mask, y)) return true;
            char& seen = seen_[(step.to * T + other.to) * m_ + y];
            if (!seen) open_.push_back({step.to, other.to, y});
            seen = 1;
            return false;
        };
        for (int y = 0; y < m_; ++y)
            if (allowed(y) && open(masks_.first_mask, y) && read(0, 0, y)) return true;
        while (!open_.empty()) {
            const Node from = open_.back();
            open_.pop_back();
            steps_ += m_;
            if (steps_ > kMostSteps) return true;
            for (int y = 0; y < m_; ++y)
                if (allowed(y) && open(masks_.free_mask, size_t(from.y) * m_ + y) && read(from.s, from.q, y))
                    return true;
        }
        return false;
    }

  private:
    struct Node {
        int s, q, y;
    };
    static bool open(const std::vector<double>& mask, size_t at) { return mask.empty() || mask[at] > -kInf; }
    bool allowed(int y) const { return base_.empty() || (base_[y / 64] >> (y % 64) & 1); }

    const TableCache& masks_;
    const std::vector<uint64_t>& base_;
    const int m_;
    int64_t steps_ = 0;
    std::vector<char> seen_;  // (states, states of the hard rule, labels)
    std::vector<Node> open_;
};

}  // namespace

void CompiledRules::drop_redundant() {
    Questions ask(tables, dependent.base);
    for (size_t k = automata.size(); k-- > 0;) {  // of two equal rules the first stays
        const CountingAutomaton& here = *automata[k].automaton[0];
        bool needed = ask.violable(here, nullptr);
        for (size_t h = 0; needed && h < automata.size(); ++h)
            if (h != k && rules[automata[h].rule].mode == Mode::hard)
                needed = ask.violable(here, automata[h].automaton[0]);
        if (!needed) automata.erase(automata.begin() + ptrdiff_t(k));
    }
}

}  // namespace bridle
