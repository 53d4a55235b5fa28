#include "search/sums_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

namespace bridle {
namespace {

constexpr int kMostRow = 8192;
constexpr size_t kBreath = size_t{1} << 18;        // steps between two looks at the clock
constexpr size_t kWorthMerging = size_t{1} << 24;  // steps: more take longer to merge than they save

using States = std::vector<State>;

struct Hash {
    size_t operator()(const States& s) const {
        uint64_t h = 1469598103934665603ull;
        for (const State x : s) h = (h ^ x) * 1099511628211ull;
        return size_t(h ^ (h >> 29));
    }
};

// Two numbers that are, together, as good as all that was added.
struct Key {
    uint64_t a = 0x9e3779b97f4a7c15ull, b = 0xc2b2ae3d27d4eb4full;
    void add(uint64_t x) {
        a = (a ^ x) * 0xff51afd7ed558ccdull, a ^= a >> 32;
        b = (b + x) * 0xc4ceb9fe1a85ec53ull, b ^= b >> 29;
    }
    bool operator==(const Key&) const = default;
};
struct KeyHash {
    size_t operator()(const Key& k) const { return size_t(k.a); }
};

// Automata that read side by side, each with its state, and what that costs as counts of each rule.
class Product {
  public:
    Product(const std::vector<BoundAutomaton>& automata, const PositionKinds& kinds)
        : automata_(automata), kinds_(kinds) {
        prices.emplace_back();
        known_[{}] = 0;
    }

    // Reads label y at a position of a kind; the price, or -1: a hard rule breaks.
    int32_t advance(const States& from, States& to, int kind, int y) {
        return pay(
            [&](size_t k) {
                const BoundAutomaton& p = automata_[k];
                const Move& move = p.automaton->read(kinds_.marks[kind][k], from[k], y);
                to[k] = State(move.to);
                return move.violations;
            },
            from, &to);
    }
    int32_t finish(const States& at) {
        return pay([&](size_t k) { return automata_[k].automaton->final[at[k]]; }, at, nullptr);
    }

    std::vector<SumGraph::Price> prices;

  private:
    // violations(k): of automaton k. A rule that is paid once may have several automata: the first violation pays for all.
    template <class Violations>
    int32_t pay(const Violations& violations, const States& from, States* to) {
        SumGraph::Price price;
        for (size_t k = 0; k < automata_.size();) {
            const size_t first = k;
            const bool once = automata_[k].mode == Mode::per_sequence;
            int count = 0;
            bool paid = false;
            do {
                const BoundAutomaton& p = automata_[k];
                if (once && from[k] == p.paid()) {
                    paid = true;
                    if (to) (*to)[k] = from[k];
                } else count += violations(k);
                ++k;
            } while (once && k < automata_.size() && automata_[k].rule == automata_[first].rule &&
                     automata_[k].mode == Mode::per_sequence);
            if (count == 0 || paid) continue;
            if (is_hard(automata_[first].mode)) return -1;
            price.emplace_back(automata_[first].rule, once ? 1 : count);
            for (size_t g = first; once && to && g < k; ++g) (*to)[g] = State(automata_[g].paid());
        }
        if (price.empty()) return 0;
        const auto [entry, fresh] = known_.try_emplace(price, int32_t(prices.size()));
        if (fresh) prices.push_back(price);
        return entry->second;
    }

    const std::vector<BoundAutomaton>& automata_;
    const PositionKinds& kinds_;
    std::map<SumGraph::Price, int32_t> known_;
};

// Labels that no automaton distinguishes share a class.
std::vector<int32_t> classes_of(const std::vector<BoundAutomaton>& automata, int m, std::vector<int32_t>& member) {
    std::map<std::vector<uint16_t>, int32_t> known;
    std::vector<int32_t> out(m);
    for (int y = 0; y < m; ++y) {
        std::vector<uint16_t> all;
        all.reserve(automata.size());
        for (const BoundAutomaton& p : automata) all.push_back(p.automaton->class_of[y]);
        const auto [entry, fresh] = known.try_emplace(std::move(all), int32_t(member.size()));
        if (fresh) member.push_back(y);
        out[y] = entry->second;
    }
    return out;
}

class Builder {
  public:
    Builder(const std::vector<BoundAutomaton>& automata, const PositionKinds& kinds, const TableCache& masks,
            size_t most_states, size_t most_bytes, Control& control)
        : automata_(automata),
          kinds_(kinds),
          masks_(masks),
          m_(masks.m),
          K_(kinds.marks.size()),
          most_states_(most_states),
          most_bytes_(most_bytes),
          control_(control),
          product_(automata, kinds) {}

