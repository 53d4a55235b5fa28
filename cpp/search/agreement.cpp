#include "search/agreement.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

namespace bridle {
namespace {

// What these do shows in `benchmarks/documents.py`.
constexpr int kSweeps = 60, kFewSweeps = 12;  // before kinds are tried: at first, and afterwards
constexpr int kPatience = 4;                  // sweeps that bring little
constexpr double kLittle = 0.02;              // of the gap
constexpr double kApart = 1e-9, kNothing = 1e-13;
constexpr int kLook = 4, kFewOf = 50;  // when labellings are read off
constexpr int kRounds = 12;            // over blocks that are not at rest, for one over all tokens
constexpr int64_t kBlock = 32;         // tokens
constexpr int64_t kStretch = 4096;     // tokens between two looks at the clock

// One sequence.
struct Part {
    Sequence sequence;
    int64_t at;  // its first token
    bool live;   // has it tokens of a group? If not, its best labelling is that of the document
    Steps steps{};
    Fold fold{};
    std::vector<char> active{};   // (automata)  was it broken by some labelling?
    std::vector<char> folded{};   // (automata)
    bool exact = true;            // are all active automata folded?
    size_t rows = 0, layers = 0;  // where its U begins; its F and H, which have Q rows for each token
    double value = 0;             // of its best path under U

    Part(Sequence s, int64_t at) : sequence(std::move(s)), at(at), live(false) {}
};

// What is charged once: a rule in a sequence or in a document.
struct Payer {
    enum State : uint8_t { open, obeys, pays };
    Mode mode;
    double penalty;
    int64_t changes = 0;  // the most that there can be
    State state = open;

    bool once() const { return mode == Mode::per_sequence; }
    double price() const {  // of a change
        if (is_hard(mode) || state == obeys) return kInf;
        if (!once()) return penalty;
        return state == pays ? 0.0 : penalty / double(std::max<int64_t>(1, changes));
    }
};

struct Chain {
    int payer, first, count;  // occurrences first .. first + count - 1
    const CountingAutomaton* kinds;
    double value = 0;
};

struct Occurrence {
    int chain;
    int part;
    int32_t position;  // in its sequence
    int next, before;  // of the same token; -1: none
    size_t cells;      // where its numbers of each kind begin
};

struct Range {
    int part, low, high;
};

// A choice that was made, and what is left to try instead.
struct Choice {
    int payer = -1;                 // that obeys (or pays), or
    int occurrence = -1, kind = 0;  // which has this kind
    bool other = false;             // the other way round
};

struct Frame {
    Choice other;
    size_t trail, payers;
    double bound;
};

class JointSearch {
  public:
    JointSearch(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements, const SearchLimits& limits,
                Control& control, Search& search, Counters& counters)
        : agreements_(agreements), limits_(limits), control_(control), search_(search), counters_(counters) {
        for (Sequence& s : sequences) {
            s.agreements.clear();
            parts_.emplace_back(std::move(s), n_);
            n_ += parts_.back().sequence.n;
        }
        m_ = parts_.empty() ? 0 : parts_[0].sequence.m;
        width_ = size_t(padded(m_));
    }

    Answer run(const int32_t* known) {
        path_.resize(n_), trial_.resize(n_);
        Status status = Status::nothing_found;
        const bool finished = control_.completes([&] {
            if (!decode_apart(status)) return;
            const Armed armed(control_);
            if (known) consider(known);
            if (consider(path_.data()) == 0 || proved()) {
                if (apart_proved_) upper_ = score_;
                status = proved() ? Status::optimal : Status::limit;
                return;
            }
            if (!make_room()) {
                status = found() ? Status::limit : Status::nothing_found;
                return;
            }
            status = branch_and_bound();
        });
        if (!finished) {
            if (upper_ == kInf) control_.give_up();
            status = !found() ? Status::nothing_found : proved() ? Status::optimal : Status::limit;
        }
        if (status == Status::infeasible) return {.status = status, .bound = -kInf};
        const double bound = status == Status::optimal ? score_ : std::max(upper_, score_);
        return {.status = status, .score = score_, .bound = bound, .path = std::move(best_)};
    }

  private:
    // ---- the sequences one by one -------------------------------------------------------------------------------------

