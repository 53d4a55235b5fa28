// Mistake-driven learners: the structured perceptron of Collins (2002), and the local perceptron and winnow with margin.
//   best[0][j] = unary[0][j];   best[t][j] = unary[t][j] + max over i of  best[t-1][i] + pairwise[i][j]
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "learn.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kLargest = 1e12;  // of a weight that only grows by factors

// Best paths under weights that change all the time; the transitions are kept in padded rows beside them.
class Best {
  public:
    Best(const Joined& x, const AveragedWeights& v) : m_(x.m), w_(x.width), v_(v), pair_(static_cast<size_t>(m_) * w_) {
        for (int i = 0; v.pair && i < m_; ++i)
            std::copy_n(v.pair + static_cast<size_t>(i) * m_, m_, &pair_[static_cast<size_t>(i) * w_]);
    }

    double& pair(int i, int j) { return pair_[static_cast<size_t>(i) * w_ + j]; }

    // known: of all labellings, or of those that agree with the labels that are known (null: none is)
    const std::vector<int32_t>& path(const Joined& x, int64_t first, int n, const int32_t* known = nullptr) {
        if (path_.size() < static_cast<size_t>(n)) path_.resize(n);
        best_.resize(std::max(best_.size(), static_cast<size_t>(n) * w_));
        step_.resize(w_);
        x.score(first, n, v_.w, best_.data());
        for (int t = 0; known && t < n; ++t)
            for (int j = 0; known[t] >= 0 && j < m_; ++j)
                if (j != known[t]) best_[static_cast<size_t>(t) * w_ + j] = kNone;
        for (int t = 1; t < n; ++t) {
            double* now = &best_[static_cast<size_t>(t) * w_];
            change(first + t);
            kernels().step_ahead(now - w_, pair_.data(), m_, w_, step_.data());
            restore(first + t);
            for (int j = 0; j < m_; ++j) now[j] += step_[j];
        }
        for (int t = n - 1; t >= 0; --t) {
            const double* now = &best_[static_cast<size_t>(t) * w_];
            double top = kNone;
            path_[t] = 0;
            if (t + 1 < n) change(first + t + 1);
            for (int i = 0; i < m_; ++i) {
                const double score = now[i] + (t + 1 < n ? pair_[static_cast<size_t>(i) * w_ + path_[t + 1]] : 0.0);
                if (score > top) top = score, path_[t] = i;
            }
            if (t + 1 < n) restore(first + t + 1);
        }
        return path_;
    }

  private:
    // The transitions to token t, and back to those of all tokens.
    void change(int64_t t) {
        if (v_.edges) v_.edges->of_token(t, [&](int64_t s, const Edges::Slot& at) { pair_[at.cell] += v_.edge_w[s]; });
    }
    void restore(int64_t t) {
        if (v_.edges)
            v_.edges->of_token(t, [&](int64_t, const Edges::Slot& at) {
                pair_[at.cell] = v_.pair ? v_.pair[static_cast<size_t>(at.i) * m_ + at.j] : 0.0;
            });
    }

    int m_, w_;
    const AveragedWeights& v_;
    std::vector<double> pair_, best_, step_;
    std::vector<int32_t> path_;
};

void add(const AveragedWeights& v, int64_t slot, double change, int64_t step) {
    v.w[slot] += change;
    v.sum[slot] += static_cast<double>(step) * change;
}

bool agree(const int32_t* guess, const int32_t* known, int n) {
    for (int t = 0; t < n; ++t)
        if (known[t] >= 0 && guess[t] != known[t]) return false;
    return true;
}

