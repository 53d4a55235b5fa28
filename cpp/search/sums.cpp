// Sums instead of maxima over labels x states of a product automaton (sums_graph.h), scaled, one sequence per lane:
//   U[t][y] = exp(unary[t][y] - top[t]),  E[i][j] = exp(pairwise[i][j] - shift),  W = exp(-what a step costs)
//   a[t][v'] = U[t][j] / |a[t-1]| * sum over nodes v = (q, i) with step(q, j) = v' of  a[t-1][v] E[i][j] W[q][j]
//   b[t][v] = sum over j of  E[i][j] W[q][j] w[t+1][step(q, j)],   w[t] = U[t] / |a[t-1]| * b[t],   b[n-1][v] = W[v] / f
//   f = sum over v of a[n-1][v] W[v];   log Z = sum of top + (n-1) shift + sum over t < n-1 of log |a[t]| + log f
//   p(y at t) = sum over q of a[t][q, y] b[t][q, y];   p(i, j at t) = sum over q of a[t-1][q, i] E[i][j] W[q][j] w[t][step(q, j)]
// so that sum over v of a[t] b[t] is 1 everywhere. What falls below 1e-300 of the whole is lost. It does not matter if no |a[t]| is
// below kLeast and no b above kMost; where that is not so, everything is done again with logarithms, slowly (kLogLanes).
//
// With logarithms scores may be huge (people mask padding with the least float), so only differences are ever added. Then all terms
// are <= 0, and those that matter to a sum are at most as far below 0 as the largest of them: what rounding can do to log Z is
// kUlps * sum over t of |largest term at t|, which is returned as `error`. log Z is relative to
//   offset = sum over t of  max over y of unary[t][y]  +  sum over t of  max over i, j of pairwise[i][j]
// of the scores as they came, without masks.
//
// A segment y[a] .. y[e-1] needs no sum of its own. The sum over all ways to reach each node with these labels comes from row a-1 of
// a, and what may follow from row e of b. Both leave out labels that would make it another segment.
#include "search/sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>

#include "search/sums_graph.h"
#include "simd/flush.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeast = 1e-100, kMost = 1e150;
constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();  // of rounding for each term of a sum
constexpr double kNegligible = 64;  // a term that is so much smaller than the largest adds nothing: exp(-64) < 1e-27
constexpr size_t kMostStates = size_t{1} << 22;
constexpr size_t kChunkBytes = size_t{1} << 16;  // of positions whose bigrams are added up together
constexpr int kChunk = 16;                       // positions, at most
constexpr int kPathCheck = 256;                  // positions of a labelling between looks at the clock

// ---- the lanes' kernels with logarithms, for one sequence at a time: products are sums, and sums are of this kind -------------------

double plus(double a, double b) {
    const double top = std::max(a, b);
    return top == -kInf ? -kInf : top + std::log1p(std::exp(std::min(a, b) - top));
}

void log_multiply(const LaneRun* runs, size_t n_runs, const LaneTerm* terms, const LaneTarget* targets,
                  const double* price, const double* table, const double* x, const double*, double* out) {
    for (const LaneRun* run = runs; run < runs + n_runs; ++run)
        for (uint32_t k = 0; k < run->count; ++k) {
            const LaneTarget& target = targets[run->target + k];
            if (target.cell < 0) continue;
            double top = -kInf, sum = 0;
            for (uint32_t c = run->begin; c < run->end; ++c) {
                const double here = x[terms[c].cell] + table[terms[c].at + k];
                if (here == -kInf) continue;
                if (here <= top) sum += std::exp(here - top);
                else sum = sum * std::exp(top - here) + 1, top = here;
            }
            if (sum > 0) out[target.cell] = plus(out[target.cell], top + std::log(sum) + price[target.price]);
        }
}

void log_gather(const LaneTarget* targets, size_t count, const double* price, const double*, const double* x,
                double* out) {
    for (size_t k = 0; k < count; ++k)
        if (targets[k].cell >= 0) out[k] = plus(out[k], x[targets[k].cell] + price[targets[k].price]);
}

void log_outer(const LaneTile* tiles, size_t n_tiles, const double* x, size_t x_step, const double* y, size_t y_step,
               int count, int m, const double* table, double* sum) {
    for (const LaneTile* tile = tiles; tile < tiles + n_tiles; ++tile)
        for (int k = 0; k < tile->rows; ++k)
            for (int l = 0; l < tile->columns; ++l) {
                const size_t at = size_t(tile->i + k) * m + tile->j + l;
                for (int t = 0; t < count; ++t)
                    sum[at] += std::exp(x[t * x_step + tile->cell + k] + y[t * y_step + tile->column + l] + table[at]);
            }
}

void log_lift(double* u, int m, double* top) {
    const double most = *std::max_element(u, u + m);
    top[0] = most > -kInf ? most : 0.0;
    for (int j = 0; j < m; ++j) u[j] = u[j] > -kInf ? u[j] - most : -kInf;
}

void log_scale(double* a, const double* u, const int32_t* label, int nodes, double* total) {
    total[0] = -kInf;
    for (int v = 0; v < nodes; ++v) {
        a[v] += u[label[v]];
        total[0] = plus(total[0], a[v]);
    }
}

void log_weigh(const double* a, double* b, const double* u, const int32_t* label, int nodes, double* p, double*) {
    for (int v = 0; v < nodes; ++v) {
        p[label[v]] = plus(p[label[v]], a[v] + b[v]);
        b[v] += u[label[v]];
    }
}

constexpr LaneKernels kLogLanes{1, log_multiply, log_gather, log_outer, log_lift, log_scale, log_weigh};

// ---- one sequence of those that are summed together ----------------------------------------------------------------------------------

struct Lane {
    const Sequence* sequence;
    std::vector<int32_t> kind;  // (n) of each position; empty: all are of the first
    size_t x;                   // its place in the outputs
};

// Scores that do not depend on the token, by places of labels. Two tables: the second where the type must not change.
struct Factors {
    bool per_step = false, logs = false;
    double shift = 0;
    std::vector<double> ahead[2], back[2], score[2];  // (m, m): factors, the same turned, and their logarithms
    std::vector<double> price, log_price;             // of each price of the graph
};

