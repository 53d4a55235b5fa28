// Mistake-driven learners: the structured perceptron of Collins (2002), and the local perceptron and winnow with margin.
//   best[0][j] = unary[0][j];   best[t][j] = unary[t][j] + max over i of  best[t-1][i] + pairwise[i][j]
//   structured   w += f(gold) - f(best path)                where they differ
//   local        w += rate * (f(gold) - f(y)),   y the best other label, if it is not `margin` below gold
//   winnow       w *= 1 + rate for gold, w /= 1 + rate for y, for the attributes of the token
//
//   n tokens (t)    m labels (i, then j; y)    w weights    f the features of a labelling, or of a label at a token
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "learn/learn.h"
#include "simd/kernels.h"

namespace bridle {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kLargest = 1e12;  // of a weight that only grows by factors

// Best paths under weights that change all the time; the transitions are kept in padded rows beside them.
class Best {
  public:
    Best(const Joined& x, const AveragedWeights& v) : m_(x.m), w_(x.width), v_(v), pair_(size_t(m_) * w_) {
        for (int i = 0; v.pair && i < m_; ++i) std::copy_n(v.pair + size_t(i) * m_, m_, &pair_[size_t(i) * w_]);
    }

    double& pair(int i, int j) { return pair_[size_t(i) * w_ + j]; }

    // known: of all labellings, or of those that agree with the labels that are known (null: none is)
    const std::vector<int32_t>& path(const Joined& x, int64_t first, int n, const int32_t* known = nullptr) {
        if (path_.size() < size_t(n)) path_.resize(n);
        best_.resize(std::max(best_.size(), size_t(n) * w_));
        step_.resize(w_);
        x.score(first, n, v_.w, best_.data());
        for (int t = 0; known && t < n; ++t)
            for (int j = 0; known[t] >= 0 && j < m_; ++j)
                if (j != known[t]) best_[size_t(t) * w_ + j] = kNone;
        for (int t = 1; t < n; ++t) {
            double* now = &best_[size_t(t) * w_];
            change(first + t);
            kernels().step_ahead(now - w_, pair_.data(), m_, w_, step_.data());
            restore(first + t);
            for (int j = 0; j < m_; ++j) now[j] += step_[j];
        }
        for (int t = n - 1; t >= 0; --t) {
            const double* now = &best_[size_t(t) * w_];
            double top = kNone;
            path_[t] = 0;
            if (t + 1 < n) change(first + t + 1);
            for (int i = 0; i < m_; ++i) {
                const double score = now[i] + (t + 1 < n ? pair_[size_t(i) * w_ + path_[t + 1]] : 0.0);
                if (score > top) top = score, path_[t] = i;
            }
            if (t + 1 < n) restore(first + t + 1);
        }
        return path_;
    }

  private:
    // The transitions to token t, and back to those of all tokens.
    void change(int64_t t) {
        if (v_.edges) v_.edges->of_token(t, [&](int64_t s, const Edges::Slot& at) { pair_[at.cell] += v_.edge_w[s]; });
    }
    void restore(int64_t t) {
        if (v_.edges)
            v_.edges->of_token(t, [&](int64_t, const Edges::Slot& at) {
                pair_[at.cell] = v_.pair ? v_.pair[size_t(at.i) * m_ + at.j] : 0.0;
            });
    }