    std::shared_ptr<const SumGraph> run() {
        order_labels();
        if (!explore()) return nullptr;
        trim();
        merge();
        return lay_out_graph();
    }

  private:
    struct Step {
        int32_t state = -1, price = -1;
    };

    bool open(int i, int j) const {  // labels
        return masks_.free_mask.empty() || masks_.free_mask[size_t(i) * m_ + j] > -kInf;
    }
    size_t at(size_t q, int y) const { return q * m_ + y; }
    const Step& step(size_t q, size_t kind, int y) const {
        return steps_[(q * K_ + kind) * member_.size() + class_of_[y]];
    }
    void breathe(size_t steps) {
        work_ += steps;
        if (work_ < kBreath) return;
        work_ = 0;
        control_.check();
    }

    // Those that may follow most others first; those that may follow the same ones side by side.
    void order_labels() {
        out_ = std::make_shared<SumGraph>();
        out_->m = m_;
        std::vector<int32_t>& label = out_->label;
        label.resize(m_), out_->place.resize(m_);
        std::iota(label.begin(), label.end(), 0);
        if (!masks_.free_mask.empty() && m_ <= kMostRow) {
            std::vector<std::pair<int, int>> key(m_);  // minus how many, the first of them
            for (int j = 0; j < m_; ++j) {
                int count = 0, first = m_;
                for (int i = m_; i-- > 0;)
                    if (open(i, j)) ++count, first = i;
                key[j] = {-count, count == m_ ? 0 : first};
            }
            std::stable_sort(label.begin(), label.end(), [&](int a, int b) { return key[a] < key[b]; });
        }
        for (int k = 0; k < m_; ++k) out_->place[label[k]] = k;
    }

    int32_t number_of(const States& s) {
        const auto [entry, fresh] = index_.try_emplace(s, int32_t(states_.size()));
        if (fresh) {
            states_.push_back(s);
            for (size_t c = 0; c < K_ * member_.size(); ++c) steps_.emplace_back();
            reached_.resize(reached_.size() + m_, 0);
        }
        return entry->second;
    }

    bool explore() {
        class_of_ = classes_of(automata_, m_, member_);
        States to(automata_.size());
        number_of(States(automata_.size(), 0));
        std::vector<uint8_t> expanded;
        std::vector<std::pair<int32_t, int32_t>> queue;
        const auto make = [&](int32_t q) {
            if (size_t(q) < expanded.size() && expanded[q]) return true;
            expanded.resize(states_.size(), 0), expanded[q] = 1;
            for (size_t k = 0; k < K_; ++k)
                for (size_t c = 0; c < member_.size(); ++c) {
                    const int32_t price = product_.advance(states_[q], to, int(k), member_[c]);
                    if (price < 0) continue;
                    const int32_t state = number_of(to);
                    steps_[(size_t(q) * K_ + k) * member_.size() + c] = {state, price};
                }
            breathe(K_ * member_.size() * (automata_.size() + 1));
            const size_t bytes = steps_.size() * sizeof(Step) + states_.size() * (m_ + 4 * automata_.size() + 96);
            return states_.size() <= 2 * most_states_ + 2 && bytes <= most_bytes_;
        };
        const auto reach = [&](int32_t q, size_t k, int y) {
            const Step& s = step(q, k, y);
            if (s.state < 0 || reached_[at(s.state, y)]) return;
            reached_[at(s.state, y)] = 1;
            queue.emplace_back(s.state, y);
        };
        if (!make(0)) return false;
        for (size_t k = 0; k < K_; ++k)
            for (int y = 0; y < m_; ++y)
                if (masks_.first_mask.empty() || masks_.first_mask[y] > -kInf) reach(0, k, y);
        for (size_t next = 0; next < queue.size(); ++next) {
            const auto [q, i] = queue[next];
            if (!make(q)) return false;
            for (size_t k = 0; k < K_; ++k)
                for (int j = 0; j < m_; ++j)
                    if (open(i, j)) reach(q, k, j);
            breathe(K_ * m_);
        }
        queue_ = std::move(queue);
        final_.resize(states_.size());
        for (size_t q = 0; q < states_.size(); ++q) final_[q] = product_.finish(states_[q]);
        out_->empty = final_[0];
        return true;
    }

