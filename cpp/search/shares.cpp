#include "search/shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr int kLanes = 16;              // rows are padded to this on all tiers
constexpr int kMostStates = 4096;       // of a group
constexpr size_t kMostCells = 1 << 25;  // floats of all groups together
constexpr double kLargest = 1e6;        // sum of scores that single precision may hold
constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

bool Shares::fits(Share& s, const std::vector<BoundAutomaton>& automata, const std::vector<int>& members,
                  Control& control) {
    std::vector<BoundAutomaton> chosen;
    for (int k : members) {
        const BoundAutomaton& p = automata[k];
        if (p.mode != Mode::hard && !(p.penalty * n_ < kLargest)) return false;  // too large for single precision
        chosen.push_back(p);
    }
    AutomatonSet set;
    set.assign(std::move(chosen));
    if (!s.fold.build(set, n_, m_, kMostStates, control)) return false;
    const size_t Q = s.fold.Q;
    cells_ += width * (n_ * (2 * Q + m_) + 2 * Q * s.fold.kinds());
    return cells_ <= kMostCells && cells_ * sizeof(float) <= control.memory() / 4;
}

size_t Shares::bytes() const {
    size_t sum = sizeof(double) * scores_.capacity();
    for (const Share& s : groups)
        sum += s.fold.bytes() + sizeof(float) * (s.theta.capacity() + s.F.capacity() + s.B.capacity() +
                                                 s.cell.capacity() + s.cost.capacity());
    return sum;
}

bool Shares::load(Instance& instance, const std::vector<BoundAutomaton>& automata, const Grouping& grouping) {
    const Trellis& trellis = instance.scratch.trellis;
    const Steps& steps = instance.scratch.plain;
    n_ = trellis.n, m_ = trellis.m, width = (m_ + kLanes - 1) / kLanes * kLanes;
    if (n_ < 2 || grouping.empty()) return false;
    groups.resize(grouping.size());
    cells_ = 0;
    for (size_t g = 0; g < groups.size(); ++g)
        if (!fits(groups[g], automata, grouping[g], instance.control)) return false;
    const size_t edges = size_t(m_) * width;
    scores_.assign(size_t(n_) * edges, -kInf);
    double largest = 0;  // of all finite scores
    for (int t = 1; t < n_; ++t, instance.control.check()) {
        const double* unary = trellis.unary(t);
        for (int i = 0; i < m_; ++i) {
            const double before = t == 1 ? trellis.unary(0)[i] + steps.first(i) : 0.0;
            double* row = scores_.data() + t * edges + size_t(i) * width;
            for (int j = 0; j < m_; ++j) {
                row[j] = before + steps.at(t - 1, i, j) + unary[j];
                if (row[j] > -kInf) largest = std::max(largest, std::abs(row[j]));
            }
        }
    }
    if (!(largest * n_ < kLargest)) return false;
    mean_.assign(edges, kNone), turned_.assign(edges, kNone);
    into_.assign(width, kNone), from_.assign(width, kNone), sum_.assign(width, 0.0);
    std::vector<int32_t> every(m_);
    for (int y = 0; y < m_; ++y) every[y] = y;
    labels_.assign(n_, every);
    fresh_ = true;
    const double part = 1.0 / double(groups.size());
    for (Share& s : groups) {
        s.theta.resize(scores_.size());
        for (size_t c = 0; c < scores_.size(); ++c) s.theta[c] = float(scores_[c] * part);
        enter(s, instance.control);
    }
    return true;
}

bool Shares::add(Instance& instance, const std::vector<BoundAutomaton>& automata, const Grouping& grouping) {
    for (const std::vector<int>& members : grouping) {
        groups.emplace_back();
        Share& s = groups.back();
        if (!fits(s, automata, members, instance.control)) return false;
        s.theta = groups[0].theta;  // nothing but what is ruled out
        for (float& x : s.theta) x = x > kNone ? 0.0f : kNone;
        enter(s, instance.control);
        for (int t = n_ - 1; t >= 1; --t) {
            complete(s, t);
            std::fill(from_.begin(), from_.end(), 0.0f);
            back(s, t, kNone);
        }
    }
    return true;
}

