#include "search.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "beam.h"

namespace bridle {
namespace {

constexpr int kLargeFold = 4096;  // the most states that are ever folded
constexpr size_t kFoldCells = size_t{1} << 25;
constexpr int kPasses = 80;
constexpr size_t kBranches = 6;  // soft rules of which every choice is tried
constexpr int kTurns = 8;
constexpr size_t kEstimates = 12, kEstimateStates = 48, kEstimateCells = size_t{1} << 22;
constexpr int64_t kPatience = 20000;  // expansions before a larger fold is tried

bool counts(const Piece& p) { return p.machine->sense != 0; }

}  // namespace

void Judge::load(const Sequence& s) {
    sequence_ = &s;
    const size_t count = s.pieces.size();
    states_.resize(count);
    hits.assign(count, 0);
    broken.clear();
}

double Judge::cost(const int32_t* path, int n) {
    const auto& pieces = sequence_->pieces;
    const size_t count = pieces.size();
    std::fill(states_.begin(), states_.end(), 0);
    std::fill(hits.begin(), hits.end(), 0);
    for (int t = 0; t < n; ++t)  // all machines side by side: their steps do not wait for each other
        for (size_t k = 0; k < count; ++k) {
            const int cell = pieces[k].at(t, states_[k], path[t]);
            hits[k] += pieces[k].machine->hits[cell];
            states_[k] = pieces[k].machine->step[cell];
        }
    double total = 0;
    broken.clear();
    int paid_rule = -1;
    for (size_t k = 0; k < count; ++k) {
        const Piece& p = pieces[k];
        hits[k] += p.machine->final[states_[k]];
        if (hits[k] == 0) continue;
        broken.push_back(static_cast<int>(k));
        if (p.mode == Mode::hard) total = kInf;
        else if (p.mode == Mode::per_violation) total += p.penalty * hits[k];
        else if (p.rule != paid_rule) total += p.penalty, paid_rule = p.rule;
    }
    return total;
}

double Search::slack() const { return 1e-9 * std::max(1.0, std::abs(best_.score)); }

bool Search::consider(const int32_t* path, double lattice_score) {
    const double score = lattice_score - judge_.cost(path, trellis_.n);
    if (score > best_.score) {
        best_.score = score;
        best_.path.assign(path, path + trellis_.n);
        best_.hits = judge_.hits;
    }
    for (int k : judge_.broken)
        if (!active_[k]) return false;
    return true;
}

void Search::activate_broken() {
    for (int k : judge_.broken)
        if (!active_[k]) active_[k] = 1, ++counters.active;
}

bool Search::obey(Control& control) {
    const Sequence& s = trellis_.sequence();
    if (s.n == 0 || !Strict::fits(trellis_, plain_)) return false;
    const double free = bound_;  // the best score when nothing is asked
    std::vector<char> held(s.pieces.size(), 0);
    std::vector<int> priced;  // the soft rules among them
    bool folded = true;
    // The best score when all that is held is obeyed, but for some of the priced rules.
    const auto best_when = [&](unsigned broken) {
        std::vector<Piece> local, others;
        for (size_t k = 0; k < held.size(); ++k) {
            const auto at = std::find(priced.begin(), priced.end(), s.pieces[k].rule) - priced.begin();
            if (!held[k] || (at < static_cast<ptrdiff_t>(priced.size()) && broken >> at & 1)) continue;
            (s.pieces[k].machine->local() ? local : others).push_back(s.pieces[k]);
        }
        for (Piece& p : others) p.mode = Mode::hard;
        Team team;
        team.set(std::move(others));
        folded = fold_.build(team, s.n, s.m, small_fold);
        if (!folded) return free;
        strict_.load(trellis_, plain_, local);
        ++counters.passes;
        const double value = strict_.trellis.best_path(fold_, strict_.steps, path_.data(), control);
        if (value > -kInf) consider(path_.data(), trellis_.score(path_.data(), plain_));
        else judge_.broken.clear();
        return value;
    };
    double reached = free, breaking = -kInf;  // no labelling that breaks something held scores above `breaking`
    for (int turn = 0; turn < kTurns; ++turn) {
        double least = kInf;
        for (int k : judge_.broken) {
            const Piece& p = s.pieces[k];
            held[k] = 1;
            if (p.mode == Mode::hard) continue;
            least = std::min(least, p.penalty);
            if (std::find(priced.begin(), priced.end(), p.rule) == priced.end()) priced.push_back(p.rule);
        }
        if (least < kInf) breaking = std::max(breaking, reached - least);
        if (priced.size() > 24) return false;
        reached = best_when(0);
        if (!folded) return false;
        bound_ = std::min(bound_, std::max(reached, breaking));
        if (bound_ <= best_.score + slack()) return true;
        const auto news = [&](int k) { return !held[k]; };
        if (std::any_of(judge_.broken.begin(), judge_.broken.end(), news)) continue;
        // Every choice of what to break (Tromble & Eisner, figure 7). What such a labelling breaks besides is held next.
        if (priced.size() > kBranches) return false;
        double top = reached;
        std::vector<int> besides;
        for (unsigned broken = 1; broken < 1u << priced.size(); ++broken) {
            double price = 0;
            for (size_t r = 0; r < priced.size(); ++r) price += broken >> r & 1 ? s.problem->rules[priced[r]].penalty : 0.0;
            if (free - price <= best_.score + slack()) continue;
            top = std::max(top, best_when(broken) - price);
            if (!folded) return false;
            std::copy_if(judge_.broken.begin(), judge_.broken.end(), std::back_inserter(besides), news);
        }
        bound_ = std::min(bound_, std::max(top, best_.score));
        if (bound_ <= best_.score + slack()) return true;
        if (besides.empty()) return false;
        judge_.broken = besides;
    }
    return false;
}

// Fold: everything if the product is small; else first what has no multiplier, then what is dear to leave out.
void Search::arrange(Control&) {
    const Sequence& s = trellis_.sequence();
    std::vector<int> order;
    for (size_t k = 0; k < active_.size(); ++k)
        if (active_[k]) order.push_back(static_cast<int>(k));
    const auto rank = [&](int k) {
        const Piece& p = s.pieces[k];
        if (counts(p) && p.mode == Mode::per_sequence) return std::make_pair(1, 0);  // weak multipliers; rules stay together
        return std::make_pair(counts(p) ? 2 : 0, p.n_states());
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });
    const size_t cells = std::max<size_t>(1, static_cast<size_t>(trellis_.n) * trellis_.m);
    const int most = static_cast<int>(std::max<size_t>(1, std::min<size_t>(fold_limit_, kFoldCells / cells)));

