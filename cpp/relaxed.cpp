// `relaxed`: for a sequence on which no labelling obeys the hard rules, the fewest violations of them, and of those labellings
// the best score. With a price on every violation,
//     best(price) = max over y of  score(y) - price * violations(y)
// no labelling with as few violations as the one found scores higher than it. So a price is right if it leaves the fewest
// violations, whatever it is: it begins low, where bounds are good, and rises until they are reached. How few there must be is
// known (one, since no labelling obeys), or found by counting violations alone.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "engines.h"
#include "priced.h"

namespace bridle {
namespace {

constexpr double kRaise = 8.0;  // how a price rises
constexpr double kHighestPrice = 1e300;
constexpr double kApart = 1 - 1e-6;  // numbers of violations that differ are further apart

// A power of two, so that sequences share prices and what is cached for them: about what a few tokens can gain.
double first_price(const Sequence& s, Control& control) {
    std::vector<double> leads, row(s.m);
    for (int t = 0; t < s.n && s.m > 1; ++t) {
        if (t % 4096 == 4095) control.check();
        s.row(t, row.data());
        std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
        if (row[1] > -kInf) leads.push_back(row[0] - row[1]);
    }
    if (leads.empty()) return 1.0;
    std::nth_element(leads.begin(), leads.begin() + static_cast<ptrdiff_t>(leads.size() / 2), leads.end());
    return std::exp2(std::clamp(std::ceil(std::log2(16.0 * leads[leads.size() / 2] + 1e-300)), -10.0, 60.0));
}

// What no labelling scores more than, by the best path without rules or, if that takes too long, by the scores alone.
double bound_without_rules(const Sequence& s, PricedSequence& priced, Search& search, Control& control) {
    try {
        std::vector<int32_t> path(s.n);
        return search.first_path(priced.at(0, control), path.data(), control);
    } catch (const Late&) {
        return bound_by_scores(s);
    }
}

// The best labelling so far, as the rules see it.
struct Relaxed {
    int64_t violations = std::numeric_limits<int64_t>::max();  // of hard rules
    double score = -kInf;                                      // less what soft rules cost
    std::vector<int32_t> path, of_automaton;

    // Returns the violations of a labelling.
    int64_t consider(const Sequence& s, const Steps& plain, const std::vector<int32_t>& labelling, Verdict& verdict) {
        judge(s, labelling.data(), verdict);
        const double here = plain.score(s, labelling.data()) - verdict.soft_cost;
        if (verdict.hard_violations < violations || (verdict.hard_violations == violations && here > score)) {
            violations = verdict.hard_violations, score = here;
            path = labelling, of_automaton = verdict.violations;
        }
        return verdict.hard_violations;
    }
};

}  // namespace

Answer run_relaxed(const Sequence& s, const Options& options, Control& control, Search& search, int64_t* counters) {
    SearchLimits limits = limits_of(options);
    limits.glance = 0;  // prices leave too many labellings near the incumbent
    PricedSequence priced(s, true, control);
    Steps plain;
    plain.plain(s);
    Verdict verdict;
    Counters spent;
    Relaxed best;
    int64_t fewest = 1;  // no labelling has fewer violations
    bool counted = false, proved = false;
    double bound = kInf, tolerance = 0, price = first_price(s, control);
    try {
        for (;; price *= kRaise) {
            const int32_t* known = best.path.empty() ? nullptr : best.path.data();
            const Answer found = search.best(priced.at(price, control), limits, control, spent, known);
            ++counters[0], counters[1] += spent.expansions, tolerance = spent.tolerance;
            if (found.status == Status::infeasible) return found;  // not even the lattice has a path
            if (found.path.empty() && s.n > 0) return {Status::nothing_found, -kInf, found.bound, {}};
            const int64_t violations = best.consider(s, plain, found.path, verdict);
            bound = std::min(bound, found.bound + price * static_cast<double>(best.violations));
            if (found.status != Status::optimal) break;
            proved = violations == fewest;
            if (proved || control.late() || price > kHighestPrice) break;
            if (counted) continue;
            limits.gap = kApart;
            const Answer least = search.best(priced.counted(control), limits, control, spent, best.path.data());
            limits.gap = 0;
            counters[1] += spent.expansions;
            counted = true;
            if (!least.path.empty()) best.consider(s, plain, least.path, verdict);
            fewest = std::max(fewest, static_cast<int64_t>(std::ceil(-least.bound - (1 - kApart))));
            if (least.status != Status::optimal) break;
            fewest = best.violations;
            proved = violations == fewest;
            if (proved) break;
        }
    } catch (const Late&) {
        if (best.path.empty()) throw;  // nothing to show
        proved = false;
    }
    if (proved && tolerance <= kLargestError * std::max(1.0, std::abs(best.score))) {
        bound = best.score;
    } else {  // no rule raises a score; a bound by price holds for the fewest violations only
        const double free = bound_without_rules(s, priced, search, control);
        bound = std::max(best.score, best.violations == fewest ? std::min(bound, free) : free);
        proved = false;
    }
    counters[2] = best.violations, counters[3] = fewest, counters[4] = proved;
    return {Status::relaxed, best.score, bound, std::move(best.path), std::move(best.of_automaton)};
}

}  // namespace bridle