void fill_factors(const SumGraph& g, const Sequence& s, const double* pairwise, bool logs, bool tied, Factors& f) {
    const int m = g.m;
    const size_t cells = size_t(m) * m;
    f.shift = pairwise ? *std::max_element(pairwise, pairwise + cells) : 0.0;
    if (f.shift == -kInf) f.shift = 0.0;
    const TableCache& masks = *s.problem->tables;
    for (int k = 0; k <= int(tied); ++k) {
        const std::vector<double>& mask = k ? masks.tied_mask : masks.free_mask;
        f.ahead[k].resize(cells), f.back[k].resize(cells), f.score[k].resize(cells);
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < m; ++j) {
                const size_t from = size_t(g.label[i]) * m + g.label[j], to = size_t(i) * m + j;
                double x = pairwise ? pairwise[from] - f.shift : 0.0;
                if (!mask.empty()) x += mask[from];
                f.score[k][to] = x;
                f.ahead[k][to] = f.back[k][size_t(j) * m + i] = logs ? x : std::exp(x);
            }
    }
}

Factors factors_of(const SumGraph& g, const Sequence& s, const SumRequest& request, bool logs, bool tied) {
    Factors f;
    f.per_step = s.head->per_step, f.logs = logs;
    fill_factors(g, s, f.per_step ? nullptr : s.head->pairwise, logs, tied, f);
    const Problem& p = *s.problem;
    for (const SumGraph::Price& price : g.prices) {
        double cost = 0;
        for (const auto& [rule, count] : price)
            cost += count * (request.penalties ? request.penalties[rule] : p.rules[rule].penalty);
        f.log_price.push_back(-cost);
        f.price.push_back(logs ? -cost : std::exp(-cost));
    }
    return f;
}

template <class T>
double largest(const T* x, int m) {  // eight at a time: one after the other would wait for each
    T top[8];
    std::fill_n(top, 8, x[0]);
    int k = 0;
    for (; k + 8 <= m; k += 8)
        for (int l = 0; l < 8; ++l) top[l] = x[k + l] > top[l] ? x[k + l] : top[l];
    for (; k < m; ++k) top[0] = x[k] > top[0] ? x[k] : top[0];
    return double(*std::max_element(top, top + 8));
}

// The largest score of a position as it came, without masks; 0: all are impossible.
double raw_top(const Sequence& s, int t) {
    const Problem& p = *s.problem;
    const int64_t at = (s.first + t) * s.m;
    const double top = p.unary32 ? largest(p.unary32 + at, s.m) : largest(p.unary64 + at, s.m);
    return top > -kInf ? top : 0.0;
}

// Writes the row of a position by places, `step` numbers apart. Does it differ from the scores as they came?
bool read_row(const SumGraph& g, const Sequence& s, const SumRequest& request, int t, double* row, double* out,
              size_t step) {
    const Problem& p = *s.problem;
    bool differs =
        p.allowed || (t == 0 && !s.head->start.empty()) || (t == s.n - 1 && !s.head->end.empty()) || request.allowed;
    if (!differs && p.unary32) {
        const float* u = p.unary32 + (s.first + t) * s.m;
        for (int k = 0; k < s.m; ++k) out[k * step] = u[g.label[k]];
        return false;
    }
    s.row(t, row);
    if (request.allowed) {
        const uint64_t* bits = request.allowed + (s.begin + t) * ((s.m + 63) / 64);
        for (int y = 0; y < s.m; ++y)
            if (!(bits[y / 64] >> (y % 64) & 1)) row[y] = -kInf;
    }
    for (int k = 0; k < s.m; ++k) out[k * step] = row[g.label[k]];
    return differs;
}

// Memory that one chain after the other works in.
struct Room {
    std::vector<double> a, u;
};

class Chain {
  public:
    // lanes: the longest first, no more than the kernels have; tied: are there positions whose type must not change?
    Chain(const SumGraph& graph, Factors& factors, std::span<const Lane> lanes, bool tied, const SumRequest& request,
          const SumOutputs& out, Room& room, Control& control)
        : g_(graph),
          f_(factors),
          k_(factors.logs ? kLogLanes : kernels().in_lanes),
          lanes_(lanes),
          logs_(factors.logs),
          simple_(graph.kinds.size() == 1 && !tied),
          tied_(tied),
          request_(request),
          out_(out),
          control_(control),
          a_(room.a),
          u_(room.u),
          L_(k_.lanes),
          m_(graph.m),
          V_(graph.V),
          n_(lanes[0].sequence->n) {}

    // False: the sums of `doubtful` lanes must be done with logarithms (never with logarithms); or nothing fits the memory.
    bool run(std::vector<uint8_t>& doubtful) {
        doubtful_.assign(lanes_.size(), 0);
        if (!allocate()) {
            for (const Lane& lane : lanes_) out_.log_z[lane.x] = kInf;
            return true;
        }
        forward(0, block_);
        for (int low = block_; low < n_; low += block_) forward(low, std::min(n_, low + block_));
        finish();
        if (logs_ && log_z_[0] == -kInf) out_.log_z[lanes_[0].x] = -kInf;
        else backward();  // it also shows whether what was lost matters
        doubtful = doubtful_;
        return std::find(doubtful.begin(), doubtful.end(), 1) == doubtful.end();
    }

  private:
    struct Part {  // positions of one kind among the lanes
        int kind, table;
        const double* mask;  // (L) or null
    };

    double zero() const { return logs_ ? -kInf : 0.0; }
    double times(double a, double b) const { return logs_ ? a + b : a * b; }
    double over(double a, double b) const { return logs_ ? (b == -kInf ? -kInf : a - b) : b > 0 ? a / b : 0.0; }
    double add(double a, double b) const { return logs_ ? plus(a, b) : a + b; }
    double value(double x) const { return logs_ ? std::exp(x) : x; }
    double log_of(double x) const { return logs_ ? x : std::log(x); }
    double one() const { return logs_ ? 0.0 : 1.0; }

