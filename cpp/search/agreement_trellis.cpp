// Sequential averaging of max-marginals, forwards over the tokens and back (agreement.h has the equations).
//   n tokens (t in a sequence, x in all)    m labels (y)    Q states of a fold (q)    K kinds of a chain (c)    o occurrences
#include "search/agreement_trellis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/compiler.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

// What these do shows in `benchmarks/documents.py`.
constexpr double kApart = 1e-9, kNothing = 1e-13;
constexpr int kRounds = 12;         // over blocks that are not at rest, for one over all tokens
constexpr int kFewOf = 20;          // blocks are few if so many times their tokens are less than all
constexpr double kAtRest = 1e-4;    // a score that moves less
constexpr int kReach = 8;           // occurrences of a chain on each side that are not at rest either
constexpr int kFewLabels = 16;      // whose transitions are all tried: looking for those that can win takes longer
constexpr int64_t kStretch = 4096;  // tokens between two looks at the clock

}  // namespace

JointTrellis::JointTrellis(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements, int most_folded,
                           Control& control, Counters& counters)
    : agreements_(agreements), control_(control), most_folded_(most_folded), counters_(counters) {
    for (Sequence& s : sequences) {
        s.agreements.clear();
        parts_.emplace_back(std::move(s), n_);
        n_ += parts_.back().sequence.n;
    }
    m_ = parts_.empty() ? 0 : parts_[0].sequence.m;
    width_ = size_t(padded(m_));
}

bool JointTrellis::make_room() {
    for (const Agreement& a : agreements_) add_chains(a);
    first_of_.assign(n_, -1), last_of_.assign(n_, -1);
    restless_.assign(n_ / kBlock + 1, 0);
    for (int o = int(occurrences_.size()) - 1; o >= 0; --o) {
        const int64_t x = token_of_[o];
        occurrences_[o].next = std::exchange(first_of_[x], o);
        if (last_of_[x] < 0) last_of_[x] = o;
        else occurrences_[occurrences_[o].next].before = o;
        const auto part =
            std::upper_bound(parts_.begin(), parts_.end(), x, [](int64_t t, const Part& p) { return t < p.at; }) - 1;
        occurrences_[o].part = int(part - parts_.begin());
        occurrences_[o].position = int32_t(x - part->at);
        part->live = true;
    }
    size_t cells = 0, rows = 0;
    for (Occurrence& o : occurrences_) o.cells = cells, cells += size_t(chains_[o.chain].kinds->classes);
    for (Part& part : parts_)
        if (part.live) part.rows = rows, rows += width_ * size_t(part.sequence.n);
    if (sizeof(double) * (3 * rows + 4 * cells) > control_.memory()) return false;
    lay_out(U_, rows, 0.0, control_);
    for (std::vector<double>* numbers : {&theta_, &L_, &R_}) lay_out(*numbers, cells, 0.0, control_);
    lay_out(closed_, cells, uint8_t{0}, control_);
    size_t most = 0;
    for (const Chain& chain : chains_) most = std::max(most, size_t(chain.kinds->classes));
    M1_.resize(most), M2_.resize(most);
    top_.assign(width_ + 2 * kGuard, -kInf), w_.assign(width_ + 2 * kGuard, -kInf), room_.resize(width_);
    double largest = 0;
    for (Part& part : parts_) {
        if (!part.live) continue;
        control_.check();
        for (int t = 0; t < part.sequence.n; ++t) {
            double* u = U_.data() + part.rows + size_t(t) * width_;
            part.sequence.row(t, u);
            std::fill(u + m_, u + width_, -kInf);
            double top = 0;
            for (int y = 0; y < m_; ++y)
                if (u[y] > -kInf) top = std::max(top, std::abs(u[y]));
            largest += top;
        }
    }
    rounding_ = std::numeric_limits<double>::epsilon() * double(n_ + 8) * largest;
    fold_parts();
    return true;
}