void Shares::enter(Share& s, Control& control) {
    const int Q = s.fold.Q;
    const size_t rows = size_t(Q) * width;
    s.cell.assign(s.fold.kinds() * rows, 0);
    s.cost.assign(s.fold.kinds() * rows, -kNone);
    std::vector<char> filled(s.fold.kinds(), 0);
    for (int t = 0; t < n_; ++t) {
        const int kind = s.fold.kind(t);
        if (std::exchange(filled[kind], 1)) continue;
        for (int q = 0; q < Q; ++q) {
            const size_t at = kind * rows + size_t(q) * width;
            for (int j = 0; j < m_; ++j) {
                s.cell[at + j] = s.fold.next(t, q)[j] * width + j;
                s.cost[at + j] = float(s.fold.cost(t, q)[j]);
            }
        }
    }
    s.F.assign(n_ * rows, kNone), s.B.assign(n_ * rows, kNone);
    s.X.assign(rows, kNone), s.M.assign(size_t(m_) * width, kNone);
    s.alive.resize(size_t(n_) * Q), s.n_alive.assign(n_, 0);
    // Ahead without a look at what follows: which states can be reached.
    std::fill_n(s.X.begin(), width, 0.0f);
    s.alive[0] = 0, s.n_alive[0] = 1;
    const std::vector<float> open(width, 0.0f);
    for (int t = 0; t < n_; ++t) {
        if (t > 0) pass_on(s, t);
        scatter(s, t);
        int32_t* here = s.alive.data() + size_t(t) * Q;
        for (int q = 0; q < Q; ++q) here[q] = q;
        float* F = s.F.data() + t * rows;
        s.n_alive[t] = kernels().drop_low(F, F, open.data(), kNone, here, Q, width);
        control.check();
    }
    for (int q = 0; q < Q; ++q)
        std::fill_n(s.B.begin() + ptrdiff_t((n_ - 1) * rows + size_t(q) * width), m_, float(-s.fold.final[q]));
}

void Shares::complete(Share& s, int t) const {
    const size_t rows = size_t(s.fold.Q) * width, table = s.fold.kind(t) * rows;
    kernels().look_up(B(s, t), s.cell.data() + table, s.cost.data() + table, s.alive.data() + size_t(t - 1) * s.fold.Q,
                      s.n_alive[t - 1], width, s.X.data());
}

double Shares::sweep(double floor, Control& control) {
    double bound = kInf;  // of the last step: none raises it, and what rounding moves is put back before
    const float low = float(floor);
    for (int t = 1; t < n_ && !fresh_; ++t) {
        for (Share& s : groups) complete(s, t);
        agree(t, floor);
        for (Share& s : groups) ahead(s, t, low);
        control.check();
    }
    for (int t = n_ - 1; t >= 1; --t) {
        correct(t);
        for (Share& s : groups) complete(s, t);
        bound = agree(t, floor);
        for (Share& s : groups) back(s, t, low);
        control.check();
    }
    fresh_ = false;
    return bound;
}

// Whatever rounding has moved goes back to the first group: what is before and after the step does not depend on it.
void Shares::correct(int t) {
    for (const int32_t i : labels_[t - 1]) {
        const size_t row = (size_t(t) * m_ + i) * width;
        add_up(row);
        float* theta = groups[0].theta.data() + row;
        for (const int32_t j : labels_[t])
            if (sum_[j] > -kInf) theta[j] += float(scores_[row + j] - sum_[j]);
    }
}

void Shares::add_up(size_t row) {
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (const Share& s : groups)
        for (int j = 0; j < width; ++j) sum_[j] += s.theta[row + j];
}

double Shares::agree(int t, double floor) {
    const size_t at = size_t(t) * m_ * width;
    std::vector<int32_t>&before = labels_[t - 1], &here = labels_[t];
    for (const int32_t i : before) std::fill_n(mean_.begin() + ptrdiff_t(i) * width, width, 0.0f);
    for (Share& s : groups) {
        kernels().max_plus(s.F.data() + size_t(t - 1) * s.fold.Q * width, 1, width, s.X.data(), before.data(),
                           int(before.size()), s.alive.data() + size_t(t - 1) * s.fold.Q, s.n_alive[t - 1], width,
                           s.M.data());
        for (const int32_t i : before) {
            const size_t row = size_t(i) * width;
            const float* theta = s.theta.data() + at + row;
            float *M = s.M.data() + row, *sum = mean_.data() + row;
            for (int j = 0; j < width; ++j) M[j] += theta[j], sum[j] += M[j];
        }
    }
    const float low = float(floor), part = 1.0f / float(groups.size());
    std::fill(into_.begin(), into_.end(), kNone), std::fill(from_.begin(), from_.end(), kNone);
    float best = kNone;
    for (const int32_t i : before) {
        float *mean = mean_.data() + size_t(i) * width, top = kNone;
        for (int j = 0; j < width; ++j) {
            const float sum = mean[j];
            mean[j] = sum > low ? sum * part : kNone;
            best = std::max(best, sum), top = std::max(top, mean[j]), into_[j] = std::max(into_[j], mean[j]);
        }
        from_[i] = top;
    }
    for (Share& s : groups)
        for (const int32_t i : before) {
            const size_t row = size_t(i) * width;
            float* theta = s.theta.data() + at + row;
            const float *mean = mean_.data() + row, *M = s.M.data() + row;
            for (int j = 0; j < width; ++j) theta[j] = mean[j] > kNone ? theta[j] + (mean[j] - M[j]) : kNone;
        }
    std::erase_if(before, [&](int32_t i) { return !(from_[i] > kNone); });
    std::erase_if(here, [&](int32_t j) { return !(into_[j] > kNone); });
    const float others = float(groups.size() - 1);
    for (int j = 0; j < width; ++j) into_[j] *= others, from_[j] *= others;
    return best;
}