    bool wants_edges() const { return out_.edges || out_.steps || out_.entropy; }
    bool wants_counts() const { return out_.counts || out_.entropy; }
    bool wants_rows() const { return out_.samples || out_.segments; }
    int n(size_t l) const { return lanes_[l].sequence->n; }
    double* a(int t) { return &a_[size_t(t - low_) * V_ * L_]; }
    double* u(int t) { return &u_[size_t(t - low_) * m_ * L_]; }
    double& total(int t, size_t l) { return totals_[size_t(t) * L_ + l]; }

    bool allocate() {
        const size_t row = sizeof(double) * L_ * (size_t(V_) + m_), most = control_.memory() / 2;
        const size_t steps = sizeof(double) * L_ * g_.Q * m_;
        chunk_ = int(std::clamp<size_t>(kChunkBytes / std::max<size_t>(1, steps), 1, kChunk));
        size_t fixed = chunk_ * steps + 4 * row;
        if (wants_edges()) fixed += sizeof(double) * L_ * m_ * m_ * (1 + tied_) + sizeof(double) * m_ * m_;
        if (out_.samples) fixed += n_ * row;
        const auto square = int(std::ceil(std::sqrt(double(n_))));
        block_ = fixed + n_ * row <= most || wants_rows() ? n_ : square;
        const size_t blocks = (n_ + block_ - 1) / block_;
        if (fixed + (block_ + (blocks > 1 ? blocks : 0)) * row > most) return false;
        const auto reserve = [&](std::vector<double>& rows, size_t count) {  // what is in them does not matter
            if (rows.size() < count) lay_out(rows, count, 0.0, control_);
        };
        reserve(a_, size_t(block_) * V_ * L_), reserve(u_, size_t(block_) * m_ * L_);
        if (blocks > 1) lay_out(kept_, blocks * V_ * L_, 0.0, control_);
        totals_.assign(size_t(n_) * L_, one());
        ends_.assign(L_, one()), log_z_.assign(L_, 0.0), offset_.assign(L_, 0.0);
        differs_.assign(L_, 0), above_sum_.assign(L_, 0.0), error_.assign(L_, 0.0), row_.resize(m_), top_.resize(L_);
        return true;
    }

    // Those at position t, and which lanes they are.
    const std::vector<Part>& parts(int t) {
        parts_.clear();
        if (simple_) parts_.push_back({0, 0, nullptr});
        else {
            masks_.assign(L_ * L_, 0.0);
            for (size_t l = 0; l < lanes_.size(); ++l) {
                if (t >= n(l)) break;
                const Part here{kind(l, t), table(l, t), nullptr};
                size_t k = 0;
                while (k < parts_.size() && (parts_[k].kind != here.kind || parts_[k].table != here.table)) ++k;
                if (k == parts_.size()) parts_.push_back(here), parts_.back().mask = &masks_[k * L_];
                masks_[k * L_ + l] = 1.0;
            }
            if (parts_.size() == 1) parts_[0].mask = nullptr;
        }
        return parts_;
    }
    int kind(size_t l, int t) const { return lanes_[l].kind.empty() ? 0 : lanes_[l].kind[t]; }
    int table(size_t l, int t) const { return lanes_[l].sequence->tied && lanes_[l].sequence->tied[t] ? 1 : 0; }

    // The factors of the step to position t, where they differ from one to the next.
    void use_step(int t) {
        if (!f_.per_step || t == 0 || step_ == t) return;
        const Sequence& s = *lanes_[0].sequence;
        fill_factors(g_, s, s.head->pairwise + size_t(t - 1) * m_ * m_, logs_, tied_, f_);
        step_ = t;
    }

