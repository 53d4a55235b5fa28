#include "search/trellis.h"

#include <algorithm>
#include <cmath>

namespace bridle {
namespace {

// What these do shows in `benchmarks/run.py --only growth`.
constexpr size_t kKeepCells = size_t{1} << 22;  // 32 MB of doubles: above that, rows are made twice instead of kept
constexpr size_t kKeepFirst = size_t{1} << 18;  // the same of the first path, without rules
constexpr size_t kBreath = size_t{1} << 22;     // sums between two looks at the clock

// mask + adjust, (m, m) each; an empty mask is 0
void with_mask(const std::vector<double>& mask, const double* adjust, int m, std::vector<double>& out) {
    if (mask.empty()) out.assign(size_t(m) * m, 0.0);
    else out = mask;
    for (size_t c = 0; adjust && c < out.size(); ++c) out[c] += adjust[c];
}

}  // namespace

void Steps::plain(const Sequence& s) {
    m_ = s.m;
    tied_ = s.tied;
    free_ = s.head->per_step ? nullptr : &s.head->tables->free;
    tie_ = s.head->per_step ? nullptr : &s.head->tables->tied;
    per_step_ = s.head->per_step ? s.head->pairwise : nullptr;
    first_ = nullptr;
    tables_ = nullptr;
    views_.clear();
    if (!per_step_) return;
    with_mask(s.problem->tables->free_mask, nullptr, m_, sum_free_);
    if (tied_) with_mask(s.problem->tables->tied_mask, nullptr, m_, sum_tied_);
    add_free_ = sum_free_.data();
    add_tied_ = sum_tied_.data();
}

void Steps::adjusted(const Sequence& s, const double* adjust, const double* first, Control& control) {
    plain(s);
    first_ = first;
    if (per_step_) {
        with_mask(s.problem->tables->free_mask, adjust, m_, sum_free_);
        if (tied_) with_mask(s.problem->tables->tied_mask, adjust, m_, sum_tied_);
        return;
    }
    own_free_.adjust(s.head->tables->free, adjust, control);
    if (tied_) own_tied_.adjust(s.head->tables->tied, adjust, control);
    free_ = &own_free_;
    tie_ = &own_tied_;
}

double Steps::score(const Sequence& s, const int32_t* path) const {
    double total = 0;
    for (int t = 0; t < s.n; ++t) {
        total += s.unary(t, path[t]);
        if (t > 0) total += at(t - 1, path[t - 1], path[t]);
    }
    return total;
}

const TableView* const* Steps::views(int n) const {
    if (views_.empty() && n > 1) {
        views_.resize(n);
        for (int t = 1; t < n; ++t) views_[t] = &table(t - 1).view();
    }
    return views_.data();
}

void Trellis::load(const Sequence& s) {
    sequence_ = &s;
    n = s.n;
    m = s.m;
    width = padded(m);
    row_.assign(width + 2 * kGuard, -kInf);
    w_.assign(width + 2 * kGuard, -kInf);
    room_.resize(width);
    unary_.clear();
    rows_first_ = 0, rows_last_ = -1;
    const size_t cells = size_t(n) * width;
    if (cells > kKeepCells) return;
    unary_.resize(cells);
    for (int t = 0; t < n; ++t) {
        double* row = unary_.data() + size_t(t) * width;
        s.row(t, row);
        for (int y = m; y < width; ++y) row[y] = -kInf;
    }
}

const double* Trellis::unary(int t) const {
    if (!unary_.empty()) return unary_.data() + size_t(t) * width;
    if (t >= rows_first_ && t <= rows_last_) return rows_.data() + size_t(t - rows_first_) * width;
    sequence_->row(t, row_.data());
    return row_.data();
}

void Trellis::rows(const Fold& fold, const Steps& steps, int low, int high, const double* after, double* H,
                   Control& control) const {
    const int Q = fold.Q;
    const size_t layer = size_t(Q) * width;
    const int chunk = int(std::clamp<size_t>(kBreath / (layer * m), 1, 512));        // rows between looks at the clock
    const int slice = int(std::clamp<size_t>(kBreath / (size_t(width) * m), 1, Q));  // states, likewise
    for (int top = high; top > low;) {
        const int bottom = std::max(low, top - chunk);
        control.check();
        if (fold.plain() && !steps.per_step_) {
            const double* u = unary_.data() + size_t(bottom + 1) * width;
            if (unary_.empty()) u = read_rows(bottom + 1, top);
            kernels().rows_back(steps.views(n), u, bottom, top, after, H + (bottom - low) * layer, w_.data() + kGuard,
                                room_.data());
            after = H + (bottom - low) * layer;
            top = bottom;
            continue;
        }
        for (int t = top - 1; t >= bottom; --t) {
            const double* u = unary(t + 1);
            double* row = H + (t - low) * layer;
            if (!steps.per_step_) {
                for (int q = 0; q < Q; q += slice) {
                    if (q > 0) control.check();
                    kernels().fold_back(steps.table(t).view(), std::min(slice, Q - q), fold.cost(t + 1, q),
                                        fold.cell(t + 1, q), u, after, row + size_t(q) * width, w_.data() + kGuard,
                                        room_.data());
                }
            } else {
                for (int q = 0; q < Q; ++q) {
                    if (q % slice == slice - 1) control.check();
                    if (fold.plain())
                        for (int j = 0; j < width; ++j) w_[j] = u[j] + after[j];
                    else
                        for (int j = 0; j < width; ++j)
                            w_[j] = u[j] - fold.cost(t + 1, q)[j] + after[fold.cell(t + 1, q)[j]];
                    kernels().dense_back(steps.score(t), steps.extra(t), w_.data(), row + size_t(q) * width, m, width);
                }
            }
            after = row;
        }
        top = bottom;
    }
}

const double* Trellis::read_rows(int first, int last) const {
    rows_.resize(size_t(last - first + 1) * width);
    rows_first_ = first, rows_last_ = last;
    for (int t = first; t <= last; ++t) {
        double* row = rows_.data() + size_t(t - first) * width;
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
        const double v = u[j] + steps.first(j) - (cost ? cost[j] : 0.0) + H0[size_t(to) * width + j];
        if (v > best) best = v, q = to, y = j;
    }
    return best;
}

void Trellis::go(const Fold& fold, const Steps& steps, int t, const double* H, int& q, int32_t& y) const {
    double best = -kInf;
    const double* u = unary(t);
    if (fold.plain() && !steps.per_step_) {
        y = kernels().best_of(steps.table(t - 1).row(y), u, H, width);
        return;
    }
    const int32_t* next = fold.plain() ? nullptr : fold.next(t, q);
    const double* cost = fold.plain() ? nullptr : fold.cost(t, q);
    int best_q = 0, best_y = -1;
    for (int j = 0; j < m; ++j) {
        const int to = next ? next[j] : 0;
        const double v = steps.at(t - 1, y, j) + u[j] - (cost ? cost[j] : 0.0) + H[size_t(to) * width + j];
        if (v > best) best = v, best_q = to, best_y = j;
    }
    q = best_q, y = best_y;
}

namespace {

void last_row(const Fold& fold, int width, double* out) {
    for (int q = 0; q < fold.Q; ++q) std::fill_n(out + size_t(q) * width, width, 0.0 - fold.final[q]);
}

}  // namespace

double Trellis::backward(const Fold& fold, const Steps& steps, std::vector<double>& H, Control& control) const {
    if (n == 0) return -fold.final[0];
    const size_t layer = size_t(fold.Q) * width;
    if (H.capacity() < layer * n) lay_out(H, layer * n, 0.0, control);
    else H.resize(layer * n);
    double* last = H.data() + layer * (n - 1);
    last_row(fold, width, last);
    rows(fold, steps, 0, n - 1, last, H.data(), control);
    int q;
    int32_t y;
    return enter(fold, steps, H.data(), q, y);
}

void Trellis::read(const Fold& fold, const Steps& steps, const std::vector<double>& H, int32_t* path) const {
    if (n == 0) return;
    const size_t layer = size_t(fold.Q) * width;
    int q;
    enter(fold, steps, H.data(), q, path[0]);
    for (int t = 1; t < n; ++t) {
        path[t] = path[t - 1];
        go(fold, steps, t, H.data() + layer * t, q, path[t]);
    }
}

size_t Trellis::path_bytes(int n, int m) {
    const double root = std::sqrt(double(n));
    return sizeof(double) * padded(m) * size_t(std::min(double(n), 2 * root + 2) + 1);
}

double Trellis::best_path(const Fold& fold, const Steps& steps, int32_t* path, Control& control) {
    if (n == 0) return -fold.final[0];
    const size_t layer = size_t(fold.Q) * width;
    if (layer * n <= kKeepCells) {
        const double best = backward(fold, steps, buffer_, control);
        if (best > -kInf) read(fold, steps, buffer_, path);
        return best;
    }
    // Keep row t for every t that begins a block; make the rows of a block again when the path walks through it.
    const int block = std::max(2, int(std::sqrt(double(n))));
    const int blocks = (n + block - 1) / block;
    if (kept_.size() < layer * blocks) lay_out(kept_, layer * blocks, 0.0, control);
    if (buffer_.size() < layer * block) lay_out(buffer_, layer * block, 0.0, control);
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

double Trellis::rounding(const Steps& steps) const {
    const auto largest = [](const double* scores, size_t count) {
        double top = 0;
        for (size_t c = 0; c < count; ++c)
            if (scores[c] > -kInf) top = std::max(top, std::abs(scores[c]));
        return top;
    };
    double scale = 0;
    for (int t = 0; t < n; ++t) scale += largest(unary(t), m);
    const size_t square = size_t(m) * m;
    if (steps.per_step_)
        for (int t = 0; t + 1 < n; ++t) scale += largest(steps.score(t), square);
    else if (!steps.free_->view().flat) scale += n * largest(steps.free_->row(0), size_t(m) * width);
    return std::numeric_limits<double>::epsilon() * (n + 8) * scale;
}

void Viterbi::rows(const RawScores& x, int low, int high, const double* after, Control& control) {
    const int chunk = int(std::clamp<size_t>(kBreath / (size_t(x.width) * x.m), 1, 1 << 12));
    for (int top = high; top > low;) {
        const int bottom = std::max(low, top - chunk);
        control.check();
        double* here = V_.data() + kGuard + size_t(bottom - low) * x.width;
        kernels().scan(x, bottom, top, after, here, few_.data() + (bottom - low), H_.data(), room_.data());
        after = here;
        top = bottom;
    }
}

double Viterbi::best_path(const Sequence& s, int32_t* path, Control& control) {
    if (s.n == 0) return 0.0;
    const RawScores x = s.raw();
    const size_t width = x.width;
    const auto make_room = [&](size_t n) {
        V_.resize(std::max(V_.size(), width * n + 2 * kGuard));
        few_.resize(std::max(few_.size(), n + 1));
    };
    const auto best = [&](const double* first) { return *std::max_element(first, first + x.m); };
    H_.resize(width);
    room_.resize(width);
    if (width * s.n <= kKeepFirst) {
        make_room(s.n);
        rows(x, 0, s.n, nullptr, control);
        return kernels().follow(x, 0, s.n, V_.data() + kGuard, few_.data(), -1, path) < 0 ? -kInf
                                                                                          : best(V_.data() + kGuard);
    }
    // Keep row t for every t that begins a block; make the rows of a block again when the path walks through it.
    const int block = std::max(2, int(std::sqrt(double(s.n))));
    const int blocks = (s.n + block - 1) / block;
    kept_.resize(width * blocks + 2 * kGuard);
    make_room(block);
    const auto fill = [&](int b) {
        const double* after = b + 1 < blocks ? kept_.data() + kGuard + width * (b + 1) : nullptr;
        rows(x, b * block, std::min(s.n, (b + 1) * block), after, control);
    };
    for (int b = blocks - 1; b >= 0; --b) {
        fill(b);
        std::copy_n(V_.begin() + kGuard, width, kept_.begin() + kGuard + width * b);
    }
    const double score = best(kept_.data() + kGuard);
    for (int b = 0, y = -1; b < blocks && score > -kInf; ++b) {
        if (b > 0) fill(b);
        y = kernels().follow(x, b * block, std::min(s.n, (b + 1) * block), V_.data() + kGuard, few_.data(), y, path);
    }
    return score;
}

}  // namespace bridle
