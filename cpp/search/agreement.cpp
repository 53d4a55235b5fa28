#include "search/agreement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/agreement_trellis.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

// What these do shows in `benchmarks/documents.py`.
constexpr int kSweeps = 60, kFewSweeps = 12;  // before kinds are tried: at first, and afterwards
constexpr int kPatience = 4;                  // sweeps that bring little
constexpr double kLittle = 0.02;              // of the gap
constexpr int kLook = 4, kFewOf = 50;         // when labellings are read off

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

class JointSearch : private JointTrellis {
  public:
    JointSearch(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements, const SearchLimits& limits,
                Control& control, Search& search, Counters& counters)
        : JointTrellis(std::move(sequences), agreements, limits.max_product_states, control, counters),
          limits_(limits),
          search_(search) {}

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

    // ---- labellings ---------------------------------------------------------------------------------------------------------

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
            if (restless == 0 && gain <= 0 && unfolded_ == 0) break;  // all is at rest: more sweeps change nothing
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

    const SearchLimits limits_;
    Search& search_;
    std::vector<Frame> frames_;
    std::vector<int> chosen_;  // (chains)
    Verdict verdict_;

    std::vector<int32_t> path_, trial_, best_;  // (n)  of the sequences apart; the one at hand; the best one
    double score_ = -kInf, upper_ = kInf;
    bool apart_proved_ = true, missing_ = false;
};

}  // namespace

Answer best_in_agreement(std::vector<Sequence> sequences, const std::vector<Agreement>& agreements,
                         const SearchLimits& limits, Control& control, Search& search, Counters& counters,
                         const int32_t* known) {
    return JointSearch(std::move(sequences), agreements, limits, control, search, counters).run(known);
}

}  // namespace bridle