    // u of position t; `first`: for the first time.
    void read(int t, bool first) {
        double* const here = u(t);
        std::fill_n(here, size_t(m_) * L_, -kInf);
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l)
            differs_[l] = read_row(g_, *lanes_[l].sequence, request_, t, row_.data(), here + l, L_);
        k_.lift(here, m_, top_.data());
        for (size_t l = 0; first && l < lanes_.size() && t < n(l); ++l) {
            const double plain = differs_[l] ? raw_top(*lanes_[l].sequence, t) : top_[l];
            offset_[l] += plain, log_z_[l] += top_[l] - plain, above_sum_[l] += top_[l] - plain;
        }
        for (size_t l = 0; first && l < lanes_.size(); ++l) {
            const bool ends = t == n(l) - 1 || t == 0;
            if (ends) error_[l] += kUlps * end_size(l, t);
        }
    }
    // A start or end score was added to the unary one before the largest was subtracted.
    double end_size(size_t l, int t) const {
        const Head& head = *lanes_[l].sequence->head;
        const bool added = (t == 0 && !head.start.empty()) || (t == n(l) - 1 && !head.end.empty());
        return added ? std::abs(top_[l]) : 0.0;
    }

    void forward(int low, int high) {
        const bool again = low < done_;
        std::vector<double> before;
        if (low > 0 && !again) {
            kept_row(low / block_, a(low - 1));
            before.assign(a(low - 1), a(low - 1) + size_t(V_) * L_);
        } else if (low > 0)
            before.assign(&kept_[size_t(low / block_) * V_ * L_],
                          &kept_[size_t(low / block_) * V_ * L_] + size_t(V_) * L_);
        low_ = low;
        for (int t = low; t < high; ++t) {
            control_.check();
            read(t, !again);
            double* const here = a(t);
            std::fill_n(here, size_t(V_) * L_, zero());
            if (t == 0) enter(here);
            else {
                use_step(t);
                if (!again)
                    for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) offset_[l] += f_.shift;
                const double* const from = t > low ? a(t - 1) : before.data();
                for (const Part& part : parts(t)) {
                    const SumGraph::Kind& kind = g_.kinds[part.kind];
                    k_.multiply(kind.ahead.data(), kind.ahead.size(), kind.ahead_terms.data(), kind.forward.data(),
                                f_.price.data(), f_.ahead[part.table].data(), from, part.mask, here);
                }
                double* const us = u(t);
                for (size_t l = 0; !logs_ && l < L_; ++l) {
                    const double inverse = total(t - 1, l) > 0 ? 1 / total(t - 1, l) : 0.0;
                    for (int j = 0; j < m_; ++j) us[j * L_ + l] *= inverse;
                }
            }
            k_.scale(here, u(t), g_.node_place.data(), V_, &totals_[size_t(t) * L_]);
            for (int v = 0; logs_ && v < V_ && total(t, 0) > -kInf; ++v) here[v] -= total(t, 0);
            for (size_t l = 0; !again && l < lanes_.size(); ++l)
                if (t == n(l) - 1) ends_[l] = end_sum(here, l);
        }
        done_ = std::max(done_, high);
    }
    double end_sum(const double* here, size_t l) const {
        double sum = zero();
        for (int v = 0; v < V_; ++v)
            if (g_.final[v] >= 0) sum = add(sum, times(here[size_t(v) * L_ + l], f_.price[g_.final[v]]));
        return sum;
    }
    void kept_row(int block, const double* row) { std::copy_n(row, size_t(V_) * L_, &kept_[size_t(block) * V_ * L_]); }

    void enter(double* here) {
        for (size_t l = 0; l < lanes_.size(); ++l)
            for (const LaneTarget& target : g_.start[kind(l, 0)])
                if (target.cell >= 0) {
                    double& to = here[size_t(target.cell) * L_ + l];
                    to = add(to, f_.price[target.price]);
                }
    }

    // log Z of each lane; doubtful: it may have lost something.
    void finish() {
        for (size_t l = 0; l < lanes_.size(); ++l) {
            double product = 1, log_z = log_z_[l];
            for (int t = 0; t + int(!logs_) < n(l); ++t) {  // with logarithms the last row is normalised, too
                const double here = total(t, l);
                if (logs_) {
                    log_z += here;
                    error_[l] += kUlps * (std::abs(here) + kNegligible);
                    continue;
                }
                if (!(here >= kLeast)) doubtful_[l] = 1;
                product *= here;
                if (product < kLeast || product > 1 / kLeast) log_z += std::log(product), product = 1;
            }
            log_z += std::log(product) + log_of(ends_[l]);
            if (logs_) error_[l] += kUlps * (std::abs(ends_[l]) + kNegligible);
            else {
                if (!(ends_[l] >= kLeast)) doubtful_[l] = 1;
                error_[l] += kUlps * (kNegligible + m_ + g_.Q + std::abs(log_z) / n(l)) * n(l);
            }
            log_z_[l] = log_z;
        }
    }

    void backward() {
        const size_t cells = size_t(g_.Q) * m_;
        w_.assign(size_t(V_) * L_, zero()), b_.resize(w_.size()), p_.resize(size_t(m_) * L_);
        y_.resize(cells * L_ * chunk_), most_.assign(L_, 0.0), whole_.assign(L_, 0.0);
        if (wants_edges()) {
            for (int k = 0; k <= int(tied_); ++k) sum_[k].assign(size_t(m_) * m_ * L_, 0.0);
            edges_.assign(size_t(m_) * m_ * lanes_.size(), 0.0);
        }
        charged_.assign(g_.prices.size() * L_, 0.0), entropy_ = log_z_;
        for (size_t l = 0; l < lanes_.size(); ++l) entropy_[l] -= above_sum_[l];
        if (out_.samples) lay_out(rows_, size_t(n_) * V_ * L_, 0.0, control_);
        if (out_.segments) find_segments();
        for (int low = low_;; low -= block_) {
            if (low < low_) forward(low, low + block_);
            for (int t = std::min(n_, low + block_) - 1; t >= low; --t) {
                control_.check();
                step_back(t);
            }
            flush();
            if (low == 0) break;
        }
        if (wants_edges() && !alone()) settle(0);
        for (size_t l = 0; l < lanes_.size(); ++l) {
            if (!logs_ && !(most_[l] <= kMost)) doubtful_[l] = 1;
            if (doubtful_[l]) continue;
            write(l);
            if (out_.samples) draw(l);
        }
    }

    void step_back(int t) {
        std::fill(b_.begin(), b_.end(), zero());
        if (t + 1 < n_) {
            use_step(t + 1);
            const std::vector<Part>& all = parts(t + 1);
            const bool same = all.size() == 1 && held_part_ == all[0].kind && held_table_ == all[0].table;
            if (held_ == chunk_ || !same) flush();
            for (const Part& part : all) take_back(t, part);
        }
        for (size_t l = 0; l < lanes_.size(); ++l)
            if (t == n(l) - 1)
                for (int v = 0; v < V_; ++v)
                    if (g_.final[v] >= 0)
                        b_[size_t(v) * L_ + l] = logs_ ? f_.price[g_.final[v]] : over(f_.price[g_.final[v]], ends_[l]);
        const double* const here = a(t);
        if (logs_) normalize(here);
        if (logs_ || alone()) flush();
        if (alone() && wants_edges() && t + 1 < n_) settle(t + 1);
        if (out_.segments) sum_segments(t);
        std::fill(p_.begin(), p_.end(), zero());
        w_.swap(b_);
        k_.weigh(here, w_.data(), u(t), g_.node_place.data(), V_, p_.data(), most_.data());
        if (out_.samples) std::copy(w_.begin(), w_.end(), rows_.begin() + ptrdiff_t(size_t(t) * V_ * L_));
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) {
            if (out_.marginals && !doubtful_[l]) {
                const size_t row = size_t(lanes_[l].sequence->first + t) * m_;
                const double* const p = &p_[l];
                const auto chance = [](double x) { return std::min(x, 1.0); };  // rounding can take a sum beyond it
                if (logs_)
                    for (int j = 0; j < m_; ++j) out_.marginals.put(row + g_.label[j], chance(std::exp(p[j * L_])));
                else if (float* const to = out_.marginals.f32)
                    for (int j = 0; j < m_; ++j) to[row + g_.label[j]] = float(chance(p[j * L_]));
                else
                    for (int j = 0; j < m_; ++j) out_.marginals.f64[row + g_.label[j]] = chance(p[j * L_]);
            }
            if (wants_counts() && t == 0) charge_ends(l, 0, false);
            if (wants_counts() && t == n(l) - 1) charge_ends(l, t, true);
        }
        if (out_.entropy) take_scores(t);
    }

    // b of position t from that of t + 1, for lanes of one kind; what bigrams need of it is held.
    void take_back(int t, const Part& part) {
        const SumGraph::Kind& kind = g_.kinds[part.kind];
        const size_t cells = size_t(g_.Q) * m_;
        double* const y = &y_[size_t(chunk_ - 1 - held_) * cells * L_];  // positions fall, places in the chunk, too
        std::fill_n(y, cells * L_, zero());
        k_.gather(kind.steps.data(), cells, f_.price.data(), part.mask, w_.data(), y);
        k_.multiply(kind.back.data(), kind.back.size(), kind.back_terms.data(), kind.reverse.data(), f_.price.data(),
                    f_.back[part.table].data(), y, nullptr, b_.data());
        held_part_ = part.kind, held_table_ = part.table, held_first_ = t, ++held_;
        if (!logs_ && wants_counts()) charge(t, y);
        if (parts_.size() > 1) flush();
    }

    // Positions whose bigrams are not added up together with others.
    bool alone() const { return f_.per_step || out_.steps; }

    // Adds up the bigrams that are held: from positions held_first_ .. to the next ones.
    void flush() {
        if (held_ == 0) return;
        const size_t cells = size_t(g_.Q) * m_;
        const SumGraph::Kind& kind = g_.kinds[held_part_];
        const double* const y = &y_[size_t(chunk_ - held_) * cells * L_];
        if (logs_ && wants_counts()) charge(held_first_, y);
        if (wants_edges()) {
            std::vector<double>& sum = sum_[held_table_];
            k_.add_outer(kind.tiles.data(), kind.tiles.size(), a(held_first_), V_, y, cells, held_, m_,
                         f_.ahead[held_table_].data(), sum.data());
        }
        held_ = 0;
    }

    // Moves sums of bigrams to where they are wanted; t: the position that they lead to, if it is a single one.
    void settle(int t) {
        for (size_t l = 0; l < lanes_.size(); ++l) {
            if (t >= n(l)) continue;
            const size_t token = size_t(lanes_[l].sequence->begin + t) * m_ * m_;
            for (int i = 0; i < m_; ++i)
                for (int j = 0; j < m_; ++j) {
                    const size_t from = size_t(i) * m_ + j;
                    double p = 0;
                    for (int k = 0; k <= int(tied_); ++k) {
                        double& held = sum_[k][from * L_ + l];
                        const double here = logs_ ? held : held * f_.ahead[k][from];
                        if (here > 0) entropy_[l] -= here * f_.score[k][from];
                        p += here, held = 0;
                    }
                    edges_[l * m_ * m_ + from] += p;
                    if (out_.steps) out_.steps.put(token + size_t(g_.label[i]) * m_ + g_.label[j], p);
                }
        }
    }

    // Adds what steps with a price are taken, from position t.
    void charge(int t, const double* y) {
        const SumGraph::Kind& kind = g_.kinds[held_part_];
        if (kind.charged.empty()) return;
        flows_.assign(kind.charged.size() * L_, zero());
        k_.multiply(kind.charges.data(), kind.charges.size(), kind.charge_terms.data(), kind.charge_targets.data(),
                    f_.price.data(), f_.ahead[held_table_].data(), a(t), nullptr, flows_.data());
        for (size_t c = 0; c < kind.charged.size(); ++c) {
            double* const to = &charged_[size_t(kind.steps[kind.charged[c]].price) * L_];
            for (size_t l = 0; l < lanes_.size(); ++l)
                to[l] += value(times(flows_[c * L_ + l], y[size_t(kind.charged[c]) * L_ + l]));
        }
    }
    // The same of the first step, or of what shows at the end.
    void charge_ends(size_t l, int t, bool last) {
        if (last) {
            for (int v = 0; v < V_; ++v)
                if (g_.final[v] > 0) {
                    const double end = times(a(t)[size_t(v) * L_ + l], f_.price[g_.final[v]]);
                    charged_[size_t(g_.final[v]) * L_ + l] += value(over(end, ends_[l]));
                }
            return;
        }
        for (const LaneTarget& target : g_.start[kind(l, 0)]) {
            if (target.cell < 0 || target.price == 0) continue;
            const double here = times(w_[size_t(target.cell) * L_ + l], f_.price[target.price]);
            charged_[size_t(target.price) * L_ + l] += value(logs_ ? over(here, total(0, l)) : here);
        }
    }

    // With logarithms: so that the sum over v of a b is 1 here.
    void normalize(const double* here) {
        double whole = -kInf;
        for (int v = 0; v < V_; ++v) whole = plus(whole, here[v] + b_[v]);
        whole_[0] = whole;
        if (whole == -kInf) return;
        error_[0] += kUlps * (std::abs(whole) + kNegligible);
        for (double& x : b_) x -= whole;
        for (size_t c = 0; held_ > 0 && c < size_t(g_.Q) * m_; ++c) y_[(chunk_ - 1) * size_t(g_.Q) * m_ + c] -= whole;
    }

    // Entropy: log Z less the expected score.
    void take_scores(int t) {
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) {
            scores_.resize(m_);
            read_row(g_, *lanes_[l].sequence, request_, t, row_.data(), scores_.data(), 1);
            const double top = *std::max_element(scores_.begin(), scores_.end());
            for (int j = 0; j < m_; ++j)
                if (const double p = value(p_[j * L_ + l]); p > 0) entropy_[l] -= p * (scores_[j] - top);
        }
    }

    void write(size_t l) {
        const Lane& lane = lanes_[l];
        const size_t R = lane.sequence->problem->rules.size();
        out_.log_z[lane.x] = log_z_[l], out_.offset[lane.x] = offset_[l], out_.error[lane.x] = 2 * error_[l];
        for (int i = 0; out_.edges && i < m_; ++i)
            for (int j = 0; j < m_; ++j)
                out_.edges.put((lane.x * m_ + g_.label[i]) * m_ + g_.label[j], edges_[(l * m_ + i) * m_ + j]);
        if (out_.counts) std::fill_n(out_.counts + lane.x * R, R, 0.0);
        for (size_t c = 1; wants_counts() && c < g_.prices.size(); ++c) {
            const double p = charged_[c * L_ + l];
            if (p > 0) entropy_[l] -= p * f_.log_price[c];
            for (const auto& [rule, count] : g_.prices[c])
                if (out_.counts) out_.counts[lane.x * R + rule] += p * count;
        }
        if (out_.entropy) out_.entropy[lane.x] = std::max(0.0, entropy_[l]);
        for (size_t k = 0; out_.segments && k < segments_[l].count; ++k)
            out_.segments->error[segments_[l].low + k] += 2 * error_[l];
    }

    // ---- samples ---------------------------------------------------------------------------------------------------------

    // Draws labellings from the first label to the last, each by what may follow from it.
    void draw(size_t l) {
        const Sequence& s = *lanes_[l].sequence;
        std::mt19937_64 random(out_.seed * 0x9e3779b97f4a7c15ull + uint64_t(out_.first + s.b));
        std::vector<double> weight(m_);
        for (int sample = 0; sample < out_.n_samples; ++sample) {
            int32_t* const to = out_.samples + size_t(sample) * s.problem->N + s.begin;
            int v = -1;
            for (int t = 0; t < s.n; ++t) {
                if ((t & 255) == 0) control_.check();
                use_step(t);
                const LaneTarget* const steps =
                    t ? &g_.kinds[kind(l, t)].steps[size_t(g_.node_row[v]) * m_] : g_.start[kind(l, 0)].data();
                const double* const rows = &rows_[size_t(t) * V_ * L_];
                const double* const factors = t ? &f_.ahead[table(l, t)][size_t(g_.node_place[v]) * m_] : nullptr;
                double top = -kInf, sum = 0;
                for (int j = 0; j < m_; ++j) {
                    double x = zero();
                    if (steps[j].cell >= 0) {
                        x = times(rows[size_t(steps[j].cell) * L_ + l], f_.price[steps[j].price]);
                        if (factors) x = times(x, factors[j]);
                    }
                    weight[j] = x, top = std::max(top, x);
                }
                for (double& x : weight) sum += x = logs_ ? std::exp(x - top) : x;
                double left = double(random() >> 11) * 0x1p-53 * sum;
                int last = -1;
                for (int j = 0; j < m_; ++j) {
                    if (!(weight[j] > 0)) continue;
                    last = j, left -= weight[j];
                    if (left < 0) break;
                }
                v = steps[last].cell;
                to[t] = g_.label[last];
            }
        }
    }

    // ---- segments --------------------------------------------------------------------------------------------------------

    struct Segments {
        size_t low = 0, count = 0, left = 0;
    };

    void find_segments() {
        const SegmentSums& x = *out_.segments;
        segments_.assign(lanes_.size(), {});
        for (size_t l = 0; l < lanes_.size(); ++l) {
            const Sequence& s = *lanes_[l].sequence;
            const auto low = std::lower_bound(x.first.begin(), x.first.end(), s.begin);
            const auto high = std::lower_bound(low, x.first.end(), s.begin + s.n);
            segments_[l] = {size_t(low - x.first.begin()), size_t(high - low), size_t(high - low)};
        }
    }

    // The segment that ends at position t, if one does: w_ is that of t + 1, b_ that of t.
    void sum_segments(int t) {
        const SegmentSums& x = *out_.segments;
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) {
            Segments& here = segments_[l];
            const int64_t begin = lanes_[l].sequence->begin;
            if (here.left == 0 || x.end[here.low + here.left - 1] != begin + t + 1) continue;
            const size_t k = here.low + --here.left;
            x.error[k] = 0;
            const double p = segment(l, int(x.first[k] - begin), t + 1, x, begin, x.error[k]);
            x.log_p[k] = logs_ ? p - whole_[0] : std::log(p);
        }
    }

    double segment(size_t l, int first, int end, const SegmentSums& x, int64_t begin, double& error) {
        std::vector<double> now(V_, zero()), next(V_);
        const auto place = [&](int t) { return g_.place[x.ids[begin + t]]; };
        for (int t = first; t < end; ++t) {
            control_.check();
            const int j = place(t);
            std::fill(next.begin(), next.end(), zero());
            if (t == 0) {
                const LaneTarget& to = g_.start[kind(l, 0)][j];
                if (to.cell >= 0) next[to.cell] = f_.price[to.price];
            } else {
                use_step(t);
                const double* const table_here = f_.ahead[table(l, t)].data();
                const std::vector<LaneTarget>& steps = g_.kinds[kind(l, t)].steps;
                for (int v = 0; v < V_; ++v) {
                    const int i = g_.node_place[v];
                    const LaneTarget& to = steps[size_t(g_.node_row[v]) * m_ + j];
                    if (to.cell < 0 || (t == first && !x.labels.begins(g_.label[i], g_.label[j]))) continue;
                    const double from = t == first ? a(t - 1)[size_t(v) * L_ + l] : now[v];
                    next[to.cell] = add(next[to.cell], times(times(from, table_here[i * m_ + j]), f_.price[to.price]));
                }
            }
            double sum = zero();
            for (double& value : next) {
                value = times(value, u(t)[j * L_ + l]);
                if (logs_) value = over(value, total(t, 0));
                sum = add(sum, value);
            }
            now.swap(next);
            if (logs_ && sum > -kInf) error += kUlps * (std::abs(sum) + kNegligible);
        }
        double p = zero();
        const bool last = end == n(l);
        if (!last) use_step(end);
        for (int v = 0; v < V_; ++v) {
            if (now[v] == zero()) continue;
            if (last) {
                if (g_.final[v] >= 0) {
                    const double here = times(now[v], f_.price[g_.final[v]]);
                    p = add(p, logs_ ? here : over(here, ends_[l]));
                }
                continue;
            }
            const int i = g_.node_place[v];
            const LaneTarget* const steps = &g_.kinds[kind(l, end)].steps[size_t(g_.node_row[v]) * m_];
            const double* const table_here = &f_.ahead[table(l, end)][size_t(i) * m_];
            for (int j = 0; j < m_; ++j)
                if (steps[j].cell >= 0 && x.labels.begins(g_.label[i], g_.label[j]))
                    p = add(p, times(times(now[v], table_here[j]),
                                     times(f_.price[steps[j].price], w_[size_t(steps[j].cell) * L_ + l])));
        }
        return p;
    }

    const SumGraph& g_;
    Factors& f_;
    const LaneKernels& k_;
    const std::span<const Lane> lanes_;
    std::vector<uint8_t> doubtful_;  // lanes that must be summed with logarithms
    const bool logs_, simple_, tied_;
    const SumRequest& request_;
    const SumOutputs& out_;
    Control& control_;
    std::vector<double>&a_, &u_;  // (block, V, L), (block, m, L)
    const size_t L_;
    const int m_, V_, n_;
    int block_ = 0, low_ = 0, done_ = 0, step_ = -1;
    std::vector<double> kept_;    // (blocks, V, L)
    std::vector<double> totals_;  // (n, L)
    std::vector<double> ends_, log_z_, offset_, error_, row_, top_;
    std::vector<double> w_, b_, p_, most_, whole_;  // (V, L), (V, L), (m, L), (L), (L)
    std::vector<double> y_;                         // (chunk, Q, m, L)
    std::vector<double> sum_[2], edges_, charged_, flows_, entropy_, above_sum_, scores_, rows_, masks_;
    std::vector<Part> parts_;
    std::vector<Segments> segments_;
    std::vector<uint8_t> differs_;  // (L) rows with masks, start or end scores
    int chunk_ = 1, held_ = 0, held_part_ = 0, held_table_ = 0, held_first_ = 0;
};