    int m_, w_;
    const AveragedWeights& v_;
    std::vector<double> pair_, best_, step_;
    std::vector<int32_t> path_;
};

void add(const AveragedWeights& v, int64_t slot, double change, int64_t step) {
    v.w[slot] += change;
    v.sum[slot] += double(step) * change;
}

bool agree(const int32_t* guess, std::span<const int32_t> known) {
    return std::equal(known.begin(), known.end(), guess,
                      [](int32_t y, int32_t guessed) { return y < 0 || guessed == y; });
}

// target (n): the gold labels, or where they are not known, others.
int64_t update(const Joined& x, const AveragedWeights& v, int64_t first, int n, const int32_t* target,
               const int32_t* guess, int64_t step, Best* best) {
    int64_t wrong = 0;
    const auto move = [&](int i, int j, double change) {
        const size_t cell = size_t(i) * x.m + j;
        if (v.pair_free && !v.pair_free[cell]) return;
        v.pair[cell] += change;
        v.pair_sum[cell] += double(step) * change;
        if (best) best->pair(i, j) = v.pair[cell];
    };
    for (int t = 0; t < n; ++t) {
        const int gold = target[t], other = guess[t];
        const bool known = x.y[first + t] >= 0;
        const double scale = v.weight && known ? v.weight[gold] : 1;
        if (gold != other) {
            wrong += known;
            x.of_label(first + t, gold, [&](int64_t slot, double value) { add(v, slot, scale * value, step); });
            x.of_label(first + t, other, [&](int64_t slot, double value) { add(v, slot, -scale * value, step); });
        }
        if (t == 0 || (gold == other && target[t - 1] == guess[t - 1])) continue;
        if (v.pair) {
            move(target[t - 1], gold, scale);
            move(guess[t - 1], other, -scale);
        }
        if (v.edges) {
            const auto move_edge = [&](double change) {
                return [&v, change, step](int64_t s) {
                    v.edge_w[s] += change;
                    v.edge_sum[s] += double(step) * change;
                };
            };
            v.edges->of_pair(first + t, target[t - 1], gold, move_edge(scale));
            v.edges->of_pair(first + t, guess[t - 1], other, move_edge(-scale));
        }
    }
    return wrong;
}

}  // namespace

int64_t perceptron_pass(const Joined& x, const AveragedWeights& v, std::span<const int64_t> order, int64_t& step,
                        Control& control) {
    Best best(x, v);
    std::vector<int32_t> guess;
    int64_t wrong = 0;
    for (size_t k = 0; k < order.size(); ++k, ++step) {
        if (k % 64 == 0) control.check();
        const int64_t first = x.offsets[order[k]];
        const int n = int(x.offsets[order[k] + 1] - first);
        const int32_t* known = x.y + first;
        const int32_t* path = best.path(x, first, n).data();
        if (agree(path, {known, size_t(n)})) continue;
        guess.assign(path, path + n);
        const bool whole = std::all_of(known, known + n, [](int32_t y) { return y >= 0; });
        const int32_t* target = whole ? known : best.path(x, first, n, known).data();
        wrong += update(x, v, first, n, target, guess.data(), step, &best);
    }
    return wrong;
}

int64_t perceptron_update(const Joined& x, const AveragedWeights& v, int64_t b, const int32_t* guess, int64_t& step) {
    const int64_t first = x.offsets[b];
    return update(x, v, first, int(x.offsets[b + 1] - first), x.y + first, guess, step++, nullptr);
}

int64_t local_pass(const Joined& x, const AveragedWeights& v, bool winnow, double margin, double rate,
                   std::span<const int64_t> order, int64_t& step, int64_t& wrong, Control& control) {
    const int m = x.m;
    std::vector<double> score(x.width);
    int64_t updates = 0;
    for (size_t k = 0; k < order.size(); ++k, ++step) {
        if (k % 1024 == 0) control.check();
        const int64_t t = order[k];
        const int gold = x.y[t];
        if (gold < 0) continue;
        x.score(t, 1, v.w, score.data());
        int other = -1;
        for (int y = 0; y < m; ++y)
            if (y != gold && (other < 0 || score[y] > score[other])) other = y;
        if (other < 0) continue;
        wrong += score[other] > score[gold] || (score[other] == score[gold] && other < gold);
        if (score[gold] - score[other] > margin) continue;
        ++updates;
        const double scale = v.weight ? v.weight[gold] : 1;
        if (winnow) {
            const double factor = scale == 1 ? 1 + rate : std::pow(1 + rate, scale);
            const auto multiply = [&](int64_t slot, double by) {
                add(v, slot, std::min(v.w[slot] * by, kLargest) - v.w[slot], step);
            };
            x.of_label(t, gold, [&](int64_t slot, double) { multiply(slot, factor); });
            x.of_label(t, other, [&](int64_t slot, double) { multiply(slot, 1 / factor); });
        } else {
            x.of_label(t, gold, [&](int64_t slot, double value) { add(v, slot, scale * rate * value, step); });
            x.of_label(t, other, [&](int64_t slot, double value) { add(v, slot, -scale * rate * value, step); });
        }
    }
    return updates;
}

