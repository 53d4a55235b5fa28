// Mistake-driven learners: the structured perceptron of Collins (2002), and the local perceptron and winnow with margin.
//   best[0][j] = unary[0][j];   best[t][j] = unary[t][j] + max over i of  best[t-1][i] + pairwise[i][j]
#include <algorithm>
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
    Best(const Joined& x, const AveragedWeights& v) : m_(x.m), w_(x.width), pair_(static_cast<size_t>(m_) * w_) {
        for (int i = 0; v.pair && i < m_; ++i)
            std::copy_n(v.pair + static_cast<size_t>(i) * m_, m_, &pair_[static_cast<size_t>(i) * w_]);
    }

    double& pair(int i, int j) { return pair_[static_cast<size_t>(i) * w_ + j]; }

    const std::vector<int32_t>& path(const Joined& x, const double* weights, int64_t first, int n) {
        if (path_.size() < static_cast<size_t>(n)) path_.resize(n);
        best_.resize(std::max(best_.size(), static_cast<size_t>(n) * w_));
        step_.resize(w_);
        x.score(first, n, weights, best_.data());
        for (int t = 1; t < n; ++t) {
            double* now = &best_[static_cast<size_t>(t) * w_];
            kernels().step_ahead(now - w_, pair_.data(), m_, w_, step_.data());
            for (int j = 0; j < m_; ++j) now[j] += step_[j];
        }
        for (int t = n - 1; t >= 0; --t) {
            const double* now = &best_[static_cast<size_t>(t) * w_];
            double top = kNone;
            path_[t] = 0;
            for (int i = 0; i < m_; ++i) {
                const double score = now[i] + (t + 1 < n ? pair_[static_cast<size_t>(i) * w_ + path_[t + 1]] : 0.0);
                if (score > top) top = score, path_[t] = i;
            }
        }
        return path_;
    }

  private:
    int m_, w_;
    std::vector<double> pair_, best_, step_;
    std::vector<int32_t> path_;
};

void add(const AveragedWeights& v, int64_t slot, double change, int64_t step) {
    v.w[slot] += change;
    v.sum[slot] += static_cast<double>(step) * change;
}

int64_t update(const Joined& x, const AveragedWeights& v, int64_t first, int n, const int32_t* guess, int64_t step,
               Best* best) {
    int64_t wrong = 0;
    const auto move = [&](int i, int j, double change) {
        const size_t cell = static_cast<size_t>(i) * x.m + j;
        if (v.pair_free && !v.pair_free[cell]) return;
        v.pair[cell] += change;
        v.pair_sum[cell] += static_cast<double>(step) * change;
        if (best) best->pair(i, j) = v.pair[cell];
    };
    for (int t = 0; t < n; ++t) {
        const int gold = x.y[first + t], other = guess[t];
        if (gold != other) {
            ++wrong;
            x.of_label(first + t, gold, [&](int64_t slot, double value) { add(v, slot, value, step); });
            x.of_label(first + t, other, [&](int64_t slot, double value) { add(v, slot, -value, step); });
        }
        if (v.pair && t && (gold != other || x.y[first + t - 1] != guess[t - 1])) {
            move(x.y[first + t - 1], gold, 1);
            move(guess[t - 1], other, -1);
        }
    }
    return wrong;
}

}  // namespace

int64_t perceptron_pass(const Joined& x, const AveragedWeights& v, const int64_t* order, int64_t count, int64_t& step,
                        Control& control) {
    Best best(x, v);
    int64_t wrong = 0;
    for (int64_t k = 0; k < count; ++k, ++step) {
        if (k % 64 == 0) control.check();
        const int64_t first = x.offsets[order[k]];
        const int n = static_cast<int>(x.offsets[order[k] + 1] - first);
        const int32_t* guess = best.path(x, v.w, first, n).data();
        if (!std::equal(guess, guess + n, x.y + first)) wrong += update(x, v, first, n, guess, step, &best);
    }
    return wrong;
}

int64_t perceptron_update(const Joined& x, const AveragedWeights& v, int64_t b, const int32_t* guess, int64_t& step) {
    const int64_t first = x.offsets[b];
    return update(x, v, first, static_cast<int>(x.offsets[b + 1] - first), guess, step++, nullptr);
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
        x.score(t, 1, v.w, score.data());
        int other = -1;
        for (int y = 0; y < m; ++y)
            if (y != gold && (other < 0 || score[y] > score[other])) other = y;
        if (other < 0) continue;
        wrong += score[other] > score[gold] || (score[other] == score[gold] && other < gold);
        if (score[gold] - score[other] > margin) continue;
        ++updates;
        if (winnow) {
            const auto scale = [&](int64_t slot, double by) {
                add(v, slot, std::min(v.w[slot] * by, kLargest) - v.w[slot], step);
            };
            x.of_label(t, gold, [&](int64_t slot, double) { scale(slot, 1 + rate); });
            x.of_label(t, other, [&](int64_t slot, double) { scale(slot, 1 / (1 + rate)); });
        } else {
            x.of_label(t, gold, [&](int64_t slot, double value) { add(v, slot, rate * value, step); });
            x.of_label(t, other, [&](int64_t slot, double value) { add(v, slot, -rate * value, step); });
        }
    }
    return updates;
}

}  // namespace bridle