// ---- batches -------------------------------------------------------------------------------------------------------------------------

// Sequences that share a graph and scores of transitions.
struct Class {
    std::vector<BoundAutomaton> automata;
    PositionKinds kinds;
    bool tied = false;
    std::vector<Lane> lanes;
};

bool has(const std::vector<int>& rules, int r) { return std::find(rules.begin(), rules.end(), r) != rules.end(); }

std::vector<BoundAutomaton> chosen_automata(const Sequence& s, const SumRequest& request) {
    std::vector<BoundAutomaton> out;
    for (const BoundAutomaton& p : s.automata) {
        const bool hard = has(request.hard, p.rule);
        if (!hard && !has(request.soft, p.rule)) continue;
        out.push_back(p);
        if (hard) out.back().mode = Mode::hard;
    }
    return out;
}

// What the marks of a sequence say at each position, as numbers of kinds.
void find_kinds(const std::vector<BoundAutomaton>& automata, int n, std::map<std::vector<uint8_t>, int32_t>& known,
                std::vector<int32_t>& kind) {
    if (std::none_of(automata.begin(), automata.end(), [](const BoundAutomaton& p) { return p.marks; })) {
        known.try_emplace(std::vector<uint8_t>(automata.size(), 0), 0);
        return;
    }
    std::vector<uint8_t> marks(automata.size());
    for (int t = 0; t < n; ++t) {
        for (size_t k = 0; k < automata.size(); ++k) marks[k] = automata[k].marks ? automata[k].marks[t] : 0;
        kind.push_back(known.try_emplace(marks, int32_t(known.size())).first->second);
    }
}

