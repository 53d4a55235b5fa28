#include "search/search.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "search/agreement.h"
#include "search/relaxation.h"
#include "search/instance.h"
#include "search/priced.h"

namespace bridle {
namespace {

// Step 2 of the search: require the rules that are broken, and bound what would still break one of them.
// What these do shows in `benchmarks/run.py --only srl`.
constexpr size_t kBranches = 6;   // soft rules of which every choice is tried
constexpr size_t kMostSoft = 24;  // soft rules that are required at once
constexpr int kTurns = 8;

// The rules that must hold, and what it costs to break some of them.
struct Required {
    const Sequence& s;
    std::vector<char> automata;  // (automata)
    std::vector<int> soft;       // the soft rules among them; bit r of a choice stands for soft[r]

    explicit Required(const Sequence& s) : s(s), automata(s.automata.size(), 0) {}

    // Returns the least penalty of what is added, +inf if all of it is hard.
    double add(const std::vector<int>& broken) {
        double least = kInf;
        for (int k : broken) {
            const BoundAutomaton& p = s.automata[k];
            automata[k] = 1;
            if (p.mode == Mode::hard) continue;
            least = std::min(least, p.penalty);
            if (std::find(soft.begin(), soft.end(), p.rule) == soft.end()) soft.push_back(p.rule);
        }
        return least;
    }
    // Must automaton k hold if the soft rules in `choice` may be broken?
    bool contains(size_t k, unsigned choice = 0) const {
        if (!automata[k] || choice == 0) return automata[k];
        const size_t at = std::find(soft.begin(), soft.end(), s.automata[k].rule) - soft.begin();
        return at == soft.size() || !(choice >> at & 1);
    }
    double penalty(unsigned choice) const {
        double sum = 0;
        for (size_t r = 0; r < soft.size(); ++r) sum += choice >> r & 1 ? s.problem->rules[soft[r]].penalty : 0.0;
        return sum;
    }
};

struct Outcome {
    double value;             // -inf: no labelling obeys
    std::vector<int> broken;  // automata that the labelling breaks
};

// The best labelling that obeys what is required but for the rules in `choice`. None if the product automaton is too large.
std::optional<Outcome> best_obeying(Instance& instance, const Required& required, unsigned choice,
                                    Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    Scratch& scratch = instance.scratch;
    std::vector<BoundAutomaton> local, others;
    for (size_t k = 0; k < s.automata.size(); ++k)
        if (required.contains(k, choice)) (s.automata[k].automaton->local() ? local : others).push_back(s.automata[k]);
    for (BoundAutomaton& p : others) p.mode = Mode::hard;
    AutomatonSet set;
    set.assign(std::move(others));
    if (!scratch.fold.build(set, s.n, s.m, instance.limits.max_product_states, instance.control)) return std::nullopt;
    MaskedTrellis& masked = scratch.masked;
    masked.load(scratch.trellis, scratch.plain, local, instance.control);
    ++instance.counters.passes;
    const double value = masked.trellis.best_path(scratch.fold, masked.steps, scratch.path.data(), instance.control);
    if (!(value > -kInf)) return Outcome{value, {}};
    return Outcome{value, consider(instance, scratch.path.data(), incumbent).broken};
}

// `broken`: the automata that the best path breaks, whose score is the bound of the incumbent. Improves both.
// True: the optimum is proved.
bool enforce_broken_rules(Instance& instance, std::vector<int> broken, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    if (s.n == 0 || !MaskedTrellis::fits(instance.scratch.trellis, instance.scratch.plain)) return false;
    const double free = incumbent.bound;  // the best score when nothing is required
    Required required(s);
    const auto is_new = [&](int k) { return !required.contains(k); };
    double reached = free, breaking = -kInf;  // no labelling that breaks something required scores above `breaking`
    for (int turn = 0; turn < kTurns; ++turn) {
        const double least = required.add(broken);
        if (least < kInf) breaking = std::max(breaking, reached - least);
        if (required.soft.size() > kMostSoft) return false;
        std::optional<Outcome> best = best_obeying(instance, required, 0, incumbent);
        if (!best) return false;
        reached = best->value;
        incumbent.tighten(std::max(reached, breaking));
        if (proved(instance, incumbent)) return true;
        broken = std::move(best->broken);
        if (std::any_of(broken.begin(), broken.end(), is_new)) continue;
        // Every choice of what to break (Tromble & Eisner, figure 7). What such a labelling breaks besides is required next.
        if (required.soft.size() > kBranches) return false;
        double top = reached;
        broken.clear();
        for (unsigned choice = 1; choice < 1u << required.soft.size(); ++choice) {
            const double penalty = required.penalty(choice);
            if (free - penalty <= incumbent.score + instance.tolerance(incumbent.score)) continue;
            best = best_obeying(instance, required, choice, incumbent);
            if (!best) return false;
            top = std::max(top, best->value - penalty);
            std::copy_if(best->broken.begin(), best->broken.end(), std::back_inserter(broken), is_new);
        }
        incumbent.tighten(std::max(top, incumbent.score));
        if (proved(instance, incumbent)) return true;
        if (broken.empty()) return false;
    }
    return false;
}

constexpr int kLargeFold = 4096;             // the most states that are ever folded
constexpr int kPasses = 80, kFewPasses = 8;  // that improve multipliers; few where some rules have none
// What these do shows in `benchmarks/run.py --only many` (20 to 50 soft rules that interact) and `--only hard`.
constexpr int64_t kCountedFactor = 20;            // times as many expansions where every rule is counted
constexpr int64_t kExpansionsPerRule = 50;        // that an active rule is expected to take
constexpr int64_t kExpansionsBeforeFold = 20000;  // before a larger fold is tried
constexpr size_t kKeptBytes = size_t{1} << 26;    // of a search that is used again

BestFirst best_first(const Instance& instance, const Relaxation& relaxation) {
    const Scratch& scratch = instance.scratch;
    const Relaxation& r = relaxation;
    size_t held = scratch.bytes();
    for (const Estimate& e : r.estimates) held += e.fold.bytes() + sizeof(double) * e.H.size();
    const size_t memory = instance.control.memory();
    return {.trellis = scratch.trellis,
            .fold = r.fold,
            .steps = scratch.plain,
            .H = r.H,
            .set = r.set,
            .lambda = r.lambda,
            .estimates = r.estimates,
            .memory = std::max(memory / 4, memory - std::min(memory, held))};
}

// The first of the k best is proved; a limit stopped what should follow.
Answer stopped(Answer first) {
    first.status = Status::limit;
    return first;
}

// Is the outcome of a round the answer? If not, what it breaks becomes active.
bool answers(Instance& instance, const int32_t* path, Incumbent& incumbent, ActiveRules& active) {
    const std::vector<int>& broken = consider(instance, path, incumbent).broken;
    if (active.contain(broken) || proved(instance, incumbent)) return true;
    active.add(broken);
    return false;
}

// With a good incumbent few labellings are left, and a look at all rules at once is short. True: the optimum is proved.
bool search_all_rules(Instance& instance, Incumbent& incumbent) {
    Scratch& scratch = instance.scratch;
    Relaxation none(1, scratch);
    none.fold.clear();
    none.set.assign(instance.sequence.automata);
    none.lambda.assign(none.set.size(), 0.0);
    ++instance.counters.passes;
    scratch.trellis.backward(none.fold, scratch.plain, none.H, instance.control);
    BestFirst all = best_first(instance, none);
    all.run(1, incumbent.score + instance.tolerance(incumbent.score), instance.limits.glance, instance.control);
    instance.counters.expansions += all.expansions;
    if (!all.paths.empty()) consider(instance, all.paths[0].path.data(), incumbent);
    if (all.complete) return true;
    incumbent.tighten(std::max(all.bound, incumbent.score));
    return false;
}

// Steps 2 to 6. `broken`: the automata that the best path breaks.
Status solve_under_rules(Instance& instance, const std::vector<int>& broken, Incumbent& incumbent, ActiveRules& active,
                         Relaxation& relaxation) {
    const Sequence& s = instance.sequence;
    Scratch& scratch = instance.scratch;
    Control& control = instance.control;
    Counters& counters = instance.counters;
    const auto is_soft = [&](int k) { return s.automata[k].mode != Mode::hard; };
    if (std::any_of(broken.begin(), broken.end(), is_soft) && enforce_broken_rules(instance, broken, incumbent))
        return status_when_finished(incumbent);
    if (incumbent.exists() && instance.limits.glance > 0 && search_all_rules(instance, incumbent))
        return status_when_finished(incumbent);
    active.add(broken);

    bool decomposed = false;
    for (int64_t patience = kExpansionsBeforeFold;;) {
        ++counters.rounds;
        control.check();
        relax(instance, active, relaxation);
        if (relaxation.set.size() == 0) {
            ++counters.passes;
            const double value =
                scratch.trellis.best_path(relaxation.fold, scratch.plain, scratch.path.data(), control);
            incumbent.tighten(value);
            if (!(value > -kInf)) {
                incumbent.score = -kInf;
                return Status::infeasible;
            }
            if (answers(instance, scratch.path.data(), incumbent, active)) return status_when_finished(incumbent);
            continue;
        }
        // Where every rule has a multiplier the bound is good, and what is left is soon searched.
        const bool counted =
            std::all_of(relaxation.cap.begin(), relaxation.cap.end(), [](double cap) { return cap > 0; });
        const int passes = counted || decomposed ? kPasses : kFewPasses;
        if (tighten_bound(instance, relaxation, incumbent, active, passes)) return status_when_finished(incumbent);
        const int64_t few = instance.limits.decompose_after * (counted ? kCountedFactor : 1);
        if (!decomposed && active.count() * kExpansionsPerRule > few) {  // they will not be enough
            decomposed = true;
            if (decompose(instance, active, incumbent)) return status_when_finished(incumbent);
            continue;
        }
        if (relaxation.outdated(active)) continue;  // rules that were met on the way come in first
        add_estimates(instance, relaxation);
        if (!incumbent.exists()) improve_by_beam(instance, relaxation, decomposed ? 64 : 8, incumbent);
        else if (!relaxation.estimates.empty()) improve_by_beam(instance, relaxation, 8, incumbent);

        const bool larger = !decomposed || relaxation.fold_limit < kLargeFold;  // may something else be tried?
        const int64_t left = instance.expansions_left();
        const int64_t wait = decomposed ? patience : few;
        const int64_t most = larger ? (left < 0 ? wait : std::min(left, wait)) : left;
        BestFirst between = best_first(instance, relaxation);
        const double floor = incumbent.exists() ? incumbent.score + instance.tolerance(incumbent.score) : -kInf;
        between.run(1, floor, most, control);
        counters.expansions += between.expansions;
        if (!between.complete) {
            incumbent.tighten(std::max(between.bound, incumbent.score));
            if (!larger || control.late() || instance.expansions_left() == 0)
                return status_when_stopped(instance, incumbent);
            if (!decomposed) {
                decomposed = true;
                relaxation.estimates.clear();  // the next round makes others
                if (decompose(instance, active, incumbent)) return status_when_finished(incumbent);
                continue;
            }
            relaxation.fold_limit *= 8;
            patience *= 4;
            continue;
        }
        if (between.paths.empty()) return status_when_finished(incumbent);  // nothing above the incumbent
        const ScoredPath& top = between.paths[0];
        incumbent.tighten(top.score);
        if (answers(instance, top.path.data(), incumbent, active)) return status_when_finished(incumbent);
    }
}

// The same, and what there is to show when the time is up.
Status solve_in_time(Instance& instance, const std::vector<int>& broken, Incumbent& incumbent, ActiveRules& active,
                     Relaxation& relaxation) {
    const Sequence& s = instance.sequence;
    Control& control = instance.control;
    Status status;
    const bool finished = control.completes([&] {
        const Armed armed(control);  // from here on there is a bound to show
        status = solve_under_rules(instance, broken, incumbent, active, relaxation);
    });
    if (!finished) {
        if (!incumbent.exists() && relaxation.has_H) {
            const double steps = 1.0 + double(s.n) * s.m * s.automata.size();
            const int width = int(std::clamp(1e7 / steps, 1.0, 64.0));
            control.completes([&] {  // it may find nothing
                if (relaxation.estimates.empty()) add_estimates(instance, relaxation);
                improve_by_beam(instance, relaxation, width, incumbent);
            });
        }
        status = status_when_stopped(instance, incumbent);
    }
    instance.counters.active = active.count();
    return status;
}

// The answer when the time is up before anything was searched.
Answer stopped(Incumbent incumbent) {
    const Status status = incumbent.exists() ? Status::limit : Status::nothing_found;
    return to_answer(std::move(incumbent), status);
}

}  // namespace

double Search::first_path(const Sequence& s, int32_t* path, Control& control) {
    if (!s.head->per_step) return scratch_.viterbi.best_path(s, path, control);
    scratch_.trellis.load(s);
    scratch_.plain.plain(s);
    scratch_.fold.clear();
    return scratch_.trellis.best_path(scratch_.fold, scratch_.plain, path, control);
}

std::vector<int> Search::start(Instance& instance, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    scratch_.plain.plain(s);
    scratch_.path.resize(s.n);
    ++instance.counters.passes;
    incumbent.bound = first_path(s, scratch_.path.data(), instance.control);
    if (!(incumbent.bound > -kInf)) return {};
    return consider(instance, scratch_.path.data(), incumbent).broken;
}

Answer Search::best(const Sequence& s, const SearchLimits& limits, Control& control, Counters& counters,
                    const int32_t* known) {
    counters = Counters();
    Instance instance(s, limits, control, counters, scratch_);
    Incumbent incumbent;
    std::vector<int> broken;
    bool agrees = true;
    const bool started = control.completes([&] {
        broken = start(instance, incumbent);
        agrees = s.agreements.empty() || !(incumbent.bound > -kInf) || scratch_.verdict.agrees;
        if (known && incumbent.bound > -kInf) consider(instance, known, incumbent);
    });
    if (!started) {
        if (incumbent.bound == kInf) control.give_up();
        return stopped(std::move(incumbent));
    }
    if (!agrees || (!s.agreements.empty() && !broken.empty()))
        return best_in_agreement({s}, s.agreements, limits, control, *this, counters, known);
    const auto soft_and_local = [&](int k) {
        return s.automata[k].mode != Mode::hard && PricedSequence::fits(s, s.automata[k]);
    };
    if (!s.tied &&
        std::any_of(broken.begin(), broken.end(), soft_and_local)) {  // prices for labels and transitions are scores
        Answer answer;
        const bool looked = control.completes([&] {
            PricedSequence priced(s, false, control);
            const int32_t* begin = incumbent.exists() ? incumbent.path.data() : known;
            answer = best(priced.at(0, control), limits, control, counters, begin);
            answer.violations.clear();  // they are about the automata that are left
        });
        return looked ? answer : stopped(std::move(incumbent));
    }
    Status status = status_when_finished(incumbent);
    if (!broken.empty()) {
        scratch_.trellis.load(s);
        ActiveRules active(s.automata.size());
        Relaxation relaxation(limits.max_product_states, scratch_);
        status = solve_in_time(instance, broken, incumbent, active, relaxation);
    }
    counters.tolerance = incumbent.exists() && !broken.empty() ? instance.tolerance(incumbent.score) : 0.0;
    return to_answer(std::move(incumbent), status);
}

std::vector<Answer> Search::k_best(const Sequence& s, int k, const SearchLimits& limits, Control& control,
                                   Counters& counters) {
    counters = Counters();
    Instance instance(s, limits, control, counters, scratch_);
    Incumbent incumbent;
    const std::vector<int> broken = start(instance, incumbent);
    scratch_.trellis.load(s);
    ActiveRules active(s.automata.size());
    Relaxation relaxation(limits.max_product_states, scratch_);
    const Status status = broken.empty() ? status_when_finished(incumbent)
                                         : solve_in_time(instance, broken, incumbent, active, relaxation);
    if (status == Status::infeasible) return {};
    const Answer first = to_answer(incumbent, status);
    if (status != Status::optimal) return {first};
    std::vector<Answer> answers;
    const bool finished = control.completes([&] {
        const Armed armed(control);
        answers = next_best(instance, k, first, incumbent, active, relaxation);
    });
    if (!finished) answers = {stopped(first)};
    return answers;
}

std::vector<Answer> Search::next_best(Instance& instance, int k, const Answer& first, Incumbent& incumbent,
                                      ActiveRules& active, Relaxation& relaxation) {
    const Sequence& s = instance.sequence;
    Control& control = instance.control;
    for (;;) {
        if (relaxation.outdated(active)) {  // nothing is relaxed yet, or rules were met meanwhile
            relax(instance, active, relaxation);
            if (relaxation.set.size() > 0) tighten_bound(instance, relaxation, incumbent, active, kPasses);
            continue;
        }
        if (!relaxation.has_H) {
            scratch_.trellis.backward(relaxation.fold, scratch_.plain, relaxation.H, control);
            std::fill(relaxation.lambda.begin(), relaxation.lambda.end(), 0.0);
            relaxation.has_H = true;
        }
        BestFirst all = best_first(instance, relaxation);
        all.run(k, -kInf, instance.expansions_left(), control);
        instance.counters.expansions += all.expansions;
        std::vector<Answer> out;
        for (ScoredPath& scored : all.paths) {
            judge(s, scored.path.data(), scratch_.verdict);
            active.add(scratch_.verdict.broken);
            const double score = scratch_.plain.score(s, scored.path.data()) - scratch_.verdict.cost;
            out.push_back({.status = all.complete ? Status::optimal : Status::limit,
                           .score = score,
                           .bound = all.complete ? score : std::max(score, first.score),
                           .path = std::move(scored.path),
                           .violations = scratch_.verdict.violations});
        }
        if (!relaxation.outdated(active)) {
            if (out.empty() && !all.complete) out.push_back(stopped(first));
            return out;
        }
        relaxation.fold_limit = std::max(relaxation.fold_limit, instance.limits.max_product_states * 8);
    }
}

std::unique_ptr<Search> SearchPool::take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Search>();
    std::unique_ptr<Search> search = std::move(free_.back());
    free_.pop_back();
    return search;
}

void SearchPool::give_back(std::unique_ptr<Search> search, size_t memory) {
    if (search->bytes() > std::min(kKeptBytes, memory / 8)) return;
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(search));
}

size_t SearchPool::bytes() const {
    const std::lock_guard lock(mutex_);
    size_t sum = 0;
    for (const auto& search : free_) sum += search->bytes();
    return sum;
}

}  // namespace bridle