namespace {

class ContextSearch {
  public:
    ContextSearch(const Context& context, int beam) : c_(context), beam_(beam), base_(c_.width), row_(c_.width) {}

    // fill(t, row): static scores of position t. Labels into out (n).
    template <class Fill>
    void run(int n, const int32_t* fixed, const int32_t* ahead, const double* w, const Fill& fill, int32_t* out) {
        nodes_.clear();
        now_.assign(1, Way{0, -1, int16_t(c_.m), int16_t(c_.m)});
        for (int t = 0; t < n; ++t) {
            const int d1 = c_.ahead && t + 1 < n ? ahead[t + 1] : -1, d2 = d1 >= 0 && t + 2 < n ? ahead[t + 2] : -1;
            if (fixed[t] >= 0) go_on(fixed[t], w, d1);
            else {
                fill(t, base_.data());
                if (d1 >= 0) kernels().add_row(base_.data(), w + c_.next(d1), c_.width);
                if (d2 >= 0) kernels().add_row(base_.data(), w + c_.next2(d1, d2), c_.width);
                if (beam_) widen(w, d1);
                else best_per_label(w, d1);
            }
        }
        int node = now_[0].node;
        double top = now_[0].score;
        for (const Way& way : now_)
            if (way.score > top) top = way.score, node = way.node;
        for (int t = n - 1; t >= 0; --t) out[t] = nodes_[node].label, node = nodes_[node].before;
    }

  private:
    struct Node {
        int32_t label, before;
    };
    struct Way {  // a labelling of the tokens so far
        double score;
        int32_t node;
        int16_t y1, y2;
    };

    // A decided token: ways that can no longer differ are joined.
    void go_on(int label, const double* w, int d1) {
        size_t kept = 0;
        for (size_t k = 0; k < now_.size(); ++k) {
            Way way = now_[k];
            if (c_.into) way.score += into(way, label, w, d1);
            way.y2 = way.y1;
            way.y1 = int16_t(label);
            size_t same = 0;
            while (same < kept && c_.triple && now_[same].y2 != way.y2) ++same;
            if (same < kept) {
                if (way.score > now_[same].score) now_[same] = way;
                continue;
            }
            now_[kept++] = way;
        }
        now_.resize(kept);
        for (Way& way : now_) way.node = node(label, way.node);
    }

    double into(const Way& way, int label, const double* w, int d1) const {
        double sum = w[c_.pair(way.y1) + label];
        if (c_.triple) sum += w[c_.of_triple(way.y2, way.y1) + label];
        if (d1 >= 0) sum += w[c_.around(way.y1, d1) + label];
        return sum;
    }

    const double* scores(const Way& way, const double* w, int d1) {
        std::copy(base_.begin(), base_.end(), row_.begin());
        kernels().add_row(row_.data(), w + c_.pair(way.y1), c_.width);
        if (c_.triple) kernels().add_row(row_.data(), w + c_.of_triple(way.y2, way.y1), c_.width);
        if (d1 >= 0) kernels().add_row(row_.data(), w + c_.around(way.y1, d1), c_.width);
        return row_.data();
    }

    // The best `beam_` of all ways to go on; of equal ones the first.
    void widen(const double* w, int d1) {
        next_.clear();
        for (const Way& way : now_) {
            const double* row = scores(way, w, d1);
            for (int y = 0; y < c_.m; ++y) {
                const double score = way.score + row[y];
                if (int(next_.size()) == beam_) {
                    if (!(score > next_.back().score)) continue;
                    next_.pop_back();
                }
                size_t at = next_.size();
                next_.push_back({});
                for (; at && next_[at - 1].score < score; --at) next_[at] = next_[at - 1];
                next_[at] = {score, way.node, int16_t(y), way.y1};
            }
        }
        for (Way& way : next_) way.node = node(way.y1, way.node);
        now_.swap(next_);
    }

    void best_per_label(const double* w, int d1) {
        next_.assign(c_.m, Way{kNone, -1, 0, 0});
        for (const Way& way : now_) {
            const double* row = scores(way, w, d1);
            for (int y = 0; y < c_.m; ++y)
                if (way.score + row[y] > next_[y].score) next_[y] = {way.score + row[y], way.node, int16_t(y), way.y1};
        }
        for (Way& way : next_) way.node = node(way.y1, way.node);
        now_.swap(next_);
    }

