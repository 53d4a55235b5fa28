#include "search/fold.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace bridle {
namespace {

// Positions whose marks agree for all automata are of one kind; `first` holds one position of each kind.
std::vector<int32_t> kinds_of(const AutomatonSet& set, int n, std::vector<int>& first, Control& control) {
    std::vector<const uint8_t*> marks;
    for (const BoundAutomaton& p : set.automata)
        if (p.marks) marks.push_back(p.marks);
    first.assign(1, 0);
    if (marks.empty() || n == 0) return {};
    std::vector<int32_t> kind(n);
    std::unordered_map<uint64_t, std::vector<int32_t>> seen;
    first.clear();
    for (int t = 0; t < n; ++t) {
        if ((t & 4095) == 4095) control.check();
        uint64_t hash = 1469598103934665603ull;
        for (const uint8_t* mark : marks) hash = (hash ^ mark[t]) * 1099511628211ull;
        auto& bucket = seen[hash];
        int number = -1;
        for (int32_t k : bucket) {
            bool same = true;
            for (const uint8_t* mark : marks) same = same && mark[t] == mark[first[k]];
            if (same) number = k;
        }
        if (number < 0) {
            number = int(first.size());
            first.push_back(t);
            bucket.push_back(number);
        }
        kind[t] = number;
    }
    return kind;
}

constexpr double kDirect = 32768;  // more takes longer to clear than to hash

// Numbers of state vectors: by their mixed-radix value while that is small, else by hashing, in one piece of memory.
class Index {
  public:
    explicit Index(const AutomatonSet& set) : width_(set.size()) {
        double product = 1;
        for (const BoundAutomaton& p : set.automata) radix_.push_back(p.n_states()), product *= p.n_states();
        if (product <= kDirect) direct_.assign(size_t(product), -1);
    }
    // The number of a state vector; a new one gets `fresh`, the number of those that are known.
    int32_t find(const State* s, const std::vector<State>& states, int32_t fresh) {
        if (!direct_.empty()) {
            size_t at = 0;
            for (size_t k = 0; k < width_; ++k) at = at * radix_[k] + s[k];
            return direct_[at] < 0 ? direct_[at] = fresh : direct_[at];
        }
        if (2 * size_t(fresh) >= slots_.size()) {
            slots_.assign(std::max<size_t>(256, 4 * slots_.size()), -1);
            for (int32_t r = 0; r < fresh; ++r) slots_[free_slot(states.data() + r * width_, states)] = r;
        }
        int32_t& slot = slots_[free_slot(s, states)];
        return slot < 0 ? slot = fresh : slot;
    }