std::vector<Class> classes_of(const std::vector<Sequence>& sequences, const SumRequest& request) {
    std::map<std::vector<int64_t>, size_t> known;
    std::vector<Class> out;
    std::vector<std::map<std::vector<uint8_t>, int32_t>> kinds;
    for (size_t x = 0; x < sequences.size(); ++x) {
        const Sequence& s = sequences[x];
        std::vector<BoundAutomaton> automata = chosen_automata(s, request);
        std::vector<int64_t> key{int64_t(s.head - s.problem->heads.data())};
        bool marked = false;
        for (const BoundAutomaton& p : automata) {
            key.insert(key.end(), {p.automaton->serial, int64_t(p.mode) << 32 | uint32_t(p.rule)});
            marked = marked || p.marks;
        }
        auto [entry, fresh] = known.try_emplace(key, out.size());
        if (!fresh && marked && kinds[entry->second].size() > 32)
            entry->second = out.size(), fresh = true;  // enough kinds
        if (fresh) out.emplace_back().automata = automata, kinds.emplace_back();
        Class& here = out[entry->second];
        Lane lane{&s, {}, x};
        find_kinds(automata, s.n, kinds[entry->second], lane.kind);
        here.tied = here.tied || s.tied;
        here.lanes.push_back(std::move(lane));
    }
    for (size_t c = 0; c < out.size(); ++c) {  // in an order that does not depend on what was met first
        std::vector<int32_t> number(kinds[c].size());
        for (const auto& [marks, k] : kinds[c])
            number[k] = int32_t(out[c].kinds.marks.size()), out[c].kinds.marks.push_back(marks);
        for (Lane& lane : out[c].lanes)
            for (int32_t& k : lane.kind) k = number[k];
        if (out[c].kinds.marks.empty()) out[c].kinds.marks.emplace_back(out[c].automata.size(), uint8_t{0});
        std::stable_sort(out[c].lanes.begin(), out[c].lanes.end(),
                         [](const Lane& a, const Lane& b) { return a.sequence->n > b.sequence->n; });
    }
    return out;
}

