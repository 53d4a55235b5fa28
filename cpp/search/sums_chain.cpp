// The chain of rows (sums_chain.h has the equations): forward in doubles, back in `Real`, everything by lane.
#include "search/sums_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/sums_logs.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kUlps = 8 * std::numeric_limits<double>::epsilon();  // of rounding for each term of a sum
constexpr double kNegligible = 64;  // a term that is so much smaller than the largest adds nothing: exp(-64) < 1e-27
// What these do shows in `benchmarks/torch_layer.py`.
constexpr size_t kChunkBytes = size_t{1} << 16;  // of positions whose bigrams are added up together
constexpr int kChunk = 16;                       // positions, at most
constexpr size_t kBreath = size_t{1} << 14;      // steps of a lane between two looks at the clock

template <class Real>
constexpr double kOfExp = sizeof(Real) == 8 ? 0.0 : 1e-11;  // the kernel's relative error
template <class Real>
constexpr double kLeast = sizeof(Real) == 8 ? 1e-100 : 1e-6;
template <class Real>
constexpr double kMost = sizeof(Real) == 8 ? 1e150 : 1e30;

// ---- chains --------------------------------------------------------------------------------------------------------------------------

template <class Real>
class Chain {
  public:
    Chain(const SumGraph& graph, Factors& factors, std::span<const Lane> lanes, bool tied, const SumRequest& request,
          const SumOutputs& out, ChainRows<Real>& rows, Control& control)
        : g_(graph),
          f_(factors),
          back_(factors.in<Real>()),
          k_(kernels_of(factors)),
          lanes_(lanes),
          logs_(factors.logs),
          simple_(graph.kinds.size() == 1 && !tied),
          tied_(tied),
          request_(request),
          out_(out),
          control_(control),
          rows_of_(rows),
          a_(rows.a),
          u_(rows.u),
          L_(k_.lanes),
          m_(graph.m),
          V_(graph.V),
          n_(lanes[0].sequence->n),
          every_(int(std::clamp<size_t>(kBreath / (size_t(V_) * m_), 1, 64))) {}

    std::vector<uint8_t> run() {
        doubtful_.assign(lanes_.size(), 0);
        if (!allocate()) {
            for (const Lane& lane : lanes_) out_.log_z[lane.x] = kInf;
            return doubtful_;
        }
        forward(0, block_);
        for (int low = block_; low < n_; low += block_) forward(low, std::min(n_, low + block_));
        finish();
        if (logs_ && log_z_[0] == -kInf) out_.log_z[lanes_[0].x] = -kInf;
        else backward();  // it also shows whether what was lost matters
        return doubtful_;
    }

  private:
    struct Part {  // positions of one kind among the lanes
        int kind, table;
        size_t mask;  // where its lanes are flagged
        bool all;     // there are no others
    };

    static const LaneKernels<Real>& kernels_of(const Factors& factors) {
        if constexpr (sizeof(Real) == sizeof(double))
            if (factors.logs) return kLogLanes;
        return lane_kernels<Real>();
    }
    Real zero() const { return logs_ ? Real(-kInf) : Real(0); }
    double times(double a, double b) const { return logs_ ? a + b : a * b; }
    double over(double a, double b) const { return logs_ ? (b == -kInf ? -kInf : a - b) : b > 0 ? a / b : 0.0; }
    double add(double a, double b) const { return logs_ ? plus(a, b) : a + b; }
    double value(double x) const { return logs_ ? std::exp(x) : x; }
    double log_of(double x) const { return logs_ ? x : std::log(x); }
    double one() const { return logs_ ? 0.0 : 1.0; }