    // Drops nodes from which no labelling can end.
    void trim() {
        std::vector<uint8_t> alive(reached_.size(), 0);
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t n = queue_.size(); n-- > 0;) {
                const auto [q, i] = queue_[n];
                if (alive[at(q, i)]) continue;
                bool ends = final_[q] >= 0 && (masks_.last_mask.empty() || masks_.last_mask[i] > -kInf);
                for (size_t k = 0; !ends && k < K_; ++k)
                    for (int j = 0; !ends && j < m_; ++j)
                        if (open(i, j)) {
                            const Step& s = step(q, k, j);
                            ends = s.state >= 0 && alive[at(s.state, j)];
                        }
                breathe(m_);
                if (ends) alive[at(q, i)] = 1, changed = true;
            }
        }
        reached_ = std::move(alive);
    }

    // Gives nodes with equal futures the same representative (Moore's refinement).
    void merge() {
        const size_t cells = reached_.size();
        rep_.resize(cells);
        std::iota(rep_.begin(), rep_.end(), 0);
        size_t alive = std::count(reached_.begin(), reached_.end(), 1);
        if (automata_.empty() || alive * K_ * m_ > kWorthMerging) return;
        std::vector<int32_t> number(cells, -1), fresh(cells, -1);
        size_t count = 0;
        const auto refine = [&](const auto& add) {
            std::unordered_map<Key, int32_t, KeyHash> known;
            for (size_t c = 0; c < cells; ++c) {
                if (!reached_[c]) continue;
                Key key;
                add(key, c);
                fresh[c] = known.try_emplace(key, int32_t(known.size())).first->second;
            }
            number.swap(fresh);
            const bool changed = known.size() != count;
            count = known.size();
            return changed;
        };
        refine([&](Key& key, size_t c) {
            const int i = int(c % m_);
            const bool ends = masks_.last_mask.empty() || masks_.last_mask[i] > -kInf;
            key.add(uint64_t(i)), key.add(uint64_t(ends ? final_[c / m_] : -1));
        });
        while (refine([&](Key& key, size_t c) {
            const size_t q = c / m_;
            key.add(uint64_t(number[c]));
            for (size_t k = 0; k < K_; ++k)
                for (int j = 0; j < m_; ++j) {
                    if (!open(int(c % m_), j)) continue;
                    const Step& s = step(q, k, j);
                    const bool dead = s.state < 0 || !reached_[at(s.state, j)];
                    key.add(dead ? ~uint64_t{0} : uint64_t(number[at(s.state, j)]) << 32 | uint32_t(s.price));
                }
            breathe(K_ * m_);
        })) {
        }
        std::vector<int64_t> first(count, -1);
        for (size_t c = 0; c < cells; ++c) {
            if (!reached_[c]) continue;
            int64_t& f = first[number[c]];
            if (f < 0) f = int64_t(c);
            rep_[c] = f;
        }
    }

    std::shared_ptr<const SumGraph> lay_out_graph() {
        SumGraph& g = *out_;
        g.prices = product_.prices;
        std::vector<int32_t> node(reached_.size(), -1), row_of;  // row_of (Q): the state
        g.row_begin.assign(1, 0);
        for (size_t q = 0; q < states_.size(); ++q) {
            for (int p = 0; p < m_; ++p) {
                const size_t c = at(q, g.label[p]);
                if (!reached_[c] || rep_[c] != int64_t(c)) continue;
                node[c] = g.V++;
                g.node_row.push_back(g.Q);
                g.node_place.push_back(p);
                const bool ends = masks_.last_mask.empty() || masks_.last_mask[g.label[p]] > -kInf;
                g.final.push_back(ends ? final_[q] : -1);
            }
            if (g.V > g.row_begin.back()) g.row_begin.push_back(g.V), row_of.push_back(int32_t(q)), ++g.Q;
        }
        if (size_t(g.Q) > most_states_) return nullptr;
        const auto target = [&](size_t q, size_t k, int y) -> LaneTarget {
            const Step& s = step(q, k, y);
            if (s.state < 0 || !reached_[at(s.state, y)]) return {-1, 0};
            return {node[size_t(rep_[at(s.state, y)])], s.price};
        };
        g.kinds.resize(K_), g.start.resize(K_);
        for (size_t k = 0; k < K_; ++k) {
            g.start[k].resize(m_);
            for (int p = 0; p < m_; ++p) {
                const int y = g.label[p];
                const bool begins = masks_.first_mask.empty() || masks_.first_mask[y] > -kInf;
                g.start[k][p] = begins ? target(0, k, y) : LaneTarget{-1, 0};
            }
            SumGraph::Kind& kind = g.kinds[k];
            kind.steps.assign(size_t(g.Q) * m_, {-1, 0});
            for (int r = 0; r < g.Q; ++r) {
                for (int p = 0; p < m_; ++p) kind.steps[size_t(r) * m_ + p] = target(size_t(row_of[r]), k, g.label[p]);
                program(kind, r);
                if (g.bytes() > most_bytes_) return nullptr;
                breathe(size_t(m_) * 4);
            }
        }
        return out_;
    }

