#include "search.h"

#include <algorithm>
#include <limits>

namespace bridle {
namespace {

constexpr int kLargeFold = 4096;      // the most states that are ever folded
constexpr int64_t kPatience = 20000;  // expansions before a larger fold is tried

}  // namespace

double Search::slack() {
    if (slack_ < 0) {
        slack_ = trellis_.rounding(plain_);
        for (const BoundAutomaton& p : trellis_.sequence().automata)
            slack_ += std::numeric_limits<double>::epsilon() * (trellis_.n + 8) * p.penalty;
    }
    return slack_;
}

bool Search::proved() { return best_.score > -kInf && bound_ <= best_.score + slack(); }

double Search::first_path(const Sequence& s, int32_t* path, Control& control) {
    if (!s.head->per_step) return viterbi_.best_path(s, path, control);
    trellis_.load(s);
    plain_.plain(s);
    fold_.clear();
    return trellis_.best_path(fold_, plain_, path, control);
}

bool Search::consider(const int32_t* path) {
    const int n = static_cast<int>(path_.size());
    const double score = plain_.score(judge_.sequence(), path) - judge_.cost(path, n);
    if (score > best_.score) {
        best_.score = score;
        best_.path.assign(path, path + n);
        best_.violations = judge_.violations;
    }
    for (int k : judge_.broken)
        if (!active_[k]) return false;
    return true;
}

void Search::activate_broken() {
    for (int k : judge_.broken)
        if (!active_[k]) active_[k] = 1, ++counters.active;
}

Answer Search::finished() const {
    Answer out = best_;
    out.status = best_.score > -kInf ? Status::optimal : Status::infeasible;
    out.bound = best_.score;
    return out;
}

Answer Search::stopped() {
    if (proved()) return finished();
    Answer out = best_;
    out.bound = std::max(bound_, best_.score);
    out.status = best_.score > -kInf ? Status::limit : Status::nothing_found;
    return out;
}

Answer Search::solve(const Sequence& s, Control& control) {
    plain_.plain(s);
    judge_.load(s);
    fold_.clear();
    fold_limit_ = max_product_states;
    arranged_ = 0;
    active_.assign(s.automata.size(), 0);
    set_.assign({});
    lambda_.clear();
    best_ = Answer();
    bound_ = kInf;
    slack_ = -1;
    H_valid_ = false;
    estimates_.clear();
    path_.assign(s.n, 0);

    ++counters.passes;
    bound_ = first_path(s, path_.data(), control);
    if (!(bound_ > -kInf) || consider(path_.data())) return finished();
    trellis_.load(s);
    all_.assign(s.automata);
    try {
        control.armed = true;  // from here on there is a bound to show
        Answer out = work(control);
        control.armed = false;
        return out;
    } catch (const Late&) {
        control.armed = false;
        const double steps = 1.0 + static_cast<double>(s.n) * s.m * s.automata.size();
        if (!(best_.score > -kInf) && H_valid_) dive(static_cast<int>(std::clamp(1e7 / steps, 1.0, 16.0)), control);
        return stopped();
    }
}

Answer Search::work(Control& control) {
    const Sequence& s = trellis_.sequence();
    const std::vector<int> first_broken = judge_.broken;
    if (std::any_of(first_broken.begin(), first_broken.end(), [&](int k) { return s.automata[k].mode != Mode::hard; })) {
        const bool done = enforce_broken(control);
        fold_.clear();
        if (done) return finished();
        judge_.broken = first_broken;
    }
    activate_broken();

    for (int64_t patience = kPatience;;) {
        ++counters.rounds;
        control.check();
        arrange(control);
        estimates_.clear();
        if (set_.size() == 0) {
            ++counters.passes;
            const double value = trellis_.best_path(fold_, plain_, path_.data(), control);
            bound_ = std::min(bound_, value);
            if (!(value > -kInf)) {
                best_.score = -kInf;
                return finished();
            }
            if (consider(path_.data()) || proved()) return finished();
            activate_broken();
            continue;
        }
        const int64_t active_before = counters.active;
        if (tighten_bound(control)) return finished();
        if (counters.active > active_before) continue;  // rules that were met on the way come in first
        adjust(control);  // back to the best multipliers
        estimate(control);
        if (!(best_.score > -kInf)) dive(64, control);
        else if (!estimates_.empty()) dive(8, control);
        const bool larger = fold_limit_ < kLargeFold;
        const int64_t left = max_states_ < 0 ? -1 : std::max<int64_t>(0, max_states_ - counters.expansions);
        const int64_t most = larger ? (left < 0 ? patience : std::min(left, patience)) : left;
        BestFirst between{trellis_, fold_, plain_, best_H_, set_, lambda_, estimates_};
        const double floor = best_.score > -kInf ? best_.score + slack() : -kInf;
        between.run(1, floor, most, control);
        counters.expansions += between.expansions;
        if (!between.complete) {
            bound_ = std::min(bound_, std::max(between.bound, best_.score));
            if (!larger || control.late() || (max_states_ >= 0 && counters.expansions >= max_states_)) return stopped();
            fold_limit_ *= 8;
            patience *= 4;
            continue;
        }
        if (between.found.empty()) return finished();  // nothing above the best answer
        const Found& top = between.found[0];
        bound_ = std::min(bound_, top.score);
        if (consider(top.path.data()) || proved()) return finished();
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
    trellis_.load(s);  // the first path may have been the answer
    all_.assign(s.automata);
    for (;;) {
        if (arranged_ < counters.active) {  // rules that were met meanwhile
            arrange(control);
            estimates_.clear();
            if (set_.size() > 0) tighten_bound(control);
            continue;
        }
        if (!H_valid_) {
            trellis_.backward(fold_, plain_, best_H_, control);
            std::fill(lambda_.begin(), lambda_.end(), 0.0);
            H_valid_ = true;
        }
        const int64_t left = max_states < 0 ? -1 : std::max<int64_t>(0, max_states - counters.expansions);
        BestFirst all{trellis_, fold_, plain_, best_H_, set_, lambda_, estimates_};
        all.run(k, -kInf, left, control);
        counters.expansions += all.expansions;
        out.clear();
        for (const Found& found : all.found) {
            Answer a;
            const double cost = judge_.cost(found.path.data(), s.n);
            activate_broken();
            a.score = plain_.score(s, found.path.data()) - cost;
            a.path = found.path;
            a.bound = a.score;
            out.push_back(std::move(a));
        }
        if (arranged_ == counters.active) {
            if (out.empty() && !all.complete) out.push_back(first);  // it is proved; a limit stopped what should follow
            for (Answer& a : out)
                if (!all.complete) a.status = Status::limit;
            return out;
        }
        fold_limit_ = std::max(fold_limit_, max_product_states * 8);
    }
}

}  // namespace bridle
