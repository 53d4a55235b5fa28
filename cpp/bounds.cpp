// Steps 3 and 4 of the search: which rules are folded, the multipliers of the others, estimates and first answers.
#include <algorithm>
#include <cmath>

#include "beam.h"
#include "search.h"

namespace bridle {
namespace {

constexpr size_t kFoldCells = size_t{1} << 25;  // of H, when it must be kept
constexpr size_t kFoldWork = size_t{1} << 33;   // when everything is folded, it need not
constexpr int kPasses = 80;
constexpr size_t kEstimates = 12, kEstimateStates = 48, kEstimateCells = size_t{1} << 22;

constexpr size_t kListed = 16;  // counted transitions per label that are listed

bool counts(const BoundAutomaton& p) { return p.automaton->sense != 0; }

// The transitions that an automaton counts, as cells of (m + 1, m), the last row being the start; none if they are too many.
std::vector<int32_t> counted_cells(const CountingAutomaton& automaton, int m) {
    const int C = automaton.classes;
    std::vector<int32_t> begin(C + 1, 0), member(m), out;  // members of class c: begin[c] .. begin[c + 1] - 1
    for (int y = 0; y < m; ++y) ++begin[automaton.class_of[y]];
    for (int c = 0, sum = 0; c <= C; ++c) sum += begin[c], begin[c] = sum;
    for (int y = m - 1; y >= 0; --y) member[--begin[automaton.class_of[y]]] = y;
    for (int a = 0; a <= C; ++a)
        for (int b = 0; b < C; ++b) {
            if (!automaton.edges[static_cast<size_t>(a) * C + b]) continue;
            const size_t more = static_cast<size_t>(a < C ? begin[a + 1] - begin[a] : 1) * (begin[b + 1] - begin[b]);
            if (out.size() + more > kListed * m) return {};
            for (int i = a < C ? begin[a] : 0; i < (a < C ? begin[a + 1] : 1); ++i)
                for (int j = begin[b]; j < begin[b + 1]; ++j) out.push_back((a < C ? member[i] : m) * m + member[j]);
        }
    return out;
}

}  // namespace

// Fold: everything if the product is small; else first what has no multiplier, then what is dear to leave out.
void Search::arrange(Control& control) {
    H_valid_ = false;
    const Sequence& s = trellis_.sequence();
    std::vector<int> order;
    for (size_t k = 0; k < active_.size(); ++k)
        if (active_[k]) order.push_back(static_cast<int>(k));
    // First what has no multiplier, then what has a weak one; automata that one price pays for stay together.
    const auto rank = [&](int k) {
        const BoundAutomaton& p = s.automata[k];
        if (p.mode == Mode::per_sequence) return std::make_tuple(counts(p) ? 1 : 0, 0, p.rule);
        return std::make_tuple(counts(p) ? 2 : 0, p.n_states(), k);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });
    const size_t cells = std::max<size_t>(1, static_cast<size_t>(trellis_.n) * trellis_.m);
    const auto states = [&](size_t allowed) {
        return static_cast<int>(std::max<size_t>(1, std::min<size_t>(fold_limit_, allowed / cells)));
    };
    const int most = states(kFoldCells), most_in_all = states(kFoldWork);