std::shared_ptr<const SumGraph> graph_of(const Class& here, const Problem& problem, const SumRequest& request,
                                         Control& control) {
    size_t most = kMostStates;
    if (request.max_states >= 0) most = std::min<size_t>(most, size_t(request.max_states));
    const size_t bytes = control.memory() / 4;
    if (!problem.graphs) return build_graph(here.automata, here.kinds, *problem.tables, most, bytes, control);
    return problem.graphs->find(here.automata, here.kinds, *problem.tables, most, bytes, control);
}

// A sequence without tokens.
double empty_sum(const SumGraph& g, const SumRequest& request, const Problem& problem, double* counts) {
    if (g.empty < 0) return -kInf;
    double cost = 0;
    for (const auto& [rule, count] : g.prices[g.empty]) {
        cost += count * (request.penalties ? request.penalties[rule] : problem.rules[rule].penalty);
        if (counts) counts[rule] += count;
    }
    return -cost;
}

std::vector<Sequence> sequences_of(const Problem& problem, std::span<const int64_t> numbers,
                                   const SumRequest& request) {
    std::vector<Sequence> out;
    out.reserve(numbers.size());
    for (const int64_t b : numbers) {
        Sequence& s = out.emplace_back(problem, b);
        const auto counts = [&](const Agreement& a) { return has(request.hard, a.rule) || has(request.soft, a.rule); };
        if (std::any_of(s.agreements.begin(), s.agreements.end(), counts)) s.expand();
    }
    return out;
}

}  // namespace