    const auto members = [&](size_t count) {
        std::vector<int> chosen(order.begin(), order.begin() + count);
        std::sort(chosen.begin(), chosen.end());
        std::vector<Piece> out;
        for (int k : chosen) out.push_back(s.pieces[k]);
        return out;
    };
    // Counted rules have good multipliers: they are folded only if all fits, or when multipliers alone took too long.
    size_t folded = order.size();
    double product = 1;
    for (size_t c = 0; c < order.size(); ++c) {
        product *= s.pieces[order[c]].n_states();
        if (product > 64.0 * most) {  // surely too large, whatever can be reached of it
            folded = c;
            break;
        }
    }
    Team inside;
    const auto cuts_a_rule = [&](size_t at) {  // the pieces that one price pays for go in together or not at all
        return at > 0 && at < order.size() && s.pieces[order[at]].mode == Mode::per_sequence &&
               s.pieces[order[at]].rule == s.pieces[order[at - 1]].rule;
    };
    for (;; --folded) {
        while (cuts_a_rule(folded)) --folded;
        inside.set(members(folded));
        if (fold_.build(inside, trellis_.n, trellis_.m, most)) break;
        if (fold_limit_ <= small_fold)
            while (folded > 1 && rank(order[folded - 2]).first == 2) --folded;
    }
    std::vector<int> rest(order.begin() + folded, order.end());
    std::sort(rest.begin(), rest.end());
    std::vector<Piece> outside;
    for (int k : rest) outside.push_back(s.pieces[k]);
    const Team before = std::move(team_);
    const std::vector<double> known = std::move(lambda_);
    team_.set(std::move(outside));
    lambda_.assign(team_.size(), 0.0);  // a multiplier that was found before is a good start
    for (int p = 0, q = 0; p < team_.size(); ++p) {
        while (q < before.size() && before.pieces[q].part < team_.pieces[p].part) ++q;
        if (q < before.size() && before.pieces[q].part == team_.pieces[p].part) lambda_[p] = known[q];
    }
    top_.assign(team_.size(), 0.0);
    const auto share = [&](const Piece& piece) {  // pieces that one price pays for
        return std::count_if(team_.pieces.begin(), team_.pieces.end(), [&](const Piece& p) { return p.rule == piece.rule; });
    };
    for (int p = 0; p < team_.size(); ++p) {
        const Piece& piece = team_.pieces[p];
        if (!counts(piece)) continue;
        ++counters.multipliers;
        switch (piece.mode) {
            case Mode::hard: top_[p] = kInf; break;
            case Mode::per_violation: top_[p] = piece.penalty; break;
            case Mode::per_sequence:  // once paid, whatever still counts is free: the multiplier must not exceed its share
                top_[p] = piece.penalty / (share(piece) * (piece.machine->sense > 0 ? trellis_.n + 1.0 : std::max(1, piece.machine->limit)));
        }
    }
    for (int p = 0; p < team_.size(); ++p) lambda_[p] = std::min(lambda_[p], top_[p]);
    counters.states = std::max<int64_t>(counters.states, fold_.Q);
    H_valid_ = false;
}