void JointTrellis::add_chains(const Agreement& a) {
    int32_t groups = 0;
    for (int64_t k = 0; k < a.count; ++k) groups = std::max(groups, a.group[k] + 1);
    std::vector<int> begin(groups + 1, 0);
    for (int64_t k = 0; k < a.count; ++k)
        if (a.group[k] >= 0) ++begin[a.group[k] + 1];
    for (int32_t g = 0; g < groups; ++g) begin[g + 1] += begin[g];
    std::vector<int64_t> member(begin[groups]);
    std::vector<int> next(begin.begin(), begin.end() - 1);
    for (int64_t k = 0; k < a.count; ++k)
        if (a.group[k] >= 0) member[next[a.group[k]]++] = k;
    payers_.push_back({a.mode, a.penalty});
    for (int32_t g = 0; g < groups; ++g) {
        const int count = begin[g + 1] - begin[g];
        if (count < 2) continue;
        payers_.back().changes += count - 1;
        chains_.push_back({int(payers_.size()) - 1, int(occurrences_.size()), count, a.kinds});
        for (int k = begin[g]; k < begin[g + 1]; ++k) {
            occurrences_.push_back({int(chains_.size()) - 1, 0, 0, -1, -1, 0});
            token_of_.push_back(a.first + member[k]);
        }
    }
}

void JointTrellis::fold_parts() {
    unfolded_ = 0;
    size_t layers = 0;
    const size_t most_cells = control_.memory() / sizeof(double) / 4;
    for (Part& part : parts_) {
        if (!part.live) continue;
        const Sequence& s = part.sequence;
        std::vector<int> order;
        for (size_t k = 0; k < s.automata.size(); ++k)
            if (part.active[k]) order.push_back(int(k));
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
            return std::pair(s.automata[a].mode == Mode::per_sequence, s.automata[a].n_states()) <
                   std::pair(s.automata[b].mode == Mode::per_sequence, s.automata[b].n_states());
        });
        part.folded.assign(s.automata.size(), 0);
        part.fold.clear();
        part.exact = true;
        const size_t row = width_ * size_t(s.n);
        const int most =
            int(std::clamp<size_t>((most_cells - std::min(most_cells, layers)) / (row + 1), 1, size_t(most_folded_)));
        for (size_t k = 0; k < order.size();) {  // automata that one price pays for go in together
            size_t end = k + 1;
            const BoundAutomaton& p = s.automata[order[k]];
            while (p.mode == Mode::per_sequence && end < order.size() && s.automata[order[end]].rule == p.rule) ++end;
            std::vector<char> with = part.folded;
            for (; k < end; ++k) with[order[k]] = 1;
            std::vector<BoundAutomaton> chosen;
            for (size_t a = 0; a < with.size(); ++a)
                if (with[a]) chosen.push_back(s.automata[a]);
            AutomatonSet set;
            set.assign(std::move(chosen));
            if (fold_.build(set, s.n, m_, most, control_)) part.folded = std::move(with), part.fold.share(fold_);
            else part.exact = false;
        }
        counters_.states = std::max<int64_t>(counters_.states, part.fold.Q);
        part.layers = layers;
        layers += row * size_t(part.fold.Q);
    }
    lay_out(F_, layers, 0.0, control_);
    lay_out(H_, layers, 0.0, control_);
}

void JointTrellis::step_back(Part& part, int t) {
    const int n = part.sequence.n, Q = part.fold.Q;
    double* H = row_of(H_, part, t);
    if (t == n - 1) {
        for (int q = 0; q < Q; ++q) std::fill_n(H + size_t(q) * width_, width_, 0.0 - part.fold.final[q]);
        return;
    }
    const double *u = scores(part, t + 1), *after = row_of(H_, part, t + 1);
    double* w = w_.data() + kGuard;
    if (!part.steps.per_step() && !part.fold.plain()) {
        kernels().fold_back(part.steps.table(t).view(), Q, part.fold.cost(t + 1, 0), part.fold.cell(t + 1, 0), u, after,
                            H, w, room_.data());
        return;
    }
    for (int q = 0; q < Q; ++q) {
        if (part.fold.plain())
            for (size_t j = 0; j < width_; ++j) w[j] = u[j] + after[j];
        else
            for (size_t j = 0; j < width_; ++j)
                w[j] = u[j] - part.fold.cost(t + 1, q)[j] + after[part.fold.cell(t + 1, q)[j]];
        double* into = H + size_t(q) * width_;
        if (part.steps.per_step())
            kernels().dense_back(part.steps.score(t), part.steps.extra(t), w, into, m_, int(width_));
        else if (const TableView& view = part.steps.table(t).view(); m_ <= kFewLabels && !view.flat)
            kernels().step_ahead(w, view.columns, m_, int(width_), into);
        else kernels().step_back(view, w, into, room_.data());
    }
}