void sum_up(const Problem& problem, std::span<const int64_t> numbers, const SumRequest& request, const SumOutputs& out,
            Control& control) {
    const std::vector<Sequence> sequences = sequences_of(problem, numbers, request);
    const FlushToZero flush;
    const size_t R = problem.rules.size(), B = numbers.size();
    std::fill_n(out.log_z, B, kNaN), std::fill_n(out.offset, B, 0.0), std::fill_n(out.error, B, 0.0);
    if (out.counts) std::fill_n(out.counts, B * R, 0.0);
    if (out.entropy) std::fill_n(out.entropy, B, kNaN);
    for (Class& here : classes_of(sequences, request)) {
        const Armed armed(control);
        std::shared_ptr<const SumGraph> graph;
        control.begin();
        control.armed = true;
        if (!control.completes([&] { graph = graph_of(here, problem, request, control); })) continue;
        size_t count = here.lanes.size();
        while (count > 0 && here.lanes[count - 1].sequence->n == 0) {
            const size_t x = here.lanes[--count].x;
            out.log_z[x] =
                graph ? empty_sum(*graph, request, problem, out.counts ? out.counts + x * R : nullptr) : kInf;
            if (out.entropy) out.entropy[x] = out.log_z[x] > -kInf ? 0.0 : kNaN;
        }
        const auto width = here.lanes[0].sequence->head->per_step ? size_t{1} : size_t(kernels().in_lanes.lanes);
        Factors factors;
        Room room;
        for (size_t low = 0; low < count; low += width) {
            if (low > 0) control.begin(), control.armed = true;
            const std::span lanes(here.lanes.data() + low, std::min(width, count - low));
            if (!graph) {
                for (const Lane& lane : lanes) out.log_z[lane.x] = kInf;
                continue;
            }
            control.completes([&] {
                if (low == 0) factors = factors_of(*graph, *lanes[0].sequence, request, false, here.tied);
                std::vector<uint8_t> doubtful, none;
                if (graph->V > 0 && Chain(*graph, factors, lanes, here.tied, request, out, room, control).run(doubtful))
                    return;
                Factors logs = factors_of(*graph, *lanes[0].sequence, request, true, here.tied);
                for (size_t l = 0; l < lanes.size(); ++l) {
                    if (graph->V == 0) out.log_z[lanes[l].x] = -kInf;
                    else if (doubtful[l])
                        Chain(*graph, logs, lanes.subspan(l, 1), here.tied, request, out, room, control).run(none);
                }
            });
        }
    }
}

void score_paths(const Problem& problem, std::span<const int64_t> numbers, const SumRequest& request,
                 const int32_t* ids, double* score, double* counts, Numbers marginals, Numbers edges,
                 Control& control) {
    const std::vector<Sequence> sequences = sequences_of(problem, numbers, request);
    const size_t R = problem.rules.size(), B = numbers.size();
    std::fill_n(score, B, kNaN);
    if (counts) std::fill_n(counts, B * R, 0.0);
    for (const Class& here : classes_of(sequences, request)) {
        const Armed armed(control);
        control.begin();
        control.armed = true;
        control.completes([&] {
            const std::shared_ptr<const SumGraph> graph = graph_of(here, problem, request, control);
            if (!graph) {
                for (const Lane& lane : here.lanes) score[lane.x] = kInf;
                return;
            }
            const SumGraph& g = *graph;
            const Factors factors = factors_of(g, *here.lanes[0].sequence, request, true, here.tied);
            Factors step;
            for (const Lane& lane : here.lanes) {
                const Sequence& s = *lane.sequence;
                double* const violated = counts ? counts + lane.x * R : nullptr;
                if (s.n == 0) {
                    score[lane.x] = empty_sum(g, request, problem, violated);
                    continue;
                }
                const auto pay = [&](int32_t price) {
                    for (const auto& [rule, count] : g.prices[price])
                        if (violated) violated[rule] += count;
                    return factors.log_price[price];
                };
                double sum = 0;
                int v = -1;
                for (int t = 0; t < s.n; ++t) {
                    marginals.subtract_one(size_t(s.first + t) * g.m + ids[s.begin + t]);
                    if (t > 0) edges.subtract_one((lane.x * g.m + ids[s.begin + t - 1]) * g.m + ids[s.begin + t]);
                }
                for (int t = 0; t < s.n && sum > -kInf; ++t) {
                    if (t % kPathCheck == 0) control.check();
                    const int kind = lane.kind.empty() ? 0 : lane.kind[t], j = g.place[ids[s.begin + t]];
                    const LaneTarget to = t ? g.kinds[kind].steps[size_t(g.node_row[v]) * g.m + j] : g.start[kind][j];
                    const int y = g.label[j];
                    const uint64_t* bits = problem.allowed ? problem.allowed + (s.begin + t) * problem.words : nullptr;
                    const bool open = !bits || (bits[y / 64] >> (y % 64) & 1);
                    sum += open ? s.unary(t, y) - raw_top(s, t) : -kInf;
                    if (t > 0) {
                        const bool tie = s.tied && s.tied[t];
                        if (s.head->per_step)
                            fill_factors(g, s, s.head->pairwise + size_t(t - 1) * g.m * g.m, true, here.tied, step);
                        sum += (s.head->per_step ? step : factors).score[tie][size_t(g.node_place[v]) * g.m + j];
                    }
                    if (to.cell < 0) sum = -kInf;
                    else sum += pay(to.price), v = to.cell;
                }
                if (sum > -kInf) sum = g.final[v] < 0 ? -kInf : sum + pay(g.final[v]);
                score[lane.x] = sum;
            }
        });
    }
}

}  // namespace bridle
