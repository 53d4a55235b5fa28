#include "search/groups.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "search/fold.h"

namespace bridle {
namespace {

// What these do shows in `benchmarks/run.py --only many`.
constexpr int kMostStatesAlone = 4096;  // of a rule
constexpr double kHardWeight = 20.0;    // what a hard rule is worth beside penalties
constexpr size_t kMostEntries = 32;

struct Group {
    std::vector<int> members;
    int states = 0;
    double weight = 0;
};

struct Merger {
    double merit = kInf;  // the least first; +inf: the product is too large
    int states = 0;       // of the product; 0: not known yet, and the merit is the least that it can be
};

}  // namespace

// Merges the two groups whose product is smallest beside what they are, again and again.
class GroupSearch {
  public:
    GroupSearch(int m, int most) : m_(m), most_(most) {}

    // Goes on where it was stopped: the automata are the same, if not their marks.
    void forget_products() { fold_ = Fold(); }  // they are large, and soon made again

    Grouping run(const std::vector<BoundAutomaton>& automata, int n, Control& control) {
        automata_ = &automata, n_ = n, control_ = &control;
        if (!start()) return {};
        const size_t count = groups_.size();
        if (mergers_.empty()) {
            mergers_.assign(count, std::vector<Merger>(count));
            for (size_t a = 0; a < count; ++a)
                for (size_t b = a + 1; b < count; ++b) mergers_[a][b] = at_best(groups_[a], groups_[b]);
        }
        while (merge_best()) control.check();
        Grouping out;
        for (const Group& group : groups_)
            if (!group.members.empty()) out.push_back(group.members);
        return out;
    }

  private:
    bool start() {  // automata that one price pays for stay together
        const std::vector<BoundAutomaton>& automata = *automata_;
        for (int k = n_started_; k < int(automata.size()); n_started_ = k) {
            Group group;
            const BoundAutomaton& first = automata[k];
            do {
                group.members.push_back(k);
                group.weight += automata[k].mode == Mode::hard ? kHardWeight : automata[k].penalty;
                ++k;
            } while (first.mode == Mode::per_sequence && k < int(automata.size()) && automata[k].rule == first.rule);
            group.states = states_of(group.members, kMostStatesAlone);
            if (group.states < 0) return false;
            groups_.push_back(std::move(group));
        }
        return true;
    }

    int states_of(const std::vector<int>& members, int most) {
        std::vector<BoundAutomaton> chosen;
        chosen.reserve(members.size());
        for (int k : members) chosen.push_back((*automata_)[k]);
        AutomatonSet set;
        set.assign(std::move(chosen));
        return fold_.build(set, n_, m_, most, *control_) ? fold_.Q : -1;
    }

    static std::vector<int> joined(const Group& a, const Group& b) {
        std::vector<int> both(a.members.size() + b.members.size());
        std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(), both.begin());
        return both;
    }

    static double merit(const Group& a, const Group& b, int states) {
        const double apart = double(a.states) * b.states;
        return std::log(states / apart) / std::sqrt(std::max(1e-9, std::min(a.weight, b.weight)));
    }
    // A product has no fewer states than what it is made of: most pairs need no closer look.
    Merger at_best(const Group& a, const Group& b) {
        const int larger = std::max(a.states, b.states);
        if (larger > most_ || double(a.states) * b.states > 4.0 * most_ * most_) return {};
        return {merit(a, b, larger), 0};
    }
    Merger merger(const Group& a, const Group& b) {
        const int states = states_of(joined(a, b), most_);
        if (states < 0) return {};
        return {merit(a, b, states), states};
    }

    bool merge_best() {  // or looks closer at what may be best
        const size_t count = groups_.size();
        size_t x = 0, y = 0;
        double least = kInf;
        for (size_t a = 0; a < count; ++a)
            for (size_t b = a + 1; b < count; ++b)
                if (mergers_[a][b].merit < least) least = mergers_[a][b].merit, x = a, y = b;
        if (!(least < kInf)) return false;
        if (mergers_[x][y].states == 0) {
            mergers_[x][y] = merger(groups_[x], groups_[y]);
            return true;
        }
        Group& into = groups_[x];
        into.members = joined(into, groups_[y]);
        into.states = mergers_[x][y].states;
        into.weight += groups_[y].weight;
        groups_[y].members.clear();
        for (size_t c = 0; c < count; ++c) {
            mergers_[std::min(c, y)][std::max(c, y)] = {};
            if (c != x && !groups_[c].members.empty())
                mergers_[std::min(c, x)][std::max(c, x)] = at_best(groups_[c], into);
        }
        return true;
    }

    const std::vector<BoundAutomaton>* automata_ = nullptr;
    Control* control_ = nullptr;
    int n_ = 0;
    const int m_, most_;
    int n_started_ = 0;  // automata that have a group
    Fold fold_;
    std::vector<Group> groups_;
    std::vector<std::vector<Merger>> mergers_;  // (groups, groups), above the diagonal
};

std::shared_ptr<const Grouping> GroupCache::find(const std::vector<BoundAutomaton>& automata, int n, int m, int most,
                                                 Control& control) {
    Key key{uint64_t(most)};
    for (const BoundAutomaton& p : automata) {
        uint64_t bits;
        static_assert(sizeof bits == sizeof p.penalty);
        std::memcpy(&bits, &p.penalty, sizeof bits);
        key.insert(key.end(), {uint64_t(p.automaton->serial), uint64_t(p.mode) << 32 | uint32_t(p.rule), bits});
    }
    std::shared_ptr<GroupSearch> search;
    {
        const std::lock_guard lock(mutex_);
        const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
        if (entry != entries_.end()) {
            std::rotate(entries_.begin(), entry, entry + 1);
            if (entries_.front().grouping) return entries_.front().grouping;
            search = std::move(entries_.front().unfinished);
            entries_.pop_front();
        }
    }
    if (!search) search = std::make_shared<GroupSearch>(m, most);
    std::shared_ptr<const Grouping> grouping;  // null: out of time
    control.completes([&] { grouping = std::make_shared<const Grouping>(search->run(automata, n, control)); });
    if (!grouping) search->forget_products();
    {
        const std::lock_guard lock(mutex_);
        entries_.push_front({std::move(key), grouping, grouping ? nullptr : std::move(search)});
        if (entries_.size() > kMostEntries) entries_.pop_back();
    }
    if (!grouping) control.give_up();  // the next sequence goes on
    return grouping;
}

}  // namespace bridle
