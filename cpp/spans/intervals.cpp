#include "spans/intervals.h"

#include <algorithm>
#include <limits>

namespace bridle {
namespace {

constexpr int64_t kBreath = 1 << 16;  // steps between two looks at the clock

// Intervals that can help.
std::vector<int32_t> useful(const Intervals& all) {
    std::vector<int32_t> order;
    for (int a = 0; a < all.count; ++a)
        if (all.score[a] > 0) order.push_back(a);
    return order;
}

// Weighted interval scheduling with intervals inside intervals.
//   inside(s, e) = best set within [s, e)        W[a] = score[a] + inside(start[a], end[a]) without a itself
//   inside(s, e) = max(inside(s, e'), max over a with end[a] = e, start[a] >= s  of  inside(s, start[a]) + W[a])
// where e' is the place before e. For one s it is a row over all e; W of intervals that start at s is known when its row is.
class Nesting {
  public:
    Nesting(const Intervals& all, Control& control) : control_(control), all_(all), W_(all.count, 0.0) {
        order_ = useful(all);
        std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
            if (all.end[a] != all.end[b]) return all.end[a] < all.end[b];
            if (all.start[a] != all.start[b]) return all.start[a] > all.start[b];
            return all.score[a] > all.score[b];
        });
        const auto same = [&](int a, int b) { return all.start[a] == all.start[b] && all.end[a] == all.end[b]; };
        order_.erase(std::unique(order_.begin(), order_.end(), same), order_.end());
        for (const int a : order_) starts_.push_back(all.start[a]);
        std::sort(starts_.begin(), starts_.end());
        starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
        std::vector<int32_t> reach(starts_.size(), 0);  // the last end of intervals that start there
        for (const int a : order_) {
            int32_t& last = reach[std::lower_bound(starts_.begin(), starts_.end(), all.start[a]) - starts_.begin()];
            last = std::max(last, all.end[a]);
        }
        for (size_t k = starts_.size(); k-- > 0;) row(starts_[k], reach[k], -1, true);
    }

    std::vector<int32_t> chosen() {
        std::vector<int32_t> out;
        struct Part {
            int32_t start, end, holder;
        };
        std::vector<Part> todo;
        if (!starts_.empty()) todo.push_back({starts_[0], std::numeric_limits<int32_t>::max(), -1});
        while (!todo.empty()) {
            const Part part = todo.back();
            todo.pop_back();
            row(part.start, part.end, part.holder, false);
            for (size_t k = points_.size(); k > 0;) {
                const Point& at = points_[k - 1];
                if (at.by >= 0) {
                    out.push_back(at.by);
                    todo.push_back({all_.start[at.by], all_.end[at.by], at.by});
                }
                k = at.before;
            }
        }
        std::sort(out.begin(), out.end(), [&](int a, int b) {
            return all_.start[a] != all_.start[b] ? all_.start[a] < all_.start[b] : all_.end[a] > all_.end[b];
        });
        return out;
    }

  private:
    struct Point {
        int32_t end;    // a place where some interval ends
        double best;    // inside(s, end)
        int32_t by;     // the interval that ends there and is chosen, or -1
        size_t before;  // how many points there are before what is chosen here
    };
    // inside(s, e) for all e up to `until`, without `holder`, as points; teach: fills W of intervals that start at s.
    void row(int32_t s, int32_t until, int32_t holder, bool teach) {
        control_.check();
        points_.clear();
        auto from =
            std::upper_bound(order_.begin(), order_.end(), s, [&](int32_t at, int a) { return at < all_.end[a]; });
        for (; from != order_.end() && all_.end[*from] <= until; ++from) {
            if (++work_ % kBreath == 0) control_.check();
            const int a = *from;
            if (all_.start[a] < s || a == holder) continue;
            const size_t before = up_to(all_.start[a]);
            const double so_far = points_.empty() ? 0.0 : points_.back().best;
            if (teach && all_.start[a] == s) W_[a] = all_.score[a] + so_far;
            const double value = (before ? points_[before - 1].best : 0.0) + W_[a];
            if (points_.empty() || points_.back().end < all_.end[a])
                points_.push_back({all_.end[a], so_far, -1, points_.size()});
            Point& here = points_.back();
            if (value > here.best) here.best = value, here.by = a, here.before = before;
        }
    }
    size_t up_to(int32_t place) const {  // how many points end there or before
        const auto after = std::upper_bound(points_.begin(), points_.end(), place,
                                            [](int32_t at, const Point& point) { return at < point.end; });
        return size_t(after - points_.begin());
    }

    Control& control_;
    const Intervals& all_;
    std::vector<double> W_;                // (count)
    std::vector<int32_t> order_, starts_;  // useful intervals by end, inner ones first; distinct starts
    std::vector<Point> points_;
    int64_t work_ = 0;
};

}  // namespace

//   best[k] = max(best[k - 1], best[those of the first k that end at or before start[k]] + score[k]), intervals by end
std::vector<int32_t> best_disjoint(const Intervals& all, Control& control) {
    control.check();
    std::vector<int32_t> order = useful(all);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return all.end[a] < all.end[b]; });
    std::vector<int32_t> ends, before(order.size()), out;
    for (const int a : order) ends.push_back(all.end[a]);
    std::vector<double> best(order.size() + 1, 0.0);
    for (size_t k = 0; k < order.size(); ++k) {
        const int a = order[k];
        before[k] = int32_t(std::upper_bound(ends.begin(), ends.begin() + k, all.start[a]) - ends.begin());
        const double taken = best[before[k]] + all.score[a];
        if (!(taken > best[k])) before[k] = -1;
        best[k + 1] = std::max(best[k], taken);
    }
    for (size_t k = order.size(); k > 0;) {
        if (before[k - 1] < 0) --k;
        else out.push_back(order[k - 1]), k = size_t(before[k - 1]);
    }
    std::reverse(out.begin(), out.end());
    return out;
}

std::vector<int32_t> best_nested(const Intervals& all, Control& control) { return Nesting(all, control).chosen(); }

}  // namespace bridle