void JointTrellis::step_ahead(Part& part, int t) {
    const Fold& fold = part.fold;
    const double* u = scores(part, t);
    double* F = row_of(F_, part, t);
    if (t == 0) {
        std::fill_n(F, width_ * size_t(fold.Q), -kInf);
        for (int j = 0; j < m_; ++j) {
            const size_t cell = fold.plain() ? j : fold.cell(0, 0)[j];
            F[cell] = u[j] - (fold.plain() ? 0.0 : fold.cost(0, 0)[j]);
        }
        return;
    }
    if (!fold.plain()) std::fill_n(F, width_ * size_t(fold.Q), -kInf);
    for (int q = 0; q < fold.Q; ++q) {
        const double* before = row_of(F_, part, t - 1) + size_t(q) * width_;
        double* out = fold.plain() ? F : top_.data() + kGuard;
        if (part.steps.per_step()) {
            std::fill_n(out, width_, -kInf);
            for (int i = 0; i < m_; ++i)
                for (int j = 0; j < m_ && before[i] > -kInf; ++j)
                    out[j] = std::max(out[j], before[i] + part.steps.at(t - 1, i, j));
        } else if (const TableView& view = part.steps.table(t - 1).view(); view.flat) {
            std::fill_n(out, width_, *std::max_element(before, before + m_));
        } else {
            kernels().step_ahead(before, view.rows, m_, int(width_), out);
        }
        if (fold.plain()) {
            for (size_t j = 0; j < width_; ++j) F[j] += u[j];
            return;
        }
        const int32_t* cell = fold.cell(t, q);
        const double* cost = fold.cost(t, q);
        for (int j = 0; j < m_; ++j) F[cell[j]] = std::max(F[cell[j]], out[j] + u[j] - cost[j]);
    }
}

void JointTrellis::pass(const Chain& chain, size_t cells, const double* from, double* to) const {
    const int K = chain.kinds->classes;
    const double price = payers_[chain.payer].price();
    double top = -kInf;
    for (int c = 0; c < K; ++c) {
        to[c] = closed_[cells + c] ? -kInf : from[c] + theta_[cells + c];
        top = std::max(top, to[c]);
    }
    if (top > -kInf)
        for (int c = 0; c < K; ++c) to[c] = std::max(to[c], top - price);
}

void JointTrellis::close(int o, int kind) {
    const Occurrence& at = occurrences_[o];
    closed_[at.cells + kind] = 1;
    trail_.emplace_back(o, kind);
    ban(o, kind);
}

void JointTrellis::ban(int o, int kind) {
    Part& part = parts_[occurrences_[o].part];
    const uint16_t* kind_of = chains_[occurrences_[o].chain].kinds->class_of.data();
    double *u = scores(part, occurrences_[o].position), *F = row_of(F_, part, occurrences_[o].position);
    for (int y = 0; y < m_; ++y) {
        if (kind_of[y] != kind) continue;
        u[y] = -kInf;
        for (int q = 0; q < part.fold.Q; ++q) F[size_t(q) * width_ + y] = -kInf;
    }
}