  private:
    // Where a state vector stands, or may stand.
    size_t free_slot(const State* s, const std::vector<State>& states) const {
        uint64_t h = 1469598103934665603ull;
        for (size_t k = 0; k < width_; ++k) h = (h ^ s[k]) * 1099511628211ull;
        size_t at = (h ^ (h >> 29)) & (slots_.size() - 1);
        while (slots_[at] >= 0 && !std::equal(s, s + width_, states.data() + slots_[at] * width_))
            at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    size_t width_;
    std::vector<int> radix_;
    std::vector<int32_t> direct_, slots_;  // slots_: open addressing, -1: free
};

// Classes of labels that no automaton distinguishes: the class of each label (m), and one label of each class in `labels`.
std::vector<int32_t> classes_of(const AutomatonSet& set, int m, std::vector<int32_t>& labels) {
    std::vector<int32_t> joint(m, 0);
    std::vector<std::pair<uint64_t, int32_t>> order(m);
    for (const BoundAutomaton& p : set.automata) {
        for (int y = 0; y < m; ++y) order[y] = {uint64_t(joint[y]) << 16 | p.automaton->class_of[y], y};
        std::sort(order.begin(), order.end());
        labels.clear();
        for (int k = 0; k < m; ++k) {
            if (k == 0 || order[k].first != order[k - 1].first) labels.push_back(order[k].second);
            joint[order[k].second] = int32_t(labels.size()) - 1;
        }
    }
    return joint;
}

constexpr size_t kMostCells = size_t{1} << 26;   // of one table
constexpr size_t kKnownCells = size_t{1} << 21;  // of all that are kept
constexpr size_t kTableCells = 1024;             // what a table counts at least: there are at most 2,048
constexpr size_t kSmallTable = 1 << 14;          // cells that are never too many

}  // namespace

void Fold::clear() {
    Q = 1;
    tables_.reset();
    final.assign(1, 0.0);
    kind_.clear();
}

void Fold::share(const Fold& other) {
    Q = other.Q, final = other.final, width_ = other.width_, kind_ = other.kind_, tables_ = other.tables_;
}

void Fold::forget_costs() {
    if (tables_) {
        tables_ = std::make_shared<Tables>(*tables_);
        for (double& c : tables_->cost) c = c < kInf ? 0.0 : kInf;
    }
    for (double& f : final) f = f < kInf ? 0.0 : kInf;
}

bool Fold::build(const AutomatonSet& set, int n, int m, int most, Control& control) {
    clear();
    if (set.size() == 0) return true;
    width_ = padded(m);
    std::vector<int> first;
    kind_ = kinds_of(set, n, first, control);
    // What the tables depend on: the automata, what breaking them costs, and the marks of each kind of position.
    Key key;
    key.reserve(set.size() * (3 + first.size()) + 1);
    for (const BoundAutomaton& p : set.automata) {
        int64_t bits;
        static_assert(sizeof bits == sizeof p.penalty);
        std::memcpy(&bits, &p.penalty, sizeof bits);
        key.insert(key.end(), {p.automaton->serial, int64_t(p.mode) << 32 | p.rule, bits});
        if (p.marks && n > 0)
            for (int t : first) key.push_back(p.marks[t]);
    }
    key.push_back(n == 0);
    auto entry = known_.find(key);
    if (entry != known_.end() && entry->second->Q <= most) tables_ = entry->second;
    else if (entry != known_.end()) return clear(), false;
    else {
        tables_ = n == 0 ? explore(set, {}, m, most, control) : explore(set, first, m, most, control);
        if (!tables_) return clear(), false;
        const size_t cells = std::max(tables_->next.size() + key.size(), kTableCells);
        const size_t kept = std::min(kKnownCells, control.memory() / 16 / kCellBytes);
        if (known_cells_ + cells > kept) known_.clear(), known_cells_ = 0;
        if (tables_->next.size() < kept / 8) known_.emplace(std::move(key), tables_), known_cells_ += cells;
    }
    Q = tables_->Q;
    final = tables_->final;
    return true;
}

std::shared_ptr<Fold::Tables> Fold::explore(const AutomatonSet& set, const std::vector<int>& first, int m, int most,
                                            Control& control) const {
    control.check();
    const size_t size = set.size(), kinds = first.size();
    std::vector<State> states(size, 0), to(size);  // states: of all q, one after the other
    Index index(set);
    index.find(states.data(), states, 0);
    std::vector<int32_t> members;
    const std::vector<int32_t> class_of = classes_of(set, m, members);
    std::vector<int32_t> next;  // (Q, kinds, classes) while it grows
    std::vector<double> cost;
    int count = 1;
    const int stretch = int(std::clamp<size_t>((size_t{1} << 18) / (kinds * members.size() * size + 1), 1, 256));
    for (int q = 0; q < count; ++q) {
        // The tables, and while they are made: moves by class, states and their index.
        const size_t cells = kinds * count * width_,
                     bytes = cells * kCellBytes + (12 * kinds * members.size() + 2 * size + 96) * count;
        if (cells > kMostCells || (cells > kSmallTable && bytes > control.memory() / 8)) return nullptr;
        if (q % stretch == stretch - 1) control.check();
        for (size_t k = 0; k < kinds; ++k)
            for (const int32_t y : members) {
                const double c = set.advance(states.data() + q * size, to.data(), y, first[k]);
                int32_t state = 0;
                if (c < kInf) {
                    state = index.find(to.data(), states, count);
                    if (state == count) {
                        if (count >= most) return nullptr;
                        ++count;
                        states.insert(states.end(), to.begin(), to.end());
                    }
                }
                next.push_back(state);
                cost.push_back(c);
            }
    }
    auto tables = std::make_shared<Tables>();
    tables->Q = count;
    for (int q = 0; q < count; ++q) tables->final.push_back(set.finish(states.data() + q * size));
    lay_out(tables->next, kinds * count * width_, 0, control);
    lay_out(tables->cell, kinds * count * width_, 0, control);
    lay_out(tables->cost, kinds * count * width_, kInf, control);
    for (int q = 0; q < count; ++q) {
        if (q % stretch == stretch - 1) control.check();
        for (size_t k = 0; k < kinds; ++k)
            for (int y = 0; y < m; ++y) {
                const size_t from = (q * kinds + k) * members.size() + class_of[y], into = (k * count + q) * width_ + y;
                tables->next[into] = next[from];
                tables->cell[into] = next[from] * width_ + y;
                tables->cost[into] = cost[from];
            }
    }
    return tables;
}

}  // namespace bridle