    // The best labelling of each, without agreement: path_ and upper_. False: `status` says why there is no more to do.
    bool decode_apart(Status& status) {
        double sum = 0, score = 0;
        for (Part& part : parts_) {
            const Sequence& s = part.sequence;
            part.active.assign(s.automata.size(), 0);
            Counters spent;
            const Answer answer = search_.best(s, limits_, control_, spent);
            add(spent);
            if (answer.status == Status::infeasible) {
                status = answer.status;
                return false;
            }
            sum += answer.bound, score += answer.score;
            apart_proved_ = apart_proved_ && answer.status == Status::optimal;
            if (!(answer.score > -kInf)) {
                status = Status::nothing_found;
                missing_ = true;
            } else {
                std::copy(answer.path.begin(), answer.path.end(), path_.begin() + part.at);
            }
            part.value = answer.bound;
            part.steps.plain(s);
            if (!s.automata.empty() && spent.active + spent.passes > 1) {  // what its best path broke
                std::vector<int32_t> first(s.n);
                search_.first_path(s, first.data(), control_);
                judge(s, first.data(), verdict_, &control_);
                for (const int k : verdict_.broken) part.active[k] = 1;
            }
        }
        upper_ = sum;
        return !missing_;
    }

    void add(const Counters& spent) {
        counters_.rounds += spent.rounds, counters_.passes += spent.passes;
        counters_.expansions += spent.expansions, counters_.multipliers += spent.multipliers;
        counters_.states = std::max(counters_.states, spent.states);
        counters_.active = std::max(counters_.active, spent.active);
    }

    // Returns how many changes of kind, and how many rules, a labelling breaks. It may become the best one; the automata that it
    // breaks become active.
    int64_t consider(const int32_t* path) {
        double score = 0;
        int64_t broken = 0;
        for (Part& part : parts_) {
            const Sequence& s = part.sequence;
            const int32_t* its = path + part.at;
            score += part.steps.score(s, its);
            if (s.automata.empty()) continue;
            judge(s, its, verdict_, &control_);
            score -= verdict_.cost;
            for (const int k : verdict_.broken)
                if (!part.active[k]) part.active[k] = 1, part.exact = false, ++unfolded_;
        }
        for (const Agreement& a : agreements_) {
            const int64_t changes = count_changes(a, path + a.first);
            if (changes == 0) continue;
            broken += changes;
            if (is_hard(a.mode)) score = -kInf;
            else score -= a.penalty * double(a.mode == Mode::per_sequence ? 1 : changes);
        }
        if (score > score_) score_ = score, best_.assign(path, path + n_);
        return broken;
    }

    double tolerance() const {
        const double scale = std::max(1.0, std::abs(score_));
        return std::max(limits_.gap, std::min(rounding_ + 1e-12 * scale, kLargestError * scale));
    }
    bool found() const { return score_ > -kInf; }  // of no tokens, too
    bool proved() const { return found() && upper_ <= score_ + tolerance(); }

    // ---- trellises and chains --------------------------------------------------------------------------------------------