bool JointTrellis::average(int o) {
    const Occurrence& at = occurrences_[o];
    Part& part = parts_[at.part];
    const CountingAutomaton& kinds = *chains_[at.chain].kinds;
    const uint16_t* kind_of = kinds.class_of.data();
    const int K = kinds.classes, Q = part.fold.Q;
    double *F = row_of(F_, part, at.position), *theta = theta_.data() + at.cells, *u = scores(part, at.position);
    const double *H = row_of(H_, part, at.position), *L = L_.data() + at.cells, *R = R_.data() + at.cells;
    std::fill_n(M1_.begin(), K, -kInf);
    for (int q = 0; q < Q; ++q)
        for (int y = 0; y < m_; ++y) {
            double& top = M1_[kind_of[y]];
            top = std::max(top, F[size_t(q) * width_ + y] + H[size_t(q) * width_ + y]);
        }
    int first = -1, second = -1;
    double top1 = -kInf, top2 = -kInf;
    for (int c = 0; c < K; ++c) {
        const bool closed = closed_[at.cells + c];
        M2_[c] = closed ? -kInf : L[c] + theta[c] + R[c];
        if (M1_[c] > -kInf && M2_[c] > -kInf) {
            if (M1_[c] > top1) top1 = M1_[c], first = c;
            if (M2_[c] > top2) top2 = M2_[c], second = c;
        } else if (!closed) close(o, c);
    }
    if (first < 0) return false;
    if (M1_[second] < top1 - kApart && M2_[first] < top2 - kApart) disturb(o);
    double most = 0;
    for (int c = 0; c < K; ++c) {  // less the largest, so that no constant wanders about
        M1_[c] = M1_[c] > -kInf && M2_[c] > -kInf ? 0.5 * ((M2_[c] - top2) - (M1_[c] - top1)) : 0.0;
        most = std::max(most, std::abs(M1_[c]));
    }
    if (most <= kNothing) return true;
    moved_ = std::max(moved_, most);
    for (int c = 0; c < K; ++c) theta[c] -= M1_[c];
    for (int y = 0; y < m_; ++y) u[y] += M1_[kind_of[y]];
    for (int q = 0; q < Q; ++q)
        for (int y = 0; y < m_; ++y) F[size_t(q) * width_ + y] += M1_[kind_of[y]];
    return true;
}

void JointTrellis::disturb(int o) {
    const Chain& chain = chains_[occurrences_[o].chain];
    const int last = chain.first + chain.count - 1;
    for (int x = std::max(chain.first, o - kReach); x <= std::min(last, o + kReach); ++x)
        restless_[token_of_[x] / kBlock] = 1;
}

double JointTrellis::chain_value(const Chain& chain, int o, const double* from) const {
    double top = -kInf;
    const size_t cells = occurrences_[o].cells;
    for (int c = 0; c < chain.kinds->classes; ++c)
        if (!closed_[cells + c]) top = std::max(top, from[cells + c] + theta_[cells + c]);
    return top;
}

void JointTrellis::prefetch(int64_t x, int step) const {
    const int64_t near = x + 6 * step, far = x + 12 * step;
    if (std::min(near, far) < 0 || std::max(near, far) >= n_) return;
    if (const int o = first_of_[far]; o >= 0) BRIDLE_PREFETCH(&occurrences_[o]);
    if (const int o = first_of_[near]; o >= 0) {
        const size_t cells = occurrences_[o].cells;
        for (const std::vector<double>* numbers : {&theta_, &L_, &R_}) BRIDLE_PREFETCH(numbers->data() + cells);
        BRIDLE_PREFETCH(&chains_[occurrences_[o].chain]);
    }
}

bool JointTrellis::sweep_ahead(Part& part, int low, int high) {
    for (int t = low; t < high; ++t) {
        if ((++seen_ & (kStretch - 1)) == 0) control_.check();
        step_ahead(part, t);
        prefetch(part.at + t, 1);
        for (int o = first_of_[part.at + t]; o >= 0; o = occurrences_[o].next) {
            Chain& chain = chains_[occurrences_[o].chain];
            if (o > chain.first) {
                const size_t before = occurrences_[o - 1].cells;
                pass(chain, before, L_.data() + before, L_.data() + occurrences_[o].cells);
            }
            if (!average(o)) return false;
            if (o == chain.first + chain.count - 1) chain.value = chain_value(chain, o, L_.data());
        }
    }
    return true;
}

bool JointTrellis::sweep_back(Part& part, int low, int high, bool averaging) {
    for (int t = high - 1; t >= low; --t) {
        if ((++seen_ & (kStretch - 1)) == 0) control_.check();
        step_back(part, t);
        prefetch(part.at + t, -1);
        for (int o = last_of_[part.at + t]; o >= 0; o = occurrences_[o].before) {
            Chain& chain = chains_[occurrences_[o].chain];
            if (o + 1 < chain.first + chain.count) {
                const size_t after = occurrences_[o + 1].cells;
                pass(chain, after, R_.data() + after, R_.data() + occurrences_[o].cells);
            }
            if (averaging && !average(o)) return false;
            if (o == chain.first) chain.value = chain_value(chain, o, R_.data());
        }
    }
    return true;
}

