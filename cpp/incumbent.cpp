#include "incumbent.h"

#include <algorithm>
#include <utility>

namespace bridle {

const Verdict& consider(Instance& instance, const int32_t* path, Incumbent& incumbent) {
    const Sequence& s = instance.sequence;
    Verdict& verdict = instance.scratch.verdict;
    judge(s, path, verdict, &instance.control);
    const double score = instance.scratch.plain.score(s, path) - verdict.cost;
    if (score > incumbent.score) {
        incumbent.score = score;
        incumbent.path.assign(path, path + s.n);
        incumbent.violations = verdict.violations;
    }
    return verdict;
}

bool proved(Instance& instance, const Incumbent& incumbent) {
    return incumbent.found() && incumbent.bound <= incumbent.score + instance.tolerance(incumbent.score);
}

Status status_when_finished(const Incumbent& incumbent) {
    return incumbent.found() ? Status::optimal : Status::infeasible;
}

Status status_when_stopped(Instance& instance, const Incumbent& incumbent) {
    if (proved(instance, incumbent)) return Status::optimal;
    return incumbent.found() ? Status::limit : Status::nothing_found;
}

Answer to_answer(Incumbent incumbent, Status status) {
    const bool finished = status == Status::optimal || status == Status::infeasible;
    const double bound = finished ? incumbent.score : std::max(incumbent.bound, incumbent.score);
    return {status, incumbent.score, bound, std::move(incumbent.path), std::move(incumbent.violations)};
}

}  // namespace bridle
