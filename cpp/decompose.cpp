#include "decompose.h"

#include <algorithm>
#include <utility>

#include "layered.h"
#include "segments.h"

namespace bridle {
namespace {

constexpr size_t kMost = 64;                       // automata that are grouped whether they are active or not
constexpr size_t kMostActive = 160;                // automata that can be grouped in time
constexpr int kRounds = 60;                        // of sweeps and search
constexpr int kMoreRounds = 40;                    // that bring in rules
constexpr int kSweeps = 3;                         // of a round, but for the first, which has one
constexpr size_t kPerSweep = 256, kSteady = 4096;  // nodes of a layer that are worth another sweep, up to so many
constexpr double kProgress = 0.85;                 // of the gap is left: sweeps are worth more than a wider search
constexpr size_t kKeptBytes = size_t{1} << 25;
constexpr double kLargestMargin = 0.5;           // what single precision may lose
constexpr size_t kNarrow = 16, kWide = 1 << 18;  // nodes of a layer

// As many nodes of a layer as fit into memory beside the shares: their labels in all layers, two fronts, and the steps from one.
size_t widest(const Instance& instance, size_t groups) {
    const size_t n = instance.sequence.n, m = instance.sequence.m;
    const size_t node = n * 2 * sizeof(int32_t) + 2 * (sizeof(double) + groups * sizeof(uint16_t)) + m * 2 * 12 + 16;
    const size_t memory = instance.control.memory(),
                 left = memory / 4 * 3 - std::min(memory / 2, instance.scratch.bytes());
    return std::clamp(left / node, kNarrow, kWide);
}

// The automata that are grouped: all, or if they are many, the active ones and others that the same price pays for.
class Chosen {
  public:
    Chosen(const Sequence& s, const ActiveRules& active)
        : s_(s), taken_(s.automata.size(), 0), all_(s.automata.size() <= kMost) {
        if (all_)
            for (size_t k = 0; k < s.automata.size(); ++k) more_.push_back(s.automata[k]);
        else update(active);
    }
    // What is new.
    const std::vector<BoundAutomaton>& more() const { return more_; }
    void update(const ActiveRules& active) {
        more_.clear();
        if (all_) return;
        std::vector<char> wanted(s_.problem->rules.size(), 0);
        const std::vector<int> list = active.list();
        for (int k : list)
            if (s_.automata[k].mode == Mode::per_sequence) wanted[s_.automata[k].rule] = 1;
        std::vector<char> is_active(s_.automata.size(), 0);
        for (int k : list) is_active[k] = 1;
        for (size_t k = 0; k < s_.automata.size(); ++k) {
            const BoundAutomaton& p = s_.automata[k];
            if (taken_[k] || !(is_active[k] || (p.mode == Mode::per_sequence && wanted[p.rule]))) continue;
            taken_[k] = 1;
            more_.push_back(p);
        }
    }

  private:
    const Sequence& s_;
    std::vector<char> taken_;  // (automata)
    const bool all_;
    std::vector<BoundAutomaton> more_;
};

}  // namespace

bool decompose(Instance& instance, ActiveRules& active, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    if (!s.problem->groups || instance.limits.max_states >= 0) return false;
    Chosen chosen(s, active);
    if (chosen.more().size() > kMostActive) return false;
    const auto group = [&] {
        return s.problem->groups->find(chosen.more(), s.n, s.m, instance.limits.max_group_states, instance.control);
    };
    auto grouping = group();
    if (grouping->size() < 2) return false;
    std::shared_ptr<Shares> own = std::exchange(instance.scratch.shares, nullptr);
    if (!own) own = std::make_shared<Shares>();
    Shares& shares = *own;
    if (!shares.load(instance, chosen.more(), *grouping)) return false;
    if (shares.bytes() <= kKeptBytes)
        instance.scratch.shares = own;  // its memory and its automata serve the next sequence
    SegmentSearch segments(instance, shares);
    if (incumbent.found()) segments.improve(incumbent);
    LayeredSearch layered(instance, shares, incumbent, active);
    const size_t widest_layer = widest(instance, shares.groups.size());
    size_t most = kNarrow;
    double margin = shares.margin(), last = kInf;
    for (int round = 0, more = 0; round < kRounds; ++round) {
        double bound = kInf;
        const int sweeps = round == 0 || !incumbent.found()
                               ? 1
                               : kSweeps + static_cast<int>(std::min(layered.nodes(), kSteady) / kPerSweep);
        for (int k = 0; k < sweeps; ++k) {
            if (!(margin <= kLargestMargin)) return false;  // scores too large for single precision
            // Twice the margin: the shares move on the way.
            bound = shares.sweep(incumbent.found() ? incumbent.score - 2 * margin : -kInf, instance.control);
            margin = shares.margin();
            if (round == 1 && k == 0 &&
                incumbent.found()) {  // the sooner the incumbent is good, the more the next sweeps drop
                layered.run(most, margin);
                segments.improve(incumbent);
            }
        }
        incumbent.tighten(std::max(bound + margin, incumbent.score));
        ++instance.counters.rounds;
        if (!(bound > -kInf) && !incumbent.found()) return true;  // no labelling at all
        double score = incumbent.score;
        const double cut = layered.run(most, margin) + margin;
        if (incumbent.score > score) segments.improve(incumbent);
        if (cut <= incumbent.score + instance.tolerance(incumbent.score) || !(cut > -kInf)) {
            incumbent.tighten(incumbent.score);
            return true;
        }
        incumbent.tighten(std::max(cut, incumbent.score));
        if (proved(instance, incumbent)) return true;
        chosen.update(active);
        if (!chosen.more().empty()) {  // rules that the labelling breaks come in, at no loss of what was shared out
            if (++more > kMoreRounds || chosen.more().size() > kMostActive) return false;
            grouping = group();
            if (grouping->empty() || !shares.add(instance, chosen.more(), *grouping)) return false;
            margin = shares.margin();
            round = std::min(round, 0);
            continue;
        }
        const double gap = bound - incumbent.score;
        if (std::exchange(last, gap) * kProgress > gap && round > 0) continue;
        most = std::min(most * 4, widest_layer);
    }
    return false;
}

}  // namespace bridle