bool JointTrellis::sweep_back(bool averaging) {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
        if (!part->live) continue;
        if (!sweep_back(*part, 0, part->sequence.n, averaging)) return false;
        part->value = best_entry(*part);
    }
    return true;
}

bool JointTrellis::sweep() {
    std::fill(restless_.begin(), restless_.end(), uint8_t{0});
    for (Part& part : parts_)
        if (part.live && !sweep_ahead(part, 0, part.sequence.n)) return false;
    std::fill(restless_.begin(), restless_.end(), uint8_t{0});
    return sweep_back(true);
}

bool JointTrellis::sweep_restless_blocks() {
    const bool few = std::count(restless_.begin(), restless_.end(), 1) * kBlock * kFewOf < n_;
    int64_t swept = 0;
    moved_ = kInf;
    active_.assign(restless_.size(), 0);
    for (int round = 0; few ? swept < n_ && moved_ > kAtRest : round < kRounds; ++round) {
        for (size_t b = 0; few && b < active_.size(); ++b) restless_[b] = active_[b] |= restless_[b];
        moved_ = 0;
        ranges_.clear();
        int64_t tokens = 0;
        for (size_t k = 0; k < parts_.size(); ++k) {
            const Part& part = parts_[k];
            if (!part.live) continue;
            for (int64_t b = part.at / kBlock; b <= (part.at + part.sequence.n - 1) / kBlock; ++b) {
                if (!restless_[b]) continue;
                const int low = int(std::max<int64_t>(0, (b - 1) * kBlock - part.at));
                const int high = int(std::min<int64_t>(part.sequence.n, (b + 2) * kBlock - part.at));
                if (!ranges_.empty() && ranges_.back().part == int(k) && ranges_.back().high >= low)
                    tokens += high - ranges_.back().high, ranges_.back().high = high;
                else tokens += high - low, ranges_.push_back({int(k), low, high});
            }
        }
        if (ranges_.empty() || tokens > n_) return true;
        swept += tokens;
        for (const Range& r : ranges_)
            if (!sweep_ahead(parts_[r.part], r.low, r.high)) return false;
        std::fill(restless_.begin(), restless_.end(), uint8_t{0});
        for (auto r = ranges_.rbegin(); r != ranges_.rend(); ++r)
            if (!sweep_back(parts_[r->part], r->low, r->high, true)) return false;
    }
    return true;
}

double JointTrellis::best_entry(Part& part) {
    const Fold& fold = part.fold;
    const double *u = scores(part, 0), *H = row_of(H_, part, 0);
    double best = -kInf;
    for (int j = 0; j < m_; ++j) {
        const double cost = fold.plain() ? 0.0 : fold.cost(0, 0)[j];
        best = std::max(best, u[j] - cost + H[fold.plain() ? j : fold.cell(0, 0)[j]]);
    }
    return best;
}

double JointTrellis::bound() const {
    double sum = 0;
    for (const Part& part : parts_) sum += part.value;
    for (const Chain& chain : chains_) sum += chain.value;
    for (const Payer& payer : payers_)
        if (payer.state == Payer::pays) sum -= payer.penalty;
    return sum;
}

void JointTrellis::restore(int o) {
    const Occurrence& at = occurrences_[o];
    Part& part = parts_[at.part];
    double* u = scores(part, at.position);
    part.sequence.row(at.position, u);
    for (int x = first_of_[part.at + at.position]; x >= 0; x = occurrences_[x].next) {
        const CountingAutomaton& kinds = *chains_[occurrences_[x].chain].kinds;
        for (int y = 0; y < m_; ++y) {
            const size_t cell = occurrences_[x].cells + kinds.class_of[y];
            u[y] = closed_[cell] ? -kInf : u[y] - theta_[cell];
        }
    }
}

void JointTrellis::undo(size_t trail, size_t payers) {
    const size_t from = trail_.size();
    for (size_t k = trail; k < from; ++k) closed_[occurrences_[trail_[k].first].cells + trail_[k].second] = 0;
    for (size_t k = trail; k < from; ++k) restore(trail_[k].first);
    trail_.resize(trail);
    for (; decided_.size() > payers; decided_.pop_back()) payers_[decided_.back()].state = Payer::open;
}

}  // namespace bridle