// A narrow beam over all pieces, guided by H: often the optimum, always a floor for what follows.
void Search::dive(int width, Control& control) {
    std::vector<Guide> guides{{&fold_, H_valid_ ? best_H_.data() : H_.data()}};
    for (const Estimate& e : estimates_) guides.push_back({&e.fold, e.H.data()});
    for (const Found& found : beam(trellis_, plain_, all_, width, guides, control))
        consider(found.path.data(), trellis_.score(found.path.data(), plain_));
}

// Puts the multipliers on the transitions; returns what they add to every labelling.
double Search::adjust() {
    const int m = trellis_.m;
    adjust_.assign(static_cast<size_t>(m) * m, 0.0);
    first_.assign(m, 0.0);
    double base = 0;
    for (int p = 0; p < team_.size(); ++p) {
        if (lambda_[p] == 0) continue;
        const Machine& machine = *team_.pieces[p].machine;
        const double l = machine.sense * lambda_[p];
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < m; ++j) adjust_[static_cast<size_t>(i) * m + j] -= l * machine.edges[i * m + j];
        for (int j = 0; j < m; ++j) first_[j] -= l * machine.edges[m * m + j];
        base += lambda_[p] * machine.room[0];
    }
    adjusted_.adjusted(trellis_.sequence(), adjust_.data(), first_.data());
    return base;
}

