#include "trellis.h"

#include <cmath>

namespace bridle {
namespace {

constexpr size_t kKeepCells = size_t{1} << 22;  // 32 MB of doubles: above that, rows are made twice instead of kept

// out[i] = max over j of step[i][j] + add[i][j] + w[j], eight lanes at a time
BRIDLE_CLONES void back_dense(const double* step, const double* add, const double* w, double* out, int m, int width) {
    for (int i = 0; i < m; ++i) {
        double lane[kLanes];
        for (double& x : lane) x = -kInf;
        const double *s = step + static_cast<size_t>(i) * m, *a = add + static_cast<size_t>(i) * m;
        int j = 0;
        for (; j + kLanes <= m; j += kLanes)
            for (int k = 0; k < kLanes; ++k) {
                const double v = s[j + k] + a[j + k] + w[j + k];
                lane[k] = v > lane[k] ? v : lane[k];
            }
        double best = -kInf;
        for (; j < m; ++j) {
            const double v = s[j] + a[j] + w[j];
            best = v > best ? v : best;
        }
        out[i] = std::max(best, largest_lane(lane));
    }
    for (int i = m; i < width; ++i) out[i] = -kInf;
}

// Rows high-1 .. low of H over one state (no automaton), the row above being `after`. unary: of positions low+1 .. high.
BRIDLE_CLONES void back_plain(const Table& free, const Table& tie, const uint8_t* tied, const Table* const* tables,
                              const double* unary, int low, int high, const double* after, double* H, double* w, int width) {
    for (int t = high - 1; t >= low; --t) {
        const double* u = unary + static_cast<size_t>(t - low) * width;
        for (int j = 0; j < width; j += kLanes)
            for (int k = 0; k < kLanes; ++k) w[j + k] = u[j + k] + after[j + k];
        double* row = H + static_cast<size_t>(t - low) * width;
        const Table& table = tables ? *tables[t + 1] : tied && tied[t + 1] ? tie : free;
        table.back(w, row);
        after = row;
    }
}

// One row back, for all states of a fold.
BRIDLE_CLONES void back_fold(const Table& table, const Fold& fold, int t, const double* u, const double* after, double* row,
                             double* w, int width) {
    const int Q = fold.Q;
    const double* cost = fold.cost(t + 1, 0);
    const int32_t* cell = fold.cell(t + 1, 0);
    for (int q = 0; q < Q; ++q, cost += width, cell += width, row += width) {
        for (int j = 0; j < width; j += kLanes)
            for (int k = 0; k < kLanes; ++k) w[j + k] = u[j + k] - cost[j + k] + after[cell[j + k]];
        table.back(w, row);
    }
}

// The first j with the largest a[j] + b[j] + c[j]; -1 if all are -inf.
BRIDLE_CLONES int best_of(const double* a, const double* b, const double* c, double* sum, int width) {
    double lane[kLanes];
    for (double& x : lane) x = -kInf;
    for (int j = 0; j < width; j += kLanes)
        for (int k = 0; k < kLanes; ++k) {
            const double v = a[j + k] + b[j + k] + c[j + k];
            sum[j + k] = v;
            lane[k] = v > lane[k] ? v : lane[k];
        }
    const double best = largest_lane(lane);
    if (best == -kInf) return -1;
    for (int j = 0;; j += kLanes) {  // the block first, then the place in it
        int here = 0;
        for (int k = 0; k < kLanes; ++k) here |= sum[j + k] == best;
        if (!here) continue;
        while (sum[j] != best) ++j;
        return j;
    }
}

void with_mask(const double* pairwise, const std::vector<double>& mask, const double* adjust, std::vector<double>& out) {
    out = mask;
    for (size_t c = 0; c < out.size(); ++c) out[c] += (pairwise ? pairwise[c] : 0.0) + (adjust ? adjust[c] : 0.0);
}

}  // namespace

void Steps::plain(const Sequence& s) {
    const Problem& p = *s.problem;
    m_ = s.m;
    tied_ = s.tied;
    free_ = &s.head->free;
    tie_ = &s.head->tied;
    per_step_ = s.head->per_step ? s.head->pairwise : nullptr;
    add_free_ = p.free_mask.data();
    add_tied_ = p.tied_mask.data();
    first_ = nullptr;
    tables_ = nullptr;
}

void Steps::adjusted(const Sequence& s, const double* adjust, const double* first) {
    plain(s);
    const Problem& p = *s.problem;
    first_ = first;
    const double* pairwise = per_step_ ? nullptr : s.head->pairwise;
    with_mask(pairwise, p.free_mask, adjust, sum_free_);
    if (tied_) with_mask(pairwise, p.tied_mask, adjust, sum_tied_);
    if (per_step_) {
        add_free_ = sum_free_.data();
        add_tied_ = sum_tied_.data();
        return;
    }
    own_free_.build(sum_free_.data(), m_, false);
    if (tied_) own_tied_.build(sum_tied_.data(), m_, false);
    free_ = &own_free_;
    tie_ = &own_tied_;
}

void Trellis::load(const Sequence& s) {
    sequence_ = &s;
    n = s.n;
    m = s.m;
    width = padded(m);
    row_.assign(width, -kInf);
    w_.assign(width, -kInf);
    unary_.clear();
    rows_first_ = 0, rows_last_ = -1;
    const size_t cells = static_cast<size_t>(n) * width;
    if (cells > kKeepCells) return;
    unary_.resize(cells);
    for (int t = 0; t < n; ++t) {
        double* row = unary_.data() + static_cast<size_t>(t) * width;
        s.row(t, row);
        for (int y = m; y < width; ++y) row[y] = -kInf;
    }
}

const double* Trellis::unary(int t) const {
    if (!unary_.empty()) return unary_.data() + static_cast<size_t>(t) * width;
    if (t >= rows_first_ && t <= rows_last_) return rows_.data() + static_cast<size_t>(t - rows_first_) * width;
    sequence_->row(t, row_.data());
    return row_.data();
}

void Trellis::rows(const Fold& fold, const Steps& steps, int low, int high, const double* after, double* H,
                   Control& control) const {
    const int Q = fold.Q;
    const size_t layer = static_cast<size_t>(Q) * width;
    const int chunk = std::clamp<int>(static_cast<int>((size_t{1} << 18) / layer), 1, 512);  // between looks at the clock
    for (int top = high; top > low;) {
        const int bottom = std::max(low, top - chunk);
        control.check();
        if (fold.plain() && !steps.per_step_) {
            const double* u = unary_.data() + static_cast<size_t>(bottom + 1) * width;
            if (unary_.empty()) u = read_rows(bottom + 1, top);
            back_plain(*steps.free_, *steps.tie_, steps.tied_, steps.tables_, u, bottom, top, after,
                       H + (bottom - low) * layer, w_.data(), width);
            after = H + (bottom - low) * layer;
            top = bottom;
            continue;
        }
        for (int t = top - 1; t >= bottom; --t) {
            const double* u = unary(t + 1);
            double* row = H + (t - low) * layer;
            if (!steps.per_step_ && !fold.plain()) {
                back_fold(steps.table(t), fold, t, u, after, row, w_.data(), width);
            } else {
                for (int q = 0; q < Q; ++q) {
                    if (fold.plain())
                        for (int j = 0; j < width; ++j) w_[j] = u[j] + after[j];
                    else
                        for (int j = 0; j < width; ++j)
                            w_[j] = u[j] - fold.cost(t + 1, q)[j] + after[fold.cell(t + 1, q)[j]];
                    double* out = row + static_cast<size_t>(q) * width;
                    if (steps.per_step_) back_dense(steps.score(t), steps.extra(t), w_.data(), out, m, width);
                    else steps.table(t).back(w_.data(), out);
                }
            }
            after = row;
        }
        top = bottom;
    }
}

const double* Trellis::read_rows(int first, int last) const {
    rows_.resize(static_cast<size_t>(last - first + 1) * width);
    rows_first_ = first, rows_last_ = last;
    for (int t = first; t <= last; ++t) {
        double* row = rows_.data() + static_cast<size_t>(t - first) * width;
        sequence_->row(t, row);
        std::fill(row + m, row + width, -kInf);
    }
    return rows_.data();
}

double Trellis::enter(const Fold& fold, const Steps& steps, const double* H0, int& q, int32_t& y) const {
    double best = -kInf;
    const double* u = unary(0);
    const int32_t* next = fold.plain() ? nullptr : fold.next(0, 0);
    const double* cost = fold.plain() ? nullptr : fold.cost(0, 0);
    q = 0, y = -1;
    for (int j = 0; j < m; ++j) {
        const int to = next ? next[j] : 0;
        const double v = u[j] + steps.first(j) - (cost ? cost[j] : 0.0) + H0[static_cast<size_t>(to) * width + j];
        if (v > best) best = v, q = to, y = j;
    }
    return best;
}

void Trellis::go(const Fold& fold, const Steps& steps, int t, const double* H, int& q, int32_t& y) const {
    double best = -kInf;
    const double* u = unary(t);
    if (fold.plain() && !steps.per_step_) {
        y = best_of(steps.table(t - 1).row(y), u, H, w_.data(), width);
        return;
    }
    const int32_t* next = fold.plain() ? nullptr : fold.next(t, q);
    const double* cost = fold.plain() ? nullptr : fold.cost(t, q);
    int best_q = 0, best_y = -1;
    for (int j = 0; j < m; ++j) {
        const int to = next ? next[j] : 0;
        const double v = steps.at(t - 1, y, j) + u[j] - (cost ? cost[j] : 0.0) + H[static_cast<size_t>(to) * width + j];
        if (v > best) best = v, best_q = to, best_y = j;
    }
    q = best_q, y = best_y;
}

namespace {

void last_row(const Fold& fold, int width, double* out) {
    for (int q = 0; q < fold.Q; ++q) std::fill_n(out + static_cast<size_t>(q) * width, width, 0.0 - fold.final[q]);
}

}  // namespace

double Trellis::backward(const Fold& fold, const Steps& steps, std::vector<double>& H, Control& control) const {
    if (n == 0) return -fold.final[0];
    const size_t layer = static_cast<size_t>(fold.Q) * width;
    H.resize(layer * n);
    double* last = H.data() + layer * (n - 1);
    last_row(fold, width, last);
    rows(fold, steps, 0, n - 1, last, H.data(), control);
    int q;
    int32_t y;
    return enter(fold, steps, H.data(), q, y);
}

void Trellis::read(const Fold& fold, const Steps& steps, const std::vector<double>& H, int32_t* path) const {
    if (n == 0) return;
    const size_t layer = static_cast<size_t>(fold.Q) * width;
    int q;
    enter(fold, steps, H.data(), q, path[0]);
    for (int t = 1; t < n; ++t) {
        path[t] = path[t - 1];
        go(fold, steps, t, H.data() + layer * t, q, path[t]);
    }
}

double Trellis::best_path(const Fold& fold, const Steps& steps, int32_t* path, Control& control) {
    if (n == 0) return -fold.final[0];
    const size_t layer = static_cast<size_t>(fold.Q) * width;
    if (layer * n <= kKeepCells) {
        const double best = backward(fold, steps, buffer_, control);
        if (best > -kInf) read(fold, steps, buffer_, path);
        return best;
    }
    // Keep row t for every t that begins a block; make the rows of a block again when the path walks through it.
    const int block = std::max(2, static_cast<int>(std::sqrt(static_cast<double>(n))));
    const int blocks = (n + block - 1) / block;
    kept_.resize(layer * blocks);
    buffer_.resize(layer * block);
    std::vector<double> last(layer);
    last_row(fold, width, last.data());
    const auto fill = [&](int b) {  // rows of block b into buffer_
        const int low = b * block, high = std::min(n, low + block);
        const double* after = b + 1 < blocks ? kept_.data() + layer * (b + 1) : nullptr;
        if (after) return rows(fold, steps, low, high, after, buffer_.data(), control);
        std::copy(last.begin(), last.end(), buffer_.begin() + layer * (high - 1 - low));
        rows(fold, steps, low, high - 1, last.data(), buffer_.data(), control);
    };
    for (int b = blocks - 1; b >= 0; --b) {
        fill(b);
        std::copy_n(buffer_.begin(), layer, kept_.begin() + layer * b);
    }
    int q;
    const double best = enter(fold, steps, kept_.data(), q, path[0]);
    if (!(best > -kInf)) return best;
    for (int b = 0; b < blocks; ++b) {
        fill(b);
        for (int t = std::max(1, b * block); t < std::min(n, (b + 1) * block); ++t) {
            path[t] = path[t - 1];
            go(fold, steps, t, buffer_.data() + layer * (t - b * block), q, path[t]);
        }
    }
    return best;
}

double Trellis::score(const int32_t* path, const Steps& steps) const {
    double total = 0;
    for (int t = 0; t < n; ++t) {
        total += unary(t)[path[t]];
        if (t > 0) total += steps.at(t - 1, path[t - 1], path[t]);
    }
    return total;
}

double Trellis::rounding(const Steps& steps) const {
    const auto largest = [](const double* scores, size_t count) {
        double top = 0;
        for (size_t c = 0; c < count; ++c)
            if (scores[c] > -kInf) top = std::max(top, std::abs(scores[c]));
        return top;
    };
    double scale = 0;
    for (int t = 0; t < n; ++t) scale += largest(unary(t), m);
    const size_t square = static_cast<size_t>(m) * m;
    if (steps.per_step_)
        for (int t = 0; t + 1 < n; ++t) scale += largest(steps.score(t), square);
    else scale += n * largest(steps.free_->row(0), static_cast<size_t>(m) * width);
    return std::numeric_limits<double>::epsilon() * (n + 8) * scale;
}

}  // namespace bridle