    const auto members = [&](size_t count) {
        std::vector<int> chosen(order.begin(), order.begin() + count);
        std::sort(chosen.begin(), chosen.end());
        std::vector<BoundAutomaton> out;
        for (int k : chosen) out.push_back(s.automata[k]);
        return out;
    };
    // Counted rules have good multipliers: they are folded only if all fits, or when multipliers alone took too long.
    size_t folded = order.size();
    double product = 1;
    for (size_t c = 0; c < order.size(); ++c) {
        product *= s.automata[order[c]].n_states();
        if (product > 64.0 * most_in_all) {  // surely too large, whatever can be reached of it
            folded = c;
            break;
        }
    }
    AutomatonSet inside;
    const auto cuts_a_rule = [&](size_t at) {  // the automata that one price pays for go in together or not at all
        return at > 0 && at < order.size() && s.automata[order[at]].mode == Mode::per_sequence &&
               s.automata[order[at]].rule == s.automata[order[at - 1]].rule;
    };
    for (;; --folded) {
        while (cuts_a_rule(folded)) --folded;
        inside.assign(members(folded));
        if (fold_.build(inside, trellis_.n, trellis_.m, folded == order.size() ? most_in_all : most, control)) break;
        if (fold_limit_ <= max_product_states)
            while (folded > 1 && std::get<0>(rank(order[folded - 2])) == 2) --folded;
    }
    std::vector<int> rest(order.begin() + folded, order.end());
    std::sort(rest.begin(), rest.end());
    std::vector<BoundAutomaton> outside;
    for (int k : rest) outside.push_back(s.automata[k]);
    const AutomatonSet before = std::move(set_);
    const std::vector<double> known = std::move(lambda_);
    set_.assign(std::move(outside));
    lambda_.assign(set_.size(), 0.0);  // a multiplier that was found before is a good start
    for (int p = 0, q = 0; p < set_.size(); ++p) {
        while (q < before.size() && before.automata[q].part < set_.automata[p].part) ++q;
        if (q < before.size() && before.automata[q].part == set_.automata[p].part) lambda_[p] = known[q];
    }
    top_.assign(set_.size(), 0.0);
    counted_.assign(set_.size(), {});
    const auto share = [&](const BoundAutomaton& piece) {  // automata that one price pays for
        return std::count_if(set_.automata.begin(), set_.automata.end(), [&](const BoundAutomaton& p) { return p.rule == piece.rule; });
    };
    for (int p = 0; p < set_.size(); ++p) {
        const BoundAutomaton& piece = set_.automata[p];
        if (!counts(piece) || trellis_.m > kMostSquare) continue;
        counted_[p] = counted_cells(*piece.automaton, trellis_.m);
        ++counters.multipliers;
        switch (piece.mode) {
            case Mode::hard: top_[p] = kInf; break;
            case Mode::per_violation: top_[p] = piece.penalty; break;
            case Mode::per_sequence:  // once paid, whatever still counts is free: the multiplier must not exceed its share
                top_[p] = piece.penalty / (share(piece) * (piece.automaton->sense > 0 ? trellis_.n + 1.0 : std::max(1, piece.automaton->limit)));
        }
    }
    for (int p = 0; p < set_.size(); ++p) lambda_[p] = std::min(lambda_[p], top_[p]);
    counters.states = std::max<int64_t>(counters.states, fold_.Q);
    arranged_ = counters.active;
}

// A narrow beam over all automata, guided by H: often the optimum, always a floor for what follows.
void Search::dive(int width, Control& control) {
    std::vector<Guide> guides{{&fold_, H_valid_ ? best_H_.data() : H_.data()}};
    for (const Estimate& e : estimates_) guides.push_back({&e.fold, e.H.data()});
    for (const Found& found : beam(trellis_, plain_, all_, width, guides, control))
        consider(found.path.data());
}

// Puts the multipliers on the transitions; returns what they add to every labelling.
double Search::adjust(Control& control) {
    const int m = trellis_.m;
    double base = 0;
    if (std::all_of(lambda_.begin(), lambda_.end(), [](double l) { return l == 0; })) {
        adjusted_.plain(trellis_.sequence());
        return base;
    }
    adjust_.assign(static_cast<size_t>(m + 1) * m, 0.0);
    for (int p = 0; p < set_.size(); ++p) {
        if (lambda_[p] == 0) continue;
        const CountingAutomaton& automaton = *set_.automata[p].automaton;
        const double l = automaton.sense * lambda_[p];
        for (const int32_t cell : counted_[p]) adjust_[cell] -= l;
        for (int i = 0; i <= m && counted_[p].empty(); ++i) {  // too many to list
            const size_t from = i < m ? automaton.class_of[i] : automaton.classes;
            const uint8_t* edges = automaton.edges.data() + from * automaton.classes;
            double* row = adjust_.data() + static_cast<size_t>(i) * m;
            for (int j = 0; j < m; ++j) row[j] -= l * edges[automaton.class_of[j]];
        }
        base += lambda_[p] * automaton.room[0];
    }
    adjusted_.adjusted(trellis_.sequence(), adjust_.data(), adjust_.data() + static_cast<size_t>(m) * m, control);
    return base;
}