bool Search::multiply(Control& control) {
    const int n = trellis_.n, m = trellis_.m, width = team_.size();
    std::vector<double> best_lambda = lambda_, gradient(width);
    double lowest = kInf, pace = 1.0;
    int stale = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
        const double base = adjust();
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
        if (!consider(path_.data(), trellis_.score(path_.data(), plain_))) activate_broken();
        if (pass == 0 && !(best_.score > -kInf)) dive(3, control);
        if (bound_ <= best_.score + slack()) break;
        if (control.late()) break;
        // Polyak's step towards the best answer so far, shorter when it does not help.
        stale = improved ? 0 : stale + 1;
        if (stale >= 3) pace *= 0.5, stale = 0;
        if (pace < 0.1) break;
        double norm = 0;
        for (int p = 0; p < width; ++p) {
            gradient[p] = 0;
            const Machine& machine = *team_.pieces[p].machine;
            if (top_[p] == 0) continue;
            int count = 0;
            for (int t = 0, before = m; t < n; before = path_[t++]) count += machine.edges[before * m + path_[t]];
            gradient[p] = machine.sense * (count - machine.limit);
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
    return bound_ <= best_.score + slack() || !(bound_ > -kInf);
}

// More estimates for best-first search: folds of the pieces that neither the fold nor a multiplier takes care of.
void Search::estimate(Control& control) {
    estimates_.clear();
    const size_t row = std::max<size_t>(1, static_cast<size_t>(trellis_.n) * trellis_.width);
    const int most = static_cast<int>(std::min<size_t>(kEstimateStates, kEstimateCells / row));
    std::vector<Piece> chosen;
    Estimate made;
    const auto finish = [&] {
        if (chosen.empty() || estimates_.size() >= kEstimates) return;
        Team team;
        team.set(chosen);
        if (!made.fold.build(team, trellis_.n, trellis_.m, most)) return;
        ++counters.passes;
        trellis_.backward(made.fold, adjusted_, made.H, control);
        estimates_.push_back(std::move(made));
        made = Estimate();
        chosen.clear();
    };
    for (int p = 0; p < team_.size(); ++p) {
        if (top_[p] > 0) continue;
        chosen.push_back(team_.pieces[p]);
        Team team;
        team.set(chosen);
        if (made.fold.build(team, trellis_.n, trellis_.m, most)) continue;
        chosen.pop_back();
        finish();
        chosen.assign(1, team_.pieces[p]);
    }
    finish();
}

Answer Search::stopped() const {
    Answer out = best_;
    out.bound = std::max(bound_, best_.score);
    out.status = best_.score > -kInf ? Status::limit : Status::nothing_found;
    if (best_.score > -kInf && bound_ <= best_.score + slack()) out.status = Status::optimal, out.bound = best_.score;
    return out;
}

Answer Search::solve(const Sequence& s, Control& control) {
    trellis_.load(s);
    plain_.plain(s);
    judge_.load(s);
    fold_.clear();
    fold_limit_ = small_fold;
    active_.assign(s.pieces.size(), 0);
    team_.set({});
    lambda_.clear();
    best_ = Answer();
    bound_ = kInf;
    H_valid_ = false;
    estimates_.clear();
    path_.assign(s.n, 0);
    const auto proved = [&] {
        Answer out = best_;
        out.status = best_.score > -kInf ? Status::optimal : Status::infeasible;
        out.bound = best_.score;
        return out;
    };

    ++counters.passes;
    bound_ = trellis_.best_path(fold_, plain_, path_.data(), control);
    if (!(bound_ > -kInf)) return proved();
    if (consider(path_.data(), trellis_.score(path_.data(), plain_)) || judge_.broken.empty()) return proved();
    const std::vector<int> first_broken = judge_.broken;
    if (std::any_of(first_broken.begin(), first_broken.end(), [&](int k) { return s.pieces[k].mode != Mode::hard; })) {
        const bool done = obey(control);
        fold_.clear();
        if (done) return proved();
        judge_.broken = first_broken;
    }
    all_.set(s.pieces);
    activate_broken();

    for (int64_t patience = kPatience;;) {
        ++counters.rounds;
        if (control.late()) return stopped();
        arrange(control);
        estimates_.clear();
        if (team_.size() == 0) {
            ++counters.passes;
            const double value = trellis_.best_path(fold_, plain_, path_.data(), control);
            bound_ = std::min(bound_, value);
            if (!(value > -kInf)) {
                best_.score = -kInf;
                return proved();
            }
            const bool all_active = consider(path_.data(), trellis_.score(path_.data(), plain_));
            if (all_active || bound_ <= best_.score + slack()) return proved();
            activate_broken();
            continue;
        }
        const int64_t active_before = counters.active;
        if (multiply(control)) return proved();
        if (control.late()) {
            if (!(best_.score > -kInf)) dive(256, control);
            return stopped();
        }
        if (counters.active > active_before) continue;  // rules that were met on the way come in first
        adjust();  // back to the best multipliers
        estimate(control);
        if (!(best_.score > -kInf)) dive(64, control);
        else if (!estimates_.empty()) dive(8, control);
        const bool larger = fold_limit_ < kLargeFold;
        const int64_t left = max_states_ < 0 ? -1 : std::max<int64_t>(0, max_states_ - counters.expansions);
        const int64_t most = larger ? (left < 0 ? patience : std::min(left, patience)) : left;
        BestFirst between{trellis_, fold_, plain_, best_H_, team_, lambda_, estimates_};
        const double floor = best_.score > -kInf ? best_.score + slack() : -kInf;
        between.run(1, floor, most, control);
        counters.expansions += between.expansions;
        if (!between.complete) {
            bound_ = std::min(bound_, std::max(between.bound, best_.score));
            if (control.late() || (max_states_ >= 0 && counters.expansions >= max_states_)) {
                if (!(best_.score > -kInf)) dive(256, control);
                return stopped();
            }
            fold_limit_ *= 8;
            patience *= 4;
            continue;
        }
        if (between.found.empty()) return proved();  // nothing above the best answer
        const Found& top = between.found[0];
        bound_ = std::min(bound_, top.score);
        const bool all_active = consider(top.path.data(), trellis_.score(top.path.data(), plain_));
        if (all_active || bound_ <= best_.score + slack()) return proved();
        activate_broken();
    }
}

Answer Search::best(const Sequence& s, int64_t max_states, Control& control) {
    counters = Counters();
    max_states_ = max_states;
    return solve(s, control);
}

std::vector<Answer> Search::k_best(const Sequence& s, int k, int64_t max_states, Control& control) {
    std::vector<Answer> out;
    Answer first = best(s, max_states, control);
    if (first.status != Status::optimal) {
        if (first.status != Status::infeasible) out.push_back(first);
        return out;
    }
    for (;;) {
        if (!H_valid_) {
            trellis_.backward(fold_, plain_, best_H_, control);
            std::fill(lambda_.begin(), lambda_.end(), 0.0);
            H_valid_ = true;
        }
        const int64_t left = max_states < 0 ? -1 : std::max<int64_t>(0, max_states - counters.expansions);
        BestFirst all{trellis_, fold_, plain_, best_H_, team_, lambda_, estimates_};
        all.run(k, -kInf, left, control);
        counters.expansions += all.expansions;
        out.clear();
        bool fresh = false;
        for (const Found& found : all.found) {
            Answer a;
            const double cost = judge_.cost(found.path.data(), s.n);
            for (int p : judge_.broken) fresh = fresh || !active_[p];
            activate_broken();
            a.score = trellis_.score(found.path.data(), plain_) - cost;
            a.path = found.path;
            a.bound = a.score;
            out.push_back(std::move(a));
        }
        if (!fresh) {
            for (Answer& a : out)
                if (!all.complete) a.status = Status::limit;
            return out;
        }
        fold_limit_ = std::max(fold_limit_, small_fold * 8);
        arrange(control);
        estimates_.clear();
        if (team_.size() > 0) multiply(control);
    }
}

}  // namespace bridle