void Shares::pass_on(Share& s, int t) const {
    const size_t Q = s.fold.Q;
    kernels().max_plus(s.F.data() + (t - 1) * Q * width, width, 1, s.theta.data() + size_t(t) * m_ * width,
                       s.alive.data() + (t - 1) * Q, s.n_alive[t - 1], labels_[t - 1].data(),
                       int(labels_[t - 1].size()), width, s.X.data());
}

void Shares::scatter(Share& s, int t) const {
    const size_t rows = size_t(s.fold.Q) * width, table = s.fold.kind(t) * rows;
    float* after = s.F.data() + t * rows;
    const int before = std::max(0, t - 1);
    const int32_t *list = s.alive.data() + size_t(before) * s.fold.Q, *labels = labels_[t].data();
    const size_t count = labels_[t].size();
    for (int r = 0; r < s.n_alive[before]; ++r) {
        const size_t row = size_t(list[r]) * width;
        const float *x = s.X.data() + row, *cost = s.cost.data() + table + row;
        const int32_t* cell = s.cell.data() + table + row;
        for (size_t k = 0; k < count; ++k) {
            const int32_t j = labels[k];
            const float value = x[j] - cost[j];
            float& best = after[cell[j]];
            best = value > best ? value : best;
        }
    }
}

void Shares::ahead(Share& s, int t, float low) {
    const size_t Q = s.fold.Q, rows = Q * width;
    float* after = s.F.data() + t * rows;
    int32_t* here = s.alive.data() + t * Q;
    pass_on(s, t);
    for (int r = 0; r < s.n_alive[t]; ++r) std::fill_n(after + size_t(here[r]) * width, width, kNone);
    scatter(s, t);
    s.n_alive[t] = kernels().drop_low(after, s.B.data() + t * rows, into_.data(), low, here, s.n_alive[t], width);
}

void Shares::back(Share& s, int t, float low) {
    const size_t Q = s.fold.Q, rows = Q * width;
    const float* theta = s.theta.data() + size_t(t) * m_ * width;
    for (const int32_t j : labels_[t])
        for (int i = 0; i < m_; ++i) turned_[size_t(j) * width + i] = theta[size_t(i) * width + j];
    float* before = s.B.data() + (t - 1) * rows;
    int32_t* list = s.alive.data() + (t - 1) * Q;
    kernels().max_plus(s.X.data(), width, 1, turned_.data(), list, s.n_alive[t - 1], labels_[t].data(),
                       int(labels_[t].size()), width, before);
    s.n_alive[t - 1] =
        kernels().drop_low(before, s.F.data() + (t - 1) * rows, from_.data(), low, list, s.n_alive[t - 1], width);
}

double Shares::margin() {
    // A labelling that no edge of which was ruled out has its score in the shares, but for what each edge has moved.
    double moved = 0;
    for (int t = 1; t < n_; ++t) {
        double most = 0;
        for (const int32_t i : labels_[t - 1]) {
            const size_t row = (size_t(t) * m_ + i) * width;
            add_up(row);
            for (const int32_t j : labels_[t])
                if (sum_[j] > -kInf) most = std::max(most, std::abs(sum_[j] - scores_[row + j]));
        }
        moved += most;
    }
    // Each of some 2 n + 8 additions, and of those over the groups, rounds a number no larger than the largest of its kind.
    double size = 0;
    for (const Share& s : groups) {
        for (const std::vector<float>* x : {&s.F, &s.B, &s.theta})
            size = std::max<double>(size, kernels().largest(x->data(), x->size()));
        for (double f : s.fold.final)
            if (f < kInf) size = std::max(size, std::abs(f));
    }
    const double eps = std::numeric_limits<float>::epsilon();
    const double G = double(groups.size());
    return moved + eps * (2.0 * n_ + 8.0 + G) * G * 2.0 * size;
}

}  // namespace bridle
