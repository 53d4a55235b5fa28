#include "learn/ibt.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bridle {
namespace {

constexpr double kLargestScore = 1e290;  // as in arrays.py

bool all_scores(const double* scores, size_t count) {
    bool fine = true;
    for (size_t c = 0; c < count; ++c) fine &= std::abs(scores[c]) <= kLargestScore;
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
    Sequence s(problem_, b);
    s.first = 0;
    int64_t counters[kCounters] = {};
    return solve(engine_, s, options_, control, *search_, counters);
}

TrainingRules::TrainingRules(std::unique_ptr<Guesser> strict)
    : strict_(std::move(strict)), clash_(static_cast<size_t>(strict_->count()), 0) {}

void TrainingRules::relax(std::unique_ptr<Guesser> relaxed) { relaxed_ = std::move(relaxed); }

bool TrainingRules::score(const Joined& x, const double* w, int64_t b) {
    const int64_t first = x.offsets[b], n = x.offsets[b + 1] - first;
    const size_t m = x.m, width = x.width, cells = static_cast<size_t>(n) * m;
    scores_.resize(std::max(scores_.size(), static_cast<size_t>(n) * width));
    x.score(first, n, w, scores_.data());
    for (int64_t t = 1; t < n && m < width; ++t)  // rows are padded; decoding wants them side by side
        std::copy_n(scores_.begin() + t * width, m, scores_.begin() + t * m);
    return all_scores(scores_.data(), cells);
}

Answer TrainingRules::guess(int64_t b, const double* pair, Control& control) {
    Answer found{Status::infeasible, -kInf, -kInf, {}};
    if (!clash_[b]) found = strict_->best(b, scores_.data(), pair, control);
    clash_[b] = found.status == Status::infeasible;
    return clash_[b] && relaxed_ ? relaxed_->best(b, scores_.data(), pair, control) : found;
}

Passed TrainingRules::pass(const Joined& x, const AveragedWeights& v, const int64_t* order, int64_t count,
                           int64_t& step, Control& control) {
    Guesser* const both[] = {strict_.get(), relaxed_.get()};
    for (Guesser* one : both)
        if (one) one->begin();
    Passed passed;
    bool fine = true;  // are all weights of label bigrams scores?
    const auto moved = [&] {
        for (Guesser* one : both)
            if (one) one->moved();
        fine = !v.pair || all_scores(v.pair, static_cast<size_t>(x.m) * x.m);
    };
    for (moved(); passed.done < count; ++passed.done) {
        if (passed.done % 16 == 0) control.check();
        const int64_t b = order[passed.done];
        const bool scored = score(x, v.w, b);
        const Answer found =
            fine && scored ? guess(b, v.pair, control) : Answer{Status::nothing_found, -kInf, kInf, {}};
        if (!(found.score > -kInf)) {
            passed.status = found.status;
            break;
        }
        const int64_t wrong = perceptron_update(x, v, b, found.path.data(), step);
        passed.wrong += wrong;
        if (wrong > 0 && v.pair) moved();
    }
    for (Guesser* one : both)
        if (one) one->end(control);
    return passed;
}

}  // namespace bridle