    // Adds the runs and tiles of a row.
    void program(SumGraph::Kind& kind, int r) {
        const SumGraph& g = *out_;
        const int low = g.row_begin[r], high = g.row_begin[r + 1];
        LaneTarget* const steps = &kind.steps[size_t(r) * m_];
        const auto may = [&](int v, int p) { return open(g.label[g.node_place[v]], g.label[p]); };
        for (int p = 0; p < m_; ++p) {  // a step that no node of the row can take
            bool taken = false;
            for (int v = low; v < high && !taken; ++v) taken = may(v, p);
            if (!taken) steps[p] = {-1, 0};
        }
        const auto alive = [&](int p) { return steps[p].cell >= 0; };
        split(m_, kMostRun, alive, [&](int p, int count) {
            const auto begin = uint32_t(kind.ahead_terms.size()), first = uint32_t(kind.forward.size());
            for (int v = low; v < high; ++v)
                if (any(count, [&](int c) { return alive(p + c) && may(v, p + c); }))
                    kind.ahead_terms.push_back({uint32_t(v), uint32_t(g.node_place[v] * m_ + p)});
            kind.forward.insert(kind.forward.end(), steps + p, steps + p + count);
            kind.ahead.push_back({first, uint32_t(count), begin, uint32_t(kind.ahead_terms.size())});
        });
        // Nodes whose places follow each other.
        for (int v = low; v < high;) {
            int end = v + 1;
            while (end < high && g.node_place[end] == g.node_place[end - 1] + 1) ++end;
            each_part(end - v, kMostRun, [&](int from, int count) {
                const int a = v + from, i = g.node_place[a];
                const auto begin = uint32_t(kind.back_terms.size()), first = uint32_t(kind.reverse.size());
                for (int p = 0; p < m_; ++p)
                    if (alive(p) && any(count, [&](int c) { return may(a + c, p); }))
                        kind.back_terms.push_back({uint32_t(r * m_ + p), uint32_t(p * m_ + i)});
                if (begin == kind.back_terms.size()) return;
                for (int c = 0; c < count; ++c) kind.reverse.push_back({a + c, 0});
                kind.back.push_back({first, uint32_t(count), begin, uint32_t(kind.back_terms.size())});
            });
            each_part(end - v, kMostTileRows, [&](int from, int rows) {
                const int a = v + from, i = g.node_place[a];
                split(m_, kMostTileColumns, alive, [&](int p, int columns) {
                    const auto both = [&](int c) {
                        return alive(p + c) && any(rows, [&](int x) { return may(a + x, p + c); });
                    };
                    if (any(columns, both))
                        kind.tiles.push_back({uint32_t(a), uint32_t(r * m_ + p), uint32_t(i), uint32_t(p),
                                              uint8_t(rows), uint8_t(columns)});
                });
            });
            v = end;
        }
        for (int p = 0; p < m_; ++p) {
            if (!alive(p) || steps[p].price == 0) continue;
            const auto begin = uint32_t(kind.charge_terms.size());
            for (int v = low; v < high; ++v)
                if (may(v, p)) kind.charge_terms.push_back({uint32_t(v), uint32_t(g.node_place[v] * m_ + p)});
            kind.charges.push_back({uint32_t(kind.charged.size()), 1, begin, uint32_t(kind.charge_terms.size())});
            kind.charge_targets.push_back({int32_t(kind.charged.size()), 0});
            kind.charged.push_back(r * m_ + p);
        }
    }