    // Lays out chains and scores. False: there is not enough memory for them.
    bool make_room() {
        for (const Agreement& a : agreements_) add_chains(a);
        first_of_.assign(n_, -1), last_of_.assign(n_, -1);
        restless_.assign(n_ / kBlock + 1, 0);
        for (int o = int(occurrences_.size()) - 1; o >= 0; --o) {
            const int64_t x = token_of_[o];
            occurrences_[o].next = std::exchange(first_of_[x], o);
            if (last_of_[x] < 0) last_of_[x] = o;
            else occurrences_[occurrences_[o].next].before = o;
            const auto part =
                std::upper_bound(parts_.begin(), parts_.end(), x, [](int64_t t, const Part& p) { return t < p.at; }) -
                1;
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

    void add_chains(const Agreement& a) {
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

    // Folds the active automata of each sequence as far as they are small together, and lays out F and H.
    void fold_parts() {
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
            const int most = int(std::clamp<size_t>((most_cells - std::min(most_cells, layers)) / (row + 1), 1,
                                                    size_t(limits_.max_product_states)));
            for (size_t k = 0; k < order.size();) {  // automata that one price pays for go in together
                size_t end = k + 1;
                const BoundAutomaton& p = s.automata[order[k]];
                while (p.mode == Mode::per_sequence && end < order.size() && s.automata[order[end]].rule == p.rule)
                    ++end;
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

    double* row_of(std::vector<double>& X, const Part& part, int t) {
        return X.data() + part.layers + size_t(t) * width_ * size_t(part.fold.Q);
    }
    double* scores(const Part& part, int t) { return U_.data() + part.rows + size_t(t) * width_; }

    // H[t] of U[t + 1] and H[t + 1].
    void step_back(Part& part, int t) {
        const int n = part.sequence.n, Q = part.fold.Q;
        double* H = row_of(H_, part, t);
        if (t == n - 1) {
            for (int q = 0; q < Q; ++q) std::fill_n(H + size_t(q) * width_, width_, 0.0 - part.fold.final[q]);
            return;
        }
        const double *u = scores(part, t + 1), *after = row_of(H_, part, t + 1);
        double* w = w_.data() + kGuard;
        if (!part.steps.per_step() && !part.fold.plain()) {
            kernels().fold_back(part.steps.table(t).view(), Q, part.fold.cost(t + 1, 0), part.fold.cell(t + 1, 0), u,
                                after, H, w, room_.data());
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
            else kernels().step_back(part.steps.table(t).view(), w, into, room_.data());
        }
    }

    // F[t] of F[t - 1] and U[t].
    void step_ahead(Part& part, int t) {
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

    // from + theta of one occurrence, as its neighbour sees it.
    void pass(const Chain& chain, size_t cells, const double* from, double* to) const {
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

    void close(int o, int kind) {
        const Occurrence& at = occurrences_[o];
        closed_[at.cells + kind] = 1;
        trail_.emplace_back(o, kind);
        ban(o, kind);
    }
    // Labels of this kind are impossible at the token of o.
    void ban(int o, int kind) {
        Part& part = parts_[occurrences_[o].part];
        const uint16_t* kind_of = chains_[occurrences_[o].chain].kinds->class_of.data();
        double *u = scores(part, occurrences_[o].position), *F = row_of(F_, part, occurrences_[o].position);
        for (int y = 0; y < m_; ++y) {
            if (kind_of[y] != kind) continue;
            u[y] = -kInf;
            for (int q = 0; q < part.fold.Q; ++q) F[size_t(q) * width_ + y] = -kInf;
        }
    }

    // Averages what the trellis and the chain say of an occurrence. False: no label is left for it.
    bool average(int o) {
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
        bool moves = false;
        for (int c = 0; c < K; ++c) {  // less the largest, so that no constant wanders about
            M1_[c] = M1_[c] > -kInf && M2_[c] > -kInf ? 0.5 * ((M2_[c] - top2) - (M1_[c] - top1)) : 0.0;
            moves = moves || std::abs(M1_[c]) > kNothing;
        }
        if (!moves) return true;
        for (int c = 0; c < K; ++c) theta[c] -= M1_[c];
        for (int y = 0; y < m_; ++y) u[y] += M1_[kind_of[y]];
        for (int q = 0; q < Q; ++q)
            for (int y = 0; y < m_; ++y) F[size_t(q) * width_ + y] += M1_[kind_of[y]];
        return true;
    }

    void disturb(int o) {
        const Chain& chain = chains_[occurrences_[o].chain];
        const int last = chain.first + chain.count - 1;
        for (int x = std::max(chain.first, o - 1); x <= std::min(last, o + 1); ++x)
            restless_[token_of_[x] / kBlock] = 1;
    }

    double chain_value(const Chain& chain, int o, const double* from) const {  // at its end, o; from: L or R
        double top = -kInf;
        const size_t cells = occurrences_[o].cells;
        for (int c = 0; c < chain.kinds->classes; ++c)
            if (!closed_[cells + c]) top = std::max(top, from[cells + c] + theta_[cells + c]);
        return top;
    }

    // Forwards over tokens low .. high-1 of a sequence, F[low - 1], H and R being right.
    bool sweep_ahead(Part& part, int low, int high) {
        for (int t = low; t < high; ++t) {
            if ((++seen_ & (kStretch - 1)) == 0) control_.check();
            step_ahead(part, t);
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

    // Backwards, H[high], F and L being right. averaging: or only H and R again?
    bool sweep_back(Part& part, int low, int high, bool averaging) {
        for (int t = high - 1; t >= low; --t) {
            if ((++seen_ & (kStretch - 1)) == 0) control_.check();
            step_back(part, t);
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

    bool sweep_back(bool averaging) {  // over all tokens
        for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
            if (!part->live) continue;
            if (!sweep_back(*part, 0, part->sequence.n, averaging)) return false;
            part->value = best_entry(*part);
        }
        return true;
    }
    bool sweep() {  // over all tokens, both ways
        std::fill(restless_.begin(), restless_.end(), uint8_t{0});
        for (Part& part : parts_)
            if (part.live && !sweep_ahead(part, 0, part.sequence.n)) return false;
        std::fill(restless_.begin(), restless_.end(), uint8_t{0});
        return sweep_back(true);
    }

    // Where trellis and chain want different kinds, the blocks around are swept again. A few times, since they are few: what is far
    // away from them hardly changes. False: some token has no label left.
    bool sweep_restless_blocks() {
        for (int round = 0; round < kRounds; ++round) {
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
            if (ranges_.empty() || tokens > n_ / 1) return true;
            for (const Range& r : ranges_)
                if (!sweep_ahead(parts_[r.part], r.low, r.high)) return false;
            std::fill(restless_.begin(), restless_.end(), uint8_t{0});
            for (auto r = ranges_.rbegin(); r != ranges_.rend(); ++r)
                if (!sweep_back(parts_[r->part], r->low, r->high, true)) return false;
        }
        return true;
    }

    double best_entry(Part& part) {
        const Fold& fold = part.fold;
        const double *u = scores(part, 0), *H = row_of(H_, part, 0);
        double best = -kInf;
        for (int j = 0; j < m_; ++j) {
            const double cost = fold.plain() ? 0.0 : fold.cost(0, 0)[j];
            best = std::max(best, u[j] - cost + H[fold.plain() ? j : fold.cell(0, 0)[j]]);
        }
        return best;
    }

    double bound() const {
        double sum = 0;
        for (const Part& part : parts_) sum += part.value;
        for (const Chain& chain : chains_) sum += chain.value;
        for (const Payer& payer : payers_)
            if (payer.state == Payer::pays) sum -= payer.penalty;
        return sum;
    }

    // Reads a labelling off into trial_, by H and, if `joint`, by R: what each token adds to the chains of what was read before.
    void read(bool joint) {
        chosen_.assign(chains_.size(), -1);
        for (Part& part : parts_) {
            int32_t* out = trial_.data() + part.at;
            const int n = part.sequence.n;
            if (!part.live) {
                std::copy_n(path_.begin() + part.at, n, out);
                continue;
            }
            control_.check();
            const Fold& fold = part.fold;
            int q = 0;
            for (int t = 0; t < n; ++t) {
                const double *u = scores(part, t), *H = row_of(H_, part, t);
                const int first = joint ? first_of_[part.at + t] : -1;
                double best = -kInf;
                int label = -1, state = 0;
                if (first < 0 && t > 0 && fold.plain() && !part.steps.per_step()) {
                    label = kernels().best_of(part.steps.table(t - 1).row(out[t - 1]), u, H, int(width_));
                } else {
                    for (int j = 0; j < m_; ++j) {
                        double v = u[j] + (t > 0 ? part.steps.at(t - 1, out[t - 1], j) : 0.0);
                        const int to = fold.plain() ? 0 : fold.next(t, q)[j];
                        if (!fold.plain()) v -= fold.cost(t, q)[j];
                        v += H[size_t(to) * width_ + j];
                        for (int o = first; o >= 0 && v > -kInf; o = occurrences_[o].next) {
                            const Chain& chain = chains_[occurrences_[o].chain];
                            const int c = chain.kinds->class_of[j], before = chosen_[occurrences_[o].chain];
                            const size_t cell = occurrences_[o].cells + c;
                            v += theta_[cell] + R_[cell];
                            if (before >= 0 && before != c) v -= payers_[chain.payer].price();
                        }
                        if (v > best) best = v, label = j, state = to;
                    }
                }
                if (label < 0) label = path_[part.at + t];  // nothing is left: any labelling will do
                out[t] = label, q = state;
                for (int o = first; o >= 0; o = occurrences_[o].next)
                    chosen_[occurrences_[o].chain] = chains_[occurrences_[o].chain].kinds->class_of[label];
            }
        }
    }

    // ---- branch and bound ------------------------------------------------------------------------------------------------

    // Rebuilds the scores of a token under theta and what is closed.
    void restore(int o) {
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

    void undo(size_t trail, size_t payers) {
        const size_t from = trail_.size();
        for (size_t k = trail; k < from; ++k) closed_[occurrences_[trail_[k].first].cells + trail_[k].second] = 0;
        for (size_t k = trail; k < from; ++k) restore(trail_[k].first);
        trail_.resize(trail);
        for (; decided_.size() > payers; decided_.pop_back()) payers_[decided_.back()].state = Payer::open;
    }

    void apply(const Choice& choice) {
        if (choice.payer >= 0) {
            payers_[choice.payer].state = choice.other ? Payer::pays : Payer::obeys;
            decided_.push_back(choice.payer);
            return;
        }
        const Occurrence& at = occurrences_[choice.occurrence];
        const int K = chains_[at.chain].kinds->classes;
        for (int c = 0; c < K; ++c)
            if ((c == choice.kind) == choice.other && !closed_[at.cells + c]) close(choice.occurrence, c);
    }

    // The bound of the labellings that keep to what was chosen; considers some of them.
    double solve_node(int sweeps, double ceiling) {
        if (!sweep_back(false)) return -kInf;
        double lowest = std::min(ceiling, bound());
        int stale = 0;
        for (int turn = 0; turn < sweeps && stale < kPatience; ++turn) {
            ++counters_.passes;
            if (!sweep()) return -kInf;
            const double here = bound();
            const double gain = lowest - here;
            lowest = std::min(lowest, here);
            if (frames_.empty()) upper_ = std::min(upper_, std::max(lowest, score_));
            if (!(lowest > -kInf) || closes(lowest)) return lowest;
            // While trellises and chains still differ in many places, a labelling is not worth its time.
            const auto restless = std::count(restless_.begin(), restless_.end(), 1);
            if (turn == 0 || turn % kLook == kLook - 1 || restless * kBlock * kFewOf < n_) {
                read(true);
                consider(trial_.data());
                if (!exact()) {
                    read(false);
                    consider(trial_.data());
                }
                if (closes(lowest)) return lowest;
            }
            if (!sweep_restless_blocks()) return -kInf;
            if (unfolded_ > 0 && turn < sweeps / 2) {
                fold_parts();
                if (!sweep_back(false)) return -kInf;
            }
            const bool gap_known = score_ > -kInf;
            stale = gain > kLittle * (gap_known ? lowest - score_ : std::abs(lowest)) ? 0 : stale + 1;
        }
        return std::min(lowest, bound_by_searches());
    }
    bool exact() const {  // do folds hold all automata?
        return std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.sequence.automata.empty(); });
    }
    bool closes(double bound) const { return found() && bound <= score_ + tolerance(); }

    // The same by a search of every sequence that has automata beside its fold. trial_: what they find.
    double bound_by_searches() {
        double sum = bound();
        read(false);
        std::vector<double> unary;
        for (Part& part : parts_) {
            const Sequence& s = part.sequence;
            if (!part.live || part.exact || !(sum > -kInf)) continue;
            unary.resize(size_t(s.n) * m_);
            for (int t = 0; t < s.n; ++t) std::copy_n(scores(part, t), m_, unary.begin() + size_t(t) * m_);
            const int64_t offsets[] = {0, s.n};
            Problem problem;
            problem.m = m_, problem.B = 1, problem.N = s.n, problem.offsets = offsets;
            problem.unary64 = unary.data();
            problem.groups = s.problem->groups, problem.tables = s.problem->tables, problem.rules = s.problem->rules;
            problem.heads = {*s.head};
            problem.heads[0].start.clear(), problem.heads[0].end.clear();
            Sequence inner = s;
            inner.problem = &problem, inner.head = &problem.heads[0], inner.b = inner.begin = inner.first = 0;
            Counters spent;
            SearchLimits limits = limits_;
            if (limits.max_states >= 0)
                limits.max_states = std::max<int64_t>(0, limits.max_states - counters_.expansions);
            const Answer answer = search_.best(inner, limits, control_, spent);
            add(spent);
            if (answer.status == Status::infeasible) return -kInf;
            sum += answer.bound - part.value;
            part.value = answer.bound;
            if (answer.path.size() == size_t(s.n))
                std::copy(answer.path.begin(), answer.path.end(), trial_.begin() + part.at);
        }
        consider(trial_.data());
        return sum;
    }

    // What to try next; false: everything is decided. trial_ is the best path under U.
    bool next_choice(Choice& choice) {
        choice = {};
        double widest = -kInf;
        for (size_t k = 0; k < payers_.size(); ++k)
            if (payers_[k].once() && payers_[k].state == Payer::open && payers_[k].changes > 1 &&
                payers_[k].penalty > widest)
                choice.payer = int(k), widest = payers_[k].penalty;
        if (choice.payer >= 0) return true;
        for (size_t o = 0; o < occurrences_.size(); ++o) {
            const Occurrence& at = occurrences_[o];
            const CountingAutomaton& kinds = *chains_[at.chain].kinds;
            const int said = kinds.class_of[trial_[token_of_[o]]];
            int open = 0;
            double top = -kInf;
            for (int c = 0; c < kinds.classes; ++c) {
                if (closed_[at.cells + c]) continue;
                ++open;
                top = std::max(top, L_[at.cells + c] + theta_[at.cells + c] + R_[at.cells + c]);
            }
            if (open < 2 || closed_[at.cells + said]) continue;
            const double apart = top - (L_[at.cells + said] + theta_[at.cells + said] + R_[at.cells + said]);
            if (choice.occurrence < 0 || apart > widest) choice.occurrence = int(o), choice.kind = said, widest = apart;
        }
        return choice.occurrence >= 0;
    }

    Status branch_and_bound() {
        double ceiling = upper_, unsolved = -kInf;
        for (int64_t nodes = 0;; ++nodes) {
            control_.check();
            const double here = solve_node(nodes == 0 ? kSweeps : kFewSweeps, ceiling);
            ++counters_.rounds, counters_.expansions += nodes > 0;
            Choice choice;
            const bool open = here > -kInf && !closes(here);
            if (frames_.empty() && nodes == 0) upper_ = std::min(upper_, std::max(here, score_));
            if (open && next_choice(choice)) {
                frames_.push_back({choice, trail_.size(), decided_.size(), here});
                frames_.back().other.other = true;
                apply(choice);
                ceiling = here;
            } else {
                if (open) unsolved = std::max(unsolved, here);
                while (!frames_.empty() && closes(frames_.back().bound)) pop();
                if (frames_.empty()) {
                    upper_ = std::max(score_, unsolved);
                    if (closes(upper_)) return found() ? Status::optimal : Status::infeasible;
                    if (unsolved > -kInf) return found() ? Status::limit : Status::nothing_found;
                    return found() ? Status::optimal : Status::infeasible;
                }
                const Frame frame = frames_.back();
                pop();
                apply(frame.other);
                ceiling = frame.bound;
            }
            double top = std::max({score_, unsolved, ceiling});
            for (const Frame& frame : frames_) top = std::max(top, frame.bound);
            upper_ = std::min(upper_, top);
            if (limits_.max_states >= 0 && counters_.expansions >= limits_.max_states)
                return proved() ? Status::optimal : found() ? Status::limit : Status::nothing_found;
        }
    }
    void pop() {
        const Frame frame = frames_.back();
        frames_.pop_back();
        undo(frame.trail, frame.payers);
    }

    const std::vector<Agreement>& agreements_;
    const SearchLimits limits_;
    Control& control_;
    Search& search_;
    Counters& counters_;
    std::deque<Part> parts_;
    int64_t n_ = 0;  // tokens of all sequences
    int m_ = 0;
    size_t width_ = 0;

    std::vector<Payer> payers_;
    std::vector<Chain> chains_;
    std::vector<Occurrence> occurrences_;     // those of a chain side by side
    std::vector<int64_t> token_of_;           // (occurrences)
    std::vector<int> first_of_, last_of_;     // (n)  occurrences of a token; -1: none
    std::vector<double> U_;                   // (n of live sequences, width)
    std::vector<double> F_, H_;               // (n of live sequences, Q, width)
    std::vector<double> theta_, L_, R_;       // (occurrences, kinds)
    std::vector<uint8_t> closed_;             // (occurrences, kinds)  was it ruled out?
    std::vector<std::pair<int, int>> trail_;  // what was, in order: occurrence, kind
    std::vector<int> decided_;                // payers, in order
    std::vector<Frame> frames_;
    std::vector<uint8_t> restless_;  // (blocks of tokens)  do trellis and chains want different things?
    std::vector<Range> ranges_;      // tokens to sweep
    int64_t seen_ = 0;
    std::vector<double> M1_, M2_, top_, w_;
    std::vector<int32_t> room_;
    std::vector<int> chosen_;  // (chains)
    Fold fold_;                // caches product automata
    Verdict verdict_;

    std::vector<int32_t> path_, trial_, best_;  // (n)  of the sequences apart; the one at hand; the best one
    double score_ = -kInf, upper_ = kInf, rounding_ = 0;
    int unfolded_ = 0;  // automata that became active since the last fold
    bool apart_proved_ = true, missing_ = false;
};

}  // namespace

Answer best_in_agreement(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements,
                         const SearchLimits& limits, Control& control, Search& search, Counters& counters,
                         const int32_t* known) {
    return JointSearch(std::move(sequences), agreements, limits, control, search, counters).run(known);
}

}  // namespace bridle