bool Search::tighten_bound(Control& control) {
    const int n = trellis_.n, width = set_.size();
    std::vector<double> best_lambda = lambda_, gradient(width);
    double lowest = kInf, pace = 1.0;
    int stale = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
        const double base = adjust(control);
        ++counters.passes;
        const double value = trellis_.backward(fold_, adjusted_, H_, control) + base;
        if (!(value > -kInf)) {  // even the relaxed problem has no answer
            bound_ = best_.score = -kInf;
            break;
        }
        trellis_.read(fold_, adjusted_, H_, path_.data());
        const bool improved = value < lowest - 1e-12 * std::abs(value);
        if (value < lowest) {
            lowest = value;
            best_lambda = lambda_;
            H_.swap(best_H_);
            H_valid_ = true;
            bound_ = std::min(bound_, value);
        }
        if (!consider(path_.data())) activate_broken();
        if (pass == 0 && !(best_.score > -kInf)) dive(3, control);
        if (proved()) break;
        // Polyak's step towards the best answer so far, shorter when it does not help.
        stale = improved ? 0 : stale + 1;
        if (stale >= 3) pace *= 0.5, stale = 0;
        if (pace < 0.1) break;
        double norm = 0;
        for (int p = 0; p < width; ++p) {
            gradient[p] = 0;
            const CountingAutomaton& automaton = *set_.automata[p].automaton;
            if (top_[p] == 0) continue;
            int count = 0;
            for (int t = 0, before = -1; t < n; before = path_[t++]) count += automaton.counts(before, path_[t]);
            gradient[p] = automaton.sense * (count - automaton.limit);
            if ((lambda_[p] <= 0 && gradient[p] < 0) || (lambda_[p] >= top_[p] && gradient[p] > 0)) gradient[p] = 0;
            norm += gradient[p] * gradient[p];
        }
        if (norm == 0) break;
        const double goal = best_.score > -kInf ? best_.score : value - 0.05 * std::max(1.0, std::abs(value));
        const double length = pace * std::max(value - goal, 1e-6 * std::max(1.0, std::abs(value))) / norm;
        for (int p = 0; p < width; ++p)
            lambda_[p] = std::clamp(lambda_[p] + length * gradient[p], 0.0, top_[p]);
    }
    lambda_ = best_lambda;  // best_H_ belongs to it
    return proved() || !(bound_ > -kInf);
}

// More estimates for best-first search: folds of the automata that neither the fold nor a multiplier takes care of.
void Search::estimate(Control& control) {
    estimates_.clear();
    const size_t row = std::max<size_t>(1, static_cast<size_t>(trellis_.n) * trellis_.width);
    const int most = static_cast<int>(std::min<size_t>(kEstimateStates, kEstimateCells / row));
    std::vector<BoundAutomaton> chosen;
    Estimate made;
    const auto finish = [&] {
        if (chosen.empty() || estimates_.size() >= kEstimates) return;
        AutomatonSet set;
        set.assign(chosen);
        if (!made.fold.build(set, trellis_.n, trellis_.m, most, control)) return;
        ++counters.passes;
        trellis_.backward(made.fold, adjusted_, made.H, control);
        estimates_.push_back(std::move(made));
        made = Estimate();
        chosen.clear();
    };
    for (int p = 0; p < set_.size();) {
        std::vector<BoundAutomaton> next;  // one automaton, or all that one price pays for
        do {
            if (top_[p] == 0) next.push_back(set_.automata[p]);
            ++p;
        } while (p < set_.size() && set_.automata[p].mode == Mode::per_sequence && set_.automata[p].rule == set_.automata[p - 1].rule);
        std::vector<BoundAutomaton> more = chosen;
        more.insert(more.end(), next.begin(), next.end());
        AutomatonSet set;
        set.assign(more);
        if (made.fold.build(set, trellis_.n, trellis_.m, most, control)) {
            chosen = std::move(more);
        } else {
            finish();
            chosen = std::move(next);
        }
    }
    finish();
}

}  // namespace bridle