    template <class Test>
    static bool any(int count, const Test& test) {
        for (int c = 0; c < count; ++c)
            if (test(c)) return true;
        return false;
    }
    // Parts of about equal length, none longer than `most`.
    template <class Each>
    static void each_part(int length, int most, const Each& each) {
        const int parts = (length + most - 1) / most;
        for (int k = 0, from = 0; k < parts; ++k) {
            const int count = (length - from + parts - k - 1) / (parts - k);
            each(from, count);
            from += count;
        }
    }
    // Parts of the stretches whose members are wanted.
    template <class Wanted, class Each>
    static void split(int length, int most, const Wanted& wanted, const Each& each) {
        for (int p = 0; p < length;) {
            if (!wanted(p)) {
                ++p;
                continue;
            }
            int end = p + 1;
            while (end < length && wanted(end)) ++end;
            each_part(end - p, most, [&](int from, int count) { each(p + from, count); });
            p = end;
        }
    }

    const std::vector<BoundAutomaton>& automata_;
    const PositionKinds& kinds_;
    const TableCache& masks_;
    const int m_;
    const size_t K_, most_states_, most_bytes_;
    Control& control_;
    Product product_;
    std::shared_ptr<SumGraph> out_;
    std::unordered_map<States, int32_t, Hash> index_;
    std::vector<States> states_;
    std::vector<int32_t> class_of_, member_;
    std::vector<Step> steps_;                         // (states, kinds, classes)
    std::vector<uint8_t> reached_;                    // (states, m)
    std::vector<std::pair<int32_t, int32_t>> queue_;  // nodes in the order in which they were reached
    std::vector<int32_t> final_;                      // (states)
    std::vector<int64_t> rep_;                        // (states, m)
    size_t work_ = 0;
};

}  // namespace

size_t SumGraph::bytes() const {
    const auto of = [](const auto& x) { return x.size() * sizeof(x[0]); };
    size_t sum = sizeof *this + 20 * size_t(V) + 8 * size_t(m) * (1 + kinds.size());
    for (const Kind& k : kinds)
        sum += of(k.steps) + of(k.reverse) + of(k.forward) + of(k.ahead) + of(k.back) + of(k.ahead_terms) +
               of(k.back_terms) + of(k.tiles) + of(k.charges) + of(k.charge_terms) + 12 * k.charged.size();
    return sum;
}

std::shared_ptr<const SumGraph> build_graph(const std::vector<BoundAutomaton>& automata, const PositionKinds& kinds,
                                            const TableCache& masks, size_t most_states, size_t most_bytes,
                                            Control& control) {
    return Builder(automata, kinds, masks, most_states, most_bytes, control).run();
}

std::shared_ptr<const SumGraph> GraphCache::find(const std::vector<BoundAutomaton>& automata,
                                                 const PositionKinds& kinds, const TableCache& masks,
                                                 size_t most_states, size_t most_bytes, Control& control) {
    std::vector<int64_t> key{int64_t(kinds.marks.size())};
    for (const BoundAutomaton& p : automata)
        key.insert(key.end(), {p.automaton->serial, int64_t(p.mode) << 32 | uint32_t(p.rule)});
    for (const auto& marks : kinds.marks) key.insert(key.end(), marks.begin(), marks.end());
    {
        const std::lock_guard lock(mutex_);
        const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
        if (entry != entries_.end()) {
            std::rotate(entries_.begin(), entry, entry + 1);
            const Entry& known = entries_.front();
            const bool fits =
                known.graph && size_t(known.graph->Q) <= most_states && known.graph->bytes() <= most_bytes;
            if (fits) return known.graph;
            if (known.graph || (most_states <= known.most_states && most_bytes <= known.most_bytes)) return nullptr;
            entries_.erase(entries_.begin());
        }
    }
    auto graph = build_graph(automata, kinds, masks, most_states, most_bytes, control);
    const std::lock_guard lock(mutex_);
    entries_.insert(entries_.begin(), {std::move(key), most_states, most_bytes, graph});
    size_t bytes = 0;
    for (size_t k = 0; k < entries_.size(); ++k) {
        bytes += entries_[k].graph ? entries_[k].graph->bytes() : 0;
        if (k > 0 && (k >= kMostEntries || bytes > kMostBytes)) {
            entries_.resize(k);
            break;
        }
    }
    return graph;
}

}  // namespace bridle