    bool wants_edges() const { return out_.edges || out_.edge_sum || out_.steps || out_.entropy; }
    bool wants_counts() const { return out_.counts || out_.entropy; }
    bool wants_rows() const { return out_.samples || out_.segments; }
    int n(size_t l) const { return lanes_[l].sequence->n; }
    Real* a(int t) { return &a_[size_t(t - low_) * V_ * L_]; }
    Real* u(int t) { return &u_[size_t(t - low_) * m_ * L_]; }
    double& total(int t, size_t l) { return totals_[size_t(t) * L_ + l]; }
    void breathe(int t) {
        if (t % every_ == 0) control_.check();
    }

    bool allocate() {
        const size_t row = sizeof(Real) * L_ * (size_t(V_) + m_), most = control_.memory() / 2;
        const size_t steps = sizeof(Real) * L_ * g_.Q * m_;
        chunk_ = int(std::clamp<size_t>(kChunkBytes / std::max<size_t>(1, steps), 1, kChunk));
        size_t fixed = chunk_ * steps + 4 * sizeof(double) * L_ * (size_t(V_) + m_);
        if (wants_edges()) fixed += sizeof(Real) * L_ * m_ * m_ * (1 + tied_) + sizeof(double) * m_ * m_;
        if (out_.samples) fixed += n_ * row;
        const auto square = int(std::ceil(std::sqrt(double(n_))));
        block_ = fixed + n_ * row <= most || wants_rows() ? n_ : square;
        const size_t blocks = (n_ + block_ - 1) / block_;
        if (fixed + (block_ + (blocks > 1 ? 2 * blocks : 0)) * row > most) return false;
        const auto reserve = [&](std::vector<Real>& rows, size_t count) {  // what is in them does not matter
            if (rows.size() < count) lay_out(rows, count, Real(0), control_);
        };
        reserve(a_, size_t(block_) * V_ * L_), reserve(u_, size_t(block_) * m_ * L_);
        if (blocks > 1) lay_out(kept_, blocks * V_ * L_, 0.0, control_);
        now_.assign(size_t(V_) * L_, 0.0), before_ = now_, scores_.resize(size_t(m_) * L_);
        totals_.assign(size_t(n_) * L_, one());
        ends_.assign(L_, one()), log_z_.assign(L_, 0.0), offset_.assign(L_, 0.0), scale_.assign(L_, 1.0);
        above_sum_.assign(L_, 0.0), error_.assign(L_, 0.0), row_.resize(m_), top_.resize(L_);
        nowhere_.assign(m_, -std::numeric_limits<float>::infinity()), from_.assign(L_, nowhere_.data());
        unread_.resize(m_), to_.assign(L_, unread_.data());
        return true;
    }

    // Those at position t, and which lanes they are.
    const std::vector<Part>& parts(int t) {
        parts_.clear();
        if (simple_) parts_.push_back({0, 0, 0, true});
        else {
            masks_.assign(L_ * L_, 0.0);
            for (size_t l = 0; l < lanes_.size(); ++l) {
                if (t >= n(l)) break;
                const Part here{lanes_[l].kind_at(t), int(lanes_[l].tied_at(t)), parts_.size() * L_, false};
                size_t k = 0;
                while (k < parts_.size() && (parts_[k].kind != here.kind || parts_[k].table != here.table)) ++k;
                if (k == parts_.size()) parts_.push_back(here);
                masks_[k * L_ + l] = 1.0;
            }
            if (parts_.size() == 1) parts_[0].all = true;
            else back_masks_.assign(masks_.begin(), masks_.end());
        }
        return parts_;
    }

    // The factors of the step to position t, where they differ from one to the next.
    void use_factors(int t) {
        if (!f_.per_step || t == 0 || step_ == t) return;
        use_step(g_, *lanes_[0].sequence, t, tied_, f_);
        step_ = t;
    }