    int32_t node(int label, int32_t before) {
        nodes_.push_back({label, before});
        return int32_t(nodes_.size()) - 1;
    }

    Context c_;
    int beam_;
    std::vector<double> base_, row_;
    std::vector<Node> nodes_;
    std::vector<Way> now_, next_;
};

// each(slot) for the context weights of the label at t
template <class Each>
void context_of(const Context& c, const int32_t* y, const int32_t* ahead, int n, int t, const Each& each) {
    const int y1 = t ? y[t - 1] : c.m, y2 = t > 1 ? y[t - 2] : c.m;
    each(c.pair(y1) + y[t]);
    if (c.triple) each(c.of_triple(y2, y1) + y[t]);
    const int d1 = c.ahead && t + 1 < n ? ahead[t + 1] : -1, d2 = d1 >= 0 && t + 2 < n ? ahead[t + 2] : -1;
    if (d1 < 0) return;
    each(c.next(d1) + y[t]);
    each(c.around(y1, d1) + y[t]);
    if (d2 >= 0) each(c.next2(d1, d2) + y[t]);
}

}  // namespace

void constrained_search(const Rows& rows, const Examples& examples, const float* w, const Tokens& x,
                        const Context& context, const double* weights, int beam, int32_t* out, Control& control) {
    ContextSearch search(context, beam);
    Scorer scorer(rows, examples, w);
    std::vector<float> scores(context.width);
    for (int64_t b = 0; b < x.B; ++b) {
        if (b % 64 == 0) control.check();
        const int64_t first = x.offsets[b];
        const auto fill = [&](int t, double* row) {
            scorer.score(first + t, 1, scores.data());
            std::copy(scores.begin(), scores.end(), row);
        };
        search.run(int(x.offsets[b + 1] - first), x.fixed + first, x.ahead + first, weights, fill, out + first);
    }
}

int64_t constrained_pass(const Joined& x, const Tokens& tokens, const Context& context, const AveragedWeights& v,
                         double* weights, double* sums, int beam, std::span<const int64_t> order, int64_t& step,
                         Control& control) {
    ContextSearch search(context, beam);
    std::vector<int32_t> guess;
    int64_t wrong = 0;
    for (size_t k = 0; k < order.size(); ++k, ++step) {
        if (k % 64 == 0) control.check();
        const int64_t first = x.offsets[order[k]];
        const int n = int(x.offsets[order[k] + 1] - first);
        const int32_t *gold = x.y + first, *fixed = tokens.fixed + first, *ahead = tokens.ahead + first;
        guess.resize(n);
        search.run(
            n, fixed, ahead, weights, [&](int t, double* row) { x.score(first + t, 1, v.w, row); }, guess.data());
        if (std::equal(guess.begin(), guess.end(), gold)) continue;
        const double when = double(step);
        for (int t = 0; t < n; ++t) {
            if (fixed[t] >= 0 && !context.into) continue;
            const auto move = [&](const int32_t* y, double by) {
                if (gold[t] != guess[t])
                    x.of_label(first + t, y[t], [&](int64_t slot, double value) {
                        v.w[slot] += by * value, v.sum[slot] += when * by * value;
                    });
                context_of(context, y, ahead, n, t,
                           [&](int64_t slot) { weights[slot] += by, sums[slot] += when * by; });
            };
            wrong += gold[t] != guess[t];
            if (std::equal(gold + std::max(t - 2, 0), gold + t + 1, guess.data() + std::max(t - 2, 0))) continue;
            move(gold, 1);
            move(guess.data(), -1);
        }
    }
    return wrong;
}

// ---- inference-based training --------------------------------------------------------------------------------------

namespace {

constexpr double kLargestScore = 1e290;  // as in arrays.py

bool all_scores(std::span<const double> values) {
    bool fine = true;
    for (const double value : values) fine &= std::abs(value) <= kLargestScore;
    return fine;
}

}  // namespace

Guesser::Guesser(const Problem& rules, Engine engine, const Options& options)
    : problem_(rules), engine_(engine), options_(options), scored_(std::make_shared<Tables>()) {
    problem_.heads.push_back(problem_.tables->head({}));
    problem_.heads[0].tables = scored_;
}

