#include "fold.h"

#include <algorithm>
#include <unordered_map>

namespace bridle {
namespace {

// Positions whose marks agree for all pieces are of one kind; `first` holds one position of each kind.
std::vector<uint16_t> kinds_of(const Team& team, int n, std::vector<int>& first) {
    std::vector<const uint8_t*> marks;
    for (const Piece& p : team.pieces)
        if (p.marks) marks.push_back(p.marks);
    first.assign(1, 0);
    if (marks.empty() || n == 0) return {};
    std::vector<uint16_t> kind(n);
    std::unordered_map<uint64_t, std::vector<uint16_t>> seen;
    first.clear();
    for (int t = 0; t < n; ++t) {
        uint64_t hash = 1469598103934665603ull;
        for (const uint8_t* mark : marks) hash = (hash ^ mark[t]) * 1099511628211ull;
        auto& bucket = seen[hash];
        int found = -1;
        for (uint16_t k : bucket) {
            bool same = true;
            for (const uint8_t* mark : marks) same = same && mark[t] == mark[first[k]];
            if (same) found = k;
        }
        if (found < 0) {
            found = static_cast<int>(first.size());
            first.push_back(t);
            bucket.push_back(static_cast<uint16_t>(found));
        }
        kind[t] = static_cast<uint16_t>(found);
    }
    return kind;
}

// Numbers of state vectors: by their mixed-radix value while that is small, else by hashing.
class Index {
  public:
    explicit Index(const Team& team) : width_(team.size()) {
        double product = 1;
        for (const Piece& p : team.pieces) radix_.push_back(p.n_states()), product *= p.n_states();
        if (product <= 65536) direct_.assign(static_cast<size_t>(product), -1);
    }
    // The number of a state vector; a new one gets `fresh`.
    int32_t find(const State* s, const std::vector<State>& states, int32_t fresh) {
        if (!direct_.empty()) {
            size_t at = 0;
            for (size_t k = 0; k < width_; ++k) at = at * radix_[k] + s[k];
            return direct_[at] < 0 ? direct_[at] = fresh : direct_[at];
        }
        uint64_t h = 1469598103934665603ull;
        for (size_t k = 0; k < width_; ++k) h = (h ^ s[k]) * 1099511628211ull;
        auto& bucket = hashed_[h ^ (h >> 29)];
        for (int32_t r : bucket)
            if (std::equal(s, s + width_, states.data() + r * width_)) return r;
        bucket.push_back(fresh);
        return fresh;
    }

  private:
    size_t width_;
    std::vector<int> radix_;
    std::vector<int32_t> direct_;
    std::unordered_map<uint64_t, std::vector<int32_t>> hashed_;
};

}  // namespace

void Fold::clear() {
    Q = 1;
    team_size_ = 0;
    final.assign(1, 0.0);
    kind_.clear();
}

void Fold::forget_costs() {
    std::fill(cost_.begin(), cost_.end(), 0.0);
    for (double& f : final) f = f < kInf ? 0.0 : kInf;
}

bool Fold::build(const Team& team, int n, int m, int most) {
    clear();
    m_ = m;
    team_size_ = team.size();
    if (team_size_ == 0) return true;
    if (n == 0) {  // nothing to read: only the end counts
        final[0] = team.finish(std::vector<State>(team_size_, 0).data());
        return true;
    }
    std::vector<int> first;
    kind_ = kinds_of(team, n, first);
    const int kinds = static_cast<int>(first.size());
    if (kinds >= 65535) return false;

    const size_t width = team_size_;
    std::vector<State> states(width, 0);  // of all q, one after the other
    Index index(team);
    index.find(states.data(), states, 0);
    std::vector<int32_t> next;  // (Q, kinds, m) while it grows
    std::vector<double> cost;
    std::vector<State> to(width);
    int count = 1;
    for (int q = 0; q < count; ++q) {
        for (int k = 0; k < kinds; ++k) {
            for (int y = 0; y < m; ++y) {
                const double c = team.advance(states.data() + q * width, to.data(), y, first[k]);
                int32_t found = -1;
                if (c < kInf) {
                    found = index.find(to.data(), states, count);
                    if (found == count) {
                        if (count >= most) return false;
                        ++count;
                        states.insert(states.end(), to.begin(), to.end());
                    }
                }
                next.push_back(found);
                cost.push_back(c < kInf ? c : 0.0);
            }
        }
    }
    Q = count;
    final.resize(Q);
    for (int q = 0; q < Q; ++q) final[q] = team.finish(states.data() + q * width);
    if (kinds == 1) {
        next_ = std::move(next);
        cost_ = std::move(cost);
        return true;
    }
    next_.resize(next.size());
    cost_.resize(cost.size());
    for (int q = 0; q < Q; ++q)
        for (int k = 0; k < kinds; ++k) {
            const size_t from = (static_cast<size_t>(q) * kinds + k) * m, into = (static_cast<size_t>(k) * Q + q) * m;
            std::copy_n(next.begin() + from, m, next_.begin() + into);
            std::copy_n(cost.begin() + from, m, cost_.begin() + into);
        }
    return true;
}

}  // namespace bridle