    // u of position t; `first`: for the first time.
    void read(int t, bool first) {
        const Problem& p = *lanes_[0].sequence->problem;
        std::fill(from_.begin(), from_.end(), nowhere_.data());
        for (size_t l = 0; p.unary32 && l < lanes_.size() && t < n(l); ++l)
            from_[l] = p.unary32 + (lanes_[l].sequence->first + t) * m_;
        k_.take(from_.data(), g_.label.data(), m_, scores_.data());
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l)
            if (!p.unary32 || differs(*lanes_[l].sequence, request_.allowed, t))
                read_row(g_, *lanes_[l].sequence, request_.allowed, t, row_.data(), &scores_[l], L_);
        for (size_t l = 0; t > 0 && l < L_; ++l) scale_[l] = total(t - 1, l) > 0 ? 1 / total(t - 1, l) : 0.0;
        if (t == 0) std::fill(scale_.begin(), scale_.end(), 1.0);
        k_.lift(scores_.data(), m_, scale_.data(), top_.data(), u(t));
        if (!first) return;
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) {
            const Sequence& s = *lanes_[l].sequence;
            if (!differs(s, request_.allowed, t)) {
                offset_[l] += top_[l];
                continue;
            }
            const double plain = raw_top(s, t);
            offset_[l] += plain, log_z_[l] += top_[l] - plain, above_sum_[l] += top_[l] - plain;
            const bool added = (t == 0 && !s.head->start.empty()) || (t == s.n - 1 && !s.head->end.empty());
            if (added) error_[l] += kUlps * std::abs(top_[l]);  // before the largest was subtracted
        }
    }

    void forward(int low, int high) {
        const bool again = low < done_;
        if (low > 0) {
            double* const kept = &kept_[size_t(low / block_) * V_ * L_];
            if (again) std::copy_n(kept, now_.size(), now_.begin());
            else std::copy(now_.begin(), now_.end(), kept);
        }
        low_ = low;
        for (int t = low; t < high; ++t) {
            breathe(t);
            read(t, !again);
            before_.swap(now_);
            std::fill(now_.begin(), now_.end(), double(zero()));
            if (t == 0) enter();
            else {
                use_factors(t);
                if (!again)
                    for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) offset_[l] += f_.shift;
                for (const Part& part : parts(t)) {
                    const SumGraph::Kind& kind = g_.kinds[part.kind];
                    k_.multiply_ahead(kind.ahead.data(), kind.ahead.size(), kind.ahead_terms.data(),
                                      kind.forward.data(), f_.wide.price.data(), f_.wide.ahead[part.table].data(),
                                      before_.data(), part.all ? nullptr : &masks_[part.mask], now_.data());
                }
            }
            k_.scale(now_.data(), scores_.data(), g_.node_place.data(), V_, &totals_[size_t(t) * L_], a(t));
            for (size_t l = 0; !again && l < lanes_.size(); ++l)
                if (t == n(l) - 1) ends_[l] = end_sum(l);
        }
        done_ = std::max(done_, high);
    }
    double end_sum(size_t l) const {
        double sum = zero();
        for (int v = 0; v < V_; ++v)
            if (g_.final[v] >= 0) sum = add(sum, times(now_[size_t(v) * L_ + l], f_.price_of(g_.final[v])));
        return sum;
    }

    void enter() {
        for (size_t l = 0; l < lanes_.size(); ++l)
            for (const LaneTarget& target : g_.start[lanes_[l].kind_at(0)])
                if (target.cell >= 0) {
                    double& to = now_[size_t(target.cell) * L_ + l];
                    to = add(to, f_.price_of(target.price));
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
                if (!(here >= kLeast<Real>)) doubtful_[l] = 1;
                product *= here;
                if (product < 1e-100 || product > 1e100) log_z += std::log(product), product = 1;
            }
            log_z += std::log(product) + log_of(ends_[l]);
            if (logs_) error_[l] += kUlps * (std::abs(ends_[l]) + kNegligible);
            else {
                if (!(ends_[l] >= kLeast<Real>)) doubtful_[l] = 1;
                error_[l] += kUlps * (kNegligible + m_ + g_.Q + std::abs(log_z) / n(l)) * n(l) + kOfExp<Real> * n(l);
            }
            log_z_[l] = log_z;
        }
    }

    void backward() {
        const size_t cells = size_t(g_.Q) * m_;
        w_.assign(size_t(V_) * L_, zero()), b_.resize(w_.size()), p_.resize(size_t(m_) * L_);
        y_.resize(cells * L_ * chunk_), most_.assign(L_, 0), whole_.assign(L_, 0.0);
        if (wants_edges()) {
            for (int k = 0; k <= int(tied_); ++k) sum_[k].assign(size_t(m_) * m_ * L_, 0);
            if (!sums_only()) edges_.assign(size_t(m_) * m_ * lanes_.size(), 0.0);
        }
        charged_.assign(g_.prices.size() * L_, 0.0), entropy_ = log_z_;
        for (size_t l = 0; l < lanes_.size(); ++l) entropy_[l] -= above_sum_[l];
        if (out_.samples) lay_out(rows_, size_t(n_) * V_ * L_, Real(0), control_);
        if (out_.segments) find_segments();
        for (int low = low_;; low -= block_) {
            if (low < low_) forward(low, low + block_);
            for (int t = std::min(n_, low + block_) - 1; t >= low; --t) {
                breathe(t);
                step_back(t);
            }
            flush();
            if (low == 0) break;
        }
        for (size_t l = 0; l < lanes_.size(); ++l)
            if (!logs_ && !(most_[l] <= Real(kMost<Real>))) doubtful_[l] = 1;
        if (wants_edges() && !alone()) settle(0);
        for (size_t l = 0; l < lanes_.size(); ++l) {
            if (doubtful_[l]) continue;
            write(l);
            if constexpr (sizeof(Real) == sizeof(double))  // samples are drawn in double precision only
                if (out_.samples) draw_labellings(g_, f_, lanes_[l], l, rows_.data(), L_, tied_, out_, control_);
        }
    }

    void step_back(int t) {
        std::fill(b_.begin(), b_.end(), zero());
        if (t + 1 < n_) {
            use_factors(t + 1);
            const std::vector<Part>& all = parts(t + 1);
            const bool same = all.size() == 1 && held_part_ == all[0].kind && held_table_ == all[0].table;
            if (held_ == chunk_ || !same) flush();
            for (const Part& part : all) take_back(t, part);
        }
        for (size_t l = 0; l < lanes_.size(); ++l)
            if (t == n(l) - 1)
                for (int v = 0; v < V_; ++v)
                    if (g_.final[v] >= 0) {
                        const double price = f_.price_of(g_.final[v]);
                        b_[size_t(v) * L_ + l] = Real(logs_ ? price : over(price, ends_[l]));
                    }
        const Real* const here = a(t);
        if (logs_) normalize(here);
        if (logs_ || alone()) flush();
        if (alone() && wants_edges() && t + 1 < n_) settle(t + 1);
        if (out_.segments) sum_segments(t);
        std::fill(p_.begin(), p_.end(), zero());
        w_.swap(b_);
        k_.weigh(here, w_.data(), u(t), g_.node_place.data(), V_, p_.data(), most_.data());
        if (out_.samples) std::copy(w_.begin(), w_.end(), rows_.begin() + ptrdiff_t(size_t(t) * V_ * L_));
        if (out_.marginals) put_marginals(t);
        for (size_t l = 0; wants_counts() && l < lanes_.size() && t < n(l); ++l) {
            if (t == 0) charge_ends(l, 0, false);
            if (t == n(l) - 1) charge_ends(l, t, true);
        }
        if (out_.entropy) take_scores(t);
    }

    void put_marginals(int t) {
        constexpr bool kWide = sizeof(Real) == sizeof(double);
        Real* into;  // of the precision of the sums, or null
        if constexpr (kWide) into = out_.marginals.f64;
        else into = out_.marginals.f32;
        const auto row = [&](size_t l) { return size_t(lanes_[l].sequence->first + t) * m_; };
        if (!into) {
            for (size_t l = 0; l < lanes_.size() && t < n(l); ++l)
                for (int j = 0; !doubtful_[l] && j < m_; ++j)  // rounding can take a sum beyond 1
                    out_.marginals.put(row(l) + g_.label[j], std::min(value(p_[j * L_ + l]), 1.0));
            return;
        }
        std::fill(to_.begin(), to_.end(), unread_.data());
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l)
            if (!doubtful_[l]) to_[l] = into + row(l);
        k_.put(p_.data(), g_.label.data(), m_, to_.data());
    }

    // b of position t from that of t + 1, for lanes of one kind; what bigrams need of it is held.
    void take_back(int t, const Part& part) {
        const SumGraph::Kind& kind = g_.kinds[part.kind];
        const size_t cells = size_t(g_.Q) * m_;
        Real* const y = &y_[size_t(chunk_ - 1 - held_) * cells * L_];  // positions fall, places in the chunk, too
        std::fill_n(y, cells * L_, zero());
        k_.gather(kind.steps.data(), cells, back_.price.data(), part.all ? nullptr : &back_masks_[part.mask], w_.data(),
                  y);
        k_.multiply(kind.back.data(), kind.back.size(), kind.back_terms.data(), kind.reverse.data(), back_.price.data(),
                    back_.back[part.table].data(), y, nullptr, b_.data());
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
        const Real* const y = &y_[size_t(chunk_ - held_) * cells * L_];
        if (logs_ && wants_counts()) charge(held_first_, y);
        if (wants_edges())
            k_.add_outer(kind.tiles.data(), kind.tiles.size(), a(held_first_), V_, y, cells, held_, m_,
                         back_.ahead[held_table_].data(), sum_[held_table_].data());
        held_ = 0;
    }

    // Are bigrams wanted of all sequences together only?
    bool sums_only() const { return out_.edge_sum && !out_.edges && !out_.entropy && !alone() && !logs_; }

    // Moves sums of bigrams to where they are wanted; t: the position that they lead to, if it is a single one.
    void settle(int t) {
        if (sums_only()) return settle_sum();
        for (size_t l = 0; l < lanes_.size(); ++l) {
            if (t >= n(l)) continue;
            const size_t token = size_t(lanes_[l].sequence->begin + t) * m_ * m_;
            for (int i = 0; i < m_; ++i)
                for (int j = 0; j < m_; ++j) {
                    const size_t from = size_t(i) * m_ + j;
                    double p = 0;
                    for (int k = 0; k <= int(tied_); ++k) {
                        Real& held = sum_[k][from * L_ + l];
                        const double here = logs_ ? held : held * f_.wide.ahead[k][from];
                        if (here > 0) entropy_[l] -= here * f_.score[k][from];
                        p += here, held = 0;
                    }
                    edges_[l * m_ * m_ + from] += p;
                    if (out_.steps) out_.steps.put(token + size_t(g_.label[i]) * m_ + g_.label[j], p);
                }
        }
    }
    // Only the sum over all lanes that count is wanted.
    void settle_sum() {
        std::vector<uint8_t> out(L_, 0);
        for (size_t l = 0; l < lanes_.size(); ++l) out[l] = !counted(l);
        const bool some = std::find(out.begin(), out.end(), 1) != out.end();
        for (int k = 0; k <= int(tied_); ++k) {
            std::vector<Real>&from = sum_[k], &to = rows_of_.edges[k];
            for (size_t c = 0; some && c < from.size(); ++c)
                if (out[c % L_]) from[c] = 0;
            to.resize(from.size(), Real(0));
            for (size_t c = 0; c < from.size(); ++c) to[c] += from[c];
        }
    }
    bool counted(size_t l) const { return !doubtful_[l] && (!out_.keep || out_.keep[lanes_[l].x]); }

    // Adds what steps with a price are taken, from position t.
    void charge(int t, const Real* y) {
        const SumGraph::Kind& kind = g_.kinds[held_part_];
        if (kind.charged.empty()) return;
        flows_.assign(kind.charged.size() * L_, zero());
        k_.multiply(kind.charges.data(), kind.charges.size(), kind.charge_terms.data(), kind.charge_targets.data(),
                    back_.price.data(), back_.ahead[held_table_].data(), a(t), nullptr, flows_.data());
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
                    const double end = times(a(t)[size_t(v) * L_ + l], f_.price_of(g_.final[v]));
                    charged_[size_t(g_.final[v]) * L_ + l] += value(over(end, ends_[l]));
                }
            return;
        }
        for (const LaneTarget& target : g_.start[lanes_[l].kind_at(0)]) {
            if (target.cell < 0 || target.price == 0) continue;
            const double here = times(w_[size_t(target.cell) * L_ + l], f_.price_of(target.price));
            charged_[size_t(target.price) * L_ + l] += value(logs_ ? over(here, total(0, l)) : here);
        }
    }

    // With logarithms: so that the sum over v of a b is 1 here.
    void normalize(const Real* here) {
        double whole = -kInf;
        for (int v = 0; v < V_; ++v) whole = plus(whole, here[v] + b_[v]);
        whole_[0] = whole;
        if (whole == -kInf) return;
        error_[0] += kUlps * (std::abs(whole) + kNegligible);
        for (Real& x : b_) x -= Real(whole);
        for (size_t c = 0; held_ > 0 && c < size_t(g_.Q) * m_; ++c)
            y_[(chunk_ - 1) * size_t(g_.Q) * m_ + c] -= Real(whole);
    }

    // Entropy: log Z less the expected score.
    void take_scores(int t) {
        for (size_t l = 0; l < lanes_.size() && t < n(l); ++l) {
            read_row(g_, *lanes_[l].sequence, request_.allowed, t, row_.data(), scores_.data(), 1);
            const double top = *std::max_element(scores_.begin(), scores_.begin() + m_);
            for (int j = 0; j < m_; ++j)
                if (const double p = value(p_[j * L_ + l]); p > 0) entropy_[l] -= p * (scores_[j] - top);
        }
    }

    void write(size_t l) {
        const Lane& lane = lanes_[l];
        const size_t R = lane.sequence->problem->rules.size();
        out_.log_z[lane.x] = log_z_[l], out_.offset[lane.x] = offset_[l], out_.error[lane.x] = 2 * error_[l];
        for (int i = 0; !edges_.empty() && i < m_; ++i)
            for (int j = 0; j < m_; ++j) {
                const size_t cell = size_t(g_.label[i]) * m_ + g_.label[j];
                const double p = edges_[(l * m_ + i) * m_ + j];
                if (out_.edges) out_.edges.put(lane.x * m_ * m_ + cell, p);
                if (out_.edge_sum && counted(l)) out_.edge_sum[cell] += p;
            }
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
        std::vector<double> now(V_, double(zero())), next(V_);
        const auto place = [&](int t) { return g_.place[x.ids[begin + t]]; };
        for (int t = first; t < end; ++t) {
            control_.check();
            const int j = place(t);
            std::fill(next.begin(), next.end(), double(zero()));
            if (t == 0) {
                const LaneTarget& to = g_.start[lanes_[l].kind_at(0)][j];
                if (to.cell >= 0) next[to.cell] = f_.price_of(to.price);
            } else {
                use_factors(t);
                const double* const table_here = f_.wide.ahead[lanes_[l].tied_at(t)].data();
                const std::vector<LaneTarget>& steps = g_.kinds[lanes_[l].kind_at(t)].steps;
                for (int v = 0; v < V_; ++v) {
                    const int i = g_.node_place[v];
                    const LaneTarget& to = steps[size_t(g_.node_row[v]) * m_ + j];
                    if (to.cell < 0 || (t == first && !x.labels.begins(g_.label[i], g_.label[j]))) continue;
                    const double from = t == first ? a(t - 1)[size_t(v) * L_ + l] : now[v];
                    next[to.cell] =
                        add(next[to.cell], times(times(from, table_here[i * m_ + j]), f_.price_of(to.price)));
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
        if (!last) use_factors(end);
        for (int v = 0; v < V_; ++v) {
            if (now[v] == zero()) continue;
            if (last) {
                if (g_.final[v] >= 0) {
                    const double here = times(now[v], f_.price_of(g_.final[v]));
                    p = add(p, logs_ ? here : over(here, ends_[l]));
                }
                continue;
            }
            const int i = g_.node_place[v];
            const LaneTarget* const steps = &g_.kinds[lanes_[l].kind_at(end)].steps[size_t(g_.node_row[v]) * m_];
            const double* const table_here = &f_.wide.ahead[lanes_[l].tied_at(end)][size_t(i) * m_];
            for (int j = 0; j < m_; ++j)
                if (steps[j].cell >= 0 && x.labels.begins(g_.label[i], g_.label[j]))
                    p = add(p, times(times(now[v], table_here[j]),
                                     times(f_.price_of(steps[j].price), w_[size_t(steps[j].cell) * L_ + l])));
        }
        return p;
    }

    const SumGraph& g_;
    Factors& f_;
    const BackFactors<Real>& back_;
    const LaneKernels<Real>& k_;
    const std::span<const Lane> lanes_;
    std::vector<uint8_t> doubtful_;  // lanes that must be summed again
    const bool logs_, simple_, tied_;
    const SumRequest& request_;
    const SumOutputs& out_;
    Control& control_;
    ChainRows<Real>& rows_of_;
    std::vector<Real>&a_, &u_;  // (block, V, L), (block, m, L)
    const size_t L_;
    const int m_, V_, n_, every_;  // every_: positions between two looks at the clock
    int block_ = 0, low_ = 0, done_ = 0, step_ = -1;
    std::vector<double> now_, before_, scores_;  // (V, L), (V, L), (m, L): a of two positions, u of one
    std::vector<double> kept_;                   // (blocks, V, L)
    std::vector<double> totals_;                 // (n, L)
    std::vector<double> ends_, log_z_, offset_, error_, row_, top_, scale_;
    std::vector<float> nowhere_;          // (m)  scores of positions behind the end
    std::vector<const float*> from_;      // (L)  rows to read
    std::vector<Real> unread_;            // (m)  takes what is not read
    std::vector<Real*> to_;               // (L)  rows to write
    std::vector<Real> w_, b_, p_, most_;  // (V, L), (V, L), (m, L), (L)
    std::vector<Real> y_;                 // (chunk, Q, m, L)
    std::vector<Real> sum_[2], flows_, rows_, back_masks_;
    std::vector<double> whole_, edges_, charged_, entropy_, above_sum_, masks_;
    std::vector<Part> parts_;
    std::vector<Segments> segments_;
    int chunk_ = 1, held_ = 0, held_part_ = 0, held_table_ = 0, held_first_ = 0;
};

}  // namespace

template <class Real>
std::vector<uint8_t> sum_lanes(const SumGraph& graph, Factors& factors, std::span<const Lane> lanes, bool tied,
                               const SumRequest& request, const SumOutputs& out, ChainRows<Real>& rows,
                               Control& control) {
    return Chain<Real>(graph, factors, lanes, tied, request, out, rows, control).run();
}
template std::vector<uint8_t> sum_lanes<double>(const SumGraph&, Factors&, std::span<const Lane>, bool,
                                                const SumRequest&, const SumOutputs&, ChainRows<double>&, Control&);
template std::vector<uint8_t> sum_lanes<float>(const SumGraph&, Factors&, std::span<const Lane>, bool,
                                               const SumRequest&, const SumOutputs&, ChainRows<float>&, Control&);

}  // namespace bridle