void Guesser::begin() {
    stale_ = true;  // weights may come from anywhere
    search_ = problem_.searches->take();
}

void Guesser::end(Control& control) { problem_.searches->give_back(std::move(search_), control.memory()); }

void Guesser::score_steps(const double* pair, Control& control) {
    const TableCache& masks = *problem_.tables;
    const auto each = [&](const auto& make) {
        make(masks.free_mask, masked_.free, scored_->free);
        if (!masks.tied_mask.empty()) make(masks.tied_mask, masked_.tied, scored_->tied);
    };
    const auto bare = [&](const std::vector<double>& mask, Table& into) {
        into.build(masks.m, nullptr, mask.empty() ? nullptr : mask.data(), control);
    };
    if (!pair) {
        each([&](const auto& mask, Table&, Table& scored) { bare(mask, scored); });
    } else {
        if (!masks_made_) each([&](const auto& mask, Table& masked, Table&) { bare(mask, masked); });
        masks_made_ = true;
        // Scores are finite: what is possible stays possible, and need not be found again.
        each([&](const auto&, Table& masked, Table& scored) { scored.adjust(masked, pair, control); });
    }
    problem_.heads[0].pairwise = pair;
    stale_ = false;
}

Answer Guesser::best(int64_t b, const double* unary, const double* pair, Control& control) {
    control.begin();
    if (stale_) score_steps(pair, control);
    problem_.unary64 = unary;
    Sequence s = sequence_for(engine_, problem_, b);
    s.first = 0;
    int64_t counters[kCounters] = {};
    return solve(engine_, s, options_, control, *search_, counters);
}

TrainingRules::TrainingRules(std::unique_ptr<Guesser> strict)
    : strict_(std::move(strict)), clash_(size_t(strict_->count()), 0) {}

void TrainingRules::relax(std::unique_ptr<Guesser> relaxed) { relaxed_ = std::move(relaxed); }

bool TrainingRules::score(const Joined& x, const double* w, int64_t b) {
    const int64_t first = x.offsets[b], n = x.offsets[b + 1] - first;
    const size_t m = x.m, width = x.width, cells = size_t(n) * m;
    scores_.resize(std::max(scores_.size(), size_t(n) * width));
    x.score(first, n, w, scores_.data());
    for (int64_t t = 1; t < n && m < width; ++t)  // rows are padded; decoding wants them side by side
        std::copy_n(scores_.begin() + t * width, m, scores_.begin() + t * m);
    return all_scores({scores_.data(), cells});
}

Answer TrainingRules::guess(int64_t b, const double* pair, Control& control) {
    Answer answer{.status = Status::infeasible, .bound = -kInf};
    if (!clash_[b]) answer = strict_->best(b, scores_.data(), pair, control);
    clash_[b] = answer.status == Status::infeasible;
    return clash_[b] && relaxed_ ? relaxed_->best(b, scores_.data(), pair, control) : answer;
}

Passed TrainingRules::pass(const Joined& x, const AveragedWeights& v, std::span<const int64_t> order, int64_t& step,
                           Control& control) {
    Guesser* const both[] = {strict_.get(), relaxed_.get()};
    for (Guesser* guesser : both)
        if (guesser) guesser->begin();
    Passed passed;
    bool fine = true;  // are all weights of label bigrams scores?
    const auto moved = [&] {
        for (Guesser* guesser : both)
            if (guesser) guesser->moved();
        fine = !v.pair || all_scores({v.pair, size_t(x.m) * x.m});
    };
    for (moved(); passed.done < int64_t(order.size()); ++passed.done) {
        if (passed.done % 16 == 0) control.check();
        const int64_t b = order[passed.done];
        const bool scored = score(x, v.w, b);
        const Answer answer = fine && scored ? guess(b, v.pair, control) : Answer{.status = Status::nothing_found};
        if (!(answer.score > -kInf)) {
            passed.status = answer.status;
            break;
        }
        const int64_t wrong = perceptron_update(x, v, b, answer.path.data(), step);
        passed.wrong += wrong;
        if (wrong > 0 && v.pair) moved();
    }
    for (Guesser* guesser : both)
        if (guesser) guesser->end(control);
    return passed;
}

}  // namespace bridle