// target (n): the gold labels, or where they are not known, others.
int64_t update(const Joined& x, const AveragedWeights& v, int64_t first, int n, const int32_t* target,
               const int32_t* guess, int64_t step, Best* best) {
    int64_t wrong = 0;
    const auto move = [&](int i, int j, double change) {
        const size_t cell = static_cast<size_t>(i) * x.m + j;
        if (v.pair_free && !v.pair_free[cell]) return;
        v.pair[cell] += change;
        v.pair_sum[cell] += static_cast<double>(step) * change;
        if (best) best->pair(i, j) = v.pair[cell];
    };
    for (int t = 0; t < n; ++t) {
        const int gold = target[t], other = guess[t];
        const bool known = x.y[first + t] >= 0;
        const double scale = v.weight && known ? v.weight[gold] : 1;
        if (gold != other) {
            wrong += known;
            x.of_label(first + t, gold, [&](int64_t slot, double value) { add(v, slot, scale * value, step); });
            x.of_label(first + t, other, [&](int64_t slot, double value) { add(v, slot, -scale * value, step); });
        }
        if (t == 0 || (gold == other && target[t - 1] == guess[t - 1])) continue;
        if (v.pair) {
            move(target[t - 1], gold, scale);
            move(guess[t - 1], other, -scale);
        }
        if (v.edges) {
            const auto move_edge = [&](double change) {
                return [&v, change, step](int64_t s) {
                    v.edge_w[s] += change;
                    v.edge_sum[s] += static_cast<double>(step) * change;
                };
            };
            v.edges->of_pair(first + t, target[t - 1], gold, move_edge(scale));
            v.edges->of_pair(first + t, guess[t - 1], other, move_edge(-scale));
        }
    }
    return wrong;
}

}  // namespace

int64_t perceptron_pass(const Joined& x, const AveragedWeights& v, const int64_t* order, int64_t count, int64_t& step,
                        Control& control) {
    Best best(x, v);
    std::vector<int32_t> guess;
    int64_t wrong = 0;
    for (int64_t k = 0; k < count; ++k, ++step) {
        if (k % 64 == 0) control.check();
        const int64_t first = x.offsets[order[k]];
        const int n = static_cast<int>(x.offsets[order[k] + 1] - first);
        const int32_t* known = x.y + first;
        const int32_t* found = best.path(x, first, n).data();
        if (agree(found, known, n)) continue;
        guess.assign(found, found + n);
        const bool whole = std::all_of(known, known + n, [](int32_t y) { return y >= 0; });
        const int32_t* target = whole ? known : best.path(x, first, n, known).data();
        wrong += update(x, v, first, n, target, guess.data(), step, &best);
    }
    return wrong;
}

int64_t perceptron_update(const Joined& x, const AveragedWeights& v, int64_t b, const int32_t* guess, int64_t& step) {
    const int64_t first = x.offsets[b];
    return update(x, v, first, static_cast<int>(x.offsets[b + 1] - first), x.y + first, guess, step++, nullptr);
}

int64_t local_pass(const Joined& x, const AveragedWeights& v, bool winnow, double margin, double rate,
                   const int64_t* order, int64_t count, int64_t& step, int64_t& wrong, Control& control) {
    const int m = x.m;
    std::vector<double> score(x.width);
    int64_t updates = 0;
    for (int64_t k = 0; k < count; ++k, ++step) {
        if (k % 1024 == 0) control.check();
        const int64_t t = order[k];
        const int gold = x.y[t];
        if (gold < 0) continue;
        x.score(t, 1, v.w, score.data());
        int other = -1;
        for (int y = 0; y < m; ++y)
            if (y != gold && (other < 0 || score[y] > score[other])) other = y;
        if (other < 0) continue;
        wrong += score[other] > score[gold] || (score[other] == score[gold] && other < gold);
        if (score[gold] - score[other] > margin) continue;
        ++updates;
        const double scale = v.weight ? v.weight[gold] : 1;
        if (winnow) {
            const double factor = scale == 1 ? 1 + rate : std::pow(1 + rate, scale);
            const auto multiply = [&](int64_t slot, double by) {
                add(v, slot, std::min(v.w[slot] * by, kLargest) - v.w[slot], step);
            };
            x.of_label(t, gold, [&](int64_t slot, double) { multiply(slot, factor); });
            x.of_label(t, other, [&](int64_t slot, double) { multiply(slot, 1 / factor); });
        } else {
            x.of_label(t, gold, [&](int64_t slot, double value) { add(v, slot, scale * rate * value, step); });
            x.of_label(t, other, [&](int64_t slot, double value) { add(v, slot, -scale * rate * value, step); });
        }
    }
    return updates;
}

}  // namespace bridle
